// rules_power.c: rules of powers, roots, exponentials, logarithms and casts.

#include "gen/rewrite.h"
#include <math.h>

// pow(x, 1) -> x
// pow(x, 0) -> 1, of NaN too
static struct node *power_of_one(struct rewriter *r, struct node *n)
{
    if (is_number(n->in[1], 1))
        return n->in[0];
    double y;
    return number(n->in[1], &y) && y == 0 ? make_number(r, n->dtype, 1) : NULL;
}

// pow(x, 2) -> x * x, where f64 holds the square
static struct node *square_exactly(struct rewriter *r, struct node *n)
{
    return n->dtype != DT_f64 && is_number(n->in[1], 2) ? make2(r, OP_mul, n->in[0], n->in[0])
                                                        : NULL;
}

// pow(x, 2) -> x * x
// pow(x, 3) -> x * x * x
// pow(x, 4) -> (x * x) * (x * x)
// pow(x, 0.5) -> sqrt(x)
// pow(x, -0.5) -> rsqrt(x), where x is never -0
// pow(x, -1) -> 1 / x
// pow(x, -2) -> 1 / (x * x)
static struct node *small_power(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    double y;
    if (!is_float(n) || !number(n->in[1], &y))
        return NULL;
    if (y == 0.5)
        return make1(r, OP_sqrt, x);
    if (y == -0.5 && at_most(0, r->state[x->id].range.low))
        return make1(r, OP_rsqrt, x);
    if (y != 2 && y != 3 && y != 4 && y != -1 && y != -2)
        return NULL;
    struct node *square = fabs(y) == 1 ? x : make2(r, OP_mul, x, x);
    if (y < 0)
        return make2(r, OP_div, make_number(r, n->dtype, 1), square);
    return y == 2 ? square : make2(r, OP_mul, square, y == 3 ? x : square);
}

static bool is_never_negative(const struct rewriter *r, const struct node *x)
{
    return r->state[x->id].range.low >= 0;
}

// sqrt(x) * sqrt(x) -> x, where x is never below 0
static struct node *square_of_root(struct rewriter *r, struct node *n)
{
    struct node *root = n->in[0];
    return root == n->in[1] && root->op == OP_sqrt && is_never_negative(r, root->in[0])
               ? root->in[0]
               : NULL;
}

// sqrt(x) * sqrt(x) -> x
static struct node *square_of_root_of_finite(struct rewriter *r, struct node *n)
{
    (void)r;
    return n->in[0] == n->in[1] && n->in[0]->op == OP_sqrt ? n->in[0]->in[0] : NULL;
}

// sqrt(x * x) -> abs(x)
static struct node *root_of_square(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    return x->op == OP_mul && x->in[0] == x->in[1] ? make1(r, OP_abs, x->in[0]) : NULL;
}

// 1 / sqrt(x) -> rsqrt(x)
static struct node *one_over_root(struct rewriter *r, struct node *n)
{
    return is_number(n->in[0], 1) && n->in[1]->op == OP_sqrt ? make1(r, OP_rsqrt, n->in[1]->in[0])
                                                             : NULL;
}

// exp(log(x)) -> x, where x is never below 0
static struct node *exp_of_log(struct rewriter *r, struct node *n)
{
    struct node *l = n->in[0];
    return l->op == OP_log && is_never_negative(r, l->in[0]) ? l->in[0] : NULL;
}

// exp(log(x)) -> x
static struct node *exp_of_log_of_finite(struct rewriter *r, struct node *n)
{
    (void)r;
    return n->in[0]->op == OP_log ? n->in[0]->in[0] : NULL;
}

// log(exp(x)) -> x
static struct node *log_of_exp(struct rewriter *r, struct node *n)
{
    (void)r;
    return n->in[0]->op == OP_exp ? n->in[0]->in[0] : NULL;
}

// exp(x - x) -> (x - x) + 1: 1, or NaN
static struct node *exp_of_nothing(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    if (x->op != OP_sub || x->in[0] != x->in[1])
        return NULL;
    return make2(r, OP_add, x, make_number(r, n->dtype, 1));
}

// log of (x - x) + 1 -> x - x: 0, or NaN
static struct node *log_of_one(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    (void)r;
    for (int i = 0; i < 2 && x->op == OP_add; i++) {
        struct node *d = x->in[i];
        if (is_number(x->in[1 - i], 1) && d->op == OP_sub && d->in[0] == d->in[1])
            return d;
    }
    return NULL;
}

// exp(x) * exp(y) -> exp(x + y)
static struct node *product_of_exps(struct rewriter *r, struct node *n)
{
    struct node *a = n->in[0], *b = n->in[1];
    if (a->op != OP_exp || b->op != OP_exp || a == b)
        return NULL;
    return make1(r, OP_exp, make2(r, OP_add, a->in[0], b->in[0]));
}

// Whether every value of `from` is one of `to`.
static bool holds(enum dtype to, enum dtype from)
{
    const struct dtype_info *t = &dtype_info[to], *f = &dtype_info[from];
    if (from == to || from == DT_bool)
        return true;
    if (t->class == CLASS_float && f->class == CLASS_float)
        return t->mantissa >= f->mantissa && to != DT_f16 && (to != DT_bf16);
    if (t->class == CLASS_float)
        return f->class == CLASS_integer && t->mantissa >= 8 * f->bytes;
    return t->class == CLASS_integer && f->class == CLASS_integer && to != DT_u8 &&
           t->bytes > f->bytes;
}

// cast(cast(x, wide), t) -> cast(x, t), where wide holds every x
static struct node *cast_of_cast(struct rewriter *r, struct node *n)
{
    struct node *wide = n->in[0];
    if (wide->op != OP_cast)
        return NULL;
    struct node *x = wide->in[0];
    if (!holds(wide->dtype, x->dtype))
        return NULL;
    bool integers = !is_float(x) && !is_float(wide) && !is_float(n);
    bool floats = is_float(x) && is_float(wide) && is_float(n);
    bool back = n->dtype == x->dtype;
    bool widens = !is_float(x) && !is_float(wide) && holds(n->dtype, wide->dtype);
    return integers || floats || back || widens ? make_cast(r, x, n->dtype) : NULL;
}

static const struct rule rules[] = {
    {OP_pow,  RULE_exact,  "power of 0 or 1",  power_of_one            },
    {OP_pow,  RULE_exact,  "square",           square_exactly          },
    {OP_pow,  RULE_real,   "small power",      small_power             },
    {OP_mul,  RULE_real,   "square of a root", square_of_root          },
    {OP_mul,  RULE_finite, "square of a root", square_of_root_of_finite},
    {OP_sqrt, RULE_real,   "root of a square", root_of_square          },
    {OP_div,  RULE_real,   "one over a root",  one_over_root           },
    {OP_exp,  RULE_exact,  "exp of x - x",     exp_of_nothing          },
    {OP_log,  RULE_exact,  "log of 1",         log_of_one              },
    {OP_exp,  RULE_real,   "exp of log",       exp_of_log              },
    {OP_exp,  RULE_finite, "exp of log",       exp_of_log_of_finite    },
    {OP_log,  RULE_real,   "log of exp",       log_of_exp              },
    {OP_mul,  RULE_real,   "product of exps",  product_of_exps         },
    {OP_cast, RULE_exact,  "cast of a cast",   cast_of_cast            },
};

const struct rule_list power_rules = {rules, sizeof rules / sizeof *rules};
