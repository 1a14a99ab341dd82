// map_tiles.cuh: elementwise values where some tensors lie side by side along another axis, p, than
// the stores, which lie side by side along q.
//
// Generated before this: Elements<lanes>, load_elements (what lies along q, or is the same for all)
// and store_elements as for map.cuh; for each transposed tensor a type Tile<n> that fetches a
// vector along p; fill_tiles, which calls its argument with each of them; read_tiles, which fills
// their fields of Elements.
//
// A block computes Spec::tile_p x Spec::tile_q elements at a time.  A transposed tensor's share of
// them is loaded along p and kept in shared memory in rows of q, with a word more to a row than it
// needs: neither the columns that are written nor the rows that are read meet in one bank.

struct Place {
    index_t o, p, i, q; // of a tile's first element
};

constexpr index_t n_tiles_p = (Spec::length_p + Spec::tile_p - 1) / Spec::tile_p;
constexpr index_t n_tiles_q = (Spec::length_q + Spec::tile_q - 1) / Spec::tile_q;
constexpr index_t n_tiles = Spec::outer * Spec::inner * n_tiles_p * n_tiles_q;

__device__ inline Place place_of(index_t tile)
{
    const index_t along_p = tile / n_tiles_q, i = along_p / n_tiles_p;
    return {i / Spec::inner, along_p % n_tiles_p * Spec::tile_p, i % Spec::inner,
            tile % n_tiles_q * Spec::tile_q};
}

template <typename Tile> __device__ inline typename Tile::type *tile_element(int p, int q)
{
    typedef typename Tile::type T;
    constexpr int free = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
    constexpr int row = Spec::tile_q + free;
    static_assert(Tile::at + Spec::tile_p * row * (int)sizeof(T) <= Spec::shared_bytes,
                  "the launch gives too little shared memory");
    return (T *)(dynamic_shared() + Tile::at) + p * row + q;
}

// All of a thread's vectors are on their way before the first is written.
template <typename Tile> __device__ inline void fill_tile(const Args &args, const Place &at)
{
    constexpr int lanes = Tile::lanes, across = Spec::tile_p / lanes;
    constexpr int items = Spec::tile_p * Spec::tile_q / (lanes * Spec::threads);
    Vec<typename Tile::type, lanes> x[items];
#pragma unroll
    for (int u = 0; u < items; u++) {
        const int item = u * Spec::threads + threadIdx.x;
        const int p = item % across * lanes, q = item / across;
        if (at.p + p < Spec::length_p && at.q + q < Spec::length_q)
            x[u] = Tile::fetch(args, at.o, at.p + p, at.i, at.q + q);
    }
#pragma unroll
    for (int u = 0; u < items; u++) {
        const int item = u * Spec::threads + threadIdx.x;
        const int p = item % across * lanes, q = item / across;
        if (at.p + p < Spec::length_p && at.q + q < Spec::length_q)
#pragma unroll
            for (int j = 0; j < lanes; j++)
                *tile_element<Tile>(p + j, q) = x[u].v[j];
    }
}

// Narrow elements come by the word: rows begin at one, and q is a multiple of the lanes.
template <typename Tile>
__device__ inline Vec<typename Tile::type, Spec::vec> read_tile(int p, int q)
{
    typedef typename Tile::type T;
    constexpr int at_once = sizeof(T) * Spec::vec >= 4 && sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1;
    Vec<T, Spec::vec> x;
#pragma unroll
    for (int j = 0; j < Spec::vec; j += at_once) {
        const Vec<T, at_once> word = *(const Vec<T, at_once> *)tile_element<Tile>(p, q + j);
#pragma unroll
        for (int k = 0; k < at_once; k++)
            x.v[j + k] = word.v[k];
    }
    return x;
}

// The vectors of a thread from `first` on, as many as it has in flight: calls use(p, q, c, u) for
// those that are inside.
template <typename Use> __device__ inline void each_vector(const Place &at, int first, Use use)
{
    constexpr int along = Spec::tile_q / Spec::vec;
#pragma unroll
    for (int u = 0; u < Spec::unroll; u++) {
        const int item = (first + u) * Spec::threads + threadIdx.x;
        const int p = item / along, q = item % along * Spec::vec;
        const index_t outer = at.o * Spec::length_p + at.p + p;
        const index_t c = (outer * Spec::inner + at.i) * Spec::length_q + at.q + q;
        if (at.p + p < Spec::length_p && at.q + q < Spec::length_q)
            use(p, q, c, u);
    }
}

__device__ inline void run(const Args &args)
{
    constexpr int items = Spec::tile_p * Spec::tile_q / (Spec::vec * Spec::threads);
    for (index_t tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        const Place at = place_of(tile);
        Elements<Spec::vec> e[Spec::unroll];
        auto load_some = [&](int first) {
            each_vector(at, first,
                        [&](int, int, index_t c, int u) { load_elements(args, c, e[u]); });
        };
        load_some(0); // on their way while the tiles fill
        fill_tiles([&](auto of) { fill_tile<decltype(of)>(args, at); });
        __syncthreads(); // the tiles are whole
#pragma unroll
        for (int first = 0; first < items; first += Spec::unroll) {
            if (first > 0)
                load_some(first);
            each_vector(at, first, [&](int p, int q, index_t c, int u) {
                read_tiles(e[u], [&](auto of) { return read_tile<decltype(of)>(p, q); });
                store_elements(args, c, e[u]);
            });
        }
        __syncthreads(); // all have read them: they may be filled again
    }
}

#ifdef KERNEL
extern "C" __global__ void __launch_bounds__(Spec::threads)
    KERNEL(const __grid_constant__ Args args)
{
    run(args);
}
#endif
