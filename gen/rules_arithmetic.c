// rules_arithmetic.c: rules of + - * / where and their kind: neutral elements, signs, numbers.

#include "gen/eval.h"
#include "gen/rewrite.h"
#include <math.h>

// x + -0 -> x
static struct node *add_negative_zero(struct rewriter *r, struct node *n)
{
    (void)r;
    for (int i = 0; i < 2; i++)
        if (is_float(n) ? is_number(n->in[i], -0.0) : is_number(n->in[i], 0))
            return n->in[1 - i];
    return NULL;
}

// x - 0 -> x
static struct node *subtract_zero(struct rewriter *r, struct node *n)
{
    (void)r;
    return is_number(n->in[1], 0) ? n->in[0] : NULL;
}

// x + 0 -> x, where x is never -0
static struct node *add_zero_exactly(struct rewriter *r, struct node *n)
{
    for (int i = 0; i < 2; i++) {
        struct range x = r->state[n->in[1 - i]->id].range;
        if (is_number(n->in[i], 0) && (at_most(0, x.low) || x.high < 0))
            return n->in[1 - i];
    }
    return NULL;
}

// x + 0 -> x
static struct node *add_zero(struct rewriter *r, struct node *n)
{
    (void)r;
    for (int i = 0; i < 2; i++)
        if (is_number(n->in[i], 0))
            return n->in[1 - i];
    return NULL;
}

// x * 1 -> x
// x * -1 -> -x
static struct node *times_one(struct rewriter *r, struct node *n)
{
    for (int i = 0; i < 2; i++) {
        if (is_number(n->in[i], 1))
            return n->in[1 - i];
        if (is_number(n->in[i], -1))
            return make1(r, OP_neg, n->in[1 - i]);
    }
    return NULL;
}

// x / 1 -> x
// x / -1 -> -x
static struct node *over_one(struct rewriter *r, struct node *n)
{
    if (is_number(n->in[1], 1))
        return n->in[0];
    return is_number(n->in[1], -1) ? make1(r, OP_neg, n->in[0]) : NULL;
}

// x * 0 -> 0
static struct node *times_zero(struct rewriter *r, struct node *n)
{
    (void)r;
    for (int i = 0; i < 2; i++)
        if (is_number(n->in[i], 0))
            return n->in[i];
    return NULL;
}

// x / 2^k -> x * 2^-k
static struct node *over_power_of_two(struct rewriter *r, struct node *n)
{
    double c;
    if (!number(n->in[1], &c) || !power_of_two(n->dtype, c))
        return NULL;
    return make2(r, OP_mul, n->in[0], make_number(r, n->dtype, 1 / c));
}

// -(-x) -> x
static struct node *twice_negated(struct rewriter *r, struct node *n)
{
    (void)r;
    return n->in[0]->op == OP_neg ? n->in[0]->in[0] : NULL;
}

// x + (-y) -> x - y
static struct node *add_negated(struct rewriter *r, struct node *n)
{
    for (int i = 0; i < 2; i++)
        if (n->in[i]->op == OP_neg)
            return make2(r, OP_sub, n->in[1 - i], n->in[i]->in[0]);
    return NULL;
}

// x - (-y) -> x + y
static struct node *subtract_negated(struct rewriter *r, struct node *n)
{
    return n->in[1]->op == OP_neg ? make2(r, OP_add, n->in[0], n->in[1]->in[0]) : NULL;
}

// (-x) * (-y) -> x * y, and of /
// (-x) * c -> x * (-c), and of /
static struct node *sign_into_factor(struct rewriter *r, struct node *n)
{
    double c;
    for (int i = 0; i < 2; i++) {
        struct node *x = n->in[i], *y = n->in[1 - i], *in[2];
        if (x->op != OP_neg)
            continue;
        in[i] = x->in[0];
        if (y->op == OP_neg)
            in[1 - i] = y->in[0];
        else if (is_float(n) && number(y, &c))
            in[1 - i] = make_number(r, n->dtype, -c);
        else
            continue;
        return make2(r, n->op, in[0], in[1]);
    }
    return NULL;
}

// -(x * c) -> x * (-c), and of /
static struct node *negated_product(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    double c;
    if ((x->op != OP_mul && x->op != OP_div) || !is_float(n))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (number(x->in[i], &c)) {
            struct node *in[] = {x->in[0], x->in[1]};
            in[i] = make_number(r, n->dtype, -c);
            return make2(r, x->op, in[0], in[1]);
        }
    return NULL;
}

// x - x -> 0
static struct node *difference_with_itself(struct rewriter *r, struct node *n)
{
    return n->in[0] == n->in[1] ? make_number(r, n->dtype, 0) : NULL;
}

// x / x -> 1
static struct node *quotient_with_itself(struct rewriter *r, struct node *n)
{
    return n->in[0] == n->in[1] ? make_number(r, n->dtype, 1) : NULL;
}

// x / x -> x, where x is 1 or NaN
static struct node *one_over_one(struct rewriter *r, struct node *n)
{
    struct range x = r->state[n->in[0]->id].range;
    return n->in[0] == n->in[1] && x.low == 1 && x.high == 1 ? n->in[0] : NULL;
}

// max(x, x) -> x, of min, and, or too
static struct node *of_itself(struct rewriter *r, struct node *n)
{
    (void)r;
    return n->in[0] == n->in[1] ? n->in[0] : NULL;
}

// where(c, x, x) -> x
// where(not c, x, y) -> where(c, y, x)
static struct node *choice(struct rewriter *r, struct node *n)
{
    if (n->in[1] == n->in[2])
        return n->in[1];
    if (n->in[0]->op == OP_not)
        return make3(r, OP_where, n->in[0]->in[0], n->in[2], n->in[1]);
    return NULL;
}

// not not x -> x
static struct node *twice_not(struct rewriter *r, struct node *n)
{
    (void)r;
    return n->in[0]->op == OP_not ? n->in[0]->in[0] : NULL;
}

// abs(-x) -> abs(x)
// abs(x) -> x, where x is never below 0
static struct node *absolute(struct rewriter *r, struct node *n)
{
    if (n->in[0]->op == OP_neg)
        return make1(r, OP_abs, n->in[0]->in[0]);
    return at_most(0, r->state[n->in[0]->id].range.low) ? n->in[0] : NULL;
}

// (x - s) + s -> x, where s = where(isfinite(x), x, 0)
static struct node *shift_and_back(struct rewriter *r, struct node *n)
{
    (void)r;
    for (int i = 0; i < 2; i++) {
        struct node *d = n->in[i], *s = n->in[1 - i];
        if (d->op == OP_sub && d->in[1] == s && s->op == OP_where && s->in[1] == d->in[0] &&
            s->in[0]->op == OP_isfinite && s->in[0]->in[0] == d->in[0] && is_number(s->in[2], 0))
            return d->in[0];
    }
    return NULL;
}

// An op on numbers is the number that eval makes of them.
static struct node *fold_numbers(struct rewriter *r, struct node *n)
{
    union element in[3], out;
    const union element *at[3];
    double value;
    if (op_info[n->op].kind != KIND_elementwise)
        return NULL;
    for (int i = 0; i < n->n_in; i++) {
        if (!number(n->in[i], &value))
            return NULL;
        if (is_float(n->in[i]))
            in[i].real = value;
        else
            in[i].integer = (int64_t)value;
        at[i] = &in[i];
    }
    apply(n, PRECISION_declared, 1, at, &out);
    return is_float(n) ? make_number(r, n->dtype, out.real)
                       : make_integer(r, n->dtype, out.integer);
}

static const struct rule rules[] = {
    {OP_COUNT,   RULE_exact,  "numbers fold",                 fold_numbers          },
    {OP_add,     RULE_exact,  "adding -0",                    add_negative_zero     },
    {OP_sub,     RULE_exact,  "subtracting 0",                subtract_zero         },
    {OP_add,     RULE_exact,  "adding 0 to what is never -0", add_zero_exactly      },
    {OP_add,     RULE_real,   "adding 0",                     add_zero              },
    {OP_mul,     RULE_exact,  "times 1",                      times_one             },
    {OP_div,     RULE_exact,  "over 1",                       over_one              },
    {OP_mul,     RULE_finite, "times 0",                      times_zero            },
    {OP_div,     RULE_exact,  "over a power of two",          over_power_of_two     },
    {OP_neg,     RULE_exact,  "negated twice",                twice_negated         },
    {OP_neg,     RULE_exact,  "sign into a factor",           negated_product       },
    {OP_add,     RULE_exact,  "adding what is negated",       add_negated           },
    {OP_sub,     RULE_exact,  "subtracting what is negated",  subtract_negated      },
    {OP_mul,     RULE_exact,  "sign into a factor",           sign_into_factor      },
    {OP_div,     RULE_exact,  "sign into a factor",           sign_into_factor      },
    {OP_sub,     RULE_finite, "x - x",                        difference_with_itself},
    {OP_div,     RULE_exact,  "1 / 1",                        one_over_one          },
    {OP_div,     RULE_finite, "x / x",                        quotient_with_itself  },
    {OP_add,     RULE_real,   "shift and back",               shift_and_back        },
    {OP_maximum, RULE_exact,  "of itself",                    of_itself             },
    {OP_minimum, RULE_exact,  "of itself",                    of_itself             },
    {OP_and,     RULE_exact,  "of itself",                    of_itself             },
    {OP_or,      RULE_exact,  "of itself",                    of_itself             },
    {OP_where,   RULE_exact,  "choice that is none",          choice                },
    {OP_not,     RULE_exact,  "not twice",                    twice_not             },
    {OP_abs,     RULE_exact,  "abs of what has its sign",     absolute              },
};

const struct rule_list arithmetic_rules = {rules, sizeof rules / sizeof *rules};
