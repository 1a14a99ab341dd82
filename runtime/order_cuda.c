// order_cuda.c: two streams to an order between them: a mark is an event.
//
// Nothing here waits on the host.  A stream that is being captured may not depend on an event of
// work outside: it gets a node that waits for the event each time the graph is launched.

#include "runtime/cuda.h"

quern_status cuda_mark_new(struct device *base, void **mark)
{
    struct cuda *d = (struct cuda *)base;
    CUstreamCaptureMode mode;
    CUevent event = NULL;
    quern_status status = cuda_begin(d, &mode);
    if (status)
        return status;
    CUresult r = d->cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cuda_end(d, mode);
    *mark = event;
    return r ? cuda_error(d, "cuEventCreate", r) : QUERN_OK;
}

void cuda_mark_free(struct device *base, void *mark)
{
    struct cuda *d = (struct cuda *)base;
    CUstreamCaptureMode mode;
    if (!mark || forked(base->q) || cuda_begin(d, &mode))
        return;
    d->cu.cuEventDestroy(mark);
    cuda_end(d, mode);
}

quern_status cuda_captures(struct device *base, quern_stream stream, bool *captured)
{
    struct cuda *d = (struct cuda *)base;
    CUstreamCaptureStatus capture;
    TRY(d, cuStreamIsCapturing, stream, &capture);
    *captured = capture != CU_STREAM_CAPTURE_STATUS_NONE;
    return QUERN_OK;
}

quern_status cuda_mark(struct device *base, void *mark, quern_stream stream)
{
    struct cuda *d = (struct cuda *)base;
    TRY(d, cuEventRecord, mark, stream);
    return QUERN_OK;
}

// Asking for an event breaks captures of other threads unless this thread says that it may.
static CUresult query(struct cuda *d, CUevent event)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    d->cu.cuThreadExchangeStreamCaptureMode(&mode);
    CUresult r = d->cu.cuEventQuery(event);
    d->cu.cuThreadExchangeStreamCaptureMode(&mode);
    return r;
}

quern_status cuda_await(struct device *base, void *mark, quern_stream stream, bool *past)
{
    struct cuda *d = (struct cuda *)base;
    CUresult r = query(d, mark);
    *past = r == CUDA_SUCCESS;
    if (*past)
        return QUERN_OK;
    if (r != CUDA_ERROR_NOT_READY)
        return cuda_error(d, "cuEventQuery", r);
    bool captured = false;
    quern_status status = cuda_captures(base, stream, &captured);
    if (status)
        return status;
    TRY(d, cuStreamWaitEvent, stream, mark, captured ? CU_EVENT_WAIT_EXTERNAL : 0);
    return QUERN_OK;
}
