// read_node.c: a line of a graph's text, taken apart by read.c, to the node that its builder makes.

#include "gen/read.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static uint32_t keys_of(enum op op) // the attributes that a line of this op must have
{
    switch ((int)op) {
    case OP_iota:
    case OP_concat:
        return 1u << KEY_axis;
    case OP_permute:
        return 1u << KEY_perm;
    case OP_slice:
        return 1u << KEY_start | 1u << KEY_step;
    case OP_pad:
        return 1u << KEY_before | 1u << KEY_fill;
    }
    return op_info[op].kind == KIND_reduction ? 1u << KEY_axes : 0;
}

static bool attributes_are_whole(struct gen *g, const struct line *l)
{
    bool is_argument = l->op == OP_input || l->op == OP_weight;
    for (int key = 0; key < KEY_COUNT; key++) {
        bool wanted = keys_of(l->op) >> key & 1;
        if (wanted && !l->has[key])
            return fail(g, "%s: %s= is missing", op_info[l->op].name, key_name[key]);
        if (l->has[key] && !wanted && (key != KEY_name || is_argument))
            return fail(g, "%s: has no %s=", op_info[l->op].name, key_name[key]);
        if (wanted && key >= KEY_before && key != KEY_fill && l->list[key].n != l->in[0]->rank)
            return fail(g, "%s: %s= has %d values for %d axes", op_info[l->op].name, key_name[key],
                        l->list[key].n, l->in[0]->rank);
    }
    return true;
}

static bool inputs_are_whole(struct gen *g, const struct line *l)
{
    int arity = op_info[l->op].arity;
    if (arity >= 0 ? l->n_in == arity : l->n_in > 0)
        return true;
    return fail(g, "%s: takes %d inputs, got %d", op_info[l->op].name, arity < 0 ? 1 : arity,
                l->n_in);
}

static struct node *build_constant(struct gen *g, struct graph *graph, const struct line *l)
{
    if (dtype_info[l->dtype].class == CLASS_float)
        return graph_constant(g, graph, l->dtype, strtod(l->number.at, NULL));
    char *stop;
    errno = 0;
    int64_t value = strtoll(l->number.at, &stop, 10);
    if (errno || stop != l->number.at + l->number.len) {
        fail(g, "constant: %.*s is no %s", l->number.len, l->number.at, dtype_info[l->dtype].name);
        return NULL;
    }
    return graph_integer(g, graph, l->dtype, value);
}

static struct node *build_reduction(struct gen *g, struct graph *graph, const struct line *l)
{
    uint32_t axes = 0;
    for (int i = 0; i < l->list[KEY_axes].n; i++) {
        int64_t axis = l->list[KEY_axes].value[i];
        if (axis < 0 || axis >= MAX_RANK) {
            fail(g, "%s: no axis %" PRId64, op_info[l->op].name, axis);
            return NULL;
        }
        axes |= 1u << axis;
    }
    if (!axes) {
        fail(g, "%s: axes= is empty", op_info[l->op].name);
        return NULL;
    }
    return graph_reduce(g, graph, l->op, l->in[0], axes);
}

static struct node *build_permute(struct gen *g, struct graph *graph, const struct line *l)
{
    int perm[MAX_RANK];
    for (int a = 0; a < l->list[KEY_perm].n; a++) {
        int64_t axis = l->list[KEY_perm].value[a];
        perm[a] = axis >= 0 && axis < MAX_RANK ? (int)axis : -1;
    }
    return graph_permute(g, graph, l->in[0], perm);
}

static struct node *build_pad(struct gen *g, struct graph *graph, const struct line *l)
{
    const int64_t *before = l->list[KEY_before].value;
    int64_t after[MAX_RANK];
    for (int a = 0; a < l->in[0]->rank; a++)
        if (__builtin_sub_overflow(l->dim.value[a], l->in[0]->dim[a], &after[a]) ||
            __builtin_sub_overflow(after[a], before[a], &after[a]))
            after[a] = -1;
    return graph_pad(g, graph, l->in[0], before, after, l->fill);
}

static struct node *build_movement(struct gen *g, struct graph *graph, const struct line *l)
{
    struct node *x = l->in[0];
    if ((l->op == OP_slice || l->op == OP_pad) && l->dim.n != x->rank) {
        fail(g, "%s: %d axes become %d", op_info[l->op].name, x->rank, l->dim.n);
        return NULL;
    }
    switch ((int)l->op) {
    case OP_reshape:
        return graph_reshape(g, graph, x, l->dim.n, l->dim.value);
    case OP_permute:
        return build_permute(g, graph, l);
    case OP_broadcast:
        return graph_broadcast(g, graph, x, l->dim.n, l->dim.value);
    case OP_slice:
        return graph_slice(g, graph, x, l->list[KEY_start].value, l->list[KEY_step].value,
                           l->dim.value);
    case OP_pad:
        return build_pad(g, graph, l);
    }
    int64_t axis = l->list[KEY_axis].value[0];
    return graph_concat(g, graph, l->n_in, l->in, axis >= 0 && axis < MAX_RANK ? (int)axis : -1);
}

static struct node *build_leaf(struct gen *g, struct graph *graph, const struct line *l)
{
    if (l->op == OP_constant)
        return build_constant(g, graph, l);
    if (l->op != OP_iota)
        return graph_argument(g, graph, l->op, l->name, l->dtype, l->dim.n, l->dim.value);
    int64_t axis = l->list[KEY_axis].value[0];
    return graph_iota(g, graph, l->dim.n, l->dim.value,
                      axis >= 0 && axis < MAX_RANK ? (int)axis : -1);
}

struct node *build_line(struct gen *g, struct graph *graph, const struct line *l)
{
    if (!inputs_are_whole(g, l) || !attributes_are_whole(g, l))
        return NULL;
    switch (op_info[l->op].kind) {
    case KIND_leaf:
        return build_leaf(g, graph, l);
    case KIND_elementwise:
        return l->op == OP_cast ? graph_cast(g, graph, l->in[0], l->dtype)
                                : graph_elementwise(g, graph, l->op, l->n_in, l->in);
    case KIND_reduction:
        return build_reduction(g, graph, l);
    case KIND_contraction:
        return graph_matmul(g, graph, l->in[0], l->in[1]);
    case KIND_movement:
        return build_movement(g, graph, l);
    }
    return NULL;
}
