// integers.h: the least and the most of two integers, and a quotient rounded up
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
