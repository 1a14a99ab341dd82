// rewrite.h: what the engine (rewrite.c, working.c, cost.c, range.c) and the rules (rules_*.c)
// share.
//
// Rules work on one graph that changes under them.  Every node in it is unique by content, knows
// its users, and lives while it has any.  A rule makes nodes and returns the one that may stand in
// for its root; whether it does is the engine's decision, by cost.
//
// Of every rule tests/golden/rewrite has a program where it fires, and one where it must not, which
// `# not: RULE: why` says.
#pragma once
#include "gen/graph.h"

// The values a node can have.  -0.0 is below 0.0 here; low > high: nothing but NaN.
struct range {
    double low, high;
    bool nan;
};

struct state {
    int uses;            // by living nodes and outputs; 0: dead, or not yet in use
    struct node **users; // those that were ever registered: some no longer look at the node
    int n_users, cap_users;
    int next;    // chain of equal hashes: id + 1
    bool linked; // in the table
    bool listed; // registered with its inputs
    bool queued;
    bool of_input, of_weight; // depends on one
    bool decides;             // a discontinuous op looks at it, as in eval.c
    bool specified;           // all that it is computed from is specified to the last bit
    struct range range;
};

struct cost {
    double flops, bytes, time; // time in flops: bytes and idle lanes are counted in too
    int nodes;
};

struct rule;

struct rewriter {
    struct gen *g;
    struct graph *graph;
    const struct rewrite_options *options;
    struct receipt *receipt;
    struct state *state;
    int n_states, cap_states;
    int *bucket; // of the table: id + 1 of the first
    int n_buckets;
    struct node **stack; // of nodes whose use counts are changing
    int n_stack, cap_stack;
    int *queue; // a ring of ids
    int queue_first, n_queued, cap_queue;
    struct node **fresh; // nodes that came alive since a rule was tried
    int n_fresh, cap_fresh;
    struct node **merge; // pairs: the first has become equal to the second
    int n_merge, cap_merge;
    struct cost change; // of all living nodes, since a rule was tried
    double moved_time;  // of the nodes that came alive or died: what rounding is relative to
    double promise;     // what a rule says that the next rules will save
    const struct rule **by_op[OP_COUNT]; // the rules for a root, ended by NULL
};

struct rule {
    enum op root; // OP_COUNT: any
    enum rule_class class;
    const char *name;
    // A node of root's value, made of root's inputs and theirs, or NULL.  Where its shape differs
    // from root's it broadcasts, or lacks or has axes of size 1.
    struct node *(*apply)(struct rewriter *r, struct node *root);
};

struct rule_list {
    const struct rule *rule;
    int n;
};

extern const struct rule_list arithmetic_rules, term_rules, power_rules, reduction_rules,
    group_rules, contraction_rules, scale_rules, normalise_rules, range_rules, monotone_rules,
    movement_rules;
extern const struct rule_list *const rule_lists[]; // all of them, ended by NULL

// working.c: the graph that changes

void working_open(struct rewriter *r, const struct graph *graph);
struct graph *working_close(struct rewriter *r); // living nodes and all arguments, in order
struct node *interned(struct rewriter *r, struct node *made);
void hold(struct rewriter *r, struct node *n);    // one more use
void release(struct rewriter *r, struct node *n); // one less
void redirect(struct rewriter *r, struct node *from, struct node *to);
void enqueue(struct rewriter *r, struct node *n);
int uses(const struct rewriter *r, const struct node *n);
bool is_known(const struct rewriter *r, const struct node *n); // before any input is

struct node *make1(struct rewriter *r, enum op op, struct node *a); // elementwise
struct node *make2(struct rewriter *r, enum op op, struct node *a, struct node *b);
struct node *make3(struct rewriter *r, enum op op, struct node *a, struct node *b, struct node *c);
struct node *make_number(struct rewriter *r, enum dtype dtype, double value);
struct node *make_integer(struct rewriter *r, enum dtype dtype, int64_t value);
struct node *make_cast(struct rewriter *r, struct node *x, enum dtype dtype);
struct node *make_reduce(struct rewriter *r, enum op op, struct node *x, uint32_t axes);
struct node *make_matmul(struct rewriter *r, struct node *a, struct node *b);
struct node *make_reshape(struct rewriter *r, struct node *x, int rank, const int64_t *dim);
struct node *make_permute(struct rewriter *r, struct node *x, const int *perm);
struct node *make_broadcast(struct rewriter *r, struct node *x, int rank, const int64_t *dim);
struct node *make_slice(struct rewriter *r, struct node *x, const int64_t *start,
                        const int64_t *step, const int64_t *dim);
struct node *make_like(struct rewriter *r, const struct node *n, struct node *const *in);
struct node *swapped(struct rewriter *r, struct node *x); // the last two axes
struct node *fitted(struct rewriter *r, struct node *x, const struct node *like);

// cost.c

struct cost cost_of(const struct rewriter *r, const struct node *n);
double time_of_matmul(const struct rewriter *r, const struct node *n, int64_t rows,
                      int64_t columns);

// range.c

struct range range_of(const struct rewriter *r, const struct node *n); // from its inputs' ranges
bool at_most(double a, double b);                                      // -0.0 below 0.0

// rules_reduction.c, rules_contraction.c: what a sum would save by going into x, which is used once

double sum_gain(const struct rewriter *r, const struct node *x, uint32_t axes, int depth);
double group_gain(const struct rewriter *r, const struct node *reshape, const struct node *x,
                  uint32_t axes, int depth); // x: of the shape that is reshaped

// patterns.c: questions that rules ask

bool is_float(const struct node *n);
// f32 or f64: what rules make of known values in f16 and bf16 would be rounded once more.
bool is_wide(const struct node *n);
bool number(const struct node *n, double *value);   // one value everywhere
bool is_number(const struct node *n, double value); // to the sign of zero
bool power_of_two(enum dtype dtype, double value);  // its reciprocal is exact too
// The reduced axes of a broadcast operand: those that it has; *count: elements along the others.
uint32_t operand_axes(const struct node *x, const struct node *n, uint32_t axes, int64_t *count);
bool constant_along(const struct node *x, const struct node *n, uint32_t axes);
int64_t reduced_count(const struct node *reduction);
