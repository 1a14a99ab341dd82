// grid.cuh: how one kernel of a plan follows another (programmatic dependent launch, sm_90 and
// later).
//
// Every kernel lets the next one of its plan be launched as soon as all blocks of its own have
// begun, and a kernel that was launched so waits here, before it touches memory, until everything
// the kernels before it did is done and can be seen.  What is hidden is the launch, never an order.
#pragma once

template <bool follows> __device__ __forceinline__ void begin_kernel()
{
#if !defined(QUERN_HOST) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if constexpr (follows)
        asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
