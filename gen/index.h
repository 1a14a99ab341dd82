// index.h: integer expressions over the variables of a kernel's iteration domain
//
// An index is kept in one canonical form and interned: equal expressions are the same pointer, so
// that a value loaded twice at the same place is found to be the same.  A sum holds atoms
// (variables, divisions, remainders) with coefficients; every expression knows its range.  All
// divisions are floor divisions by positive constants.
#pragma once
#include "gen/gen.h"

enum index_kind { INDEX_sum, INDEX_variable, INDEX_div, INDEX_mod };

struct index_term {
    const struct index *atom;
    int64_t coefficient;
};

struct index {
    enum index_kind kind;
    int id;
    int64_t low, high;  // inclusive
    uint32_t variables; // bit per variable it depends on
    int64_t constant;   // sum: what is added to the terms (a constant is a sum of no terms)
    int n_terms;        // sum
    struct index_term *terms;
    int variable;           // variable: its number, below 32
    const char *name;       // variable: as source text spells it
    const struct index *of; // div, mod
    int64_t by;             // div, mod
};

struct index_pool; // interns; lives in the arena

struct index_pool *index_pool_new(struct gen *g);
const struct index *index_constant(struct index_pool *p, int64_t value);
// A variable of the range 0 .. extent - 1 (an extent below 1 counts as 1).  Extent 1: the constant
// 0.
const struct index *index_variable(struct index_pool *p, int variable, int64_t extent,
                                   const char *name);
const struct index *index_add(struct index_pool *p, const struct index *a, const struct index *b);
const struct index *index_scale(struct index_pool *p, const struct index *a, int64_t by);
const struct index *index_div(struct index_pool *p, const struct index *a, int64_t by);
const struct index *index_mod(struct index_pool *p, const struct index *a, int64_t by);
const struct index *index_substitute(struct index_pool *p, const struct index *x, int variable,
                                     const struct index *by);
bool index_is_constant(const struct index *x, int64_t *value);

// What happens to x over the lanes variable = lanes * q + 0 .. lanes - 1: true when x = base +
// stride * lane. base_multiple: the largest power of two, at most 16, that divides base for every
// q.
bool index_lanes(struct index_pool *p, const struct index *x, int variable, int lanes,
                 int64_t *stride, int *base_multiple);

// Whether the lanes are consecutive and the first is a multiple of their number: one vector access.
bool index_side_by_side(struct index_pool *p, const struct index *x, int variable, int lanes);

// Row-major position of coordinates, and coordinates of a row-major position.
const struct index *index_linear(struct index_pool *p, int rank, const int64_t *dim,
                                 const struct index *const *at);
void index_coordinates(struct index_pool *p, int rank, const int64_t *dim,
                       const struct index *linear, const struct index **at);

// As source text.  Constants above 1 are spelled by `constant` (a named constant of Spec), which
// returns its text.
struct index_style {
    void *user;
    const char *(*constant)(void *user, int64_t value);
    bool open; // a sum stands without its brackets
};
void index_print(const struct index *x, const struct index_style *style, FILE *out);
