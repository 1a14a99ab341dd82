// host_launch.c: a kernel compiled for the host, and its pointers, to the kernel's effects on
// memory, or to a sentence.
//
// Blocks run in groups, one group after another in grid order: a cluster's blocks together, all of
// a cooperative launch, otherwise each block alone.  The threads of a group take turns: each runs
// until it ends or waits at its block's barrier, for its warp or for the whole group.  The last to
// arrive completes the step and lets the others go on.  A round in which nobody could move while
// somebody waits is a deadlock, and so are many rounds in which all who moved yielded again.  A
// thread that never waits gives its fiber to the next.

#include "runtime/host_run.h"
#include <stdlib.h>
#include <string.h>

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
    return fiber_new(run_threads, r, r->n_all <= MAX_GUARDED);
}

static bool give_turn(struct run *r, int i)
{
    struct thread *t = &r->threads[i];
    if (!t->fiber && !(t->fiber = take_fiber(r))) {
        r->out_of_memory = true;
        return false;
    }
    r->running = i;
    show(r, i);
    block_of(r, i)->begun = true;
    fiber_resume(t->fiber);
    if (r->failed)
        return false;
    r->progressed |= t->state != THREAD_yields;
    if (t->state == THREAD_ended) {
        block_of(r, i)->n_ended++;
        r->idle[r->n_idle++] = t->fiber;
        t->fiber = NULL;
    }
    return true;
}

// Whether anyone of the block could move.
static bool run_block(struct run *r, int block)
{
    bool moved = false;
    for (int turn = 0; turn < r->n_threads; turn++) {
        int in_block = r->launch->reversed ? r->n_threads - 1 - turn : turn;
        int i = block * r->n_threads + in_block;
        if (r->threads[i].state != THREAD_ready)
            continue;
        moved = true;
        if (!give_turn(r, i))
            return false;
    }
    return moved;
}

// Whether anyone could move.  A block goes on for as long as it can before the next one has a turn,
// so that what it may overtake only for want of a barrier, it does overtake.
static bool run_round(struct run *r)
{
    bool moved = false;
    r->progressed = false;
    for (int i = 0; i < r->n_all; i++)
        if (r->threads[i].state == THREAD_yields)
            r->threads[i].state = THREAD_ready;
    for (int turn = 0; turn < r->n_blocks; turn++)
        while (run_block(r, r->launch->reversed ? r->n_blocks - 1 - turn : turn))
            moved = true;
    return moved;
}

static bool run_group(struct run *r)
{
    unsigned bytes = r->launch->kernel->shared_bytes;
    for (int i = 0; i < r->n_all; i++)
        r->threads[i].state = THREAD_ready, r->threads[i].arrived = false;
    for (int b = 0; b < r->n_blocks; b++) {
        r->blocks[b].n_ended = r->blocks[b].n_at_barrier = 0;
        r->blocks[b].begun = false;
        if (bytes)
            memset(r->blocks[b].shared, 0xff, bytes); // NaN: what was never written shows
    }
    r->n_arrived = 0;
    int idle = 0;
    while (idle < MAX_IDLE_ROUNDS && run_round(r)) {
        if (r->failed || r->out_of_memory)
            return false;
        idle = r->progressed ? 0 : idle + 1;
    }
    if (r->failed || r->out_of_memory)
        return false;
    if (count_state(r, 0, r->n_all, THREAD_ended) < r->n_all)
        report_deadlock(r);
    return !r->failed;
}

// The i-th of the places in a box, x the fastest.
static struct host_index place_in(struct host_index box, uint64_t i)
{
    return (struct host_index){(unsigned)(i % box.x), (unsigned)(i / box.x % box.y),
                               (unsigned)(i / box.x / box.y)};
}

static bool run_grid(struct run *r)
{
    struct host_index g = r->frame.grid_dim, size = r->group;
    if (!g.x || !g.y || !g.z)
        return true;
    struct host_index groups = {g.x / size.x, g.y / size.y, g.z / size.z};
    uint64_t n_groups = (uint64_t)groups.x * groups.y * groups.z;
    for (uint64_t turn = 0; turn < n_groups; turn++) {
        struct host_index at = place_in(groups, r->launch->reversed ? n_groups - 1 - turn : turn);
        for (int b = 0; b < r->n_blocks; b++) {
            struct host_index in = place_in(size, (uint64_t)b);
            r->blocks[b].index = (struct host_index){at.x * size.x + in.x, at.y * size.y + in.y,
                                                     at.z * size.z + in.z};
        }
        if (!run_group(r))
            return false;
    }
    return true;
}

static struct host_index group_of(const struct kernel *k)
{
    const unsigned *size = k->cooperative ? k->grid : k->cluster;
    return (struct host_index){size[0] ? size[0] : 1, size[1] ? size[1] : 1, size[2] ? size[2] : 1};
}

static void fit_group(struct run *r, uint64_t threads)
{
    const struct kernel *k = r->launch->kernel;
    struct host_index c = r->group;
    uint64_t blocks = (uint64_t)c.x * c.y * c.z;
    if (k->cooperative && blocks * threads > MAX_AT_ONCE)
        fail_run(r, false, "%llu blocks of %llu threads at once: the host device runs %d threads",
                 (unsigned long long)blocks, (unsigned long long)threads, MAX_AT_ONCE);
    if (k->cooperative)
        return;
    if (blocks > MAX_CLUSTER)
        fail_run(r, false, "cluster is %u x %u x %u blocks: 1 to %d can be launched", c.x, c.y, c.z,
                 MAX_CLUSTER);
    if (k->grid[0] % c.x || k->grid[1] % c.y || k->grid[2] % c.z)
        fail_run(r, false,
                 "grid is %u x %u x %u blocks, not a multiple of the cluster's %u x %u x %u",
                 k->grid[0], k->grid[1], k->grid[2], c.x, c.y, c.z);
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
    if (!r->failed)
        fit_group(r, n);
    return !r->failed;
}

static bool run_open(struct run *r)
{
    const struct kernel *k = r->launch->kernel;
    r->n_threads = (int)(k->block[0] * k->block[1] * k->block[2]);
    r->n_blocks = (int)(r->group.x * r->group.y * r->group.z);
    r->n_all = r->n_blocks * r->n_threads;
    r->threads = calloc((size_t)r->n_all, sizeof *r->threads);
    r->blocks = calloc((size_t)r->n_blocks, sizeof *r->blocks);
    r->idle = calloc((size_t)r->n_all, sizeof *r->idle);
    if (!r->threads || !r->blocks || !r->idle)
        return false;
    struct host_index block = {k->block[0], k->block[1], k->block[2]};
    for (int b = 0; b < r->n_blocks; b++) {
        void *shared = NULL;
        if (k->shared_bytes && posix_memalign(&shared, 128, k->shared_bytes))
            return false;
        r->blocks[b].shared = shared;
    }
    for (int i = 0; i < r->n_all; i++)
        r->threads[i].index = place_in(block, (uint64_t)(i % r->n_threads));
    r->frame = (struct host_frame){
        .block_dim = block,
        .grid_dim = {k->grid[0], k->grid[1], k->grid[2]},
    };
    set_frame_calls(&r->frame);
    return true;
}

static void run_close(struct run *r)
{
    for (int i = 0; r->threads && i < r->n_all; i++)
        if (r->threads[i].fiber)
            fiber_free(r->threads[i].fiber);
    for (int i = 0; i < r->n_idle; i++)
        fiber_free(r->idle[i]);
    for (int b = 0; r->blocks && b < r->n_blocks; b++)
        free(r->blocks[b].shared);
    free(r->idle);
    free(r->blocks);
    free(r->threads);
}

enum host_status host_launch(const struct host_launch *launch, char **message)
{
    *message = NULL;
    struct run *r = calloc(1, sizeof *r);
    if (!r)
        return HOST_memory;
    r->launch = launch;
    r->group = group_of(launch->kernel);
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
