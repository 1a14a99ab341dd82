// agreement.h: arguments for a graph, and values compared with those of the reference
#pragma once
#include "gen/gen.h"

void fill_argument(const struct node *node, void *data, unsigned seed); // of order 1
// The test fails where an element is further off than its tolerance; spec is named then.
void expect_near(const struct graph *graph, const struct output *o, const void *got,
                 const struct tensor *expected, const char *spec);
size_t node_bytes(const struct node *node);
