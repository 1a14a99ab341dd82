// on_graph.c: what the tests of gen/ share: texts to graphs, doubles to arguments, results to
// checks.

#include "tests/on_graph.h"
#include "tests/tests.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

char *printed(const struct graph *graph)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    print_graph(graph, out);
    fclose(out);
    return text;
}

static char *diagnostics(const struct gen *g)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    diag_print(g, out);
    fclose(out);
    return text;
}

char *reported(const char *text)
{
    struct gen g = {.n_errors = 0};
    struct source source = {.name = "g", .text = text, .n_bytes = strlen(text)};
    char *found = NULL;
    if (read_graph(&g, &source))
        ck_assert_int_eq(g.n_errors, 0);
    else
        found = diagnostics(&g);
    arena_free(&g.arena);
    return found;
}

void graph_open(struct on_graph *t, const char *text)
{
    *t = (struct on_graph){
        .source = {.name = "g", .text = text, .n_bytes = strlen(text)}
    };
    t->graph = read_graph(&t->g, &t->source);
    if (!t->graph)
        ck_abort_msg("%s", diagnostics(&t->g));
    graph_check(t->graph);
    t->in = arena_new(&t->g, struct tensor, t->graph->n_arguments);
    t->out = arena_new(&t->g, struct tensor, t->graph->n_outputs);
}

void graph_close(struct on_graph *t)
{
    arena_free(&t->g.arena);
}

void graph_set(struct on_graph *t, int argument, const double *values)
{
    const struct node *n = t->graph->arguments[argument];
    int64_t numel = node_numel(n);
    struct tensor *in = &t->in[argument];
    *in = (struct tensor){.dtype = n->dtype, .rank = n->rank};
    in->data = arena_alloc(&t->g, (size_t)numel * (size_t)dtype_info[n->dtype].bytes);
    for (int64_t i = 0; i < numel; i++)
        store_element(n->dtype, in->data, i, values[i]);
}

void graph_eval(struct on_graph *t, enum eval_mode mode)
{
    ck_assert(eval(&t->g, t->graph, mode, t->in, t->out));
}

double graph_result(const struct on_graph *t, int output, int64_t i)
{
    const struct tensor *out = &t->out[output];
    if (dtype_info[out->dtype].class == CLASS_float)
        return ((const double *)out->data)[i];
    return (double)((const int64_t *)out->data)[i];
}

void expect_values(const struct on_graph *t, int output, int64_t n, const double *expected)
{
    ck_assert_int_eq(node_numel(t->graph->outputs[output].node), n);
    for (int64_t i = 0; i < n; i++) {
        double got = graph_result(t, output, i);
        bool same = isnan(expected[i])
                        ? isnan(got)
                        : got == expected[i] && !signbit(got) == !signbit(expected[i]);
        ck_assert_msg(same, "output %d, element %ld: expected %.17g, got %.17g", output, (long)i,
                      expected[i], got);
    }
}

void expect_eval(const char *text, enum eval_mode mode, const double *x, int64_t n,
                 const double *expected)
{
    struct on_graph t;
    graph_open(&t, text);
    if (t.graph->n_arguments)
        graph_set(&t, 0, x);
    graph_eval(&t, mode);
    expect_values(&t, 0, n, expected);
    graph_close(&t);
}
