// columns.cuh: reductions whose kept elements lie side by side in memory, or whose rows are too few
// and too long for one block each.
//
// Generated before this: as for rows.cuh, with one phase.  Lanes of a vector run along the kept
// elements (Spec::along_kept: one accumulator a lane) or along the reduced ones (one accumulator in
// all).  A block of threads_x x threads_y threads covers threads_x vectors of kept elements, its
// rows of threads share the reduced range, and Spec::splits blocks share it further.  Their partial
// results meet in memory, and the block that arrives last combines them in the order of the splits:
// the same bits each run, in one launch.

#include "exchange.cuh"

using Acc = Phase<0>::Acc;

struct Tile {
    static constexpr int kept = Spec::along_kept ? Spec::vec : 1;     // kept elements of a thread
    static constexpr int reduced = Spec::along_kept ? 1 : Spec::vec;  // reduced elements of a step
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

// The rows of threads of a block to its first one, always the lower one on the left: by the steps
// of a warp where a row is one thread, else through shared memory.
__device__ inline void reduce_block(int x, int y, Acc (&acc)[Tile::kept])
{
    Acc *shared = (Acc *)dynamic_shared();
    if constexpr (Spec::threads_x == 1) {
        auto fold = [](Acc &into, const Acc &from) { combine(into, from); };
#pragma unroll
        for (int j = 0; j < Tile::kept; j++)
            block_reduce<Spec::threads>(acc[j], fold, shared);
    } else {
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
    memory_fence();  // the others' results are read after their tickets
    __syncthreads(); // *last is read before the memory is used again
    return is_last;
}

template <typename SplitArgs>
__device__ inline void leave_partial(const SplitArgs &args, index_t split, index_t r, int y,
                                     const Acc (&acc)[Tile::kept])
{
    Acc *partial = (Acc *)args.partial;
#pragma unroll
    for (int j = 0; j < Tile::kept; j++)
        if (r < Spec::rows && y == 0)
            store(partial + split * Spec::rows + r + j, acc[j]);
}

// Partial results that are told (Spec::told) go in packets to args.exchange, and every block waits
// for each of them: so no barrier is needed.  Behind the packets each block has its tag of the last
// launch, which it goes on from; all have the same one.

constexpr index_t n_told = Spec::rows * Spec::splits;

template <typename SplitArgs> __device__ inline uint64 *own_tag(const SplitArgs &args)
{
    return args.exchange + sizeof(Acc) / 4 * n_told + blockIdx.x;
}

template <typename SplitArgs> __device__ inline uint32 next_tag(const SplitArgs &args)
{
    return (uint32)load_coherent(own_tag(args)) + 1;
}

template <typename SplitArgs>
__device__ inline void tell_partial(const SplitArgs &args, index_t split, index_t r, int y,
                                    const Acc (&acc)[Tile::kept], uint32 tag)
{
#pragma unroll
    for (int j = 0; j < Tile::kept; j++)
        if (r < Spec::rows && y == 0)
            send(args.exchange + split * Spec::rows + r + j, n_told, tag, acc[j]);
}

template <typename SplitArgs>
__device__ inline void collect_partial(const SplitArgs &args, index_t r, int y,
                                       Acc (&acc)[Tile::kept])
{
    const Acc *partial = (const Acc *)args.partial;
#pragma unroll
    for (int j = 0; j < Tile::kept; j++)
        for (int s = y; s < Spec::splits && r < Spec::rows; s += Spec::threads_y)
            combine(acc[j], load_coherent(partial + (index_t)s * Spec::rows + r + j));
}

// acc: the result of all splits, in the threads of y 0.
template <typename SplitArgs>
__device__ inline void combine_splits(const SplitArgs &args, index_t r, int x, int y,
                                      Acc (&acc)[Tile::kept])
{
#pragma unroll
    for (int j = 0; j < Tile::kept; j++)
        identity(acc[j]);
    collect_partial(args, r, y, acc);
    reduce_block(x, y, acc);
}

__device__ inline void finish_rows(const Args &args, index_t r, int y, Row (&row)[Tile::kept],
                                   const Acc (&acc)[Tile::kept])
{
#pragma unroll
    for (int j = 0; j < Tile::kept; j++)
        if (r < Spec::rows && y == 0) {
            finish(args, r + j, row[j], acc[j]);
            store_row(args, r + j, row[j]);
        }
}

// A thread's share, under way all at once where it has room in registers.
struct Ahead {
    static constexpr bool whole =
        Tile::tiles == 1 && Tile::steps_per_split * sizeof(Elements<Spec::vec>) <= 256;
    static constexpr int steps = whole ? (int)Tile::steps_per_split : 0;
    Elements<Spec::vec> e[whole ? steps : 1];
};

__device__ inline bool is_step(index_t step, index_t c)
{
    return (Tile::steps % Spec::splits == 0 || step < Tile::steps) &&
           (Spec::cols % Tile::step == 0 || c < Spec::cols);
}

__device__ inline void load_ahead(const Args &args, Ahead &ahead,
                                  index_t split = blockIdx.x % Spec::splits)
{
    const int x = threadIdx.x % Spec::threads_x, y = threadIdx.x / Spec::threads_x;
    const index_t first = split * Tile::steps_per_split;
    const index_t r = (index_t)x * Tile::kept;
#pragma unroll
    for (int i = 0; i < Ahead::steps; i++) {
        const index_t c = (first + i) * Tile::step + y * Tile::reduced;
        if (r < Spec::rows && is_step(first + i, c))
            load_elements(args, r, c, ahead.e[i]);
    }
}

// Steps one by one, then in pairs: no long chain.
__device__ inline void reduce_ahead(const Args &args, Ahead &ahead, index_t r, int y, index_t split,
                                    Row (&row)[Tile::kept], Acc (&acc)[Tile::kept])
{
    const index_t first = split * Tile::steps_per_split;
    Acc part[Ahead::whole ? Ahead::steps : 1][Tile::kept];
#pragma unroll
    for (int i = 0; i < Ahead::steps; i++) {
        const index_t c = (first + i) * Tile::step + y * Tile::reduced;
#pragma unroll
        for (int j = 0; j < Tile::kept; j++)
            identity(part[i][j]);
        if (is_step(first + i, c))
            accumulate(args, r, c, row, ahead.e[i], part[i]);
    }
#pragma unroll
    for (int apart = 1; apart < Ahead::steps; apart *= 2)
#pragma unroll
        for (int i = 0; i + apart < Ahead::steps; i += 2 * apart)
#pragma unroll
            for (int j = 0; j < Tile::kept; j++)
                combine(part[i][j], part[i + apart][j]);
#pragma unroll
    for (int j = 0; j < Tile::kept; j++)
        combine(acc[j], part[0][j]);
}

// first: this block's number among those that do this; tag: next_tag(args) where partial results
// are told; ahead: of the block's first share, where is_ahead
template <bool is_ahead, typename SplitArgs>
__device__ inline void run_from(const SplitArgs &args, index_t first, uint32 tag, Ahead &ahead)
{
    const int x = threadIdx.x % Spec::threads_x, y = threadIdx.x / Spec::threads_x;
    for (index_t block = first; block < Tile::tiles * Spec::splits; block += gridDim.x) {
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
        if constexpr (is_ahead && Ahead::whole) {
            if (block != first)
                load_ahead(args, ahead, split);
            if (live)
                reduce_ahead(args, ahead, r, y, split, row, acc);
        } else if (live) {
            reduce_part(args, r, y, split, row, acc);
        }
        reduce_block(x, y, acc);
        if constexpr (Spec::splits > 1) {
            if constexpr (Spec::told)
                tell_partial(args, split, r, y, acc, tag);
            else
                leave_partial(args, split, r, y, acc);
            if constexpr (Spec::replicated) {
                if constexpr (Spec::threads_x > 1)
                    __syncthreads(); // shared memory is free for the next tile
                continue;
            } else {
                if (!arrives_last(args, tile))
                    continue;
                combine_splits(args, r, x, y, acc);
            }
        }
        finish_rows(args, r, y, row, acc);
        __syncthreads(); // shared memory is free for the next tile
    }
}

template <typename SplitArgs>
__device__ inline void run(const SplitArgs &args, index_t first = blockIdx.x)
{
    Ahead none;
    run_from<false>(args, first, 0, none);
}

// A phase whose partial results are told
template <typename SplitArgs>
__device__ inline void run_told(const SplitArgs &args, Ahead &ahead, uint32 tag)
{
    run_from<true>(args, blockIdx.x, tag, ahead);
}

// The other half of a replicated phase, past a barrier of all blocks: each block has all partial
// results and makes the results of all rows for itself.
template <typename SplitArgs> __device__ inline void finish_in_block(const SplitArgs &args)
{
    const int x = threadIdx.x % Spec::threads_x, y = threadIdx.x / Spec::threads_x;
    for (index_t tile = 0; tile < Tile::tiles; tile++) {
        const index_t r = tile * Tile::width + (index_t)x * Tile::kept;
        Row row[Tile::kept];
        Acc acc[Tile::kept];
#pragma unroll
        for (int j = 0; j < Tile::kept; j++)
            if (r < Spec::rows)
                load_row(args, r + j, row[j]);
        combine_splits(args, r, x, y, acc);
        finish_rows(args, r, y, row, acc);
        __syncthreads(); // the results are there, and shared memory is free for the next tile
    }
}

// ---- results that each block makes of what all have sent ----

// A single row every warp makes for itself, into a copy that is its own (args tells it which).
constexpr bool by_warp = Spec::rows == 1;

// Lanes of a warp that add up a row of which there are n parts.
__device__ constexpr int lanes_for(int n)
{
    return n >= 32 ? 32 : n >= 16 ? 16 : n >= 8 ? 8 : n >= 4 ? 4 : n >= 2 ? 2 : 1;
}

// acc: what row r comes to, in each of those lanes
template <int lanes>
__device__ inline void finish_by_lanes(const Args &args, index_t r, const Acc &acc)
{
    if (r >= Spec::rows)
        return;
    Row row;
    load_row(args, r, row);
    finish(args, r, row, acc);
    if (threadIdx.x % (by_warp ? 32 : lanes) == 0)
        store_row(args, r, row);
}

__device__ inline void results_are_there()
{
    if constexpr (by_warp)
        __syncwarp();
    else
        __syncthreads();
}

// The other half of a phase whose partial results are told.  A thread asks for all of its share at
// once, and no other thread of the block for the same: that would be in the way of what is told.
template <typename SplitArgs>
__device__ inline void finish_told(const SplitArgs &args, uint32 tag)
{
    auto fold = [](Acc &into, const Acc &from) { combine(into, from); };
    constexpr int lanes = by_warp ? Spec::threads : lanes_for(Spec::splits);
    constexpr int most = (Spec::splits + lanes - 1) / lanes;
    constexpr int at_once = Spec::threads / lanes; // rows
    constexpr int turns = (Spec::rows + at_once - 1) / at_once;
    const int lane = threadIdx.x % lanes;
    const index_t first = threadIdx.x / lanes;
    const int n = lane < Spec::splits ? (Spec::splits - 1 - lane) / lanes + 1 : 0;
    const uint64 *from = args.exchange + (index_t)lane * Spec::rows;
    Packets<Acc, most> packets[turns];
#pragma unroll
    for (int i = 0; i < turns; i++) {
        const index_t r = first + i * at_once;
        packets[i].ask(from + r, lanes * Spec::rows, n_told, r < Spec::rows ? n : 0);
    }
#pragma unroll
    for (int i = 0; i < turns; i++) {
        const index_t r = first + i * at_once;
        const int n_there = r < Spec::rows ? n : 0;
        Acc acc, of[most];
        identity(acc);
        packets[i].receive(from + r, lanes * Spec::rows, n_told, n_there, tag, of);
#pragma unroll
        for (int k = 0; k < most; k++)
            if (k < n_there)
                combine(acc, of[k]);
        if constexpr (by_warp)
            block_reduce<Spec::threads>(acc, fold, (Acc *)dynamic_shared());
        else
            warp_reduce<lanes>(acc, fold);
        finish_by_lanes<lanes>(args, r, acc);
    }
    results_are_there();
    if (threadIdx.x == 0)
        store(own_tag(args), (uint64)tag);
}

// ---- a phase in cluster scope: each cluster reduces everything for itself, a split a block ----

// What a cluster's blocks send to each of them, for every kept element: an accumulator of each
// warp, or of the block where it covers several kept elements.  They come to an inbox and, behind
// it, to Slots::n accumulators a kept element.
struct Slots {
    static constexpr int of_block = Spec::threads_x == 1 ? Spec::threads / 32 : 1;
    static constexpr int n = Spec::splits * of_block;
};

__device__ inline Acc *slots_of(Inbox *inbox)
{
    return (Acc *)(inbox + 2); // aligned to 16 bytes
}

// Before the first barrier of the cluster.
__device__ inline void open_slots(Inbox *inbox)
{
    if constexpr (Spec::splits > 1)
        open_inbox(inbox, (unsigned)(Spec::rows * Slots::n * sizeof(Acc)), threadIdx.x == 0);
}

// To that slot of the row in the block of that rank.
__device__ inline void send_to(Inbox *inbox, index_t r, int slot, int rank, const Acc &acc)
{
    Acc *there = slots_of(inbox) + r * Slots::n + slot;
    if constexpr (Spec::splits > 1)
        send(there, rank, acc, inbox);
    else
        *there = acc;
}

__device__ inline void send_all(Inbox *inbox, index_t r, int x, int y, Acc (&acc)[Tile::kept])
{
    const int slot = blockIdx.x % Spec::splits * Slots::of_block;
    if constexpr (Spec::threads_x == 1) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (int j = 0; j < Tile::kept; j++) {
            warp_reduce<32>(acc[j], [](Acc &into, const Acc &from) { combine(into, from); });
            if (lane < Spec::splits)
                send_to(inbox, r + j, slot + warp, lane, acc[j]);
        }
    } else {
        reduce_block(x, y, acc);
#pragma unroll
        for (int j = 0; j < Tile::kept; j++)
            for (int rank = 0; rank < Spec::splits && y == 0 && r < Spec::rows; rank++)
                send_to(inbox, r + j, slot, rank, acc[j]);
        __syncthreads(); // the memory of reduce_block is free
    }
}

// Past the first barrier of the cluster.
__device__ inline void reduce_in_cluster(const Args &args, Ahead &ahead, Inbox *inbox)
{
    const int x = threadIdx.x % Spec::threads_x, y = threadIdx.x / Spec::threads_x;
    for (index_t tile = 0; tile < Tile::tiles; tile++) {
        const index_t r = tile * Tile::width + (index_t)x * Tile::kept;
        Row row[Tile::kept];
        Acc acc[Tile::kept];
#pragma unroll
        for (int j = 0; j < Tile::kept; j++) {
            identity(acc[j]);
            if (r < Spec::rows)
                load_row(args, r + j, row[j]);
        }
        if (Ahead::whole && r < Spec::rows)
            reduce_ahead(args, ahead, r, y, blockIdx.x % Spec::splits, row, acc);
        else if (r < Spec::rows)
            reduce_part(args, r, y, blockIdx.x % Spec::splits, row, acc);
        send_all(inbox, r, x, y, acc);
    }
}

// When all has come
__device__ inline void finish_in_cluster(const Args &args, Inbox *inbox)
{
    if constexpr (Spec::splits > 1)
        receive_all(inbox);
    else
        __syncthreads(); // every warp's accumulators are there
    constexpr int lanes = lanes_for(Slots::n);
    const Acc *slots = slots_of(inbox);
    const int lane = threadIdx.x % lanes;
    for (index_t first = 0; first < Spec::rows; first += Spec::threads / lanes) {
        const index_t r = by_warp ? 0 : first + threadIdx.x / lanes;
        Acc acc;
        identity(acc);
#pragma unroll
        for (int i = 0; i < Slots::n; i += lanes)
            if (r < Spec::rows && (Slots::n % lanes == 0 || i + lane < Slots::n))
                combine(acc, slots[r * Slots::n + i + lane]);
        warp_reduce<lanes, by_warp>(acc, [](Acc &into, const Acc &from) { combine(into, from); });
        finish_by_lanes<lanes>(args, r, acc);
    }
    results_are_there();
}

#ifdef KERNEL
extern "C" __global__ void __launch_bounds__(Spec::threads, Spec::blocks_per_sm)
    KERNEL(const __grid_constant__ Args args)
{
    run(args);
}
#endif
