// target.c: what is known of GPUs, by the name of their architecture.

#include "gen/gen.h"
#include <string.h>

#define TARGET(arch, sm, gpu, n_sms, block, shared, registers, threads, cluster, l2, rate, f32)    \
    {arch,                                                                                         \
     sm,                                                                                           \
     gpu,                                                                                          \
     n_sms,                                                                                        \
     block * 1024,                                                                                 \
     shared * 1024,                                                                                \
     registers,                                                                                    \
     threads,                                                                                      \
     cluster,                                                                                      \
     sm >= 80,                                                                                     \
     (int64_t)l2 * 1024 * 1024,                                                                    \
     rate * 1e12,                                                                                  \
     f32 * 1e12},
const struct target targets[] = {
#include "targets.def"
};
#undef TARGET
const int n_targets = sizeof targets / sizeof *targets;

const struct target *target_find(const char *name)
{
    for (int i = 0; i < n_targets; i++)
        if (!strcmp(targets[i].name, name))
            return &targets[i];
    return NULL;
}
