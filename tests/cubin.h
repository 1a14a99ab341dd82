// cubin.h: what the compiler made of a kernel: its instructions by opcode, registers and frame
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// An instruction is 16 bytes.  Its low 9 bits identify it, the next 3 the form of its operands; the
// same from sm_75 to sm_120.
enum {
    OPCODE_ffma = 0x023,
    OPCODE_mma = 0x03c,        // of f16 and bf16
    OPCODE_copy_async = 0x1ae, // global to shared memory
    OPCODE_load_global = 0x181,
    OPCODE_cluster_barrier = 0x1c7, // either half of it
    OPCODE_load_local = 0x183,
    OPCODE_store_global = 0x186,
    OPCODE_store_local = 0x187
};

// The width of a memory access: bits 73 to 75.
enum { WIDTH_4 = 4, WIDTH_8 = 5, WIDTH_16 = 6 };

struct cubin {
    const unsigned char *text;
    size_t n_instructions;
    int registers, frame_bytes;
    size_t shared_bytes; // static
};

// false: the bytes are not an ELF file with a kernel of that name.
bool cubin_read(const void *bytes, size_t n_bytes, const char *kernel, struct cubin *out);
int cubin_count(const struct cubin *c, unsigned opcode);
int cubin_count_wide(const struct cubin *c, unsigned opcode, unsigned width);
