// build.h: what the files of the build stage share.
//
//     build.c       statements: sizes, arguments, assignments, outputs
//     evaluate.c    expressions; operators with values.c and scalar.c, x[...] with subscript.c
//     expand.c      calls: arguments to parameters, functions of the language
//     builtins.c    calls that need C: elementwise, reductions, queries; shapes.c: movement;
//     einsum.c
//
// An expression's value is a tensor (a node) or known now: sizes, numbers, truths, strings, lists,
// dtypes, None.
#pragma once
#include "gen/graph.h"
#include "gen/syntax.h"

enum value_kind {
    VALUE_failed, // and reported
    VALUE_node,
    VALUE_integer,
    VALUE_float,
    VALUE_bool,
    VALUE_text,
    VALUE_none,
    VALUE_list,
    VALUE_dtype
};

struct value {
    enum value_kind kind;
    struct span at;              // in the user's text; .at is NULL for what the prelude computes
    const struct symbol *symbol; // the variable that it was read from, or NULL
    struct node *node;
    bool whole; // a float that is an exact integer, D / 2 for an even D: good where an integer is
                // wanted
    int64_t integer; // also of a whole float; the truth of a bool; a dtype
    double number;
    const char *text;
    int n;
    struct value *items;
};

struct symbol {
    const char *name, *what; // "variable"
    struct span at;
    struct value value;
    bool used;
};

struct scope {
    struct map symbols;
    const struct callee *callee; // NULL: the program itself
    const struct scope *caller;
    bool in_prelude;
};

struct call;
struct build;

struct builtin {
    const char *name;
    const char *parameters; // "x, axis?, *rest": ? may be left out (None), * collects what is left
                            // in a list
    struct value (*make)(struct build *b, const struct call *c);
    enum op op;
};

// What a name followed by ( stands for: exactly one of function and builtin.
struct callee {
    const char *name;
    const struct function *function;
    const struct builtin *builtin;
    struct signature *signature; // read when it is first called: expand.c
    bool in_prelude, used;
};

enum { MAX_PARAMETERS = 16 };

struct call {
    const struct callee *callee;
    struct span at;
    struct value args[MAX_PARAMETERS]; // by the position of the parameter
};

struct build {
    struct gen *g;
    struct graph *graph;
    const struct program_ast *program;
    struct map known;         // functions: built in and the prelude's
    struct map own;           // the program's, which go first
    struct map later;         // names that some statement of the program defines: struct statement
    struct scope top, *scope; // the program's names; where names are looked up now
    struct symbol **symbols;  // of the program, in order of definition
    int n_symbols;
    struct scope sizes;
    struct output_ast **outputs; // build.c
    struct map outputs_by_name;
    int n_outputs;
    int depth, n_calls;
    int n_noted; // errors, when a call was last told as the place of one
};

enum { MAX_CALLS = 1000000, MAX_DEPTH = 400 };

// values.c

struct value value_node(struct node *n); // NULL: failed
struct value value_integer(int64_t i);
struct value value_float(double d);
struct value value_bool(bool truth);
struct value value_none(void);
struct value value_failed(void);
bool is_scalar(const struct value *v); // integer, float or bool
double scalar_number(const struct value *v);
const char *value_kind_text(struct build *b, const struct value *v); // "f32[8,64]", "an integer"
const char *label(struct build *b, const struct value *v);           // how the user wrote it
void note_declared(struct build *b, const struct value *v);
// Fails at the expression being built; the called function's name goes before the message.
struct value fail_call(struct build *b, const struct call *c, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum dtype join_dtypes(enum dtype a, enum dtype b);
struct node *node_as(struct build *b, const struct value *v,
                     enum dtype dtype);                       // cast, or a constant
struct node *node_of(struct build *b, const struct value *v); // in its own dtype
bool as_nodes(struct build *b, int n, const struct value *values,
              struct node **nodes); // in their common dtype
struct value elementwise(struct build *b, const char *name, enum op op, int n,
                         const struct value *in);
bool want_integer(struct build *b, const char *what, const struct value *v, int64_t *out);
bool want_bool(struct build *b, const char *what, const struct value *v, bool *out);
// A list of integers, or one of them.
bool want_integers(struct build *b, const char *what, const struct value *v, int max, int64_t *out,
                   int *n);

// scalar.c: arithmetic of what is known now

struct value scalar_unary(struct build *b, enum op op, const struct value *x);
struct value scalar_binary(struct build *b, enum token_kind symbol, const struct value *x,
                           const struct value *y);
bool scalar_call(struct build *b, enum op op, int n, const struct value *in,
                 struct value *out); // false: no such function

// evaluate.c

struct value evaluate(struct build *b, const struct expr *e);
struct symbol *define(struct build *b, const char *name, struct span at, struct value value,
                      const char *what);
void place_at(struct build *b, struct span at); // where what is built next comes from
// "did you mean" the nearest name of the maps (NULL ones are passed over), in the place of the
// expression.
bool fail_unknown(struct build *b, struct span at, const char *what, const char *name,
                  const struct map *const maps[3]);

// subscript.c: x[...]

struct value subscript(struct build *b, const struct expr *e);
// Python's start:stop:step over an axis of this size; NULL: left out.
int64_t range_start(int64_t size, int64_t step, const int64_t *start);
int64_t range_count(int64_t size, int64_t step, int64_t start, const int64_t *stop);

// expand.c

struct value call_function(struct build *b, const struct expr *e);
struct value run_block(struct build *b, const struct block *block, bool *returned);
bool collect_functions(struct build *b);

// builtins.c, shapes.c, einsum.c

extern const struct builtin builtins[], shape_builtins[];
struct value build_reduction(struct build *b, const struct call *c);
struct value build_matmul(struct build *b, const struct call *c);
struct value build_einsum(struct build *b, const struct call *c);
struct value matmul(struct build *b, const struct value *x, const struct value *y);
struct node *reshape_to(struct build *b, struct node *x, int rank,
                        const int64_t *dim);                               // or x itself
struct node *permute_by(struct build *b, struct node *x, const int *perm); // or x itself
struct node *transposed(struct build *b, struct node *x);                  // last two axes
bool want_axis(struct build *b, const struct call *c, const struct value *v, int rank, int *axis);
// None: all axes.  In the order written; each once.
bool want_axes(struct build *b, const struct call *c, const struct value *v, int rank, int *axes,
               int *n);
int value_rank(const struct value *v);

// sizes.c

bool bind_sizes(struct build *b, const struct size *sizes, int n_sizes);
