// gemm_simt.cuh: a contraction (gemm.cuh) on the ordinary arithmetic units, for every type.
//
// A thread owns thread_m x thread_n of C as runs of 16 bytes, spread over its warp's tile:
//
//     run of lane 0 | run of lane 1 | ... | next run of lane 0 | next run of lane 1 | ...
//
// In shared memory m and n are contiguous, so that a thread reads its operands 16 bytes at a time.

// How C is dealt out to the lanes of a warp: runs of run_m rows and run_n columns
struct Lanes {
    static constexpr int run = 16 / sizeof(Acc);
    static constexpr int run_m = Spec::thread_m < run ? Spec::thread_m : run;
    static constexpr int run_n = Spec::thread_n < run ? Spec::thread_n : run;
    static constexpr int m = 32 / Spec::lanes_n;

    // Lanes 2i and 2i + 1 share their columns, lanes i and i + 2 in the same four their rows: half
    // a warp then reads 16-byte runs of either operand in one pass.
    static __device__ inline int m_of(unsigned lane)
    {
        return m > 1 ? lane / (2 * Spec::lanes_n) * 2 + lane % 2 : 0;
    }
    static __device__ inline int n_of(unsigned lane)
    {
        return m > 1 ? lane / 2 % Spec::lanes_n : lane;
    }
};

// What operands were like that a sum is doubtful for: nothing here.
struct Doubts {
    static constexpr bool possible = false;
};

// The tile of one operand in shared memory: block rows or columns of it, x, and block_k of k.
template <int block, int run, bool along_k> struct Panel {
    // Where vectors lie along k they are written element by element: a run of padding keeps the
    // elements that a warp writes at once in different banks.
    static constexpr int stride = block + (along_k ? run : 0);
    static constexpr int bytes = Spec::block_k * stride * (int)sizeof(Acc);

    // Vectors along k of one row that neighbouring lanes take, before the next row: as many as the
    // padding keeps out of each other's banks.
    static __device__ constexpr int near(int vec)
    {
        const int vectors = Spec::block_k / vec, apart = 128 / (int)sizeof(Acc) / (vec * run);
        return apart < 1 || vectors % apart ? 1 : apart;
    }

    static __device__ constexpr int place(int x, int k)
    {
        return (k * stride + x) * (int)sizeof(Acc);
    }

    // to: where the vector's first element goes
    template <int vec>
    static __device__ inline void put(char *to, const Acc (&out)[vec], Doubts &doubts)
    {
        constexpr int most = 16 / (int)sizeof(Acc);
        constexpr int piece = along_k ? 1 : vec < most ? vec : most;
#pragma unroll
        for (int i = 0; i < vec; i += piece) {
            Vec<Acc, piece> part;
#pragma unroll
            for (int j = 0; j < piece; j++)
                part.v[j] = out[i + j];
            *reinterpret_cast<Vec<Acc, piece> *>(to + (along_k ? place(0, i) : place(i, 0))) = part;
        }
    }
};

using PanelA = Panel<Spec::block_m, Lanes::run_m, Spec::a_along_k>;
using PanelB = Panel<Spec::block_n, Lanes::run_n, Spec::b_along_k>;

#include "gemm_stage.cuh"

__device__ inline float multiply_add(float a, float b, float sum)
{
    return fused_multiply_add(a, b, sum);
}
__device__ inline double multiply_add(double a, double b, double sum)
{
    return fused_multiply_add(a, b, sum);
}
// Integers wrap.
__device__ inline int multiply_add(int a, int b, int sum)
{
    return (int)((uint32)a * (uint32)b + (uint32)sum);
}
__device__ inline long long multiply_add(long long a, long long b, long long sum)
{
    return (long long)((uint64)a * (uint64)b + (uint64)sum);
}
// count elements in runs, which lie `apart` elements from each other
template <int count, int run, int apart>
__device__ inline void read_runs(const char *from, Acc (&out)[count])
{
    const Acc *at = reinterpret_cast<const Acc *>(from);
#pragma unroll
    for (int i = 0; i < count; i += run) {
        Vec<Acc, run> part = *reinterpret_cast<const Vec<Acc, run> *>(at + i / run * apart);
#pragma unroll
        for (int j = 0; j < run; j++)
            out[i + j] = part.v[j];
    }
}

// Where in its group's panels a thread begins to read
__device__ inline int read_place_a(Place p)
{
    return PanelA::place(p.m, 0);
}

__device__ inline int read_place_b(Place p)
{
    return PanelB::place(p.n, 0);
}

// a and b: there
__device__ inline void multiply(const char *a, const char *b, Accumulators &acc)
{
#pragma unroll
    for (int k = 0; k < Spec::block_k; k++) {
        Acc x[Spec::thread_m], y[Spec::thread_n];
        read_runs<Spec::thread_m, Lanes::run_m, Lanes::m * Lanes::run_m>(a + PanelA::place(0, k),
                                                                         x);
        read_runs<Spec::thread_n, Lanes::run_n, Spec::lanes_n * Lanes::run_n>(
            b + PanelB::place(0, k), y);
#pragma unroll
        for (int i = 0; i < Spec::thread_m; i++)
#pragma unroll
            for (int j = 0; j < Spec::thread_n; j++)
                acc[i][j] = multiply_add(x[i], y[j], acc[i][j]);
    }
}

#include "gemm.cuh"
