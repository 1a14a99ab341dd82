// mma.cuh: tensor cores: a warp's 16x8 += 16x16 * 16x8 of bfloat16 with f32 sums (mma.sync, sm_80
// and later), how its operands come out of shared memory (ldmatrix), and floats as sums of
// bfloat16.
//
// Element pairs of an operand lie in 32-bit words.  Lane l holds, with r = l / 4 and c = 2 (l % 4):
//
//     A  words at (row, k) = (r, c), (r + 8, c), (r, c + 8), (r + 8, c + 8), pairs along k
//     B  words at (k, column) = (c, r), (c + 8, r), pairs along k
//     C  (r, c), (r, c + 1), (r + 8, c), (r + 8, c + 1)
#pragma once
#include "math.cuh"

struct FragmentA {
    uint32 word[4];
};

struct FragmentB {
    uint32 word[2];
};

// Four 8x8 matrices of 16-bit elements: lane l gives where row l % 8 of matrix l / 8 lies, 16 bytes
// aligned to 16, and gets of each matrix the words at (l / 4, 2 (l % 4)), of its transpose where
// `transposed`.
struct Matrices {
    uint32 word[4];
};

#ifdef QUERN_HOST

template <bool transposed> __device__ inline Matrices load_matrices(const char *row)
{
    host_check_aligned(row, 16);
    const host_lanes<const char *> rows = host_gather("ldmatrix", row);
    const unsigned lane = host_lane(), r = lane / 4, c = lane % 4 * 2;
    Matrices m;
    for (int i = 0; i < 4; i++) {
        unsigned short pair[2];
        for (unsigned j = 0; j < 2; j++) {
            const unsigned at_row = transposed ? c + j : r, at_column = transposed ? r : c + j;
            memcpy(&pair[j], rows.of[8 * i + at_row] + 2 * at_column, 2);
        }
        memcpy(&m.word[i], pair, 4);
    }
    return m;
}

struct host_fragments {
    uint32 words[6]; // of A, then of B
};

// Eight numbers, in a word each of four lanes
__device__ inline void host_unpack(const host_fragments *lanes, int word, double *out)
{
    for (int i = 0; i < 4; i++) {
        out[2 * i] = of_bits(lanes[i].words[word] << 16);
        out[2 * i + 1] = of_bits(lanes[i].words[word] & 0xffff0000u);
    }
}

// Sums are rounded once: the hardware drops bits below those of the largest product.
__device__ inline void multiply_add(const FragmentA &a, const FragmentB &b, float (&sum)[4])
{
    const host_fragments own = {a.word[0], a.word[1], a.word[2], a.word[3], b.word[0], b.word[1]};
    const host_lanes<host_fragments> all = host_gather("mma", own);
    const unsigned row = host_lane() / 4, column = host_lane() % 4 * 2;
    double left[2][16], right[2][16]; // by row or column, along k
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < 2; i++) {
            host_unpack(all.of + 4 * row, 2 * half + i, left[i] + 8 * half);
            host_unpack(all.of + 4 * (column + i), 4 + half, right[i] + 8 * half);
        }
    for (int i = 0; i < 4; i++) {
        double exact = sum[i];
        for (int k = 0; k < 16; k++)
            exact += left[i / 2][k] * right[i % 2][k];
        sum[i] = (float)exact;
    }
}

#elif __CUDA_ARCH__ >= 800

template <bool transposed> __device__ __forceinline__ Matrices load_matrices(const char *row)
{
    Matrices m;
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    if constexpr (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m.word[0]), "=r"(m.word[1]), "=r"(m.word[2]), "=r"(m.word[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m.word[0]), "=r"(m.word[1]), "=r"(m.word[2]), "=r"(m.word[3])
                     : "r"(at)
                     : "memory");
    return m;
}

__device__ __forceinline__ void multiply_add(const FragmentA &a, const FragmentB &b,
                                             float (&sum)[4])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]),
          "r"(b.word[1]));
}

#endif

// Two floats to bfloat16, each to nearest even; the first in the lower half.
__device__ __forceinline__ uint32 bfloat_pair(float first, float second)
{
#if defined(QUERN_HOST) || __CUDA_ARCH__ < 800
    return to_bfloat(first).bits | (uint32)to_bfloat(second).bits << 16;
#else
    uint32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#endif
}

// Its lower 16 bits are 0 just where x is a bfloat16, and no NaN.
__device__ __forceinline__ uint32 bits_beyond_bfloat(float x)
{
#ifdef QUERN_HOST
    return x != x ? 1 : bits_of(x); // NaNs come with any bits
#else
    return bits_of(x);
#endif
}
