// trial.c: a program's arguments in memory of their own, what its outputs must be, and whether a
// plan's are.
//
// The f64 reference says what they must be, and what the model's specs give has to agree with it.
// Where it would take too long, or is not what was asked for (fast math), those say it themselves.

#include "runtime/tune.h"
#include <stdlib.h>
#include <string.h>

static const double most_flops = 5e8; // that the reference evaluates in a few seconds

struct trial {
    quern *q;
    int n, n_in, n_given;
    void **host, **device; // as quern_plan_argument numbers them; of the caller's inputs no host
    void **given;          // as quern_execute takes them
    double **expected;     // of each output
    double slack;          // of the tolerance
};

static bool reference_is_apt(const quern_plan *plan)
{
    double flops = 0;
    for (int i = 0; i < plan->program.n_kernels; i++)
        flops += plan->program.kernels[i].flops;
    return flops <= most_flops && plan->math != MATH_fast;
}

static int64_t n_elements(const struct argument *a)
{
    return a->buffer->bytes / dtype_info[a->buffer->dtype].bytes;
}

// ---- data ----

static quern_status place_argument(struct trial *t, const quern_plan *plan, int i,
                                   const quern_tune_options *o)
{
    quern_argument a;
    quern_plan_argument(plan, i, &a);
    size_t bytes = (size_t)a.bytes;
    bool given = a.role != QUERN_OUTPUT && o->inputs;
    t->host[i] = given ? NULL : malloc(bytes + 1);
    if (!given && !t->host[i])
        return report(t->q, QUERN_MEMORY, "out of memory");
    if (!given && a.role != QUERN_OUTPUT)
        quern_random(&a, o->seed, t->host[i]);
    quern_status status = quern_alloc(t->q, bytes + 1, &t->device[i]);
    if (!status && a.role != QUERN_OUTPUT)
        status = quern_upload(t->q, t->device[i], given ? o->inputs[i] : t->host[i], bytes);
    if (a.role != QUERN_WEIGHT)
        t->given[t->n_given++] = t->device[i];
    return status;
}

static quern_status place_all(struct trial *t, const quern_plan *plan, const quern_tune_options *o)
{
    size_t n = (size_t)plan->n_arguments + 1;
    t->n_in = plan->program.n_arguments;
    t->host = calloc(n, sizeof *t->host);
    t->device = calloc(n, sizeof *t->device);
    t->given = calloc(n, sizeof *t->given);
    t->expected = calloc(n, sizeof *t->expected);
    if (!t->host || !t->device || !t->given || !t->expected)
        return report(t->q, QUERN_MEMORY, "out of memory");
    t->n = plan->n_arguments;
    quern_status status = QUERN_OK;
    for (int i = 0; i < t->n && !status; i++)
        status = place_argument(t, plan, i, o);
    for (int i = t->n_in; i < t->n && !status; i++) {
        size_t elements = (size_t)n_elements(&plan->arguments[i]);
        if (!(t->expected[i - t->n_in] = malloc(elements * sizeof(double) + 1)))
            status = report(t->q, QUERN_MEMORY, "out of memory");
    }
    return status;
}

// ---- runs ----

static quern_status bind_weights(const struct trial *t, quern_plan *plan)
{
    quern_status status = QUERN_OK;
    for (int i = 0; i < t->n_in && !status; i++)
        if (plan->arguments[i].role == QUERN_WEIGHT)
            status = quern_bind(plan, plan->arguments[i].buffer->name, t->device[i]);
    return status;
}

// Outputs begin as NaN, so that what is not written is seen.  Twice: a kernel has to leave its
// counters as the next run needs them.
static quern_status run(const struct trial *t, quern_plan *plan)
{
    quern_status status = bind_weights(t, plan);
    for (int i = t->n_in; i < t->n && !status; i++) {
        size_t bytes = (size_t)plan->arguments[i].buffer->bytes;
        memset(t->host[i], 0xff, bytes);
        status = quern_upload(t->q, t->device[i], t->host[i], bytes);
    }
    for (int i = 0; i < 2 && !status; i++)
        status = quern_execute(plan, t->given, t->n_given, NULL);
    if (!status)
        status = quern_synchronize(t->q, NULL);
    for (int i = t->n_in; i < t->n && !status; i++)
        status = quern_download(t->q, t->host[i], t->device[i],
                                (size_t)plan->arguments[i].buffer->bytes);
    return status;
}

static quern_status check_one(const struct trial *t, quern_plan *plan, int output, char **why)
{
    quern_check_result r;
    int argument = t->n_in + output;
    quern_status status =
        check_output(plan, output, t->host[argument], t->expected[output], t->slack, &r);
    if (status || r.ok || *why)
        return status;
    if (asprintf(why, "%s[%lld] is %.9g and should be %.9g, within %.3g + %.3g of it",
                 plan->arguments[argument].buffer->name, (long long)r.worst, r.got, r.expected,
                 r.absolute, r.relative) >= 0)
        return QUERN_OK;
    *why = NULL;
    return report(t->q, QUERN_MEMORY, "out of memory");
}

quern_status trial_run(const struct trial *t, quern_plan *plan, char **why)
{
    *why = NULL;
    quern_status status = run(t, plan);
    for (int i = t->n_in; i < t->n && !status; i++)
        status = check_one(t, plan, i - t->n_in, why);
    return status;
}

// ---- what must come out ----

static quern_status expect_reference(struct trial *t, quern_plan *base, const quern_tune_options *o)
{
    t->slack = 1;
    return quern_reference(base, o->inputs ? o->inputs : (const void *const *)t->host, t->expected);
}

static quern_status expect_outputs(struct trial *t, quern_plan *base)
{
    t->slack = 2; // both may be off
    quern_status status = run(t, base);
    for (int i = t->n_in; i < t->n && !status; i++) {
        const struct argument *a = &base->arguments[i];
        for (int64_t k = 0; k < n_elements(a); k++)
            t->expected[i - t->n_in][k] = load_element(a->buffer->dtype, t->host[i], k);
    }
    return status;
}

static quern_status expect(struct trial *t, quern_plan *base, const quern_tune_options *o)
{
    char *why = NULL;
    quern_status status =
        reference_is_apt(base) ? expect_reference(t, base, o) : expect_outputs(t, base);
    if (!status)
        status = trial_run(t, base, &why);
    if (!status && why)
        status = report(t->q, QUERN_INTERNAL, "the model's own specs are wrong: %s", why);
    free(why);
    return status;
}

quern_status trial_open(quern_plan *base, const quern_tune_options *o, struct trial **out)
{
    struct trial *t = *out = calloc(1, sizeof *t);
    if (!t)
        return report(base->q, QUERN_MEMORY, "out of memory");
    t->q = base->q;
    quern_status status = place_all(t, base, o);
    return status ? status : expect(t, base, o);
}

void trial_bench(const struct trial *t, quern_plan *base, const bool *touched, struct bench *out)
{
    *out =
        (struct bench){.plan = base, .given = t->given, .n_given = t->n_given, .touched = touched};
}

void trial_close(struct trial *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->n; i++) {
        quern_free(t->q, t->device[i]);
        free(t->host[i]);
        free(t->expected[i]);
    }
    free(t->host);
    free(t->device);
    free(t->given);
    free(t->expected);
    free(t);
}
