// host_steps.c: what a running thread asks of the others: its block's barrier, a step of its warp,
// the group's barrier, another block's shared memory; and the sentence for what cannot go on.

#include "runtime/host_run.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void fail_run(struct run *r, bool names_thread, const char *format, ...)
{
    if (r->failed)
        return;
    r->failed = true;
    size_t bytes;
    FILE *out = open_memstream(&r->failure, &bytes);
    if (!out)
        return;
    struct host_index b = r->frame.block, t = r->frame.thread;
    fprintf(out, "kernel %s, block (%u,%u,%u)", r->launch->kernel->name, b.x, b.y, b.z);
    if (names_thread)
        fprintf(out, ", thread (%u,%u,%u)", t.x, t.y, t.z);
    fputs(": ", out);
    va_list values;
    va_start(values, format);
    vfprintf(out, format, values);
    va_end(values);
    fclose(out);
}

void wait_turn(struct run *r)
{
    fiber_suspend(r->threads[r->running].fiber);
}

static void frame_fail(struct host_frame *frame, const char *why)
{
    struct run *r = (struct run *)frame;
    fail_run(r, true, "%s", why);
    wait_turn(r);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || !strcmp(a, b);
}

static bool same_place(const struct host_place *a, const struct host_place *b)
{
    return a->line == b->line && same_text(a->file, b->file) && same_text(a->what, b->what);
}

struct block *block_of(struct run *r, int thread)
{
    return &r->blocks[thread / r->n_threads];
}

void show(struct run *r, int thread)
{
    struct block *b = block_of(r, thread);
    r->frame.thread = r->threads[thread].index;
    r->frame.block = b->index;
    r->frame.rank = (unsigned)(thread / r->n_threads);
    r->frame.shared = b->shared;
}

static void frame_barrier(struct host_frame *frame, const struct host_place *at)
{
    struct run *r = (struct run *)frame;
    struct block *b = block_of(r, r->running);
    struct thread *threads = r->threads + (b - r->blocks) * r->n_threads;
    r->threads[r->running].at = *at;
    r->threads[r->running].state = THREAD_at_barrier;
    if (++b->n_at_barrier < r->n_threads) {
        wait_turn(r);
        return;
    }
    for (int i = 0; i < r->n_threads; i++)
        if (!same_place(&threads[i].at, at)) {
            struct host_place *other = &threads[i].at;
            fail_run(r, false, "threads wait at different barriers: %s at %s:%d and at %s:%d",
                     at->what, other->file, other->line, at->file, at->line);
            wait_turn(r);
        }
    b->n_at_barrier = 0;
    for (int i = 0; i < r->n_threads; i++)
        threads[i].state = THREAD_ready;
}

static void frame_arrive(struct host_frame *frame, const struct host_place *at)
{
    struct run *r = (struct run *)frame;
    struct thread *t = &r->threads[r->running];
    if (t->arrived) {
        fail_run(r, true, "%s at %s:%d: arrives twice without waiting", at->what, at->file,
                 at->line);
        wait_turn(r);
    }
    t->arrived = true;
    t->awaiting = r->phase;
    if (++r->n_arrived < r->n_all)
        return;
    r->n_arrived = 0;
    r->phase++;
    for (int i = 0; i < r->n_all; i++)
        if (r->threads[i].state == THREAD_awaits_group)
            r->threads[i].state = THREAD_ready;
}

static void frame_await(struct host_frame *frame, const struct host_place *at)
{
    struct run *r = (struct run *)frame;
    struct thread *t = &r->threads[r->running];
    if (!t->arrived) {
        fail_run(r, true, "%s at %s:%d: waits without having arrived", at->what, at->file,
                 at->line);
        wait_turn(r);
    }
    t->at = *at;
    if (t->awaiting == r->phase) {
        t->state = THREAD_awaits_group;
        wait_turn(r);
    }
    t->arrived = false;
}

static void frame_yield(struct host_frame *frame, const struct host_place *at)
{
    struct run *r = (struct run *)frame;
    struct thread *t = &r->threads[r->running];
    t->at = *at;
    t->state = THREAD_yields;
    wait_turn(r);
}

// Shared memory is there from a block's beginning to its end.
static void *frame_remote(struct host_frame *frame, void *own, unsigned bytes, unsigned rank)
{
    struct run *r = (struct run *)frame;
    uintptr_t offset = (uintptr_t)own - (uintptr_t)frame->shared;
    const struct block *b = rank < (unsigned)r->n_blocks ? &r->blocks[rank] : NULL;
    const char *wrong = NULL;
    if (!b)
        wrong = "the cluster has no such block";
    else if (offset + bytes > r->launch->kernel->shared_bytes)
        wrong = "the address is not in shared memory";
    else if (!b->begun)
        wrong = "the block may not have begun";
    else if (b->n_ended == r->n_threads)
        wrong = "the block has ended";
    if (wrong) {
        fail_run(r, true, "shared memory of block %u of the cluster: %s", rank, wrong);
        wait_turn(r);
    }
    return b->shared + offset;
}

static int first_of_warp(const struct run *r, int thread)
{
    return thread - thread % r->n_threads % WARP;
}

// Lanes of the running thread's warp that wait for the same step.
static unsigned lanes_arrived(const struct run *r, int first, unsigned mask,
                              const struct host_place *at)
{
    unsigned lanes = 0;
    for (int i = 0; i < WARP && first % r->n_threads + i < r->n_threads; i++) {
        const struct thread *t = &r->threads[first + i];
        if (t->state == THREAD_in_exchange && t->step->mask == mask && same_place(&t->at, at))
            lanes |= 1u << i;
    }
    return lanes;
}

// A full mask may name lanes that the block has not.
static unsigned lanes_of_warp(const struct run *r, int first)
{
    int n = r->n_threads - first % r->n_threads;
    return n >= WARP ? 0xffffffffu : (1u << n) - 1;
}

static void deliver(struct run *r, struct thread *warp, unsigned lanes)
{
    enum { MOST_GATHERED = 64 };
    char all[WARP * MOST_GATHERED];
    unsigned votes = 0;
    for (unsigned i = 0; i < WARP; i++)
        if (lanes >> i & 1 && *(const unsigned char *)warp[i].step->value)
            votes |= 1u << i;
    for (unsigned i = 0; i < WARP; i++) {
        if (!(lanes >> i & 1))
            continue;
        struct host_exchange *step = warp[i].step;
        if (step->source == HOST_LANES && lanes == 0xffffffff && step->bytes <= MOST_GATHERED) {
            if (i == 0)
                for (unsigned j = 0; j < WARP; j++)
                    memcpy(all + j * step->bytes, warp[j].step->value, step->bytes);
            memcpy(step->result, all, WARP * step->bytes);
            step->votes = votes;
            continue;
        }
        if (!(lanes >> (step->source & 31) & 1) || step->source >= WARP) {
            fail_run(r, false,
                     "%s at %s:%d: lane %u reads from lane %u, which does not take part (lanes "
                     "0x%08x do)",
                     warp[i].at.what, warp[i].at.file, warp[i].at.line, i, step->source, lanes);
            return;
        }
        memcpy(step->result, warp[step->source].step->value, step->bytes);
        step->votes = votes;
    }
    for (unsigned i = 0; i < WARP; i++)
        if (lanes >> i & 1)
            warp[i].state = THREAD_ready, warp->n_in_exchange--;
}

static void frame_exchange(struct host_frame *frame, const struct host_place *at,
                           struct host_exchange *step)
{
    struct run *r = (struct run *)frame;
    struct thread *t = &r->threads[r->running];
    int first = first_of_warp(r, r->running);
    if (!(step->mask >> (r->running - first) & 1)) {
        fail_run(r, true, "%s at %s:%d: mask 0x%08x lacks the calling lane", at->what, at->file,
                 at->line, step->mask);
        wait_turn(r);
    }
    t->at = *at;
    t->step = step;
    t->state = THREAD_in_exchange;
    unsigned lanes = step->mask & lanes_of_warp(r, first);
    if (++r->threads[first].n_in_exchange >= __builtin_popcount(lanes) &&
        lanes_arrived(r, first, step->mask, at) == lanes)
        deliver(r, &r->threads[first], lanes);
    if (t->state != THREAD_ready)
        wait_turn(r);
}

int count_state(const struct run *r, int first, int n, enum thread_state state)
{
    int count = 0;
    for (int i = first; i < first + n; i++)
        count += r->threads[i].state == state;
    return count;
}

static int first_in(const struct run *r, enum thread_state state)
{
    int i = 0;
    while (i < r->n_all && r->threads[i].state != state)
        i++;
    return i;
}

// All that still run wait for the group: one that has ended is missing, or has not arrived again.
static void report_group(struct run *r)
{
    int waits = first_in(r, THREAD_awaits_group), missing = first_in(r, THREAD_ended);
    const struct thread *t = &r->threads[waits];
    show(r, missing);
    fail_run(r, true, "ended, and %s at %s:%d waits for it: %d of %d threads of %d blocks arrived",
             t->at.what, t->at.file, t->at.line, r->n_arrived, r->n_all, r->n_blocks);
}

// Some go on looking for what no one does.
static void report_yielding(struct run *r, int waits)
{
    const struct thread *t = &r->threads[waits];
    show(r, waits);
    fail_run(r, true, "%s at %s:%d waits for what no other thread does: %d of %d threads ended",
             t->at.what, t->at.file, t->at.line, count_state(r, 0, r->n_all, THREAD_ended),
             r->n_all);
}

void report_deadlock(struct run *r)
{
    int yields = first_in(r, THREAD_yields), i = 0;
    if (yields < r->n_all) {
        report_yielding(r, yields);
        return;
    }
    while (i < r->n_all && r->threads[i].state != THREAD_at_barrier &&
           r->threads[i].state != THREAD_in_exchange)
        i++;
    if (i == r->n_all) {
        report_group(r);
        return;
    }
    const struct block *b = block_of(r, i);
    struct thread *t = &r->threads[i];
    int begin = i / r->n_threads * r->n_threads;
    int n_group = count_state(r, begin, r->n_threads, THREAD_awaits_group);
    int n_warp = count_state(r, begin, r->n_threads, THREAD_in_exchange);
    char others[64] = "";
    if (n_group)
        snprintf(others, sizeof others, ", %d wait for other blocks", n_group);
    show(r, i);
    if (t->state == THREAD_at_barrier) {
        fail_run(r, false,
                 "%s at %s:%d: %d of %d threads arrived, %d ended, %d wait for their warp%s",
                 t->at.what, t->at.file, t->at.line, b->n_at_barrier, r->n_threads, b->n_ended,
                 n_warp, others);
        return;
    }
    int first = first_of_warp(r, i);
    fail_run(r, false,
             "%s at %s:%d: of lanes 0x%08x of warp %d only 0x%08x arrived; %d threads ended, %d "
             "wait at a barrier%s",
             t->at.what, t->at.file, t->at.line, t->step->mask & lanes_of_warp(r, first),
             (i - begin) / WARP, lanes_arrived(r, first, t->step->mask, &t->at), b->n_ended,
             b->n_at_barrier, others);
}

void set_frame_calls(struct host_frame *frame)
{
    frame->barrier = frame_barrier;
    frame->exchange = frame_exchange;
    frame->arrive = frame_arrive;
    frame->await = frame_await;
    frame->yield = frame_yield;
    frame->remote = frame_remote;
    frame->fail = frame_fail;
}
