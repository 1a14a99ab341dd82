// cmd_wisdom.c: `quern wisdom`: what tuning found on this machine, to be seen, shipped, taken and
// forgotten.

#include "tools/tools.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static enum exit_status export_text(struct session *s, char **text)
{
    quern_status status = quern_wisdom_export(s->q, text);
    return status == QUERN_OK ? STATUS_done : session_failure(s, status);
}

static void print_record(json_t *record)
{
    const char *program = "", *math = "", *weights = "", *arch = "", *gpu = "", *name, *spec;
    json_t *sizes = NULL, *kernels = NULL, *value;
    double before = 0, after = 0;
    int alignment = 0;
    json_unpack(record, "{s:s, s:o, s:s, s:s, s:i, s:s, s:s, s:F, s:F, s:o}", "program", &program,
                "sizes", &sizes, "math", &math, "weights", &weights, "alignment", &alignment,
                "arch", &arch, "gpu", &gpu, "default_us", &before, "tuned_us", &after, "kernels",
                &kernels);
    printf("%s", program);
    json_object_foreach(sizes, name, value)
    {
        printf(" %s=%" JSON_INTEGER_FORMAT, name, json_integer_value(value));
    }
    printf(", math %s, weights %s, alignment %d, on %s (%s): %.2f us, by the model %.2f\n", math,
           weights, alignment, gpu, arch, after, before);
    for (size_t i = 0; i < json_array_size(kernels); i++)
        if (!json_unpack(json_array_get(kernels, i), "{s:s, s:s}", "name", &name, "spec", &spec))
            printf("    %s  %s\n", name, spec);
}

static enum exit_status show(struct session *s)
{
    char *text;
    enum exit_status status = export_text(s, &text);
    if (status != STATUS_done)
        return status;
    json_t *root = json_loads(text, 0, NULL), *records = json_object_get(root, "wisdom");
    if (s->options->json)
        puts(text);
    for (size_t i = 0; !s->options->json && i < json_array_size(records); i++)
        print_record(json_array_get(records, i));
    json_decref(root);
    free(text);
    return STATUS_done;
}

static enum exit_status export_all(struct session *s)
{
    const char *file = s->options->second;
    char *text;
    enum exit_status status = export_text(s, &text);
    if (status != STATUS_done)
        return status;
    if (!file || !strcmp(file, "-"))
        puts(text);
    else if (!write_file(file, text, strlen(text), "\n", 1))
        status = STATUS_wrong;
    free(text);
    return status;
}

static enum exit_status import(struct session *s, bool keep_faster)
{
    const struct options *o = s->options;
    size_t n_bytes;
    int n = 0;
    if (!o->second)
        return complain(STATUS_usage, "wisdom %s: expected a file", o->operand);
    char *text = read_text(o->second, "wisdom", &n_bytes);
    if (!text)
        return STATUS_wrong;
    quern_status got = quern_wisdom_import(s->q, text, keep_faster, &n);
    free(text);
    if (got != QUERN_OK)
        return session_failure(s, got);
    printf("%d records taken\n", n);
    return STATUS_done;
}

static enum exit_status forget(struct session *s)
{
    int n = 0;
    quern_status got = quern_wisdom_forget(s->q, s->options->second, &n);
    if (got != QUERN_OK)
        return session_failure(s, got);
    printf("%d records forgotten\n", n);
    return STATUS_done;
}

enum { SHOW, EXPORT, IMPORT, MERGE, FORGET, N_ACTIONS };
static const char *const actions[N_ACTIONS] = {"show", "export", "import", "merge", "forget"};

static enum exit_status unknown_action(const char *word)
{
    const char *near = nearest(word, actions, N_ACTIONS);
    return near
               ? complain(STATUS_usage, "wisdom: unknown action %s; did you mean %s?", word, near)
               : complain(STATUS_usage, "wisdom: unknown action %s; see `quern help wisdom`", word);
}

enum exit_status cmd_wisdom(const struct options *o)
{
    int action = 0;
    while (action < N_ACTIONS && strcmp(actions[action], o->operand))
        action++;
    if (action == N_ACTIONS)
        return unknown_action(o->operand);
    if (o->second && action == SHOW)
        return complain(STATUS_usage, "wisdom show takes no %s", o->second);
    if (!o->cache_dir)
        return complain(STATUS_missing,
                        "no folder for wisdom: set QUERN_CACHE_DIR, XDG_CACHE_HOME or HOME");
    struct session s;
    enum exit_status status = session_open(&s, o, QUERN_DEVICE_NONE);
    if (status != STATUS_done)
        return status;
    if (action == SHOW)
        status = show(&s);
    else if (action == EXPORT)
        status = export_all(&s);
    else if (action == FORGET)
        status = forget(&s);
    else
        status = import(&s, action == MERGE);
    session_close(&s);
    return status;
}
