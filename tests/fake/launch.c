// launch.c: modules, functions and launches.

#include "tests/fake/fake.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORTABLE_CLUSTER = 8 };

struct CUmod_st {
    CUfunction function; // the last that was asked for; each leads to the one before
};

struct CUfunc_st {
    CUfunction before;
    char name[512];
    unsigned shared_bytes, max_cluster;
};

// ---- modules and functions ----

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    BEGIN_IN_CONTEXT("cuModuleLoadData");
    if (memcmp(image, "\177ELF", 4) != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    *module = calloc(1, sizeof **module);
    return *module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleUnload(CUmodule module)
{
    while (module->function) {
        CUfunction before = module->function->before;
        free(module->function);
        module->function = before;
    }
    free(module);
    BEGIN_IN_CONTEXT("cuModuleUnload");
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    BEGIN_IN_CONTEXT("cuModuleGetFunction");
    CUfunction f = calloc(1, sizeof *f);
    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *f = (struct CUfunc_st){.before = module->function,
                            .shared_bytes = PLAIN_SHARED_BYTES,
                            .max_cluster = PORTABLE_CLUSTER};
    snprintf(f->name, sizeof f->name, "%s", name);
    *function = module->function = f;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    (void)function;
    BEGIN_IN_CONTEXT("cuFuncGetAttribute");
    *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS ? 32 : 0;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    BEGIN_IN_CONTEXT("cuFuncSetAttribute");
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        function->shared_bytes = (unsigned)value;
    else if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
        function->max_cluster = value ? 2 * PORTABLE_CLUSTER : PORTABLE_CLUSTER;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return value > MOST_SHARED_BYTES ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static int room(void)
{
    return knob("FAKE_CUDA_BLOCKS_PER_SM", 1);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction function, int threads,
                                                     size_t shared_bytes)
{
    BEGIN_IN_CONTEXT("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    if (threads < 1 || threads > 1024 || shared_bytes > function->shared_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *n = room();
    return CUDA_SUCCESS;
}

// ---- launches ----

// What a launch asks for besides its grid.
struct asked {
    unsigned cluster[3];
    bool cooperative;
};

static struct asked read_attributes(const CUlaunchConfig *c)
{
    struct asked a = {
        {1, 1, 1},
        false
    };
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const CUlaunchAttributeValue *value = &c->attrs[i].value;
        if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
            a.cooperative = value->cooperative != 0;
        } else if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            a.cluster[0] = value->clusterDim.x;
            a.cluster[1] = value->clusterDim.y;
            a.cluster[2] = value->clusterDim.z;
        }
    }
    return a;
}

static unsigned blocks_of(const struct asked *a)
{
    return a->cluster[0] * a->cluster[1] * a->cluster[2];
}

static bool fits(const struct asked *a)
{
    return blocks_of(a) == 1 || blocks_of(a) <= (unsigned)knob("FAKE_CUDA_CLUSTER", 16);
}

#if !OLD
CUresult cuFuncLoad(CUfunction function)
{
    (void)function;
    BEGIN_IN_CONTEXT("cuFuncLoad");
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *n, CUfunction function, const CUlaunchConfig *config)
{
    BEGIN_IN_CONTEXT("cuOccupancyMaxActiveClusters");
    struct asked a = read_attributes(config);
    if (blocks_of(&a) > function->max_cluster)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    *n = fits(&a) ? n_sms() / (int)blocks_of(&a) : 0;
    return CUDA_SUCCESS;
}
#endif

static CUresult check_launch(const CUlaunchConfig *c, CUfunction function, const struct asked *a)
{
    uint64_t grid = (uint64_t)c->gridDimX * c->gridDimY * c->gridDimZ;
    unsigned block = c->blockDimX * c->blockDimY * c->blockDimZ;
    if (!grid || !block || block > 1024 || c->sharedMemBytes > function->shared_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (c->gridDimX % a->cluster[0] || c->gridDimY % a->cluster[1] || c->gridDimZ % a->cluster[2])
        return CUDA_ERROR_INVALID_VALUE;
    if (blocks_of(a) > function->max_cluster || !fits(a))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if (a->cooperative && grid > (uint64_t)n_sms() * (uint64_t)room())
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra)
{
    (void)parameters, (void)extra;
    BEGIN_IN_CONTEXT("cuLaunchKernelEx");
    struct asked a = read_attributes(config);
    CUresult r = check_launch(config, function, &a);
    const char *path = getenv("FAKE_CUDA_LOG");
    if (r || !path)
        return r;
    FILE *log = fopen(path, "a");
    if (!log)
        return CUDA_ERROR_OPERATING_SYSTEM;
    fprintf(log, "%s grid=%u,%u,%u block=%u,%u,%u shared=%u cluster=%u%s\n", function->name,
            config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
            config->blockDimY, config->blockDimZ, config->sharedMemBytes, blocks_of(&a),
            a.cooperative ? " cooperative" : "");
    fclose(log);
    return CUDA_SUCCESS;
}
