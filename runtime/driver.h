// driver.h: the driver API as a table, opened when first needed
#pragma once
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

struct driver {
    void *library;
    char *path;  // of the file that was loaded
    int version; // 13000
#define CU(f, older, needed) __typeof__(&f) f;
#include "runtime/driver.def"
#undef CU
};

// false: why says what is missing, in one sentence.
bool driver_open(struct driver *cu, char *why, size_t n_why);
void driver_close(struct driver *cu);
