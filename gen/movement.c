// movement.c: builders of the ops that only move elements: reshape permute broadcast slice pad
// concat.
//
// Each makes a node even where it moves nothing; rewrite takes those out.

#include "gen/graph.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>

static bool rank_is_possible(struct gen *g, enum op op, int rank)
{
    if (rank >= 0 && rank <= MAX_RANK)
        return true;
    return fail(g, "%s: %d dimensions; the most is %d", op_info[op].name, rank, MAX_RANK);
}

struct node *graph_reshape(struct gen *g, struct graph *graph, struct node *x, int rank,
                           const int64_t *dim)
{
    struct node *out = rank_is_possible(g, OP_reshape, rank) && x
                           ? node_new(g, OP_reshape, x->dtype, 1, &x)
                           : NULL;
    if (!out)
        return NULL;
    node_set_shape(out, rank, dim);
    if (!node_shape_is_possible(g, out)) // first: it keeps the count below from overflowing
        return NULL;
    if (node_numel(out) != node_numel(x)) {
        fail(g, "reshape: %s has %" PRId64 " elements and %s has %" PRId64, node_text(g, x),
             node_numel(x), node_text(g, out), node_numel(out));
        return NULL;
    }
    return node_add(g, graph, out);
}

struct node *graph_permute(struct gen *g, struct graph *graph, struct node *x, const int *perm)
{
    struct node *out = x ? node_new(g, OP_permute, x->dtype, 1, &x) : NULL;
    if (!out)
        return NULL;
    uint32_t seen = 0;
    out->rank = x->rank;
    for (int a = 0; a < x->rank; a++) {
        if (perm[a] < 0 || perm[a] >= x->rank || seen >> perm[a] & 1) {
            fail(g, "permute: axis %d is %s in %s", perm[a],
                 perm[a] >= 0 && perm[a] < x->rank ? "named twice" : "not", node_text(g, x));
            return NULL;
        }
        seen |= 1u << perm[a];
        out->attr.perm[a] = perm[a];
        out->dim[a] = x->dim[perm[a]];
    }
    return node_add(g, graph, out);
}

struct node *graph_broadcast(struct gen *g, struct graph *graph, struct node *x, int rank,
                             const int64_t *dim)
{
    struct node *out = rank_is_possible(g, OP_broadcast, rank) && x
                           ? node_new(g, OP_broadcast, x->dtype, 1, &x)
                           : NULL;
    if (!out)
        return NULL;
    node_set_shape(out, rank, dim);
    bool fits = rank >= x->rank;
    for (int a = 0; fits && a < x->rank; a++)
        fits = x->dim[a] == 1 || x->dim[a] == dim[a + rank - x->rank];
    if (!fits) {
        fail(g, "broadcast: %s does not broadcast to %s", node_text(g, x), node_text(g, out));
        return NULL;
    }
    return node_add(g, graph, out);
}

bool slice_is_inside(int64_t size, int64_t start, int64_t step, int64_t count)
{
    int64_t span, last;
    return start >= 0 && start < size && !__builtin_mul_overflow(count - 1, step, &span) &&
           !__builtin_add_overflow(start, span, &last) && last >= 0 && last < size;
}

// Where no second element is taken, the step says nothing and is made 1; so is the start of nothing
// 0.
struct node *graph_slice(struct gen *g, struct graph *graph, struct node *x, const int64_t *start,
                         const int64_t *step, const int64_t *dim)
{
    struct node *out = x ? node_new(g, OP_slice, x->dtype, 1, &x) : NULL;
    if (!out)
        return NULL;
    node_set_shape(out, x->rank, dim);
    for (int a = 0; a < x->rank; a++) {
        if (step[a] == 0) {
            fail(g, "slice: the step of axis %d is 0", a);
            return NULL;
        }
        if (dim[a] > 0 && !slice_is_inside(x->dim[a], start[a], step[a], dim[a])) {
            fail(g,
                 "slice: %" PRId64 " elements from %" PRId64 " by %" PRId64 " leave axis %d of %s",
                 dim[a], start[a], step[a], a, node_text(g, x));
            return NULL;
        }
        out->attr.start[a] = dim[a] > 0 ? start[a] : 0;
        out->attr.step[a] = dim[a] > 1 ? step[a] : 1;
    }
    return node_add(g, graph, out);
}

static bool fill_is_possible(struct gen *g, enum dtype dtype, double fill)
{
    if (dtype_info[dtype].class == CLASS_float)
        return true;
    if (fill >= -0x1p63 && fill < 0x1p63 && fill == rint(fill) &&
        integer_fits(dtype, (int64_t)fill))
        return true;
    return fail(g, "pad: %g does not fit in %s", fill, dtype_info[dtype].name);
}

struct node *graph_pad(struct gen *g, struct graph *graph, struct node *x, const int64_t *before,
                       const int64_t *after, double fill)
{
    struct node *out = x ? node_new(g, OP_pad, x->dtype, 1, &x) : NULL;
    if (!out || !fill_is_possible(g, x->dtype, fill))
        return NULL;
    out->rank = x->rank;
    for (int a = 0; a < x->rank; a++) {
        if (before[a] < 0 || after[a] < 0 || before[a] > MAX_ELEMENTS || after[a] > MAX_ELEMENTS) {
            fail(g, "pad: axis %d cannot grow by %" PRId64 " and %" PRId64, a, before[a], after[a]);
            return NULL;
        }
        out->attr.before[a] = before[a];
        out->dim[a] = before[a] + x->dim[a] + after[a];
    }
    bool is_float = dtype_info[x->dtype].class == CLASS_float;
    out->attr.fill = is_float ? constant_value(x->dtype, fill) : fill;
    return node_add(g, graph, out);
}

static bool can_follow(struct gen *g, const struct node *a, const struct node *b, int axis)
{
    if (a->dtype != b->dtype)
        return fail(g, "concat: dtypes differ: %s and %s", dtype_info[a->dtype].name,
                    dtype_info[b->dtype].name);
    bool fits = a->rank == b->rank;
    for (int d = 0; fits && d < a->rank; d++)
        fits = d == axis || a->dim[d] == b->dim[d];
    return fits ||
           fail(g, "concat: %s and %s differ off axis %d", node_text(g, a), node_text(g, b), axis);
}

enum { MAX_CONCAT = 64 };

// Very many inputs in two levels, so that no operator has more than a kernel has parameters.
static struct node *wide_concat(struct gen *g, struct graph *graph, int n, struct node *const *in,
                                int axis)
{
    int n_groups = (n + MAX_CONCAT - 1) / MAX_CONCAT;
    struct node **groups = arena_new(g, struct node *, n_groups);
    for (int i = 0; i < n_groups; i++) {
        int first = i * MAX_CONCAT, count = n - first < MAX_CONCAT ? n - first : MAX_CONCAT;
        if (!(groups[i] = graph_concat(g, graph, count, in + first, axis)))
            return NULL;
    }
    return graph_concat(g, graph, n_groups, groups, axis);
}

struct node *graph_concat(struct gen *g, struct graph *graph, int n, struct node *const *in,
                          int axis)
{
    assert(n > 0);
    if (n > MAX_CONCAT)
        return wide_concat(g, graph, n, in, axis);
    struct node *out = in[0] ? node_new(g, OP_concat, in[0]->dtype, n, in) : NULL;
    if (!out)
        return NULL;
    if (axis < 0 || axis >= in[0]->rank) {
        fail(g, "concat: no axis %d in %s", axis, node_text(g, in[0]));
        return NULL;
    }
    node_set_shape(out, in[0]->rank, in[0]->dim);
    out->attr.axis = axis;
    for (int i = 1; i < n; i++) {
        if (!can_follow(g, in[0], in[i], axis))
            return NULL;
        out->dim[axis] += in[i]->dim[axis];
        if (out->dim[axis] > MAX_ELEMENTS) {
            fail(g, "concat: more than 2^40 elements");
            return NULL;
        }
    }
    return node_add(g, graph, out);
}

struct node *graph_copy(struct gen *g, struct graph *graph, struct node *x)
{
    struct node *n = node_new(g, OP_reshape, x->dtype, 1, &x);
    node_set_shape(n, x->rank, x->dim);
    n->name = x->name;
    return node_add(g, graph, n);
}
