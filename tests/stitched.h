// stitched.h: programs whose kernels become the phases of one launch
#pragma once
#include "tests/compiled.h"

// The first of the probes are one launch each, but for the last of them no block needs what another
// one made.
enum { N_STITCHED = 12, N_UNSTITCHED = 3 };

// What two phases hand to each other, in every order of families.
struct stitched {
    const char *families;
    int phases, barriers;
    int shared;       // phases that clusters make for themselves, where there are clusters; 0: none
    const char *text; // of one dtype, of sizes M and N
};
extern const struct stitched stitched[N_STITCHED + N_UNSTITCHED];

void compile_stitched(struct compiled *c, const struct stitched *s, const char *arch); // of f32
