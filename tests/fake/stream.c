// stream.c: streams, graphs and events.  Whatever is asked for is over at once.

#include "tests/fake/fake.h"
#include <stdlib.h>

struct CUstream_st {
    bool capturing;
};

struct CUevent_st {
    bool recorded;
};

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    BEGIN_IN_CONTEXT("cuStreamCreate");
    *stream = calloc(1, sizeof **stream);
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamDestroy(CUstream stream)
{
    free(stream);
    BEGIN_IN_CONTEXT("cuStreamDestroy");
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    BEGIN_IN_CONTEXT("cuStreamSynchronize");
    if (!stream)
        arrive();
    return stream && stream->capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    BEGIN_IN_CONTEXT("cuStreamWaitEvent");
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    BEGIN_IN_CONTEXT("cuStreamIsCapturing");
    *status = stream && stream->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                          : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    (void)mode;
    BEGIN_IN_CONTEXT("cuStreamBeginCapture");
    stream->capturing = true;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    stream->capturing = false;
    *graph = NULL;
    BEGIN_IN_CONTEXT("cuStreamEndCapture");
    *graph = malloc(1);
    return *graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)graph, (void)flags;
    BEGIN_IN_CONTEXT("cuGraphInstantiateWithFlags");
    *exec = malloc(1);
    return *exec ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    (void)exec, (void)stream;
    BEGIN_IN_CONTEXT("cuGraphLaunch");
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    free(exec);
    BEGIN_IN_CONTEXT("cuGraphExecDestroy");
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    free(graph);
    BEGIN_IN_CONTEXT("cuGraphDestroy");
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    BEGIN_IN_CONTEXT("cuEventCreate");
    *event = calloc(1, sizeof **event);
    return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)stream;
    BEGIN_IN_CONTEXT("cuEventRecord");
    event->recorded = true;
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    (void)event;
    BEGIN_IN_CONTEXT("cuEventQuery");
    return CUDA_SUCCESS;
}

#if OLD
#undef cuEventElapsedTime // which cuda.h has as cuEventElapsedTime_v2
__attribute__((visibility("default"))) CUresult cuEventElapsedTime(float *, CUevent, CUevent);
#endif

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent stop)
{
    BEGIN_IN_CONTEXT("cuEventElapsedTime");
    *ms = 0.5f;
    return start->recorded && stop->recorded ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventDestroy(CUevent event)
{
    free(event);
    BEGIN_IN_CONTEXT("cuEventDestroy");
    return CUDA_SUCCESS;
}
