// gemm.cuh: Spec (specs.def), Acc, index_t, load_a, stage_a, load_b, stage_b and epilogue come in,
// as do how operands lie in shared memory and are multiplied (gemm_simt.cuh, gemm_mma.cuh); out
// comes KERNEL, a batched contraction:
//
//     C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n]
//
// A block computes block_m x block_n of C.  Tiles of A and B, block_k deep, go through shared
// memory (gemm_stage.cuh), two buffers of them where there are several steps:
//
//     load      global -> registers, tile t + 1: in flight while tile t is multiplied
//     multiply  shared -> accumulators, tile t
//     store     registers -> prologue -> shared, tile t + 1, into the other buffer; one barrier
//
// With split > 1 the block is that many groups of warps, each with buffers of its own; group g
// multiplies the k tiles g, g + split, ...  Long sums are added up in two levels (promote_k): a
// single chain of k additions loses accuracy with the root of k.  The upper level, and the groups'
// sums, live in shared memory.  Nothing depends on which warp comes first: the same bits every run.

__device__ inline float add(float a, float b)
{
    return a + b;
}
__device__ inline double add(double a, double b)
{
    return a + b;
}
__device__ inline int add(int a, int b)
{
    return (int)((uint32)a + (uint32)b);
}
__device__ inline long long add(long long a, long long b)
{
    return (long long)((uint64)a + (uint64)b);
}

// Batch, and the first row and column of a piece of C
struct Corner {
    index_t b, m, n;
};

// The corner of tile number `tile`: `raster` rows of tiles are walked column by column.
__device__ inline Corner tile_place(index_t tile)
{
    constexpr index_t tiles_m = Tile::tiles > 0 ? Tile::tiles_m : 1,
                      tiles_n = Tile::tiles > 0 ? Tile::tiles_n : 1;
    constexpr index_t raster = Spec::raster;
    index_t rest = tile % (tiles_m * tiles_n);
    index_t first = rest / (raster * tiles_n) * raster, left = tiles_m - first;
    index_t height = left < raster ? left : raster;
    rest %= raster * tiles_n;
    return {tile / (tiles_m * tiles_n), (first + rest % height) * Spec::block_m,
            rest / height * Spec::block_n};
}

// A group that is one warp needs no more than that warp's order.
__device__ inline void group_barrier()
{
    if constexpr (Tile::threads == 32 && Spec::split > 1)
        __syncwarp();
    else
        __syncthreads();
}

__device__ inline void clear(Accumulators &acc)
{
#pragma unroll
    for (int i = 0; i < Spec::thread_m; i++)
#pragma unroll
        for (int j = 0; j < Spec::thread_n; j++)
            acc[i][j] = 0;
}

#include "gemm_finish.cuh"

// A k step on its way from memory to shared memory, and what the tile's epilogue loads
struct Ahead {
    Stage<OperandA> a;
    Stage<OperandB> b;
    Finish finish;
    Doubts doubts;
};

// What of the block's first tile was done ahead: the settled loads of its first step and what is
// made of these alone; the stores of an operand of which all loads are settled; the epilogue's
// loads.
enum {
    AHEAD_loads = 1,
    AHEAD_ready = 2,
    AHEAD_a = 4,
    AHEAD_b = 8,
    AHEAD_epilogue = Finish::ahead ? 16 : 0
};

// Where a thread's first vectors of the operands lie in them
struct Start {
    Spot in_a, in_b;
    index_t m, n, k_a, k_b;
};

__device__ inline Start start_of(Corner c, Place p)
{
    const Spot a = Stage<OperandA>::spot(p.thread), b = Stage<OperandB>::spot(p.thread);
    return {a,
            b,
            c.m + a.x,
            c.n + b.x,
            (index_t)(p.group * Spec::block_k + a.k),
            (index_t)(p.group * Spec::block_k + b.k)};
}

// The block's first tile.  A block that has none takes the last one: what is done ahead is then
// done in vain, but without a branch.
__device__ inline Corner first_place()
{
    constexpr index_t last = Tile::tiles > 0 ? (index_t)(Tile::tiles - 1) : 0;
    return tile_place(blockIdx.x < last ? blockIdx.x : last);
}

// Sends on its way what of that tile AHEAD_loads and AHEAD_epilogue say.
__device__ inline void load_ahead(const Args &args, Ahead &step, int what)
{
    if (Tile::tiles == 0)
        return;
    const Corner c = first_place();
    const Place p = thread_place(threadIdx.x);
    const Start at = start_of(c, p);
    step.a.template load<LOADS_settled>(args, c.b, at.m, at.k_a, p.thread);
    step.b.template load<LOADS_settled>(args, c.b, at.n, at.k_b, p.thread);
    if (!(what & AHEAD_epilogue))
        return;
#pragma unroll
    for (int turn = 0; turn < Finish::turns; turn++) {
        const int i = p.group + turn * Spec::split;
        if (is_run(i))
            step.finish.load(args, run_corner({c.b, c.m + p.m, c.n + p.n}, i), turn);
    }
}

// Where a thread's vectors of a group's operands go in shared memory, in bytes: base, place and
// constant then go into the access itself.
struct Places {
    int group_a, group_b, write_a, write_b;
};

__device__ inline Places places_of(const Start &at, int group)
{
    const int a = group * (Tile::depth * Tile::buffer), b = a + PanelA::bytes;
    return {a, b, a + PanelA::place(at.in_a.x, at.in_a.k), b + PanelB::place(at.in_b.x, at.in_b.k)};
}

// What can be done with what load_ahead has loaded: AHEAD_ready, and AHEAD_a and AHEAD_b as given.
__device__ inline void stage_ahead(const Args &args, Ahead &step, int what)
{
    if (Tile::steps == 0 || Tile::tiles == 0)
        return;
    const Corner c = first_place();
    const Place p = thread_place(threadIdx.x);
    const Start from = start_of(c, p);
    const Places to = places_of(from, p.group);
    char *shared = reinterpret_cast<char *>(dynamic_shared()) + Spec::shared_at;
    step.a.ready(from.m, from.k_a, p.thread);
    step.b.ready(from.n, from.k_b, p.thread);
    if (what & AHEAD_a)
        step.a.store(args, c.b, from.m, from.k_a, p.thread, shared + to.write_a, step.doubts);
    if (what & AHEAD_b)
        step.b.store(args, c.b, from.n, from.k_b, p.thread, shared + to.write_b, step.doubts);
}

// The k loop of one tile; p.group's share of it
__device__ inline void accumulate(const Args &args, Corner c, Place p, char *shared,
                                  Accumulators &acc, Ahead &step, int ahead)
{
    if constexpr (Tile::promotes)
        clear_sums(own_sums(shared, threadIdx.x));

    Stage<OperandA> &a = step.a;
    Stage<OperandB> &b = step.b;
    const Start from = start_of(c, p);
    const index_t m = from.m, n = from.n, k_a = from.k_a, k_b = from.k_b;
    const Places to = places_of(from, p.group);
    int read_a = to.group_a + read_place_a(p), read_b = to.group_b + read_place_b(p);
    int write_a = to.write_a, write_b = to.write_b;
    int other = Tile::buffer; // from the buffer that is read to the other
    if (!(ahead & AHEAD_loads)) {
        a.template load<LOADS_settled>(args, c.b, m, k_a, p.thread);
        b.template load<LOADS_settled>(args, c.b, n, k_b, p.thread);
    }
    a.template load<LOADS_fresh>(args, c.b, m, k_a, p.thread);
    b.template load<LOADS_fresh>(args, c.b, n, k_b, p.thread);
    if (!(ahead & AHEAD_ready)) {
        a.ready(m, k_a, p.thread);
        b.ready(n, k_b, p.thread);
    }
    if (!(ahead & AHEAD_a))
        a.store(args, c.b, m, k_a, p.thread, shared + write_a, step.doubts);
    if (!(ahead & AHEAD_b))
        b.store(args, c.b, n, k_b, p.thread, shared + write_b, step.doubts);
    group_barrier();

    int until_promotion = Spec::promote_k / Spec::block_k;
    constexpr index_t end = Tile::steps * Tile::k_step;
#pragma unroll 1
    for (index_t k = Tile::k_step; k <= end; k += Tile::k_step) {
        bool more = k < end;
        if (more) {
            a.template load<LOADS_all>(args, c.b, m, k_a + k, p.thread);
            b.template load<LOADS_all>(args, c.b, n, k_b + k, p.thread);
        }
        multiply(shared + read_a, shared + read_b, acc);
        if constexpr (Tile::promotes)
            if (--until_promotion == 0) { // rare: its address is worked out when it is needed
                move_to_sums<true>(acc, own_sums(shared, fresh_thread_index()));
                until_promotion = Spec::promote_k / Spec::block_k;
            }
        read_a += other, read_b += other;
        write_a += other, write_b += other;
        other = -other;
        if (more) {
            a.ready(m, k_a + k, p.thread);
            b.ready(n, k_b + k, p.thread);
            a.store(args, c.b, m, k_a + k, p.thread, shared + write_a, step.doubts);
            b.store(args, c.b, n, k_b + k, p.thread, shared + write_b, step.doubts);
            group_barrier(); // the next tile is whole, and the buffer after it is read no more
        }
    }
}

// The largest element of the operands of a block's tile, in size; a NaN is larger than all others.
// Not inline, as plain_sums.
template <typename AnyArgs> __device__ __noinline__ Acc largest_element(AnyArgs args, Corner c)
{
    const Place p = thread_place(threadIdx.x);
    const Start at = start_of(c, p);
    Stage<OperandA> a;
    Stage<OperandB> b;
    Acc most = 0;
#pragma unroll 1
    for (index_t k = 0; k < (index_t)(Tile::steps * Tile::k_step); k += Tile::k_step) {
        a.template load<LOADS_all>(args, c.b, at.m, at.k_a + k, p.thread);
        b.template load<LOADS_all>(args, c.b, at.n, at.k_b + k, p.thread);
        a.ready(at.m, at.k_a + k, p.thread);
        b.ready(at.n, at.k_b + k, p.thread);
        most = maximum(most, a.largest(args, c.b, at.m, at.k_a + k, p.thread));
        most = maximum(most, b.largest(args, c.b, at.n, at.k_b + k, p.thread));
    }
    return most;
}

// A barrier of the block, past which is known below what size its sums are in doubt: 0, or where
// some thread has met operands that these may tell in, more.  c: of its tile
template <typename AnyDoubts>
__device__ inline float doubtful_below(const Args &args, Corner c, const AnyDoubts &doubts,
                                       char *shared)
{
    if constexpr (!AnyDoubts::possible) {
        __syncthreads();
        return 0.0f;
    } else {
        if (!__syncthreads_or(doubts.any()))
            return 0.0f;
        Acc *of_warps = reinterpret_cast<Acc *>(shared + Tile::doubts_at);
        Acc most = largest_element(args, c);
        warp_reduce<32>(most, [](Acc &into, Acc from) { into = maximum(into, from); });
        if (threadIdx.x % 32 == 0)
            of_warps[threadIdx.x / 32] = most;
        __syncthreads();
        for (int i = 0; i < Spec::threads / 32; i++)
            most = maximum(most, of_warps[i]);
        return AnyDoubts::limit(most);
    }
}

__device__ inline void contract(const Args &args, index_t tile, Ahead &step, int ahead)
{
    char *shared = reinterpret_cast<char *>(dynamic_shared()) + Spec::shared_at;
    Accumulators acc;
    clear(acc);
    const Corner corner = tile_place(tile);
    // The same for all threads of the block.
    const bool needed = !Spec::masked || tile_is_needed(corner.m, corner.n);
    if (Tile::steps > 0 && needed)
        accumulate(args, corner, thread_place(threadIdx.x), shared, acc, step, ahead);

    // Worked out anew, so that the loop's registers are for the loop.
    int thread = fresh_thread_index();
    Place p = thread_place(thread);
    const Corner first = tile_place(Spec::looped ? tile : (index_t)fresh_block_index());
    const Corner c = {first.b, first.m + p.m, first.n + p.n};
    if constexpr (Tile::has_sums) {
        if constexpr (!Tile::sums_apart)
            __syncthreads(); // the sums lie where the buffers were
        if (Tile::promotes && needed)
            move_to_sums<true>(acc, own_sums(shared, thread));
        else
            move_to_sums<false>(acc, own_sums(shared, thread));
        if constexpr (Spec::split > 1) // a barrier, past which every group's sums are there
            step.finish.limit = doubtful_below(args, first, step.doubts, shared);
        finish_sums(args, c, p.group, own_sums(shared, p.thread), step.finish,
                    ahead & AHEAD_epilogue);
    } else {
        if constexpr (Doubts::possible)
            step.finish.limit = doubtful_below(args, first, step.doubts, shared);
        finish(args, c, acc, step.finish, ahead & AHEAD_epilogue);
    }
    step.doubts = {};
}

// ahead: what was done for the block's first tile, which it then may not have
__device__ inline void run(const Args &args, Ahead &step, int ahead)
{
    if constexpr (Spec::looped) {
        for (index_t tile = blockIdx.x; tile < (index_t)Tile::tiles; tile += gridDim.x) {
            contract(args, tile, step, tile == blockIdx.x ? ahead : 0);
            __syncthreads(); // the next tile uses the same shared memory
        }
    } else if constexpr (Tile::tiles > 0) {
        if (!ahead || blockIdx.x < (index_t)Tile::tiles)
            contract(args, blockIdx.x, step, ahead);
    }
}

#ifdef KERNEL
extern "C" __global__ void __launch_bounds__(Spec::threads, Spec::blocks_per_sm)
    KERNEL(const __grid_constant__ Args args)
{
    Ahead step;
    run(args, step, 0);
}
#endif
