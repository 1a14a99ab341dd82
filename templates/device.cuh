// device.cuh: what every kernel includes first: types, arithmetic, memory access, warp, block and
// cluster steps.
#pragma once
#include "async.cuh"
#include "cluster.cuh"
#include "grid.cuh"
#include "math.cuh"
#include "memory.cuh"
#include "reduce.cuh"
#include "registers.cuh"
#include "types.cuh"
