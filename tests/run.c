// run.c: every suite through one runner, several at a time, with one closing line.  `check NAME...`
// runs those suites alone.
//
// Each worker is a process that takes the next suite when it is done with one.  What a suite says
// is kept until its end, so that suites do not talk into each other.

#include "tests/tests.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKERS = 8 };

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
    {"stitch",       stitch_suite      },
    {"beside",       beside_suite      },
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

// Shared by all workers.
struct progress {
    atomic_int next, checks, failures, errors;
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// All at once, as one write to a pipe or a file is.
static void say(const char *text, size_t n)
{
    while (n) {
        ssize_t written = write(STDOUT_FILENO, text, n);
        if (written < 0 && errno != EINTR)
            return;
        text += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
}

static char *said_in(FILE *file, size_t *n)
{
    char *text = NULL, part[4096];
    FILE *out = open_memstream(&text, n);
    rewind(file);
    for (size_t read; (read = fread(part, 1, sizeof part, file)) > 0;)
        fwrite(part, 1, read, out);
    fclose(out);
    return text;
}

// What it printed is shown where something failed.
static void take_suite(int i, struct progress *p)
{
    double begun = seconds();
    FILE *file = tmpfile();
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    if (!file || out < 0 || err < 0)
        abort();
    dup2(fileno(file), STDOUT_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    SRunner *runner = srunner_create(suites[i].suite());
    srunner_run_all(runner, CK_NORMAL);
    int checks = srunner_ntests_run(runner), bad = srunner_ntests_failed(runner), errors = 0;
    TestResult **results = srunner_failures(runner);
    for (int r = 0; r < bad; r++)
        errors += tr_rtype(results[r]) == CK_ERROR;
    free(results);
    srunner_free(runner);
    fflush(stdout);
    fflush(stderr);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    atomic_fetch_add(&p->checks, checks);
    atomic_fetch_add(&p->failures, bad - errors);
    atomic_fetch_add(&p->errors, errors);
    size_t n, n_line;
    char *text = said_in(file, &n), *line = NULL;
    FILE *both = open_memstream(&line, &n_line);
    fprintf(both, "%-16s %4d checks %7.1f s\n", suites[i].name, checks, seconds() - begun);
    if (bad)
        fwrite(text, 1, n, both);
    fclose(both);
    say(line, n_line);
    fclose(file);
    free(text);
    free(line);
}

static void work(int argc, char **argv, struct progress *p)
{
    for (int i; (i = atomic_fetch_add(&p->next, 1)) < N_SUITES;)
        if (chosen(suites[i].name, argc, argv))
            take_suite(i, p);
}

static int count_workers(int argc, char **argv)
{
    int n = 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < N_SUITES; i++)
        n += chosen(suites[i].name, argc, argv);
    n = n < MAX_WORKERS ? n : MAX_WORKERS;
    return getenv("QUERN_TEST_DEVICE") ? 1 : n < cores ? n : (int)cores;
}

int main(int argc, char **argv)
{
    struct progress *p =
        mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int n = count_workers(argc, argv), status, lost = 0;
    if (p == MAP_FAILED)
        return EXIT_FAILURE;
    for (int i = 1; i < argc; i++)
        if (!is_suite(argv[i]))
            return 2;
    setenv("CK_TIMEOUT_MULTIPLIER", "4", 0); // bounds are for a machine that has nothing else to do
    for (int i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0) {
            work(argc, argv, p);
            _exit(0);
        }
        lost += child < 0;
    }
    while (wait(&status) > 0)
        lost += status != 0;
    int bad = p->failures + p->errors + lost;
    printf("%d checks, %d failures, %d errors\n", p->checks, p->failures, p->errors + lost);
    return bad || !p->checks ? EXIT_FAILURE : EXIT_SUCCESS;
}
