// evaluate.c: expression trees to values: names, literals, operators, attributes.
//
// A chain of operators is a deep tree on its left side, so that side is walked in a loop.

#include "gen/build.h"
#include <inttypes.h>
#include <string.h>

void place_at(struct build *b, struct span at)
{
    if (!b->scope->in_prelude)
        b->g->at = at;
}

struct symbol *define(struct build *b, const char *name, struct span at, struct value value,
                      const char *what)
{
    int len = (int)strlen(name);
    const struct symbol *old = map_find(&b->scope->symbols, name, len);
    if (old) {
        fail_at(b->g, at, "%s is defined twice", name);
        note_at(b->g, old->at, "%s is defined here", name);
        return NULL;
    }
    struct symbol *s = arena_new(b->g, struct symbol, 1);
    *s = (struct symbol){.name = name, .what = what, .at = at, .value = value};
    map_put(b->g, &b->scope->symbols, name, len, s);
    return s;
}

bool fail_unknown(struct build *b, struct span at, const char *what, const char *name,
                  const struct map *const maps[3])
{
    const char *best = NULL;
    int distance = INT32_MAX;
    bool is_shown = b->g->n_errors < MAX_ERRORS; // looking through all names takes its time
    for (int i = 0; is_shown && i < 3; i++) {
        const char *near = maps[i] ? map_nearest(b->g, maps[i], name, &distance) : NULL;
        best = near ? near : best;
    }
    if (best)
        return fail_at(b->g, at, "unknown %s `%s`; did you mean `%s`?", what, name, best);
    return fail_at(b->g, at, "unknown %s `%s`", what, name);
}

static struct value fail_name(struct build *b, const struct expr *e)
{
    int len = (int)strlen(e->text);
    const struct scope *scope = b->scope;
    const struct statement *later = map_find(&b->later, e->text, len);
    if (!scope->callee && later) {
        fail_at(b->g, e->at, "%s is used before it is defined", e->text);
        note_at(b->g, later->name_at, "%s is defined here", e->text);
    } else if (scope->callee && (later || map_find(&b->top.symbols, e->text, len))) {
        fail_at(b->g, e->at,
                "unknown name `%s`: a function sees its arguments and the program's sizes",
                e->text);
    } else if (map_find(&b->own, e->text, len) || map_find(&b->known, e->text, len)) {
        fail_at(b->g, e->at, "%s is a function: call it, as in %s(x)", e->text, e->text);
    } else {
        const struct map *maps[3] = {&scope->symbols, scope->callee ? NULL : &b->later};
        fail_unknown(b, e->at, "name", e->text, maps);
    }
    return value_failed();
}

static struct value evaluate_name(struct build *b, const struct expr *e)
{
    int len = (int)strlen(e->text);
    struct symbol *s = map_find(&b->scope->symbols, e->text, len);
    if (!s && b->scope->callee && !b->scope->in_prelude)
        s = map_find(&b->sizes.symbols, e->text, len);
    if (s) {
        s->used = true;
        struct value v = s->value;
        if (!b->scope->in_prelude)
            v.symbol = s;
        return v;
    }
    for (int i = 0; i < DT_COUNT; i++)
        if (!strcmp(dtype_info[i].name, e->text))
            return (struct value){.kind = VALUE_dtype, .integer = i};
    return fail_name(b, e);
}

static struct value evaluate_list(struct build *b, const struct expr *e)
{
    struct value list = {.kind = VALUE_list, .n = e->n_items};
    list.items = arena_new(b->g, struct value, e->n_items);
    for (int i = 0; i < e->n_items; i++) {
        list.items[i] = evaluate(b, e->items[i]);
        if (list.items[i].kind == VALUE_failed)
            return value_failed();
    }
    return list;
}

// Of values that are no numbers: same kind and same content.
static bool is_same(const struct value *x, const struct value *y)
{
    if (is_scalar(x) && is_scalar(y))
        return scalar_number(x) == scalar_number(y);
    if (x->kind != y->kind || x->n != y->n)
        return false;
    for (int i = 0; i < x->n; i++)
        if (!is_same(&x->items[i], &y->items[i]))
            return false;
    if (x->kind == VALUE_text)
        return !strcmp(x->text, y->text);
    return x->kind == VALUE_node ? x->node == y->node : x->integer == y->integer;
}

enum { LONGEST_LIST = 4096 };

// a + b puts lists together, a * n repeats one
static struct value list_binary(struct build *b, enum token_kind symbol, const struct value *x,
                                const struct value *y)
{
    bool joins = symbol == TOKEN_plus && x->kind == VALUE_list && y->kind == VALUE_list;
    bool repeats = symbol == TOKEN_times && x->kind == VALUE_list && y->kind == VALUE_integer;
    int64_t times = repeats ? (y->integer > 0 ? y->integer : 0) : 1;
    if (!joins && !repeats) {
        fail(b->g, "%s does not take %s and %s", token_name(symbol), value_kind_text(b, x),
             value_kind_text(b, y));
        return value_failed();
    }
    if (times > LONGEST_LIST || x->n * times + y->n > LONGEST_LIST) {
        fail(b->g, "a list of more than %d", LONGEST_LIST);
        return value_failed();
    }
    struct value list = {.kind = VALUE_list};
    list.items = arena_new(b->g, struct value, x->n * times + y->n);
    for (int64_t t = 0; t < times; t++)
        for (int i = 0; i < x->n; i++)
            list.items[list.n++] = x->items[i];
    for (int i = 0; i < y->n; i++)
        list.items[list.n++] = y->items[i];
    return list;
}

static enum op operator_op(enum token_kind symbol)
{
    switch ((int)symbol) {
#define OPERATOR(token, name)                                                                      \
    case TOKEN_##token:                                                                            \
        return OP_##name;
        OPERATOR(plus, add)
        OPERATOR(minus, sub)
        OPERATOR(times, mul)
        OPERATOR(divide, div)
        OPERATOR(modulo, mod)
        OPERATOR(power, pow)
        OPERATOR(lt, lt)
        OPERATOR(le, le)
        OPERATOR(gt, gt)
        OPERATOR(ge, ge)
        OPERATOR(eq, eq)
        OPERATOR(ne, ne)
        OPERATOR(and, and)
        OPERATOR(or, or)
#undef OPERATOR
    }
    return OP_COUNT;
}

// x ** 2 is x * x
static struct value power(struct build *b, const struct value *x, const struct value *y)
{
    struct value square[2] = {*x, *x}, in[2] = {*x, *y};
    bool integral = x->kind == VALUE_node && dtype_info[x->node->dtype].class != CLASS_float;
    if ((y->kind == VALUE_integer && y->integer == 2) ||
        (y->kind == VALUE_float && y->number == 2 && x->kind == VALUE_node && !integral))
        return elementwise(b, NULL, OP_mul, 2, square);
    if (integral && y->kind == VALUE_integer && y->integer < 0) {
        fail(b->g, "an integer tensor has no power of %" PRId64 ": cast it to f32", y->integer);
        return value_failed();
    }
    return elementwise(b, NULL, OP_pow, 2, in);
}

static struct value combine(struct build *b, enum token_kind symbol, const struct value *x,
                            const struct value *y)
{
    struct value in[2] = {*x, *y};
    bool equality = symbol == TOKEN_eq || symbol == TOKEN_ne;
    bool logic = symbol == TOKEN_and || symbol == TOKEN_or;
    bool numbers =
        (is_scalar(x) || x->kind == VALUE_node) && (is_scalar(y) || y->kind == VALUE_node);
    bool tensors = x->kind == VALUE_node || y->kind == VALUE_node;
    if (equality && !numbers)
        return value_bool(is_same(x, y) == (symbol == TOKEN_eq));
    if (!tensors && (x->kind == VALUE_list || y->kind == VALUE_list))
        return list_binary(b, symbol, x, y);
    if (symbol == TOKEN_at)
        return matmul(b, x, y);
    if (logic && !tensors) { // x did not decide
        bool truth;
        return want_bool(b, token_name(symbol), y, &truth) ? value_bool(truth) : value_failed();
    }
    if (!tensors && numbers)
        return scalar_binary(b, symbol, x, y);
    if (symbol == TOKEN_floor_divide) {
        fail(b->g, "`//` is for sizes: write floor(a / b) of tensors");
        return value_failed();
    }
    if (symbol == TOKEN_power && numbers)
        return power(b, x, y);
    return elementwise(b, NULL, operator_op(symbol), 2, in);
}

// One operator of a chain: x is its left side.  `and` and `or` look at the right side only if x
// leaves it open.
static struct value evaluate_operator(struct build *b, const struct expr *e, const struct value *x)
{
    bool truth, logic = e->symbol == TOKEN_and || e->symbol == TOKEN_or;
    if (logic && x->kind != VALUE_node) {
        place_at(b, e->at);
        if (!want_bool(b, token_name(e->symbol), x, &truth))
            return value_failed();
        if (truth == (e->symbol == TOKEN_or))
            return *x;
    }
    struct value y = evaluate(b, e->right);
    if (y.kind == VALUE_failed)
        return y;
    place_at(b, e->at);
    if (logic && x->kind != VALUE_node && y.kind == VALUE_node)
        return y;
    return combine(b, e->symbol, x, &y);
}

static void place_value(struct build *b, struct value *v, const struct expr *e)
{
    if (b->scope->in_prelude)
        return;
    v->at = e->at;
    if (e->kind != EXPR_name)
        v->symbol = NULL;
}

static struct value evaluate_binary(struct build *b, const struct expr *e)
{
    int n = 0;
    for (const struct expr *left = e; left->kind == EXPR_binary; left = left->left)
        n++;
    const struct expr **chain = arena_new(b->g, const struct expr *, n);
    for (int i = n; i > 0; e = e->left)
        chain[--i] = e;
    struct value v = evaluate(b, e);
    for (int i = 0; i < n && v.kind != VALUE_failed; i++) {
        v = evaluate_operator(b, chain[i], &v);
        place_value(b, &v, chain[i]);
    }
    return v;
}

static struct value evaluate_unary(struct build *b, const struct expr *e)
{
    struct value x = evaluate(b, e->left);
    enum op op = e->symbol == TOKEN_not ? OP_not : OP_neg;
    bool truth;
    if (x.kind == VALUE_failed)
        return x;
    place_at(b, e->at);
    if (x.kind == VALUE_node)
        return elementwise(b, NULL, op, 1, &x);
    if (op == OP_not)
        return want_bool(b, "`not`", &x, &truth) ? value_bool(!truth) : value_failed();
    if (is_scalar(&x))
        return scalar_unary(b, op, &x);
    fail(b->g, "`-` does not take %s", value_kind_text(b, &x));
    return value_failed();
}

static struct value evaluate_transpose(struct build *b, const struct expr *e)
{
    struct value x = evaluate(b, e->left);
    place_at(b, e->at);
    struct node *node = node_of(b, &x);
    return node ? value_node(transposed(b, node)) : value_failed();
}

static struct value evaluate_kind(struct build *b, const struct expr *e)
{
    switch (e->kind) {
    case EXPR_name:
        return evaluate_name(b, e);
    case EXPR_integer:
        return value_integer(e->integer);
    case EXPR_float:
        return value_float(e->number);
    case EXPR_text:
        return (struct value){.kind = VALUE_text, .text = e->text};
    case EXPR_bool:
        return value_bool(e->integer);
    case EXPR_none:
        return value_none();
    case EXPR_list:
        return evaluate_list(b, e);
    case EXPR_unary:
        return evaluate_unary(b, e);
    case EXPR_binary:
        return evaluate_binary(b, e);
    case EXPR_call:
        return call_function(b, e);
    case EXPR_index:
        return subscript(b, e);
    case EXPR_transpose:
        return evaluate_transpose(b, e);
    }
    return value_failed();
}

struct value evaluate(struct build *b, const struct expr *e)
{
    if (b->depth >= MAX_DEPTH) {
        fail_at(b->g, e->at, "nested more than %d levels deep, functions included", MAX_DEPTH);
        return value_failed();
    }
    b->depth++;
    struct value v = evaluate_kind(b, e);
    b->depth--;
    place_value(b, &v, e);
    return v;
}
