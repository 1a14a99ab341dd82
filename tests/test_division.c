// test_division.c: many values by one divisor give the bits of as many divisions, whatever they
// are: templates/math.cuh's divide_by by itself, and programs that come to it.  Those that are
// rounded to 16 bits next may be off where that does not show (divide_narrow).

#include "tests/compiled.h"
#include "tests/exact.h"
#include "tests/on_host.h"
#include "tests/operands.h"
#include "tests/tests.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

// What divisor() takes for granted: in units of the last place of 1 / d, for d in [1, 2).
START_TEST(one_step_from_within_an_ulp_makes_the_nearest_reciprocal)
{
    int n_wrong = 0;
    for (uint32_t significand = 0; significand < 1 << 23; significand++) {
        float d = of_bits(0x3f800000 | significand);
        double right = 1 / (double)d;
        uint32_t nearest = bits_of((float)right);
        for (uint32_t r = nearest - 1; r != nearest + 2; r++) {
            float rough = of_bits(r);
            if (fabs((double)rough - right) > 0x1p-24)
                continue;
            if (bits_of(fmaf(rough, fmaf(-d, rough, 1), rough)) == nearest)
                continue;
            ck_assert(significand == 0x7fffff);
            n_wrong++;
        }
    }
    ck_assert_int_eq(n_wrong, 1);
}
END_TEST

#define DIVIDING(function)                                                                         \
    {                                                                                              \
        .name = "quotients",                                                                       \
        .source = SOURCE("quotients", "float *n, *d, *q; int *rows;",                              \
                         "for (int i = 0; i < *args.rows; i++)\n"                                  \
                         "    " function "(divisor(args.d[i]), *(float(*)[8])(args.n + 8 * i),\n"  \
                         "              *(float(*)[8])(args.q + 8 * i));\n"),                      \
        .grid = {1, 1, 1}, .block = {                                                              \
            1,                                                                                     \
            1,                                                                                     \
            1                                                                                      \
        }                                                                                          \
    }

static const struct kernel dividing = DIVIDING("divide_by");
static const struct kernel dividing_narrow = DIVIDING("divide_narrow");

enum { ROWS = 1 << 18 };

static void fill(float *n, float *d)
{
    for (int i = 0; i < ROWS; i++) {
        enum kind kind = random_bits() % N_KINDS;
        d[i] = divisor_of(kind);
        for (int j = 8 * i; j < 8 * i + 8; j++)
            n[j] = numerator_of(kind, d[i]);
    }
}

static void divide(const struct kernel *kernel, bool (*is_right)(float n, float d, float q))
{
    struct host_library *library = load_kernels(kernel, 1, NULL); // arithmetic, and nothing else
    float *n = calloc(8 * ROWS, sizeof *n), *q = calloc(8 * ROWS, sizeof *q);
    float *d = calloc(ROWS, sizeof *d);
    int rows = has_address_sanitizer() ? ROWS / 4 : ROWS;
    seed_operands(1);
    fill(n, d);
    assert_ran(launch_kernel(library, kernel, false, (void *const[]){n, d, q, &rows}));
    for (int i = 0; i < 8 * rows; i++)
        ck_assert_msg(is_right(n[i], d[i / 8], q[i]), "%a / %a is %a, not %a", (double)n[i],
                      (double)d[i / 8], (double)(n[i] / d[i / 8]), (double)q[i]);
    host_unload(library);
    free(n);
    free(q);
    free(d);
}

static bool has_the_bits(float n, float d, float q)
{
    float right = n / d;
    return isnan(right) ? isnan(q) : bits_of(q) == bits_of(right);
}

// Two steps from the bits of the quotient, infinity being the step after the largest.
static bool is_near(float n, float d, float q)
{
    float right = n / d;
    if (isnan(right) || right == 0 || isinf(n))
        return isnan(right) ? isnan(q)
                            : bits_of(q) == bits_of(right) || (n != 0 && fabsf(q) <= 0x1p-148f);
    return llabs((long long)bits_of(q) - (long long)bits_of(right)) <= 2;
}

START_TEST(quotients_are_those_of_divisions)
{
    divide(&dividing, has_the_bits);
}
END_TEST

START_TEST(narrow_quotients_are_near)
{
    divide(&dividing_narrow, is_near);
}
END_TEST

// Programs

static const float divisors[] = {1,     0,        -0.0f,    INFINITY,       -INFINITY,       NAN,
                                 1e-40, 0x1p-126, 1e-38f,   3e38f,          0x1.fffffep127f, -7,
                                 0.1f,  127,      0x1p125f, 0x1.fffffep+0f, 0x1.fffffep125f};
static const float numerators[] = {
    0,   -0.0f,   1,     -3,    0.3f,      0x1p-149f, 1e-40f,  0x1p-101f, 0x1p-102f, INFINITY,
    NAN, -1e-38f, 3e38f, -0.1f, 12345.67f, 1e30f,     -1e-30f, 0x1p64,    0x1p-126f};

static double divisor_at(const int64_t *at)
{
    return (double)divisors[at[0]];
}

// Rows of all sorts, and from the middle on with nothing out of the ordinary.
static double numerator_at(const int64_t *at)
{
    if (at[1] >= 32)
        return (double)(float)(0.1 + 0.37 * (double)at[1] + (double)at[0]);
    return (double)numerators[(at[1] + 5 * at[0]) % COUNT(numerators)];
}

static double quotient_at(const int64_t *at)
{
    return (double)((float)numerator_at(at) / (float)divisor_at(at));
}

static double mixed_at(const int64_t *at)
{
    float twice = (float)numerator_at(at) * 2;
    return (double)(twice / (float)divisor_at(at) * twice);
}

// A divisor of a row that is reduced, and of a row of a map; the numerator is needed again.
static const struct {
    const char *divisor, *sizes;
} rows[] = {
    {"max(d, axis = -1, keepdims = true)", "C=64"   },
    {"max(d, axis = -1, keepdims = true)", "C=63"   },
    {"max(d, axis = -1, keepdims = true)", "C=1024" },
    {"max(d, axis = -1, keepdims = true)", "C=40000"},
    {"d[:, :1]",                           "C=64"   },
    {"d[:, :1]",                           "C=63"   },
};

START_TEST(programs_divide_rows_as_one_by_one)
{
    struct exact e;
    char text[512];
    snprintf(text, sizeof text,
             "program p(C)\ninput x : f32[17, C]\ninput d : f32[17, C]\nm = %s\nt = x * 2\n"
             "output y = x / m\noutput z = t / m * t\n",
             rows[_i].divisor);
    exact_open(&e, text, rows[_i].sizes);
    exact_set(&e, "x", numerator_at);
    exact_set(&e, "d", divisor_at);
    exact_run(&e);
    exact_values(&e, "y", quotient_at, 0);
    exact_values(&e, "z", mixed_at, 0);
    exact_close(&e);
}
END_TEST

static float scalar;

static double scalar_at(const int64_t *at)
{
    (void)at;
    return (double)scalar;
}

static double by_scalar_at(const int64_t *at)
{
    return (double)((float)numerator_at(at) / scalar);
}

static double by_scalar_across_at(const int64_t *at)
{
    return by_scalar_at((const int64_t[]){at[1], at[0]});
}

START_TEST(programs_divide_any_rows_as_one_by_one)
{
    enum { COLUMNS = 64 };
    struct exact e;
    int n_rows = exact_on_gpu() ? 1 << 17 : 1 << 11, n = n_rows * COLUMNS;
    double *x = calloc((size_t)n, sizeof *x), *d = calloc((size_t)n, sizeof *d);
    double *right = calloc((size_t)n, sizeof *right);
    seed_operands(2);
    for (int i = 0; i < n_rows; i++) {
        enum kind kind = random_bits() % N_KINDS;
        float divisor = divisor_of(kind);
        for (int j = i * COLUMNS; j < (i + 1) * COLUMNS; j++) {
            float numerator = numerator_of(kind, divisor);
            x[j] = (double)numerator;
            d[j] = (double)divisor;
            right[j] = (double)(numerator / divisor);
        }
    }
    exact_open(&e,
               "program p(R)\ninput x : f32[R, 64]\ninput d : f32[R, 64]\n"
               "output y = x / max(d, axis = -1, keepdims = true)\n",
               exact_on_gpu() ? "R=131072" : "R=2048");
    exact_list(&e, "x", n, x);
    exact_list(&e, "d", n, d);
    exact_run(&e);
    exact_expect(&e, "y", n, right, 0);
    exact_close(&e);
    free(x);
    free(d);
    free(right);
}
END_TEST

static const float scalars[] = {0.1f, -0.0f, INFINITY, 1e-40f, 0x1.fffffep+0f};

// A scalar divides a map, through tiles too, and what a reduction along either axis takes.
START_TEST(programs_divide_by_a_scalar_as_one_by_one)
{
    struct exact e;
    scalar = scalars[_i];
    exact_open(&e,
               "program p\ninput x : f32[8, 64]\ninput s : f32[]\noutput y = x / s\n"
               "output t = transpose(x) / s\noutput a = max(abs(x / s), axis = 0)\n"
               "output b = max(abs(x / s), axis = 1)\n",
               NULL);
    exact_set(&e, "x", numerator_at);
    exact_set(&e, "s", scalar_at);
    exact_run(&e);
    exact_values(&e, "y", by_scalar_at, 0);
    exact_values(&e, "t", by_scalar_across_at, 0);
    for (int axis = 0; axis < 2; axis++)
        for (int i = 0; i < (axis ? 8 : 64); i++) {
            double largest = -INFINITY;
            for (int j = 0; j < (axis ? 64 : 8); j++) {
                double q =
                    fabs(by_scalar_at(axis ? (const int64_t[]){i, j} : (const int64_t[]){j, i}));
                largest = isnan(q) || isnan(largest) ? NAN : fmax(largest, q);
            }
            double got = exact_got(&e, axis ? "b" : "a", i);
            ck_assert(isnan(largest) ? isnan(got) : got == largest);
        }
    exact_close(&e);
}
END_TEST

static double ordinary_at(const int64_t *at)
{
    return (double)(float)(0.1 + 0.37 * (double)at[1] + (double)at[0]);
}

static double ordinary_quotient_at(const int64_t *at)
{
    return (double)((float)ordinary_at(at) / 0.1f);
}

static double rounded_quotient_at(const int64_t *at)
{
    return (double)rintf((float)ordinary_at(at) / 0.1f);
}

static double identity(const int64_t *at)
{
    return at[0] == at[1];
}

START_TEST(a_contraction_divides_its_operand_as_one_by_one)
{
    struct exact e;
    scalar = 0.1f;
    exact_open(&e,
               "program p\ninput x : f32[32, 64]\ninput w : f32[64, 64]\ninput s : f32[]\n"
               "output y = round(x / s) @ w\noutput z = (x @ w) / s\noutput c = x / 0.1\n",
               NULL);
    exact_set(&e, "x", ordinary_at);
    exact_set(&e, "w", identity);
    exact_set(&e, "s", scalar_at);
    exact_run(&e);
    exact_values(&e, "y", rounded_quotient_at, 0);
    exact_values(&e, "z", ordinary_quotient_at, 0);
    exact_values(&e, "c", ordinary_quotient_at, 0);
    exact_close(&e);
}
END_TEST

static const struct {
    const char *text;
    enum math math;
    const char *function;
} chosen[] = {
    {"output y = cast(x / m, bf16)",                      MATH_real,   "divide_narrow(row"},
    {"output y = cast(x / m, f16) * 3",                   MATH_real,   "divide_narrow(row"},
    {"output y = cast(x / m, bf16)",                      MATH_strict, "divide_by(row"    },
    {"output y = x / m",                                  MATH_real,   "divide_by(row"    },
    {"q = x / m\noutput y = cast(q, bf16)\noutput z = q", MATH_real,   "divide_by(row"    },
    {"output y = cast(round(x / m), bf16)",               MATH_real,   "divide_by(row"    },
    {"output y = sum(exp(x / m), axis = -1)",             MATH_real,   "divide_by(row"    },
};

START_TEST(only_what_is_rounded_next_may_be_near)
{
    struct compiled c;
    char text[256];
    snprintf(text, sizeof text,
             "program p\ninput x : f32[9, 64]\nm = max(x, axis = -1, keepdims = true)\n%s\n",
             chosen[_i].text);
    compile_right_text(&c, text, &(struct compile_options){.math = chosen[_i].math});
    const char *source = c.program.kernels[0].source;
    ck_assert_msg(strstr(source, chosen[_i].function) != NULL, "%s", source);
    ck_assert_ptr_null(strstr(strstr(source, "divide_") + 1, "divide_"));
    compiled_free(&c);
}
END_TEST

static double multiple_at(const int64_t *at)
{
    return (double)(0.1f * (float)(1 << at[0])) * (double)(at[1] - 128);
}

static double factor_at(const int64_t *at)
{
    return (double)(0.1f * (float)(1 << at[0]));
}

static double count_at(const int64_t *at)
{
    return (double)(at[1] - 128);
}

START_TEST(what_a_narrow_format_has_comes_out_exactly)
{
    struct exact e;
    exact_open(&e,
               "program p\ninput x : f32[8, 256]\ninput d : f32[8, 256]\n"
               "output y = cast(x / max(d, axis = -1, keepdims = true), bf16)\n",
               NULL);
    exact_set(&e, "x", multiple_at);
    exact_set(&e, "d", factor_at);
    exact_run(&e);
    exact_values(&e, "y", count_at, 0);
    exact_close(&e);
}
END_TEST

Suite *division_suite(void)
{
    Suite *s = suite_create("division");
    TCase *t = tcase_create("division");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, one_step_from_within_an_ulp_makes_the_nearest_reciprocal);
    tcase_add_test(t, quotients_are_those_of_divisions);
    tcase_add_test(t, narrow_quotients_are_near);
    tcase_add_loop_test(t, only_what_is_rounded_next_may_be_near, 0, COUNT(chosen));
    tcase_add_test(t, what_a_narrow_format_has_comes_out_exactly);
    tcase_add_loop_test(t, programs_divide_rows_as_one_by_one, 0, COUNT(rows));
    tcase_add_test(t, programs_divide_any_rows_as_one_by_one);
    tcase_add_loop_test(t, programs_divide_by_a_scalar_as_one_by_one, 0, COUNT(scalars));
    tcase_add_test(t, a_contraction_divides_its_operand_as_one_by_one);
    suite_add_tcase(s, t);
    return s;
}
