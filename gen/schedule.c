// schedule.c: nest to spec: which template constants a kernel gets, from its sizes and the target.
//
// Vector width comes from the indices: lanes must stay side by side in every tensor that has any
// side by side, and start aligned.  Then the family's shape: enough bytes in flight, enough blocks
// for every SM.  A map's is here; each other family has a file.

#include "gen/gemm_tiles.h"
#include "gen/integers.h"
#include "gen/kernel.h"

void set_floor(struct fusion *f, struct scheduled *s)
{
    const double tensor_cores = 16; // bfloat16 products they make for each of f32 elsewhere
    double memory = s->bytes / f->target->bytes_per_second;
    double arithmetic = s->flops / f->target->f32_flops;
    if (s->form == FAMILY_gemm && s->spec.parts_a)
        arithmetic *= products_of_parts(s->spec.parts_a, s->spec.parts_b) / tensor_cores;
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

int accumulator_bytes(const struct nest *nest)
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

int most_threads(const struct target *t)
{
    return min_of(1024, t->threads_per_sm);
}

// Loads in flight of a thread: enough to fill memory's queue where every SM has several blocks.
static int map_unroll(const struct target *t, const struct accesses *a, int64_t vectors,
                      int threads)
{
    int unroll = 1, at_once = max_of(a->n_loads, 1);
    while (unroll < 4 && 2 * unroll * at_once <= 8 &&
           vectors >= 8 * (int64_t)unroll * threads * t->n_sms)
        unroll *= 2;
    return unroll;
}

static bool schedule_map(struct fusion *f, struct scheduled *s, const struct accesses *a,
                         int promised, const struct wishes *w)
{
    const struct nest *nest = s->nest;
    struct spec *spec = &s->spec;
    int64_t n = nest->extent[VAR_c];
    s->lane_variable = VAR_c;
    spec->vec = vector_width(f, nest, a, true, VAR_c, wished(w, WISH_vec, MAX_LANES), promised,
                             &s->alignment);
    while (spec->vec > 1 && n < spec->vec)
        spec->vec /= 2;
    int64_t vectors = max64(n / spec->vec, 1);
    spec->threads = wished(w, WISH_threads, 256);
    spec->unroll = wished(w, WISH_unroll, map_unroll(f->target, a, vectors, spec->threads));
    int64_t chunk = (int64_t)spec->threads * spec->unroll;
    bool idle = chunk > 128 && vectors <= chunk / 2;
    bool spills = spec->unroll * max_of(a->n_loads, 1) > 16;
    s->blocks = min64(ceil_div(vectors, chunk), INT32_MAX);
    return w->way == WAY_any || w->way == WAY_phase ||
           (!idle && !spills && spec->threads <= most_threads(f->target));
}

const char *spec_text(struct gen *g, const struct scheduled *s, const char *prefix)
{
    const char *text = "";
#define SPEC(family_, type, field)                                                                 \
    if (s->form == FAMILY_##family_)                                                               \
        text = arena_text(g, "%s%s%s" #field "=%d", text, *text ? " " : "", prefix,                \
                          (int)s->spec.field);
#include "gen/specs.def"
#undef SPEC
    return text;
}

bool schedule_as(struct fusion *f, const struct nest *nest, const struct accesses *a, int alignment,
                 const struct wishes *w, struct scheduled *out)
{
    struct spec spec = {
        .vec = 1, .phases = nest->n_phases, .exchanges = nest->n_phases, .cluster = 1, .team = 1};
    *out = (struct scheduled){.nest = nest, .form = nest->family, .alignment = 1, .spec = spec};
    count_cost(f, out, a);
    out->wide_index = needs_wide_index(nest, a);
    switch (nest->family) {
    case FAMILY_map:
        return (w->way != WAY_flat && w->way != WAY_phase &&
                schedule_tiles(f, out, a, alignment, w)) ||
               (w->way != WAY_tiled && schedule_map(f, out, a, alignment, w));
    case FAMILY_rows:
        return schedule_rows(f, out, a, alignment, w);
    case FAMILY_columns:
        return schedule_columns(f, out, a, alignment, w);
    case FAMILY_gemm:
        return schedule_gemm(f, out, alignment, w);
    case FAMILY_map_tiles:
    case FAMILY_row_teams:
    case FAMILY_COUNT:
        break;
    }
    return false;
}

void schedule(struct fusion *f, const struct nest *nest, int alignment, struct scheduled *out)
{
    static const struct wishes none = {.way = WAY_any};
    struct accesses a = nest_accesses(f->g, nest);
    schedule_as(f, nest, &a, alignment, &none, out);
}
