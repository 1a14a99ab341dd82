// stitch.c: nests to launches: kernels that are over as soon as they have begun become the phases
// of one.
//
// Such a kernel takes as long as its launch and its first access to memory take, not as long as its
// bytes and operations.  As a phase it takes a barrier of all blocks in place of the launch, which
// is a little less, and what it reads of settled memory is on its way before that barrier; a
// reduction whose blocks share the work needs no tickets, since every block can add up the partial
// results past it.  Against that stands that all phases have as many threads, one block to an SM.
// Costs are clocks, rough ones: what they decide between is well apart.

#include "gen/integers.h"
#include "gen/kernel.h"

enum {
    CLOCKS_PER_US = 1700,
    MAX_PHASES = 8,
    MAX_POINTERS = 480, // a kernel's parameters are 4 KB at most
    LAUNCH = 2300,      // from one kernel of a graph to the next (1.3 us on an H200)
    BARRIER = 1700,     // 1 us
    TICKETS = 1200,     // a fence, a ticket, and the last block reading what the others left
    ADD_UP = 500,       // reading what the others left, past a barrier
    PASS = 1200,        // a load from memory, and what is done with it
    AHEAD = 600,        // of that, when it began before a barrier
    MAX_CLOCKS = 6500,
    MAX_REPLICATED_BYTES = 16384, // of partial results that each block adds up
    MAX_OWN_BYTES = 4096          // of shared memory that hold their results
};

static const int thread_counts[] = {256, 512, 128};

// Vectors, or steps of vectors, that a thread works through one after the other.
static int64_t passes(const struct fusion *f, const struct scheduled *s)
{
    const struct spec *spec = &s->spec;
    const int64_t *extent = s->nest->extent;
    int64_t at_once = f->target->n_sms, work = 1;
    switch (s->nest->family) {
    case FAMILY_map:
        work = ceil_div(extent[VAR_c], (int64_t)spec->vec * spec->threads * spec->unroll);
        break;
    case FAMILY_rows:
        work = ceil_div(extent[VAR_r], spec->rows_per_block);
        break;
    case FAMILY_columns: {
        int64_t kept = (int64_t)spec->threads_x * (spec->along_kept ? spec->vec : 1);
        int64_t reduced = (int64_t)spec->threads_y * (spec->along_kept ? 1 : spec->vec);
        int64_t tiles = ceil_div(extent[VAR_r], kept), steps = ceil_div(extent[VAR_c], reduced);
        int64_t in_flight = ceil_div(ceil_div(steps, spec->splits), 8);
        work = tiles * spec->splits * in_flight;
        break;
    }
    case FAMILY_gemm:
    case FAMILY_map_tiles:
    case FAMILY_COUNT:
        break;
    }
    return ceil_div(work, at_once);
}

static double combining(const struct scheduled *s, bool alone)
{
    if (!s->n_tickets)
        return 0;
    return !alone && s->partial_bytes <= MAX_REPLICATED_BYTES ? ADD_UP : TICKETS;
}

// Alone, where it has an SM's worth of threads, or as a phase.
static double clocks(const struct fusion *f, const struct scheduled *s, bool alone)
{
    if (s->nest->family == FAMILY_gemm)
        return s->clocks - (alone ? 0 : AHEAD);
    double bound = s->floor_us * CLOCKS_PER_US, latency = (double)(alone ? 1 : passes(f, s)) * PASS;
    return combining(s, alone) + (latency > bound ? latency : bound);
}

static bool reads(const struct nest *nest, const struct node *node)
{
    for (int i = 0; i < nest->n_values; i++)
        if (nest->values[i]->kind == VALUE_load && nest->values[i]->node == node)
            return true;
    return false;
}

static bool reads_any(const struct nest *nest, const struct nest *made)
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

static int64_t own_bytes(const struct node *node)
{
    return ceil_div(node_numel(node) * dtype_info[node->dtype].bytes, 128) * 128;
}

// Partial results that are few: adding them up in every block costs less than waiting for one
// that does.  room: shared memory that is left for the results.
static void replicate(const struct fusion *f, struct scheduled *s, int end, int64_t *room)
{
    int64_t bytes = 0;
    for (int i = 0; i < s->nest->n_stores; i++)
        bytes += own_bytes(s->nest->stores[i]);
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
            since = p, l->cooperative = true;
    }
}

// Who wrote what the launch reads; what each block has for itself lies behind what the phases use
// of its shared memory.
static void place_own(struct fusion *f, struct launch *l, int64_t at)
{
    l->origin = arena_new(f->g, enum origin, f->graph->n_nodes);
    l->own_at = arena_new(f->g, int64_t, f->graph->n_nodes);
    for (int p = 0; p < l->n_phases; p++) {
        const struct nest *nest = l->phases[p].nest;
        bool own = l->phases[p].spec.replicated;
        for (int i = 0; i < nest->n_stores; i++) {
            const struct node *node = nest->stores[i];
            l->origin[node->id] = own ? ORIGIN_block : ORIGIN_launch;
            if (own) {
                l->own_at[node->id] = at;
                l->shared_bytes = (unsigned)(at += own_bytes(node));
            }
        }
    }
}

static bool schedule_phase(struct fusion *f, const struct nest *nest, int alignment, int threads,
                           struct scheduled *out)
{
    struct wishes w = {.way = WAY_phase, .of[WISH_threads] = threads};
    struct accesses a = nest_accesses(f->g, nest);
    return schedule_as(f, nest, &a, alignment, &w, out) &&
           (int)out->shared_bytes <= f->target->shared_per_block;
}

// The nests as phases of so many threads, for as long as they can be; what is gained over kernels
// of their own by the first so many, and what these take, in clocks, goes to gained[] and taken[].
static struct launch phases_of(struct fusion *f, int first, int alignment, int threads,
                               double *gained, double *taken)
{
    struct launch l = {.threads = threads};
    l.phases = arena_new(f->g, struct scheduled, MAX_PHASES);
    l.waits = arena_new(f->g, bool, MAX_PHASES);
    double gain = 0, sum = 0;
    int pointers = 0;
    for (int p = 0; p < MAX_PHASES && first + p < f->n_nests; p++) {
        struct scheduled alone, *s = &l.phases[p];
        if (!schedule_phase(f, f->nests[first + p], alignment, threads, s))
            break;
        schedule(f, f->nests[first + p], alignment, &alone);
        double cost = clocks(f, s, false);
        pointers += s->nest->n_loads + s->nest->n_stores + 2;
        if (cost > MAX_CLOCKS || alone.form != s->form || pointers > MAX_POINTERS)
            break;
        l.n_phases++;
        place_barriers(&l);
        cost += l.waits[p] ? BARRIER : 0;
        gain += clocks(f, &alone, true) + (p ? LAUNCH : 0) - cost;
        gained[p] = gain, taken[p] = sum += cost;
    }
    return l;
}

static void finish(struct fusion *f, struct launch *l, int first)
{
    l->blocks = 1, l->shared_bytes = 0;
    for (int p = 0; p < l->n_phases; p++) {
        const struct scheduled *s = &l->phases[p];
        l->blocks = max64(l->blocks, min64(s->blocks, f->target->n_sms));
        l->shared_bytes = s->shared_bytes > l->shared_bytes ? s->shared_bytes : l->shared_bytes;
    }
    int64_t own_at = max64(ceil_div(l->shared_bytes, 128) * 128, 128);
    int64_t room = min64(f->target->shared_per_block - own_at, MAX_OWN_BYTES);
    for (int p = 0; p < l->n_phases; p++)
        replicate(f, &l->phases[p], first + l->n_phases, &room);
    place_barriers(l);
    place_own(f, l, own_at);
}

void launch_alone(struct fusion *f, const struct scheduled *s, struct launch *out)
{
    *out = (struct launch){.n_phases = 1,
                           .threads = s->spec.threads,
                           .blocks = s->blocks,
                           .shared_bytes = s->shared_bytes,
                           .predicted_us = s->predicted_us};
    out->phases = arena_new(f->g, struct scheduled, 1);
    out->waits = arena_new(f->g, bool, 1);
    *out->phases = *s;
}

int stitch(struct fusion *f, int first, int alignment, struct launch *launches)
{
    enum { N = sizeof thread_counts / sizeof *thread_counts };
    struct launch all[N];
    double gained[N][MAX_PHASES], taken[N][MAX_PHASES], best = 0;
    int of = 0, n_phases = 0, n = 0;
    for (int i = 0; i < N; i++) {
        all[i] = phases_of(f, first, alignment, thread_counts[i], gained[i], taken[i]);
        for (int p = 1; p < all[i].n_phases; p++)
            if (gained[i][p] > best)
                best = gained[i][p], of = i, n_phases = p + 1;
    }
    for (int i = 0; i < N && n_phases; i++) {
        struct launch *l = &all[(of + i) % N];
        if (l->n_phases < n_phases)
            continue;
        l->n_phases = n_phases;
        double clocks = LAUNCH + taken[(of + i) % N][n_phases - 1];
        l->predicted_us = clocks / CLOCKS_PER_US;
        l->separate_us = (clocks + gained[(of + i) % N][n_phases - 1]) / CLOCKS_PER_US;
        finish(f, l, first);
        launches[n++] = *l;
    }
    return n;
}

const char *launch_text(struct gen *g, const struct launch *l)
{
    if (l->n_phases == 1)
        return spec_text(g, l->phases, "");
    const char *text = arena_text(g, "threads=%d %s=%d", l->threads,
                                  l->side_blocks ? "beside" : "phases", l->n_phases);
    for (int p = 0; p < l->n_phases; p++) {
        const char *prefix = arena_text(g, "%s%d.", family_name[l->phases[p].form], p);
        text = arena_text(g, "%s %s", text, spec_text(g, &l->phases[p], prefix));
    }
    return text;
}
