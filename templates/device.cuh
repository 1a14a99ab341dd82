// device.cuh: what every kernel includes first: types, arithmetic, memory access, warp and block
// steps.
#pragma once
#include "types.cuh"
#include "math.cuh"
#include "memory.cuh"
#include "async.cuh"
#include "reduce.cuh"
#include "registers.cuh"
