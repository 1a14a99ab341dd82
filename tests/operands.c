// operands.c: numerators and divisors of all sorts, at random from a seed.

#include "tests/operands.h"
#include <math.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t state;

void seed_operands(uint64_t seed)
{
    state = seed;
}

uint32_t random_bits(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static const float edges[] = {0,         0x1p-149f, 0x1p-127f, 0x1p-126f,      0x1p-102f,
                              0x1p-101f, 0x1p-100f, 0x1p-23f,  0x1.fffffep-1f, 1,
                              3,         0x1p64f,   0x1p125f,  0x1p126f,       0x1.fffffep127f,
                              INFINITY,  NAN,       1e-38f,    3e38f};

// Some steps from an edge, of either sign.
static float near_edge(void)
{
    uint32_t steps = random_bits() % 5, bits = bits_of(edges[random_bits() % COUNT(edges)]);
    return of_bits((bits < 2 ? bits + steps : bits + steps - 2) | (random_bits() & 1u << 31));
}

static float of_exponent(uint32_t exponent)
{
    static const uint32_t significands[] = {0, 1, 0x7fffff, 0x7ffffe, 0x400000};
    uint32_t r = random_bits(), significand = r & 0x7fffff;
    if (r >> 29 == 0)
        significand = significands[random_bits() % COUNT(significands)];
    return of_bits((r & 1u << 31) | exponent << 23 | significand);
}

static float of_exponents(uint32_t from, uint32_t to)
{
    return of_exponent(from + random_bits() % (to - from + 1));
}

static float some_zero(void)
{
    return of_bits(random_bits() & 1u << 31);
}

float divisor_of(enum kind kind)
{
    switch (kind) {
    case ANY:
    case ZEROS:
        return random_bits() & 1 ? near_edge() : of_exponents(0, 255);
    case SUBNORMAL:
        return of_exponents(130, 250);
    case LARGE:
        return of_exponents(248, 254);
    case TIES:
        return (float)(3 + random_bits() % 61) * 0x1p20f;
    default:
        return of_exponents(100, 150);
    }
}

float numerator_of(enum kind kind, float d)
{
    float q, next;
    switch (kind) {
    case ANY:
        return random_bits() & 1 ? near_edge() : of_exponents(0, 255);
    case ZEROS:
        return some_zero();
    case SOME_ZEROS:
        return random_bits() & 1 ? some_zero() : of_exponents(100, 150);
    case SMALL:
        return of_exponents(10, 40);
    case SUBNORMAL: // the quotient
        return of_exponent((bits_of(d) >> 23 & 255) - 126 - random_bits() % 4);
    case LARGE:
        return of_exponents(230, 254);
    case TIES: // halfway between two subnormal quotients
        return (float)((double)d * (2 * (random_bits() % 1024) + 1) * 0x1p-150);
    case HALFWAY: // nearly
        q = of_exponents(120, 135), next = of_bits(bits_of(q) + 1);
        return (float)((double)d * ((double)q + (double)next) / 2);
    default:
        return of_exponents(90, 160);
    }
}
