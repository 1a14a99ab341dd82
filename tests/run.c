// run.c: every suite through one runner, several at a time, with one closing line.  `check NAME...`
// runs those suites alone.
//
// Each suite is a process of its own: what one leaves in its memory would be copied by every fork
// of those after it, and looked through for leaks at the end of each.  What a suite says is kept
// until all have ended, so that suites do not talk into each other and a failure stands last.

#include "tests/tests.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_AT_ONCE = 8 };

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
    {"teams",        teams_suite       },
    {"joined",       joined_suite      },
    {"stitch",       stitch_suite      },
    {"phases",       phases_suite      },
    {"beside",       beside_suite      },
    {"determinism",  determinism_suite },
    {"random",       random_suite      },
    {"gemm_tiles",   gemm_tiles_suite  },
    {"mma",          mma_suite         },
    {"doubts",       doubts_suite      },
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
    {"fragments",    fragments_suite   },
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
    {"narrow",       narrow_suite      },
    {"extremes",     extremes_suite    },
    {"names",        names_suite       },
};
enum { N_SUITES = sizeof suites / sizeof *suites };

static bool chosen(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc == 1;
}

static bool is_suite(const char *name)
{
    for (int i = 0; i < N_SUITES; i++)
        if (!strcmp(suites[i].name, name))
            return true;
    fprintf(stderr, "check: there is no suite %s\n", name);
    return false;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// What a suite came to; lost: it did not come to its end.
struct outcome {
    int checks, failures, errors;
    bool lost;
};

struct running {
    pid_t process;
    int suite;
    FILE *said;
    double begun;
};

// In a process of its own, which ends here.
static _Noreturn void take_suite(Suite *suite, FILE *said, struct outcome *o)
{
    if (dup2(fileno(said), STDOUT_FILENO) < 0 || dup2(fileno(said), STDERR_FILENO) < 0)
        abort();
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int bad = srunner_ntests_failed(runner);
    TestResult **results = srunner_failures(runner);
    for (int r = 0; r < bad; r++)
        o->errors += tr_rtype(results[r]) == CK_ERROR;
    o->failures = bad - o->errors;
    o->checks = srunner_ntests_run(runner);
    o->lost = false;
    free(results);
    srunner_free(runner);
    fflush(stdout);
    _exit(0);
}

static struct running start(int suite, struct outcome *o)
{
    struct running r = {.suite = suite, .said = tmpfile(), .begun = seconds()};
    o->lost = true;
    fflush(stdout);
    if (!r.said || (r.process = fork()) < 0)
        abort();
    if (r.process == 0)
        take_suite(suites[suite].suite(), r.said, o);
    return r;
}

// Waits for one of them and says what it came to.
static struct running take_one(struct running *running, int n, const struct outcome *outcomes)
{
    pid_t ended = wait(NULL);
    int i = 0;
    while (i < n && running[i].process != ended)
        i++;
    if (i == n)
        abort();
    struct running one = running[i];
    running[i] = running[n - 1];
    printf("%-16s %4d checks %7.1f s\n", suites[one.suite].name, outcomes[one.suite].checks,
           seconds() - one.begun);
    fflush(stdout);
    return one;
}

static bool is_bad(const struct outcome *o)
{
    return o->failures || o->errors || o->lost;
}

// Prints what a suite said, and closes it.
static void show(FILE *said, bool wanted)
{
    char part[4096];
    rewind(said);
    for (size_t n; wanted && (n = fread(part, 1, sizeof part, said)) > 0;)
        fwrite(part, 1, n, stdout);
    fclose(said);
}

static int at_once(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return getenv("QUERN_TEST_DEVICE") ? 1 : cores < MAX_AT_ONCE ? (int)cores : MAX_AT_ONCE;
}

int main(int argc, char **argv)
{
    struct outcome *outcomes = mmap(NULL, N_SUITES * sizeof *outcomes, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct running running[MAX_AT_ONCE];
    FILE *said[N_SUITES] = {0};
    struct outcome all = {0};
    if (outcomes == MAP_FAILED)
        return EXIT_FAILURE;
    for (int i = 1; i < argc; i++)
        if (!is_suite(argv[i]))
            return 2;
    setenv("CK_TIMEOUT_MULTIPLIER", "4", 0); // bounds are for a machine that has nothing else to do
    for (int next = 0, n = 0; next < N_SUITES || n;) {
        if (next < N_SUITES && n < at_once()) {
            if (chosen(suites[next].name, argc, argv))
                running[n++] = start(next, &outcomes[next]);
            next++;
            continue;
        }
        struct running one = take_one(running, n--, outcomes);
        said[one.suite] = one.said;
    }
    for (int i = 0; i < N_SUITES; i++) {
        if (said[i])
            show(said[i], is_bad(&outcomes[i]));
        if (outcomes[i].lost)
            printf("suite %s did not come to its end\n", suites[i].name);
        all.checks += outcomes[i].checks;
        all.failures += outcomes[i].failures;
        all.errors += outcomes[i].errors + outcomes[i].lost;
    }
    printf("%d checks, %d failures, %d errors\n", all.checks, all.failures, all.errors);
    return all.failures || all.errors || !all.checks ? EXIT_FAILURE : EXIT_SUCCESS;
}
