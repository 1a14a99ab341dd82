// cmd_explain.c: `quern explain`: what a program becomes, and with --dump what each stage made of
// it.

#include "tools/tools.h"
#include <string.h>

// The arch to explain for; NULL: the device's.  On the GPU's own, what runs there is explained, so
// that its wisdom counts: that takes a context with the GPU.
static enum exit_status choose_arch(struct session *s, const char **arch)
{
    const struct options *o = s->options;
    *arch = o->n_archs && strcmp(o->archs[0], "native") ? o->archs[0] : NULL;
    if (o->device != QUERN_DEVICE_AUTO)
        return STATUS_done;
    enum exit_status status = session_arch(s, 0, arch);
    if (status != STATUS_done || !s->native || strcmp(s->native, *arch))
        return status;
    session_close(s);
    *arch = NULL;
    return session_open(s, o, QUERN_DEVICE_CUDA);
}

static enum exit_status explain(struct session *s)
{
    const struct options *o = s->options;
    const char *arch;
    enum exit_status status = choose_arch(s, &arch);
    if (status == STATUS_done)
        status = session_parse(s);
    if (status != STATUS_done)
        return status;
    quern_plan_options options = {.arch = arch,
                                  .alignment = o->alignment,
                                  .math = o->math,
                                  .each_run = o->each_run,
                                  .separate = o->separate,
                                  .no_load = 1,
                                  .dump = o->dump,
                                  .candidates = o->specs};
    quern_plan *plan;
    status = session_plan(s, o->sizes, o->n_sizes, &options, &plan);
    if (status != STATUS_done)
        return status;
    const char *text = quern_plan_explain(plan, o->json);
    if (text)
        fputs(text, stdout);
    else
        status = session_failure(s, QUERN_MEMORY);
    quern_destroy_plan(plan);
    return status;
}

enum exit_status cmd_explain(const struct options *o)
{
    struct session s;
    if (o->n_archs > 1)
        return complain(STATUS_usage, "explain takes one --arch, got %d", o->n_archs);
    bool named = o->device != QUERN_DEVICE_AUTO;
    enum exit_status status = session_open(&s, o, named ? o->device : QUERN_DEVICE_NONE);
    if (status != STATUS_done)
        return status;
    status = explain(&s);
    session_close(&s);
    return status;
}
