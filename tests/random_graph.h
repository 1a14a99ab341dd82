// random_graph.h: small random programs as graphs, for the fuzzers and for properties of passes
#pragma once
#include "gen/gen.h"

// About n_nodes operators over two or three arguments of a few elements each: elementwise,
// reductions, contractions and every movement; values stay of order 1, so that the usual tolerance
// applies. The same seed gives the same graph.
struct graph *random_graph(struct gen *g, uint64_t seed, int n_nodes);
