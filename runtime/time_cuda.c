// time_cuda.c: something that launches to how long the GPU takes for it.
//
// Several runs are captured in one graph, so that no host time is in the figure, and the graph is
// replayed between events on a stream of our own.

#include "runtime/cuda.h"
#include <stdlib.h>

enum { REPLAYS = 21, MAX_RUNS = 50 };
static const double graph_us = 500; // about as long as one replay should be

struct timer {
    struct cuda *d;
    CUstream stream;
    CUevent start, stop;
    quern_status (*run)(void *state, quern_stream stream);
    void *state;
};

static quern_status capture(struct timer *t, int n_runs, CUgraphExec *out)
{
    struct cuda *d = t->d;
    CUgraph graph = NULL;
    quern_status status = QUERN_OK;
    TRY(d, cuStreamBeginCapture, t->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i < n_runs && !status; i++)
        status = t->run(t->state, t->stream);
    CUresult r = d->cu.cuStreamEndCapture(t->stream, &graph);
    if (!status && r)
        status = cuda_error(d, "cuStreamEndCapture", r);
    if (!status && (r = d->cu.cuGraphInstantiateWithFlags(out, graph, 0)))
        status = cuda_error(d, "cuGraphInstantiate", r);
    if (graph)
        d->cu.cuGraphDestroy(graph);
    return status;
}

static quern_status replay(struct timer *t, CUgraphExec graph, double *us)
{
    float ms;
    TRY(t->d, cuEventRecord, t->start, t->stream);
    TRY(t->d, cuGraphLaunch, graph, t->stream);
    TRY(t->d, cuEventRecord, t->stop, t->stream);
    TRY(t->d, cuStreamSynchronize, t->stream);
    TRY(t->d, cuEventElapsedTime, &ms, t->start, t->stop);
    *us = 1e3 * (double)ms;
    return QUERN_OK;
}

static quern_status replays(struct timer *t, int n_runs, int n, double *us)
{
    CUgraphExec graph = NULL;
    quern_status status = capture(t, n_runs, &graph);
    for (int i = 0; i < n && !status; i++) {
        status = replay(t, graph, &us[i]);
        us[i] /= n_runs;
    }
    if (graph)
        t->d->cu.cuGraphExecDestroy(graph);
    return status;
}

static quern_status measure(struct timer *t, quern_timing *out)
{
    double us[REPLAYS] = {0};
    quern_status status = t->run(t->state, t->stream); // prepares weights: no part of a run
    if (status)
        return status;
    TRY(t->d, cuStreamSynchronize, t->stream);
    status = replays(t, 1, 3, us); // warm, and to see how long one takes
    if (status)
        return status;
    int n_runs = us[2] > 0 && graph_us / us[2] < MAX_RUNS ? (int)(graph_us / us[2]) + 1 : MAX_RUNS;
    status = replays(t, n_runs, REPLAYS, us);
    if (!status)
        timing_of(us, REPLAYS, out);
    return status;
}

quern_status cuda_time(struct device *base, quern_status (*run)(void *state, quern_stream stream),
                       void *state, quern_timing *out)
{
    struct timer t = {.d = (struct cuda *)base, .run = run, .state = state};
    struct driver *cu = &t.d->cu;
    CUstreamCaptureMode mode;
    quern_status status = cuda_begin(t.d, &mode);
    if (status)
        return status;
    CUresult r = cu->cuStreamCreate(&t.stream, CU_STREAM_NON_BLOCKING);
    if (!r)
        r = cu->cuEventCreate(&t.start, CU_EVENT_DEFAULT);
    if (!r)
        r = cu->cuEventCreate(&t.stop, CU_EVENT_DEFAULT);
    status = r ? cuda_error(t.d, "cuStreamCreate", r) : measure(&t, out);
    if (t.start)
        cu->cuEventDestroy(t.start);
    if (t.stop)
        cu->cuEventDestroy(t.stop);
    if (t.stream)
        cu->cuStreamDestroy(t.stream);
    cuda_end(t.d, mode);
    return status;
}
