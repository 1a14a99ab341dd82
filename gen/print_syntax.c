// print_syntax.c: syntax tree to program text, with every bracket that precedence leaves out.

#include "gen/syntax.h"
#include <inttypes.h>

static void print_expr(const struct expr *e, FILE *out);

static void print_items(const struct expr *e, FILE *out)
{
    for (int i = 0; i < e->n_items; i++) {
        fputs(i ? ", " : "", out);
        if (e->keywords && e->keywords[i].at)
            fprintf(out, "%.*s = ", e->keywords[i].len, e->keywords[i].at);
        print_expr(e->items[i], out);
    }
}

static void print_bound(const char *before, const struct expr *e, FILE *out)
{
    fputs(before, out);
    if (e)
        print_expr(e, out);
}

static void print_indices(const struct expr *e, FILE *out)
{
    for (int i = 0; i < e->n_items; i++) {
        const struct index *index = &e->indices[i];
        fputs(i ? ", " : "", out);
        if (index->kind == INDEX_new)
            fputs("None", out);
        else if (index->kind == INDEX_rest)
            fputs("...", out);
        else
            print_bound("", index->start, out);
        if (index->kind == INDEX_range)
            print_bound(":", index->stop, out);
        if (index->step)
            print_bound(":", index->step, out);
    }
}

static void print_symbol(const struct expr *e, FILE *out)
{
    const char *name = token_name(e->symbol); // in back quotes
    for (name++; name[1]; name++)
        fputc(*name, out);
}

static void print_expr(const struct expr *e, FILE *out)
{
    switch (e->kind) {
    case EXPR_name:
        fputs(e->text, out);
        return;
    case EXPR_integer:
        fprintf(out, "%" PRId64, e->integer);
        return;
    case EXPR_float:
        fprintf(out, "%.17g", e->number);
        return;
    case EXPR_text:
        fprintf(out, "\"%s\"", e->text);
        return;
    case EXPR_bool:
        fputs(e->integer ? "true" : "false", out);
        return;
    case EXPR_none:
        fputs("None", out);
        return;
    case EXPR_list:
        fputc('[', out);
        print_items(e, out);
        fputc(']', out);
        return;
    case EXPR_unary:
        fputc('(', out);
        print_symbol(e, out);
        fputs(e->symbol == TOKEN_not ? " " : "", out);
        print_expr(e->left, out);
        fputc(')', out);
        return;
    case EXPR_binary:
        fputc('(', out);
        print_expr(e->left, out);
        fputc(' ', out);
        print_symbol(e, out);
        fputc(' ', out);
        print_expr(e->right, out);
        fputc(')', out);
        return;
    case EXPR_call:
        fprintf(out, "%s(", e->text);
        print_items(e, out);
        fputc(')', out);
        return;
    case EXPR_index:
        print_expr(e->left, out);
        fputc('[', out);
        print_indices(e, out);
        fputc(']', out);
        return;
    case EXPR_transpose:
        print_expr(e->left, out);
        fputs(".T", out);
        return;
    }
}

static void print_type(const struct type_ast *type, FILE *out)
{
    fprintf(out, " : %s[", dtype_info[type->dtype].name);
    for (int a = 0; a < type->rank; a++)
        print_bound(a ? ", " : "", type->dim[a], out);
    fputc(']', out);
}

static void print_block(const struct block *block, int indent, FILE *out);

static void print_braces(const struct block *block, int indent, FILE *out)
{
    fputs(" {\n", out);
    print_block(block, indent + 4, out);
    fprintf(out, "%*s}", indent, "");
}

static void print_statement(const struct statement *s, int indent, FILE *out)
{
    fprintf(out, "%*s", indent, "");
    switch (s->kind) {
    case STATEMENT_argument:
        fprintf(out, "%s %s", op_info[s->op].name, s->name);
        break;
    case STATEMENT_output:
        fprintf(out, "output %s", s->name);
        break;
    case STATEMENT_assign:
        fputs(s->name, out);
        break;
    case STATEMENT_return:
        print_bound("return ", s->value, out);
        break;
    case STATEMENT_call:
        print_expr(s->value, out);
        break;
    case STATEMENT_if:
        print_bound("if ", s->value, out);
        print_braces(&s->then, indent, out);
        if (s->otherwise.n) {
            fputs(" else", out);
            print_braces(&s->otherwise, indent, out);
        }
        break;
    }
    if (s->type)
        print_type(s->type, out);
    if (s->name && s->value)
        print_bound(" = ", s->value, out);
    fputc('\n', out);
}

static void print_block(const struct block *block, int indent, FILE *out)
{
    for (int i = 0; i < block->n; i++)
        print_statement(block->statements[i], indent, out);
}

static void print_parameters(int n, const struct parameter *parameters, FILE *out)
{
    fputc('(', out);
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s%s", i ? ", " : "", parameters[i].name);
        if (parameters[i].fallback)
            print_bound(" = ", parameters[i].fallback, out);
    }
    fputc(')', out);
}

void print_syntax(const struct program_ast *program, FILE *out)
{
    if (program->name) {
        fprintf(out, "program %s", program->name);
        print_parameters(program->n_sizes, program->sizes, out);
        fputc('\n', out);
    }
    for (int i = 0; i < program->n_functions; i++) {
        const struct function *f = program->functions[i];
        fprintf(out, "fn %s", f->name);
        print_parameters(f->n_parameters, f->parameters, out);
        print_braces(&f->body, 0, out);
        fputc('\n', out);
    }
    print_block(&program->body, 0, out);
}
