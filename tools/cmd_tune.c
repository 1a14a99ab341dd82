// cmd_tune.c: `quern tune`: a program to the specs that make it fastest on the device here.

#include "tools/tools.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct tune {
    struct session session;
    quern_tuning *tuning;
    quern_tuned result;
    FILE *people;
};

// ---- text ----

// Those that met each other in turns come first: their medians are of the same minutes.
static int by_rank(const void *a, const void *b)
{
    const quern_candidate *x = a, *y = b;
    if (x->n_samples != y->n_samples)
        return y->n_samples - x->n_samples;
    return (x->median_us > y->median_us) - (x->median_us < y->median_us);
}

static void print_candidate(FILE *out, const quern_candidate *c)
{
    char median[32] = "-";
    if (c->n_samples)
        snprintf(median, sizeof median, "%.2f", c->median_us);
    fprintf(out, "  %10s us  %-7s  %s\n", median, quern_outcome_name(c->outcome), c->spec);
    if (c->why)
        fprintf(out, "                 %.*s\n", (int)strcspn(c->why, "\n"), c->why);
}

// The candidates of one kernel, from the i-th of all on, the best first; returns how many.
static int print_kernel(FILE *out, const quern_tuning *tuning, int i)
{
    int n = quern_tuning_n_candidates(tuning), count = 0;
    quern_candidate *all = calloc((size_t)(n - i), sizeof *all);
    for (; all && i + count < n; count++) {
        quern_tuning_candidate(tuning, i + count, &all[count]);
        if (strcmp(all[count].kernel, all[0].kernel))
            break;
    }
    if (!all)
        return n;
    fprintf(out, "%s\n", all[0].kernel);
    qsort(all, (size_t)count, sizeof *all, by_rank);
    for (int k = 0; k < count; k++)
        print_candidate(out, &all[k]);
    free(all);
    return count;
}

static void report(const struct tune *t)
{
    const quern_tuned *r = &t->result;
    FILE *out = t->people;
    fprintf(out, "%s on %s (%s)\n", quern_program_name(t->session.program),
            quern_device_name(t->session.q), r->arch);
    for (int i = 0, n = quern_tuning_n_candidates(t->tuning); i < n;)
        i += print_kernel(out, t->tuning, i);
    if (r->n_untried)
        fprintf(out, "%d candidates were not tried: the budget was over\n", r->n_untried);
    fprintf(out, "a run takes %.2f us, by the model's choice %.2f us; tuned in %.1f s; %s\n",
            r->tuned_us, r->default_us, r->seconds,
            r->kept ? "kept as wisdom" : "not kept: there is no cache");
}

// ---- JSON ----

static json_t *samples_json(const quern_candidate *c)
{
    json_t *samples = json_array();
    for (int i = 0; i < c->n_samples; i++)
        json_array_append_new(samples, json_real(c->samples_us[i]));
    return samples;
}

static json_t *candidate_json(const quern_candidate *c)
{
    return json_pack("{s:s, s:f, s:o, s:o, s:s, s:s?}", "spec", c->spec, "predicted_us",
                     c->predicted_us, "median_us",
                     c->n_samples ? json_real(c->median_us) : json_null(), "samples_us",
                     samples_json(c), "status", quern_outcome_name(c->outcome), "why", c->why);
}

static json_t *kernels_json(const quern_tuning *tuning)
{
    json_t *kernels = json_array(), *candidates = NULL;
    const char *name = "";
    for (int i = 0; i < quern_tuning_n_candidates(tuning); i++) {
        quern_candidate c;
        quern_tuning_candidate(tuning, i, &c);
        if (strcmp(name, c.kernel)) {
            candidates = json_array();
            json_array_append_new(
                kernels, json_pack("{s:s, s:o}", "name", c.kernel, "candidates", candidates));
            name = c.kernel;
        }
        json_array_append_new(candidates, candidate_json(&c));
    }
    return kernels;
}

static enum exit_status tune_json(const struct tune *t)
{
    const struct options *o = t->session.options;
    const quern_tuned *r = &t->result;
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:i, s:b, s:o}", "program",
        quern_program_name(t->session.program), "device", quern_device_name(t->session.q), "arch",
        r->arch, "math", quern_math_name(o->math), "weights", o->each_run ? "each-run" : "prepared",
        "effort", o->patient ? "patient" : "measure", "default_us", r->default_us, "tuned_us",
        r->tuned_us, "seconds", r->seconds, "n_untried", r->n_untried, "kept", r->kept, "kernels",
        kernels_json(t->tuning));
    return print_json(root);
}

// ---- all of it ----

static enum exit_status tune_program(struct tune *t)
{
    struct session *s = &t->session;
    const struct options *o = s->options;
    bool native = o->n_archs == 0 || !strcmp(o->archs[0], "native");
    quern_tune_options options = {
        .plan = {.arch = native ? NULL : o->archs[0],
                 .alignment = o->alignment,
                 .math = o->math,
                 .each_run = o->each_run,
                 .separate = o->separate},
        .effort = o->patient ? QUERN_TUNE_PATIENT : QUERN_TUNE_MEASURE,
        .budget_s = o->budget_s,
        .seed = o->random ? o->seed : 1
    };
    struct progress *progress = progress_begin("tuning");
    quern_status status = quern_tune(s->q, s->program, o->sizes, o->n_sizes, &options, &t->tuning);
    progress_end(progress);
    if (status == QUERN_OK)
        status = quern_tuning_result(t->tuning, &t->result);
    if (status != QUERN_OK)
        return session_failure(s, status);
    report(t);
    return o->json ? tune_json(t) : STATUS_done;
}

enum exit_status cmd_tune(const struct options *o)
{
    if (o->n_archs > 1)
        return complain(STATUS_usage, "tune takes one --arch, got %d", o->n_archs);
    struct tune t = {.people = o->json ? stderr : stdout};
    enum exit_status status = session_open(&t.session, o, o->device);
    if (status != STATUS_done)
        return status;
    status = session_parse(&t.session);
    if (status == STATUS_done)
        status = tune_program(&t);
    quern_destroy_tuning(t.tuning);
    session_close(&t.session);
    return status;
}
