// bench_cuda.c: a plan and pointers to what a run costs on a GPU, next to a copy of as many bytes
// and an empty kernel.

#include "runtime/cuda.h"
#include <stdlib.h>

enum { SAMPLES = MAX_SAMPLES, ROUNDS = SAMPLES / 2 };
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

struct rivals {
    struct contest contest;
    struct runs runs;   // ours
    CUdeviceptr copies; // areas, each read in one half and written in the other
    int n_copies, copy_turn;
    size_t half;
    CUmodule module; // NULL: no kernels to compare with
    CUfunction empty, copy;
};

// ---- contenders: each launches once, on the stream ----

static CUdeviceptr next_copy(struct rivals *c)
{
    return c->copies + 2 * c->half * (size_t)(c->copy_turn++ % c->n_copies);
}

static quern_status copy_next(void *state, quern_stream stream)
{
    struct rivals *c = state;
    CUdeviceptr from = next_copy(c);
    TRY(c->contest.d, cuMemcpyDtoDAsync, from + c->half, from, c->half, stream);
    return QUERN_OK;
}

static quern_status launch_yardstick(struct rivals *c, CUfunction function, unsigned blocks,
                                     unsigned threads, void **parameters, quern_stream stream)
{
    CUlaunchConfig config = {.gridDimX = blocks,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = threads,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream};
    TRY(c->contest.d, cuLaunchKernelEx, &config, function, parameters, NULL);
    return QUERN_OK;
}

// The driver's copy is a third slower at some sizes than at their neighbours, so it has a rival.
static quern_status copy_by_kernel(void *state, quern_stream stream)
{
    struct rivals *c = state;
    CUdeviceptr from = next_copy(c), to = from + c->half;
    unsigned long long vectors = c->half / 16, per_block = COPY_THREADS * COPY_UNROLL;
    void *parameters[] = {&to, &from, &vectors};
    unsigned blocks = (unsigned)((vectors + per_block - 1) / per_block);
    return launch_yardstick(c, c->copy, blocks, COPY_THREADS, parameters, stream);
}

static quern_status launch_empty(void *state, quern_stream stream)
{
    struct rivals *c = state;
    unsigned blocks = (unsigned)c->contest.d->base.target.n_sms;
    return launch_yardstick(c, c->empty, blocks, EMPTY_THREADS, NULL, stream);
}

// Without room for it there is no copy to compare with.
static void make_copies(struct rivals *c)
{
    struct cuda *d = c->contest.d;
    c->half = (size_t)(c->contest.bench->bytes / 2 / 16) * 16; // as aligned as arguments are
    c->n_copies = areas(&c->contest, 2 * (double)c->half);
    size_t bytes = 2 * c->half * (size_t)c->n_copies;
    if (!c->half || d->cu.cuMemAlloc(&c->copies, bytes))
        c->copies = 0;
    else
        d->cu.cuMemsetD8Async(c->copies, 0x3C, bytes, c->contest.timer.stream);
}

static quern_status make_yardsticks(struct rivals *c)
{
    struct cuda *d = c->contest.d;
    const quern_plan *plan = c->contest.bench->plan;
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

static quern_status compare_replays(struct rivals *c, quern_costs *out)
{
    quern_timing by_kernel = {0}, *results[5] = {&out->replay, &out->warm};
    struct contender all[5] = {
        {.work = {run_next, &c->runs}, .n_turns = c->contest.n_sets},
        {.work = {run_same, &c->runs}, .n_turns = 1                }
    };
    int n = 2;
    if (c->copies) {
        results[n] = &out->copy;
        all[n++] = (struct contender){
            .work = {copy_next, c},
              .n_turns = c->n_copies
        };
    }
    if (c->copies && c->copy) {
        results[n] = &by_kernel;
        all[n++] = (struct contender){
            .work = {copy_by_kernel, c},
              .n_turns = c->n_copies
        };
    }
    if (c->empty) {
        results[n] = &out->empty_replay;
        all[n++] = (struct contender){
            .work = {launch_empty, c},
              .n_turns = 1
        };
    }
    quern_status status = compare(&c->contest, all, n, ROUNDS);
    for (int i = 0; i < n && !status; i++)
        timing_of(all[i].us, SAMPLES, results[i]);
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
static quern_status sample_calls(struct rivals *c, struct caller *one, int i)
{
    quern_status status = QUERN_OK;
    double begun = now_ms();
    for (int k = 0; k < one->n_calls && !status; k++)
        status = one->work.run(one->work.state, c->contest.timer.stream);
    double returned = now_ms();
    if (status)
        return status;
    TRY(c->contest.d, cuStreamSynchronize, c->contest.timer.stream);
    one->call_us[i] = 1e3 * (now_ms() - begun) / one->n_calls;
    one->host_us[i] = 1e3 * (returned - begun) / one->n_calls;
    return QUERN_OK;
}

static quern_status compare_calls(struct rivals *c, quern_costs *out)
{
    int most = MAX_CALLS / out->n_launches + 1, n = (int)(calls_us / out->warm.median_us) + 1;
    struct caller ours =
                      {
                          .work = {run_same, &c->runs},
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

static quern_status hold(struct rivals *c, quern_costs *out)
{
    quern_status status = make_yardsticks(c);
    if (status)
        return status;
    make_copies(c);
    out->n_sets = c->contest.n_sets;
    status = compare_replays(c, out);
    return status ? status : compare_calls(c, out);
}

quern_status cuda_bench(struct device *base, const struct bench *b, quern_costs *out)
{
    struct cuda *d = (struct cuda *)base;
    struct rivals c = {
        .runs = {.contest = &c.contest, .plan = b->plan}
    };
    CUstreamCaptureMode mode;
    quern_status status = cuda_begin(d, &mode);
    if (status)
        return status;
    status = contest_open(&c.contest, d, b);
    if (!status)
        status = hold(&c, out);
    contest_close(&c.contest);
    if (c.copies)
        d->cu.cuMemFree(c.copies);
    if (c.module)
        d->cu.cuModuleUnload(c.module);
    cuda_end(d, mode);
    return status;
}
