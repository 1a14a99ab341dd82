// rules_monotone.c: rules of maps that keep or reverse the order: the largest value of f(x) is f of
// the largest x.

#include "gen/rewrite.h"
#include <math.h>

static enum op reversed(enum op op)
{
    return op == OP_max ? OP_min : OP_max;
}

// How f moves the order of its operand i: 1 keeps it, -1 reverses it, 0 unknown.
static int order(const struct node *f, int i)
{
    double c;
    if (f->n_in == 2 && (!number(f->in[1 - i], &c) || !isfinite(c)))
        return 0;
    switch ((int)f->op) {
    case OP_maximum:
    case OP_minimum:
    case OP_add:
        return 1;
    case OP_sub:
        return i == 0 ? 1 : -1;
    case OP_mul:
        return (c > 0) - (c < 0);
    case OP_div:
        return i == 0 ? (c > 0) - (c < 0) : 0;
    case OP_neg:
        return -1;
    case OP_floor:
    case OP_ceil:
    case OP_round:
    case OP_trunc:
        return 1;
    case OP_cast:
        return is_float(f) && is_float(f->in[0]) ? 1 : 0;
    }
    return 0;
}

// max(f(x)) -> f(max(x)), of f that keeps the order: + - * / min and max with a number, rounding
// max(f(x)) -> f(min(x)), of f that reverses it
static struct node *largest_of_monotone(struct rewriter *r, struct node *n)
{
    struct node *f = n->in[0];
    if (op_info[f->op].kind != KIND_elementwise || f->n_in > 2 || !is_float(f))
        return NULL;
    for (int i = 0; i < f->n_in; i++) {
        int moves = node_same_shape(f, f->in[i]) ? order(f, i) : 0;
        if (!moves)
            continue;
        struct node *in[2] = {f->in[0], f->n_in > 1 ? f->in[1] : NULL};
        in[i] = make_reduce(r, moves > 0 ? n->op : reversed(n->op), f->in[i], n->attr.axes);
        return make_like(r, f, in);
    }
    return NULL;
}

// max(x + c) -> max(x) + c, where c is constant along the axes, and of -
static struct node *largest_of_shifted(struct rewriter *r, struct node *n)
{
    struct node *f = n->in[0];
    if ((f->op != OP_add && f->op != OP_sub) || !is_float(f))
        return NULL;
    int c = constant_along(f->in[1], f, n->attr.axes) ? 1 : 0;
    if (!constant_along(f->in[c], f, n->attr.axes) || !node_same_shape(f, f->in[1 - c]))
        return NULL;
    bool reverses = f->op == OP_sub && c == 0;
    struct node *in[2] = {f->in[0], f->in[1]};
    in[1 - c] = make_reduce(r, reverses ? reversed(n->op) : n->op, in[1 - c], n->attr.axes);
    return make2(r, f->op, in[0], in[1]);
}

static bool is_increasing(const struct node *f)
{
    switch ((int)f->op) {
    case OP_exp:
    case OP_exp2:
    case OP_expm1:
    case OP_tanh:
    case OP_erf:
    case OP_atan:
    case OP_sinh:
        return true;
    }
    return false;
}

// max(f(x)) -> f(max(x)), of f = exp, tanh and other functions that increase everywhere
static struct node *largest_of_increasing(struct rewriter *r, struct node *n)
{
    struct node *f = n->in[0];
    return is_increasing(f) ? make1(r, f->op, make_reduce(r, n->op, f->in[0], n->attr.axes)) : NULL;
}

// leaky_relu(x) as where(x >= 0, x, x * c), c > 0: x, and the factor as it stands.
static struct node *leaked(const struct node *n, struct node **c)
{
    struct node *x = n->in[1], *leak = n->in[2];
    double zero, slope;
    if ((n->in[0]->op != OP_ge && n->in[0]->op != OP_gt) || n->in[0]->in[0] != x ||
        !number(n->in[0]->in[1], &zero) || zero != 0 || leak->op != OP_mul)
        return NULL;
    for (int i = 0; i < 2; i++)
        if (leak->in[i] == x && number(leak->in[1 - i], &slope) && slope > 0 && isfinite(slope)) {
            *c = leak->in[1 - i];
            return x;
        }
    return NULL;
}

// max(leaky_relu(x)) -> leaky_relu(max(x))
static struct node *largest_of_leaked(struct rewriter *r, struct node *n)
{
    struct node *f = n->in[0], *c, *x = f->op == OP_where ? leaked(f, &c) : NULL;
    if (!x || !node_same_shape(f, x))
        return NULL;
    struct node *most = make_reduce(r, n->op, x, n->attr.axes);
    struct node *test = make2(r, f->in[0]->op, most, make_number(r, f->dtype, 0));
    return make3(r, OP_where, test, most, make2(r, OP_mul, most, c));
}

// sigmoid(x) as where(x >= 0, 1, e) / (1 + e), e = exp(-abs(x)): x
static struct node *sigmoid_of(const struct node *n)
{
    const struct node *top = n->in[0], *bottom = n->in[1];
    if (top->op != OP_where || top->in[0]->op != OP_ge || !is_number(top->in[1], 1))
        return NULL;
    const struct node *e = top->in[2];
    struct node *x = top->in[0]->in[0];
    bool adds = bottom->op == OP_add && ((bottom->in[0] == e && is_number(bottom->in[1], 1)) ||
                                         (bottom->in[1] == e && is_number(bottom->in[0], 1)));
    bool decays = e->op == OP_exp && e->in[0]->op == OP_neg && e->in[0]->in[0]->op == OP_abs;
    return adds && decays && e->in[0]->in[0]->in[0] == x && is_number(top->in[0]->in[1], 0) ? x
                                                                                            : NULL;
}

// max(sigmoid(x)) -> sigmoid(max(x))
static struct node *largest_of_sigmoid(struct rewriter *r, struct node *n)
{
    struct node *f = n->in[0], *x = f->op == OP_div ? sigmoid_of(f) : NULL;
    if (!x || !node_same_shape(f, x))
        return NULL;
    struct node *most = make_reduce(r, n->op, x, n->attr.axes);
    struct node *one = make_number(r, f->dtype, 1), *zero = make_number(r, f->dtype, 0);
    struct node *e = make1(r, OP_exp, make1(r, OP_neg, make1(r, OP_abs, most)));
    struct node *top = make3(r, OP_where, make2(r, OP_ge, most, zero), one, e);
    return make2(r, OP_div, top, make2(r, OP_add, one, e));
}

static const struct rule rules[] = {
    {OP_max, RULE_exact, "largest of a monotone map",     largest_of_monotone  },
    {OP_min, RULE_exact, "smallest of a monotone map",    largest_of_monotone  },
    {OP_max, RULE_real,  "largest of what is shifted",    largest_of_shifted   },
    {OP_min, RULE_real,  "smallest of what is shifted",   largest_of_shifted   },
    {OP_max, RULE_real,  "largest of an increasing map",  largest_of_increasing},
    {OP_min, RULE_real,  "smallest of an increasing map", largest_of_increasing},
    {OP_max, RULE_exact, "largest of leaky_relu",         largest_of_leaked    },
    {OP_min, RULE_exact, "smallest of leaky_relu",        largest_of_leaked    },
    {OP_max, RULE_real,  "largest of sigmoid",            largest_of_sigmoid   },
    {OP_min, RULE_real,  "smallest of sigmoid",           largest_of_sigmoid   },
};

const struct rule_list monotone_rules = {rules, sizeof rules / sizeof *rules};
