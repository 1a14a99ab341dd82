// test_receipts.c: programs rewritten as recorded, with the receipt.

#include "tests/golden.h"
#include "tests/recorded.h"
#include "tests/tests.h"

static void print_receipt(const struct receipt *receipt, FILE *out)
{
    double flops = 0, bytes = 0;
    for (int i = 0; i < receipt->n_lines; i++) {
        const struct receipt_line *line = &receipt->lines[i];
        fprintf(out, "%s (%s): %.0f operations, %.0f bytes", line->rule,
                rule_class_name[line->class], line->saved_flops, line->saved_bytes);
        if (line->at.at)
            fprintf(out, ", at `%.*s`", line->at.len, line->at.at);
        fputc('\n', out);
        flops += line->saved_flops;
        bytes += line->saved_bytes;
    }
    fprintf(out, "in all: %.0f operations, %.0f bytes\n", flops, bytes);
}

static void produce(const char *input, FILE *out)
{
    struct gen g = {.n_errors = 0};
    struct rewrite_options options;
    struct receipt receipt = {.steps = 0};
    struct graph *graph = recorded_graph(&g, input, INT64_MAX, &options);
    if (graph) {
        graph = rewrite(&g, graph, &options, &receipt);
        graph_check(graph);
        print_graph(graph, out);
        print_receipt(&receipt, out);
    }
    diag_print(&g, out);
    arena_free(&g.arena);
}

START_TEST(programs_are_rewritten_as_recorded)
{
    golden_check("rewrite", _i, produce);
}
END_TEST

Suite *receipts_suite(void)
{
    Suite *s = suite_create("receipts");
    TCase *c = tcase_create("receipts");
    tcase_add_loop_test(c, programs_are_rewritten_as_recorded, 0, golden_count("rewrite"));
    suite_add_tcase(s, c);
    return s;
}
