// host_run.h: the state of one launch on the host device, shared by host_launch.c (who runs when)
// and host_steps.c (what a thread may wait for)
#pragma once
#include "gen/gen.h"
#include "runtime/host.h"

enum thread_state {
    THREAD_ready,
    THREAD_at_barrier,
    THREAD_in_exchange,
    THREAD_awaits_group,
    THREAD_yields, // until all others have had their turn
    THREAD_ended
};

enum {
    WARP = 32,
    MAX_THREADS = 1024,
    MAX_CLUSTER = 16,
    MAX_AT_ONCE = 1 << 20,
    MAX_GUARDED = 1 << 14,
    MAX_IDLE_ROUNDS = 1000 // in which every thread that had a turn yielded again
};

struct thread {
    enum thread_state state;
    struct fiber *fiber; // NULL before its first turn
    struct host_index index;
    struct host_place at; // where it waits
    struct host_exchange *step;
    int n_in_exchange; // lanes of a warp, in its first thread
    bool arrived;      // and has not awaited the group since
    unsigned awaiting; // the group's phase it arrived in
};

struct block {
    struct host_index index;
    unsigned char *shared;
    int n_at_barrier, n_ended;
    bool begun;
};

struct run {
    struct host_frame frame; // first: the frame's calls find the run by it
    const struct host_launch *launch;
    struct host_index group; // its size in blocks
    struct block *blocks;    // of the group that runs
    struct thread *threads;  // block after block
    int n_blocks, n_threads; // n_threads: of a block
    int n_all;               // threads of the group
    int running, n_arrived;
    bool progressed; // in this round some thread did not just yield
    unsigned phase;  // of the group's barrier: the times that all have arrived
    struct fiber **idle;
    int n_idle;
    char *failure; // why the launch stops
    bool failed, out_of_memory;
};

// host_steps.c

// "kernel NAME, block (0,0,0)[, thread (3,0,0)]: ...".  The first failure counts.
void fail_run(struct run *r, bool names_thread, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Ends the running thread's turn.  After a failure there is no next one.
void wait_turn(struct run *r);
struct block *block_of(struct run *r, int thread);
// What the frame shows while that thread runs, and what a message names.
void show(struct run *r, int thread);
int count_state(const struct run *r, int first, int n, enum thread_state state);
// Nobody can move, and not all have ended.
void report_deadlock(struct run *r);
void set_frame_calls(struct host_frame *frame);
