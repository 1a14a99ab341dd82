// async.cuh: copies from global to shared memory that the thread does not wait for (sm_80 and
// later).
//
// A thread issues copies, closes them into a group with commit_copies, and before it reads them
// waits until all but the newest N groups have arrived.  What a thread copied it may read without a
// barrier.
#pragma once
#include "types.cuh"

// T is 4, 8 or 16 bytes long, and both addresses are aligned to it.
template <typename T> __device__ __forceinline__ void copy_async(T *shared, const T *global)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "what cp.async moves");
#ifdef QUERN_HOST
    host_check_aligned(global, sizeof(T));
    host_check_aligned(shared, sizeof(T));
    memcpy((void *)shared, (const void *)global, sizeof(T));
#elif __CUDA_ARCH__ >= 800
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    if constexpr (sizeof(T) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                     :
                     : "r"(to), "l"(global), "n"(sizeof(T))
                     : "memory");
#else
    *shared = *global;
#endif
}

__device__ __forceinline__ void commit_copies()
{
#if !defined(QUERN_HOST) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int newest> __device__ __forceinline__ void wait_copies()
{
#if !defined(QUERN_HOST) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(newest) : "memory");
#endif
}

// This thread's T in a region of shared memory that holds one for each thread, `before` bytes into
// it.
template <typename T> __device__ __forceinline__ T *thread_slot(unsigned char *region, int before)
{
    return (T *)(region + before) + threadIdx.x;
}
