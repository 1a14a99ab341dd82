// convert.cuh: values of one type to another: f16 and bf16 to float and back, rounding once, and
// the casts.
#pragma once

// double to float, rounding to odd: what is lost shows in the last bit, so that a second rounding,
// to a format at least two bits narrower, gives what one rounding would have given.
__device__ __forceinline__ float round_to_odd(double x)
{
    float nearest = (float)x;
    uint32 bits = bits_of(nearest);
    if (x != x || (double)nearest == x || (bits & 1))
        return nearest;
    return of_bits(fabs(x) > fabs((double)nearest) ? bits + 1 : bits - 1);
}

// The same for integers: those beyond 2^53 keep 53 bits, the last of them sticky.
__device__ __forceinline__ float round_to_odd(long long x)
{
    uint64 size = x < 0 ? 0 - (uint64)x : (uint64)x;
    if (size >> 53)
        size = (size & ~2047ull) | (size & 2047 ? 2048 : 0);
    float f = round_to_odd((double)size);
    return x < 0 ? -f : f;
}

#ifdef QUERN_HOST

__device__ inline half_t to_half(float x)
{
    uint32 bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) // NaN, as the instruction writes it
        return half_t{0x7fff};
    if (size >= 0x47800000) // 65536 and more
        return half_t{(unsigned short)(sign | 0x7c00)};
    if (size <
        0x38800000) // subnormal: beside 0.5 the last bit weighs 2^-24, so that the sum rounds right
        return half_t{(unsigned short)(sign | (bits_of(of_bits(size) + 0.5f) - 0x3f000000))};
    size += 0xfff + (size >> 13 & 1); // half to even; a carry may make it infinite
    return half_t{(unsigned short)(sign | (size - 0x38000000) >> 13)};
}

__device__ inline float to_compute(half_t x)
{
    uint32 sign = (uint32)(x.bits & 0x8000) << 16, size = x.bits & 0x7fff;
    if (size > 0x7c00)
        return of_bits(0x7fffffffu);
    if (size == 0x7c00)
        return of_bits(sign | 0x7f800000);
    float scaled =
        of_bits(size << 13) * of_bits(0x77800000u); // times 2^112 makes up for the exponents' bias
    return of_bits(sign | bits_of(scaled));
}

#else

__device__ __forceinline__ half_t to_half(float x)
{
    half_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
    return h;
}

__device__ __forceinline__ float to_compute(half_t x)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
    return f;
}

#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

__device__ __forceinline__ bfloat_t to_bfloat(float x)
{
    bfloat_t b;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(x));
    return b;
}

#else

__device__ __forceinline__ bfloat_t to_bfloat(float x)
{
    uint32 bits = bits_of(x);
    if (x != x)
        return bfloat_t{0x7fff};
    return bfloat_t{(unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)}; // half to even
}

#endif

__device__ __forceinline__ float to_compute(bfloat_t x)
{
    return of_bits((uint32)x.bits << 16);
}

// Lane j, known once loops are unrolled: one instruction on the word that has two of them.
template <int lanes>
__device__ __forceinline__ float to_compute(const Vec<bfloat_t, lanes> &x, int j)
{
    if constexpr (lanes == 1) {
        return to_compute(x.v[j]);
    } else {
        uint32 words[lanes / 2];
        memcpy(words, &x, sizeof x);
        return of_bits(j % 2 ? words[j / 2] & 0xffff0000u : words[j / 2] << 16);
    }
}

template <typename T> __device__ __forceinline__ T to_compute(T x)
{
    return x;
}

// What a value is before it is rounded to f16 or bf16: a float that rounds as the value itself
// would.

__device__ __forceinline__ float before_rounding(float x)
{
    return x;
}

__device__ __forceinline__ float before_rounding(double x)
{
    return round_to_odd(x);
}

template <typename T> __device__ __forceinline__ float before_rounding(T x)
{
    return round_to_odd((long long)x);
}

// Compute type to storage type; f16 and bf16 round to nearest even, once.
template <typename T, typename S> __device__ __forceinline__ T to_storage(S x)
{
    if constexpr (same_type<T, half_t>)
        return to_half(before_rounding(x));
    else if constexpr (same_type<T, bfloat_t>)
        return to_bfloat(before_rounding(x));
    else
        return (T)x;
}

// Floats to integers: toward zero, what is out of range to the nearest limit, NaN to 0.

template <typename I, typename F> __device__ __forceinline__ I saturate(F x)
{
    if (x != x)
        return I(0);
    if (x >= (F)highest<I>())
        return highest<I>();
    return x <= (F)lowest<I>() ? lowest<I>() : (I)x;
}

template <typename I, typename T> __device__ __forceinline__ I to_integer(T x)
{
    if constexpr (same_type<T, float> || same_type<T, double>)
        return saturate<I>(x);
    else
        return (I)x; // wraps
}

template <typename T> __device__ __forceinline__ float cast_to_f32(T x)
{
    return (float)x;
}

// The compute type of f16 and bf16 is float: the value rounded to the format, as a float.
template <typename T> __device__ __forceinline__ float cast_to_f16(T x)
{
    return to_compute(to_half(before_rounding(x)));
}

template <typename T> __device__ __forceinline__ float cast_to_bf16(T x)
{
    return to_compute(to_bfloat(before_rounding(x)));
}

template <typename T> __device__ __forceinline__ double cast_to_f64(T x)
{
    return (double)x;
}

template <typename T> __device__ __forceinline__ int cast_to_i32(T x)
{
    return to_integer<int>(x);
}

template <typename T> __device__ __forceinline__ long long cast_to_i64(T x)
{
    return to_integer<long long>(x);
}

template <typename T> __device__ __forceinline__ signed char cast_to_i8(T x)
{
    return to_integer<signed char>(x);
}

template <typename T> __device__ __forceinline__ unsigned char cast_to_u8(T x)
{
    return to_integer<unsigned char>(x);
}

template <typename T> __device__ __forceinline__ bool cast_to_bool(T x)
{
    return x != T(0);
}
