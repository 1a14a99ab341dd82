// factors.c: operands of products by formula, of which every sum is exact in whatever order.

#include "tests/factors.h"
#include <float.h>
#include <math.h>

static uint32_t hash(const int64_t *at, uint32_t seed)
{
    uint32_t h = ((uint32_t)at[0] * 2654435761u ^ (uint32_t)at[1] * 2246822519u) + seed * 40503u;
    h = (h ^ h >> 15) * 2654435769u;
    return h ^ h >> 13;
}

double small_a(const int64_t *at)
{
    return hash(at, 1) % 17 - 8.0;
}

double small_b(const int64_t *at)
{
    return hash(at, 2) % 17 - 8.0;
}

double random_of_bits(const int64_t *at, int n_bits)
{
    uint32_t h = hash(at, 3), upper = 1u << (n_bits - 1);
    double size = (h >> 1 & (upper - 1)) | upper | 1;
    return h & 1 ? -size : size;
}

static double of_24_bits(const int64_t *at)
{
    return random_of_bits(at, 24);
}

static double of_12_bits(const int64_t *at)
{
    return random_of_bits(at, 12);
}

// One of a row, or of a column, is not 0: a power of two, or of 12 bits.

static double power_of_a_row(const int64_t *at)
{
    return at[1] == 7 * at[0] % LEAST_K ? ldexp(1, (int)at[0] % 5 - 2) : 0;
}

static double power_of_a_column(const int64_t *at)
{
    return at[0] == 7 * at[1] % LEAST_K ? -ldexp(1, (int)at[1] % 5 - 2) : 0;
}

static double twelve_bits_of_a_column(const int64_t *at)
{
    return at[0] == 7 * at[1] % LEAST_K ? of_12_bits(at) : 0;
}

// What has no bfloat16 parts, each in a row of its own; around it small integers, or zeros where
// they would hide it.
static double doubtful_a(const int64_t *at)
{
    int64_t k = at[1];
    switch (at[0]) {
    case 3:
        return k == 5 ? INFINITY : small_a(at);
    case 5:
        return k == 38 ? NAN : small_a(at);
    case 7:
        return k == 2 ? FLT_MAX : small_a(at);
    case 10:
        return k == 4 ? 1e-40 : 0;
    case 12:
        return k == 6 ? (double)1e-38f : 0;
    case 14:
        return k == 8 ? 0x1p-133 : 0;
    default:
        return small_a(at);
    }
}

static double doubtful_b(const int64_t *at)
{
    return at[0] == 37 && at[1] == 6 ? -INFINITY : small_b(at);
}

const struct factors exact_factors[N_FACTORS] = {
    [SMALL_INTEGERS] = {small_a,        small_b                },
    [DOUBTFUL] = {doubtful_a,     doubtful_b             },
    [LONG_A] = {of_24_bits,     power_of_a_column      },
    [LONG_B] = {power_of_a_row, of_24_bits             },
    [LONG_BOTH] = {of_12_bits,     twelve_bits_of_a_column},
};

float f32_chain(const struct factors *f, int64_t row, int64_t column, int64_t k)
{
    float sum = 0;
    for (int64_t i = 0; i < k; i++)
        sum = fmaf((float)f->a((int64_t[]){row, i}), (float)f->b((int64_t[]){i, column}), sum);
    return sum;
}

bool same_value(double got, double right)
{
    return isnan(right) ? isnan(got) : got == right && signbit(got) == signbit(right);
}
