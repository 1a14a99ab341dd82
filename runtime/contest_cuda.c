// contest_cuda.c: what launches to how long the GPU takes for it, several of them in turns.
//
// What is compared is measured A B B A, so that a clock that drifts meets both alike.  Runs whose
// data is to come from memory take sets of arguments in turns, enough of them that a set has left
// the L2 cache before it comes up again.

#include "runtime/cuda.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_SETS = 1024, ALIGNMENT = 256 };

// Arguments of a run.
struct set {
    CUdeviceptr memory; // 0: they are the caller's
    void **buffers;     // as plan->buffers
    void **given;       // as quern_execute takes them
};

static size_t padded(int64_t bytes)
{
    return ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int areas(const struct contest *c, double bytes)
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

// Weights and what is kept of them move with a set, and count as unchanged.  Plans of one program
// have the same buffers in front, and only those are touched.
static void use_set(const struct contest *c, quern_plan *plan, const struct set *s)
{
    pthread_mutex_lock(&plan->lock);
    int n = c->bench->plan->program.n_buffers;
    for (int i = 0; i < n && i < plan->program.n_buffers; i++)
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

// ---- runs ----

quern_status run_same(void *state, quern_stream stream)
{
    const struct runs *r = state;
    const struct set *s = &r->contest->sets[0];
    return quern_execute(r->plan, s->given, r->contest->bench->n_given, stream);
}

quern_status run_next(void *state, quern_stream stream)
{
    struct runs *r = state;
    const struct contest *c = r->contest;
    const struct set *s = &c->sets[r->turn++ % c->n_sets];
    use_set(c, r->plan, s);
    quern_status status = quern_execute(r->plan, s->given, c->bench->n_given, stream);
    use_set(c, r->plan, &c->sets[0]);
    return status;
}

// ---- replays ----

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

quern_status compare(struct contest *c, struct contender *all, int n, int n_rounds)
{
    quern_status status = QUERN_OK;
    for (int i = 0; i < n && !status; i++)
        status = enter_contest(c, &all[i]);
    for (int i = 0; i < n_rounds * 2 * n && !status; i++) {
        int k = i % (2 * n);
        status = sample(c, &all[k < n ? k : 2 * n - 1 - k]);
    }
    for (int i = 0; i < n; i++)
        if (all[i].graph)
            c->d->cu.cuGraphExecDestroy(all[i].graph);
    return status;
}

quern_status contest_open(struct contest *c, struct cuda *d, const struct bench *b)
{
    *c = (struct contest){.d = d, .bench = b};
    quern_status status = timer_open(d, &c->timer);
    return status ? status : make_sets(c);
}

void contest_close(struct contest *c)
{
    timer_close(&c->timer);
    free_sets(c);
}

// ---- plans against each other ----

static quern_status race(struct contest *c, quern_plan *const *plans, int n_plans, int n_rounds,
                         double *us)
{
    struct runs *runs = calloc((size_t)n_plans, sizeof *runs);
    struct contender *all = calloc((size_t)n_plans, sizeof *all);
    quern_status status =
        runs && all ? QUERN_OK : report(c->d->base.q, QUERN_MEMORY, "out of memory");
    for (int i = 0; i < n_plans && !status; i++) {
        runs[i] = (struct runs){.contest = c, .plan = plans[i]};
        all[i] = (struct contender){
            .work = {run_next, &runs[i]},
              .n_turns = c->n_sets
        };
    }
    if (!status)
        status = compare(c, all, n_plans, n_rounds);
    for (int i = 0; i < n_plans && !status; i++)
        memcpy(us + i * 2 * n_rounds, all[i].us, sizeof *us * (size_t)(2 * n_rounds));
    free(runs);
    free(all);
    return status;
}

quern_status cuda_race(struct device *base, const struct bench *b, quern_plan *const *plans,
                       int n_plans, int n_rounds, double *us)
{
    struct cuda *d = (struct cuda *)base;
    struct contest c;
    CUstreamCaptureMode mode;
    quern_status status = cuda_begin(d, &mode);
    if (status)
        return status;
    status = contest_open(&c, d, b);
    if (!status)
        status = race(&c, plans, n_plans, n_rounds, us);
    contest_close(&c);
    cuda_end(d, mode);
    return status;
}
