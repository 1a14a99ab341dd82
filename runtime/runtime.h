// runtime.h: kernels to results.  Sections stand in the order of the Makefile's list.
//
// A function that fails returns a quern_status other than QUERN_OK and has left the sentence in the
// context.
#pragma once
#include "gen/gen.h"
#include "runtime/cache.h"
#include "runtime/device.h"
#include "runtime/nvrtc.h"
#include "runtime/quern.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

// message.c: the last failure of each thread, and the log

struct messages;
struct messages *messages_new(void);
void messages_free(struct messages *m);
// Sets the calling thread's message and returns status.  q may be NULL: then quern_message(NULL)
// has it.
quern_status report(const quern *q, quern_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Whether failures of the calling thread leave the message as it is: those of cleaning up, which
// would hide what went wrong first.
void hush(bool on);
// One line to the log.
void note(const quern *q, const char *format, ...) __attribute__((format(printf, 2, 3)));
void note_lines(const quern *q, const char *text); // each line of it

// quern.c: the context.  What it needs of the machine is opened when first needed, so that a
// process that has only parsed can still fork, and one that only emits source needs nothing.

struct opened {
    pthread_mutex_t lock; // guards what follows
    quern *owner;
    _Atomic pid_t gpu_pid; // of the process that opened the GPU; 0: none did
    bool tried_device, tried_nvrtc, tried_cache;
    quern_status device_status;
    char *why_no_device;
    struct device *device; // NULL: none
    bool has_nvrtc;
    struct nvrtc nvrtc;
    struct cache *cache; // NULL: none
};

struct quern {
    quern_device device; // as asked for
    char *cache_dir, *cxx, *cxx_flags, *cuda_home;
    int64_t cache_bytes;
    bool offline;
    void (*log)(void *user, const char *line);
    void *log_user;
    struct messages *messages;
    struct opened *opened;
};

quern_status need_device(const quern *q, struct device **out); // NULL for a context without one
const struct nvrtc *find_nvrtc(const quern *q);                // NULL: there is none
quern_status report_no_nvrtc(const quern *q, const char *kernel);
struct cache *find_cache(const quern *q); // NULL: there is none, or it cannot be used
bool forked(const quern *q);              // since the GPU was opened: a child cannot use it
quern_status report_fork(const quern *q);

// program.c: text to syntax tree, kept; shared by the plans made of it

struct quern_program {
    quern *q;
    atomic_int users;
    struct gen gen; // owns the tree
    struct source source;
    struct program_ast *ast;
    double parse_ms;
};

// Runs a stage of the compiler with a way out for when memory ends.
quern_status run_stage(struct gen *g, bool (*stage)(struct gen *g, void *state), void *state);
char *diagnostics_text(const struct gen *g); // the caller's
void program_retain(const struct quern_program *program);

// plan.c, compile_plan.c, arch.c, code.c: program x sizes to loaded kernels with their memory

struct argument {
    const struct buffer *buffer;
    quern_role role;
    int alignment; // bytes that the kernels need of its pointer
};

// Blocks that the GPU cannot hold at once: of a cluster, of a team; 0: it is not that.
struct misfit {
    int cluster, team;
};

struct quern_plan {
    quern *q;
    const struct quern_program *source;
    struct device *device; // NULL: none
    struct gen gen;        // owns program
    struct program program;
    char arch[32];
    struct target target; // own copy, the device's figures in it
    struct nvrtc_options options;
    enum math math;
    bool each_run, separate, loadable;
    bool by_wisdom;       // its specs are those that were measured to be the fastest
    struct misfit misfit; // the plan failed by that
    int alignment;
    int max_cluster;            // as the request has it
    bool no_teams;              // as well
    struct argument *arguments; // inputs and weights in declared order, then outputs
    int n_arguments, n_given;   // of them; those that execute is given
    pthread_mutex_t lock;       // guards what follows
    struct code *codes;         // one a kernel, made when asked for
    struct loaded **loaded;     // one a kernel, the device's
    void *module;               // what the device keeps besides
    void *workspace, *own_workspace, *counters;
    bool keeps;     // what depends on weights alone is computed once, and kept
    bool changed;   // a weight, since that was computed
    bool preparing; // it may still be under way, on a stream that has `mark` behind it
    void *prepared, *mark;
    void **buffers; // where each buffer of the program is; inputs and outputs change with each run,
                    // weights stay bound
    void **block;   // room for the Args of the widest kernel
    char *json, *explained[2];
    quern_first_use first_use;
};

struct plan_request {
    const quern_size *sizes;
    int n_sizes;
    const quern_plan_options *options;
    bool quiet;    // without the notes that another plan of the same program has had
    bool as_asked; // or not at all: not with smaller clusters, or without teams, where these do not
                   // fit
    int max_cluster; // blocks; 0: as the target has it
    bool no_teams;   // of the blocks of a cooperative launch, whatever the target has
};
quern_status plan_program(quern *q, const quern_program *program, const struct plan_request *r,
                          quern_plan **plan);
quern_status compile_plan(quern_plan *plan, const struct plan_request *request);

void target_of_arch(const char *name,
                    struct target *out); // the figures of the nearest that is known
quern_status settle_arch(quern_plan *plan, const char *name, bool no_load);
quern_status plan_code(quern_plan *plan, int i, struct code **out); // the lock is held
void plan_drop_code(quern_plan *plan, int i); // and its entry: it does not load
void plan_took_code(quern_plan *plan, double begun_ms, const struct code *code); // for first_use
void plan_set_workspace(quern_plan *plan, void *workspace);
const char *part_name(enum kernel_part part);
char *build_command(const quern_plan *plan, bool host); // that fills the cache, the caller's
char *all_sources(const struct program *p);             // one after the other, the caller's

// execute.c: pointers to launches

quern_status check_loaded(const quern_plan *plan, const char *call);
quern_status check_pointer(const quern_plan *plan, const struct argument *a, const void *pointer);
quern_status check_workspace(const quern_plan *plan);
int buffer_index(const quern_plan *plan, const struct argument *a);
// The plan's kernels from `first` to before `end`; between the device's enter and leave.
quern_status launch_kernels(quern_plan *plan, int first, int end, quern_stream stream);

// weights.c: weights to what is kept of them

// Puts the stream behind what is being prepared, and prepares where that is needed.  Between enter
// and leave, with the lock held.
quern_status launch_prepare(quern_plan *plan, bool even_unchanged, quern_stream stream);

// check.c, time.c, bench.c: quern.h

// As quern_check, with so many times the tolerance.
quern_status check_output(quern_plan *plan, int output, const void *got, const double *expected,
                          double slack, quern_check_result *result);

double now_ms(void);                                  // of a clock that only goes forward
void timing_of(double *us, int n, quern_timing *out); // sorts us

struct bench {
    quern_plan *plan;
    void *const *given; // as quern_execute takes it
    int n_given;
    const bool *touched; // one per buffer: an argument, or prepared, that a run reads or writes
    double bytes;        // as quern_costs has it
};
int first_kernel(const quern_plan *plan); // of a run, with everything prepared
// Marks what a run reads or writes from one end to the other, and returns its bytes.
double mark_touched(const quern_plan *plan, bool *touched);

// wisdom.c: the specs that were measured to be the fastest

struct json_t;
struct wisdom {
    struct json_t *record; // holds the specs
    struct chosen_spec *specs;
    int n_specs;
};
// Of a plan that has the model's specs; text: what was exported, in place of what this machine has.
// Free it, found or not.
bool wisdom_find(const quern_plan *plan, const char *text, struct wisdom *out);
void wisdom_free(struct wisdom *w);
// Publishes what was found for a plan that has the model's specs, and how long a run takes with
// those and with these.
bool wisdom_keep(const quern_plan *plan, const struct chosen_spec *specs, int n_specs,
                 double default_us, double tuned_us);

// receipt.c: the rules that rewrote a plan's program

void print_rules(FILE *out, const quern_plan *plan);
struct json_t *rules_json(const quern_plan *plan);      // with places and savings
struct json_t *rule_names_json(const quern_plan *plan); // names and classes

// explain.c: quern_plan_explain, quern_plan_json

void print_amount(FILE *out, double x, const char *unit); // "12.3 Mflop"
// doctor.c: quern_doctor

// device_on_host.c
bool compiler_words(const char *cxx, char *words,
                    size_t n); // what `c++ --version` says first; false: not there
