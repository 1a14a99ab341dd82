// random_patterns.h: a seed to a small graph of what rules look for, and to arguments for it.
#pragma once
#include "gen/gen.h"

enum taste {
    TASTE_smooth, // small errors stay small
    TASTE_any     // rounding to integers, signs and integers too
};

struct graph *random_patterns(struct gen *g, uint64_t seed, enum taste taste);
// One tensor an argument, in its dtype's storage.  special: one element in `special` is NaN, an
// infinity, a zero, denormal or huge; 0: all of order 1.
struct tensor *random_arguments(struct gen *g, const struct graph *graph, uint64_t seed,
                                int special);
