// nest.c: nests as they are made: iteration domains for a map, a reduction and a contraction.

#include "gen/kernel.h"
#include <string.h>

const char *const family_name[FAMILY_COUNT] = {
    [FAMILY_map] = "map",   [FAMILY_rows] = "rows",           [FAMILY_columns] = "columns",
    [FAMILY_gemm] = "gemm", [FAMILY_map_tiles] = "map_tiles", [FAMILY_row_teams] = "row_teams"};

static struct nest *nest_new(struct fusion *f, enum family family)
{
    if (f->n_nests == f->cap_nests) {
        struct nest **nests = arena_new(f->g, struct nest *, f->cap_nests = 2 * f->cap_nests + 8);
        if (f->n_nests)
            memcpy(nests, f->nests, sizeof *nests * (size_t)f->n_nests);
        f->nests = nests;
    }
    struct nest *nest = arena_new(f->g, struct nest, 1);
    nest->family = family;
    nest->id = f->n_nests;
    for (int v = 0; v < VAR_COUNT; v++)
        nest->variable[v] = index_constant(f->pool, 0);
    return f->nests[f->n_nests++] = nest;
}

static const struct index *variable(struct fusion *f, struct nest *nest, int v, int64_t extent)
{
    static const char *const names[VAR_COUNT] = {"r", "c", "b", "m", "n", "k"};
    nest->extent[v] = extent;
    return nest->variable[v] = index_variable(f->pool, v, extent, names[v]);
}

static void set_shape(struct nest *nest, const struct node *shape)
{
    nest->rank = shape->rank;
    memcpy(nest->dim, shape->dim, sizeof nest->dim);
}

// Spreads a flat variable over those axes of the nest's shape that are chosen.
static void spread(struct fusion *f, struct nest *nest, int v, uint32_t axes)
{
    int64_t dim[MAX_RANK], extent = 1;
    const struct index *at[MAX_RANK];
    int n = 0;
    for (int d = 0; d < nest->rank; d++)
        if (axes & 1u << d)
            extent *= dim[n++] = nest->dim[d];
    index_coordinates(f->pool, n, dim, variable(f, nest, v, extent), at);
    for (int d = nest->rank - 1; d >= 0; d--)
        if (axes & 1u << d)
            nest->at[d] = at[--n];
}

struct nest *map_nest(struct fusion *f, const struct node *shape)
{
    struct nest *nest = nest_new(f, FAMILY_map);
    set_shape(nest, shape);
    spread(f, nest, VAR_c, ~0u);
    return nest;
}

bool add_heavy(struct fusion *f, struct nest *nest, const struct node *node, int phase,
               struct value *in, struct value *in2)
{
    if (nest->n_heavy == nest->cap_heavy) {
        int n = nest->n_heavy, capacity = nest->cap_heavy = 2 * n + 2;
        const struct node **heavy = arena_new(f->g, const struct node *, capacity);
        int *phases = arena_new(f->g, int, capacity);
        struct value **operands = arena_new(f->g, struct value *, 2 * capacity);
        for (int i = 0; i < n; i++) {
            heavy[i] = nest->heavy[i], phases[i] = nest->heavy_phase[i];
            operands[2 * i] = nest->heavy_in[2 * i],
                         operands[2 * i + 1] = nest->heavy_in[2 * i + 1];
        }
        nest->heavy = heavy, nest->heavy_phase = phases, nest->heavy_in = operands;
    }
    nest->heavy[nest->n_heavy] = node;
    nest->heavy_phase[nest->n_heavy] = phase;
    nest->heavy_in[2 * nest->n_heavy] = in;
    nest->heavy_in[2 * nest->n_heavy++ + 1] = in2;
    if (phase >= nest->n_phases)
        nest->n_phases = phase + 1;
    f->home[node->id] = nest;
    f->depth[node->id] = 0;
    return true;
}

struct nest *reduction_nest(struct fusion *f, const struct node *reduction)
{
    struct nest *nest = nest_new(f, FAMILY_rows);
    set_shape(nest, reduction->in[0]);
    nest->axes = reduction->attr.axes;
    spread(f, nest, VAR_r, ~nest->axes);
    spread(f, nest, VAR_c, nest->axes);
    return nest;
}

// The axes of a contraction's output over B (both operands vary), M (rows, and batches of A alone)
// and N.
struct nest *contraction_nest(struct fusion *f, const struct node *node)
{
    const struct node *a = node->in[0], *b = node->in[1];
    struct nest *nest = nest_new(f, FAMILY_gemm);
    set_shape(nest, node);
    uint32_t batch = 0, rows = 1u << (node->rank - 2);
    for (int d = 0; d < node->rank - 2; d++) {
        int in_b = d - (node->rank - b->rank);
        bool only_a = in_b < 0 || b->dim[in_b] == 1;
        *(only_a ? &rows : &batch) |= 1u << d;
    }
    spread(f, nest, VAR_b, batch);
    spread(f, nest, VAR_m, rows);
    spread(f, nest, VAR_n, 1u << (node->rank - 1));
    variable(f, nest, VAR_k, a->dim[a->rank - 1]);
    return nest;
}

int64_t domain_numel(const struct nest *nest)
{
    int64_t n = 1;
    for (int d = 0; d < nest->rank; d++)
        n *= nest->dim[d];
    return n;
}
