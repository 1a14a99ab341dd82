// gemm_stage.cuh: Spec, Lanes, Panel and Doubts (gemm_simt.cuh, gemm_mma.cuh) come in; out come
// Tile, the geometry of gemm.cuh's tiles, checked, and Stage, the way of A and B into shared
// memory.

struct Tile {
    static constexpr int warp_m = Lanes::m * Spec::thread_m;
    static constexpr int warp_n = Spec::lanes_n * Spec::thread_n;
    static constexpr int warps_n = Spec::block_n / warp_n;
    static constexpr int threads = 32 * (Spec::block_m / warp_m) * warps_n; // of one group

    static constexpr int buffer = PanelA::bytes + PanelB::bytes;
    static constexpr long long k_step = (long long)Spec::block_k * Spec::split;
    static constexpr long long steps = (Spec::k + k_step - 1) / k_step;
    static constexpr int depth = steps > 1 ? 2 : 1;              // one is filled while one is read
    static constexpr int buffers = Spec::split * depth * buffer; // in bytes, as all below

    static constexpr bool promotes = Spec::promote_k != 0;
    static constexpr bool has_sums = promotes || Spec::split > 1;
    static constexpr int runs = Spec::thread_m * Spec::thread_n / Lanes::run_n; // of one thread
    static constexpr int sums =
        has_sums ? Spec::split * Spec::block_m * Spec::block_n * (int)sizeof(Acc) : 0;
    // The sums of several steps without promotion are first written when the buffers are free.
    static constexpr bool sums_apart = promotes || depth == 1;
    static constexpr int sums_at = sums_apart ? buffers : 0;
    static constexpr int doubts_at = sums_at + sums > buffers ? sums_at + sums : buffers;
    static constexpr int bytes = doubts_at + (Doubts::possible ? 64 : 0); // 4 for each warp

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
static_assert(Spec::threads == Tile::threads * Spec::split &&
                  Spec::threads <= (Doubts::possible ? 512 : 1024),
              "threads");
static_assert(PanelA::bytes % 16 == 0 && PanelB::bytes % 16 == 0,
              "buffers are aligned to 16 bytes");
static_assert((Spec::a_along_k ? Spec::block_k : Spec::block_m) % Spec::vec_a == 0,
              "whole vectors in a tile of A");
static_assert((Spec::b_along_k ? Spec::block_k : Spec::block_n) % Spec::vec_b == 0,
              "whole vectors in a tile of B");
static_assert((Spec::a_along_k ? Spec::k : Spec::m) % Spec::vec_a == 0, "whole vectors in A");
static_assert((Spec::b_along_k ? Spec::k : Spec::n) % Spec::vec_b == 0, "whole vectors in B");
static_assert(Spec::n % Spec::vec_c == 0 && Lanes::run_n % Spec::vec_c == 0, "whole vectors in C");
static_assert(Spec::promote_k % Spec::block_k == 0, "promotion comes between k tiles");
static_assert(Spec::promote_k == 0 || Spec::k > 0, "sums are cleared by the k loop");
static_assert(Spec::shared_bytes == Tile::bytes, "gen/gemm_tiles.c and Tile agree");

using Accumulators = Acc[Spec::thread_m][Spec::thread_n];

// Where a thread stands: its group, its place in the group, and its first row and column in the
// block's tile.
struct Place {
    int group, thread, m, n;
};

__device__ inline Place thread_place(unsigned thread)
{
    Place p;
    unsigned lane = thread % 32, warp = thread / 32;
    p.group = Spec::split == 1 ? 0 : thread / Tile::threads;
    p.thread = thread % Tile::threads;
    warp %= Tile::threads / 32;
    p.m = warp / Tile::warps_n * Tile::warp_m + Lanes::m_of(lane) * Lanes::run_m;
    p.n = warp % Tile::warps_n * Tile::warp_n + Lanes::n_of(lane) * Lanes::run_n;
    return p;
}

// What is loaded: all, what no phase of this launch writes, or what an earlier one wrote.
enum Loads { LOADS_all, LOADS_settled, LOADS_fresh };

// The operands under common names: x is m for A and n for B.
struct OperandA {
    using Raw = RawA;
    using Panel = PanelA;
    static constexpr int block = Spec::block_m, vec = Spec::vec_a;
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
    using Panel = PanelB;
    static constexpr int block = Spec::block_n, vec = Spec::vec_b;
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
    static constexpr int near = Operand::along_k ? Operand::Panel::near(vec) : 1;
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
                                 char *to, Doubts &doubts) const
    {
#pragma unroll
        for (int i = 0; i < rounds; i++) {
            if (!has(thread, i))
                continue;
            Spot s = step(i);
            Acc out[vec] = {};
            if (inside(x + s.x, k + s.k))
                Operand::stage(args, b, x + s.x, k + s.k, raw[i], out);
            Operand::Panel::put(to + Operand::Panel::place(s.x, s.k), out, doubts);
        }
    }

    // Of its elements, in size
    __device__ inline Acc largest(const Args &args, index_t b, index_t x, index_t k,
                                  int thread) const
    {
        Acc most = 0;
#pragma unroll
        for (int i = 0; i < rounds; i++) {
            Spot s = step(i);
            Acc out[vec] = {};
            if (has(thread, i) && inside(x + s.x, k + s.k))
                Operand::stage(args, b, x + s.x, k + s.k, raw[i], out);
#pragma unroll
            for (int j = 0; j < vec; j++)
                most = maximum(most, absolute(out[j]));
        }
        return most;
    }
};
