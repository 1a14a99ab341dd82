// nvrtc.h: NVRTC as a table of functions, opened when first needed
#pragma once
#include "runtime/device.h"
#include <nvrtc.h>

struct nvrtc {
    void *library;
    char *path;
    int major, minor;
    int *archs, n_archs; // what it compiles for: 75 80 ... 120
    char *tried;         // where it was looked for, one place a line
#define RTC(f) __typeof__(&f) f;
#include "runtime/nvrtc.def"
#undef RTC
};

// An architecture as people write it: "sm_90a", "compute_120".
struct arch {
    int sm;
    char suffix;  // 'a', 'f' or 0
    bool virtual; // compute_: PTX
};
bool arch_parse(const char *name, struct arch *out);

// What the compiler is told; the cache's key is made of the same words.
struct nvrtc_options {
    char arch[64];
    const char *words[8];
    int n;
};
void nvrtc_options(struct nvrtc_options *o, const char *arch, enum math math);

// Looks in cuda_home (may be NULL), then the usual places.  A version whose major number is over
// newest is passed over: its cubins would not load (0: no such bound).
bool nvrtc_open(struct nvrtc *n, const char *cuda_home, int newest);
void nvrtc_close(struct nvrtc *n);
bool nvrtc_compiles_for(const struct nvrtc *n, const char *arch);
char *nvrtc_arch_list(const struct nvrtc *n); // "sm_75 sm_80 ...": the caller's
quern_status nvrtc_compile(quern *q, const struct nvrtc *n, const struct kernel *kernel,
                           const struct nvrtc_options *options, struct code *out);
