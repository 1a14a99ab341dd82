// cluster.cuh: blocks that run at once, with a barrier of their own and each other's shared memory
// (sm_90 and later; kernel->cluster says how many).
//
// A block's shared memory is there from its beginning to its end.  So one barrier comes before the
// first access to another block's, and one after the last.
#pragma once
#include "types.cuh"

#ifdef QUERN_HOST

__device__ inline unsigned cluster_rank()
{
    return host_self->rank;
}

__device__ inline void cluster_arrive(HOST_PLACE)
{
    host_place at = {"cluster_arrive", file, line};
    host_self->arrive(host_self, &at);
}

__device__ inline void cluster_wait(HOST_PLACE)
{
    host_place at = {"cluster_wait", file, line};
    host_self->await(host_self, &at);
}

__device__ inline void cluster_barrier(HOST_PLACE)
{
    cluster_arrive(file, line);
    cluster_wait(file, line);
}

template <typename T> __device__ inline T *remote(const T *own, unsigned rank)
{
    T *there = (T *)host_self->remote(host_self, (void *)own, sizeof(T), rank);
    host_check_aligned(there, alignof(T));
    return there;
}

template <typename T> __device__ inline void store_remote(T *own, unsigned rank, const T &value)
{
    *remote(own, rank) = value;
}

template <typename T> __device__ inline T load_remote(const T *own, unsigned rank)
{
    return *remote(own, rank);
}

#else

// The block's number in its cluster.
__device__ __forceinline__ unsigned cluster_rank()
{
    unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}

// The two halves of a barrier: who has waited sees what any thread of the cluster wrote before it
// arrived.  Every thread takes part, whole warps together.

__device__ __forceinline__ void cluster_arrive()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void cluster_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void cluster_barrier()
{
    cluster_arrive();
    cluster_wait();
}

// The address, in the cluster's window, of the same place in the shared memory of another block.
__device__ __forceinline__ uint32 remote_address(const void *own, unsigned rank)
{
    uint32 there = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there)
                 : "r"((uint32)__cvta_generic_to_shared(own)), "r"(rank));
#endif
    return there;
}

// A value of whole words, to and from where `own` is in the shared memory of the block of that
// rank.

template <typename T>
__device__ __forceinline__ void store_remote(T *own, unsigned rank, const T &value)
{
    static_assert(sizeof(T) % 4 == 0, "whole words");
    uint32 word[sizeof(T) / 4], there = remote_address(own, rank);
    memcpy(word, &value, sizeof value);
#if __CUDA_ARCH__ >= 900
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / 4); i++)
        asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there + 4 * i), "r"(word[i])
                     : "memory");
#endif
}

template <typename T> __device__ __forceinline__ T load_remote(const T *own, unsigned rank)
{
    static_assert(sizeof(T) % 4 == 0, "whole words");
    uint32 word[sizeof(T) / 4] = {}, there = remote_address(own, rank);
#if __CUDA_ARCH__ >= 900
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / 4); i++)
        asm volatile("ld.shared::cluster.u32 %0, [%1];"
                     : "=r"(word[i])
                     : "r"(there + 4 * i)
                     : "memory");
#endif
    T value;
    memcpy(&value, word, sizeof value);
    return value;
}

#endif
