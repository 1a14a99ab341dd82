// test_extremes.c: NaN, infinities and arguments where exp and its kind end, with the exact values.

#include "tests/exact.h"
#include "tests/tests.h"
#include <math.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

// ---- NaN ----

START_TEST(nan_passes_through_the_larger_and_the_smaller)
{
    struct exact e;
    exact_open(&e,
               "program p\ninput x : f32[4]\ninput y : f32[4]\ninput z : f32[3]\n"
               "output a = maximum(x, y)\noutput b = minimum(x, y)\noutput c = relu(z)\n"
               "output d = clip(z * 3, 0, 6)\noutput f = maximum(full([4], nan), 1) + x * 0\n"
               "output g = max(stack([full([4], nan), full([4], inf)]), axis = 0)\n",
               NULL);
    exact_list(&e, "x", 4, (double[]){NAN, 1, NAN, 0});
    exact_list(&e, "y", 4, (double[]){1, NAN, NAN, 0});
    exact_list(&e, "z", 3, (double[]){NAN, -1, 3});
    exact_run(&e);
    exact_expect(&e, "a", 4, (double[]){NAN, NAN, NAN, 0}, 0);
    exact_expect(&e, "b", 4, (double[]){NAN, NAN, NAN, 0}, 0);
    exact_expect(&e, "c", 3, (double[]){NAN, 0, 3}, 0);
    exact_expect(&e, "d", 3, (double[]){NAN, 0, 6}, 0);
    exact_expect(&e, "f", 4, (double[]){NAN, NAN, NAN, NAN}, 0);
    exact_expect(&e, "g", 4, (double[]){NAN, NAN, NAN, NAN}, 0);
    exact_close(&e);
}
END_TEST

static const int nan_lengths[] = {5, 33, 1025, 70001};

START_TEST(one_nan_in_a_row_is_its_largest_and_smallest)
{
    struct exact e;
    char sizes[32];
    int n = nan_lengths[_i];
    int at[] = {0, 1, n / 2, n - 2, n - 1};
    snprintf(sizes, sizeof sizes, "L=%d", n);
    exact_open(&e,
               "program p(L)\ninput x : f32[8, L]\noutput a = max(x, axis = 1)\n"
               "output b = min(x, axis = 1)\noutput c = max(x.T, axis = 0)\n",
               sizes);
    float *x = e.host[0];
    for (int r = 0; r < 8; r++)
        for (int i = 0; i < n; i++)
            x[r * n + i] = r == 5 ? NAN : (float)(i % 13);
    for (int r = 0; r < 5; r++)
        x[r * n + at[r]] = NAN;
    x[6 * n] = NAN, x[6 * n + n - 1] = INFINITY;
    exact_run(&e);
    static const char *const outputs[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < 7; r++)
            ck_assert_msg(isnan(exact_got(&e, outputs[i], r)), "%s, row %d", outputs[i], r);
    ck_assert_double_eq(exact_got(&e, "a", 7), n < 13 ? n - 1 : 12);
    ck_assert_double_eq(exact_got(&e, "b", 7), 0);
    exact_close(&e);
}
END_TEST

// ---- softmax and logsumexp ----

static const int widths[] = {4, 64, 71, 5000};

// Eight rows; what follows their four columns is -inf.
static const double logits[8][4] = {
    {0,         -INFINITY, -INFINITY, -INFINITY},
    {1000,      999,       -INFINITY, -INFINITY},
    {-1000,     -999,      -INFINITY, -INFINITY},
    {88,        89,        90,        -INFINITY},
    {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
    {INFINITY,  0,         -INFINITY, -INFINITY},
    {NAN,       0,         -INFINITY, -INFINITY},
    {1000,      1000,      1000,      1000     },
};
static const double shares[8][4] = {
    {1,         0,         0,         0   },
    {0.7310586, 0.2689414, 0,         0   },
    {0.2689414, 0.7310586, 0,         0   },
    {0.0900306, 0.2447285, 0.6652410, 0   },
    {NAN,       NAN,       NAN,       NAN },
    {NAN,       NAN,       NAN,       NAN },
    {NAN,       NAN,       NAN,       NAN },
    {0.25,      0.25,      0.25,      0.25},
};
static const double logarithms[8] = {0,         1000.31323, -998.68677, 90.407608,
                                     -INFINITY, INFINITY,   NAN,        1001.38629};

static double logit(const int64_t *at)
{
    return at[1] < 4 ? logits[at[0]][at[1]] : -INFINITY;
}

START_TEST(large_and_infinite_logits_are_right_side_by_side)
{
    struct exact e;
    char sizes[32];
    int n = widths[_i];
    snprintf(sizes, sizeof sizes, "N=%d", n);
    exact_program(&e,
                  "program p(N)\ninput x : f32[8, N]\noutput y = softmax(x)\n"
                  "output s = logsumexp(x, axis = -1)\noutput l = log_softmax(x)\n",
                  sizes, logit, NULL);
    for (int r = 0; r < COUNT(logits); r++) {
        double rest = isnan(shares[r][0]) ? NAN : 0;
        for (int c = 0; c < n; c++)
            exact_about(exact_got(&e, "y", r * n + c), c < 4 ? shares[r][c] : rest, 1e-6);
        exact_about(exact_got(&e, "s", r), logarithms[r], 1e-7);
    }
    exact_about(exact_got(&e, "l", n), -0.31326169, 1e-6);
    exact_close(&e);
}
END_TEST

// ---- activations ----

START_TEST(activations_hold_at_the_extremes)
{
    struct exact e;
    exact_open(&e,
               "program p\ninput x : f32[6]\ninput y : f32[2]\noutput a = sigmoid(x)\n"
               "output b = silu(x)\noutput c = log1p(exp(-y))\noutput d = logsigmoid(x)\n",
               NULL);
    static const double x[] = {-1e4, -88.8, -20, 0, 88.8, 1e4};
    static const double a[] = {0, 2.7205e-39, 2.0611537e-09, 0.5, 1, 1};
    static const double b[] = {0, -2.4158e-37, -4.1223072e-08, 0, 88.8, 1e4};
    exact_list(&e, "x", 6, x);
    exact_list(&e, "y", 2, (double[]){87, 88});
    exact_run(&e);
    for (int i = 0; i < 6; i++) {
        exact_about(exact_got(&e, "a", i), a[i], i == 1 ? 1e-4 : 1e-6);
        exact_about(exact_got(&e, "b", i), b[i], i == 1 ? 1e-4 : 1e-6);
    }
    exact_about(exact_got(&e, "c", 0), 1.6458115e-38, 1e-6);
    exact_about(exact_got(&e, "c", 1), 6.0546015e-39, 1e-6);
    exact_about(exact_got(&e, "d", 0), -1e4, 1e-6);
    exact_about(exact_got(&e, "d", 5), 0, 0);
    exact_close(&e);
}
END_TEST

START_TEST(sigmoid_of_f16_is_rounded_once)
{
    struct exact e;
    exact_open(&e, "program p\ninput x : f16[4]\noutput y = sigmoid(x)\n", NULL);
    exact_list(&e, "x", 4, (double[]){-7.84765625, 7.33203125, -7.80078125, 6.6015625});
    exact_run(&e);
    static const double right[] = {0.00039053, 0.99951172, 0.00040936, 0.99853516};
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(exact_got(&e, "y", i), right[i], 1e-8);
    exact_close(&e);
}
END_TEST

START_TEST(the_two_gelus_are_two)
{
    struct exact e;
    static const double x[] = {-3, -1, 0.5, 1, 3, -20, 1e13};
    static const double by_erf[] = {-0.00404969, -0.15865525, 0.34573123, 0.84134475,
                                    2.99595031,  0,           1e13};
    static const double by_tanh[] = {-0.00363739, -0.15880801, 0.34571401, 0.84119199,
                                     2.99636261,  0,           1e13};
    exact_open(&e,
               "program p\ninput x : f32[7]\noutput a = gelu(x)\n"
               "output b = gelu(x, approximate = \"tanh\")\n",
               NULL);
    exact_list(&e, "x", 7, x);
    exact_run(&e);
    for (int i = 0; i < 7; i++) {
        double room = fmax(1e-6, 1e-7 * fabs(x[i]));
        ck_assert_double_eq_tol(exact_got(&e, "a", i), by_erf[i], room);
        ck_assert_double_eq_tol(exact_got(&e, "b", i), by_tanh[i], room);
    }
    exact_close(&e);
}
END_TEST

Suite *extremes_suite(void)
{
    Suite *suite = suite_create("extremes");
    TCase *t = tcase_create("extremes");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, nan_passes_through_the_larger_and_the_smaller);
    tcase_add_loop_test(t, one_nan_in_a_row_is_its_largest_and_smallest, 0, COUNT(nan_lengths));
    tcase_add_loop_test(t, large_and_infinite_logits_are_right_side_by_side, 0, COUNT(widths));
    tcase_add_test(t, activations_hold_at_the_extremes);
    tcase_add_test(t, sigmoid_of_f16_is_rounded_once);
    tcase_add_test(t, the_two_gelus_are_two);
    suite_add_tcase(suite, t);
    return suite;
}
