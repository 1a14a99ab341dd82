// reduce.cuh: many threads' accumulators to one, for any accumulator and any way to combine two of
// them.
//
// Acc is trivially copyable and a multiple of 4 bytes long; combine(into, from) folds `from` into
// `into`, and gives the same bits either way round.  What is combined with what is fixed, so every
// thread ends with the same bits and every run with the same ones.  Blocks are one-dimensional in
// threads.
#pragma once
#include "types.cuh"

// The value of the lane whose number differs in the bits `flip`.  All 32 lanes of the warp take
// part.
template <typename T> __device__ __forceinline__ T shuffle_xor(const T &x, int flip)
{
    static_assert(sizeof(T) % 4 == 0, "shuffles move whole words");
#ifdef QUERN_HOST
    return __shfl_xor_sync(0xffffffffu, x, flip); // the host moves whole values
#else
    uint32 word[sizeof(T) / 4];
    memcpy(word, &x, sizeof x); // a union of both would be kept in local memory
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / 4); i++)
        word[i] = __shfl_xor_sync(0xffffffffu, word[i], flip);
    T y;
    memcpy(&y, word, sizeof y);
    return y;
#endif
}

// Over groups of WIDTH consecutive lanes (a power of two, at most 32).  All 32 lanes of the warp
// call it, and each gets its group's result.
template <int WIDTH, typename Acc, typename Combine>
__device__ __forceinline__ void warp_reduce(Acc &acc, Combine combine)
{
    static_assert(WIDTH >= 1 && WIDTH <= 32 && (WIDTH & (WIDTH - 1)) == 0,
                  "a power of two up to 32");
#pragma unroll
    for (int flip = 1; flip < WIDTH; flip *= 2) {
        const Acc other = shuffle_xor(acc, flip);
        combine(acc, other);
    }
}

// Over groups of THREADS consecutive threads (a multiple of 32).  Every thread of the block calls
// it, with its group's own slice of shared memory, THREADS / 32 accumulators long (not needed, and
// no barrier, for 32 threads).  Each thread gets its group's result.  again: it may be called with
// the same slice before the block's next barrier.
template <int THREADS, bool again = true, typename Acc, typename Combine>
__device__ __forceinline__ void block_reduce(Acc &acc, Combine combine, Acc *shared)
{
    static_assert(THREADS % 32 == 0 && THREADS >= 32, "whole warps");
    constexpr int warps = THREADS / 32;
    warp_reduce<32>(acc, combine);
    if constexpr (warps > 1) {
        int thread = threadIdx.x % THREADS;
        if (thread % 32 == 0)
            shared[thread / 32] = acc;
        __syncthreads(); // every warp's result is written before any is read
        if constexpr ((warps & (warps - 1)) == 0) {
            acc = shared[thread % warps];
            warp_reduce<warps>(acc, combine);
        } else {
            acc = shared[0];
            for (int i = 1; i < warps; i++)
                combine(acc, shared[i]);
        }
        if constexpr (again)
            __syncthreads(); // every result is read before the next call writes there
    }
}
