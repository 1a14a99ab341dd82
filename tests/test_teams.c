// test_teams.c: rows that the blocks of a cooperative launch share, against the f64 reference, on
// the host device; and the packets that the blocks exchange

#include "tests/agreement.h"
#include "tests/compiled.h"
#include "tests/data.h"
#include "tests/on_host.h"
#include "tests/programs.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

static const char plain[] = "program plain(M, N)\ninput x : %s[M, N]\n"
                            "output y = softmax(x, axis = 1)\n";
static const char divided[] = "program divided(M, N)\ninput x : %s[M, N]\n"
                              "output y = softmax(x / 0.7, axis = 1)\n";
static const char rms[] = "program rms(M, N)\ninput x : %s[M, N]\ninput w : f32[N]\n"
                          "output y = rms_norm(x, w)\n";
static const char normalised[] =
    "program normalised(M, N)\ninput x : %s[M, N]\ninput w : f32[N]\ninput b : f32[N]\n"
    "output y = layer_norm(x, w, b, 1e-5)\noutput m = max(x, axis = 1)\n"
    "output i = argmax(x, axis = 1)\n";
static const char weighed[] =
    "program weighed(M, N)\ninput x : %s[M, N]\ninput z : %s[M, N]\ninput s : %s[M]\n"
    "output y = softmax(x * s[:, None] + z, axis = 1) * z\noutput n = sum(x * z, axis = 1)\n";
// What a reduction needs of all rows' columns, what only the store does, and a load that no copy
// can make.
static const char mixed[] = "program mixed(M, N)\ninput x : %s[M, N]\ninput w : f32[N]\n"
                            "input t : i8[M, N]\noutput y = softmax(x * w, axis = 1) + "
                            "cast(t, f32)\noutput d = sum(square(x * w - mean(x * w, axis = 1)"
                            "[:, None]), axis = 1)\n";

// Sizes, then what the candidate is to have: blocks of a team (of 6), steps of lag, exchanges a
// row.
static const struct probe {
    const char *text, *dtype;
    int64_t m, n;
    int team, lag, exchanges;
} probes[] = {
    {plain,      "f32",  13, 3072,  3, 1, 2},
    {plain,      "f32",  13, 3076,  3, 2, 1},
    {plain,      "f32",  13, 3076,  3, 2, 2},
    {plain,      "f32",  4,  6400,  6, 1, 2},
    {plain,      "f32",  2,  6400,  6, 3, 2},
    {plain,      "f32",  2,  6400,  6, 3, 1},
    {plain,      "f32",  3,  2600,  2, 2, 2},
    {plain,      "f32",  11, 2049,  2, 1, 2}, // a vector is an element
    {plain,      "f32",  11, 2049,  2, 1, 1},
    {plain,      "f16",  7,  12304, 3, 2, 2},
    {plain,      "f16",  7,  12304, 3, 2, 1},
    {plain,      "bf16", 5,  12296, 6, 2, 2},
    {plain,      "f64",  6,  1540,  3, 1, 2},
    {plain,      "f64",  6,  1540,  3, 1, 1},
    {divided,    "f32",  5,  3080,  3, 1, 1},
    {rms,        "f32",  9,  9000,  6, 1, 1},
    {rms,        "bf16", 9,  9000,  3, 2, 1},
    {normalised, "f32",  5,  3080,  3, 1, 2},
    {normalised, "f32",  14, 6148,  6, 2, 2},
    {normalised, "f32",  14, 6148,  6, 2, 1},
    {normalised, "f16",  8,  6152,  2, 3, 2},
    {normalised, "bf16", 8,  6152,  2, 3, 1},
    {weighed,    "f32",  13, 3500,  3, 1, 2},
    {weighed,    "f32",  13, 3500,  3, 1, 1},
    {weighed,    "f64",  4,  3072,  6, 1, 2},
    {mixed,      "f32",  7,  3100,  3, 2, 2},
    {mixed,      "f32",  7,  3100,  3, 2, 1},
    {mixed,      "f32",  5,  10300, 2, 1, 2}, // w is read again for every row
    {mixed,      "f32",  5,  10300, 2, 1, 1},
};
enum { N_PROBES = sizeof probes / sizeof *probes, N_RUNS = 3 };

// As the probe has it, with 256 threads a block.
static void compile_teams(struct compiled *c, const struct probe *probe)
{
    char team[32], lag[32], exchanges[32];
    struct size sizes[] = {
        {"M", probe->m},
        {"N", probe->n}
    };
    char *text = typed(probe->text, probe->dtype);
    snprintf(team, sizeof team, " threads=256 team=%d ", probe->team);
    snprintf(lag, sizeof lag, " lag=%d ", probe->lag);
    snprintf(exchanges, sizeof exchanges, " exchanges=%d ", probe->exchanges);
    compile_with(c, text,
                 &(struct compile_options){
                     .target = small_target(), .sizes = sizes, .n_sizes = 2, .separate = true},
                 (const char *const[]){team, lag, exchanges, NULL});
    const struct kernel *k = &c->program.kernels[0];
    ck_assert_str_eq(k->family, "rows");
    ck_assert(k->cooperative && (int)k->team == probe->team && k->grid[0] == 6);
    free(text);
}

static void expect_same_outputs(const struct data *a, const struct data *b)
{
    const struct program *p = &a->c->program;
    for (int i = 0; i < p->n_outputs; i++)
        ck_assert(!memcmp(a->at[p->outputs[i]], b->at[p->outputs[i]],
                          node_bytes(p->graph->outputs[i].node)));
}

// Run after run on what the last one left, packets of other values and tags that go on; by one team
// or by several, from the first thread on or from the last: the same bits.  Under the sanitizers,
// which take seven times as long, every third probe.
START_TEST(teams_agree_with_the_reference_however_many_they_are)
{
    struct compiled c;
    struct data few, many;
    if (has_address_sanitizer() && _i % 3)
        return;
    compile_teams(&c, &probes[_i]);
    struct host_library *library = load_kernels(c.program.kernels, 1, sanitizer_flags());
    data_open(&few, &c);
    data_open(&many, &c);
    for (unsigned run = 0; run < N_RUNS; run++) {
        data_fill(&few, 7 * run);
        data_fill(&many, 7 * run);
        data_run(&few, library, c.program.kernels[0].team, run == 1);
        data_run(&many, library, 6, run % 2);
        expect_same_outputs(&few, &many);
    }
    data_close(&few);
    data_close(&many);
    host_unload(library);
    compiled_free(&c);
}
END_TEST

// More blocks than a warp has lanes, and wide accumulators: a lane takes several, not all at once.
START_TEST(a_team_may_be_large)
{
    struct size sizes[] = {
        {"M", 13  },
        {"N", 8964}
    };
    struct compiled c;
    struct data d;
    struct target large = *small_target();
    char *text = typed(normalised, "f32");
    large.n_sms = 70, large.threads_per_sm = 64, large.bytes_per_second = 1e6;
    compile_right_text(&c, text,
                       &(struct compile_options){
                           .target = &large, .sizes = sizes, .n_sizes = 2, .separate = true});
    ck_assert_uint_eq(c.program.kernels[0].team, 70);
    struct host_library *library = load_kernels(c.program.kernels, 1, NULL);
    data_open(&d, &c);
    for (unsigned run = 0; run < 2; run++) {
        data_fill(&d, run);
        data_run(&d, library, 70, run);
    }
    data_close(&d);
    host_unload(library);
    free(text);
    compiled_free(&c);
}
END_TEST

// Behind counters of 4 bytes too: a packet is one access of 8.
START_TEST(packets_are_aligned)
{
    struct size sizes[] = {
        {"M", 25  },
        {"N", 3076}
    };
    struct compiled c;
    struct target slow = *small_target(); // so that teams pay
    slow.bytes_per_second = 1e6, slow.threads_per_sm = 64, slow.max_cluster = 1;
    compile_right_text(
        &c,
        "program p(M, N)\ninput x : f32[M, N]\ninput z : f32[N, M]\n"
        "output s = sum(z)\noutput y = softmax(x, axis = 1)\n"
        "output t = max(z, axis = 0)\n",
        &(struct compile_options){.target = &slow, .sizes = sizes, .n_sizes = 2, .separate = true});
    int n_packets = 0, n_others = 0;
    for (int b = 0; b < c.program.n_buffers; b++) {
        const struct buffer *buffer = &c.program.buffers[b];
        if (buffer->kind != BUFFER_counter)
            continue;
        ck_assert_int_eq(buffer->offset % dtype_info[buffer->dtype].bytes, 0);
        ck_assert_int_le(buffer->offset + buffer->bytes, c.program.counter_bytes);
        n_packets += buffer->dtype == DT_i64;
        n_others += buffer->dtype != DT_i64 && buffer->offset % 8 + buffer->bytes % 8 == 4;
    }
    ck_assert_int_eq(n_packets, 1);
    ck_assert_int_ge(n_others, 1);
    compiled_free(&c);
}
END_TEST

Suite *teams_suite(void)
{
    Suite *s = suite_create("teams");
    TCase *t = tcase_create("teams");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, teams_agree_with_the_reference_however_many_they_are, 0, N_PROBES);
    tcase_add_test(t, a_team_may_be_large);
    tcase_add_test(t, packets_are_aligned);
    suite_add_tcase(s, t);
    return s;
}
