// schedule_columns.c: reductions whose kept elements lie side by side, or whose rows are few and
// long, to the spec of columns.cuh: how a block is spread over them, and how many blocks share
// them.

#include "gen/integers.h"
#include "gen/kernel.h"

// Blocks that share one tile's range: as many as run at once, since all take the same time and a
// second wave of a few would take as long as the first; each with `least` steps of work.
static int64_t column_splits(struct fusion *f, const struct spec *spec, int64_t tiles,
                             int64_t steps, int least)
{
    int64_t wanted = (int64_t)spec->blocks_per_sm * f->target->n_sms / max64(tiles, 1);
    int64_t splits = max64(1, min64(min64(wanted, steps / least), 1024));
    return splits > 1 ? ceil_div(steps, ceil_div(steps, splits)) : 1;
}

// What a thread has for the vectors of several steps in flight and its accumulators: 40 registers
// for one tensor and four sums.
static int column_blocks_per_sm(const struct target *t, const struct accesses *a, int threads,
                                int accumulators)
{
    int registers = 24 + max_of(accumulators - 32, 0) / 2;
    for (int i = 0; i < a->n_loads; i++)
        if (a->loads[i]->variables & 1u << VAR_c)
            registers += 16;
    int blocks = min_of(t->threads_per_sm, t->registers_per_sm / registers) / threads;
    return max_of(blocks, 1);
}

// Lanes along what more bytes lie side by side along.
static void set_vector(struct fusion *f, struct scheduled *s, const struct accesses *a,
                       int promised, int most)
{
    const struct nest *nest = s->nest;
    struct spec *spec = &s->spec;
    spec->along_kept = side_by_side_bytes(f, a, VAR_r) > side_by_side_bytes(f, a, VAR_c);
    s->lane_variable = spec->along_kept ? VAR_r : VAR_c;
    spec->vec = vector_width(f, nest, a, false, s->lane_variable, most, promised, &s->alignment);
    spec->vec = dividing(nest->extent[s->lane_variable], spec->vec);
}

// Whether a block is spread as wished, within what the target has, and hardly any thread idles.
static bool suits(const struct target *t, const struct scheduled *s, const struct wishes *w,
                  int64_t steps, int most_blocks)
{
    const struct spec *spec = &s->spec;
    int64_t cols = s->nest->extent[VAR_c];
    bool as_wished = spec->threads_x == wished(w, WISH_threads_x, spec->threads_x) &&
                     spec->blocks_per_sm <= most_blocks && spec->threads <= most_threads(t);
    bool idle = steps == 1 && spec->threads_y > 1 &&
                (int64_t)spec->threads_y * (spec->along_kept ? 1 : spec->vec) >= 2 * cols;
    return as_wished && !idle && s->shared_bytes <= (unsigned)t->shared_per_block;
}

bool schedule_columns(struct fusion *f, struct scheduled *s, const struct accesses *a, int promised,
                      const struct wishes *w)
{
    const struct nest *nest = s->nest;
    struct spec *spec = &s->spec;
    int64_t rows = nest->extent[VAR_r], cols = nest->extent[VAR_c];
    set_vector(f, s, a, promised, wished(w, WISH_vec, MAX_LANES));
    int64_t vectors = spec->along_kept ? rows / spec->vec : rows;
    int across = (int)min64(next_power(vectors), wished(w, WISH_threads_x, 32));
    spec->threads = wished(w, WISH_threads, 256);
    spec->threads_x = spec->along_kept ? across : 1;
    spec->threads_y = spec->threads / spec->threads_x;
    int bytes = accumulator_bytes(nest), kept = spec->along_kept ? spec->vec : 1;
    bool phase = w->way == WAY_phase;
    int most_blocks = phase ? 1 : column_blocks_per_sm(f->target, a, spec->threads, kept * bytes);
    spec->blocks_per_sm = wished(w, WISH_blocks_per_sm, most_blocks);
    int64_t tiles = ceil_div(rows, (int64_t)spec->threads_x * kept);
    int64_t steps = ceil_div(cols, (int64_t)spec->threads_y * (spec->along_kept ? 1 : spec->vec));
    int64_t splits =
        wished(w, WISH_splits, (int)column_splits(f, spec, tiles, steps, phase ? 1 : 4));
    spec->splits = (int)splits;
    s->blocks = min64(tiles * splits, INT32_MAX);
    s->shared_bytes = (unsigned)max_of(spec->threads / 2 * kept * bytes, 16);
    if (splits > 1) {
        s->partial_bytes = splits * rows * bytes;
        s->n_tickets = (int)tiles;
    }
    return w->way == WAY_any || phase || suits(f->target, s, w, steps, most_blocks);
}
