// map.cuh: elementwise values over one flat domain of Spec::n elements.
//
// Generated before this: Elements<lanes> (what is loaded for `lanes` consecutive elements),
// load_elements and store_elements.  A thread has Spec::unroll vectors in flight before it uses the
// first: bandwidth needs the bytes. What is left after the last whole vector is done element by
// element.

__device__ inline void run(const Args &args)
{
    constexpr index_t n_vectors = Spec::n / Spec::vec;
    constexpr index_t chunk = Spec::threads * Spec::unroll;
    const index_t step = chunk * gridDim.x;
    for (index_t first = chunk * blockIdx.x + threadIdx.x; first < n_vectors; first += step) {
        Elements<Spec::vec> e[Spec::unroll];
#pragma unroll
        for (int u = 0; u < Spec::unroll; u++)
            if (first + u * Spec::threads < n_vectors)
                load_elements(args, (first + u * Spec::threads) * Spec::vec, e[u]);
#pragma unroll
        for (int u = 0; u < Spec::unroll; u++)
            if (first + u * Spec::threads < n_vectors)
                store_elements(args, (first + u * Spec::threads) * Spec::vec, e[u]);
    }
    if constexpr (Spec::n % Spec::vec != 0) {
        const index_t c = n_vectors * Spec::vec + threadIdx.x;
        if (blockIdx.x == gridDim.x - 1 && c < Spec::n) {
            Elements<1> e;
            load_elements(args, c, e);
            store_elements(args, c, e);
        }
    }
}

#ifdef KERNEL
extern "C" __global__ void __launch_bounds__(Spec::threads)
    KERNEL(const __grid_constant__ Args args)
{
    run(args);
}
#endif
