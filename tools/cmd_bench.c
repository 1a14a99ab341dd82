// cmd_bench.c: `quern bench`: a program and its data to what a run costs, and what its first use
// does.

#include "tools/bench.h"
#include "tools/npy.h"
#include "tools/tools.h"
#include <stdlib.h>
#include <string.h>

struct bench {
    struct session session;
    struct options options; // as given, with random data where none was asked for
    FILE *people;
    struct npy *in;
    quern_size *sizes;
    int n_sizes;
    quern *cold; // a context of its own, without a cache
    quern_plan *plan;
    struct tensors tensors;
    void **arguments;
    int n_arguments;
    struct bench_result result;
};

static quern_plan_options plan_options(const struct bench *b)
{
    const struct options *o = &b->options;
    bool native = o->n_archs == 0 || !strcmp(o->archs[0], "native");
    return (quern_plan_options){.arch = native ? NULL : o->archs[0],
                                .alignment = o->alignment,
                                .math = o->math,
                                .each_run = o->each_run,
                                .separate = o->separate};
}

// What the program costs a process that has compiled nothing yet, with no cache.  A failure is the
// next plan's too, and is reported by that.
static void plan_cold(struct bench *b)
{
    const struct options *o = &b->options;
    const struct session *s = &b->session;
    const quern_options context = {
        .device = o->device, .cxx = o->cxx, .cxx_flags = o->cxx_flags, .cuda_home = o->cuda_home};
    const quern_plan_options options = plan_options(b);
    quern_program *program = NULL;
    quern_plan *plan = NULL;
    if (quern_open(&b->cold, &context) != QUERN_OK)
        return;
    struct progress *progress = progress_begin("compiling");
    if (quern_parse(b->cold, s->text, s->n_bytes, o->operand, &program) == QUERN_OK &&
        quern_plan_program(b->cold, program, b->sizes, b->n_sizes, &options, &plan) == QUERN_OK)
        b->result.has_cold = quern_plan_first_use(plan, &b->result.cold) == QUERN_OK;
    progress_end(progress);
    quern_destroy_plan(plan);
    quern_destroy_program(program);
}

// Twice where the first fills the cache.
static enum exit_status plan_warm(struct bench *b)
{
    struct bench_result *r = &b->result;
    const quern_plan_options options = plan_options(b);
    enum exit_status status = STATUS_done;
    for (int i = 0; i < 2 && status == STATUS_done && !r->has_warm; i++) {
        quern_destroy_plan(b->plan);
        b->plan = NULL;
        status = session_plan(&b->session, b->sizes, b->n_sizes, &options, &b->plan);
        if (status == STATUS_done && quern_plan_first_use(b->plan, &r->warm) == QUERN_OK)
            r->has_warm = r->warm.n_compiled == 0;
        if (b->options.no_cache || !b->options.cache_dir)
            break;
    }
    return status;
}

static enum exit_status place_data(struct bench *b)
{
    enum exit_status status = tensors_fill(&b->tensors, &b->session, b->plan, b->in);
    if (status == STATUS_done)
        status = tensors_name_outputs(&b->tensors, "--out", b->options.out, b->options.n_out);
    if (status == STATUS_done)
        status = tensors_upload(&b->tensors, &b->session);
    if (status == STATUS_done)
        status = tensors_bind(&b->tensors, &b->session, b->plan, &b->arguments, &b->n_arguments);
    return status;
}

static enum exit_status measure(struct bench *b)
{
    struct progress *progress = progress_begin("measuring");
    quern_status got = quern_bench(b->plan, b->arguments, b->n_arguments, &b->result.costs);
    progress_end(progress);
    return got == QUERN_OK ? STATUS_done : session_failure(&b->session, got);
}

// After the measurement: what it left must be right.
static enum exit_status write_outputs(struct bench *b)
{
    if (!b->options.n_out)
        return STATUS_done;
    enum exit_status status = tensors_download(&b->tensors, &b->session);
    return status == STATUS_done ? tensors_write(&b->tensors, &b->options, b->people) : status;
}

static enum exit_status report(struct bench *b)
{
    struct bench_result *r = &b->result;
    r->program = quern_program_name(b->session.program);
    r->device = quern_device_name(b->session.q);
    r->arch = quern_plan_arch(b->plan);
    r->math = b->options.math;
    r->each_run = b->options.each_run;
    bench_report(b->people, r);
    if (b->options.plot && !bench_plot(b->options.plot, r))
        return STATUS_wrong;
    return b->options.json ? bench_json(r) : STATUS_done;
}

static enum exit_status bench_program(struct bench *b)
{
    enum exit_status status = session_parse(&b->session);
    if (status == STATUS_done)
        status = tensors_sizes(&b->session, b->in, &b->sizes, &b->n_sizes);
    if (status == STATUS_done && !b->options.offline)
        plan_cold(b);
    if (status == STATUS_done)
        status = plan_warm(b);
    if (status == STATUS_done)
        status = place_data(b);
    if (status == STATUS_done)
        status = measure(b);
    if (status == STATUS_done)
        status = write_outputs(b);
    return status == STATUS_done ? report(b) : status;
}

static void close_bench(struct bench *b)
{
    for (int i = 0; b->in && i < b->options.n_in; i++)
        npy_free(&b->in[i]);
    free(b->in);
    free(b->sizes);
    free(b->arguments);
    tensors_free(&b->tensors, b->session.q);
    quern_destroy_plan(b->plan);
    session_close(&b->session);
    quern_close(b->cold);
}

enum exit_status cmd_bench(const struct options *o)
{
    if (o->n_archs > 1)
        return complain(STATUS_usage, "bench takes one --arch, got %d", o->n_archs);
    struct bench b = {.options = *o, .people = o->json ? stderr : stdout};
    if (!o->random) {
        b.options.random = true;
        b.options.seed = 1;
    }
    b.in = calloc((size_t)o->n_in + 1, sizeof *b.in);
    if (!b.in)
        return complain(STATUS_missing, "out of memory");
    enum exit_status status = tensors_read(o->in, o->n_in, b.in);
    if (status == STATUS_done)
        status = session_open(&b.session, &b.options, o->device);
    if (status == STATUS_done)
        status = bench_program(&b);
    close_bench(&b);
    return status;
}
