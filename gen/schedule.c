// schedule.c: nest to spec: which template constants a kernel gets, from its sizes and the target.
//
// Vector width comes from the indices: lanes must stay side by side in every tensor that has any
// side by side, and start aligned.  Then the family's shape: enough bytes in flight, enough blocks
// for every SM.

#include "gen/gemm_tiles.h"
#include "gen/integers.h"
#include "gen/kernel.h"

static void set_floor(struct fusion *f, struct scheduled *s)
{
    double memory = s->bytes / f->target->bytes_per_second;
    double arithmetic = s->flops / f->target->f32_flops;
    s->floor_us = 1e6 * (memory > arithmetic ? memory : arithmetic);
}

static void count_cost(struct fusion *f, struct scheduled *s, const struct accesses *a)
{
    s->bytes = a->read_bytes;
    for (int i = 0; i < s->nest->n_stores; i++) {
        const struct node *node = s->nest->stores[i];
        s->bytes += (double)node_numel(node) * dtype_info[node->dtype].bytes;
    }
    s->flops = a->flops;
    set_floor(f, s);
}

static bool needs_wide_index(const struct nest *nest, const struct accesses *a)
{
    static const int64_t limit = INT32_MAX;
    for (int i = 0; i < a->n_loads; i++)
        if (node_numel(a->loads[i]->node) > limit)
            return true;
    for (int i = 0; i < nest->n_stores; i++)
        if (node_numel(nest->stores[i]) > limit)
            return true;
    for (int v = 0; v < VAR_COUNT; v++)
        if (nest->extent[v] > limit / 2)
            return true;
    return nest_points(nest) > (nest->family == FAMILY_gemm ? 1e300 : (double)limit / 2);
}

static int dividing(int64_t extent, int vec)
{
    while (extent % vec)
        vec /= 2;
    return vec;
}

static int next_power(int64_t n)
{
    int p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static void schedule_map(struct fusion *f, struct scheduled *s, const struct accesses *a,
                         int promised)
{
    const struct nest *nest = s->nest;
    struct spec *spec = &s->spec;
    int64_t n = nest->extent[VAR_c];
    s->lane_variable = VAR_c;
    spec->vec = vector_width(f, nest, a, true, VAR_c, promised, &s->alignment);
    while (spec->vec > 1 && n < spec->vec)
        spec->vec /= 2;
    int64_t vectors = max64(n / spec->vec, 1);
    spec->threads = 256;
    spec->unroll = 1;
    int at_once = max_of(a->n_loads, 1);
    while (spec->unroll < 4 && 2 * spec->unroll * at_once <= 8 &&
           vectors >= 8 * (int64_t)spec->unroll * spec->threads * f->target->n_sms)
        spec->unroll *= 2;
    s->blocks = min64(ceil_div(vectors, (int64_t)spec->threads * spec->unroll), INT32_MAX);
}

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

static int accumulator_bytes(const struct nest *nest)
{
    int widest = 4, bytes = 0, most = 0;
    for (int phase = 0; phase < nest->n_phases; phase++, bytes = 0) {
        for (int i = 0; i < nest->n_heavy; i++) {
            enum op op = nest->heavy[i]->op;
            if (nest->heavy_phase[i] != phase)
                continue;
            bytes += op == OP_argmax || op == OP_argmin ? 16 : 8;
            widest = 8;
        }
        most = max_of(most, bytes);
    }
    return (most + widest - 1) / widest * widest;
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
static void schedule_rows(struct fusion *f, struct scheduled *s, const struct accesses *a,
                          int promised)
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

static void schedule_columns(struct fusion *f, struct scheduled *s, const struct accesses *a,
                             int promised)
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

// One operand of a contraction: the direction its vectors run in, which is where its tensors lie
// side by side, their width, and the registers that its prologue holds.
struct operand {
    bool along_k;
    int vec, registers;
};

static struct operand operand_of(struct fusion *f, struct scheduled *s, int which, int promised)
{
    const struct nest *nest = s->nest;
    int other = which ? VAR_n : VAR_m;
    struct accesses a = value_accesses(f->g, nest, nest->heavy_in[which]);
    struct operand o = {.registers = 2 * (a.n_loads - 1) + (a.flops > 0 ? 4 : 0)};
    o.along_k = side_by_side_bytes(f, &a, VAR_k) >= side_by_side_bytes(f, &a, other);
    int along = o.along_k ? VAR_k : other;
    o.vec = vector_width(f, nest, &a, false, along, promised, &s->alignment);
    o.vec = dividing(nest->extent[along], o.vec);
    return o;
}

static void take_tile(struct scheduled *s, const struct gemm_tile *t)
{
    struct spec *spec = &s->spec;
    spec->block_m = t->block_m, spec->block_n = t->block_n, spec->block_k = t->block_k;
    spec->thread_m = t->thread_m, spec->thread_n = t->thread_n, spec->lanes_n = t->lanes_n;
    spec->split = t->split, spec->promote_k = t->promote_k, spec->raster = t->raster;
    spec->threads = t->threads, spec->blocks_per_sm = t->blocks_per_sm;
    spec->shared_bytes = t->shared_bytes, spec->blocks = (int)t->blocks;
    spec->vec_a = t->vec_a, spec->vec_b = t->vec_b, spec->vec = spec->vec_c = t->vec_c;
    s->shared_bytes = (unsigned)t->shared_bytes;
    s->blocks = t->blocks;
}

static int epilogue_vector(struct fusion *f, struct scheduled *s, int promised)
{
    int vec = 8;
    for (int i = 0; i < s->nest->n_stores; i++) {
        struct accesses a = value_accesses(f->g, s->nest, s->nest->store_values[i]);
        int one = vector_width(f, s->nest, &a, true, VAR_n, promised, &s->alignment);
        vec = one < vec ? one : vec;
    }
    return dividing(s->nest->extent[VAR_n], vec);
}

static void schedule_gemm(struct fusion *f, struct scheduled *s, int promised)
{
    const int64_t *extent = s->nest->extent;
    const struct dtype_info *type = &dtype_info[s->nest->heavy[0]->dtype];
    struct operand a = operand_of(f, s, 0, promised), b = operand_of(f, s, 1, promised);
    struct gemm_problem problem = {.batch = extent[VAR_b],
                                   .m = extent[VAR_m],
                                   .n = extent[VAR_n],
                                   .k = extent[VAR_k],
                                   .acc_bytes = type->bytes == 8 ? 8 : 4,
                                   .floating = type->class == CLASS_float,
                                   .a_along_k = a.along_k,
                                   .b_along_k = b.along_k,
                                   .vec_a = a.vec,
                                   .vec_b = b.vec,
                                   .vec_c = epilogue_vector(f, s, promised),
                                   .extra_registers = a.registers + b.registers};
    struct gemm_tile tile = gemm_simt_tile(f->target, &problem);
    s->spec.a_along_k = a.along_k, s->spec.b_along_k = b.along_k;
    take_tile(s, &tile);
    s->lane_variable = VAR_n;
    const struct index *mask = contraction_mask(f, s->nest);
    s->spec.masked = mask != NULL;
    if (mask)
        s->flops *= mask_share(mask, extent[VAR_m], extent[VAR_n], tile.block_m, tile.block_n);
    set_floor(f, s);
}

const char *spec_text(struct gen *g, const struct scheduled *s)
{
    const char *text = "";
#define SPEC(family_, type, field)                                                                 \
    if (s->form == FAMILY_##family_)                                                               \
        text = arena_text(g, "%s%s" #field "=%d", text, *text ? " " : "", (int)s->spec.field);
#include "gen/specs.def"
#undef SPEC
    return text;
}

void schedule(struct fusion *f, const struct nest *nest, int alignment, struct scheduled *out)
{
    struct accesses a = nest_accesses(f->g, nest);
    struct spec spec = {.vec = 1, .phases = nest->n_phases, .cluster = 1};
    *out = (struct scheduled){.nest = nest, .form = nest->family, .alignment = 1, .spec = spec};
    count_cost(f, out, &a);
    out->wide_index = needs_wide_index(nest, &a);
    switch (nest->family) {
    case FAMILY_map:
        if (!schedule_tiles(f, out, &a, alignment))
            schedule_map(f, out, &a, alignment);
        break;
    case FAMILY_rows:
        schedule_rows(f, out, &a, alignment);
        break;
    case FAMILY_columns:
        schedule_columns(f, out, &a, alignment);
        break;
    case FAMILY_gemm:
        schedule_gemm(f, out, alignment);
        break;
    case FAMILY_map_tiles:
    case FAMILY_COUNT:
        break;
    }
}
