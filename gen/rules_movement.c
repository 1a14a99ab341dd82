// rules_movement.c: rules of ops that only move elements: those that move nothing, pairs that are
// one, and slices on their way to the loads.

#include "gen/rewrite.h"
#include <string.h>

static bool keeps_order(const struct node *permute)
{
    for (int a = 0; a < permute->rank; a++)
        if (permute->attr.perm[a] != a)
            return false;
    return true;
}

static bool takes_all_forward(const struct node *slice)
{
    for (int a = 0; a < slice->rank; a++)
        if (slice->attr.start[a] != 0 || slice->attr.step[a] != 1)
            return false;
    return true;
}

// A reshape, broadcast or pad to the shape it has, a permute in order, a slice of all and a cast to
// its dtype -> x
static struct node *moves_nothing(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    (void)r;
    if (n->dtype != x->dtype || !node_same_shape(n, x))
        return NULL;
    if ((n->op == OP_permute && !keeps_order(n)) || (n->op == OP_slice && !takes_all_forward(n)))
        return NULL;
    return n->n_in == 1 ? x : NULL;
}

// reshape(reshape(x)) -> reshape(x)
static struct node *reshape_of_reshape(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    return x->op == OP_reshape ? make_reshape(r, x->in[0], n->rank, n->dim) : NULL;
}

// permute(permute(x)) -> permute(x)
static struct node *permute_of_permute(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    int perm[MAX_RANK];
    if (x->op != OP_permute)
        return NULL;
    for (int a = 0; a < n->rank; a++)
        perm[a] = x->attr.perm[n->attr.perm[a]];
    return make_permute(r, x->in[0], perm);
}

// broadcast(broadcast(x)) -> broadcast(x)
static struct node *broadcast_of_broadcast(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    return x->op == OP_broadcast ? make_broadcast(r, x->in[0], n->rank, n->dim) : NULL;
}

// slice(slice(x)) -> slice(x)
static struct node *slice_of_slice(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    int64_t start[MAX_RANK], step[MAX_RANK];
    if (x->op != OP_slice)
        return NULL;
    for (int a = 0; a < n->rank; a++) {
        start[a] = x->attr.start[a] + n->attr.start[a] * x->attr.step[a];
        step[a] = n->attr.step[a] * x->attr.step[a];
    }
    return make_slice(r, x->in[0], start, step, n->dim);
}

// The slice of an operand that broadcasts to what is sliced.
static struct node *slice_of_operand(struct rewriter *r, struct node *x, const struct node *n)
{
    int64_t start[MAX_RANK], step[MAX_RANK], dim[MAX_RANK];
    int missing = n->rank - x->rank;
    for (int a = 0; a < x->rank; a++) {
        bool whole = x->dim[a] == 1 && n->in[0]->dim[a + missing] != 1;
        start[a] = whole ? 0 : n->attr.start[a + missing];
        step[a] = whole ? 1 : n->attr.step[a + missing];
        dim[a] = whole ? 1 : n->dim[a + missing];
    }
    struct node *slice = make_slice(r, x, start, step, dim);
    return node_same_shape(slice, x) && takes_all_forward(slice) ? x : slice;
}

// slice(f(x, y)) -> f(slice(x), slice(y)), of elementwise f
static struct node *slice_of_elementwise(struct rewriter *r, struct node *n)
{
    struct node *f = n->in[0], *in[3];
    if (op_info[f->op].kind != KIND_elementwise)
        return NULL;
    for (int i = 0; i < f->n_in; i++)
        in[i] = slice_of_operand(r, f->in[i], n);
    return make_like(r, f, in);
}

// slice(broadcast(x)) -> broadcast(slice(x))
static struct node *slice_of_broadcast(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    if (x->op != OP_broadcast)
        return NULL;
    struct node *slice = slice_of_operand(r, x->in[0], n);
    return slice == x->in[0] ? make_broadcast(r, slice, n->rank, n->dim) : NULL;
}

// slice(A @ B) -> slice(A) @ slice(B)
static struct node *slice_of_contraction(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    if (x->op != OP_matmul)
        return NULL;
    struct node *in[2];
    for (int i = 0; i < 2; i++) {
        const struct node *m = x->in[i];
        int64_t start[MAX_RANK], step[MAX_RANK], dim[MAX_RANK];
        int missing = n->rank - m->rank;
        for (int a = 0; a < m->rank; a++) {
            bool inner = a == m->rank - (i ? 2 : 1);
            bool whole = inner || (a < m->rank - 2 && m->dim[a] == 1);
            start[a] = whole ? 0 : n->attr.start[a + missing];
            step[a] = whole ? 1 : n->attr.step[a + missing];
            dim[a] = whole ? m->dim[a] : n->dim[a + missing];
        }
        struct node *slice = make_slice(r, x->in[i], start, step, dim);
        in[i] = node_same_shape(slice, m) && takes_all_forward(slice) ? x->in[i] : slice;
    }
    return make_matmul(r, in[0], in[1]);
}

// slice(reduce(x)) -> reduce(slice(x))
static struct node *slice_of_reduction(struct rewriter *r, struct node *n)
{
    struct node *f = n->in[0];
    int64_t start[MAX_RANK], step[MAX_RANK], dim[MAX_RANK];
    if (op_info[f->op].kind != KIND_reduction)
        return NULL;
    for (int a = 0; a < n->rank; a++) {
        bool whole = f->attr.axes >> a & 1;
        start[a] = whole ? 0 : n->attr.start[a];
        step[a] = whole ? 1 : n->attr.step[a];
        dim[a] = whole ? f->in[0]->dim[a] : n->dim[a];
    }
    return make_reduce(r, f->op, make_slice(r, f->in[0], start, step, dim), f->attr.axes);
}

// slice(permute(x)) -> permute(slice(x)), where a computation can take the slice
static struct node *slice_of_permute(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    int64_t start[MAX_RANK], step[MAX_RANK], dim[MAX_RANK];
    if (x->op != OP_permute || op_info[x->in[0]->op].kind == KIND_leaf || uses(r, x) != 1)
        return NULL;
    for (int a = 0; a < n->rank; a++) {
        start[x->attr.perm[a]] = n->attr.start[a];
        step[x->attr.perm[a]] = n->attr.step[a];
        dim[x->attr.perm[a]] = n->dim[a];
    }
    r->promise = 1;
    return make_permute(r, make_slice(r, x->in[0], start, step, dim), x->attr.perm);
}

// slice(concat(x, y)) -> slice(x), where all that is taken lies in x
static struct node *slice_of_concat(struct rewriter *r, struct node *n)
{
    struct node *x = n->in[0];
    if (x->op != OP_concat)
        return NULL;
    int axis = x->attr.axis;
    int64_t first = n->attr.start[axis], last = first + (n->dim[axis] - 1) * n->attr.step[axis];
    int64_t low = first < last ? first : last, high = first < last ? last : first, at = 0;
    for (int i = 0; i < x->n_in; at += x->in[i++]->dim[axis]) {
        if (low < at || high >= at + x->in[i]->dim[axis])
            continue;
        int64_t start[MAX_RANK];
        memcpy(start, n->attr.start, sizeof start);
        start[axis] -= at;
        r->promise = 1;
        return make_slice(r, x->in[i], start, n->attr.step, n->dim);
    }
    return NULL;
}

// slice(pad(x)) -> slice(x), where all that is taken lies in x
static struct node *slice_of_pad(struct rewriter *r, struct node *n)
{
    struct node *pad = n->in[0];
    int64_t start[MAX_RANK];
    if (pad->op != OP_pad)
        return NULL;
    for (int a = 0; a < n->rank; a++) {
        int64_t last = n->attr.start[a] + (n->dim[a] - 1) * n->attr.step[a] - pad->attr.before[a];
        start[a] = n->attr.start[a] - pad->attr.before[a];
        if (start[a] < 0 || last < 0 || start[a] >= pad->in[0]->dim[a] ||
            last >= pad->in[0]->dim[a])
            return NULL;
    }
    r->promise = 1;
    return make_slice(r, pad->in[0], start, n->attr.step, n->dim);
}

// f(broadcast(x), y) -> f(x, y), with what y does not repeat broadcast behind f
static struct node *elementwise_of_broadcast(struct rewriter *r, struct node *n)
{
    struct node *in[3];
    bool changes = false;
    if (op_info[n->op].kind != KIND_elementwise)
        return NULL;
    for (int i = 0; i < n->n_in; i++) {
        bool repeats = n->in[i]->op == OP_broadcast;
        in[i] = repeats ? n->in[i]->in[0] : n->in[i];
        changes |= repeats;
    }
    return changes ? make_like(r, n, in) : NULL;
}

// A movement of a number is a broadcast of it.
static struct node *movement_of_number(struct rewriter *r, struct node *n)
{
    double value;
    bool is_plain = n->op == OP_broadcast && n->in[0]->op == OP_constant;
    if (op_info[n->op].kind != KIND_movement || n->n_in != 1 || n->op == OP_pad || is_plain ||
        !number(n->in[0], &value))
        return NULL;
    return is_float(n) ? make_number(r, n->dtype, value)
                       : make_integer(r, n->dtype, (int64_t)value);
}

// permute(x), in the form that merges with x
static struct node *permuted(struct rewriter *r, struct node *x, const int *perm)
{
    int merged[MAX_RANK];
    if (x->op != OP_permute)
        return make_permute(r, x, perm);
    for (int a = 0; a < x->rank; a++)
        merged[a] = x->attr.perm[perm[a]];
    return make_permute(r, x->in[0], merged);
}

// permute(f(x, y)) -> f(permute(x), permute(y)), where that leaves fewer permutes
static struct node *permute_of_elementwise(struct rewriter *r, struct node *n)
{
    struct node *f = n->in[0], *in[3];
    if (op_info[f->op].kind != KIND_elementwise)
        return NULL;
    for (int i = 0; i < f->n_in; i++) {
        if (f->in[i]->rank != 0 && f->in[i]->rank != f->rank)
            return NULL;
        in[i] = f->in[i]->rank ? permuted(r, f->in[i], n->attr.perm) : f->in[i];
    }
    return make_like(r, f, in);
}

// reshape(f(reshape(x), y)) -> f(x, reshape(y)), where that leaves fewer reshapes
static struct node *reshape_of_elementwise(struct rewriter *r, struct node *n)
{
    struct node *f = n->in[0], *in[3];
    if (op_info[f->op].kind != KIND_elementwise)
        return NULL;
    for (int i = 0; i < f->n_in; i++) {
        struct node *x = f->in[i];
        if (x->rank && !node_same_shape(x, f))
            return NULL;
        in[i] = x->rank ? make_reshape(r, x->op == OP_reshape ? x->in[0] : x, n->rank, n->dim) : x;
    }
    return make_like(r, f, in);
}

static const struct rule rules[] = {
    {OP_COUNT,     RULE_exact, "movement of a number",        movement_of_number      },
    {OP_permute,   RULE_exact, "permute through an operator", permute_of_elementwise  },
    {OP_reshape,   RULE_exact, "reshape through an operator", reshape_of_elementwise  },
    {OP_reshape,   RULE_exact, "movement of nothing",         moves_nothing           },
    {OP_broadcast, RULE_exact, "movement of nothing",         moves_nothing           },
    {OP_permute,   RULE_exact, "movement of nothing",         moves_nothing           },
    {OP_slice,     RULE_exact, "movement of nothing",         moves_nothing           },
    {OP_pad,       RULE_exact, "movement of nothing",         moves_nothing           },
    {OP_concat,    RULE_exact, "movement of nothing",         moves_nothing           },
    {OP_cast,      RULE_exact, "cast to what it is",          moves_nothing           },
    {OP_reshape,   RULE_exact, "reshapes merge",              reshape_of_reshape      },
    {OP_permute,   RULE_exact, "permutes merge",              permute_of_permute      },
    {OP_broadcast, RULE_exact, "broadcasts merge",            broadcast_of_broadcast  },
    {OP_slice,     RULE_exact, "slices merge",                slice_of_slice          },
    {OP_COUNT,     RULE_exact, "broadcast is implied",        elementwise_of_broadcast},
    {OP_slice,     RULE_exact, "slice through an operator",   slice_of_elementwise    },
    {OP_slice,     RULE_exact, "slice through a broadcast",   slice_of_broadcast      },
    {OP_slice,     RULE_exact, "slice through a contraction", slice_of_contraction    },
    {OP_slice,     RULE_exact, "slice through a reduction",   slice_of_reduction      },
    {OP_slice,     RULE_exact, "slice through a permute",     slice_of_permute        },
    {OP_slice,     RULE_exact, "slice of a part",             slice_of_concat         },
    {OP_slice,     RULE_exact, "slice of a part",             slice_of_pad            },
};

const struct rule_list movement_rules = {rules, sizeof rules / sizeof *rules};
