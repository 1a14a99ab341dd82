// cost.c: a node to what it costs: operations, bytes through memory, and the time they stand for.
//
// A model of fused kernels: elementwise operators are operations and never bytes; a reduction reads
// its operand, a contraction reads both and writes its result.  Tiles have at least MIN_TILE rows
// and columns, so a thinner contraction idles.  Time is counted in operations.

#include "gen/rewrite.h"

enum {
    MIN_TILE = 16,
    FLOPS_PER_BYTE = 16 // of a GPU's f32 units and its memory
};

// What is prepared once is nearly free in a run, but not quite: it may not grow without reason.
static const double PREPARED_SHARE = 1e-6;

static double size_in_bytes(const struct node *n)
{
    return (double)node_numel(n) * dtype_info[n->dtype].bytes;
}

static double at_least(int64_t a, int64_t b)
{
    return (double)(a > b ? a : b);
}

static double share(const struct rewriter *r, const struct node *n)
{
    return is_known(r, n) && !r->options->each_run ? PREPARED_SHARE : 1;
}

static struct cost matmul_cost(const struct node *n, int64_t rows, int64_t columns)
{
    const struct node *a = n->in[0], *b = n->in[1];
    int64_t m = n->dim[n->rank - 2], width = n->dim[n->rank - 1], k = a->dim[a->rank - 1];
    double batches = (double)node_numel(n) / at_least(m, 1) / at_least(width, 1);
    double of_rows = (double)rows / at_least(m, 1),
           of_columns = (double)columns / at_least(width, 1);
    struct cost c = {.flops = 2 * batches * (double)rows * (double)columns * (double)k};
    c.bytes = size_in_bytes(a) * of_rows + size_in_bytes(b) * of_columns +
              size_in_bytes(n) * of_rows * of_columns;
    c.time = 2 * batches * at_least(rows, MIN_TILE) * at_least(columns, MIN_TILE) * (double)k +
             FLOPS_PER_BYTE * c.bytes;
    return c;
}

// As if the result had other numbers of rows and columns.
double time_of_matmul(const struct rewriter *r, const struct node *n, int64_t rows, int64_t columns)
{
    return share(r, n) * matmul_cost(n, rows, columns).time;
}

struct cost cost_of(const struct rewriter *r, const struct node *n)
{
    struct cost c = {.flops = 0};
    switch (op_info[n->op].kind) {
    case KIND_leaf:
    case KIND_movement:
        break;
    case KIND_elementwise:
        c.flops = c.time = op_info[n->op].cost * (double)node_numel(n);
        break;
    case KIND_reduction:
        c.flops = op_info[n->op].cost * (double)node_numel(n->in[0]);
        c.bytes = size_in_bytes(n->in[0]) + size_in_bytes(n);
        c.time = c.flops + FLOPS_PER_BYTE * c.bytes;
        break;
    case KIND_contraction:
        c = matmul_cost(n, n->dim[n->rank - 2], n->dim[n->rank - 1]);
        break;
    }
    double part = share(r, n);
    return (struct cost){c.flops, c.bytes, part * c.time, 1};
}
