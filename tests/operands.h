// operands.h: numerators and divisors of all sorts, at random from a seed
#pragma once
#include <stdint.h>

// What is particular about a quotient: operands near edges, or with nothing in common; zeros above;
// a small numerator; a subnormal quotient; a large one; halfway between two subnormal ones; nearly
// halfway between any two; nothing.
enum kind { ANY, ZEROS, SOME_ZEROS, SMALL, SUBNORMAL, LARGE, TIES, HALFWAY, ORDINARY, N_KINDS };

float of_bits(uint32_t bits);
uint32_t bits_of(float x);
void seed_operands(uint64_t seed);
uint32_t random_bits(void);
float divisor_of(enum kind kind);
float numerator_of(enum kind kind, float d);
