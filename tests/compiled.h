// compiled.h: program text to kernels as CUDA source, through gen/ alone
#pragma once
#include "gen/gen.h"
#include <setjmp.h>

struct compiled {
    struct gen g;
    jmp_buf escape;
    struct source source;
    struct program program;
    bool ok;
    char *shown; // diagnostics, then what the stages in options.dump made
};

// options gives sizes, and whatever else is not the default; its target may be NULL: sm_90a.
void compile_text(struct compiled *c, const char *text, const struct compile_options *options);
// The test fails, with the diagnostics, where the text is wrong.
void compile_right_text(struct compiled *c, const char *text,
                        const struct compile_options *options);
// As compile_right_text, a program of one kernel, which has the candidate whose spec has all of
// these texts (up to a NULL); the test fails where it has none such.
void compile_with(struct compiled *c, const char *text, const struct compile_options *options,
                  const char *const *has);
void compiled_free(struct compiled *c);

// A GPU of 6 SMs, of 256 threads and so few registers that what rows share is not always kept.
const struct target *small_target(void);
