// test_split.c: what split gives to prepare and what it leaves to run.

#include "tests/golden.h"
#include "tests/on_graph.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_SIZES = 16 };

static struct graph *built(struct gen *g, const char *input)
{
    struct size sizes[MAX_SIZES];
    int n = golden_sizes(g, &input, sizes, MAX_SIZES);
    struct source *source = arena_new(g, struct source, 1);
    *source = (struct source){.name = "case.qn", .text = input, .n_bytes = strlen(input)};
    g->source = source;
    const struct program_ast *ast = parse(g, source);
    struct graph *graph = ast ? build(g, ast, sizes, n) : NULL;
    if (!graph)
        diag_print(g, stderr);
    ck_assert_ptr_nonnull(graph);
    return graph;
}

static void produce(const char *input, FILE *out)
{
    struct gen g = {0};
    struct graph *graph = built(&g, input);
    struct parts parts = split(&g, graph, target_find("sm_90a"));
    if (parts.prepare) {
        graph_check(parts.prepare);
        fputs("prepare:\n", out);
        print_graph(parts.prepare, out);
    } else {
        fputs("nothing to prepare\n", out);
    }
    graph_check(parts.run);
    fputs("run:\n", out);
    print_graph(parts.run, out);
    arena_free(&g.arena);
}

START_TEST(programs_are_split_as_recorded)
{
    golden_check("split", _i, produce);
}
END_TEST

static void set_argument(struct tensor *t, const struct node *n, void *data)
{
    *t = (struct tensor){.dtype = n->dtype, .rank = n->rank, .data = data};
    memcpy(t->dim, n->dim, sizeof t->dim);
}

// As eval's own values become arguments again: in their dtype's storage.
static void *stored(struct gen *g, const struct tensor *t, int64_t n)
{
    char *data = arena_alloc(g, (size_t)(n * dtype_info[t->dtype].bytes) + 1);
    for (int64_t i = 0; i < n; i++)
        if (dtype_info[t->dtype].class == CLASS_float)
            store_element(t->dtype, data, i, ((const double *)t->data)[i]);
        else
            store_integer(t->dtype, data, i, ((const int64_t *)t->data)[i]);
    return data;
}

static struct tensor *evaluated(struct gen *g, const struct graph *graph, struct tensor *in)
{
    struct tensor *out = arena_new(g, struct tensor, graph->n_outputs + 1);
    ck_assert(eval(g, graph, EVAL_declared, in, out));
    return out;
}

static struct tensor *arguments_of(struct gen *g, const struct graph *part, const int *from,
                                   int n_declared, const struct tensor *declared,
                                   const struct tensor *prepared)
{
    struct tensor *in = arena_new(g, struct tensor, part->n_arguments + 1);
    for (int i = 0; i < part->n_arguments; i++) {
        const struct node *n = part->arguments[i];
        if (from[i] < n_declared)
            in[i] = declared[from[i]];
        else
            set_argument(&in[i], n, stored(g, &prepared[from[i] - n_declared], node_numel(n)));
    }
    return in;
}

static const char *const programs[] = {
    "-D B=4 -D D=6 -D M=3\nprogram p(B, D, M)\ninput x : f32[B, D]\nweight w : f32[M, D]\n"
    "weight b : f32[M]\nweight c : f32[M]\ns = sum(w, axis = 0)\n"
    "output y = linear(x * s, w, b - c)\noutput z = max(abs(w)) * mean(s) + x[0, 0]\n"
    "output t = (w * s).T\noutput k = argmax(w, axis = 1)\noutput u = w\n",
    "-D B=5 -D D=2\nprogram p(B, D)\ninput x : f32[B, D]\nweight v : f32[D, D]\n"
    "weight w : f32[D, B]\nf = v @ w\noutput y = x @ f\noutput z = concat([f, v], axis = 1)[:, "
    "1:4]\n"
    "output n = sum(cast(f, i32))\n",
};

// Prepare, then run with what it gave, is the program: bit for bit in the declared dtypes.
START_TEST(both_parts_together_are_the_program)
{
    struct gen g = {0};
    struct graph *graph = built(&g, programs[_i]);
    struct parts parts = split(&g, graph, target_find("sm_90a"));
    ck_assert_ptr_nonnull(parts.prepare);
    int n = graph->n_arguments;
    struct tensor *declared = arena_new(&g, struct tensor, n);
    for (int i = 0; i < n; i++) {
        int64_t elements = node_numel(graph->arguments[i]);
        float *data = arena_new(&g, float, elements + 1);
        for (int64_t k = 0; k < elements; k++)
            data[k] = (float)((k * 7 + i * 3) % 11) - 5.25f;
        set_argument(&declared[i], graph->arguments[i], data);
    }
    const struct tensor *whole = evaluated(&g, graph, declared);
    const struct tensor *prepared = evaluated(
        &g, parts.prepare, arguments_of(&g, parts.prepare, parts.prepare_from, n, declared, NULL));
    const struct tensor *run = evaluated(
        &g, parts.run, arguments_of(&g, parts.run, parts.run_from, n, declared, prepared));
    for (int i = 0; i < graph->n_outputs; i++)
        ck_assert_mem_eq(whole[i].data, run[i].data,
                         8 * (size_t)node_numel(graph->outputs[i].node));
    arena_free(&g.arena);
}
END_TEST

Suite *split_suite(void)
{
    Suite *suite = suite_create("split");
    TCase *t = tcase_create("split");
    tcase_add_loop_test(t, programs_are_split_as_recorded, 0, golden_count("split"));
    tcase_add_loop_test(t, both_parts_together_are_the_program, 0,
                        sizeof programs / sizeof *programs);
    suite_add_tcase(suite, t);
    return suite;
}
