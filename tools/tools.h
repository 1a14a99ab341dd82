// tools.h: the quern command: one struct of options in, one exit status out.  Sections in the order
// of a run.
//
// The command stands on runtime/quern.h alone: what it can do, a host program can.  A function that
// returns an exit status has already said on standard error what went wrong.
#pragma once
#include "runtime/quern.h"
#include <stdbool.h>
#include <stdio.h>

enum exit_status {
    STATUS_done = 0,
    STATUS_wrong = 1,  // the program or its data is wrong, or a check failed
    STATUS_usage = 2,  // the command line is wrong
    STATUS_missing = 3 // the machine lacks something: driver, NVRTC, compiler, memory
};

// options.c: argv to struct options

enum {
    EMIT = 1,
    RUN = 2,
    EXPLAIN = 4,
    CACHE = 8,
    DOCTOR = 16,
    HELP = 32,
    BENCH = 64,
    TUNE = 128,
    WISDOM = 256
};

struct options;

struct command {
    const char *name;
    unsigned id;
    const char *operand; // what it takes besides options; NULL: nothing
    bool operand_needed;
    const char *second; // another operand that it can take; NULL: none
    enum exit_status (*run)(const struct options *o);
};

struct binding { // NAME=FILE
    const char *name, *file;
};

// The lists have room for one entry per argument of the command line.
struct options {
    const struct command *command;
    const char *operand; // FILE.qn, the action of cache or wisdom, the topic of help
    const char *second;  // the file or program of wisdom's action
    quern_size *sizes;   // -D
    struct binding *in, *out, *expect;
    const char **archs;
    int n_sizes, n_in, n_out, n_expect, n_archs;
    const char *out_dir, *dump, *plot, *wisdom;
    quern_device device;
    quern_math math;
    bool source_format, specs, check, time, json, each_run, separate, verbose, random, offline,
        no_cache, no_wisdom, patient;
    uint64_t seed;
    int alignment;     // 0: not asked for
    int64_t max_bytes; // cache prune; -1: not asked for
    double budget_s;   // tune; 0: no bound
    // from the environment, read in quern.c alone
    const char *cache_dir; // NULL: none
    const char *cuda_home, *cxx, *cxx_flags;
};

extern const struct command commands[]; // quern.c; ends with a NULL name
enum exit_status options_read(struct options *o, int argc, char **argv);
void options_free(struct options *o);
const char *nearest(const char *word, const char *const *candidates, int n); // NULL: none is near

// cmd_*.c

enum exit_status cmd_emit(const struct options *o);
enum exit_status cmd_run(const struct options *o);
enum exit_status cmd_bench(const struct options *o);
enum exit_status cmd_explain(const struct options *o);
enum exit_status cmd_cache(const struct options *o);
enum exit_status cmd_tune(const struct options *o);
enum exit_status cmd_wisdom(const struct options *o);
enum exit_status cmd_doctor(const struct options *o);
enum exit_status cmd_help(const struct options *o);
void usage(FILE *out);

// session.c: an open context and a parsed program

struct session {
    const struct options *options;
    quern *q;
    char *text; // of the program's file
    size_t n_bytes;
    char *wisdom; // of --wisdom's; NULL: the cache's
    quern_program *program;
    char *native; // the GPU's arch, once it was asked for
    bool dumping; // the library's log lines are a dump
};

// Reads the command's FILE, if it takes one, and opens the context.
enum exit_status session_open(struct session *s, const struct options *o, quern_device device);
enum exit_status session_parse(struct session *s);
enum exit_status session_plan(struct session *s, const quern_size *sizes, int n_sizes,
                              const quern_plan_options *options, quern_plan **plan);
// The i-th --arch, `native` replaced by the GPU's.  Where none is given: the GPU's, or sm_90a
// without a GPU.
enum exit_status session_arch(struct session *s, int i, const char **arch);
void session_close(struct session *s);
// Says on standard error what the library's last failure was, and turns it into an exit status.
enum exit_status session_failure(const struct session *s, quern_status status);
// Prints `quern: ` and the sentence; returns status, so that `return complain(...)` reads well.
enum exit_status complain(enum exit_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// files.c: whole files in and out

// The contents, NUL-terminated, the caller's to free; NULL: reported.  `-` is standard input; what
// is read is `a program`, in messages.
char *read_text(const char *path, const char *what, size_t *n_bytes);
// Head and body are written one after the other; what could not be written whole is removed.
bool write_file(const char *path, const void *head, size_t head_bytes, const void *body,
                size_t body_bytes);
bool make_folders(const char *path); // with its parents

// tensors.c: the arguments of a run: their data on the host and on the device

struct npy;

struct tensor {
    quern_argument argument;
    void *host;   // C order, argument.bytes
    void *memory; // quern_alloc's
    void *device; // in it, as aligned as --alignment says
};

struct tensors {
    struct tensor *tensor; // as quern_plan_argument numbers them
    int n, n_in;           // n_in: inputs and weights, which come first
};

// files: one per entry of the list, zeroed, the caller's to free.
enum exit_status tensors_read(const struct binding *list, int n, struct npy *files);
// -D and the shapes of the --in files to sizes, the caller's to free.
enum exit_status tensors_sizes(const struct session *s, const struct npy *files, quern_size **sizes,
                               int *n_sizes);
enum exit_status tensors_fill(struct tensors *t, const struct session *s, const quern_plan *plan,
                              struct npy *files);
enum exit_status tensors_upload(struct tensors *t, const struct session *s);
enum exit_status tensors_download(struct tensors *t, const struct session *s);
// Binds the weights; arguments: the other pointers, as quern_execute takes them, the caller's to
// free.
enum exit_status tensors_bind(const struct tensors *t, const struct session *s, quern_plan *plan,
                              void ***arguments, int *n_arguments);
// Whether each name of the list is an output's.
enum exit_status tensors_name_outputs(const struct tensors *t, const char *option,
                                      const struct binding *list, int n);
enum exit_status tensors_write(const struct tensors *t, const struct options *o,
                               FILE *people); // --out
void tensors_free(struct tensors *t, quern *q);
bool same_shape(const quern_argument *a, const struct npy *file);
enum exit_status mismatch(const quern_argument *a, const char *path,
                          const struct npy *file); // says it

// report.c: what run says of its outputs

struct outcome { // of one output
    bool checked;
    quern_check_result result;
};

char *shape_string(quern_dtype dtype, int rank,
                   const int64_t *dim); // "f32[8,64]", the caller's to free
void report_check(FILE *out, const quern_argument *a, const char *against,
                  const quern_check_result *r);
void report_summary(FILE *out, const struct tensor *t);
void report_time(FILE *out, const struct tensors *t, const quern_timing *timing);
struct json_t;
// On a line of standard output; takes the root, which is NULL where there was no memory for it.
enum exit_status print_json(struct json_t *root);
enum exit_status report_json(const struct session *s, const char *arch, const struct tensors *t,
                             const struct outcome *outcomes, const quern_timing *timing);

// progress.c: one line on a terminal for what takes over a second

struct progress;
struct progress *progress_begin(const char *what); // NULL where standard error is no terminal
void progress_end(struct progress *p);
