// host.cuh: what NVRTC has built in and kernels use, for the host device; included before
// everything else. Threads are fibers of runtime/host_launch.c, reached through a frame; a block's
// threads run one at a time.
#pragma once
#define QUERN_HOST
// C's own math.h: C++'s takes longer to read than a kernel to compile.
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include "host_frame.cuh"
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __constant__ static
#define __shared__ static // right where groups are of one block: others use dynamic_shared()
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__

typedef host_index uint3;
typedef host_index dim3;
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

static host_frame *host_self;

#define HOST_EXPORT extern "C" __attribute__((visibility("default")))

// Whoever launches holds it: `__shared__` variables and host_self are there once, even where a
// process opens the library twice.
HOST_EXPORT pthread_mutex_t host_running;
pthread_mutex_t host_running = PTHREAD_MUTEX_INITIALIZER;

HOST_EXPORT void host_enter(host_frame *frame)
{
    host_self = frame;
}

#define threadIdx (host_self->thread)
#define blockIdx (host_self->block)
#define blockDim (host_self->block_dim)
#define gridDim (host_self->grid_dim)

// As a last argument: where the call is written.
#define HOST_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __trap()
{
    host_self->fail(host_self, "trap");
}

static inline unsigned char *host_shared()
{
    if (!host_self->shared)
        host_self->fail(host_self, "dynamic_shared: the launch gives no shared memory");
    return host_self->shared;
}

static inline void host_check_aligned(const void *p, size_t bytes)
{
    static const char *const texts[] = {"", "misaligned 2-byte access", "misaligned 4-byte access",
                                        "misaligned 8-byte access", "misaligned 16-byte access"};
    if ((uintptr_t)p & (bytes - 1))
        host_self->fail(host_self, texts[__builtin_ctzll(bytes)]);
}

// Barriers and warps

static inline void __syncthreads(HOST_PLACE)
{
    host_place at = {"__syncthreads", file, line};
    host_self->barrier(host_self, &at);
}

// Whether any thread of the block says so.
static inline int __syncthreads_or(int vote, HOST_PLACE)
{
    static unsigned char any[1 << 16]; // of a block, by its rank in what runs at once
    host_place at = {"__syncthreads_or", file, line};
    if (host_self->rank >= sizeof any)
        host_self->fail(host_self, "__syncthreads_or: too many blocks run at once");
    any[host_self->rank] = 0;
    host_self->barrier(host_self, &at);
    any[host_self->rank] |= vote != 0;
    host_self->barrier(host_self, &at);
    int result = any[host_self->rank];
    host_self->barrier(host_self, &at); // all have read it
    return result;
}

static inline unsigned host_lane()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <typename T>
T host_shuffle(const char *what, unsigned mask, T value, unsigned source, const char *file,
               int line)
{
    T result = value;
    host_place at = {what, file, line};
    host_exchange step = {mask, source, sizeof(T), &value, &result, 0};
    host_self->exchange(host_self, &at, &step);
    return result;
}

// A lane that would reach beyond its group of `width` lanes gets its own value.

template <typename T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32, HOST_PLACE)
{
    unsigned self = host_lane(), first = self & ~(width - 1u);
    return host_shuffle("__shfl_sync", mask, value, first | (lane & (width - 1)), file, line);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32, HOST_PLACE)
{
    unsigned self = host_lane(), source = self ^ flip, end = (self | (width - 1u)) + 1;
    return host_shuffle("__shfl_xor_sync", mask, value, source < end ? source : self, file, line);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, HOST_PLACE)
{
    unsigned self = host_lane(), source = self + delta, end = (self | (width - 1u)) + 1;
    return host_shuffle("__shfl_down_sync", mask, value, source < end ? source : self, file, line);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, HOST_PLACE)
{
    unsigned self = host_lane(), first = self & ~(width - 1u);
    return host_shuffle("__shfl_up_sync", mask, value, self - first >= delta ? self - delta : self,
                        file, line);
}

// What every lane of a whole warp brings.
template <typename T> struct host_lanes {
    T of[HOST_LANES];
};

template <typename T> host_lanes<T> host_gather(const char *what, const T &value, HOST_PLACE)
{
    host_lanes<T> all;
    host_place at = {what, file, line};
    host_exchange step = {0xffffffffu, HOST_LANES, sizeof(T), &value, &all, 0};
    host_self->exchange(host_self, &at, &step);
    return all;
}

static inline unsigned host_vote(const char *what, unsigned mask, bool vote, const char *file,
                                 int line)
{
    bool result;
    host_place at = {what, file, line};
    host_exchange step = {mask, host_lane(), 1, &vote, &result, 0};
    host_self->exchange(host_self, &at, &step);
    return step.votes;
}

static inline void __syncwarp(unsigned mask = 0xffffffff, HOST_PLACE)
{
    host_vote("__syncwarp", mask, false, file, line);
}

static inline unsigned __ballot_sync(unsigned mask, bool vote, HOST_PLACE)
{
    return host_vote("__ballot_sync", mask, vote, file, line);
}

static inline bool __any_sync(unsigned mask, bool vote, HOST_PLACE)
{
    return host_vote("__any_sync", mask, vote, file, line);
}

static inline bool __all_sync(unsigned mask, bool vote, HOST_PLACE)
{
    return !host_vote("__all_sync", mask, !vote, file, line);
}

// Atomics return what was there.  Launches on other threads of the process may share the memory.

template <typename T> T atomicAdd(T *p, T x)
{
    return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST);
}

template <typename T> T atomicExch(T *p, T x)
{
    return __atomic_exchange_n(p, x, __ATOMIC_SEQ_CST);
}

template <typename T> T atomicCAS(T *p, T expected, T x)
{
    __atomic_compare_exchange_n(p, &expected, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

static inline unsigned atomicInc(unsigned *p, unsigned last)
{
    unsigned old = *p;
    while (!__atomic_compare_exchange_n(p, &old, old >= last ? 0 : old + 1, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
        ;
    return old;
}

static inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void __threadfence_block()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// Bits and integers

template <typename To, typename From> To host_bits(From x)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}

static inline unsigned __float_as_uint(float x)
{
    return host_bits<unsigned>(x);
}

static inline float __uint_as_float(unsigned x)
{
    return host_bits<float>(x);
}

static inline int __float_as_int(float x)
{
    return host_bits<int>(x);
}

static inline float __int_as_float(int x)
{
    return host_bits<float>(x);
}

static inline long long __double_as_longlong(double x)
{
    return host_bits<long long>(x);
}

static inline double __longlong_as_double(long long x)
{
    return host_bits<double>(x);
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline int __clz(int x)
{
    return x ? __builtin_clz(x) : 32;
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

template <typename T> T min(T a, T b)
{
    return b < a ? b : a;
}

template <typename T> T max(T a, T b)
{
    return a < b ? b : a;
}
