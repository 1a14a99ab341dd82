// reduce.cuh: many threads' accumulators to one, for any accumulator and any way to combine two of
// them.
//
// Acc is trivially copyable and a multiple of 4 bytes long; combine(into, from) folds `from` into
// `into`, and gives the same bits either way round.  What is combined with what is fixed, so every
// thread ends with the same bits and every run with the same ones.  Blocks are one-dimensional in
// threads.
#pragma once
#include "math.cuh"
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

// The largest of a warp's numbers
#ifdef QUERN_HOST
__device__ inline uint32 warp_largest(uint32 x, HOST_PLACE)
{
    const host_lanes<uint32> all = host_gather("redux", x, file, line);
    for (uint32 other : all.of)
        x = other > x ? other : x;
    return x;
}
#else
__device__ __forceinline__ uint32 warp_largest(uint32 x)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xffffffffu, x);
#else
    for (int flip = 1; flip < 32; flip *= 2) {
        const uint32 other = __shfl_xor_sync(0xffffffffu, x, flip);
        x = other > x ? other : x;
    }
    return x;
#endif
}
#endif

// Floats as numbers in the same order, as maximum and minimum have it: -0 before +0, and NaN,
// whichever it is, behind all others; and back.
__device__ __forceinline__ uint32 rank_of(float x)
{
    const uint32 bits = bits_of(x);
    return x == x ? bits ^ ((uint32)((int)bits >> 31) | 0x80000000u) : 0xffffffffu;
}

__device__ __forceinline__ float of_rank(uint32 rank)
{
    return of_bits(rank >> 31 ? rank ^ 0x80000000u : ~rank);
}

__device__ __forceinline__ float warp_maximum(float x)
{
    return of_rank(warp_largest(rank_of(x)));
}

// One further, so that NaN is before all others.
__device__ __forceinline__ float warp_minimum(float x)
{
    return of_rank(~warp_largest(~(rank_of(x) + 1)) - 1);
}

// What all 32 lanes combine to, where there is a faster way to that than lane by lane: generated
// for such accumulators.
template <typename Acc> __device__ __forceinline__ bool over_warp(Acc &)
{
    return false;
}

// Over groups of WIDTH consecutive lanes (a power of two, at most 32).  All 32 lanes of the warp
// call it, and each gets its group's result.  alike: all groups have the same values.
template <int WIDTH, bool alike = false, typename Acc, typename Combine>
__device__ __forceinline__ void warp_reduce(Acc &acc, Combine combine)
{
    static_assert(WIDTH >= 1 && WIDTH <= 32 && (WIDTH & (WIDTH - 1)) == 0,
                  "a power of two up to 32");
    if constexpr (WIDTH == 32 || (alike && WIDTH > 2))
        if (over_warp(acc))
            return;
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
            warp_reduce<warps, true>(acc, combine);
        } else {
            acc = shared[0];
            for (int i = 1; i < warps; i++)
                combine(acc, shared[i]);
        }
        if constexpr (again)
            __syncthreads(); // every result is read before the next call writes there
    }
}
