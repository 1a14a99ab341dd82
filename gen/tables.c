// tables.c: dtypes.def and ops.def to the two tables that every stage reads.

#include "gen/gen.h"

const struct dtype_info dtype_info[DT_COUNT] = {
#define DTYPE(id, size, kind, bits, in_memory, in_registers, descr)                                \
    [DT_##id] = {.name = #id,                                                                      \
                 .bytes = size,                                                                    \
                 .class = kind,                                                                    \
                 .mantissa = bits,                                                                 \
                 .storage = in_memory,                                                             \
                 .compute = in_registers,                                                          \
                 .npy = descr},
#include "gen/dtypes.def"
#undef DTYPE
};

const struct op_info op_info[OP_COUNT] = {
#define OP(id, inputs, family, rule, infix, text, operations)                                      \
    [OP_##id] = {.name = #id,                                                                      \
                 .arity = inputs,                                                                  \
                 .kind = family,                                                                   \
                 .types = rule,                                                                    \
                 .symbol = infix,                                                                  \
                 .cuda = text,                                                                     \
                 .cost = operations},
#include "gen/ops.def"
#undef OP
};
