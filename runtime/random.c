// random.c: a seed and an argument to data for it.  The same on every machine: integer
// arithmetic and correctly rounded sums, no libm.
//
// Floats are nearly normal with mean 0 and deviation 1 (the sum of twelve uniform numbers, within
// +-6); a weight of rank 2 or more is divided by the square root of its last dimension, so that a
// linear layer keeps the scale of its input.  Integers are small.  No number is ever 0: a kernel
// that forgets a term must not pass by luck.

#include "runtime/runtime.h"
#include <math.h>

struct generator {
    uint64_t s[4]; // xoshiro256**
};

static uint64_t mix(uint64_t *x) // splitmix64
{
    uint64_t z = *x += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

// Every argument has a sequence of its own, whatever the others are.
static struct generator generator_for(const char *name, uint64_t seed)
{
    uint64_t x = mix(&seed);
    for (; *name; name++)
        x = (x ^ (unsigned char)*name) * 0x100000001B3;
    struct generator g;
    for (int i = 0; i < 4; i++)
        g.s[i] = mix(&x);
    return g;
}

static uint64_t rotate(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static uint64_t next(struct generator *g)
{
    uint64_t *s = g->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

static double normal(struct generator *g)
{
    uint64_t sum = 0;
    for (int i = 0; i < 3; i++)
        for (uint64_t bits = next(g); bits; bits >>= 16)
            sum += bits & 0xFFFF;
    double low = (double)(next(g) >> 32) / 4294967296.0; // so that every bit of a float is in use
    return ((double)sum + low) / 65536.0 - 6.0 + 5.5 / 65536.0; // mean of the twelve: 65535/2 each
}

// From -limit to limit, never 0.
static double small_integer(struct generator *g, int limit)
{
    int n = (int)(next(g) % (uint64_t)(2 * limit)) - limit;
    return n < 0 ? n : n + 1;
}

static double value(struct generator *g, quern_dtype dtype, double scale)
{
    switch (dtype) {
    case QUERN_F32:
    case QUERN_F16:
    case QUERN_BF16:
    case QUERN_F64:
        return normal(g) * scale;
    case QUERN_I32:
    case QUERN_I64:
    case QUERN_I8:
        return small_integer(g, 8);
    case QUERN_U8:
        return (double)(next(g) % 15 + 1);
    case QUERN_BOOL:
        return (double)(next(g) >> 63);
    }
    return 0;
}

void quern_random(const quern_argument *a, uint64_t seed, void *data)
{
    if (!a || !data || !quern_dtype_bytes(a->dtype))
        return;
    struct generator g = generator_for(a->name, seed);
    int64_t n = a->bytes / quern_dtype_bytes(a->dtype);
    bool layer = a->role == QUERN_WEIGHT && a->rank >= 2 && a->dim[a->rank - 1] > 0;
    double scale = layer ? 1 / sqrt((double)a->dim[a->rank - 1]) : 1;
    for (int64_t i = 0; i < n; i++) {
        quern_set_element(a->dtype, data, i, value(&g, a->dtype, scale));
        if (a->dtype != QUERN_BOOL && quern_element(a->dtype, data, i) == 0)
            quern_set_element(a->dtype, data, i, scale);
    }
}
