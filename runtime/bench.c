// bench.c: a plan and pointers to what a run costs, and the least that it could.

#include "runtime/runtime.h"
#include <stdlib.h>

int first_kernel(const quern_plan *plan)
{
    return plan->keeps ? plan->program.n_prepare : 0;
}

double mark_touched(const quern_plan *plan, bool *touched)
{
    const struct program *p = &plan->program;
    double bytes = 0;
    for (int i = first_kernel(plan); i < p->n_kernels; i++)
        for (int j = 0; j < p->kernels[i].n_args; j++) {
            int b = p->kernels[i].args[j];
            enum buffer_kind kind = p->buffers[b].kind;
            bool scratch = kind == BUFFER_workspace || kind == BUFFER_counter ||
                           (kind == BUFFER_prepared && !plan->keeps);
            if (scratch || touched[b])
                continue;
            touched[b] = true;
            bytes += (double)p->buffers[b].bytes;
        }
    return bytes;
}

// One kernel may read only a part of an argument, and what passes between two is no need.
static void count_work(const quern_plan *plan, double touched_bytes, quern_costs *out)
{
    const struct program *p = &plan->program;
    double moved = 0, computing_us = 0, rate = plan->target.bytes_per_second;
    for (int i = first_kernel(plan); i < p->n_kernels; i++) {
        const struct kernel *k = &p->kernels[i];
        moved += k->bytes;
        out->flops += k->flops;
        out->n_launches++;
        if (k->floor_us > 1.000001e6 * k->bytes / rate)
            computing_us += k->floor_us;
    }
    out->set_bytes = touched_bytes;
    out->bytes = moved < touched_bytes ? moved : touched_bytes;
    double moving_us = 1e6 * out->bytes / rate;
    out->floor_us = moving_us > computing_us ? moving_us : computing_us;
    out->bytes_per_second = rate;
    out->flops_per_second = plan->target.f32_flops;
}

static quern_status bench(const struct bench *b, quern_costs *out)
{
    struct device *d = b->plan->device;
    if (d->bench)
        return d->bench(d, b, out);
    out->n_sets = 1;
    quern_status status = quern_time(b->plan, b->given, b->n_given, &out->replay);
    out->call = out->replay;
    return status;
}

quern_status quern_bench(quern_plan *plan, void *const *arguments, int n_arguments,
                         quern_costs *out)
{
    if (!plan || !out)
        return report(plan ? plan->q : NULL, QUERN_USAGE, "quern_bench: a null argument");
    *out = (quern_costs){0};
    quern_status status = check_loaded(plan, "quern_bench");
    if (status)
        return status;
    if (first_kernel(plan) == plan->program.n_kernels)
        return report(plan->q, QUERN_USAGE, "quern_bench: the plan of %s launches nothing",
                      plan->program.name);
    // The first run checks the arguments, and prepares.
    status = quern_execute(plan, arguments, n_arguments, NULL);
    if (!status)
        status = quern_synchronize(plan->q, NULL);
    if (status)
        return status;
    bool *touched = calloc((size_t)plan->program.n_buffers + 1, sizeof *touched);
    if (!touched)
        return report(plan->q, QUERN_MEMORY, "out of memory");
    count_work(plan, mark_touched(plan, touched), out);
    struct bench b = {plan, arguments, n_arguments, touched, out->bytes};
    status = bench(&b, out);
    free(touched);
    return status;
}
