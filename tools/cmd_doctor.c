// cmd_doctor.c: `quern doctor`: what was found on this machine, where it was looked for, and what
// to install.

#include "tools/tools.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void print_check(const json_t *check, bool verbose)
{
    bool ok = json_is_true(json_object_get(check, "ok"));
    printf("%-8s %-8s %s\n", text_of(check, "name"), ok ? "found" : "missing",
           ok ? text_of(check, "found") : text_of(check, "hint"));
    if (!ok)
        printf("%-17s needed for %s\n", "", text_of(check, "needed_for"));
    const json_t *looked = json_object_get(check, "looked");
    for (size_t i = 0; (verbose || !ok) && i < json_array_size(looked); i++)
        printf("%-17s looked: %s\n", "", json_string_value(json_array_get(looked, i)));
}

static bool found(const json_t *checks, const char *name)
{
    for (size_t i = 0; i < json_array_size(checks); i++)
        if (!strcmp(text_of(json_array_get(checks, i), "name"), name))
            return json_is_true(json_object_get(json_array_get(checks, i), "ok"));
    return false;
}

// A machine is fit when one device can run programs: a GPU, or the host by way of a C++ compiler.
static enum exit_status verdict(const json_t *checks, bool quiet)
{
    bool gpu = found(checks, "driver") && found(checks, "gpu") && found(checks, "nvrtc");
    bool host = found(checks, "c++"), emit = found(checks, "nvrtc");
    if (!quiet)
        printf("\nrun on a GPU: %s   run on the host: %s   emit cubins: %s\n", gpu ? "yes" : "no",
               host ? "yes" : "no", emit ? "yes" : "no");
    return gpu || host ? STATUS_done : STATUS_missing;
}

static enum exit_status report(const struct options *o, const char *text)
{
    json_t *root = json_loads(text, 0, NULL);
    const json_t *checks = json_object_get(root, "checks");
    if (!root)
        return complain(STATUS_wrong, "a fault of quern itself: doctor's report is not JSON");
    if (o->json) {
        puts(text);
    } else {
        printf("quern " QUERN_VERSION "\n");
        for (size_t i = 0; i < json_array_size(checks); i++)
            print_check(json_array_get(checks, i), o->verbose);
    }
    enum exit_status status = verdict(checks, o->json);
    json_decref(root);
    return status;
}

enum exit_status cmd_doctor(const struct options *o)
{
    struct session s;
    enum exit_status status = session_open(&s, o, QUERN_DEVICE_NONE);
    if (status != STATUS_done)
        return status;
    char *text;
    quern_status got = quern_doctor(s.q, &text);
    if (got == QUERN_OK) {
        status = report(o, text);
        free(text);
    } else {
        status = session_failure(&s, got);
    }
    session_close(&s);
    return status;
}
