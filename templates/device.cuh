// device.cuh: what every kernel includes first: types, arithmetic, memory access, warp, block and
// cluster steps, and what blocks hand to each other.
#pragma once
#include "async.cuh"
#include "cluster.cuh"
#include "exchange.cuh"
#include "grid.cuh"
#include "math.cuh"
#include "memory.cuh"
#include "mma.cuh"
#include "reduce.cuh"
#include "registers.cuh"
#include "types.cuh"
