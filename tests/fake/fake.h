// fake.h: a libcuda.so.1 that shows one GPU and computes nothing, for the tests of what the library
// asks of a driver and makes of its answers.
//
// Memory is the host's, so that data goes in and out; what comes from the host arrives when someone
// waits for the default stream, as late as CUDA allows.  A launch is a line in a log.  What a
// driver would refuse is refused: a call without a context, a cluster or a grid that does not fit.
//
// The environment says what it is to be:
//     FAKE_CUDA_LOG             the file that launches are appended to
//     FAKE_CUDA_SMS             how many SMs the GPU has                           (132)
//     FAKE_CUDA_BLOCKS_PER_SM   how many blocks of any kernel fit on one of them   (1)
//     FAKE_CUDA_CLUSTER         blocks of the largest cluster that fits            (16)
//     FAKE_CUDA_FAIL            what fails: FUNCTION:CODE, always, or FUNCTION:CODE@N, its N-th
//                               call; several with commas
#pragma once
#pragma GCC visibility push(default)
#include <cuda.h>
#include <stdbool.h>
#pragma GCC visibility pop

enum { PLAIN_SHARED_BYTES = 48 * 1024, MOST_SHARED_BYTES = 227 * 1024 };

int knob(const char *name, int otherwise); // of the environment
int n_sms(void);
bool has_context(void); // the calling thread
void arrive(void);      // what is on its way to the device

// Of the n-th call of a function: what it has to fail with, if anything.
CUresult begin(const char *function, int n, bool needs_context);

// First in a function, but for what it has to do even if it fails.
#define BEGIN_WITH(function, needs_context)                                                        \
    do {                                                                                           \
        static int n_calls;                                                                        \
        CUresult r_ =                                                                              \
            begin(function, __atomic_add_fetch(&n_calls, 1, __ATOMIC_RELAXED), needs_context);     \
        if (r_)                                                                                    \
            return r_;                                                                             \
    } while (0)
#define BEGIN(function) BEGIN_WITH(function, false)
#define BEGIN_IN_CONTEXT(function) BEGIN_WITH(function, true)
