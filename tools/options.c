// options.c: the command line to struct options, by one table.  Nothing else in the command looks
// at argv.

#include "tools/tools.h"
#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const int64_t max_size = (int64_t)1 << 40;

// ---- values: each returns an exit status, and has complained unless it is STATUS_done ----

// A whole decimal number; out of 63 bits: the nearest of them.
static bool decimal(const char *text, int64_t *value)
{
    const char *digits = text + (*text == '-' || *text == '+');
    char *end;
    *value = strtoll(text, &end, 10);
    return isdigit((unsigned char)*digits) && *end == '\0';
}

static bool is_name(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_')
        return false;
    while (isalnum((unsigned char)*text) || *text == '_')
        text++;
    return *text == '\0';
}

// Cuts NAME=REST in two.
static bool cut(char *value, char **rest)
{
    char *equals = strchr(value, '=');
    if (!equals || equals == value || equals[1] == '\0')
        return false;
    *equals = '\0';
    *rest = equals + 1;
    if (is_name(value))
        return true;
    *equals = '=';
    return false;
}

static enum exit_status set_size(struct options *o, char *value)
{
    char *number;
    int64_t n;
    if (!cut(value, &number))
        return complain(STATUS_usage, "-D %s: expected NAME=NUMBER", value);
    if (!decimal(number, &n))
        return complain(STATUS_usage, "-D %s=%s: %s is not a whole number", value, number, number);
    if (n < 0 || n > max_size)
        return complain(STATUS_wrong, "-D %s=%s: a size is from 0 to 2^40", value, number);
    for (int i = 0; i < o->n_sizes; i++)
        if (!strcmp(o->sizes[i].name, value)) {
            if (o->sizes[i].value == n)
                return STATUS_done;
            return complain(STATUS_usage, "-D %s=%s: %s is already %lld", value, number, value,
                            (long long)o->sizes[i].value);
        }
    o->sizes[o->n_sizes++] = (quern_size){value, n};
    return STATUS_done;
}

static enum exit_status add_binding(struct binding *list, int *n, const char *option, char *value)
{
    char *file;
    if (!cut(value, &file))
        return complain(STATUS_usage, "%s %s: expected NAME=FILE.npy", option, value);
    for (int i = 0; i < *n; i++)
        if (!strcmp(list[i].name, value))
            return complain(STATUS_usage, "%s %s=%s: %s is already %s", option, value, file, value,
                            list[i].file);
    list[(*n)++] = (struct binding){value, file};
    return STATUS_done;
}

static enum exit_status set_in(struct options *o, char *value)
{
    return add_binding(o->in, &o->n_in, "--in", value);
}

static enum exit_status set_out(struct options *o, char *value)
{
    return add_binding(o->out, &o->n_out, "--out", value);
}

static enum exit_status set_expect(struct options *o, char *value)
{
    return add_binding(o->expect, &o->n_expect, "--expect", value);
}

// Several: commas between them, and the option may be given again.
static enum exit_status set_arch(struct options *o, char *value)
{
    int n = 1;
    for (const char *p = value; *p; p++)
        n += *p == ',';
    const char **more = realloc(o->archs, sizeof *more * (size_t)(o->n_archs + n));
    if (!more)
        return complain(STATUS_missing, "out of memory");
    o->archs = more;
    for (char *arch = value, *next; arch; arch = next) {
        if ((next = strchr(arch, ',')))
            *next++ = '\0';
        if (*arch == '\0')
            return complain(STATUS_usage, "--arch: expected names such as sm_90a,sm_80");
        bool known = false;
        for (int i = 0; i < o->n_archs; i++)
            known |= !strcmp(o->archs[i], arch);
        if (!known)
            o->archs[o->n_archs++] = arch;
    }
    return STATUS_done;
}

static enum exit_status set_out_dir(struct options *o, char *value)
{
    o->out_dir = value;
    return *value ? STATUS_done : complain(STATUS_usage, "-o: expected a folder");
}

// One of the words before NULL; -1: none of them.
static int choice(const char *value, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(value, words[i]))
            return i;
    return -1;
}

static enum exit_status set_format(struct options *o, char *value)
{
    int format = choice(value, (const char *const[]){"cubin", "source", NULL});
    if (format < 0)
        return complain(STATUS_usage, "--format %s: expected cubin or source", value);
    o->source_format = format == 1;
    return STATUS_done;
}

static enum exit_status set_device(struct options *o, char *value)
{
    int device = choice(value, (const char *const[]){"auto", "cuda", "host", NULL});
    if (device < 0)
        return complain(STATUS_usage, "--device %s: expected auto, cuda or host", value);
    o->device =
        (const quern_device[]){QUERN_DEVICE_AUTO, QUERN_DEVICE_CUDA, QUERN_DEVICE_HOST}[device];
    return STATUS_done;
}

static enum exit_status set_math(struct options *o, char *value)
{
    const char *name;
    for (int i = 0; (name = quern_math_name((quern_math)i)); i++)
        if (!strcmp(value, name)) {
            o->math = (quern_math)i;
            return STATUS_done;
        }
    return complain(STATUS_usage, "--math %s: expected strict, real, finite or fast", value);
}

static enum exit_status set_weights(struct options *o, char *value)
{
    int weights = choice(value, (const char *const[]){"prepared", "each-run", NULL});
    if (weights < 0)
        return complain(STATUS_usage, "--weights %s: expected prepared or each-run", value);
    o->each_run = weights == 1;
    return STATUS_done;
}

static enum exit_status set_dump(struct options *o, char *value)
{
    static const char *const stages[] = {"parse", "graph",    "rewrite", "split",
                                         "fuse",  "schedule", "source",  "all"};
    enum { N_STAGES = sizeof stages / sizeof *stages };
    o->dump = value;
    for (const char *at = value; at; at = strchr(at, ',')) {
        at += *at == ',';
        bool known = false;
        for (int i = 0; i < N_STAGES; i++)
            known |=
                !strncmp(at, stages[i], strlen(stages[i])) && strchr(",", at[strlen(stages[i])]);
        if (!known)
            return complain(
                STATUS_usage,
                "--dump %.*s: expected parse, graph, rewrite, split, fuse, schedule, source or all",
                (int)strcspn(at, ","), at);
    }
    return STATUS_done;
}

static enum exit_status set_plot(struct options *o, char *value)
{
    o->plot = value;
    return *value ? STATUS_done : complain(STATUS_usage, "--plot: expected a file");
}

static enum exit_status set_effort(struct options *o, char *value)
{
    int effort = choice(value, (const char *const[]){"measure", "patient", NULL});
    if (effort < 0)
        return complain(STATUS_usage, "--effort %s: expected measure or patient", value);
    o->patient = effort == 1;
    return STATUS_done;
}

// "60s", "60", "2.5m".
static enum exit_status set_budget(struct options *o, char *value)
{
    char *end;
    double number = isdigit((unsigned char)*value) ? strtod(value, &end) : 0;
    if (number > 0 && (!strcmp(end, "m") || !strcmp(end, "min")))
        number *= 60;
    else if (number > 0 && *end && strcmp(end, "s"))
        number = 0;
    if (!(number > 0 && number < 1e9))
        return complain(STATUS_usage, "--budget %s: expected a time such as 60s or 5m", value);
    o->budget_s = number;
    return STATUS_done;
}

static enum exit_status set_wisdom(struct options *o, char *value)
{
    o->wisdom = value;
    return *value ? STATUS_done : complain(STATUS_usage, "--wisdom: expected a file");
}

static enum exit_status set_random(struct options *o, char *value)
{
    int64_t seed;
    if (!decimal(value, &seed) || seed < 0)
        return complain(STATUS_usage, "--random %s: the seed is a whole number from 0 on", value);
    o->random = true;
    o->seed = (uint64_t)seed;
    return STATUS_done;
}

static enum exit_status set_alignment(struct options *o, char *value)
{
    int64_t n;
    if (!decimal(value, &n))
        return complain(STATUS_usage, "--alignment %s: expected a number of bytes", value);
    if (n < 1 || n > 256 || (n & (n - 1)))
        return complain(STATUS_usage, "--alignment %s: expected a power of two from 1 to 256",
                        value);
    o->alignment = (int)n;
    return STATUS_done;
}

static enum exit_status set_max_bytes(struct options *o, char *value)
{
    if (!decimal(value, &o->max_bytes) || o->max_bytes < 0)
        return complain(STATUS_usage, "--max-bytes %s: expected a number of bytes", value);
    return STATUS_done;
}

// ---- the table ----

struct option {
    const char *name;
    unsigned commands;                                       // that take it
    enum exit_status (*set)(struct options *o, char *value); // NULL: a flag, without a value
    size_t flag;                                             // where in struct options its bool is
};

enum { PLANS = EMIT | RUN | BENCH | EXPLAIN, ALL = PLANS | TUNE | WISDOM | CACHE | DOCTOR | HELP };
#define FLAG(name) offsetof(struct options, name)

static const struct option table[] = {
    {"-D",          PLANS | TUNE,                                   set_size,      0              },
    {"--arch",      PLANS | TUNE,                                   set_arch,      0              },
    {"--math",      PLANS | TUNE,                                   set_math,      0              },
    {"--weights",   PLANS | TUNE,                                   set_weights,   0              },
    {"--alignment", PLANS | TUNE,                                   set_alignment, 0              },
    {"--separate",  PLANS | TUNE,                                   NULL,          FLAG(separate) },
    {"-o",          EMIT,                                           set_out_dir,   0              },
    {"--format",    EMIT,                                           set_format,    0              },
    {"--in",        RUN | BENCH,                                    set_in,        0              },
    {"--out",       RUN | BENCH,                                    set_out,       0              },
    {"--expect",    RUN,                                            set_expect,    0              },
    {"--random",    RUN | BENCH | TUNE,                             set_random,    0              },
    {"--device",    RUN | BENCH | EXPLAIN | TUNE,                   set_device,    0              },
    {"--check",     RUN,                                            NULL,          FLAG(check)    },
    {"--time",      RUN,                                            NULL,          FLAG(time)     },
    {"--plot",      BENCH,                                          set_plot,      0              },
    {"--dump",      EXPLAIN,                                        set_dump,      0              },
    {"--specs",     EXPLAIN,                                        NULL,          FLAG(specs)    },
    {"--effort",    TUNE,                                           set_effort,    0              },
    {"--budget",    TUNE,                                           set_budget,    0              },
    {"--wisdom",    PLANS,                                          set_wisdom,    0              },
    {"--no-wisdom", PLANS,                                          NULL,          FLAG(no_wisdom)},
    {"--json",      RUN | BENCH | EXPLAIN | TUNE | WISDOM | DOCTOR, NULL,          FLAG(json)     },
    {"--max-bytes", CACHE,                                          set_max_bytes, 0              },
    {"--no-cache",  EMIT | RUN | BENCH | TUNE | DOCTOR,             NULL,          FLAG(no_cache) },
    {"--offline",   EMIT | RUN | BENCH | TUNE,                      NULL,          FLAG(offline)  },
    {"-v",          ALL,                                            NULL,          FLAG(verbose)  },
};
enum { N_OPTIONS = sizeof table / sizeof *table };

static const struct option *find_option(const char *name, size_t length, unsigned command)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if ((table[i].commands & command) && strlen(table[i].name) == length &&
            !memcmp(table[i].name, name, length))
            return &table[i];
    return NULL;
}

static enum exit_status unknown_option(const struct options *o, const char *word, size_t length)
{
    const char *candidates[N_OPTIONS], *command = o->command->name;
    int n = 0;
    for (int i = 0; i < N_OPTIONS; i++)
        if (table[i].commands & o->command->id)
            candidates[n++] = table[i].name;
    if (find_option(word, length, ALL))
        return complain(STATUS_usage, "%s takes no %.*s; see `quern help %s`", command, (int)length,
                        word, command);
    char *name = strndup(word, length);
    const char *near = name && length > 2 ? nearest(name, candidates, n) : NULL;
    free(name);
    if (near)
        return complain(STATUS_usage, "%s: unknown option %.*s; did you mean %s?", command,
                        (int)length, word, near);
    return complain(STATUS_usage, "%s: unknown option %.*s; see `quern help %s`", command,
                    (int)length, word, command);
}

static enum exit_status unknown_command(const char *word)
{
    const char *names[16];
    int n = 0;
    for (; commands[n].name; n++)
        names[n] = commands[n].name;
    const char *near = nearest(word, names, n);
    if (near)
        return complain(STATUS_usage, "unknown command %s; did you mean %s?", word, near);
    return complain(STATUS_usage, "unknown command %s; see `quern help`", word);
}

// One option at argv[*i]: `--name value`, `--name=value`, `-D value`, `-Dvalue`.  Steps over what
// it took.
static enum exit_status read_option(struct options *o, int argc, char **argv, int *i)
{
    char *word = argv[(*i)++];
    size_t length = word[1] == '-' ? strcspn(word, "=") : 2;
    const struct option *found = find_option(word, length, o->command->id);
    if (!found)
        return unknown_option(o, word, length);
    char *value = word[length] == '\0' ? NULL : word + length + (word[1] == '-');
    if (!found->set) {
        if (value)
            return complain(STATUS_usage, "%s takes no value", found->name);
        *(bool *)((char *)o + found->flag) = true;
        return STATUS_done;
    }
    if (!value && *i < argc)
        value = argv[(*i)++];
    if (!value)
        return complain(STATUS_usage, "%s needs a value; see `quern help %s`", found->name,
                        o->command->name);
    return found->set(o, value);
}

static bool allocate(struct options *o, int argc)
{
    size_t n = (size_t)argc;
    o->sizes = calloc(n, sizeof *o->sizes);
    o->in = calloc(n, sizeof *o->in);
    o->out = calloc(n, sizeof *o->out);
    o->expect = calloc(n, sizeof *o->expect);
    return o->sizes && o->in && o->out && o->expect;
}

static enum exit_status read_operand(struct options *o, const char *word)
{
    const struct command *c = o->command;
    if (!c->operand)
        return complain(STATUS_usage, "%s takes no operand, got %s", c->name, word);
    if (o->operand && c->second && !o->second) {
        o->second = word;
        return STATUS_done;
    }
    if (o->operand && c->second)
        return complain(STATUS_usage, "%s %s takes one %s, got %s and %s", c->name, o->operand,
                        c->second, o->second, word);
    if (o->operand)
        return complain(STATUS_usage, "%s takes one %s, got %s and %s", c->name, c->operand,
                        o->operand, word);
    o->operand = word;
    return STATUS_done;
}

static bool asks_for_help(const char *word)
{
    return !strcmp(word, "-h") || !strcmp(word, "--help");
}

// `quern COMMAND --help` is `quern help COMMAND`.
static enum exit_status turn_to_help(struct options *o)
{
    o->operand = o->command->name;
    for (o->command = commands; o->command->id != HELP;)
        o->command++;
    return STATUS_done;
}

static enum exit_status find_command(struct options *o, const char *word)
{
    if (asks_for_help(word))
        word = "help";
    for (o->command = commands; o->command->name; o->command++)
        if (!strcmp(o->command->name, word))
            return STATUS_done;
    return unknown_command(word);
}

enum exit_status options_read(struct options *o, int argc, char **argv)
{
    o->max_bytes = -1;
    o->out_dir = ".";
    if (argc < 2) {
        usage(stderr);
        return STATUS_usage;
    }
    if (!allocate(o, argc))
        return complain(STATUS_missing, "out of memory");
    enum exit_status status = find_command(o, argv[1]);
    bool only_operands = false; // after --
    for (int i = 2; status == STATUS_done && i < argc;) {
        if (only_operands || argv[i][0] != '-' || !argv[i][1]) {
            status = read_operand(o, argv[i++]);
        } else if (!strcmp(argv[i], "--")) {
            only_operands = true;
            i++;
        } else if (asks_for_help(argv[i])) {
            return turn_to_help(o);
        } else {
            status = read_option(o, argc, argv, &i);
        }
    }
    if (status == STATUS_done && o->command->operand_needed && !o->operand)
        return complain(STATUS_usage, "%s: expected %s; see `quern help %s`", o->command->name,
                        o->command->operand, o->command->name);
    return status;
}

void options_free(struct options *o)
{
    free(o->sizes);
    free(o->in);
    free(o->out);
    free(o->expect);
    free(o->archs);
}
