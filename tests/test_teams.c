// test_teams.c: rows that the blocks of a cooperative launch share, against the f64 reference, on
// the host device; and the packets that the blocks exchange

#include "tests/agreement.h"
#include "tests/compiled.h"
#include "tests/on_host.h"
#include "tests/programs.h"
#include "tests/tests.h"
#include <math.h>
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

// Of so few registers that what rows share is not always kept.
static const struct target *small_target(void)
{
    static struct target t;
    t = *target_find("sm_90a");
    t.n_sms = 6;
    t.threads_per_sm = 256;
    t.registers_per_sm = 64 * 256;
    return &t;
}

static void compile_sized(struct compiled *c, const struct probe *probe,
                          const struct chosen_spec *spec)
{
    struct size sizes[] = {
        {"M", probe->m},
        {"N", probe->n}
    };
    char *text = typed(probe->text, probe->dtype);
    compile_right_text(c, text,
                       &(struct compile_options){.target = small_target(),
                                                 .sizes = sizes,
                                                 .n_sizes = 2,
                                                 .specs = spec,
                                                 .n_specs = spec != NULL,
                                                 .list_candidates = !spec,
                                                 .separate = true});
    free(text);
}

// As the probe has it, with 256 threads a block, where there is such a candidate.
static void compile_teams(struct compiled *c, const struct probe *probe)
{
    struct compiled all;
    char team[32], lag[32], exchanges[32];
    const char *spec = NULL;
    compile_sized(&all, probe, NULL);
    ck_assert_int_eq(all.program.n_kernels, 1);
    const struct kernel *k = &all.program.kernels[0];
    snprintf(team, sizeof team, " threads=256 team=%d ", probe->team);
    snprintf(lag, sizeof lag, " lag=%d ", probe->lag);
    snprintf(exchanges, sizeof exchanges, " exchanges=%d ", probe->exchanges);
    for (int i = 0; i < k->n_candidates; i++)
        if (strstr(k->candidates[i].spec, team) && strstr(k->candidates[i].spec, lag) &&
            strstr(k->candidates[i].spec, exchanges))
            spec = k->candidates[i].spec;
    ck_assert_msg(spec != NULL, "N = %d: no candidate has%s,%s and%s", (int)probe->n, team, lag,
                  exchanges);
    compile_sized(c, probe, &(struct chosen_spec){k->name, spec});
    k = &c->program.kernels[0];
    ck_assert_str_eq(k->spec, spec);
    ck_assert_str_eq(k->family, "rows");
    ck_assert(k->cooperative && (int)k->team == probe->team && k->grid[0] == 6);
    compiled_free(&all);
}

// A program's buffers, and the reference's results for what they hold.
struct data {
    struct compiled *c;
    void *at[16];
    struct tensor expected[8];
};

static void data_open(struct data *d, struct compiled *c)
{
    const struct program *p = &c->program;
    *d = (struct data){.c = c};
    for (int b = 0; b < p->n_buffers; b++)
        ck_assert(!posix_memalign(&d->at[b], 16, (size_t)p->buffers[b].bytes));
    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffers[b].kind == BUFFER_counter)
            memset(d->at[b], 0, (size_t)p->buffers[b].bytes);
}

static void data_close(struct data *d)
{
    for (int b = 0; b < d->c->program.n_buffers; b++)
        free(d->at[b]);
}

static void data_expect(struct data *d)
{
    const struct program *p = &d->c->program;
    struct tensor arguments[4];
    for (int i = 0; i < p->n_arguments; i++) {
        const struct node *node = p->graph->arguments[i];
        arguments[i] = (struct tensor){
            .dtype = node->dtype, .rank = node->rank, .data = d->at[p->arguments[i]]};
        memcpy(arguments[i].dim, node->dim, sizeof node->dim);
    }
    ck_assert(eval(&d->c->g, p->graph, EVAL_exact, arguments, d->expected));
}

static void data_fill(struct data *d, unsigned seed)
{
    const struct program *p = &d->c->program;
    for (int i = 0; i < p->n_arguments; i++)
        fill_argument(p->graph->arguments[i], d->at[p->arguments[i]], seed + (unsigned)i);
    data_expect(d);
}

// With so many blocks; the outputs are NaN before.
static void data_run(struct data *d, const struct host_library *library, unsigned blocks,
                     bool reversed)
{
    const struct program *p = &d->c->program;
    struct kernel k = p->kernels[0];
    void *pointers[8];
    k.grid[0] = blocks;
    for (int i = 0; i < k.n_args; i++)
        pointers[i] = d->at[k.args[i]];
    for (int i = 0; i < p->n_outputs; i++)
        memset(d->at[p->outputs[i]], 0xff, node_bytes(p->graph->outputs[i].node));
    assert_ran(launch_kernel(library, &k, reversed, pointers));
    for (int i = 0; i < p->n_outputs; i++)
        expect_near(p->graph, &p->graph->outputs[i], d->at[p->outputs[i]], &d->expected[i], k.spec);
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

// What a part of a row makes its own shift of, when other parts of the row are nothing like it.
static float uneven(int row, int column, int n, float noise)
{
    float at = (float)column / (float)n; // along the row
    switch (row) {
    case 0:
        return at < 0.5f ? -INFINITY : noise;
    case 1:
        return -INFINITY;
    case 2:
        return column == n - 1 ? -300 : -INFINITY; // a shift by 0 is far from the row's
    case 3:
        return column == n / 2 ? INFINITY : noise;
    case 4:
        return column == 0 ? INFINITY : -INFINITY;
    case 5:
        return column == n / 3 ? NAN : noise;
    case 6:
        return column == n / 3 ? NAN : at < 0.7f ? INFINITY : -INFINITY;
    case 7:
        return 200 * (at - 0.5f) + noise; // a shift further on leaves nothing of what is here
    case 8:
        return 200 * (0.5f - at) + noise;
    case 9:
        return 1e4f + noise; // squares without a shift have lost it
    case 10:
        return at < 0.3f ? 1e4f + noise : -1e4f + noise;
    case 11:
        return 300; // whose exp is infinite
    case 12:
        return column % 2 ? 1e17f : -1e17f + 1e13f * noise;
    case 13:
        return at < 0.9f ? 1e-30f * noise : 1e15f;
    case 14:
        return column % 3 ? -0.0f : 0.0f;
    case 15: // the parts' means, rounded, are further from them than the row's mean is from its own
        return at < 0.4f ? 1e4f + noise : 1e4f + 2 + noise;
    default:
        return noise;
    }
}

static const char shifts[] =
    "program shifts(M, N)\ninput x : %s[M, N]\noutput y = softmax(x, axis = 1)\n"
    "output e = sum(exp(2 * x - 2 * max(x, axis = 1, keepdims = true)), axis = 1)\n"
    "output h = softmax(0.125 * x, axis = 1)\n"
    "output l = logsumexp(x, axis = 1)\noutput v = var(x, axis = 1)\n";

START_TEST(parts_of_a_row_may_be_unlike)
{
    struct probe probe = {shifts, "f32", 17, 6404, _i % 2 ? 6 : 3, 1, 1 + _i / 2};
    struct compiled c;
    struct data d;
    compile_teams(&c, &probe);
    struct host_library *library = load_kernels(c.program.kernels, 1, sanitizer_flags());
    data_open(&d, &c);
    data_fill(&d, 5);
    float *x = d.at[c.program.arguments[0]];
    for (int64_t i = 0; i < probe.m * probe.n; i++)
        x[i] = uneven((int)(i / probe.n), (int)(i % probe.n), (int)probe.n, x[i]);
    data_expect(&d);
    data_run(&d, library, 6, false);
    data_close(&d);
    host_unload(library);
    compiled_free(&c);
}
END_TEST

// Reductions that need more of another one than a shift, or one whose sums may overflow on the way.
static const char *const apart[] = {
    "sum(exp(x - min(x, axis = 1)[:, None]), axis = 1)",
    "sum(exp(-0.5 * (x - max(x, axis = 1)[:, None])), axis = 1)",
    "sum(exp(x + max(x, axis = 1)[:, None]), axis = 1)",
    "sum(exp(x - 2 * max(x, axis = 1)[:, None]), axis = 1)",
    "sum(exp(x - max(x * x, axis = 1)[:, None]), axis = 1)",
    "sum(exp(x - mean(x, axis = 1)[:, None]), axis = 1)",
    "sum(square(x - max(x, axis = 1)[:, None]), axis = 1)",
    "sum(square(x - mean(x * x, axis = 1)[:, None]), axis = 1)",
    "sum(abs(x - mean(x, axis = 1)[:, None]), axis = 1)",
    "max(x * (x - mean(x, axis = 1)[:, None]), axis = 1) + var(x, axis = 1)",
};
enum { N_APART = sizeof apart / sizeof *apart };

static void count_exchanges(const char *text, bool strict, int n_with[3])
{
    struct compiled c;
    struct size sizes[] = {
        {"M", 13  },
        {"N", 3076}
    };
    compile_right_text(&c, text,
                       &(struct compile_options){.target = small_target(),
                                                 .sizes = sizes,
                                                 .n_sizes = 2,
                                                 .math = strict ? MATH_strict : MATH_real,
                                                 .list_candidates = true,
                                                 .separate = true});
    for (int k = 0; k < c.program.n_kernels; k++)
        for (int i = 0; i < c.program.kernels[k].n_candidates; i++)
            for (int n = 1; n <= 2; n++)
                n_with[n] +=
                    strstr(c.program.kernels[k].candidates[i].spec,
                           n == 1 ? "phases=2 exchanges=1" : "phases=2 exchanges=2") != NULL;
    compiled_free(&c);
}

START_TEST(what_is_no_shift_is_not_joined)
{
    char text[256];
    int n[3] = {0};
    snprintf(text, sizeof text, "program p(M, N)\ninput x : f32[M, N]\noutput y = %s\n", apart[_i]);
    count_exchanges(text, false, n);
    ck_assert_int_gt(n[2], 0);
    ck_assert_int_eq(n[1], 0);
}
END_TEST

START_TEST(strict_arithmetic_joins_nothing)
{
    char *text = typed(plain, "f32");
    int n[3] = {0};
    count_exchanges(text, false, n);
    ck_assert(n[1] > 0 && n[2] > 0);
    n[1] = n[2] = 0;
    count_exchanges(text, true, n);
    ck_assert(n[1] == 0 && n[2] > 0);
    free(text);
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
    tcase_add_loop_test(t, parts_of_a_row_may_be_unlike, 0, 4);
    tcase_add_loop_test(t, what_is_no_shift_is_not_joined, 0, N_APART);
    tcase_add_test(t, strict_arithmetic_joins_nothing);
    tcase_add_test(t, a_team_may_be_large);
    tcase_add_test(t, packets_are_aligned);
    suite_add_tcase(s, t);
    return s;
}
