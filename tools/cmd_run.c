// cmd_run.c: `quern run`: a program and its data to outputs, checked and timed as asked.

#include "tools/npy.h"
#include "tools/tools.h"
#include <stdlib.h>
#include <string.h>

struct run {
    struct session session;
    const struct options *options;
    FILE *people; // where text for people goes
    struct npy *in, *expect;
    quern_size *sizes;
    int n_sizes;
    quern_plan *plan;
    struct tensors tensors;
    void **arguments; // inputs, then outputs, as quern_execute takes them
    int n_arguments;
    double **reference; // one array per output
    struct outcome *outcomes;
    bool timed;
    quern_timing timing;
};

static int n_outputs(const struct run *r)
{
    return r->tensors.n - r->tensors.n_in;
}

static const struct tensor *output(const struct run *r, int i)
{
    return &r->tensors.tensor[r->tensors.n_in + i];
}

// ---- before ----

static enum exit_status check_names(const struct run *r)
{
    const struct options *o = r->options;
    enum exit_status status = tensors_name_outputs(&r->tensors, "--out", o->out, o->n_out);
    if (status != STATUS_done)
        return status;
    return tensors_name_outputs(&r->tensors, "--expect", o->expect, o->n_expect);
}

static enum exit_status read_files(struct run *r)
{
    const struct options *o = r->options;
    r->in = calloc((size_t)o->n_in + 1, sizeof *r->in);
    r->expect = calloc((size_t)o->n_expect + 1, sizeof *r->expect);
    if (!r->in || !r->expect)
        return complain(STATUS_missing, "out of memory");
    enum exit_status status = tensors_read(o->in, o->n_in, r->in);
    return status == STATUS_done ? tensors_read(o->expect, o->n_expect, r->expect) : status;
}

static enum exit_status make_plan(struct run *r)
{
    const struct options *o = r->options;
    bool native = o->n_archs == 0 || !strcmp(o->archs[0], "native");
    quern_plan_options options = {.arch = native ? NULL : o->archs[0],
                                  .alignment = o->alignment,
                                  .math = o->math,
                                  .each_run = o->each_run,
                                  .separate = o->separate};
    enum exit_status status = tensors_sizes(&r->session, r->in, &r->sizes, &r->n_sizes);
    if (status != STATUS_done)
        return status;
    return session_plan(&r->session, r->sizes, r->n_sizes, &options, &r->plan);
}

static void describe_kernels(const struct run *r)
{
    quern_kernel k;
    for (int i = 0; i < quern_plan_n_kernels(r->plan); i++)
        if (quern_plan_kernel(r->plan, i, &k) == QUERN_OK)
            fprintf(r->people,
                    "kernel %s: %s, %s, grid %u,%u,%u, block %u,%u,%u, shared %u bytes, %s\n",
                    k.name, k.part, k.family, k.grid[0], k.grid[1], k.grid[2], k.block[0],
                    k.block[1], k.block[2], k.shared_bytes, k.spec);
    fprintf(r->people, "workspace %lld bytes, prepared %lld bytes\n",
            (long long)quern_plan_workspace_bytes(r->plan),
            (long long)quern_plan_prepared_bytes(r->plan));
}

// ---- the run ----

static enum exit_status execute(struct run *r)
{
    struct progress *progress = progress_begin("running");
    quern_status got = quern_prepare(r->plan, NULL);
    if (got == QUERN_OK)
        got = quern_execute(r->plan, r->arguments, r->n_arguments, NULL);
    if (got == QUERN_OK)
        got = quern_synchronize(r->session.q, NULL);
    if (got == QUERN_OK && r->options->time) {
        got = quern_time(r->plan, r->arguments, r->n_arguments, &r->timing);
        r->timed = got == QUERN_OK;
    }
    progress_end(progress);
    return got == QUERN_OK ? STATUS_done : session_failure(&r->session, got);
}

// ---- after ----

static double *doubles(const quern_argument *a)
{
    size_t n = (size_t)(a->bytes / quern_dtype_bytes(a->dtype));
    double *data = calloc(n + 1, sizeof *data);
    if (!data)
        complain(STATUS_missing, "%s needs %zu bytes of host memory to be checked", a->name,
                 n * sizeof *data);
    return data;
}

static enum exit_status evaluate_reference(struct run *r)
{
    const struct tensors *t = &r->tensors;
    r->reference = calloc((size_t)n_outputs(r) + 1, sizeof *r->reference);
    const void **inputs = calloc((size_t)t->n_in + 1, sizeof *inputs);
    bool ok = r->reference && inputs;
    for (int i = 0; ok && i < n_outputs(r); i++)
        ok = (r->reference[i] = doubles(&output(r, i)->argument)) != NULL;
    for (int i = 0; ok && i < t->n_in; i++)
        inputs[i] = t->tensor[i].host;
    quern_status got = QUERN_OK;
    if (ok) {
        struct progress *progress = progress_begin("evaluating the reference");
        got = quern_reference(r->plan, inputs, r->reference);
        progress_end(progress);
    }
    free(inputs);
    return !ok ? STATUS_missing : got == QUERN_OK ? STATUS_done : session_failure(&r->session, got);
}

static double larger(double a, double b)
{
    return a > b || a != a ? a : b;
}

// An output may be compared with the reference and with a file: it is ok when it is so against
// both.
static enum exit_status compare(struct run *r, int i, const char *against, const double *expected)
{
    const struct tensor *x = output(r, i);
    struct outcome *o = &r->outcomes[i];
    quern_check_result result;
    quern_status got = quern_check(r->plan, i, x->host, expected, &result);
    if (got != QUERN_OK)
        return session_failure(&r->session, got);
    report_check(r->people, &x->argument, against, &result);
    quern_check_result before = o->result;
    if (!o->checked || (before.ok && !result.ok))
        o->result = result;
    if (o->checked) {
        o->result.max_abs_error = larger(before.max_abs_error, result.max_abs_error);
        o->result.max_rel_error = larger(before.max_rel_error, result.max_rel_error);
    }
    o->checked = true;
    return STATUS_done;
}

static enum exit_status compare_file(struct run *r, int i, const struct binding *b,
                                     const struct npy *file)
{
    const quern_argument *a = &output(r, i)->argument;
    if (!same_shape(a, file))
        return mismatch(a, b->file, file);
    double *expected = doubles(a);
    if (!expected)
        return STATUS_missing;
    int64_t n = a->bytes / quern_dtype_bytes(a->dtype);
    for (int64_t k = 0; k < n; k++)
        expected[k] = quern_element(file->dtype, file->data, k);
    enum exit_status status = compare(r, i, b->file, expected);
    free(expected);
    return status;
}

static enum exit_status compare_all(struct run *r)
{
    const struct options *o = r->options;
    enum exit_status status = o->check ? evaluate_reference(r) : STATUS_done;
    for (int i = 0; status == STATUS_done && i < n_outputs(r); i++) {
        if (o->check)
            status = compare(r, i, "the f64 reference", r->reference[i]);
        for (int k = 0; status == STATUS_done && k < o->n_expect; k++)
            if (!strcmp(o->expect[k].name, output(r, i)->argument.name))
                status = compare_file(r, i, &o->expect[k], &r->expect[k]);
    }
    return status;
}

static enum exit_status report(struct run *r)
{
    const struct options *o = r->options;
    bool quiet = o->check || o->n_expect || o->n_out;
    enum exit_status status = STATUS_done;
    for (int i = 0; !quiet && i < n_outputs(r); i++)
        report_summary(r->people, output(r, i));
    if (r->timed)
        report_time(r->people, &r->tensors, &r->timing);
    if (o->json)
        status = report_json(&r->session, quern_plan_arch(r->plan), &r->tensors, r->outcomes,
                             r->timed ? &r->timing : NULL);
    for (int i = 0; status == STATUS_done && i < n_outputs(r); i++)
        if (r->outcomes[i].checked && !r->outcomes[i].result.ok)
            status = STATUS_wrong;
    return status;
}

// ---- all of it ----

static enum exit_status run_program(struct run *r)
{
    enum exit_status status = session_parse(&r->session);
    if (status == STATUS_done)
        status = make_plan(r);
    if (status == STATUS_done)
        status = tensors_fill(&r->tensors, &r->session, r->plan, r->in);
    if (status == STATUS_done)
        status = check_names(r);
    if (status == STATUS_done)
        status = tensors_upload(&r->tensors, &r->session);
    if (status == STATUS_done)
        status = tensors_bind(&r->tensors, &r->session, r->plan, &r->arguments, &r->n_arguments);
    if (status != STATUS_done)
        return status;

    fprintf(r->people, "%s on %s (%s)\n", quern_program_name(r->session.program),
            quern_device_name(r->session.q), quern_plan_arch(r->plan));
    if (r->options->verbose)
        describe_kernels(r);
    r->outcomes = calloc((size_t)n_outputs(r) + 1, sizeof *r->outcomes);
    if (!r->outcomes)
        return complain(STATUS_missing, "out of memory");
    status = execute(r);
    if (status == STATUS_done)
        status = tensors_download(&r->tensors, &r->session);
    if (status == STATUS_done)
        status = tensors_write(&r->tensors, r->options, r->people);
    if (status == STATUS_done)
        status = compare_all(r);
    return status == STATUS_done ? report(r) : status;
}

static void close_run(struct run *r)
{
    for (int i = 0; r->in && i < r->options->n_in; i++)
        npy_free(&r->in[i]);
    for (int i = 0; r->expect && i < r->options->n_expect; i++)
        npy_free(&r->expect[i]);
    for (int i = 0; r->reference && i < n_outputs(r); i++)
        free(r->reference[i]);
    free(r->in);
    free(r->expect);
    free(r->reference);
    free(r->outcomes);
    free(r->arguments);
    free(r->sizes);
    tensors_free(&r->tensors, r->session.q);
    quern_destroy_plan(r->plan);
    session_close(&r->session);
}

enum exit_status cmd_run(const struct options *o)
{
    if (o->n_archs > 1)
        return complain(STATUS_usage, "run takes one --arch, got %d", o->n_archs);
    struct run r = {.options = o, .people = o->json ? stderr : stdout};
    enum exit_status status = read_files(&r);
    if (status == STATUS_done)
        status = session_open(&r.session, o, o->device);
    if (status == STATUS_done)
        status = run_program(&r);
    close_run(&r);
    return status;
}
