// device_on_host.c: the host device as a struct device: memory is ordinary memory, a plan's kernels
// are one shared object, compiled once and kept in the cache, and a launch has ended when it
// returns.

#include "runtime/host.h"
#include "runtime/runtime.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 256, TIMED_RUNS = 5 };

struct host_device {
    struct device base;
    char compiler[256]; // in its own words
};

struct loaded {
    const struct kernel *kernel;
    struct host_function function;
};

static quern_status enter(struct device *d)
{
    (void)d;
    return QUERN_OK;
}

static void leave(struct device *d)
{
    (void)d;
}

// Exactly as many bytes as were asked for, so that a sanitizer sees what runs over.
static quern_status alloc(struct device *d, size_t bytes, void **pointer)
{
    if (posix_memalign(pointer, ALIGNMENT, bytes ? bytes : 1)) {
        *pointer = NULL;
        return report(d->q, QUERN_MEMORY, "out of memory for %zu bytes", bytes);
    }
    return QUERN_OK;
}

static quern_status release(struct device *d, void *pointer)
{
    (void)d;
    free(pointer);
    return QUERN_OK;
}

static quern_status zero(struct device *d, void *pointer, size_t bytes)
{
    (void)d;
    memset(pointer, 0, bytes);
    return QUERN_OK;
}

static quern_status copy(struct device *d, void *to, const void *from, size_t bytes)
{
    (void)d;
    memcpy(to, from, bytes);
    return QUERN_OK;
}

static quern_status synchronize(struct device *d, quern_stream stream)
{
    (void)d;
    (void)stream;
    return QUERN_OK;
}

// Takes the message of a host call into the context.
static quern_status host_failure(const quern *q, enum host_status s, const char *what,
                                 char *message)
{
    static const quern_status statuses[] = {[HOST_ok] = QUERN_OK,
                                            [HOST_missing] = QUERN_MISSING,
                                            [HOST_failed] = QUERN_INTERNAL,
                                            [HOST_memory] = QUERN_MEMORY};
    quern_status status = report(q, statuses[s], "%s%s%s", what, *what ? ": " : "",
                                 message ? message : "out of memory");
    free(message);
    return status;
}

// A folder of ours alone for a shared object that the loader needs as a file; path gets the
// object's name in it.
struct scratch {
    char folder[64], path[96];
};

static quern_status scratch_make(const quern *q, struct scratch *s)
{
    strcpy(s->folder, P_tmpdir "/quern-XXXXXX");
    if (!mkdtemp(s->folder))
        return report(q, QUERN_MISSING, "cannot make a folder in %s", P_tmpdir);
    snprintf(s->path, sizeof s->path, "%s/kernels.so", s->folder);
    return QUERN_OK;
}

static void scratch_remove(const struct scratch *s)
{
    unlink(s->path);
    rmdir(s->folder);
}

static bool file_read(const char *path, struct code *out)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool whole = false;
    if (fd >= 0 && !fstat(fd, &s) && s.st_size > 0 && (out->bytes = malloc((size_t)s.st_size))) {
        out->n_bytes = (size_t)s.st_size;
        whole = read(fd, out->bytes, out->n_bytes) == s.st_size;
    }
    if (fd >= 0)
        close(fd);
    if (!whole) {
        free(out->bytes);
        *out = (struct code){0};
    }
    return whole;
}

static bool file_write(const char *path, const struct code *code)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (fd < 0)
        return false;
    bool whole = write_all(fd, code->bytes, code->n_bytes);
    return !close(fd) && whole;
}

static quern_status make_object(void *state, struct code *out)
{
    const quern_plan *plan = state;
    const quern *q = plan->q;
    struct scratch s;
    quern_status status = scratch_make(q, &s);
    if (status)
        return status;
    char *message = NULL;
    enum host_status h = host_compile(q->cxx, q->cxx_flags, plan->program.kernels,
                                      plan->program.n_kernels, s.path, &message);
    if (h)
        status = host_failure(q, h, "the kernels do not compile for the host device", message);
    else if (!file_read(s.path, out))
        status = report(q, QUERN_MISSING, "%s: cannot be read", s.path);
    scratch_remove(&s);
    return status;
}

static quern_status get_object(struct host_device *d, quern_plan *plan, struct code *out)
{
    const quern *q = plan->q;
    char *source = all_sources(&plan->program),
         *command = q->offline ? build_command(plan, true) : NULL;
    const char *options[] = {q->cxx, q->cxx_flags ? q->cxx_flags : "", QUERN_VERSION};
    if (!source)
        return report(q, QUERN_MEMORY, "out of memory");
    struct recipe recipe = {.kernel = plan->program.name,
                            .source = source,
                            .arch = "host",
                            .compiler = d->compiler,
                            .options = options,
                            .n_options = 3,
                            .extension = "host",
                            .make = make_object,
                            .state = plan,
                            .build_command = command ? command : "quern run"};
    quern_status status = cache_get(q, find_cache(q), &recipe, out);
    free(source);
    free(command);
    return status;
}

static quern_status find_kernels(quern_plan *plan)
{
    for (int i = 0; i < plan->program.n_kernels; i++) {
        struct loaded *l = calloc(1, sizeof *l);
        plan->loaded[i] = l;
        if (!l)
            return report(plan->q, QUERN_MEMORY, "out of memory");
        l->kernel = &plan->program.kernels[i];
        if (!host_find(plan->module, l->kernel->name, &l->function))
            return report(plan->q, QUERN_INTERNAL, "the host object has no kernel %s",
                          l->kernel->name);
    }
    return QUERN_OK;
}

static quern_status load(struct device *base, quern_plan *plan)
{
    struct code code = {0};
    struct scratch s;
    if (!plan->program.n_kernels)
        return QUERN_OK;
    double begun = now_ms();
    quern_status status = get_object((struct host_device *)base, plan, &code);
    plan_took_code(plan, begun, &code);
    if (status)
        return status;
    status = scratch_make(plan->q, &s);
    if (!status) {
        char *message = NULL;
        if (!file_write(s.path, &code)) {
            status = report(plan->q, QUERN_MISSING, "%s: cannot be written", s.path);
        } else {
            struct host_library *library = NULL;
            enum host_status h = host_load(s.path, &library, &message);
            plan->module = library;
            status = h ? host_failure(plan->q, h, "", message) : find_kernels(plan);
        }
        scratch_remove(&s);
    }
    free(code.bytes);
    return status;
}

static void unload(struct device *d, quern_plan *plan)
{
    (void)d;
    for (int i = 0; i < plan->program.n_kernels; i++)
        free(plan->loaded[i]);
    host_unload(plan->module);
    plan->module = NULL;
}

static quern_status launch(struct device *d, struct loaded *kernel, void **pointers,
                           quern_stream stream)
{
    (void)stream;
    struct host_launch l = {
        .kernel = kernel->kernel, .function = kernel->function, .pointers = pointers};
    char *message = NULL;
    enum host_status h = host_launch(&l, &message);
    return h ? host_failure(d->q, h, "", message) : QUERN_OK;
}

// A launch has ended when it returns, so nothing is ever waited for.
static quern_status mark_new(struct device *d, void **made)
{
    (void)d;
    *made = NULL;
    return QUERN_OK;
}

static void mark_free(struct device *d, void *made)
{
    (void)d;
    (void)made;
}

static quern_status captures(struct device *d, quern_stream stream, bool *captured)
{
    (void)d;
    (void)stream;
    *captured = false;
    return QUERN_OK;
}

static quern_status mark(struct device *d, void *made, quern_stream stream)
{
    (void)d;
    (void)made;
    (void)stream;
    return QUERN_OK;
}

static quern_status await(struct device *d, void *made, quern_stream stream, bool *past)
{
    (void)d;
    (void)made;
    (void)stream;
    *past = true;
    return QUERN_OK;
}

static quern_status time_runs(struct device *d,
                              quern_status (*run)(void *state, quern_stream stream), void *state,
                              quern_timing *out)
{
    (void)d;
    double us[TIMED_RUNS];
    quern_status status = run(state, NULL); // warm
    for (int i = 0; i < TIMED_RUNS && !status; i++) {
        double begun = now_ms();
        status = run(state, NULL);
        us[i] = 1e3 * (now_ms() - begun);
    }
    if (!status)
        timing_of(us, TIMED_RUNS, out);
    return status;
}

static quern_status race(struct device *d, const struct bench *b, quern_plan *const *plans,
                         int n_plans, int n_rounds, double *us)
{
    (void)d;
    quern_status status = QUERN_OK;
    for (int i = 0; i < 2 * n_rounds * n_plans && !status; i++) {
        int turn = i % (2 * n_plans), k = turn < n_plans ? turn : 2 * n_plans - 1 - turn;
        double begun = now_ms();
        status = quern_execute(plans[k], b->given, b->n_given, NULL);
        us[k * 2 * n_rounds + i / n_plans] = 1e3 * (now_ms() - begun);
    }
    return status;
}

static void close_device(struct device *d)
{
    free(d);
}

bool compiler_words(const char *cxx, char *words, size_t n)
{
    char *command = NULL;
    *words = '\0';
    if (asprintf(&command, "%s --version 2>/dev/null </dev/null", cxx) < 0)
        return false;
    FILE *in = popen(command, "re");
    free(command);
    if (!in)
        return false;
    bool answered = fgets(words, (int)n, in) != NULL;
    for (char rest[256]; fgets(rest, sizeof rest, in);)
        ;
    bool ended_well = pclose(in) != 127 << 8;
    words[strcspn(words, "\n")] = '\0';
    return answered && ended_well;
}

quern_status host_open(quern *q, struct device **out)
{
    struct host_device *d = calloc(1, sizeof *d);
    if (!d)
        return report(q, QUERN_MEMORY, "out of memory");
    d->base = (struct device){.q = q,
                              .kind = "host",
                              .name = "host",
                              .driver = d->compiler,
                              .enter = enter,
                              .leave = leave,
                              .alloc = alloc,
                              .release = release,
                              .zero = zero,
                              .upload = copy,
                              .download = copy,
                              .sync = synchronize,
                              .load = load,
                              .unload = unload,
                              .launch = launch,
                              .mark_new = mark_new,
                              .mark_free = mark_free,
                              .captures = captures,
                              .mark = mark,
                              .await = await,
                              .time = time_runs,
                              .race = race,
                              .close = close_device};
    target_of_arch("sm_90a", &d->base.target);
    compiler_words(q->cxx, d->compiler, sizeof d->compiler);
    *out = &d->base;
    return QUERN_OK;
}
