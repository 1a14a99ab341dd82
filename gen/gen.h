// gen.h: program text to kernels as CUDA source.  Sections stand in the order of the pipeline
// (compile.c).
//
// Everything here is pure: no CUDA header, no environment, no clock, no mutable global.  `struct
// gen` is the compilation: its arena owns all that the stages make, its diagnostics hold what went
// wrong. A function that returns bool or a pointer says with false or NULL: failed, and already
// reported.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { MAX_RANK = 12 };

// arena.c: zeroed memory, freed all at once.  Out of memory leaves by gen->escape (a longjmp to
// compile's caller).

struct arena {
    struct arena_block *blocks;
    size_t bytes; // handed out so far
};

struct gen;
void *arena_alloc(struct gen *g, size_t bytes);
char *arena_text(struct gen *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
void arena_free(struct arena *a);
#define arena_new(g, type, count) ((type *)arena_alloc((g), sizeof(type) * (size_t)(count)))

// diag.c: errors, warnings and notes with line, caret and span

struct source {
    const char *name; // for messages
    const char *text; // NUL-terminated; n_bytes may show an embedded NUL, which lex reports
    size_t n_bytes;
};

struct span {
    const char *at; // into a source's text; NULL: no place
    int len;
};

enum severity { SEVERITY_error, SEVERITY_warning, SEVERITY_note };

enum { MAX_ERRORS = 10 };

struct gen {
    struct arena arena;
    const struct source *source;  // the user's program
    const struct source *prelude; // prelude.qn
    struct span at;               // where the node being built comes from; builders report here
    const char *within; // prelude function being expanded for the user's call: precedes messages
    struct diag *diags, **next_diag;
    int n_errors, n_warnings;
    void *escape; // jmp_buf of the caller, for out of memory
};

// Report at a place.  Always return false, so that `return fail_at(...)` reads well.  Messages are
// lower case, without a period, and say what was expected and what was got.  The span may lie in
// the source or the prelude; one that lies in the prelude is reported at the user's call (g->at is
// kept there by build).
bool fail_at(struct gen *g, struct span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool fail(struct gen *g, const char *format, ...) __attribute__((format(printf, 2, 3))); // at g->at
void warn_at(struct gen *g, struct span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void note_at(struct gen *g, struct span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// All that was reported, as people read it: `file:line:col: error: message`, the line, a caret
// under the span.
void diag_print(const struct gen *g, FILE *out);

struct position {
    int64_t line, column; // from 1; columns count characters
};
// A line of the source: {NULL} before the first search, then where the last one ended, from which
// the next one goes on.
struct text_line {
    const char *start;
    int64_t number;
};
// false: not in the source
bool find_position(const struct gen *g, struct span at, struct text_line *from,
                   struct position *out);

// dtypes.def, ops.def

enum dtype {
#define DTYPE(name, ...) DT_##name,
#include "dtypes.def"
#undef DTYPE
    DT_COUNT
};

enum dtype_class { CLASS_float, CLASS_integer, CLASS_boolean };

struct dtype_info {
    const char *name;
    int bytes;
    enum dtype_class class;
    int mantissa;
    const char *storage, *compute, *npy;
};
extern const struct dtype_info dtype_info[DT_COUNT];

enum op {
#define OP(name, ...) OP_##name,
#include "ops.def"
#undef OP
    OP_COUNT
};

enum op_kind { KIND_leaf, KIND_elementwise, KIND_reduction, KIND_contraction, KIND_movement };

enum op_types {
    TYPES_same,
    TYPES_float,
    TYPES_compare,
    TYPES_logic,
    TYPES_test,
    TYPES_where,
    TYPES_index,
    TYPES_own
};

struct op_info {
    const char *name;
    int arity;
    enum op_kind kind;
    enum op_types types;
    const char *symbol, *cuda;
    int cost;
};
extern const struct op_info op_info[OP_COUNT];

// graph.c: SSA nodes in creation order.  Never fill a node by hand: the builders check shapes and
// dtypes.

struct node {
    enum op op;
    enum dtype dtype;
    int id; // index in graph->nodes
    int rank;
    int64_t dim[MAX_RANK];
    int n_in;
    struct node **in;
    const char *name; // of an input, a weight, or the program's own variable; NULL otherwise
    struct span at;
    union {
        int argument;       // input, weight: position among the program's arguments
        double value;       // constant of a floating type; pad's fill (any dtype)
        int64_t integer;    // constant of an integer or boolean type
        int axis;           // iota, concat
        uint32_t axes;      // reductions: bit a for axis a
        int perm[MAX_RANK]; // permute
        struct {
            int64_t start[MAX_RANK], step[MAX_RANK]; // slice; step may be negative
        };
        struct {
            int64_t before[MAX_RANK]; // pad: elements put in front; behind follows from dim
            double fill;
        };
    } attr;
};

struct output {
    const char *name;
    struct node *node;
    struct span at;
};

struct graph {
    const char *name;
    struct node **nodes;
    int n_nodes, cap_nodes;
    struct node **arguments; // inputs and weights in declared order
    int n_arguments;
    struct output *outputs;
    int n_outputs;
    const struct size *sizes; // the program's sizes with their values, in declared order
    int n_sizes;
};

struct size {
    const char *name;
    int64_t value;
};

struct graph *graph_new(struct gen *g, const char *name);
struct node *graph_argument(struct gen *g, struct graph *graph, enum op op, const char *name,
                            enum dtype dtype, int rank, const int64_t *dim);
void graph_output(struct gen *g, struct graph *graph, const char *name, struct node *node);
struct node *graph_constant(struct gen *g, struct graph *graph, enum dtype dtype, double value);
struct node *graph_integer(struct gen *g, struct graph *graph, enum dtype dtype, int64_t value);
struct node *graph_iota(struct gen *g, struct graph *graph, int rank, const int64_t *dim, int axis);
// Elementwise ops broadcast as NumPy does; dtypes must already agree (build.c inserts casts).
struct node *graph_elementwise(struct gen *g, struct graph *graph, enum op op, int n,
                               struct node *const *in);
struct node *graph_cast(struct gen *g, struct graph *graph, struct node *x, enum dtype dtype);
// Keeps the reduced axes with size 1.  No axes: x itself.
struct node *graph_reduce(struct gen *g, struct graph *graph, enum op op, struct node *x,
                          uint32_t axes);
struct node *graph_matmul(struct gen *g, struct graph *graph, struct node *a, struct node *b);
struct node *graph_reshape(struct gen *g, struct graph *graph, struct node *x, int rank,
                           const int64_t *dim);
// A node of its own with x's value: a reshape to the same shape.
struct node *graph_copy(struct gen *g, struct graph *graph, struct node *x);
struct node *graph_permute(struct gen *g, struct graph *graph, struct node *x, const int *perm);
struct node *graph_broadcast(struct gen *g, struct graph *graph, struct node *x, int rank,
                             const int64_t *dim);
struct node *graph_slice(struct gen *g, struct graph *graph, struct node *x, const int64_t *start,
                         const int64_t *step, const int64_t *dim);
struct node *graph_pad(struct gen *g, struct graph *graph, struct node *x, const int64_t *before,
                       const int64_t *after, double fill);
struct node *graph_concat(struct gen *g, struct graph *graph, int n, struct node *const *in,
                          int axis);

int64_t node_numel(const struct node *n);
bool node_same_shape(const struct node *a, const struct node *b);
const char *shape_text(struct gen *g, enum dtype dtype, int rank,
                       const int64_t *dim); // "f32[8,64]"
// Asserts the invariants: ids are positions, inputs come before users, shapes and dtypes are what
// builders make.
void graph_check(const struct graph *graph);

// print.c: the stable text form, printed and read back (print of read is the identity)

void print_graph(const struct graph *graph, FILE *out);
struct graph *read_graph(struct gen *g, const struct source *text);

// lex.c: text to tokens

struct token; // defined in lex.h's section of parse.h: only lex.c and parse.c see it

// parse.c: text to syntax tree

struct program_ast; // syntax.h
struct program_ast *parse(struct gen *g, const struct source *source);
void print_syntax(const struct program_ast *program, FILE *out); // with all brackets

// build.c: syntax tree x sizes to graph.  Sizes not given take their defaults or are bound from
// argument shapes.

struct graph *build(struct gen *g, const struct program_ast *program, const struct size *sizes,
                    int n_sizes);
extern const char prelude_text[]; // prelude.qn, embedded
// Binds, into out, every size that an argument's shape settles: the dims that are a plain size
// name.  Checks rank, literal dims, and dims of one name.  n_out: in: capacity, out: how many.
bool sizes_of_argument(struct gen *g, const struct program_ast *program, const char *name, int rank,
                       const int64_t *dim, struct size *out, int *n_out);

// rewrite.c: graph to a simpler graph with the same outputs, by rules that are listed in a receipt

enum math { MATH_real, MATH_strict, MATH_finite, MATH_fast }; // real: where none is asked for

enum rule_class {
    RULE_exact, // the same bits for every input
    RULE_real,  // equal in real arithmetic; NaN stays NaN; Inf and NaN may swap where an
                // intermediate is not finite
    RULE_finite // right for finite values only
};
extern const char *const math_name[];       // "strict"
extern const char *const rule_class_name[]; // "exact"

struct rewrite_options {
    enum math math;
    bool each_run;    // what depends on weights alone is computed in every run, not once
    bool keep_graphs; // the receipt has the graph after each rule
};

struct receipt_line {
    const char *rule;
    enum rule_class class;
    struct span at;                  // in the user's source
    double saved_flops, saved_bytes; // negative where a later rule earns it back
    double saved_time;               // by the cost model, in operations
    struct graph *after;
};

struct receipt {
    struct receipt_line *lines;
    int n_lines, cap_lines;
    int64_t steps; // nodes that were looked at: linear in the graph
};

// receipt: NULL, or zeroed by the caller and filled.
struct graph *rewrite(struct gen *g, const struct graph *graph,
                      const struct rewrite_options *options, struct receipt *receipt);

// target.c: what is known of a GPU

struct target {
    const char *name; // "sm_90a": as NVRTC's --gpu-architecture takes it
    int sm;           // 90
    const char *gpu;  // the model the figures below stand for
    int n_sms, shared_per_block, shared_per_sm, registers_per_sm, threads_per_sm;
    int max_cluster; // blocks
    bool teams;      // rows may be shared by the blocks of a cooperative launch
    int64_t l2_bytes;
    double bytes_per_second, f32_flops; // reachable, not nominal
};
extern const struct target targets[];
extern const int n_targets;
const struct target *target_find(const char *name); // NULL: unknown

// split.c: graph to what depends on weights alone, computed once (prepare), and the rest (run)

struct parts {
    struct graph *prepare; // weights in, prepared tensors out; NULL: nothing is worth preparing
    struct graph *run;     // inputs, the weights it reads itself, then the prepared tensors
    int n_kept;            // prepared tensors
    // What each argument of a part is: the declared argument of that number; from the number of
    // declared ones on: a prepared tensor, in the order of prepare's outputs.
    int *prepare_from, *run_from;
};
struct parts split(struct gen *g, const struct graph *graph, const struct target *target);

// index.c: integer expressions over the variables of a kernel's iteration domain: see index.h
// fuse.c, schedule.c, emit.c: graph to kernels: see kernel.h

// The narrow waist: all that runtime/ knows of a kernel

enum buffer_kind {
    BUFFER_input,
    BUFFER_weight,
    BUFFER_output,
    BUFFER_workspace,
    BUFFER_counter,
    BUFFER_prepared // kept from a prepare to the runs after it
};

enum kernel_part { PART_prepare, PART_run };

struct candidate {
    const char *spec;
    double predicted_us; // roughly: to order them by
};

struct buffer {
    enum buffer_kind kind;
    const char *name; // of arguments, outputs and what is prepared
    enum dtype dtype;
    int rank;
    int64_t dim[MAX_RANK];
    int64_t bytes;
    int64_t offset; // workspace: from its start, 256-byte aligned, reused by lifetime.
                    // counter: from the start of the plan's counters, which are zero before the
                    // first run and which kernels alone write.
                    // prepared: from the start of what is kept, 256-byte aligned
    int argument;   // input, weight: position among the program's arguments; output: among its
                    // outputs
};

struct kernel {
    const char *name;   // of the extern "C" function
    const char *source; // whole: the templates it includes come as in-memory headers
    enum kernel_part part;
    const char *family, *expression;
    const char *spec;                   // "vec=4 threads=256 ..."
    const struct candidate *candidates; // specs that it could have, the model's choice first;
    int n_candidates;                   // 0: they were not asked for
    int n_args;
    int *args; // Args holds one pointer per entry, in this order: indices into program.buffers
    unsigned grid[3], block[3], shared_bytes, cluster[3];
    bool cooperative; // all blocks run at once; fewer of them, along x, will do
    unsigned team;    // but whole teams of that many
    bool walks;       // so will fewer clusters, and more than run at once are of no use
    int alignment;    // bytes that its widest access needs of every pointer
    double bytes, flops, floor_us;
    const char *stitched; // the name that it would have with those after it, were they not separate
};

struct program {
    const char *name;
    const struct target *target;
    const struct graph *graph; // as built, before any rewrite: what eval evaluates
    struct receipt receipt;    // of the rules that rewrote it
    struct buffer *buffers;
    int n_buffers;
    int *arguments, n_arguments; // buffer of each declared input and weight
    int *outputs, n_outputs;     // buffer of each output
    struct kernel *kernels;      // of prepare, then of run
    int n_kernels, n_prepare;    // n_prepare: of them, those of prepare
    int64_t workspace_bytes, counter_bytes, prepared_bytes;
};

// eval.c: the reference.  Evaluates a graph on the CPU, node by node, as the program is written.

struct tensor {
    enum dtype dtype;
    int rank;
    int64_t dim[MAX_RANK];
    void *data; // C order.  eval's own values: double for floating types, int64_t for the others
};

enum eval_mode {
    EVAL_exact,   // floating values in f64; casts round; integers wrap in their dtype
    EVAL_declared // every operator rounds to its dtype, f32 arithmetic in f32: what `--math strict`
                  // is bit-equal to
};

// arguments: one per graph argument, data in the dtype's own storage format.  outputs: filled, data
// in arena memory, double or int64_t elements as above.
bool eval(struct gen *g, const struct graph *graph, enum eval_mode mode,
          const struct tensor *arguments, struct tensor *outputs);
// How far a kernel's value may be from the exact one: |got - expected| <= absolute + relative *
// |expected|. The one function of dtype and reduction length that every check uses.
struct tolerance {
    double absolute, relative;
};
struct tolerance tolerance(const struct graph *graph, const struct node *output);
double load_element(enum dtype dtype, const void *data, int64_t i); // storage to double
void store_element(enum dtype dtype, void *data, int64_t i,
                   double value); // double to storage, rounding once
int64_t load_integer(enum dtype dtype, const void *data, int64_t i);
void store_integer(enum dtype dtype, void *data, int64_t i, int64_t value);

// compile.c: the pipeline

struct chosen_spec {
    const char *kernel; // by name
    const char *spec;   // the text of a candidate
};

struct compile_options {
    const struct target *target;
    const struct size *sizes;
    int n_sizes;
    int alignment; // bytes every argument pointer is promised to be aligned to; 0: 16
    enum math math;
    bool each_run;                   // nothing is kept: what is prepared lies in the workspace
    bool separate;                   // no kernel is made of several
    const struct chosen_spec *specs; // in place of the model's choice; one that is no candidate is
    int n_specs;                     // noted and has no effect
    bool list_candidates;
    const char *dump; // comma-separated stage names, or NULL
    FILE *dump_to;
};

bool compile(struct gen *g, const struct program_ast *ast, const struct compile_options *options,
             struct program *out);
bool compile_graph(struct gen *g, struct graph *graph, const struct compile_options *options,
                   struct program *out); // from a graph on; sizes are not looked at
