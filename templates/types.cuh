// types.cuh: the storage types that C++ has no name for, vectors of them, and what templates ask of
// a type.
#pragma once

typedef unsigned int uint32;
typedef unsigned long long uint64;

struct half_t {
    unsigned short bits; // IEEE binary16
};

struct bfloat_t {
    unsigned short bits; // the upper half of a binary32
};

// N elements that are moved together; N is a power of two.
template <typename T, int N> struct alignas(sizeof(T) * N) Vec {
    T v[N];
};

// All bits 0, of types whose name is two words too.
template <typename T> __device__ constexpr T zero()
{
    return T{};
}

// A value and where it stood, for argmax and argmin.
template <typename T> struct Indexed {
    T value;
    long long index;
};

template <typename A, typename B> constexpr bool same_type = false;
template <typename A> constexpr bool same_type<A, A> = true;
