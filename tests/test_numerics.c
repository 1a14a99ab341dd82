// test_numerics.c: numbers that other compilers got wrong: ties, division, long sums, narrow types,
// with the exact values.

#include "tests/exact.h"
#include "tests/tests.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static double one(const int64_t *at)
{
    (void)at;
    return 1;
}

static double of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

// ---- rounding and fake quantisation ----

START_TEST(ties_go_to_even)
{
    struct exact e;
    exact_open(&e, "program p\ninput x : f32[11]\noutput y = round(x)\n", NULL);
    exact_list(&e, "x", 11,
               (double[]){-3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 0x1.fffffep-2, -0x1.fffffep-2,
                          8388609});
    exact_run(&e);
    exact_expect(&e, "y", 11, (double[]){-4, -2, -2, -0.0, 0, 2, 2, 4, 0, -0.0, 8388609}, 0);
    exact_close(&e);
}
END_TEST

static const struct {
    uint32_t s, x;
    int divided, multiplied; // codes by x / s, and by x * (1 / s)
} quantised[] = {
    {0x3dcccccd, 0x3fc66666, 15,   16  },
    {0x3dcccccd, 0x40166666, 23,   24  },
    {0x3dcccccd, 0x41026666, 81,   82  },
    {0x3e99999a, 0x3fd33333, 5,    6   },
    {0x3e99999a, 0x40100000, 7,    8   },
    {0x3e99999a, 0x41473333, 41,   42  },
    {0x3be56042, 0x3d1db22d, 6,    5   },
    {0x3be56042, 0x3d883127, 10,   9   },
    {0x3be56042, 0x3e0bc6a8, 20,   19  },
    {0x3f800000, 0x42fd0000, 126,  126 }, // 126.5
    {0x3f800000, 0x42ff0000, 127,  127 }, // 127.5
    {0x3f800000, 0xc3018000, -128, -128}, // -129.5
};

START_TEST(division_stays_a_division_and_a_product_a_product)
{
    struct exact e;
    enum { N = COUNT(quantised) };
    double x[N], s[N], divided[N], multiplied[N], back[N];
    for (int i = 0; i < N; i++) {
        x[i] = of_bits(quantised[i].x);
        s[i] = of_bits(quantised[i].s);
        divided[i] = quantised[i].divided;
        multiplied[i] = quantised[i].multiplied;
        back[i] = (double)(float)(divided[i] * s[i]);
    }
    exact_open(&e,
               "program p\ninput x : f32[12]\ninput s : f32[12]\n"
               "q = cast(clip(round(x / s), -128, 127), i8)\noutput a = q\noutput d = q * s\n"
               "output b = cast(clip(round(x * (1 / s)), -128, 127), i8)\n",
               NULL);
    exact_list(&e, "x", N, x);
    exact_list(&e, "s", N, s);
    exact_run(&e);
    exact_expect(&e, "a", N, divided, 0);
    exact_expect(&e, "b", N, multiplied, 0);
    exact_expect(&e, "d", N, back, 0);
    exact_close(&e);
}
END_TEST

// The scale is a constant of the program: it must not become a product either.
START_TEST(division_by_a_constant_is_exact)
{
    struct exact e;
    exact_open(
        &e,
        "program p\ninput x : f32[3]\ninput y : f32[3]\ninput z : f32[3]\n"
        "output a = round(x / 0.1)\noutput b = round(y / 0.3)\noutput c = round(z / 0.007)\n",
        NULL);
    static const char *const inputs[] = {"x", "y", "z"}, *outputs[] = {"a", "b", "c"};
    double right[3];
    for (int i = 0; i < 3; i++) {
        double x[3];
        for (int k = 0; k < 3; k++)
            x[k] = of_bits(quantised[3 * i + k].x);
        exact_list(&e, inputs[i], 3, x);
    }
    exact_run(&e);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++)
            right[k] = quantised[3 * i + k].divided;
        exact_expect(&e, outputs[i], 3, right, 0);
    }
    exact_close(&e);
}
END_TEST

START_TEST(a_scale_for_each_row_is_a_division_too)
{
    struct exact e;
    exact_open(&e,
               "program p\ninput x : f32[2, 5]\ns = max(abs(x), axis = -1, keepdims = true) / 127\n"
               "output q = cast(clip(round(x / s), -128, 127), i8)\n",
               NULL);
    double x[10] = {3, of_bits(0x3da952a5), of_bits(0x3e050a14), of_bits(0x3e8b162c),
                    of_bits(0x3f142851)};
    memcpy(x + 5, x, 5 * sizeof *x);
    exact_list(&e, "x", 10, x);
    exact_run(&e);
    exact_expect(&e, "q", 10, (double[]){127, 4, 6, 12, 25, 127, 4, 6, 12, 25}, 0);
    exact_close(&e);
}
END_TEST

static const double amax[] = {0, 6.3e-38, 0x1p-126, 1e-40, 3e38};

START_TEST(a_largest_value_of_nothing_or_next_to_it_makes_no_nan)
{
    struct exact e;
    double x[25];
    for (int r = 0; r < 5; r++) {
        float a = (float)amax[r];
        double row[] = {(double)a, (double)(a / 2), (double)-a, (double)(a / 4), 0};
        memcpy(x + 5 * r, row, sizeof row);
    }
    exact_open(&e,
               "program p\ninput x : f32[5, 5]\na = max(abs(x), axis = -1, keepdims = true)\n"
               "s = where(a > 0, a / 127, 1)\noutput q = clip(round(x / s), -128, 127)\n",
               NULL);
    exact_list(&e, "x", 25, x);
    exact_run(&e);
    exact_expect(&e, "q", 25,
                 (double[]){0,  0, -0.0, 0,  0,    127, 64, -127, 32, 0,    127, 64, -127,
                            32, 0, 127,  63, -127, 32,  0,  127,  64, -127, 32,  0},
                 0);
    exact_close(&e);
}
END_TEST

// ---- long sums ----

static double there_and_back(const int64_t *at)
{
    return at[0] < 4 ? 32000 : -32000;
}

static double twenty_thousand(const int64_t *at)
{
    (void)at;
    return 20000;
}

START_TEST(long_sums_of_narrow_numbers_neither_stall_nor_overflow)
{
    struct exact e;
    exact_open(&e,
               "program p\ninput a : f16[4096]\ninput b : f16[20000]\ninput c : bf16[70000]\n"
               "input d : f16[8]\ninput f : f16[2, 4096]\ninput g : f16[70000]\n"
               "output sa = sum(a)\noutput sb = sum(b)\noutput sc = sum(c)\noutput mc = mean(c)\n"
               "output sd = sum(d)\noutput n = rms_norm(f, None, 1e-6)\noutput sg = sum(g)\n",
               NULL);
    static const char *const ones[] = {"a", "b", "c", "g"};
    for (int i = 0; i < COUNT(ones); i++)
        exact_set(&e, ones[i], one);
    exact_set(&e, "d", there_and_back);
    exact_set(&e, "f", twenty_thousand);
    exact_run(&e);
    ck_assert_double_eq(exact_got(&e, "sa", 0), 4096);
    ck_assert_double_eq(exact_got(&e, "sb", 0), 20000);
    ck_assert_double_eq(exact_got(&e, "sc", 0), 70144); // 70000 in bf16
    ck_assert_double_eq(exact_got(&e, "mc", 0), 1);
    ck_assert_double_eq(exact_got(&e, "sd", 0), 0);
    ck_assert_double_eq(exact_got(&e, "sg", 0), INFINITY); // 65504 is the largest f16
    exact_values(&e, "n", one, 0);
    exact_close(&e);
}
END_TEST

static double tenth(const int64_t *at)
{
    (void)at;
    return (double)0.1f;
}

// One accumulator of f32 stalls at 2^24, and is off by 1e-4 long before.
START_TEST(long_sums_do_not_stall)
{
    struct exact e;
    bool gpu = exact_on_gpu();
    exact_open(&e,
               "program p(N, M)\ninput x : f32[N]\ninput y : f32[M]\noutput s = sum(x)\n"
               "output m = mean(y)\n",
               gpu ? "N=33554433 M=16777216" : "N=16777219 M=1048576");
    exact_set(&e, "x", one);
    exact_set(&e, "y", tenth);
    exact_run(&e);
    ck_assert_double_eq(exact_got(&e, "s", 0), gpu ? 33554432 : 16777220);
    exact_about(exact_got(&e, "m", 0), (double)0.1f, 1e-6);
    exact_close(&e);
}
END_TEST

// ---- precision ----

static double nearly_one(const int64_t *at)
{
    (void)at;
    return 1 + 0x1p-12;
}

static double identity(const int64_t *at)
{
    return at[0] == at[1];
}

START_TEST(a_product_of_f32_is_one_of_f32)
{
    struct exact e;
    exact_program(&e, "program p\ninput x : f32[32, 32]\ninput y : f32[32, 32]\noutput z = x @ y\n",
                  NULL, nearly_one, identity);
    exact_values(&e, "z", nearly_one, 0);
    exact_close(&e);
}
END_TEST

START_TEST(a_cast_and_back_rounds)
{
    struct exact e;
    exact_open(&e,
               "program p\ninput x : f32[5]\ninput y : f32[5]\n"
               "output d = x - cast(cast(x, bf16), f32)\ns = cast(y / 3, bf16)\noutput t = s\n"
               "output c = sum(s == max(s))\n",
               NULL);
    exact_list(
        &e, "x", 5,
        (double[]){1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-20, 0x1.fffffep127, 0x1p-133});
    exact_list(&e, "y", 5, (double[]){1, 7, 10, 10, 3});
    exact_run(&e);
    exact_expect(&e, "d", 5,
                 (double[]){0.00390625, -0.00390625, 0x1p-8 + 0x1p-20 - 0x1p-7, -INFINITY, 0}, 0);
    exact_expect(&e, "t", 5, (double[]){0.333984375, 2.328125, 3.328125, 3.328125, 1}, 0);
    exact_expect(&e, "c", 1, (double[]){2}, 0);
    exact_close(&e);
}
END_TEST

static const double out_of_range[] = {INFINITY, -INFINITY, NAN, 510, -200,
                                      127.5,    -128.5,    3.9, -3.9};
static const double saturated[] = {127, -128, 0, 127, -128, 127, -128, 3, -3};

static double repeated(const int64_t *at)
{
    return out_of_range[at[0] % 9];
}

static double repeated_saturated(const int64_t *at)
{
    return saturated[at[0] % 9];
}

// In vectors and in what is left of them; at run time and where constants are folded.
START_TEST(casts_to_i8_saturate_everywhere_alike)
{
    struct exact e;
    char text[1024] = "program p\ninput x : f32[37]\ninput y : f16[37]\noutput a = cast(x, i8)\n"
                      "output b = cast(y, i8)\noutput c = stack([";
    static const char *const folded[] = {"inf",   "-inf",   "nan", "510.0", "-200.0",
                                         "127.5", "-128.5", "3.9", "-3.9"};
    for (int i = 0; i < 9; i++)
        sprintf(text + strlen(text), "%scast(full([1], %s), i8)", i ? ", " : "", folded[i]);
    strcat(text, "])\n");
    exact_program(&e, text, NULL, repeated, repeated);
    exact_values(&e, "a", repeated_saturated, 0);
    exact_values(&e, "b", repeated_saturated, 0);
    exact_expect(&e, "c", 9, saturated, 0);
    exact_close(&e);
}
END_TEST

Suite *numerics_suite(void)
{
    Suite *suite = suite_create("numerics");
    TCase *t = tcase_create("numbers");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, ties_go_to_even);
    tcase_add_test(t, division_stays_a_division_and_a_product_a_product);
    tcase_add_test(t, division_by_a_constant_is_exact);
    tcase_add_test(t, a_scale_for_each_row_is_a_division_too);
    tcase_add_test(t, a_largest_value_of_nothing_or_next_to_it_makes_no_nan);
    tcase_add_test(t, long_sums_of_narrow_numbers_neither_stall_nor_overflow);
    tcase_add_test(t, long_sums_do_not_stall);
    tcase_add_test(t, a_product_of_f32_is_one_of_f32);
    tcase_add_test(t, a_cast_and_back_rounds);
    tcase_add_test(t, casts_to_i8_saturate_everywhere_alike);
    suite_add_tcase(suite, t);
    return suite;
}
