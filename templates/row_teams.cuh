// row_teams.cuh: chained reductions along rows that one block cannot keep on chip, each row shared
// by a team of blocks of a cooperative launch.
//
// Generated before this: what rows.cuh says.
//
// The Spec::team blocks of a team take the row's columns between them, the same ones of every row,
// and the teams walk through the rows.  The stages of a row, one per phase of reductions and then
// the store, are a pipeline: in step k a block takes stage s of its team's row k - s * Spec::lag.
// So what the blocks tell each other of a phase has lag steps to arrive in, and while they reduce
// and store, the next Spec::ahead rows are on their way to shared memory.
//
//   step k:  row k + ahead            is sent for
//            rows k - lag ...         what the others found lag steps ago is collected
//            row k                    phase 0
//            row k - lag ...          phase 1 ...
//            row k - phases * lag     is stored
//
// Joined phases (joined.cuh): a block goes through both of row k, and tells its results of both.
//
// A thread reads from shared memory what it copied there itself, so that the row needs no barrier.

#include "joined.cuh"

constexpr int warps = Spec::threads / 32;
static_assert(Spec::threads % 32 == 0 && (warps & (warps - 1)) == 0, "a power of two of warps");

// Rows at work: the oldest is stored.
constexpr int n_rows = Spec::exchanges * Spec::lag + 1;

// A row is in the ring from when it is sent for until it is stored.
constexpr int n_slices = Spec::ahead + n_rows;

// Of a team, in args.exchange: the tag that each block goes on from, then per exchange some sets of
// packets, each per word of the accumulator a packet of every block.
constexpr int words = Spec::acc_bytes / 4;
constexpr int set_packets = words * Spec::team;
constexpr int n_sets = 2 * Spec::lag;
constexpr int team_packets = Spec::team + n_sets * Spec::exchanges * set_packets;

// From the vectors of one item to those of the next.
constexpr index_t item_cols = (index_t)Spec::team * Spec::threads * Spec::vec;

__device__ inline index_t column_of(int item)
{
    const index_t first = (blockIdx.x % Spec::team * Spec::threads + threadIdx.x) * Spec::vec;
    return first + item * item_cols;
}

// Columns of the row that a block of the team has.
__device__ inline index_t columns_of(int block)
{
    return columns_of_part(block, (index_t)Spec::threads * Spec::vec, item_cols);
}

// Only the last item may lie past the row.
__device__ inline bool has_column(int item)
{
    return (item + 1) * item_cols <= Spec::cols || column_of(item) < Spec::cols;
}

// The rows that a team walks through, the exchange it has to itself, and the step it is at.
struct Walk {
    index_t first, stride;
    int n;
    uint64 *exchange;
    uint32 tag; // of row -1
    int k, slice;

    __device__ inline index_t row(int i) const
    {
        return first + (index_t)i * stride;
    }
    __device__ inline bool has(int i) const
    {
        return i >= 0 && i < n;
    }
    // Bytes of shared memory of one vector of every thread of row k + i.
    __device__ inline unsigned char *region(int i, int item) const
    {
        int at = slice + i;
        at += at < 0 ? n_slices : at >= n_slices ? -n_slices : 0;
        return dynamic_shared() + Spec::staging_at +
               (at * Spec::items + item) * Spec::threads * Spec::staged_bytes;
    }
    // The sets take turns.  When a block sends row i's result of a phase it has collected that of
    // row i - lag from all blocks of the team, and each of these had collected that of row
    // i - 2 * lag when it sent it.  So nobody waits any more for what is overwritten.  A set holds
    // the tag of another row before, in this launch or from the last one: no other packet can be
    // taken for the one that is waited for.
    __device__ inline uint64 *packets(int phase, int i) const
    {
        return exchange + Spec::team + (n_sets * phase + i % n_sets) * set_packets;
    }
    __device__ inline uint32 tag_of_row(int i) const
    {
        return tag + 1 + (uint32)i;
    }
};

// Sends row k + i on its way; a row that is not there still counts as a group of copies.
__device__ inline void issue_row(const Args &args, const Walk &walk, int i)
{
    if (walk.has(walk.k + i)) {
#pragma unroll
        for (int item = 0; item < Spec::items; item++)
            if (has_column(item))
                stage_elements(args, walk.row(walk.k + i), column_of(item), walk.region(i, item));
    }
    commit_copies();
}

// What the warps of a block found in a phase, then what the whole team did: by turns, so that one
// step's is written while another warp may still read the last one's.
template <int p> __device__ inline typename Phase<p>::Acc *found(int k)
{
    const int at = (k % 2 * Spec::phases + p) * (warps + 1) * Spec::acc_bytes;
    return (typename Phase<p>::Acc *)(dynamic_shared() + at);
}

// Of the row whose stage p it is.
template <int p>
__device__ inline void accumulate_phase(const Args &args, const Walk &walk, const Row (&row)[1],
                                        const Elements<Spec::vec> (&kept)[Spec::items])
{
    constexpr int at = joined ? 0 : p * Spec::lag;
    if (!walk.has(walk.k - at))
        return;
    const index_t r = walk.row(walk.k - at);
    typename Phase<p>::Acc acc[1];
    identity(acc[0]);
#pragma unroll
    for (int item = 0; item < Spec::items; item++) {
        const index_t c = column_of(item);
        if (has_column(item)) {
            Elements<Spec::vec> e = kept[item];
            read_staged(walk.region(-at, item), e);
            load_elements(args, r, c, e);
            accumulate(args, r, c, row, e, acc);
        }
    }
    warp_reduce<32>(acc[0], [](auto &into, const auto &from) { combine(into, from); });
    if (threadIdx.x % 32 == 0)
        found<p>(walk.k)[threadIdx.x / 32] = acc[0];
}

// What the block found in a phase, in every lane of a warp.
template <int p> __device__ inline typename Phase<p>::Acc found_by_block(int k)
{
    typename Phase<p>::Acc acc = found<p>(k)[threadIdx.x % warps];
    warp_reduce<warps, true>(acc, [](auto &into, const auto &from) { combine(into, from); });
    return acc;
}

// What blocks tell each other of a row at a time.
template <int p, bool joined> struct ToldOf {
    using Type = typename Phase<p>::Acc;
};
template <int p> struct ToldOf<p, true> {
    using Type = Both<p>;
};
template <int p> using Told = typename ToldOf<p, joined>::Type;

template <int p> __device__ inline Told<p> told_by_block(int k)
{
    if constexpr (joined)
        return {found_by_block<p>(k), found_by_block<p + 1>(k)};
    else
        return found_by_block<p>(k);
}

// The block's result of a phase, or of the joined ones, to its team, by a warp of its own.
template <int p> __device__ inline void send_phase(const Walk &walk)
{
    static_assert(sizeof(Told<p>) <= Spec::acc_bytes, "there are packets for it");
    if (!walk.has(walk.k - p * Spec::lag) || threadIdx.x / 32 != p % warps)
        return;
    const Told<p> told = told_by_block<p>(walk.k);
    const int i = walk.k - p * Spec::lag;
    if (threadIdx.x % 32 == 0)
        send(walk.packets(p, i) + blockIdx.x % Spec::team, Spec::team, walk.tag_of_row(i), told);
}

// A lane takes every 32nd block's packets of a phase, as many at a time as do not crowd its
// registers; the first ones it asks for a step early.  Joined ones it needs all at once, to move
// their shifts.
template <int p> struct Lane {
    static constexpr int most = (Spec::team + 31) / 32;
    static constexpr int fit = 64 / sizeof(Told<p>) > 1 ? 64 / sizeof(Told<p>) : 1;
    static constexpr int at_once = fit < most && !joined ? fit : most;
    Packets<Told<p>, at_once> packets;
};

__device__ inline int packets_of_lane()
{
    const int lane = threadIdx.x % 32;
    return lane < Spec::team ? (Spec::team - 1 - lane) / 32 + 1 : 0;
}

// Those of phase p and the phases before it.
template <int p> struct Early : Early<p - 1> {
    Lane<p> lane;
};
template <> struct Early<-1> {
};

// Asks for the team's results of phase p and those before it that the next step needs: where they
// were sent more than a step ago they are there, and the step does not begin with waiting.
template <int p> __device__ inline void ask_phases(const Walk &walk, Early<p> &early)
{
    if constexpr (p > 0)
        ask_phases<p - 1>(walk, early);
    const int i = walk.k + 1 - (p + 1) * Spec::lag;
    if (walk.has(i) && threadIdx.x / 32 == p % warps)
        early.lane.packets.ask(walk.packets(p, i) + threadIdx.x % 32, 32, Spec::team,
                               packets_of_lane());
}

// The team's results of phase p and those before it, each by a warp.
template <int p> __device__ inline void collect_phases(const Walk &walk, Early<p> &early)
{
    using Acc = typename Phase<p>::Acc;
    if constexpr (p > 0)
        collect_phases<p - 1>(walk, early);
    constexpr int at_once = Lane<p>::at_once;
    const int lane = threadIdx.x % 32, i = walk.k - (p + 1) * Spec::lag;
    if (!walk.has(i) || threadIdx.x / 32 != p % warps)
        return;
    const uint64 *from = walk.packets(p, i) + lane;
    const int n = packets_of_lane();
    Acc acc;
    identity(acc);
#pragma unroll 1
    for (int first = 0; first < Lane<p>::most; first += at_once) {
        Acc of[at_once];
        if (first > 0)
            early.lane.packets.ask(from + 32 * first, 32, Spec::team, n - first);
        early.lane.packets.receive(from + 32 * first, 32, Spec::team, n - first, walk.tag_of_row(i),
                                   of);
#pragma unroll
        for (int j = 0; j < at_once; j++)
            if (first + j < n)
                combine(acc, of[j]);
    }
    warp_reduce<32>(acc, [](auto &into, const auto &other) { combine(into, other); });
    if (lane == 0)
        found<p>(walk.k)[warps] = acc;
}

// The team's results of joined phases, by a warp.  row: of the row that they are of
template <int p>
__device__ inline void collect_joined(const Args &args, const Walk &walk, Early<p> &early,
                                      const Row &row)
{
    const int lane = threadIdx.x % 32, i = walk.k - Spec::lag;
    if (!walk.has(i) || threadIdx.x / 32 != 0)
        return;
    const int n = packets_of_lane();
    Both<p> of[Lane<p>::most];
    early.lane.packets.receive(walk.packets(p, i) + lane, 32, Spec::team, n, walk.tag_of_row(i),
                               of);
    const Both<p> all = join_parts<p, 32>(args, walk.row(i), row, of, n, [&](int j) {
        return columns_of(lane + 32 * j);
    });
    if (lane == 0) {
        found<p>(walk.k)[warps] = all.first;
        found<p + 1>(walk.k)[warps] = all.second;
    }
}

template <int p>
__device__ inline void finish_phases(const Args &args, const Walk &walk,
                                     Row (&rows)[n_rows][1])
{
    if constexpr (p > 0)
        finish_phases<p - 1>(args, walk, rows);
    constexpr int at = joined ? Spec::lag : (p + 1) * Spec::lag;
    if (walk.has(walk.k - at))
        finish(args, walk.row(walk.k - at), rows[at][0], found<p>(walk.k)[warps]);
}

// Phases 1 to p, each of another row.
template <int p>
__device__ inline void later_phases(const Args &args, const Walk &walk,
                                    const Row (&rows)[n_rows][1],
                                    const Elements<Spec::vec> (&kept)[Spec::items])
{
    if constexpr (p > 0) {
        later_phases<p - 1>(args, walk, rows, kept);
        accumulate_phase<p>(args, walk, rows[p * Spec::lag], kept);
    }
}

template <int p> __device__ inline void send_later_phases(const Walk &walk)
{
    if constexpr (p > 0) {
        send_later_phases<p - 1>(walk);
        send_phase<p>(walk);
    }
}

__device__ inline void store_last(const Args &args, const Walk &walk, const Row (&row)[1],
                                  const Elements<Spec::vec> (&kept)[Spec::items])
{
    constexpr int oldest = n_rows - 1;
    if (!walk.has(walk.k - oldest))
        return;
    const index_t r = walk.row(walk.k - oldest);
    Elements<Spec::vec> e[Spec::items];
#pragma unroll
    for (int item = 0; item < Spec::items; item++)
        if (has_column(item)) {
            e[item] = kept[item];
            read_staged(walk.region(-oldest, item), e[item]);
            load_elements(args, r, column_of(item), e[item]);
            load_late(args, r, column_of(item), e[item]);
        }
#pragma unroll
    for (int item = 0; item < Spec::items; item++)
        if (has_column(item))
            store_elements(args, r, column_of(item), row, e[item]);
    if (blockIdx.x % Spec::team == 0 && threadIdx.x == 0)
        store_row(args, r, row[0]);
}

// A step with joined phases.
template <int p>
__device__ inline void take_joined_step(const Args &args, const Walk &walk,
                                        Row (&rows)[n_rows][1],
                                        const Elements<Spec::vec> (&kept)[Spec::items],
                                        Early<p> &early)
{
    issue_row(args, walk, Spec::ahead);
    collect_joined<p>(args, walk, early, rows[Spec::lag][0]);
    wait_copies<Spec::ahead>();
    accumulate_phase<p>(args, walk, rows[0], kept);
    __syncthreads(); // what the team found, and the warps in the first phase
    ask_phases<p>(walk, early);
    finish_phases<p + 1>(args, walk, rows);
    if (walk.has(walk.k)) {
        Row own[1] = {rows[0][0]};
        finish_part(args, walk.row(walk.k), found_by_block<p>(walk.k),
                    columns_of(blockIdx.x % Spec::team), own[0]);
        accumulate_phase<p + 1>(args, walk, own, kept);
    }
    __syncthreads(); // what the warps found in the second one
    send_phase<p>(walk);
    store_last(args, walk, rows[n_rows - 1], kept);
}

// With an exchange per phase, the last of which is p.
template <int p>
__device__ inline void take_step(const Args &args, const Walk &walk,
                                 Row (&rows)[n_rows][1],
                                 const Elements<Spec::vec> (&kept)[Spec::items], Early<p> &early)
{
    issue_row(args, walk, Spec::ahead);
    collect_phases<p>(walk, early);
    wait_copies<Spec::ahead>();
    accumulate_phase<0>(args, walk, rows[0], kept);
    __syncthreads(); // what the team found, and the warps in phase 0, is written before it is read
    send_phase<0>(walk);
    ask_phases<p>(walk, early);
    finish_phases<p>(args, walk, rows);
    later_phases<p>(args, walk, rows, kept);
    if constexpr (p > 0)
        __syncthreads(); // what the warps found in the other phases
    send_later_phases<p>(walk);
    store_last(args, walk, rows[n_rows - 1], kept);
}

template <typename A> __device__ inline void walk_rows(const A &args)
{
    const index_t n_teams = gridDim.x / Spec::team, team = blockIdx.x / Spec::team;
    if (team >= Spec::rows)
        return;
    uint64 *exchange = args.exchange + team * team_packets;
    uint64 *own_tag = exchange + blockIdx.x % Spec::team;
    // Every block of the team sends a packet a row, so they all go on from the same tag.
    Walk walk = {team,
                 n_teams,
                 (int)((Spec::rows - team + n_teams - 1) / n_teams),
                 exchange,
                 (uint32)load_coherent(own_tag),
                 0,
                 0};
    Elements<Spec::vec> kept[Spec::items];
#pragma unroll
    for (int item = 0; item < Spec::items; item++)
        if (has_column(item))
            load_columns(args, column_of(item), kept[item]);
    Row rows[n_rows][1] = {}, next = {};
    Early<Spec::exchanges - 1> early;
    load_row(args, walk.row(0), rows[0][0]);
#pragma unroll
    for (int i = 0; i < Spec::ahead; i++)
        issue_row(args, walk, i);
    for (; walk.k < walk.n + n_rows - 1; walk.k++) {
        if (walk.has(walk.k + 1))
            load_row(args, walk.row(walk.k + 1), next);
        if constexpr (joined)
            take_joined_step<0>(args, walk, rows, kept, early);
        else
            take_step<Spec::exchanges - 1>(args, walk, rows, kept, early);
#pragma unroll
        for (int s = n_rows - 1; s > 0; s--)
            rows[s][0] = rows[s - 1][0];
        rows[0][0] = next;
        walk.slice = walk.slice + 1 == n_slices ? 0 : walk.slice + 1;
    }
    if (threadIdx.x == 0)
        store(own_tag, (uint64)(walk.tag + (uint32)walk.n));
}

#ifdef KERNEL
extern "C" __global__ void __launch_bounds__(Spec::threads, Spec::blocks_per_sm)
    KERNEL(const __grid_constant__ Args args)
{
    walk_rows(args);
}
#endif
