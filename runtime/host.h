// host.h: the host device: kernels compiled by the system's C++ compiler and run on the CPU, a
// fiber per thread.
#pragma once
#include "templates/host_frame.cuh"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct kernel; // gen/gen.h

enum host_status {
    HOST_ok,
    HOST_missing, // the compiler is not on this machine
    HOST_failed,  // the compiler refused the source; the kernel did what a kernel must not
    HOST_memory
};

// device_host.c: kernels to a shared object, and its functions.  Where a status is not HOST_ok,
// *message is a sentence (or the compiler's whole output), for the caller to free; NULL only where
// there is no memory for one.

// One translation unit of all kernels.  cxx and cxx_flags are split at spaces, cxx_flags may be
// NULL.  Source files lie in a folder beside so_path while the compiler runs.
enum host_status host_compile(const char *cxx, const char *cxx_flags, const struct kernel *kernels,
                              int n_kernels, const char *so_path, char **message);

struct host_library;
enum host_status host_load(const char *so_path, struct host_library **library, char **message);
void host_unload(struct host_library *library);

struct host_function {
    void (*enter)(struct host_frame *frame); // what the kernels of this library see from now on
    void (*run)(const void *args);           // one thread of the kernel
    pthread_mutex_t *running; // a library's kernels share memory: one launch at a time
};
bool host_find(const struct host_library *library, const char *kernel, struct host_function *out);

// host_launch.c: one launch, to its end.  Launches of different libraries run at once on different
// threads of the process; those of one library wait for each other.

struct host_launch {
    const struct kernel *kernel;
    struct host_function function;
    void *const *pointers; // one per kernel->args
    bool reversed;         // threads take turns from the last to the first, and so do blocks
};
enum host_status host_launch(const struct host_launch *launch, char **message);

// fiber.c: a stack and where on it the work stands.  A fiber is resumed by the thread that made it.

struct fiber;
// body never returns.  guarded: an overrun of its stack faults.  NULL: no memory.
struct fiber *fiber_new(void (*body)(void *), void *argument, bool guarded);
void fiber_resume(struct fiber *f); // until it calls fiber_suspend
void fiber_suspend(struct fiber *f);
void fiber_free(struct fiber *f); // suspended, wherever it stands
