// tune.c: a program and a device to the specs that make a run fastest there.
//
// Kernel by kernel: its candidates are timed one by one, and the fastest of them meet the specs in
// use in turns.  A winner must win by 2 %, so noise alone changes nothing, and ties go to the first
// in the model's order, so that the next tuning says the same.

#include "runtime/tune.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 8, FINALISTS = 3, SCREEN_ROUNDS = 3, FINAL_ROUNDS = MAX_SAMPLES / 2 };
static const double margin = 0.02;

// When the next of the kernels that are left has had its share of the budget.
static double deadline_ms(const struct quern_tuning *t, int n_left)
{
    double now = now_ms(), end = t->begun_ms + 1e3 * t->budget_s;
    return t->budget_s > 0 ? now + (end - now) / n_left : INFINITY;
}

// ---- plans ----

// The kernels' chosen specs, but for one that is to have another; returns how many.
static int list_specs(const struct quern_tuning *t, const struct tuned_kernel *but,
                      const char *other, quern_spec *specs)
{
    int n = 0;
    for (int i = 0; i < t->n_kernels; i++) {
        const struct tuned_kernel *k = &t->kernels[i];
        if (k == but)
            specs[n++] = (quern_spec){k->kernel->name, other};
        else if (k->chosen)
            specs[n++] = (quern_spec){k->kernel->name, k->tried[k->chosen].candidate->spec};
    }
    return n;
}

static quern_status plan_with(const struct quern_tuning *t, const struct tuned_kernel *but,
                              const char *other, quern_plan **plan)
{
    quern_spec *specs = calloc((size_t)t->n_kernels + 1, sizeof *specs);
    if (!specs)
        return report(t->q, QUERN_MEMORY, "out of memory");
    quern_plan_options o = t->options;
    o.n_specs = list_specs(t, but, other, specs);
    o.specs = specs;
    const struct plan_request request = {.sizes = t->sizes,
                                         .n_sizes = t->n_sizes,
                                         .options = &o,
                                         .quiet = true,
                                         .as_asked = true,
                                         .max_cluster = t->base->max_cluster,
                                         .no_teams = t->base->no_teams};
    quern_status status = plan_program(t->q, t->program, &request, plan);
    free(specs);
    return status;
}

static void release(const struct quern_tuning *t, quern_plan *plan)
{
    if (plan && plan != t->base && plan != t->best)
        quern_destroy_plan(plan);
}

static void use(struct quern_tuning *t, quern_plan *plan)
{
    quern_plan *old = t->best;
    t->best = plan;
    release(t, old);
}

// ---- one candidate ----

// Leaves the machine able to go on, or says that it is not.
static quern_status set_aside(struct quern_tuning *t, struct tried *one, quern_outcome outcome,
                              const char *why)
{
    char *wrong = NULL;
    one->outcome = outcome;
    one->why = strdup(why);
    if (!one->why)
        return report(t->q, QUERN_MEMORY, "out of memory");
    quern_status status = trial_run(t->trial, t->base, &wrong);
    if (!status && wrong)
        status = report(t->q, QUERN_DEVICE, "%s: what ran before is wrong since: %s",
                        one->candidate->spec, wrong);
    free(wrong);
    return status;
}

static quern_status race(const struct quern_tuning *t, quern_plan *const *plans, int n, int rounds,
                         double *us)
{
    struct bench b;
    struct device *d = t->base->device;
    trial_bench(t->trial, t->base, t->touched, &b);
    return d->race(d, &b, plans, n, rounds, us);
}

static void take_samples(struct tried *one, const double *us, int n)
{
    double sorted[MAX_SAMPLES];
    quern_timing timing;
    memcpy(one->us, us, sizeof *us * (size_t)n);
    memcpy(sorted, us, sizeof *us * (size_t)n);
    timing_of(sorted, n, &timing);
    one->n_samples = n;
    one->median_us = timing.median_us;
}

// Compiles, loads, checks and times it.  plan: NULL where it is set aside.
static quern_status try_candidate(struct quern_tuning *t, const struct tuned_kernel *k,
                                  struct tried *one, quern_plan **plan)
{
    char *wrong = NULL;
    double us[2 * SCREEN_ROUNDS];
    *plan = NULL;
    quern_status status = plan_with(t, k, one->candidate->spec, plan);
    if (!status)
        status = trial_run(t->trial, *plan, &wrong);
    if (!status && !wrong)
        status = race(t, plan, 1, SCREEN_ROUNDS, us);
    if (!status && !wrong) {
        one->outcome = QUERN_TIMED;
        take_samples(one, us, 2 * SCREEN_ROUNDS);
        return QUERN_OK;
    }
    quern_destroy_plan(*plan);
    *plan = NULL;
    char *why = strdup(wrong ? wrong : quern_message(t->q));
    free(wrong);
    if (!why)
        return report(t->q, QUERN_MEMORY, "out of memory");
    status = set_aside(t, one, status ? QUERN_FAILED : QUERN_WRONG, why);
    free(why);
    return status;
}

// ---- one kernel ----

struct final {
    quern_plan *plan[1 + FINALISTS]; // first: the specs in use
    int which[1 + FINALISTS];        // of the kernel's candidates
    int n;
};

// Keeps the fastest, slowest last.
static void enter_final(const struct quern_tuning *t, const struct tuned_kernel *k, struct final *f,
                        quern_plan *plan, int which)
{
    int at = f->n;
    while (at > 1 && k->tried[f->which[at - 1]].median_us > k->tried[which].median_us)
        at--;
    if (at > FINALISTS) {
        release(t, plan);
        return;
    }
    if (f->n > FINALISTS)
        release(t, f->plan[--f->n]);
    for (int i = f->n++; i > at; i--)
        f->plan[i] = f->plan[i - 1], f->which[i] = f->which[i - 1];
    f->plan[at] = plan, f->which[at] = which;
}

static double median_ratio(const double *a, const double *b, int n)
{
    double ratio[MAX_SAMPLES];
    quern_timing timing;
    for (int i = 0; i < n; i++)
        ratio[i] = a[i] / b[i];
    timing_of(ratio, n, &timing);
    return timing.median_us;
}

// The first in the model's order of those that win, and are as fast as the fastest; 0: none wins.
static int winner(const struct final *f, const double *us, int n)
{
    double fastest = 1 - margin;
    int best = 0;
    for (int i = 1; i < f->n; i++)
        fastest = fmin(fastest, median_ratio(us + i * n, us, n));
    for (int i = 1; i < f->n; i++) {
        double ratio = median_ratio(us + i * n, us, n);
        bool wins = ratio <= 1 - margin && ratio <= fastest * (1 + margin);
        if (wins && (!best || f->which[i] < f->which[best]))
            best = i;
    }
    return best;
}

static quern_status hold_final(struct quern_tuning *t, struct tuned_kernel *k, struct final *f)
{
    double us[(1 + FINALISTS) * 2 * FINAL_ROUNDS];
    int n = 2 * FINAL_ROUNDS;
    quern_status status = race(t, f->plan, f->n, FINAL_ROUNDS, us);
    if (status)
        return status;
    for (int i = 0; i < f->n; i++)
        take_samples(&k->tried[f->which[i]], us + i * n, n);
    int best = winner(f, us, n);
    k->chosen = f->which[best];
    use(t, f->plan[best]);
    return QUERN_OK;
}

static quern_status tune_kernel(struct quern_tuning *t, struct tuned_kernel *k, double deadline)
{
    struct final f = {.plan = {t->best}, .n = 1};
    double us[2 * SCREEN_ROUNDS];
    quern_status status = race(t, &t->best, 1, SCREEN_ROUNDS, us);
    if (!status)
        take_samples(&k->tried[0], us, 2 * SCREEN_ROUNDS);
    k->tried[0].outcome = QUERN_TIMED;
    compile_ahead(t, k, deadline);
    for (int i = 1; i < k->n_tried && !status && now_ms() < deadline; i++) {
        quern_plan *plan;
        status = try_candidate(t, k, &k->tried[i], &plan);
        if (plan)
            enter_final(t, k, &f, plan, i);
    }
    if (!status && f.n > 1)
        status = hold_final(t, k, &f);
    for (int i = 1; i < f.n; i++)
        release(t, f.plan[i]);
    return status;
}

// ---- all of it ----

static void drop_choices(struct quern_tuning *t)
{
    for (int i = 0; i < t->n_kernels; i++)
        t->kernels[i].chosen = 0;
    use(t, t->base);
}

// All that was chosen against the model's specs.
static quern_status settle(struct quern_tuning *t)
{
    double us[2 * 2 * FINAL_ROUNDS];
    int n = 2 * FINAL_ROUNDS, n_plans = t->best == t->base ? 1 : 2;
    struct tried base, best;
    quern_plan *plans[] = {t->base, t->best};
    quern_status status = race(t, plans, n_plans, FINAL_ROUNDS, us);
    if (status)
        return status;
    take_samples(&base, us, n);
    take_samples(&best, us + (n_plans - 1) * n, n);
    if (n_plans == 2 &&
        (median_ratio(us + n, us, n) > 1 - margin || best.median_us >= base.median_us)) {
        drop_choices(t);
        best = base;
    }
    t->default_us = base.median_us;
    t->tuned_us = best.median_us;
    for (int i = 0; i < t->n_kernels; i++)
        t->kernels[i].tried[t->kernels[i].chosen].outcome = QUERN_CHOSEN;
    return QUERN_OK;
}

static void keep(struct quern_tuning *t)
{
    struct chosen_spec *specs = calloc((size_t)t->n_kernels + 1, sizeof *specs);
    for (int i = 0; specs && i < t->n_kernels; i++) {
        const struct tuned_kernel *k = &t->kernels[i];
        specs[i] = (struct chosen_spec){k->kernel->name, k->tried[k->chosen].candidate->spec};
    }
    t->kept = specs && wisdom_keep(t->base, specs, t->n_kernels, t->default_us, t->tuned_us);
    free(specs);
}

static quern_status list_candidates(struct quern_tuning *t)
{
    const struct program *p = &t->base->program;
    int first = first_kernel(t->base);
    t->kernels = calloc((size_t)(p->n_kernels - first) + 1, sizeof *t->kernels);
    t->touched = calloc((size_t)p->n_buffers + 1, sizeof *t->touched);
    if (!t->kernels || !t->touched)
        return report(t->q, QUERN_MEMORY, "out of memory");
    mark_touched(t->base, t->touched);
    for (int i = first; i < p->n_kernels; i++) {
        struct tuned_kernel *k = &t->kernels[t->n_kernels++];
        int n = p->kernels[i].n_candidates;
        k->kernel = &p->kernels[i];
        k->n_tried = t->effort == QUERN_TUNE_PATIENT || n < FEW ? n : FEW;
        k->tried = calloc((size_t)n + 1, sizeof *k->tried);
        if (!k->tried)
            return report(t->q, QUERN_MEMORY, "out of memory");
        for (int j = 0; j < n; j++)
            k->tried[j].candidate = &p->kernels[i].candidates[j];
        // Kernels of their own are the last candidate, and always worth a try.
        if (n && !strcmp(p->kernels[i].candidates[n - 1].spec, "separate"))
            k->tried[k->n_tried - 1].candidate = &p->kernels[i].candidates[n - 1];
    }
    return QUERN_OK;
}

static quern_status tune(struct quern_tuning *t, const quern_tune_options *o)
{
    quern_plan_options first = t->options;
    first.candidates = 1;
    quern_status status =
        quern_plan_program(t->q, t->program, t->sizes, t->n_sizes, &first, &t->base);
    t->best = t->base;
    if (status)
        return status;
    status = check_loaded(t->base, "quern_tune");
    if (!status && first_kernel(t->base) == t->base->program.n_kernels)
        status = report(t->q, QUERN_USAGE, "quern_tune: the plan of %s launches nothing",
                        t->base->program.name);
    if (!status)
        status = list_candidates(t);
    if (!status)
        status = trial_open(t->base, o, &t->trial);
    for (int i = 0; i < t->n_kernels && !status; i++)
        status = tune_kernel(t, &t->kernels[i], deadline_ms(t, t->n_kernels - i));
    if (!status)
        status = settle(t);
    if (!status)
        keep(t);
    t->seconds = (now_ms() - t->begun_ms) / 1e3;
    return status;
}

quern_status quern_tune(quern *q, const quern_program *program, const quern_size *sizes,
                        int n_sizes, const quern_tune_options *options, quern_tuning **tuning)
{
    static const quern_tune_options defaults = {.effort = QUERN_TUNE_MEASURE};
    if (!q || !tuning)
        return report(q, QUERN_USAGE, "quern_tune: a null argument");
    *tuning = NULL;
    const quern_tune_options *o = options ? options : &defaults;
    if ((unsigned)o->effort > QUERN_TUNE_PATIENT || !(o->budget_s >= 0))
        return report(q, QUERN_USAGE, "quern_tune: effort %d and a budget of %g s", (int)o->effort,
                      o->budget_s);
    struct quern_tuning *t = calloc(1, sizeof *t);
    if (!t)
        return report(q, QUERN_MEMORY, "out of memory");
    *t = (struct quern_tuning){.q = q,
                               .program = program,
                               .sizes = sizes,
                               .n_sizes = n_sizes,
                               .options = o->plan,
                               .effort = o->effort,
                               .begun_ms = now_ms(),
                               .budget_s = o->budget_s};
    t->options.specs = NULL, t->options.n_specs = 0, t->options.candidates = 0;
    t->options.no_load = 0, t->options.no_wisdom = 1, t->options.wisdom = t->options.dump = NULL;
    quern_status status = tune(t, o);
    trial_close(t->trial);
    t->trial = NULL;
    if (t->best != t->base)
        quern_destroy_plan(t->best);
    t->best = t->base;
    if (status)
        quern_destroy_tuning(t);
    else
        *tuning = t;
    return status;
}
