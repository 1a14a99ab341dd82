// range.c: a node to the values it can have, from what its inputs can.
//
// Rounding to nearest is monotone, so bounds are computed as values are and rounded to the dtype.
// Where the result of an op cannot be bounded that way the range is everything.  -0.0 lies below
// 0.0: that a value is at least 0.0 says that it is not -0.0.

#include "gen/eval.h"
#include "gen/rewrite.h"
#include <math.h>

bool at_most(double a, double b)
{
    return a < b || (a == b && (signbit(a) || !signbit(b)));
}

static double lower(double a, double b)
{
    return at_most(a, b) ? a : b;
}

static double higher(double a, double b)
{
    return at_most(a, b) ? b : a;
}

static struct range anything(const struct node *n)
{
    switch ((int)n->dtype) {
    case DT_bool:
        return (struct range){0, 1, false};
    case DT_u8:
        return (struct range){0, 255, false};
    case DT_i8:
        return (struct range){-128, 127, false};
    }
    return (struct range){-INFINITY, INFINITY, is_float(n)};
}

static bool finite_range(struct range x)
{
    return isfinite(x.low) && isfinite(x.high);
}

static struct range both(struct range a, struct range b)
{
    return (struct range){lower(a.low, b.low), higher(a.high, b.high), a.nan || b.nan};
}

static struct range negated(struct range x)
{
    return (struct range){-x.high, -x.low, x.nan};
}

// -0.0 is the sum of -0.0 and -0.0 alone.
static struct range sum(struct range a, struct range b)
{
    struct range s = {a.low + b.low, a.high + b.high, a.nan || b.nan};
    if ((isinf(a.low) && isinf(b.high)) || (isinf(a.high) && isinf(b.low)))
        s.nan = true;
    if (isnan(s.low) || isnan(s.high))
        return (struct range){-INFINITY, INFINITY, true};
    return s;
}

static struct range product(struct range a, struct range b)
{
    if (!finite_range(a) || !finite_range(b)) {
        bool positive = at_most(0, a.low) && at_most(0, b.low);
        return (struct range){positive ? 0.0 : -INFINITY, INFINITY, true};
    }
    double p[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    struct range s = {p[0], p[0], a.nan || b.nan};
    for (int i = 1; i < 4; i++) {
        s.low = lower(s.low, p[i]);
        s.high = higher(s.high, p[i]);
    }
    bool signs = !(at_most(0, a.low) && at_most(0, b.low));
    if (s.low == 0)
        s.low = signs ? -0.0 : 0.0;
    if (s.high == 0)
        s.high = signs || s.high > 0 ? 0.0 : s.high;
    return s;
}

static struct range quotient(struct range a, struct range b)
{
    bool divides = b.low > 0 && isfinite(b.high) && finite_range(a);
    if (!divides)
        return (struct range){-INFINITY, INFINITY, true};
    double q[] = {a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high};
    return (struct range){lower(q[0], q[1]), higher(q[2], q[3]), a.nan || b.nan};
}

static struct range square(struct range x)
{
    double a = x.low * x.low, b = x.high * x.high;
    bool spans = x.low <= 0 && x.high >= 0;
    return (struct range){spans ? 0.0 : fmin(a, b), fmax(a, b), x.nan};
}

static struct range absolute(struct range x)
{
    double a = fabs(x.low), b = fabs(x.high);
    bool spans = x.low <= 0 && x.high >= 0;
    return (struct range){spans ? 0.0 : fmin(a, b), fmax(a, b), x.nan};
}

static struct range bounded(struct range x, double low, double high, bool always)
{
    return (struct range){low, high, x.nan || (!always && !finite_range(x))};
}

static struct range monotone(double (*f)(double), struct range x)
{
    return (struct range){f(x.low), f(x.high), x.nan};
}

// Of functions that no two machines compute alike: a margin, but never past what bounds them.
static struct range about(struct range x, double least, double most)
{
    double low = x.low - 1e-6 * fabs(x.low), high = x.high + 1e-6 * fabs(x.high);
    return (struct range){fmax(low, least), fmin(high, most), x.nan};
}

static struct range unary(const struct node *n, struct range x)
{
    switch ((int)n->op) {
    case OP_neg:
        return negated(x);
    case OP_abs:
        return absolute(x);
    case OP_sign:
        return (struct range){(x.low > 0) - (x.low < 0), (x.high > 0) - (x.high < 0), x.nan};
    case OP_sqrt:
        return (struct range){x.low > 0           ? sqrt(x.low)
                              : at_most(0, x.low) ? 0.0
                                                  : -0.0,
                              x.high > 0 ? sqrt(x.high) : 0.0, x.nan || x.low < 0};
    case OP_rsqrt:
        return (struct range){x.low >= 0 && at_most(0, x.low) ? 0.0 : -INFINITY, INFINITY, true};
    case OP_exp:
        return about(monotone(exp, x), x.low >= 0 ? 1 : 0, x.high <= 0 ? 1 : INFINITY);
    case OP_tanh:
        return about(monotone(tanh, x), -1, 1);
    case OP_erf:
        return about(monotone(erf, x), -1, 1);
    case OP_erfc:
        return about((struct range){erfc(x.high), erfc(x.low), x.nan}, 0, 2);
    case OP_atan:
        return about(monotone(atan, x), -1.5707964, 1.5707964);
    case OP_sin:
    case OP_cos:
        return bounded(x, -1, 1, false);
    case OP_floor:
        return monotone(floor, x);
    case OP_ceil:
        return monotone(ceil, x);
    case OP_round:
        return monotone(rint, x);
    case OP_trunc:
        return monotone(trunc, x);
    }
    return anything(n);
}

static struct range truth(bool always, bool never)
{
    return (struct range){always ? 1.0 : 0.0, never ? 0.0 : 1.0, false};
}

// NaN makes all of them false but !=.
static struct range comparison(enum op op, struct range a, struct range b)
{
    bool nan = a.nan || b.nan;
    switch ((int)op) {
    case OP_lt:
        return truth(!nan && a.high < b.low, a.low >= b.high);
    case OP_le:
        return truth(!nan && a.high <= b.low, a.low > b.high);
    case OP_gt:
        return truth(!nan && a.low > b.high, a.high <= b.low);
    case OP_ge:
        return truth(!nan && a.low >= b.high, a.high < b.low);
    }
    return truth(false, false);
}

static struct range binary(const struct node *n, struct range a, struct range b)
{
    switch ((int)n->op) {
    case OP_add:
        return sum(a, b);
    case OP_sub:
        return n->in[0] == n->in[1] ? (struct range){0.0, 0.0, a.nan || !finite_range(a)}
                                    : sum(a, negated(b));
    case OP_mul:
        return n->in[0] == n->in[1] ? square(a) : product(a, b);
    case OP_div:
        return quotient(a, b);
    case OP_minimum:
        return (struct range){lower(a.low, b.low), lower(a.high, b.high), a.nan || b.nan};
    case OP_maximum:
        return (struct range){higher(a.low, b.low), higher(a.high, b.high), a.nan || b.nan};
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge:
    case OP_eq:
    case OP_ne:
        return comparison(n->op, a, b);
    }
    return anything(n);
}

static struct range leaf(const struct node *n)
{
    double value;
    if (n->op == OP_constant && number(n, &value))
        return isnan(value) ? (struct range){INFINITY, -INFINITY, true}
                            : (struct range){value, value, false};
    if (n->op == OP_iota)
        return (struct range){0, fmax((double)n->dim[n->attr.axis] - 1, 0), false};
    return anything(n);
}

// Sums of one sign keep it; their size depends on the order of rounding.
static struct range reduction(const struct node *n, struct range x)
{
    switch ((int)n->op) {
    case OP_max:
    case OP_min:
        return x;
    case OP_sum:
        if (x.low >= 0)
            return (struct range){x.low == 0 ? x.low : 0.0, INFINITY, x.nan};
        if (x.high <= 0)
            return (struct range){-INFINITY, 0, x.nan};
        return anything(n);
    case OP_argmax:
    case OP_argmin:
        return (struct range){0, INFINITY, false};
    }
    return anything(n);
}

static struct range rounded(const struct node *n, struct range x)
{
    if (is_float(n) && x.low <= x.high) {
        enum dtype compute = n->dtype == DT_f64 ? DT_f64 : DT_f32;
        x.low = round_to(n->dtype, round_to(compute, x.low));
        x.high = round_to(n->dtype, round_to(compute, x.high));
    }
    return x;
}

// Integers wrap: what could is anything.
static struct range wrapped(const struct node *n, struct range x)
{
    struct range all = anything(n);
    double limit = n->dtype == DT_i32 ? 0x1p31 - 1 : 0x1p53;
    double low = fmax(all.low, -limit), high = fmin(all.high, limit);
    return is_float(n) || (x.low >= low && x.high <= high) ? x : all;
}

static struct range cast(const struct node *n, struct range x)
{
    if (n->dtype == DT_bool)
        return anything(n);
    if (!is_float(n) && is_float(n->in[0])) {
        if (x.nan)
            x = both(x, (struct range){0, 0, false});
        return (struct range){trunc(x.low) + 0.0, trunc(x.high) + 0.0, false};
    }
    return x;
}

static struct range of_inputs(const struct node *n, const struct range *in)
{
    switch (op_info[n->op].kind) {
    case KIND_leaf:
        return leaf(n);
    case KIND_reduction:
        return reduction(n, in[0]);
    case KIND_contraction:
        return anything(n);
    case KIND_movement:
        return n->op == OP_pad ? both(in[0], (struct range){n->attr.fill, n->attr.fill, false})
                               : in[0];
    case KIND_elementwise:
        break;
    }
    if (n->op == OP_where)
        return in[0].low == 1 ? in[1] : in[0].high == 0 ? in[2] : both(in[1], in[2]);
    if (n->op == OP_cast)
        return cast(n, in[0]);
    if (n->n_in > 2)
        return anything(n);
    return n->n_in == 1 ? unary(n, in[0]) : binary(n, in[0], in[1]);
}

struct range range_of(const struct rewriter *r, const struct node *n)
{
    struct range in[3] = {
        {0, 0, false}
    };
    for (int i = 0; i < n->n_in && n->op != OP_concat; i++) {
        in[i] = r->state[n->in[i]->id].range;
        if (in[i].low > in[i].high) // NaN alone
            return anything(n);
    }
    if (n->op == OP_concat) {
        in[0] = r->state[n->in[0]->id].range;
        for (int i = 1; i < n->n_in; i++)
            in[0] = both(in[0], r->state[n->in[i]->id].range);
    }
    struct range x = of_inputs(n, in);
    if (isnan(x.low) || isnan(x.high))
        return anything(n);
    return wrapped(n, rounded(n, x));
}
