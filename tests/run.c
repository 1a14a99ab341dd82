// run.c: every suite through one runner, with one closing line.  `check NAME...` runs those suites
// alone.

#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    Suite *(*suite)(void);
} suites[] = {
  // one line a suite, in the order of the pipeline
    {"diag",         diag_suite        },
    {"parse",        parse_suite       },
    {"build",        build_suite       },
    {"graph",        graph_suite       },
    {"print",        print_suite       },
    {"rewrite",      rewrite_suite     },
    {"receipts",     receipts_suite    },
    {"rules",        rules_suite       },
    {"split",        split_suite       },
    {"index",        index_suite       },
    {"kernels",      kernels_suite     },
    {"long_rows",    long_rows_suite   },
    {"stitch",       stitch_suite      },
    {"determinism",  determinism_suite },
    {"random",       random_suite      },
    {"gemm_tiles",   gemm_tiles_suite  },
    {"candidates",   candidates_suite  },
    {"storage",      storage_suite     },
    {"stages",       stages_suite      },
    {"eval",         eval_suite        },
    {"eval_move",    eval_move_suite   },
    {"eval_reduce",  eval_reduce_suite },
    {"tolerance",    tolerance_suite   },
    {"host",         host_suite        },
    {"clusters",     clusters_suite    },
    {"wrappers",     wrappers_suite    },
    {"nvrtc",        nvrtc_suite       },
    {"cache",        cache_suite       },
    {"trust",        trust_suite       },
    {"race",         race_suite        },
    {"runtime",      runtime_suite     },
    {"plans",        plans_suite       },
    {"weights",      weights_suite     },
    {"driver",       driver_suite      },
    {"driver_plans", driver_plans_suite},
    {"wisdom",       wisdom_suite      },
    {"tune",         tune_suite        },
    {"gpu",          gpu_suite         },
    {"gpu_weights",  gpu_weights_suite },
    {"gpu_tune",     gpu_tune_suite    },
    {"npy",          npy_suite         },
    {"command",      command_suite     },
    {"run",          run_suite         },
    {"explain",      explain_suite     },
    {"bench",        bench_suite       },
    {"tune_command", tune_command_suite},
    {"costs",        costs_suite       },
    {"vectors",      vectors_suite     },
    {"cases",        cases_suite       },
    {"views",        views_suite       },
    {"numerics",     numerics_suite    },
    {"division",     division_suite    },
    {"extremes",     extremes_suite    },
    {"names",        names_suite       },
    {NULL,           NULL              },
};

static bool chosen(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc == 1;
}

int main(int argc, char **argv)
{
    SRunner *runner = srunner_create(NULL);
    for (int i = 0; suites[i].name; i++)
        if (chosen(suites[i].name, argc, argv))
            srunner_add_suite(runner, suites[i].suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
