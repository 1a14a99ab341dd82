// cluster.cuh: blocks that run at once, with a barrier of their own and each other's shared memory
// (sm_90 and later; kernel->cluster says how many).
//
// A block's shared memory is there from its beginning to its end.  So one barrier comes before the
// first access to another block's, and one after the last.
//
// What is sent to a block wakes those that wait for it there, once so many bytes have come: no
// block waits for more than it needs, and nothing but what is sent is made visible.  A block that
// has received all that is sent to it may end.
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

// The host has all blocks wait for each other.

struct Inbox {
    uint64 left; // keeps the size of the device's
};

__device__ inline void open_inbox(Inbox *, unsigned, bool)
{
}

template <typename T>
__device__ inline void send(T *own, unsigned rank, const T &value, Inbox *)
{
    store_remote(own, rank, value);
}

__device__ inline void receive_all(Inbox *, HOST_PLACE)
{
    host_place at = {"receive_all", file, line};
    host_self->arrive(host_self, &at);
    host_self->await(host_self, &at);
}

__device__ inline void cluster_enter(HOST_PLACE)
{
    cluster_arrive(file, line);
}

__device__ inline void cluster_entered(HOST_PLACE)
{
    cluster_wait(file, line);
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

// An mbarrier
struct Inbox {
    uint64 state;
};

// Before any block sends: cluster_enter and cluster_entered come between.  Every thread calls it,
// one with `opens`.  bytes: that are sent to this block in all
__device__ __forceinline__ void open_inbox(Inbox *inbox, unsigned bytes, bool opens)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.u32 p, %2, 0;\n"
                 "@p mbarrier.init.shared::cta.b64 [%0], 1;\n"
                 "@p fence.mbarrier_init.release.cluster;\n"
                 "@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n"
                 "}" ::"r"((uint32)__cvta_generic_to_shared(inbox)),
                 "r"(bytes), "r"((uint32)opens)
                 : "memory");
#endif
}

// As store_remote, and told to the inbox there.
template <typename T>
__device__ __forceinline__ void send(T *own, unsigned rank, const T &value, Inbox *inbox)
{
    static_assert(sizeof(T) % 4 == 0, "whole words");
    uint32 word[sizeof(T) / 4];
    const uint32 there = remote_address(own, rank), told = remote_address(inbox, rank);
    memcpy(word, &value, sizeof value);
#if __CUDA_ARCH__ >= 900
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / 4); i++)
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, "
                     "[%2];" ::"r"(there + 4 * i),
                     "r"(word[i]), "r"(told)
                     : "memory");
#endif
}

// Until all has come that the inbox was opened for, after which every thread sees it.
__device__ __forceinline__ void receive_all(Inbox *inbox)
{
#if __CUDA_ARCH__ >= 900
    const uint32 at = (uint32)__cvta_generic_to_shared(inbox);
    uint32 done = 0;
    while (!done)
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done)
                     : "r"(at)
                     : "memory");
#endif
}

// The first barrier of a cluster: this block has begun, and all have.  What a thread wrote between
// need not be seen past it.  The branches back, which no grid takes, hold the compiler to the order
// of loads and barrier that is written: it knows nothing of how long a barrier takes, and would put
// the arrival off until loads have come, or the loads until all have begun.
__device__ __forceinline__ void cluster_enter()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 ".reg .u32 n;\n"
                 "ENTER: barrier.cluster.arrive.relaxed.aligned;\n"
                 "mov.u32 n, %%nctaid.x;\n"
                 "setp.eq.u32 p, n, %0;\n"
                 "@p bra ENTER;\n"
                 "}" ::"r"(0x7fffffff)
                 : "memory");
#endif
}

__device__ __forceinline__ void cluster_entered()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 ".reg .u32 n;\n"
                 "ENTERED: barrier.cluster.wait.acquire.aligned;\n"
                 "mov.u32 n, %%nctaid.x;\n"
                 "setp.eq.u32 p, n, %0;\n"
                 "@p bra ENTERED;\n"
                 "}" ::"r"(0x7fffffff)
                 : "memory");
#endif
}

#endif
