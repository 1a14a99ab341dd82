// gemm_mma.cuh: a contraction (gemm.cuh) of floats on tensor cores (mma.cuh), as accurate as f32.
//
// An operand is cut into bfloat16 parts of 8 bits each, x = x0 + x1 + x2: exactly, since a float
// has 24 bits.  Of the products those are added up whose parts' numbers make 2 or less; what is
// left out is below 2^-25 of the product (bf16x6 in cuBLAS's terms).  An operand that is known to
// have fewer bits has fewer parts: one of bf16 or int8 values one, one of f16 two.
//
// Tensor cores drop the bits of their sums that no longer fit, which is more than rounding loses.
// So they add up no more than 32 steps along k, the largest products apart from the others, and
// these sums are rounded to an accumulator outside (as Ootomo and Yokota, 2022).
//
// Infinity and NaN have no such parts, and the smallest of numbers lose bits below 2^-133.  A block
// that meets one looks at its sums: those that it may tell in are computed anew by ordinary
// arithmetic.
//
// In shared memory the parts of an operand lie one behind the other, rows as memory has them.

struct Lanes {
    static constexpr int run_m = 1, run_n = 4, m = 8;
    static __device__ inline int m_of(unsigned lane)
    {
        return lane / 4;
    }
    static __device__ inline int n_of(unsigned lane)
    {
        return lane % 4;
    }
};

struct Doubts {
    static constexpr bool possible = Spec::parts_a > 1 || Spec::parts_b > 1;
    uint32 bits = 0; // what was left of elements, of which the lower half should be 0

    __device__ inline bool any() const
    {
        return bits & 0xffff;
    }

    // Where some element was in doubt, so are all sums that are not at least that; a NaN, which
    // none is, where it may have been infinity or NaN.  Of smaller ones a product is off by 2^-133
    // of the largest element of the tile at most, and a sum may be off by 2^-24 of itself.
    static __device__ inline float limit(float largest)
    {
        const float share = (float)Spec::k * 0x1p-109f;
        return largest < 0x1p127f ? largest * share : of_bits(0x7fffffffu);
    }
};

// Columns of C in groups of 16: column 4 q + 2 t + e stands as column 2 q + e of the t-th
// instruction's 8, so that a lane gets four columns side by side.
__device__ constexpr int place_of_column(int n)
{
    return n / 16 * 16 + n / 2 % 2 * 8 + n / 4 % 4 * 2 + n % 2;
}

template <int block, int parts, bool along_k, bool is_b> struct Panel {
    // A row more than a multiple of 128 bytes by 16, 48, 80 or 112: the 8 rows of a matrix, and
    // rows that are written at once, lie in different banks.
    static constexpr int stride = 2 * ((along_k ? Spec::block_k : block) + 8);
    static constexpr int part_bytes = (along_k ? block : Spec::block_k) * stride;
    static constexpr int bytes = parts * part_bytes;

    static __device__ constexpr int near(int vec)
    {
        return Spec::block_k / vec; // whole rows
    }

    static __device__ constexpr int place(int x, int k)
    {
        const int at = is_b ? place_of_column(x) : x;
        return along_k ? at * stride + 2 * k : k * stride + 2 * at;
    }

    static __device__ constexpr int stored_together(int vec)
    {
        return !along_k && is_b && vec > 2 ? 2 : vec;
    }

    template <int vec>
    static __device__ inline void put(char *to, const float (&out)[vec], Doubts &doubts)
    {
        constexpr int n = stored_together(vec);
#pragma unroll
        for (int i = 0; i < vec; i += n) {
            float rest[n];
#pragma unroll
            for (int j = 0; j < n; j++)
                rest[j] = out[i + j];
            put_parts<n>(to + (along_k ? place(0, i) : place(i, 0)), rest, doubts);
        }
    }

    template <int n>
    static __device__ inline void put_parts(char *to, float (&rest)[n], Doubts &doubts)
    {
#pragma unroll
        for (int j = 0; j < n && Doubts::possible && parts == 1; j++)
            doubts.bits |= bits_beyond_bfloat(rest[j] * 0.0f);
#pragma unroll
        for (int p = 0; p < parts; p++) {
            Vec<bfloat_t, n> part;
            if constexpr (n == 1) {
                part.v[0] = to_bfloat(rest[0]);
            } else {
                uint32 pair[n / 2];
#pragma unroll
                for (int j = 0; j < n; j += 2)
                    pair[j / 2] = bfloat_pair(rest[j], rest[j + 1]);
                memcpy(&part, pair, sizeof part);
            }
            *reinterpret_cast<Vec<bfloat_t, n> *>(to + p * part_bytes) = part;
#pragma unroll
            for (int j = 0; j < n; j++) {
                if (p == parts - 1 && parts > 1)
                    doubts.bits |= bits_beyond_bfloat(rest[j]);
                else if (p < parts - 1)
                    rest[j] -= to_compute(part, j);
            }
        }
    }
};

using PanelA = Panel<Spec::block_m, Spec::parts_a, Spec::a_along_k, false>;
using PanelB = Panel<Spec::block_n, Spec::parts_b, Spec::b_along_k, true>;

#include "gemm_stage.cuh"

static_assert(same_type<Acc, float> && Spec::lanes_n == 4 && Spec::thread_m % 2 == 0 &&
                  Spec::thread_n % 4 == 0 && Spec::block_k % 16 == 0,
              "tiles are made of whole instructions");
static_assert(Spec::parts_a >= 1 && Spec::parts_a <= 3 && Spec::parts_b >= 1 && Spec::parts_b <= 3,
              "a float has at most three parts");
static_assert(!Tile::promotes && Spec::block_k <= 64, "every k tile is promoted");

// The row of a matrix that the lane gives.  Rows of A: matrices 0 and 1 are rows 0 to 7 and 8 to
// 15, 2 and 3 the same 8 further along k.
__device__ inline int read_place_a(Place p)
{
    const unsigned lane = p.thread % 32, warp = p.thread / 32;
    const int m = warp / Tile::warps_n * Tile::warp_m, k = lane / 16 * 8;
    return Spec::a_along_k ? PanelA::place(m + lane % 16, k)
                           : PanelA::place(m + lane / 8 % 2 * 8, k + lane % 8);
}

// Columns of B: matrices 0 and 1 are of the first 8 columns, 8 apart along k, 2 and 3 of the next.
__device__ inline int read_place_b(Place p)
{
    const unsigned lane = p.thread % 32, warp = p.thread / 32;
    const int n = warp % Tile::warps_n * Tile::warp_n, k = lane / 8 % 2 * 8;
    if constexpr (Spec::b_along_k)
        return (n + lane / 16 * 8 + lane % 8) * PanelB::stride + 2 * k;
    else
        return (k + lane % 8) * PanelB::stride + 2 * (n + lane / 16 * 8);
}

__device__ inline float multiply_add(float a, float b, float sum)
{
    return fused_multiply_add(a, b, sum);
}

// Steps of 16 along k that are multiplied at once: two, so that there is more to do while an
// instruction waits for the one before it, where registers can hold them.
constexpr int chunk = Spec::block_k >= 32 && Spec::thread_m * Spec::thread_n <= 16 ? 2 : 1;
constexpr int tiles_n = Spec::thread_n / 2; // instructions along n

using ChunkA = FragmentA[chunk][Spec::parts_a];
using ChunkB = FragmentB[chunk][Spec::parts_b][tiles_n];
using Sums = float[tiles_n][4];

// One step's products of parts whose numbers make `order`
__device__ __forceinline__ void add_products(const FragmentA (&x)[Spec::parts_a],
                                             const FragmentB (&y)[Spec::parts_b][tiles_n],
                                             int order, Sums &sums)
{
#pragma unroll
    for (int part = 0; part <= order; part++)
#pragma unroll
        for (int j = 0; j < tiles_n; j++)
            if (part < Spec::parts_a && order - part < Spec::parts_b)
                multiply_add(x[part], y[order - part][j], sums[j]);
}

// To the accumulators of the i-th 16 rows
__device__ __forceinline__ void add_sums(const Sums &sums, int i, Accumulators &acc)
{
#pragma unroll
    for (int j = 0; j < Spec::thread_n; j++) {
        acc[2 * i][j] += sums[j / 2][j % 2];
        acc[2 * i + 1][j] += sums[j / 2][2 + j % 2];
    }
}

// The largest products have sums of their own, and so has every step's rest.
__device__ inline void add_chunk(const ChunkA &x, const ChunkB &y, int i, Accumulators &acc)
{
    Sums largest = {}, rest[chunk] = {};
#pragma unroll
    for (int order = 0; order <= 2; order++)
#pragma unroll
        for (int step = 0; step < chunk; step++)
            add_products(x[step], y[step], order, order ? rest[step] : largest);
    if constexpr (Doubts::possible)
#pragma unroll
        for (int step = 0; step < chunk; step++)
            add_sums(rest[step], i, acc);
    add_sums(largest, i, acc);
}

__device__ inline void read_b(const char *b, FragmentB (&y)[Spec::parts_b][tiles_n])
{
#pragma unroll
    for (int part = 0; part < Spec::parts_b; part++)
#pragma unroll
        for (int j = 0; j < tiles_n; j += 2) {
            const Matrices m = load_matrices<!Spec::b_along_k>(b + part * PanelB::part_bytes +
                                                               PanelB::place(8 * j, 0));
            y[part][j] = {
                {m.word[0], m.word[1]}
            };
            y[part][j + 1] = {
                {m.word[2], m.word[3]}
            };
        }
}

__device__ inline void read_a(const char *a, FragmentA (&x)[Spec::parts_a])
{
#pragma unroll
    for (int part = 0; part < Spec::parts_a; part++) {
        const Matrices m = load_matrices<!Spec::a_along_k>(a + part * PanelA::part_bytes);
        x[part] = {
            {m.word[0], m.word[1], m.word[2], m.word[3]}
        };
    }
}

// Of a k tile, from where the lane's rows lie
__device__ inline void multiply(const char *a, const char *b, Accumulators &acc)
{
#pragma unroll
    for (int k = 0; k < Spec::block_k; k += 16 * chunk) {
        ChunkA x;
        ChunkB y;
#pragma unroll
        for (int step = 0; step < chunk; step++)
            read_b(b + PanelB::place(0, k + 16 * step), y[step]);
#pragma unroll
        for (int i = 0; i < Spec::thread_m / 2; i++) {
#pragma unroll
            for (int step = 0; step < chunk; step++)
                read_a(a + PanelA::place(16 * i, k + 16 * step), x[step]);
            add_chunk(x, y, i, acc);
        }
    }
}

#include "gemm.cuh"
