// golden.h: tests/golden/FOLDER/CASE.txt holds an input, a line `----`, and what a stage makes of
// that input.
//
//     START_TEST(graphs_are_as_recorded) { golden_check("build", _i, produce); }
//     tcase_add_loop_test(tc, graphs_are_as_recorded, 0, golden_count("build"));
//
// QUERN_GOLDEN=rewrite writes the outputs instead of comparing them.  A case without output fails.
#pragma once
#include "gen/gen.h"

// At least 1, so that a folder that is not there fails in golden_check.
int golden_count(const char *folder);
void golden_check(const char *folder, int i, void (*produce)(const char *input, FILE *out));
// The input of a case alone, for what else has to be true of it.
void golden_input(const char *folder, int i, void (*use)(const char *input, void *with),
                  void *with);

// An input may begin with a line `-D B=2 -D N=3`: reads it into sizes and moves the input behind
// it.
int golden_sizes(struct gen *g, const char **input, struct size *sizes, int capacity);
