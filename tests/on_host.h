// on_host.h: kernels that a test writes out, compiled in one batch and launched by name
#pragma once
#include "gen/gen.h"
#include "runtime/host.h"

// Everything between is gone with the process: a shared object is unlinked once it is loaded.
struct host_library *load_kernels(const struct kernel *kernels, int n_kernels, const char *flags);
struct kernel *find_kernel(struct kernel *kernels, const char *name);
// NULL: it ran.  Otherwise the sentence, to be freed.
char *launch_kernel(const struct host_library *library, const struct kernel *kernel, bool reversed,
                    void *const *pointers);
bool has_address_sanitizer(void);
// Flags that put a kernel under the sanitizers of this process; NULL where it has none.  Null and
// object size would be looked at before every access, which the address sanitizer is there for.
#define SANITIZER_FLAGS "-fsanitize=address,undefined -fno-sanitize=null,object-size -g1"
const char *sanitizer_flags(void);

// ARGS { statements } as a kernel of that name; the line numbers of messages count from "#include".
#define SOURCE(name, args, ...)                                                                    \
    "#include \"device.cuh\"\nstruct Args {" args "};\n"                                           \
    "extern \"C\" __global__ void " name "(const __grid_constant__ Args args)\n{\n" __VA_ARGS__    \
    "}\n"
#define KERNEL(n, threads, shared, args, ...)                                                      \
    {                                                                                              \
        .name = n, .source = SOURCE(n, args, __VA_ARGS__), .grid = {1, 1, 1},                      \
        .block = {threads, 1, 1}, .shared_bytes = shared                                           \
    }

void assert_ran(char *message);
void assert_fails(char *message, const char *expected); // frees it
