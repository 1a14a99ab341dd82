// columns.cuh: reductions whose kept elements lie side by side in memory, or whose rows are too few
// and too long for one block each.
//
// Generated before this: as for rows.cuh, with one phase.  Lanes of a vector run along the kept
// elements (Spec::along_kept: one accumulator a lane) or along the reduced ones (one accumulator in
// all).  A block of threads_x x threads_y threads covers threads_x vectors of kept elements, its
// rows of threads share the reduced range, and Spec::splits blocks share it further.  Their partial
// results meet in memory, and the block that arrives last combines them in the order of the splits:
// the same bits each run, in one launch.

using Acc = Phase<0>::Acc;

struct Tile {
    static constexpr int kept = Spec::along_kept ? Spec::vec : 1;    // kept elements of a thread
    static constexpr int reduced = Spec::along_kept ? 1 : Spec::vec; // reduced elements of a step
    static constexpr index_t width = (index_t)Spec::threads_x * kept; // kept elements of a block
    static constexpr index_t tiles = (Spec::rows + width - 1) / width;
    static constexpr index_t step = (index_t)Spec::threads_y * reduced;
    static constexpr index_t steps = (Spec::cols + step - 1) / step;
    static constexpr index_t steps_per_split = (steps + Spec::splits - 1) / Spec::splits;
};

__device__ inline void reduce_part(const Args &args, index_t r, int y, index_t split,
                                   Row (&row)[Tile::kept], Acc (&acc)[Tile::kept])
{
    const index_t begin = split * Tile::steps_per_split;
    index_t end = begin + Tile::steps_per_split;
    end = end < Tile::steps ? end : Tile::steps;
    for (index_t first = begin; first < end; first += 32) {
        Acc part[Tile::kept];
#pragma unroll
        for (int j = 0; j < Tile::kept; j++)
            identity(part[j]);
        const index_t last = first + 32 < end ? first + 32 : end;
#pragma unroll 8
        for (index_t i = first; i < last; i++) {
            const index_t c = i * Tile::step + y * Tile::reduced;
            if (Spec::cols % Tile::step == 0 || c < Spec::cols) {
                Elements<Spec::vec> e;
                load_elements(args, r, c, e);
                accumulate(args, r, c, row, e, part);
            }
        }
#pragma unroll
        for (int j = 0; j < Tile::kept; j++)
            combine(acc[j], part[j]);
    }
}

// The rows of threads of a block to its first one, through shared memory, always the lower one on
// the left.
__device__ inline void reduce_block(int x, int y, Acc (&acc)[Tile::kept])
{
    Acc *shared = (Acc *)dynamic_shared();
    for (int half = Spec::threads_y / 2; half > 0; half /= 2) {
        __syncthreads(); // the upper half's places are free again
#pragma unroll
        for (int j = 0; j < Tile::kept; j++)
            if (y >= half && y < 2 * half)
                shared[((y - half) * Spec::threads_x + x) * Tile::kept + j] = acc[j];
        __syncthreads(); // the upper half has written
#pragma unroll
        for (int j = 0; j < Tile::kept; j++)
            if (y < half)
                combine(acc[j], shared[(y * Spec::threads_x + x) * Tile::kept + j]);
    }
}

// Whether this block is the last of its tile's splits to arrive; the counter is left as it was
// found. (The type of args is a parameter here and below because Args has these fields only where
// there are splits.)
template <typename SplitArgs>
__device__ inline bool arrives_last(const SplitArgs &args, index_t tile)
{
    unsigned *last = (unsigned *)dynamic_shared();
    memory_fence(); // the partial results are seen before the ticket is
    __syncthreads();
    if (threadIdx.x == 0) {
        *last = atomic_ticket(args.tickets + tile) == Spec::splits - 1;
        if (*last)
            store(args.tickets + tile, 0u);
    }
    __syncthreads(); // *last is written
    const bool is_last = *last;
    memory_fence(); // the others' results are read after their tickets
    __syncthreads(); // *last is read before the memory is used again
    return is_last;
}

// Leaves this block's partial results; in the block that arrives last, acc is then the result of
// all splits.
template <typename SplitArgs>
__device__ inline bool combine_splits(const SplitArgs &args, index_t tile, index_t split, index_t r,
                                      int x, int y, Acc (&acc)[Tile::kept])
{
    Acc *partial = (Acc *)args.partial;
#pragma unroll
    for (int j = 0; j < Tile::kept; j++)
        if (r < Spec::rows && y == 0)
            store(partial + split * Spec::rows + r + j, acc[j]);
    if (!arrives_last(args, tile))
        return false;
#pragma unroll
    for (int j = 0; j < Tile::kept; j++) {
        identity(acc[j]);
        for (int s = y; s < Spec::splits && r < Spec::rows; s += Spec::threads_y)
            combine(acc[j], load_coherent(partial + (index_t)s * Spec::rows + r + j));
    }
    reduce_block(x, y, acc);
    return true;
}

extern "C" __global__ void __launch_bounds__(Spec::threads, Spec::blocks_per_sm)
    KERNEL(const __grid_constant__ Args args)
{
    const int x = threadIdx.x % Spec::threads_x, y = threadIdx.x / Spec::threads_x;
    for (index_t block = blockIdx.x; block < Tile::tiles * Spec::splits; block += gridDim.x) {
        const index_t tile = block / Spec::splits, split = block % Spec::splits;
        const index_t r = tile * Tile::width + (index_t)x * Tile::kept;
        const bool live = r < Spec::rows;
        Row row[Tile::kept];
        Acc acc[Tile::kept];
#pragma unroll
        for (int j = 0; j < Tile::kept; j++) {
            identity(acc[j]);
            if (live)
                load_row(args, r + j, row[j]);
        }
        if (live)
            reduce_part(args, r, y, split, row, acc);
        reduce_block(x, y, acc);
        if constexpr (Spec::splits > 1)
            if (!combine_splits(args, tile, split, r, x, y, acc))
                continue;
#pragma unroll
        for (int j = 0; j < Tile::kept; j++)
            if (live && y == 0) {
                finish(args, r + j, row[j], acc[j]);
                store_row(args, r + j, row[j]);
            }
        __syncthreads(); // shared memory is free for the next tile
    }
}
