// random_patterns.c: a seed to a graph: operators on operators, with the patterns that rules look
// for among them.

#include "tests/random_patterns.h"
#include <math.h>

struct maker {
    struct gen *g;
    struct graph *graph;
    uint64_t state;
    enum taste taste;
};

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int below(struct maker *m, int n)
{
    return (int)(next(&m->state) % (uint64_t)n);
}

static bool is_real(const struct node *n)
{
    return dtype_info[n->dtype].class == CLASS_float;
}

static struct node *any(struct maker *m) // the latest ones more often
{
    int n = m->graph->n_nodes, back = below(m, below(m, 3) ? 6 : n);
    struct node *x = m->graph->nodes[n - 1 - back % n];
    return is_real(x) ? x : m->graph->arguments[0];
}

static struct node *number(struct maker *m, const struct node *like, double value)
{
    return graph_constant(m->g, m->graph, like->dtype, value);
}

static struct node *one(struct maker *m, enum op op, struct node *x)
{
    return graph_elementwise(m->g, m->graph, op, 1, &x);
}

static struct node *two(struct maker *m, enum op op, struct node *x, struct node *y)
{
    return graph_elementwise(m->g, m->graph, op, 2, (struct node *[]){x, y});
}

static struct node *choose(struct maker *m, struct node *c, struct node *x, struct node *y)
{
    return graph_elementwise(m->g, m->graph, OP_where, 3, (struct node *[]){c, x, y});
}

static double some_number(struct maker *m)
{
    static const double numbers[] = {0, -0.0, 1, -1, 2, 0.5, 3, -0.3, 0.7, 4, 6, 1.5, -2, 0.25};
    return numbers[below(m, (int)(sizeof numbers / sizeof *numbers))];
}

static struct node *weight(struct maker *m, const struct node *like, int rank, const int64_t *dim)
{
    static const char *const names[] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"};
    if (m->graph->n_arguments > 9)
        return m->graph->arguments[0];
    return graph_argument(m->g, m->graph, OP_weight, names[m->graph->n_arguments], like->dtype,
                          rank, dim);
}

static struct node *unary(struct maker *m)
{
    static const enum op ops[] = {OP_neg, OP_abs, OP_tanh, OP_erf,  OP_neg,
                                  OP_sin, OP_abs, OP_erfc, OP_atan, OP_tanh};
    static const enum op steps[] = {OP_floor, OP_round, OP_sign, OP_trunc, OP_ceil};
    if (m->taste == TASTE_any && below(m, 4) == 0)
        return one(m, steps[below(m, 5)], any(m));
    return one(m, ops[below(m, 10)], any(m));
}

static struct node *with_number(struct maker *m)
{
    static const enum op ops[] = {OP_add,     OP_sub,     OP_mul,     OP_div,    OP_mul,
                                  OP_minimum, OP_maximum, OP_maximum, OP_minimum};
    struct node *x = any(m);
    double value = some_number(m);
    enum op op = ops[below(m, 9)];
    if (op == OP_div && value == 0)
        value = 8;
    struct node *c = number(m, x, value);
    return op != OP_div && below(m, 3) == 0 ? two(m, op, c, x) : two(m, op, x, c);
}

static bool broadcasts(const struct node *x, const struct node *y)
{
    for (int a = 1; a <= x->rank && a <= y->rank; a++)
        if (x->dim[x->rank - a] != y->dim[y->rank - a] && x->dim[x->rank - a] != 1 &&
            y->dim[y->rank - a] != 1)
            return false;
    return x->dtype == y->dtype;
}

static struct node *binary(struct maker *m)
{
    static const enum op ops[] = {OP_add, OP_sub, OP_mul, OP_add, OP_sub, OP_minimum, OP_maximum};
    struct node *x = any(m), *y = any(m);
    for (int i = 0; i < 6 && !broadcasts(x, y); i++)
        y = any(m);
    return broadcasts(x, y) ? two(m, ops[below(m, 7)], x, y) : x;
}

// A row of weights added, subtracted or multiplied: what linear layers and norms do.
static struct node *with_weight(struct maker *m)
{
    static const enum op ops[] = {OP_add, OP_sub, OP_mul, OP_add, OP_minimum};
    struct node *x = any(m);
    if (!x->rank)
        return x;
    int rank = below(m, 3) ? 1 : 0;
    struct node *w = weight(m, x, rank, &x->dim[x->rank - 1]);
    return broadcasts(x, w) ? two(m, ops[below(m, 5)], x, w) : x;
}

static uint32_t some_axes(struct maker *m, const struct node *x)
{
    uint32_t axes = (uint32_t)below(m, 1 << x->rank);
    return axes ? axes : 1u << (x->rank - 1);
}

static struct node *mean(struct maker *m, struct node *x, uint32_t axes)
{
    double count = 1;
    for (int a = 0; a < x->rank; a++)
        count *= axes >> a & 1 ? (double)x->dim[a] : 1;
    return two(m, OP_div, graph_reduce(m->g, m->graph, OP_sum, x, axes), number(m, x, count));
}

static struct node *reduction(struct maker *m)
{
    static const enum op ops[] = {OP_sum, OP_max, OP_min, OP_sum, OP_prod};
    struct node *x = any(m);
    if (!x->rank)
        return x;
    uint32_t axes = some_axes(m, x);
    return below(m, 3) ? graph_reduce(m->g, m->graph, ops[below(m, 5)], x, axes) : mean(m, x, axes);
}

static struct node *contraction(struct maker *m)
{
    struct node *x = any(m), *y = any(m);
    if (x->rank < 2)
        return x;
    int64_t k = x->dim[x->rank - 1], dim[] = {1 + below(m, 6), k};
    if (y->rank >= 2 && y->dtype == x->dtype && y->dim[y->rank - 2] == k && y->rank == 2)
        return graph_matmul(m->g, m->graph, x, y);
    struct node *w = weight(m, x, 2, dim);
    if (w->rank != 2 || w->dim[1] != k || w->dtype != x->dtype)
        return x;
    int perm[] = {1, 0};
    struct node *h = graph_matmul(m->g, m->graph, x, graph_permute(m->g, m->graph, w, perm));
    struct node *b = weight(m, h, 1, &h->dim[h->rank - 1]);
    return broadcasts(h, b) ? two(m, OP_add, h, b) : h;
}

static struct node *with_linear(struct maker *m)
{
    struct node *x = any(m);
    if (x->rank < 2)
        return x;
    int64_t n = 1 + below(m, 6), dim[] = {n, x->dim[x->rank - 1]};
    struct node *w = weight(m, x, 2, dim), *b = weight(m, x, 1, &n);
    if (w->dtype != x->dtype || w->rank != 2 || w->dim[1] != dim[1] || b->dtype != x->dtype ||
        b->rank != 1 || b->dim[0] != w->dim[0])
        return x;
    int perm[] = {1, 0};
    struct node *h = graph_matmul(m->g, m->graph, x, graph_permute(m->g, m->graph, w, perm));
    return two(m, OP_add, h, b);
}

static struct node *permuted(struct maker *m, struct node *x)
{
    int perm[MAX_RANK];
    for (int a = 0; a < x->rank; a++)
        perm[a] = a;
    for (int a = x->rank - 1; a > 0; a--) {
        int b = below(m, a + 1), kept = perm[a];
        perm[a] = perm[b];
        perm[b] = kept;
    }
    return graph_permute(m->g, m->graph, x, perm);
}

static struct node *sliced(struct maker *m, struct node *x)
{
    int64_t start[MAX_RANK], step[MAX_RANK], dim[MAX_RANK];
    for (int a = 0; a < x->rank; a++) {
        bool flips = below(m, 4) == 0;
        dim[a] = 1 + below(m, (int)x->dim[a]);
        start[a] = flips ? dim[a] - 1 : below(m, (int)(x->dim[a] - dim[a] + 1));
        step[a] = flips ? -1 : 1;
    }
    return graph_slice(m->g, m->graph, x, start, step, dim);
}

// Two axes as one, one as two, or an axis of size 1 more.
static struct node *reshaped(struct maker *m, struct node *x)
{
    int64_t dim[MAX_RANK];
    int rank = 0, at = below(m, x->rank), kind = below(m, 3);
    for (int a = 0; a < x->rank; a++) {
        bool splits = kind == 1 && a == at && x->dim[a] % 2 == 0;
        if (kind == 2 && a == at)
            dim[rank++] = 1;
        if (kind == 0 && a == at && a > 0) {
            dim[rank - 1] *= x->dim[a];
            continue;
        }
        dim[rank++] = splits ? x->dim[a] / 2 : x->dim[a];
        if (splits)
            dim[rank++] = 2;
    }
    return rank > 5 ? x : graph_reshape(m->g, m->graph, x, rank, dim);
}

static struct node *broadcast(struct maker *m, struct node *x)
{
    int64_t dim[MAX_RANK];
    int more = below(m, 2);
    dim[0] = 2;
    for (int a = 0; a < x->rank; a++)
        dim[a + more] = x->dim[a] == 1 && below(m, 2) ? 3 : x->dim[a];
    return x->rank > 3 ? x : graph_broadcast(m->g, m->graph, x, x->rank + more, dim);
}

static struct node *joined(struct maker *m, struct node *x)
{
    struct node *in[] = {x, one(m, OP_neg, x)};
    if (below(m, 2))
        return graph_concat(m->g, m->graph, 2, in, below(m, x->rank));
    int64_t before[MAX_RANK], after[MAX_RANK];
    for (int a = 0; a < x->rank; a++) {
        before[a] = below(m, 2);
        after[a] = below(m, 2);
    }
    return graph_pad(m->g, m->graph, x, before, after, below(m, 2) ? 0 : -1.5);
}

static struct node *movement(struct maker *m)
{
    struct node *x = any(m);
    if (!x->rank || node_numel(x) > 2000)
        return x;
    switch (below(m, 6)) {
    case 0:
        return broadcast(m, x);
    case 1:
        return joined(m, x);
    case 2:
        return sliced(m, x);
    case 3:
        return permuted(m, x);
    }
    return reshaped(m, x);
}

static struct node *activation(struct maker *m)
{
    struct node *x = any(m), *zero = number(m, x, 0), *e;
    switch (below(m, 6)) {
    case 0:
        return two(m, OP_maximum, x, zero);
    case 1:
        return choose(m, two(m, OP_ge, x, zero), x, two(m, OP_mul, number(m, x, 0.1), x));
    case 2:
        e = one(m, OP_exp, one(m, OP_neg, one(m, OP_abs, x)));
        return two(m, OP_div, choose(m, two(m, OP_ge, x, zero), number(m, x, 1), e),
                   two(m, OP_add, number(m, x, 1), e));
    case 3:
        e = one(m, OP_erfc, two(m, OP_mul, one(m, OP_neg, x), number(m, x, 0.7)));
        return two(m, OP_mul, two(m, OP_mul, number(m, x, 0.5), x), e);
    case 4:
        return two(m, OP_minimum, two(m, OP_maximum, x, number(m, x, -1)), number(m, x, 1));
    }
    static const double powers[] = {0, 1, 2, 3, 4, 2};
    return two(m, OP_pow, x, number(m, x, powers[below(m, 6)]));
}

static struct node *composite(struct maker *m)
{
    struct node *x = any(m), *e, *shift;
    if (!x->rank)
        return x;
    uint32_t axes = some_axes(m, x);
    struct node *most = graph_reduce(m->g, m->graph, OP_max, x, axes);
    switch (below(m, 5)) {
    case 0: // softmax
        e = one(m, OP_exp, two(m, OP_sub, x, most));
        return two(m, OP_div, e, graph_reduce(m->g, m->graph, OP_sum, e, axes));
    case 1: // logsumexp
        shift = choose(m, one(m, OP_isfinite, most), most, number(m, x, 0));
        e = one(m, OP_exp, two(m, OP_sub, x, shift));
        return two(m, OP_add, one(m, OP_log, graph_reduce(m->g, m->graph, OP_sum, e, axes)), shift);
    case 2:
        return two(m, OP_sub, x, mean(m, x, axes));
    case 3: // exp, log and back
        e = one(m, OP_exp, one(m, OP_tanh, x));
        return below(m, 2) ? one(m, OP_log, e)
                           : two(m, OP_mul, e, one(m, OP_exp, one(m, OP_sin, x)));
    }
    e = two(m, OP_sub, x, mean(m, x, axes));
    struct node *variance = mean(m, two(m, OP_mul, e, e), axes);
    return two(m, OP_mul, e, one(m, OP_rsqrt, two(m, OP_add, variance, number(m, x, 0.01))));
}

static struct node *root(struct maker *m)
{
    struct node *r = one(m, OP_sqrt, one(m, OP_abs, any(m)));
    return below(m, 2) ? two(m, OP_mul, r, r) : r;
}

static struct node *casts(struct maker *m)
{
    struct node *x = any(m);
    struct node *f = graph_cast(m->g, m->graph, x, below(m, 2) ? DT_f64 : DT_f32);
    return f->dtype == DT_f32 || below(m, 3) ? graph_cast(m->g, m->graph, f, DT_f32) : f;
}

static void step(struct maker *m)
{
    static struct node *(*const makers[])(struct maker *) = {
        unary,       with_number, with_number, binary,    binary,   with_weight, with_weight,
        reduction,   reduction,   reduction,   movement,  movement, movement,    activation,
        contraction, with_linear, with_linear, composite, root,     casts};
    makers[below(m, (int)(sizeof makers / sizeof *makers))](m);
}

struct graph *random_patterns(struct gen *g, uint64_t seed, enum taste taste)
{
    struct maker m = {.g = g, .graph = graph_new(g, "random"), .state = seed, .taste = taste};
    static const int64_t sizes[] = {1, 2, 3, 4, 6, 8};
    int64_t dim[] = {sizes[below(&m, 6)], sizes[below(&m, 6)], sizes[below(&m, 6)]};
    enum dtype dtype = taste == TASTE_any && below(&m, 3) == 0 ? DT_f16 : DT_f32;
    graph_argument(g, m.graph, OP_input, "x", dtype, 2, dim);
    graph_argument(g, m.graph, OP_input, "y", dtype, 1 + below(&m, 3), dim);
    for (int n = 3 + below(&m, 12); n > 0; n--)
        step(&m);
    int last = m.graph->n_nodes - 1;
    graph_output(g, m.graph, "last", m.graph->nodes[last]);
    if (below(&m, 2))
        graph_output(g, m.graph, "other", m.graph->nodes[last - below(&m, last)]);
    return m.graph;
}

struct tensor *random_arguments(struct gen *g, const struct graph *graph, uint64_t seed,
                                int special)
{
    static const double odd[] = {NAN,    INFINITY, -INFINITY, 0.0,   -0.0,  0x1p-149,
                                 -1e-40, 3e38,     -3e38,     65504, 1e-20, 1};
    struct tensor *in = arena_new(g, struct tensor, graph->n_arguments);
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct node *n = graph->arguments[i];
        int64_t numel = node_numel(n);
        in[i] = (struct tensor){.dtype = n->dtype, .rank = n->rank};
        in[i].data = arena_alloc(g, (size_t)numel * (size_t)dtype_info[n->dtype].bytes);
        for (int64_t e = 0; e < numel; e++) {
            double value = 0;
            for (int k = 0; k < 4; k++)
                value += (double)(next(&seed) >> 11) * 0x1p-53 - 0.5;
            if (special && next(&seed) % (uint64_t)special == 0)
                value = odd[next(&seed) % (sizeof odd / sizeof *odd)];
            store_element(n->dtype, in[i].data, e, 1.7 * value);
        }
    }
    return in;
}
