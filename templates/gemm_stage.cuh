// gemm_stage.cuh: Spec comes in; out come Tile, the geometry of gemm_simt.cuh's tiles, checked, and
// Stage, the way of A and B into shared memory, where m and n are contiguous so that a thread reads
// its operands 16 bytes at a time.

struct Tile {
    static constexpr int run = 16 / sizeof(Acc);
    static constexpr int run_m = Spec::thread_m < run ? Spec::thread_m : run;
    static constexpr int run_n = Spec::thread_n < run ? Spec::thread_n : run;
    static constexpr int lanes_m = 32 / Spec::lanes_n;
    static constexpr int warp_m = lanes_m * Spec::thread_m;
    static constexpr int warp_n = Spec::lanes_n * Spec::thread_n;
    static constexpr int warps_n = Spec::block_n / warp_n;
    static constexpr int threads = 32 * (Spec::block_m / warp_m) * warps_n; // of one group

    // Rows of a tile whose vectors lie along k are written element by element: a run of padding
    // keeps the elements that a warp writes at once in different banks.
    static constexpr int stride_a = Spec::block_m + (Spec::a_along_k ? run_m : 0);
    static constexpr int stride_b = Spec::block_n + (Spec::b_along_k ? run_n : 0);
    static constexpr int buffer = Spec::block_k * (stride_a + stride_b);
    static constexpr long long k_step = (long long)Spec::block_k * Spec::split;
    static constexpr long long steps = (Spec::k + k_step - 1) / k_step;
    static constexpr int depth = steps > 1 ? 2 : 1; // one is filled while one is read
    static constexpr int buffers = Spec::split * depth * buffer;

    static constexpr bool promotes = Spec::promote_k != 0;
    static constexpr bool has_sums = promotes || Spec::split > 1;
    static constexpr int runs = Spec::thread_m * Spec::thread_n / run_n; // of one thread
    static constexpr int sums = has_sums ? Spec::split * Spec::block_m * Spec::block_n : 0;
    // The sums of several steps without promotion are first written when the buffers are free.
    static constexpr bool sums_apart = promotes || depth == 1;
    static constexpr int sums_at = sums_apart ? buffers : 0;
    static constexpr int elements = sums_at + sums > buffers ? sums_at + sums : buffers;

    static constexpr long long tiles_m = (Spec::m + Spec::block_m - 1) / Spec::block_m;
    static constexpr long long tiles_n = (Spec::n + Spec::block_n - 1) / Spec::block_n;
    static constexpr long long tiles = Spec::batch * tiles_m * tiles_n;
};

// With room for the last tile and the next step.
__device__ constexpr bool fits_index(long long x)
{
    return sizeof(index_t) == 8 || x < 0x7fff0000;
}
static_assert(fits_index(Spec::batch) && fits_index(Spec::m) && fits_index(Spec::n) &&
                  fits_index(Spec::k) && fits_index(Tile::tiles),
              "coordinates and tiles are counted in index_t");

__device__ constexpr bool power_of_two(int x)
{
    return x > 0 && (x & (x - 1)) == 0;
}
static_assert(power_of_two(Spec::block_m) && power_of_two(Spec::block_n) &&
                  power_of_two(Spec::block_k) && power_of_two(Spec::thread_m) &&
                  power_of_two(Spec::thread_n) && power_of_two(Spec::vec_a) &&
                  power_of_two(Spec::vec_b),
              "tiles are cut with shifts");
static_assert(Spec::lanes_n > 0 && 32 % Spec::lanes_n == 0, "lanes_n divides a warp");
static_assert(Spec::block_m % Tile::warp_m == 0 && Spec::block_n % Tile::warp_n == 0,
              "whole warps");
static_assert(Spec::threads == Tile::threads * Spec::split && Spec::threads <= 1024, "threads");
static_assert(Spec::block_k * sizeof(Acc) % 16 == 0, "buffers are aligned to 16 bytes");
static_assert((Spec::a_along_k ? Spec::block_k : Spec::block_m) % Spec::vec_a == 0,
              "whole vectors in a tile of A");
static_assert((Spec::b_along_k ? Spec::block_k : Spec::block_n) % Spec::vec_b == 0,
              "whole vectors in a tile of B");
static_assert((Spec::a_along_k ? Spec::k : Spec::m) % Spec::vec_a == 0, "whole vectors in A");
static_assert((Spec::b_along_k ? Spec::k : Spec::n) % Spec::vec_b == 0, "whole vectors in B");
static_assert(Spec::n % Spec::vec_c == 0 && Tile::run_n % Spec::vec_c == 0, "whole vectors in C");
static_assert(Spec::promote_k % Spec::block_k == 0, "promotion comes between k tiles");
static_assert(Spec::promote_k == 0 || Spec::k > 0, "sums are cleared by the k loop");
static_assert(Spec::shared_bytes == Tile::elements * sizeof(Acc),
              "gen/gemm_tiles.c and Tile agree");

// What is loaded: all, what no phase of this launch writes, or what an earlier one wrote.
enum Loads { LOADS_all, LOADS_settled, LOADS_fresh };

// The operands under common names: x is m for A and n for B.
struct OperandA {
    using Raw = RawA;
    static constexpr int block = Spec::block_m, vec = Spec::vec_a, stride = Tile::stride_a,
                         run = Tile::run_m;
    static constexpr long long extent = Spec::m;
    static constexpr bool along_k = Spec::a_along_k;
    template <Loads which>
    static __device__ inline void load(const Args &args, index_t b, index_t x, index_t k, Raw &raw)
    {
        if constexpr (which != LOADS_fresh)
            load_a(args, b, x, k, raw);
        if constexpr (which != LOADS_settled)
            load_fresh_a(args, b, x, k, raw);
    }
    static __device__ inline void stage(const Args &args, index_t b, index_t x, index_t k,
                                        const Raw &raw, Acc (&out)[vec])
    {
        stage_a(args, b, x, k, raw, out);
    }
};

struct OperandB {
    using Raw = RawB;
    static constexpr int block = Spec::block_n, vec = Spec::vec_b, stride = Tile::stride_b,
                         run = Tile::run_n;
    static constexpr long long extent = Spec::n;
    static constexpr bool along_k = Spec::b_along_k;
    template <Loads which>
    static __device__ inline void load(const Args &args, index_t b, index_t x, index_t k, Raw &raw)
    {
        if constexpr (which != LOADS_fresh)
            load_b(args, b, k, x, raw);
        if constexpr (which != LOADS_settled)
            load_fresh_b(args, b, k, x, raw);
    }
    static __device__ inline void stage(const Args &args, index_t b, index_t x, index_t k,
                                        const Raw &raw, Acc (&out)[vec])
    {
        stage_b(args, b, k, x, raw, out);
    }
};

struct Spot {
    int x, k; // of a vector's first element, in the tile
};

// What is made of settled loads alone, and the same for all lanes, before an earlier phase is done:
// generated where there is such.
template <typename Raw> __device__ inline void make_ready(Raw &)
{
}

// A thread's share of one operand's tile on its way to shared memory.
template <typename Operand> struct Stage {
    static constexpr int vec = Operand::vec;
    static constexpr int vectors = Operand::block * Spec::block_k / vec;
    static constexpr int rounds = (vectors + Tile::threads - 1) / Tile::threads;
    // Neighbouring lanes take `near` vectors along k of one row, then the next row: as many as the
    // padding keeps out of each other's banks.
    static constexpr int vectors_k = Spec::block_k / (Operand::along_k ? vec : 1);
    static constexpr int apart = 128 / (int)sizeof(Acc) / (vec * Operand::run);
    static constexpr int near = apart < 1 ? 1 : vectors_k % apart ? 1 : apart;
    static constexpr int vectors_x = Operand::block / (Operand::along_k ? 1 : vec);

    typename Operand::Raw raw[rounds];

    static __device__ constexpr Spot spot(unsigned vector)
    {
        if (Operand::along_k)
            return {(int)(vector / near % vectors_x),
                    (int)(vector / near / vectors_x * near + vector % near) * vec};
        return {(int)(vector % vectors_x) * vec, (int)(vector / vectors_x)};
    }

    // All counts are powers of two, so that spot(thread + i * threads) is spot(thread) + step(i).
    static __device__ constexpr Spot step(int i)
    {
        return spot(i * Tile::threads);
    }

    static __device__ inline bool inside(index_t x, index_t k)
    {
        return (Operand::extent % Operand::block == 0 || x < (index_t)Operand::extent) &&
               (Spec::k % Tile::k_step == 0 || k < (index_t)Spec::k);
    }

    static __device__ inline bool has(int thread, int i)
    {
        return vectors % Tile::threads == 0 || thread + i * Tile::threads < vectors;
    }

    // x and k: of the thread's first vector, in the operand
    template <Loads which>
    __device__ inline void load(const Args &args, index_t b, index_t x, index_t k, int thread)
    {
#pragma unroll
        for (int i = 0; i < rounds; i++) {
            Spot s = step(i);
            if (has(thread, i) && inside(x + s.x, k + s.k))
                Operand::template load<which>(args, b, x + s.x, k + s.k, raw[i]);
        }
    }

    __device__ inline void ready(index_t x, index_t k, int thread)
    {
#pragma unroll
        for (int i = 0; i < rounds; i++) {
            Spot s = step(i);
            if (has(thread, i) && inside(x + s.x, k + s.k))
                make_ready(raw[i]);
        }
    }

    // to: where the thread's first vector goes
    __device__ inline void store(const Args &args, index_t b, index_t x, index_t k, int thread,
                                 Acc *to) const
    {
#pragma unroll
        for (int i = 0; i < rounds; i++) {
            if (!has(thread, i))
                continue;
            Spot s = step(i);
            Acc out[vec] = {};
            if (inside(x + s.x, k + s.k))
                Operand::stage(args, b, x + s.x, k + s.k, raw[i], out);
            put(to + s.k * Operand::stride + s.x, out);
        }
    }

    static __device__ inline void put(Acc *at, const Acc (&out)[vec])
    {
        constexpr int piece = Operand::along_k ? 1 : vec < Tile::run ? vec : Tile::run;
#pragma unroll
        for (int i = 0; i < vec; i += piece) {
            Vec<Acc, piece> part;
#pragma unroll
            for (int j = 0; j < piece; j++)
                part.v[j] = out[i + j];
            *reinterpret_cast<Vec<Acc, piece> *>(
                at + (Operand::along_k ? i * Operand::stride : i)) = part;
        }
    }
};
