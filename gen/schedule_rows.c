// schedule_rows.c: reductions along rows to the spec of rows.cuh: who shares a row, what of it is
// kept, and whether the next one is on its way meanwhile.

#include "gen/integers.h"
#include "gen/kernel.h"

// Whether a load is of the row's own elements.
static bool is_of_row(const struct value *load)
{
    const uint32_t element = 1u << VAR_r | 1u << VAR_c;
    return (load->variables & element) == element;
}

// Registers that one element of a row occupies from its load to the last stage, in bytes.  What all
// rows share is loaded when it is used.
static int kept_bytes(const struct accesses *a)
{
    int bytes = 0;
    for (int i = 0; i < a->n_loads; i++)
        if (is_of_row(a->loads[i]))
            bytes += max_of(dtype_info[a->loads[i]->dtype].bytes, 4);
    return max_of(bytes, 4);
}

// Whether a row is one tensor of 16-bit elements.
static bool is_narrow(const struct accesses *a)
{
    int n = 0, bytes = 0;
    for (int i = 0; i < a->n_loads; i++)
        if (is_of_row(a->loads[i]))
            n++, bytes = dtype_info[a->loads[i]->dtype].bytes;
    return n == 1 && bytes == 2;
}

// Walking through many rows with the next one on its way, for blocks of the largest size; false:
// that is nothing here.  A candidate only: blocks that have one row each, two of them on an SM, are
// faster (measured on an H200: 7 % for rows of 16384, 30 % for rows of 24576).
static bool stage_rows(struct fusion *f, struct scheduled *s, const struct accesses *a)
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
    if (!spec->resident || !bytes || t->sm < 80 || shared > t->shared_per_block || blocks < 1 ||
        s->blocks < 2 * (int64_t)blocks * t->n_sms)
        return false;
    spec->staged = spec->looped = true, spec->late = false;
    spec->staging_at = at, spec->staged_bytes = bytes;
    s->shared_bytes = (unsigned)shared;
    s->blocks = (int64_t)blocks * t->n_sms;
    return true;
}

enum {
    EARLY_BYTES = 64,       // of a row a thread keeps, beside which it has what all rows share
    MOST_NARROW_VECTORS = 8 // of 16-bit elements that a thread had better keep of a row
};

// Threads that share a row: few enough to keep the exchange cheap, enough that each keeps few bytes
// of it.  Two warps are faster than one (measured on an H200: 2 to 6 % for rows of 1024 in bf16),
// 256 threads of 64 elements faster than 512 of 32 where these are of 16 bits (0.5 to 1.5 % for
// rows of 16384), but not in f32, and 512 of 32, two blocks an SM, faster than 1024 of 16 (7 % for
// layer_norm's rows of 16384) where every SM has rows enough.
static int row_threads(int64_t vectors, int vector_bytes, bool narrow, bool many, int most)
{
    int threads =
        vectors <= 128 ? (int)min64(next_power(vectors), 32) : next_power(ceil_div(vectors, 4));
    threads = min_of(threads, many ? min_of(most, 512) : most);
    if (threads == 32 && ceil_div(vectors, threads) * vector_bytes > EARLY_BYTES)
        threads = 64;
    while (threads < most &&
           ceil_div(vectors, threads) * vector_bytes > (threads < 512 ? 160 : 128))
        threads *= 2;
    if (threads == 512 && narrow && ceil_div(vectors, 256) <= MOST_NARROW_VECTORS)
        threads = 256;
    return threads;
}

// What of a row its threads keep: all of it, within `most` bytes of each thread's registers, or
// none.
static void keep_row(struct scheduled *s, int64_t vectors, int vector_bytes, int most)
{
    struct spec *spec = &s->spec;
    spec->items = (int)min64(ceil_div(vectors, spec->threads_per_row), 1 << 20);
    spec->resident = (int64_t)spec->items * vector_bytes <= most;
    if (!spec->resident)
        spec->items = 1;
    spec->late = spec->items * vector_bytes > EARLY_BYTES;
}

// Whether the warps of a block had better tell each other two phases at once: squares of few
// elements (measured on an H200: 0.7 % for layer_norm's rows of 4096 in f32; no gain where a thread
// has more, or exp is to be found twice).
static bool joins_well(const struct fusion *f, const struct scheduled *s)
{
    enum { FEW_ELEMENTS = 16 };
    const struct nest *nest = s->nest;
    bool squares =
        can_join(f, nest) && s->spec.resident && s->spec.items * s->spec.vec <= FEW_ELEMENTS;
    for (int i = 0; i < nest->n_heavy && squares; i++)
        squares = !nest->heavy_phase[i] || join_of(nest, i).kind == JOIN_square;
    return squares;
}

static void set_block(struct scheduled *s, int rows_per_block)
{
    struct spec *spec = &s->spec;
    spec->rows_per_block = rows_per_block;
    spec->threads = rows_per_block * spec->threads_per_row;
    s->shared_bytes =
        spec->threads_per_row > 32 ? (unsigned)(2 * (spec->threads / 32) * spec->acc_bytes) : 0;
    int64_t groups = ceil_div(s->nest->extent[VAR_r], rows_per_block);
    s->blocks = min64(groups, INT32_MAX);
    spec->looped = !spec->resident || groups > s->blocks;
}

// As wished, one block a row or several rows a block; false: threads would idle, or not be there.
static bool share_as(struct fusion *f, struct scheduled *s, const struct accesses *a,
                     int64_t vectors, int vector_bytes, const struct wishes *w)
{
    int threads = w->of[WISH_threads_per_row], block = wished(w, WISH_threads, threads);
    int64_t rows = s->nest->extent[VAR_r];
    if (block < threads || block > most_threads(f->target) || threads > next_power(vectors) ||
        block / threads > next_power(rows) || !join_as(f, s, w->of[WISH_exchanges]) ||
        (s->spec.exchanges < s->spec.phases && (threads <= 32 || w->way == WAY_streamed)))
        return false;
    s->spec.threads_per_row = threads;
    keep_row(s, vectors, vector_bytes, w->way == WAY_streamed ? 0 : block <= 256 ? 256 : 160);
    set_block(s, block / threads);
    if (w->way == WAY_staged)
        return stage_rows(f, s, a);
    return s->spec.resident == (w->way == WAY_kept);
}

// Whether blocks of half an SM's threads had better keep the row in shared memory too: what of 16
// bits takes 512 threads or more (measured on an H200: 1 to 40 % for rows from 20480 to 49152),
// what is too much for registers, and what fills them and is needed for more than one reduction (3
// % for layer_norm's rows of 32768 in f32; rms_norm's are 2 % slower).
static bool gains_by_parking(const struct fusion *f, const struct scheduled *s, bool narrow,
                             int vector_bytes)
{
    enum { FULL_BYTES = 128 };
    const struct spec *spec = &s->spec;
    bool full = s->nest->n_phases > 1 && spec->items * vector_bytes >= FULL_BYTES;
    return gains_by_sharing(f, s->nest) && spec->threads >= 512 &&
           spec->exchanges == spec->phases && (narrow || !spec->resident || full);
}

// Rows that one block cannot keep.
static void share_rows(struct fusion *f, struct scheduled *s, const struct accesses *a,
                       int vector_bytes)
{
    struct scheduled teams = *s, clusters = *s;
    bool by_teams = team_rows(f, &teams, a);
    bool staged = stage_clusters(f, &clusters, a, vector_bytes);
    if (staged &&
        (!by_teams || staged_clusters_us(f->target, &clusters) < walk_us(f->target, &teams)))
        *s = clusters;
    else if (by_teams)
        *s = teams;
    else
        cluster_rows(f, s, a, vector_bytes);
}

bool schedule_rows(struct fusion *f, struct scheduled *s, const struct accesses *a, int promised,
                   const struct wishes *w)
{
    const struct nest *nest = s->nest;
    struct spec *spec = &s->spec;
    int64_t rows = nest->extent[VAR_r], cols = nest->extent[VAR_c];
    s->lane_variable = VAR_c;
    spec->acc_bytes = accumulator_bytes(nest);
    spec->vec = vector_width(f, nest, a, true, VAR_c, MAX_LANES, promised, &s->alignment);
    spec->vec = dividing(cols, spec->vec);
    int64_t vectors = max64(ceil_div(cols, spec->vec), 1);
    int vector_bytes = kept_bytes(a) * spec->vec;
    if (w->way == WAY_clustered || w->way == WAY_cluster_staged)
        return cluster_as(f, s, a, vector_bytes, w);
    if (w->way == WAY_team)
        return team_as(f, s, a, w);
    if (w->way != WAY_any && w->way != WAY_phase)
        return share_as(f, s, a, vectors, vector_bytes, w);
    int most = wished(w, WISH_threads, most_threads(f->target));
    bool narrow = is_narrow(a); // and in registers as it is, while vector_bytes counts floats
    bool many = rows >= 2 * f->target->n_sms;
    int threads = row_threads(vectors, vector_bytes, narrow, many, most);
    spec->threads_per_row = threads;
    keep_row(s, vectors, vector_bytes, narrow && threads <= 256 ? 256 : 160);
    if (w->way == WAY_any && threads >= 128 && joins_well(f, s) && !join_as(f, s, 1))
        return false;
    if (w->way == WAY_phase) {
        set_block(s, most / threads);
        spec->looped = true;
        return spec->resident;
    }
    set_block(s, threads >= 128 ? 1 : (int)max64(min64(128 / threads, next_power(rows)), 1));
    if (many && gains_by_parking(f, s, narrow, vector_bytes) && park_rows(f, s, a, vector_bytes))
        return true;
    if (!spec->resident && gains_by_sharing(f, nest))
        share_rows(f, s, a, vector_bytes);
    return true;
}
