// grid.cuh: a barrier of all blocks of a cooperative launch, which the driver puts on the GPU all
// at once (kernel->cooperative).
//
// What any thread wrote before the barrier is seen by every thread past it, through load_coherent.
// Every thread takes part.
#pragma once
#include "types.cuh"

#ifdef QUERN_HOST

__device__ inline void grid_barrier(unsigned *, HOST_PLACE)
{
    host_place at = {"grid_barrier", file, line};
    host_self->arrive(host_self, &at);
    host_self->await(host_self, &at);
}

#else

__device__ __forceinline__ unsigned add_release(unsigned *counter, unsigned n)
{
    unsigned before;
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter), "r"(n)
                 : "memory");
    return before;
}

__device__ __forceinline__ unsigned load_acquire(const unsigned *counter)
{
    unsigned now;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    return now;
}

// The blocks' shares add up to the highest bit, which therefore changes when the last one arrives;
// the other bits are then as they were.  So the counter needs no reset, whatever its highest bit is
// when a launch begins, and one counter serves all barriers of a launch, since nobody arrives at
// the next one before this one is passed.  (The way that cooperative groups synchronise a grid.)
__device__ inline void grid_barrier(unsigned *counter)
{
    constexpr unsigned highest = 0x80000000u;
    __syncthreads(); // the whole block has arrived
    if (threadIdx.x == 0) {
        const unsigned share = blockIdx.x == 0 ? highest - (gridDim.x - 1) : 1;
        const unsigned before = add_release(counter, share);
        while (((load_acquire(counter) ^ before) & highest) == 0)
            ;
    }
    __syncthreads(); // and may go on
}

#endif
