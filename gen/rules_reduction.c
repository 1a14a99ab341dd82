// rules_reduction.c: rules of sums, products, maxima and minima.
//
// A sum over terms is distributed where a term loses axes by it, or where the sum can go on into a
// contraction; sum_gain() follows it down and says what that will save.

#include "gen/rewrite.h"
#include <math.h>

enum { MAX_DEPTH = 12 }; // of operators that a sum is followed through

static double gain_of_matmul(const struct rewriter *r, const struct node *x, uint32_t axes)
{
    int64_t m = x->dim[x->rank - 2], n = x->dim[x->rank - 1];
    bool over_m = axes >> (x->rank - 2) & 1, over_n = axes >> (x->rank - 1) & 1;
    if (!over_m && !over_n)
        return 0;
    double operands =
        (over_m ? (double)node_numel(x->in[0]) : 0) + (over_n ? (double)node_numel(x->in[1]) : 0);
    double saved = time_of_matmul(r, x, m, n) + (double)node_numel(x) -
                   time_of_matmul(r, x, over_m ? 1 : m, over_n ? 1 : n) - 70 * operands;
    return fmax(saved, 0);
}

static bool widens(const struct node *cast)
{
    enum dtype from = cast->in[0]->dtype;
    return cast->op == OP_cast && cast->dtype == DT_f32 && (from == DT_f16 || from == DT_bf16);
}

// Of a contraction's operands: a cast, and twice the bytes where they are read.
static double cost_of_widening(const struct node *x)
{
    return 80 * ((double)node_numel(x->in[0]) + (double)node_numel(x->in[1]));
}

// The same of x in f16 or bf16, which is cast to f32: only what becomes a row or a column, since a
// contraction of f32 is slower.
static double gain_of_widened(const struct rewriter *r, const struct node *x, uint32_t axes,
                              int depth)
{
    double gain = 0;
    int64_t count;
    if (uses(r, x) != 1 || depth > MAX_DEPTH)
        return 0;
    if (x->op == OP_matmul)
        return axes >> (x->rank - 2) ? fmax(gain_of_matmul(r, x, axes) - cost_of_widening(x), 0)
                                     : 0;
    for (int i = 0; i < 2 && (x->op == OP_add || x->op == OP_sub); i++)
        gain += gain_of_widened(r, x->in[i], operand_axes(x->in[i], x, axes, &count), depth + 1);
    return gain;
}

static double gain_of_operand(const struct rewriter *r, const struct node *x, int i, uint32_t axes,
                              int depth)
{
    int64_t count;
    return sum_gain(r, x->in[i], operand_axes(x->in[i], x, axes, &count), depth + 1);
}

// What a sum of x over axes would save by going into x, which nothing else looks at.
double sum_gain(const struct rewriter *r, const struct node *x, uint32_t axes, int depth)
{
    if (uses(r, x) != 1 || depth > MAX_DEPTH || !axes || !is_wide(x))
        return 0;
    switch ((int)x->op) {
    case OP_matmul:
        return gain_of_matmul(r, x, axes);
    case OP_reshape:
        return group_gain(r, x, x->in[0], axes, depth);
    case OP_cast:
        return widens(x) ? gain_of_widened(r, x->in[0], axes, depth + 1) : 0;
    case OP_neg:
        return gain_of_operand(r, x, 0, axes, depth);
    case OP_add:
    case OP_sub:
        return gain_of_operand(r, x, 0, axes, depth) + gain_of_operand(r, x, 1, axes, depth);
    case OP_div:
        return constant_along(x->in[1], x, axes) ? gain_of_operand(r, x, 0, axes, depth) : 0;
    case OP_mul:
        return (constant_along(x->in[1], x, axes) ? gain_of_operand(r, x, 0, axes, depth) : 0) +
               (constant_along(x->in[0], x, axes) ? gain_of_operand(r, x, 1, axes, depth) : 0);
    }
    return 0;
}

// The sum of an operand over those of the axes that it has, times what it is repeated along the
// others.
static struct node *sum_of_operand(struct rewriter *r, struct node *x, const struct node *n,
                                   uint32_t axes)
{
    int64_t count;
    uint32_t has = operand_axes(x, n, axes, &count);
    struct node *sum = has ? make_reduce(r, OP_sum, x, has) : x;
    return count == 1 ? sum : make2(r, OP_mul, sum, make_number(r, x->dtype, (double)count));
}

// sum(x + y) -> sum(x) + sum(y), and of -
static struct node *sum_of_terms(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    uint32_t axes = n->attr.axes;
    if ((x->op != OP_add && x->op != OP_sub) || !is_wide(x))
        return NULL;
    r->promise = sum_gain(r, x, axes, 0);
    return make2(r, x->op, sum_of_operand(r, x->in[0], x, axes),
                 sum_of_operand(r, x->in[1], x, axes));
}

// sum(cast(x + y)) -> sum(cast(x) + cast(y)), of a cast that widens, and of - and @, where the sum
// goes on into a contraction
static struct node *sum_of_widened(struct rewriter *r, struct node *n)
{
    struct node *cast = n->in[0], *x = cast->n_in ? cast->in[0] : cast;
    if (!cast->n_in || !widens(cast) || (x->op != OP_add && x->op != OP_sub && x->op != OP_matmul))
        return NULL;
    r->promise = sum_gain(r, cast, n->attr.axes, 0);
    if (r->promise <= 0)
        return NULL;
    struct node *a = make_cast(r, x->in[0], cast->dtype), *b = make_cast(r, x->in[1], cast->dtype);
    struct node *wide = x->op == OP_matmul ? make_matmul(r, a, b) : make2(r, x->op, a, b);
    return make_reduce(r, OP_sum, wide, n->attr.axes);
}

// sum(-x) -> -sum(x)
static struct node *sum_of_negated(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    return x->op == OP_neg && is_float(x)
               ? make1(r, OP_neg, make_reduce(r, OP_sum, x->in[0], n->attr.axes))
               : NULL;
}

// sum(x * c) -> sum(x) * c, where c is constant along the axes
// sum(x / c) -> sum(x) / c
static struct node *sum_of_multiple(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    uint32_t axes = n->attr.axes;
    if ((x->op != OP_mul && x->op != OP_div) || !is_wide(x))
        return NULL;
    int c = constant_along(x->in[1], x, axes) ? 1 : 0;
    if (!constant_along(x->in[c], x, axes) || (x->op == OP_div && c == 0))
        return NULL;
    return make2(r, x->op, sum_of_operand(r, x->in[1 - c], x, axes), x->in[c]);
}

// sum(sum(x)) -> sum(x) over both axes, of prod too
// max(max(x)) -> max(x) over both axes, of min too
static struct node *reduction_of_reduction(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    if (x->op != n->op || op_info[n->op].types == TYPES_index || x->dtype != x->in[0]->dtype)
        return NULL;
    return make_reduce(r, n->op, x->in[0], x->attr.axes | n->attr.axes);
}

static uint32_t axes_of_one(const struct node *n)
{
    uint32_t axes = 0;
    for (int a = 0; a < n->rank; a++)
        if (n->attr.axes >> a & 1 && n->in[0]->dim[a] == 1)
            axes |= 1u << a;
    return axes;
}

// The reduction over one element is the element, of axes with more the reduction over those.
static struct node *of_one_element(struct rewriter *r, struct node *n)
{
    uint32_t ones = axes_of_one(n);
    if (!ones)
        return NULL;
    if (op_info[n->op].types == TYPES_index)
        return make_integer(r, n->dtype, 0);
    if (n->attr.axes != ones)
        return make_reduce(r, n->op, n->in[0], n->attr.axes & ~ones);
    return make_cast(r, n->in[0], n->dtype);
}

// sum over one element -> the element, where it is never -0, or over fewer axes
static struct node *sum_of_one_exactly(struct rewriter *r, struct node *n)
{
    struct range x = r->state[n->in[0]->id].range;
    bool whole = axes_of_one(n) == n->attr.axes;
    return !whole || at_most(0, x.low) || x.high < 0 || !is_float(n) ? of_one_element(r, n) : NULL;
}

// The axes along which a broadcast repeats its input.
static uint32_t repeated_axes(const struct node *broadcast)
{
    const struct node *x = broadcast->in[0];
    int missing = broadcast->rank - x->rank;
    uint32_t axes = 0;
    for (int a = 0; a < broadcast->rank; a++)
        if (broadcast->dim[a] != 1 && (a < missing || x->dim[a - missing] == 1))
            axes |= 1u << a;
    return axes;
}

// The input of a broadcast in the shape that it has before axes are repeated.
static struct node *unrepeated(struct rewriter *r, const struct node *broadcast, uint32_t axes)
{
    int64_t dim[MAX_RANK];
    for (int a = 0; a < broadcast->rank; a++)
        dim[a] = axes >> a & 1 ? 1 : broadcast->dim[a];
    return make_broadcast(r, broadcast->in[0], broadcast->rank, dim);
}

// max(broadcast(x)) -> max(x) over the axes that are not repeated, of min too
static struct node *largest_of_repeated(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    uint32_t repeated = x->op == OP_broadcast ? repeated_axes(x) & n->attr.axes : 0;
    if (!repeated)
        return NULL;
    return make_reduce(r, n->op, unrepeated(r, x, repeated), n->attr.axes & ~repeated);
}

// sum(broadcast(x)) -> sum(x) * the number of repetitions
static struct node *sum_of_repeated(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    uint32_t repeated = x->op == OP_broadcast ? repeated_axes(x) & n->attr.axes : 0;
    double count = 1;
    if (!repeated || !is_wide(x))
        return NULL;
    for (int a = 0; a < x->rank; a++)
        count *= repeated >> a & 1 ? (double)x->dim[a] : 1;
    struct node *one = make_reduce(r, OP_sum, unrepeated(r, x, repeated), n->attr.axes & ~repeated);
    return make2(r, OP_mul, one, make_number(r, n->dtype, count));
}

// reduce(permute(x)) -> permute(reduce(x))
static struct node *reduction_of_permuted(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    uint32_t axes = 0;
    if (x->op != OP_permute || op_info[n->op].types == TYPES_index)
        return NULL;
    for (int a = 0; a < n->rank; a++)
        if (n->attr.axes >> a & 1)
            axes |= 1u << x->attr.perm[a];
    r->promise = 1;
    return make_permute(r, make_reduce(r, n->op, x->in[0], axes), x->attr.perm);
}

// max(c) -> c of a number c, of min too
static struct node *largest_of_number(struct rewriter *r, struct node *n)
{
    double value;
    return is_float(n) && number(n->in[0], &value) ? make_number(r, n->dtype, value) : NULL;
}

// sum(c) -> c * n of a number c
static struct node *sum_of_number(struct rewriter *r, struct node *n)
{
    double value;
    return is_float(n) && number(n->in[0], &value)
               ? make_number(r, n->dtype, value * (double)reduced_count(n))
               : NULL;
}

// prod(c) -> c ** n of a number c
static struct node *product_of_number(struct rewriter *r, struct node *n)
{
    double value;
    return is_float(n) && number(n->in[0], &value)
               ? make_number(r, n->dtype, pow(value, (double)reduced_count(n)))
               : NULL;
}

// For each axis of a reshape that only puts in or leaves out axes of size 1: the axis of its input;
// -1 for those of size 1.  False: it does more.
static bool kept_axes(const struct node *reshape, int *from)
{
    const struct node *x = reshape->in[0];
    int at = 0;
    for (int a = 0; a < reshape->rank; a++) {
        from[a] = -1;
        if (reshape->dim[a] == 1)
            continue;
        while (at < x->rank && x->dim[at] == 1)
            at++;
        if (at == x->rank || x->dim[at] != reshape->dim[a])
            return false;
        from[a] = at++;
    }
    while (at < x->rank && x->dim[at] == 1)
        at++;
    return at == x->rank;
}

// reduce(reshape(x)) -> reshape(reduce(x)), where the reshape only puts in or leaves out axes of
// size 1
static struct node *reduction_of_squeezed(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    int from[MAX_RANK];
    uint32_t axes = 0;
    if (x->op != OP_reshape || op_info[x->in[0]->op].kind == KIND_leaf || !kept_axes(x, from))
        return NULL;
    for (int a = 0; a < x->rank; a++)
        if (n->attr.axes >> a & 1 && from[a] >= 0)
            axes |= 1u << from[a];
    r->promise = 1;
    return axes ? make_reduce(r, n->op, x->in[0], axes) : NULL;
}

static const struct rule rules[] = {
    {OP_max,    RULE_exact, "reduce, then reshape",  reduction_of_squeezed },
    {OP_min,    RULE_exact, "reduce, then reshape",  reduction_of_squeezed },
    {OP_prod,   RULE_exact, "reduce, then reshape",  reduction_of_squeezed },
    {OP_sum,    RULE_exact, "reduce, then reshape",  reduction_of_squeezed },
    {OP_max,    RULE_exact, "reduction of a number", largest_of_number     },
    {OP_min,    RULE_exact, "reduction of a number", largest_of_number     },
    {OP_sum,    RULE_real,  "reduction of a number", sum_of_number         },
    {OP_prod,   RULE_real,  "reduction of a number", product_of_number     },
    {OP_max,    RULE_exact, "over one element",      of_one_element        },
    {OP_min,    RULE_exact, "over one element",      of_one_element        },
    {OP_prod,   RULE_exact, "over one element",      of_one_element        },
    {OP_argmax, RULE_exact, "over one element",      of_one_element        },
    {OP_argmin, RULE_exact, "over one element",      of_one_element        },
    {OP_sum,    RULE_exact, "over one element",      sum_of_one_exactly    },
    {OP_sum,    RULE_real,  "over one element",      of_one_element        },
    {OP_max,    RULE_exact, "reductions merge",      reduction_of_reduction},
    {OP_min,    RULE_exact, "reductions merge",      reduction_of_reduction},
    {OP_sum,    RULE_real,  "reductions merge",      reduction_of_reduction},
    {OP_prod,   RULE_real,  "reductions merge",      reduction_of_reduction},
    {OP_max,    RULE_exact, "of what is repeated",   largest_of_repeated   },
    {OP_min,    RULE_exact, "of what is repeated",   largest_of_repeated   },
    {OP_sum,    RULE_real,  "of what is repeated",   sum_of_repeated       },
    {OP_max,    RULE_exact, "reduce, then permute",  reduction_of_permuted },
    {OP_min,    RULE_exact, "reduce, then permute",  reduction_of_permuted },
    {OP_sum,    RULE_real,  "reduce, then permute",  reduction_of_permuted },
    {OP_sum,    RULE_real,  "sum of terms",          sum_of_terms          },
    {OP_sum,    RULE_real,  "sum of widened terms",  sum_of_widened        },
    {OP_sum,    RULE_real,  "sum of negated",        sum_of_negated        },
    {OP_sum,    RULE_real,  "factor out of a sum",   sum_of_multiple       },
};

const struct rule_list reduction_rules = {rules, sizeof rules / sizeof *rules};
