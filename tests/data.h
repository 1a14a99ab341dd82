// data.h: the buffers of a program of one kernel, for launches of it on the host device
#pragma once
#include "runtime/host.h"
#include "tests/compiled.h"

// And the reference's results for what its arguments hold.
struct data {
    struct compiled *c;
    void *at[16];
    struct tensor expected[8];
};

void data_open(struct data *d, struct compiled *c); // of a program with nothing wrong
void data_close(struct data *d);
void data_fill(struct data *d, unsigned seed); // arguments of order 1, and what is expected of them
void data_expect(struct data *d);              // after a change to what arguments hold
// The kernel, with so many blocks, first thread first or last; the outputs are NaN before, and as
// the reference's after it.
void data_run(struct data *d, const struct host_library *library, unsigned blocks, bool reversed);
