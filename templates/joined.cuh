// joined.cuh: two chained phases of reductions whose parts are joined once.  Each part of a row, a
// warp's or a block's, goes through both, the second one with a shift that comes of what it found
// itself in the first; who has all parts knows the row's shift, and moves their sums to it.
//
// Generated before this where phases are joined: as_whole (the shift of a part is made of what this
// leaves) and move_shift; else nothing here is used.

constexpr bool joined = Spec::exchanges < Spec::phases;
static_assert(!joined || (Spec::phases == 2 && Spec::exchanges == 1), "two phases at once");

template <int p> struct Both {
    typename Phase<p>::Acc first;
    typename Phase<p + 1>::Acc second;
};

// Columns of a part that has of_part of every of_item columns, which only the last ones may lack.
__device__ inline index_t columns_of_part(int part, index_t of_part, index_t of_item)
{
    const index_t last = (Spec::items - 1) * of_item + part * of_part;
    const index_t left = last < Spec::cols ? Spec::cols - last : 0;
    return (Spec::items - 1) * of_part + (left < of_part ? left : of_part);
}

// To `row` what a part makes of what it found in the first phase in n columns.
template <typename Acc>
__device__ inline void finish_part(const Args &args, index_t r, Acc acc, index_t n, Row &row)
{
    as_whole(acc, n ? n : 1);
    finish(args, r, row, acc);
}

// A row's results, in each of so many lanes, of all parts.  A lane has n of them in `of`, the j-th
// of columns_of(j) columns.
template <int p, int lanes, int most, typename Columns>
__device__ inline Both<p> join_parts(const Args &args, index_t r, const Row &row,
                                     Both<p> (&of)[most], int n, const Columns &columns_of)
{
    auto fold = [](auto &into, const auto &from) { combine(into, from); };
    Both<p> all;
    identity(all.first);
    identity(all.second);
#pragma unroll
    for (int j = 0; j < most; j++)
        if (j < n)
            combine(all.first, of[j].first);
    warp_reduce<lanes>(all.first, fold);
    Row whole = row;
    finish(args, r, whole, all.first);
#pragma unroll
    for (int j = 0; j < most; j++)
        if (j < n) {
            const index_t columns = columns_of(j);
            Row own = row;
            finish_part(args, r, of[j].first, columns, own);
            move_shift(of[j].second, columns, own, whole);
            combine(all.second, of[j].second);
        }
    warp_reduce<lanes>(all.second, fold);
    return all;
}
