// graph_check.c: asserts that a graph is one that the builders can have made.
//
// Ids are positions, inputs come before their users and belong to the graph, and every shape and
// dtype follows from the inputs and attributes.  A stage's output is checked in debug builds and in
// tests.

#include "gen/graph.h"
#include <assert.h>
#include <string.h>

static bool leaf_is_legal(const struct node *n)
{
    switch ((int)n->op) {
    case OP_constant:
        return n->rank == 0;
    case OP_iota:
        return n->dtype == DT_i64 && n->attr.axis >= 0 && n->attr.axis < n->rank;
    }
    return n->name && n->attr.argument >= 0;
}

static bool elementwise_is_legal(const struct node *n)
{
    int rank;
    int64_t dim[MAX_RANK];
    struct clash clash;
    if (!broadcast_shape(n->n_in, n->in, 0, &rank, dim, &clash) || rank != n->rank)
        return false;
    if (n->op != OP_cast && n->dtype != result_dtype(n->op, n->in))
        return false;
    return !memcmp(dim, n->dim, sizeof dim[0] * (size_t)rank);
}

static bool reduction_is_legal(const struct node *n)
{
    const struct node *x = n->in[0];
    if (n->rank != x->rank || !n->attr.axes || n->attr.axes >> n->rank)
        return false;
    for (int a = 0; a < n->rank; a++)
        if (n->dim[a] != (n->attr.axes >> a & 1 ? 1 : x->dim[a]))
            return false;
    return n->dtype == result_dtype(n->op, n->in);
}

static bool contraction_is_legal(const struct node *n)
{
    const struct node *a = n->in[0], *b = n->in[1];
    int rank;
    int64_t dim[MAX_RANK];
    struct clash clash;
    if (a->rank < 2 || b->rank < 2 || a->dim[a->rank - 1] != b->dim[b->rank - 2])
        return false;
    if (!broadcast_shape(2, n->in, 2, &rank, dim, &clash) || n->rank != rank + 2)
        return false;
    dim[rank++] = a->dim[a->rank - 2];
    dim[rank++] = b->dim[b->rank - 1];
    return n->dtype == a->dtype && n->dtype == b->dtype &&
           !memcmp(dim, n->dim, sizeof dim[0] * (size_t)rank);
}

static bool axis_is_legal(const struct node *n,
                          int a) // of a movement with as many axes as its input
{
    const struct node *x = n->in[0];
    int64_t total = 0;
    switch ((int)n->op) {
    case OP_permute:
        return n->attr.perm[a] >= 0 && n->attr.perm[a] < n->rank &&
               n->dim[a] == x->dim[n->attr.perm[a]];
    case OP_slice:
        return n->attr.step[a] && (n->dim[a] == 0 || slice_is_inside(x->dim[a], n->attr.start[a],
                                                                     n->attr.step[a], n->dim[a]));
    case OP_pad:
        return n->attr.before[a] >= 0 && n->dim[a] >= n->attr.before[a] + x->dim[a];
    case OP_concat:
        for (int i = 0; i < n->n_in; i++) {
            if (n->in[i]->rank != n->rank || n->in[i]->dtype != n->dtype)
                return false;
            if (a != n->attr.axis && n->in[i]->dim[a] != n->dim[a])
                return false;
            total += n->in[i]->dim[a];
        }
        return a != n->attr.axis || total == n->dim[a];
    }
    return true;
}

static bool movement_is_legal(const struct node *n)
{
    const struct node *x = n->in[0];
    if (n->dtype != x->dtype)
        return false;
    if (n->op == OP_reshape)
        return node_numel(n) == node_numel(x);
    if (n->op == OP_broadcast) {
        int more = n->rank - x->rank;
        for (int a = 0; a < x->rank; a++)
            if (more < 0 || (x->dim[a] != 1 && x->dim[a] != n->dim[a + more]))
                return false;
        return more >= 0;
    }
    for (int a = 0; a < n->rank; a++)
        if (!axis_is_legal(n, a))
            return false;
    return n->rank == x->rank;
}

static bool node_is_legal(const struct node *n)
{
    if (n->rank < 0 || n->rank > MAX_RANK || (int)n->op < 0 || n->op >= OP_COUNT)
        return false;
    for (int a = 0; a < n->rank; a++)
        if (n->dim[a] < 0)
            return false;
    if (op_info[n->op].arity >= 0 ? n->n_in != op_info[n->op].arity : n->n_in < 1)
        return false;
    switch (op_info[n->op].kind) {
    case KIND_leaf:
        return leaf_is_legal(n);
    case KIND_elementwise:
        return elementwise_is_legal(n);
    case KIND_reduction:
        return reduction_is_legal(n);
    case KIND_contraction:
        return contraction_is_legal(n);
    case KIND_movement:
        return movement_is_legal(n);
    }
    return false;
}

static bool is_in(const struct graph *graph, const struct node *n)
{
    return n && n->id >= 0 && n->id < graph->n_nodes && graph->nodes[n->id] == n;
}

void graph_check(const struct graph *graph)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *n = graph->nodes[i];
        assert(n->id == i);
        for (int j = 0; j < n->n_in; j++)
            assert(is_in(graph, n->in[j]) && n->in[j]->id < i);
        assert(node_is_legal(n));
    }
    for (int i = 0; i < graph->n_arguments; i++) {
        assert(is_in(graph, graph->arguments[i]));
        assert(graph->arguments[i]->attr.argument == i);
    }
    for (int i = 0; i < graph->n_outputs; i++)
        assert(is_in(graph, graph->outputs[i].node));
}
