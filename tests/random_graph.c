// random_graph.c: small random programs as graphs, for the fuzzers and for properties of passes.

#include "tests/random_graph.h"
#include <string.h>

struct maker {
    struct gen *g;
    struct graph *graph;
    uint64_t seed;
    struct node *made[64];
    int n;
};

static int below(struct maker *m, int n)
{
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((m->seed >> 33) % (uint64_t)n);
}

static struct node *any(struct maker *m)
{
    int newest = below(m, 2) ? m->n - 1 : below(m, m->n); // long chains as well as wide graphs
    return m->made[newest];
}

static void keep(struct maker *m, struct node *x)
{
    if (x && m->n < (int)(sizeof m->made / sizeof *m->made))
        m->made[m->n++] = x;
}

// Another value that broadcasts with x, or x itself.
static struct node *partner(struct maker *m, struct node *x)
{
    for (int tries = 0; tries < 12; tries++) {
        struct node *y = m->made[below(m, m->n)];
        bool fits = y->rank <= x->rank;
        for (int d = 0; fits && d < y->rank; d++)
            fits = y->dim[d] == x->dim[d + x->rank - y->rank] || y->dim[d] == 1;
        if (fits)
            return y;
    }
    return x;
}

static struct node *one(struct maker *m, enum op op, struct node *a, struct node *b, struct node *c)
{
    struct node *in[] = {a, b, c};
    return graph_elementwise(m->g, m->graph, op, op_info[op].arity, in);
}

static struct node *number(struct maker *m, double value)
{
    return graph_constant(m->g, m->graph, DT_f32, value);
}

static struct node *elementwise(struct maker *m, struct node *x)
{
    static const enum op bounded[] = {OP_tanh, OP_sin, OP_cos, OP_atan,
                                      OP_erf,  OP_abs, OP_neg, OP_sin};
    struct node *y = partner(m, x);
    switch (below(m, 8)) {
    case 0:
        return one(m, OP_add, x, y, NULL);
    case 1:
        return one(m, OP_sub, x, one(m, OP_tanh, y, NULL, NULL), NULL);
    case 2:
        return one(m, OP_mul, one(m, OP_tanh, x, NULL, NULL), y, NULL);
    case 3:
        return one(m, OP_maximum, x, y, NULL);
    case 4:
        return one(m, OP_minimum, x, number(m, 0.5), NULL);
    case 5:
        // Continuous where the condition changes: a last bit must not turn into a step.
        return one(m, OP_where, one(m, OP_gt, x, number(m, 0), NULL), x,
                   one(m, OP_tanh, x, NULL, NULL));
    case 6:
        return one(m, OP_div, x, one(m, OP_add, one(m, OP_abs, y, NULL, NULL), number(m, 1), NULL),
                   NULL);
    default:
        return one(m, bounded[below(m, 8)], x, NULL, NULL);
    }
}

static struct node *reduction(struct maker *m, struct node *x)
{
    static const enum op ops[] = {OP_sum, OP_max, OP_min, OP_sum};
    uint32_t axes = 0;
    for (int d = 0; d < x->rank; d++)
        axes |= (uint32_t)below(m, 2) << d;
    if (!axes || !node_numel(x))
        return NULL;
    enum op op = ops[below(m, 4)];
    struct node *y = graph_reduce(m->g, m->graph, op, x, axes);
    double scale = (double)node_numel(y) / (double)node_numel(x);
    y = op == OP_sum ? one(m, OP_mul, y, number(m, scale), NULL) : y;
    return below(m, 2) ? one(m, OP_sub, x, y, NULL) : y;
}

static struct node *contraction(struct maker *m, struct node *x)
{
    if (x->rank < 2)
        return NULL;
    int perm[MAX_RANK];
    for (int d = 0; d < x->rank; d++)
        perm[d] = d;
    perm[x->rank - 1] = x->rank - 2, perm[x->rank - 2] = x->rank - 1;
    struct node *t = graph_permute(m->g, m->graph, x, perm);
    struct node *y = graph_matmul(m->g, m->graph, x, t);
    return one(m, OP_mul, y, number(m, 1.0 / (double)(x->dim[x->rank - 1] + 1)), NULL);
}

static struct node *sliced(struct maker *m, struct node *x)
{
    int64_t start[MAX_RANK], step[MAX_RANK], dim[MAX_RANK];
    for (int d = 0; d < x->rank; d++) {
        bool flip = below(m, 3) == 0;
        step[d] = flip ? -1 : 1 + below(m, 2);
        start[d] = flip ? x->dim[d] - 1 : x->dim[d] > 1 ? below(m, 2) : 0;
        dim[d] = flip ? x->dim[d] : (x->dim[d] - start[d] + step[d] - 1) / step[d];
    }
    return graph_slice(m->g, m->graph, x, start, step, dim);
}

static struct node *padded(struct maker *m, struct node *x)
{
    int64_t before[MAX_RANK] = {0}, after[MAX_RANK] = {0};
    for (int d = 0; d < x->rank; d++)
        before[d] = below(m, 3), after[d] = below(m, 2);
    return graph_pad(m->g, m->graph, x, before, after, 0.25);
}

static struct node *reshaped(struct maker *m, struct node *x)
{
    int64_t numel = node_numel(x), dim[3] = {1, 1, numel};
    for (int d = 0; d < 2; d++) {
        int64_t by = 1 + below(m, 5);
        if (dim[2] % by == 0)
            dim[d] = by, dim[2] /= by;
    }
    int first = below(m, 3);
    while (first && dim[first - 1] != 1)
        first--;
    return graph_reshape(m->g, m->graph, x, 3 - first, dim + first);
}

static struct node *movement(struct maker *m, struct node *x)
{
    int perm[MAX_RANK];
    for (int d = 0; d < x->rank; d++)
        perm[d] = x->rank - 1 - d;
    struct node *pair[] = {x, elementwise(m, x)};
    switch (below(m, 5)) {
    case 0:
        return graph_permute(m->g, m->graph, x, perm);
    case 1:
        return sliced(m, x);
    case 2:
        return padded(m, x);
    case 3:
        return pair[1] && node_same_shape(pair[0], pair[1])
                   ? graph_concat(m->g, m->graph, 2, pair, below(m, x->rank))
                   : NULL;
    default:
        return reshaped(m, x);
    }
}

static void arguments(struct maker *m)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 7, 8, 16, 33};
    int64_t dim[3];
    for (int d = 0; d < 3; d++)
        dim[d] = sizes[below(m, 8)];
    keep(m, graph_argument(m->g, m->graph, OP_input, "x", DT_f32, 3, dim));
    keep(m, graph_argument(m->g, m->graph, OP_weight, "w", DT_f32, 2, dim + 1));
    keep(m, graph_argument(m->g, m->graph, OP_input, "z", DT_f32, 1, dim + 2));
}

struct graph *random_graph(struct gen *g, uint64_t seed, int n_nodes)
{
    enum { LARGEST = 20000 };
    struct maker m = {.g = g, .graph = graph_new(g, "random"), .seed = seed * 2654435761u + 1};
    arguments(&m);
    for (int i = 0; i < n_nodes; i++) {
        struct node *x = any(&m), *y = NULL;
        int kind = below(&m, 8);
        if (!x->rank)
            continue;
        y = kind < 4    ? elementwise(&m, x)
            : kind == 4 ? reduction(&m, x)
            : kind == 5 ? contraction(&m, x)
                        : movement(&m, x);
        if (y && node_numel(y) <= LARGEST)
            keep(&m, y);
    }
    graph_output(g, m.graph, "y", m.made[m.n - 1]);
    graph_output(g, m.graph, "u", m.made[m.n - 1 - below(&m, m.n < 6 ? m.n : 6)]);
    return m.graph;
}
