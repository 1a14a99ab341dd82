// test_tolerance.c: what is tolerated lets right arithmetic pass and wrong kernels fail.

#include "tests/on_graph.h"
#include "tests/tests.h"
#include <math.h>
#include <stdlib.h>

static struct tolerance of(const char *text)
{
    struct on_graph t;
    graph_open(&t, text);
    struct tolerance allowed = tolerance(t.graph, t.graph->outputs[0].node);
    graph_close(&t);
    return allowed;
}

static const char matmul_text[] = "graph g()\n%0 = input \"a\" : f32[64,4096]\n"
                                  "%1 = input \"b\" : f32[4096,64]\n"
                                  "%2 = matmul %0, %1 : f32[64,64]\noutput \"y\" = %2\n";

static double random_normal(uint64_t *state) // near enough: a sum of twelve
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        sum += (double)(*state >> 11) * 0x1p-53;
    }
    return sum;
}

static float to_tf32(float x)
{
    return (float)(round(ldexp(x, 10 - ilogb(x))) * ldexp(1, ilogb(x) - 10));
}

enum { M = 64, K = 4096, N = 64 };

// How many of the M x N dots, in f32 over blocks of 32, are outside of what is tolerated.
static int n_outside(const float *a, const float *b, const double *exact, int k, bool tf32)
{
    struct tolerance allowed = of(matmul_text);
    int outside = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float total = 0;
            for (int p0 = 0; p0 < k; p0 += 32) {
                float part = 0;
                for (int p = p0; p < p0 + 32 && p < k; p++)
                    part += tf32 ? to_tf32(a[i * K + p]) * to_tf32(b[p * N + j])
                                 : a[i * K + p] * b[p * N + j];
                total += part;
            }
            double expected = exact[i * N + j];
            outside +=
                !(fabs(total - expected) <= allowed.absolute + allowed.relative * fabs(expected));
        }
    return outside;
}

START_TEST(f32_products_pass_and_tf32_and_a_lost_k_fail)
{
    uint64_t state = 7;
    float *a = malloc(M * K * sizeof *a), *b = malloc(K * N * sizeof *b);
    double *exact = calloc(M * N, sizeof *exact);
    for (int i = 0; i < M * K; i++)
        a[i] = (float)random_normal(&state);
    for (int i = 0; i < K * N; i++)
        b[i] = (float)random_normal(&state);
    for (int i = 0; i < M; i++)
        for (int p = 0; p < K; p++)
            for (int j = 0; j < N; j++)
                exact[i * N + j] += (double)a[i * K + p] * b[p * N + j];
    ck_assert_int_eq(n_outside(a, b, exact, K, false), 0);
    ck_assert_int_gt(n_outside(a, b, exact, K, true), M * N / 2);
    ck_assert_int_gt(n_outside(a, b, exact, K - 1, false), M * N / 2);
    free(a);
    free(b);
    free(exact);
}
END_TEST

START_TEST(integers_and_what_decides_are_exact)
{
    struct tolerance t =
        of("graph g()\n%0 = input \"x\" : i32[100]\n%1 = sum %0 axes=[0] : i64[1]\n"
           "output \"y\" = %1\n");
    ck_assert(t.absolute == 0 && t.relative == 0);
    t = of("graph g()\n%0 = input \"x\" : f32[100]\n%1 = constant 3 : f32[]\n"
           "%2 = div %0, %1 : f32[100]\n%3 = round %2 : f32[100]\noutput \"y\" = %3\n");
    ck_assert(t.absolute < 1e-40 && t.relative < 2e-7);
}
END_TEST

START_TEST(small_probabilities_are_checked_relative_to_their_size)
{
    struct tolerance t =
        of("graph g()\n%0 = input \"x\" : f32[8,4096]\n%1 = max %0 axes=[1] : f32[8,1]\n"
           "%2 = sub %0, %1 : f32[8,4096]\n%3 = exp %2 : f32[8,4096]\n"
           "%4 = sum %3 axes=[1] : f32[8,1]\n%5 = div %3, %4 : f32[8,4096]\n"
           "output \"y\" = %5\n");
    ck_assert(t.absolute < 1e-40);
    ck_assert(t.relative > 1e-6 && t.relative < 1e-5); // one of 4096 terms lost: 2.4e-4
}
END_TEST

START_TEST(narrow_outputs_are_allowed_their_own_rounding)
{
    struct tolerance half = of("graph g()\n%0 = input \"x\" : f16[8]\n%1 = exp %0 : f16[8]\n"
                               "output \"y\" = %1\n");
    struct tolerance bfloat = of("graph g()\n%0 = input \"x\" : bf16[8]\n%1 = exp %0 : bf16[8]\n"
                                 "output \"y\" = %1\n");
    ck_assert(half.relative >= 0x1p-10 && half.relative < 0x1.1p-10);
    ck_assert(bfloat.relative >= 0x1p-7 && bfloat.relative < 0x1.1p-7);
    ck_assert(half.absolute >= 0x1p-25); // a subnormal may be rounded away
}
END_TEST

START_TEST(a_missing_bias_or_scale_fails_after_a_long_program)
{
    struct on_graph t;
    FILE *in = fopen("tests/golden/print/quant_linear.txt", "r");
    ck_assert_msg(in != NULL, "run this from the repository's root");
    char *text = NULL;
    size_t size = 0;
    ck_assert(getdelim(&text, &size, 0, in) > 0);
    fclose(in);
    graph_open(&t, text);
    struct tolerance allowed = tolerance(t.graph, t.graph->outputs[0].node);
    ck_assert(allowed.absolute > 1e-6 && allowed.absolute < 1e-3);
    ck_assert(allowed.relative < 1e-4);
    graph_close(&t);
    free(text);
}
END_TEST

START_TEST(a_long_chain_stays_finite)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fputs("graph g()\n%0 = input \"x\" : f32[3]\n%1 = constant 3 : f32[]\n", out);
    for (int i = 2; i < 2000; i++)
        fprintf(out, "%%%d = mul %%%d, %%1 : f32[3]\n", i, i - 1 > 1 ? i - 1 : 0);
    fputs("output \"y\" = %1999\n", out);
    fclose(out);
    struct tolerance t = of(text);
    ck_assert(isfinite(t.absolute) && t.relative < 1e-3);
    free(text);
}
END_TEST

Suite *tolerance_suite(void)
{
    Suite *s = suite_create("tolerance");
    TCase *c = tcase_create("tolerance");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, f32_products_pass_and_tf32_and_a_lost_k_fail);
    tcase_add_test(c, integers_and_what_decides_are_exact);
    tcase_add_test(c, small_probabilities_are_checked_relative_to_their_size);
    tcase_add_test(c, narrow_outputs_are_allowed_their_own_rounding);
    tcase_add_test(c, a_missing_bias_or_scale_fails_after_a_long_program);
    tcase_add_test(c, a_long_chain_stays_finite);
    suite_add_tcase(s, c);
    return s;
}
