// test_mma.c: contractions on tensor cores, on the host device: which have such tiles, what every
// tile gives where all sums are exact, and into how many parts operands fall apart.

#include "tests/compiled.h"
#include "tests/factors.h"
#include "tests/on_host.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

// ---- every tile ----

static const struct layout {
    const char *a, *b, *product;
    bool a_turned, b_turned;
} layouts[] = {
    {"[M, K]", "[K, N]", "a @ b",     false, false},
    {"[K, M]", "[K, N]", "a.T @ b",   true,  false},
    {"[M, K]", "[N, K]", "a @ b.T",   false, true },
    {"[K, M]", "[N, K]", "a.T @ b.T", true,  true },
};

// Vectors of one, two and four elements along either.
static const struct shape {
    int64_t m, n, k;
} shapes[] = {
    {33, 50, 40 },
    {64, 64, 64 },
    {17, 41, 129},
};

enum { MAX_TILES = 128, N_TABLES = COUNT(layouts) * COUNT(shapes) };

static void compile_product(struct compiled *c, const struct layout *l, const struct shape *s,
                            const char *name, const struct chosen_spec *spec)
{
    char text[256];
    struct size sizes[] = {
        {"M", s->m},
        {"N", s->n},
        {"K", s->k}
    };
    snprintf(text, sizeof text,
             "program %s(M, N, K)\ninput a : f32%s\ninput b : f32%s\noutput c = %s\n", name, l->a,
             l->b, l->product);
    compile_right_text(c, text,
                       &(struct compile_options){.sizes = sizes,
                                                 .n_sizes = 3,
                                                 .specs = spec,
                                                 .n_specs = spec != NULL,
                                                 .list_candidates = !spec});
}

static bool is_on_tensor_cores(const char *spec)
{
    return strstr(spec, "parts_a=") && !strstr(spec, "parts_a=0");
}

static float *matrix(int64_t rows, int64_t columns)
{
    void *data;
    ck_assert(!posix_memalign(&data, 16, (size_t)(rows * columns) * sizeof(float)));
    return data;
}

static float *filled(int64_t rows, int64_t columns, bool turned, formula *f)
{
    float *x = matrix(rows, columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            x[turned ? j * rows + i : i * columns + j] = (float)f((int64_t[]){i, j});
    return x;
}

static void run_tile(const struct host_library *library, const struct kernel *k, bool reversed,
                     const struct layout *l, const struct shape *s, const struct factors *f)
{
    float *a = filled(s->m, s->k, l->a_turned, f->a), *b = filled(s->k, s->n, l->b_turned, f->b);
    float *c = matrix(s->m, s->n);
    memset(c, 0xff, (size_t)(s->m * s->n) * sizeof *c);
    assert_ran(launch_kernel(library, k, reversed, (void *const[]){a, b, c}));
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            float got = c[i * s->n + j], right = f32_chain(f, i, j, s->k);
            ck_assert_msg(same_value((double)got, (double)right),
                          "%s, factors %d, [%d,%d]: %.9g, not %.9g: %s", l->product,
                          (int)(f - exact_factors), (int)i, (int)j, (double)got, (double)right,
                          k->spec);
        }
    free(a);
    free(b);
    free(c);
}

// All tiles; under the sanitizers, which take their time, of each layout and size some others, and
// for each tile half of the factors.
START_TEST(every_tile_gives_the_sums_that_are_exact)
{
    const struct layout *l = &layouts[_i / COUNT(shapes)];
    const struct shape *s = &shapes[_i % COUNT(shapes)];
    static struct compiled all[MAX_TILES];
    static struct kernel kernels[MAX_TILES];
    int n = 0, n_tiles = 0, step = has_address_sanitizer() ? N_TABLES : 1;
    struct compiled base;
    compile_product(&base, l, s, "base", NULL);
    ck_assert_int_eq(base.program.n_kernels, 1);
    const struct kernel *k = base.program.kernels;
    for (int i = 0; i < k->n_candidates; i++) {
        const char *spec = k->candidates[i].spec;
        char program[16], kernel[32];
        if (!is_on_tensor_cores(spec) || n_tiles++ % step != _i % step)
            continue;
        ck_assert_int_lt(n, MAX_TILES);
        snprintf(program, sizeof program, "c%d", n);
        snprintf(kernel, sizeof kernel, "%s_0_gemm", program);
        compile_product(&all[n], l, s, program, &(struct chosen_spec){kernel, spec});
        kernels[n] = all[n].program.kernels[0];
        ck_assert_str_eq(kernels[n++].spec, spec);
    }
    ck_assert_int_ge(n_tiles, 15);
    struct host_library *library = load_kernels(kernels, n, _i % 4 != 1 ? NULL : sanitizer_flags());
    for (int i = 0; i < n; i++) {
        for (int f = 0; f < N_FACTORS; f++)
            if (f % 2 == i % 2 || (step == 1 && f <= DOUBTFUL))
                run_tile(library, &kernels[i], f / 2 % 2, l, s, &exact_factors[f]);
        compiled_free(&all[i]);
    }
    host_unload(library);
    compiled_free(&base);
}
END_TEST

// ---- operands of few bits ----

static const struct narrow {
    const char *a, *b, *product; // dtypes, and the expression
    int bits_a, bits_b;          // that their elements have
    const char *parts;
} narrow[] = {
    {"bf16", "bf16", "cast(a, f32) @ cast(b, f32)",         8,  8,  "parts_a=1 parts_b=1"},
    {"bf16", "f32",  "cast(a, f32) @ b",                    8,  16, "parts_a=1 parts_b=3"},
    {"f16",  "f16",  "cast(a, f32) @ cast(b, f32)",         11, 11, "parts_a=2 parts_b=2"},
    {"f32",  "f16",  "a @ cast(b, f32)",                    13, 11, "parts_a=3 parts_b=2"},
    {"i8",   "f32",  "cast(a, f32) @ b",                    7,  16, "parts_a=1 parts_b=3"},
    {"f32",  "u8",   "a @ cast(b, f32)",                    16, 8,  "parts_a=3 parts_b=1"},
    {"f32",  "f32",  "a @ b",                               12, 12, "parts_a=3 parts_b=3"},
    {"bf16", "bf16", "square(cast(a, f32)) @ cast(b, f32)", 8,  8,  "parts_a=3 parts_b=1"},
    {"f32",  "f16",  "cast(cast(a, bf16), f32) @ b",        8,  11, "parts_a=1 parts_b=2"},
    {"i32",  "f32",  "cast(a, f32) @ b",                    12, 12, "parts_a=3 parts_b=3"},
    {"bf16", "bf16", "a @ b",                               8,  1,  "parts_a=1 parts_b=1"},
    {"f16",  "f16",  "a @ b",                               10, 1,  "parts_a=2 parts_b=2"},
};
enum { NARROW_M = 33, NARROW_N = 36 };

static void compile_narrow(struct compiled *c, int i, const struct compile_options *options)
{
    char text[256];
    snprintf(text, sizeof text,
             "program n%d\ninput a : %s[%d, %d]\ninput b : %s[%d, %d]\noutput c = %s\n", i,
             narrow[i].a, NARROW_M, LEAST_K, narrow[i].b, LEAST_K, NARROW_N, narrow[i].product);
    compile_right_text(c, text, options);
    ck_assert_int_eq(c->program.n_kernels, 1);
}

// On tensor cores, where all candidates that are have the parts.
static void compile_in_parts(struct compiled *c, int i)
{
    struct compiled all;
    struct chosen_spec spec = {NULL, NULL};
    compile_narrow(&all, i, &(struct compile_options){.list_candidates = true});
    const struct kernel *k = all.program.kernels;
    for (int j = 0; j < k->n_candidates; j++)
        if (is_on_tensor_cores(k->candidates[j].spec)) {
            const char *has = k->candidates[j].spec;
            ck_assert_msg(strstr(has, narrow[i].parts) != NULL, "%s is not of %s but of %s",
                          narrow[i].product, narrow[i].parts, has);
            spec = spec.spec ? spec : (struct chosen_spec){k->name, has};
        }
    ck_assert_msg(spec.spec != NULL, "%s is not on tensor cores", narrow[i].product);
    compile_narrow(c, i, &(struct compile_options){.specs = &spec, .n_specs = 1});
    ck_assert_str_eq(c->program.kernels[0].spec, spec.spec);
    compiled_free(&all);
}

// Of a column of b one element is not 0.
static double narrow_element(const struct narrow *n, bool is_b, int64_t at_x, int64_t at_k)
{
    const char *dtype = is_b ? n->b : n->a;
    if (is_b && at_k != 7 * at_x % LEAST_K)
        return 0;
    double x = random_of_bits((int64_t[]){at_x, at_k}, is_b ? n->bits_b : n->bits_a);
    return !strcmp(dtype, "u8") && x < 0 ? -x : x;
}

static void set_element(enum dtype dtype, void *data, int64_t i, double x)
{
    if (dtype_info[dtype].class == CLASS_float)
        store_element(dtype, data, i, x);
    else
        store_integer(dtype, data, i, (int64_t)x);
}

static void run_narrow(struct compiled *c, const struct host_library *library, int i)
{
    const struct graph *graph = c->program.graph;
    const struct narrow *n = &narrow[i];
    struct tensor in[2], out;
    for (int o = 0; o < 2; o++) {
        const struct node *node = graph->arguments[o];
        int64_t columns = node->dim[1];
        in[o] = (struct tensor){.dtype = node->dtype, .rank = 2, .data = matrix(64, 64)};
        memcpy(in[o].dim, node->dim, sizeof node->dim);
        for (int64_t j = 0; j < node->dim[0] * columns; j++) {
            int64_t row = j / columns, column = j % columns;
            set_element(node->dtype, in[o].data, j,
                        narrow_element(n, o == 1, o ? column : row, o ? row : column));
        }
    }
    float *got = matrix(NARROW_M, NARROW_N);
    assert_ran(launch_kernel(library, c->program.kernels, i % 2,
                             (void *const[]){in[0].data, in[1].data, got}));
    ck_assert(eval(&c->g, graph, EVAL_exact, in, &out));
    for (int64_t j = 0; j < NARROW_M * NARROW_N; j++) {
        double x = load_element(graph->outputs[0].node->dtype, got, j);
        double right = ((double *)out.data)[j];
        ck_assert_msg(x == right, "%s of %s and %s, [%d,%d]: %.9g, not %.9g", n->product, n->a,
                      n->b, (int)(j / NARROW_N), (int)(j % NARROW_N), x, right);
    }
    free(in[0].data);
    free(in[1].data);
    free(got);
}

START_TEST(operands_fall_into_as_many_parts_as_their_bits_take)
{
    static struct compiled all[COUNT(narrow)];
    static struct kernel kernels[COUNT(narrow)];
    for (int i = 0; i < COUNT(narrow); i++) {
        compile_in_parts(&all[i], i);
        kernels[i] = all[i].program.kernels[0];
    }
    struct host_library *library = load_kernels(kernels, COUNT(narrow), NULL);
    for (int i = 0; i < COUNT(narrow); i++) {
        run_narrow(&all[i], library, i);
        compiled_free(&all[i]);
    }
    host_unload(library);
}
END_TEST

// ---- which contractions ----

static int count_on_tensor_cores(const struct target *t, const char *dtype)
{
    char text[128];
    struct compiled c;
    int n = 0;
    snprintf(text, sizeof text,
             "program p\ninput a : %s[64, 64]\ninput b : %s[64, 64]\noutput c = a @ b\n", dtype,
             dtype);
    compile_right_text(&c, text, &(struct compile_options){.target = t, .list_candidates = true});
    for (int k = 0; k < c.program.n_kernels; k++)
        for (int i = 0; i < c.program.kernels[k].n_candidates; i++)
            n += is_on_tensor_cores(c.program.kernels[k].candidates[i].spec);
    compiled_free(&c);
    return n;
}

START_TEST(floats_of_32_bits_at_most_have_tiles_from_sm_80_on)
{
    static const char *const floats[] = {"f32", "f16", "bf16"},
                             *others[] = {"f64", "i32", "i64", "i8"};
    const struct target *t = &targets[_i];
    for (int i = 0; i < COUNT(floats); i++) {
        int n = count_on_tensor_cores(t, floats[i]);
        ck_assert_msg((n > 0) == (t->sm >= 80), "%s, %s: %d", t->name, floats[i], n);
    }
    for (int i = 0; i < COUNT(others); i++)
        ck_assert_msg(count_on_tensor_cores(t, others[i]) == 0, "%s, %s", t->name, others[i]);
}
END_TEST

// What explain says that a kernel takes at least: the products of parts, 16 of which take as long
// as one of floats.
START_TEST(the_floor_is_that_of_what_multiplies)
{
    static const struct {
        const char *dtype, *arch;
        double products; // of floats, as long as one multiplication takes
    } forms[] = {
        {"f32",  "sm_75",  1       },
        {"f32",  "sm_90a", 6.0 / 16},
        {"f16",  "sm_90a", 4.0 / 16},
        {"bf16", "sm_90a", 1.0 / 16},
    };
    for (int i = 0; i < COUNT(forms); i++) {
        char text[128];
        struct compiled c;
        const struct target *t = target_find(forms[i].arch);
        snprintf(text, sizeof text,
                 "program p\ninput a : %s[2048, 2048]\ninput b : %s[2048, 2048]\n"
                 "output c = a @ b\n",
                 forms[i].dtype, forms[i].dtype);
        compile_right_text(&c, text, &(struct compile_options){.target = t});
        double arithmetic_us = 1e6 * forms[i].products * 2 * 2048.0 * 2048 * 2048 / t->f32_flops;
        ck_assert_double_eq_tol(c.program.kernels[0].floor_us, arithmetic_us, 0.01 * arithmetic_us);
        compiled_free(&c);
    }
}
END_TEST

Suite *mma_suite(void)
{
    Suite *s = suite_create("mma");
    TCase *t = tcase_create("mma");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, every_tile_gives_the_sums_that_are_exact, 0, N_TABLES);
    tcase_add_test(t, operands_fall_into_as_many_parts_as_their_bits_take);
    tcase_add_test(t, the_floor_is_that_of_what_multiplies);
    tcase_add_loop_test(t, floats_of_32_bits_at_most_have_tiles_from_sm_80_on, 0, n_targets);
    suite_add_tcase(s, t);
    return s;
}
