// schedule_gemm.c: a contraction to the spec of gemm.cuh: the direction and width of its
// vectors, and the tile that gemm_tiles.c finds for it.

#include "gen/gemm_tiles.h"
#include "gen/integers.h"
#include "gen/kernel.h"

// Into how many bfloat16 numbers a value falls apart, exactly: 8 of its bits each.
static int parts_of(const struct value *v)
{
    enum { PARTS = 3 }; // of any float
    bool is_stored = v->kind == VALUE_load;
    if (v->kind == VALUE_select)
        return max_of(parts_of(v->in[0]), parts_of(v->in[1]));
    if (v->kind == VALUE_op && v->node->op == OP_cast) {
        int before = parts_of(v->in[0]);
        if (before < PARTS && dtype_info[v->dtype].class == CLASS_float &&
            dtype_info[v->dtype].bytes > 2)
            return before;
        is_stored = true;
    }
    if (!is_stored)
        return PARTS;
    switch ((int)v->dtype) {
    case DT_bf16:
    case DT_i8:
    case DT_u8:
    case DT_bool:
        return 1;
    case DT_f16:
        return 2;
    }
    return PARTS;
}

enum { DEAR = 8 }; // operations for an element, some of which its vector has in common

// One operand of a contraction: the direction its vectors run in, which is where its tensors lie
// side by side, their width, and the registers that its prologue holds.
struct operand {
    bool along_k;
    int vec, wide, registers, parts;
    double ops; // for each element
};

// Twice the vector where it is moved in whole pieces of 16 bytes, and memory goes on for another.
static int twice(struct fusion *f, const struct nest *nest, const struct accesses *a, int along,
                 int vec)
{
    bool goes_on = 2 * vec <= MAX_LANES && nest->extent[along] % (2 * vec) == 0;
    for (int i = 0; i < a->n_loads; i++) {
        const struct value *load = a->loads[i];
        if (index_side_by_side(f->pool, load->index, along, vec))
            goes_on &= dtype_info[load->dtype].bytes * vec == 16 &&
                       index_side_by_side(f->pool, load->index, along, 2 * vec);
    }
    return goes_on ? 2 * vec : vec;
}

static struct operand operand_of(struct fusion *f, struct scheduled *s, int which, int promised)
{
    const struct nest *nest = s->nest;
    int other = which ? VAR_n : VAR_m;
    struct accesses a = value_accesses(f->g, nest, nest->heavy_in[which]);
    double elements =
        (double)nest->extent[VAR_b] * (double)nest->extent[other] * (double)nest->extent[VAR_k];
    struct operand o = {
        .registers = 2 * (a.n_loads - 1) + (a.flops > 0 ? 4 : 0),
        .parts = parts_of(nest->heavy_in[which]),
        .ops =
            elements > 0 ? value_flops(f->g, nest, nest->heavy_in[which], elements) / elements : 0};
    o.along_k = side_by_side_bytes(f, &a, VAR_k) >= side_by_side_bytes(f, &a, other);
    int along = o.along_k ? VAR_k : other;
    o.vec = vector_width(f, nest, &a, false, along, MAX_LANES, promised, &s->alignment);
    o.vec = dividing(nest->extent[along], o.vec);
    o.wide = o.ops >= DEAR ? twice(f, nest, &a, along, o.vec) : o.vec;
    return o;
}

static void take_tile(struct scheduled *s, const struct gemm_tile *t)
{
    struct spec *spec = &s->spec;
    spec->block_m = t->block_m, spec->block_n = t->block_n, spec->block_k = t->block_k;
    spec->thread_m = t->thread_m, spec->thread_n = t->thread_n, spec->lanes_n = t->lanes_n;
    spec->split = t->split, spec->promote_k = t->promote_k, spec->raster = t->raster;
    spec->threads = t->threads, spec->blocks_per_sm = t->blocks_per_sm;
    spec->shared_bytes = t->shared_bytes, spec->looped = t->looped;
    spec->parts_a = t->parts_a, spec->parts_b = t->parts_b;
    spec->vec_a = t->vec_a, spec->vec_b = t->vec_b, spec->vec = spec->vec_c = t->vec_c;
    s->shared_bytes = (unsigned)t->shared_bytes;
    s->blocks = t->blocks, s->clocks = t->clocks;
}

static int epilogue_vector(struct fusion *f, struct scheduled *s, int promised)
{
    int vec = 8;
    for (int i = 0; i < s->nest->n_stores; i++) {
        struct accesses a = value_accesses(f->g, s->nest, s->nest->store_values[i]);
        int one = vector_width(f, s->nest, &a, true, VAR_n, MAX_LANES, promised, &s->alignment);
        vec = one < vec ? one : vec;
    }
    return dividing(s->nest->extent[VAR_n], vec);
}

bool schedule_gemm(struct fusion *f, struct scheduled *s, int promised, const struct wishes *w)
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
                                   .parts_a = a.parts,
                                   .parts_b = b.parts,
                                   .ops_a = a.ops,
                                   .ops_b = b.ops,
                                   .vec_a = a.vec,
                                   .wide_a = a.wide,
                                   .wide_b = b.wide,
                                   .vec_b = b.vec,
                                   .vec_c = epilogue_vector(f, s, promised),
                                   .extra_registers = a.registers + b.registers,
                                   .phase_threads = w->way == WAY_phase ? w->of[WISH_threads] : 0,
                                   .alone_on_sm = w->way == WAY_phase && !w->of[WISH_cluster]};
    int number = wished(w, WISH_tile, 1);
    struct gemm_tile *tiles = arena_new(f->g, struct gemm_tile, number);
    if (gemm_tiles(f->target, &problem, tiles, number) < number)
        return false;
    struct gemm_tile tile = tiles[number - 1];
    s->spec.a_along_k = a.along_k, s->spec.b_along_k = b.along_k;
    take_tile(s, &tile);
    s->lane_variable = VAR_n;
    const struct index *mask = contraction_mask(f, s->nest);
    s->spec.masked = mask != NULL;
    if (mask)
        s->flops *= mask_share(mask, extent[VAR_m], extent[VAR_n], tile.block_m, tile.block_n);
    set_floor(f, s);
    return true;
}
