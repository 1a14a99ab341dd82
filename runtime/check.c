// check.c: a program's reference values, and how far a device's are from them.

#include "runtime/runtime.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reference {
    quern_plan *plan;
    const void *const *inputs;
    double *const *expected;
};

static void copy_values(const struct tensor *t, double *to)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dim[i];
    if (dtype_info[t->dtype].class == CLASS_float)
        memcpy(to, t->data, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = (double)((const int64_t *)t->data)[i];
}

static bool reference_stage(struct gen *g, void *state)
{
    const struct reference *r = state;
    const struct graph *graph = r->plan->program.graph;
    struct tensor *in = arena_new(g, struct tensor, graph->n_arguments + 1);
    struct tensor *out = arena_new(g, struct tensor, graph->n_outputs + 1);
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct node *n = graph->arguments[i];
        in[i] = (struct tensor){
            .dtype = n->dtype, .rank = n->rank, .data = (void *)(uintptr_t)r->inputs[i]};
        memcpy(in[i].dim, n->dim, sizeof in[i].dim);
    }
    if (!eval(g, graph, EVAL_exact, in, out))
        return false;
    for (int i = 0; i < graph->n_outputs; i++)
        if (node_numel(graph->outputs[i].node))
            copy_values(&out[i], r->expected[i]);
    return true;
}

static quern_status check_arrays(const quern_plan *plan, const void *const *inputs,
                                 double *const *expected)
{
    const struct graph *graph = plan->program.graph;
    for (int i = 0; i < graph->n_arguments; i++)
        if (!inputs[i] && node_numel(graph->arguments[i]))
            return report(plan->q, QUERN_USAGE, "quern_reference: `%s` is null",
                          graph->arguments[i]->name);
    for (int i = 0; i < graph->n_outputs; i++)
        if (!expected[i] && node_numel(graph->outputs[i].node))
            return report(plan->q, QUERN_USAGE, "quern_reference: `%s` is null",
                          graph->outputs[i].name);
    return QUERN_OK;
}

quern_status quern_reference(quern_plan *plan, const void *const *inputs, double *const *expected)
{
    if (!plan || (!inputs && plan->program.n_arguments) || !expected)
        return report(plan ? plan->q : NULL, QUERN_USAGE, "quern_reference: a null argument");
    quern_status status = check_arrays(plan, inputs, expected);
    if (status)
        return status;
    struct gen g = {.source = &plan->source->source};
    status = run_stage(&g, reference_stage, &(struct reference){plan, inputs, expected});
    if (status == QUERN_PROGRAM) {
        char *why = diagnostics_text(&g);
        report(plan->q, status, "%s", why ? why : "out of memory");
        free(why);
    } else if (status) {
        report(plan->q, status, "out of memory while evaluating %s", plan->program.name);
    }
    arena_free(&g.arena);
    return status;
}

// How far apart, and by how much that is more than allowed (below 0: allowed).
struct distance {
    double absolute, relative, excess;
};

// expected, as the output's dtype can hold it: an f16 output of 70000 is infinite.
static double as_stored(enum dtype dtype, double expected)
{
    double room = 0;
    store_element(dtype, &room, 0, expected);
    return load_element(dtype, &room, 0);
}

static struct distance distance(enum dtype dtype, struct tolerance t, double got, double expected)
{
    if ((isnan(got) && isnan(expected)) || got == expected)
        return (struct distance){0, 0, -t.absolute};
    if (!isfinite(got) && got == as_stored(dtype, expected))
        return (struct distance){0, 0, -t.absolute};
    if (!isfinite(got) || !isfinite(expected))
        return (struct distance){INFINITY, INFINITY, INFINITY};
    double absolute = fabs(got - expected);
    double relative = expected != 0 ? absolute / fabs(expected) : INFINITY;
    return (struct distance){absolute, relative,
                             absolute - (t.absolute + t.relative * fabs(expected))};
}

quern_status check_output(quern_plan *plan, int output, const void *got, const double *expected,
                          double slack, quern_check_result *result)
{
    if (!plan || !result || output < 0 || output >= plan->program.n_outputs)
        return report(plan ? plan->q : NULL, QUERN_USAGE, "quern_check: there is no output %d",
                      output);
    const struct node *node = plan->program.graph->outputs[output].node;
    int64_t n = node_numel(node);
    if (n && (!got || !expected))
        return report(plan->q, QUERN_USAGE, "quern_check: a null argument");
    struct tolerance t = tolerance(plan->program.graph, node);
    t.absolute *= slack, t.relative *= slack;
    *result = (quern_check_result){.absolute = t.absolute, .relative = t.relative, .ok = 1};
    double worst = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double g = load_element(node->dtype, got, i);
        struct distance d = distance(node->dtype, t, g, expected[i]);
        if (d.absolute > result->max_abs_error)
            result->max_abs_error = d.absolute;
        if (d.relative > result->max_rel_error && (isfinite(d.relative) || !isfinite(d.absolute)))
            result->max_rel_error = d.relative;
        if (d.excess > 0)
            result->ok = 0;
        if (d.excess > worst) {
            worst = d.excess;
            result->worst = i;
            result->got = g;
            result->expected = expected[i];
        }
    }
    return QUERN_OK;
}

quern_status quern_check(quern_plan *plan, int output, const void *got, const double *expected,
                         quern_check_result *result)
{
    return check_output(plan, output, got, expected, 1, result);
}
