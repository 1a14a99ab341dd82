// schedule_columns.c: reductions whose kept elements lie side by side, or whose rows are few and
// long, to the spec of columns.cuh: how a block is spread over them, and how many blocks share
// them.

#include "gen/integers.h"
#include "gen/kernel.h"

// Blocks that share one tile's range: as many as run at once, since all take the same time and a
// second wave of a few would take as long as the first; none of them without work.
static int64_t column_splits(struct fusion *f, const struct spec *spec, int64_t tiles,
                             int64_t steps)
{
    int64_t wanted = (int64_t)spec->blocks_per_sm * f->target->n_sms / max64(tiles, 1);
    int64_t splits = max64(1, min64(min64(wanted, steps / 4), 1024));
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

void schedule_columns(struct fusion *f, struct scheduled *s, const struct accesses *a, int promised)
{
    const struct nest *nest = s->nest;
    struct spec *spec = &s->spec;
    int64_t rows = nest->extent[VAR_r], cols = nest->extent[VAR_c];
    int alignment_c = 1, alignment_r = 1;
    int along_c = vector_width(f, nest, a, false, VAR_c, promised, &alignment_c);
    int along_r = vector_width(f, nest, a, false, VAR_r, promised, &alignment_r);
    spec->along_kept = side_by_side_bytes(f, a, VAR_r) > side_by_side_bytes(f, a, VAR_c);
    s->lane_variable = spec->along_kept ? VAR_r : VAR_c;
    spec->vec = spec->along_kept ? along_r : along_c;
    spec->vec = dividing(spec->along_kept ? rows : cols, spec->vec);
    s->alignment = spec->along_kept ? alignment_r : alignment_c;
    int64_t vectors = spec->along_kept ? rows / spec->vec : rows;
    spec->threads = 256;
    spec->threads_x = spec->along_kept ? (int)min64(next_power(vectors), 32) : 1;
    spec->threads_y = spec->threads / spec->threads_x;
    int bytes = accumulator_bytes(nest), kept = spec->along_kept ? spec->vec : 1;
    spec->blocks_per_sm = column_blocks_per_sm(f->target, a, spec->threads, kept * bytes);
    int64_t tiles = ceil_div(rows, (int64_t)spec->threads_x * kept);
    int64_t steps = ceil_div(cols, (int64_t)spec->threads_y * (spec->along_kept ? 1 : spec->vec));
    int64_t splits = column_splits(f, spec, tiles, steps);
    spec->splits = (int)splits;
    s->blocks = min64(tiles * splits, INT32_MAX);
    s->shared_bytes = (unsigned)max_of(spec->threads / 2 * kept * bytes, 16);
    if (splits > 1) {
        s->partial_bytes = splits * rows * bytes;
        s->n_tickets = (int)tiles;
    }
}
