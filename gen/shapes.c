// shapes.c: calls that move elements without computing: reshape to pad, and tensors made from a
// shape alone.

#include "gen/build.h"
#include <inttypes.h>

// A list of sizes, one of which may be -1: what is left of numel.
static bool want_shape(struct build *b, const struct call *c, const struct value *v, int64_t numel,
                       int *rank, int64_t *dim)
{
    int open = -1;
    int64_t product = 1;
    if (!want_integers(b, "shape", v, MAX_RANK, dim, rank))
        return false;
    for (int a = 0; a < *rank; a++) {
        if (dim[a] == -1 && numel >= 0 && open < 0) {
            open = a;
            continue;
        }
        if (dim[a] < 0) {
            fail_call(b, c, "%s%" PRId64 " is no size",
                      dim[a] == -1 && open >= 0 ? "a second " : "", dim[a]);
            return false;
        }
        if (dim[a] > MAX_ELEMENTS || (dim[a] && product > MAX_ELEMENTS / dim[a])) {
            fail_call(b, c, "more than 2^40 elements");
            return false;
        }
        product *= dim[a];
    }
    if (open < 0)
        return true;
    dim[open] = product ? numel / product : 0;
    if (product && numel % product == 0)
        return true;
    fail_call(b, c, "no size for -1 fits: %" PRId64 " elements by %" PRId64, numel, product);
    return false;
}

static struct value reshape_call(struct build *b, const struct call *c)
{
    struct node *x = node_of(b, &c->args[0]);
    int rank;
    int64_t dim[MAX_RANK], numel = 1;
    if (!x || !want_shape(b, c, &c->args[1], node_numel(x), &rank, dim))
        return value_failed();
    for (int a = 0; a < rank; a++)
        numel *= dim[a];
    if (numel != node_numel(x)) {
        fail_call(b, c, "%s has %" PRId64 " elements and the shape %" PRId64 ": %s to %s",
                  label(b, &c->args[0]), node_numel(x), numel, node_text(b->g, x),
                  shape_text(b->g, x->dtype, rank, dim));
        note_declared(b, &c->args[0]);
        return value_failed();
    }
    return value_node(reshape_to(b, x, rank, dim));
}

static struct value permute_all(struct build *b, const struct call *c, struct node *x,
                                const struct value *order)
{
    int axes[MAX_RANK], n;
    if (!want_axes(b, c, order, x->rank, axes, &n))
        return value_failed();
    if (n != x->rank)
        return fail_call(b, c, "%d axes, and %s has rank %d", n, label(b, &c->args[0]), x->rank);
    return value_node(permute_by(b, x, axes));
}

static struct value permute_call(struct build *b, const struct call *c)
{
    struct node *x = node_of(b, &c->args[0]);
    return x ? permute_all(b, c, x, &c->args[1]) : value_failed();
}

// PyTorch's transpose(x, 0, 1) swaps two axes, NumPy's transpose(x, (1, 0, 2)) orders all;
// transpose(x) of a matrix is x.T, of more axes the two disagree.
static struct value transpose_call(struct build *b, const struct call *c)
{
    struct node *x = node_of(b, &c->args[0]);
    int first, second, perm[MAX_RANK];
    if (!x)
        return value_failed();
    if (c->args[1].kind == VALUE_none && x->rank > 2)
        return fail_call(b, c, "which axes? %s has rank %d: transpose(x, -2, -1) is x.T",
                         label(b, &c->args[0]), x->rank);
    if (c->args[1].kind == VALUE_none)
        return value_node(transposed(b, x));
    if (c->args[2].kind == VALUE_none)
        return permute_all(b, c, x, &c->args[1]);
    if (!want_axis(b, c, &c->args[1], x->rank, &first) ||
        !want_axis(b, c, &c->args[2], x->rank, &second))
        return value_failed();
    for (int a = 0; a < x->rank; a++)
        perm[a] = a == first ? second : a == second ? first : a;
    return value_node(permute_by(b, x, perm));
}

static struct value broadcast_call(struct build *b, const struct call *c)
{
    struct node *x = node_of(b, &c->args[0]);
    int rank;
    int64_t dim[MAX_RANK];
    if (!x || !want_shape(b, c, &c->args[1], -1, &rank, dim))
        return value_failed();
    bool fits = rank >= x->rank, same = rank == x->rank;
    for (int a = 0; fits && a < x->rank; a++) {
        int64_t to = dim[a + rank - x->rank];
        fits = x->dim[a] == 1 || x->dim[a] == to;
        same = same && x->dim[a] == to;
    }
    if (fits)
        return value_node(same ? x : graph_broadcast(b->g, b->graph, x, rank, dim));
    fail_call(b, c, "%s is %s and does not broadcast to %s", label(b, &c->args[0]),
              node_text(b->g, x), shape_text(b->g, x->dtype, rank, dim));
    note_declared(b, &c->args[0]);
    return value_failed();
}

static struct value squeeze_call(struct build *b, const struct call *c)
{
    struct node *x = node_of(b, &c->args[0]);
    int axes[MAX_RANK], n, rank = 0;
    int64_t dim[MAX_RANK];
    uint32_t dropped = 0;
    bool all = c->args[1].kind == VALUE_none;
    if (!x || !want_axes(b, c, &c->args[1], x->rank, axes, &n))
        return value_failed();
    for (int i = 0; i < n; i++) {
        if (x->dim[axes[i]] == 1)
            dropped |= 1u << axes[i];
        else if (!all)
            return fail_call(b, c, "axis %d of %s has size %" PRId64 ", not 1", axes[i],
                             label(b, &c->args[0]), x->dim[axes[i]]);
    }
    for (int a = 0; a < x->rank; a++)
        if (!(dropped >> a & 1))
            dim[rank++] = x->dim[a];
    return value_node(reshape_to(b, x, rank, dim));
}

static struct node *with_axis(struct build *b, struct node *x, int axis)
{
    int64_t dim[MAX_RANK];
    for (int a = 0; a <= x->rank; a++)
        dim[a] = a < axis ? x->dim[a] : a == axis ? 1 : x->dim[a - 1];
    return reshape_to(b, x, x->rank + 1, dim);
}

static bool has_room(struct build *b, const struct call *c, int rank)
{
    if (rank < MAX_RANK)
        return true;
    fail_call(b, c, "the result has more than %d dimensions", MAX_RANK);
    return false;
}

static struct value unsqueeze_call(struct build *b, const struct call *c)
{
    struct node *x = node_of(b, &c->args[0]);
    int axis;
    if (!x || !has_room(b, c, x->rank) || !want_axis(b, c, &c->args[1], x->rank + 1, &axis))
        return value_failed();
    return value_node(with_axis(b, x, axis));
}

static struct value flatten_call(struct build *b, const struct call *c)
{
    struct node *x = node_of(b, &c->args[0]);
    struct value zero = value_integer(0), minus_one = value_integer(-1);
    const struct value *from = c->args[1].kind == VALUE_none ? &zero : &c->args[1];
    const struct value *to = c->args[2].kind == VALUE_none ? &minus_one : &c->args[2];
    int first, last, rank = 0;
    int64_t dim[MAX_RANK], one = 1;
    if (x && x->rank == 0)
        return value_node(reshape_to(b, x, 1, &one));
    if (!x || !want_axis(b, c, from, x->rank, &first) || !want_axis(b, c, to, x->rank, &last))
        return value_failed();
    if (first > last)
        return fail_call(b, c, "axis %d comes after axis %d", first, last);
    for (int a = 0; a < x->rank; a++)
        if (a > first && a <= last)
            dim[rank - 1] *= x->dim[a];
        else
            dim[rank++] = x->dim[a];
    return value_node(reshape_to(b, x, rank, dim));
}

static void whole_slice(const struct node *x, int64_t *start, int64_t *step, int64_t *taken)
{
    for (int a = 0; a < x->rank; a++) {
        start[a] = 0;
        step[a] = 1;
        taken[a] = x->dim[a];
    }
}

static struct value flip_call(struct build *b, const struct call *c)
{
    struct node *x = node_of(b, &c->args[0]);
    int axes[MAX_RANK], n;
    int64_t start[MAX_RANK], step[MAX_RANK], taken[MAX_RANK];
    if (!x || !want_axes(b, c, &c->args[1], x->rank, axes, &n))
        return value_failed();
    whole_slice(x, start, step, taken);
    for (int i = 0; i < n; i++) {
        start[axes[i]] = x->dim[axes[i]] > 0 ? x->dim[axes[i]] - 1 : 0;
        step[axes[i]] = -1;
    }
    return value_node(n ? graph_slice(b->g, b->graph, x, start, step, taken) : x);
}

// The list of tensors that concat and stack take, in their common dtype
static struct node **want_tensors(struct build *b, const struct call *c, int *n)
{
    const struct value *list = &c->args[0];
    *n = list->n;
    if (list->kind != VALUE_list || list->n == 0) {
        fail_call(b, c, "expected a list of tensors, got %s", value_kind_text(b, list));
        return NULL;
    }
    struct node **nodes = arena_new(b->g, struct node *, *n);
    return as_nodes(b, *n, list->items, nodes) ? nodes : NULL;
}

// All but the size along `axis` agree (-1: that one too).
static bool fit_together(struct build *b, const struct call *c, int n, struct node **nodes,
                         int axis)
{
    for (int i = 1; i < n; i++) {
        bool fits = nodes[i]->rank == nodes[0]->rank;
        for (int a = 0; fits && a < nodes[0]->rank; a++)
            fits = a == axis || nodes[i]->dim[a] == nodes[0]->dim[a];
        if (fits)
            continue;
        const struct value *items = c->args[0].items;
        fail_call(b, c, "%s is %s and %s is %s", label(b, &items[0]), node_text(b->g, nodes[0]),
                  label(b, &items[i]), node_text(b->g, nodes[i]));
        note_declared(b, items[i].symbol ? &items[i] : &items[0]);
        return false;
    }
    return true;
}

static const struct value *axis_or_zero(const struct value *v, const struct value *zero)
{
    return v->kind == VALUE_none ? zero : v;
}

static struct value concat_call(struct build *b, const struct call *c)
{
    struct value zero = value_integer(0);
    int n, axis;
    struct node **nodes = want_tensors(b, c, &n);
    if (!nodes || !want_axis(b, c, axis_or_zero(&c->args[1], &zero), nodes[0]->rank, &axis) ||
        !fit_together(b, c, n, nodes, axis))
        return value_failed();
    return value_node(n == 1 ? nodes[0] : graph_concat(b->g, b->graph, n, nodes, axis));
}

static struct value stack_call(struct build *b, const struct call *c)
{
    struct value zero = value_integer(0);
    int n, axis;
    struct node **nodes = want_tensors(b, c, &n);
    if (!nodes || !has_room(b, c, nodes[0]->rank) ||
        !want_axis(b, c, axis_or_zero(&c->args[1], &zero), nodes[0]->rank + 1, &axis) ||
        !fit_together(b, c, n, nodes, -1))
        return value_failed();
    for (int i = 0; i < n; i++)
        if (!(nodes[i] = with_axis(b, nodes[i], axis)))
            return value_failed();
    return value_node(n == 1 ? nodes[0] : graph_concat(b->g, b->graph, n, nodes, axis));
}

// NumPy's ((before, after), ...) for each axis, or PyTorch's flat list that begins with the last
// axis
static bool want_widths(struct build *b, const struct call *c, int rank, int64_t *before,
                        int64_t *after)
{
    const struct value *v = &c->args[1];
    int64_t flat[2 * MAX_RANK];
    int n;
    for (int a = 0; a < rank; a++)
        before[a] = after[a] = 0;
    if (v->kind == VALUE_list && v->n > 0 && v->items[0].kind == VALUE_list) {
        for (int a = 0; a < v->n && v->n == rank; a++) {
            if (!want_integers(b, "pad", &v->items[a], 2, flat, &n))
                return false;
            before[a] = flat[0];
            after[a] = flat[n - 1];
        }
        if (v->n != rank)
            fail_call(b, c, "%d pairs, and %s has rank %d", v->n, label(b, &c->args[0]), rank);
        return v->n == rank;
    }
    if (!want_integers(b, "pad", v, 2 * MAX_RANK, flat, &n))
        return false;
    if (v->kind == VALUE_list && (n % 2 || n / 2 > rank)) {
        fail_call(b, c, "%d widths do not make pairs for the last axes of %s, which has rank %d", n,
                  label(b, &c->args[0]), rank);
        return false;
    }
    for (int a = 0; v->kind != VALUE_list && a < rank; a++)
        before[a] = after[a] = flat[0];
    for (int i = 0; v->kind == VALUE_list && i < n / 2; i++) {
        before[rank - 1 - i] = flat[2 * i];
        after[rank - 1 - i] = flat[2 * i + 1];
    }
    return true;
}

static struct value pad_call(struct build *b, const struct call *c)
{
    struct node *x = node_of(b, &c->args[0]);
    const struct value *fill = &c->args[2];
    int64_t before[MAX_RANK], after[MAX_RANK];
    if (!x || !want_widths(b, c, x->rank, before, after))
        return value_failed();
    if (fill->kind != VALUE_none && !is_scalar(fill))
        return fail_call(b, c, "value: expected a number, got %s", value_kind_text(b, fill));
    double value = fill->kind == VALUE_none ? 0 : scalar_number(fill);
    return value_node(graph_pad(b->g, b->graph, x, before, after, value));
}

static struct value iota_call(struct build *b, const struct call *c)
{
    struct value zero = value_integer(0);
    int rank, axis;
    int64_t dim[MAX_RANK];
    if (!want_shape(b, c, &c->args[0], -1, &rank, dim) ||
        !want_axis(b, c, axis_or_zero(&c->args[1], &zero), rank, &axis))
        return value_failed();
    return value_node(graph_iota(b->g, b->graph, rank, dim, axis));
}

static void sort_axes(int n, int *axes)
{
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && axes[j - 1] > axes[j]; j--) {
            int swap = axes[j];
            axes[j] = axes[j - 1];
            axes[j - 1] = swap;
        }
}

// The shape in which w's axes lie where x has those of `axis`, so that it broadcasts against x.
static bool aligned_shape(struct build *b, const struct call *c, const struct node *w, int64_t *dim)
{
    const struct value *x = &c->args[0];
    int axes[MAX_RANK], n, rank = value_rank(x);
    if (!want_axes(b, c, &c->args[2], rank, axes, &n))
        return false;
    sort_axes(n, axes);
    for (int a = 0; a < rank; a++)
        dim[a] = 1;
    for (int i = 0; i < n && w; i++) {
        int64_t size = x->node->dim[axes[i]];
        dim[axes[i]] = size;
        if (w->rank == n && w->dim[i] == size)
            continue;
        fail_call(b, c, "%s is %s and %s has size %" PRId64 " at axis %d", label(b, &c->args[1]),
                  node_text(b->g, w), label(b, x), size, axes[i]);
        note_declared(b, &c->args[1]);
        return false;
    }
    return true;
}

static struct value align_call(struct build *b, const struct call *c)
{
    struct node *w = node_of(b, &c->args[1]);
    int64_t dim[MAX_RANK];
    if (!w || !aligned_shape(b, c, w, dim))
        return value_failed();
    return value_node(reshape_to(b, w, value_rank(&c->args[0]), dim));
}

// Whether align can do it: the axis is one of x's, and w, unless it is None, has x's sizes there
static struct value check_along_call(struct build *b, const struct call *c)
{
    const struct value *w = &c->args[1];
    int64_t dim[MAX_RANK];
    struct node *node = w->kind == VALUE_none ? NULL : node_of(b, w);
    bool ok = (node || w->kind == VALUE_none) && aligned_shape(b, c, node, dim);
    return ok ? value_none() : value_failed();
}

static bool want_bound(struct build *b, const struct call *c, int i, int64_t fallback, int64_t *out)
{
    static const char *const names[] = {"x", "axis", "start", "stop", "step"};
    *out = fallback;
    return c->args[i].kind == VALUE_none || want_integer(b, names[i], &c->args[i], out);
}

// slice(x, axis, start, stop, step) is x[..., start:stop:step, ...]
static struct value slice_call(struct build *b, const struct call *c)
{
    struct value zero = value_integer(0);
    struct node *x = node_of(b, &c->args[0]);
    int64_t start[MAX_RANK], step[MAX_RANK], taken[MAX_RANK], by, from, to;
    int axis;
    if (!x || !want_axis(b, c, axis_or_zero(&c->args[1], &zero), x->rank, &axis) ||
        !want_bound(b, c, 4, 1, &by))
        return value_failed();
    if (by == 0)
        return fail_call(b, c, "a step of 0");
    bool first = c->args[2].kind != VALUE_none, last = c->args[3].kind != VALUE_none;
    if (!want_bound(b, c, 2, 0, &from) || !want_bound(b, c, 3, 0, &to))
        return value_failed();
    whole_slice(x, start, step, taken);
    step[axis] = by;
    start[axis] = range_start(x->dim[axis], by, first ? &from : NULL);
    taken[axis] = range_count(x->dim[axis], by, start[axis], last ? &to : NULL);
    return value_node(graph_slice(b->g, b->graph, x, start, step, taken));
}

const struct builtin shape_builtins[] = {
    {"reshape",      "x, shape",                       reshape_call,     OP_reshape  },
    {"permute",      "x, axis",                        permute_call,     OP_permute  },
    {"transpose",    "x, axis?, axis1?",               transpose_call,   OP_permute  },
    {"broadcast_to", "x, shape",                       broadcast_call,   OP_broadcast},
    {"squeeze",      "x, axis?",                       squeeze_call,     OP_reshape  },
    {"unsqueeze",    "x, axis",                        unsqueeze_call,   OP_reshape  },
    {"flatten",      "x, start_axis?, end_axis?",      flatten_call,     OP_reshape  },
    {"flip",         "x, axis?",                       flip_call,        OP_slice    },
    {"concat",       "arrays, axis?",                  concat_call,      OP_concat   },
    {"stack",        "arrays, axis?",                  stack_call,       OP_concat   },
    {"pad",          "x, pad, value?",                 pad_call,         OP_pad      },
    {"iota",         "shape, axis?",                   iota_call,        OP_iota     },
    {"slice",        "x, axis?, start?, stop?, step?", slice_call,       OP_slice    },
    {"align",        "x, w, axis",                     align_call,       OP_reshape  },
    {"check_along",  "x, w, axis",                     check_along_call, OP_reshape  },
    {NULL,           NULL,                             NULL,             OP_COUNT    },
};
