// rules_groups.c: rules of sums over parts of an axis, which a reshape has split: average pooling.

#include "gen/rewrite.h"
#include <math.h>

enum { MAX_DEPTH = 12 }; // of operators that a sum is followed through

// The axes [first, last) that a reshape makes of the last axis alone; false: it mixes it with
// others.
static bool splits_columns(const struct node *reshape, int *first, int *last)
{
    const struct node *x = reshape->in[0];
    int64_t columns = x->rank ? x->dim[x->rank - 1] : 1, product = 1;
    int d = reshape->rank;
    while (d > 0 && product < columns)
        product *= reshape->dim[--d];
    *first = d;
    *last = reshape->rank;
    return product == columns && columns > 1;
}

static bool groups_of_columns(const struct node *reshape, uint32_t axes, int *first, int *last)
{
    if (!splits_columns(reshape, first, last))
        return false;
    for (int a = 0; a < *first; a++)
        if (axes >> a & 1 && reshape->dim[a] != 1)
            return false;
    return true;
}

static int64_t kept_columns(const struct node *reshape, uint32_t axes, int first, int last)
{
    int64_t kept = 1;
    for (int a = first; a < last; a++)
        kept *= axes >> a & 1 ? 1 : reshape->dim[a];
    return kept;
}

static double gain_of_matmul(const struct rewriter *r, const struct node *reshape,
                             const struct node *x, uint32_t axes)
{
    int first, last;
    if (!groups_of_columns(reshape, axes, &first, &last))
        return 0;
    int64_t m = x->dim[x->rank - 2], n = x->dim[x->rank - 1];
    int64_t kept = kept_columns(reshape, axes, first, last);
    double saved = time_of_matmul(r, x, m, n) + (double)node_numel(x) -
                   time_of_matmul(r, x, m, kept) - 70 * (double)node_numel(x->in[1]);
    return kept < n ? fmax(saved, 0) : 0;
}

double group_gain(const struct rewriter *r, const struct node *reshape, const struct node *x,
                  uint32_t axes, int depth)
{
    double gain = 0;
    if (uses(r, x) != 1 || depth > MAX_DEPTH || !node_same_shape(x, reshape->in[0]) || !is_wide(x))
        return 0;
    if (x->op == OP_matmul)
        return gain_of_matmul(r, reshape, x, axes);
    if (x->op == OP_add || x->op == OP_sub || x->op == OP_neg)
        for (int i = 0; i < x->n_in; i++)
            gain += group_gain(r, reshape, x->in[i], axes, depth + 1);
    for (int i = 0; i < 2 && (x->op == OP_mul || (x->op == OP_div && i == 0)); i++)
        if (node_numel(x->in[1 - i]) == 1)
            gain += group_gain(r, reshape, x->in[i], axes, depth + 1);
    return gain;
}

// sum(reshape(A @ B)) over groups of columns -> A @ reshape(sum(reshape(B)))
static struct node *sum_of_groups(struct rewriter *r, struct node *n)
{
    struct node *reshape = n->in[0], *x = reshape->op == OP_reshape ? reshape->in[0] : NULL;
    int first, last;
    if (!x || x->op != OP_matmul || !is_wide(x) ||
        !groups_of_columns(reshape, n->attr.axes, &first, &last))
        return NULL;
    struct node *b = x->in[1];
    int64_t dim[MAX_RANK];
    int rows = b->rank - 1, rank = rows + last - first;
    uint32_t axes = 0;
    for (int d = 0; d < rows && rank <= MAX_RANK; d++)
        dim[d] = b->dim[d];
    for (int d = first; d < last && rank <= MAX_RANK; d++) {
        dim[rows + d - first] = reshape->dim[d];
        axes |= (n->attr.axes >> d & 1) << (rows + d - first);
    }
    if (rank > MAX_RANK || !axes)
        return NULL;
    struct node *groups = make_reduce(r, OP_sum, make_reshape(r, b, rank, dim), axes);
    dim[rows] = kept_columns(reshape, n->attr.axes, first, last);
    return make_matmul(r, x->in[0], make_reshape(r, groups, b->rank, dim));
}

// An operand of x, reshaped as x is; NULL where it repeats along an axis that is not kept.
static struct node *reshaped_operand(struct rewriter *r, struct node *operand, const struct node *x,
                                     const struct node *reshape)
{
    int first, last;
    if (node_numel(operand) == 1 && operand->rank == 0)
        return operand;
    if (node_same_shape(operand, x))
        return make_reshape(r, operand, reshape->rank, reshape->dim);
    if (!splits_columns(reshape, &first, &last) ||
        node_numel(operand) != operand->dim[operand->rank - 1] ||
        node_numel(operand) != x->dim[x->rank - 1])
        return NULL;
    return make_reshape(r, operand, last - first, reshape->dim + first);
}

// sum(reshape(f(x, y))) -> sum(f(reshape(x), reshape(y))), where the sum goes on into a contraction
static struct node *sum_of_reshaped(struct rewriter *r, struct node *n)
{
    struct node *reshape = n->in[0], *x = reshape->op == OP_reshape ? reshape->in[0] : NULL, *in[2];
    if (!x || (x->op != OP_add && x->op != OP_sub && x->op != OP_mul && x->op != OP_div &&
               x->op != OP_neg))
        return NULL;
    r->promise = uses(r, reshape) == 1 ? group_gain(r, reshape, x, n->attr.axes, 0) : 0;
    for (int i = 0; i < x->n_in && r->promise > 0; i++)
        if (!(in[i] = reshaped_operand(r, x->in[i], x, reshape)))
            return NULL;
    return r->promise > 0 ? make_reduce(r, OP_sum, make_like(r, x, in), n->attr.axes) : NULL;
}

static const struct rule rules[] = {
    {OP_sum, RULE_real, "sum of groups into a contraction", sum_of_groups  },
    {OP_sum, RULE_real, "reshape before a sum",             sum_of_reshaped},
};

const struct rule_list group_rules = {rules, sizeof rules / sizeof *rules};
