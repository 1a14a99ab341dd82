// time_cuda.c: something that launches to how long the GPU takes for it.
//
// Several runs are captured in one graph, so that no host time is in the figure.  The graph is
// launched twice and the second launch is timed: it waits in the stream while the first one runs,
// so that the host's time to launch it is not in the figure either.

#include "runtime/cuda.h"
#include <stdlib.h>

enum { REPLAYS = 21, MAX_RUNS = 200 };
static const double graph_us = 1000; // about as long as one replay should be

int runs_in_a_graph(double us)
{
    return us > 0 && graph_us / us < MAX_RUNS ? (int)(graph_us / us) + 1 : MAX_RUNS;
}

quern_status timer_open(struct cuda *d, struct timer *t)
{
    *t = (struct timer){.d = d};
    TRY(d, cuStreamCreate, &t->stream, CU_STREAM_NON_BLOCKING);
    TRY(d, cuEventCreate, &t->start, CU_EVENT_DEFAULT);
    TRY(d, cuEventCreate, &t->stop, CU_EVENT_DEFAULT);
    return QUERN_OK;
}

void timer_close(struct timer *t)
{
    struct driver *cu = &t->d->cu;
    if (t->start)
        cu->cuEventDestroy(t->start);
    if (t->stop)
        cu->cuEventDestroy(t->stop);
    if (t->stream)
        cu->cuStreamDestroy(t->stream);
}

quern_status timer_capture(struct timer *t, struct work work, int n_runs, CUgraphExec *out)
{
    struct cuda *d = t->d;
    CUgraph graph = NULL;
    quern_status status = QUERN_OK;
    TRY(d, cuStreamBeginCapture, t->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i < n_runs && !status; i++)
        status = work.run(work.state, t->stream);
    CUresult r = d->cu.cuStreamEndCapture(t->stream, &graph);
    if (!status && r)
        status = cuda_error(d, "cuStreamEndCapture", r);
    if (!status && (r = d->cu.cuGraphInstantiateWithFlags(out, graph, 0)))
        status = cuda_error(d, "cuGraphInstantiate", r);
    if (graph)
        d->cu.cuGraphDestroy(graph);
    return status;
}

quern_status timer_replay(struct timer *t, CUgraphExec graph, double *us)
{
    float ms;
    TRY(t->d, cuGraphLaunch, graph, t->stream);
    TRY(t->d, cuEventRecord, t->start, t->stream);
    TRY(t->d, cuGraphLaunch, graph, t->stream);
    TRY(t->d, cuEventRecord, t->stop, t->stream);
    TRY(t->d, cuStreamSynchronize, t->stream);
    TRY(t->d, cuEventElapsedTime, &ms, t->start, t->stop);
    *us = 1e3 * (double)ms;
    return QUERN_OK;
}

static quern_status replays(struct timer *t, struct work work, int n_runs, int n, double *us)
{
    CUgraphExec graph = NULL;
    quern_status status = timer_capture(t, work, n_runs, &graph);
    for (int i = 0; i < n && !status; i++) {
        status = timer_replay(t, graph, &us[i]);
        us[i] /= n_runs;
    }
    if (graph)
        t->d->cu.cuGraphExecDestroy(graph);
    return status;
}

quern_status timer_estimate(struct timer *t, struct work work, double *us)
{
    double readings[3] = {0};
    quern_status status = work.run(work.state, t->stream); // prepares weights: no part of a run
    if (!status)
        TRY(t->d, cuStreamSynchronize, t->stream);
    if (!status)
        status = replays(t, work, 1, 3, readings);
    *us = readings[2];
    return status;
}

static quern_status measure(struct timer *t, struct work work, quern_timing *out)
{
    double us[REPLAYS] = {0};
    quern_status status = timer_estimate(t, work, us);
    if (!status)
        status = replays(t, work, runs_in_a_graph(us[0]), REPLAYS, us);
    if (!status)
        timing_of(us, REPLAYS, out);
    return status;
}

quern_status cuda_time(struct device *base, quern_status (*run)(void *state, quern_stream stream),
                       void *state, quern_timing *out)
{
    struct cuda *d = (struct cuda *)base;
    struct timer t;
    CUstreamCaptureMode mode;
    quern_status status = cuda_begin(d, &mode);
    if (status)
        return status;
    status = timer_open(d, &t);
    if (!status)
        status = measure(&t, (struct work){run, state}, out);
    timer_close(&t);
    cuda_end(d, mode);
    return status;
}
