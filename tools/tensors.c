// tensors.c: files, a seed and a plan to the arguments of a run, on the host and on the device.

#include "tools/npy.h"
#include "tools/tools.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum exit_status tensors_read(const struct binding *list, int n, struct npy *files)
{
    for (int i = 0; i < n; i++) {
        char *message;
        if (npy_read(list[i].file, &files[i], &message))
            continue;
        complain(STATUS_wrong, "%s %s", list[i].file, message ? message : "cannot be read");
        free(message);
        return STATUS_wrong;
    }
    return STATUS_done;
}

// ---- sizes ----

struct bound_size {
    quern_size size;
    const char *by; // "-D" or a file
};

static enum exit_status bind_size(struct bound_size *bound, int *n, quern_size size, const char *by)
{
    for (int i = 0; i < *n; i++) {
        if (strcmp(bound[i].size.name, size.name))
            continue;
        if (bound[i].size.value == size.value)
            return STATUS_done;
        return complain(STATUS_wrong, "size %s is %" PRId64 " by %s and %" PRId64 " by %s",
                        size.name, bound[i].size.value, bound[i].by, size.value, by);
    }
    bound[(*n)++] = (struct bound_size){size, by};
    return STATUS_done;
}

static enum exit_status bind_file(const struct session *s, struct bound_size *bound, int *n,
                                  const struct binding *in, const struct npy *file)
{
    quern_size found[NPY_MAX_RANK];
    int n_found = NPY_MAX_RANK;
    quern_status got =
        quern_sizes_of_argument(s->program, in->name, file->rank, file->dim, found, &n_found);
    if (got != QUERN_OK) {
        fprintf(stderr, "quern: --in %s=%s:\n", in->name, in->file);
        return session_failure(s, got);
    }
    enum exit_status status = STATUS_done;
    for (int i = 0; status == STATUS_done && i < n_found; i++)
        status = bind_size(bound, n, found[i], in->file);
    return status;
}

enum exit_status tensors_sizes(const struct session *s, const struct npy *files, quern_size **sizes,
                               int *n_sizes)
{
    const struct options *o = s->options;
    size_t room = (size_t)(quern_program_n_sizes(s->program) + 1);
    struct bound_size *bound = calloc(room, sizeof *bound);
    *sizes = calloc(room, sizeof **sizes);
    *n_sizes = 0;
    if (!bound || !*sizes) {
        free(bound);
        return complain(STATUS_missing, "out of memory");
    }
    enum exit_status status = STATUS_done;
    for (int i = 0; status == STATUS_done && i < o->n_sizes; i++)
        status = bind_size(bound, n_sizes, o->sizes[i], "-D");
    for (int i = 0; status == STATUS_done && i < o->n_in; i++)
        status = bind_file(s, bound, n_sizes, &o->in[i], &files[i]);
    for (int i = 0; i < *n_sizes; i++)
        (*sizes)[i] = bound[i].size;
    free(bound);
    return status;
}

// ---- data on the host ----

bool same_shape(const quern_argument *a, const struct npy *file)
{
    bool same = a->rank == file->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dim[i] == file->dim[i];
    return same;
}

enum exit_status mismatch(const quern_argument *a, const char *path, const struct npy *file)
{
    static const char *const roles[] = {"input", "weight", "output"};
    char *got = shape_string(file->dtype, file->rank, file->dim);
    char *want = shape_string(a->dtype, a->rank, a->dim);
    complain(STATUS_wrong, "%s is %s and %s %s is %s", path, got ? got : "?", roles[a->role],
             a->name, want ? want : "?");
    free(got);
    free(want);
    return STATUS_wrong;
}

// More than the machine has would end in the kernel's hands, without a word.
static enum exit_status enough_memory(const struct tensors *t, bool check)
{
    double need = 0, have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < t->n; i++) {
        const quern_argument *a = &t->tensor[i].argument;
        double elements = (double)a->bytes / quern_dtype_bytes(a->dtype);
        need +=
            (double)a->bytes + (check && a->role == QUERN_OUTPUT ? elements * sizeof(double) : 0);
    }
    if (need <= have)
        return STATUS_done;
    return complain(STATUS_missing,
                    "the arguments need %.1f GB of host memory and this machine has %.1f GB",
                    need / 1e9, have / 1e9);
}

static enum exit_status describe(struct tensors *t, const struct session *s, const quern_plan *plan)
{
    int n = quern_plan_n_arguments(plan);
    t->tensor = calloc((size_t)n + 1, sizeof *t->tensor);
    if (!t->tensor)
        return complain(STATUS_missing, "out of memory");
    for (t->n = 0; t->n < n; t->n++) {
        quern_status got = quern_plan_argument(plan, t->n, &t->tensor[t->n].argument);
        if (got != QUERN_OK)
            return session_failure(s, got);
        t->n_in += t->tensor[t->n].argument.role != QUERN_OUTPUT;
    }
    return enough_memory(t, s->options->check);
}

static enum exit_status missing(const struct tensors *t)
{
    fprintf(stderr, "quern: no data for");
    for (int i = 0; i < t->n_in; i++)
        if (!t->tensor[i].host)
            fprintf(stderr, " %s", t->tensor[i].argument.name);
    fprintf(stderr, "; give --in NAME=FILE.npy, or --random SEED\n");
    return STATUS_wrong;
}

static enum exit_status take_file(struct tensors *t, const struct binding *in, struct npy *file)
{
    for (int i = 0; i < t->n_in; i++) {
        struct tensor *x = &t->tensor[i];
        if (strcmp(x->argument.name, in->name))
            continue;
        if (x->argument.dtype != file->dtype || !same_shape(&x->argument, file))
            return mismatch(&x->argument, in->file, file);
        x->host = file->data;
        file->data = NULL; // it is the tensor's now
        return STATUS_done;
    }
    return complain(STATUS_wrong, "--in %s=%s: the program has no input or weight %s", in->name,
                    in->file, in->name);
}

enum exit_status tensors_fill(struct tensors *t, const struct session *s, const quern_plan *plan,
                              struct npy *files)
{
    const struct options *o = s->options;
    enum exit_status status = describe(t, s, plan);
    for (int i = 0; status == STATUS_done && i < o->n_in; i++)
        status = take_file(t, &o->in[i], &files[i]);
    bool all = true;
    for (int i = 0; status == STATUS_done && i < t->n; i++) {
        struct tensor *x = &t->tensor[i];
        bool output = x->argument.role == QUERN_OUTPUT;
        if (!x->host && !output && !o->random) {
            all = false;
            continue;
        }
        bool fresh = !x->host;
        size_t bytes = (size_t)x->argument.bytes;
        if (fresh && !(x->host = malloc(bytes ? bytes : 1)))
            return complain(STATUS_missing, "%s needs %zu bytes of host memory", x->argument.name,
                            bytes);
        if (output)
            memset(x->host, 0xFF, bytes); // a NaN: what a kernel does not write is seen
        else if (fresh)
            quern_random(&x->argument, o->seed, x->host);
    }
    return status == STATUS_done && !all ? missing(t) : status;
}

// ---- data on the device ----

// With --alignment N, an address that is a multiple of N and of nothing larger, as the plan has to
// expect.
static size_t misalignment(const struct options *o, const quern_argument *a)
{
    size_t element = (size_t)quern_dtype_bytes(a->dtype), n = (size_t)o->alignment;
    if (n == 0 || n == 256)
        return 0;
    return n < element ? element : n;
}

enum exit_status tensors_upload(struct tensors *t, const struct session *s)
{
    for (int i = 0; i < t->n; i++) {
        struct tensor *x = &t->tensor[i];
        size_t bytes = (size_t)x->argument.bytes, skip = misalignment(s->options, &x->argument);
        quern_status got = quern_alloc(s->q, bytes + skip ? bytes + skip : 1, &x->memory);
        if (got == QUERN_OK) {
            x->device = (char *)x->memory + skip;
            got = bytes ? quern_upload(s->q, x->device, x->host, bytes) : QUERN_OK;
        }
        if (got != QUERN_OK)
            return session_failure(s, got);
    }
    return STATUS_done;
}

enum exit_status tensors_download(struct tensors *t, const struct session *s)
{
    for (int i = t->n_in; i < t->n; i++) {
        struct tensor *x = &t->tensor[i];
        size_t bytes = (size_t)x->argument.bytes;
        quern_status got = bytes ? quern_download(s->q, x->host, x->device, bytes) : QUERN_OK;
        if (got != QUERN_OK)
            return session_failure(s, got);
    }
    return STATUS_done;
}

enum exit_status tensors_bind(const struct tensors *t, const struct session *s, quern_plan *plan,
                              void ***arguments, int *n_arguments)
{
    *n_arguments = 0;
    *arguments = calloc((size_t)t->n + 1, sizeof **arguments);
    if (!*arguments)
        return complain(STATUS_missing, "out of memory");
    for (int i = 0; i < t->n; i++) {
        const struct tensor *x = &t->tensor[i];
        if (x->argument.role != QUERN_WEIGHT) {
            (*arguments)[(*n_arguments)++] = x->device;
            continue;
        }
        quern_status got = quern_bind(plan, x->argument.name, x->device);
        if (got != QUERN_OK)
            return session_failure(s, got);
    }
    return STATUS_done;
}

// ---- outputs ----

static const struct tensor *find_output(const struct tensors *t, const char *name)
{
    for (int i = t->n_in; i < t->n; i++)
        if (!strcmp(t->tensor[i].argument.name, name))
            return &t->tensor[i];
    return NULL;
}

enum exit_status tensors_name_outputs(const struct tensors *t, const char *option,
                                      const struct binding *list, int n)
{
    for (int i = 0; i < n; i++)
        if (!find_output(t, list[i].name))
            return complain(STATUS_wrong, "%s %s=%s: the program has no output %s", option,
                            list[i].name, list[i].file, list[i].name);
    return STATUS_done;
}

static enum exit_status write_output(const struct tensor *x, const char *file)
{
    size_t n;
    char *header = npy_header(x->argument.dtype, x->argument.rank, x->argument.dim, &n);
    if (!header)
        return complain(STATUS_missing, "out of memory");
    bool ok = write_file(file, header, n, x->host, (size_t)x->argument.bytes);
    free(header);
    return ok ? STATUS_done : STATUS_wrong;
}

enum exit_status tensors_write(const struct tensors *t, const struct options *o, FILE *people)
{
    for (int i = 0; i < o->n_out; i++) {
        const struct binding *b = &o->out[i];
        enum exit_status status = write_output(find_output(t, b->name), b->file);
        if (status != STATUS_done)
            return status;
        fprintf(people, "%s written to %s\n", b->name, b->file);
    }
    return STATUS_done;
}

void tensors_free(struct tensors *t, quern *q)
{
    for (int i = 0; i < t->n; i++) {
        free(t->tensor[i].host);
        if (t->tensor[i].memory)
            quern_free(q, t->tensor[i].memory);
    }
    free(t->tensor);
    *t = (struct tensors){0};
}
