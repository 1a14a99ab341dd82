// rules_terms.c: rules of terms and factors that belong together: those that are known before any
// input is, those that are smaller, multiples of one value.

#include "gen/rewrite.h"
#include <math.h>

// A sum or product as its known and its other operand, each with its sign or exponent.
struct parted {
    struct node *rest, *known;
    bool rest_inverted, known_inverted;
};

static bool parted(const struct rewriter *r, const struct node *n, enum op plus, enum op minus,
                   struct parted *s)
{
    if (n->op != plus && n->op != minus)
        return false;
    int k = is_known(r, n->in[1]) ? 1 : 0;
    *s =
        (struct parted){n->in[1 - k], n->in[k], n->op == minus && k == 0, n->op == minus && k == 1};
    return is_known(r, s->known) && !is_known(r, s->rest);
}

static bool is_harmless(enum op plus, enum dtype dtype, double value)
{
    double v = constant_value(dtype, value), least = dtype == DT_f16 ? 0x1p-14 : 0x1p-126;
    return isfinite(v) && (plus == OP_add || fabs(v) >= least);
}

// The two known operands as one, no larger than they were; NULL where it would overflow or both
// are inverted, so that *inverted has to say so.
static struct node *joined(struct rewriter *r, enum op plus, enum op minus, struct node *a,
                           bool a_inverted, struct node *b, bool b_inverted, bool *inverted)
{
    double x, y;
    *inverted = a_inverted && b_inverted;
    if (number(a, &x) && number(b, &y)) {
        bool adds = plus == OP_add, same = a_inverted == b_inverted;
        double value = a_inverted && !same ? (adds ? y - x : y / x)
                       : same              ? (adds ? x + y : x * y)
                                           : (adds ? x - y : x / y);
        return is_harmless(plus, a->dtype, value) ? make_number(r, a->dtype, value) : NULL;
    }
    struct node *k = a_inverted == b_inverted ? make2(r, plus, a, b)
                     : a_inverted             ? make2(r, minus, b, a)
                                              : make2(r, minus, a, b);
    return node_numel(k) > node_numel(a) && node_numel(k) > node_numel(b) ? NULL : k;
}

static struct node *collected(struct rewriter *r, struct node *n, enum op plus, enum op minus)
{
    struct parted out, in;
    if (!is_wide(n) || !parted(r, n, plus, minus, &out) || !parted(r, out.rest, plus, minus, &in))
        return NULL;
    bool inverted, flip = out.rest_inverted;
    struct node *k = joined(r, plus, minus, in.known, in.known_inverted != flip, out.known,
                            out.known_inverted, &inverted);
    bool rest_inverted = in.rest_inverted != flip;
    if (!k || (rest_inverted && inverted))
        return NULL;
    if (rest_inverted)
        return make2(r, minus, k, in.rest);
    return make2(r, inverted ? minus : plus, in.rest, k);
}

// (x + k) + l -> x + (k + l), of known k and l, and with any signs
static struct node *collect_terms(struct rewriter *r, struct node *n)
{
    return collected(r, n, OP_add, OP_sub);
}

// (x * k) * l -> x * (k * l), of known k and l, and with any divisions
static struct node *collect_factors(struct rewriter *r, struct node *n)
{
    return collected(r, n, OP_mul, OP_div);
}

static bool is_smaller(const struct node *a, const struct node *b)
{
    return node_numel(a) < node_numel(b);
}

// (x * a) * b -> x * (a * b), where a, b and a * b are smaller than x
static struct node *small_factors(struct rewriter *r, struct node *n)
{
    for (int i = 0; i < 4 && is_wide(n); i++) {
        struct node *y = n->in[i & 1], *b = n->in[1 - (i & 1)];
        struct node *x = y->op == OP_mul ? y->in[i >> 1] : NULL;
        struct node *a = x ? y->in[1 - (i >> 1)] : NULL;
        double of_a, of_b;
        if (!x || !is_smaller(a, x) || !is_smaller(b, x) || (number(a, &of_a) && number(b, &of_b)))
            continue;
        struct node *ab = make2(r, OP_mul, a, b);
        if (is_smaller(ab, x))
            return make2(r, OP_mul, x, ab);
    }
    return NULL;
}

// (A @ B + k) * l + m -> (A @ B) * l + (k * l + m), of known k, l and m, and with any signs
static struct node *shift_through_factor(struct rewriter *r, struct node *n)
{
    struct parted out, scaled, in;
    if (!is_wide(n) || !parted(r, n, OP_add, OP_sub, &out) || out.rest_inverted ||
        !parted(r, out.rest, OP_mul, OP_div, &scaled) || scaled.rest_inverted ||
        !parted(r, scaled.rest, OP_add, OP_sub, &in) || in.rest->op != OP_matmul)
        return NULL;
    struct node *x = make2(r, out.rest->op, in.rest, scaled.known);
    struct node *k = make2(r, out.rest->op, in.known, scaled.known);
    if (in.rest_inverted || in.known_inverted)
        k = in.rest_inverted ? k : make1(r, OP_neg, k);
    struct node *m = make2(r, n->op, k, out.known);
    if (!is_smaller(m, n))
        return NULL;
    return in.rest_inverted ? make2(r, OP_sub, m, x) : make2(r, OP_add, x, m);
}

// x as y times a number
static struct node *multiple(struct node *x, double *c)
{
    for (int i = 0; i < 2 && x->op == OP_mul; i++)
        if (number(x->in[i], c))
            return x->in[1 - i];
    *c = 1;
    return x;
}

// x * a + x * b -> x * (a + b), where a or b may be 1, and of -
static struct node *collect_multiples(struct rewriter *r, struct node *n)
{
    double a, b;
    struct node *x = multiple(n->in[0], &a), *y = multiple(n->in[1], &b);
    if (x != y || !is_wide(n) || (a == 1 && b == 1))
        return NULL;
    double c = n->op == OP_add ? a + b : a - b;
    return c != 0 && is_harmless(OP_mul, n->dtype, c)
               ? make2(r, OP_mul, x, make_number(r, n->dtype, c))
               : NULL;
}

// x * y + x * z -> x * (y + z), where y or z is no number, and of -
static struct node *common_factor(struct rewriter *r, struct node *n)
{
    struct node *a = n->in[0], *b = n->in[1];
    if (a->op != OP_mul || b->op != OP_mul || !is_wide(n))
        return NULL;
    for (int i = 0; i < 4; i++) {
        struct node *x = a->in[i & 1], *y = a->in[1 - (i & 1)], *z = b->in[1 - (i >> 1)];
        double of_y, of_z;
        if (x == b->in[i >> 1] && !(number(y, &of_y) && number(z, &of_z)))
            return make2(r, OP_mul, x, make2(r, n->op, y, z));
    }
    return NULL;
}

// min(x + k, c) - c -> min(x + (k - c), 0), of known k and c, and with max, and with x - k
static struct node *bound_less_itself(struct rewriter *r, struct node *n)
{
    struct node *bound = n->in[0], *c = n->in[1];
    if ((bound->op != OP_minimum && bound->op != OP_maximum) || !is_float(n) || !is_known(r, c))
        return NULL;
    for (int i = 0; i < 2; i++) {
        struct node *x = bound->in[i];
        struct node *less = bound->in[1 - i] != c ? NULL : make2(r, OP_sub, x, c);
        struct node *rest = less ? collected(r, less, OP_add, OP_sub) : NULL;
        if (rest)
            return make2(r, bound->op, rest, make_number(r, n->dtype, 0));
    }
    return NULL;
}

static const struct rule rules[] = {
    {OP_sub, RULE_real, "bound less itself",      bound_less_itself   },
    {OP_add, RULE_real, "known terms together",   collect_terms       },
    {OP_sub, RULE_real, "known terms together",   collect_terms       },
    {OP_mul, RULE_real, "known factors together", collect_factors     },
    {OP_div, RULE_real, "known factors together", collect_factors     },
    {OP_mul, RULE_real, "small factors together", small_factors       },
    {OP_add, RULE_real, "shift through a factor", shift_through_factor},
    {OP_sub, RULE_real, "shift through a factor", shift_through_factor},
    {OP_add, RULE_real, "multiples together",     collect_multiples   },
    {OP_sub, RULE_real, "multiples together",     collect_multiples   },
    {OP_add, RULE_real, "common factor",          common_factor       },
    {OP_sub, RULE_real, "common factor",          common_factor       },
};

const struct rule_list term_rules = {rules, sizeof rules / sizeof *rules};
