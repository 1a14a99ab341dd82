// schedule.c: nest to spec: which template constants a kernel gets, from its sizes and the target.
//
// Vector width comes from the indices: lanes must stay side by side in every tensor that has any
// side by side, and start aligned.  Then the family's shape: enough bytes in flight, enough blocks
// for every SM.

#include "gen/gemm_tiles.h"
#include "gen/kernel.h"
#include <string.h>

// Every access of a nest, collected from its roots.
struct accesses {
    const struct value **loads;
    int n_loads;
    double read_bytes, flops;
};

static void collect(struct accesses *a, const struct value *v, bool *seen, double points)
{
    if (!v || seen[v->id])
        return;
    seen[v->id] = true;
    if (v->kind == VALUE_load)
        a->loads[a->n_loads++] = v;
    if (v->kind == VALUE_op)
        a->flops += op_info[v->node->op].cost * points;
    for (int i = 0; i < v->n_in; i++)
        collect(a, v->in[i], seen, points);
}

static double total(const struct nest *nest)
{
    double n = 1;
    for (int v = 0; v < VAR_COUNT; v++)
        n *= nest->extent[v] > 1 ? (double)nest->extent[v] : 1;
    return n;
}

static void collect_all(struct gen *g, const struct nest *nest, struct accesses *a)
{
    bool *seen = arena_new(g, bool, nest->n_values + 1);
    *a = (struct accesses){.loads = arena_new(g, const struct value *, nest->n_values + 1)};
    bool gemm = nest->family == FAMILY_gemm;
    for (int i = 0; i < nest->n_heavy; i++) {
        for (int k = 0; k < 2; k++) {
            struct value *in = nest->heavy_in[2 * i + k];
            collect(a, in, seen,
                    in ? (gemm ? (double)node_numel(nest->heavy[i]->in[k]) : total(nest)) : 0);
        }
        a->flops += (gemm ? 2 : op_info[nest->heavy[i]->op].cost) * total(nest);
    }
    for (int i = 0; i < nest->n_stores; i++)
        collect(a, nest->store_values[i], seen, (double)node_numel(nest->stores[i]));
    for (int i = 0; i < a->n_loads; i++) {
        bool again = false;
        for (int j = 0; j < i; j++)
            again |= a->loads[j]->node == a->loads[i]->node;
        if (!again)
            a->read_bytes +=
                (double)node_numel(a->loads[i]->node) * dtype_info[a->loads[i]->dtype].bytes;
    }
}

static void count_cost(struct fusion *f, struct scheduled *s, const struct accesses *a)
{
    s->bytes = a->read_bytes;
    for (int i = 0; i < s->nest->n_stores; i++)
        s->bytes +=
            (double)node_numel(s->nest->stores[i]) * dtype_info[s->nest->stores[i]->dtype].bytes;
    s->flops = a->flops;
    double memory = s->bytes / f->target->bytes_per_second,
           arithmetic = s->flops / f->target->f32_flops;
    s->floor_us = 1e6 * (memory > arithmetic ? memory : arithmetic);
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
    return total(nest) > (nest->family == FAMILY_gemm ? 1e300 : (double)limit / 2);
}

static int max_of(int a, int b)
{
    return a > b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

// The bytes of one vector access that a pointer must be aligned to.
static int access_alignment(enum dtype dtype, int lanes)
{
    int bytes = dtype_info[dtype].bytes * lanes;
    return bytes < 16 ? bytes : 16;
}

// Whether `lanes` along a variable lie side by side and aligned: one access.  Others are gathered
// one by one.
static bool side_by_side(struct fusion *f, const struct index *index, int along, int lanes)
{
    int64_t stride;
    int multiple;
    return index_lanes(f->pool, index, along, lanes, &stride, &multiple) && stride == 1 &&
           multiple % lanes == 0;
}

static const struct index *store_index(struct fusion *f, const struct nest *nest, int store)
{
    const struct node *node = nest->stores[store];
    const struct index *at[MAX_RANK];
    bool kept =
        nest->family == FAMILY_columns ||
        (nest->family == FAMILY_rows && !(nest->store_values[store]->variables & 1u << VAR_c) &&
         node_numel(node) == nest->extent[VAR_r]);
    natural_coordinates(f, nest, node, kept, at);
    return index_linear(f->pool, node->rank, node->dim, at);
}

// The widest vector that suits all accesses that vary along a variable; *alignment grows to what it
// needs.
static int vector_width(struct fusion *f, const struct nest *nest, const struct value *const *loads,
                        int n_loads, bool with_stores, int along, int promised, int *alignment)
{
    for (int lanes = 8; lanes > 1; lanes /= 2) {
        int widest = 0, needs = 1;
        for (int i = 0; i < n_loads + (with_stores ? nest->n_stores : 0); i++) {
            bool is_load = i < n_loads;
            const struct index *index =
                is_load ? loads[i]->index : store_index(f, nest, i - n_loads);
            enum dtype dtype = is_load ? loads[i]->dtype : nest->stores[i - n_loads]->dtype;
            if ((is_load && loads[i]->guard) || !side_by_side(f, index, along, lanes))
                continue;
            widest = max_of(widest, dtype_info[dtype].bytes);
            needs = max_of(needs, access_alignment(dtype, lanes));
        }
        if (widest && widest * lanes <= 16 && needs <= promised) {
            *alignment = max_of(*alignment, needs);
            return lanes;
        }
    }
    return 1;
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
    spec->vec = vector_width(f, nest, a->loads, a->n_loads, true, VAR_c, promised, &s->alignment);
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

static int kept_bytes(const struct accesses *a)
{
    int bytes = 0;
    for (int i = 0; i < a->n_loads; i++)
        if (a->loads[i]->variables & 1u << VAR_c)
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

// Threads that share a row: few enough to keep the exchange cheap, enough that each keeps at most
// `budget` bytes.
static void schedule_rows(struct fusion *f, struct scheduled *s, const struct accesses *a,
                          int promised)
{
    const struct nest *nest = s->nest;
    struct spec *spec = &s->spec;
    int64_t rows = nest->extent[VAR_r], cols = nest->extent[VAR_c];
    s->lane_variable = VAR_c;
    spec->vec = vector_width(f, nest, a->loads, a->n_loads, true, VAR_c, promised, &s->alignment);
    spec->vec = dividing(cols, spec->vec);
    int64_t vectors = max64(ceil_div(cols, spec->vec), 1);
    int vector_bytes = kept_bytes(a) * spec->vec;
    int threads =
        vectors <= 128 ? (int)min64(next_power(vectors), 32) : next_power(ceil_div(vectors, 4));
    threads = threads > 1024 ? 1024 : threads;
    while (threads < 1024 &&
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
}

static void schedule_columns(struct fusion *f, struct scheduled *s, const struct accesses *a,
                             int promised)
{
    const struct nest *nest = s->nest;
    struct spec *spec = &s->spec;
    int64_t rows = nest->extent[VAR_r], cols = nest->extent[VAR_c];
    int alignment_c = 1, alignment_r = 1;
    int along_c = vector_width(f, nest, a->loads, a->n_loads, false, VAR_c, promised, &alignment_c);
    int along_r = vector_width(f, nest, a->loads, a->n_loads, false, VAR_r, promised, &alignment_r);
    int64_t side_r = 0, side_c = 0, stride;
    int multiple;
    for (int i = 0; i < a->n_loads; i++) {
        int64_t bytes = node_numel(a->loads[i]->node) * dtype_info[a->loads[i]->dtype].bytes;
        if (index_lanes(f->pool, a->loads[i]->index, VAR_r, 2, &stride, &multiple) && stride == 1)
            side_r += bytes;
        if (index_lanes(f->pool, a->loads[i]->index, VAR_c, 2, &stride, &multiple) && stride == 1)
            side_c += bytes;
    }
    spec->along_kept = side_r > side_c;
    s->lane_variable = spec->along_kept ? VAR_r : VAR_c;
    spec->vec = spec->along_kept ? along_r : along_c;
    spec->vec = dividing(spec->along_kept ? rows : cols, spec->vec);
    s->alignment = spec->along_kept ? alignment_r : alignment_c;
    int64_t vectors = spec->along_kept ? rows / spec->vec : rows;
    spec->threads = 256;
    spec->threads_x = spec->along_kept ? (int)min64(next_power(vectors), 32) : 1;
    spec->threads_y = spec->threads / spec->threads_x;
    int64_t tiles = ceil_div(rows, (int64_t)spec->threads_x * (spec->along_kept ? spec->vec : 1));
    int64_t steps = ceil_div(cols, (int64_t)spec->threads_y * (spec->along_kept ? 1 : spec->vec));
    int64_t wanted = ceil_div(8 * (int64_t)f->target->n_sms, tiles);
    int64_t splits = max64(1, min64(wanted, steps / 4));
    splits = min64(splits, 1024);
    if (splits > 1) { // no split is empty
        int64_t per_split = ceil_div(steps, splits);
        splits = ceil_div(steps, per_split);
    }
    spec->splits = (int)splits;
    s->blocks = min64(tiles * splits, INT32_MAX);
    int bytes = accumulator_bytes(nest);
    s->shared_bytes =
        (unsigned)max_of(spec->threads / 2 * (spec->along_kept ? spec->vec : 1) * bytes, 16);
    if (splits > 1) {
        s->partial_bytes = splits * rows * bytes;
        s->n_tickets = (int)tiles;
    }
}

// Operand loads alone, of A or of B.
static int operand_vector(struct fusion *f, const struct nest *nest, const struct value *operand,
                          int along, int promised, int *alignment)
{
    struct accesses a = {.loads = arena_new(f->g, const struct value *, nest->n_values + 1)};
    collect(&a, operand, arena_new(f->g, bool, nest->n_values + 1), 1);
    int vec = vector_width(f, nest, a.loads, a.n_loads, false, along, promised, alignment);
    return dividing(nest->extent[along], vec);
}

static int64_t side_bytes(struct fusion *f, const struct nest *nest, const struct value *operand,
                          int along)
{
    struct accesses a = {.loads = arena_new(f->g, const struct value *, nest->n_values + 1)};
    collect(&a, operand, arena_new(f->g, bool, nest->n_values + 1), 1);
    int64_t bytes = 0, stride;
    int multiple;
    for (int i = 0; i < a.n_loads; i++)
        if (index_lanes(f->pool, a.loads[i]->index, along, 2, &stride, &multiple) && stride == 1)
            bytes += node_numel(a.loads[i]->node) * dtype_info[a.loads[i]->dtype].bytes;
    return bytes;
}

// Lanes of an operand run along the direction in which its tensors lie side by side.
static bool runs_along_k(struct fusion *f, const struct nest *nest, const struct value *operand,
                         int other)
{
    return side_bytes(f, nest, operand, VAR_k) >= side_bytes(f, nest, operand, other);
}

static int operand_cost(struct fusion *f, const struct nest *nest, const struct value *operand)
{
    struct accesses a = {.loads = arena_new(f->g, const struct value *, nest->n_values + 1)};
    collect(&a, operand, arena_new(f->g, bool, nest->n_values + 1), 1);
    return 2 * (a.n_loads - 1) + (a.flops > 0 ? 4 : 0);
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

static int epilogue_vector(struct fusion *f, const struct nest *nest, int promised, int *alignment)
{
    struct accesses c = {.loads = arena_new(f->g, const struct value *, nest->n_values + 1)};
    bool *seen = arena_new(f->g, bool, nest->n_values + 1);
    for (int i = 0; i < nest->n_stores; i++)
        collect(&c, nest->store_values[i], seen, 1);
    return dividing(nest->extent[VAR_n],
                    vector_width(f, nest, c.loads, c.n_loads, true, VAR_n, promised, alignment));
}

static void schedule_gemm(struct fusion *f, struct scheduled *s, int promised)
{
    const struct nest *nest = s->nest;
    struct spec *spec = &s->spec;
    struct value *a = nest->heavy_in[0], *b = nest->heavy_in[1];
    enum dtype dtype = nest->heavy[0]->dtype;
    spec->a_along_k = runs_along_k(f, nest, a, VAR_m);
    spec->b_along_k = runs_along_k(f, nest, b, VAR_n);
    struct gemm_problem problem = {
        .batch = nest->extent[VAR_b],
        .m = nest->extent[VAR_m],
        .n = nest->extent[VAR_n],
        .k = nest->extent[VAR_k],
        .acc_bytes = dtype_info[dtype].bytes == 8 ? 8 : 4,
        .floating = dtype_info[dtype].class == CLASS_float,
        .a_along_k = spec->a_along_k,
        .b_along_k = spec->b_along_k,
        .vec_a =
            operand_vector(f, nest, a, spec->a_along_k ? VAR_k : VAR_m, promised, &s->alignment),
        .vec_b =
            operand_vector(f, nest, b, spec->b_along_k ? VAR_k : VAR_n, promised, &s->alignment),
        .vec_c = epilogue_vector(f, nest, promised, &s->alignment),
        .extra_registers = operand_cost(f, nest, a) + operand_cost(f, nest, b)};
    struct gemm_tile tile = gemm_simt_tile(f->target, &problem);
    take_tile(s, &tile);
    s->lane_variable = VAR_n;
}

const char *spec_text(struct gen *g, const struct scheduled *s)
{
    const char *text = "";
#define SPEC(family_, type, field)                                                                 \
    if (s->nest->family == FAMILY_##family_)                                                       \
        text = arena_text(g, "%s%s" #field "=%d", text, *text ? " " : "", (int)s->spec.field);
#include "gen/specs.def"
#undef SPEC
    return text;
}

void schedule(struct fusion *f, const struct nest *nest, int alignment, struct scheduled *out)
{
    struct accesses a;
    collect_all(f->g, nest, &a);
    *out = (struct scheduled){
        .nest = nest, .alignment = 1, .spec = {.vec = 1, .phases = nest->n_phases}
    };
    for (int i = 0; i < a.n_loads; i++)
        out->alignment = max_of(out->alignment, access_alignment(a.loads[i]->dtype, 1));
    for (int i = 0; i < nest->n_stores; i++)
        out->alignment = max_of(out->alignment, access_alignment(nest->stores[i]->dtype, 1));
    count_cost(f, out, &a);
    out->wide_index = needs_wide_index(nest, &a);
    switch (nest->family) {
    case FAMILY_map:
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
    case FAMILY_COUNT:
        break;
    }
}
