// test_kernels.c: every operator, reduction, composite, movement and contraction against the f64
// reference, in every dtype that it has, over the awkward sizes.  Operators of one kind share a
// program, so that a size is one compile.

#include "gen/gen.h"
#include "tests/compiled.h"
#include "tests/programs.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

static const int64_t awkward[] = {0, 1, 2, 3, 17, 31, 32, 33, 127, 1025, 4099};
static const int64_t few[] = {0, 1, 3, 33, 1025};
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

enum { MAX_JOBS = 512 };
struct jobs {
    struct job job[MAX_JOBS];
    quern_size sizes[MAX_JOBS][4];
    char *texts[DT_COUNT]; // to be freed
    int n, n_texts;
};

// Every other job has its kernels to themselves.  In the rest those that are short share a launch,
// for a GPU of 16 SMs: the host device takes its time for the threads of 132.
static void add(struct jobs *jobs, const char *text, const char *inputs, int64_t m, int64_t n)
{
    static const quern_plan_options joined = {.arch = "sm_87"}, separate = {.separate = 1};
    const quern_plan_options *options = getenv("QUERN_TEST_DEVICE") ? NULL : &joined;
    ck_assert_int_lt(jobs->n, MAX_JOBS);
    quern_size *sizes = jobs->sizes[jobs->n];
    sizes[0] = (quern_size){"M", m};
    sizes[1] = (quern_size){"N", n};
    jobs->job[jobs->n] = (struct job){.text = text,
                                      .sizes = sizes,
                                      .n_sizes = 2,
                                      .input_kind = inputs,
                                      .options = jobs->n % 2 ? &separate : options};
    jobs->n++;
}

static void run_all(struct jobs *jobs)
{
    int n_failed = run_jobs(jobs->job, jobs->n);
    for (int i = 0; i < jobs->n_texts; i++)
        free(jobs->texts[i]);
    free(jobs);
    ck_assert_int_eq(n_failed, 0);
}

static bool takes(const struct op_info *op, enum dtype dtype)
{
    enum dtype_class class = dtype_info[dtype].class;
    switch (op->types) {
    case TYPES_float:
    case TYPES_test:
        return class == CLASS_float;
    case TYPES_logic:
        return class == CLASS_boolean;
    case TYPES_same:
        return class != CLASS_boolean || !strcmp(op->name, "maximum") ||
               !strcmp(op->name, "minimum");
    case TYPES_compare:
    case TYPES_where:
        return true;
    case TYPES_index:
    case TYPES_own:
        break;
    }
    return false;
}

// One program with every elementwise operator of the table that takes this dtype.
static char *elementwise_program(enum dtype dtype)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    const char *type = dtype_info[dtype].name;
    fprintf(
        out,
        "program elementwise(M, N)\ninput x : %s[M, N]\ninput z : %s[M, N]\ninput p : bool[M, N]\n",
        type, type);
    fprintf(out, "output kept = where(p, x, z)\n");
    for (int op = 0; op < OP_COUNT; op++) {
        const struct op_info *info = &op_info[op];
        if (info->kind != KIND_elementwise || op == OP_cast || op == OP_where ||
            !takes(info, dtype))
            continue;
        const char *argument[] = {"", "(x)", "(x, z)", "(x, z, x)"};
        if (info->symbol)
            fprintf(out, "output y_%s = x %s z\n", info->name, info->symbol);
        else
            fprintf(out, "output y_%s = %s%s%s\n", info->name, info->name,
                    strcmp(info->name, "not") ? "" : " ", argument[info->arity]);
    }
    for (int to = 0; to < DT_COUNT; to++)
        fprintf(out, "output as_%s = cast(x, %s)\n", dtype_info[to].name, dtype_info[to].name);
    fclose(out);
    return text;
}

START_TEST(elementwise_operators_agree_with_the_reference)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);
    for (enum dtype dtype = 0; dtype < DT_COUNT; dtype++) {
        char *text = jobs->texts[jobs->n_texts++] = elementwise_program(dtype);
        bool all = dtype == DT_f32;
        for (int i = 0; i < (all ? COUNT(awkward) : COUNT(few)); i++) {
            bool integers = dtype_info[dtype].class != CLASS_float;
            add(jobs, text, integers ? "small integers" : "special", i % 2 ? 1 : 3,
                all ? awkward[i] : few[i]);
        }
    }
    run_all(jobs);
}
END_TEST

static const char activations[] =
    "program activations(M, N)\n"
    "input x : %s[M, N]\n"
    "output y1 = sigmoid(x)\noutput y2 = relu(x)\noutput y3 = leaky_relu(x)\noutput y4 = relu6(x)\n"
    "output y5 = elu(x)\noutput y6 = selu(x)\noutput y7 = celu(x)\noutput y8 = gelu(x)\n"
    "output y9 = gelu(x, approximate = \"tanh\")\noutput y10 = silu(x)\noutput y11 = mish(x)\n"
    "output y12 = softplus(x)\noutput y13 = softsign(x)\noutput y14 = hardsigmoid(x)\noutput y15 = "
    "hardswish(x)\n"
    "output y16 = hardtanh(x)\noutput y17 = logsigmoid(x)\noutput y18 = clamp(x, -0.5, 1.5)\n"
    "output y19 = square(x)\noutput y20 = reciprocal(x)\n";

static const char reductions[] =
    "program reductions(M, N)\n"
    "input x : %s[M, N]\n"
    "output a1 = sum(x, axis = 1)\noutput a2 = prod(x * 0.5, axis = 1)\noutput a3 = mean(x, axis = "
    "1)\n"
    "output a4 = var(x, axis = 1)\noutput a5 = std(x, axis = 1, correction = 0)\noutput a6 = "
    "norm(x, axis = 1)\n"
    "output a7 = any(x > 2, axis = 1)\noutput a8 = all(x > -2, axis = 1, keepdims = true)\n"
    "output b1 = sum(x, axis = 0)\noutput b2 = mean(x, axis = 0)\noutput b3 = var(x, axis = 0)\n"
    "output b4 = any(x > 2, axis = 0)\n"
    "output c1 = sum(x)\noutput c2 = mean(x)\noutput c3 = norm(x)\noutput c4 = all(x > -2)\n"
    "output d1 = sum(x.T, axis = 1)\noutput d2 = sum(x.T * 2, axis = 0)\n";

// These have no value over an empty axis.
static const char extremes[] =
    "program extremes(M, N)\n"
    "input x : %s[M, N]\n"
    "output a1 = max(x, axis = 1)\noutput a2 = min(x, axis = 1)\noutput a3 = argmax(x, axis = 1)\n"
    "output a4 = argmin(x, axis = 1, keepdims = true)\noutput a5 = amax(abs(x), axis = 1)\n"
    "output a6 = logsumexp(x, axis = 1)\noutput b1 = max(x, axis = 0)\noutput b2 = min(x, axis = "
    "0)\n"
    "output b3 = argmax(x, axis = 0)\noutput b4 = argmin(x, axis = 0)\noutput b5 = logsumexp(x, "
    "axis = 0)\n"
    "output c1 = max(x)\noutput c2 = min(x)\noutput c3 = amax(abs(x))\n";

static const char composites[] =
    "program composites(M, N)\n"
    "input x : %s[M, N]\nweight w : %s[N]\nweight b : %s[N]\n"
    "output y1 = softmax(x, axis = 1)\noutput y2 = log_softmax(x, axis = -1)\noutput y3 = "
    "layer_norm(x, w, b, 1e-5)\n"
    "output y4 = rms_norm(x, w, 1e-6)\noutput y5 = softmax(x, axis = 0)\n"
    "output y6 = softmax(gelu(x) + b, axis = 1) * w\noutput y7 = layer_norm(x)\n";

static const char long_rows[] = "program long_rows(M, N)\n"
                                "input x : %s[M, N]\nweight w : %s[N]\ninput z : %s[M]\n"
                                "output y1 = softmax(x * z[:, None], axis = 1) * w\n"
                                "output y2 = max(x, axis = 1)\n";

static const char shared_rows[] = "program shared_rows(M, N)\n"
                                  "input x : %s[M, N]\nweight w : %s[N]\nweight b : %s[N]\n"
                                  "output y1 = layer_norm(x, w, b, 1e-5)\n"
                                  "output y2 = max(x, axis = 1)\n";

static const char norms[] =
    "program norms(M, N)\n"
    "input x : %s[M, 4, N, 2]\nweight w : %s[4]\nweight b : %s[4]\nweight m : %s[4]\n"
    "output y1 = group_norm(x, 2, w, b)\noutput y2 = instance_norm(x)\n"
    "output y3 = batch_norm(x, m, square(w) + 0.5, w, b)\noutput y4 = batch_norm(x, None, None, w, "
    "b)\n";

static const char movements[] =
    "program movements(M, N)\n"
    "input x : %s[M, N]\ninput z : %s[M, N]\n"
    "output y1 = x.T + 1\noutput y2 = reshape(x, [N, M]) * 2\noutput y3 = flip(x, axis = 1) - z\n"
    "output y4 = concat([x, z * 2, x], axis = 1)\noutput y5 = stack([x, z], axis = 0)\n"
    "output y6 = pad(x, [[1, 2], [3, 0]]) + 1\noutput y7 = x[:, ::2]\noutput y8 = x[::-1, :] * z\n"
    "output y9 = broadcast_to(x[:, None, :], [M, 3, N]) * 2\noutput y10 = transpose(reshape(x, [M, "
    "N, 1]), 0, 2)\n"
    "output y11 = flatten(permute(stack([x, z], axis = 1), [2, 0, 1]))\n"
    "output y12 = sum(concat([x, z], axis = 0), axis = 0)\noutput y13 = squeeze(unsqueeze(x, 1), "
    "1) + z\n"
    "output y14 = sum(pad(x, [[0, 0], [1, 1]]), axis = 1)\noutput y15 = flatten(x)[::-1]\n";

static void run_over_sizes(const char *text, const char *inputs, int64_t m, bool empty_too)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    struct jobs *jobs = calloc(1, sizeof *jobs);
    for (int d = 0; d < 3; d++) {
        char *program = jobs->texts[jobs->n_texts++] = typed(text, dtypes[d]);
        for (int i = empty_too ? 0 : 1; i < (d ? COUNT(few) : COUNT(awkward)); i++)
            add(jobs, program, inputs, m, d ? few[i] : awkward[i]);
    }
    run_all(jobs);
}

START_TEST(activations_agree_with_the_reference)
{
    run_over_sizes(activations, "special", 2, true);
}
END_TEST

START_TEST(reductions_agree_with_the_reference)
{
    run_over_sizes(reductions, "normal", 3, true);
}
END_TEST

START_TEST(extremes_agree_with_the_reference)
{
    run_over_sizes(extremes, "special", 5, false);
}
END_TEST

START_TEST(composites_agree_with_the_reference)
{
    run_over_sizes(composites, "normal", 3, true);
}
END_TEST

// Blocks that walk through long rows with the next one on its way: on a small GPU's few SMs there
// are soon rows enough for that.
START_TEST(many_long_rows_agree_with_the_reference)
{
    static const quern_plan_options small = {.arch = "sm_87"};
    struct jobs *jobs = calloc(1, sizeof *jobs);
    char *text = jobs->texts[jobs->n_texts++] = typed(long_rows, "f32");
    add(jobs, text, "normal", 53, 16384);
    jobs->job[0].options = getenv("QUERN_TEST_DEVICE") ? NULL : &small;
    run_all(jobs);
}
END_TEST

// Rows that the blocks of a cluster share; the last ones' in shared memory too.
START_TEST(rows_of_clusters_agree_with_the_reference)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);
    char *f32 = jobs->texts[jobs->n_texts++] = typed(shared_rows, "f32");
    char *f16 = jobs->texts[jobs->n_texts++] = typed(shared_rows, "f16");
    add(jobs, f32, "normal", 9, 50000);
    add(jobs, f16, "normal", 66, 70001);
    add(jobs, f32, "normal", 66, 270004);
    run_all(jobs);
}
END_TEST

START_TEST(norms_agree_with_the_reference)
{
    run_over_sizes(norms, "normal", 2, false);
}
END_TEST

START_TEST(movements_agree_with_the_reference)
{
    run_over_sizes(movements, "normal", 4, true);
}
END_TEST

static const char transposes[] =
    "program transposes(M, N)\n"
    "input x : %s[M, N]\ninput v : %s[M, N]\ninput z : %s[N, M]\ninput w : %s[3, M, N]\n"
    "input b : %s[M]\ninput c : %s[N]\n"
    "output y1 = maximum(x.T, z)\noutput y2 = minimum(x.T, v.T)\n"
    "output y3 = maximum(permute(w, [0, 2, 1]), maximum(b, c[:, None]))\n"
    "output y4 = permute(w, [2, 0, 1])\noutput y5 = pad(x.T, [[1, 2], [3, 4]])\n"
    "output y6 = concat([x.T, z[1:5, :]], axis = 0)\n";

// Axes that move together, more operands than fit in large tiles, types of several sizes.
static const char mixed_transposes[] =
    "program mixed_transposes(M, N)\n"
    "input u : %s[20, M, N]\ninput x : f32[M, N, 40]\ninput p : bool[40, N, M]\n"
    "input a : %s[2, 40, M, N]\ninput f : %s[5, M, 1025]\n"
    "output y1 = permute(u, [1, 2, 0])\n"
    "output y2 = where(permute(p, [0, 2, 1]), permute(x, [2, 0, 1]), 3)\n"
    "output y3 = permute(a, [0, 2, 3, 1])\noutput y4 = permute(u[:19], [2, 1, 0])\n"
    "output y5 = maximum(maximum(f[0].T, f[1].T), maximum(f[2].T, maximum(f[3].T, f[4].T)))\n";

static void check_that_all_are_tiled(const char *text, int64_t m, int64_t n)
{
    struct compiled c;
    struct size sizes[] = {
        {"M", m},
        {"N", n}
    };
    compile_right_text(&c, text, &(struct compile_options){.sizes = sizes, .n_sizes = 2});
    for (int i = 0; i < c.program.n_kernels; i++)
        ck_assert_msg(strstr(c.program.kernels[i].source, "\"map_tiles.cuh\"") != NULL,
                      "M = %d, N = %d: not tiled:\n%s", (int)m, (int)n,
                      c.program.kernels[i].source);
    compiled_free(&c);
}

// A GPU of few SMs takes larger tiles.
static void add_transposes(struct jobs *jobs, const char *text, const char *inputs, int64_t m,
                           int64_t n)
{
    static const quern_plan_options small = {.arch = "sm_87"};
    check_that_all_are_tiled(text, m, n);
    add(jobs, text, inputs, m, n);
    if (getenv("QUERN_TEST_DEVICE"))
        return;
    add(jobs, text, inputs, m, n);
    jobs->job[jobs->n - 1].options = &small;
}

START_TEST(transposes_agree_with_the_reference)
{
    static const int64_t shapes[][2] = {
        {257,  257 },
        {64,   1040},
        {1025, 65  },
        {100,  700 },
        {4100, 16  },
        {256,  320 }
    };
    static const char *const dtypes[] = {"f32", "f16", "f64", "bool", "i8", "bf16"};
    struct jobs *jobs = calloc(1, sizeof *jobs);
    for (int d = 0; d < COUNT(dtypes); d++) {
        const char *inputs = d == 3 || d == 4 ? "small integers" : "normal";
        char *text = jobs->texts[d] = typed(transposes, dtypes[d]);
        for (int i = d % 2; i < COUNT(shapes); i += d ? 2 : 1)
            add_transposes(jobs, text, inputs, shapes[i][0], shapes[i][1]);
        jobs->n_texts++;
    }
    run_all(jobs);
}
END_TEST

START_TEST(mixed_transposes_agree_with_the_reference)
{
    static const char *const dtypes[] = {"f32", "f16", "f64", "bool"};
    struct jobs *jobs = calloc(1, sizeof *jobs);
    for (int d = 0; d < COUNT(dtypes); d++) {
        char *text = jobs->texts[jobs->n_texts++] = typed(mixed_transposes, dtypes[d]);
        for (int i = 0; i < 2; i++)
            add_transposes(jobs, text, d == 3 ? "small integers" : "normal", i ? 64 : 65,
                           i ? 64 : 71);
    }
    run_all(jobs);
}
END_TEST

static const char contractions[] =
    "program contractions(M, N, K, B)\n"
    "input a : %s[B, M, K]\ninput b : %s[B, K, N]\nweight w : %s[N, K]\nweight bias : %s[N]\n"
    "output y1 = a @ b\noutput y2 = linear(a, w, bias)\noutput y3 = gelu(linear(a * 2, w)) + 1\n"
    "output y4 = a.T @ a\noutput y5 = b.T @ a.T\noutput y6 = einsum(\"bmk,nk->bnm\", a, w)\n"
    "output y7 = linear(relu(a), w, bias)[0] + bias\n"
    "output y8 = triu(a @ (b * 2), 1)\noutput y9 = tril(linear(a, w), -2)\n";

START_TEST(contractions_agree_with_the_reference)
{
    static const int64_t shapes[][4] = {
        {1,   1,   1,    1},
        {2,   3,   17,   3},
        {17,  29,  41,   3},
        {33,  65,  127,  1},
        {32,  32,  32,   2},
        {1,   127, 33,   1},
        {127, 1,   33,   2},
        {3,   2,   1025, 1},
        {64,  128, 64,   1},
        {0,   3,   4,    1},
        {5,   7,   0,    1},
        {130, 136, 8,    1}
    };
    static const char *const dtypes[] = {"f32", "f16", "bf16", "f64", "i32"};
    struct jobs *jobs = calloc(1, sizeof *jobs);
    for (int d = 0; d < COUNT(dtypes); d++) {
        char *text = jobs->texts[jobs->n_texts++] = typed(contractions, dtypes[d]);
        if (d == 4)
            *strstr(text, "output y3") = '#';
        for (int i = 0; i < COUNT(shapes); i += d ? 3 : 1) {
            add(jobs, text, d == 4 ? "small integers" : "normal", shapes[i][0], shapes[i][1]);
            jobs->sizes[jobs->n - 1][2] = (quern_size){"K", shapes[i][2]};
            jobs->sizes[jobs->n - 1][3] = (quern_size){"B", shapes[i][3]};
            jobs->job[jobs->n - 1].n_sizes = 4;
        }
    }
    run_all(jobs);
}
END_TEST

static void add_case(Suite *suite, const char *name, const TTest *test)
{
    TCase *tests = tcase_create(name);
    tcase_set_timeout(tests, 400);
    tcase_add_test(tests, test);
    suite_add_tcase(suite, tests);
}

Suite *kernels_suite(void)
{
    Suite *suite = suite_create("kernels");
    add_case(suite, "elementwise", elementwise_operators_agree_with_the_reference);
    add_case(suite, "activations", activations_agree_with_the_reference);
    add_case(suite, "reductions", reductions_agree_with_the_reference);
    add_case(suite, "extremes", extremes_agree_with_the_reference);
    add_case(suite, "composites", composites_agree_with_the_reference);
    add_case(suite, "long_rows", many_long_rows_agree_with_the_reference);
    add_case(suite, "shared_rows", rows_of_clusters_agree_with_the_reference);
    add_case(suite, "norms", norms_agree_with_the_reference);
    add_case(suite, "movements", movements_agree_with_the_reference);
    add_case(suite, "transposes", transposes_agree_with_the_reference);
    add_case(suite, "mixed_transposes", mixed_transposes_agree_with_the_reference);
    add_case(suite, "contractions", contractions_agree_with_the_reference);
    return suite;
}
