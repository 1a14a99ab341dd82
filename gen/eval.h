// eval.h: what the files of the reference evaluator share: storage.c eval_ops.c eval_move.c
// eval_reduce.c eval.c.
#pragma once
#include "gen/gen.h"

// The evaluator's element: real for floating dtypes, integer for the others.
union element {
    double real;
    int64_t integer;
};

// eval.c: also what rewrite must leave alone

bool is_discontinuous(const struct node *n);
bool is_specified(const struct node *n); // f32 inputs leave one f32 result to choose

// storage.c

void load_all(enum dtype dtype, const void *data, int64_t n, union element *to);
double round_to(enum dtype dtype, double x);            // floating dtypes, to nearest even
void round_all(enum dtype dtype, double *x, int64_t n); // the same for n values in place
int64_t wrap_to(enum dtype dtype, int64_t x);           // integers; bool: x != 0
int64_t integer_from_real(enum dtype dtype, double x);  // truncates, saturates, NaN is 0
double real_from_integer(enum dtype dtype, int64_t x);  // rounds once

// eval_ops.c

enum precision {
    PRECISION_exact,   // f64
    PRECISION_compute, // each result rounded to what a kernel computes in: f32, for f64 f64
    PRECISION_declared // and then to the dtype
};

void round_results(enum precision precision, enum dtype dtype, union element *x, int64_t n);
// n results of an elementwise op from operands that lie side by side; in[j] may not overlap out.
void apply(const struct node *n, enum precision precision, int64_t count,
           const union element *const *in, union element *out);
double real_maximum(double a, double b);
double real_minimum(double a, double b);

// eval_move.c: values are views of blocks, so that most movement costs nothing

struct block {
    int64_t users; // values that look at it
    union element data[];
};

struct value {
    struct block *block;
    const union element *base; // the element at index 0, 0, ...
    int rank;
    int64_t dim[MAX_RANK],
        stride[MAX_RANK]; // in elements; 0 where broadcast, negative where flipped
};

enum { CHUNK = 512 }; // elements that are worked on at a time

// A new block, seen whole in C order.  False: out of memory.
bool value_new(struct value *v, int rank, const int64_t *dim);
void value_release(struct value *v);
int64_t value_numel(const struct value *v);
struct value value_permuted(const struct value *v, const int *perm);
struct value value_broadcast(const struct value *v, int rank, const int64_t *dim);
bool is_contiguous(const struct value *v);
// Elements first to first + n in C order: where they lie, or copied into room.
const union element *elements(const struct value *v, int64_t first, int64_t n, union element *room);
void copy_elements(const struct value *from, const struct value *to); // of the same shape
bool move(const struct node *n, const struct value *const *in, struct value *out);

// eval_reduce.c: before rounding

bool reduce(const struct node *n, const struct value *x, struct value *out);
bool contract(const struct node *n, const struct value *a, const struct value *b,
              struct value *out);
