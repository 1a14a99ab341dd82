// gemm_tiles.h: how templates/gemm.cuh cuts a contraction, chosen from sizes and a target
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct target;

struct gemm_problem {
    int64_t batch, m, n, k;
    int acc_bytes;             // of Acc: 4 or 8
    bool floating;             // sums round, so that long ones are promoted
    bool a_along_k, b_along_k; // as in specs.def
    // The widest vectors that alignment, extents and element types allow: powers of two that divide
    // k or m, k or n, and n.
    int vec_a, vec_b, vec_c;
    // Twice vec_a and vec_b, where memory goes on and a prologue has it dear; else as these.
    int wide_a, wide_b;
    int parts_a, parts_b; // bfloat16 numbers that make up an element; 0: none do
    double ops_a, ops_b;  // of the prologue, for an element
    int extra_registers;  // that the prologue holds in a thread beyond plain loads of one vector
                          // each
    int phase_threads;    // of a block; 0: as many as are best
    bool alone_on_sm;     // a block is, and walks through tiles
};

// The fields of specs.def that do not come from the problem, under the same names.
struct gemm_tile {
    int block_m, block_n, block_k, thread_m, thread_n, lanes_n, split, promote_k, raster;
    int threads, blocks_per_sm, shared_bytes, vec_a, vec_b, vec_c, parts_a, parts_b;
    int64_t blocks; // the grid: at least 1, also where there is nothing to compute
    bool looped;    // there are more tiles than that
    double clocks;  // predicted for the busiest SM
};

// Of the parts of two elements, how many are multiplied.
int products_of_parts(int parts_a, int parts_b);

// The tiles that the target can run, fastest first by the cost model, at most `max`.  There is
// always one, but for a phase.
int gemm_tiles(const struct target *t, const struct gemm_problem *p, struct gemm_tile *tiles,
               int max);
