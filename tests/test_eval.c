// test_eval.c: the reference evaluator gives the values that NumPy and IEEE arithmetic give.

#include "tests/on_graph.h"
#include "tests/tests.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

// The text of "%1 = OP %0" and the like, over n elements of a dtype.
static void expect_unary(const char *op, const char *dtype, const char *result, int64_t n,
                         const double *x, const double *expected)
{
    char text[200];
    snprintf(text, sizeof text,
             "graph g()\n%%0 = input \"x\" : %s[%d]\n%%1 = %s %%0 : %s[%d]\noutput \"y\" = %%1\n",
             dtype, (int)n, op, result, (int)n);
    expect_eval(text, EVAL_exact, x, n, expected);
    expect_eval(text, EVAL_declared, x, n, expected);
}

static void expect_binary(const char *op, const char *dtype, const char *result, int64_t n,
                          const double *a, const double *b, const double *expected)
{
    char text[300];
    snprintf(text, sizeof text,
             "graph g()\n%%0 = input \"a\" : %s[%d]\n%%1 = input \"b\" : %s[%d]\n"
             "%%2 = %s %%0, %%1 : %s[%d]\noutput \"y\" = %%2\n",
             dtype, (int)n, dtype, (int)n, op, result, (int)n);
    struct on_graph t;
    graph_open(&t, text);
    graph_set(&t, 0, a);
    graph_set(&t, 1, b);
    for (int mode = EVAL_exact; mode <= EVAL_declared; mode++) {
        graph_eval(&t, (enum eval_mode)mode);
        expect_values(&t, 0, n, expected);
    }
    graph_close(&t);
}

START_TEST(round_goes_to_even)
{
    static const double x[] = {-3.5, -2.5, -1.5,        -0.5,         0.5,    1.5,
                               2.5,  3.5,  0.49999997f, -0.49999997f, 8388609};
    static const double y[] = {-4, -2, -2, -0.0, 0, 2, 2, 4, 0, -0.0, 8388609};
    expect_unary("round", "f32", "f32", LENGTH(x), x, y);
}
END_TEST

START_TEST(sign_is_zero_for_both_zeros_and_nan_for_nan)
{
    static const double x[] = {-2, -0.0, 0, 3, INFINITY, -INFINITY, NAN};
    static const double y[] = {-1, 0, 0, 1, 1, -1, NAN};
    expect_unary("sign", "f32", "f32", LENGTH(x), x, y);
}
END_TEST

START_TEST(integers_wrap_in_their_dtype)
{
    static const double x[] = {-128, -127, 127, 0};
    static const double negative[] = {-128, 127, -127, 0}, absolute[] = {-128, 127, 127, 0};
    expect_unary("neg", "i8", "i8", LENGTH(x), x, negative);
    expect_unary("abs", "i8", "i8", LENGTH(x), x, absolute);
    static const double a[] = {127, -128, 100, 16}, b[] = {1, -1, 100, 16};
    static const double sum[] = {-128, 127, -56, 32}, product[] = {127, -128, 16, 0};
    expect_binary("add", "i8", "i8", LENGTH(a), a, b, sum);
    expect_binary("mul", "i8", "i8", LENGTH(a), a, b, product);
    static const double u[] = {0, 250}, v[] = {1, 10}, difference[] = {255, 240};
    expect_binary("sub", "u8", "u8", LENGTH(u), u, v, difference);
}
END_TEST

START_TEST(mod_has_the_sign_of_the_divisor)
{
    static const double a[] = {7, -7, 7, -7, 5.5, -1, 1, 6, -6, NAN, 1, INFINITY};
    static const double b[] = {3, 3, -3, -3, 2, INFINITY, 0, -3, 3, 1, NAN, 2};
    static const double r[] = {1, 2, -2, -1, 1.5, INFINITY, NAN, -0.0, 0, NAN, NAN, NAN};
    expect_binary("mod", "f32", "f32", LENGTH(a), a, b, r);
    static const double i[] = {7, -7, 7, -7, 7, -2147483648.0}, j[] = {3, 3, -3, -3, 0, -1};
    static const double m[] = {1, 2, -2, -1, 0, 0};
    expect_binary("mod", "i32", "i32", LENGTH(i), i, j, m);
}
END_TEST

START_TEST(powers_of_integers_wrap_and_negative_ones_vanish)
{
    static const double a[] = {2, 3, -2, 2, 2, 1, -1, -1, 0, 0, 10};
    static const double b[] = {10, 4, 3, 31, -1, -5, -5, -4, 0, -1, 10};
    static const double r[] = {1024, 81, -8, -2147483648.0, 0, 1, -1, 1, 1, 0, 1410065408};
    expect_binary("pow", "i32", "i32", LENGTH(a), a, b, r);
}
END_TEST

START_TEST(nan_passes_through_maximum_and_minimum)
{
    static const double a[] = {NAN, 1, NAN, 0, INFINITY, -0.0, 0},
                        b[] = {1, NAN, NAN, 0, NAN, 0, -0.0};
    static const double most[] = {NAN, NAN, NAN, 0, NAN, 0, 0};
    static const double least[] = {NAN, NAN, NAN, 0, NAN, -0.0, -0.0};
    expect_binary("maximum", "f32", "f32", LENGTH(a), a, b, most);
    expect_binary("minimum", "f32", "f32", LENGTH(a), a, b, least);
}
END_TEST

START_TEST(relu_and_clamp_pass_nan_on)
{
    static const double x[] = {NAN, -1, 2, 9}, relu[] = {NAN, 0, 2, 9}, clamped[] = {NAN, 0, 2, 6};
    expect_eval("graph g()\n%0 = input \"x\" : f32[4]\n%1 = constant 0 : f32[]\n"
                "%2 = maximum %0, %1 : f32[4]\noutput \"y\" = %2\n",
                EVAL_exact, x, 4, relu);
    expect_eval("graph g()\n%0 = input \"x\" : f32[4]\n%1 = constant 0 : f32[]\n"
                "%2 = constant 6 : f32[]\n%3 = maximum %0, %1 : f32[4]\n"
                "%4 = minimum %3, %2 : f32[4]\noutput \"y\" = %4\n",
                EVAL_exact, x, 4, clamped);
}
END_TEST

START_TEST(comparisons_with_nan_are_false_but_not_equal)
{
    static const double a[] = {NAN, 1, 1, 2}, b[] = {NAN, NAN, 1, 1};
    static const double eq[] = {0, 0, 1, 0}, ne[] = {1, 1, 0, 1}, ge[] = {0, 0, 1, 1},
                        lt[] = {0, 0, 0, 0};
    expect_binary("eq", "f32", "bool", LENGTH(a), a, b, eq);
    expect_binary("ne", "f32", "bool", LENGTH(a), a, b, ne);
    expect_binary("ge", "f32", "bool", LENGTH(a), a, b, ge);
    expect_binary("lt", "f32", "bool", LENGTH(a), a, b, lt);
}
END_TEST

START_TEST(tests_and_logic)
{
    static const double x[] = {NAN, INFINITY, -INFINITY, 0};
    static const double isnan_x[] = {1, 0, 0, 0}, isinf_x[] = {0, 1, 1, 0}, finite[] = {0, 0, 0, 1};
    expect_unary("isnan", "f32", "bool", LENGTH(x), x, isnan_x);
    expect_unary("isinf", "f16", "bool", LENGTH(x), x, isinf_x);
    expect_unary("isfinite", "bf16", "bool", LENGTH(x), x, finite);
    static const double a[] = {0, 0, 1, 1}, b[] = {0, 1, 0, 1};
    static const double both[] = {0, 0, 0, 1}, any[] = {0, 1, 1, 1}, neither[] = {1, 1, 0, 0};
    expect_binary("and", "bool", "bool", LENGTH(a), a, b, both);
    expect_binary("or", "bool", "bool", LENGTH(a), a, b, any);
    expect_unary("not", "bool", "bool", LENGTH(a), a, neither);
}
END_TEST

START_TEST(casts_to_i8_truncate_and_saturate)
{
    static const double x[] = {INFINITY, -INFINITY, NAN, 510, -200, 127.5, -128.5, 3.9, -3.9};
    static const double y[] = {127, -128, 0, 127, -128, 127, -128, 3, -3};
    expect_unary("cast", "f32", "i8", LENGTH(x), x, y);
    expect_unary("cast", "f16", "i8", LENGTH(x), x, y);
}
END_TEST

START_TEST(a_cast_to_bf16_and_back_is_not_lost)
{
    static const double x[] = {1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-20, 0x1.fffffep127,
                               0x1p-133};
    static const double y[] = {0.00390625, -0.00390625, -0.00390625 + 0x1p-20, -INFINITY, 0};
    expect_eval("graph g()\n%0 = input \"x\" : f32[5]\n%1 = cast %0 : bf16[5]\n"
                "%2 = cast %1 : f32[5]\n%3 = sub %0, %2 : f32[5]\noutput \"y\" = %3\n",
                EVAL_exact, x, 5, y);
}
END_TEST

START_TEST(a_rounded_value_equals_its_own_maximum)
{
    static const double x[] = {1, 7, 10, 10, 3}, count[] = {2};
    expect_eval("graph g()\n%0 = input \"x\" : f32[5]\n%1 = constant 3 : f32[]\n"
                "%2 = div %0, %1 : f32[5]\n%3 = cast %2 : bf16[5]\n%4 = max %3 axes=[0] : bf16[1]\n"
                "%5 = eq %3, %4 : bool[5]\n%6 = sum %5 axes=[0] : i64[1]\noutput \"c\" = %6\n",
                EVAL_exact, x, 1, count);
}
END_TEST

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static const struct {
    uint32_t scale, x;
    double divided, reciprocal;
} ties[] = {
    {0x3dcccccd, 0x3fc66666, 15, 16},
    {0x3dcccccd, 0x40166666, 23, 24},
    {0x3dcccccd, 0x41026666, 81, 82},
    {0x3e99999a, 0x3fd33333, 5,  6 },
    {0x3e99999a, 0x40100000, 7,  8 },
    {0x3e99999a, 0x41473333, 41, 42},
    {0x3be56042, 0x3d1db22d, 6,  5 },
    {0x3be56042, 0x3d883127, 10, 9 },
    {0x3be56042, 0x3e0bc6a8, 20, 19},
};

static double quantised(const char *division, double x, double scale)
{
    char text[600];
    snprintf(text, sizeof text,
             "graph g()\n%%0 = input \"x\" : f32[]\n%%1 = input \"s\" : f32[]\n"
             "%%2 = constant 1 : f32[]\n%%3 = div %%2, %%1 : f32[]\n%%4 = %s : f32[]\n"
             "%%5 = round %%4 : f32[]\n%%6 = constant -128 : f32[]\n%%7 = constant 127 : f32[]\n"
             "%%8 = maximum %%5, %%6 : f32[]\n%%9 = minimum %%8, %%7 : f32[]\n"
             "%%10 = cast %%9 : i8[]\noutput \"q\" = %%10\n",
             division);
    struct on_graph t;
    graph_open(&t, text);
    graph_set(&t, 0, &x);
    graph_set(&t, 1, &scale);
    graph_eval(&t, EVAL_exact);
    double exact = graph_result(&t, 0, 0);
    graph_eval(&t, EVAL_declared);
    ck_assert(graph_result(&t, 0, 0) == exact);
    graph_close(&t);
    return exact;
}

START_TEST(quantisers_divide_as_f32_does)
{
    double x = from_bits(ties[_i].x), scale = from_bits(ties[_i].scale);
    ck_assert(quantised("div %0, %1", x, scale) == ties[_i].divided);
    ck_assert(quantised("mul %0, %3", x, scale) == ties[_i].reciprocal);
}
END_TEST

START_TEST(quantisers_clip_after_rounding)
{
    ck_assert(quantised("div %0, %1", 126.5, 1) == 126);
    ck_assert(quantised("div %0, %1", 127.5, 1) == 127);
    ck_assert(quantised("div %0, %1", -129.5, 1) == -128);
}
END_TEST

START_TEST(a_scale_from_the_row_maximum_is_f32_too)
{
    double x[5] = {from_bits(0x3da952a5), from_bits(0x3e050a14), from_bits(0x3e8b162c),
                   from_bits(0x3f142851), 3};
    static const double codes[] = {4, 6, 12, 25, 127};
    expect_eval("graph g()\n%0 = input \"x\" : f32[5]\n%1 = abs %0 : f32[5]\n"
                "%2 = max %1 axes=[0] : f32[1]\n%3 = constant 127 : f32[]\n"
                "%4 = div %2, %3 : f32[1]\n%5 = div %0, %4 : f32[5]\n%6 = round %5 : f32[5]\n"
                "output \"q\" = %6\n",
                EVAL_exact, x, 5, codes);
}
END_TEST

START_TEST(rows_of_zeros_and_subnormals_are_quantised)
{
    static const double largest[] = {0, 6.3e-38, 0x1p-126, 1e-40, 3e38};
    double x[25];
    for (int r = 0; r < 5; r++) {
        double a = (float)largest[r];
        double row[] = {a, (float)(a / 2), -a, (float)(a / 4), 0};
        memcpy(x + 5 * r, row, sizeof row);
    }
    static const double codes[] = {0,  0, 0,   0,  0,    127, 64, -127, 32, 0,    127, 64, -127,
                                   32, 0, 127, 63, -127, 32,  0,  127,  64, -127, 32,  0};
    expect_eval("graph g()\n%0 = input \"x\" : f32[5,5]\n%1 = abs %0 : f32[5,5]\n"
                "%2 = max %1 axes=[1] : f32[5,1]\n%3 = constant 0 : f32[]\n"
                "%4 = gt %2, %3 : bool[5,1]\n%5 = constant 127 : f32[]\n"
                "%6 = div %2, %5 : f32[5,1]\n%7 = constant 1 : f32[]\n"
                "%8 = where %4, %6, %7 : f32[5,1]\n%9 = div %0, %8 : f32[5,5]\n"
                "%10 = round %9 : f32[5,5]\n%11 = constant -128 : f32[]\n"
                "%12 = maximum %10, %11 : f32[5,5]\n%13 = minimum %12, %5 : f32[5,5]\n"
                "%14 = cast %13 : i8[5,5]\noutput \"q\" = %14\n",
                EVAL_exact, x, 25, codes);
}
END_TEST

START_TEST(only_what_decides_is_rounded_to_f32)
{
    static const double x[] = {0.1f};
    double third = (double)0.1f / 3;
    expect_eval("graph g()\n%0 = input \"x\" : f32[1]\n%1 = constant 3 : f32[]\n"
                "%2 = div %0, %1 : f32[1]\noutput \"y\" = %2\n",
                EVAL_exact, x, 1, &third);
    double rounded = (float)third;
    expect_eval("graph g()\n%0 = input \"x\" : f32[1]\n%1 = constant 3 : f32[]\n"
                "%2 = div %0, %1 : f32[1]\noutput \"y\" = %2\n",
                EVAL_declared, x, 1, &rounded);
    expect_eval("graph g()\n%0 = input \"x\" : f32[1]\n%1 = constant 3 : f32[]\n"
                "%2 = div %0, %1 : f32[1]\n%3 = floor %2 : f32[1]\noutput \"y\" = %2\n"
                "output \"z\" = %3\n",
                EVAL_exact, x, 1, &rounded);
}
END_TEST

START_TEST(declared_f32_fma_rounds_once)
{
    // the product is 1 + 2^-11 + 2^-24: with 2^-60 more it lies above the middle of two floats
    static const double x[] = {1 + 0x1p-12, 0x1p-60};
    double once = (double)fmaf(1 + 0x1p-12f, 1 + 0x1p-12f, 0x1p-60f);
    ck_assert(once == 1 + 0x1p-11 + 0x1p-23);
    expect_eval("graph g()\n%0 = input \"x\" : f32[2]\n%1 = slice %0 start=[0] step=[1] : f32[1]\n"
                "%2 = slice %0 start=[1] step=[1] : f32[1]\n%3 = fma %1, %1, %2 : f32[1]\n"
                "output \"y\" = %3\n",
                EVAL_declared, x, 1, &once);
}
END_TEST

// One value of a function that is given by lines from %1 on, x being %0.
static double at(const char *lines, int last, double x)
{
    char text[1000];
    snprintf(text, sizeof text, "graph g()\n%%0 = input \"x\" : f32[]\n%s\noutput \"y\" = %%%d\n",
             lines, last);
    struct on_graph t;
    graph_open(&t, text);
    graph_set(&t, 0, &x);
    graph_eval(&t, EVAL_exact);
    double y = graph_result(&t, 0, 0);
    graph_close(&t);
    return y;
}

static const char sigmoid[] = "%1 = neg %0 : f32[]\n%2 = exp %1 : f32[]\n%3 = constant 1 : f32[]\n"
                              "%4 = add %3, %2 : f32[]\n%5 = div %3, %4 : f32[]";
static const char silu[] = "%1 = neg %0 : f32[]\n%2 = exp %1 : f32[]\n%3 = constant 1 : f32[]\n"
                           "%4 = add %3, %2 : f32[]\n%5 = div %0, %4 : f32[]";
static const char softplus[] = "%1 = neg %0 : f32[]\n%2 = exp %1 : f32[]\n%3 = log1p %2 : f32[]";
static const char gelu[] = "%1 = constant 1.41421356 : f32[]\n%2 = div %0, %1 : f32[]\n"
                           "%3 = erf %2 : f32[]\n%4 = constant 1 : f32[]\n%5 = add %4, %3 : f32[]\n"
                           "%6 = mul %0, %5 : f32[]\n%7 = constant 0.5 : f32[]\n"
                           "%8 = mul %7, %6 : f32[]";

static const struct {
    const char *lines;
    int last;
    double x, y, relative;
} activations[] = {
    {sigmoid,  5, -1e4,  0,              0   },
    {sigmoid,  5, -88.8, 2.7205e-39,     1e-3},
    {sigmoid,  5, -20,   2.0611537e-09,  1e-7},
    {sigmoid,  5, 0,     0.5,            0   },
    {sigmoid,  5, 1e4,   1,              0   },
    {silu,     5, -1e4,  0,              0   },
    {silu,     5, -88.8, -2.4158e-37,    1e-3},
    {silu,     5, -20,   -4.1223072e-08, 1e-7},
    {softplus, 3, 87,    1.6458115e-38,  1e-7},
    {softplus, 3, 88,    6.0546015e-39,  1e-7},
    {gelu,     8, -3,    -0.00404969,    2e-6},
    {gelu,     8, 0.5,   0.34573123,     1e-7},
    {gelu,     8, 1,     0.84134475,     1e-7},
    {gelu,     8, -20,   0,              0   },
    {gelu,     8, 1e13f, 1e13f,          0   },
};

START_TEST(activations_at_the_extremes)
{
    double y = at(activations[_i].lines, activations[_i].last, activations[_i].x);
    ck_assert_msg(fabs(y - activations[_i].y) <= activations[_i].relative * fabs(activations[_i].y),
                  "expected %.10g, got %.10g", activations[_i].y, y);
}
END_TEST

static const struct {
    const char *op;
    double x, y;
} functions[] = {
    {"sqrt",  2,       1.4142135623730951   },
    {"rsqrt", 4,       0.5                  },
    {"exp",   1,       2.718281828459045    },
    {"exp2",  10,      1024                 },
    {"expm1", 0x1p-40, 9.094947017733418e-13},
    {"log",   10,      2.302585092994046    },
    {"log2",  8,       3                    },
    {"log1p", 1,       0.6931471805599453   },
    {"sin",   1,       0.8414709848078965   },
    {"cos",   1,       0.5403023058681398   },
    {"tan",   1,       1.5574077246549023   },
    {"tanh",  1,       0.7615941559557649   },
    {"sinh",  1,       1.1752011936438014   },
    {"cosh",  1,       1.5430806348152437   },
    {"atan",  1,       0.7853981633974483   },
    {"erf",   1,       0.8427007929497149   },
    {"erfc",  1,       0.15729920705028513  },
    {"floor", -1.5,    -2                   },
    {"ceil",  -1.5,    -1                   },
    {"trunc", -1.5,    -1                   },
    {"neg",   1.5,     -1.5                 },
    {"abs",   -1.5,    1.5                  },
};

START_TEST(functions_are_computed_in_f64)
{
    char line[60];
    snprintf(line, sizeof line, "%%1 = %s %%0 : f32[]", functions[_i].op);
    double y = at(line, 1, functions[_i].x);
    ck_assert_msg(fabs(y - functions[_i].y) <= 4e-16 * fabs(y), "%s: expected %.17g, got %.17g",
                  functions[_i].op, functions[_i].y, y);
}
END_TEST

Suite *eval_suite(void)
{
    Suite *s = suite_create("eval");
    TCase *c = tcase_create("operators");
    tcase_add_test(c, round_goes_to_even);
    tcase_add_test(c, sign_is_zero_for_both_zeros_and_nan_for_nan);
    tcase_add_test(c, integers_wrap_in_their_dtype);
    tcase_add_test(c, mod_has_the_sign_of_the_divisor);
    tcase_add_test(c, powers_of_integers_wrap_and_negative_ones_vanish);
    tcase_add_test(c, nan_passes_through_maximum_and_minimum);
    tcase_add_test(c, relu_and_clamp_pass_nan_on);
    tcase_add_test(c, comparisons_with_nan_are_false_but_not_equal);
    tcase_add_test(c, tests_and_logic);
    suite_add_tcase(s, c);
    c = tcase_create("rounding");
    tcase_add_test(c, casts_to_i8_truncate_and_saturate);
    tcase_add_test(c, a_cast_to_bf16_and_back_is_not_lost);
    tcase_add_test(c, a_rounded_value_equals_its_own_maximum);
    tcase_add_loop_test(c, quantisers_divide_as_f32_does, 0, (int)LENGTH(ties));
    tcase_add_test(c, quantisers_clip_after_rounding);
    tcase_add_test(c, a_scale_from_the_row_maximum_is_f32_too);
    tcase_add_test(c, rows_of_zeros_and_subnormals_are_quantised);
    tcase_add_test(c, only_what_decides_is_rounded_to_f32);
    tcase_add_test(c, declared_f32_fma_rounds_once);
    suite_add_tcase(s, c);
    c = tcase_create("functions");
    tcase_add_loop_test(c, activations_at_the_extremes, 0, (int)LENGTH(activations));
    tcase_add_loop_test(c, functions_are_computed_in_f64, 0, (int)LENGTH(functions));
    suite_add_tcase(s, c);
    return s;
}
