// host_launch.c: a kernel compiled for the host, and its pointers, to the kernel's effects on
// memory, or to a sentence.
//
// Blocks run one after another, in grid order.  A block's threads take turns: each runs until it
// ends or waits at a barrier or for its warp.  The last to arrive completes the step and lets the
// others go on.  A turn in which nobody could move while somebody waits is a deadlock.  A thread
// that never waits gives its fiber to the next.

#include "gen/gen.h"
#include "runtime/host.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum thread_state { THREAD_ready, THREAD_at_barrier, THREAD_in_exchange, THREAD_ended };

enum { WARP = 32, MAX_THREADS = 1024 };

struct thread {
    enum thread_state state;
    struct fiber *fiber; // NULL before its first turn
    struct host_index index;
    struct host_place at; // where it waits
    struct host_exchange *step;
};

struct run {
    struct host_frame frame; // first: the frame's calls find the run by it
    const struct host_launch *launch;
    struct thread *threads;
    int n_threads, running, n_at_barrier, n_ended;
    struct fiber *idle[MAX_THREADS];
    int n_idle;
    char *failure; // why the launch stops
    bool failed, out_of_memory;
};

// "kernel NAME, block (0,0,0)[, thread (3,0,0)]: ...".  The first failure counts.
static void fail_run(struct run *r, bool names_thread, const char *format, ...)
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

// Ends the running thread's turn.  After a failure there is no next one.
static void wait_turn(struct run *r)
{
    fiber_suspend(r->threads[r->running].fiber);
}

static void frame_fail(struct host_frame *frame, const char *why)
{
    struct run *r = (struct run *)frame;
    fail_run(r, true, "%s", why);
    wait_turn(r);
}

static bool same_place(const struct host_place *a, const struct host_place *b)
{
    return a->line == b->line && !strcmp(a->file, b->file) && !strcmp(a->what, b->what);
}

static void frame_barrier(struct host_frame *frame, const struct host_place *at)
{
    struct run *r = (struct run *)frame;
    r->threads[r->running].at = *at;
    r->threads[r->running].state = THREAD_at_barrier;
    if (++r->n_at_barrier < r->n_threads) {
        wait_turn(r);
        return;
    }
    for (int i = 0; i < r->n_threads; i++)
        if (!same_place(&r->threads[i].at, at)) {
            struct host_place *other = &r->threads[i].at;
            fail_run(r, false, "threads wait at different barriers: %s at %s:%d and at %s:%d",
                     at->what, other->file, other->line, at->file, at->line);
            wait_turn(r);
        }
    r->n_at_barrier = 0;
    for (int i = 0; i < r->n_threads; i++)
        r->threads[i].state = THREAD_ready;
}

// Lanes of the running thread's warp that wait for the same step.
static unsigned lanes_arrived(const struct run *r, int first, unsigned mask,
                              const struct host_place *at)
{
    unsigned lanes = 0;
    for (int i = 0; i < WARP && first + i < r->n_threads; i++) {
        const struct thread *t = &r->threads[first + i];
        if (t->state == THREAD_in_exchange && t->step->mask == mask && same_place(&t->at, at))
            lanes |= 1u << i;
    }
    return lanes;
}

// A full mask may name lanes that the block has not.
static unsigned lanes_of_warp(const struct run *r, int first)
{
    return r->n_threads - first >= WARP ? 0xffffffffu : (1u << (r->n_threads - first)) - 1;
}

static void deliver(struct run *r, struct thread *warp, unsigned lanes)
{
    unsigned votes = 0;
    for (unsigned i = 0; i < WARP; i++)
        if (lanes >> i & 1 && *(const unsigned char *)warp[i].step->value)
            votes |= 1u << i;
    for (unsigned i = 0; i < WARP; i++) {
        if (!(lanes >> i & 1))
            continue;
        struct host_exchange *step = warp[i].step;
        if (!(lanes >> (step->source & 31) & 1) || step->source >= WARP) {
            fail_run(r, false,
                     "%s at %s:%d: lane %u reads from lane %u, which does not take part (lanes "
                     "0x%08x do)",
                     warp[i].at.what, warp[i].at.file, warp[i].at.line, i, step->source, lanes);
            return;
        }
        memcpy(step->result, warp[step->source].step->value, step->bytes);
        step->votes = votes;
        warp[i].state = THREAD_ready;
    }
}

static void frame_exchange(struct host_frame *frame, const struct host_place *at,
                           struct host_exchange *step)
{
    struct run *r = (struct run *)frame;
    struct thread *t = &r->threads[r->running];
    int first = r->running / WARP * WARP;
    if (!(step->mask >> (r->running - first) & 1)) {
        fail_run(r, true, "%s at %s:%d: mask 0x%08x lacks the calling lane", at->what, at->file,
                 at->line, step->mask);
        wait_turn(r);
    }
    t->at = *at;
    t->step = step;
    t->state = THREAD_in_exchange;
    unsigned lanes = step->mask & lanes_of_warp(r, first);
    if (lanes_arrived(r, first, step->mask, at) == lanes)
        deliver(r, &r->threads[first], lanes);
    if (t->state != THREAD_ready)
        wait_turn(r);
}

static void report_deadlock(struct run *r)
{
    int i = 0;
    while (r->threads[i].state == THREAD_ended)
        i++;
    struct thread *t = &r->threads[i];
    int n_elsewhere = r->n_threads - r->n_ended - r->n_at_barrier;
    if (t->state == THREAD_at_barrier) {
        fail_run(r, false,
                 "%s at %s:%d: %d of %d threads arrived, %d ended, %d wait for their warp",
                 t->at.what, t->at.file, t->at.line, r->n_at_barrier, r->n_threads, r->n_ended,
                 n_elsewhere);
        return;
    }
    int first = i / WARP * WARP;
    fail_run(r, false,
             "%s at %s:%d: of lanes 0x%08x of warp %d only 0x%08x arrived; %d threads ended, %d "
             "wait at a barrier",
             t->at.what, t->at.file, t->at.line, t->step->mask & lanes_of_warp(r, first), i / WARP,
             lanes_arrived(r, first, t->step->mask, &t->at), r->n_ended, r->n_at_barrier);
}

// What every fiber does: run the thread whose turn it is, to its end, then wait to be given
// another.
static void run_threads(void *argument)
{
    struct run *r = argument;
    for (;;) {
        r->launch->function.run(r->launch->pointers);
        r->threads[r->running].state = THREAD_ended;
        wait_turn(r);
    }
}

static struct fiber *take_fiber(struct run *r)
{
    if (r->n_idle)
        return r->idle[--r->n_idle];
    return fiber_new(run_threads, r);
}

static bool give_turn(struct run *r, int i)
{
    struct thread *t = &r->threads[i];
    if (!t->fiber && !(t->fiber = take_fiber(r))) {
        r->out_of_memory = true;
        return false;
    }
    r->running = i;
    r->frame.thread = t->index;
    fiber_resume(t->fiber);
    if (r->failed)
        return false;
    if (t->state == THREAD_ended) {
        r->n_ended++;
        r->idle[r->n_idle++] = t->fiber;
        t->fiber = NULL;
    }
    return true;
}

static bool run_block(struct run *r)
{
    unsigned bytes = r->launch->kernel->shared_bytes;
    if (bytes)
        memset(r->frame.shared, 0xff, bytes); // NaN: what was never written shows
    for (int i = 0; i < r->n_threads; i++)
        r->threads[i].state = THREAD_ready;
    r->n_ended = r->n_at_barrier = 0;
    bool moved = true;
    while (moved) {
        moved = false;
        for (int turn = 0; turn < r->n_threads; turn++) {
            int i = r->launch->reversed ? r->n_threads - 1 - turn : turn;
            if (r->threads[i].state != THREAD_ready)
                continue;
            moved = true;
            if (!give_turn(r, i))
                return false;
        }
    }
    if (r->n_ended < r->n_threads)
        report_deadlock(r);
    return !r->failed;
}

static bool run_grid(struct run *r)
{
    struct host_index g = r->frame.grid_dim;
    uint64_t n_blocks = (uint64_t)g.x * g.y * g.z;
    for (uint64_t turn = 0; turn < n_blocks; turn++) {
        uint64_t i = r->launch->reversed ? n_blocks - 1 - turn : turn;
        r->frame.block = (struct host_index){(unsigned)(i % g.x), (unsigned)(i / g.x % g.y),
                                             (unsigned)(i / g.x / g.y)};
        if (!run_block(r))
            return false;
    }
    return true;
}

// The limits that every GPU has.
static bool fits_gpu(struct run *r)
{
    const struct kernel *k = r->launch->kernel;
    unsigned n = k->block[0] * k->block[1] * k->block[2];
    if (k->block[0] > MAX_THREADS || k->block[1] > MAX_THREADS || k->block[2] > 64 ||
        n > MAX_THREADS || n == 0)
        fail_run(r, false, "block is %u x %u x %u threads: 1 to %d can be launched", k->block[0],
                 k->block[1], k->block[2], MAX_THREADS);
    if (k->grid[0] > 0x7fffffff || k->grid[1] > 65535 || k->grid[2] > 65535)
        fail_run(r, false,
                 "grid is %u x %u x %u blocks: 2147483647 x 65535 x 65535 can be launched",
                 k->grid[0], k->grid[1], k->grid[2]);
    return !r->failed;
}

static bool run_open(struct run *r)
{
    const struct kernel *k = r->launch->kernel;
    void *shared = NULL;
    r->n_threads = (int)(k->block[0] * k->block[1] * k->block[2]);
    r->threads = calloc((size_t)r->n_threads, sizeof *r->threads);
    if (!r->threads || (k->shared_bytes && posix_memalign(&shared, 128, k->shared_bytes)))
        return false;
    r->frame = (struct host_frame){
        .block_dim = {k->block[0], k->block[1], k->block[2]},
        .grid_dim = {k->grid[0],  k->grid[1],  k->grid[2] },
        .shared = shared,
        .barrier = frame_barrier,
        .exchange = frame_exchange,
        .fail = frame_fail,
    };
    for (unsigned i = 0; i < (unsigned)r->n_threads; i++)
        r->threads[i].index = (struct host_index){i % k->block[0], i / k->block[0] % k->block[1],
                                                  i / k->block[0] / k->block[1]};
    return true;
}

static void run_close(struct run *r)
{
    for (int i = 0; r->threads && i < r->n_threads; i++)
        if (r->threads[i].fiber)
            fiber_free(r->threads[i].fiber);
    for (int i = 0; i < r->n_idle; i++)
        fiber_free(r->idle[i]);
    free(r->frame.shared);
    free(r->threads);
}

enum host_status host_launch(const struct host_launch *launch, char **message)
{
    *message = NULL;
    struct run *r = calloc(1, sizeof *r);
    if (!r)
        return HOST_memory;
    r->launch = launch;
    if (fits_gpu(r)) {
        r->out_of_memory = !run_open(r);
        if (!r->out_of_memory) {
            pthread_mutex_lock(launch->function.running);
            launch->function.enter(&r->frame);
            run_grid(r);
            pthread_mutex_unlock(launch->function.running);
        }
        run_close(r);
    }
    *message = r->failure;
    enum host_status status = r->out_of_memory ? HOST_memory : r->failed ? HOST_failed : HOST_ok;
    free(r);
    return status;
}
