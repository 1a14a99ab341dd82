// access.c: what a nest reads, writes and computes, collected from the values that it needs.

#include "gen/kernel.h"

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double points_over(const struct nest *nest, uint32_t variables)
{
    double n = 1;
    for (int v = 0; v < VAR_COUNT; v++)
        if (variables >> v & 1 && nest->extent[v] > 1)
            n *= (double)nest->extent[v];
    return n;
}

// What is one value for a whole row is computed once for it.
static void collect(struct accesses *a, const struct nest *nest, const struct value *v, bool *seen,
                    double points)
{
    if (!v || seen[v->id])
        return;
    seen[v->id] = true;
    if (v->kind == VALUE_load)
        a->loads[a->n_loads++] = v;
    if (v->kind == VALUE_op)
        a->flops += op_info[v->node->op].cost * smaller(points, points_over(nest, v->variables));
    for (int i = 0; i < v->n_in; i++)
        collect(a, nest, v->in[i], seen, points);
}

double nest_points(const struct nest *nest)
{
    return points_over(nest, ~0u);
}

struct accesses value_accesses(struct gen *g, const struct nest *nest, const struct value *v)
{
    struct accesses a = {.loads = arena_new(g, const struct value *, nest->n_values + 1)};
    collect(&a, nest, v, arena_new(g, bool, nest->n_values + 1), 1);
    return a;
}

double value_flops(struct gen *g, const struct nest *nest, const struct value *v, double points)
{
    struct accesses a = {.loads = arena_new(g, const struct value *, nest->n_values + 1)};
    collect(&a, nest, v, arena_new(g, bool, nest->n_values + 1), points);
    return a.flops;
}

// Each tensor once, however often it is read.
static double distinct_bytes(const struct accesses *a)
{
    double bytes = 0;
    for (int i = 0; i < a->n_loads; i++) {
        const struct node *node = a->loads[i]->node;
        bool again = false;
        for (int j = 0; j < i; j++)
            again |= a->loads[j]->node == node;
        bytes += again ? 0 : (double)node_numel(node) * dtype_info[node->dtype].bytes;
    }
    return bytes;
}

struct accesses nest_accesses(struct gen *g, const struct nest *nest)
{
    struct accesses a = {.loads = arena_new(g, const struct value *, nest->n_values + 1)};
    bool *seen = arena_new(g, bool, nest->n_values + 1);
    bool gemm = nest->family == FAMILY_gemm;
    for (int i = 0; i < nest->n_heavy; i++) {
        const struct node *node = nest->heavy[i];
        for (int k = 0; k < node->n_in; k++)
            collect(&a, nest, nest->heavy_in[2 * i + k], seen,
                    gemm ? (double)node_numel(node->in[k]) : nest_points(nest));
        a.flops += (gemm ? 2 : op_info[node->op].cost) * nest_points(nest);
    }
    for (int i = 0; i < nest->n_stores; i++)
        collect(&a, nest, nest->store_values[i], seen, (double)node_numel(nest->stores[i]));
    a.read_bytes = distinct_bytes(&a);
    return a;
}

static int access_bytes(enum dtype dtype, int lanes)
{
    int bytes = dtype_info[dtype].bytes * lanes;
    return bytes < 16 ? bytes : 16;
}

struct width {
    int widest, shared,
        needs; // bytes of the widest element, of one that all rows share, of an access
};

static void count_access(struct width *w, enum dtype dtype, int lanes, bool shared)
{
    int bytes = dtype_info[dtype].bytes, access = access_bytes(dtype, lanes);
    int *widest = shared ? &w->shared : &w->widest;
    *widest = bytes > *widest ? bytes : *widest;
    w->needs = access > w->needs ? access : w->needs;
}

// What is read again for every row comes from a cache: there a lane may take two accesses, so that
// narrower elements of the row itself fill one.
static bool is_shared_by_rows(const struct nest *nest, const struct value *load)
{
    return nest->family == FAMILY_rows && !(load->variables & 1u << VAR_r) &&
           nest->extent[VAR_r] > 1;
}

int vector_width(struct fusion *f, const struct nest *nest, const struct accesses *a,
                 bool with_stores, int along, int most, int promised, int *alignment)
{
    for (int lanes = most; lanes > 1; lanes /= 2) {
        struct width w = {0, 0, 1};
        for (int i = 0; i < a->n_loads; i++)
            if (!a->loads[i]->guard &&
                index_side_by_side(f->pool, a->loads[i]->index, along, lanes))
                count_access(&w, a->loads[i]->dtype, lanes, is_shared_by_rows(nest, a->loads[i]));
        for (int i = 0; with_stores && i < nest->n_stores; i++)
            if (index_side_by_side(f->pool, store_index(f, nest, i), along, lanes))
                count_access(&w, nest->stores[i]->dtype, lanes, false);
        bool fits = w.widest * lanes <= 16 && w.shared * lanes <= 32 && w.widest + w.shared > 0;
        if (fits && w.needs <= promised) {
            *alignment = w.needs > *alignment ? w.needs : *alignment;
            return lanes;
        }
    }
    return 1;
}

int64_t side_by_side_bytes(struct fusion *f, const struct accesses *a, int along)
{
    int64_t bytes = 0, stride;
    int multiple;
    for (int i = 0; i < a->n_loads; i++)
        if (index_lanes(f->pool, a->loads[i]->index, along, 2, &stride, &multiple) && stride == 1)
            bytes += node_numel(a->loads[i]->node) * dtype_info[a->loads[i]->dtype].bytes;
    return bytes;
}

bool can_stage(struct fusion *f, const struct nest *nest, const struct value *load, int lanes)
{
    uint32_t needs = 1u << VAR_r | 1u << VAR_c;
    int bytes = dtype_info[load->dtype].bytes * lanes;
    return nest->family == FAMILY_rows && !load->guard && (load->variables & needs) == needs &&
           (bytes == 4 || bytes == 8 || bytes == 16) &&
           (lanes == 1 || index_side_by_side(f->pool, load->index, VAR_c, lanes));
}
