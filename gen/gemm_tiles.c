// gemm_tiles.c: a contraction's sizes and a target come in; out come tiles for gemm.cuh, on the
// ordinary units and on tensor cores, fastest first.
//
// A table of shapes of one group of warps, each tried with every number of groups (split) that a
// block can hold. The cost model counts clocks of the busiest SM: instructions issued, passes
// through shared memory, bytes from L2, and rounds of load latency, of which the largest decides.

#include "gen/gemm_tiles.h"
#include "gen/gen.h"
#include "gen/integers.h"

// registers: the bound under which the shape compiles without spills for every architecture and
// layout, with 16-byte vectors of elements as wide as accumulators, for 4-byte and for 8-byte ones;
// 0: too many for that type
struct shape {
    int block_m, block_n, block_k, thread_m, thread_n, lanes_n;
    int registers[2];
};

static const struct shape shapes[] = {
    {128, 128, 8,  8, 8, 8,  {128, 0}  },
    {64,  128, 8,  8, 8, 8,  {136, 0}  },
    {128, 64,  8,  8, 8, 8,  {136, 0}  },
    {64,  64,  8,  8, 8, 8,  {144, 0}  },
    {64,  64,  8,  8, 4, 8,  {96, 152} },
    {32,  64,  8,  8, 8, 8,  {152, 0}  },
    {32,  32,  8,  8, 4, 8,  {96, 176} },
    {32,  32,  16, 4, 4, 8,  {80, 152} },
    {16,  64,  8,  4, 8, 8,  {104, 200}},
    {64,  16,  8,  8, 4, 4,  {112, 200}},
    {16,  32,  16, 4, 4, 8,  {96, 160} },
    {32,  16,  16, 4, 4, 4,  {96, 160} },
    {8,   32,  16, 8, 1, 32, {96, 168} },
    {32,  8,   16, 1, 8, 1,  {96, 168} },
    {4,   32,  16, 4, 1, 32, {96, 128} },
    {32,  4,   16, 1, 4, 1,  {96, 128} },
    {1,   32,  32, 1, 1, 32, {80, 128} },
    {32,  1,   32, 1, 1, 1,  {80, 128} },
};

// Of phases alone: a short k at one go, so that all of it is on its way before the phase begins.
static const struct shape deep_shapes[] = {
    {32, 64, 16, 8, 8, 8,  {176, 0}},
    {64, 32, 16, 8, 8, 4,  {176, 0}},
    {32, 32, 16, 8, 4, 8,  {112, 0}},
    {16, 64, 16, 4, 8, 8,  {128, 0}},
    {64, 16, 16, 8, 4, 4,  {136, 0}},
    {32, 32, 32, 4, 4, 8,  {96, 0} },
    {16, 32, 32, 4, 4, 8,  {120, 0}},
    {32, 16, 32, 4, 4, 4,  {120, 0}},
    {8,  32, 32, 8, 1, 32, {112, 0}},
    {4,  32, 32, 4, 1, 32, {112, 0}},
};

// On tensor cores, of floats; registers where both operands have three parts.
static const struct shape mma_shapes[] = {
    {128, 128, 32, 8, 8, 4, {255, 0}},
    {128, 128, 32, 4, 8, 4, {128, 0}},
    {128, 64,  32, 8, 8, 4, {255, 0}},
    {128, 64,  32, 4, 8, 4, {144, 0}},
    {64,  128, 32, 4, 8, 4, {144, 0}},
    {64,  64,  32, 4, 8, 4, {168, 0}},
    {64,  64,  32, 4, 4, 4, {112, 0}},
    {64,  32,  32, 4, 4, 4, {112, 0}},
    {32,  64,  32, 4, 4, 4, {112, 0}},
    {32,  32,  32, 4, 4, 4, {112, 0}},
    {32,  32,  32, 2, 4, 4, {96, 0} },
    {16,  32,  32, 2, 4, 4, {96, 0} },
    {32,  16,  32, 2, 4, 4, {96, 0} },
    {32,  64,  64, 2, 8, 4, {144, 0}},
    {64,  32,  64, 4, 4, 4, {144, 0}},
    {32,  32,  64, 2, 4, 4, {144, 0}},
    {16,  64,  64, 2, 4, 4, {144, 0}},
    {64,  16,  64, 2, 4, 4, {144, 0}},
};

enum {
    N_MMA_SHAPES = sizeof mma_shapes / sizeof *mma_shapes,
    N_SHAPES = sizeof shapes / sizeof *shapes,
    N_DEEP_SHAPES = sizeof deep_shapes / sizeof *deep_shapes,
    MAX_THREADS = 512,
    MAX_REGISTERS = 255,
    LOAD_REGISTERS = 3,    // of one more load in flight: its value and bounds
    TURING_REGISTERS = 24, // that sm_75 needs more: it has no uniform registers to spare
    PROMOTE_K = 256,       // a chain of 256 additions is about as accurate as cuBLAS's f32 sums
    MAX_BLOCKS = 0x7fffffff,
    RESERVED_SHARED = 1024, // that the system takes of every block
    MAX_RESIDENT = 16,      // blocks that every architecture can hold on an SM
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

static int group_threads(const struct shape *s)
{
    int lanes_m = 32 / s->lanes_n;
    return 32 * (s->block_m / (lanes_m * s->thread_m)) * (s->block_n / (s->lanes_n * s->thread_n));
}

// As struct Panel in gemm_simt.cuh and gemm_mma.cuh
static int panel_bytes(const struct gemm_tile *tile, const struct gemm_problem *p, bool is_b)
{
    int block = is_b ? tile->block_n : tile->block_m;
    int parts = is_b ? tile->parts_b : tile->parts_a;
    bool along_k = is_b ? p->b_along_k : p->a_along_k;
    if (parts)
        return parts * 2 * (along_k ? block * (tile->block_k + 8) : tile->block_k * (block + 8));
    int run = min_int(is_b ? tile->thread_n : tile->thread_m, 16 / p->acc_bytes);
    return p->acc_bytes * tile->block_k * (block + (along_k ? run : 0));
}

// As struct Tile in gemm_stage.cuh, which asserts that the two agree.
static int shared_bytes(const struct gemm_tile *tile, const struct gemm_problem *p)
{
    bool one_step = p->k <= (int64_t)tile->block_k * tile->split;
    int buffer = panel_bytes(tile, p, false) + panel_bytes(tile, p, true);
    int buffers = tile->split * (one_step ? 1 : 2) * buffer;
    int sums = tile->split > 1 || tile->promote_k
                   ? tile->split * tile->block_m * tile->block_n * p->acc_bytes
                   : 0;
    bool apart = tile->promote_k || one_step;
    int doubts = tile->parts_a > 1 || tile->parts_b > 1 ? 64 : 0;
    return (apart ? buffers + sums : sums > buffers ? sums : buffers) + doubts;
}

static int64_t tile_count(const struct gemm_tile *tile, const struct gemm_problem *p)
{
    return p->batch * ceil_div(p->m, tile->block_m) * ceil_div(p->n, tile->block_n);
}

static int resident_blocks(const struct target *t, const struct gemm_tile *tile)
{
    int by_shared = t->shared_per_sm / (tile->shared_bytes + RESERVED_SHARED);
    int by_threads = t->threads_per_sm / tile->threads;
    int blocks =
        min_int(min_int(tile->blocks_per_sm, MAX_RESIDENT), min_int(by_shared, by_threads));
    return blocks < 1 ? 1 : blocks;
}

// Tiles in flight cover about as many rows as columns: fewest different lines of A and B at a time.
static int raster(const struct gemm_tile *tile, int64_t in_flight)
{
    int rows = 1;
    while (rows < 16 && (int64_t)rows * rows * 4 * tile->block_m <= in_flight * tile->block_n)
        rows *= 2;
    return rows;
}

// What falls to the busiest SM: tiles, waves of as many as it holds at once, and k steps of each,
// every one a round of loads; and the warps it has for them.
struct share {
    double tiles, waves, rounds, warps;
};

static struct share share_of(const struct target *t, const struct gemm_tile *tile,
                             const struct gemm_problem *p)
{
    int resident = resident_blocks(t, tile);
    double tiles = larger(1, (double)ceil_div(tile_count(tile, p), t->n_sms));
    return (struct share){
        .tiles = tiles,
        .waves = (double)ceil_div((int64_t)tiles, resident),
        .rounds = (double)ceil_div(p->k, (int64_t)tile->block_k * tile->split),
        .warps = (tiles < resident ? tiles : resident) * (tile->threads / 32),
    };
}

// Clocks of that share, were there nothing else: arithmetic, and passes through shared memory.
struct work {
    double arithmetic, shared;
};

// Clocks that one warp's k step occupies its scheduler.
static double issue_clocks(const struct gemm_tile *tile, const struct gemm_problem *p)
{
    int run = 16 / p->acc_bytes, threads = tile->threads / tile->split;
    double reads = (double)ceil_div(tile->thread_m, run) + (double)ceil_div(tile->thread_n, run);
    double moved_a = (double)tile->block_m / threads, moved_b = (double)tile->block_n / threads;
    double writes = moved_a * (p->a_along_k ? 1 : 0.25) + moved_b * (p->b_along_k ? 1 : 0.25);
    double loads = 2 * (moved_a + moved_b); // and their addresses and bounds
    return tile->thread_m * tile->thread_n * (p->acc_bytes / 4) + reads + writes + loads +
           25.0 / tile->block_k;
}

// Of a tile's prologues, on the units of one SM.
static double prologue_clocks(const struct gemm_tile *tile, const struct gemm_problem *p)
{
    const double lanes = 128;
    return (tile->block_m * p->ops_a + tile->block_n * p->ops_b) * (double)p->k / lanes;
}

// From the first load to the last sum, where these parts take so long: the largest decides, except
// that a phase, alone on its SM, waits for what it loads after the first round, and begins its
// prologues when the loads are done.
static double busy_clocks(const struct gemm_problem *p, const struct work *work, double prologues,
                          double bytes, const struct share *of)
{
    const double latency = 700, l2_bytes_per_clock = 40;
    bool phase = p->phase_threads > 0;
    double busy = larger(larger(work->arithmetic + (phase ? 0 : prologues), work->shared),
                         larger(bytes / l2_bytes_per_clock, of->waves * of->rounds * latency));
    return busy + (phase ? prologues + of->waves * (of->rounds - 1) * latency : 0);
}

// Of sums that go to memory, with the other SMs' at the rate of all: a block that has its SM to
// itself stands still meanwhile.
static double storing_clocks(const struct target *t, const struct gemm_tile *tile,
                             const struct gemm_problem *p, double per_sm, double busy)
{
    const double bytes_per_clock = 18;
    double all = (double)p->batch * (double)p->m * (double)p->n * p->acc_bytes;
    double stores = per_sm * tile->block_m * tile->block_n * p->acc_bytes / bytes_per_clock;
    if (all <= (double)t->l2_bytes)
        return 0;
    return resident_blocks(t, tile) > 1 ? larger(stores - busy, 0) : stores;
}

// Those whose numbers make 2 or less
int products_of_parts(int parts_a, int parts_b)
{
    int n = 0;
    for (int a = 0; a < parts_a; a++)
        for (int b = 0; b < parts_b && a + b <= 2; b++)
            n++;
    return n;
}

static struct work simt_work(const struct gemm_tile *tile, const struct gemm_problem *p,
                             const struct share *of)
{
    int run = 16 / p->acc_bytes;
    double reads = (double)ceil_div(tile->thread_m, run) + (double)ceil_div(tile->thread_n, run);
    double steps = of->tiles * of->rounds * tile->block_k * (tile->threads / 32); // of warps
    return (struct work){
        .arithmetic = steps / 4 * issue_clocks(tile, p) * (of->warps + 2) / of->warps,
        .shared = steps * 2 * reads,
    };
}

static struct work mma_work(const struct gemm_tile *tile, const struct share *of)
{
    const double instruction = 5.5;
    double steps = of->tiles * of->rounds * tile->split * (tile->block_k / 16); // of groups
    double instructions =
        tile->block_m * tile->block_n / 128 * products_of_parts(tile->parts_a, tile->parts_b);
    double reads = tile->thread_m / 2 * tile->parts_a + tile->thread_n / 4 * tile->parts_b;
    double parts = tile->block_m * tile->parts_a + tile->block_n * tile->parts_b;
    double multiply = steps * instructions / 4 * instruction * (of->warps + 4) / of->warps;
    return (struct work){
        .arithmetic = multiply + steps * parts * 16 * 3 / 128,
        .shared = steps * (tile->threads / 32 / tile->split) * reads * 4,
    };
}

static double predicted_clocks(const struct target *t, const struct gemm_tile *tile,
                               const struct gemm_problem *p)
{
    const double start = 1500;
    const struct share of = share_of(t, tile, p);
    const struct work work = tile->parts_a ? mma_work(tile, &of) : simt_work(tile, p, &of);
    double bytes = of.tiles * of.rounds * tile->block_k * tile->split *
                   (tile->block_m + tile->block_n) * p->acc_bytes;
    double sums = tile->split > 1
                      ? of.tiles * tile->split * tile->block_m * tile->block_n * p->acc_bytes / 64
                      : 0;
    double busy = busy_clocks(p, &work, of.tiles * prologue_clocks(tile, p), bytes, &of);
    busy += storing_clocks(t, tile, p, of.tiles, busy);
    return busy + of.waves * (start + 4 * tile->thread_m * tile->thread_n) + sums;
}

static int load_rounds(const struct gemm_tile *tile, int vec_a, int vec_b)
{
    int threads = tile->threads / tile->split;
    return (int)(ceil_div(tile->block_m * tile->block_k / vec_a, threads) +
                 ceil_div(tile->block_n * tile->block_k / vec_b, threads));
}

// The vectors that the problem allows and the tile takes whole.
static void choose_vectors(const struct gemm_problem *p, struct gemm_tile *tile)
{
    int run = 16 / p->acc_bytes; // a wider vector would only hold more registers
    // Of a phase in clusters (measured on an H200: 2 to 4 % faster, and elsewhere, or in more
    // threads, 1 to 6 % slower).
    bool in_cluster = p->phase_threads && !p->alone_on_sm;
    bool wide = in_cluster && tile->parts_a && tile->threads <= 256;
    int a = wide ? p->wide_a : min_int(p->vec_a, run),
        b = wide ? p->wide_b : min_int(p->vec_b, run);
    tile->vec_a = min_int(a, p->a_along_k ? tile->block_k : tile->block_m);
    tile->vec_b = min_int(b, p->b_along_k ? tile->block_k : tile->block_n);
    tile->vec_c = min_int(min_int(p->vec_c, run), tile->thread_n);
}

static int register_bound(const struct target *t, const struct gemm_problem *p,
                          const struct shape *s, const struct gemm_tile *tile)
{
    int run = 16 / p->acc_bytes;
    int whole_a = min_int(run, p->a_along_k ? tile->block_k : tile->block_m);
    int whole_b = min_int(run, p->b_along_k ? tile->block_k : tile->block_n);
    int more_loads =
        load_rounds(tile, tile->vec_a, tile->vec_b) - load_rounds(tile, whole_a, whole_b);
    int registers =
        s->registers[p->acc_bytes / 8] + p->extra_registers + LOAD_REGISTERS * more_loads;
    return min_int(MAX_REGISTERS, t->sm < 80 ? registers + TURING_REGISTERS : registers);
}

static bool make_tile(const struct target *t, const struct gemm_problem *p, const struct shape *s,
                      bool mma, int split, struct gemm_tile *tile)
{
    *tile = (struct gemm_tile){
        .block_m = s->block_m,
        .block_n = s->block_n,
        .block_k = s->block_k,
        .thread_m = s->thread_m,
        .thread_n = s->thread_n,
        .lanes_n = s->lanes_n,
        .split = split,
        .threads = group_threads(s) * split,
        .parts_a = mma ? p->parts_a : 0,
        .parts_b = mma ? p->parts_b : 0,
    };
    if (!s->registers[p->acc_bytes / 8] || tile->threads > MAX_THREADS ||
        (p->phase_threads && tile->threads != p->phase_threads))
        return false;
    choose_vectors(p, tile);
    if (split > 1 && ceil_div(p->k, s->block_k) < split)
        return false; // a group would have nothing to do
    if (!mma && p->floating && p->acc_bytes == 4 && ceil_div(p->k, split) > PROMOTE_K)
        tile->promote_k = PROMOTE_K;
    // A quarter of an SM has its own registers.
    int warps = t->registers_per_sm / 4 / (32 * register_bound(t, p, s, tile)) * 4;
    tile->blocks_per_sm = warps / (tile->threads / 32);
    tile->shared_bytes = shared_bytes(tile, p);
    if (tile->blocks_per_sm < 1 || tile->shared_bytes > t->shared_per_block)
        return false;
    int64_t tiles = tile_count(tile, p);
    tile->blocks_per_sm = p->alone_on_sm ? 1 : resident_blocks(t, tile);
    tile->blocks = tiles < 1 ? 1 : tiles > MAX_BLOCKS ? MAX_BLOCKS : tiles;
    tile->looped = p->alone_on_sm || tiles > tile->blocks;
    tile->raster = raster(tile, (int64_t)t->n_sms * tile->blocks_per_sm);
    tile->clocks = predicted_clocks(t, tile, p);
    return true;
}

// Into a list of n in rising order of clocks; the first of equals stays first.
static int insert(struct gemm_tile *tiles, int n, int max, const struct gemm_tile *tile)
{
    if (n == max && tiles[n - 1].clocks <= tile->clocks)
        return n;
    int at = n < max ? n++ : n - 1;
    for (; at > 0 && tiles[at - 1].clocks > tile->clocks; at--)
        tiles[at] = tiles[at - 1];
    tiles[at] = *tile;
    return n;
}

static bool has_parts(const struct target *t, const struct gemm_problem *p)
{
    return t->sm >= 80 && p->floating && p->acc_bytes == 4 && p->parts_a && p->parts_b;
}

int gemm_tiles(const struct target *t, const struct gemm_problem *p, struct gemm_tile *tiles,
               int max)
{
    const struct {
        const struct shape *shapes;
        int n;
        bool mma, deep;
    } lists[] = {
        {shapes,     N_SHAPES,    false,                               false          },
        {mma_shapes, has_parts(t, p) ? N_MMA_SHAPES : 0,               true,            false},
        {deep_shapes,          p->phase_threads ? N_DEEP_SHAPES : 0,           false, true},
    };
    int n = 0;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (int i = 0; i < lists[l].n; i++)
            for (int split = 1; split <= MAX_THREADS / 32; split *= 2) {
                const struct shape *s = &lists[l].shapes[i];
                struct gemm_tile tile;
                if ((!lists[l].deep || p->k <= (int64_t)s->block_k * split) &&
                    make_tile(t, p, s, lists[l].mma, split, &tile))
                    n = insert(tiles, n, max, &tile);
            }
    return n;
}
