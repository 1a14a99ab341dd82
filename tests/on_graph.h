// on_graph.h: a graph from its text, arguments from doubles, results from eval; for the tests of
// gen/.
#pragma once
#include "gen/gen.h"

struct on_graph {
    struct gen g;
    struct source source;
    struct graph *graph;
    struct tensor *in, *out;
};

// The test fails, with what was reported, where the text is wrong.
void graph_open(struct on_graph *t, const char *text);
void graph_close(struct on_graph *t);
void graph_set(struct on_graph *t, int argument, const double *values);
void graph_eval(struct on_graph *t, enum eval_mode mode);
double graph_result(const struct on_graph *t, int output, int64_t i); // integers as double
// Every element to the last bit, -0.0 told from 0.0, any NaN for NaN.
void expect_values(const struct on_graph *t, int output, int64_t n, const double *expected);
// One argument x, all in one.
void expect_eval(const char *text, enum eval_mode mode, const double *x, int64_t n,
                 const double *expected);
// What print_graph writes, and what read_graph reports of a wrong text (NULL: nothing); the caller
// frees it.
char *printed(const struct graph *graph);
char *reported(const char *text);
