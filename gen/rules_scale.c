// rules_scale.c: rules of factors and terms before and after a contraction: what is known before
// any input is goes into its weights and bias.

#include "gen/rewrite.h"

enum { KEPT_FROM_ROWS = 16384 }; // of the other operand

// Whether k lies along the columns of a contraction's result, or is one number.
static bool along_columns(const struct node *k, const struct node *matmul)
{
    for (int a = 0; a < k->rank - 1; a++)
        if (k->dim[a] != 1)
            return false;
    return !k->rank || k->dim[k->rank - 1] == 1 ||
           k->dim[k->rank - 1] == matmul->dim[matmul->rank - 1];
}

static bool along_rows(const struct node *k)
{
    for (int a = 0; a < k->rank; a++)
        if (k->dim[a] != 1 && a != k->rank - 2)
            return false;
    return true;
}

// A factor goes into a known operand that is computed anyway.  A plain weight takes it only where
// so many rows share it that the product is worth keeping: else it were computed for every tile.
static bool takes_factor(const struct rewriter *r, const struct node *operand, int64_t rows)
{
    while (operand->op == OP_permute || operand->op == OP_reshape)
        operand = operand->in[0];
    if (!is_known(r, operand))
        return false;
    return op_info[operand->op].kind != KIND_leaf ||
           (!r->options->each_run && rows > KEPT_FROM_ROWS);
}

// sum(x * k) * c -> sum(x * (k * c)), of known k and number c, and of /
static struct node *factor_into_sum(struct rewriter *r, struct node *sum, enum op op,
                                    struct node *c)
{
    struct node *x = sum->in[0];
    for (int i = 0; i < 2 && x->op == OP_mul; i++)
        if (takes_factor(r, x->in[i], 0) && !is_known(r, x->in[1 - i]))
            return make_reduce(r, OP_sum, make2(r, OP_mul, x->in[1 - i], make2(r, op, x->in[i], c)),
                               sum->attr.axes);
    return NULL;
}

// x times or over k, with k gone into x; NULL where x cannot take it.
static struct node *absorbed(struct rewriter *r, struct node *x, enum op op, struct node *k)
{
    if (uses(r, x) != 1)
        return NULL;
    if (x->op == OP_sum && node_numel(k) == 1 && k->rank == 0)
        return factor_into_sum(r, x, op, k);
    if (x->op != OP_matmul || (k->rank > x->rank))
        return NULL;
    struct node *a = x->in[0], *b = x->in[1];
    if (takes_factor(r, b, node_numel(x) / x->dim[x->rank - 1]) && along_columns(k, x))
        return make_matmul(r, a, make2(r, op, b, k));
    if (takes_factor(r, a, x->dim[x->rank - 1]) && along_rows(k))
        return make_matmul(r, make2(r, op, a, k), b);
    return NULL;
}

static int known_factor(const struct rewriter *r, const struct node *n)
{
    if (is_known(r, n->in[1]))
        return 1;
    return n->op == OP_mul && is_known(r, n->in[0]) ? 0 : -1;
}

// (A @ B) * k -> A @ (B * k), of known B and k, and of /
static struct node *factor_into_contraction(struct rewriter *r, struct node *n)
{
    int i = known_factor(r, n);
    if (i < 0 || !is_wide(n) || !node_same_shape(n, n->in[1 - i]))
        return NULL;
    return absorbed(r, n->in[1 - i], n->op, n->in[i]);
}

// (A @ B + l) * k -> A @ (B * k) + l * k, of known B, k and l, and of - and /
static struct node *factor_over_bias(struct rewriter *r, struct node *n)
{
    int i = known_factor(r, n);
    struct node *y = i < 0 ? n : n->in[1 - i], *k = i < 0 ? n : n->in[i];
    if (y == n || (y->op != OP_add && y->op != OP_sub) || !is_wide(n) || uses(r, y) != 1)
        return NULL;
    int l = is_known(r, y->in[1]) ? 1 : 0;
    if (!is_known(r, y->in[l]) || !node_same_shape(y, y->in[1 - l]) || !node_same_shape(y, n))
        return NULL;
    struct node *in[2], *rest = absorbed(r, y->in[1 - l], n->op, k);
    if (!rest)
        return NULL;
    in[1 - l] = rest;
    in[l] = make2(r, n->op, y->in[l], k);
    if (node_numel(in[l]) > node_numel(y->in[l]) && node_numel(in[l]) > node_numel(k))
        return NULL;
    return make2(r, y->op, in[0], in[1]);
}

// A row of numbers that an operand's columns were scaled or shifted by, as a matrix of one row.
static struct node *as_row(struct rewriter *r, struct node *k, int64_t columns)
{
    int64_t dim[] = {1, columns};
    return make_reshape(r, make_broadcast(r, k, k->rank > 2 ? k->rank : 2, dim), 2, dim);
}

static bool is_row_of(const struct node *k, const struct node *x)
{
    return k->rank <= 2 && along_columns(k, x) && x->rank >= 2;
}

// (x * k) @ B -> x @ (k^T * B), of known k and B, and of /
static struct node *factor_of_columns(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0], *b = n->in[1];
    if ((x->op != OP_mul && x->op != OP_div) || !is_wide(n) || b->rank != 2 ||
        !takes_factor(r, b, node_numel(x) / b->dim[0]))
        return NULL;
    int i = known_factor(r, x);
    if (i < 0 || !is_row_of(x->in[i], x) || !node_same_shape(x, x->in[1 - i]))
        return NULL;
    struct node *row = as_row(r, x->in[i], b->dim[0]);
    return make_matmul(r, x->in[1 - i], make2(r, x->op, b, swapped(r, row)));
}

// (x + k) @ B -> x @ B + k @ B, of known k and B, and of -
static struct node *shift_of_columns(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0], *b = n->in[1];
    if ((x->op != OP_add && x->op != OP_sub) || !is_wide(n) || !is_known(r, b) || b->rank != 2)
        return NULL;
    int i = is_known(r, x->in[1]) ? 1 : 0;
    if (!is_known(r, x->in[i]) || !is_row_of(x->in[i], x) || !node_same_shape(x, x->in[1 - i]))
        return NULL;
    struct node *in[2];
    in[i] = make_matmul(r, as_row(r, x->in[i], b->dim[0]), b);
    struct node *rest = x->in[1 - i];
    bool chains = rest->op == OP_matmul && rest->rank == 2 && uses(r, rest) == 1 &&
                  is_known(r, rest->in[1]) && rest->in[1]->rank == 2;
    in[1 - i] = chains ? make_matmul(r, rest->in[0], make_matmul(r, rest->in[1], b))
                       : make_matmul(r, rest, b);
    return make2(r, x->op, in[0], in[1]);
}

// (x * c) @ B -> (x @ B) * c, where c is one number a row, and of /
static struct node *factor_of_rows(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    if ((x->op != OP_mul && x->op != OP_div) || !is_wide(n))
        return NULL;
    int i = constant_along(x->in[1], x, 1u << (x->rank - 1)) ? 1 : 0;
    if (!constant_along(x->in[i], x, 1u << (x->rank - 1)) || (x->op == OP_div && i == 0) ||
        !node_same_shape(x, x->in[1 - i]))
        return NULL;
    return make2(r, x->op, make_matmul(r, x->in[1 - i], n->in[1]), x->in[i]);
}

static const struct rule rules[] = {
    {OP_mul,    RULE_real, "factor into a contraction",            factor_into_contraction},
    {OP_div,    RULE_real, "factor into a contraction",            factor_into_contraction},
    {OP_mul,    RULE_real, "factor over a bias",                   factor_over_bias       },
    {OP_div,    RULE_real, "factor over a bias",                   factor_over_bias       },
    {OP_matmul, RULE_real, "factor of columns into a contraction", factor_of_columns      },
    {OP_matmul, RULE_real, "shift of columns into a bias",         shift_of_columns       },
    {OP_matmul, RULE_real, "factor of rows out of a contraction",  factor_of_rows         },
};

const struct rule_list scale_rules = {rules, sizeof rules / sizeof *rules};
