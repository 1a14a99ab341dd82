// host_frame.cuh: all that the host device's scheduler and a kernel compiled for it know of each
// other.  C and C++.
#pragma once

struct host_index {
    unsigned x, y, z;
};

// Where in the source a thread waits.
struct host_place {
    const char *what; // "__syncthreads"
    const char *file;
    int line;
};

enum { HOST_LANES = 32 };

// What one lane brings to a step of its warp, and what it takes away.
struct host_exchange {
    unsigned mask;   // lanes that take part, this one among them
    unsigned source; // the lane whose value this one gets; HOST_LANES: all values, in their order
    unsigned bytes;  // of a value
    const void *value;
    void *result;   // not where value is
    unsigned votes; // filled: a bit per lane whose value has a nonzero first byte
};

// One per launch.  The scheduler sets the coordinates and `shared` before it lets a thread run; the
// calls are made by the running thread, and other threads may run before they return.
//
// A group is the blocks that run at once: of a cluster, of a whole cooperative grid, or one alone.
struct host_frame {
    struct host_index thread, block, block_dim, grid_dim;
    unsigned rank;         // of the block in its group
    unsigned char *shared; // the block's dynamic shared memory, or NULL
    void (*barrier)(struct host_frame *frame, const struct host_place *at);
    void (*exchange)(struct host_frame *frame, const struct host_place *at,
                     struct host_exchange *step);
    // The group's barrier in two halves: every thread of the group arrives, later waits for all.
    void (*arrive)(struct host_frame *frame, const struct host_place *at);
    void (*await)(struct host_frame *frame, const struct host_place *at);
    // Lets the others have their turn, of whom one will do what the thread waits for.
    void (*yield)(struct host_frame *frame, const struct host_place *at);
    // Where the block of that rank has in its shared memory what lies at `own` in this one's.
    void *(*remote)(struct host_frame *frame, void *own, unsigned bytes, unsigned rank);
    void (*fail)(struct host_frame *frame, const char *why); // does not return
};
