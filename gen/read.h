// read.h: one line of a graph's text, between read.c (text) and read_node.c (node).
#pragma once
#include "gen/gen.h"

struct list {
    int n;
    int64_t value[MAX_RANK];
};

enum key {
    KEY_axes,
    KEY_axis,
    KEY_before,
    KEY_fill,
    KEY_name,
    KEY_perm,
    KEY_start,
    KEY_step,
    KEY_COUNT
};

struct line {
    enum op op;
    struct node **in;
    int n_in, cap_in;
    struct span number; // constant: its text
    const char *name;   // of an argument, or from name=
    bool has[KEY_COUNT];
    struct list list[KEY_COUNT]; // axis: one value
    double fill;
    enum dtype dtype;
    struct list dim;
};

extern const char *const key_name[KEY_COUNT];

// read_node.c: NULL: reported at g->at
struct node *build_line(struct gen *g, struct graph *graph, const struct line *l);
