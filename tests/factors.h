// factors.h: operands of products by formula, of which every sum is exact in whatever order
#pragma once
#include "tests/exact.h"

// The first factor by row and k, the second by k and column; of either about 40 columns or rows.
struct factors {
    formula *a, *b;
};
// Small integers; the same with infinities, NaN and the smallest of numbers; of 24 bits and of 12.
enum { SMALL_INTEGERS, DOUBTFUL, LONG_A, LONG_B, LONG_BOTH, N_FACTORS, LEAST_K = 40 };
extern const struct factors exact_factors[N_FACTORS];

double small_a(const int64_t *at);
double small_b(const int64_t *at);
// Odd, of so many bits, and of either sign.
double random_of_bits(const int64_t *at, int n_bits);
// A row of the one times a column of the other: a chain of multiply-adds in f32.
float f32_chain(const struct factors *f, int64_t row, int64_t column, int64_t k);
// NaN for NaN, otherwise the same bits.
bool same_value(double got, double right);
