// lower.c: a node at coordinates to a value inside a nest.
//
// Movement operators vanish here: they only change the coordinates at which their input is wanted.
// What another nest computes, and what the caller gives, becomes a load; everything else is
// recomputed in place, once per coordinate, thanks to the memo and the interning of values.

#include "gen/kernel.h"
#include <assert.h>
#include <string.h>

struct lowered {
    const struct node *node; // NULL: free
    const struct index *at[MAX_RANK];
    const struct guard *guard;
    struct value *value;
};

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct value *v)
{
    uint64_t hash = mixed(v->kind, v->node ? (uint64_t)v->node->id : 0);
    hash = mixed(hash, v->index ? (uint64_t)v->index->id + 1 : 0);
    hash = mixed(hash, (uint64_t)(uintptr_t)v->guard);
    for (int i = 0; i < v->n_in; i++)
        hash = mixed(hash, (uint64_t)v->in[i]->id);
    return hash;
}

static bool same(const struct value *a, const struct value *b)
{
    return a->kind == b->kind && a->node == b->node && a->index == b->index &&
           a->guard == b->guard && a->n_in == b->n_in && !memcmp(a->in, b->in, sizeof a->in);
}

static void grow_values(struct gen *g, struct nest *nest)
{
    int capacity = nest->cap_values ? 2 * nest->cap_values : 32;
    struct value **values = arena_new(g, struct value *, capacity);
    if (nest->n_values)
        memcpy(values, nest->values, sizeof *values * (size_t)nest->n_values);
    nest->values = values, nest->cap_values = capacity;
    nest->cap_table = 4 * capacity;
    nest->table = arena_new(g, struct value *, nest->cap_table);
    for (int i = 0; i < nest->n_values; i++) {
        uint64_t at = hash_of(values[i]);
        while (nest->table[at & (uint64_t)(nest->cap_table - 1)])
            at++;
        nest->table[at & (uint64_t)(nest->cap_table - 1)] = values[i];
    }
}

static uint32_t variables_of(const struct value *v)
{
    uint32_t variables = v->index ? v->index->variables : 0;
    for (const struct guard *c = v->guard; c; c = c->next)
        variables |= c->index->variables;
    for (int i = 0; i < v->n_in; i++)
        variables |= v->in[i]->variables;
    return variables;
}

static struct value *interned(struct gen *g, struct nest *nest, struct value v)
{
    if (nest->n_values == nest->cap_values)
        grow_values(g, nest);
    uint64_t mask = (uint64_t)(nest->cap_table - 1), at = hash_of(&v);
    for (; nest->table[at & mask]; at++)
        if (same(nest->table[at & mask], &v))
            return nest->table[at & mask];
    v.variables |= variables_of(&v);
    for (int i = 0; i < v.n_in; i++)
        if (v.in[i]->phase > v.phase)
            v.phase = v.in[i]->phase;
    struct value *copy = arena_new(g, struct value, 1);
    *copy = v;
    copy->id = nest->n_values;
    nest->n_loads += v.kind == VALUE_load;
    nest->table[at & mask] = nest->values[nest->n_values++] = copy;
    return copy;
}

static uint64_t hash_at(const struct node *node, const struct index *const *at,
                        const struct guard *guard)
{
    uint64_t hash = mixed((uint64_t)node->id, (uint64_t)(uintptr_t)guard);
    for (int d = 0; d < node->rank; d++)
        hash = mixed(hash, (uint64_t)at[d]->id);
    return hash;
}

// The memo's slot of node at coordinates, free or taken.
static struct lowered *slot(struct gen *g, struct nest *nest, const struct node *node,
                            const struct index *const *at, const struct guard *guard)
{
    if (2 * nest->n_lowered >= nest->cap_lowered) {
        struct lowered *old = nest->lowered;
        int n = nest->cap_lowered;
        nest->cap_lowered = n ? 2 * n : 64;
        nest->lowered = arena_new(g, struct lowered, nest->cap_lowered);
        for (int i = 0; i < n; i++)
            if (old[i].node)
                *slot(g, nest, old[i].node, old[i].at, old[i].guard) = old[i];
    }
    uint64_t mask = (uint64_t)(nest->cap_lowered - 1), i = hash_at(node, at, guard);
    for (;; i++) {
        struct lowered *l = &nest->lowered[i & mask];
        if (!l->node || (l->node == node && l->guard == guard &&
                         !memcmp(l->at, at, sizeof *at * (size_t)node->rank)))
            return l;
    }
}

struct value *result_value(struct fusion *f, struct nest *nest, int heavy)
{
    const struct node *node = nest->heavy[heavy];
    uint32_t variables = 1u << VAR_r | 1u << VAR_b | 1u << VAR_m | 1u << VAR_n;
    for (int v = 0; v < VAR_COUNT; v++)
        if (nest->extent[v] <= 1)
            variables &= ~(1u << v);
    return interned(f->g, nest,
                    (struct value){.kind = VALUE_result,
                                   .node = node,
                                   .dtype = node->dtype,
                                   .variables = variables,
                                   .phase = nest->heavy_phase[heavy] + 1});
}

void natural_coordinates(struct fusion *f, const struct nest *nest, const struct node *node,
                         bool kept, const struct index **at)
{
    const struct index *linear = nest->variable[VAR_r];
    if (!kept)
        linear = index_linear(f->pool, nest->rank, nest->dim, nest->at);
    index_coordinates(f->pool, node->rank, node->dim, linear, at);
}

bool stores_per_row(const struct nest *nest, int store)
{
    if (nest->family == FAMILY_columns)
        return true;
    return nest->family == FAMILY_rows && node_numel(nest->stores[store]) == nest->extent[VAR_r] &&
           !(nest->store_values[store]->variables & 1u << VAR_c);
}

const struct index *store_index(struct fusion *f, const struct nest *nest, int store)
{
    const struct node *node = nest->stores[store];
    const struct index *at[MAX_RANK];
    natural_coordinates(f, nest, node, stores_per_row(nest, store), at);
    return index_linear(f->pool, node->rank, node->dim, at);
}

// Where a reduction's or contraction's own result is wanted at coordinates that are the nest's own.
static bool is_own_place(struct fusion *f, struct nest *nest, const struct node *node,
                         const struct index *const *at)
{
    const struct index *own[MAX_RANK];
    natural_coordinates(f, nest, node, nest->family != FAMILY_gemm, own);
    return !memcmp(own, at, sizeof *at * (size_t)node->rank);
}

struct context {
    struct fusion *f;
    struct nest *nest;
    const struct guard *guard;
};

static struct value *lower_at(struct context *c, const struct node *node,
                              const struct index *const *at);

static struct value *load(struct context *c, const struct node *node, const struct index *const *at)
{
    struct value v = {.kind = VALUE_load, .node = node, .dtype = node->dtype, .guard = c->guard};
    v.index = index_linear(c->f->pool, node->rank, node->dim, at);
    return interned(c->f->g, c->nest, v);
}

static struct value *elementwise(struct context *c, const struct node *node,
                                 const struct index *const *at)
{
    struct value v = {.kind = VALUE_op, .node = node, .dtype = node->dtype, .n_in = node->n_in};
    for (int i = 0; i < node->n_in; i++) {
        const struct node *in = node->in[i];
        const struct index *in_at[MAX_RANK];
        for (int d = 0; d < in->rank; d++) {
            int from = d + node->rank - in->rank;
            in_at[d] = in->dim[d] == 1 ? index_constant(c->f->pool, 0) : at[from];
        }
        if (!(v.in[i] = lower_at(c, in, in_at)))
            return NULL;
    }
    return interned(c->f->g, c->nest, v);
}

// a when low <= index <= high, else b.  Each side is lowered under its own guard, so that its loads
// stay in bounds.
static struct value *select_by(struct context *c, const struct index *index, int64_t low,
                               int64_t high, struct value *a, struct value *b)
{
    if (!a || !b)
        return NULL;
    struct guard *guard = arena_new(c->f->g, struct guard, 1);
    *guard = (struct guard){index, low, high, NULL};
    for (int i = 0; i < c->nest->n_values;
         i++) { // the same condition is the same pointer, for interning
        const struct guard *old =
            c->nest->values[i]->kind == VALUE_select ? c->nest->values[i]->guard : NULL;
        if (old && old->index == index && old->low == low && old->high == high)
            guard = (struct guard *)(uintptr_t)old;
    }
    return interned(c->f->g, c->nest,
                    (struct value){
                        .kind = VALUE_select,
                        .node = a->node,
                        .dtype = a->dtype,
                        .guard = guard,
                        .n_in = 2,
                        .in = {a, b}
    });
}

static struct value *lower_under(struct context *c, const struct guard *guard,
                                 const struct node *node, const struct index *const *at)
{
    const struct guard *outer = c->guard;
    c->guard = guard;
    struct value *v = lower_at(c, node, at);
    c->guard = outer;
    return v;
}

static const struct guard *guarded(struct context *c, const struct index *index, int64_t low,
                                   int64_t high)
{
    for (const struct guard *old = c->guard; old; old = old->next)
        if (old->index == index && old->low >= low && old->high <= high)
            return c->guard;
    struct guard *guard = arena_new(c->f->g, struct guard, 1);
    *guard = (struct guard){index, low, high, c->guard};
    return guard;
}

static struct value *padded(struct context *c, const struct node *node,
                            const struct index *const *at)
{
    struct index_pool *pool = c->f->pool;
    const struct node *in = node->in[0];
    const struct index *in_at[MAX_RANK];
    const struct guard *guard = c->guard;
    for (int d = 0; d < node->rank; d++) {
        in_at[d] = index_add(pool, at[d], index_constant(pool, -node->attr.before[d]));
        if (in_at[d]->low < 0 || in_at[d]->high >= in->dim[d]) {
            struct context inner = {c->f, c->nest, guard};
            guard = guarded(&inner, in_at[d], 0, in->dim[d] - 1);
        }
    }
    if (guard == c->guard)
        return lower_at(c, in, in_at);
    struct value *v = lower_under(c, guard, in, in_at);
    struct value *fill =
        interned(c->f->g, c->nest,
                 (struct value){.kind = VALUE_constant, .node = node, .dtype = node->dtype});
    for (const struct guard *t = guard; t != c->guard; t = t->next)
        v = select_by(c, t->index, t->low, t->high, v, fill);
    return v;
}

static struct value *concatenated(struct context *c, const struct node *node,
                                  const struct index *const *at)
{
    struct index_pool *pool = c->f->pool;
    int axis = node->attr.axis;
    int64_t end = node->dim[axis];
    struct value *v = NULL;
    for (int i = node->n_in - 1; i >= 0; i--) {
        const struct node *in = node->in[i];
        int64_t start = end - in->dim[axis];
        const struct index *in_at[MAX_RANK];
        memcpy(in_at, at, sizeof *at * (size_t)node->rank);
        in_at[axis] = index_add(pool, at[axis], index_constant(pool, -start));
        bool possible = at[axis]->low < end && at[axis]->high >= start && in->dim[axis] > 0;
        if (possible) {
            struct value *part =
                lower_under(c, guarded(c, in_at[axis], 0, in->dim[axis] - 1), in, in_at);
            v = v ? select_by(c, in_at[axis], 0, in->dim[axis] - 1, part, v) : part;
            if (!v)
                return NULL;
        }
        end = start;
    }
    return v;
}

static struct value *moved(struct context *c, const struct node *node,
                           const struct index *const *at)
{
    struct index_pool *pool = c->f->pool;
    const struct node *in = node->in[0];
    const struct index *in_at[MAX_RANK];
    switch (node->op) {
    case OP_reshape:
        index_coordinates(pool, in->rank, in->dim, index_linear(pool, node->rank, node->dim, at),
                          in_at);
        break;
    case OP_permute:
        for (int d = 0; d < node->rank; d++)
            in_at[node->attr.perm[d]] = at[d];
        break;
    case OP_broadcast:
        for (int d = 0; d < in->rank; d++)
            in_at[d] = in->dim[d] == 1 ? index_constant(pool, 0) : at[d + node->rank - in->rank];
        break;
    case OP_slice:
        for (int d = 0; d < node->rank; d++)
            in_at[d] = index_add(pool, index_scale(pool, at[d], node->attr.step[d]),
                                 index_constant(pool, node->attr.start[d]));
        break;
    case OP_pad:
        return padded(c, node, at);
    default:
        return concatenated(c, node, at);
    }
    return lower_at(c, in, in_at);
}

static int heavy_of(const struct nest *nest, const struct node *node)
{
    for (int i = 0; i < nest->n_heavy; i++)
        if (nest->heavy[i] == node)
            return i;
    return -1;
}

static struct value *computed(struct context *c, const struct node *node,
                              const struct index *const *at)
{
    struct nest *nest = c->nest, *home = c->f->home[node->id];
    if ((node->op == OP_input || node->op == OP_weight) && node_numel(node))
        return load(c, node, at);
    if (home && home != nest)
        return home->id < nest->id ? load(c, node, at) : NULL;
    int heavy = heavy_of(nest, node);
    if (heavy >= 0)
        return is_own_place(c->f, nest, node, at) ? result_value(c->f, nest, heavy) : NULL;
    if (node->op == OP_constant ||
        !node_numel(node)) // of an empty tensor no element is ever evaluated
        return interned(c->f->g, nest,
                        (struct value){.kind = VALUE_constant, .node = node, .dtype = node->dtype});
    if (node->op == OP_iota)
        return interned(
            c->f->g, nest,
            (struct value){.kind = VALUE_index, .dtype = DT_i64, .index = at[node->attr.axis]});
    if (op_info[node->op].kind == KIND_elementwise)
        return elementwise(c, node, at);
    return op_info[node->op].kind == KIND_movement ? moved(c, node, at) : NULL;
}

static struct value *lower_at(struct context *c, const struct node *node,
                              const struct index *const *at)
{
    struct lowered *known = slot(c->f->g, c->nest, node, at, c->guard);
    if (known->node)
        return known->value;
    struct value *v = computed(c, node, at);
    if (!v)
        return NULL; // not remembered: a later heavy node of the nest may make it possible
    known = slot(c->f->g, c->nest, node, at, c->guard);
    known->node = node;
    memcpy(known->at, at, sizeof *at * (size_t)node->rank);
    known->guard = c->guard;
    known->value = v;
    c->nest->n_lowered++;
    return v;
}

struct value *lower(struct fusion *f, struct nest *nest, const struct node *node,
                    const struct index *const *at)
{
    return lower_at(&(struct context){f, nest, NULL}, node, at);
}
