// expand.c: calls: a function's name and arguments to the value it returns.
//
// A function of the language is expanded where it is called: its parameters are the argument
// values, sizes among them are known, so its `if`s are decided here.  Whatever the prelude builds
// belongs to the user's call.

#include "gen/build.h"
#include <stdlib.h>
#include <string.h>

// Names of one argument: PyTorch's, NumPy's and ours.
static const char *const other_names[][2] = {
    {"dim",             "axis"      },
    {"keepdim",         "keepdims"  },
    {"ddof",            "correction"},
    {"a_min",           "min"       },
    {"a_max",           "max"       },
    {"p",               "ord"       },
    {"k",               "diagonal"  },
    {"input",           "x"         },
    {"a",               "x"         },
    {"dims",            "axis"      },
    {"axes",            "axis"      },
    {"constant_values", "value"     },
    {"pad_width",       "pad"       },
    {"newshape",        "shape"     },
    {"size",            "shape"     },
    {"fill_value",      "value"     },
    {"running_mean",    "mean"      },
    {"running_var",     "var"       },
    {"condition",       "c"         },
    {"exponent",        "y"         },
    {"other",           "y"         },
    {"dim0",            "axis"      },
    {"dim1",            "axis1"     },
    {"axis0",           "axis"      },
    {"w",               "weight"    },
    {"start_dim",       "start_axis"},
    {"end_dim",         "end_axis"  },
    {"tensors",         "arrays"    },
};

static bool is_called(struct span keyword, const char *name)
{
    return (size_t)keyword.len == strlen(name) && !memcmp(keyword.at, name, (size_t)keyword.len);
}

// The parameter that a keyword means: by its own name first, else by another of its names.
static int find_keyword(struct span keyword, int n, const char *const *names)
{
    for (int i = 0; i < n; i++)
        if (is_called(keyword, names[i]))
            return i;
    for (size_t k = 0; k < sizeof other_names / sizeof *other_names; k++)
        for (int i = 0; i < n; i++)
            if (is_called(keyword, other_names[k][0]) && !strcmp(other_names[k][1], names[i]))
                return i;
    return -1;
}

struct signature {
    int n;
    const char *names[MAX_PARAMETERS];
    bool optional[MAX_PARAMETERS];
    bool collects; // the last one takes what is left
    const char *text;
};

static const char *function_text(struct build *b, const struct function *f)
{
    const char *text = "";
    for (int i = 0; i < f->n_parameters; i++)
        text = arena_text(b->g, "%s%s%s%s", text, i ? ", " : "", f->parameters[i].name,
                          f->parameters[i].fallback ? "?" : "");
    return text;
}

// From "x, axis?, *rest"
static const struct signature *signature_of(struct build *b, struct callee *callee)
{
    if (callee->signature)
        return callee->signature;
    const char *at =
        callee->builtin ? callee->builtin->parameters : function_text(b, callee->function);
    struct signature *s = callee->signature = arena_new(b->g, struct signature, 1);
    s->text = at;
    while (*at) {
        s->collects = *at == '*';
        at += s->collects;
        int len = (int)strcspn(at, ",?");
        s->names[s->n] = arena_text(b->g, "%.*s", len, at);
        s->optional[s->n++] = at[len] == '?' || s->collects;
        at += len + (at[len] == '?');
        at += strspn(at, ", ");
    }
    return s;
}

static bool bind_keyword(struct build *b, const struct signature *s, const struct callee *callee,
                         struct span keyword, int *position)
{
    *position = find_keyword(keyword, s->n, s->names);
    if (*position >= 0)
        return true;
    return fail_at(b->g, keyword, "%s: no argument is named %.*s; it takes (%s)", callee->name,
                   keyword.len, keyword.at, s->text);
}

static bool collect(struct build *b, struct value *list, struct value item)
{
    list->kind = VALUE_list;
    list->items = array_room(b->g, list->items, list->n, sizeof item);
    list->items[list->n++] = item;
    return true;
}

// Evaluates the arguments, in the caller's scope, each to its parameter.
static bool bind_arguments(struct build *b, const struct expr *e, const struct signature *s,
                           struct call *c, bool *given)
{
    const char *name = c->callee->name;
    bool named = false;
    for (int i = 0; i < e->n_items; i++) {
        int position = i;
        named = named || e->keywords[i].at;
        if (named && !e->keywords[i].at)
            return fail_at(b->g, e->items[i]->at, "%s: an argument without a name follows one with",
                           name);
        if (e->keywords[i].at) {
            if (!bind_keyword(b, s, c->callee, e->keywords[i], &position))
                return false;
        } else if (s->collects && i >= s->n - 1) {
            position = s->n - 1;
        } else if (i >= s->n) {
            return fail_at(b->g, e->items[i]->at, "%s: %d arguments are too many; it takes (%s)",
                           name, e->n_items, s->text);
        }
        bool collects = s->collects && position == s->n - 1;
        if (given[position] && !collects)
            return fail_at(b->g, e->items[i]->at, "%s: %s is given twice", name,
                           s->names[position]);
        struct value v = evaluate(b, e->items[i]);
        if (v.kind == VALUE_failed)
            return false;
        given[position] = true;
        if (collects)
            collect(b, &c->args[position], v);
        else
            c->args[position] = v;
    }
    place_at(b, e->at);
    for (int i = 0; i < s->n; i++)
        if (!given[i] && !s->optional[i])
            return fail_at(b->g, e->at, "%s: %s is missing; it takes (%s)", name, s->names[i],
                           s->text);
    return true;
}

static struct value run_statement(struct build *b, const struct statement *s, bool *returned)
{
    struct value v = evaluate(b, s->value);
    bool truth;
    if (v.kind == VALUE_failed)
        return v;
    switch (s->kind) {
    case STATEMENT_return:
        *returned = true;
        return v;
    case STATEMENT_if:
        place_at(b, s->value->at);
        if (v.kind == VALUE_node) {
            fail(
                b->g,
                "`if` is decided when the program is built, and %s is a tensor: use where(c, x, y)",
                label(b, &v));
            return value_failed();
        }
        if (!want_bool(b, "`if`", &v, &truth))
            return value_failed();
        return run_block(b, truth ? &s->then : &s->otherwise, returned);
    case STATEMENT_call:
        return v;
    case STATEMENT_assign:
    case STATEMENT_argument:
    case STATEMENT_output:
        break;
    }
    return define(b, s->name, s->name_at, v, "variable") ? value_none() : value_failed();
}

struct value run_block(struct build *b, const struct block *block, bool *returned)
{
    struct value v = value_none();
    if (b->depth >= MAX_DEPTH) {
        fail(b->g, "nested more than %d levels deep, functions included", MAX_DEPTH);
        return value_failed();
    }
    b->depth++;
    for (int i = 0; i < block->n && !*returned && v.kind != VALUE_failed; i++)
        v = run_statement(b, block->statements[i], returned);
    b->depth--;
    return v;
}

static bool is_running(const struct scope *scope, const struct callee *callee)
{
    for (; scope; scope = scope->caller)
        if (scope->callee == callee)
            return true;
    return false;
}

// Parameters to values, in the function's own scope, so that a default may use those before it.
static bool define_parameters(struct build *b, const struct function *f, const struct call *c,
                              const bool *given)
{
    for (int i = 0; i < f->n_parameters; i++) {
        const struct parameter *p = &f->parameters[i];
        struct value v = given[i] ? c->args[i] : evaluate(b, p->fallback);
        if (v.kind == VALUE_failed || !define(b, p->name, p->at, v, "argument"))
            return false;
    }
    return true;
}

// Of a stack of calls the innermost and the outermost are told.
static void note_call(struct build *b, const struct call *c)
{
    if (b->n_noted != b->g->n_errors || !b->scope->callee)
        note_at(b->g, c->at, "in this call of %s", c->callee->name);
    b->n_noted = b->g->n_errors;
}

static struct value expand(struct build *b, const struct call *c, const bool *given)
{
    const struct function *f = c->callee->function;
    struct scope *caller = b->scope, scope = {.callee = c->callee,
                                              .caller = caller,
                                              .in_prelude = c->callee->in_prelude};
    const char *within = b->g->within;
    bool returned = false;
    if (scope.in_prelude && !within)
        b->g->within = c->callee->name;
    b->scope = &scope;
    struct value v = value_failed();
    if (define_parameters(b, f, c, given))
        v = run_block(b, &f->body, &returned);
    if (v.kind != VALUE_failed && !returned) {
        fail_at(b->g, f->at, "%s ends without a return", f->name);
        v = value_failed();
    }
    b->scope = caller;
    b->g->within = within;
    if (v.kind == VALUE_failed && !scope.in_prelude)
        note_call(b, c);
    place_at(b, c->at);
    return v;
}

static struct callee *find_callee(struct build *b, const char *name)
{
    int len = (int)strlen(name);
    struct callee *own = b->scope->in_prelude ? NULL : map_find(&b->own, name, len);
    return own ? own : map_find(&b->known, name, len);
}

static struct value fail_callee(struct build *b, const struct expr *e)
{
    const struct map *maps[3] = {&b->own, &b->known};
    struct span at = {e->at.at, (int)strlen(e->text)};
    if (map_find(&b->scope->symbols, e->text, at.len))
        fail_at(b->g, at, "%s is no function", e->text);
    else
        fail_unknown(b, at, "function", e->text, maps);
    return value_failed();
}

struct value call_function(struct build *b, const struct expr *e)
{
    struct callee *callee = find_callee(b, e->text);
    struct call c = {.callee = callee, .at = e->at};
    bool given[MAX_PARAMETERS] = {false};
    if (!callee)
        return fail_callee(b, e);
    callee->used = true;
    if (callee->function && is_running(b->scope, callee)) {
        fail_at(b->g, e->at, "%s calls itself", e->text);
        return value_failed();
    }
    if (++b->n_calls > MAX_CALLS) {
        if (b->n_calls == MAX_CALLS + 1)
            fail_at(b->g, e->at, "the program expands to more than %d calls", MAX_CALLS);
        return value_failed();
    }
    const struct signature *s = signature_of(b, callee);
    for (int i = 0; i < MAX_PARAMETERS; i++)
        c.args[i] = value_none();
    if (!bind_arguments(b, e, s, &c, given))
        return value_failed();
    return callee->builtin ? callee->builtin->make(b, &c) : expand(b, &c, given);
}

static void add_builtins(struct build *b, const struct builtin *table)
{
    for (; table->name; table++) {
        struct callee *callee = arena_new(b->g, struct callee, 1);
        *callee = (struct callee){.name = table->name, .builtin = table, .in_prelude = true};
        map_put(b->g, &b->known, table->name, (int)strlen(table->name), callee);
    }
}

static void add_function(struct build *b, const struct function *f, bool in_prelude)
{
    struct map *map = in_prelude ? &b->known : &b->own;
    int len = (int)strlen(f->name);
    const struct callee *old = map_find(map, f->name, len);
    if (old && !old->builtin) {
        fail_at(b->g, f->at, "%s is defined twice", f->name);
        note_at(b->g, old->function->at, "%s is defined here", f->name);
        return;
    }
    if (f->n_parameters > MAX_PARAMETERS) {
        fail_at(b->g, f->at, "%s has more than %d parameters", f->name, MAX_PARAMETERS);
        return;
    }
    struct callee *callee = arena_new(b->g, struct callee, 1);
    *callee = (struct callee){.name = f->name, .function = f, .in_prelude = in_prelude};
    map_put(b->g, map, f->name, len, callee);
}

bool collect_functions(struct build *b)
{
    struct gen *g = b->g;
    struct source *text = arena_new(g, struct source, 1);
    *text = (struct source){"prelude.qn", prelude_text, strlen(prelude_text)};
    const struct program_ast *prelude = parse_functions(g, text);
    if (!prelude)
        return false;
    add_builtins(b, builtins);
    add_builtins(b, shape_builtins);
    for (int i = 0; i < prelude->n_functions; i++)
        add_function(b, prelude->functions[i], true);
    for (int i = 0; i < b->program->n_functions; i++)
        add_function(b, b->program->functions[i], false);
    return true;
}
