// test_long_rows.c: rows that the blocks of a cluster share, against the f64 reference, on the host
// device.  They are made for a GPU so small that short rows are long to it.  And what shares rows
// of which lengths on real ones.

#include "tests/agreement.h"
#include "tests/compiled.h"
#include "tests/on_host.h"
#include "tests/programs.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

static const char normalised[] =
    "program normalised(M, N)\ninput x : %s[M, N]\ninput w : f32[N]\ninput b : f32[N]\n"
    "output y = layer_norm(x, w, b, 1e-5)\noutput m = max(x, axis = 1)\n"
    "output i = argmax(x, axis = 1)\n";
static const char weighed[] =
    "program weighed(M, N)\ninput x : %s[M, N]\ninput z : %s[M, N]\ninput s : %s[M]\n"
    "output y = softmax(x * s[:, None] + z, axis = 1) * z\noutput n = sum(x * z, axis = 1)\n";
static const char plain[] = "program plain(M, N)\ninput x : %s[M, N]\n"
                            "output y = softmax(x, axis = 1)\n";

// cluster, parked: what the schedule is to make of it.
static const struct probe {
    const char *text, *dtype;
    int64_t n;
    unsigned cluster;
    bool parked;
} probes[] = {
    {plain,      "f32",  3000,  4,  false},
    {plain,      "f32",  3001,  4,  false},
    {plain,      "f32",  12000, 8,  false},
    {plain,      "f16",  16008, 8,  false},
    {plain,      "f32",  16408, 8,  true },
    {plain,      "f32",  17003, 8,  true },
    {plain,      "f32",  40004, 16, true },
    {plain,      "f32",  90000, 1,  false},
    {plain,      "f16",  20008, 8,  true },
    {plain,      "f16",  20009, 16, false}, // 2 bytes are too few for an asynchronous copy
    {plain,      "f64",  9002,  8,  true },
    {normalised, "f32",  5000,  8,  false},
    {normalised, "f32",  5003,  8,  false},
    {normalised, "bf16", 20000, 8,  true },
    {normalised, "f32",  45000, 16, true },
    {weighed,    "f32",  7001,  8,  false},
    {weighed,    "f32",  9004,  8,  true },
    {weighed,    "f64",  3002,  8,  false},
};

static const struct target *tiny_target(void)
{
    static struct target t;
    t = *target_find("sm_90a");
    t.n_sms = 2;
    t.threads_per_sm = 64;
    t.shared_per_block = t.shared_per_sm = 12 * 1024;
    return &t;
}

// The kernel's outputs, in both orders of its threads: the same bits.
static void check_outputs(struct compiled *c, void **data)
{
    struct program *p = &c->program;
    const struct kernel *k = &p->kernels[0];
    struct host_library *library = load_kernels(k, 1, sanitizer_flags());
    struct tensor arguments[4], expected[4];
    void *pointers[8], *first[4];
    for (int i = 0; i < p->n_arguments; i++) {
        const struct node *node = p->graph->arguments[i];
        arguments[i] = (struct tensor){.dtype = node->dtype, .rank = node->rank, .data = data[i]};
        memcpy(arguments[i].dim, node->dim, sizeof node->dim);
    }
    ck_assert(eval(&c->g, p->graph, EVAL_exact, arguments, expected));
    for (int i = 0; i < k->n_args; i++)
        pointers[i] = data[k->args[i]];
    for (int reversed = 0; reversed < 2; reversed++) {
        assert_ran(launch_kernel(library, k, reversed, pointers));
        for (int i = 0; i < p->n_outputs; i++) {
            const struct output *o = &p->graph->outputs[i];
            void *got = data[p->outputs[i]];
            expect_near(p->graph, o, got, &expected[i], k->spec);
            if (!reversed)
                first[i] = memcpy(malloc(node_bytes(o->node)), got, node_bytes(o->node));
            else
                ck_assert(!memcmp(first[i], got, node_bytes(o->node)));
        }
    }
    for (int i = 0; i < p->n_outputs; i++)
        free(first[i]);
    host_unload(library);
}

static void run_compiled(struct compiled *c)
{
    struct program *p = &c->program;
    void *data[8];
    for (int b = 0; b < p->n_buffers; b++)
        ck_assert(!posix_memalign(&data[b], 16, (size_t)p->buffers[b].bytes));
    for (int i = 0; i < p->n_arguments; i++)
        fill_argument(p->graph->arguments[i], data[p->arguments[i]], (unsigned)i);
    check_outputs(c, data);
    for (int b = 0; b < p->n_buffers; b++)
        free(data[b]);
}

START_TEST(clusters_agree_with_the_reference)
{
    const struct probe *probe = &probes[_i];
    struct size sizes[] = {
        {"M", 3       },
        {"N", probe->n}
    };
    struct compiled c;
    char *text = typed(probe->text, probe->dtype);
    compile_right_text(
        &c, text, &(struct compile_options){.target = tiny_target(), .sizes = sizes, .n_sizes = 2});
    struct program *p = &c.program;
    ck_assert_int_eq(p->n_kernels, 1);
    const struct kernel *k = &p->kernels[0];
    ck_assert_str_eq(k->family, "rows");
    ck_assert_msg(k->cluster[0] == probe->cluster &&
                      !strstr(k->spec, " parked=0 ") == probe->parked,
                  "N = %d: %s", (int)probe->n, k->spec);
    ck_assert(probe->cluster == 1 || k->grid[0] == 3 * probe->cluster);
    run_compiled(&c);
    free(text);
    compiled_free(&c);
}
END_TEST

static const struct {
    const char *text, *dtype;
    int64_t n;
    const char *spec;
} kept[] = {
    {plain,      "f32",  24576, " cluster=1 parked=6 " },
    {plain,      "f32",  24580, " cluster=1 parked=7 " }, // of which few threads have the last
    {plain,      "bf16", 49160, " cluster=1 parked=10 "},
    {normalised, "f32",  20004, " cluster=1 parked=4 " },
    {normalised, "bf16", 32768, " cluster=1 parked=5 " },
    {weighed,    "f32",  9004,  " cluster=1 parked=2 " },
};

START_TEST(one_block_keeps_a_row_in_shared_memory_too)
{
    struct size sizes[] = {
        {"M", 9         },
        {"N", kept[_i].n}
    };
    char *text = typed(kept[_i].text, kept[_i].dtype);
    struct compiled c;
    compile_with(&c, text,
                 &(struct compile_options){.sizes = sizes, .n_sizes = 2, .separate = true},
                 (const char *const[]){" threads=512 ", kept[_i].spec, NULL});
    run_compiled(&c);
    compiled_free(&c);
    free(text);
}
END_TEST

// What long rows become: read again, there are teams and walking clusters for many of them and
// clusters for few; read once, for few of them a pass over all SMs, for many a block each.
static const struct {
    const char *output, *arch;
    int64_t m, n;
    const char *family;
    unsigned cluster, team;
} choices[] = {
    {"softmax(x, axis = 1)", "sm_90a", 1024, 131072,  "rows",    1, 26 },
    {"layer_norm(x)",        "sm_90a", 1024, 131072,  "rows",    1, 26 },
    {"softmax(x, axis = 1)", "sm_90a", 1024, 50000,   "rows",    1, 7  },
    {"softmax(x, axis = 1)", "sm_90a", 1024, 40000,   "rows",    1, 1  },
    {"softmax(x, axis = 1)", "sm_90a", 256,  1048576, "rows",    1, 132},
    {"softmax(x, axis = 1)", "sm_90a", 256,  2000000, "rows",    1, 132},
    {"softmax(x, axis = 1)", "sm_89",  1024, 131072,  "rows",    1, 128},
    {"softmax(x, axis = 1)", "sm_75",  1024, 131072,  "rows",    1, 1  },
    {"softmax(x, axis = 1)", "sm_100", 1024, 524288,  "rows",    1, 37 },
    {"softmax(x, axis = 1)", "sm_100", 1024, 2000000, "rows",    1, 148},
    {"softmax(x, axis = 1)", "sm_90a", 96,   131072,  "rows",    1, 16 },
    {"softmax(x, axis = 1)", "sm_90a", 48,   131072,  "rows",    8, 1  },
    {"softmax(x, axis = 1)", "sm_90a", 32,   128256,  "rows",    8, 1  },
    {"softmax(x, axis = 1)", "sm_90a", 4,    128256,  "columns", 1, 1  },
    {"softmax(x, axis = 1)", "sm_90a", 32,   1048576, "rows",    1, 132},
    {"softmax(x, axis = 1)", "sm_90a", 24,   524288,  "rows",    1, 66 },
    {"softmax(x, axis = 1)", "sm_90a", 11,   1048576, "columns", 1, 1  },
    {"softmax(x, axis = 1)", "sm_90a", 32,   8000000, "columns", 1, 1  },
    {"sum(x, axis = 1)",     "sm_90a", 32,   1048576, "columns", 1, 1  },
    {"var(x, axis = 1)",     "sm_90a", 32,   128256,  "rows",    8, 1  },
    {"layer_norm(x)",        "sm_120", 32,   128256,  "rows",    1, 85 },
    {"sum(x, axis = 1)",     "sm_90a", 32,   128256,  "columns", 1, 1  },
    {"sum(x, axis = 1)",     "sm_90a", 1024, 131072,  "rows",    1, 1  },
};

START_TEST(long_rows_go_where_they_are_read_least)
{
    struct size sizes[] = {
        {"M", choices[_i].m},
        {"N", choices[_i].n}
    };
    struct compiled c;
    char text[256];
    snprintf(text, sizeof text, "program p(M, N)\ninput x : f32[M, N]\noutput y = %s\n",
             choices[_i].output);
    compile_right_text(&c, text,
                       &(struct compile_options){.target = target_find(choices[_i].arch),
                                                 .sizes = sizes,
                                                 .n_sizes = 2,
                                                 .separate = true});
    const struct kernel *k = &c.program.kernels[0];
    ck_assert_msg(!strcmp(k->family, choices[_i].family) && k->cluster[0] == choices[_i].cluster &&
                      k->team == choices[_i].team,
                  "%s, %d rows of %d: %s, clusters of %u, teams of %u", choices[_i].output,
                  (int)choices[_i].m, (int)choices[_i].n, k->family, k->cluster[0], k->team);
    compiled_free(&c);
}
END_TEST

static const char softmax[] = "program p(M, N)\ninput x : %s[M, N]\noutput y = softmax(x)\n";
static const char rms_norm[] = "program p(M, N)\ninput x : %s[M, N]\nweight w : %s[N]\n"
                               "output y = rms_norm(x, w)\n";
static const char layer_norm[] = "program p(M, N)\ninput x : %s[M, N]\nweight w : %s[N]\n"
                                 "weight b : %s[N]\noutput y = layer_norm(x, w, b)\n";

// What was fastest on an H200 for rows that one block keeps.
static const struct {
    const char *text, *dtype;
    int64_t m, n;
    int threads, threads_per_row, items, exchanges;
} measured[] = {
    {layer_norm, "f32",  4096,  4096,  256,  256,  4, 1},
    {softmax,    "f32",  4096,  4096,  256,  256,  4, 2},
    {layer_norm, "bf16", 16384, 1024,  128,  64,   2, 2},
    {softmax,    "bf16", 16384, 1024,  128,  64,   2, 2},
    {layer_norm, "bf16", 8192,  16384, 256,  256,  8, 2},
    {softmax,    "bf16", 8192,  16384, 256,  256,  8, 2},
    {rms_norm,   "bf16", 8192,  16384, 256,  256,  8, 1},
    {layer_norm, "f32",  8192,  16384, 512,  512,  8, 2},
    {softmax,    "f32",  8192,  24576, 1024, 1024, 6, 2},
    {rms_norm,   "f32",  4096,  32768, 1024, 1024, 8, 1},
    {layer_norm, "f32",  4096,  32768, 512,  512,  6, 2}, // and 10 in shared memory
    {layer_norm, "bf16", 4096,  32768, 512,  512,  3, 2}, // and 5
    {softmax,    "f32",  8192,  8192,  512,  512,  4, 2},
};

START_TEST(rows_are_shared_as_measured)
{
    struct size sizes[] = {
        {"M", measured[_i].m},
        {"N", measured[_i].n}
    };
    struct compiled c;
    char *text = typed(measured[_i].text, measured[_i].dtype), shared[128], exchanges[32];
    int threads = measured[_i].threads, threads_per_row = measured[_i].threads_per_row;
    compile_right_text(&c, text, &(struct compile_options){.sizes = sizes, .n_sizes = 2});
    ck_assert_int_eq(c.program.n_kernels, 1);
    const struct kernel *k = &c.program.kernels[0];
    snprintf(shared, sizeof shared,
             " threads=%d threads_per_row=%d rows_per_block=%d items=%d resident=1 ", threads,
             threads_per_row, threads / threads_per_row, measured[_i].items);
    snprintf(exchanges, sizeof exchanges, " exchanges=%d ", measured[_i].exchanges);
    ck_assert_str_eq(k->family, "rows");
    ck_assert_msg(strstr(k->spec, shared) && strstr(k->spec, exchanges), "%d rows of %d in\n%s%s",
                  (int)measured[_i].m, (int)measured[_i].n, text, k->spec);
    free(text);
    compiled_free(&c);
}
END_TEST

Suite *long_rows_suite(void)
{
    Suite *s = suite_create("long_rows");
    TCase *t = tcase_create("long_rows");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, clusters_agree_with_the_reference, 0, sizeof probes / sizeof *probes);
    tcase_add_loop_test(t, one_block_keeps_a_row_in_shared_memory_too, 0,
                        sizeof kept / sizeof *kept);
    tcase_add_loop_test(t, long_rows_go_where_they_are_read_least, 0,
                        sizeof choices / sizeof *choices);
    tcase_add_loop_test(t, rows_are_shared_as_measured, 0, sizeof measured / sizeof *measured);
    suite_add_tcase(s, t);
    return s;
}
