// npy.h: NumPy's .npy files
#pragma once
#include "runtime/quern.h"
#include <stdbool.h>

enum { NPY_MAX_RANK = 12 };

struct npy {
    quern_dtype dtype;
    int rank;
    int64_t dim[NPY_MAX_RANK];
    size_t bytes; // of the elements
    void *data;   // C order, from malloc, aligned for every dtype
};

// Read a file, or `n` bytes of one.  On failure they return false, and *message is a sentence, the
// caller's to free.
bool npy_read(const char *path, struct npy *out, char **message);
bool npy_parse(const void *bytes, size_t n, struct npy *out, char **message);
void npy_free(struct npy *a);
// The header that NumPy would write, version 1.0, padded to 64 bytes; the caller's to free.
char *npy_header(quern_dtype dtype, int rank, const int64_t *dim, size_t *n_bytes);
