// build.c: syntax tree and sizes to graph: functions expanded, every shape and dtype checked as its
// node is made.
//
// A statement that fails is reported once; the name it would have defined stands for a failed
// value, so that what uses it adds no errors.

#include "gen/build.h"
#include <inttypes.h>
#include <string.h>

struct output_ast {
    const struct statement *statement;
    struct value value; // VALUE_none: not assigned yet
};

static void define_in_program(struct build *b, const struct statement *s, struct value value,
                              const char *what)
{
    struct symbol *symbol = define(b, s->name, s->name_at, value, what);
    if (!symbol)
        return;
    b->symbols = array_room(b->g, b->symbols, b->n_symbols, sizeof symbol);
    b->symbols[b->n_symbols++] = symbol;
}

static bool bind_type(struct build *b, const struct type_ast *type, int64_t *dim)
{
    for (int a = 0; a < type->rank; a++) {
        struct value v = evaluate(b, type->dim[a]);
        b->g->at = type->dim[a]->at;
        if (!want_integer(b, "dimension", &v, &dim[a]))
            return false;
        if (dim[a] < 0)
            return fail(b->g, "dimension %d is negative: %" PRId64, a, dim[a]);
    }
    return true;
}

static void build_argument(struct build *b, const struct statement *s)
{
    int64_t dim[MAX_RANK];
    struct value v = value_failed();
    if (bind_type(b, s->type, dim)) {
        b->g->at = s->at;
        v = value_node(
            graph_argument(b->g, b->graph, s->op, s->name, s->type->dtype, s->type->rank, dim));
    }
    define_in_program(b, s, v, s->op == OP_input ? "input" : "weight");
}

static struct output_ast *find_output(struct build *b, const char *name)
{
    return map_find(&b->outputs_by_name, name, (int)strlen(name));
}

static struct output_ast *add_output(struct build *b, const struct statement *s)
{
    struct output_ast *o = arena_new(b->g, struct output_ast, 1);
    *o = (struct output_ast){.statement = s, .value = value_none()};
    b->outputs = array_room(b->g, b->outputs, b->n_outputs, sizeof o);
    b->outputs[b->n_outputs++] = o;
    map_put(b->g, &b->outputs_by_name, s->name, (int)strlen(s->name), o);
    return o;
}

static void name_node(struct node *n, const char *name)
{
    if (n && !n->name)
        n->name = name;
}

// The value as the output's declared type has it; without one, as it is.
static struct value declared_value(struct build *b, const struct statement *s,
                                   const struct value *v)
{
    int64_t dim[MAX_RANK];
    if (v->kind == VALUE_failed || (s->type && !bind_type(b, s->type, dim)))
        return value_failed();
    b->g->at = s->at;
    struct node *n = s->type && is_scalar(v) ? node_as(b, v, s->type->dtype) : node_of(b, v);
    if (!n || !s->type)
        return value_node(n);
    bool same = n->dtype == s->type->dtype && n->rank == s->type->rank;
    for (int a = 0; same && a < n->rank; a++)
        same = n->dim[a] == dim[a];
    if (same)
        return value_node(n);
    fail_at(b->g, v->at.at ? v->at : s->at, "output %s is declared %s, and its value is %s",
            s->name, shape_text(b->g, s->type->dtype, s->type->rank, dim), node_text(b->g, n));
    note_at(b->g, s->type->at, "declared here");
    return value_failed();
}

static struct value output_value(struct build *b, struct output_ast *o, struct value v)
{
    if (v.kind != VALUE_failed && v.kind != VALUE_node && !is_scalar(&v)) {
        fail_at(b->g, v.at, "output %s is a tensor, got %s", o->statement->name,
                value_kind_text(b, &v));
        v = value_failed();
    }
    struct value declared = declared_value(b, o->statement, &v);
    o->value = declared;
    return declared.kind == VALUE_failed || v.kind == VALUE_node ? declared : v;
}

static void build_assign(struct build *b, const struct statement *s)
{
    struct value v = evaluate(b, s->value);
    struct output_ast *o = find_output(b, s->name);
    if (o)
        v = output_value(b, o, v);
    if (v.kind == VALUE_node)
        name_node(v.node, s->name);
    if (o && o->value.kind == VALUE_node)
        name_node(o->value.node, s->name);
    define_in_program(b, s, v, o ? "output" : "variable");
}

// output y = ..., or y has its value before or gets it after
static void build_output(struct build *b, const struct statement *s)
{
    struct output_ast *o = find_output(b, s->name);
    if (o) {
        fail_at(b->g, s->name_at, "output %s is declared twice", s->name);
        note_at(b->g, o->statement->name_at, "%s is declared here", s->name);
        return;
    }
    o = add_output(b, s);
    struct symbol *known = map_find(&b->top.symbols, s->name, (int)strlen(s->name));
    if (s->value) {
        build_assign(b, s);
    } else if (known) {
        known->used = true;
        output_value(b, o, known->value);
    }
}

static void build_statement(struct build *b, const struct statement *s)
{
    b->g->at = s->at;
    switch (s->kind) {
    case STATEMENT_argument:
        build_argument(b, s);
        return;
    case STATEMENT_assign:
        build_assign(b, s);
        return;
    case STATEMENT_output:
        build_output(b, s);
        return;
    case STATEMENT_return: // parse lets these stand in functions alone
    case STATEMENT_if:
    case STATEMENT_call:
        return;
    }
}

static void finish_outputs(struct build *b)
{
    for (int i = 0; i < b->n_outputs; i++) {
        const struct output_ast *o = b->outputs[i];
        const struct statement *s = o->statement;
        if (o->value.kind == VALUE_none) {
            fail_at(b->g, s->name_at, "output %s is never assigned", s->name);
            continue;
        }
        b->g->at = s->name_at;
        graph_output(b->g, b->graph, s->name, o->value.node);
    }
    if (!b->n_outputs)
        fail_at(b->g, b->program->at, "the program has no output");
}

static void warn_unused(struct build *b)
{
    for (int i = 0; i < b->n_symbols; i++) {
        const struct symbol *s = b->symbols[i];
        if (!s->used && strcmp(s->what, "output"))
            warn_at(b->g, s->at, "%s %s is never used", s->what, s->name);
    }
    for (int i = 0; i < b->program->n_functions; i++) {
        const struct function *f = b->program->functions[i];
        const struct callee *callee = map_find(&b->own, f->name, (int)strlen(f->name));
        if (!callee->used)
            warn_at(b->g, f->at, "function %s is never used", f->name);
    }
}

static void collect_names(struct build *b)
{
    for (int i = 0; i < b->program->body.n; i++) {
        struct statement *s = b->program->body.statements[i];
        if (s->kind != STATEMENT_output || s->value)
            map_put(b->g, &b->later, s->name, (int)strlen(s->name), s);
    }
}

struct graph *build(struct gen *g, const struct program_ast *program, const struct size *sizes,
                    int n_sizes)
{
    int errors = g->n_errors;
    struct build b = {.g = g, .program = program, .graph = graph_new(g, program->name)};
    b.scope = &b.top;
    g->source = program->source;
    g->at = (struct span){0};
    g->within = NULL;
    if (!collect_functions(&b) || !bind_sizes(&b, sizes, n_sizes))
        return NULL;
    collect_names(&b);
    for (int i = 0; i < program->body.n; i++)
        build_statement(&b, program->body.statements[i]);
    if (g->n_errors == errors)
        finish_outputs(&b);
    if (g->n_errors > errors)
        return NULL;
    warn_unused(&b);
    return b.graph;
}
