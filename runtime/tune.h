// tune.h: a program that is being tuned
#pragma once
#include "runtime/runtime.h"

struct tried {
    const struct candidate *candidate; // of the base plan's kernel
    quern_outcome outcome;
    char *why;
    double us[MAX_SAMPLES], median_us;
    int n_samples;
};

struct tuned_kernel {
    const struct kernel *kernel; // of the base plan
    struct tried *tried;
    int n_tried, chosen;
};

struct quern_tuning {
    quern *q;
    const quern_program *program; // retained by the base plan
    const quern_size *sizes;      // the caller's, while it is being tuned
    int n_sizes;
    quern_plan_options options; // of every plan
    quern_effort effort;
    double begun_ms, budget_s;
    quern_plan *base, *best; // with the model's specs, and with those chosen; maybe the same
    struct tuned_kernel *kernels;
    int n_kernels;
    struct trial *trial; // while it is being tuned
    bool *touched;
    double default_us, tuned_us, seconds;
    bool kept;
};

// trial.c: a program's data on the device, and whether what a plan makes of it is right

struct trial;
quern_status trial_open(quern_plan *base, const quern_tune_options *o, struct trial **out);
void trial_close(struct trial *t);
void trial_bench(const struct trial *t, quern_plan *base, const bool *touched, struct bench *out);
// Runs a plan and compares its outputs.  *why: what is wrong with them, the caller's; NULL:
// nothing.
quern_status trial_run(const struct trial *t, quern_plan *plan, char **why);

// tune_ahead.c: candidates to the cache, those that the deadline leaves time for

void compile_ahead(const struct quern_tuning *t, const struct tuned_kernel *k, double deadline_ms);
