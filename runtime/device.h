// device.h: what runs kernels, as a small table of functions with two implementations (cuda, host)
#pragma once
#include "gen/gen.h"
#include "runtime/quern.h"

struct device;
struct bench;
struct loaded; // a kernel that can be launched; each device has its own

// Bytes of a compiled kernel.  hit: they came from the cache.
struct code {
    void *bytes;
    size_t n_bytes;
    bool hit;
};

// Every function reports its own failure to the device's context.  Between enter and leave the
// calling thread belongs to the device; what is not marked "inside" enters and leaves by itself.
struct device {
    quern *q;
    const char *kind;     // "cuda" or "host"
    const char *name;     // "NVIDIA H200"
    const char *driver;   // what else its speed depends on: "13.0", the newest CUDA it runs; the
                          // host device's: its compiler's words
    struct target target; // of the machine, under the arch that kernels are compiled for
    bool native;          // target.name is an arch of its own; the host device runs any
    int newest_nvrtc;     // major version of the newest NVRTC whose cubins it loads; 0: any
    quern_status (*enter)(struct device *d);
    void (*leave)(struct device *d);
    quern_status (*alloc)(struct device *d, size_t bytes, void **pointer);
    quern_status (*release)(struct device *d, void *pointer);
    quern_status (*zero)(struct device *d, void *pointer, size_t bytes);
    quern_status (*upload)(struct device *d, void *to, const void *from, size_t bytes);
    quern_status (*download)(struct device *d, void *to, const void *from, size_t bytes);
    quern_status (*sync)(struct device *d, quern_stream stream);
    // Compiles, or takes from the cache, and loads the kernels of a plan: sets plan->loaded.
    quern_status (*load)(struct device *d, quern_plan *plan);
    void (*unload)(struct device *d, quern_plan *plan);
    // Inside: pointers is the kernel's Args.
    quern_status (*launch)(struct device *d, struct loaded *kernel, void **pointers,
                           quern_stream stream);
    // What one stream waits for on another.  Inside, but for the first two: captures says whether
    // what is launched on a stream is captured instead of run; mark puts the mark behind all that
    // was launched on a stream; await puts a stream behind the mark, or finds it already past.
    quern_status (*mark_new)(struct device *d, void **mark);
    void (*mark_free)(struct device *d, void *mark);
    quern_status (*captures)(struct device *d, quern_stream stream, bool *captured);
    quern_status (*mark)(struct device *d, void *mark, quern_stream stream);
    quern_status (*await)(struct device *d, void *mark, quern_stream stream, bool *past);
    // Times run(state, stream), which launches on that stream.
    quern_status (*time)(struct device *d, quern_status (*run)(void *state, quern_stream stream),
                         void *state, quern_timing *out);
    // All that quern_bench reports; NULL where nothing but `time` makes sense.
    quern_status (*bench)(struct device *d, const struct bench *b, quern_costs *out);
    // Times plans of one program against each other, in turns, A B B A: 2 * n_rounds samples of
    // each (at most MAX_SAMPLES), one after the other in `us`, in microseconds a run.  As
    // quern_bench's replay: b has the first plan, and the arguments of all.
    quern_status (*race)(struct device *d, const struct bench *b, quern_plan *const *plans,
                         int n_plans, int n_rounds, double *us);
    void (*close)(struct device *d);
};

enum { MAX_SAMPLES = 22 };

// Whether a driver library can be opened at all; says nothing about a GPU, and leaves the driver
// untouched, so that a process that has only asked can still fork.
bool cuda_driver_exists(void);
quern_status cuda_open(quern *q, struct device **out);
quern_status host_open(quern *q, struct device **out);
