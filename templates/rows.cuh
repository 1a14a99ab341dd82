// rows.cuh: chained reductions along rows, with the row kept on chip between them.
//
// Generated before this: Row (values of a whole row), Elements<lanes>, load_row, load_elements,
// store_elements, store_row, and for each phase p of reductions an accumulator Phase<p>::Acc with
// identity, accumulate, combine and finish (which turns the row's sum into values of Row).
//
// Spec::threads_per_row threads share a row: some lanes of a warp, or several warps.  Where the row
// fits (Spec::resident) each thread keeps Spec::items vectors of it in registers through all
// phases; a longer row is read again by every phase.

// Every thread of the block takes part, those past the last row too: barriers count all of them.
template <typename Acc> __device__ inline void reduce_row(Acc &acc)
{
    auto fold = [](Acc &into, const Acc &from) { combine(into, from); };
    if constexpr (Spec::threads_per_row <= 32) {
        warp_reduce<Spec::threads_per_row>(acc, fold);
    } else {
        constexpr int warps = Spec::threads_per_row / 32;
        Acc *shared = (Acc *)dynamic_shared() + threadIdx.x / Spec::threads_per_row * warps;
        block_reduce<Spec::threads_per_row>(acc, fold, shared);
    }
}

__device__ inline index_t column_of(index_t item)
{
    return (item * Spec::threads_per_row + threadIdx.x % Spec::threads_per_row) * Spec::vec;
}

template <int p> struct Phases {
    // The row in registers.
    static __device__ inline void run(const Args &args, index_t r, bool live, Row (&row)[1],
                                      Elements<Spec::vec> (&e)[Spec::items])
    {
        if constexpr (p > 0)
            Phases<p - 1>::run(args, r, live, row, e);
        typename Phase<p>::Acc acc[1];
        identity(acc[0]);
#pragma unroll
        for (int i = 0; i < Spec::items; i++)
            if (live && column_of(i) < Spec::cols)
                accumulate(args, r, column_of(i), row, e[i], acc);
        reduce_row(acc[0]);
        if (live)
            finish(args, r, row[0], acc[0]);
    }

    // The row from memory.  Two levels of accumulators, so that no sum is one long chain.
    static __device__ inline void stream(const Args &args, index_t r, bool live, Row (&row)[1])
    {
        if constexpr (p > 0)
            Phases<p - 1>::stream(args, r, live, row);
        constexpr index_t n_items = (Spec::cols + Spec::vec * Spec::threads_per_row - 1) /
                                    (Spec::vec * Spec::threads_per_row);
        typename Phase<p>::Acc acc[1];
        identity(acc[0]);
        for (index_t first = 0; live && first < n_items; first += 32) {
            typename Phase<p>::Acc part[1];
            identity(part[0]);
#pragma unroll 4
            for (index_t i = first; i < first + 32; i++)
                if (column_of(i) < Spec::cols) {
                    Elements<Spec::vec> e;
                    load_elements(args, r, column_of(i), e);
                    accumulate(args, r, column_of(i), row, e, part);
                }
            combine(acc[0], part[0]);
        }
        reduce_row(acc[0]);
        if (live)
            finish(args, r, row[0], acc[0]);
    }
};

__device__ inline void resident_row(const Args &args, index_t r, bool live, Row (&row)[1])
{
    Elements<Spec::vec> e[Spec::items];
#pragma unroll
    for (int i = 0; i < Spec::items; i++)
        if (live && column_of(i) < Spec::cols)
            load_elements(args, r, column_of(i), e[i]);
    Phases<Spec::phases - 1>::run(args, r, live, row, e);
#pragma unroll
    for (int i = 0; i < Spec::items; i++)
        if (live && column_of(i) < Spec::cols) {
            load_late(args, r, column_of(i), e[i]);
            store_elements(args, r, column_of(i), row, e[i]);
        }
}

__device__ inline void streamed_row(const Args &args, index_t r, bool live, Row (&row)[1])
{
    Phases<Spec::phases - 1>::stream(args, r, live, row);
#pragma unroll 4
    for (index_t c = column_of(0); live && c < Spec::cols; c += Spec::vec * Spec::threads_per_row) {
        Elements<Spec::vec> e;
        load_elements(args, r, c, e);
        load_late(args, r, c, e);
        store_elements(args, r, c, row, e);
    }
}

extern "C" __global__ void __launch_bounds__(Spec::threads)
    KERNEL(const __grid_constant__ Args args)
{
    const index_t step = (index_t)gridDim.x * Spec::rows_per_block;
    index_t first = (index_t)blockIdx.x * Spec::rows_per_block;
    for (; first < Spec::rows; first += step) {
        const index_t r = first + threadIdx.x / Spec::threads_per_row;
        const bool live = Spec::rows % Spec::rows_per_block == 0 || r < Spec::rows;
        Row row[1];
        if (live)
            load_row(args, r, row[0]);
        if constexpr (Spec::resident)
            resident_row(args, r, live, row);
        else
            streamed_row(args, r, live, row);
        if (live && threadIdx.x % Spec::threads_per_row == 0)
            store_row(args, r, row[0]);
    }
}
