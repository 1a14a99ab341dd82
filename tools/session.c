// session.c: struct options to an open context, a parsed program and plans of it.

#include "tools/tools.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum exit_status complain(enum exit_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("quern: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return status;
}

static enum exit_status exit_status_of(quern_status status)
{
    switch (status) {
    case QUERN_OK:
        return STATUS_done;
    case QUERN_USAGE:
        return STATUS_usage;
    case QUERN_MISSING:
    case QUERN_MEMORY:
        return STATUS_missing;
    case QUERN_PROGRAM:
    case QUERN_DEVICE:
    case QUERN_INTERNAL:
        break;
    }
    return STATUS_wrong;
}

enum exit_status session_failure(const struct session *s, quern_status status)
{
    const char *message = quern_message(s->q);
    size_t n = strlen(message);
    bool diagnostics =
        strstr(message, ": error: ") != NULL; // they say themselves where they come from
    const char *newline = n && message[n - 1] == '\n' ? "" : "\n";
    if (status == QUERN_INTERNAL)
        fprintf(stderr, "quern: a fault of quern itself: %s%s", message, newline);
    else
        fprintf(stderr, "%s%s%s", diagnostics ? "" : "quern: ", message, newline);
    return exit_status_of(status);
}

static void log_line(void *user, const char *line)
{
    const struct session *s = user;
    if (s->dumping)
        fprintf(s->options->json ? stderr : stdout, "%s\n", line);
    else
        fprintf(stderr, "quern: %s\n", line);
}

enum exit_status session_open(struct session *s, const struct options *o, quern_device device)
{
    *s = (struct session){.options = o};
    bool takes_program = o->command->id & (EMIT | RUN | BENCH | EXPLAIN | TUNE);
    size_t n_wisdom;
    if ((takes_program && !(s->text = read_text(o->operand, "a program", &s->n_bytes))) ||
        (o->wisdom && !(s->wisdom = read_text(o->wisdom, "wisdom", &n_wisdom)))) {
        session_close(s);
        return STATUS_wrong;
    }
    quern_options options = {
        .device = device,
        .cache_dir = o->no_cache ? NULL : o->cache_dir,
        .offline = o->offline,
        .log = log_line,
        .log_user = s,
        .cxx = o->cxx,
        .cxx_flags = o->cxx_flags,
        .cuda_home = o->cuda_home,
    };
    quern_status status = quern_open(&s->q, &options);
    if (status == QUERN_OK)
        return STATUS_done;
    enum exit_status failure = session_failure(s, status);
    session_close(s);
    return failure;
}

enum exit_status session_parse(struct session *s)
{
    const struct options *o = s->options;
    const char *name = strcmp(o->operand, "-") ? o->operand : "<stdin>";
    quern_status status = quern_parse(s->q, s->text, s->n_bytes, name, &s->program);
    if (status != QUERN_OK)
        return session_failure(s, status);
    for (int i = 0; i < o->n_sizes; i++) {
        int n = quern_program_n_sizes(s->program), k = 0;
        while (k < n && strcmp(quern_program_size(s->program, k, NULL), o->sizes[i].name))
            k++;
        if (k == n)
            return complain(STATUS_wrong, "-D %s: program %s has no such size", o->sizes[i].name,
                            quern_program_name(s->program));
    }
    return STATUS_done;
}

enum exit_status session_plan(struct session *s, const quern_size *sizes, int n_sizes,
                              const quern_plan_options *options, quern_plan **plan)
{
    struct progress *progress = options->no_load ? NULL : progress_begin("compiling");
    quern_plan_options with_wisdom = *options;
    with_wisdom.no_wisdom = s->options->no_wisdom;
    with_wisdom.wisdom = s->wisdom;
    s->dumping = options->dump != NULL;
    quern_status status = quern_plan_program(s->q, s->program, sizes, n_sizes, &with_wisdom, plan);
    s->dumping = false;
    progress_end(progress);
    return status == QUERN_OK ? STATUS_done : session_failure(s, status);
}

// Sets s->native, where there is a GPU.
static void find_native(struct session *s)
{
    quern_options options = {.device = QUERN_DEVICE_CUDA, .cuda_home = s->options->cuda_home};
    quern *q;
    if (s->native || quern_open(&q, &options) != QUERN_OK)
        return;
    s->native = strdup(quern_native_arch(q));
    quern_close(q);
}

enum exit_status session_arch(struct session *s, int i, const char **arch)
{
    const struct options *o = s->options;
    *arch = o->n_archs ? o->archs[i] : "native";
    if (strcmp(*arch, "native"))
        return STATUS_done;
    find_native(s);
    if (s->native) {
        *arch = s->native;
        return STATUS_done;
    }
    if (o->n_archs)
        return complain(STATUS_missing,
                        "--arch native: there is no GPU here; name one, such as sm_90a");
    *arch = "sm_90a";
    fprintf(stderr, "quern: there is no GPU here: taking --arch sm_90a\n");
    return STATUS_done;
}

void session_close(struct session *s)
{
    quern_destroy_program(s->program);
    quern_close(s->q);
    free(s->native);
    free(s->text);
    free(s->wisdom);
    *s = (struct session){.options = s->options};
}
