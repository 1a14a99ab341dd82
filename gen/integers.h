// integers.h: the least and the most of two integers, a quotient rounded up, and powers of two
#pragma once
#include <stdint.h>

static inline int max_of(int a, int b)
{
    return a > b ? a : b;
}

static inline int min_of(int a, int b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

// The largest vector of at most so many elements, a power of two, that divides an extent.
static inline int dividing(int64_t extent, int vec)
{
    while (extent % vec)
        vec /= 2;
    return vec;
}

// The least power of two that is not less.
static inline int next_power(int64_t n)
{
    int p = 1;
    while (p < n)
        p *= 2;
    return p;
}
