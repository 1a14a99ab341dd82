// teams.c: rows that one block cannot keep on chip, shared by teams of the blocks of a cooperative
// launch: how many teams, and how many rows each has on their way.
//
// The teams walk through the rows, each in steps of a row; in a step every SM reads and writes its
// share of one.  A step takes as long as memory takes to move what all SMs ask for.  What the
// blocks of a team tell each other takes longer, since it queues behind what memory moves, and so
// it has several steps (measured on an H200, where that took 4.5 to 6 us: for one exchange a row,
// and with three steps, 0.92 to 0.98 of the rate of a copy; for two, with two steps, 0.7 to 0.85).
//
// Two phases do with one exchange where the second one needs the first one's result only as a shift
// (join.c).

#include "gen/integers.h"
#include "gen/kernel.h"
#include <math.h>

enum {
    LEAST_IN_FLIGHT = 32 * 1024, // bytes of an SM that fill memory
    IN_FLIGHT = 3 * LEAST_IN_FLIGHT,
    MAX_AHEAD = 4,
    MAX_LAG = 3,
    FEW_ROWS = 12, // of a team: fewer are hardly more than what it takes to fill the pipeline
    LIKELY_PHASES = 3,
    OWN_REGISTERS = 48, // of a thread, for all but what it keeps of what rows share
    MOST_TOLD = 128     // bytes of joined phases that a lane has of other blocks, in registers
};
static const double least_us = 1.8;   // of a step of teams
static const double moving_us = 0.12; // sums of exp, a lane's of every 32nd block, to another shift

// lag: 0: as much as there is room for; exchanges: as wished.
struct asked {
    int teams, threads, blocks_per_sm, lag, exchanges;
};

// Of a vector, over all loads of the row that go through shared memory; 0: a reduction needs one
// that cannot.
static int staged_bytes(struct fusion *f, const struct scheduled *s, const struct accesses *a)
{
    const uint32_t element = 1u << VAR_r | 1u << VAR_c;
    int bytes = 0;
    for (int i = 0; i < a->n_loads; i++)
        if (can_stage(f, s->nest, a->loads[i], s->spec.vec))
            bytes += dtype_info[a->loads[i]->dtype].bytes * s->spec.vec;
    for (int i = 0; i < s->nest->n_heavy; i++) {
        struct accesses needed = value_accesses(f->g, s->nest, s->nest->heavy_in[2 * i]);
        for (int j = 0; j < needed.n_loads; j++)
            if ((needed.loads[j]->variables & element) == element &&
                !can_stage(f, s->nest, needed.loads[j], s->spec.vec))
                return 0;
    }
    return bytes;
}

// Whether what all rows share fits a thread's registers, for as long as it walks through them.
static bool can_keep_shared(const struct scheduled *s, const struct accesses *a, int registers)
{
    int bytes = 0;
    for (int i = 0; i < a->n_loads; i++)
        if ((a->loads[i]->variables & (1u << VAR_r | 1u << VAR_c)) == 1u << VAR_c)
            bytes += dtype_info[a->loads[i]->dtype].bytes * s->spec.vec * s->spec.items;
    return bytes <= 4 * min_of(registers - OWN_REGISTERS, registers * 2 / 3);
}

// How the slices that there is room for are used: at first for enough rows on their way, then for
// lag, then for more rows on their way.  false: there are too few.  slice: bytes of an SM
static bool share_slices(struct spec *spec, int64_t n, int64_t slice, int lag)
{
    int64_t least = max64(ceil_div(LEAST_IN_FLIGHT, slice), 1);
    int most = (int)min64((n - 1 - least) / spec->exchanges, MAX_LAG);
    spec->lag = lag ? lag : max_of(most, 1);
    int64_t ahead = n - 1 - (int64_t)spec->exchanges * spec->lag;
    spec->ahead = (int)min64(min64(ahead, MAX_AHEAD), ceil_div(IN_FLIGHT, slice));
    return spec->ahead >= 1;
}

// Whether the blocks of all SMs can keep rows as such teams; if so they are scheduled that way.
static bool make_teams(struct fusion *f, struct scheduled *s, const struct accesses *a,
                       struct asked asked)
{
    const struct target *t = f->target;
    struct spec *spec = &s->spec;
    const int per_sm = asked.blocks_per_sm, threads = asked.threads, phases = spec->phases;
    const int team = t->n_sms * per_sm / asked.teams, bytes = staged_bytes(f, s, a);
    int64_t rows = s->nest->extent[VAR_r];
    int64_t vectors = ceil_div(s->nest->extent[VAR_c], spec->vec);
    int64_t room = min64(t->shared_per_block, t->shared_per_sm / per_sm) - 1024;
    if (!t->teams || !bytes || team < 2 || threads % 32 || threads * per_sm > most_threads(t) ||
        rows < asked.teams || vectors < (int64_t)threads * team || !join_as(f, s, asked.exchanges))
        return false;
    if (spec->exchanges < phases && ceil_div(team, 32) * spec->acc_bytes > MOST_TOLD)
        return false;
    int64_t items = ceil_div(vectors, (int64_t)threads * team), slice = items * threads * bytes;
    int64_t at = ceil_div(2 * phases * (threads / 32 + 1) * spec->acc_bytes, 128) * 128;
    if (!share_slices(spec, (room - at) / slice, slice * per_sm, asked.lag))
        return false;
    int64_t shared = at + ((int64_t)spec->ahead + spec->exchanges * spec->lag + 1) * slice;
    s->form = FAMILY_row_teams;
    spec->threads = threads, spec->team = team, spec->blocks_per_sm = per_sm;
    spec->items = (int)items;
    spec->staging_at = (int)at, spec->staged_bytes = bytes;
    spec->staged = spec->late = true, spec->resident = false;
    spec->shared_again = !can_keep_shared(s, a, t->registers_per_sm / (threads * per_sm));
    s->blocks = (int64_t)(t->n_sms * per_sm / team) * team;
    s->shared_bytes = (unsigned)shared;
    s->n_packets = (int)s->blocks * (1 + 2 * spec->lag * spec->exchanges * (spec->acc_bytes / 4));
    return true;
}

// Of a step in which every SM has a full share of a row; a row's last vectors may be fewer.
static double step_us(const struct target *t, const struct scheduled *s)
{
    const struct spec *spec = &s->spec;
    double share = (double)spec->items * spec->threads * spec->vec / s->nest->extent[VAR_c];
    double row_bytes = s->bytes / (double)s->nest->extent[VAR_r];
    return 1e6 * row_bytes * share * t->n_sms * spec->blocks_per_sm / t->bytes_per_second;
}

// From a block's telling its team of a result until all are told, with memory busy: what was
// measured for 10 to 264 blocks, within 15 %.
static double exchange_us(const struct spec *spec)
{
    bool joined = spec->exchanges < spec->phases;
    return 3.8 + spec->team / 150.0 + (joined ? 0.8 : 0) + (spec->threads > 256 ? 0.5 : 0);
}

// All wait for the warp that moves the others' sums of exp to the row's shift.
static double moving_us_of(const struct scheduled *s)
{
    const struct spec *spec = &s->spec;
    for (int i = 0; i < s->nest->n_heavy && spec->exchanges < spec->phases; i++)
        if (s->nest->heavy_phase[i] && join_of(s->nest, i).kind == JOIN_exp)
            return moving_us * ceil((double)spec->team / 32);
    return 0;
}

// Of two that take so long beside each other: neither is ever quite hidden.  (A fit to the steps of
// 120 teams.)
static double beside_us(double a, double b)
{
    return 0.95 * sqrt(hypot(a * a, b * b));
}

double walk_us(const struct target *t, const struct scheduled *s)
{
    const struct spec *spec = &s->spec;
    int64_t n_teams = s->blocks / spec->team;
    int64_t steps = ceil_div(s->nest->extent[VAR_r], n_teams) + spec->exchanges * spec->lag;
    double us = beside_us(step_us(t, s), exchange_us(spec) / spec->lag);
    return (double)steps * (us + moving_us_of(s));
}

// Bytes of the row that an operand reads; 0: not all of them can go through shared memory.
static int64_t operand_bytes(struct fusion *f, const struct nest *nest, const struct value *operand)
{
    struct accesses a = value_accesses(f->g, nest, operand);
    int64_t bytes = 0;
    for (int i = 0; i < a.n_loads; i++) {
        int size = dtype_info[a.loads[i]->dtype].bytes;
        if (!can_stage(f, nest, a.loads[i], dividing(nest->extent[VAR_c], max_of(4 / size, 1))))
            return 0;
        bytes += size * nest->extent[VAR_c];
    }
    return bytes;
}

// As many teams as make a step worth its exchange, and no more: the largest keep the longest rows.
bool teams_suit(struct fusion *f, const struct nest *nest, const struct node *reduction,
                const struct value *operand)
{
    enum { THREADS = 512, VECTOR_BYTES = 16, AT_ONCE = THREADS * VECTOR_BYTES };
    const struct target *t = f->target;
    int64_t bytes = operand_bytes(f, nest, operand);
    double row_us = 2e6 * (double)bytes / t->bytes_per_second; // read and stored
    double n_teams = bytes ? ceil(least_us / row_us) : t->n_sms;
    if (!t->teams || n_teams * FEW_ROWS > (double)nest->extent[VAR_r] || 2 * n_teams > t->n_sms)
        return false;
    int64_t blocks = t->n_sms / (int64_t)n_teams;
    int64_t slice = ceil_div(bytes, AT_ONCE * blocks) * AT_ONCE;
    return (1 + LIKELY_PHASES + 1) * slice + 4096 <= t->shared_per_block &&
           is_read_again(f, nest, reduction);
}

// A row that is alone on its way leaves memory idle when it has come, unless it is a long one.
static bool fills_memory(const struct spec *spec)
{
    int64_t slice = (int64_t)spec->items * spec->threads * spec->staged_bytes * spec->blocks_per_sm;
    return spec->ahead > 1 || slice > LEAST_IN_FLIGHT;
}

// Fewer threads have the cheaper barriers, and two blocks an SM work while the other one waits:
// where others are no better, these are.
bool team_rows(struct fusion *f, struct scheduled *s, const struct accesses *a)
{
    const int most = most_threads(f->target);
    const struct {
        int threads, blocks_per_sm;
    } ways[] = {
        {most / 4, 2},
        {most / 4, 1},
        {most / 2, 1},
        {most,     1}
    };
    struct scheduled best = *s, tried;
    double best_us = 0;
    for (int i = 0; i < 4; i++)
        for (int exchanges = 1; exchanges <= 2; exchanges++)
            for (int n_teams = f->target->n_sms / 2; n_teams >= 1; n_teams--) {
                tried = *s;
                if (s->nest->extent[VAR_r] < (int64_t)FEW_ROWS * n_teams ||
                    !make_teams(f, &tried, a,
                                (struct asked){n_teams, ways[i].threads, ways[i].blocks_per_sm, 0,
                                               exchanges}) ||
                    step_us(f->target, &tried) < least_us)
                    continue;
                double us = walk_us(f->target, &tried) * (fills_memory(&tried.spec) ? 1 : 1.05);
                if (!best_us || us < 0.99 * best_us) // the model is no better than a percent
                    best = tried, best_us = us;
            }
    if (best_us)
        *s = best;
    return best_us > 0;
}

bool team_as(struct fusion *f, struct scheduled *s, const struct accesses *a,
             const struct wishes *w)
{
    return make_teams(f, s, a,
                      (struct asked){w->of[WISH_teams], w->of[WISH_threads],
                                     w->of[WISH_blocks_per_sm], w->of[WISH_lag],
                                     w->of[WISH_exchanges]});
}
