// values.c: values of expressions: how they are named in messages, and how they become nodes of one
// dtype.
//
// A number or size is weak: with a tensor it takes the tensor's dtype, unless it is a float and
// that is not.

#include "gen/build.h"
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

struct value value_node(struct node *n)
{
    return (struct value){.kind = n ? VALUE_node : VALUE_failed, .node = n};
}

struct value value_integer(int64_t i)
{
    return (struct value){.kind = VALUE_integer, .integer = i};
}

struct value value_float(double d)
{
    return (struct value){.kind = VALUE_float, .number = d};
}

struct value value_bool(bool truth)
{
    return (struct value){.kind = VALUE_bool, .integer = truth};
}

struct value value_none(void)
{
    return (struct value){.kind = VALUE_none};
}

struct value value_failed(void)
{
    return (struct value){.kind = VALUE_failed};
}

bool is_scalar(const struct value *v)
{
    return v->kind == VALUE_integer || v->kind == VALUE_float || v->kind == VALUE_bool;
}

double scalar_number(const struct value *v)
{
    return v->kind == VALUE_float ? v->number : (double)v->integer;
}

const char *value_kind_text(struct build *b, const struct value *v)
{
    switch (v->kind) {
    case VALUE_failed:
        return "nothing";
    case VALUE_node:
        return node_text(b->g, v->node);
    case VALUE_integer:
        return arena_text(b->g, "the integer %" PRId64, v->integer);
    case VALUE_float:
        return arena_text(b->g, "the number %g", v->number);
    case VALUE_bool:
        return v->integer ? "true" : "false";
    case VALUE_text:
        return arena_text(b->g, "the string \"%.40s\"", v->text);
    case VALUE_none:
        return "None";
    case VALUE_list:
        return arena_text(b->g, "a list of %d", v->n);
    case VALUE_dtype:
        return arena_text(b->g, "the dtype %s", dtype_info[v->integer].name);
    }
    return "";
}

enum { LONGEST_LABEL = 40 };

const char *label(struct build *b, const struct value *v)
{
    if (v->at.at) {
        const char *line = memchr(v->at.at, '\n', (size_t)v->at.len);
        int len = line ? (int)(line - v->at.at) : v->at.len;
        bool cut = line || len > LONGEST_LABEL;
        return arena_text(b->g, "%.*s%s", len > LONGEST_LABEL ? LONGEST_LABEL : len, v->at.at,
                          cut ? "..." : "");
    }
    if (v->kind == VALUE_node && v->node->name)
        return v->node->name;
    return v->kind == VALUE_node ? "a value" : value_kind_text(b, v);
}

void note_declared(struct build *b, const struct value *v)
{
    if (v->symbol && v->symbol->at.at && v->kind == VALUE_node)
        note_at(b->g, v->symbol->at, "%s is %s", v->symbol->name, node_text(b->g, v->node));
}

// In the prelude the function that the user called is named already.
struct value fail_call(struct build *b, const struct call *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *message = arena_alloc(b->g, (size_t)len + 1);
    va_start(args, format);
    vsnprintf(message, (size_t)len + 1, format, args);
    va_end(args);
    if (b->g->within || !c)
        fail(b->g, "%s", message);
    else
        fail(b->g, "%s: %s", c->callee->name, message);
    return value_failed();
}

enum dtype join_dtypes(enum dtype a, enum dtype b)
{
    const struct dtype_info *x = &dtype_info[a], *y = &dtype_info[b];
    if (a == b || y->class == CLASS_boolean)
        return a;
    if (x->class == CLASS_boolean)
        return b;
    if (x->class != y->class)
        return x->class == CLASS_float ? a : b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? a : b;
    return x->class == CLASS_float ? DT_f32 : DT_i32; // f16 with bf16, i8 with u8
}

static enum dtype weak_dtype(enum value_kind kind)
{
    return kind == VALUE_float ? DT_f32 : kind == VALUE_integer ? DT_i64 : DT_bool;
}

static bool want_tensor(struct build *b, const struct value *v)
{
    if (v->kind == VALUE_node || is_scalar(v))
        return true;
    if (v->kind == VALUE_failed)
        return false;
    return fail(b->g, "expected a tensor or a number, got %s", value_kind_text(b, v));
}

struct node *node_as(struct build *b, const struct value *v, enum dtype dtype)
{
    if (!want_tensor(b, v))
        return NULL;
    if (v->kind == VALUE_node)
        return v->node->dtype == dtype ? v->node : graph_cast(b->g, b->graph, v->node, dtype);
    if (v->kind == VALUE_float)
        return graph_constant(b->g, b->graph, dtype, v->number);
    return graph_integer(b->g, b->graph, dtype, v->integer);
}

struct node *node_of(struct build *b, const struct value *v)
{
    return node_as(b, v, v->kind == VALUE_node ? v->node->dtype : weak_dtype(v->kind));
}

static enum dtype common_dtype(int n, const struct value *values)
{
    enum dtype dtype = DT_bool;
    for (int i = 0; i < n; i++)
        if (values[i].kind == VALUE_node)
            dtype = join_dtypes(dtype, values[i].node->dtype);
    for (int i = 0; i < n; i++)
        if (values[i].kind != VALUE_node && dtype_info[dtype].class != CLASS_float &&
            (values[i].kind == VALUE_float || dtype == DT_bool))
            dtype = join_dtypes(dtype, weak_dtype(values[i].kind));
    return dtype;
}

bool as_nodes(struct build *b, int n, const struct value *values, struct node **nodes)
{
    for (int i = 0; i < n; i++)
        if (!want_tensor(b, &values[i]))
            return false;
    enum dtype dtype = common_dtype(n, values);
    for (int i = 0; i < n; i++)
        if (!(nodes[i] = node_as(b, &values[i], dtype)))
            return false;
    return true;
}

static bool fail_clash(struct build *b, const char *prefix, const struct value *x,
                       const struct value *y, const struct node *xn, const struct node *yn,
                       int from_end)
{
    fail(b->g, "%s%s is %s and %s is %s: %" PRId64 " and %" PRId64 " do not broadcast", prefix,
         label(b, x), node_text(b->g, xn), label(b, y), node_text(b->g, yn),
         xn->dim[xn->rank - from_end], yn->dim[yn->rank - from_end]);
    note_declared(b, y->symbol ? y : x);
    return false;
}

static bool want_logic(struct build *b, const char *prefix, const struct value *v)
{
    enum dtype dtype = v->kind == VALUE_node ? v->node->dtype : weak_dtype(v->kind);
    if (dtype == DT_bool)
        return true;
    return fail(b->g, "%s%s is %s and bool is wanted: compare it, as in x != 0", prefix,
                label(b, v), value_kind_text(b, v));
}

// Casts the inputs to what the op takes.
static bool inputs_of(struct build *b, const char *prefix, enum op op, int n,
                      const struct value *in, struct node **nodes)
{
    enum op_types types = op_info[op].types;
    int first = types == TYPES_where;
    for (int i = 0; i < n; i++)
        if (!want_tensor(b, &in[i]) ||
            ((types == TYPES_logic || i < first) && !want_logic(b, prefix, &in[i])))
            return false;
    enum dtype dtype = common_dtype(n - first, in + first);
    if ((types == TYPES_float || types == TYPES_test) && dtype_info[dtype].class != CLASS_float)
        dtype = DT_f32;
    for (int i = 0; i < n; i++)
        if (!(nodes[i] = node_as(b, &in[i], i < first ? DT_bool : dtype)))
            return false;
    return true;
}

static bool is_rounding(enum op op)
{
    return op == OP_floor || op == OP_ceil || op == OP_round || op == OP_trunc;
}

// name: of the called function; NULL for an operator
struct value elementwise(struct build *b, const char *name, enum op op, int n,
                         const struct value *in)
{
    struct node *nodes[3];
    struct value folded;
    bool known = true;
    for (int i = 0; i < n; i++)
        known = known && is_scalar(&in[i]);
    if (known && scalar_call(b, op, n, in, &folded))
        return folded;
    const char *prefix = name && !b->g->within ? arena_text(b->g, "%s: ", name) : "";
    if (!inputs_of(b, prefix, op, n, in, nodes))
        return value_failed();
    if (is_rounding(op) && dtype_info[nodes[0]->dtype].class != CLASS_float)
        return value_node(nodes[0]);
    int rank;
    int64_t dim[MAX_RANK];
    struct clash c;
    if (!broadcast_shape(n, nodes, 0, &rank, dim, &c)) {
        int longest = 0;
        for (int i = 0; i < n; i++)
            longest = nodes[i]->rank > longest ? nodes[i]->rank : longest;
        fail_clash(b, prefix, &in[c.first], &in[c.second], nodes[c.first], nodes[c.second],
                   longest - c.axis);
        return value_failed();
    }
    return value_node(graph_elementwise(b->g, b->graph, op, n, nodes));
}

bool want_integer(struct build *b, const char *what, const struct value *v, int64_t *out)
{
    if (v->kind == VALUE_failed)
        return false;
    *out = v->integer;
    if (v->kind == VALUE_integer || (v->kind == VALUE_float && v->whole))
        return true;
    fail_call(b, NULL, "%s: expected an integer, got %s", what, value_kind_text(b, v));
    return false;
}

bool want_bool(struct build *b, const char *what, const struct value *v, bool *out)
{
    if (v->kind == VALUE_failed)
        return false;
    *out = v->integer;
    if (v->kind == VALUE_bool)
        return true;
    return fail(b->g, "%s: expected true or false, got %s", what, value_kind_text(b, v));
}

bool want_integers(struct build *b, const char *what, const struct value *v, int max, int64_t *out,
                   int *n)
{
    const struct value *items = v->kind == VALUE_list ? v->items : v;
    *n = v->kind == VALUE_list ? v->n : 1;
    if (*n > max)
        return fail(b->g, "%s: a list of %d, and %d is the most", what, *n, max);
    for (int i = 0; i < *n; i++)
        if (!want_integer(b, what, &items[i], &out[i]))
            return false;
    return true;
}
