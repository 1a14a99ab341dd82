// stitch.c: nests to launches: kernels that are over as soon as they have begun become the phases
// of one.
//
// Such a kernel takes as long as its launch and its first access to memory take, not as long as its
// bytes and operations.  As a phase it takes a barrier in place of the launch, which is less, and
// what it reads of settled memory is on its way before that barrier; a reduction whose blocks share
// the work needs no tickets, since every block can add up the partial results past it, and no
// barrier where these are few enough to be told from block to block.  Against that stands that all
// phases have as many threads, and in grid scope one block to an SM.  Costs are clocks, rough ones:
// what they decide between is well apart.

#include "gen/integers.h"
#include "gen/kernel.h"

enum {
    CLOCKS_PER_US = 1700,
    MAX_PHASES = 8,
    MAX_POINTERS = 480,   // a kernel's parameters are 4 KB at most
    LAUNCH = 2300,        // from one kernel of a graph to the next (1.3 us on an H200)
    BARRIER = 2100,       // 1.2 us
    TICKETS = 1200,       // a fence, a ticket, and the last block reading what the others left
    ADD_UP = 500,         // reading what the others left, past a barrier
    TELL = 2100,          // a packet to every block, and adding up
    TELL_MANY = 600,      // more than 256 threads
    PASS = 1200,          // a load from memory, and what is done with it
    AHEAD = 600,          // of that, when it began before a barrier
    CLUSTER_BARRIER = 60, // for each block
    BLOCK_BARRIER = 50,
    LATENCY = 1000,  // of loads that all blocks begin at once
    SLOTS = 150,     // adding up what the others left in shared memory
    SM_BYTES = 50,   // that an SM gets of L2 in a clock
    L2_BYTES = 3200, // and all of them together
    MAX_CLOCKS = 6500,
    MAX_TRIED_CLOCKS = 10000 // for what a measurement may find to be less
};

static const int thread_counts[] = {256, 512, 128};
enum {
    N_THREAD_COUNTS = sizeof thread_counts / sizeof *thread_counts,
    GOOD_TILES = 6,
    MOST_TILES = 12
};

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
    case FAMILY_row_teams:
    case FAMILY_COUNT:
        break;
    }
    return ceil_div(work, at_once);
}

static double combining(const struct scheduled *s)
{
    return s->spec.told ? 0 : s->spec.replicated ? ADD_UP : s->n_tickets ? TICKETS : 0;
}

// Alone, where it has an SM's worth of threads, or as a phase.
static double clocks(const struct fusion *f, const struct scheduled *s, bool alone)
{
    if (s->nest->family == FAMILY_gemm)
        return s->clocks - (alone ? 0 : AHEAD);
    double bound = s->floor_us * CLOCKS_PER_US, latency = (double)(alone ? 1 : passes(f, s)) * PASS;
    return combining(s) + (latency > bound ? latency : bound);
}

// Of blocks, the most that an SM has at once.  The SMs of a GPC hold whole clusters, and some are
// left over: an H200 has room for 7 clusters of 16 where there is a block to an SM.
static int64_t busiest(const struct fusion *f, const struct launch *l)
{
    int64_t size = l->cluster > 1 ? l->cluster : 1, sms = f->target->n_sms;
    return ceil_div(ceil_div(l->blocks, size), max64(sms / size - (size > 2), 1));
}

// A reduction that every cluster makes for itself: loads that are all under way at once where
// registers can hold them, at the rate at which its SM, or all of them, get at L2.
static double shared_clocks(const struct fusion *f, const struct launch *l,
                            const struct scheduled *s)
{
    const struct spec *spec = &s->spec;
    int64_t kept = (int64_t)spec->threads_x * (spec->along_kept ? spec->vec : 1);
    int64_t reduced = (int64_t)spec->threads_y * (spec->along_kept ? 1 : spec->vec);
    int64_t steps = ceil_div(ceil_div(s->nest->extent[VAR_c], reduced), l->cluster);
    int64_t rounds = ceil_div(s->nest->extent[VAR_r], kept) * ceil_div(steps, 16);
    double block = s->bytes / l->cluster;
    double of_sm = block * (double)busiest(f, l) / SM_BYTES;
    double of_all = block * (double)l->blocks / L2_BYTES;
    return (double)rounds * LATENCY + (of_sm > of_all ? of_sm : of_all) + SLOTS;
}

static double phase_clocks(const struct fusion *f, const struct launch *l,
                           const struct scheduled *s)
{
    if (l->cluster && s->spec.replicated)
        return shared_clocks(f, l, s);
    int64_t evenly = ceil_div(l->blocks, f->target->n_sms), more = busiest(f, l) - evenly;
    return clocks(f, s, false) * (1 + (l->cluster ? 0.5 * (double)more / (double)evenly : 0));
}

// Of what a phase waits for the others with.
static double waiting_clocks(const struct launch *l, int phase)
{
    if (!l->cluster)
        return !l->phases[phase - 1].spec.told ? BARRIER
               : l->threads > 256              ? TELL + TELL_MANY
                                               : TELL;
    return l->cluster > 1 ? CLUSTER_BARRIER * l->cluster : BLOCK_BARRIER;
}

// What the search for the launch that begins with a nest has found.
struct search {
    struct fusion *f;
    int first, alignment;
    double alone[MAX_PHASES + 1]; // clocks of the first so many nests as kernels of their own
    int n_alone;
    double gained; // by the best launch over those
    int n_phases;  // of it
    struct launch *launches;
    int n;
};

static double clocks_alone(struct search *s, int n_phases)
{
    for (; s->n_alone < n_phases; s->n_alone++) {
        struct scheduled alone;
        schedule(s->f, s->f->nests[s->first + s->n_alone], s->alignment, &alone);
        s->alone[s->n_alone + 1] = s->alone[s->n_alone] + LAUNCH + clocks(s->f, &alone, true);
    }
    return s->alone[n_phases];
}

// Of the whole launch, in which no phase takes more than that; 0: it is not to be one.
static double launch_clocks(const struct fusion *f, const struct launch *l, double most)
{
    double sum = LAUNCH;
    int pointers = 0;
    for (int p = 0; p < l->n_phases; p++) {
        const struct scheduled *s = &l->phases[p];
        double cost = phase_clocks(f, l, s);
        pointers += s->nest->n_loads + s->nest->n_stores + 2;
        if (cost > most || pointers > MAX_POINTERS)
            return 0;
        sum += cost + (l->waits[p] ? waiting_clocks(l, p) : 0);
    }
    return sum;
}

// Of so many nests, in grid scope (w asks for no cluster) or in cluster scope; 0: there is none.
static double make_launch(struct search *s, int n_phases, const struct wishes *w, double most,
                          struct launch *l)
{
    bool made = w->of[WISH_cluster]
                    ? launch_in_clusters(s->f, s->first, n_phases, s->alignment, w, l)
                    : launch_in_grid(s->f, s->first, n_phases, s->alignment, w, l);
    return made ? launch_clocks(s->f, l, most) : 0;
}

// false: no more nests are to be tried this way.
static bool try_phases(struct search *s, int n_phases, const struct wishes *w)
{
    struct launch l;
    double clocks = make_launch(s, n_phases, w, MAX_CLOCKS, &l);
    if (clocks && clocks_alone(s, n_phases) - clocks > s->gained)
        s->gained = clocks_alone(s, n_phases) - clocks, s->n_phases = n_phases;
    return clocks != 0;
}

static void find_phases(struct search *s)
{
    int most = min_of(MAX_PHASES, s->f->n_nests - s->first);
    for (int i = 0; i < N_THREAD_COUNTS; i++) {
        struct wishes w = {.way = WAY_phase, .of[WISH_threads] = thread_counts[i]};
        for (int n = 2; n <= most && try_phases(s, n, &w); n++)
            ;
        for (int c = 1; c <= max_of(s->f->target->max_cluster, 1); c *= 2) {
            w.of[WISH_cluster] = c;
            for (int n = 2; n <= most; n++)
                if (clusters_can_share(s->f, s->first, n))
                    try_phases(s, n, &w);
        }
    }
}

// By rising clocks from a place on; the earlier of equals stays so.
static void keep_launch(struct search *s, int from, struct launch *l, double clocks)
{
    l->predicted_us = clocks / CLOCKS_PER_US;
    l->separate_us = clocks_alone(s, l->n_phases) / CLOCKS_PER_US;
    int at = s->n++;
    for (; at > from && s->launches[at - 1].predicted_us > l->predicted_us; at--)
        s->launches[at] = s->launches[at - 1];
    s->launches[at] = *l;
}

static bool multiplies(const struct search *s)
{
    for (int p = 0; p < s->n_phases; p++)
        if (s->f->nests[s->first + p]->family == FAMILY_gemm)
            return true;
    return false;
}

// The ways to a launch of the phases that were found, with contractions' tiles of those numbers.
static void list_launches(struct search *s, int first_tile, int last_tile)
{
    static const int clusters[] = {0, 1, 2, 4, 8, 16};
    int from = s->n ? 1 : 0; // the first stays the model's choice
    for (int i = 0; i < N_THREAD_COUNTS; i++)
        for (size_t c = 0; c < sizeof clusters / sizeof *clusters; c++)
            for (int tile = first_tile; tile <= last_tile && s->n < MAX_LAUNCHES; tile++) {
                struct wishes w = {.way = WAY_phase,
                                   .of[WISH_threads] = thread_counts[i],
                                   .of[WISH_cluster] = clusters[c],
                                   .of[WISH_tile] = tile};
                struct launch l;
                if (clusters[c] > max_of(s->f->target->max_cluster, 1) ||
                    (clusters[c] && !clusters_can_share(s->f, s->first, s->n_phases)))
                    continue;
                double clocks = make_launch(s, s->n_phases, &w, MAX_TRIED_CLOCKS, &l);
                if (clocks)
                    keep_launch(s, from, &l, clocks);
            }
}

// Behind the first the best of every other scope that may be as good, then the rest: a short
// measurement tries those that differ most.
static void spread_scopes(struct search *s)
{
    int n = 1;
    for (int i = 1; i < s->n; i++) {
        bool is_new = s->launches[i].predicted_us <= 1.5 * s->launches->predicted_us;
        for (int k = 0; k < n; k++)
            is_new &= s->launches[k].cluster != s->launches[i].cluster;
        if (!is_new)
            continue;
        struct launch l = s->launches[i];
        for (int k = i; k > n; k--)
            s->launches[k] = s->launches[k - 1];
        s->launches[n++] = l;
    }
}

void launch_alone(struct fusion *f, const struct scheduled *s, struct launch *out)
{
    *out = (struct launch){.n_phases = 1,
                           .threads = s->spec.threads,
                           .cluster = s->spec.cluster,
                           .blocks = s->blocks,
                           .shared_bytes = s->shared_bytes,
                           .cooperative = s->spec.team > 1,
                           .predicted_us = s->predicted_us};
    out->phases = arena_new(f->g, struct scheduled, 1);
    out->waits = arena_new(f->g, bool, 1);
    *out->phases = *s;
}

int stitch(struct fusion *f, int first, int alignment, bool all, struct launch *launches)
{
    struct search s = {.f = f, .first = first, .alignment = alignment, .launches = launches};
    find_phases(&s);
    if (!s.n_phases)
        return 0;
    list_launches(&s, 1, multiplies(&s) ? GOOD_TILES : 1);
    if (all && multiplies(&s))
        list_launches(&s, GOOD_TILES + 1, MOST_TILES);
    spread_scopes(&s);
    return s.n;
}

const char *launch_text(struct gen *g, const struct launch *l)
{
    if (l->n_phases == 1)
        return spec_text(g, l->phases, "");
    const char *scope = l->cluster ? arena_text(g, " cluster=%d", l->cluster) : "";
    const char *text = arena_text(g, "threads=%d %s=%d%s", l->threads,
                                  l->side_blocks ? "beside" : "phases", l->n_phases, scope);
    for (int p = 0; p < l->n_phases; p++) {
        const char *prefix = arena_text(g, "%s%d.", family_name[l->phases[p].form], p);
        text = arena_text(g, "%s %s", text, spec_text(g, &l->phases[p], prefix));
    }
    return text;
}
