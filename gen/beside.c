// beside.c: two nests to one launch in which they run side by side.
//
// A reduction that is over as soon as it has begun, next to one along columns that takes long and
// needs nothing of it: its few blocks go first, into the room that one wave of the long one's
// blocks leaves on the GPU.  What it would have cost as a kernel of its own, a launch and a chain
// of latencies, is hidden.  No block waits for another.  (Others know it as horizontal fusion.)

#include "gen/integers.h"
#include "gen/kernel.h"

// One phase of reductions, of which nothing is kept in registers: the long one's launch bounds
// leave few.
static bool schedule_side(struct fusion *f, const struct nest *nest, int alignment, int threads,
                          struct scheduled *out)
{
    struct accesses a = nest_accesses(f->g, nest);
    struct wishes w = {.way = WAY_streamed, .of[WISH_threads] = threads};
    if (nest->family != FAMILY_rows || nest->n_phases != 1)
        return false;
    for (int i = 0; i < nest->n_stores; i++)
        if (!stores_per_row(nest, i))
            return false;
    for (int t = threads; t >= 32; t /= 2) {
        w.of[WISH_threads_per_row] = t;
        if (schedule_as(f, nest, &a, alignment, &w, out))
            return true;
    }
    return false;
}

// The blocks of both are on the GPU at once.
static bool has_room(const struct fusion *f, const struct scheduled *main,
                     const struct scheduled *side)
{
    int64_t room = (int64_t)main->spec.blocks_per_sm * f->target->n_sms;
    return main->blocks + side->blocks <= room && side->shared_bytes <= main->shared_bytes &&
           side->floor_us < main->floor_us / 8;
}

bool launch_beside(struct fusion *f, int first, int alignment, struct launch *out)
{
    struct scheduled both[2], alone;
    if (first + 1 >= f->n_nests || reads_any(f->nests[first + 1], f->nests[first]))
        return false;
    int main = f->nests[first]->family == FAMILY_columns ? 0 : 1;
    const struct nest *long_one = f->nests[first + main], *side = f->nests[first + 1 - main];
    if (long_one->family != FAMILY_columns)
        return false;
    schedule(f, long_one, alignment, &both[main]);
    int threads = both[main].spec.threads;
    if (!schedule_side(f, side, alignment, threads, &both[1 - main]) ||
        !has_room(f, &both[main], &both[1 - main]))
        return false;
    schedule(f, side, alignment, &alone);
    struct accesses a = nest_accesses(f->g, long_one), b = nest_accesses(f->g, side);
    double main_us = predicted_us(f->target, &both[main], &a);
    *out = (struct launch){.n_phases = 2,
                           .threads = threads,
                           .side = 1 - main,
                           .side_blocks = both[1 - main].blocks,
                           .blocks = both[0].blocks + both[1].blocks,
                           .shared_bytes = both[main].shared_bytes,
                           .predicted_us = main_us,
                           .separate_us = main_us + predicted_us(f->target, &alone, &b)};
    out->phases = arena_new(f->g, struct scheduled, 2);
    out->waits = arena_new(f->g, bool, 2);
    out->origin = arena_new(f->g, enum origin, f->graph->n_nodes);
    out->own_at = arena_new(f->g, int64_t, f->graph->n_nodes);
    out->phases[0] = both[0], out->phases[1] = both[1];
    return true;
}
