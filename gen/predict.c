// predict.c: a scheduled nest to about how long it takes, in microseconds.
//
// A contraction has clocks already (gemm_tiles.c).  Everything else is bound by memory: its bytes
// at the target's rate, slower where too few of them are in flight to cover memory's latency, where
// few SMs ask for them (one takes twice its share), or where the last wave leaves SMs idle; and
// never less than each wave's own chain of latencies.  It is there to say what to try first, not
// what is fastest.

#include "gen/integers.h"
#include "gen/kernel.h"
#include <math.h>

static const double launch_us = 1.5, latency_us = 1.0; // latency: of memory under load

// What a thread has on its way at a time, in bytes.
static double bytes_in_flight(const struct scheduled *s, const struct accesses *a)
{
    const struct spec *spec = &s->spec;
    double bytes = 0;
    int vectors = 1;
    for (int i = 0; i < a->n_loads; i++)
        if (a->loads[i]->variables & 1u << VAR_c)
            bytes += dtype_info[a->loads[i]->dtype].bytes;
    if (s->form == FAMILY_map)
        vectors = spec->unroll;
    else if (s->form == FAMILY_map_tiles)
        vectors = spec->tile_p * spec->tile_q / (spec->threads * spec->vec);
    else if (s->form == FAMILY_columns)
        vectors = 8; // as columns.cuh unrolls
    else if (spec->resident)
        vectors = (spec->items + spec->parked) * (spec->staged ? 2 : 1);
    else
        vectors = 4; // as rows.cuh unrolls
    return bytes * spec->vec * vectors;
}

static int resident_blocks(const struct target *t, const struct scheduled *s, double in_flight)
{
    int threads = max_of(s->spec.threads, 32);
    int registers = 24 + (int)min64((int64_t)(in_flight / 4), 200);
    int by_registers = t->registers_per_sm / (registers * threads);
    int by_shared = t->shared_per_sm / ((int)s->shared_bytes + 1024);
    int blocks = min_of(min_of(t->threads_per_sm / threads, by_registers), by_shared);
    if (s->form == FAMILY_columns)
        blocks = min_of(blocks, s->spec.blocks_per_sm);
    return max_of(min_of(blocks, 32), 1);
}

// Of a block from its first load to its last store.
static double block_us(const struct scheduled *s)
{
    const struct spec *spec = &s->spec;
    if (s->form == FAMILY_columns)
        return latency_us + 0.3 + (spec->splits > 1 ? 1.5 : 0);
    if (s->form != FAMILY_rows)
        return latency_us + (s->form == FAMILY_map_tiles ? 0.1 : 0);
    double exchange = spec->cluster > 1 ? 0.9 : spec->threads_per_row > 32 ? 0.25 : 0.05;
    return latency_us + spec->phases * (exchange + (spec->resident ? 0 : latency_us));
}

// A row that is not kept is read again by every phase, and by the stores.
static double moved_bytes(const struct scheduled *s, const struct accesses *a)
{
    bool streamed = s->form == FAMILY_rows && !s->spec.resident;
    return s->bytes + (streamed ? s->spec.phases * a->read_bytes : 0);
}

// How much longer the busiest SM works than the average one.
static double uneven(const struct target *t, const struct scheduled *s, int resident)
{
    int64_t blocks = max64(s->blocks, 1), groups = blocks;
    if (s->spec.staged)
        groups = max64(ceil_div(s->nest->extent[VAR_r], s->spec.rows_per_block), 1);
    else if (blocks <= (int64_t)resident * t->n_sms)
        return 1; // an SM with a block less leaves its share of memory's rate to the others
    int64_t sharers = s->spec.staged ? blocks : t->n_sms;
    return (double)(ceil_div(groups, sharers) * sharers) / (double)groups;
}

// Columns that are read in short pieces cost whole lines of memory.
static double pieces(const struct scheduled *s)
{
    int bytes = 4 * s->spec.threads_x * s->spec.vec;
    return s->form == FAMILY_columns && s->spec.along_kept ? 1 + 32.0 / bytes : 1;
}

// A cluster's row is read, then reduced, then stored, and the next one is read in its place: about
// so much longer than a copy (measured on an H200).
static double not_overlapped(const struct scheduled *s)
{
    return s->spec.cluster > 1 && !s->spec.staged ? 1.25 : 1;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

double predicted_us(const struct target *t, const struct scheduled *s, const struct accesses *a)
{
    if (s->form == FAMILY_gemm) // at the clock at which 128 lanes an SM reach the target's rate
        return larger(s->floor_us, 1e6 * s->clocks * 256 * t->n_sms / t->f32_flops);
    if (s->form == FAMILY_row_teams)
        return launch_us + latency_us + walk_us(t, s);
    double in_flight = bytes_in_flight(s, a);
    int resident = resident_blocks(t, s, in_flight);
    double at_once = (double)min64(s->blocks, (int64_t)resident * t->n_sms);
    double busy = larger(at_once * s->spec.threads, 1);
    double waves = (double)ceil_div(max64(s->blocks, 1), (int64_t)resident * t->n_sms);
    double bytes = moved_bytes(s, a), rate = t->bytes_per_second;
    double needed = rate * latency_us * 1e-6 / larger(smaller(busy * in_flight, a->read_bytes), 1);
    double few_sms = larger(1, t->n_sms / (2 * larger(smaller(at_once, t->n_sms), 1)));
    double memory = 1e6 * bytes / rate * hypot(few_sms, needed) * uneven(t, s, resident) *
                    pieces(s) * not_overlapped(s);
    double arithmetic = 1e6 * s->flops / t->f32_flops * larger(1, 128.0 * t->n_sms / busy);
    return launch_us + larger(larger(memory, arithmetic), waves * block_us(s));
}
