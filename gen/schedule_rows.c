// schedule_rows.c: reductions along rows to the spec of rows.cuh: who shares a row, what of it is
// kept, and whether the next one is on its way meanwhile.

#include "gen/integers.h"
#include "gen/kernel.h"

// Registers that one element of a row occupies from its load to the last stage, in bytes.  What all
// rows share is loaded when it is used.
static int kept_bytes(const struct accesses *a)
{
    uint32_t element = 1u << VAR_r | 1u << VAR_c;
    int bytes = 0;
    for (int i = 0; i < a->n_loads; i++)
        if ((a->loads[i]->variables & element) == element)
            bytes += max_of(dtype_info[a->loads[i]->dtype].bytes, 4);
    return max_of(bytes, 4);
}

// Walking through many rows with the next one on its way: for rows that take a block of the largest
// size, of which an SM holds too few to hide one row's latency behind another's.  Shorter rows are
// faster one block each (measured on an H200: 10 % for rows of 4096, the other way round by 15 %
// for rows of 16384).
static void stage_rows(struct fusion *f, struct scheduled *s, const struct accesses *a)
{
    const struct target *t = f->target;
    struct spec *spec = &s->spec;
    int bytes = 0;
    for (int i = 0; i < a->n_loads; i++)
        if (can_stage(f, s->nest, a->loads[i], spec->vec))
            bytes += dtype_info[a->loads[i]->dtype].bytes * spec->vec;
    int at = (int)(s->shared_bytes + 127) / 128 * 128;
    int shared = at + 2 * spec->items * spec->threads * bytes;
    int by_shared = t->shared_per_sm / (shared + 1024),
        by_threads = t->threads_per_sm / spec->threads;
    int by_registers = t->registers_per_sm / (spec->threads * 64);
    int blocks = min_of(by_shared, min_of(by_threads, by_registers));
    if (!spec->resident || !bytes || t->sm < 80 || spec->threads_per_row < 1024 ||
        shared > t->shared_per_block || blocks < 1 || s->blocks < 3 * (int64_t)blocks * t->n_sms)
        return;
    spec->staged = true, spec->late = false;
    spec->staging_at = at, spec->staged_bytes = bytes;
    s->shared_bytes = (unsigned)shared;
    s->blocks = (int64_t)blocks * t->n_sms;
}

// Threads that share a row: few enough to keep the exchange cheap, enough that each keeps at most
// `budget` bytes.
void schedule_rows(struct fusion *f, struct scheduled *s, const struct accesses *a, int promised)
{
    const struct nest *nest = s->nest;
    struct spec *spec = &s->spec;
    int64_t rows = nest->extent[VAR_r], cols = nest->extent[VAR_c];
    s->lane_variable = VAR_c;
    spec->vec = vector_width(f, nest, a, true, VAR_c, promised, &s->alignment);
    spec->vec = dividing(cols, spec->vec);
    int64_t vectors = max64(ceil_div(cols, spec->vec), 1);
    int vector_bytes = kept_bytes(a) * spec->vec;
    int threads =
        vectors <= 128 ? (int)min64(next_power(vectors), 32) : next_power(ceil_div(vectors, 4));
    int most = min_of(1024, f->target->threads_per_sm);
    threads = min_of(threads, most);
    while (threads < most &&
           ceil_div(vectors, threads) * vector_bytes > (threads < 512 ? 160 : 128))
        threads *= 2;
    spec->threads_per_row = threads;
    spec->items = (int)min64(ceil_div(vectors, threads), 1 << 20);
    spec->resident = (int64_t)spec->items * vector_bytes <= 128 + 32;
    if (!spec->resident)
        spec->items = 1;
    spec->late = spec->items * vector_bytes > 64;
    spec->rows_per_block =
        threads >= 128 ? 1 : (int)max64(min64(128 / threads, next_power(rows)), 1);
    spec->threads = spec->rows_per_block * threads;
    s->shared_bytes = threads > 32 ? (unsigned)(spec->threads / 32 * accumulator_bytes(nest)) : 0;
    s->blocks = min64(ceil_div(rows, spec->rows_per_block), INT32_MAX);
    spec->acc_bytes = accumulator_bytes(nest);
    stage_rows(f, s, a);
    cluster_rows(f, s, a, vector_bytes);
}
