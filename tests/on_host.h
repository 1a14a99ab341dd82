// on_host.h: kernels that a test writes out, compiled in one batch and launched by name
#pragma once
#include "gen/gen.h"
#include "runtime/host.h"

// Everything between is gone with the process: a shared object is unlinked once it is loaded.
struct host_library *load_kernels(const struct kernel *kernels, int n_kernels, const char *flags);
// NULL: it ran.  Otherwise the sentence, to be freed.
char *launch_kernel(const struct host_library *library, const struct kernel *kernel, bool reversed,
                    void *const *pointers);
bool has_address_sanitizer(void);
// Flags that put a kernel under the sanitizers of this process.
const char *sanitizer_flags(void);
