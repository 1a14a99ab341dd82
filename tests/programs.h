// programs.h: runs program texts on a device and compares every output with the f64 reference
#pragma once
#include "runtime/quern.h"
#include <stdbool.h>

struct job {
    const char *text; // of the program
    const quern_size *sizes;
    int n_sizes;
    const char *input_kind; // "normal", "special" (ties, infinities, NaN, zeros), "small integers"
    const quern_plan_options *options; // may be NULL
};

// Runs the job and writes, when something is wrong, a sentence that says what and where; false
// then.
bool run_job(quern *q, const struct job *job, char *why, size_t why_size);
// Runs all jobs on both cores; returns how many failed, and prints the failures.
int run_jobs(const struct job *jobs, int n_jobs);
// A context on the device that QUERN_TEST_DEVICE names ("cuda"), by default the host device with
// the sanitizers that the tests themselves were built with.
quern *open_device(void);
// The text with a dtype in place of every %s; the caller's.
char *typed(const char *text, const char *dtype);
