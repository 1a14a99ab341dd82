// sizes.c: the program's sizes get their values: those given, the defaults of the others; or from
// an argument's shape.

#include "gen/build.h"
#include <inttypes.h>
#include <string.h>

#define MAX_SIZE MAX_ELEMENTS

static const char *size_names(struct gen *g, const struct program_ast *program)
{
    const char *names = "";
    for (int i = 0; i < program->n_sizes; i++)
        names = arena_text(g, "%s%s%s", names, i ? ", " : "", program->sizes[i].name);
    return names;
}

static int find_size(const struct program_ast *program, const char *name)
{
    for (int i = 0; i < program->n_sizes; i++)
        if (!strcmp(program->sizes[i].name, name))
            return i;
    return -1;
}

static bool check_given(struct gen *g, const struct program_ast *program, const struct size *sizes,
                        int n_sizes)
{
    bool ok = true;
    for (int i = 0; i < n_sizes; i++) {
        if (find_size(program, sizes[i].name) < 0)
            ok = program->n_sizes
                     ? fail_at(g, program->at, "unknown size %s: the program's sizes are %s",
                               sizes[i].name, size_names(g, program))
                     : fail_at(g, program->at, "unknown size %s: the program has no sizes",
                               sizes[i].name);
        for (int j = 0; j < i; j++)
            if (!strcmp(sizes[i].name, sizes[j].name) && sizes[i].value != sizes[j].value)
                ok = fail_at(g, program->at,
                             "size %s is given twice: as %" PRId64 " and as %" PRId64,
                             sizes[i].name, sizes[j].value, sizes[i].value);
    }
    return ok;
}

static const struct size *given(const struct size *sizes, int n_sizes, const char *name)
{
    for (int i = 0; i < n_sizes; i++)
        if (!strcmp(sizes[i].name, name))
            return &sizes[i];
    return NULL;
}

static bool check_missing(struct gen *g, const struct program_ast *program,
                          const struct size *sizes, int n_sizes)
{
    const char *names = "", *options = "";
    const struct parameter *first = NULL;
    int n = 0;
    for (int i = 0; i < program->n_sizes; i++) {
        const struct parameter *p = &program->sizes[i];
        if (p->fallback || given(sizes, n_sizes, p->name))
            continue;
        names = arena_text(g, "%s%s%s", names, n++ ? ", " : "", p->name);
        options = arena_text(g, "%s -D %s=8", options, p->name);
        first = first ? first : p;
    }
    return !first || fail_at(g, first->at, "size%s %s %s no value: give one, as in%s",
                             n > 1 ? "s" : "", names, n > 1 ? "have" : "has", options);
}

static bool bind_size(struct build *b, const struct parameter *p, const struct size *size,
                      int64_t *value)
{
    struct gen *g = b->g;
    if (size) {
        *value = size->value;
    } else {
        struct value v = evaluate(b, p->fallback);
        g->at = p->fallback->at;
        if (!want_integer(b, arena_text(g, "size %s", p->name), &v, value))
            return false;
    }
    if (*value < 0)
        return fail_at(g, p->at, "size %s is negative: %" PRId64, p->name, *value);
    if (*value > MAX_SIZE)
        return fail_at(g, p->at, "size %s is too large: %" PRId64 ", and 2^40 is the most", p->name,
                       *value);
    struct symbol *s = define(b, p->name, p->at, value_integer(*value), "size");
    if (s)
        map_put(g, &b->sizes.symbols, p->name, (int)strlen(p->name), s);
    return s;
}

bool bind_sizes(struct build *b, const struct size *sizes, int n_sizes)
{
    const struct program_ast *program = b->program;
    if (!check_given(b->g, program, sizes, n_sizes) ||
        !check_missing(b->g, program, sizes, n_sizes))
        return false;
    struct size *bound = arena_new(b->g, struct size, program->n_sizes);
    for (int i = 0; i < program->n_sizes; i++) {
        const struct parameter *p = &program->sizes[i];
        bound[i].name = p->name;
        if (!bind_size(b, p, given(sizes, n_sizes, p->name), &bound[i].value))
            return false;
    }
    b->graph->sizes = bound;
    b->graph->n_sizes = program->n_sizes;
    return true;
}

static const struct statement *find_argument(const struct program_ast *program, const char *name)
{
    for (int i = 0; i < program->body.n; i++) {
        const struct statement *s = program->body.statements[i];
        if (s->kind == STATEMENT_argument && !strcmp(s->name, name))
            return s;
    }
    return NULL;
}

// One dimension of a shape: a size's name takes its value, a literal has to have it.
static bool bind_dim(struct gen *g, const struct program_ast *program, const struct statement *s,
                     int axis, int64_t dim, struct size *out, int *n)
{
    const struct expr *e = s->type->dim[axis];
    if (e->kind == EXPR_integer && e->integer != dim)
        return fail_at(g, e->at, "%s has %" PRId64 " at axis %d, and the program says %" PRId64,
                       s->name, dim, axis, e->integer);
    if (e->kind != EXPR_name || find_size(program, e->text) < 0)
        return true;
    for (int i = 0; i < *n; i++)
        if (!strcmp(out[i].name, e->text))
            return out[i].value == dim ||
                   fail_at(g, e->at, "size %s is %" PRId64 " and %" PRId64 " in the shape of %s",
                           e->text, out[i].value, dim, s->name);
    out[(*n)++] = (struct size){e->text, dim};
    return true;
}

bool sizes_of_argument(struct gen *g, const struct program_ast *program, const char *name, int rank,
                       const int64_t *dim, struct size *out, int *n_out)
{
    const struct statement *s = find_argument(program, name);
    int capacity = *n_out;
    *n_out = 0;
    g->source = program->source;
    if (!s)
        return fail_at(g, program->at, "the program has no input or weight %s", name);
    if (rank != s->type->rank)
        return fail_at(g, s->type->at, "%s has %d dimensions, and the program says %d", name, rank,
                       s->type->rank);
    struct size found[MAX_RANK];
    int n = 0;
    for (int a = 0; a < rank; a++)
        if (!bind_dim(g, program, s, a, dim[a], found, &n))
            return false;
    if (n > capacity)
        return fail_at(g, s->type->at, "room for %d sizes, and the shape of %s has %d", capacity,
                       name, n);
    for (int i = 0; i < n; i++)
        out[i] = found[i];
    *n_out = n;
    return true;
}
