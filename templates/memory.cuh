// memory.cuh: how kernels touch memory.  A value moves in pieces of at most 16 bytes, as its type
// is aligned.
//
// load, load_vec      read-only data: nothing in this launch may write it     ld.global.nc
//   ReadAgain         the same, read again soon, by this block or others   L1, L2::evict_last
//   ReadLast          the same, read again by nobody                      L1, L2::evict_first
// load_coherent       what other blocks of this launch wrote before a fence   ld.global.cg
// load_own            what this block wrote before a barrier, wherever it lies ld
// store, store_vec                                                            st.global.cg
#pragma once
#include "types.cuh"

#ifdef QUERN_HOST

template <typename W> __device__ inline W host_load(const W *p)
{
    host_check_aligned(p, sizeof(W));
    W w;
    memcpy(&w, p, sizeof(W));
    return w;
}

template <typename W> __device__ inline void host_store(W *p, W w)
{
    host_check_aligned(p, sizeof(W));
    memcpy(p, &w, sizeof(W));
}

#define __ldg host_load
#define __ldcg host_load
#define __stcg host_store

#endif

struct ReadOnly {
    template <typename W> __device__ static W load(const W *p)
    {
        return __ldg(p);
    }
};

#if !defined(QUERN_HOST) && __CUDA_ARCH__ + 0 >= 800
// 16 bytes, of which L1 and L2 keep what they have for longer or less long than anything else.
#define LOAD_KEPT(order)                                                                           \
    __device__ static uint4 load(const uint4 *p)                                                   \
    {                                                                                              \
        uint64 policy;                                                                             \
        uint4 w;                                                                                   \
        asm("createpolicy.fractional.L2::" order ".b64 %0;" : "=l"(policy));                       \
        asm("ld.global.nc.L1::" order ".L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"         \
            : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)                                           \
            : "l"(p), "l"(policy));                                                                \
        return w;                                                                                  \
    }
#else
#define LOAD_KEPT(order)
#endif

struct ReadAgain : ReadOnly {
    using ReadOnly::load;
    LOAD_KEPT("evict_last")
};

struct ReadLast : ReadOnly {
    using ReadOnly::load;
    LOAD_KEPT("evict_first")
};

#undef LOAD_KEPT

struct Coherent {
    template <typename W> __device__ static W load(const W *p)
    {
        return __ldcg(p);
    }
    template <typename W> __device__ static void store(W *p, W w)
    {
        __stcg(p, w);
    }
};

struct Own {
    template <typename W> __device__ static W load(const W *p)
    {
#ifdef QUERN_HOST
        return host_load(p);
#else
        return *p;
#endif
    }
};

// What a value of that alignment is cut into.
template <int ALIGNMENT> struct Piece {
    typedef uint4 type;
};
template <> struct Piece<8> {
    typedef uint64 type;
};
template <> struct Piece<4> {
    typedef uint32 type;
};
template <> struct Piece<2> {
    typedef unsigned short type;
};
template <> struct Piece<1> {
    typedef unsigned char type;
};

template <typename T> union Pieces {
    typedef typename Piece<alignof(T)>::type word_t;
    static constexpr int n = sizeof(T) / sizeof(word_t);
    T value;
    word_t word[n];
    __device__ Pieces()
    {
    }
};

template <typename How, typename T> __device__ __forceinline__ T load_pieces(const T *p)
{
    Pieces<T> pieces;
#pragma unroll
    for (int i = 0; i < pieces.n; i++)
        pieces.word[i] = How::load((const typename Pieces<T>::word_t *)p + i);
    return pieces.value;
}

template <typename How, typename T>
__device__ __forceinline__ void store_pieces(T *p, const T &value)
{
    Pieces<T> pieces;
    pieces.value = value;
#pragma unroll
    for (int i = 0; i < pieces.n; i++)
        How::store((typename Pieces<T>::word_t *)p + i, pieces.word[i]);
}

// One value of any trivially copyable type.

template <typename T> __device__ __forceinline__ T load(const T *p)
{
    return load_pieces<ReadOnly>(p);
}

template <typename T> __device__ __forceinline__ T load_coherent(const T *p)
{
    return load_pieces<Coherent>(p);
}

template <typename T> __device__ __forceinline__ T load_own(const T *p)
{
    return load_pieces<Own>(p);
}

template <typename T> __device__ __forceinline__ void store(T *p, const T &value)
{
    store_pieces<Coherent>(p, value);
}

// N consecutive elements; p is aligned to all of them or to 16 bytes, whichever is less.

template <typename T, int N, typename How = ReadOnly>
__device__ __forceinline__ Vec<T, N> load_vec(const T *p)
{
    return load_pieces<How>((const Vec<T, N> *)p);
}

template <typename T, int N> __device__ __forceinline__ Vec<T, N> load_coherent_vec(const T *p)
{
    return load_pieces<Coherent>((const Vec<T, N> *)p);
}

template <typename T, int N> __device__ __forceinline__ Vec<T, N> load_own_vec(const T *p)
{
    return load_pieces<Own>((const Vec<T, N> *)p);
}

template <typename T, int N> __device__ __forceinline__ void store_vec(T *p, const Vec<T, N> &v)
{
    store_pieces<Coherent>((Vec<T, N> *)p, v);
}

// The block's shared memory whose size the launch gives: kernel->shared_bytes, aligned to 128
// bytes.
__device__ __forceinline__ unsigned char *dynamic_shared()
{
#ifdef QUERN_HOST
    return host_shared();
#else
    extern __shared__ unsigned char dynamic_shared_bytes[] __attribute__((aligned(128)));
    return dynamic_shared_bytes;
#endif
}

// What this thread wrote before is seen by every thread that sees what it writes after.
__device__ __forceinline__ void memory_fence()
{
    __threadfence();
}

// Draws the next number from a counter that blocks share.
__device__ __forceinline__ unsigned atomic_ticket(unsigned *counter)
{
    return atomicAdd(counter, 1u);
}
