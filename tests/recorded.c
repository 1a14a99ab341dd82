// recorded.c: the text of a golden case to its graph, which a program or a graph's text can be.

#include "tests/recorded.h"
#include "tests/golden.h"
#include "tests/tests.h"
#include <setjmp.h>
#include <string.h>

// `--math finite --weights each-run` in front of the sizes.
static const char *read_options(const char *input, struct rewrite_options *options)
{
    *options = (struct rewrite_options){.math = MATH_real};
    while (!strncmp(input, "--", 2)) {
        size_t n = strcspn(input, " \n");
        const char *value = input + n + 1;
        for (int m = 0; !strncmp(input, "--math", n) && m <= MATH_fast; m++)
            if (!strncmp(value, math_name[m], strlen(math_name[m])))
                options->math = (enum math)m;
        if (!strncmp(input, "--weights", n))
            options->each_run = true;
        value += strcspn(value, " \n");
        input = value + 1;
    }
    return input;
}

static struct graph *graph_of(struct gen *g, const struct size *sizes, int n)
{
    if (!strncmp(g->source->text, "graph", 5))
        return read_graph(g, g->source);
    const struct program_ast *ast = parse(g, g->source);
    return ast ? build(g, ast, sizes, n) : NULL;
}

struct graph *recorded_graph(struct gen *g, const char *input, int64_t largest,
                             struct rewrite_options *options)
{
    struct size sizes[16];
    jmp_buf escape;
    g->escape = &escape;
    if (setjmp(escape))
        ck_abort_msg("out of memory");
    const char *text = read_options(input, options);
    int n = golden_sizes(g, &text, sizes, 16);
    for (int i = 0; i < n; i++)
        sizes[i].value = sizes[i].value > largest ? largest : sizes[i].value;
    struct source *source = arena_new(g, struct source, 1);
    *source = (struct source){"a.qn", text, strlen(text)};
    g->source = source;
    struct graph *graph = graph_of(g, sizes, n);
    g->escape = NULL;
    return graph;
}
