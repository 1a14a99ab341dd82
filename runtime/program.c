// program.c: program text to a syntax tree that plans share.  The tree is only read, each plan
// builds from it in its own arena.

#include "gen/syntax.h"
#include "runtime/runtime.h"
#include <locale.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

static quern_status guarded_stage(struct gen *g, bool (*stage)(struct gen *g, void *state),
                                  void *state)
{
    jmp_buf out_of_memory;
    g->escape = &out_of_memory;
    if (setjmp(out_of_memory)) {
        g->escape = NULL;
        return QUERN_MEMORY;
    }
    quern_status status = stage(g, state) ? QUERN_OK : QUERN_PROGRAM;
    g->escape = NULL;
    return status;
}

// Numbers in source and in graphs are C's, whatever the host program's locale makes of a decimal
// point.
quern_status run_stage(struct gen *g, bool (*stage)(struct gen *g, void *state), void *state)
{
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain)
        return QUERN_MEMORY;
    locale_t callers = uselocale(plain);
    quern_status status = guarded_stage(g, stage, state);
    uselocale(callers);
    freelocale(plain);
    return status;
}

char *diagnostics_text(const struct gen *g)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    if (!out)
        return NULL;
    diag_print(g, out);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    while (n && text[n - 1] == '\n')
        text[--n] = '\0';
    return text;
}

static bool parse_stage(struct gen *g, void *state)
{
    struct quern_program *p = state;
    p->ast = parse(g, &p->source);
    return p->ast != NULL && !g->n_errors;
}

static void release(struct quern_program *p)
{
    arena_free(&p->gen.arena);
    free((void *)(uintptr_t)p->source.text);
    free((void *)(uintptr_t)p->source.name);
    free(p);
}

static bool copy_source(struct source *to, const char *text, size_t n_bytes, const char *name)
{
    char *copy = malloc(n_bytes + 1);
    to->name = strdup(name ? name : "program");
    to->text = copy;
    to->n_bytes = n_bytes;
    if (!copy || !to->name)
        return false;
    if (n_bytes)
        memcpy(copy, text, n_bytes);
    copy[n_bytes] = '\0';
    return true;
}

quern_status quern_parse(quern *q, const char *text, size_t n_bytes, const char *name,
                         quern_program **program)
{
    if (!q || !program || (!text && n_bytes))
        return report(q, QUERN_USAGE, "quern_parse: a null argument");
    *program = NULL;
    struct quern_program *p = calloc(1, sizeof *p);
    if (!p)
        return report(q, QUERN_MEMORY, "out of memory");
    p->q = q;
    p->users = 1;
    p->gen.source = &p->source;
    double begun = now_ms();
    quern_status status = copy_source(&p->source, text, n_bytes, name)
                              ? run_stage(&p->gen, parse_stage, p)
                              : QUERN_MEMORY;
    p->parse_ms = now_ms() - begun;
    if (!status) {
        *program = p;
        return QUERN_OK;
    }
    char *why = status == QUERN_PROGRAM ? diagnostics_text(&p->gen) : NULL;
    report(q, status, "%s", why ? why : "out of memory");
    free(why);
    release(p);
    return status;
}

void program_retain(const struct quern_program *program)
{
    atomic_fetch_add(&((struct quern_program *)(uintptr_t)program)->users, 1);
}

void quern_destroy_program(quern_program *program)
{
    if (program && atomic_fetch_sub(&program->users, 1) == 1)
        release(program);
}

const char *quern_program_name(const quern_program *program)
{
    return program ? program->ast->name : NULL;
}

int quern_program_n_sizes(const quern_program *program)
{
    return program ? program->ast->n_sizes : 0;
}

const char *quern_program_size(const quern_program *program, int i, int *has_default)
{
    if (!program || i < 0 || i >= program->ast->n_sizes)
        return NULL;
    const struct parameter *size = &program->ast->sizes[i];
    if (has_default)
        *has_default = size->fallback != NULL;
    return size->name;
}

static const struct statement *find_argument(const struct program_ast *ast, const char *name)
{
    for (int i = 0; i < ast->body.n; i++) {
        const struct statement *s = ast->body.statements[i];
        if (s->kind == STATEMENT_argument && !strcmp(s->name, name))
            return s;
    }
    return NULL;
}

static bool is_size(const struct program_ast *ast, const char *name)
{
    for (int i = 0; i < ast->n_sizes; i++)
        if (!strcmp(ast->sizes[i].name, name))
            return true;
    return false;
}

// Binds one size, or finds that it is bound to the same value already.
static quern_status bind_size(quern *q, const char *argument, const char *name, int64_t value,
                              quern_size *out, int *n, int capacity)
{
    for (int i = 0; i < *n; i++) {
        if (strcmp(out[i].name, name))
            continue;
        if (out[i].value == value)
            return QUERN_OK;
        return report(q, QUERN_PROGRAM, "%s: size %s is both %lld and %lld", argument, name,
                      (long long)out[i].value, (long long)value);
    }
    if (*n == capacity)
        return report(q, QUERN_USAGE, "quern_sizes_of_argument: room for %d sizes is too little",
                      capacity);
    out[(*n)++] = (quern_size){name, value};
    return QUERN_OK;
}

quern_status quern_sizes_of_argument(quern_program *program, const char *name, int rank,
                                     const int64_t *dim, quern_size *out, int *n_out)
{
    if (!program || !name || !n_out || (rank && !dim) || (*n_out && !out))
        return report(program ? program->q : NULL, QUERN_USAGE,
                      "quern_sizes_of_argument: a null argument");
    quern *q = program->q;
    const struct program_ast *ast = program->ast;
    const struct statement *s = find_argument(ast, name);
    int n = 0, capacity = *n_out;
    *n_out = 0;
    if (!s)
        return report(q, QUERN_USAGE, "%s has no input or weight `%s`", ast->name, name);
    if (s->type->rank != rank)
        return report(q, QUERN_PROGRAM, "%s: expected %d dimensions, got %d", name, s->type->rank,
                      rank);
    for (int i = 0; i < rank; i++) {
        const struct expr *d = s->type->dim[i];
        quern_status status = QUERN_OK;
        if (d->kind == EXPR_integer && d->integer != dim[i])
            status = report(q, QUERN_PROGRAM, "%s: dimension %d is %lld, got %lld", name, i,
                            (long long)d->integer, (long long)dim[i]);
        else if (d->kind == EXPR_name && is_size(ast, d->text))
            status = bind_size(q, name, d->text, dim[i], out, &n, capacity);
        if (status)
            return status;
    }
    *n_out = n;
    return QUERN_OK;
}
