// device.c: the GPU, the contexts of threads, and memory.

#include "tests/fake/fake.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, ALIGNMENT = 256 };

struct CUctx_st {
    int users;
};

static struct CUctx_st primary;
static _Thread_local CUcontext stack[MAX_DEPTH];
static _Thread_local int depth;
static _Thread_local CUstreamCaptureMode capture_mode;

// ---- the device ----

CUresult cuDeviceGetCount(int *count)
{
    BEGIN("cuDeviceGetCount");
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    BEGIN("cuDeviceGet");
    *device = 0;
    return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    (void)device;
    BEGIN("cuDeviceGetName");
    snprintf(name, (size_t)size, "fake H200");
    return CUDA_SUCCESS;
}

int n_sms(void)
{
    return knob("FAKE_CUDA_SMS", 132);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    static const int h200[CU_DEVICE_ATTRIBUTE_MAX] = {
        [CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9,
        [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024,
        [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = 2048,
        [CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR] = 65536,
        [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] = PLAIN_SHARED_BYTES,
        [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] = MOST_SHARED_BYTES,
        [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] = 228 * 1024,
        [CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] = 50 << 20,
        [CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1980000,
        [CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 3201000,
        [CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 6144,
        [CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH] = 1,
        [CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 1,
    };
    BEGIN("cuDeviceGetAttribute");
    if (device || attribute < 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? n_sms() : h200[attribute];
    return CUDA_SUCCESS;
}

// ---- contexts ----

bool has_context(void)
{
    return depth > 0;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    BEGIN("cuDevicePrimaryCtxRetain");
    primary.users++;
    *context = &primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    if (primary.users-- <= 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    BEGIN("cuDevicePrimaryCtxRelease");
    return CUDA_SUCCESS;
}

// What a process leaves behind is for a test to see.
__attribute__((destructor)) static void check_balance(void)
{
    if (primary.users || depth)
        fprintf(stderr, "fake driver: the context has %d users, and is current %d deep\n",
                primary.users, depth);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    BEGIN("cuCtxGetCurrent");
    *context = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    BEGIN_IN_CONTEXT("cuCtxGetDevice");
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    BEGIN("cuCtxPushCurrent");
    if (context != &primary || !primary.users || depth == MAX_DEPTH)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack[--depth];
    BEGIN("cuCtxPopCurrent");
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    BEGIN_IN_CONTEXT("cuCtxSynchronize");
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    BEGIN("cuThreadExchangeStreamCaptureMode");
    CUstreamCaptureMode before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

// ---- memory ----

static void *host(CUdeviceptr pointer)
{
    return (void *)(uintptr_t)pointer;
}

CUresult cuMemAlloc(CUdeviceptr *pointer, size_t bytes)
{
    BEGIN_IN_CONTEXT("cuMemAlloc");
    size_t padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *memory = bytes ? aligned_alloc(ALIGNMENT, padded) : NULL;
    if (!memory)
        return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    memset(memory, 0, padded);
    *pointer = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr pointer)
{
    free(host(pointer)); // whatever comes of it: a dead context has no memory left
    BEGIN_IN_CONTEXT("cuMemFree");
    return CUDA_SUCCESS;
}

static struct {
    void *to, *staged;
    size_t bytes;
} on_its_way;
static pthread_mutex_t way = PTHREAD_MUTEX_INITIALIZER;

void arrive(void)
{
    pthread_mutex_lock(&way);
    if (on_its_way.staged)
        memcpy(on_its_way.to, on_its_way.staged, on_its_way.bytes);
    free(on_its_way.staged);
    on_its_way.staged = NULL;
    pthread_mutex_unlock(&way);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    BEGIN_IN_CONTEXT("cuMemcpyHtoD");
    arrive();
    void *staged = malloc(bytes ? bytes : 1);
    if (!staged)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(staged, from, bytes);
    pthread_mutex_lock(&way);
    free(on_its_way.staged); // another thread's; whoever minds had better have waited
    on_its_way.to = host(to), on_its_way.staged = staged, on_its_way.bytes = bytes;
    pthread_mutex_unlock(&way);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    BEGIN_IN_CONTEXT("cuMemcpyDtoH");
    arrive();
    memcpy(to, host(from), bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    BEGIN_IN_CONTEXT("cuMemcpyDtoDAsync");
    memcpy(host(to), host(from), bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
    (void)stream;
    BEGIN_IN_CONTEXT("cuMemsetD8Async");
    memset(host(to), value, n);
    return CUDA_SUCCESS;
}
