// fuse.c: graph to nests, one kernel each.
//
// One walk over the nodes in order.  A reduction or contraction opens a nest, or joins the nest of
// its operand as a further phase when both run over the same rows.  An elementwise node joins the
// latest nest it depends on when it can be computed at a point of that nest's domain: lower() is
// asked, so that any mixture of views, broadcasts and other tensors is decided by the indices and
// not by a list of cases.  What joins nothing is recomputed where it is used.  A nest only reads
// what earlier nests wrote, so the order of the nests is the order of execution.

#include "gen/kernel.h"
#include <assert.h>
#include <string.h>

// Bounds of compile time, recursion and a kernel's parameters; beyond them a value is written out.
enum {
    MAX_DEPTH = 200,     // operators in a row
    MAX_VALUES = 3000,   // in one nest
    MAX_LOADS = 100,     // places that a nest reads
    MAX_PHASES = 16,     // of reductions in one nest
    ROW_ON_CHIP = 16384, // elements of a row that one block takes, however few rows there are
    FEW_ROWS = 8,        // that leave most of the GPU idle
    LONG_ROW = 1024      // elements that several blocks would share
};

// The last nest that a node's value comes from, -1 where it depends on arguments alone.
static int latest(const struct fusion *f, const struct node *node, const int *inline_latest)
{
    return f->home[node->id] ? f->home[node->id]->id : inline_latest[node->id];
}

// Bytes that a value's loads would read side by side along a variable.
static int64_t contiguous_bytes(struct fusion *f, const struct nest *nest, const struct value *v,
                                int along, bool *seen)
{
    if (seen[v->id])
        return 0;
    seen[v->id] = true;
    int64_t bytes = 0, stride;
    int multiple;
    if (v->kind == VALUE_load && index_lanes(f->pool, v->index, along, 2, &stride, &multiple) &&
        stride == 1)
        bytes += dtype_info[v->dtype].bytes * node_numel(v->node);
    for (int i = 0; i < v->n_in; i++)
        bytes += contiguous_bytes(f, nest, v->in[i], along, seen);
    return bytes;
}

// Whether all that is made of a reduction's result goes into contractions, whose prologues can make
// it of the operand that they read anyway.
static bool feeds_contractions(struct fusion *f, const struct node *reduction)
{
    const struct graph *graph = f->graph;
    bool *after = arena_new(f->g, bool, graph->n_nodes), any = false;
    after[reduction->id] = true;
    for (int i = reduction->id + 1; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        enum op_kind kind = op_info[node->op].kind;
        bool depends = false;
        for (int j = 0; j < node->n_in; j++)
            depends |= after[node->in[j]->id];
        if (depends && kind == KIND_reduction)
            return false;
        any |= depends && kind == KIND_contraction;
        after[i] = depends && kind != KIND_contraction;
    }
    for (int i = 0; i < graph->n_outputs; i++)
        any &= !after[graph->outputs[i].node->id];
    return any;
}

// Rows where lanes can run along the reduced axes and a block, a cluster or a team can hold a row,
// or there are rows enough for all SMs; columns otherwise, and where nobody else would need a row
// that is kept.
static enum family reduction_family(struct fusion *f, const struct nest *nest,
                                    const struct node *reduction, const struct value *operand)
{
    bool *seen = arena_new(f->g, bool, 2 * nest->n_values);
    int64_t along_c = contiguous_bytes(f, nest, operand, VAR_c, seen);
    int64_t along_r = contiguous_bytes(f, nest, operand, VAR_r, seen + nest->n_values);
    int64_t rows = nest->extent[VAR_r], length = nest->extent[VAR_c];
    if (along_c < along_r && length > 1)
        return FAMILY_columns;
    if (rows < FEW_ROWS && length >= LONG_ROW && feeds_contractions(f, reduction))
        return FAMILY_columns;
    bool on_rows = length <= ROW_ON_CHIP || rows >= f->target->n_sms / 2 ||
                   clusters_suit(f, nest, reduction, operand) ||
                   teams_suit(f, nest, reduction, operand);
    return on_rows ? FAMILY_rows : FAMILY_columns;
}

static bool is_full(const struct nest *nest)
{
    return nest->n_values > MAX_VALUES || nest->n_loads > MAX_LOADS;
}

static bool same_domain(const struct nest *nest, const struct node *reduction)
{
    const struct node *in = reduction->in[0];
    return (nest->family == FAMILY_rows || nest->family == FAMILY_columns) &&
           nest->rank == in->rank && nest->axes == reduction->attr.axes &&
           !memcmp(nest->dim, in->dim, sizeof *in->dim * (size_t)in->rank);
}

// A further phase of the last nest over the same rows, when everything the operand needs is there
// by then.
static bool joins(struct fusion *f, const struct node *reduction, int after)
{
    for (int i = f->n_nests - 1; i >= 0 && i >= after; i--) {
        struct nest *nest = f->nests[i];
        if (!same_domain(nest, reduction) || is_full(nest))
            continue;
        struct value *operand = lower(f, nest, reduction->in[0], nest->at);
        bool in_time = operand && operand->phase < (nest->family == FAMILY_rows ? MAX_PHASES : 1);
        if (in_time)
            return add_heavy(f, nest, reduction, operand->phase, operand, NULL);
    }
    return false;
}

static bool open_reduction(struct fusion *f, const struct node *reduction)
{
    struct nest *nest = reduction_nest(f, reduction);
    struct value *operand = lower(f, nest, reduction->in[0], nest->at);
    if (!operand)
        return fail(f->g, "fuse: the operand of %s cannot be placed", op_info[reduction->op].name);
    nest->family = reduction_family(f, nest, reduction, operand);
    return add_heavy(f, nest, reduction, 0, operand, NULL);
}

// Writes an inline node out, by a map of its own.
static bool materialise(struct fusion *f, const struct node *node)
{
    struct nest *nest = map_nest(f, node);
    struct value *v = lower(f, nest, node, nest->at);
    if (!v)
        return fail(f->g, "fuse: %s cannot be placed", op_info[node->op].name);
    f->home[node->id] = nest;
    f->depth[node->id] = 0;
    return true;
}

static int cost_of(const struct value *v, bool *seen)
{
    if (seen[v->id])
        return 0;
    seen[v->id] = true;
    int cost = v->kind == VALUE_op ? op_info[v->node->op].cost : v->kind == VALUE_select ? 1 : 0;
    for (int i = 0; i < v->n_in; i++)
        cost += cost_of(v->in[i], seen);
    return cost;
}

// Whether recomputing an operand for every tile that reads it costs more than a trip through
// memory.
static bool too_dear(struct fusion *f, const struct nest *nest, const struct value *operand,
                     const struct node *node, int64_t other_extent)
{
    enum { TILE = 128 };
    static const double launch = 2e-6;
    int64_t reuse = (other_extent + TILE - 1) / TILE;
    bool *seen = arena_new(f->g, bool, nest->n_values);
    double elements = (double)node_numel(node);
    double recompute =
        cost_of(operand, seen) * elements * (double)(reuse - 1) / f->target->f32_flops;
    double trip =
        2 * elements * dtype_info[node->dtype].bytes / f->target->bytes_per_second + launch;
    return recompute > trip;
}

static struct value *operand_value(struct fusion *f, struct nest *nest, const struct node *node,
                                   int which)
{
    const struct node *in = node->in[which];
    const struct index *at[MAX_RANK];
    for (int d = 0; d < in->rank; d++)
        at[d] = in->dim[d] == 1 ? index_constant(f->pool, 0) : nest->at[d + node->rank - in->rank];
    at[in->rank - (which ? 2 : 1)] = nest->variable[VAR_k];
    return lower(f, nest, in, at);
}

static bool open_contraction(struct fusion *f, const struct node *node)
{
    for (;;) {
        struct nest *nest = contraction_nest(f, node);
        struct value *a = operand_value(f, nest, node, 0), *b = operand_value(f, nest, node, 1);
        if (!a || !b)
            return fail(f->g, "fuse: an operand of %s cannot be placed", op_info[node->op].name);
        bool dear_a = too_dear(f, nest, a, node->in[0], nest->extent[VAR_n]);
        bool dear_b = too_dear(f, nest, b, node->in[1], nest->extent[VAR_m]);
        if (!dear_a && !dear_b)
            return add_heavy(f, nest, node, 0, a, b);
        f->n_nests--; // the operands' maps come first
        if ((dear_a && !materialise(f, node->in[0])) ||
            (dear_b && !f->home[node->in[1]->id] && !materialise(f, node->in[1])))
            return false;
    }
}

// How many operators would be evaluated in a row to get this node in a nest.
static int depth_in(const struct fusion *f, const struct node *node, const struct nest *nest)
{
    int depth = 0;
    for (int i = 0; i < node->n_in; i++) {
        const struct nest *home = f->home[node->in[i]->id];
        int d = home && home != nest ? 0 : f->depth[node->in[i]->id];
        depth = d > depth ? d : depth;
    }
    return depth + 1;
}

// The node's value at a point of the nest's domain, or at a row of it; NULL where it has none.
static struct value *value_in(struct fusion *f, struct nest *nest, const struct node *node)
{
    const struct index *at[MAX_RANK];
    int64_t numel = node_numel(node);
    if (nest->family != FAMILY_columns && numel == domain_numel(nest)) {
        natural_coordinates(f, nest, node, false, at);
        struct value *v = lower(f, nest, node, at);
        if (v || nest->family != FAMILY_rows || nest->extent[VAR_r] != numel)
            return v;
    }
    if ((nest->family == FAMILY_rows || nest->family == FAMILY_columns) &&
        numel == nest->extent[VAR_r]) {
        natural_coordinates(f, nest, node, true, at);
        return lower(f, nest, node, at);
    }
    return NULL;
}

static void add_store(struct fusion *f, struct nest *nest, const struct node *node)
{
    for (int i = 0; i < nest->n_stores; i++)
        if (nest->stores[i] == node)
            return;
    if (nest->n_stores == nest->cap_stores) {
        int n = nest->n_stores, capacity = nest->cap_stores = 2 * n + 2;
        const struct node **stores = arena_new(f->g, const struct node *, capacity);
        struct value **values = arena_new(f->g, struct value *, capacity);
        for (int i = 0; i < n; i++)
            stores[i] = nest->stores[i], values[i] = nest->store_values[i];
        nest->stores = stores, nest->store_values = values;
    }
    struct value *v = value_in(f, nest, node);
    assert(v);
    nest->stores[nest->n_stores] = node;
    nest->store_values[nest->n_stores++] = v;
}

// Different tensors that computing a node in place would read; `seen` holds the last search's mark.
static int count_loads(const struct fusion *f, const struct node *node, int *seen, int mark)
{
    if (seen[node->id] == mark || node->op == OP_constant)
        return 0;
    seen[node->id] = mark;
    if (f->home[node->id] || op_info[node->op].kind == KIND_leaf)
        return 1;
    int n = 0;
    for (int i = 0; i < node->n_in; i++)
        n += count_loads(f, node->in[i], seen, mark);
    return n;
}

// Writes out the inputs of a node that together read more tensors than one nest may.
static bool bound_loads(struct fusion *f, const struct node *node)
{
    int estimate = 0;
    for (int i = 0; i < node->n_in; i++)
        estimate += f->home[node->in[i]->id] ? 1 : f->loads[node->in[i]->id];
    if (estimate > MAX_LOADS) {
        int *seen = arena_new(f->g, int, f->graph->n_nodes);
        estimate = 0;
        for (int i = 0; i < node->n_in; i++)
            estimate += count_loads(f, node->in[i], seen, 1);
        for (int i = 0; estimate > MAX_LOADS && i < node->n_in; i++)
            if (f->loads[node->in[i]->id] > 1 && !f->home[node->in[i]->id] &&
                !materialise(f, node->in[i]))
                return false;
        estimate = estimate > MAX_LOADS ? node->n_in : estimate;
    }
    f->loads[node->id] = estimate;
    return true;
}

static bool place(struct fusion *f, const struct node *node, int *inline_latest, bool is_output)
{
    enum op_kind kind = op_info[node->op].kind;
    bool is_leaf = kind == KIND_leaf || !node_numel(node);
    f->g->at = node->at;
    f->loads[node->id] = kind == KIND_leaf && node->op != OP_constant;
    if (!is_leaf && !bound_loads(f, node))
        return false;
    int after = -1;
    for (int i = 0; i < node->n_in; i++) {
        int l = latest(f, node->in[i], inline_latest);
        after = l > after ? l : after;
    }
    inline_latest[node->id] = after;
    if (is_leaf)
        return true;
    if (kind == KIND_contraction)
        return open_contraction(f, node);
    if (kind == KIND_reduction)
        return joins(f, node, after) || open_reduction(f, node);
    struct nest *nest = after >= 0 ? f->nests[after] : NULL;
    if (nest && (kind == KIND_elementwise || is_output) && depth_in(f, node, nest) <= MAX_DEPTH &&
        nest->family != FAMILY_map && !is_full(nest) && value_in(f, nest, node)) {
        f->home[node->id] = nest;
        f->depth[node->id] = depth_in(f, node, nest);
        return true;
    }
    f->depth[node->id] = depth_in(f, node, NULL);
    return f->depth[node->id] <= MAX_DEPTH || materialise(f, node);
}

// A nest that an output of arguments alone can join: one over its shape that reads all it needs
// anyway, or a map over outputs.
static struct nest *nest_for_output(struct fusion *f, const struct node *node, int first_map)
{
    for (int n = 0; n < f->n_nests; n++) {
        struct nest *nest = f->nests[n];
        int n_loads = nest->n_loads;
        if (!is_full(nest) && value_in(f, nest, node) &&
            (nest->n_loads == n_loads || n >= first_map))
            return nest;
    }
    return NULL;
}

static bool place_outputs(struct fusion *f)
{
    int first_map = f->n_nests;
    for (int i = 0; i < f->graph->n_outputs; i++) {
        const struct node *node = f->graph->outputs[i].node;
        if (f->home[node->id] || !node_numel(node))
            continue;
        f->g->at = node->at;
        f->home[node->id] = nest_for_output(f, node, first_map);
        if (!f->home[node->id] && !materialise(f, node))
            return false;
    }
    return true;
}

static void request(struct fusion *f, const struct value *v, bool *seen)
{
    if (!v || seen[v->id])
        return;
    seen[v->id] = true;
    struct nest *home = v->kind == VALUE_load ? f->home[v->node->id] : NULL;
    if (home)
        add_store(f, home, v->node);
    for (int i = 0; i < v->n_in; i++)
        request(f, v->in[i], seen);
}

// From the last nest to the first: what a nest really reads, an earlier one stores.  Nests that
// store nothing go.
static void request_stores(struct fusion *f)
{
    for (int i = 0; i < f->graph->n_outputs; i++) {
        const struct node *node = f->graph->outputs[i].node;
        if (f->home[node->id])
            add_store(f, f->home[node->id], node);
    }
    for (int n = f->n_nests - 1; n >= 0; n--) {
        struct nest *nest = f->nests[n];
        bool *seen = arena_new(f->g, bool, nest->n_values + 1);
        for (int i = 0; nest->n_stores && i < 2 * nest->n_heavy; i++)
            request(f, nest->heavy_in[i], seen);
        for (int i = 0; i < nest->n_stores; i++)
            request(f, nest->store_values[i], seen);
    }
    int kept = 0;
    for (int n = 0; n < f->n_nests; n++)
        if (f->nests[n]->n_stores)
            f->nests[kept++] = f->nests[n];
    f->n_nests = kept;
    for (int n = 0; n < f->n_nests; n++)
        f->nests[n]->id = n;
}

struct fusion *fuse(struct gen *g, const struct graph *graph, const struct target *target)
{
    struct fusion *f = arena_new(g, struct fusion, 1);
    *f = (struct fusion){.g = g, .graph = graph, .target = target, .pool = index_pool_new(g)};
    f->home = arena_new(g, struct nest *, graph->n_nodes);
    f->depth = arena_new(g, int, graph->n_nodes);
    f->loads = arena_new(g, int, graph->n_nodes);
    int *inline_latest = arena_new(g, int, graph->n_nodes);
    bool *is_output = arena_new(g, bool, graph->n_nodes);
    for (int i = 0; i < graph->n_outputs; i++)
        is_output[graph->outputs[i].node->id] = true;
    for (int i = 0; i < graph->n_nodes; i++)
        if (!place(f, graph->nodes[i], inline_latest, is_output[i]))
            return NULL;
    if (!place_outputs(f))
        return NULL;
    request_stores(f);
    return f;
}
