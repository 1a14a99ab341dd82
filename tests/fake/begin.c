// begin.c: a call to whether it may go on, and the names of errors.

#include "tests/fake/fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool initialised;
static CUresult sticky; // what the context died of: all that needs it fails with that

int knob(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value && *value ? atoi(value) : otherwise;
}

// Of its call that is the n-th from the first one on.
static CUresult failure_of(const char *function, int n)
{
    size_t length = strlen(function);
    const char *at = getenv("FAKE_CUDA_FAIL");
    while (at && *at) {
        int code = 0, nth = 0;
        if (!strncmp(at, function, length) && at[length] == ':' &&
            sscanf(at + length + 1, "%d@%d", &code, &nth) >= 1 && (!nth || nth == n))
            return (CUresult)code;
        at = strchr(at, ',');
        at += at != NULL;
    }
    return CUDA_SUCCESS;
}

static bool kills_the_context(CUresult r)
{
    return r == CUDA_ERROR_ILLEGAL_ADDRESS || r == CUDA_ERROR_LAUNCH_TIMEOUT ||
           (r >= CUDA_ERROR_HARDWARE_STACK_ERROR && r <= CUDA_ERROR_LAUNCH_FAILED);
}

CUresult begin(const char *function, int n, bool needs_context)
{
    if (!initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (needs_context && !has_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (needs_context && sticky)
        return sticky;
    CUresult r = failure_of(function, n);
    if (kills_the_context(r))
        sticky = r;
    return r;
}

CUresult cuInit(unsigned flags)
{
    (void)flags;
    initialised = true;
    BEGIN("cuInit");
    return CUDA_SUCCESS;
}

// NVRTC looks for a driver too, and asks it for this.
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    (void)id;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

static const struct {
    CUresult code;
    const char *name, *sentence;
} errors[] = {
#define ERROR(name, sentence)                                                                      \
    {                                                                                              \
        CUDA_ERROR_##name, "CUDA_ERROR_" #name, sentence                                           \
    }
    ERROR(INVALID_VALUE, "invalid argument"),
    ERROR(OUT_OF_MEMORY, "out of memory"),
    ERROR(NOT_INITIALIZED, "initialization error"),
    ERROR(NO_DEVICE, "no CUDA-capable device"),
    ERROR(INVALID_IMAGE, "image is invalid"),
    ERROR(INVALID_CONTEXT, "invalid device context"),
    ERROR(NO_BINARY_FOR_GPU, "no image for the device"),
    ERROR(ILLEGAL_ADDRESS, "illegal memory access"),
    ERROR(LAUNCH_OUT_OF_RESOURCES, "too many resources requested"),
    ERROR(COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks"),
    ERROR(INVALID_CLUSTER_SIZE, "invalid cluster size"),
#undef ERROR
};

CUresult cuGetErrorName(CUresult error, const char **name)
{
    *name = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error)
            *name = errors[i].name;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **sentence)
{
    *sentence = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error)
            *sentence = errors[i].sentence;
    return *sentence ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
