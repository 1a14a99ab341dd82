// recorded.h: the programs of tests/golden/rewrite, to be rewritten.
#pragma once
#include "gen/gen.h"

// The graph of an input that begins with its options, `--math finite --weights each-run -D N=8`;
// no size is above `largest`.  NULL: reported in g.
struct graph *recorded_graph(struct gen *g, const char *input, int64_t largest,
                             struct rewrite_options *options);
