// rules_range.c: rules of bounds: what cannot act goes, what can have one value only is that value.

#include "gen/rewrite.h"
#include <math.h>

static const struct range *range(const struct rewriter *r, const struct node *n)
{
    return &r->state[n->id].range;
}

// min(x, y) -> x, where x is never above y
static struct node *idle_minimum(struct rewriter *r, struct node *n)
{
    for (int i = 0; i < 2; i++)
        if (!range(r, n->in[1 - i])->nan &&
            at_most(range(r, n->in[i])->high, range(r, n->in[1 - i])->low))
            return n->in[i];
    return NULL;
}

// max(x, y) -> x, where x is never below y
static struct node *idle_maximum(struct rewriter *r, struct node *n)
{
    for (int i = 0; i < 2; i++)
        if (!range(r, n->in[1 - i])->nan &&
            at_most(range(r, n->in[1 - i])->high, range(r, n->in[i])->low))
            return n->in[i];
    return NULL;
}

static struct node *only_value(struct rewriter *r, struct node *n)
{
    const struct range *x = range(r, n);
    bool computes =
        op_info[n->op].kind == KIND_elementwise || op_info[n->op].kind == KIND_reduction;
    if (!computes || !isfinite(x->low) || x->low != x->high ||
        !signbit(x->low) != !signbit(x->high))
        return NULL;
    return is_float(n) ? make_number(r, n->dtype, x->low)
                       : make_integer(r, n->dtype, (int64_t)x->low);
}

// x -> c, where x is c and never NaN
static struct node *one_value(struct rewriter *r, struct node *n)
{
    return range(r, n)->nan ? NULL : only_value(r, n);
}

// where(true, x, y) -> x
// where(false, x, y) -> y
static struct node *decided_choice(struct rewriter *r, struct node *n)
{
    if (range(r, n->in[0])->low == 1)
        return n->in[1];
    return range(r, n->in[0])->high == 0 ? n->in[2] : NULL;
}

// where(x >= 0, x, x * c) -> x, where x is never below 0, and of >
static struct node *leak_of_positive(struct rewriter *r, struct node *n)
{
    const struct node *test = n->in[0], *leak = n->in[2];
    struct node *x = n->in[1];
    double c;
    bool tests = (test->op == OP_ge || test->op == OP_gt) && test->in[0] == x &&
                 number(test->in[1], &c) && c == 0;
    if (!tests || !(range(r, x)->low >= 0) || leak->op != OP_mul)
        return NULL;
    for (int i = 0; i < 2; i++)
        if (leak->in[i] == x && number(leak->in[1 - i], &c) && c > 0 && isfinite(c))
            return x;
    return NULL;
}

// x = op(y, c) of a number c
static bool bound(const struct node *x, enum op op, struct node **y, double *c)
{
    for (int i = 0; i < 2 && x->op == op; i++)
        if (number(x->in[i], c) && !isnan(*c)) {
            *y = x->in[1 - i];
            return true;
        }
    return false;
}

static double tighter(enum op op, double a, double b)
{
    return (op == OP_maximum) == at_most(a, b) ? b : a;
}

// min(min(x, b), c) -> min(x, min(b, c)), and of max
// max(min(max(x, a), b), c) -> min(max(x, max(a, c)), b), where c <= b, and with min and max
// exchanged
static struct node *bound_of_bound(struct rewriter *r, struct node *n)
{
    enum op op = n->op, other = op == OP_minimum ? OP_maximum : OP_minimum;
    struct node *x, *y, *z;
    double a, b, c;
    if (!bound(n, op, &x, &c))
        return NULL;
    if (bound(x, op, &y, &b))
        return make2(r, op, y, make_number(r, n->dtype, tighter(op, b, c)));
    bool inner = bound(x, other, &y, &b) && bound(y, op, &z, &a);
    if (!inner || !(op == OP_maximum ? at_most(c, b) : at_most(b, c)))
        return NULL;
    struct node *tight = make2(r, op, z, make_number(r, n->dtype, tighter(op, a, c)));
    return make2(r, other, tight, make_number(r, n->dtype, b));
}

// min(min(x, b) * s, c) -> min(x, min(b, c / s)) * s, of s > 0, and of max
static struct node *bound_of_scaled_bound(struct rewriter *r, struct node *n)
{
    struct node *x, *y, *scaled;
    double b, c, s;
    if (!is_wide(n) || !bound(n, n->op, &scaled, &c) || scaled->op != OP_mul || !isfinite(c))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (number(scaled->in[i], &s) && s > 1e-6 && s < 1e6) {
            x = scaled->in[1 - i];
            if (!bound(x, n->op, &y, &b))
                continue;
            struct node *limit = make_number(r, n->dtype, tighter(n->op, b, c / s));
            return make2(r, OP_mul, make2(r, n->op, y, limit), make_number(r, n->dtype, s));
        }
    return NULL;
}

static const struct rule rules[] = {
    {OP_COUNT,   RULE_exact,  "can have one value only",  one_value            },
    {OP_COUNT,   RULE_finite, "can have one value only",  only_value           },
    {OP_minimum, RULE_exact,  "bound that cannot act",    idle_minimum         },
    {OP_maximum, RULE_exact,  "bound that cannot act",    idle_maximum         },
    {OP_where,   RULE_exact,  "choice that is decided",   decided_choice       },
    {OP_where,   RULE_exact,  "leak of what is positive", leak_of_positive     },
    {OP_minimum, RULE_exact,  "bound of a bound",         bound_of_bound       },
    {OP_maximum, RULE_exact,  "bound of a bound",         bound_of_bound       },
    {OP_minimum, RULE_real,   "bound of a scaled bound",  bound_of_scaled_bound},
    {OP_maximum, RULE_real,   "bound of a scaled bound",  bound_of_scaled_bound},
};

const struct rule_list range_rules = {rules, sizeof rules / sizeof *rules};
