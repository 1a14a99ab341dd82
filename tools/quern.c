// quern.c: the command line in, an exit status out.  The environment is read here and nowhere else.

#include "tools/tools.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

const struct command commands[] = {
    {"emit",    EMIT,    "FILE",   true,  NULL,              cmd_emit   },
    {"run",     RUN,     "FILE",   true,  NULL,              cmd_run    },
    {"bench",   BENCH,   "FILE",   true,  NULL,              cmd_bench  },
    {"explain", EXPLAIN, "FILE",   true,  NULL,              cmd_explain},
    {"tune",    TUNE,    "FILE",   true,  NULL,              cmd_tune   },
    {"wisdom",  WISDOM,  "ACTION", true,  "FILE or PROGRAM", cmd_wisdom },
    {"cache",   CACHE,   "ACTION", true,  NULL,              cmd_cache  },
    {"doctor",  DOCTOR,  NULL,     false, NULL,              cmd_doctor },
    {"help",    HELP,    "TOPIC",  false, NULL,              cmd_help   },
    {NULL,      0,       NULL,     false, NULL,              NULL       },
};

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void read_environment(struct options *o, char *cache_dir, size_t size)
{
    const char *offline = variable("QUERN_OFFLINE");
    o->offline = offline && strcmp(offline, "0");
    o->cache_dir = quern_default_cache_dir(cache_dir, size) ? cache_dir : NULL;
    o->cuda_home = variable("CUDA_HOME");
    o->cxx = variable("QUERN_CXX");
    o->cxx_flags = variable("QUERN_CXXFLAGS");
}

// What was printed must have arrived: a full disk is a failure like any other.
static enum exit_status flush(enum exit_status status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    complain(STATUS_wrong, "standard output cannot be written: %s", strerror(errno));
    return status == STATUS_done ? STATUS_wrong : status;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE,
           SIG_IGN); // a reader that left is an error of fflush, after what was begun is cleaned up
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        puts("quern " QUERN_VERSION);
        return flush(STATUS_done);
    }
    static char cache_dir[PATH_MAX];
    struct options options = {0};
    read_environment(&options, cache_dir, sizeof cache_dir);
    enum exit_status status = options_read(&options, argc, argv);
    if (status == STATUS_done)
        status = options.command->run(&options);
    options_free(&options);
    return flush(status);
}
