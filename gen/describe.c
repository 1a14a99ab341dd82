// describe.c: nests as people read them: an expression in the program's own names, and the dump
// after fuse.

#include "gen/kernel.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_EXPRESSION = 160 };

struct writer {
    const struct fusion *f;
    const struct nest *nest;
    FILE *out;
};

static const char *name_of(const struct fusion *f, const struct node *node)
{
    for (int i = 0; i < f->graph->n_outputs; i++)
        if (f->graph->outputs[i].node == node)
            return f->graph->outputs[i].name;
    return node->name ? node->name : arena_text(f->g, "t%d", node->id);
}

static void write_node(struct writer *w, const struct node *node, bool root);

static void write_call(struct writer *w, const struct node *node)
{
    fprintf(w->out, "%s(", op_info[node->op].name);
    for (int i = 0; i < node->n_in; i++) {
        fputs(i ? ", " : "", w->out);
        write_node(w, node->in[i], false);
    }
    fputc(')', w->out);
}

// Stops at what the nest reads from memory, and where the text grows too long to be read.
static void write_node(struct writer *w, const struct node *node, bool root)
{
    const struct nest *home = w->f->home[node->id];
    const struct op_info *info = &op_info[node->op];
    if (ftell(w->out) > MAX_EXPRESSION) {
        fputs("...", w->out);
    } else if (node->op == OP_input || node->op == OP_weight ||
               (!root && home && home != w->nest)) {
        fputs(name_of(w->f, node), w->out);
    } else if (node->op == OP_constant) {
        if (dtype_info[node->dtype].class == CLASS_float)
            fprintf(w->out, "%g", node->attr.value);
        else
            fprintf(w->out, "%lld", (long long)node->attr.integer);
    } else if (info->kind == KIND_movement && node->n_in == 1) {
        write_node(w, node->in[0], false);
    } else if (info->symbol && node->n_in == 2) {
        fputs(root ? "" : "(", w->out);
        write_node(w, node->in[0], false);
        fprintf(w->out, " %s ", info->symbol);
        write_node(w, node->in[1], false);
        fputs(root ? "" : ")", w->out);
    } else {
        write_call(w, node);
    }
}

const char *expression_text(const struct fusion *f, const struct nest *nest)
{
    const char *text = "";
    for (int i = 0; i < nest->n_stores && strlen(text) < MAX_EXPRESSION; i++) {
        char *one = NULL;
        size_t size;
        struct writer w = {f, nest, open_memstream(&one, &size)};
        write_node(&w, nest->stores[i], true);
        fclose(w.out);
        text =
            arena_text(f->g, "%s%s%s = %s", text, i ? "; " : "", name_of(f, nest->stores[i]), one);
        free(one);
    }
    return text;
}

static int64_t extent(const struct nest *nest, int v)
{
    return nest->extent[v];
}

void print_fusion(const struct fusion *f, FILE *out)
{
    static const char *const names[VAR_COUNT] = {"r", "c", "b", "m", "n", "k"};
    for (int i = 0; i < f->n_nests; i++) {
        const struct nest *nest = f->nests[i];
        fprintf(out, "kernel %d: %s over", i, family_name[nest->family]);
        for (int v = 0; v < VAR_COUNT; v++)
            if (extent(nest, v) || (nest->family == FAMILY_map) == (v == VAR_c))
                if (extent(nest, v))
                    fprintf(out, " %s=%lld", names[v], (long long)extent(nest, v));
        fprintf(out, "\n    %s\n", expression_text(f, nest));
    }
}
