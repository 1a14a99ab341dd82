// graph.c: builders: op, inputs and attributes to a checked SSA node at the end of the graph.
//
// Nothing else makes nodes, so whatever is in a graph has legal shapes and dtypes: at most MAX_RANK
// dimensions, each of any size from 0 on, at most 2^40 elements.  Constants are rounded to their
// dtype here, so that every later stage sees the same value.  A NULL input means that its builder
// has already reported, and passes through as NULL.

#include "gen/graph.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

struct graph *graph_new(struct gen *g, const char *name)
{
    struct graph *graph = arena_new(g, struct graph, 1);
    graph->name = name;
    return graph;
}

int64_t node_numel(const struct node *n)
{
    int64_t count = 1;
    for (int a = 0; a < n->rank; a++)
        count *= n->dim[a];
    return count;
}

bool node_same_shape(const struct node *a, const struct node *b)
{
    return a->rank == b->rank && !memcmp(a->dim, b->dim, sizeof a->dim[0] * (size_t)a->rank);
}

const char *shape_text(struct gen *g, enum dtype dtype, int rank, const int64_t *dim)
{
    const char *text = arena_text(g, "%s[", dtype_info[dtype].name);
    for (int a = 0; a < rank; a++)
        text = arena_text(g, a ? "%s,%" PRId64 : "%s%" PRId64, text, dim[a]);
    return arena_text(g, "%s]", text);
}

const char *node_text(struct gen *g, const struct node *n)
{
    return shape_text(g, n->dtype, n->rank, n->dim);
}

struct node *node_new(struct gen *g, enum op op, enum dtype dtype, int n_in, struct node *const *in)
{
    for (int i = 0; i < n_in; i++)
        if (!in[i])
            return NULL;
    struct node *n = arena_new(g, struct node, 1);
    n->op = op;
    n->dtype = dtype;
    n->at = g->at;
    n->n_in = n_in;
    n->in = arena_new(g, struct node *, n_in);
    for (int i = 0; i < n_in; i++)
        n->in[i] = in[i];
    return n;
}

void node_set_shape(struct node *n, int rank, const int64_t *dim)
{
    assert(rank >= 0 && rank <= MAX_RANK);
    n->rank = rank;
    for (int a = 0; a < rank; a++)
        n->dim[a] = dim[a];
}

bool node_shape_is_possible(struct gen *g, const struct node *n)
{
    int64_t count = 1; // a dimension of 0 counts as 1: strides have to fit as well
    for (int a = 0; a < n->rank; a++) {
        if (n->dim[a] < 0)
            return fail(g, "%s: dimension %d is negative: %" PRId64, op_info[n->op].name, a,
                        n->dim[a]);
        if (n->dim[a] > MAX_ELEMENTS / count)
            return fail(g, "%s: %s has more than 2^40 elements", op_info[n->op].name,
                        node_text(g, n));
        count *= n->dim[a] > 0 ? n->dim[a] : 1;
    }
    return true;
}

struct node *node_add(struct gen *g, struct graph *graph, struct node *n)
{
    if (!node_shape_is_possible(g, n))
        return NULL;
    if (graph->n_nodes == graph->cap_nodes) {
        int cap = graph->cap_nodes ? 2 * graph->cap_nodes : 64;
        struct node **nodes = arena_new(g, struct node *, cap);
        for (int i = 0; i < graph->n_nodes; i++)
            nodes[i] = graph->nodes[i];
        graph->nodes = nodes;
        graph->cap_nodes = cap;
    }
    n->id = graph->n_nodes;
    graph->nodes[graph->n_nodes++] = n;
    return n;
}

static bool is_full(int count) // of an array that grows to the next power of two
{
    return (count & (count - 1)) == 0;
}

struct node *graph_argument(struct gen *g, struct graph *graph, enum op op, const char *name,
                            enum dtype dtype, int rank, const int64_t *dim)
{
    assert(op == OP_input || op == OP_weight);
    if (rank < 0 || rank > MAX_RANK) {
        fail(g, "%s: %d dimensions; the most is %d", name, rank, MAX_RANK);
        return NULL;
    }
    struct node *n = node_new(g, op, dtype, 0, NULL);
    n->name = name;
    n->attr.argument = graph->n_arguments;
    node_set_shape(n, rank, dim);
    if (!node_add(g, graph, n))
        return NULL;
    if (is_full(graph->n_arguments)) {
        struct node **grown = arena_new(g, struct node *, 2 * graph->n_arguments + 1);
        for (int i = 0; i < graph->n_arguments; i++)
            grown[i] = graph->arguments[i];
        graph->arguments = grown;
    }
    graph->arguments[graph->n_arguments++] = n;
    return n;
}

void graph_output(struct gen *g, struct graph *graph, const char *name, struct node *node)
{
    if (!node)
        return;
    if (is_full(graph->n_outputs)) {
        struct output *grown = arena_new(g, struct output, 2 * graph->n_outputs + 1);
        for (int i = 0; i < graph->n_outputs; i++)
            grown[i] = graph->outputs[i];
        graph->outputs = grown;
    }
    graph->outputs[graph->n_outputs++] = (struct output){.name = name, .node = node, .at = g->at};
}

double constant_value(enum dtype dtype, double value)
{
    if (isnan(value))
        return NAN;
    uint64_t room = 0;
    store_element(dtype, &room, 0, value);
    return load_element(dtype, &room, 0);
}

bool integer_fits(enum dtype dtype, int64_t value)
{
    uint64_t room = 0;
    store_integer(dtype, &room, 0, value);
    return load_integer(dtype, &room, 0) == value;
}

// An integer dtype takes a whole value, so that callers can write 0 or 1 of any dtype.
struct node *graph_constant(struct gen *g, struct graph *graph, enum dtype dtype, double value)
{
    if (dtype_info[dtype].class != CLASS_float) {
        if (!(value >= -0x1p63 && value < 0x1p63) || value != rint(value)) {
            fail(g, "constant: %g is no %s", value, dtype_info[dtype].name);
            return NULL;
        }
        return graph_integer(g, graph, dtype, (int64_t)value);
    }
    struct node *n = node_new(g, OP_constant, dtype, 0, NULL);
    n->attr.value = constant_value(dtype, value);
    return node_add(g, graph, n);
}

struct node *graph_integer(struct gen *g, struct graph *graph, enum dtype dtype, int64_t value)
{
    if (dtype_info[dtype].class == CLASS_float)
        return graph_constant(g, graph, dtype, (double)value);
    if (!integer_fits(dtype, value)) {
        fail(g, "constant: %" PRId64 " does not fit in %s", value, dtype_info[dtype].name);
        return NULL;
    }
    struct node *n = node_new(g, OP_constant, dtype, 0, NULL);
    n->attr.integer = value;
    return node_add(g, graph, n);
}

struct node *graph_iota(struct gen *g, struct graph *graph, int rank, const int64_t *dim, int axis)
{
    if (rank < 1 || rank > MAX_RANK || axis < 0 || axis >= rank) {
        fail(g, "iota: no axis %d in %d dimensions", axis, rank);
        return NULL;
    }
    struct node *n = node_new(g, OP_iota, DT_i64, 0, NULL);
    n->attr.axis = axis;
    node_set_shape(n, rank, dim);
    return node_add(g, graph, n);
}

bool broadcast_shape(int n, struct node *const *in, int keep, int *rank, int64_t *dim,
                     struct clash *clash)
{
    int batch = 0, from[MAX_RANK] = {0}; // from: the input that gave a dimension
    for (int i = 0; i < n; i++)
        if (in[i]->rank - keep > batch)
            batch = in[i]->rank - keep;
    for (int a = 0; a < batch; a++)
        dim[a] = 1;
    for (int i = 0; i < n; i++)
        for (int a = batch - (in[i]->rank - keep); a < batch; a++) {
            int64_t d = in[i]->dim[a - batch + in[i]->rank - keep];
            if (d == 1 || d == dim[a])
                continue;
            if (dim[a] != 1) {
                *clash = (struct clash){.first = from[a], .second = i, .axis = a};
                return false;
            }
            dim[a] = d;
            from[a] = i;
        }
    *rank = batch;
    return true;
}

static bool fail_to_broadcast(struct gen *g, enum op op, struct node *const *in, struct clash c)
{
    return fail(g, "%s: %s and %s do not broadcast: they differ at axis %d of the result",
                op_info[op].name, node_text(g, in[c.first]), node_text(g, in[c.second]), c.axis);
}

static bool takes_bool(enum op op) // of the ops with TYPES_same
{
    return op == OP_minimum || op == OP_maximum || op == OP_max || op == OP_min;
}

static bool inputs_have_class(struct gen *g, enum op op, const struct node *x)
{
    const char *name = op_info[op].name, *got = dtype_info[x->dtype].name;
    enum dtype_class class = dtype_info[x->dtype].class;
    switch (op_info[op].types) {
    case TYPES_same:
        if (class == CLASS_boolean && !takes_bool(op))
            return fail(g, "%s: takes numbers, got bool", name);
        return true;
    case TYPES_float:
    case TYPES_test:
        return class == CLASS_float || fail(g, "%s: takes a floating dtype, got %s", name, got);
    case TYPES_logic:
    case TYPES_where:
        return class == CLASS_boolean || fail(g, "%s: takes bool, got %s", name, got);
    case TYPES_compare:
    case TYPES_index:
    case TYPES_own:
        return true;
    }
    return true;
}

static bool dtypes_agree(struct gen *g, enum op op, int n, struct node *const *in)
{
    int first = op_info[op].types == TYPES_where ? 1 : 0;
    for (int i = first + 1; i < n; i++)
        if (in[i]->dtype != in[first]->dtype)
            return fail(g, "%s: dtypes differ: %s and %s", op_info[op].name,
                        dtype_info[in[first]->dtype].name, dtype_info[in[i]->dtype].name);
    return inputs_have_class(g, op, in[0]);
}

enum dtype result_dtype(enum op op, struct node *const *in)
{
    switch (op_info[op].types) {
    case TYPES_compare:
    case TYPES_logic:
    case TYPES_test:
        return DT_bool;
    case TYPES_where:
        return in[1]->dtype;
    case TYPES_index:
        return DT_i64;
    case TYPES_own: // sum and prod widen integers; cast is built by itself
        return dtype_info[in[0]->dtype].class == CLASS_float ? in[0]->dtype : DT_i64;
    case TYPES_same:
    case TYPES_float:
        return in[0]->dtype;
    }
    return in[0]->dtype;
}

struct node *graph_elementwise(struct gen *g, struct graph *graph, enum op op, int n,
                               struct node *const *in)
{
    assert(op_info[op].kind == KIND_elementwise && op != OP_cast && n == op_info[op].arity);
    struct node *out = node_new(g, op, DT_bool, n, in);
    if (!out || !dtypes_agree(g, op, n, in))
        return NULL;
    struct clash clash;
    if (!broadcast_shape(n, in, 0, &out->rank, out->dim, &clash)) {
        fail_to_broadcast(g, op, in, clash);
        return NULL;
    }
    out->dtype = result_dtype(op, in);
    return node_add(g, graph, out);
}

struct node *graph_cast(struct gen *g, struct graph *graph, struct node *x, enum dtype dtype)
{
    struct node *out = node_new(g, OP_cast, dtype, 1, &x);
    if (!out)
        return NULL;
    node_set_shape(out, x->rank, x->dim);
    return node_add(g, graph, out);
}

// The largest, or its place, of nothing: only where nobody asks for it can an axis be empty.
static bool has_neutral_element(enum op op)
{
    return op == OP_sum || op == OP_prod;
}

static bool axes_are_possible(struct gen *g, enum op op, const struct node *x, uint32_t axes)
{
    const char *name = op_info[op].name;
    for (int a = x->rank; a < 32; a++)
        if (axes >> a & 1)
            return fail(g, "%s: no axis %d in %s", name, a, node_text(g, x));
    if (op_info[op].types == TYPES_index && (axes & (axes - 1) || !axes))
        return fail(g, "%s: takes exactly one axis", name);
    bool empty = false, wanted = true;
    for (int a = 0; a < x->rank; a++)
        if (x->dim[a] == 0 && axes >> a & 1)
            empty = true;
        else if (x->dim[a] == 0)
            wanted = false;
    if (empty && wanted && !has_neutral_element(op))
        return fail(g, "%s over an empty axis has no value", name);
    return true;
}

struct node *graph_reduce(struct gen *g, struct graph *graph, enum op op, struct node *x,
                          uint32_t axes)
{
    assert(op_info[op].kind == KIND_reduction);
    struct node *out = node_new(g, op, DT_bool, 1, &x);
    if (!out || !inputs_have_class(g, op, x) || !axes_are_possible(g, op, x, axes))
        return NULL;
    out->dtype = result_dtype(op, &x);
    if (!axes)
        return out->dtype == x->dtype ? x : graph_cast(g, graph, x, out->dtype);
    out->attr.axes = axes;
    node_set_shape(out, x->rank, x->dim);
    for (int a = 0; a < x->rank; a++)
        if (axes >> a & 1)
            out->dim[a] = 1;
    return node_add(g, graph, out);
}

struct node *graph_matmul(struct gen *g, struct graph *graph, struct node *a, struct node *b)
{
    struct node *in[] = {a, b};
    struct node *out = node_new(g, OP_matmul, DT_bool, 2, in);
    if (!out || !dtypes_agree(g, OP_matmul, 2, in))
        return NULL;
    if (a->rank < 2 || b->rank < 2) {
        fail(g, "matmul: takes matrices, got %s and %s", node_text(g, a), node_text(g, b));
        return NULL;
    }
    int64_t k = a->dim[a->rank - 1], other = b->dim[b->rank - 2];
    if (k != other) {
        fail(g, "matmul: inner dimensions differ: %" PRId64 " and %" PRId64, k, other);
        return NULL;
    }
    struct clash clash;
    if (!broadcast_shape(2, in, 2, &out->rank, out->dim, &clash)) {
        fail_to_broadcast(g, OP_matmul, in, clash);
        return NULL;
    }
    out->dtype = a->dtype;
    out->dim[out->rank++] = a->dim[a->rank - 2];
    out->dim[out->rank++] = b->dim[b->rank - 1];
    return node_add(g, graph, out);
}
