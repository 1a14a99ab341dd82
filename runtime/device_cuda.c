// device_cuda.c: a GPU, through the driver API, as a struct device.
//
// Works in the context that was current when it was opened, or else in the first GPU's primary one,
// and leaves the calling thread's current context as it was.  Everything but a launch may happen
// while some stream is being captured: allocating and loading run with the thread's capture mode
// relaxed, on a stream of our own.

#include "runtime/cuda.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

quern_status cuda_error(const struct cuda *d, const char *call, CUresult r)
{
    const char *name = NULL, *sentence = NULL;
    d->cu.cuGetErrorName(r, &name);
    d->cu.cuGetErrorString(r, &sentence);
    return report(d->base.q, r == CUDA_ERROR_OUT_OF_MEMORY ? QUERN_MEMORY : QUERN_DEVICE,
                  "%s: %s: %s", call, name ? name : "unknown error",
                  sentence ? sentence : "no description");
}

static quern_status enter(struct device *base)
{
    struct cuda *d = (struct cuda *)base;
    if (forked(base->q))
        return report_fork(base->q);
    TRY(d, cuCtxPushCurrent, d->context);
    return QUERN_OK;
}

static void leave(struct device *base)
{
    struct cuda *d = (struct cuda *)base;
    CUcontext ours;
    d->cu.cuCtxPopCurrent(&ours);
}

quern_status cuda_begin(struct cuda *d, CUstreamCaptureMode *mode)
{
    quern_status status = enter(&d->base);
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!status)
        d->cu.cuThreadExchangeStreamCaptureMode(mode);
    return status;
}

void cuda_end(struct cuda *d, CUstreamCaptureMode mode)
{
    d->cu.cuThreadExchangeStreamCaptureMode(&mode);
    leave(&d->base);
}

// One driver call between begin and end.
#define WITHIN(d, f, ...)                                                                          \
    do {                                                                                           \
        CUstreamCaptureMode mode_;                                                                 \
        quern_status status_ = cuda_begin((d), &mode_);                                            \
        if (status_)                                                                               \
            return status_;                                                                        \
        CUresult r_ = (d)->cu.f(__VA_ARGS__);                                                      \
        cuda_end((d), mode_);                                                                      \
        return r_ ? cuda_error((d), #f, r_) : QUERN_OK;                                            \
    } while (0)

static quern_status alloc(struct device *base, size_t bytes, void **pointer)
{
    struct cuda *d = (struct cuda *)base;
    WITHIN(d, cuMemAlloc, (CUdeviceptr *)pointer, bytes ? bytes : 1);
}

static quern_status release(struct device *base, void *pointer)
{
    struct cuda *d = (struct cuda *)base;
    if (!pointer)
        return QUERN_OK;
    WITHIN(d, cuMemFree, (CUdeviceptr)pointer);
}

static quern_status upload(struct device *base, void *to, const void *from, size_t bytes)
{
    struct cuda *d = (struct cuda *)base;
    CUstreamCaptureMode mode;
    quern_status status = cuda_begin(d, &mode);
    if (status)
        return status;
    // A copy from pageable memory returns when it has been read, and what it carries may arrive
    // later: too late for a stream that does not wait for the default one.
    const char *what = "cuMemcpyHtoD";
    CUresult r = d->cu.cuMemcpyHtoD((CUdeviceptr)to, from, bytes);
    if (!r)
        what = "cuStreamSynchronize", r = d->cu.cuStreamSynchronize(NULL);
    cuda_end(d, mode);
    return r ? cuda_error(d, what, r) : QUERN_OK;
}

static quern_status download(struct device *base, void *to, const void *from, size_t bytes)
{
    struct cuda *d = (struct cuda *)base;
    WITHIN(d, cuMemcpyDtoH, to, (CUdeviceptr)(uintptr_t)from, bytes);
}

static quern_status synchronize(struct device *base, quern_stream stream)
{
    struct cuda *d = (struct cuda *)base;
    WITHIN(d, cuStreamSynchronize, stream);
}

static quern_status zero_on(struct cuda *d, CUstream stream, void *pointer, size_t bytes)
{
    TRY(d, cuMemsetD8Async, (CUdeviceptr)pointer, 0, bytes, stream);
    TRY(d, cuStreamSynchronize, stream);
    return QUERN_OK;
}

static quern_status zero(struct device *base, void *pointer, size_t bytes)
{
    struct cuda *d = (struct cuda *)base;
    CUstreamCaptureMode mode;
    CUstream own;
    quern_status status = cuda_begin(d, &mode);
    if (status)
        return status;
    CUresult r = d->cu.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
    if (r) {
        status = cuda_error(d, "cuStreamCreate", r);
    } else {
        status = zero_on(d, own, pointer, bytes);
        d->cu.cuStreamDestroy(own);
    }
    cuda_end(d, mode);
    return status;
}

static void close_device(struct device *base)
{
    struct cuda *d = (struct cuda *)base;
    if (d->retained && !forked(base->q))
        d->cu.cuDevicePrimaryCtxRelease(d->ordinal);
    driver_close(&d->cu);
    free(d);
}

bool cuda_driver_exists(void)
{
    struct driver cu;
    char why[256];
    bool exists = driver_open(&cu, why, sizeof why);
    driver_close(&cu);
    return exists;
}

static int attribute(const struct cuda *d, CUdevice_attribute which)
{
    int value = 0;
    return d->cu.cuDeviceGetAttribute(&value, which, d->ordinal) ? 0 : value;
}

// What the table says of this arch, with the machine's own figures where it is another model of it.
static void describe(struct cuda *d)
{
    int sm = 10 * attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
             attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    snprintf(d->arch, sizeof d->arch, "sm_%d%s", sm, sm >= 90 ? "a" : "");
    struct target *t = &d->base.target;
    target_of_arch(d->arch, t);
    t->name = d->arch;
    int n_sms = attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    if (n_sms == t->n_sms || n_sms <= 0)
        return;
    // Clock in kHz, two transfers a cycle, nine tenths of it reachable.
    double bus = attribute(d, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8.0;
    double bytes_per_second = 2e3 * attribute(d, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * bus * 0.9;
    t->f32_flops *= (double)n_sms / t->n_sms;
    t->n_sms = n_sms;
    t->gpu = d->name;
    if (bytes_per_second > 0)
        t->bytes_per_second = bytes_per_second;
    int l2 = attribute(d, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    if (l2 > 0)
        t->l2_bytes = l2;
}

static quern_status open_context(struct cuda *d)
{
    int n = 0;
    TRY(d, cuInit, 0);
    TRY(d, cuDeviceGetCount, &n);
    if (!n)
        return report(d->base.q, QUERN_MISSING, "the NVIDIA driver finds no GPU");
    TRY(d, cuCtxGetCurrent, &d->context);
    if (d->context) {
        TRY(d, cuCtxGetDevice, &d->ordinal);
    } else {
        TRY(d, cuDeviceGet, &d->ordinal, 0);
        TRY(d, cuDevicePrimaryCtxRetain, &d->context, d->ordinal);
        d->retained = true;
    }
    TRY(d, cuDeviceGetName, d->name, sizeof d->name, d->ordinal);
    return QUERN_OK;
}

quern_status cuda_open(quern *q, struct device **out)
{
    char why[512];
    struct cuda *d = calloc(1, sizeof *d);
    if (!d)
        return report(q, QUERN_MEMORY, "out of memory");
    if (!driver_open(&d->cu, why, sizeof why)) {
        free(d);
        return report(q, QUERN_MISSING, "%s", why);
    }
    d->base = (struct device){.q = q,
                              .kind = "cuda",
                              .name = d->name,
                              .driver = d->driver,
                              .native = true,
                              .enter = enter,
                              .leave = leave,
                              .newest_nvrtc = d->cu.version / 1000,
                              .alloc = alloc,
                              .release = release,
                              .zero = zero,
                              .upload = upload,
                              .download = download,
                              .sync = synchronize,
                              .load = cuda_load,
                              .unload = cuda_unload,
                              .launch = cuda_launch,
                              .mark_new = cuda_mark_new,
                              .mark_free = cuda_mark_free,
                              .captures = cuda_captures,
                              .mark = cuda_mark,
                              .await = cuda_await,
                              .time = cuda_time,
                              .bench = cuda_bench,
                              .race = cuda_race,
                              .close = close_device};
    snprintf(d->driver, sizeof d->driver, "%d.%d", d->cu.version / 1000, d->cu.version % 1000 / 10);
    atomic_store(&q->opened->gpu_pid, getpid());
    quern_status status = open_context(d);
    if (status) {
        atomic_store(&q->opened->gpu_pid, 0);
        close_device(&d->base);
        return status == QUERN_DEVICE ? QUERN_MISSING : status;
    }
    describe(d);
    *out = &d->base;
    return QUERN_OK;
}
