// tiles.c: the transposing map: a nest whose stores lie side by side along its innermost axis q and
// some of whose loads lie side by side along another axis p, to the spec of a kernel that takes
// those loads through shared memory.
//
//          q
//      +-------+                  A block computes a tile of tile_p x tile_q elements.  Its
//    p | tile  |-> stores         threads load the transposed tensors along p, where memory is
//      +-------+                  contiguous, and after a barrier read them from shared memory
//          ^ transposed loads     along q.
//
// The axes before p are one coordinate, o, those between p and q another, i:
// c = ((o * length_p + p) * inner + i) * length_q + q.

#include "gen/integers.h"
#include "gen/kernel.h"

enum { VAR_o = 24, VAR_p, VAR_i, VAR_q };
enum {
    LEAST_LENGTH = 16,
    LEAST_ELEMENTS = 1 << 16,
    ELEMENTS_OF_A_THREAD = 16,
    BYTES_IN_FLIGHT = 64
};
enum { SHARED_BYTES = 48 * 1024 }; // what every GPU gives a block

const struct index *tile_index(struct fusion *f, const struct tiling *t, const struct index *x)
{
    const struct index *c = index_variable(f->pool, VAR_o, t->outer, "o");
    const struct index *p = index_variable(f->pool, VAR_p, t->length_p, "p");
    const struct index *i = index_variable(f->pool, VAR_i, t->inner, "i");
    const struct index *q = index_variable(f->pool, VAR_q, t->length_q, "q");
    c = index_add(f->pool, index_scale(f->pool, c, t->length_p), p);
    c = index_add(f->pool, index_scale(f->pool, c, t->inner), i);
    c = index_add(f->pool, index_scale(f->pool, c, t->length_q), q);
    return index_substitute(f->pool, x, VAR_c, c);
}

// Where x has one stride all along an axis.
static bool has_stride(struct fusion *f, const struct index *x, int variable, int64_t length,
                       int64_t *stride)
{
    int multiple;
    return index_lanes(f->pool, x, variable, (int)length, stride, &multiple);
}

bool is_transposed(struct fusion *f, const struct tiling *t, const struct value *load)
{
    int64_t stride_p, stride_q;
    const struct index *x = tile_index(f, t, load->index);
    return has_stride(f, x, VAR_p, t->length_p, &stride_p) && stride_p == 1 &&
           has_stride(f, x, VAR_q, t->length_q, &stride_q) && (stride_q > 1 || stride_q < -1);
}

int tile_lanes(struct fusion *f, const struct tiling *t, const struct value *load)
{
    const struct index *x = tile_index(f, t, load->index);
    int bytes = dtype_info[load->dtype].bytes, lanes = load->guard ? 1 : 16 / bytes;
    while (lanes > 1 && (t->length_p % lanes || lanes * bytes > t->promised ||
                         !index_side_by_side(f->pool, x, VAR_p, lanes)))
        lanes /= 2;
    return lanes;
}

// One element, or one word, is left free at the end of a row: the next row is an odd number of
// banks away.
int tile_bytes(const struct spec *spec, enum dtype dtype)
{
    int bytes = dtype_info[dtype].bytes;
    int row = spec->tile_q * bytes + (bytes < 4 ? 4 : bytes);
    return (spec->tile_p * row + 15) / 16 * 16;
}

// What a load moves: of a tensor that is read in part, no more than there are elements.
static double load_bytes(const struct nest *nest, const struct value *load)
{
    int64_t n = node_numel(load->node), points = domain_numel(nest);
    return (double)(n < points ? n : points) * dtype_info[load->dtype].bytes;
}

static double transposed_bytes(struct fusion *f, const struct nest *nest, const struct tiling *t,
                               const struct accesses *a)
{
    double bytes = 0;
    for (int i = 0; i < a->n_loads; i++)
        if (is_transposed(f, t, a->loads[i]))
            bytes += load_bytes(nest, a->loads[i]);
    return bytes;
}

static double moved_bytes(const struct nest *nest, const struct accesses *a)
{
    double bytes = 0;
    for (int i = 0; i < a->n_loads; i++)
        bytes += load_bytes(nest, a->loads[i]);
    for (int i = 0; i < nest->n_stores; i++)
        bytes += (double)node_numel(nest->stores[i]) * dtype_info[nest->stores[i]->dtype].bytes;
    return bytes;
}

// Several axes next to each other count as one where a load lies side by side along all of them.
static struct tiling tiling_of(const struct nest *nest, int first_p, int last_p, int first_q)
{
    struct tiling t = {1, 1, 1, 1, 0};
    for (int d = 0; d < nest->rank; d++)
        *(d < first_p   ? &t.outer
          : d <= last_p ? &t.length_p
          : d < first_q ? &t.inner
                        : &t.length_q) *= nest->dim[d];
    return t;
}

static bool can_be_tiled(int64_t length)
{
    return length >= LEAST_LENGTH && length <= INT32_MAX;
}

// The axes along which most bytes lie side by side that do not along q; of several such, the
// longest.
static double find_tiling(struct fusion *f, const struct nest *nest, const struct accesses *a,
                          struct tiling *best)
{
    double most = 0;
    for (int first_q = nest->rank - 1; first_q > 0; first_q--)
        for (int last_p = 0; last_p < first_q; last_p++)
            for (int first_p = last_p; first_p >= 0; first_p--) {
                struct tiling t = tiling_of(nest, first_p, last_p, first_q);
                if (!can_be_tiled(t.length_p) || !can_be_tiled(t.length_q))
                    continue;
                double bytes = transposed_bytes(f, nest, &t, a);
                bool longer = t.length_p * t.length_q > best->length_p * best->length_q;
                if (bytes > most || (bytes == most && bytes > 0 && longer))
                    *best = t, most = bytes;
            }
    return most;
}

// Half a tile where that leaves much less of the last one empty.
static int tile_length(int64_t length)
{
    int64_t by_64 = (length + 63) / 64 * 64, by_32 = (length + 31) / 32 * 32;
    return 8 * by_32 <= 7 * by_64 ? 32 : 64;
}

static int shared_bytes(struct fusion *f, const struct scheduled *s, const struct accesses *a)
{
    int bytes = 0;
    for (int i = 0; i < a->n_loads && bytes <= SHARED_BYTES; i++)
        if (is_transposed(f, &s->tiling, a->loads[i]))
            bytes += tile_bytes(&s->spec, a->loads[i]->dtype);
    return bytes;
}

// Vectors along p of what is transposed, along q of the rest and of the stores.
static void set_vectors(struct fusion *f, struct scheduled *s, const struct accesses *a)
{
    struct spec *spec = &s->spec;
    struct accesses direct = {.loads = arena_new(f->g, const struct value *, a->n_loads + 1)};
    int bytes = 0;
    for (int i = 0; i < a->n_loads; i++) {
        int of_one = dtype_info[a->loads[i]->dtype].bytes;
        if (is_transposed(f, &s->tiling, a->loads[i])) {
            int access = of_one * tile_lanes(f, &s->tiling, a->loads[i]);
            s->alignment = access > s->alignment ? access : s->alignment;
        } else {
            direct.loads[direct.n_loads++] = a->loads[i];
            bytes += of_one;
        }
    }
    spec->vec = vector_width(f, s->nest, &direct, true, VAR_c, MAX_LANES, s->tiling.promised,
                             &s->alignment);
    spec->vec = dividing(s->tiling.length_q, spec->vec);
    spec->unroll = spec->tile_p * spec->tile_q / (spec->threads * spec->vec);
    while (spec->unroll > 1 && spec->unroll * spec->vec * bytes > BYTES_IN_FLIGHT)
        spec->unroll /= 2;
}

static int64_t count_tiles(const struct scheduled *s)
{
    const struct tiling *t = &s->tiling;
    int64_t tiles_p = (t->length_p + s->spec.tile_p - 1) / s->spec.tile_p;
    int64_t tiles_q = (t->length_q + s->spec.tile_q - 1) / s->spec.tile_q;
    return t->outer * t->inner * tiles_p * tiles_q;
}

// Large tiles, where there is shared memory for them and every SM gets two.
static void set_tile(struct fusion *f, struct scheduled *s, const struct accesses *a,
                     const struct wishes *w)
{
    struct spec *spec = &s->spec;
    spec->tile_p = tile_length(s->tiling.length_p);
    spec->tile_q = tile_length(s->tiling.length_q);
    if (shared_bytes(f, s, a) > SHARED_BYTES || count_tiles(s) < 2 * f->target->n_sms)
        spec->tile_p = spec->tile_q = 32;
    spec->tile_p = wished(w, WISH_tile_p, spec->tile_p);
    spec->tile_q = wished(w, WISH_tile_q, spec->tile_q);
    int elements = wished(w, WISH_elements, ELEMENTS_OF_A_THREAD);
    spec->threads = spec->tile_p * spec->tile_q / elements;
    spec->shared_bytes = shared_bytes(f, s, a);
    s->shared_bytes = (unsigned)spec->shared_bytes;
}

// A thread takes whole vectors of every tile.
static bool takes_vectors(struct fusion *f, const struct scheduled *s, const struct accesses *a)
{
    int elements = s->spec.tile_p * s->spec.tile_q / s->spec.threads, lanes = s->spec.vec;
    for (int i = 0; i < a->n_loads; i++)
        if (is_transposed(f, &s->tiling, a->loads[i]))
            lanes = max_of(lanes, tile_lanes(f, &s->tiling, a->loads[i]));
    return lanes <= elements;
}

bool schedule_tiles(struct fusion *f, struct scheduled *s, const struct accesses *a, int promised,
                    const struct wishes *w)
{
    struct scheduled tiled = *s;
    double transposed = find_tiling(f, s->nest, a, &tiled.tiling);
    bool enough =
        domain_numel(s->nest) >= LEAST_ELEMENTS && transposed >= moved_bytes(s->nest, a) / 8;
    if (transposed <= 0 || !(enough || w->way == WAY_tiled))
        return false;
    tiled.tiling.promised = promised;
    set_tile(f, &tiled, a, w);
    if (tiled.spec.shared_bytes > SHARED_BYTES || tiled.spec.threads > most_threads(f->target))
        return false;
    set_vectors(f, &tiled, a);
    if (!takes_vectors(f, &tiled, a))
        return false;
    int64_t tiles = count_tiles(&tiled);
    tiled.form = FAMILY_map_tiles;
    tiled.lane_variable = VAR_c;
    tiled.blocks = tiles < INT32_MAX ? tiles : INT32_MAX;
    *s = tiled;
    return true;
}
