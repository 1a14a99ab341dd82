// bench_cuda.c: a plan and pointers to what a run costs on a GPU, next to a copy of as many bytes
// and an empty kernel.
//
// What is compared is measured in turns, A B B A, so that a clock that drifts meets both alike.
// Runs whose data is to come from memory take sets of arguments in turns, enough of them that a set
// has left the L2 cache before it comes up again.

#include "runtime/cuda.h"
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 11, SAMPLES = 2 * ROUNDS, MAX_SETS = 1024, ALIGNMENT = 256 };
enum { EMPTY_THREADS = 128, COPY_THREADS = 256, COPY_UNROLL = 4, MAX_CALLS = 200 };

// What runs are compared with.  The copy moves 16 bytes at a time, COPY_UNROLL of them in flight.
static const char yardsticks[] =
    "extern \"C\" __global__ void quern_empty()\n{\n}\n"
    "extern \"C\" __global__ void quern_copy(uint4 *to, const uint4 *from, unsigned long long n)\n"
    "{\n"
    "    unsigned long long first = blockIdx.x * (4ull * blockDim.x) + threadIdx.x;\n"
    "    uint4 v[4];\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 4; i++)\n"
    "        if (first + i * blockDim.x < n)\n"
    "            v[i] = __ldcs(from + first + i * blockDim.x);\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 4; i++)\n"
    "        if (first + i * blockDim.x < n)\n"
    "            __stcs(to + first + i * blockDim.x, v[i]);\n"
    "}\n";

static const double calls_us = 5000; // about as long as one sample of calls should be

// Arguments of a run.
struct set {
    CUdeviceptr memory; // 0: they are the caller's
    void **buffers;     // as plan->buffers
    void **given;       // as quern_execute takes them
};

struct contest {
    struct cuda *d;
    const struct bench *bench;
    struct timer timer;
    struct set *sets;
    int n_sets, turn;
    CUdeviceptr copies; // areas, each read in one half and written in the other
    int n_copies, copy_turn;
    size_t half;
    CUmodule module; // NULL: no kernels to compare with
    CUfunction empty, copy;
};

static size_t padded(int64_t bytes)
{
    return ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// How many areas of so many bytes make three times the L2 cache.
static int areas(const struct contest *c, double bytes)
{
    double n = bytes > 0 ? 3 * (double)c->d->base.target.l2_bytes / bytes : 1;
    return n > MAX_SETS ? MAX_SETS : (int)n + 1;
}

// ---- sets ----

static bool list_given(const struct contest *c, struct set *s)
{
    const quern_plan *plan = c->bench->plan;
    s->given = calloc((size_t)c->bench->n_given + 1, sizeof *s->given);
    for (int i = 0, n = 0; s->given && i < plan->n_arguments; i++) {
        const struct argument *a = &plan->arguments[i];
        if (a->role != QUERN_WEIGHT)
            s->given[n++] = s->buffers[buffer_index(plan, a)];
    }
    return s->given != NULL;
}

// A set of the caller's pointers, its own where memory was made for it.
static quern_status fill_set(const struct contest *c, struct set *s)
{
    struct cuda *d = c->d;
    const struct program *p = &c->bench->plan->program;
    size_t at = 0;
    for (int i = 0; s->memory && i < p->n_buffers; i++) {
        if (!c->bench->touched[i])
            continue;
        CUdeviceptr from = (CUdeviceptr)(uintptr_t)s->buffers[i], to = s->memory + at;
        size_t bytes = (size_t)p->buffers[i].bytes;
        at += padded(p->buffers[i].bytes);
        if (bytes && p->buffers[i].kind != BUFFER_output)
            TRY(d, cuMemcpyDtoDAsync, to, from, bytes, c->timer.stream);
        s->buffers[i] = (void *)(uintptr_t)to;
    }
    return list_given(c, s) ? QUERN_OK : report(d->base.q, QUERN_MEMORY, "out of memory");
}

static quern_status make_set(const struct contest *c, struct set *s, size_t bytes, bool own)
{
    struct cuda *d = c->d;
    const quern_plan *plan = c->bench->plan;
    size_t n = (size_t)plan->program.n_buffers;
    s->buffers = calloc(n + 1, sizeof *s->buffers);
    if (!s->buffers)
        return report(d->base.q, QUERN_MEMORY, "out of memory");
    memcpy(s->buffers, plan->buffers, n * sizeof *s->buffers);
    if (own)
        TRY(d, cuMemAlloc, &s->memory, bytes);
    return fill_set(c, s);
}

static quern_status make_sets(struct contest *c)
{
    struct cuda *d = c->d;
    const struct program *p = &c->bench->plan->program;
    size_t bytes = 0;
    for (int i = 0; i < p->n_buffers; i++)
        bytes += c->bench->touched[i] ? padded(p->buffers[i].bytes) : 0;
    int n = areas(c, (double)bytes);
    c->sets = calloc((size_t)n, sizeof *c->sets);
    if (!c->sets)
        return report(d->base.q, QUERN_MEMORY, "out of memory");
    c->n_sets = n;
    for (int i = 0; i < n; i++) {
        quern_status status = make_set(c, &c->sets[i], bytes, i > 0);
        if (status)
            return status;
    }
    TRY(d, cuStreamSynchronize, c->timer.stream);
    return QUERN_OK;
}

// Weights and what is kept of them move with a set, and count as unchanged.
static void use_set(const struct contest *c, const struct set *s)
{
    quern_plan *plan = c->bench->plan;
    pthread_mutex_lock(&plan->lock);
    for (int i = 0; i < plan->program.n_buffers; i++)
        if (c->bench->touched[i])
            plan->buffers[i] = s->buffers[i];
    pthread_mutex_unlock(&plan->lock);
}

static void free_sets(struct contest *c)
{
    for (int i = 0; i < c->n_sets; i++) {
        struct set *s = &c->sets[i];
        if (s->memory)
            c->d->cu.cuMemFree(s->memory);
        free(s->buffers);
        free(s->given);
    }
    free(c->sets);
}

// ---- contenders: each launches once, on the stream ----

static quern_status run_set(struct contest *c, const struct set *s, quern_stream stream)
{
    return quern_execute(c->bench->plan, s->given, c->bench->n_given, stream);
}

static quern_status run_same(void *state, quern_stream stream)
{
    struct contest *c = state;
    return run_set(c, &c->sets[0], stream);
}

static quern_status run_next(void *state, quern_stream stream)
{
    struct contest *c = state;
    const struct set *s = &c->sets[c->turn++ % c->n_sets];
    use_set(c, s);
    quern_status status = run_set(c, s, stream);
    use_set(c, &c->sets[0]);
    return status;
}

static CUdeviceptr next_copy(struct contest *c)
{
    return c->copies + 2 * c->half * (size_t)(c->copy_turn++ % c->n_copies);
}

static quern_status copy_next(void *state, quern_stream stream)
{
    struct contest *c = state;
    CUdeviceptr from = next_copy(c);
    TRY(c->d, cuMemcpyDtoDAsync, from + c->half, from, c->half, stream);
    return QUERN_OK;
}

static quern_status launch_yardstick(struct contest *c, CUfunction function, unsigned blocks,
                                     unsigned threads, void **parameters, quern_stream stream)
{
    CUlaunchConfig config = {.gridDimX = blocks,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = threads,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream};
    TRY(c->d, cuLaunchKernelEx, &config, function, parameters, NULL);
    return QUERN_OK;
}

// The driver's copy is a third slower at some sizes than at their neighbours, so it has a rival.
static quern_status copy_by_kernel(void *state, quern_stream stream)
{
    struct contest *c = state;
    CUdeviceptr from = next_copy(c), to = from + c->half;
    unsigned long long vectors = c->half / 16, per_block = COPY_THREADS * COPY_UNROLL;
    void *parameters[] = {&to, &from, &vectors};
    unsigned blocks = (unsigned)((vectors + per_block - 1) / per_block);
    return launch_yardstick(c, c->copy, blocks, COPY_THREADS, parameters, stream);
}

static quern_status launch_empty(void *state, quern_stream stream)
{
    struct contest *c = state;
    unsigned blocks = (unsigned)c->d->base.target.n_sms;
    return launch_yardstick(c, c->empty, blocks, EMPTY_THREADS, NULL, stream);
}

// Without room for it there is no copy to compare with.
static void make_copies(struct contest *c)
{
    struct cuda *d = c->d;
    c->half = (size_t)(c->bench->bytes / 2 / 16) * 16; // as aligned as arguments are
    c->n_copies = areas(c, 2 * (double)c->half);
    size_t bytes = 2 * c->half * (size_t)c->n_copies;
    if (!c->half || d->cu.cuMemAlloc(&c->copies, bytes))
        c->copies = 0;
    else
        d->cu.cuMemsetD8Async(c->copies, 0x3C, bytes, c->timer.stream);
}

static quern_status make_yardsticks(struct contest *c)
{
    struct cuda *d = c->d;
    const quern_plan *plan = c->bench->plan;
    const struct kernel kernel = {.name = "quern_yardsticks", .source = yardsticks};
    const struct nvrtc *n = plan->q->offline ? NULL : find_nvrtc(plan->q);
    struct code code = {0};
    if (!n)
        return QUERN_OK;
    quern_status status = nvrtc_compile(plan->q, n, &kernel, &plan->options, &code);
    if (status)
        return status;
    CUresult r = d->cu.cuModuleLoadData(&c->module, code.bytes);
    free(code.bytes);
    if (!r)
        r = d->cu.cuModuleGetFunction(&c->empty, c->module, "quern_empty");
    if (!r)
        r = d->cu.cuModuleGetFunction(&c->copy, c->module, "quern_copy");
    return r ? cuda_error(d, "cuModuleLoadData", r) : QUERN_OK;
}

// ---- replays ----

struct contender {
    struct work work;
    int n_turns; // a graph holds each of these at least once
    CUgraphExec graph;
    int n_runs, n_samples;
    double us[SAMPLES];
    quern_timing *result;
};

static quern_status enter_contest(struct contest *c, struct contender *one)
{
    double us;
    quern_status status = timer_estimate(&c->timer, one->work, &us);
    if (status)
        return status;
    one->n_runs = (runs_in_a_graph(us) + one->n_turns - 1) / one->n_turns * one->n_turns;
    return timer_capture(&c->timer, one->work, one->n_runs, &one->graph);
}

static quern_status sample(struct contest *c, struct contender *one)
{
    double *us = &one->us[one->n_samples++];
    quern_status status = timer_replay(&c->timer, one->graph, us);
    *us /= one->n_runs;
    return status;
}

static quern_status compare_replays(struct contest *c, quern_costs *out)
{
    quern_timing by_kernel = {0};
    struct contender all[5] = {
        {.work = {run_next, c}, .n_turns = c->n_sets, .result = &out->replay},
        {.work = {run_same, c}, .n_turns = 1,         .result = &out->warm  }
    };
    int n = 2;
    if (c->copies)
        all[n++] = (struct contender){
            .work = {copy_next, c},
              .n_turns = c->n_copies, .result = &out->copy
        };
    if (c->copies && c->copy)
        all[n++] = (struct contender){
            .work = {copy_by_kernel, c},
              .n_turns = c->n_copies, .result = &by_kernel
        };
    if (c->empty)
        all[n++] = (struct contender){
            .work = {launch_empty, c},
              .n_turns = 1, .result = &out->empty_replay
        };
    quern_status status = QUERN_OK;
    for (int i = 0; i < n && !status; i++)
        status = enter_contest(c, &all[i]);
    for (int i = 0; i < ROUNDS * 2 * n && !status; i++) {
        int k = i % (2 * n);
        status = sample(c, &all[k < n ? k : 2 * n - 1 - k]);
    }
    for (int i = 0; i < n; i++) {
        if (!status)
            timing_of(all[i].us, SAMPLES, all[i].result);
        if (all[i].graph)
            c->d->cu.cuGraphExecDestroy(all[i].graph);
    }
    if (by_kernel.replays && by_kernel.median_us < out->copy.median_us)
        out->copy = by_kernel;
    return status;
}

// ---- calls ----

struct caller {
    struct work work;
    int n_calls;
    double call_us[SAMPLES], host_us[SAMPLES];
};

// So many calls that the GPU is never out of work, and so few that its queue is never full.
static quern_status sample_calls(struct contest *c, struct caller *one, int i)
{
    quern_status status = QUERN_OK;
    double begun = now_ms();
    for (int k = 0; k < one->n_calls && !status; k++)
        status = one->work.run(one->work.state, c->timer.stream);
    double returned = now_ms();
    if (status)
        return status;
    TRY(c->d, cuStreamSynchronize, c->timer.stream);
    one->call_us[i] = 1e3 * (now_ms() - begun) / one->n_calls;
    one->host_us[i] = 1e3 * (returned - begun) / one->n_calls;
    return QUERN_OK;
}

static quern_status compare_calls(struct contest *c, quern_costs *out)
{
    int most = MAX_CALLS / out->n_launches + 1, n = (int)(calls_us / out->warm.median_us) + 1;
    struct caller ours =
                      {
                          .work = {run_same, c},
                            .n_calls = n < most ? n : most
    },
                  theirs = {.work = {launch_empty, c}, .n_calls = MAX_CALLS};
    quern_status status = sample_calls(c, &ours, 0); // warm
    for (int i = 0; i < SAMPLES && !status; i++) {
        bool first = i % 2 == 0; // A B, then B A
        if (first)
            status = sample_calls(c, &ours, i);
        if (c->empty && !status)
            status = sample_calls(c, &theirs, i);
        if (!first && !status)
            status = sample_calls(c, &ours, i);
    }
    if (status)
        return status;
    timing_of(ours.call_us, SAMPLES, &out->call);
    timing_of(ours.host_us, SAMPLES, &out->host);
    if (c->empty) {
        timing_of(theirs.call_us, SAMPLES, &out->empty_call);
        timing_of(theirs.host_us, SAMPLES, &out->empty_host);
    }
    return QUERN_OK;
}

// ---- all of it ----

static quern_status hold(struct contest *c, quern_costs *out)
{
    quern_status status = timer_open(c->d, &c->timer);
    if (!status)
        status = make_sets(c);
    if (!status)
        status = make_yardsticks(c);
    if (status)
        return status;
    make_copies(c);
    out->n_sets = c->n_sets;
    status = compare_replays(c, out);
    return status ? status : compare_calls(c, out);
}

quern_status cuda_bench(struct device *base, const struct bench *b, quern_costs *out)
{
    struct cuda *d = (struct cuda *)base;
    struct contest c = {.d = d, .bench = b};
    CUstreamCaptureMode mode;
    quern_status status = cuda_begin(d, &mode);
    if (status)
        return status;
    status = hold(&c, out);
    timer_close(&c.timer);
    free_sets(&c);
    if (c.copies)
        d->cu.cuMemFree(c.copies);
    if (c.module)
        d->cu.cuModuleUnload(c.module);
    cuda_end(d, mode);
    return status;
}
