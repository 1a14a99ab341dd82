// parse.c: program text to syntax tree.  A statement that is wrong is reported once, and parsing
// goes on with the next.

#include "gen/syntax.h"
#include <string.h>

static const char *const declarations[] = {"program", "input", "weight", "output"};

static bool begins_declaration(const struct parser *p)
{
    for (size_t i = 0; i < sizeof declarations / sizeof *declarations; i++)
        if (is_word(&p->token, declarations[i]) && p->next.kind == TOKEN_name)
            return true;
    return false;
}

// Skips to the next statement, over whole blocks.  An unclosed bracket ends where a line begins as
// only a statement can, an unclosed block where a function begins.
static void recover(struct parser *p)
{
    for (int braces = 0;; advance(p)) {
        enum token_kind kind = p->token.kind;
        bool assigns = kind == TOKEN_name && p->next.kind == TOKEN_assign &&
                       p->last.kind != TOKEN_comma && p->last.kind != TOKEN_left;
        bool begins = p->token.first && p->last.kind != TOKEN_newline && braces == 0 &&
                      (assigns || begins_declaration(p));
        if (begins || (kind == TOKEN_fn && p->token.first)) {
            p->lexer.depth = 0;
            return;
        }
        bool closes = kind == TOKEN_right_brace && p->blocks > 0;
        if (kind == TOKEN_end || (braces == 0 && (kind == TOKEN_newline || closes)))
            return;
        braces += kind == TOKEN_left_brace;
        braces -= kind == TOKEN_right_brace && braces > 0;
    }
}

static bool find_dtype(const struct token *t, enum dtype *dtype)
{
    for (int i = 0; i < DT_COUNT; i++)
        if (is_word(t, dtype_info[i].name)) {
            *dtype = (enum dtype)i;
            return true;
        }
    return false;
}

// f32[B, T]
static struct type_ast *parse_type(struct parser *p)
{
    struct token t = p->token;
    struct type_ast *type = arena_new(p->g, struct type_ast, 1);
    if (!expect(p, TOKEN_name, "a dtype, such as f32"))
        return NULL;
    if (!find_dtype(&t, &type->dtype)) {
        fail_at(p->g, t.at, "unknown dtype `%s`: there are f32 f16 bf16 f64 i32 i64 i8 u8 bool",
                token_text(p->g, &t));
        return NULL;
    }
    struct span open = p->token.at;
    if (!expect(p, TOKEN_left_bracket,
                arena_text(p->g, "`[`: a rank-0 tensor is %s[]", dtype_info[type->dtype].name)))
        return NULL;
    bool ok = accept(p, TOKEN_right_bracket), more = !ok;
    while (more) {
        if (type->rank == MAX_RANK) {
            fail_at(p->g, p->token.at, "a tensor has at most %d dimensions", MAX_RANK);
            return NULL;
        }
        if (!(type->dim[type->rank++] = parse_expr(p)))
            return NULL;
        more = list_goes_on(p, TOKEN_right_bracket, open, &ok);
    }
    type->at = span_from(t.at, p->last.at);
    return ok ? type : NULL;
}

// input NAME : TYPE
static bool parse_argument(struct parser *p, struct statement *s)
{
    s->kind = STATEMENT_argument;
    s->op = is_word(&p->token, "input") ? OP_input : OP_weight;
    advance(p);
    s->name_at = p->token.at;
    s->name = token_text(p->g, &p->token);
    advance(p);
    return expect(p, TOKEN_colon, "`:` and a type") && (s->type = parse_type(p));
}

// output NAME [: TYPE] [= EXPRESSION]
static bool parse_output(struct parser *p, struct statement *s)
{
    s->kind = STATEMENT_output;
    advance(p);
    s->name_at = p->token.at;
    s->name = token_text(p->g, &p->token);
    advance(p);
    if (accept(p, TOKEN_colon) && !(s->type = parse_type(p)))
        return false;
    return !accept(p, TOKEN_assign) || (s->value = parse_expr(p));
}

// NAME = EXPRESSION
static bool parse_assign(struct parser *p, struct statement *s)
{
    s->kind = STATEMENT_assign;
    s->name_at = p->token.at;
    s->name = token_text(p->g, &p->token);
    if (p->token.kind != TOKEN_name)
        return fail_expected(p, "a statement");
    advance(p);
    if (!expect(p, TOKEN_assign, "`=`"))
        return false;
    return (s->value = parse_expr(p));
}

static bool parse_block(struct parser *p, struct block *block);

static bool parse_if(struct parser *p, struct statement *s)
{
    s->kind = STATEMENT_if;
    advance(p);
    if (!(s->value = parse_expr(p)) || !parse_block(p, &s->then))
        return false;
    if (p->token.kind == TOKEN_newline && p->next.kind == TOKEN_else)
        advance(p);
    if (!accept(p, TOKEN_else))
        return true;
    if (p->token.kind != TOKEN_if)
        return parse_block(p, &s->otherwise);
    struct statement *nested = arena_new(p->g, struct statement, 1);
    nested->at = p->token.at;
    s->otherwise.statements = array_room(p->g, NULL, 0, sizeof nested);
    s->otherwise.statements[s->otherwise.n++] = nested;
    bool ok = enter(p) && parse_if(p, nested);
    p->depth--;
    return ok;
}

// What may stand in a function
static bool parse_step(struct parser *p, struct statement *s)
{
    if (p->token.kind == TOKEN_if)
        return parse_if(p, s);
    bool calls = p->token.kind == TOKEN_name && p->next.kind == TOKEN_left;
    if (p->token.kind != TOKEN_return && !calls)
        return parse_assign(p, s);
    s->kind = calls ? STATEMENT_call : STATEMENT_return;
    if (!calls)
        advance(p);
    return (s->value = parse_expr(p));
}

static void append(struct parser *p, struct block *block, struct statement *s)
{
    block->statements = array_room(p->g, block->statements, block->n, sizeof s);
    block->statements[block->n++] = s;
}

static bool parse_line(struct parser *p, struct block *block)
{
    struct statement *s = arena_new(p->g, struct statement, 1);
    struct span first = p->token.at;
    if (!parse_step(p, s))
        return false;
    s->at = span_from(first, p->last.at);
    append(p, block, s);
    return p->token.kind == TOKEN_right_brace || accept(p, TOKEN_newline) ||
           s->kind == STATEMENT_if || fail_expected(p, "the end of the statement");
}

// { statements, a line each }
static bool parse_block(struct parser *p, struct block *block)
{
    struct span open = p->token.at;
    bool ok = true;
    if (!expect(p, TOKEN_left_brace, "`{`") || !enter(p))
        return false;
    p->blocks++;
    accept(p, TOKEN_newline);
    while (p->token.kind != TOKEN_right_brace && p->token.kind != TOKEN_end &&
           p->token.kind != TOKEN_fn) {
        int depth = p->depth, blocks = p->blocks;
        if (parse_line(p, block))
            continue;
        ok = false;
        recover(p);
        p->depth = depth;
        p->blocks = blocks;
        accept(p, TOKEN_newline);
    }
    if (ok && p->token.kind != TOKEN_right_brace) {
        ok = fail_expected(p, "`}`");
        note_at(p->g, open, "`{` is opened here");
    }
    accept(p, TOKEN_right_brace);
    p->depth--;
    p->blocks--;
    return ok;
}

// (a, b = 1) from before its parenthesis
static bool parse_parameters(struct parser *p, struct parameter **parameters, int *n)
{
    struct span open = p->token.at;
    if (!expect(p, TOKEN_left, "`(`"))
        return false;
    bool ok = accept(p, TOKEN_right), more = !ok;
    while (more) {
        *parameters = array_room(p->g, *parameters, *n, sizeof **parameters);
        struct parameter *parameter = &(*parameters)[(*n)++];
        parameter->at = p->token.at;
        parameter->name = token_text(p->g, &p->token);
        if (!expect(p, TOKEN_name, "a name"))
            return false;
        if (accept(p, TOKEN_assign) && !(parameter->fallback = parse_expr(p)))
            return false;
        more = list_goes_on(p, TOKEN_right, open, &ok);
    }
    return ok;
}

static bool parse_function(struct parser *p, struct program_ast *ast)
{
    struct function *f = arena_new(p->g, struct function, 1);
    advance(p);
    f->at = p->token.at;
    f->name = token_text(p->g, &p->token);
    if (!expect(p, TOKEN_name, "a function's name") ||
        !parse_parameters(p, &f->parameters, &f->n_parameters) || !parse_block(p, &f->body))
        return false;
    ast->functions = array_room(p->g, ast->functions, ast->n_functions, sizeof f);
    ast->functions[ast->n_functions++] = f;
    return true;
}

// program NAME(SIZE, SIZE = EXPRESSION)
static bool parse_header(struct parser *p, struct program_ast *ast)
{
    advance(p);
    ast->at = p->token.at;
    if (ast->name)
        return fail_at(p->g, ast->at, "a second program in one text");
    ast->name = token_text(p->g, &p->token);
    advance(p);
    return p->token.kind != TOKEN_left || parse_parameters(p, &ast->sizes, &ast->n_sizes);
}

static bool parse_statement(struct parser *p, struct program_ast *ast)
{
    if (p->token.kind == TOKEN_fn)
        return parse_function(p, ast);
    if (p->token.kind == TOKEN_return || p->token.kind == TOKEN_if)
        return fail_at(p->g, p->token.at, "%s stands only in a function",
                       token_name(p->token.kind));
    bool declares = begins_declaration(p);
    if (declares && is_word(&p->token, "program"))
        return parse_header(p, ast);
    struct statement *s = arena_new(p->g, struct statement, 1);
    struct span first = p->token.at;
    bool ok = !declares                      ? parse_assign(p, s)
              : is_word(&p->token, "output") ? parse_output(p, s)
                                             : parse_argument(p, s);
    if (!ok)
        return false;
    s->at = span_from(first, p->last.at);
    append(p, &ast->body, s);
    return true;
}

static void parse_text(struct parser *p, struct program_ast *ast, const struct source *source)
{
    lex_start(&p->lexer, source);
    advance(p);
    advance(p);
    accept(p, TOKEN_newline);
    ast->source = source;
    bool headed = is_word(&p->token, "program") && p->next.kind == TOKEN_name;
    if (!headed && source != p->g->prelude)
        fail_at(p->g, p->token.at, "a text begins with `program NAME(SIZES)`");
    while (p->token.kind != TOKEN_end) {
        bool ok = parse_statement(p, ast);
        if (ok && p->token.kind != TOKEN_end && p->token.kind != TOKEN_newline)
            ok = fail_expected(p, "the end of the statement");
        if (!ok)
            recover(p);
        p->depth = p->blocks = 0;
        accept(p, TOKEN_newline);
    }
}

enum { LARGEST_TEXT = 1 << 30 };

static struct program_ast *parse_source(struct gen *g, const struct source *source)
{
    int errors = g->n_errors;
    if (source->n_bytes > LARGEST_TEXT) {
        fail_at(g, (struct span){0}, "the text has more than %d bytes", LARGEST_TEXT);
        return NULL;
    }
    struct parser parser = {.g = g};
    struct program_ast *ast = arena_new(g, struct program_ast, 1);
    parse_text(&parser, ast, source);
    return g->n_errors > errors ? NULL : ast;
}

struct program_ast *parse(struct gen *g, const struct source *source)
{
    g->source = source;
    return parse_source(g, source);
}

struct program_ast *parse_functions(struct gen *g, const struct source *source)
{
    g->prelude = source;
    return parse_source(g, source);
}
