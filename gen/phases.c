// phases.c: nests to the phases of one launch: how each is scheduled as one, which of them wait for
// the others, how far what one makes has to travel, and who keeps it where.
//
// Where a phase needs all of a small reduction, the blocks of the whole grid make it together, with
// a barrier of all or by telling each other (grid scope), or every cluster of blocks makes it for
// itself (cluster scope): its operand is then read once a cluster, but the blocks that wait for
// each other are neighbours with a barrier in hardware, and the grid need not be on the GPU all at
// once.

#include "gen/integers.h"
#include "gen/kernel.h"

enum {
    MAX_REPLICATED_BYTES = 16384, // of partial results that each block adds up
    MAX_OWN_BYTES = 4096,         // of shared memory that hold their results
    FEW_ROWS = 8,                 // blocks that reduce while all others wait
    MAX_WAVES = 8                 // of blocks, each of which reduces for itself
};

static bool reads(const struct nest *nest, const struct node *node)
{
    for (int i = 0; i < nest->n_values; i++)
        if (nest->values[i]->kind == VALUE_load && nest->values[i]->node == node)
            return true;
    return false;
}

bool reads_any(const struct nest *nest, const struct nest *made)
{
    for (int i = 0; i < made->n_stores; i++)
        if (reads(nest, made->stores[i]))
            return true;
    return false;
}

static bool is_output(const struct graph *graph, const struct node *node)
{
    for (int i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i].node == node)
            return true;
    return false;
}

// Whether nobody but the phases of the launch looks at what the nest stores.
static bool stays_inside(const struct fusion *f, const struct nest *nest, int end)
{
    for (int i = 0; i < nest->n_stores; i++) {
        if (is_output(f->graph, nest->stores[i]))
            return false;
        for (int later = end; later < f->n_nests; later++)
            if (reads(f->nests[later], nest->stores[i]))
                return false;
    }
    return true;
}

static bool is_read_before(const struct fusion *f, const struct nest *nest, int end)
{
    for (int later = nest->id + 1; later < end; later++)
        if (reads_any(f->nests[later], nest))
            return true;
    return false;
}

// Room for a copy of a node, or for one of every warp of the largest block.
static int64_t own_bytes(const struct node *node)
{
    int64_t bytes = node_numel(node) * dtype_info[node->dtype].bytes;
    return ceil_div(max64(bytes, 16 * WARP_COPY), 128) * 128;
}

static int64_t results_bytes(const struct nest *nest)
{
    int64_t bytes = 0;
    for (int i = 0; i < nest->n_stores; i++)
        bytes += own_bytes(nest->stores[i]);
    return bytes;
}

// Partial results that are few: adding them up in every block costs less than waiting for one
// that does.  room: shared memory that is left for the results.
static void replicate(const struct fusion *f, struct scheduled *s, int end, int64_t *room)
{
    int64_t bytes = results_bytes(s->nest);
    if (s->nest->family != FAMILY_columns || s->spec.splits < 2 ||
        s->partial_bytes > MAX_REPLICATED_BYTES || bytes > *room || !stays_inside(f, s->nest, end))
        return;
    s->spec.replicated = true;
    s->n_tickets = 0;
    *room -= bytes;
}

// Where a phase needs what one since the last barrier made.
static void place_barriers(struct launch *l)
{
    l->cooperative = false;
    for (int p = 0, since = 0; p < l->n_phases; p++) {
        l->waits[p] = false;
        for (int made = since; made < p; made++)
            l->waits[p] |= reads_any(l->phases[p].nest, l->phases[made].nest);
        if (l->waits[p])
            since = p, l->cooperative = !l->cluster;
    }
}

static bool can_tell(const struct launch *l, const struct scheduled *s)
{
    enum { TOLD_BYTES = 16 }; // to a thread, that it has in registers at once
    return s->spec.replicated && s->partial_bytes <= (int64_t)TOLD_BYTES * l->threads;
}

// Phases behind which nothing waits but for a few partial results: these go from block to block
// without a barrier.  (All blocks of the launch are on the GPU at once, as for a barrier.)
static void tell_partials(struct launch *l)
{
    for (int p = 0, since = 0; p < l->n_phases; p++) {
        bool tells = l->waits[p];
        for (int made = since; made < p; made++)
            tells &= can_tell(l, &l->phases[made]);
        for (int made = since; tells && made < p; made++) {
            struct scheduled *s = &l->phases[made];
            s->spec.told = true;
            s->n_packets = (int)(s->partial_bytes / 4 + l->blocks);
            s->partial_bytes = 0;
        }
        since = l->waits[p] ? p : since;
    }
}

// Who wrote what the launch reads; what each block has for itself lies behind what the phases use
// of its shared memory.
static void place_own(struct fusion *f, struct launch *l, int64_t at)
{
    l->origin = arena_new(f->g, enum origin, f->graph->n_nodes);
    l->own_at = arena_new(f->g, int64_t, f->graph->n_nodes);
    l->of_warp = arena_new(f->g, bool, f->graph->n_nodes);
    for (int p = 0; p < l->n_phases; p++) {
        const struct nest *nest = l->phases[p].nest;
        bool own = l->phases[p].spec.replicated;
        for (int i = 0; i < nest->n_stores; i++) {
            const struct node *node = nest->stores[i];
            l->origin[node->id] = own ? ORIGIN_block : ORIGIN_launch;
            bool by_warp = l->cluster || l->phases[p].spec.told;
            l->of_warp[node->id] = own && by_warp && nest->extent[VAR_r] == 1;
            if (own) {
                l->own_at[node->id] = at;
                l->shared_bytes = (unsigned)(at += own_bytes(node));
            }
        }
    }
}

// A reduction of rows as one of columns, whose blocks can share a row, where it is no more than
// that.
static const struct nest *as_columns(struct fusion *f, const struct nest *nest)
{
    if (nest->family != FAMILY_rows || nest->n_phases != 1)
        return nest;
    for (int i = 0; i < nest->n_stores; i++)
        if (!stores_per_row(nest, i))
            return nest;
    struct nest *columns = arena_new(f->g, struct nest, 1);
    *columns = *nest;
    columns->family = FAMILY_columns;
    return columns;
}

// A transposing map is no phase: its tiles are many times faster than what a phase's map does.
static bool schedule_phase(struct fusion *f, const struct nest *nest, int alignment,
                           const struct wishes *w, struct scheduled *out)
{
    struct accesses a = nest_accesses(f->g, nest);
    if (nest->family == FAMILY_map) {
        schedule(f, nest, alignment, out);
        if (out->form != FAMILY_map)
            return false;
    }
    return schedule_as(f, nest, &a, alignment, w, out) &&
           (int)out->shared_bytes <= f->target->shared_per_block;
}

static int64_t largest_shared(const struct launch *l)
{
    int64_t bytes = 128; // so that nothing lies at 0, which means nowhere
    for (int p = 0; p < l->n_phases; p++)
        bytes = max64(bytes, l->phases[p].shared_bytes);
    return ceil_div(bytes, 128) * 128;
}

// A contraction that waits for all blocks uses shared memory behind what the phases before it use,
// where there is room: what it needs no waiting for is there already when they are done.
static void place_panels(const struct fusion *f, struct launch *l)
{
    int64_t end = 128; // a place of its own is not 0
    for (int p = 0; p < l->n_phases; p++) {
        struct scheduled *s = &l->phases[p];
        if (l->waits[p] && s->form == FAMILY_gemm &&
            end + s->spec.shared_bytes + MAX_OWN_BYTES <= f->target->shared_per_block) {
            s->spec.shared_at = (int)end;
            s->shared_bytes = (unsigned)(end + s->spec.shared_bytes);
        }
        end = max64(end, ceil_div(s->shared_bytes, 128) * 128);
    }
}

static void begin_launch(struct fusion *f, int n_phases, const struct wishes *w, struct launch *l)
{
    *l = (struct launch){.threads = w->of[WISH_threads],
                         .n_phases = n_phases,
                         .cluster = w->of[WISH_cluster],
                         .blocks = 1};
    l->phases = arena_new(f->g, struct scheduled, n_phases);
    l->waits = arena_new(f->g, bool, n_phases);
}

bool launch_in_grid(struct fusion *f, int first, int n_phases, int alignment,
                    const struct wishes *w, struct launch *l)
{
    begin_launch(f, n_phases, w, l);
    for (int p = 0; p < n_phases; p++) {
        const struct nest *nest = f->nests[first + p];
        struct scheduled *s = &l->phases[p];
        if (nest->extent[VAR_r] < FEW_ROWS && is_read_before(f, nest, first + n_phases))
            nest = as_columns(f, nest);
        if (!schedule_phase(f, nest, alignment, w, s))
            return false;
        l->blocks = max64(l->blocks, min64(s->blocks, f->target->n_sms));
    }
    place_barriers(l);
    place_panels(f, l);
    for (int p = 0; p < n_phases; p++)
        l->shared_bytes = (unsigned)max64(l->shared_bytes, l->phases[p].shared_bytes);
    int64_t own_at = largest_shared(l);
    int64_t room = min64(f->target->shared_per_block - own_at, MAX_OWN_BYTES);
    for (int p = 0; p < n_phases; p++)
        replicate(f, &l->phases[p], first + n_phases, &room);
    tell_partials(l);
    place_own(f, l, own_at);
    return true;
}

// Of the accumulators that a cluster's blocks send to each of them, and the inbox before them: as
// struct Slots of columns.cuh.
static int64_t slots_bytes(const struct scheduled *s)
{
    int parts = s->spec.threads_x == 1 ? s->spec.threads / 32 : 1;
    return 16 + s->nest->extent[VAR_r] * s->spec.splits * parts * accumulator_bytes(s->nest);
}

// A reduction that each cluster makes for itself; false: it is too much, or not for the launch
// alone.
static bool share_in_cluster(struct fusion *f, struct scheduled *s, int end)
{
    const struct spec *spec = &s->spec;
    int64_t step = (int64_t)spec->threads_y * (spec->along_kept ? 1 : spec->vec);
    if (slots_bytes(s) > MAX_REPLICATED_BYTES || !stays_inside(f, s->nest, end) ||
        (spec->splits > 1 && ceil_div(s->nest->extent[VAR_c], step) < spec->splits))
        return false;
    s->spec.replicated = true;
    s->n_tickets = 0, s->partial_bytes = 0;
    s->blocks = spec->splits;
    return true;
}

static bool phase_in_cluster(struct fusion *f, const struct nest *nest, int end, int alignment,
                             const struct wishes *w, struct scheduled *out)
{
    struct wishes of = *w;
    if (!is_read_before(f, nest, end))
        return schedule_phase(f, nest, alignment, &of, out);
    const struct nest *columns = as_columns(f, nest);
    of.of[WISH_splits] = of.of[WISH_cluster];
    return columns->family == FAMILY_columns && schedule_phase(f, columns, alignment, &of, out) &&
           share_in_cluster(f, out, end);
}

// Every block has tiles of its own, if the grid is not too large for that.
static void place_blocks(const struct fusion *f, struct launch *l)
{
    int64_t most = (int64_t)MAX_WAVES * f->target->n_sms;
    l->blocks = 1;
    for (int p = 0; p < l->n_phases; p++)
        l->blocks = max64(l->blocks, min64(l->phases[p].blocks, most));
    l->blocks = ceil_div(l->blocks, l->cluster) * l->cluster;
    for (int p = 0; p < l->n_phases; p++)
        l->phases[p].spec.looped = l->phases[p].form != FAMILY_gemm
                                       ? l->phases[p].spec.looped
                                       : l->phases[p].blocks > l->blocks;
}

// Accumulators come from other blocks at any time: nothing else lies where they go.
static bool place_slots(struct fusion *f, struct launch *l)
{
    int64_t at = largest_shared(l), own = 0;
    l->slots_at = arena_new(f->g, int64_t, l->n_phases);
    for (int p = 0; p < l->n_phases; p++)
        if (l->phases[p].spec.replicated) {
            l->slots_at[p] = at;
            at += ceil_div(slots_bytes(&l->phases[p]), 128) * 128;
            own += results_bytes(l->phases[p].nest);
        }
    place_own(f, l, at);
    return own && own <= MAX_OWN_BYTES && l->shared_bytes <= (unsigned)f->target->shared_per_block;
}

bool launch_in_clusters(struct fusion *f, int first, int n_phases, int alignment,
                        const struct wishes *w, struct launch *out)
{
    begin_launch(f, n_phases, w, out);
    for (int p = 0; p < n_phases; p++)
        if (!phase_in_cluster(f, f->nests[first + p], first + n_phases, alignment, w,
                              &out->phases[p]))
            return false;
    place_blocks(f, out);
    place_barriers(out);
    return place_slots(f, out);
}

bool clusters_can_share(struct fusion *f, int first, int n_phases)
{
    bool any = false;
    for (int p = 0; p < n_phases; p++) {
        const struct nest *nest = f->nests[first + p];
        bool read = is_read_before(f, nest, first + n_phases);
        any |= read;
        if (read && as_columns(f, nest)->family != FAMILY_columns)
            return false;
    }
    return any;
}
