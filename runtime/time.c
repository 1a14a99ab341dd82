// time.c: a plan and pointers to how long one run takes.

#include "runtime/runtime.h"
#include <stdlib.h>
#include <time.h>

double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void timing_of(double *us, int n, quern_timing *out)
{
    qsort(us, (size_t)n, sizeof *us, ascending);
    *out = (quern_timing){.median_us = n % 2 ? us[n / 2] : (us[n / 2 - 1] + us[n / 2]) / 2,
                          .min_us = us[0],
                          .max_us = us[n - 1],
                          .replays = n};
}

struct run {
    quern_plan *plan;
    void *const *arguments;
    int n_arguments;
};

static quern_status run(void *state, quern_stream stream)
{
    const struct run *r = state;
    return quern_execute(r->plan, r->arguments, r->n_arguments, stream);
}

quern_status quern_time(quern_plan *plan, void *const *arguments, int n_arguments,
                        quern_timing *out)
{
    if (!plan || !out)
        return report(plan ? plan->q : NULL, QUERN_USAGE, "quern_time: a null argument");
    if (!plan->loadable)
        return report(plan->q, QUERN_USAGE, "quern_time: the plan of %s is not loaded on a device",
                      plan->program.name);
    if (!plan->program.n_kernels)
        return report(plan->q, QUERN_USAGE, "quern_time: the plan of %s launches nothing",
                      plan->program.name);
    struct run r = {plan, arguments, n_arguments};
    return plan->device->time(plan->device, run, &r, out);
}
