/* quern.h: compile a small tensor program to fused kernels, and run them.
 *
 *     program -> plan -> execute.
 *
 *     quern_open(&q, NULL);
 *     quern_parse(q, text, strlen(text), "softmax.qn", &program);
 *     quern_plan_program(q, program, sizes, 2, NULL, &plan); // compiles and loads, once
 *     quern_bind(plan, "w", w);                              // device pointers of the weights
 *     quern_execute(plan, arguments, n_arguments, stream);   // only launches
 *
 * Every function that can fail returns a quern_status; quern_message() holds the sentence, for the
 * calling thread.  Handles are opaque; there are no globals; one context may be used from many
 * threads; two plans may execute at once on two streams.  One plan has one workspace, so it runs on
 * one stream at a time: two runs of it at once would spoil each other's results, or wait for each
 * other for ever.  The library never exits, aborts or prints: notes go to the log callback.
 * Pointers are device pointers of the context's device (for the host device: ordinary pointers).
 */
#ifndef QUERN_H
#define QUERN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define QUERN_API __attribute__((visibility("default")))
#else
#define QUERN_API
#endif

#define QUERN_VERSION "0.1.0"

typedef struct quern quern;                 /* a context: a device, a cache, a log */
typedef struct quern_program quern_program; /* parsed text, sizes still open */
typedef struct quern_plan quern_plan;       /* kernels for one set of sizes */
typedef void *quern_stream;                 /* a CUstream; NULL: the legacy default stream */

typedef enum {
    QUERN_OK = 0,
    QUERN_PROGRAM = 1, /* the program text, its sizes or its data are wrong */
    QUERN_USAGE = 2,   /* the call is wrong: a null handle, an unknown name, too few arguments */
    QUERN_MISSING = 3, /* the machine lacks something: driver, NVRTC, C++ compiler */
    QUERN_DEVICE = 4,  /* the driver reported an error */
    QUERN_MEMORY = 5,  /* out of host or device memory */
    QUERN_INTERNAL = 6 /* a fault of quern itself: a generated kernel that does not compile */
} quern_status;

/* same order as gen/dtypes.def */
typedef enum {
    QUERN_F32,
    QUERN_F16,
    QUERN_BF16,
    QUERN_F64,
    QUERN_I32,
    QUERN_I64,
    QUERN_I8,
    QUERN_U8,
    QUERN_BOOL
} quern_dtype;

/* ---- context ---- */

typedef enum {
    QUERN_DEVICE_AUTO, /* the GPU where there is one, else host, with a note */
    QUERN_DEVICE_CUDA,
    QUERN_DEVICE_HOST,
    QUERN_DEVICE_NONE /* compile only, nothing can be executed */
} quern_device;

typedef struct {
    quern_device device;
    const char *cache_dir; /* NULL: no cache on disk.  quern_default_cache_dir() names the usual */
    int64_t cache_bytes;   /* bound on the cache's size; 0: 1 GiB */
    int offline; /* nonzero: nothing is compiled, a miss is an error that names the kernel */
    /* Notes, one line each, without a newline; may be NULL.  Called from any thread, from several
     * at once; it must not call quern. */
    void (*log)(void *user, const char *line);
    void *log_user;
    const char *cxx; /* host device: the C++ compiler; NULL: "c++" */
    /* Host device: more flags, such as "-fsanitize=address,undefined"; may be NULL. */
    const char *cxx_flags;
    const char *cuda_home; /* where to look for NVRTC besides the usual places; may be NULL */
} quern_options;

/* options NULL: all defaults, no cache. */
QUERN_API quern_status quern_open(quern **q, const quern_options *options);
QUERN_API void quern_close(quern *q); /* after every program and plan of it is destroyed */
/* Of this thread's last failure in this context; NULL: of calls that had none, such as quern_open.
 * Lives until the thread's next failure. */
QUERN_API const char *quern_message(const quern *q);
QUERN_API const char *quern_status_name(quern_status s); /* "ok", "program", ... */
QUERN_API const char *quern_dtype_name(quern_dtype t);   /* "f32" */
QUERN_API int quern_dtype_bytes(quern_dtype t);
/* "NVIDIA H200", "host" or "none".  The device is opened when it is first needed: a process that
 * has only parsed may fork, and its children may use the GPU; after that a child gets an error. */
QUERN_API const char *quern_device_name(const quern *q);
QUERN_API const char *quern_native_arch(const quern *q); /* "sm_90a"; host and none: NULL */
/* Writes the path, from QUERN_CACHE_DIR, XDG_CACHE_HOME or HOME as the caller's environment has
 * them, into path; returns 0 where none can be named. */
QUERN_API int quern_default_cache_dir(char *path, size_t size);

/* ---- program ---- */

/* The text is copied.  On failure the message has all diagnostics, with their lines. */
QUERN_API quern_status quern_parse(quern *q, const char *text, size_t n_bytes, const char *name,
                                   quern_program **program);
QUERN_API void quern_destroy_program(quern_program *program);
QUERN_API const char *quern_program_name(const quern_program *program);
QUERN_API int quern_program_n_sizes(const quern_program *program);
QUERN_API const char *quern_program_size(const quern_program *program, int i, int *has_default);

typedef struct {
    const char *name;
    int64_t value;
} quern_size;

/* Binds, into out, every size that the shape of the argument `name` settles (dims that are a plain
 * size name), and checks rank and literal dims.  n_out: in: capacity, out: how many.  For `--in
 * x=x.npy` without -D. */
QUERN_API quern_status quern_sizes_of_argument(quern_program *program, const char *name, int rank,
                                               const int64_t *dim, quern_size *out, int *n_out);

/* ---- plan ---- */

/* What the kernels may do to the arithmetic of the program. */
typedef enum quern_math {
    QUERN_MATH_REAL,   /* what is equal in real arithmetic: sums in another order, products fused,
                          rules that move, merge and cancel terms; NaN in is NaN out */
    QUERN_MATH_STRICT, /* nothing: operator by operator, bit-identical to the reference */
    QUERN_MATH_FINITE, /* also what holds for finite values alone: x - x is 0 */
    QUERN_MATH_FAST    /* also the GPU's approximate instructions (NVRTC's --use_fast_math), whose
                          errors may exceed quern_check's tolerance */
} quern_math;

QUERN_API const char *quern_math_name(quern_math math); /* "real"; NULL: none of these */

/* The constants of a kernel's template: tile sizes, threads, vectors, as text. */
typedef struct {
    const char *kernel; /* its name, as quern_plan_kernel has it */
    const char *spec;   /* "vec=4 threads=256 ...": one of its candidates, to the letter */
} quern_spec;

typedef struct {
    const char *arch; /* "sm_90a"; NULL: the device's, or sm_90a where there is no GPU */
    int alignment;    /* bytes that pointers will be aligned to, a power of two to 256; 0: 16 */
    quern_math math;  /* 0: QUERN_MATH_REAL */
    int each_run;     /* nonzero: --weights each-run: nothing is kept, every execute prepares */
    int separate;     /* nonzero: --separate: no launch is made of several kernels */
    int no_load;      /* nonzero: source only, nothing is loaded and nothing can be executed */
    const char *dump; /* stages to show through the log, "graph,fuse"; may be NULL */
    /* Specs of kernels, in place of what the model chooses; copied.  One that is no candidate of
     * its kernel has no effect, and is noted. */
    const quern_spec *specs;
    int n_specs;
    int candidates; /* nonzero: kernels have their candidates listed; this takes a while */
    /* Where no specs are given, the plan takes those that quern_tune found for the same program,
     * sizes, options, GPU, driver, NVRTC and quern, if the cache has them. */
    int no_wisdom;      /* nonzero: what the model chooses */
    const char *wisdom; /* what quern_wisdom_export gave, in place of the cache's; of whatever GPU,
                           driver and NVRTC it is, if all else is the same; NULL: the cache's */
} quern_plan_options;

QUERN_API quern_status quern_plan_program(quern *q, const quern_program *program,
                                          const quern_size *sizes, int n_sizes,
                                          const quern_plan_options *options, quern_plan **plan);
QUERN_API void quern_destroy_plan(quern_plan *plan);

typedef enum { QUERN_INPUT, QUERN_WEIGHT, QUERN_OUTPUT } quern_role;

typedef struct {
    const char *name;
    quern_role role;
    quern_dtype dtype;
    int rank;
    int64_t dim[12];
    int64_t bytes;
} quern_argument;

/* Inputs and weights in declared order, then outputs in declared order. */
QUERN_API int quern_plan_n_arguments(const quern_plan *plan);
QUERN_API quern_status quern_plan_argument(const quern_plan *plan, int i, quern_argument *out);

typedef struct {
    const char *name, *part, *family, *expression, *spec, *source; /* part: "prepare" or "run" */
    unsigned grid[3], block[3], shared_bytes;
    int cooperative, alignment;
    /* What it must move and do at least, and the time that takes on the target. */
    double bytes, flops, floor_us;
    int n_candidates; /* specs that it could have; 0: the plan was not asked to list them */
} quern_kernel;

QUERN_API int quern_plan_n_kernels(const quern_plan *plan);
QUERN_API quern_status quern_plan_kernel(const quern_plan *plan, int i, quern_kernel *out);
/* A spec that the kernel could have, and the microseconds that a simple model gives it: candidate 0
 * is the model's choice, the others rise.  The text lives as long as the plan. */
QUERN_API quern_status quern_plan_candidate(const quern_plan *plan, int kernel, int candidate,
                                            const char **spec, double *predicted_us);
/* The cubin (or, for a GPU newer than NVRTC, PTX text) of kernel i: compiled or from the cache. The
 * bytes live as long as the plan.  hit: whether the cache had it; may be NULL. */
QUERN_API quern_status quern_plan_cubin(quern_plan *plan, int i, const void **bytes,
                                        size_t *n_bytes, int *hit);
QUERN_API const char *quern_plan_arch(const quern_plan *plan);
QUERN_API int64_t quern_plan_workspace_bytes(const quern_plan *plan);
/* Device memory for what is computed from weights alone and kept; 0 where nothing is gained by it,
 * and with each_run. */
QUERN_API int64_t quern_plan_prepared_bytes(const quern_plan *plan);
/* The plan as JSON: arch, math, rules, sizes, arguments, buffers, workspace, kernels with their
 * parameters.  Lives as long as it. */
QUERN_API const char *quern_plan_json(quern_plan *plan);
/* What explain prints, and its JSON form. */
QUERN_API const char *quern_plan_explain(quern_plan *plan, int json);

/* ---- execute ---- */

/* What depends on weights alone is computed once, into memory that the plan owns, and kept.
 *
 *  - quern_bind says where a weight is; NULL unbinds it.  Executing or preparing with a weight that
 *    was never bound, or is no longer, is an error.  Weights stay the caller's, and have to stay
 *    there: kernels may read them in every run.
 *  - quern_prepare computes what is kept, on the stream, whether it was computed before or not.  It
 *    need not be called: quern_execute does it where a weight was bound since, or
 *    quern_weights_changed was called, on its own stream, before its own kernels.
 *  - quern_weights_changed has to be called after a weight was overwritten in place: that cannot be
 *    seen from here.  Until then a run mixes what was kept of the old values with what it reads
 *    itself of the new ones.
 *  - An execute on another stream than the quern_prepare before it waits for it, on the device.
 *    Apart from that, preparing is running the plan: on one stream at a time, so not while a run on
 *    another stream still reads what is kept.
 *  - Captured in a graph, an execute after a change holds the kernels that prepare, and each replay
 *    prepares again.  That does not count as prepared, since it has not run: the next execute,
 *    captured or not, prepares for itself.  A captured quern_prepare does not count either.
 *  - An execute captured with everything prepared holds no such kernels, and waits for a prepare
 *    that is still under way.  After a change, call quern_prepare outside, and launch the graph
 *    behind it.
 */
QUERN_API quern_status quern_bind(quern_plan *plan, const char *weight, const void *pointer);
QUERN_API quern_status quern_prepare(quern_plan *plan, quern_stream stream);
QUERN_API quern_status quern_weights_changed(quern_plan *plan);
/* Memory of at least quern_plan_workspace_bytes(), 256-byte aligned, that the caller owns; NULL:
 * the plan's own. */
QUERN_API quern_status quern_use_workspace(quern_plan *plan, void *pointer);
/* arguments: one pointer per input, then one per output, in declared order (weights are bound).
 * Checks for NULL and for alignment, then only launches: no allocation, no compiling, no
 * synchronisation; it can be captured. */
QUERN_API quern_status quern_execute(quern_plan *plan, void *const *arguments, int n_arguments,
                                     quern_stream stream);

/* ---- memory of the context's device, for programs that have none of their own ---- */

/* Memory from quern_alloc is aligned to at least 256 bytes. */
QUERN_API quern_status quern_alloc(quern *q, size_t bytes, void **pointer);
QUERN_API quern_status quern_free(quern *q, void *pointer);
/* The bytes are there when it returns, for every stream.  Not while the default stream, or one that
 * waits for it, is being captured. */
QUERN_API quern_status quern_upload(quern *q, void *to_device, const void *from_host, size_t bytes);
QUERN_API quern_status quern_download(quern *q, void *to_host, const void *from_device,
                                      size_t bytes);
QUERN_API quern_status quern_synchronize(quern *q, quern_stream stream);

/* ---- checking and timing ---- */

/* Element i of a host array as a double, and back with one rounding to nearest even (floats: to
 * +-inf beyond the range; integers: truncated and saturated; bool: x != 0).  i64 beyond 2^53 loses
 * its low bits. */
QUERN_API double quern_element(quern_dtype t, const void *data, int64_t i);
QUERN_API void quern_set_element(quern_dtype t, void *data, int64_t i, double value);

/* Fills a host array with numbers that are the same on every machine: floats nearly normal with
 * mean 0 and deviation 1, those of a weight of rank 2 or more divided by the square root of its
 * last dimension, small integers; none of them 0. */
QUERN_API void quern_random(const quern_argument *argument, uint64_t seed, void *data);

typedef struct {
    double max_abs_error, max_rel_error; /* against the f64 reference */
    int64_t worst;                       /* index of the error that exceeds its tolerance by most */
    double got, expected;                /* there */
    double absolute, relative; /* tolerance: |got - expected| <= absolute + relative * |expected| */
    int ok;
} quern_check_result;

/* Evaluates the program in f64 on the CPU.  inputs: host arrays, inputs and weights in declared
 * order, in their dtypes; expected: one array of double per output, the caller's (integers as
 * double). */
QUERN_API quern_status quern_reference(quern_plan *plan, const void *const *inputs,
                                       double *const *expected);
/* Compares output i, in its dtype on the host, with expected values. */
QUERN_API quern_status quern_check(quern_plan *plan, int output, const void *got,
                                   const double *expected, quern_check_result *result);

typedef struct {
    double median_us, min_us, max_us;
    int replays;
} quern_timing;

/* Times execute, with everything prepared, by CUDA-graph replays (host device: wall clock of a few
 * calls).  arguments as for quern_execute. */
QUERN_API quern_status quern_time(quern_plan *plan, void *const *arguments, int n_arguments,
                                  quern_timing *out);

/* What a run costs, and next to it, measured in turns with it, what it is to be compared with.  A
 * timing of 0 replays was not measured: the host device has replay and call alone, the wall clock
 * of a call; the copy needs as much memory again; the empty kernel needs NVRTC. */
typedef struct {
    /* One run among many in a CUDA graph, its arguments not in the L2 cache; the same on the same
     * arguments again and again. */
    quern_timing replay, warm;
    /* One quern_execute among many, seen from the host; of that, until it returns. */
    quern_timing call, host;
    /* A copy on the device that moves `bytes`, half of them read; timed as replay is: the driver's
     * or a kernel's, whichever is faster. */
    quern_timing copy;
    quern_timing empty_replay, empty_call, empty_host; /* a kernel that does nothing */
    /* Sets of arguments that the runs of `replay` take in turns, so many that they make 3 times the
     * L2 cache, 1024 at most; the bytes that a run touches of one. */
    int n_sets;
    double set_bytes;
    int n_launches; /* kernels of a run */
    /* What a run must move, every argument that it touches once, and compute; the least that this
     * takes at the rates that are known of the target: bytes, and f32 without a matrix unit. */
    double bytes, flops, floor_us;
    double bytes_per_second, flops_per_second;
} quern_costs;

/* Arguments as for quern_execute; they and the weights are copied, and the plan must not be run by
 * others meanwhile. */
QUERN_API quern_status quern_bench(quern_plan *plan, void *const *arguments, int n_arguments,
                                   quern_costs *out);

/* ---- tuning ---- */

typedef enum {
    QUERN_TUNE_MEASURE, /* of each kernel, the few candidates that the model likes best */
    QUERN_TUNE_PATIENT  /* all of them */
} quern_effort;

typedef struct {
    quern_plan_options plan; /* how the plans to be tuned for will be made; its specs, candidates,
                                wisdom, dump and no_load count for nothing here */
    quern_effort effort;
    double budget_s; /* seconds after which no other candidate is begun; 0: no bound */
    /* What it runs on: host arrays, inputs and weights in declared order, in their dtypes; NULL:
     * what quern_random makes of the seed. */
    const void *const *inputs;
    uint64_t seed;
} quern_tune_options;

typedef struct quern_tuning quern_tuning; /* what quern_tune found */

/* Finds out which specs make a run of a program fastest on the context's device, and keeps that in
 * the cache, if there is one, for plans that are made from then on: see
 * quern_plan_options.no_wisdom.
 *
 *  - Kernel by kernel, its candidates are compiled, run and checked: against the f64 reference, or,
 *    where a run has more than 5e8 operations or math is QUERN_MATH_FAST, against what the model's
 *    specs give, within twice the tolerance.  One that fails or is wrong is not chosen.
 *  - What is timed is a whole run, as quern_bench's replay, all other kernels as they were found
 *    best: that is what the caller will pay, with what the kernels leave each other in the caches.
 *    What is prepared once and kept is not tuned.
 *  - The fastest few meet the specs in use in turns.  One is chosen that wins by 2 %; of several
 *    within 2 % of the fastest, the first in the model's order.  In the end all that was chosen
 * meets the model's specs once more, and is dropped if it does not win.
 *
 * It works in memory of its own: nothing of the caller's is written.  A candidate that hangs the
 * GPU or faults takes the process's context with it.  On failure *tuning is NULL. */
QUERN_API quern_status quern_tune(quern *q, const quern_program *program, const quern_size *sizes,
                                  int n_sizes, const quern_tune_options *options,
                                  quern_tuning **tuning);
QUERN_API void quern_destroy_tuning(quern_tuning *tuning);

typedef enum {
    QUERN_UNTRIED, /* the budget was over */
    QUERN_TIMED,
    QUERN_CHOSEN,
    QUERN_WRONG, /* its outputs are off */
    QUERN_FAILED /* it does not compile, load or run */
} quern_outcome;

QUERN_API const char *quern_outcome_name(quern_outcome outcome); /* "untried", "timed", ... */

typedef struct {
    const char *kernel, *spec;
    double predicted_us; /* of the kernel, by the model */
    double median_us;    /* of a whole run with it; 0: it was not timed */
    int n_samples;
    const double *samples_us; /* in the order they were taken */
    quern_outcome outcome;
    const char *why; /* a sentence, of what is wrong or failed; else NULL */
} quern_candidate;

/* Kernel by kernel in the order of the run, of each in the model's order, its choice first.  What
 * is pointed to lives as long as the tuning. */
QUERN_API int quern_tuning_n_candidates(const quern_tuning *tuning);
QUERN_API quern_status quern_tuning_candidate(const quern_tuning *tuning, int i,
                                              quern_candidate *out);

typedef struct {
    const char *arch;
    double default_us,
        tuned_us;   /* medians of a run, with the model's specs and with those chosen */
    double seconds; /* that the tuning took */
    int n_untried;
    int kept; /* whether the cache has it */
} quern_tuned;

QUERN_API quern_status quern_tuning_result(const quern_tuning *tuning, quern_tuned *out);

/* What making a plan took: to open the device and NVRTC, where it was the first to need them; from
 * program text to the source of kernels; to have that compiled, or from the cache (host device: by
 * the C++ compiler); to have it on the device, with memory for it. */
typedef struct {
    double open_ms, front_end_ms, nvrtc_ms, load_ms;
    int n_compiled, n_cached; /* kernels (host device: objects that hold all of them) */
} quern_first_use;

QUERN_API quern_status quern_plan_first_use(const quern_plan *plan, quern_first_use *out);

/* ---- cache ---- */

typedef struct {
    const char *key;  /* hexadecimal */
    const char *name; /* kernel */
    const char *arch;
    int64_t bytes;
    int64_t used; /* seconds since 1970 of the last use */
    int valid;
} quern_cache_entry;

QUERN_API quern_status quern_cache_list(quern *q,
                                        void (*each)(void *user, const quern_cache_entry *entry),
                                        void *user, int verify);
/* The least recently used entries go until max_bytes are left; 0 clears. */
QUERN_API quern_status quern_cache_prune(quern *q, int64_t max_bytes, int *n_removed);

/* ---- wisdom ---- */

/* What quern_tune found, one record a program, sizes, options and GPU, in the cache's folder, which
 * the context must have.  A record that cannot be read or trusted is noted, and is as if it were
 * not there. */

/* All records as one JSON object, which the caller frees:
 * {"quern", "wisdom": [{"format", "program", "sizes": {name: number}, "graph", "math", "weights",
 *  "alignment", "arch", "gpu", "sms", "driver", "nvrtc", "quern", "code",
 *  "default_us", "tuned_us", "kernels": [{"name", "spec"}]}]}; graph and code are hashes. */
QUERN_API quern_status quern_wisdom_export(quern *q, char **json);
/* Takes the records of what was exported, here or elsewhere; one of the same program, sizes,
 * options and GPU is replaced.  keep_faster: not where that one was measured with the same driver,
 * NVRTC and quern, and to be at least as fast.  All or nothing of a text that is wrong.  n_taken
 * may be NULL. */
QUERN_API quern_status quern_wisdom_import(quern *q, const char *json, int keep_faster,
                                           int *n_taken);
/* Of the programs of that name; NULL: of all, and what cannot be read.  n_gone may be NULL. */
QUERN_API quern_status quern_wisdom_forget(quern *q, const char *program, int *n_gone);

/* ---- doctor ---- */

/* What was looked for, where, and what was found, as a JSON object the caller frees:
 * {"version", "advice": [text, ...],
 *  "driver": {"found", "path", "version"}, "gpu": {"name", "arch", "sms"} or null,
 *  "nvrtc": {"found", "path", "version", "tried": [text, ...]}, "cxx": {"command", "found"},
 *  "cache": {"path", "usable", "entries", "bytes"},
 *  "checks": [{"name", "ok": bool, "needed_for", "found": text or null, "looked": [text, ...],
 *  "hint": what to install, or null}]}, a check for the driver, GPU, NVRTC, compiler and cache. */
QUERN_API quern_status quern_doctor(quern *q, char **json);

#ifdef __cplusplus
}
#endif
#endif
