// emit.h: the state of writing one kernel's source, shared by emit.c and emit_*.c
#pragma once
#include "gen/kernel.h"

enum { MAX_STAGES = 30 };

struct emitter {
    struct fusion *f;
    const struct nest *nest;
    const struct scheduled *s;
    FILE *out; // the functions; they are written before Spec, whose constants they name

    const struct launch *launch;
    struct emitted_args *args;
    int first_arg;      // of this phase
    int64_t *constants; // Spec::n0, n1, ...
    int n_constants, cap_constants;

    // Per value of the nest.  A nest works in stages: one per phase of reductions, then the store.
    uint32_t *stages;          // element values: bit per stage that needs it
    bool *row_needed, *in_row; // row values: computed at all, kept as a field of Row
    bool *cached;              // element values that Elements keeps from their first stage on
    bool *divides;             // row values: kept as a Divisor of Row
    bool *printed;             // has a temporary in the function being written
    bool *held;                // element values: has an array of all lanes there
    const bool *ready;         // values of an operand that were made ahead; NULL: none

    // The function being written.
    int stage;
    bool whole_row; // values of a whole row, outside any loop over lanes
    const char *indent;
    int lane_variable, lanes;
    const char *lanes_text; // "lanes", "Spec::vec_a"
    bool loads_as_told;     // by a template's parameter How
};

// emit_names.c: how things are called

const char *constant_text(struct gen *g, const struct value *v);
const char *offset_text(struct emitter *e, const struct index *x, bool at_lane); // of a pointer
const char *index_text(struct emitter *e, const struct index *x, bool at_lane);
// In signed arithmetic, for an index that may be negative.
const char *signed_index_text(struct emitter *e, const struct index *x);
const char *guard_text(struct emitter *e, const struct guard *guard, bool at_lane);
// Whether a phase of the same launch writes it, before this one.
bool is_fresh(const struct emitter *e, const struct node *node);
// The function that loads elements of a node's buffer: "load", "load_coherent", "load_own".
const char *loader(const struct emitter *e, const struct node *node);
// The field of Args for a node's buffer, which is added when it is new.
const char *argument_name(struct emitter *e, const struct node *node, bool written);
// One constant of Spec per line: the template's fields, the program's sizes, and constants that
// indices use.
void print_spec(struct emitter *e, FILE *out);
void print_args(struct emitter *e, FILE *out);

// emit_value.c: values as text

bool is_row_value(const struct emitter *e, const struct value *v);
bool is_element_load(const struct emitter *e, const struct value *v);
// Finds out which stage needs what, from each stage's roots.
void need_in_stage(struct emitter *e, const struct value *v, int stage);
void need_row(struct emitter *e, const struct value *v);
// Spelling of a value that was computed before, or is a literal.
const char *spelled(struct emitter *e, const struct value *v);
// Whether an operand of a contraction has had it made ahead.
bool is_ready(const struct emitter *e, const struct value *v);
// Whether an earlier stage left it in Elements.
bool is_kept(const struct emitter *e, const struct value *v);
// Of an array that has it for all lanes: of Elements, or of the function being written.
const char *lanes_name(struct emitter *e, const struct value *v);
// What a store per element rounds: that need not have been rounded to the same format before.
const struct value *stored_value(struct emitter *e, int store);
// Writes the temporaries that `v` needs and do not exist yet.
void emit_value(struct emitter *e, const struct value *v);
// One load for all lanes.
bool is_uniform_load(struct emitter *e, const struct value *v);
void emit_row_fields(struct emitter *e);
void emit_row_values(struct emitter *e, int phase);
// The loads of `chosen` values: a field each, and the statements that fill it.
void emit_load_fields(struct emitter *e, const bool *chosen);
void emit_loads(struct emitter *e, const bool *chosen);

// emit_functions.c: what a family's template calls

void emit_functions(struct emitter *e);

// emit_divide.c: divisions by what is the same for all lanes

// Whether they are done in all lanes at once, by divide_by.
bool is_division_of_lanes(struct emitter *e, const struct value *v);
// Does those that the roots need, before the loop over lanes that computes the roots.
void emit_divisions(struct emitter *e, const struct value *const *roots, int n_roots);

// emit_tiles.c: transposed loads

bool goes_through_a_tile(struct emitter *e, const struct value *v);
void emit_tiles(struct emitter *e);

// emit_phase.c: reductions

void begin_function(struct emitter *e, int stage, bool whole_row);
void emit_lane_loop(struct emitter *e);
void emit_phases(struct emitter *e);
