// test_stages.c: what fuse, schedule and emit make of whole programs, and what the way from text to
// source costs.

#include "tests/compiled.h"
#include "tests/golden.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SIZES = 16 };

// ---- recorded texts ----

static void produce(const char *stage, bool separate, const char *input, FILE *out)
{
    struct gen g = {0};
    struct size sizes[MAX_SIZES];
    struct compiled c;
    int n = golden_sizes(&g, &input, sizes, MAX_SIZES);
    compile_text(&c, input,
                 &(struct compile_options){
                     .sizes = sizes, .n_sizes = n, .dump = stage, .separate = separate});
    fputs(c.shown, out);
    compiled_free(&c);
    arena_free(&g.arena);
}

static void produce_fuse(const char *input, FILE *out)
{
    produce("fuse", true, input, out);
}

static void produce_schedule(const char *input, FILE *out)
{
    produce("schedule", true, input, out);
}

static void produce_source(const char *input, FILE *out)
{
    produce("source", false, input, out);
}

static void produce_stitch(const char *input, FILE *out)
{
    produce("schedule", false, input, out);
}

START_TEST(programs_fuse_as_recorded)
{
    golden_check("fuse", _i, produce_fuse);
}
END_TEST

START_TEST(nests_are_scheduled_as_recorded)
{
    golden_check("schedule", _i, produce_schedule);
}
END_TEST

START_TEST(launches_are_stitched_as_recorded)
{
    golden_check("stitch", _i, produce_stitch);
}
END_TEST

START_TEST(source_is_as_recorded)
{
    golden_check("source", _i, produce_source);
}
END_TEST

// ---- sizes are specialised, and only in Spec ----

static char *example(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "tools/examples/%s", name);
    FILE *in = fopen(path, "rb");
    ck_assert_msg(in != NULL, "%s is not there; tests run in the root of the tree", path);
    char *text = calloc(1, 1 << 16);
    ck_assert_uint_gt(fread(text, 1, (1 << 16) - 1, in), 0);
    fclose(in);
    return text;
}

static void compile_quant_linear(struct compiled *c, int64_t d)
{
    static const char *const names[] = {"B", "T", "D"};
    struct size sizes[] = {
        {names[0], 8 },
        {names[1], 64},
        {names[2], d }
    };
    char *text = example("quant_linear.qn");
    compile_right_text(c, text, &(struct compile_options){.sizes = sizes, .n_sizes = 3});
    free(text);
}

// The source without what stands between the braces of every Spec, and with k for its kernel's
// name.
static char *without_spec(const struct kernel *k)
{
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    ck_assert_msg(strstr(k->source, "struct Spec {") != NULL, "%s has no Spec", k->name);
    for (const char *p = k->source; *p; p++)
        if (!strncmp(p, "struct Spec {", 13))
            p = strstr(p, "};");
        else if (!strncmp(p, k->name, strlen(k->name)))
            p += strlen(k->name) - 1, fputc('k', out);
        else
            fputc(*p, out);
    fclose(out);
    return text;
}

START_TEST(sources_for_two_sizes_differ_in_spec_alone)
{
    struct compiled a, b;
    compile_quant_linear(&a, 128);
    compile_quant_linear(&b, 96);
    ck_assert_int_eq(a.program.n_kernels, b.program.n_kernels);
    for (int i = 0; i < a.program.n_kernels; i++) {
        const struct kernel *ka = &a.program.kernels[i], *kb = &b.program.kernels[i];
        char *rest_a = without_spec(ka), *rest_b = without_spec(kb);
        ck_assert_str_ne(ka->source, kb->source);
        ck_assert_str_eq(rest_a, rest_b);
        free(rest_a);
        free(rest_b);
    }
    compiled_free(&a);
    compiled_free(&b);
}
END_TEST

START_TEST(every_size_and_tile_size_is_in_spec)
{
    static const char *const constants[] = {" B = 8;",    " T = 64;",   " D = 128;",  " N = 128;",
                                            " block_m =", " block_n =", " block_k =", " vec_a ="};
    struct compiled c;
    compile_quant_linear(&c, 128);
    const struct kernel *gemm = &c.program.kernels[c.program.n_kernels - 1];
    ck_assert_str_eq(gemm->family, "stitch");
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        ck_assert_msg(strstr(gemm->source, constants[i]), "`%s` is not in\n%s", constants[i],
                      gemm->source);
    compiled_free(&c);
}
END_TEST

// ---- what it costs ----

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if defined(__SANITIZE_ADDRESS__)
static const double slowness = 20; // sanitizers, and a machine that does other work too
#else
static const double slowness = 2;
#endif

static const struct {
    const char *file;
    struct size sizes[5];
} examples[] = {
    {"quant_linear.qn",     {{"B", 8}, {"T", 2048}, {"D", 4096}}                      },
    {"linear_mean_gelu.qn", {{"B", 2048}, {"I", 8192}, {"O", 8192}}                   },
    {"softmax.qn",          {{"R", 4096}, {"N", 4096}}                                },
    {"layer_norm.qn",       {{"R", 4096}, {"N", 4096}}                                },
    {"rms_norm.qn",         {{"R", 4096}, {"N", 4096}}                                },
    {"mlp.qn",              {{"B", 512}, {"D", 1024}}                                 },
    {"attention_scores.qn", {{"B", 2}, {"H", 16}, {"T", 2048}, {"S", 2048}, {"D", 64}}},
    {"column_stats.qn",     {{"R", 100000}, {"N", 1000}}                              },
};

START_TEST(examples_take_under_10_ms_and_50_mb)
{
    char *text = example(examples[_i].file);
    int n = 0;
    while (n < 5 && examples[_i].sizes[n].name)
        n++;
    double best = 1e9;
    for (int run = 0; run < 5; run++) {
        struct compiled c;
        double start = seconds();
        compile_right_text(&c, text,
                           &(struct compile_options){.sizes = examples[_i].sizes, .n_sizes = n});
        double took = seconds() - start;
        best = took < best ? took : best;
        ck_assert_uint_lt(c.g.arena.bytes, 50 << 20);
        compiled_free(&c);
    }
    ck_assert_msg(best < 0.010 * slowness, "%s: %.1f ms", examples[_i].file, best * 1e3);
    free(text);
}
END_TEST

static char *chain_text(int length)
{
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    fprintf(out, "program chain(N)\ninput x0 : f32[N]\n");
    for (int i = 1; i < length; i++)
        fprintf(out, "x%d = 0.5 * x%d + 1\n", i, i - 1);
    fprintf(out, "output y = 0.5 * x%d + 1\n", length - 1);
    fclose(out);
    return text;
}

static size_t source_bytes(const struct program *p)
{
    size_t n = 0;
    for (int i = 0; i < p->n_kernels; i++)
        n += strlen(p->kernels[i].source);
    return n;
}

START_TEST(a_chain_of_50000_costs_ten_times_one_of_5000)
{
    struct size size = {"N", 1000};
    struct compile_options options = {.sizes = &size, .n_sizes = 1};
    double took[2];
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        struct compiled c;
        char *text = chain_text(i ? 50000 : 5000);
        took[i] = seconds();
        compile_right_text(&c, text, &options);
        took[i] = seconds() - took[i];
        bytes[i] = source_bytes(&c.program);
        compiled_free(&c);
        free(text);
    }
    ck_assert_uint_lt(bytes[1], 12 * bytes[0]);
    ck_assert_double_lt(took[1], 40 * took[0]); // linear; a square would be 100
    ck_assert_double_lt(took[1], 5 * slowness);
}
END_TEST

START_TEST(doubling_40_times_doubles_nothing_else)
{
    struct size size = {"N", 1000};
    struct compiled c;
    char text[2048] = "program doubling(N)\ninput y0 : f32[N]\n";
    for (int i = 1; i < 40; i++)
        sprintf(text + strlen(text), "y%d = y%d + y%d\n", i, i - 1, i - 1);
    strcat(text, "output y40 = y39 + y39\n");
    compile_right_text(&c, text, &(struct compile_options){.sizes = &size, .n_sizes = 1});
    ck_assert_int_eq(c.program.n_kernels, 1);
    ck_assert_uint_lt(source_bytes(&c.program), 8000);
    compiled_free(&c);
}
END_TEST

Suite *stages_suite(void)
{
    Suite *suite = suite_create("stages");
    TCase *t = tcase_create("recorded"), *costs = tcase_create("costs");
    tcase_add_loop_test(t, programs_fuse_as_recorded, 0, golden_count("fuse"));
    tcase_add_loop_test(t, nests_are_scheduled_as_recorded, 0, golden_count("schedule"));
    tcase_add_loop_test(t, launches_are_stitched_as_recorded, 0, golden_count("stitch"));
    tcase_add_loop_test(t, source_is_as_recorded, 0, golden_count("source"));
    tcase_add_test(t, sources_for_two_sizes_differ_in_spec_alone);
    tcase_add_test(t, every_size_and_tile_size_is_in_spec);
    suite_add_tcase(suite, t);
    tcase_set_timeout(costs, 120);
    tcase_add_loop_test(costs, examples_take_under_10_ms_and_50_mb, 0,
                        sizeof examples / sizeof *examples);
    tcase_add_test(costs, a_chain_of_50000_costs_ten_times_one_of_5000);
    tcase_add_test(costs, doubling_40_times_doubles_nothing_else);
    suite_add_tcase(suite, costs);
    return suite;
}
