// execute.c: a plan and pointers to launches.
//
// execute checks pointers and launches, nothing else, so it can be captured in a graph and costs
// what the launches cost.

#include "runtime/runtime.h"
#include <string.h>

quern_status check_loaded(const quern_plan *plan, const char *call)
{
    if (!plan->loadable)
        return report(plan->q, QUERN_USAGE, "%s: the plan of %s is not loaded on a device", call,
                      plan->program.name);
    return QUERN_OK;
}

quern_status check_pointer(const quern_plan *plan, const struct argument *a, const void *pointer)
{
    const char *name = a->buffer->name;
    if (!a->buffer->bytes)
        return QUERN_OK;
    if (!pointer && a->role == QUERN_WEIGHT)
        return report(plan->q, QUERN_USAGE, "weight `%s` is not bound", name);
    if (!pointer)
        return report(plan->q, QUERN_USAGE, "`%s` is null and has %lld bytes", name,
                      (long long)a->buffer->bytes);
    if ((uintptr_t)pointer % (unsigned)a->alignment)
        return report(plan->q, QUERN_USAGE,
                      "`%s` is at %p, and the kernels need it aligned to %d bytes: align it, or "
                      "plan with a smaller "
                      "alignment",
                      name, pointer, a->alignment);
    return QUERN_OK;
}

int buffer_index(const quern_plan *plan, const struct argument *a)
{
    return (int)(a->buffer - plan->program.buffers);
}

quern_status check_workspace(const quern_plan *plan)
{
    if (plan->program.workspace_bytes && !plan->workspace)
        return report(plan->q, QUERN_USAGE, "the plan of %s has no workspace", plan->program.name);
    return QUERN_OK;
}

// Where everything is, for this run.  The lock is held.
static quern_status place_arguments(quern_plan *plan, void *const *given)
{
    for (int i = 0, next = 0; i < plan->n_arguments; i++) {
        const struct argument *a = &plan->arguments[i];
        int b = buffer_index(plan, a);
        void *pointer = a->role == QUERN_WEIGHT ? plan->buffers[b] : given[next++];
        quern_status status = check_pointer(plan, a, pointer);
        if (status)
            return status;
        plan->buffers[b] = pointer;
    }
    return check_workspace(plan);
}

quern_status launch_kernels(quern_plan *plan, int first, int end, quern_stream stream)
{
    struct device *d = plan->device;
    quern_status status = QUERN_OK;
    for (int i = first; i < end && !status; i++) {
        const struct kernel *k = &plan->program.kernels[i];
        for (int j = 0; j < k->n_args; j++)
            plan->block[j] = plan->buffers[k->args[j]];
        status = d->launch(d, plan->loaded[i], plan->block, stream);
    }
    return status;
}

static quern_status launch_run(quern_plan *plan, quern_stream stream)
{
    struct device *d = plan->device;
    const struct program *p = &plan->program;
    quern_status status = d->enter(d);
    if (status)
        return status;
    if (plan->keeps)
        status = launch_prepare(plan, false, stream);
    if (!status)
        status = launch_kernels(plan, plan->keeps ? p->n_prepare : 0, p->n_kernels, stream);
    d->leave(d);
    return status;
}

quern_status quern_execute(quern_plan *plan, void *const *arguments, int n_arguments,
                           quern_stream stream)
{
    if (!plan)
        return report(NULL, QUERN_USAGE, "quern_execute: a null plan");
    quern_status status = check_loaded(plan, "quern_execute");
    if (status)
        return status;
    if (n_arguments != plan->n_given || (n_arguments && !arguments))
        return report(plan->q, QUERN_USAGE,
                      "quern_execute: %s takes %d pointers (inputs, then outputs), got %d",
                      plan->program.name, plan->n_given, arguments ? n_arguments : 0);
    pthread_mutex_lock(&plan->lock);
    status = place_arguments(plan, arguments);
    if (!status)
        status = launch_run(plan, stream);
    pthread_mutex_unlock(&plan->lock);
    return status;
}

quern_status quern_use_workspace(quern_plan *plan, void *pointer)
{
    if (!plan)
        return report(NULL, QUERN_USAGE, "quern_use_workspace: a null plan");
    if ((uintptr_t)pointer % 256)
        return report(plan->q, QUERN_USAGE,
                      "the workspace is at %p: it has to be aligned to 256 bytes", pointer);
    quern_status status = check_loaded(plan, "quern_use_workspace");
    if (status)
        return status;
    pthread_mutex_lock(&plan->lock);
    plan_set_workspace(plan, pointer ? pointer : plan->own_workspace);
    pthread_mutex_unlock(&plan->lock);
    return QUERN_OK;
}

static quern_status device_of(quern *q, const char *call, struct device **d)
{
    if (!q)
        return report(NULL, QUERN_USAGE, "%s: a null context", call);
    quern_status status = need_device(q, d);
    if (!status && !*d)
        return report(q, QUERN_USAGE, "%s: the context was opened without a device", call);
    return status;
}

quern_status quern_alloc(quern *q, size_t bytes, void **pointer)
{
    struct device *d;
    if (!pointer)
        return report(q, QUERN_USAGE, "quern_alloc: a null argument");
    *pointer = NULL;
    quern_status status = device_of(q, "quern_alloc", &d);
    return status ? status : d->alloc(d, bytes, pointer);
}

quern_status quern_free(quern *q, void *pointer)
{
    struct device *d;
    quern_status status = device_of(q, "quern_free", &d);
    return status ? status : d->release(d, pointer);
}

quern_status quern_upload(quern *q, void *to_device, const void *from_host, size_t bytes)
{
    struct device *d;
    if (bytes && (!to_device || !from_host))
        return report(q, QUERN_USAGE, "quern_upload: a null argument");
    quern_status status = device_of(q, "quern_upload", &d);
    return status || !bytes ? status : d->upload(d, to_device, from_host, bytes);
}

quern_status quern_download(quern *q, void *to_host, const void *from_device, size_t bytes)
{
    struct device *d;
    if (bytes && (!to_host || !from_device))
        return report(q, QUERN_USAGE, "quern_download: a null argument");
    quern_status status = device_of(q, "quern_download", &d);
    return status || !bytes ? status : d->download(d, to_host, from_device, bytes);
}

quern_status quern_synchronize(quern *q, quern_stream stream)
{
    struct device *d;
    quern_status status = device_of(q, "quern_synchronize", &d);
    return status ? status : d->sync(d, stream);
}
