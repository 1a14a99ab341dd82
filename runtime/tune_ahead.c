// tune_ahead.c: a kernel's candidates to cubins in the cache, several at a time, before they are
// loaded one by one.
//
// Only for a GPU: there a candidate's cost is NVRTC's, and a cubin is of one kernel.  What fails
// here fails again where it is loaded, and is reported there.

#include "runtime/tune.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_THREADS = 16 };

struct ahead {
    const struct quern_tuning *tuning;
    const struct tuned_kernel *kernel;
    double deadline_ms;
    atomic_int next;
};

static int kernel_index(const quern_plan *plan, const char *name)
{
    int i = 0;
    while (i < plan->program.n_kernels && strcmp(plan->program.kernels[i].name, name))
        i++;
    return i;
}

static void compile_one(const struct ahead *a, const struct tried *one)
{
    const struct quern_tuning *t = a->tuning;
    const char *name = a->kernel->kernel->name;
    quern_spec spec = {name, one->candidate->spec};
    quern_plan_options o = t->options;
    quern_plan *plan;
    o.arch = t->base->arch, o.no_load = 1, o.specs = &spec, o.n_specs = 1;
    const struct plan_request request = {.sizes = t->sizes,
                                         .n_sizes = t->n_sizes,
                                         .options = &o,
                                         .quiet = true,
                                         .max_cluster = t->base->max_cluster,
                                         .no_teams = t->base->no_teams};
    if (plan_program(t->q, t->program, &request, &plan))
        return;
    const void *bytes;
    size_t n_bytes;
    quern_plan_cubin(plan, kernel_index(plan, name), &bytes, &n_bytes, NULL);
    quern_destroy_plan(plan);
}

static void *work(void *state)
{
    struct ahead *a = state;
    for (int i; (i = atomic_fetch_add(&a->next, 1)) < a->kernel->n_tried;)
        if (now_ms() < a->deadline_ms)
            compile_one(a, &a->kernel->tried[i]);
    return NULL;
}

void compile_ahead(const struct quern_tuning *t, const struct tuned_kernel *k, double deadline_ms)
{
    struct ahead a = {.tuning = t, .kernel = k, .deadline_ms = deadline_ms, .next = 1};
    pthread_t threads[MOST_THREADS];
    int n = 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!t->base->device->native || !find_cache(t->q) || t->q->offline)
        return;
    while (n < MOST_THREADS && n < cores && n < k->n_tried - 1 &&
           !pthread_create(&threads[n], NULL, work, &a))
        n++;
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}
