// target.c: what is known of GPUs: one line an architecture, standing for one model of it.
//
// Rates are what a good kernel reaches, not the datasheet's: measured for sm_90a (an H200), four fifths of the
// datasheet's for the others, which no one has measured here.

#include "gen/gen.h"
#include <string.h>

#define KIB *1024
#define MIB *1024 * 1024

const struct target targets[] = {
    // arch      sm   gpu                  SMs  block     SM        registers threads L2        bytes/s  f32 flop/s
    {"sm_75",    75,  "Tesla T4",          40,  64 KIB,   64 KIB,   65536,    1024,   4 MIB,    0.26e12, 6.5e12 },
    {"sm_80",    80,  "A100 80GB",         108, 163 KIB,  164 KIB,  65536,    2048,   40 MIB,   1.7e12,  15.6e12},
    {"sm_86",    86,  "GeForce RTX 3090",  82,  99 KIB,   100 KIB,  65536,    1536,   6 MIB,    0.75e12, 28e12  },
    {"sm_87",    87,  "Jetson AGX Orin",   16,  163 KIB,  164 KIB,  65536,    1536,   4 MIB,    0.16e12, 4e12   },
    {"sm_89",    89,  "GeForce RTX 4090",  128, 99 KIB,   100 KIB,  65536,    1536,   72 MIB,   0.8e12,  66e12  },
    {"sm_90",    90,  "H100 SXM",          132, 227 KIB,  228 KIB,  65536,    2048,   50 MIB,   2.9e12,  51e12  },
    {"sm_90a",   90,  "H200",              132, 227 KIB,  228 KIB,  65536,    2048,   50 MIB,   4.2e12,  51e12  },
    {"sm_100",   100, "B200",              148, 227 KIB,  228 KIB,  65536,    2048,   126 MIB,  6.4e12,  60e12  },
    {"sm_100a",  100, "B200",              148, 227 KIB,  228 KIB,  65536,    2048,   126 MIB,  6.4e12,  60e12  },
    {"sm_103",   103, "B300",              148, 227 KIB,  228 KIB,  65536,    2048,   126 MIB,  6.4e12,  60e12  },
    {"sm_120",   120, "GeForce RTX 5090",  170, 99 KIB,   100 KIB,  65536,    1536,   96 MIB,   1.4e12,  84e12  },
    {"sm_120a",  120, "GeForce RTX 5090",  170, 99 KIB,   100 KIB,  65536,    1536,   96 MIB,   1.4e12,  84e12  },
    {"sm_121",   121, "GB10",              48,  99 KIB,   100 KIB,  65536,    1536,   24 MIB,   0.22e12, 24e12  },
};
const int n_targets = sizeof targets / sizeof *targets;

const struct target *target_find(const char *name)
{
    for (int i = 0; i < n_targets; i++)
        if (!strcmp(targets[i].name, name))
            return &targets[i];
    return NULL;
}
