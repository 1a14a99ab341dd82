// graph.h: what the builders (graph.c, movement.c) and their check share.
#pragma once
#include "gen/gen.h"

// More elements than any memory holds; products of dimensions below it never overflow, in bytes
// neither.
#define MAX_ELEMENTS ((int64_t)1 << 40)

// A node with copied inputs, not yet in any graph, or NULL when an input is (its builder has
// reported).
struct node *node_new(struct gen *g, enum op op, enum dtype dtype, int n_in,
                      struct node *const *in);
void node_set_shape(struct node *n, int rank, const int64_t *dim);
bool node_shape_is_possible(struct gen *g, const struct node *n);
const char *node_text(struct gen *g, const struct node *n); // "f32[8,64]"
// Checks the shape and gives the node the graph's next id.
struct node *node_add(struct gen *g, struct graph *graph, struct node *n);

// The first pair of inputs that NumPy's broadcasting cannot bring together.
struct clash {
    int first, second, axis; // axis of the result
};

// Broadcasts all but the last `keep` axes of the inputs; false: clash says where.
bool broadcast_shape(int n, struct node *const *in, int keep, int *rank, int64_t *dim,
                     struct clash *clash);
enum dtype result_dtype(enum op op, struct node *const *in); // of all but leaves and cast
// Whether the first and the last element taken along an axis of size `size` are in it.
bool slice_is_inside(int64_t size, int64_t start, int64_t step, int64_t count);
// The value a constant of this dtype has: rounded once, with one NaN.
double constant_value(enum dtype dtype, double value);
bool integer_fits(enum dtype dtype, int64_t value);
