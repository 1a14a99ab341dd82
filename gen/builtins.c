// builtins.c: the calls that the language cannot say itself: elementwise operators, reductions,
// queries, contractions.
//
// Axes count from the end where they are negative, None means all of them.

#include "gen/build.h"
#include <inttypes.h>
#include <string.h>

int value_rank(const struct value *v)
{
    return v->kind == VALUE_node ? v->node->rank : 0;
}

struct node *reshape_to(struct build *b, struct node *x, int rank, const int64_t *dim)
{
    bool same = rank == x->rank;
    for (int a = 0; same && a < rank; a++)
        same = dim[a] == x->dim[a];
    return same ? x : graph_reshape(b->g, b->graph, x, rank, dim);
}

struct node *permute_by(struct build *b, struct node *x, const int *perm)
{
    bool same = true;
    for (int a = 0; a < x->rank; a++)
        same = same && perm[a] == a;
    return same ? x : graph_permute(b->g, b->graph, x, perm);
}

struct node *transposed(struct build *b, struct node *x)
{
    int perm[MAX_RANK];
    for (int a = 0; a < x->rank; a++)
        perm[a] = a;
    if (x->rank < 2)
        return x;
    perm[x->rank - 2] = x->rank - 1;
    perm[x->rank - 1] = x->rank - 2;
    return permute_by(b, x, perm);
}

static struct value elementwise_call(struct build *b, const struct call *c)
{
    enum op op = c->callee->builtin->op;
    struct value in[2] = {c->args[0], c->args[1]};
    if (op == OP_pow && c->args[1].kind == VALUE_integer && c->args[1].integer == 2) {
        in[1] = in[0]; // as x ** 2 is
        op = OP_mul;
        return elementwise(b, c->callee->name, op, 2, in);
    }
    return elementwise(b, c->callee->name, op, op_info[op].arity, c->args);
}

bool want_axis(struct build *b, const struct call *c, const struct value *v, int rank, int *axis)
{
    int64_t a;
    if (v->kind == VALUE_node) {
        fail_call(b, c, "axis: expected an integer, got %s%s", value_kind_text(b, v),
                  c->callee->builtin->op == OP_max || c->callee->builtin->op == OP_min
                      ? "; maximum(a, b) and minimum(a, b) compare two tensors"
                      : "");
        return false;
    }
    if (v->kind != VALUE_integer && !v->whole) {
        fail_call(b, c, "axis: expected an integer, got %s", value_kind_text(b, v));
        return false;
    }
    a = v->integer;
    *axis = (int)(a < 0 ? a + rank : a);
    if (a >= -rank && a < rank)
        return true;
    fail_call(b, c, "axis %" PRId64 " is out of range: %s has rank %d", a, label(b, &c->args[0]),
              rank);
    return false;
}

bool want_axes(struct build *b, const struct call *c, const struct value *v, int rank, int *axes,
               int *n)
{
    const struct value *items = v->kind == VALUE_list ? v->items : v;
    *n = v->kind == VALUE_list ? v->n : 1;
    if (v->kind == VALUE_none) {
        *n = rank;
        for (int a = 0; a < rank; a++)
            axes[a] = a;
        return true;
    }
    uint32_t seen = 0;
    for (int i = 0; i < *n; i++) {
        int axis;
        if (!want_axis(b, c, &items[i], rank, &axis))
            return false;
        if (seen >> axis & 1) {
            fail_call(b, c, "axis %d is given twice: %s has rank %d", axis, label(b, &c->args[0]),
                      rank);
            return false;
        }
        seen |= 1u << axis;
        axes[i] = axis;
    }
    return true;
}

static bool want_keepdims(struct build *b, const struct value *v, bool *keepdims)
{
    *keepdims = false;
    return v->kind == VALUE_none || want_bool(b, "keepdims", v, keepdims);
}

// argmax of all elements counts in the flat tensor.
static struct node *reduce_flat(struct build *b, enum op op, struct node *x, bool keepdims)
{
    int64_t numel = node_numel(x), ones[MAX_RANK];
    for (int a = 0; a < MAX_RANK; a++)
        ones[a] = 1;
    struct node *flat = reshape_to(b, x, 1, &numel);
    struct node *index = flat ? graph_reduce(b->g, b->graph, op, flat, 1) : NULL;
    return index ? reshape_to(b, index, keepdims ? x->rank : 0, ones) : NULL;
}

static struct node *drop_axes(struct build *b, struct node *x, uint32_t axes)
{
    int rank = 0;
    int64_t dim[MAX_RANK];
    for (int a = 0; a < x->rank; a++)
        if (!(axes >> a & 1))
            dim[rank++] = x->dim[a];
    return reshape_to(b, x, rank, dim);
}

// An empty axis has no largest element, unless the result is empty as well.
static bool has_value(struct build *b, const struct call *c, const struct node *x, uint32_t axes)
{
    enum op op = c->callee->builtin->op;
    bool flat = c->args[1].kind == VALUE_none, empty = false;
    int64_t results = 1;
    for (int a = 0; a < x->rank; a++)
        if (flat || axes >> a & 1)
            empty = empty || x->dim[a] == 0;
        else
            results *= x->dim[a];
    if (!empty || results == 0 || op == OP_sum || op == OP_prod)
        return true;
    fail_call(b, c, "an empty axis has no %s: %s is %s", op_info[op].name, label(b, &c->args[0]),
              node_text(b->g, x));
    note_declared(b, &c->args[0]);
    return false;
}

struct value build_reduction(struct build *b, const struct call *c)
{
    enum op op = c->callee->builtin->op;
    struct node *x = node_of(b, &c->args[0]);
    int axes[MAX_RANK], n;
    uint32_t set = 0;
    bool keepdims, indexes = op == OP_argmax || op == OP_argmin;
    if (!x || !want_axes(b, c, &c->args[1], x->rank, axes, &n) ||
        !want_keepdims(b, &c->args[2], &keepdims))
        return value_failed();
    for (int i = 0; i < n; i++)
        set |= 1u << axes[i];
    if (!has_value(b, c, x, set))
        return value_failed();
    if (indexes && c->args[1].kind == VALUE_none)
        return value_node(reduce_flat(b, op, x, keepdims));
    if (indexes && n != 1)
        return fail_call(b, c, "takes one axis or None, got %d", n);
    struct node *kept = graph_reduce(b->g, b->graph, op, x, set);
    return value_node(kept && !keepdims ? drop_axes(b, kept, set) : kept);
}

// A number becomes a constant of a floating dtype at once, of another one as a tensor would.
static struct value cast_call(struct build *b, const struct call *c)
{
    const struct value *x = &c->args[0], *to = &c->args[1];
    if (to->kind != VALUE_dtype)
        return fail_call(b, c, "expected a dtype, such as f16, got %s", value_kind_text(b, to));
    enum dtype dtype = (enum dtype)to->integer;
    if (x->kind == VALUE_node || dtype_info[dtype].class == CLASS_float)
        return value_node(node_as(b, x, dtype));
    struct value v = value_node(node_of(b, x));
    return v.node ? value_node(node_as(b, &v, dtype)) : v;
}

static struct value size_call(struct build *b, const struct call *c)
{
    int axes[MAX_RANK], n, rank = value_rank(&c->args[0]);
    int64_t product = 1;
    if (!want_axes(b, c, &c->args[1], rank, axes, &n))
        return value_failed();
    for (int i = 0; i < n; i++)
        product *= c->args[0].node->dim[axes[i]];
    return value_integer(product);
}

static struct value rank_call(struct build *b, const struct call *c)
{
    (void)b;
    return value_integer(value_rank(&c->args[0]));
}

static struct value integer_list(struct build *b, int n, const int64_t *items)
{
    struct value list = {.kind = VALUE_list, .n = n, .items = arena_new(b->g, struct value, n)};
    for (int i = 0; i < n; i++)
        list.items[i] = value_integer(items[i]);
    return list;
}

static struct value shape_call(struct build *b, const struct call *c)
{
    const struct value *x = &c->args[0];
    return integer_list(b, value_rank(x), x->kind == VALUE_node ? x->node->dim : NULL);
}

static struct value range_call(struct build *b, const struct call *c)
{
    int64_t start, stop, items[MAX_RANK];
    if (!want_integer(b, "start", &c->args[0], &start) ||
        !want_integer(b, "stop", &c->args[1], &stop))
        return value_failed();
    if (stop - start > MAX_RANK)
        return fail_call(b, c, "more than %d integers; arange(n) makes a tensor", MAX_RANK);
    for (int64_t i = start; i < stop; i++)
        items[i - start] = i;
    return integer_list(b, stop > start ? (int)(stop - start) : 0, items);
}

static struct value dtype_call(struct build *b, const struct call *c)
{
    const struct value *x = &c->args[0];
    if (x->kind != VALUE_node && !is_scalar(x))
        return fail_call(b, c, "expected a tensor, got %s", value_kind_text(b, x));
    enum dtype dtype = x->kind == VALUE_node      ? x->node->dtype
                       : x->kind == VALUE_float   ? DT_f32
                       : x->kind == VALUE_integer ? DT_i64
                                                  : DT_bool;
    return (struct value){.kind = VALUE_dtype, .integer = dtype};
}

// A piece of error(...)'s message
static const char *piece(struct build *b, const struct value *v)
{
    const char *list = "[";
    switch ((int)v->kind) {
    case VALUE_text:
        return v->text;
    case VALUE_node:
        return label(b, v);
    case VALUE_integer:
        return arena_text(b->g, "%" PRId64, v->integer);
    case VALUE_float:
        return arena_text(b->g, "%g", v->number);
    case VALUE_dtype:
        return dtype_info[v->integer].name;
    case VALUE_list:
        for (int i = 0; i < v->n; i++)
            list = arena_text(b->g, "%s%s%s", list, i ? ", " : "", piece(b, &v->items[i]));
        return arena_text(b->g, "%s]", list);
    }
    return value_kind_text(b, v);
}

// error("x has ", size(x, 1), " features"): tensors by the names that the user gave them
static struct value error_call(struct build *b, const struct call *c)
{
    const char *message = "";
    const struct value *other = NULL;
    for (int i = 0; i < c->args[0].n; i++) {
        const struct value *v = &c->args[0].items[i];
        message = arena_text(b->g, "%s%s", message, piece(b, v));
        other = v->kind == VALUE_node && v->symbol ? v : other;
    }
    fail(b->g, "%s", message);
    if (other)
        note_declared(b, other);
    return value_failed();
}

// clang-format off
const struct builtin builtins[] = {
#define OP(name, arity, kind, types, ...) KIND_OF_##kind(name, arity)
#define KIND_OF_KIND_elementwise(name, arity)                                                      \
    {#name, PARAMETERS_##arity, elementwise_call, OP_##name},
#define KIND_OF_KIND_reduction(name, arity)                                                        \
    {#name, "x, axis?, keepdims?", build_reduction, OP_##name},
#define KIND_OF_KIND_leaf(name, arity)
#define KIND_OF_KIND_contraction(name, arity)
#define KIND_OF_KIND_movement(name, arity)
#define PARAMETERS_1 "x"
#define PARAMETERS_2 "x, y"
#define PARAMETERS_3 "c, x, y"
#include "gen/ops.def"
#undef OP
    // of two rows with one name the later one counts
    {"cast", "x, dtype", cast_call, OP_cast},
    {"matmul", "x, y", build_matmul, OP_matmul},
    {"einsum", "equation, *operands", build_einsum, OP_matmul},
    {"size", "x, axis?", size_call, OP_COUNT},
    {"rank", "x", rank_call, OP_COUNT},
    {"shape", "x", shape_call, OP_COUNT},
    {"dtype", "x", dtype_call, OP_COUNT},
    {"range", "start, stop", range_call, OP_COUNT},
    {"error", "*message", error_call, OP_COUNT},
    {NULL, NULL, NULL, OP_COUNT},
};
// clang-format on
