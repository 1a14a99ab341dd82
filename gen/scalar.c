// scalar.c: arithmetic of what is known when the program is built: sizes and numbers in, a size or
// number out.
//
// Integers are exact and overflow is an error.  `/` gives a float, as Python's does, which stays
// usable as an integer where it divides evenly.  No tensor is involved, so a result is still weak.

#include "gen/build.h"
#include <math.h>

static bool is_exact(const struct value *v)
{
    return v->kind == VALUE_integer || v->kind == VALUE_bool || v->whole;
}

static struct value overflow(struct build *b)
{
    fail(b->g, "the integer does not fit in 64 bits");
    return value_failed();
}

static struct value whole(int64_t i)
{
    return (struct value){.kind = VALUE_float, .whole = true, .integer = i, .number = (double)i};
}

static bool integer_power(int64_t x, int64_t n, int64_t *out)
{
    *out = 1;
    for (; n > 0; n >>= 1) {
        if (n & 1 && __builtin_mul_overflow(*out, x, out))
            return false;
        if (n > 1 && __builtin_mul_overflow(x, x, &x))
            return false;
    }
    return true;
}

static double floor_modulo(double x, double y)
{
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

// false: no integer result, or none that fits (then *failed)
static bool integer_arithmetic(struct build *b, enum token_kind symbol, int64_t x, int64_t y,
                               int64_t *out, bool *failed)
{
    bool over = false;
    bool divides = symbol == TOKEN_divide || symbol == TOKEN_floor_divide || symbol == TOKEN_modulo;
    if (divides && y == 0) {
        *failed = !fail(b->g, "division by zero");
        return false;
    }
    if (divides && x == INT64_MIN && y == -1) {
        *failed = overflow(b).kind == VALUE_failed;
        return false;
    }
    switch ((int)symbol) {
    case TOKEN_plus:
        over = __builtin_add_overflow(x, y, out);
        break;
    case TOKEN_minus:
        over = __builtin_sub_overflow(x, y, out);
        break;
    case TOKEN_times:
        over = __builtin_mul_overflow(x, y, out);
        break;
    case TOKEN_divide:
        *out = x / y;
        return x % y == 0;
    case TOKEN_floor_divide:
        *out = x / y - (x % y != 0 && (x < 0) != (y < 0));
        break;
    case TOKEN_modulo:
        *out = x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
        break;
    case TOKEN_power:
        if (y < 0)
            return false;
        over = !integer_power(x, y, out);
        break;
    }
    *failed = over && overflow(b).kind == VALUE_failed;
    return !over;
}

static double real_arithmetic(enum token_kind symbol, double x, double y)
{
    switch ((int)symbol) {
    case TOKEN_plus:
        return x + y;
    case TOKEN_minus:
        return x - y;
    case TOKEN_times:
        return x * y;
    case TOKEN_divide:
        return x / y;
    case TOKEN_floor_divide:
        return floor(x / y);
    case TOKEN_modulo:
        return floor_modulo(x, y);
    case TOKEN_power:
        return pow(x, y);
    }
    return NAN;
}

static int compare(const struct value *x, const struct value *y) // 2: unordered
{
    if (is_exact(x) && is_exact(y))
        return (x->integer > y->integer) - (x->integer < y->integer);
    double p = scalar_number(x), q = scalar_number(y);
    return isnan(p) || isnan(q) ? 2 : (p > q) - (p < q);
}

static struct value comparison(enum token_kind symbol, int order)
{
    switch ((int)symbol) {
    case TOKEN_lt:
        return value_bool(order == -1);
    case TOKEN_le:
        return value_bool(order == -1 || order == 0);
    case TOKEN_gt:
        return value_bool(order == 1);
    case TOKEN_ge:
        return value_bool(order == 1 || order == 0);
    case TOKEN_eq:
        return value_bool(order == 0);
    }
    return value_bool(order != 0);
}

struct value scalar_binary(struct build *b, enum token_kind symbol, const struct value *x,
                           const struct value *y)
{
    if (symbol == TOKEN_lt || symbol == TOKEN_le || symbol == TOKEN_gt || symbol == TOKEN_ge ||
        symbol == TOKEN_eq || symbol == TOKEN_ne)
        return comparison(symbol, compare(x, y));
    bool integral = x->kind != VALUE_float && y->kind != VALUE_float;
    if (is_exact(x) && is_exact(y) && (integral || scalar_number(y) != 0)) {
        int64_t exact = 0;
        bool failed = false;
        bool fits = integer_arithmetic(b, symbol, x->integer, y->integer, &exact, &failed);
        if (failed)
            return value_failed();
        if (fits)
            return integral && symbol != TOKEN_divide ? value_integer(exact) : whole(exact);
    }
    return value_float(real_arithmetic(symbol, scalar_number(x), scalar_number(y)));
}

struct value scalar_unary(struct build *b, enum op op, const struct value *x)
{
    int64_t negative;
    if (op == OP_not)
        return value_bool(!x->integer);
    if (is_exact(x) && x->integer != 0) {
        if (__builtin_sub_overflow(0, x->integer, &negative))
            return overflow(b);
        return x->kind == VALUE_float ? whole(negative) : value_integer(negative);
    }
    return x->kind == VALUE_float ? value_float(-x->number) : value_integer(0);
}

static double sign_of(double x)
{
    return isnan(x) ? x : (double)((x > 0) - (x < 0));
}

static double reciprocal_root(double x)
{
    return 1 / sqrt(x);
}

static const struct scalar_function {
    enum op op;
    double (*of)(double);
} scalar_functions[] = {
    {OP_abs,   fabs           },
    {OP_sign,  sign_of        },
    {OP_sqrt,  sqrt           },
    {OP_rsqrt, reciprocal_root},
    {OP_exp,   exp            },
    {OP_exp2,  exp2           },
    {OP_expm1, expm1          },
    {OP_log,   log            },
    {OP_log2,  log2           },
    {OP_log1p, log1p          },
    {OP_sin,   sin            },
    {OP_cos,   cos            },
    {OP_tan,   tan            },
    {OP_tanh,  tanh           },
    {OP_sinh,  sinh           },
    {OP_cosh,  cosh           },
    {OP_atan,  atan           },
    {OP_erf,   erf            },
    {OP_erfc,  erfc           },
    {OP_floor, floor          },
    {OP_ceil,  ceil           },
    {OP_round, rint           },
    {OP_trunc, trunc          },
};

// abs, sign and the roundings of an integer, and the larger of two, are integers still.
static bool integer_call(enum op op, const struct value *x, struct value *out)
{
    switch ((int)op) {
    case OP_floor:
    case OP_ceil:
    case OP_round:
    case OP_trunc:
        *out = value_integer(x->integer);
        return true;
    case OP_abs:
        *out = value_integer(x->integer < 0 ? -x->integer : x->integer);
        return x->integer != INT64_MIN;
    case OP_sign:
        *out = value_integer((x->integer > 0) - (x->integer < 0));
        return true;
    }
    return false;
}

static enum token_kind operator_of(enum op op)
{
    static const enum token_kind operators[OP_COUNT] = {
        [OP_add] = TOKEN_plus,   [OP_sub] = TOKEN_minus,  [OP_mul] = TOKEN_times,
        [OP_div] = TOKEN_divide, [OP_mod] = TOKEN_modulo, [OP_pow] = TOKEN_power,
        [OP_lt] = TOKEN_lt,      [OP_le] = TOKEN_le,      [OP_gt] = TOKEN_gt,
        [OP_ge] = TOKEN_ge,      [OP_eq] = TOKEN_eq,      [OP_ne] = TOKEN_ne};
    return operators[op];
}

// Of two known numbers, a float when the other one is.
static struct value choose(bool first, const struct value *in)
{
    bool mixed = in[0].kind != in[1].kind;
    return mixed ? value_float(scalar_number(&in[!first])) : in[!first];
}

bool scalar_call(struct build *b, enum op op, int n, const struct value *in, struct value *out)
{
    if (n == 2 && operator_of(op)) {
        *out = scalar_binary(b, operator_of(op), &in[0], &in[1]);
        return true;
    }
    if (n == 3 && op == OP_where && in[0].kind == VALUE_bool) {
        *out = choose(in[0].integer, in + 1);
        return true;
    }
    if (n == 1 && op == OP_neg) {
        *out = scalar_unary(b, op, in);
        return true;
    }
    if (n == 2 && (op == OP_minimum || op == OP_maximum)) {
        int order = compare(&in[0], &in[1]);
        bool first = order == 2 ? isnan(scalar_number(&in[0])) : (order < 0) == (op == OP_minimum);
        *out = choose(first, in);
        return true;
    }
    if (n != 1)
        return false;
    if (in[0].kind == VALUE_integer && integer_call(op, &in[0], out))
        return true;
    double x = scalar_number(&in[0]);
    for (size_t i = 0; i < sizeof scalar_functions / sizeof *scalar_functions; i++)
        if (scalar_functions[i].op == op) {
            *out = value_float(scalar_functions[i].of(x));
            return true;
        }
    bool tests = op == OP_isnan || op == OP_isinf || op == OP_isfinite;
    *out = value_bool(op == OP_isnan ? isnan(x) : op == OP_isinf ? isinf(x) : isfinite(x));
    return tests;
}
