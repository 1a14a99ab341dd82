// math.cuh: every name of gen/ops.def's cuda column, overloaded by compute type, and the
// conversions between types. float and double have overloads of their own; the templates beside
// them stand for integers and bool. NaN propagates, `/` and square roots are IEEE's, integers wrap.
#pragma once
#include "types.cuh"

// One value of float and its bits; the same for double.

__device__ __forceinline__ uint32 bits_of(float x)
{
    return __float_as_uint(x);
}

__device__ __forceinline__ uint64 bits_of(double x)
{
    return (uint64)__double_as_longlong(x);
}

__device__ __forceinline__ float of_bits(uint32 bits)
{
    return __uint_as_float(bits);
}

__device__ __forceinline__ double of_bits(uint64 bits)
{
    return __longlong_as_double((long long)bits);
}

// The smallest and largest values: where max, min and their kind start.

template <typename T> __device__ T lowest();
template <typename T> __device__ T highest();

#define LIMITS(type, low, high)                                                                    \
    template <> __device__ __forceinline__ type lowest<type>()                                     \
    {                                                                                              \
        return low;                                                                                \
    }                                                                                              \
    template <> __device__ __forceinline__ type highest<type>()                                    \
    {                                                                                              \
        return high;                                                                               \
    }
LIMITS(float, of_bits(0xff800000u), of_bits(0x7f800000u))
LIMITS(double, of_bits(0xfff0000000000000ull), of_bits(0x7ff0000000000000ull))
LIMITS(int, -2147483647 - 1, 2147483647)
LIMITS(long long, -9223372036854775807ll - 1, 9223372036854775807ll)
LIMITS(signed char, -128, 127)
LIMITS(unsigned char, 0, 255)
LIMITS(bool, false, true)
#undef LIMITS

// Functions of one floating-point value: the accurate library ones.

#define ELEMENTARY(name, single, twice)                                                            \
    __device__ __forceinline__ float name(float x)                                                 \
    {                                                                                              \
        return single(x);                                                                          \
    }                                                                                              \
    __device__ __forceinline__ double name(double x)                                               \
    {                                                                                              \
        return twice(x);                                                                           \
    }
ELEMENTARY(square_root, sqrtf, sqrt)
ELEMENTARY(exp_of, expf, exp)
ELEMENTARY(exp2_of, exp2f, exp2)
ELEMENTARY(expm1_of, expm1f, expm1)
ELEMENTARY(log_of, logf, log)
ELEMENTARY(log2_of, log2f, log2)
ELEMENTARY(log1p_of, log1pf, log1p)
ELEMENTARY(sin_of, sinf, sin)
ELEMENTARY(cos_of, cosf, cos)
ELEMENTARY(tan_of, tanf, tan)
ELEMENTARY(tanh_of, tanhf, tanh)
ELEMENTARY(sinh_of, sinhf, sinh)
ELEMENTARY(cosh_of, coshf, cosh)
ELEMENTARY(atan_of, atanf, atan)
ELEMENTARY(erf_of, erff, erf)
ELEMENTARY(erfc_of, erfcf, erfc)
ELEMENTARY(absolute, fabsf, fabs)
ELEMENTARY(floor_of, floorf, floor)
ELEMENTARY(ceil_of, ceilf, ceil)
ELEMENTARY(round_even, rintf, rint)
ELEMENTARY(trunc_of, truncf, trunc)
#undef ELEMENTARY

// 2 to x, within two ulps; subnormal results are 0.
__device__ __forceinline__ float rough_exp2(float x)
{
#ifdef QUERN_HOST
    const float y = exp2f(x);
    return y < 0x1p-126f ? 0.0f : y;
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// e to x within 2^-17, for what is rounded to 11 bits or fewer in the end, in a third of the
// instructions that expf takes to be within an ulp.  By way of the root, which is not subnormal
// where the result is not 0.
__device__ __forceinline__ float exp_narrow(float x)
{
    const float root = rough_exp2(x * (0.5f * 1.44269504f));
    return root * root;
}

__device__ __forceinline__ double exp_narrow(double x)
{
    return exp(x);
}

// Two correctly rounded steps: rsqrtf may be off by two ulps.
__device__ __forceinline__ float reciprocal_root(float x)
{
    return 1.0f / sqrtf(x);
}

__device__ __forceinline__ double reciprocal_root(double x)
{
    return 1.0 / sqrt(x);
}

template <typename T> __device__ __forceinline__ T floor_of(T x)
{
    return x;
}

template <typename T> __device__ __forceinline__ T ceil_of(T x)
{
    return x;
}

template <typename T> __device__ __forceinline__ T round_even(T x)
{
    return x;
}

template <typename T> __device__ __forceinline__ T trunc_of(T x)
{
    return x;
}

template <typename T> __device__ __forceinline__ bool is_negative(T x)
{
    if constexpr (T(-1) > T(0)) // unsigned
        return false;
    else
        return x < T(0);
}

// Unsigned, since the lowest integer has no positive counterpart and must wrap.
template <typename T> __device__ __forceinline__ T absolute(T x)
{
    return is_negative(x) ? (T)(0 - (uint64)x) : x;
}

template <typename T> __device__ __forceinline__ bool is_nan(T x)
{
    return x != x;
}

template <typename T> __device__ __forceinline__ bool is_inf(T x)
{
    return absolute(x) == highest<T>();
}

template <typename T> __device__ __forceinline__ bool is_finite(T x)
{
    return absolute(x) < highest<T>();
}

// 1, -1, 0 for either zero; NaN for NaN.
template <typename T> __device__ __forceinline__ T sign(T x)
{
    return x > T(0) ? T(1) : is_negative(x) ? T(-1) : x == T(0) ? T(0) : x;
}

__device__ __forceinline__ float divide(float a, float b)
{
    return a / b;
}

__device__ __forceinline__ double divide(double a, double b)
{
    return a / b;
}

// A divisor of many values.  With r = 1 / d rounded to nearest and q = n r rounded, n - d q is
// exact or nearly so, and q + (n - d q) r rounds to what n / d does: Markstein, IBM J. Res. Dev. 34
// (1990); Brisebarre, Muller and Raina, IEEE Trans. Comput. 53 (2004).
//
// That needs |n| of 2^-101 and more, for the remainder's last bit to be one of a float, and a
// quotient that is not subnormal.  From a smaller n comes a quotient below 2^-99 r, from another
// quotient one below 2^-124, from an infinite n or an n r that overflows a NaN, from a zero a zero.
// So that the quotient alone tells whether it is right: if it is at least `least`.

struct Divisor {
    float value, inverse;
    float least; // NaN, so that no quotient is: of a value that the above leaves out
};

// Within an ulp, where neither the value nor its reciprocal is subnormal.
__device__ __forceinline__ float rough_reciprocal(float d)
{
#ifdef QUERN_HOST
    return 1.0f / d;
#else
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
    return r;
#endif
}

// To about 20 bits.
__device__ __forceinline__ double rough_reciprocal(double d)
{
#ifdef QUERN_HOST
    return of_bits(bits_of(1.0 / d) & 0xffffffff00000000ull);
#else
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(d));
    return r;
#endif
}

// One step of Newton's makes a reciprocal within an ulp the nearest, of every significand but
// 2 - 2^-23: there are few enough to try them all.
__device__ __forceinline__ Divisor divisor(float d)
{
    const uint32 size = bits_of(d) & 0x7fffffff;
    const float rough = rough_reciprocal(d);
    const float inverse = fmaf(rough, fmaf(-d, rough, 1.0f), rough);
    const float least = fmaxf(fabsf(inverse) * 0x1p-99f, 0x1p-124f);
    const uint32 from = 0x00800000, to = 0x7e000000; // 2^-126, 2^125
    const bool fits = (size - from <= to - from) & ((~size & 0x7fffff) != 0);
    return {d, inverse, fits ? least : of_bits(0x7fffffffu)};
}

__device__ __forceinline__ float quick_quotient(float n, const Divisor &d)
{
    const float q = n * d.inverse;
    return fmaf(fmaf(-d.value, q, n), d.inverse, q);
}

__device__ __forceinline__ bool is_ordinary(float x)
{
    return (x != 0.0f) & is_finite(x);
}

// n / d of any two: the same in double, where nothing is out of range.  What is rounded to float is
// right to 2^-52, and exact where n / d is halfway between two floats; from where else it may be,
// halfway is further than 2^-49.
__device__ __forceinline__ float careful_quotient(float n, float d)
{
    const bool ordinary = is_ordinary(n) & is_ordinary(d);
    const double wide = d, rough = rough_reciprocal(wide);
    const double inverse = ordinary ? fma(rough, fma(-wide, rough, 1.0), rough) : rough;
    const double q = (double)n * inverse;
    return (float)(ordinary ? fma(fma(-wide, q, (double)n), inverse, q) : q);
}

// Not inline: a kernel has it once, out of the way.  Zeros are common, and done as fast as the
// rest; the loop takes the value that stands first, and the quotients queue up behind the values.
template <int lanes>
__device__ __noinline__ Vec<float, lanes> careful_quotients(Vec<float, lanes> n, Divisor d)
{
    Vec<float, lanes> q;
    bool right = d.least > 0.0f;
#pragma unroll
    for (int j = 0; j < lanes; j++) {
        const bool is_zero = n.v[j] == 0.0f;
        q.v[j] = is_zero ? n.v[j] * d.inverse : quick_quotient(n.v[j], d);
        right &= is_zero | (fabsf(q.v[j]) >= d.least);
    }
    if (right)
        return q;
#pragma unroll 1
    for (int i = 0; i < lanes; i++) {
        const float first = careful_quotient(n.v[0], d.value);
#pragma unroll
        for (int j = 1; j < lanes; j++)
            n.v[j - 1] = n.v[j];
        n.v[lanes - 1] = first;
    }
    return n;
}

template <int lanes>
__device__ __forceinline__ void divide_carefully(const Divisor &d, const float (&n)[lanes],
                                                 float (&q)[lanes])
{
    Vec<float, lanes> v;
#pragma unroll
    for (int j = 0; j < lanes; j++)
        v.v[j] = n[j];
    v = careful_quotients(v, d);
#pragma unroll
    for (int j = 0; j < lanes; j++)
        q[j] = v.v[j];
}

// q = n / d, in all lanes.  With --math fast a division is a product with the reciprocal already.
template <int lanes>
__device__ __forceinline__ void divide_by(const Divisor &d, const float (&n)[lanes],
                                          float (&q)[lanes])
{
#if __USE_FAST_MATH__ + 0
#pragma unroll
    for (int j = 0; j < lanes; j++)
        q[j] = divide(n[j], d.value);
#else
    bool right = true;
#pragma unroll
    for (int j = 0; j < lanes; j++) {
        q[j] = quick_quotient(n[j], d);
        right &= fabsf(q[j]) >= d.least;
    }
    if (!right)
        divide_carefully(d, n, q);
#endif
}

// q = n / d within 2 ulp, for what is rounded to 11 bits or fewer next.  Where the reciprocal is
// the nearest one and no subnormal, the product needs no check: it overflows and vanishes where
// the quotient does, and passes on NaN, infinities and signs.
template <int lanes>
__device__ __forceinline__ void divide_narrow(const Divisor &d, const float (&n)[lanes],
                                              float (&q)[lanes])
{
    if (d.least > 0.0f) {
#pragma unroll
        for (int j = 0; j < lanes; j++)
            q[j] = n[j] * d.inverse;
    } else {
        divide_carefully(d, n, q);
    }
}

__device__ __forceinline__ float fused_multiply_add(float a, float b, float c)
{
    return fmaf(a, b, c);
}

__device__ __forceinline__ double fused_multiply_add(double a, double b, double c)
{
    return fma(a, b, c);
}

// maximum, minimum: a NaN wins, and -0 is less than +0 (as max.NaN has it), so the order of
// operands never shows.

template <typename T> __device__ __forceinline__ T maximum(T a, T b)
{
    return a > b ? a : b;
}

template <typename T> __device__ __forceinline__ T minimum(T a, T b)
{
    return a < b ? a : b;
}

// Equal values differ in the sign of zero at most: `and` of the bits keeps +0, `or` keeps -0.
template <typename T> __device__ __forceinline__ T larger_float(T a, T b)
{
    return a > b ? a : a < b ? b : a == b ? of_bits(bits_of(a) & bits_of(b)) : a + b;
}

template <typename T> __device__ __forceinline__ T smaller_float(T a, T b)
{
    return a < b ? a : a > b ? b : a == b ? of_bits(bits_of(a) | bits_of(b)) : a + b;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ float maximum(float a, float b)
{
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

__device__ __forceinline__ float minimum(float a, float b)
{
    float c;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
#else
__device__ __forceinline__ float maximum(float a, float b)
{
    return larger_float(a, b);
}

__device__ __forceinline__ float minimum(float a, float b)
{
    return smaller_float(a, b);
}
#endif

__device__ __forceinline__ double maximum(double a, double b)
{
    return larger_float(a, b);
}

__device__ __forceinline__ double minimum(double a, double b)
{
    return smaller_float(a, b);
}

// larger, smaller: the first of the largest (smallest) values; the first NaN where there is one.

template <typename T>
__device__ __forceinline__ Indexed<T> larger(const Indexed<T> &a, const Indexed<T> &b)
{
    bool first = a.index < b.index,
         tie = a.value == b.value || (is_nan(a.value) && is_nan(b.value));
    bool wins = is_nan(a.value) || (!is_nan(b.value) && a.value > b.value);
    return (tie ? first : wins) ? a : b;
}

template <typename T>
__device__ __forceinline__ Indexed<T> smaller(const Indexed<T> &a, const Indexed<T> &b)
{
    bool first = a.index < b.index,
         tie = a.value == b.value || (is_nan(a.value) && is_nan(b.value));
    bool wins = is_nan(a.value) || (!is_nan(b.value) && a.value < b.value);
    return (tie ? first : wins) ? a : b;
}

// power: integers by squaring.  A negative exponent gives the reciprocal truncated, 0 unless the
// base is 1 or -1.

__device__ __forceinline__ float power(float a, float b)
{
    return powf(a, b);
}

__device__ __forceinline__ double power(double a, double b)
{
    return pow(a, b);
}

template <typename T> __device__ __forceinline__ T power(T a, T b)
{
    if (is_negative(b))
        return a == T(1) ? T(1) : a == T(-1) ? ((uint64)b & 1 ? T(-1) : T(1)) : T(0);
    uint64 result = 1, base = (uint64)a;
    for (uint64 n = (uint64)b; n; n >>= 1, base *= base)
        if (n & 1)
            result *= base;
    return (T)result;
}

// modulo: as Python has it, the sign of the divisor.  Integers: 0 for a zero divisor, as NumPy.

__device__ __forceinline__ float modulo(float a, float b)
{
    float r = fmodf(a, b);
    if (r == 0.0f)
        return copysignf(0.0f, b);
    return (r < 0.0f) != (b < 0.0f) ? r + b : r; // a NaN stays one
}

__device__ __forceinline__ double modulo(double a, double b)
{
    double r = fmod(a, b);
    if (r == 0.0)
        return copysign(0.0, b);
    return (r < 0.0) != (b < 0.0) ? r + b : r;
}

template <typename T> __device__ __forceinline__ T modulo(T a, T b)
{
    if (b == T(0) || b == T(-1)) // the lowest integer by -1 traps on some processors
        return T(0);
    T r = (T)(a % b);
    return r != T(0) && is_negative(r) != is_negative(b) ? (T)(r + b) : r;
}

template <> __device__ __forceinline__ bool modulo<bool>(bool, bool)
{
    return false;
}

#include "convert.cuh"
