// test_cases.c: shapes and axes that other compilers got wrong, with the exact values.
//
// Recipes use small integers, so that sums are exact in any order.  What a CPU takes too long for
// is smaller on the host device and whole on a GPU.

#include "tests/exact.h"
#include "tests/tests.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static double zero(const int64_t *at)
{
    (void)at;
    return 0;
}

static double one(const int64_t *at)
{
    (void)at;
    return 1;
}

static double position(const int64_t *at)
{
    return (double)at[0];
}

// ---- rows of every awkward length ----

static const int lengths[] = {1,   2,    3,    17,   31,   32,    33,    63,    65,
                              127, 1023, 1024, 1025, 4099, 16385, 65537, 262147};

static double falling(const int64_t *at)
{
    return -1000 - (double)at[1];
}

static double mod_7(const int64_t *at)
{
    return (double)((5 * at[1] + at[0]) % 7 - 3);
}

START_TEST(rows_of_every_length_are_right)
{
    struct exact e;
    int w = lengths[_i];
    char sizes[32];
    snprintf(sizes, sizeof sizes, "W=%d", w);
    exact_open(&e,
               "program rows(W)\ninput x : f32[3, W]\ninput y : f32[3, W]\ninput z : f32[3, W]\n"
               "output a = softmax(x)\noutput s = sum(y, axis = -1)\noutput b = softmax(z)\n",
               sizes);
    exact_set(&e, "x", falling);
    exact_set(&e, "y", mod_7);
    exact_set(&e, "z", zero);
    exact_run(&e);
    for (int r = 0; r < 3; r++) {
        double first = -expm1(-1) / -expm1(-w), sum = 0;
        for (int c = 0; c < w; c++) {
            double got = exact_got(&e, "a", (int64_t)r * w + c), right = first * exp(-c);
            ck_assert_msg(fabs(got - right) <= 1e-6 * right + 0x1p-148,
                          "softmax [%d,%d]: %.9g, not %.9g", r, c, got, right);
            got = exact_got(&e, "b", (int64_t)r * w + c);
            ck_assert_msg(fabs(got - 1.0 / w) <= 0x1p-22 / w, "softmax of zeros: %.9g", got);
            sum += mod_7((int64_t[]){r, c});
        }
        ck_assert_double_eq(exact_got(&e, "s", r), sum);
    }
    exact_close(&e);
}
END_TEST

START_TEST(the_least_of_16385_ones_is_one)
{
    struct exact e;
    exact_program(&e, "program p\ninput x : f16[2, 16385, 1]\noutput y = min(x, axis = (1, 2))\n",
                  NULL, one, NULL);
    exact_expect(&e, "y", 2, (double[]){1, 1}, 0);
    exact_close(&e);
}
END_TEST

// ---- more rows than a grid has in y and z ----

static const struct {
    int r;
    double total, last;
} many_rows[] = {
    {65536,  24764133, 75 },
    {65537,  24764211, 78 },
    {65535,  24764058, 72 },
    {70001,  26451012, 669},
    {131073, 49530294, 153},
};

static double mod_251(const int64_t *at)
{
    return (double)(at[0] % 251);
}

static double mod_251_of_second(const int64_t *at)
{
    return (double)(at[1] % 251);
}

static double mod_251_and_column(const int64_t *at)
{
    return (double)(at[0] % 251 + at[1]);
}

START_TEST(more_than_65535_rows_are_right)
{
    struct exact e;
    char sizes[32];
    static const char *const totals[] = {"t0", "t1", "t2", "t3"},
                             *sums[] = {"s0", "s1", "s2", "s3"};
    snprintf(sizes, sizeof sizes, "R=%d", many_rows[_i].r);
    exact_open(
        &e,
        "program p(R)\ninput b : f32[3]\n"
        "input x0 : f32[R, 3]\ninput x1 : f32[R, 1, 3]\ninput x2 : f32[1, R, 3]\n"
        "input x3 : f32[3, R]\ny1 = x1 + b\ny2 = x2 + b\ny3 = x3.T + b\n"
        "output y0 = x0 + b\noutput s0 = sum(y0, axis = -1)\noutput t0 = sum(cast(y0, i64))\n"
        "output s1 = sum(y1, axis = -1)\noutput t1 = sum(cast(y1, i64))\n"
        "output s2 = sum(y2, axis = -1)\noutput t2 = sum(cast(y2, i64))\n"
        "output s3 = sum(y3, axis = -1)\noutput t3 = sum(cast(y3, i64))\n",
        sizes);
    exact_set(&e, "b", position);
    exact_set(&e, "x0", mod_251);
    exact_set(&e, "x1", mod_251);
    exact_set(&e, "x2", mod_251_of_second);
    exact_set(&e, "x3", mod_251_of_second);
    exact_run(&e);
    exact_values(&e, "y0", mod_251_and_column, 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_double_eq(exact_got(&e, totals[i], 0), many_rows[_i].total);
        ck_assert_double_eq(exact_got(&e, sums[i], many_rows[_i].r - 1), many_rows[_i].last);
    }
    exact_close(&e);
    exact_still_usable();
}
END_TEST

static double mod_11(const int64_t *at)
{
    return (double)((3 * at[0] + at[1] + at[2]) % 11 - 5);
}

START_TEST(a_middle_axis_of_65537_is_summed)
{
    struct exact e;
    exact_program(&e, "program p\ninput x : f32[2, 65537, 3]\noutput y = sum(x, axis = 1)\n", NULL,
                  mod_11, NULL);
    exact_expect(&e, "y", 6, (double[]){-5, 5, 4, 3, 2, 1}, 0);
    exact_close(&e);
}
END_TEST

static double mod_8(const int64_t *at)
{
    return (double)((at[0] + at[1] + at[2]) % 8);
}

START_TEST(rows_of_65536_times_225_are_summed)
{
    struct exact e;
    int n = exact_on_gpu() ? 225 : 5;
    exact_program(&e, "program p(N)\ninput x : f32[65536, N, 4]\noutput y = sum(x, axis = -1)\n",
                  exact_on_gpu() ? "N=225" : "N=5", mod_8, NULL);
    ck_assert_double_eq(exact_got(&e, "y", 0), 6);
    for (int64_t i = 0; i < 65536 * (int64_t)n; i++) {
        double sum = 0;
        for (int k = 0; k < 4; k++)
            sum += (double)((i / n + i % n + k) % 8);
        ck_assert_double_eq(exact_got(&e, "y", i), sum);
    }
    if (exact_on_gpu())
        ck_assert_double_eq(exact_got(&e, "y", 65536 * 225 - 1), 10);
    exact_close(&e);
}
END_TEST

// ---- dimensions of size 0 ----

START_TEST(empty_axes_have_their_shapes_and_neutral_values)
{
    struct exact e;
    exact_open(&e,
               "program p\ninput x : f32[3, 4, 0, 5]\ninput z : f32[5, 0]\ninput u : f32[0, 7]\n"
               "output a = sum(x, axis = 1)\noutput b = sum(x, axis = 2)\n"
               "output c = sum(x, axis = 2, keepdims = true)\noutput d = max(x, axis = 1)\n"
               "output f = mean(x, axis = 2)\noutput g = x * 2 + 1\n"
               "output h = sum(z, axis = 1)\noutput i = sum(z, axis = 0)\n"
               "output j = softmax(u, axis = 1)\noutput k = softmax(u.T, axis = 1)\n",
               NULL);
    exact_run(&e);
    exact_shape(&e, "a", 3, (int64_t[]){3, 0, 5});
    exact_shape(&e, "b", 3, (int64_t[]){3, 4, 5});
    exact_shape(&e, "c", 4, (int64_t[]){3, 4, 1, 5});
    exact_shape(&e, "d", 3, (int64_t[]){3, 0, 5});
    exact_shape(&e, "g", 4, (int64_t[]){3, 4, 0, 5});
    exact_shape(&e, "i", 1, (int64_t[]){0});
    exact_shape(&e, "j", 2, (int64_t[]){0, 7});
    exact_shape(&e, "k", 2, (int64_t[]){7, 0});
    exact_values(&e, "b", zero, 0);
    exact_values(&e, "c", zero, 0);
    exact_expect(&e, "h", 5, (double[]){0, 0, 0, 0, 0}, 0);
    for (int i = 0; i < 60; i++)
        ck_assert(isnan(exact_got(&e, "f", i)));
    exact_close(&e);
    exact_still_usable();
}
END_TEST

static void expect_refused(const char *text, const char *sizes, const char *part)
{
    char *said = exact_refused(text, sizes);
    ck_assert_msg(strstr(said, part), "`%s` is not in: %s", part, said);
    free(said);
}

START_TEST(the_largest_of_nothing_is_refused)
{
    expect_refused("program p\ninput x : f32[3, 4, 0, 5]\noutput y = max(x, axis = 2)\n", NULL,
                   "max");
    exact_still_usable();
}
END_TEST

// ---- axes ----

static double flat(const int64_t *at)
{
    static const int64_t dim[] = {3, 2, 3, 3, 3, 3};
    int64_t i = 0;
    for (int d = 0; d < 6; d++)
        i = i * dim[d] + at[d];
    return (double)i;
}

START_TEST(axes_may_be_negative_and_unsorted)
{
    struct exact e;
    static const char *const sums[] = {"a", "b", "c", "d"};
    exact_program(&e,
                  "program p\ninput x : i64[3, 2, 3, 3, 3, 3]\n"
                  "output a = sum(x, axis = (0, 1, 3, 4, 5))\n"
                  "output b = sum(x, axis = (-6, -5, -3, -2, -1))\n"
                  "output c = sum(x, axis = (5, 0, 3, 1, 4))\n"
                  "output d = sum(cast(x, f32), axis = (5, 0, 3, 1, 4), keepdims = true)\n"
                  "output m = max(x, axis = (5, 0, 3, 1, 4), keepdims = true)\n",
                  NULL, flat, NULL);
    for (int i = 0; i < COUNT(sums); i++)
        exact_expect(&e, sums[i], 3, (double[]){34911, 39285, 43659}, 0);
    exact_expect(&e, "m", 3, (double[]){431, 458, 485}, 0);
    exact_shape(&e, "a", 1, (int64_t[]){3});
    exact_shape(&e, "m", 6, (int64_t[]){1, 1, 3, 1, 1, 1});
    exact_close(&e);
}
END_TEST

START_TEST(wrong_axes_are_refused_by_name)
{
    expect_refused("program p\ninput x : f32[3, 2]\noutput y = sum(x, axis = (0, -2))\n", NULL,
                   "axis");
    expect_refused("program p\ninput x : f32[3, 2]\noutput y = sum(x, axis = 2)\n", NULL, "axis 2");
    expect_refused("program p\ninput x : f32[]\noutput y = sum(x, axis = 0)\n", NULL, "axis 0");
}
END_TEST

static double of_2_1_3(const int64_t *at)
{
    return (double)(3 * at[0] + at[2]);
}

START_TEST(an_axis_of_one_and_no_axis_at_all_are_reduced)
{
    struct exact e;
    static const char *const same[] = {"a", "b", "c"};
    exact_open(&e,
               "program p\ninput u : f32[2, 1, 3]\ninput v : f32[]\n"
               "output a = sum(u, axis = 1)\noutput b = max(u, axis = 1)\n"
               "output c = mean(u, axis = 1)\noutput d = argmax(u, axis = 1)\n"
               "output f = sum(v)\noutput g = max(v, axis = ())\n",
               NULL);
    exact_set(&e, "u", of_2_1_3);
    exact_list(&e, "v", 1, (double[]){2.5});
    exact_run(&e);
    for (int i = 0; i < COUNT(same); i++)
        exact_expect(&e, same[i], 6, (double[]){0, 1, 2, 3, 4, 5}, 0);
    exact_expect(&e, "d", 6, (double[]){0, 0, 0, 0, 0, 0}, 0);
    exact_expect(&e, "f", 1, (double[]){2.5}, 0);
    exact_expect(&e, "g", 1, (double[]){2.5}, 0);
    exact_close(&e);
}
END_TEST

START_TEST(broadcasting_reaches_rank_12)
{
    struct exact e;
    double a[75];
    exact_open(&e,
               "program p\ninput a : f32[1, 1, 3, 1, 1, 1, 1, 1, 1, 1, 5, 5]\n"
               "input b : f32[1, 1, 3, 1, 1, 5, 5]\noutput y = minimum(a, b)\n",
               NULL);
    for (int i = 0; i < 75; i++)
        a[i] = i;
    exact_list(&e, "a", 75, a);
    for (int i = 0; i < 75; i++)
        a[i] = 40;
    exact_list(&e, "b", 75, a);
    exact_run(&e);
    exact_shape(&e, "y", 12, (int64_t[]){1, 1, 3, 1, 1, 1, 1, 3, 1, 1, 5, 5});
    for (int i = 0; i < 225; i++)
        ck_assert_double_eq(exact_got(&e, "y", i), fmin(i / 75 * 25 + i % 25, 40));
    exact_close(&e);
}
END_TEST

Suite *cases_suite(void)
{
    Suite *suite = suite_create("cases");
    TCase *t = tcase_create("shapes");
    tcase_set_timeout(t, 60);
    bool all = exact_on_gpu(); // a CPU is spared the largest
    tcase_add_loop_test(t, rows_of_every_length_are_right, 0, COUNT(lengths) - (all ? 0 : 1));
    tcase_add_test(t, the_least_of_16385_ones_is_one);
    tcase_add_loop_test(t, more_than_65535_rows_are_right, 0, all ? COUNT(many_rows) : 2);
    tcase_add_test(t, a_middle_axis_of_65537_is_summed);
    tcase_add_test(t, rows_of_65536_times_225_are_summed);
    tcase_add_test(t, empty_axes_have_their_shapes_and_neutral_values);
    tcase_add_test(t, the_largest_of_nothing_is_refused);
    tcase_add_test(t, axes_may_be_negative_and_unsorted);
    tcase_add_test(t, wrong_axes_are_refused_by_name);
    tcase_add_test(t, an_axis_of_one_and_no_axis_at_all_are_reduced);
    tcase_add_test(t, broadcasting_reaches_rank_12);
    suite_add_tcase(suite, t);
    return suite;
}
