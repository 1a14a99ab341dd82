// registers.cuh: where the thread stands, read again rather than held in registers through a long
// loop.
//
// To the compiler the value is new: what is computed from it after a loop is not kept from before
// the loop.
#pragma once

__device__ __forceinline__ int fresh_thread_index()
{
#ifdef QUERN_HOST
    return threadIdx.x;
#else
    int index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
#endif
}

__device__ __forceinline__ int fresh_block_index()
{
#ifdef QUERN_HOST
    return blockIdx.x;
#else
    int index;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
    return index;
#endif
}
