// compile_plan.c: program x sizes to the source of a plan's kernels, with the specs that it was
// given, or that wisdom has for it.
//
// Wisdom is of the kernels as the model has them, so those are made first; where wisdom has others,
// they are made again.

#include "runtime/runtime.h"
#include <stdlib.h>
#include <string.h>

struct compile_state {
    struct quern_plan *plan;
    const struct compile_options *options;
};

static bool compile_stage(struct gen *g, void *state)
{
    struct compile_state *s = state;
    return compile(g, s->plan->source->ast, s->options, &s->plan->program);
}

// What a compilation has to say, once it is known that it is the last.
struct said {
    char *dumped, *notes;
};

static void said_free(struct said *said)
{
    free(said->dumped);
    free(said->notes);
    *said = (struct said){NULL, NULL};
}

static quern_status run_compiler(quern_plan *plan, const struct compile_options *options,
                                 struct said *said)
{
    quern *q = plan->q;
    plan->gen = (struct gen){.source = &plan->source->source};
    quern_status status =
        run_stage(&plan->gen, compile_stage, &(struct compile_state){plan, options});
    if (status == QUERN_MEMORY)
        return report(q, status, "out of memory");
    said->notes = plan->gen.diags ? diagnostics_text(&plan->gen) : NULL;
    if (status)
        report(q, status, "%s", said->notes ? said->notes : "out of memory");
    return status;
}

static quern_status compile_with(quern_plan *plan, const struct plan_request *r,
                                 const struct chosen_spec *specs, int n_specs, struct said *said)
{
    const char *dump = r->options->dump;
    size_t n_dumped;
    struct size *sizes = calloc((size_t)r->n_sizes + 1, sizeof *sizes);
    FILE *dump_to = dump ? open_memstream(&said->dumped, &n_dumped) : NULL;
    if (!sizes || (dump && !dump_to)) {
        free(sizes);
        return report(plan->q, QUERN_MEMORY, "out of memory");
    }
    for (int i = 0; i < r->n_sizes; i++)
        sizes[i] = (struct size){r->sizes[i].name, r->sizes[i].value};
    struct compile_options options = {.target = &plan->target,
                                      .sizes = sizes,
                                      .n_sizes = r->n_sizes,
                                      .dump = dump,
                                      .alignment = plan->alignment,
                                      .math = plan->math,
                                      .each_run = plan->each_run,
                                      .separate = plan->separate,
                                      .specs = specs,
                                      .n_specs = n_specs,
                                      .list_candidates = r->options->candidates != 0,
                                      .dump_to = dump_to};
    quern_status status = run_compiler(plan, &options, said);
    if (dump_to)
        fclose(dump_to);
    free(sizes);
    return status;
}

static quern_status compile_given(quern_plan *plan, const struct plan_request *r, struct said *said)
{
    const quern_plan_options *o = r->options;
    struct chosen_spec *specs = calloc((size_t)o->n_specs + 1, sizeof *specs);
    if (!specs)
        return report(plan->q, QUERN_MEMORY, "out of memory");
    for (int i = 0; i < o->n_specs; i++)
        specs[i] = (struct chosen_spec){o->specs[i].kernel, o->specs[i].spec};
    quern_status status = compile_with(plan, r, specs, o->n_specs, said);
    free(specs);
    return status;
}

static bool is_change(const struct program *p, const struct wisdom *w)
{
    for (int i = 0; i < w->n_specs; i++)
        for (int k = 0; k < p->n_kernels; k++)
            if (!strcmp(p->kernels[k].name, w->specs[i].kernel) &&
                strcmp(p->kernels[k].spec, w->specs[i].spec))
                return true;
    return false;
}

static quern_status compile_by_wisdom(quern_plan *plan, const struct plan_request *r,
                                      struct said *said)
{
    struct wisdom w;
    quern_status status = QUERN_OK;
    plan->by_wisdom = wisdom_find(plan, r->options->wisdom, &w);
    if (plan->by_wisdom && is_change(&plan->program, &w)) {
        said_free(said);
        arena_free(&plan->gen.arena);
        status = compile_with(plan, r, w.specs, w.n_specs, said);
    }
    wisdom_free(&w);
    return status;
}

quern_status compile_plan(quern_plan *plan, const struct plan_request *r)
{
    struct said said = {NULL, NULL};
    quern_status status = compile_given(plan, r, &said);
    if (!status && !r->options->no_wisdom && !r->options->n_specs)
        status = compile_by_wisdom(plan, r, &said);
    note_lines(plan->q, said.dumped);
    if (!status && !r->quiet)
        note_lines(plan->q, said.notes);
    said_free(&said);
    return status;
}
