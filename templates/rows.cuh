// rows.cuh: chained reductions along rows, with the row kept on chip between them.
//
// Generated before this: Row (values of a whole row), Elements<lanes>, load_row, load_elements,
// store_elements, store_row, and for each phase p of reductions an accumulator Phase<p>::Acc with
// identity, accumulate, combine and finish (which turns the row's sum into values of Row).
//
// Spec::threads_per_row threads share a row: some lanes of a warp, or several warps.  Where the row
// fits (Spec::resident) each thread keeps Spec::items vectors of it in registers through all
// phases; a longer row is read again by every phase.
//
// Where there are many rows (Spec::staged) a block walks through them, and the next row is on its
// way through shared memory while this one is reduced and stored: stage_elements issues the copies
// of a vector, read_staged takes them into Elements, load_columns loads once what all rows share.
// Each thread reads what it copied itself, so that no barrier is needed.
//
// Where one block cannot keep a row, the Spec::cluster blocks of a cluster share it: the threads of
// all of them, one after the other, are the row's threads.  What is more than their registers hold,
// Spec::parked vectors a thread, waits in shared memory, from which each phase takes it again; it
// does so too where a block has its row alone, but an SM is to have room for two.
// Clusters that are staged walk through rows as blocks do; a row is in registers when the next one
// is sent for, so that one buffer is enough.

// The sets of slots take turns: who writes a set has passed the barrier that every reader of what
// was there comes to after reading it.  turn: phases of the rows before this one
template <int p, typename Acc> __device__ inline void reduce_cluster(Acc &acc, int turn)
{
    const int slots_at =
        (2 * (Spec::threads / 32) + (p + turn) % 2 * Spec::cluster) * Spec::acc_bytes;
    Acc *slots = (Acc *)(dynamic_shared() + slots_at);
    if constexpr (p == 0 && !Spec::staged)
        cluster_wait(); // every block has begun, so that its shared memory is there
    if (threadIdx.x < Spec::cluster)
        store_remote(slots + blockIdx.x % Spec::cluster, threadIdx.x, acc);
    cluster_barrier(); // every block's slot is written before any is read
    acc = slots[0];
#pragma unroll
    for (int i = 1; i < Spec::cluster; i++)
        combine(acc, slots[i]);
}

// Every thread of the block takes part, those past the last row too: barriers count all of them.
// The sets of slots take turns here too, so that one barrier a phase is enough.
template <int p, typename Acc> __device__ inline void reduce_row(Acc &acc, int turn)
{
    auto fold = [](Acc &into, const Acc &from) { combine(into, from); };
    if constexpr (Spec::threads_per_row <= 32) {
        warp_reduce<Spec::threads_per_row>(acc, fold);
    } else {
        constexpr int warps = Spec::threads_per_row / 32;
        const int set = Spec::phases % 2 ? (p + turn) % 2 : p % 2;
        Acc *shared = (Acc *)(dynamic_shared() + set * (Spec::threads / 32) * Spec::acc_bytes) +
                      threadIdx.x / Spec::threads_per_row * warps;
        block_reduce<Spec::threads_per_row, false>(acc, fold, shared);
    }
    if constexpr (Spec::cluster > 1)
        reduce_cluster<p>(acc, turn);
}

#include "joined.cuh"

__device__ inline index_t column_of(index_t item)
{
    index_t thread = threadIdx.x % Spec::threads_per_row;
    if constexpr (Spec::cluster > 1)
        thread += blockIdx.x % Spec::cluster * Spec::threads_per_row;
    return (item * (Spec::threads_per_row * Spec::cluster) + thread) * Spec::vec;
}

// Bytes of shared memory of one vector of every thread, of one of the two buffers.
__device__ inline unsigned char *staged_region(int buffer, int item)
{
    return dynamic_shared() + Spec::staging_at +
           (buffer * Spec::items + item) * Spec::threads * Spec::staged_bytes;
}

// Hands the parked vectors in the columns that the row has to `use`, one by one.
template <typename Use>
__device__ inline void for_parked(const Args &args, index_t r, const Use &use)
{
#pragma unroll 2
    for (int i = 0; i < Spec::parked; i++) {
        const index_t c = column_of(Spec::items + i);
        if (c < Spec::cols) {
            Elements<Spec::vec> e;
            read_staged(staged_region(0, i), e);
            load_elements(args, r, c, e);
            use(c, e);
        }
    }
}

// How a row is read that is, or is not, read again.
template <bool again> struct RowReads {
    typedef ReadOnly How;
};
template <> struct RowReads<true> {
    typedef ReadAgain How;
};

template <int p> struct Phases {
    // The row in registers.
    static __device__ inline void run(const Args &args, index_t r, bool live, Row (&row)[1],
                                      Elements<Spec::vec> (&e)[Spec::items], int turn = 0)
    {
        if constexpr (p > 0)
            Phases<p - 1>::run(args, r, live, row, e, turn);
        typename Phase<p>::Acc acc[1];
        identity(acc[0]);
#pragma unroll
        for (int i = 0; i < Spec::items; i++)
            if (live && column_of(i) < Spec::cols)
                accumulate(args, r, column_of(i), row, e[i], acc);
        if constexpr (Spec::parked > 0) {
            if constexpr (p == 0)
                wait_copies<0>();
            for_parked(args, r, [&](index_t c, Elements<Spec::vec> &parked) {
                accumulate(args, r, c, row, parked, acc);
            });
        }
        reduce_row<p>(acc[0], turn);
        if (live)
            finish(args, r, row[0], acc[0]);
    }

    // The row from memory, which the caches keep for the next time.  Two levels of accumulators, so
    // that no sum is one long chain.
    static __device__ inline void stream(const Args &args, index_t r, bool live, Row (&row)[1],
                                         int turn)
    {
        if constexpr (p > 0)
            Phases<p - 1>::stream(args, r, live, row, turn);
        constexpr index_t n_items = (Spec::cols + Spec::vec * Spec::threads_per_row - 1) /
                                    (Spec::vec * Spec::threads_per_row);
        using How = typename RowReads<(p < Spec::phases - 1 || stores_elements)>::How;
        typename Phase<p>::Acc acc[1];
        identity(acc[0]);
        for (index_t first = 0; live && first < n_items; first += 32) {
            typename Phase<p>::Acc part[1];
            identity(part[0]);
#pragma unroll 4
            for (index_t i = first; i < first + 32; i++)
                if (column_of(i) < Spec::cols) {
                    Elements<Spec::vec> e;
                    load_elements<Spec::vec, How>(args, r, column_of(i), e);
                    accumulate(args, r, column_of(i), row, e, part);
                }
            combine(acc[0], part[0]);
        }
        reduce_row<p>(acc[0], turn);
        if (live)
            finish(args, r, row[0], acc[0]);
    }
};

// Joined phases, of which each warp has a part.
template <int p>
__device__ inline void run_joined(const Args &args, index_t r, bool live, Row (&row)[1],
                                  Elements<Spec::vec> (&e)[Spec::items])
{
    constexpr int warps = Spec::threads_per_row > 32 ? Spec::threads_per_row / 32 : 1;
    static_assert(!joined || (Spec::cluster == 1 && Spec::parked == 0), "a block has the row");
    static_assert(!joined || (warps > 1 && (warps & (warps - 1)) == 0), "a power of two of warps");
    static_assert(sizeof(Both<p>) <= Spec::acc_bytes, "there is shared memory for it");
    auto fold = [](auto &into, const auto &from) { combine(into, from); };
    auto columns_of = [](int warp) {
        return columns_of_part(warp, 32 * Spec::vec, (index_t)Spec::threads_per_row * Spec::vec);
    };
    const int lane = threadIdx.x % 32, warp = threadIdx.x % Spec::threads_per_row / 32;
    typename Phase<p>::Acc first[1];
    typename Phase<p + 1>::Acc second[1];
    Row own[1] = {row[0]};
    identity(first[0]);
    identity(second[0]);
#pragma unroll
    for (int i = 0; i < Spec::items; i++)
        if (live && column_of(i) < Spec::cols)
            accumulate(args, r, column_of(i), row, e[i], first);
    warp_reduce<32>(first[0], fold);
    if (live)
        finish_part(args, r, first[0], columns_of(warp), own[0]);
#pragma unroll
    for (int i = 0; i < Spec::items; i++)
        if (live && column_of(i) < Spec::cols)
            accumulate(args, r, column_of(i), own, e[i], second);
    warp_reduce<32>(second[0], fold);
    Both<p> *shared = (Both<p> *)dynamic_shared() + threadIdx.x / Spec::threads_per_row * warps;
    if (lane == 0)
        shared[warp] = {first[0], second[0]};
    __syncthreads(); // every warp's part is written before any is read
    Both<p> of[1] = {shared[lane % warps]};
    const Both<p> all = join_parts<p, warps>(args, r, row[0], of, 1,
                                             [&](int) { return columns_of(lane % warps); });
    if constexpr (Spec::looped)
        __syncthreads(); // every part is read before those of the next row are written
    if (live) {
        finish(args, r, row[0], all.first);
        finish(args, r, row[0], all.second);
    }
}

// All phases of a row in registers.
template <int phases = Spec::phases>
__device__ inline void run_phases(const Args &args, index_t r, bool live, Row (&row)[1],
                                  Elements<Spec::vec> (&e)[Spec::items], int turn = 0)
{
    if constexpr (joined)
        run_joined<phases - 2>(args, r, live, row, e);
    else
        Phases<phases - 1>::run(args, r, live, row, e, turn);
}

// Vectors whose late loads do not wait for the reductions: those of the others, which do, hide
// behind what is done with these.
constexpr int n_soon = Spec::parked > 0 ? 0 : 1;

__device__ inline void resident_row(const Args &args, index_t r, bool live, Row (&row)[1],
                                    int turn = 0)
{
    Elements<Spec::vec> e[Spec::items];
#pragma unroll
    for (int i = 0; i < Spec::items; i++)
        if (live && column_of(i) < Spec::cols) {
            load_staged(args, r, column_of(i), e[i]);
            load_elements(args, r, column_of(i), e[i]);
        }
#pragma unroll
    for (int i = 0; i < Spec::items && i < n_soon; i++)
        if (live && column_of(i) < Spec::cols)
            load_late(args, r, column_of(i), e[i]);
    run_phases(args, r, live, row, e, turn);
#pragma unroll
    for (int i = 0; i < Spec::items; i++)
        if (live && column_of(i) < Spec::cols) {
            if (i >= n_soon)
                load_late(args, r, column_of(i), e[i]);
            store_elements(args, r, column_of(i), row, e[i]);
        }
}

__device__ inline void streamed_row(const Args &args, index_t r, bool live, Row (&row)[1],
                                    int turn)
{
    Phases<Spec::phases - 1>::stream(args, r, live, row, turn);
#pragma unroll 4
    for (index_t c = column_of(0); live && c < Spec::cols; c += Spec::vec * Spec::threads_per_row) {
        Elements<Spec::vec> e;
        load_elements<Spec::vec, ReadLast>(args, r, c, e);
        load_late(args, r, c, e);
        store_elements(args, r, c, row, e);
    }
}

__device__ inline index_t row_of(index_t group)
{
    return group * Spec::rows_per_block + threadIdx.x / Spec::threads_per_row;
}

constexpr index_t n_groups = (Spec::rows + Spec::rows_per_block - 1) / Spec::rows_per_block;

// Sends the rows of a group on their way; a group past the last one still counts as a group of
// copies.
__device__ inline void issue_rows(const Args &args, index_t group, int buffer, Row &row)
{
    const index_t r = row_of(group);
    if (group < n_groups && r < Spec::rows) {
#pragma unroll
        for (int i = 0; i < Spec::items; i++)
            if (column_of(i) < Spec::cols)
                stage_elements(args, r, column_of(i), staged_region(buffer, i));
        load_row(args, r, row);
    }
    commit_copies();
}

__device__ inline void arrived_row(const Args &args, index_t r, int buffer, Row (&row)[1],
                                   Elements<Spec::vec> (&e)[Spec::items], int turn)
{
    const bool live = r < Spec::rows;
#pragma unroll
    for (int i = 0; i < Spec::items; i++)
        if (live && column_of(i) < Spec::cols) {
            read_staged(staged_region(buffer, i), e[i]);
            load_elements(args, r, column_of(i), e[i]);
        }
    run_phases(args, r, live, row, e, turn);
#pragma unroll
    for (int i = 0; i < Spec::items; i++)
        if (live && column_of(i) < Spec::cols)
            store_elements(args, r, column_of(i), row, e[i]);
    if (live && threadIdx.x % Spec::threads_per_row == 0)
        store_row(args, r, row[0]);
}

__device__ inline void staged_rows(const Args &args)
{
    Elements<Spec::vec> e[Spec::items];
#pragma unroll
    for (int i = 0; i < Spec::items; i++)
        if (column_of(i) < Spec::cols)
            load_columns(args, column_of(i), e[i]);
    Row row[1] = {}, next = {};
    int buffer = 0, turn = 0;
    issue_rows(args, blockIdx.x, buffer, row[0]);
    for (index_t group = blockIdx.x; group < n_groups; group += gridDim.x) {
        issue_rows(args, group + gridDim.x, buffer ^ 1, next);
        wait_copies<1>();
        arrived_row(args, row_of(group), buffer, row, e, turn);
        turn += Spec::phases;
        row[0] = next;
        buffer ^= 1;
    }
}

__device__ inline void plain_group(const Args &args, index_t group, int turn = 0)
{
    const index_t r = row_of(group);
    const bool live = Spec::rows % Spec::rows_per_block == 0 || r < Spec::rows;
    Row row[1];
    if (live)
        load_row(args, r, row[0]);
    if constexpr (Spec::resident)
        resident_row(args, r, live, row, turn);
    else
        streamed_row(args, r, live, row, turn);
    if (live && threadIdx.x % Spec::threads_per_row == 0)
        store_row(args, r, row[0]);
}

// A row in registers has a block of its own where it can: a loop would take registers from it.
__device__ inline void plain_rows(const Args &args, index_t first)
{
    if constexpr (!Spec::looped) {
        plain_group(args, first);
    } else {
        int turn = 0;
        for (index_t group = first; group < n_groups; group += gridDim.x, turn += Spec::phases)
            plain_group(args, group, turn);
    }
}

// A block's share of one row, or all of it.
__device__ inline void cluster_row(const Args &args)
{
    if constexpr (Spec::cluster > 1)
        cluster_arrive();
    const index_t r = blockIdx.x / Spec::cluster;
    for (int i = 0; i < Spec::parked; i++)
        if (column_of(Spec::items + i) < Spec::cols)
            stage_elements(args, r, column_of(Spec::items + i), staged_region(0, i));
    commit_copies();
    Row row[1];
    load_row(args, r, row[0]);
    resident_row(args, r, true, row);
    for_parked(args, r, [&](index_t c, Elements<Spec::vec> &e) {
        load_late(args, r, c, e);
        store_elements(args, r, c, row, e);
    });
    if (blockIdx.x % Spec::cluster == 0 && threadIdx.x == 0)
        store_row(args, r, row[0]);
}

// Sends a cluster's next row on its way, where there is one.
__device__ inline void issue_row(const Args &args, index_t r, Row &row)
{
    if (r < Spec::rows) {
#pragma unroll
        for (int i = 0; i < Spec::items; i++)
            if (column_of(i) < Spec::cols)
                stage_elements(args, r, column_of(i), staged_region(0, i));
        load_row(args, r, row);
    }
    commit_copies();
}

__device__ inline void staged_clusters(const Args &args)
{
    Elements<Spec::vec> e[Spec::items];
    Row row[1], next = {};
    int turn = 0;
    cluster_arrive();
    issue_row(args, blockIdx.x / Spec::cluster, next);
    cluster_wait(); // every block has begun, so that its shared memory is there
    for (index_t r = blockIdx.x / Spec::cluster; r < Spec::rows; r += gridDim.x / Spec::cluster) {
        wait_copies<0>();
        row[0] = next;
#pragma unroll
        for (int i = 0; i < Spec::items; i++)
            if (column_of(i) < Spec::cols) {
                read_staged(staged_region(0, i), e[i]);
                load_elements(args, r, column_of(i), e[i]);
            }
        issue_row(args, r + gridDim.x / Spec::cluster, next);
        run_phases(args, r, true, row, e, turn);
#pragma unroll
        for (int i = 0; i < Spec::items; i++)
            if (column_of(i) < Spec::cols) {
                load_late(args, r, column_of(i), e[i]);
                store_elements(args, r, column_of(i), row, e[i]);
            }
        if (blockIdx.x % Spec::cluster == 0 && threadIdx.x == 0)
            store_row(args, r, row[0]);
        turn += Spec::phases;
    }
}

// first: this block's number among those that do this
__device__ inline void run(const Args &args, index_t first = blockIdx.x)
{
    if constexpr (Spec::staged && Spec::cluster > 1)
        staged_clusters(args);
    else if constexpr (Spec::staged)
        staged_rows(args);
    else if constexpr (Spec::cluster > 1 || Spec::parked > 0)
        cluster_row(args);
    else
        plain_rows(args, first);
}

#ifdef KERNEL
extern "C" __global__ void __launch_bounds__(Spec::threads, Spec::blocks_per_sm)
    KERNEL(const __grid_constant__ Args args)
{
    run(args);
}
#endif
