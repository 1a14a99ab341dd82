// bench.h: what bench measured, and the ways to show it
#pragma once
#include "tools/tools.h"

struct bench_result {
    const char *program, *device, *arch;
    quern_math math;
    bool each_run;
    quern_costs costs;
    // Of a plan made without a cache, first thing in the process, and of one whose kernels the
    // cache had.
    quern_first_use cold, warm;
    bool has_cold, has_warm;
};

// report_bench.c
void bench_report(FILE *out, const struct bench_result *r);
enum exit_status bench_json(const struct bench_result *r);

// roofline.c
bool bench_plot(const char *path, const struct bench_result *r); // false: reported
