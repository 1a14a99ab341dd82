// eval_ops.c: elementwise ops on runs of elements, as the reference computes them.
//
// Reals are computed in f64.  Rounding that to f32 is what f32 arithmetic gives for + - * / and
// sqrt (f64 has more than twice the bits, so rounding twice is harmless), and the nearest f32 for
// exp and its kind; fma alone has to be done in f32.  f16 and bf16 are computed in f32 and then
// rounded.
//
// Integers are computed in 64 bits and wrapped to their dtype.  mod has the divisor's sign, as
// Python's; an integer mod 0 is 0.  A negative power of an integer is 0, except of 1 and -1.
// maximum and minimum pass NaN on and take 0.0 for larger than -0.0, so no order of evaluation
// shows.

#include "gen/eval.h"
#include <math.h>

double real_maximum(double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == b)
        return signbit(a) ? b : a;
    return a > b ? a : b;
}

double real_minimum(double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double real_sign(double x)
{
    return isnan(x) ? x : (x > 0) - (x < 0);
}

static double real_mod(double a, double b)
{
    double r = fmod(a, b);
    if (r == 0)
        return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

static int64_t integer_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t integer_pow(int64_t base, int64_t exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    uint64_t power = 1, square = (uint64_t)base;
    for (; exponent; exponent >>= 1, square *= square)
        if (exponent & 1)
            power *= square;
    return (int64_t)power;
}

static int64_t integer_negative(int64_t x) // of the least one too
{
    return (int64_t)(0 - (uint64_t)x);
}

#define EACH(value)                                                                                \
    for (int64_t i = 0; i < n; i++)                                                                \
        out[i] = (value);                                                                          \
    return

static void real_unary(enum op op, int64_t n, const double *a, double *out)
{
    switch ((int)op) {
    case OP_neg:
        EACH(-a[i]);
    case OP_abs:
        EACH(fabs(a[i]));
    case OP_sign:
        EACH(real_sign(a[i]));
    case OP_sqrt:
        EACH(sqrt(a[i]));
    case OP_rsqrt:
        EACH(1 / sqrt(a[i]));
    case OP_exp:
        EACH(exp(a[i]));
    case OP_exp2:
        EACH(exp2(a[i]));
    case OP_expm1:
        EACH(expm1(a[i]));
    case OP_log:
        EACH(log(a[i]));
    case OP_log2:
        EACH(log2(a[i]));
    case OP_log1p:
        EACH(log1p(a[i]));
    case OP_sin:
        EACH(sin(a[i]));
    case OP_cos:
        EACH(cos(a[i]));
    case OP_tan:
        EACH(tan(a[i]));
    case OP_tanh:
        EACH(tanh(a[i]));
    case OP_sinh:
        EACH(sinh(a[i]));
    case OP_cosh:
        EACH(cosh(a[i]));
    case OP_atan:
        EACH(atan(a[i]));
    case OP_erf:
        EACH(erf(a[i]));
    case OP_erfc:
        EACH(erfc(a[i]));
    case OP_floor:
        EACH(floor(a[i]));
    case OP_ceil:
        EACH(ceil(a[i]));
    case OP_round:
        EACH(rint(a[i]));
    case OP_trunc:
        EACH(trunc(a[i]));
    }
}

static void real_binary(enum op op, int64_t n, const double *a, const double *b, double *out)
{
    switch ((int)op) {
    case OP_add:
        EACH(a[i] + b[i]);
    case OP_sub:
        EACH(a[i] - b[i]);
    case OP_mul:
        EACH(a[i] * b[i]);
    case OP_div:
        EACH(a[i] / b[i]);
    case OP_pow:
        EACH(pow(a[i], b[i]));
    case OP_mod:
        EACH(real_mod(a[i], b[i]));
    case OP_minimum:
        EACH(real_minimum(a[i], b[i]));
    case OP_maximum:
        EACH(real_maximum(a[i], b[i]));
    }
}

static void real_fma(bool in_f32, int64_t n, const double *a, const double *b, const double *c,
                     double *out)
{
    if (in_f32) {
        EACH(fmaf((float)a[i], (float)b[i], (float)c[i]));
    }
    EACH(fma(a[i], b[i], c[i]));
}

// Comparisons and tests.
static void real_to_bool(enum op op, int64_t n, const double *a, const double *b, int64_t *out)
{
    switch ((int)op) {
    case OP_lt:
        EACH(a[i] < b[i]);
    case OP_le:
        EACH(a[i] <= b[i]);
    case OP_gt:
        EACH(a[i] > b[i]);
    case OP_ge:
        EACH(a[i] >= b[i]);
    case OP_eq:
        EACH(a[i] == b[i]);
    case OP_ne:
        EACH(a[i] != b[i]);
    case OP_isnan:
        EACH(isnan(a[i]) != 0);
    case OP_isinf:
        EACH(isinf(a[i]) != 0);
    case OP_isfinite:
        EACH(isfinite(a[i]) != 0);
    }
}

static void integer_unary(enum op op, int64_t n, const int64_t *a, int64_t *out)
{
    switch ((int)op) {
    case OP_neg:
        EACH(integer_negative(a[i]));
    case OP_abs:
        EACH(a[i] < 0 ? integer_negative(a[i]) : a[i]);
    case OP_sign:
        EACH((a[i] > 0) - (a[i] < 0));
    case OP_not:
        EACH(!a[i]);
    case OP_floor:
    case OP_ceil:
    case OP_round:
    case OP_trunc:
        EACH(a[i]);
    }
}

static void integer_binary(enum op op, int64_t n, const int64_t *a, const int64_t *b, int64_t *out)
{
    switch ((int)op) {
    case OP_add:
        EACH((int64_t)((uint64_t)a[i] + (uint64_t)b[i]));
    case OP_sub:
        EACH((int64_t)((uint64_t)a[i] - (uint64_t)b[i]));
    case OP_mul:
        EACH((int64_t)((uint64_t)a[i] * (uint64_t)b[i]));
    case OP_pow:
        EACH(integer_pow(a[i], b[i]));
    case OP_mod:
        EACH(integer_mod(a[i], b[i]));
    case OP_minimum:
        EACH(a[i] < b[i] ? a[i] : b[i]);
    case OP_maximum:
        EACH(a[i] > b[i] ? a[i] : b[i]);
    case OP_lt:
        EACH(a[i] < b[i]);
    case OP_le:
        EACH(a[i] <= b[i]);
    case OP_gt:
        EACH(a[i] > b[i]);
    case OP_ge:
        EACH(a[i] >= b[i]);
    case OP_eq:
        EACH(a[i] == b[i]);
    case OP_ne:
        EACH(a[i] != b[i]);
    case OP_and:
        EACH(a[i] && b[i]);
    case OP_or:
        EACH(a[i] || b[i]);
    }
}

static void choose(int64_t n, const int64_t *which, const union element *a, const union element *b,
                   union element *out)
{
    EACH(which[i] ? a[i] : b[i]);
}

static void cast_real(enum dtype to, int64_t n, const double *a, union element *out)
{
    if (dtype_info[to].class == CLASS_float)
        for (int64_t i = 0; i < n; i++)
            out[i].real = round_to(to, a[i]);
    else
        for (int64_t i = 0; i < n; i++)
            out[i].integer = integer_from_real(to, a[i]);
}

static void cast_integer(enum dtype to, int64_t n, const int64_t *a, union element *out)
{
    if (dtype_info[to].class == CLASS_float)
        for (int64_t i = 0; i < n; i++)
            out[i].real = real_from_integer(to, a[i]);
    else
        for (int64_t i = 0; i < n; i++)
            out[i].integer = wrap_to(to, a[i]);
}

#undef EACH

static bool is_computed_in_f32(enum dtype dtype)
{
    return dtype == DT_f32 || dtype == DT_f16 || dtype == DT_bf16;
}

void round_results(enum precision precision, enum dtype dtype, union element *x, int64_t n)
{
    if (dtype_info[dtype].class != CLASS_float) {
        for (int64_t i = 0; dtype != DT_i64 && i < n; i++)
            x[i].integer = wrap_to(dtype, x[i].integer);
        return;
    }
    if (precision != PRECISION_exact && is_computed_in_f32(dtype))
        round_all(DT_f32, &x->real, n);
    if (precision == PRECISION_declared && dtype != DT_f32)
        round_all(dtype, &x->real, n);
}

static void apply_to_reals(const struct node *node, enum precision precision, int64_t n,
                           const union element *const *in, union element *out)
{
    const double *a = &in[0]->real, *b = node->n_in > 1 ? &in[1]->real : a;
    if (dtype_info[node->dtype].class != CLASS_float)
        real_to_bool(node->op, n, a, b, &out->integer);
    else if (node->op == OP_fma)
        real_fma(precision != PRECISION_exact && is_computed_in_f32(node->dtype), n, a, b,
                 &in[2]->real, &out->real);
    else if (node->n_in == 1)
        real_unary(node->op, n, a, &out->real);
    else
        real_binary(node->op, n, a, b, &out->real);
}

void apply(const struct node *node, enum precision precision, int64_t n,
           const union element *const *in, union element *out)
{
    bool takes_reals = dtype_info[node->in[0]->dtype].class == CLASS_float;
    if (node->op == OP_where)
        choose(n, &in[0]->integer, in[1], in[2], out);
    else if (node->op == OP_cast && takes_reals)
        cast_real(node->dtype, n, &in[0]->real, out);
    else if (node->op == OP_cast)
        cast_integer(node->dtype, n, &in[0]->integer, out);
    else if (takes_reals)
        apply_to_reals(node, precision, n, in, out);
    else if (node->n_in == 1)
        integer_unary(node->op, n, &in[0]->integer, &out->integer);
    else
        integer_binary(node->op, n, &in[0]->integer, &in[1]->integer, &out->integer);
    round_results(precision, node->dtype, out, n);
}
