// cuda.h: what the files of the cuda device share
#pragma once
#include "runtime/driver.h"
#include "runtime/runtime.h"

struct cuda {
    struct device base;
    struct driver cu;
    CUdevice ordinal;
    CUcontext context;
    bool retained; // the context is the primary one, and held by us
    char name[256], arch[16], driver[16];
};

quern_status cuda_error(const struct cuda *d, const char *call, CUresult r);

#define TRY(d, f, ...)                                                                             \
    do {                                                                                           \
        CUresult r_ = (d)->cu.f(__VA_ARGS__);                                                      \
        if (r_)                                                                                    \
            return cuda_error((d), #f, r_);                                                        \
    } while (0)

// device_cuda.c: around calls that capturing would forbid
quern_status cuda_begin(struct cuda *d, CUstreamCaptureMode *mode);
void cuda_end(struct cuda *d, CUstreamCaptureMode mode);

// launch_cuda.c
quern_status cuda_load(struct device *base, quern_plan *plan);
void cuda_unload(struct device *base, quern_plan *plan);
quern_status cuda_launch(struct device *base, struct loaded *kernel, void **pointers,
                         quern_stream stream);

// order_cuda.c
quern_status cuda_mark_new(struct device *base, void **mark);
void cuda_mark_free(struct device *base, void *mark);
quern_status cuda_captures(struct device *base, quern_stream stream, bool *captured);
quern_status cuda_mark(struct device *base, void *mark, quern_stream stream);
quern_status cuda_await(struct device *base, void *mark, quern_stream stream, bool *past);

// time_cuda.c
struct work { // something that launches on a stream
    quern_status (*run)(void *state, quern_stream stream);
    void *state;
};

struct timer {
    struct cuda *d;
    CUstream stream; // its own
    CUevent start, stop;
};

quern_status timer_open(struct cuda *d, struct timer *t); // close it, whatever came of it
void timer_close(struct timer *t);
int runs_in_a_graph(double us); // of so many microseconds each
quern_status timer_capture(struct timer *t, struct work work, int n_runs, CUgraphExec *out);
quern_status timer_replay(struct timer *t, CUgraphExec graph, double *us);  // of a whole graph
quern_status timer_estimate(struct timer *t, struct work work, double *us); // of one run, roughly
quern_status cuda_time(struct device *base, quern_status (*run)(void *state, quern_stream stream),
                       void *state, quern_timing *out);

// contest_cuda.c
struct contest {
    struct cuda *d;
    const struct bench *bench;
    struct timer timer;
    struct set *sets; // of arguments
    int n_sets;
};

struct runs { // of a plan
    struct contest *contest;
    quern_plan *plan;
    int turn;
};

struct contender {
    struct work work;
    int n_turns; // a graph holds each of these at least once
    CUgraphExec graph;
    int n_runs, n_samples;
    double us[MAX_SAMPLES];
};

// Close it, whatever came of it.
quern_status contest_open(struct contest *c, struct cuda *d, const struct bench *b);
void contest_close(struct contest *c);
int areas(const struct contest *c, double bytes); // of so many bytes, to make three times the L2
// state: a struct runs.  One run on the first set; on the next one.
quern_status run_same(void *state, quern_stream stream);
quern_status run_next(void *state, quern_stream stream);
// Replays of all, in turns: fills us with 2 * n_rounds samples of each, in microseconds a run.
quern_status compare(struct contest *c, struct contender *all, int n, int n_rounds);
quern_status cuda_race(struct device *base, const struct bench *b, quern_plan *const *plans,
                       int n_plans, int n_rounds, double *us);

// bench_cuda.c
quern_status cuda_bench(struct device *base, const struct bench *b, quern_costs *out);
