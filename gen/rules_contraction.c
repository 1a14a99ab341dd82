// rules_contraction.c: rules of matmul: sums over its free axes, thin ones, chains.

#include "gen/rewrite.h"
#include <math.h>

static bool is_contraction(const struct node *n)
{
    return n->op == OP_matmul && is_wide(n);
}

// sum(A @ B) over columns -> A @ sum(B) over columns
// sum(A @ B) over rows    -> sum(A) over rows @ B
static struct node *sum_of_contraction(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0], *a = x->n_in ? x->in[0] : NULL, *b = x->n_in > 1 ? x->in[1] : NULL;
    if (!is_contraction(x))
        return NULL;
    uint32_t rows = 1u << (x->rank - 2), columns = 1u << (x->rank - 1), rest = n->attr.axes;
    if (rest & rows)
        a = make_reduce(r, OP_sum, a, 1u << (a->rank - 2));
    if (rest & columns)
        b = make_reduce(r, OP_sum, b, 1u << (b->rank - 1));
    if (a == x->in[0] && b == x->in[1])
        return NULL;
    return make_reduce(r, OP_sum, make_matmul(r, a, b), rest & ~(rows | columns));
}

// sum(A @ B) over batches of A alone -> sum(A) @ B, and of B alone
static struct node *sum_over_batches(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    if (!is_contraction(x) || x->rank < 3)
        return NULL;
    uint32_t batches = n->attr.axes & ((1u << (x->rank - 2)) - 1), taken = 0;
    struct node *in[] = {x->in[0], x->in[1]};
    for (int i = 0; i < 2; i++) {
        int missing = x->rank - in[i]->rank, other_missing = x->rank - in[1 - i]->rank;
        uint32_t axes = 0;
        for (int d = 0; d < x->rank - 2; d++) {
            bool other = d >= other_missing && in[1 - i]->dim[d - other_missing] != 1;
            if (batches >> d & 1 && d >= missing && !other && in[i]->dim[d - missing] > 1)
                axes |= 1u << (d - missing), taken |= 1u << d;
        }
        in[i] = axes ? make_reduce(r, OP_sum, in[i], axes) : in[i];
    }
    if (!taken)
        return NULL;
    return make_reduce(r, OP_sum, make_matmul(r, in[0], in[1]), n->attr.axes & ~taken);
}

// A @ b, one column -> sum(A * b^T) along rows
// a @ B, one row    -> sum(a^T * B) along columns
static struct node *thin_contraction(struct rewriter *r, struct node *n)
{
    struct node *a = n->in[0], *b = n->in[1];
    if (!is_float(n))
        return NULL;
    if (n->dim[n->rank - 1] == 1)
        return make_reduce(r, OP_sum, make2(r, OP_mul, a, swapped(r, b)), 1u << (n->rank - 1));
    if (n->dim[n->rank - 2] == 1)
        return make_reduce(r, OP_sum, make2(r, OP_mul, swapped(r, a), b), 1u << (n->rank - 2));
    return NULL;
}

// A @ B, inner size 1 -> A * B
static struct node *outer_product(struct rewriter *r, struct node *n)
{
    struct node *a = n->in[0];
    return a->dim[a->rank - 1] == 1 ? make2(r, OP_mul, a, n->in[1]) : NULL;
}

enum { MAX_CHAIN = 16 };

struct chain {
    int n;
    struct node *matrix[MAX_CHAIN];
    double time[MAX_CHAIN][MAX_CHAIN]; // of the cheapest order for matrices i to j
    int cut[MAX_CHAIN][MAX_CHAIN];
};

// The factors of a product of matrices in their order; inner products that have other users count
// as factors.  False: more than a chain holds.
static bool gather(const struct rewriter *r, struct node *n, struct chain *c)
{
    struct node *stack[MAX_CHAIN] = {n};
    for (int depth = 1; depth;) {
        struct node *at = stack[--depth];
        bool splits = at->op == OP_matmul && at->rank == 2 && (at == n || uses(r, at) == 1);
        if (splits && depth + 2 <= MAX_CHAIN) {
            stack[depth++] = at->in[1];
            stack[depth++] = at->in[0];
        } else if (splits || c->n == MAX_CHAIN) {
            return false;
        } else {
            c->matrix[c->n++] = at;
        }
    }
    return c->n > 2;
}

static double time_of_step(const struct rewriter *r, const struct chain *c, int i, int k, int j)
{
    double m = (double)c->matrix[i]->dim[0], inner = (double)c->matrix[k]->dim[1];
    double n = (double)c->matrix[j]->dim[1], bytes = dtype_info[c->matrix[i]->dtype].bytes;
    bool known = !r->options->each_run;
    for (int d = i; d <= j; d++)
        known &= is_known(r, c->matrix[d]);
    double time =
        2 * fmax(m, 16) * inner * fmax(n, 16) + 16 * bytes * (m * inner + inner * n + m * n);
    return known ? 1e-6 * time : time;
}

static struct node *product(struct rewriter *r, const struct chain *c, int i, int j)
{
    if (i == j)
        return c->matrix[i];
    int k = c->cut[i][j];
    return make_matmul(r, product(r, c, i, k), product(r, c, k + 1, j));
}

// A @ B @ C @ ... -> the same in the cheapest order
static struct node *cheapest_order(struct rewriter *r, struct node *n)
{
    struct chain c = {.n = 0};
    if (!is_float(n) || n->rank != 2 || !gather(r, n, &c))
        return NULL;
    for (int length = 2; length <= c.n; length++)
        for (int i = 0, j = length - 1; j < c.n; i++, j++)
            for (int k = i; k < j; k++) {
                double time = c.time[i][k] + c.time[k + 1][j] + time_of_step(r, &c, i, k, j);
                if (k == i || time < c.time[i][j]) {
                    c.time[i][j] = time;
                    c.cut[i][j] = k;
                }
            }
    return product(r, &c, 0, c.n - 1);
}

// The axis that an index runs along, from the last: -1 columns, -2 rows; 0: it is no such index.
static int index_axis(const struct node *x)
{
    while (x->op == OP_broadcast)
        x = x->in[0];
    if (x->op == OP_iota)
        return x->attr.axis - x->rank;
    if (x->op != OP_reshape || x->in[0]->op != OP_iota || x->in[0]->rank != 1)
        return 0;
    for (int a = 0; a < x->rank; a++)
        if (x->dim[a] == x->in[0]->dim[0])
            return a - x->rank;
    return 0;
}

static bool is_diagonal(const struct node *n)
{
    if (n->op != OP_eq || n->rank != 2 || n->dim[0] != n->dim[1])
        return false;
    int a = index_axis(n->in[0]), b = index_axis(n->in[1]);
    return (a == -1 && b == -2) || (a == -2 && b == -1);
}

// where(row == column, a, 0) @ B -> a * B, a being one column
static struct node *diagonal_times(struct rewriter *r, struct node *n)
{
    struct node *d = n->in[0], *a = d->op == OP_where ? d->in[1] : NULL;
    if (!a || d->rank != 2 || !is_diagonal(d->in[0]) || !is_number(d->in[2], 0))
        return NULL;
    int64_t column[] = {node_numel(a), 1};
    if (a->rank == 2 && a->dim[0] > 1 && a->dim[1] > 1)
        return NULL;
    return make2(r, OP_mul, make_reshape(r, a, 2, column), n->in[1]);
}

static const struct rule rules[] = {
    {OP_sum,    RULE_real,   "sum into a contraction",           sum_of_contraction},
    {OP_sum,    RULE_real,   "sum over batches of one operand",  sum_over_batches  },
    {OP_matmul, RULE_real,   "cheapest order of products",       cheapest_order    },
    {OP_matmul, RULE_finite, "diagonal matrix",                  diagonal_times    },
    {OP_matmul, RULE_real,   "contraction of one row or column", thin_contraction  },
    {OP_matmul, RULE_real,   "contraction over one element",     outer_product     },
};

const struct rule_list contraction_rules = {rules, sizeof rules / sizeof *rules};
