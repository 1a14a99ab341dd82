// test_narrow.c: exp in kernels that make nothing but 16-bit results: templates/math.cuh's
// exp_narrow by itself, which kernels have it, and what comes of values out of the ordinary.

#include "tests/compiled.h"
#include "tests/exact.h"
#include "tests/on_host.h"
#include "tests/operands.h"
#include "tests/programs.h"
#include "tests/tests.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

// exp_narrow by itself

static const struct kernel powers =
    KERNEL("powers", 1, 0, "float *x, *y; int *n;",
           "for (int i = 0; i < *args.n; i++)\n    args.y[i] = exp_narrow(args.x[i]);\n");

static void find_powers(float *x, float *y, int n)
{
    struct host_library *library = load_kernels(&powers, 1, NULL); // arithmetic, and nothing else
    assert_ran(launch_kernel(library, &powers, false, (void *const[]){x, y, &n}));
    host_unload(library);
}

static const float least = -104, largest = 88.72f; // with a power that is neither 0 nor infinite

// The i-th of n, evenly spread over the range, or over the bit patterns of either sign in it.
enum spread { OVER_VALUES, OVER_POSITIVE, OVER_NEGATIVE, N_SPREADS };
static float point(enum spread spread, int64_t i, int64_t n)
{
    uint32_t sign = spread == OVER_NEGATIVE ? 1u << 31 : 0;
    uint32_t end = bits_of(sign ? least : largest) - sign;
    if (spread == OVER_VALUES)
        return least + (float)((double)(largest - least) * (double)i / (double)n);
    return of_bits(sign + (uint32_t)(end * i / n));
}

// And greater than 0 where a float is, subnormal or not.
static bool is_near_power(float x, float y)
{
    double right = exp((double)x);
    return fabs((double)y - right) <= 0x1p-17 * right + 0x1p-149 && (y > 0 || x < -103.9f);
}

START_TEST(powers_are_near)
{
    int n = has_address_sanitizer() ? 1 << 19 : 1 << 21;
    float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    for (int i = 0; i < n; i++)
        x[i] = point((enum spread)_i, i, n - 1);
    find_powers(x, y, n);
    for (int i = 0; i < n; i++)
        if (!is_near_power(x[i], y[i])) // an assertion a point would take most of the time
            ck_abort_msg("exp(%a) is %a, not %a", (double)x[i], exp((double)x[i]), (double)y[i]);
    free(x);
    free(y);
}
END_TEST

static const float edges[][2] = {
    {-INFINITY,        0       },
    {INFINITY,         INFINITY},
    {NAN,              NAN     },
    {0,                1       },
    {-0.0f,            1       },
    {0x1p-149f,        1       },
    {-0x1p-126f,       1       },
    {89.001f,          INFINITY},
    {0x1.fffffep127f,  INFINITY},
    {-104.001f,        0       },
    {-0x1.fffffep127f, 0       },
};

START_TEST(powers_are_exact_at_the_edges)
{
    enum { N = COUNT(edges) };
    float x[N], y[N];
    for (int i = 0; i < N; i++)
        x[i] = edges[i][0];
    find_powers(x, y, N);
    for (int i = 0; i < N; i++)
        ck_assert_msg(isnan(edges[i][1]) ? isnan(y[i]) : bits_of(y[i]) == bits_of(edges[i][1]),
                      "exp(%a) is %a, not %a", (double)x[i], (double)edges[i][1], (double)y[i]);
}
END_TEST

// Which kernels have it

static const struct {
    const char *dtype, *y; // of x; what else the kernel makes follows
    enum math math;
    bool narrow;
} chosen[] = {
    {"bf16", "softmax(x)",                                         MATH_real,   true },
    {"f16",  "softmax(x)",                                         MATH_real,   true },
    {"f32",  "cast(softmax(x), bf16)",                             MATH_real,   true },
    {"f16",  "exp(x)\noutput z = cast(y * 3, bf16)",               MATH_real,   true },
    {"bf16", "softmax(x)",                                         MATH_finite, true },
    {"bf16", "softmax(x)",                                         MATH_fast,   true },
    {"bf16", "softmax(x)",                                         MATH_strict, false},
    {"f32",  "softmax(x)",                                         MATH_real,   false},
    {"f64",  "softmax(x)",                                         MATH_real,   false},
    {"bf16", "softmax(cast(x, f32))",                              MATH_real,   false},
    {"bf16", "softmax(x)\noutput z = cast(y, f32) * 3",            MATH_real,   false},
    {"bf16", "softmax(x)\noutput z = sum(cast(x, f32), axis = 1)", MATH_real,   false},
    {"bf16", "softmax(x)\noutput z = argmax(x, axis = 1)",         MATH_real,   false},
    {"bf16", "x / sum(exp(x), axis = 1, keepdims = True)",         MATH_real,   true },
    {"bf16", "exp(x) - exp(2 * x)",                                MATH_real,   false},
    {"bf16", "round(exp(x))",                                      MATH_real,   false},
    {"bf16", "log(sum(exp(x), axis = 1))",                         MATH_real,   false},
    {"bf16", "sum(x * exp(x), axis = 1)",                          MATH_real,   false},
    {"bf16", "max(exp(x) * x, axis = 1)",                          MATH_real,   false},
};

START_TEST(only_what_makes_16_bits_alone_has_the_narrow_exp)
{
    struct compiled c;
    char text[256];
    snprintf(text, sizeof text, "program p\ninput x : %s[64, 256]\noutput y = %s\n",
             chosen[_i].dtype, chosen[_i].y);
    compile_right_text(&c, text, &(struct compile_options){.math = chosen[_i].math});
    ck_assert_int_eq(c.program.n_kernels, 1);
    const char *source = c.program.kernels[0].source;
    bool narrow = strstr(source, "exp_narrow(") != NULL, full = strstr(source, "exp_of(") != NULL;
    ck_assert_msg(narrow == chosen[_i].narrow && full != narrow, "%sexp_narrow: %d, exp_of: %d",
                  text, narrow, full);
    compiled_free(&c);
}
END_TEST

// On a device

static const struct {
    const char *dtype;
    double least, largest; // whose powers the dtype has
} formats[] = {
    {"bf16", -93,   88.7 },
    {"f16",  -17.5, 11.08},
};

enum { N_POWERS = 1 << 16 };
static int format;

static double argument_at(const int64_t *at)
{
    static const double others[] = {-INFINITY, INFINITY, NAN, 0, -0.0, -1e30, 1e30};
    double length = formats[format].largest - formats[format].least;
    if (at[0] < COUNT(others))
        return others[at[0]];
    return (double)(float)(formats[format].least + length * (double)at[0] / N_POWERS);
}

static double power_at(const int64_t *at)
{
    return exp((double)(float)argument_at(at));
}

// An error of 2^-17 is a 64th of a unit of f16's last place, or less: subnormal ones too.
START_TEST(powers_are_rounded_as_exact_ones_are)
{
    struct exact e;
    char *text =
        typed("program p(N)\ninput x : f32[N]\noutput y = cast(exp(x), %s)\n", formats[_i].dtype);
    format = _i;
    exact_program(&e, text, "N=65536", argument_at, NULL);
    exact_values(&e, "y", power_at, 0.5 + 0x1p-6);
    exact_close(&e);
    free(text);
}
END_TEST

// Rows out of the ordinary, between ordinary ones

enum { N_ROWS = 22 };
static int64_t n_columns;

static double noise(const int64_t *at)
{
    return (double)((unsigned)(at[1] + 1) * 2654435761u + (unsigned)at[0] * 40503u) / 1e9 - 2.1;
}

static double logit_at(const int64_t *at)
{
    int64_t c = at[1], n = n_columns;
    bool head = c < n / 3, first = c == 0, last = c == n - 1;
    switch (at[0]) {
    case 1: // masked, up to all of a row
        return head ? -INFINITY : noise(at);
    case 2:
        return head ? noise(at) : -INFINITY;
    case 3:
        return first ? 0 : -INFINITY;
    case 4:
        return last ? -300 : -INFINITY;
    case 5:
        return -INFINITY;
    case 7:
        return c == n / 2 ? INFINITY : noise(at);
    case 8:
        return first ? INFINITY : -INFINITY;
    case 9:
        return last ? NAN : noise(at);
    case 10:
        return c == n / 2 ? NAN : -INFINITY;
    case 11:
        return first ? NAN : last ? INFINITY : noise(at);
    case 13: // large
        return c % 2 ? 1e4 : -1e4;
    case 14:
        return last ? 1e4 : -1e4;
    case 15:
        return first ? -9984 : -1e4;
    case 16:
        return first ? 999 : last ? 1000 : -INFINITY;
    case 17:
        return c < 3 ? 88 + (double)c : -INFINITY;
    case 18: // equal
        return 3.25;
    case 19:
        return head ? noise(at) - 4 : 2;
    case 20: // down to where results are subnormal, and vanish
        return -120 * (double)c / (double)n;
    default:
        return noise(at);
    }
}

static const struct {
    const char *dtype;
    int64_t n;
} rows[] = {
    {"bf16", 4    },
    {"f16",  4    },
    {"bf16", 71   },
    {"f16",  71   },
    {"bf16", 1024 },
    {"f16",  1024 },
    {"bf16", 5000 },
    {"f16",  5000 },
    {"bf16", 16384},
    {"f16",  16384},
};

START_TEST(rows_out_of_the_ordinary_agree_with_the_reference)
{
    struct exact e;
    char sizes[64], *text = typed("program p(M, N)\ninput x : %s[M, N]\noutput y = softmax(x)\n",
                                  rows[_i].dtype);
    quern_check_result result;
    n_columns = rows[_i].n;
    snprintf(sizes, sizeof sizes, "M=%d N=%d", N_ROWS, (int)n_columns);
    exact_program(&e, text, sizes, logit_at, NULL);
    double *expected = malloc((size_t)(N_ROWS * n_columns) * sizeof *expected);
    ck_assert(!quern_reference(e.plan, (const void *[]){e.host[0]}, &expected));
    ck_assert(!quern_check(e.plan, 0, e.host[1], expected, &result));
    ck_assert_msg(result.ok, "%s, row %d of %d, column %d: got %.9g, expected %.9g", rows[_i].dtype,
                  (int)(result.worst / n_columns), N_ROWS, (int)(result.worst % n_columns),
                  result.got, result.expected);
    free(expected);
    exact_close(&e);
    free(text);
}
END_TEST

Suite *narrow_suite(void)
{
    Suite *s = suite_create("narrow");
    TCase *t = tcase_create("narrow");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, powers_are_near, 0, N_SPREADS);
    tcase_add_test(t, powers_are_exact_at_the_edges);
    tcase_add_loop_test(t, only_what_makes_16_bits_alone_has_the_narrow_exp, 0, COUNT(chosen));
    tcase_add_loop_test(t, powers_are_rounded_as_exact_ones_are, 0, COUNT(formats));
    tcase_add_loop_test(t, rows_out_of_the_ordinary_agree_with_the_reference, 0, COUNT(rows));
    suite_add_tcase(s, t);
    return s;
}
