// cmd_emit.c: `quern emit`: a program and its sizes to one file per kernel and arch, and NAME.json.
//
// All or nothing: everything is compiled first, then written beside its place, then renamed into
// it.

#include "tools/tools.h"
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct output_file {
    char *name;        // in the folder
    const void *bytes; // a plan's, or text of the JSON
    size_t n_bytes;
    char *at, *to; // where it is written, where it goes
};

struct emission {
    struct session session;
    quern_plan **plans;
    int n_plans;
    struct output_file *files;
    int n_files;
    json_t *json;
    char *json_text, *folder; // folder: the temporary one
};

static bool is_elf(const void *bytes, size_t n)
{
    return n > 4 && !memcmp(bytes, "\177ELF", 4);
}

// NAME.ARCH.cubin for a program of one kernel, NAME.KERNEL.ARCH.cubin for one of several.
static char *file_name(const struct emission *e, const quern_plan *plan, const char *kernel,
                       const char *ending)
{
    char *name;
    bool single = quern_plan_n_kernels(plan) == 1;
    int n = asprintf(&name, "%s%s%s.%s.%s", quern_program_name(e->session.program),
                     single ? "" : ".", single ? "" : kernel, quern_plan_arch(plan), ending);
    return n < 0 ? NULL : name;
}

static bool add_file(struct emission *e, char *name, const void *bytes, size_t n_bytes)
{
    struct output_file *more =
        name ? realloc(e->files, sizeof *more * (size_t)(e->n_files + 1)) : NULL;
    if (!more) {
        free(name);
        return false;
    }
    e->files = more;
    e->files[e->n_files++] = (struct output_file){.name = name, .bytes = bytes, .n_bytes = n_bytes};
    return true;
}

static enum exit_status add_kernel(struct emission *e, quern_plan *plan, int i, json_t *record)
{
    quern_kernel kernel;
    const void *bytes;
    size_t n_bytes;
    const char *ending = "cu";
    quern_status status = quern_plan_kernel(plan, i, &kernel);
    if (status == QUERN_OK && e->session.options->source_format) {
        bytes = kernel.source;
        n_bytes = strlen(kernel.source);
    } else if (status == QUERN_OK) {
        struct progress *progress = progress_begin(kernel.name);
        status = quern_plan_cubin(plan, i, &bytes, &n_bytes, NULL);
        progress_end(progress);
        ending = status == QUERN_OK && is_elf(bytes, n_bytes) ? "cubin" : "ptx";
    }
    if (status != QUERN_OK)
        return session_failure(&e->session, status);
    char *name = file_name(e, plan, kernel.name, ending);
    bool ok = name && json_object_set_new(record, "file", json_string(name)) == 0;
    if (!ok || !add_file(e, name, bytes, n_bytes))
        return complain(STATUS_missing, "out of memory");
    return STATUS_done;
}

static enum exit_status add_arch(struct emission *e, const char *arch)
{
    const struct options *o = e->session.options;
    quern_plan_options options = {.arch = arch,
                                  .alignment = o->alignment,
                                  .math = o->math,
                                  .each_run = o->each_run,
                                  .separate = o->separate,
                                  .no_load = o->source_format};
    quern_plan *plan;
    enum exit_status status = session_plan(&e->session, o->sizes, o->n_sizes, &options, &plan);
    if (status != STATUS_done)
        return status;
    e->plans[e->n_plans++] = plan;
    json_t *record = json_loads(quern_plan_json(plan), 0, NULL);
    json_t *kernels = json_object_get(record, "kernels");
    if (!record || json_array_append_new(json_object_get(e->json, "plans"), record) < 0 ||
        (int)json_array_size(kernels) != quern_plan_n_kernels(plan))
        return complain(STATUS_wrong, "a fault of quern itself: the plan for %s has no record",
                        arch);
    for (int i = 0; status == STATUS_done && i < quern_plan_n_kernels(plan); i++)
        status = add_kernel(e, plan, i, json_array_get(kernels, (size_t)i));
    return status;
}

static enum exit_status add_json(struct emission *e)
{
    char *dumped = json_dumps(e->json, JSON_INDENT(1)), *name;
    if (asprintf(&e->json_text, "%s\n", dumped ? dumped : "") < 0)
        e->json_text = NULL;
    bool ok = dumped && e->json_text;
    free(dumped);
    if (!ok || asprintf(&name, "%s.json", quern_program_name(e->session.program)) < 0 ||
        !add_file(e, name, e->json_text, strlen(e->json_text)))
        return complain(STATUS_missing, "out of memory");
    return STATUS_done;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static enum exit_status write_all(struct emission *e, const char *folder)
{
    for (int i = 0; i < e->n_files; i++) {
        struct output_file *f = &e->files[i];
        if (asprintf(&f->at, "%s/%s", e->folder, f->name) < 0 ||
            asprintf(&f->to, "%s/%s", folder, f->name) < 0)
            return complain(STATUS_missing, "out of memory");
        if (is_folder(f->to))
            return complain(STATUS_wrong, "%s cannot be written: it is a folder", f->to);
        if (!write_file(f->at, f->bytes, f->n_bytes, "", 0))
            return STATUS_wrong;
    }
    return STATUS_done;
}

static enum exit_status move_all(struct emission *e)
{
    for (int i = 0; i < e->n_files; i++) {
        if (rename(e->files[i].at, e->files[i].to) == 0)
            continue;
        complain(STATUS_wrong, "%s cannot be written: %s", e->files[i].to, strerror(errno));
        while (i-- > 0) // half a set is worse than none
            unlink(e->files[i].to);
        return STATUS_wrong;
    }
    return STATUS_done;
}

static enum exit_status publish(struct emission *e)
{
    const char *folder = e->session.options->out_dir;
    if (!make_folders(folder))
        return STATUS_wrong;
    if (asprintf(&e->folder, "%s/.quern-XXXXXX", folder) < 0) {
        e->folder = NULL;
        return complain(STATUS_missing, "out of memory");
    }
    if (!mkdtemp(e->folder)) {
        free(e->folder);
        e->folder = NULL;
        return complain(STATUS_wrong, "the folder %s cannot be written: %s", folder,
                        strerror(errno));
    }
    enum exit_status status = write_all(e, folder);
    if (status == STATUS_done)
        status = move_all(e);
    for (int i = 0; status == STATUS_done && i < e->n_files; i++)
        printf("%s  %zu bytes\n", e->files[i].to, e->files[i].n_bytes);
    return status;
}

static void close_emission(struct emission *e)
{
    for (int i = 0; i < e->n_files; i++) {
        if (e->files[i].at)
            unlink(e->files[i].at); // after a failure; a file that was moved is no longer there
        free(e->files[i].at);
        free(e->files[i].to);
        free(e->files[i].name);
    }
    if (e->folder)
        rmdir(e->folder);
    for (int i = 0; i < e->n_plans; i++)
        quern_destroy_plan(e->plans[i]);
    json_decref(e->json);
    free(e->files);
    free(e->plans);
    free(e->json_text);
    free(e->folder);
    session_close(&e->session);
}

static enum exit_status emit_all(struct emission *e)
{
    const struct options *o = e->session.options;
    int n = o->n_archs ? o->n_archs : 1;
    enum exit_status status = session_parse(&e->session);
    if (status != STATUS_done)
        return status;
    e->plans = calloc((size_t)n, sizeof *e->plans);
    e->json = json_pack("{s:s, s:s, s:[]}", "program", quern_program_name(e->session.program),
                        "quern", QUERN_VERSION, "plans");
    if (!e->plans || !e->json)
        return complain(STATUS_missing, "out of memory");
    for (int i = 0; status == STATUS_done && i < n; i++) {
        const char *arch;
        status = session_arch(&e->session, i, &arch);
        if (status == STATUS_done)
            status = add_arch(e, arch);
    }
    if (status == STATUS_done)
        status = add_json(e);
    return status == STATUS_done ? publish(e) : status;
}

enum exit_status cmd_emit(const struct options *o)
{
    struct emission e = {0};
    enum exit_status status = session_open(&e.session, o, QUERN_DEVICE_NONE);
    if (status != STATUS_done)
        return status;
    status = emit_all(&e);
    close_emission(&e);
    return status;
}
