// test_eval_reduce.c: reductions, softmax and matmul of the reference, over awkward lengths and
// values.

#include "tests/on_graph.h"
#include "tests/tests.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int lengths[] = {1,   2,    3,    17,   31,   32,    33,    63,    65,
                              127, 1023, 1024, 1025, 4099, 16385, 65537, 262147};
enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };

static double *filled(int64_t rows, int64_t width, double (*value)(int64_t r, int64_t c))
{
    double *x = malloc((size_t)(rows * width) * sizeof *x);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++)
            x[r * width + c] = value(r, c);
    return x;
}

static char *with_width(const char *pattern, int width) // W in the pattern is the width
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (const char *at = pattern; *at; at++)
        if (*at == 'W')
            fprintf(out, "%d", width);
        else
            fputc(*at, out);
    fclose(out);
    return text;
}

static const char softmax[] =
    "graph softmax()\n%0 = input \"x\" : f32[3,W]\n%1 = max %0 axes=[1] : f32[3,1]\n"
    "%2 = sub %0, %1 : f32[3,W]\n%3 = exp %2 : f32[3,W]\n"
    "%4 = sum %3 axes=[1] : f32[3,1]\n%5 = div %3, %4 : f32[3,W]\n%6 = log %4 : f32[3,1]\n"
    "%7 = add %1, %6 : f32[3,1]\noutput \"y\" = %5\noutput \"logsumexp\" = %7\n";

static double falling(int64_t r, int64_t c)
{
    (void)r;
    return -1000 - (double)c;
}

static double zero(int64_t r, int64_t c)
{
    (void)r, (void)c;
    return 0;
}

static double small_integers(int64_t r, int64_t c)
{
    return (double)((5 * c + r) % 7 - 3);
}

static void open_row(struct on_graph *t, const char *pattern, int width,
                     double (*value)(int64_t, int64_t))
{
    char *text = with_width(pattern, width);
    graph_open(t, text);
    double *x = filled(3, width, value);
    graph_set(t, 0, x);
    graph_eval(t, EVAL_exact);
    free(x);
    free(text);
}

START_TEST(softmax_of_every_length)
{
    struct on_graph t;
    int width = lengths[_i];
    open_row(&t, softmax, width, falling);
    double first = -expm1(-1) / -expm1(-width);
    for (int r = 0; r < 3; r++)
        ck_assert(fabs(graph_result(&t, 0, (int64_t)r * width) - first) < 1e-14);
    graph_close(&t);
    open_row(&t, softmax, width, zero);
    for (int64_t i = 0; i < 3 * (int64_t)width; i++)
        if (graph_result(&t, 0, i) != 1.0 / width)
            ck_abort_msg("element %ld is %g", (long)i, graph_result(&t, 0, i));
    graph_close(&t);
}
END_TEST

START_TEST(sums_of_small_integers_are_exact)
{
    static const int expected[N_LENGTHS][3] = {
        {-3, -2, -1},
        {-1, 1,  -4},
        {-1, 2,  -2},
        {-1, 2,  -2},
        {-1, 2,  -2},
        {-3, 1,  -2},
        {0,  -2, -4},
        {0,  0,  0 },
        {-1, 1,  -4},
        {-3, -2, -1},
        {-3, -2, -1},
        {-1, 1,  -4},
        {-1, 2,  -2},
        {-3, 1,  -2},
        {0,  -2, -4},
        {-1, 2,  -2},
        {-3, 1,  -2}
    };
    struct on_graph t;
    open_row(&t,
             "graph g()\n%0 = input \"x\" : f32[3,W]\n%1 = sum %0 axes=[1] : f32[3,1]\n"
             "output \"s\" = %1\n",
             lengths[_i], small_integers);
    for (int r = 0; r < 3; r++)
        ck_assert(graph_result(&t, 0, r) == expected[_i][r]);
    graph_close(&t);
}
END_TEST

START_TEST(one_nan_anywhere_is_the_largest_and_the_smallest)
{
    static const int widths[] = {5, 33, 1025, 70001};
    int width = widths[_i], places[] = {0, 1, width / 2, width - 2, width - 1};
    char *text = with_width("graph g()\n%0 = input \"x\" : f32[W]\n%1 = max %0 axes=[0] : f32[1]\n"
                            "%2 = min %0 axes=[0] : f32[1]\n%3 = argmax %0 axes=[0] : i64[1]\n"
                            "%4 = argmin %0 axes=[0] : i64[1]\noutput \"max\" = %1\n"
                            "output \"min\" = %2\noutput \"argmax\" = %3\noutput \"argmin\" = %4\n",
                            width);
    double *x = filled(1, width, small_integers);
    for (int p = 0; p < 5; p++) {
        struct on_graph t;
        graph_open(&t, text);
        double kept = x[places[p]], kept_last = x[width - 1];
        x[places[p]] = NAN;
        if (places[p] == 0)
            x[width - 1] = NAN; // the first one wins
        graph_set(&t, 0, x);
        graph_eval(&t, EVAL_exact);
        ck_assert(isnan(graph_result(&t, 0, 0)) && isnan(graph_result(&t, 1, 0)));
        ck_assert(graph_result(&t, 2, 0) == places[p] && graph_result(&t, 3, 0) == places[p]);
        x[width - 1] = kept_last;
        x[places[p]] = kept;
        graph_close(&t);
    }
    free(x);
    free(text);
}
END_TEST

static void expect_index(const char *op, int64_t n, const double *x, double index)
{
    char text[200];
    snprintf(text, sizeof text,
             "graph g()\n%%0 = input \"x\" : f32[%d]\n%%1 = %s %%0 axes=[0] : i64[1]\n"
             "output \"i\" = %%1\n",
             (int)n, op);
    expect_eval(text, EVAL_exact, x, 1, &index);
}

START_TEST(the_first_of_equals_is_found)
{
    static const double x[] = {1, 3, 3, 0, 0}, zeros[] = {0, -0.0, 0},
                        low[] = {-INFINITY, -INFINITY};
    expect_index("argmax", 5, x, 1);
    expect_index("argmin", 5, x, 3);
    expect_index("argmax", 3, zeros, 0);
    expect_index("argmin", 3, zeros, 0);
    expect_index("argmax", 2, low, 0);
}
END_TEST

START_TEST(softmax_and_logsumexp_with_infinities)
{
    static const double x[9] = {0, -INFINITY, -INFINITY, 1000, 999, -INFINITY, 88, 89, 90};
    static const double y[9] = {
        1, 0, 0, 0.7310585786, 0.2689414214, 0, 0.0900305732, 0.2447284711, 0.6652409558};
    static const double log_sum[3] = {0, 1000.3132617, 90.4076059644};
    struct on_graph t;
    char *text = with_width(softmax, 3);
    graph_open(&t, text);
    graph_set(&t, 0, x);
    graph_eval(&t, EVAL_exact);
    for (int i = 0; i < 9; i++)
        ck_assert(fabs(graph_result(&t, 0, i) - y[i]) < 1e-9);
    for (int r = 0; r < 3; r++)
        ck_assert(fabs(graph_result(&t, 1, r) - log_sum[r]) < 1e-6);
    static const double wild[9] = {-INFINITY, -INFINITY, -INFINITY, INFINITY, 0, 0, NAN, 0, 0};
    graph_set(&t, 0, wild);
    graph_eval(&t, EVAL_exact);
    ck_assert(isnan(graph_result(&t, 0, 0)) && isnan(graph_result(&t, 0, 3)));
    ck_assert(isnan(graph_result(&t, 0, 7)));
    free(text);
    graph_close(&t);
}
END_TEST

static const struct {
    const char *dtype;
    int length;
    double value, sum;
} long_sums[] = {
    {"f16",  4096,    1,    4096          },
    {"f16",  20000,   1,    20000         },
    {"bf16", 70000,   1,    70144         },
    {"f16",  70000,   1,    INFINITY      },
    {"f32",  1 << 20, 0.1f, 104857.6015625},
};

START_TEST(long_sums_in_low_precision_do_not_stall)
{
    char text[200];
    int n = long_sums[_i].length;
    const char *dtype = long_sums[_i].dtype;
    snprintf(text, sizeof text,
             "graph g()\n%%0 = constant %.9g : %s[]\n%%1 = broadcast %%0 : %s[%d]\n"
             "%%2 = sum %%1 axes=[0] : %s[1]\noutput \"s\" = %%2\n",
             long_sums[_i].value, dtype, dtype, n, dtype);
    double sum = strcmp(dtype, "f32") ? long_sums[_i].sum : (float)long_sums[_i].sum;
    expect_eval(text, EVAL_declared, NULL, 1, &sum);
}
END_TEST

START_TEST(a_sum_carries_its_rounding_error_along)
{
    static const double x[] = {1, 1e300, 1, -1e300, -1}, one = 1;
    expect_eval(
        "graph g()\n%0 = input \"x\" : f64[5]\n%1 = sum %0 axes=[0] : f64[1]\noutput \"s\" = %1\n",
        EVAL_exact, x, 1, &one);
    static const double wild[] = {INFINITY, 1, 2}, both[] = {INFINITY, -INFINITY, 1};
    static const double inf = INFINITY, nan = NAN;
    const char *text = "graph g()\n%0 = input \"x\" : f64[3]\n%1 = sum %0 axes=[0] : f64[1]\n"
                       "output \"s\" = %1\n";
    expect_eval(text, EVAL_exact, wild, 1, &inf);
    expect_eval(text, EVAL_exact, both, 1, &nan);
}
END_TEST

START_TEST(integer_sums_and_products_are_wide_and_wrap_at_64_bits)
{
    static const double x[] = {127, 127, 127, 127, 127}, sum = 635;
    expect_eval(
        "graph g()\n%0 = input \"x\" : i8[5]\n%1 = sum %0 axes=[0] : i64[1]\noutput \"s\" = %1\n",
        EVAL_exact, x, 1, &sum);
    static const double powers[] = {4294967296.0, 4294967296.0, 3}, product = 0;
    expect_eval(
        "graph g()\n%0 = input \"x\" : i64[3]\n%1 = prod %0 axes=[0] : i64[1]\noutput \"s\" = %1\n",
        EVAL_exact, powers, 1, &product);
    static const double bits[] = {1, 0, 1, 1, 0}, count = 3, all = 0;
    expect_eval(
        "graph g()\n%0 = input \"x\" : bool[5]\n%1 = sum %0 axes=[0] : i64[1]\noutput \"s\" = %1\n",
        EVAL_exact, bits, 1, &count);
    expect_eval("graph g()\n%0 = input \"x\" : bool[5]\n%1 = min %0 axes=[0] : bool[1]\noutput "
                "\"s\" = %1\n",
                EVAL_exact, bits, 1, &all);
}
END_TEST

START_TEST(matmul_by_the_identity_keeps_every_bit)
{
    struct on_graph t;
    graph_open(&t, "graph g()\n%0 = input \"a\" : f32[32,32]\n%1 = input \"b\" : f32[32,32]\n"
                   "%2 = matmul %0, %1 : f32[32,32]\noutput \"y\" = %2\n");
    double a[1024], identity[1024];
    for (int i = 0; i < 1024; i++) {
        a[i] = 1 + 0x1p-12;
        identity[i] = i / 32 == i % 32;
    }
    graph_set(&t, 0, a);
    graph_set(&t, 1, identity);
    graph_eval(&t, EVAL_exact);
    expect_values(&t, 0, 1024, a);
    graph_close(&t);
}
END_TEST

// Against the definition, with transposed operands, broadcast batches and sizes around the blocks.
static void expect_matmul(const char *dtype, int batch_a, int batch_b, int m, int k, int n)
{
    char text[500];
    int batch = batch_a > batch_b ? batch_a : batch_b;
    snprintf(text, sizeof text,
             "graph g()\n%%0 = input \"a\" : %s[%d,%d,%d]\n%%1 = input \"b\" : %s[%d,%d,%d]\n"
             "%%2 = permute %%1 perm=[0,2,1] : %s[%d,%d,%d]\n%%3 = matmul %%0, %%2 : %s[%d,%d,%d]\n"
             "output \"y\" = %%3\n",
             dtype, batch_a, m, k, dtype, batch_b, n, k, dtype, batch_b, k, n, dtype, batch, m, n);
    struct on_graph t;
    graph_open(&t, text);
    double *a = filled(batch_a * m, k, small_integers), *b = filled(batch_b * n, k, small_integers);
    graph_set(&t, 0, a);
    graph_set(&t, 1, b);
    graph_eval(&t, EVAL_exact);
    for (int z = 0; z < batch; z++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                const double *row = a + (batch_a > 1 ? z * m + i : i) * k;
                const double *column = b + (batch_b > 1 ? z * n + j : j) * k;
                double sum = 0;
                for (int p = 0; p < k; p++)
                    sum += row[p] * column[p];
                if (!strcmp(dtype, "i8"))
                    sum = (int8_t)(int64_t)sum;
                if (graph_result(&t, 0, ((int64_t)z * m + i) * n + j) != sum)
                    ck_abort_msg("%s: element %d,%d,%d is wrong", text, z, i, j);
            }
    free(a);
    free(b);
    graph_close(&t);
}

START_TEST(matmul_is_what_its_definition_says)
{
    expect_matmul("f32", 1, 1, 1, 1, 1);
    expect_matmul("f32", 1, 1, 3, 64, 256);
    expect_matmul("f32", 1, 1, 5, 65, 257);
    expect_matmul("f32", 3, 1, 7, 130, 9);
    expect_matmul("f64", 1, 4, 2, 33, 300);
    expect_matmul("bf16", 2, 2, 17, 5, 1);
    expect_matmul("i8", 2, 1, 3, 70, 5);
}
END_TEST

Suite *eval_reduce_suite(void)
{
    Suite *s = suite_create("eval_reduce");
    TCase *c = tcase_create("reductions");
    tcase_set_timeout(c, 30);
    tcase_add_loop_test(c, softmax_of_every_length, 0, N_LENGTHS);
    tcase_add_loop_test(c, sums_of_small_integers_are_exact, 0, N_LENGTHS);
    tcase_add_loop_test(c, one_nan_anywhere_is_the_largest_and_the_smallest, 0, 4);
    tcase_add_test(c, the_first_of_equals_is_found);
    tcase_add_test(c, softmax_and_logsumexp_with_infinities);
    tcase_add_loop_test(c, long_sums_in_low_precision_do_not_stall, 0,
                        (int)(sizeof long_sums / sizeof long_sums[0]));
    tcase_add_test(c, a_sum_carries_its_rounding_error_along);
    tcase_add_test(c, integer_sums_and_products_are_wide_and_wrap_at_64_bits);
    suite_add_tcase(s, c);
    c = tcase_create("matmul");
    tcase_set_timeout(c, 30);
    tcase_add_test(c, matmul_by_the_identity_keeps_every_bit);
    tcase_add_test(c, matmul_is_what_its_definition_says);
    suite_add_tcase(s, c);
    return s;
}
