// launch_cuda.c: a plan's cubins to loaded functions with their launch made ready, and the launch.

#include "runtime/cuda.h"
#include <stdlib.h>
#include <string.h>

enum { PLAIN_SHARED_BYTES = 48 * 1024, PORTABLE_CLUSTER = 8 };

struct loaded {
    const char *name;
    CUmodule module;
    CUfunction function;
    CUlaunchConfig config; // all but the stream
    CUlaunchAttribute attributes[2];
};

static unsigned cluster_blocks(const struct kernel *k)
{
    return k->cluster[0] * k->cluster[1] * k->cluster[2];
}

static void prepare_config(struct loaded *l, const struct kernel *k)
{
    l->name = k->name;
    l->config = (CUlaunchConfig){.gridDimX = k->grid[0],
                                 .gridDimY = k->grid[1],
                                 .gridDimZ = k->grid[2],
                                 .blockDimX = k->block[0],
                                 .blockDimY = k->block[1],
                                 .blockDimZ = k->block[2],
                                 .sharedMemBytes = k->shared_bytes,
                                 .attrs = l->attributes};
    if (cluster_blocks(k) > 1) {
        CUlaunchAttribute *a = &l->attributes[l->config.numAttrs++];
        a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        a->value.clusterDim.x = k->cluster[0];
        a->value.clusterDim.y = k->cluster[1];
        a->value.clusterDim.z = k->cluster[2];
    }
    if (k->cooperative) {
        CUlaunchAttribute *a = &l->attributes[l->config.numAttrs++];
        a->id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        a->value.cooperative = 1;
    }
}

// A cooperative grid has to be on the GPU all at once: as much of it as there is room for, in whole
// teams where its blocks are in teams.
static quern_status fit_grid(struct cuda *d, quern_plan *plan, struct loaded *l,
                             const struct kernel *k)
{
    int per_sm = 0;
    TRY(d, cuOccupancyMaxActiveBlocksPerMultiprocessor, &per_sm, l->function,
        (int)(k->block[0] * k->block[1] * k->block[2]), k->shared_bytes);
    int64_t room = (int64_t)per_sm * d->base.target.n_sms;
    if (k->team > 1 && room < k->team) {
        plan->misfit.team = (int)k->team;
        return report(d->base.q, QUERN_DEVICE, "%s: %s has no room for a team of %u blocks",
                      k->name, d->name, k->team);
    }
    if (!room)
        return report(d->base.q, QUERN_DEVICE, "%s: %s has no room for a block", k->name, d->name);
    if (l->config.gridDimX > room)
        l->config.gridDimX = (unsigned)(room - room % k->team);
    return QUERN_OK;
}

// Whether the GPU can ever hold a cluster: one needs its blocks' room on SMs that lie together, of
// which some models, and a share of a GPU, have too few.  Of clusters that walk through rows it
// gets as many as it holds: one that waited for the others to end would take as long again.
static quern_status check_cluster(struct cuda *d, quern_plan *plan, struct loaded *l,
                                  const struct kernel *k)
{
    int n = 0;
    if (cluster_blocks(k) <= 1 || !d->cu.cuOccupancyMaxActiveClusters)
        return QUERN_OK;
    CUresult r = d->cu.cuOccupancyMaxActiveClusters(&n, l->function, &l->config);
    if (!r && n > 0) {
        unsigned most = (unsigned)n * cluster_blocks(k);
        if (k->walks && l->config.gridDimX > most)
            l->config.gridDimX = most;
        return QUERN_OK;
    }
    plan->misfit.cluster = (int)cluster_blocks(k);
    return report(d->base.q, QUERN_DEVICE, "%s: %s has no room for a cluster of %d blocks", k->name,
                  d->name, plan->misfit.cluster);
}

static quern_status prepare_function(struct cuda *d, quern_plan *plan, struct loaded *l,
                                     const struct kernel *k)
{
    TRY(d, cuModuleGetFunction, &l->function, l->module, k->name);
    if (k->shared_bytes > PLAIN_SHARED_BYTES)
        TRY(d, cuFuncSetAttribute, l->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            (int)k->shared_bytes);
    if (cluster_blocks(k) > PORTABLE_CLUSTER)
        TRY(d, cuFuncSetAttribute, l->function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
            1);
    if (d->cu.cuFuncLoad) {
        TRY(d, cuFuncLoad, l->function);
    } else {
        int registers; // asking loads it, with drivers that put it off
        TRY(d, cuFuncGetAttribute, &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, l->function);
    }
    quern_status status = check_cluster(d, plan, l, k);
    return !status && k->cooperative ? fit_grid(d, plan, l, k) : status;
}

static bool is_foreign(CUresult r)
{
    return r == CUDA_ERROR_INVALID_IMAGE || r == CUDA_ERROR_NO_BINARY_FOR_GPU ||
           r == CUDA_ERROR_INVALID_PTX || r == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
           r == CUDA_ERROR_INVALID_SOURCE;
}

// An entry of the cache that is sound and still does not load is made again, once.
static quern_status load_module(struct cuda *d, quern_plan *plan, int i, struct loaded *l)
{
    const struct kernel *k = &plan->program.kernels[i];
    struct code *code;
    quern_status status = plan_code(plan, i, &code);
    if (status)
        return status;
    CUresult r = d->cu.cuModuleLoadData(&l->module, code->bytes);
    if (is_foreign(r) && code->hit) {
        note(d->base.q, "cache: the entry of %s does not load on this GPU and is dropped", k->name);
        plan_drop_code(plan, i);
        if ((status = plan_code(plan, i, &code)))
            return status;
        r = d->cu.cuModuleLoadData(&l->module, code->bytes);
    }
    if (is_foreign(r))
        return report(d->base.q, QUERN_DEVICE, "%s, compiled for %s, does not load on %s (%s)",
                      k->name, plan->target.name, d->name, d->arch);
    return r ? cuda_error(d, "cuModuleLoadData", r) : QUERN_OK;
}

quern_status cuda_load(struct device *base, quern_plan *plan)
{
    struct cuda *d = (struct cuda *)base;
    CUstreamCaptureMode mode;
    quern_status status = cuda_begin(d, &mode);
    if (status)
        return status;
    for (int i = 0; i < plan->program.n_kernels && !status; i++) {
        struct loaded *l = calloc(1, sizeof *l);
        plan->loaded[i] = l;
        if (!l) {
            status = report(base->q, QUERN_MEMORY, "out of memory");
            break;
        }
        prepare_config(l, &plan->program.kernels[i]);
        status = load_module(d, plan, i, l);
        if (!status)
            status = prepare_function(d, plan, l, &plan->program.kernels[i]);
    }
    cuda_end(d, mode);
    return status;
}

void cuda_unload(struct device *base, quern_plan *plan)
{
    struct cuda *d = (struct cuda *)base;
    CUstreamCaptureMode mode;
    bool inside = !forked(base->q) && !cuda_begin(d, &mode);
    for (int i = 0; i < plan->program.n_kernels; i++) {
        struct loaded *l = plan->loaded[i];
        if (l && l->module && inside)
            d->cu.cuModuleUnload(l->module);
        free(l);
        plan->loaded[i] = NULL;
    }
    if (inside)
        cuda_end(d, mode);
}

quern_status cuda_launch(struct device *base, struct loaded *kernel, void **pointers,
                         quern_stream stream)
{
    struct cuda *d = (struct cuda *)base;
    void *parameters[] = {pointers};
    kernel->config.hStream = stream;
    CUresult r = d->cu.cuLaunchKernelEx(&kernel->config, kernel->function, parameters, NULL);
    if (!r)
        return QUERN_OK;
    const char *name = NULL;
    d->cu.cuGetErrorName(r, &name);
    return report(base->q, QUERN_DEVICE, "launch of %s: %s", kernel->name,
                  name ? name : "unknown error");
}
