// rules_normalise.c: rules of what a normalisation undoes: a shift before it, and a scale.

#include "gen/rewrite.h"
#include <math.h>

// The sum that a mean is made of: sum(x) / n, or times 1 / n where that is exact.
static const struct node *mean_sum(const struct node *n)
{
    double c;
    for (int i = 0; i < 2 && (n->op == OP_mul || n->op == OP_div); i++) {
        const struct node *sum = n->in[1 - i];
        if (sum->op != OP_sum || !number(n->in[i], &c) || (n->op == OP_div && i == 0))
            continue;
        double count = (double)reduced_count(sum);
        if (n->op == OP_div ? c == count : power_of_two(n->dtype, c) && 1 / c == count)
            return sum;
    }
    return NULL;
}

static struct node *mean(struct rewriter *r, struct node *x, const struct node *sum)
{
    struct node *count = make_number(r, x->dtype, (double)reduced_count(sum));
    return make2(r, OP_div, make_reduce(r, OP_sum, x, sum->attr.axes), count);
}

// x - mean(x): the sum in it.
static const struct node *centred_sum(const struct node *n)
{
    const struct node *sum = n->op == OP_sub ? mean_sum(n->in[1]) : NULL;
    return sum && sum->in[0] == n->in[0] ? sum : NULL;
}

static struct node *centred(struct rewriter *r, struct node *x, const struct node *sum)
{
    return make2(r, OP_sub, x, mean(r, x, sum));
}

// The operand of a binary op that is constant along the axes while the other has them all; -1.
static int constant_operand(const struct node *x, uint32_t axes)
{
    for (int i = 1; i >= 0; i--)
        if (constant_along(x->in[i], x, axes) && node_same_shape(x, x->in[1 - i]))
            return i;
    return -1;
}

// (x + c) - mean(x + c) -> x - mean(x), where c is constant along the mean's axes, and of -
static struct node *shift_before_centring(struct rewriter *r, struct node *n)
{
    const struct node *sum = centred_sum(n);
    struct node *x = n->in[0];
    if (!sum || (x->op != OP_add && x->op != OP_sub))
        return NULL;
    int c = constant_operand(x, sum->attr.axes);
    if (c < 0 || (x->op == OP_sub && c == 0))
        return NULL;
    return centred(r, x->in[1 - c], sum);
}

// What c * rsqrt(mean(c * c) + eps) is made of; c may itself be centred.
struct normalised {
    struct node *c, *eps;
    const struct node *sum, *centre; // of squares; of c's mean, NULL: not centred
};

static bool is_normalised(const struct node *n, int i, struct normalised *out)
{
    struct node *c = n->in[1 - i];
    const struct node *root = n->in[i], *sum;
    if (root->op != OP_rsqrt || root->in[0]->op != OP_add)
        return false;
    for (int e = 0; e < 2; e++) {
        struct node *eps = root->in[0]->in[e];
        sum = mean_sum(root->in[0]->in[1 - e]);
        if (!sum || sum->in[0]->op != OP_mul || sum->in[0]->in[0] != c || sum->in[0]->in[1] != c)
            continue;
        *out = (struct normalised){.c = c, .eps = eps, .sum = sum, .centre = centred_sum(c)};
        return !out->centre || out->centre->attr.axes == sum->attr.axes;
    }
    return false;
}

// normalised(x * s), with eps -> normalised(x) * sign(s), with eps / s^2, where s is constant along
// the axes
static struct node *scale_before_normalising(struct rewriter *r, struct node *n)
{
    struct normalised m;
    if (!is_wide(n) || (!is_normalised(n, 1, &m) && !is_normalised(n, 0, &m)))
        return NULL;
    struct node *y = m.centre ? m.c->in[0] : m.c;
    int i = y->op == OP_mul ? constant_operand(y, m.sum->attr.axes) : -1;
    if (i < 0)
        return NULL;
    struct node *s = y->in[i], *x = y->in[1 - i];
    double value, eps;
    if (number(s, &value) && number(m.eps, &eps) &&
        !(isfinite(value) && fabs(value) > 1e-6 && fabs(value) < 1e6))
        return NULL;
    struct node *c = m.centre ? centred(r, x, m.centre) : x;
    struct node *variance = mean(r, make2(r, OP_mul, c, c), m.sum);
    struct node *small = make2(r, OP_div, m.eps, make2(r, OP_mul, s, s));
    struct node *root = make1(r, OP_rsqrt, make2(r, OP_add, variance, small));
    return make2(r, OP_mul, c, make2(r, OP_mul, root, make1(r, OP_sign, s)));
}

static const struct rule rules[] = {
    {OP_sub, RULE_finite, "shift before centring",    shift_before_centring   },
    {OP_mul, RULE_real,   "scale before normalising", scale_before_normalising},
};

const struct rule_list normalise_rules = {rules, sizeof rules / sizeof *rules};
