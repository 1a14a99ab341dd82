// gemm_finish.cuh: a thread's Accumulators (gemm.cuh) come in; out goes C.
//
// Sums that are promoted, or that several groups have parts of, are added up in shared memory.
// What is stored goes through the generated epilogue, run by run; what that loads may have been
// loaded before the k loop (struct Finish).

using Run = Vec<Acc, Lanes::run_n>;
constexpr int group_sums = Tile::runs * Tile::threads; // in runs

// The sums of a group, thread by thread, then those of the next.
__device__ inline Run *own_sums(char *shared, unsigned thread)
{
    int group = Spec::split == 1 ? 0 : thread / Tile::threads;
    return reinterpret_cast<Run *>(shared + Tile::sums_at) + group * (group_sums - Tile::threads) +
           thread;
}

// A thread's runs of the sums are Tile::threads runs apart: neighbours touch neighbouring banks.
__device__ inline void clear_sums(Run *sums)
{
    Run zero = {};
#pragma unroll
    for (int i = 0; i < Tile::runs; i++)
        sums[i * Tile::threads] = zero;
}

template <bool adds> __device__ inline void move_to_sums(Accumulators &acc, Run *sums)
{
    constexpr int per_row = Spec::thread_n / Lanes::run_n;
#pragma unroll
    for (int i = 0; i < Tile::runs; i++) {
        Run sum = {};
        if constexpr (adds)
            sum = sums[i * Tile::threads];
#pragma unroll
        for (int j = 0; j < Lanes::run_n; j++) {
            Acc &value = acc[i / per_row][i % per_row * Lanes::run_n + j];
            sum.v[j] = adds ? add(sum.v[j], value) : value;
            value = 0;
        }
        sums[i * Tile::threads] = sum;
    }
}

// Where run i of a thread lies; c: where its first run does
__device__ inline Corner run_corner(Corner c, int i)
{
    constexpr int per_row = Spec::thread_n / Lanes::run_n;
    const int row = i / per_row, column = i % per_row;
    c.m += row / Lanes::run_m * (Lanes::m * Lanes::run_m) + row % Lanes::run_m;
    c.n += column * (Spec::lanes_n * Lanes::run_n);
    return c;
}

__device__ inline bool is_inside(const Corner &c, int j)
{
    return (Spec::m % Spec::block_m == 0 || c.m < (index_t)Spec::m) &&
           (Spec::n % Spec::block_n == 0 || c.n + j < (index_t)Spec::n);
}

// One element of an operand, with all of the vector that it lies in.
template <typename Operand>
__device__ inline Acc element_of(const Args &args, index_t b, index_t x, index_t k)
{
    constexpr int vec = Operand::vec;
    const int lane = (Operand::along_k ? k : x) % vec;
    x -= Operand::along_k ? 0 : lane;
    k -= Operand::along_k ? lane : 0;
    typename Operand::Raw raw;
    Operand::template load<LOADS_all>(args, b, x, k, raw);
    make_ready(raw);
    Acc values[vec];
    Operand::stage(args, b, x, k, raw, values);
    Acc value = values[0];
#pragma unroll
    for (int i = 1; i < vec; i++)
        value = lane == i ? values[i] : value;
    return value;
}

// vec_c sums from memory, element by element: slow, but right for all operands.  Not inline: a
// kernel has it once, out of the way, or, as a template, not at all.
template <typename AnyArgs>
__device__ __noinline__ Vec<Acc, Spec::vec_c> plain_sums(AnyArgs args, Corner c)
{
    constexpr index_t chain = 256; // of additions, then a new one: as promote_k
    Vec<Acc, Spec::vec_c> sums = {}, whole = {};
#pragma unroll 1
    for (index_t k = 0; k < (index_t)Spec::k; k++) {
        const Acc a = element_of<OperandA>(args, c.b, c.m, k);
#pragma unroll
        for (int j = 0; j < Spec::vec_c; j++)
            sums.v[j] = multiply_add(a, element_of<OperandB>(args, c.b, c.n + j, k), sums.v[j]);
        if (k % chain == chain - 1 || k == (index_t)Spec::k - 1)
#pragma unroll
            for (int j = 0; j < Spec::vec_c; j++)
                whole.v[j] = add(whole.v[j], sums.v[j]), sums.v[j] = 0;
    }
    return whole;
}

// What the epilogue of a thread's runs loads.
struct Finish {
    static constexpr int turns = (Tile::runs + Spec::split - 1) / Spec::split; // at the runs
    static constexpr int pieces = Lanes::run_n / Spec::vec_c;                  // of a run
    // Before the k loop, if registers can hold it through that.
    static constexpr bool ahead = turns * pieces * sizeof(Elements<Spec::vec_c>) <= 64;
    Elements<Spec::vec_c> e[ahead ? turns : 1][pieces];
    float limit = 0.0f; // below which sums are in doubt

    __device__ inline void load(const Args &args, const Corner &c, int turn)
    {
#pragma unroll
        for (int j = 0; j < pieces; j++)
            if (is_inside(c, j * Spec::vec_c))
                load_elements(args, c.b, c.m, c.n + j * Spec::vec_c, e[ahead ? turn : 0][j]);
    }
};

// The groups take turns at the runs.
__device__ inline bool is_run(int i)
{
    return Tile::runs % Spec::split == 0 || i < Tile::runs;
}

__device__ inline bool is_doubtful(const Acc (&sums)[Spec::vec_c], float limit)
{
    bool any = false;
#pragma unroll
    for (int i = 0; i < Spec::vec_c; i++)
        any |= !(absolute(sums[i]) >= limit);
    return any;
}

// Run i of the thread, in that turn; c: where its first run lies
__device__ inline void finish_run(const Args &args, Corner c, int i, const Run &run, Finish &finish,
                                  int turn, bool is_loaded)
{
    c = run_corner(c, i);
    if (!is_loaded)
        finish.load(args, c, turn);
#pragma unroll
    for (int j = 0; j < Lanes::run_n; j += Spec::vec_c) {
        Acc out[Spec::vec_c];
#pragma unroll
        for (int i = 0; i < Spec::vec_c; i++)
            out[i] = run.v[j + i];
        const Elements<Spec::vec_c> &e = finish.e[Finish::ahead ? turn : 0][j / Spec::vec_c];
        if (!is_inside(c, j))
            continue;
        if constexpr (Doubts::possible)
            if (is_doubtful(out, finish.limit)) {
                const Vec<Acc, Spec::vec_c> plain = plain_sums(args, Corner{c.b, c.m, c.n + j});
#pragma unroll
                for (int i = 0; i < Spec::vec_c; i++)
                    out[i] = plain.v[i];
            }
        epilogue(args, c.b, c.m, c.n + j, out, e);
    }
}

__device__ inline void finish(const Args &args, Corner c, const Accumulators &acc, Finish &loads,
                              bool is_loaded)
{
    constexpr int per_row = Spec::thread_n / Lanes::run_n;
#pragma unroll
    for (int i = 0; i < Tile::runs; i++) {
        Run run;
#pragma unroll
        for (int j = 0; j < Lanes::run_n; j++)
            run.v[j] = acc[i / per_row][i % per_row * Lanes::run_n + j];
        finish_run(args, c, i, run, loads, i, is_loaded);
    }
}

// The order of additions is fixed.
__device__ inline void finish_sums(const Args &args, Corner c, int group, const Run *sums,
                                   Finish &loads, bool is_loaded)
{
#pragma unroll(Finish::ahead ? Finish::turns : 4)
    for (int turn = 0; turn < Finish::turns; turn++) {
        const int i = group + turn * Spec::split;
        if (!is_run(i))
            break;
        Run run = sums[i * Tile::threads];
#pragma unroll
        for (int g = 1; g < Spec::split; g++) {
            Run other = sums[g * group_sums + i * Tile::threads];
#pragma unroll
            for (int j = 0; j < Lanes::run_n; j++)
                run.v[j] = add(run.v[j], other.v[j]);
        }
        finish_run(args, c, i, run, loads, turn, is_loaded);
    }
}
