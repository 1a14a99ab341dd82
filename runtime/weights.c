// weights.c: the weights of a plan: where they are, and what was computed from them and is kept.
//
// What is kept is as good as the caller's word: it is computed anew after quern_bind and
// quern_weights_changed, and not before.  Work that is captured is not work that is done: it
// changes nothing here, so that a run outside the capture prepares for itself.

#include "runtime/runtime.h"
#include <string.h>

static struct argument *find_weight(const quern_plan *plan, const char *name)
{
    for (int i = 0; i < plan->n_arguments; i++)
        if (plan->arguments[i].role == QUERN_WEIGHT &&
            !strcmp(plan->arguments[i].buffer->name, name))
            return &plan->arguments[i];
    return NULL;
}

quern_status quern_bind(quern_plan *plan, const char *weight, const void *pointer)
{
    if (!plan || !weight)
        return report(plan ? plan->q : NULL, QUERN_USAGE, "quern_bind: a null argument");
    const struct argument *a = find_weight(plan, weight);
    if (!a)
        return report(plan->q, QUERN_USAGE, "quern_bind: %s has no weight `%s`", plan->program.name,
                      weight);
    quern_status status = pointer ? check_pointer(plan, a, pointer) : QUERN_OK;
    if (status)
        return status;
    pthread_mutex_lock(&plan->lock);
    plan->buffers[buffer_index(plan, a)] = (void *)(uintptr_t)pointer;
    plan->changed = true;
    pthread_mutex_unlock(&plan->lock);
    return QUERN_OK;
}

quern_status quern_weights_changed(quern_plan *plan)
{
    if (!plan)
        return report(NULL, QUERN_USAGE, "quern_weights_changed: a null plan");
    pthread_mutex_lock(&plan->lock);
    plan->changed = true;
    pthread_mutex_unlock(&plan->lock);
    return QUERN_OK;
}

static quern_status check_bound(const quern_plan *plan)
{
    quern_status status = QUERN_OK;
    for (int i = 0; i < plan->n_arguments && !status; i++) {
        const struct argument *a = &plan->arguments[i];
        if (a->role == QUERN_WEIGHT)
            status = check_pointer(plan, a, plan->buffers[buffer_index(plan, a)]);
    }
    return status ? status : check_workspace(plan);
}

quern_status launch_prepare(quern_plan *plan, bool even_unchanged, quern_stream stream)
{
    struct device *d = plan->device;
    quern_status status = QUERN_OK;
    if (plan->preparing) {
        bool past = false;
        status = d->await(d, plan->mark, stream, &past);
        plan->preparing = !past;
    }
    if (status || !(plan->changed || even_unchanged))
        return status;
    bool captured = false;
    status = d->captures(d, stream, &captured);
    if (!status)
        status = launch_kernels(plan, 0, plan->program.n_prepare, stream);
    if (!status && !captured)
        status = d->mark(d, plan->mark, stream);
    if (!status && !captured) {
        plan->changed = false;
        plan->preparing = true;
    }
    return status;
}

quern_status quern_prepare(quern_plan *plan, quern_stream stream)
{
    if (!plan)
        return report(NULL, QUERN_USAGE, "quern_prepare: a null plan");
    quern_status status = check_loaded(plan, "quern_prepare");
    if (status)
        return status;
    struct device *d = plan->device;
    pthread_mutex_lock(&plan->lock);
    status = check_bound(plan);
    if (!status && plan->keeps && !(status = d->enter(d))) {
        status = launch_prepare(plan, true, stream);
        d->leave(d);
    }
    pthread_mutex_unlock(&plan->lock);
    return status;
}
