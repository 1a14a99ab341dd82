// storage.c: elements as they lie in memory to the evaluator's double and int64_t, and back.
//
// A double is rounded to its dtype once, to nearest even, straight from the double: going to f16
// through f32 would round twice.  Subnormals are kept, too large becomes infinity, every NaN stays
// a NaN.

#include "gen/eval.h"
#include <math.h>
#include <string.h>

struct format {
    int fraction, bias; // bits
};

static const struct format half_format = {.fraction = 10, .bias = 15};
static const struct format bfloat_format = {.fraction = 7, .bias = 127};

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double power_of_two(int e)
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Adding and taking away a number whose last place is the wanted one makes the adder round.
static double round_to_format(struct format f, double x)
{
    double least_normal = power_of_two(1 - f.bias), size = fabs(x);
    if (!(size < INFINITY))
        return x;
    int e = size < least_normal ? 1 - f.bias : (int)(bits_of(size) >> 52) - 1023;
    if (e > f.bias)
        return copysign(INFINITY, x);
    double anchor = power_of_two(e - f.fraction + 52);
    double rounded = (size + anchor) - anchor;
    return copysign(rounded >= 2 * power_of_two(f.bias) ? INFINITY : rounded, x);
}

static uint16_t pack(struct format f, double x)
{
    double r = round_to_format(f, x), size = fabs(r);
    unsigned sign = signbit(r) ? 0x8000u : 0, all_ones = (2u * (unsigned)f.bias + 1) << f.fraction;
    if (isnan(r))
        return (uint16_t)(sign | all_ones | 1u << (f.fraction - 1));
    if (isinf(r))
        return (uint16_t)(sign | all_ones);
    if (size < power_of_two(1 - f.bias))
        return (uint16_t)(sign | (unsigned)(size * power_of_two(f.bias - 1 + f.fraction)));
    uint64_t exponent_and_fraction = bits_of(size) >> (52 - f.fraction);
    return (uint16_t)(sign | (exponent_and_fraction - ((uint64_t)(1023 - f.bias) << f.fraction)));
}

static double unpack(struct format f, unsigned bits)
{
    unsigned magnitude = bits & 0x7fff, exponent = magnitude >> f.fraction;
    unsigned fraction = magnitude & ((1u << f.fraction) - 1);
    double size;
    if (exponent == 2u * (unsigned)f.bias + 1)
        size = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        size = fraction * power_of_two(1 - f.bias - f.fraction);
    else
        size = (fraction + (1u << f.fraction)) * power_of_two((int)exponent - f.bias - f.fraction);
    return bits & 0x8000 ? -size : size;
}

void round_all(enum dtype dtype, double *x, int64_t n)
{
    switch ((int)dtype) {
    case DT_f32:
        for (int64_t i = 0; i < n; i++)
            x[i] = (float)x[i];
        return;
    case DT_f16:
        for (int64_t i = 0; i < n; i++)
            x[i] = round_to_format(half_format, x[i]);
        return;
    case DT_bf16:
        for (int64_t i = 0; i < n; i++)
            x[i] = round_to_format(bfloat_format, x[i]);
        return;
    }
}

double round_to(enum dtype dtype, double x)
{
    round_all(dtype, &x, 1);
    return x;
}

int64_t wrap_to(enum dtype dtype, int64_t x)
{
    switch ((int)dtype) {
    case DT_i32:
        return (int32_t)x;
    case DT_i8:
        return (int8_t)x;
    case DT_u8:
        return (uint8_t)x;
    case DT_bool:
        return x != 0;
    }
    return x;
}

int64_t integer_from_real(enum dtype dtype, double x)
{
    double low = 0, end = 0; // values from low up to, not including, end
    switch ((int)dtype) {
    case DT_bool:
        return x != 0;
    case DT_i32:
        low = -0x1p31, end = 0x1p31;
        break;
    case DT_i64:
        low = -0x1p63, end = 0x1p63;
        break;
    case DT_i8:
        low = -128, end = 128;
        break;
    case DT_u8:
        low = 0, end = 256;
        break;
    }
    if (isnan(x))
        return 0;
    if (x < low)
        return (int64_t)low;
    return x < end ? (int64_t)x : dtype == DT_i64 ? INT64_MAX : (int64_t)end - 1;
}

// From 2^53 on, the bits that a double has no room for are gathered into the last one that it
// keeps, so that rounding the double again is the same as rounding the integer.
double real_from_integer(enum dtype dtype, int64_t x)
{
    if (dtype == DT_f64)
        return (double)x;
    if (x > -((int64_t)1 << 53) && x < (int64_t)1 << 53)
        return round_to(dtype, (double)x);
    int64_t kept = (int64_t)((uint64_t)x & ~UINT64_C(2047)) | (x & 2047 ? 2048 : 0);
    return round_to(dtype, (double)kept);
}

// Pointers of arguments need not be aligned.
static void fetch(void *value, const void *data, int64_t i, size_t bytes)
{
    memcpy(value, (const char *)data + (size_t)i * bytes, bytes);
}

static void put(const void *value, void *data, int64_t i, size_t bytes)
{
    memcpy((char *)data + (size_t)i * bytes, value, bytes);
}

double load_element(enum dtype dtype, const void *data, int64_t i)
{
    double wide;
    float single;
    uint16_t half;
    switch ((int)dtype) {
    case DT_f64:
        fetch(&wide, data, i, sizeof wide);
        return wide;
    case DT_f32:
        fetch(&single, data, i, sizeof single);
        return single;
    case DT_f16:
    case DT_bf16:
        fetch(&half, data, i, sizeof half);
        return unpack(dtype == DT_f16 ? half_format : bfloat_format, half);
    }
    return (double)load_integer(dtype, data, i);
}

int64_t load_integer(enum dtype dtype, const void *data, int64_t i)
{
    int64_t wide;
    int32_t word;
    switch ((int)dtype) {
    case DT_i64:
        fetch(&wide, data, i, sizeof wide);
        return wide;
    case DT_i32:
        fetch(&word, data, i, sizeof word);
        return word;
    case DT_i8:
        return ((const int8_t *)data)[i];
    case DT_u8:
        return ((const uint8_t *)data)[i];
    case DT_bool:
        return ((const uint8_t *)data)[i] != 0;
    }
    return integer_from_real(DT_i64, load_element(dtype, data, i));
}

void load_all(enum dtype dtype, const void *data, int64_t n, union element *to)
{
    float single;
    if (dtype == DT_f32)
        for (int64_t i = 0; i < n; i++) {
            fetch(&single, data, i, sizeof single);
            to[i].real = single;
        }
    else if (dtype_info[dtype].class == CLASS_float)
        for (int64_t i = 0; i < n; i++)
            to[i].real = load_element(dtype, data, i);
    else
        for (int64_t i = 0; i < n; i++)
            to[i].integer = load_integer(dtype, data, i);
}

void store_element(enum dtype dtype, void *data, int64_t i, double value)
{
    float single = (float)value;
    uint16_t half;
    switch ((int)dtype) {
    case DT_f64:
        put(&value, data, i, sizeof value);
        return;
    case DT_f32:
        put(&single, data, i, sizeof single);
        return;
    case DT_f16:
    case DT_bf16:
        half = pack(dtype == DT_f16 ? half_format : bfloat_format, value);
        put(&half, data, i, sizeof half);
        return;
    }
    store_integer(dtype, data, i, integer_from_real(dtype, value));
}

void store_integer(enum dtype dtype, void *data, int64_t i, int64_t value)
{
    int32_t word = (int32_t)value;
    switch ((int)dtype) {
    case DT_i64:
        put(&value, data, i, sizeof value);
        return;
    case DT_i32:
        put(&word, data, i, sizeof word);
        return;
    case DT_i8:
    case DT_u8:
        ((uint8_t *)data)[i] = (uint8_t)value;
        return;
    case DT_bool:
        ((uint8_t *)data)[i] = value != 0;
        return;
    }
    store_element(dtype, data, i, real_from_integer(dtype, value));
}
