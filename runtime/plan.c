// plan.c: program x sizes to kernels, compiled and loaded, with the memory they need.  All that
// costs time happens here.

#include "runtime/runtime.h"
#include <stdlib.h>
#include <string.h>

// Bytes that the kernels need of a buffer's pointer.
static int alignment_of(const struct program *p, int buffer)
{
    int alignment = 1;
    for (int i = 0; i < p->n_kernels; i++)
        for (int j = 0; j < p->kernels[i].n_args; j++)
            if (p->kernels[i].args[j] == buffer && p->kernels[i].alignment > alignment)
                alignment = p->kernels[i].alignment;
    int element = dtype_info[p->buffers[buffer].dtype].bytes;
    return alignment > element ? alignment : element;
}

static bool list_arguments(quern_plan *plan)
{
    const struct program *p = &plan->program;
    plan->n_arguments = p->n_arguments + p->n_outputs;
    plan->arguments = calloc((size_t)plan->n_arguments + 1, sizeof *plan->arguments);
    if (!plan->arguments)
        return false;
    for (int i = 0; i < plan->n_arguments; i++) {
        bool output = i >= p->n_arguments;
        int buffer = output ? p->outputs[i - p->n_arguments] : p->arguments[i];
        struct argument *a = &plan->arguments[i];
        a->buffer = &p->buffers[buffer];
        a->role = output                             ? QUERN_OUTPUT
                  : a->buffer->kind == BUFFER_weight ? QUERN_WEIGHT
                                                     : QUERN_INPUT;
        a->alignment = alignment_of(p, buffer);
        plan->n_given += a->role != QUERN_WEIGHT;
    }
    return true;
}

static bool make_tables(quern_plan *plan)
{
    const struct program *p = &plan->program;
    size_t widest = 1;
    for (int i = 0; i < p->n_kernels; i++)
        if ((size_t)p->kernels[i].n_args > widest)
            widest = (size_t)p->kernels[i].n_args;
    plan->codes = calloc((size_t)p->n_kernels + 1, sizeof *plan->codes);
    plan->loaded = calloc((size_t)p->n_kernels + 1, sizeof *plan->loaded);
    plan->buffers = calloc((size_t)p->n_buffers + 1, sizeof *plan->buffers);
    plan->block = calloc(widest, sizeof *plan->block);
    return plan->codes && plan->loaded && plan->buffers && plan->block && list_arguments(plan);
}

static quern_status load_plan(quern_plan *plan)
{
    struct device *d = plan->device;
    const struct program *p = &plan->program;
    plan->keeps = p->n_prepare && !plan->each_run;
    plan->changed = true;
    quern_status status = d->load(d, plan);
    if (!status && p->counter_bytes) {
        status = d->alloc(d, (size_t)p->counter_bytes, &plan->counters);
        if (!status)
            status = d->zero(d, plan->counters, (size_t)p->counter_bytes);
    }
    if (!status && p->workspace_bytes)
        status = d->alloc(d, (size_t)p->workspace_bytes, &plan->own_workspace);
    if (!status && plan->keeps)
        status = d->mark_new(d, &plan->mark);
    if (!status && p->prepared_bytes)
        status = d->alloc(d, (size_t)p->prepared_bytes, &plan->prepared);
    if (!status) {
        plan_set_workspace(plan, plan->own_workspace);
        plan->loadable = true;
    }
    return status;
}

void plan_set_workspace(quern_plan *plan, void *workspace)
{
    const struct program *p = &plan->program;
    plan->workspace = workspace;
    for (int i = 0; i < p->n_buffers; i++) {
        const struct buffer *b = &p->buffers[i];
        if (b->kind == BUFFER_workspace && workspace)
            plan->buffers[i] = (char *)workspace + b->offset;
        else if (b->kind == BUFFER_counter && plan->counters)
            plan->buffers[i] = (char *)plan->counters + b->offset;
        else if (b->kind == BUFFER_prepared && plan->prepared)
            plan->buffers[i] = (char *)plan->prepared + b->offset;
    }
}

static quern_status make_plan(quern_plan *plan, const struct plan_request *r)
{
    quern *q = plan->q;
    const quern_plan_options *options = r->options;
    quern_first_use *took = &plan->first_use;
    double begun = now_ms();
    quern_status status = need_device(q, &plan->device);
    if (!status)
        status = settle_arch(plan, options->arch, options->no_load != 0);
    if (r->max_cluster && r->max_cluster < plan->target.max_cluster)
        plan->target.max_cluster = r->max_cluster;
    plan->target.teams &= !r->no_teams;
    double opened = now_ms();
    if (!status)
        status = compile_plan(plan, r);
    if (!status && !make_tables(plan))
        status = report(q, QUERN_MEMORY, "out of memory");
    double compiled = now_ms();
    if (!status && plan->device && !options->no_load)
        status = load_plan(plan);
    took->open_ms = opened - begun;
    took->front_end_ms = plan->source->parse_ms + compiled - opened;
    took->load_ms = now_ms() - compiled - took->nvrtc_ms; // which is a part of loading
    return status;
}

static const enum math math_of[] = {[QUERN_MATH_REAL] = MATH_real,
                                    [QUERN_MATH_STRICT] = MATH_strict,
                                    [QUERN_MATH_FINITE] = MATH_finite,
                                    [QUERN_MATH_FAST] = MATH_fast};

const char *quern_math_name(quern_math math)
{
    return (unsigned)math <= QUERN_MATH_FAST ? math_name[math_of[math]] : NULL;
}

static quern_status check_specs(quern *q, const quern_plan_options *options)
{
    if (options->n_specs < 0 || (options->n_specs && !options->specs))
        return report(q, QUERN_USAGE, "quern_plan_program: specs are null");
    for (int i = 0; i < options->n_specs; i++)
        if (!options->specs[i].kernel || !options->specs[i].spec)
            return report(q, QUERN_USAGE, "quern_plan_program: spec %d is null", i);
    return QUERN_OK;
}

static quern_status check_request(quern *q, const quern_program *program, const quern_size *sizes,
                                  int n_sizes, const quern_plan_options *options)
{
    if (!program || n_sizes < 0 || (n_sizes && !sizes))
        return report(q, QUERN_USAGE, "quern_plan_program: a null argument");
    if (program->q != q)
        return report(q, QUERN_USAGE, "quern_plan_program: the program belongs to another context");
    for (int i = 0; i < n_sizes; i++)
        if (!sizes[i].name)
            return report(q, QUERN_USAGE, "quern_plan_program: size %d has no name", i);
    int alignment = options->alignment;
    if (alignment < 0 || alignment > 256 || (alignment & (alignment - 1)))
        return report(q, QUERN_USAGE, "alignment is %d: expected a power of two from 1 to 256",
                      alignment);
    if (!quern_math_name(options->math))
        return report(q, QUERN_USAGE, "math is %d: expected one of enum quern_math",
                      (int)options->math);
    return check_specs(q, options);
}

// misfit: of the plan that was not made.
static quern_status plan_once(quern *q, const quern_program *program, const struct plan_request *r,
                              quern_plan **plan, struct misfit *misfit)
{
    const quern_plan_options *options = r->options;
    *misfit = (struct misfit){0, 0};
    quern_plan *made = calloc(1, sizeof *made);
    if (!made || pthread_mutex_init(&made->lock, NULL)) {
        free(made);
        return report(q, QUERN_MEMORY, "out of memory");
    }
    made->q = q;
    made->source = program;
    made->math = math_of[options->math];
    made->each_run = options->each_run != 0;
    made->separate = options->separate != 0;
    made->alignment = options->alignment;
    made->max_cluster = r->max_cluster;
    made->no_teams = r->no_teams;
    program_retain(program);
    quern_status status = make_plan(made, r);
    if (status) {
        *misfit = made->misfit;
        quern_destroy_plan(made);
    } else {
        *plan = made;
    }
    return status;
}

// What the next plan is to do without: teams, or clusters as large as those.
static void lower_request(quern *q, struct plan_request *r, struct misfit misfit)
{
    const char *why = quern_message(q);
    r->quiet = true;
    r->no_teams |= misfit.team > 0;
    r->max_cluster = misfit.cluster ? misfit.cluster / 2 : r->max_cluster;
    if (misfit.team)
        note(q, "%s: planned again without teams", why);
    else if (misfit.cluster > 2)
        note(q, "%s: planned again for %d at most", why, misfit.cluster / 2);
    else
        note(q, "%s: planned again without clusters", why);
}

// Where the GPU cannot hold a team, there are to be none; clusters that it cannot hold are made
// half as large, until they fit; rows are streamed where none do.  No kernel has a larger one than
// the limit, so this ends.
quern_status plan_program(quern *q, const quern_program *program, const struct plan_request *r,
                          quern_plan **plan)
{
    struct plan_request request = *r;
    struct misfit misfit = {0, 0};
    *plan = NULL;
    quern_status status = check_request(q, program, r->sizes, r->n_sizes, r->options);
    if (!status)
        status = plan_once(q, program, &request, plan, &misfit);
    while (status && (misfit.cluster || misfit.team) && !r->as_asked) {
        lower_request(q, &request, misfit);
        status = plan_once(q, program, &request, plan, &misfit);
    }
    return status;
}

quern_status quern_plan_program(quern *q, const quern_program *program, const quern_size *sizes,
                                int n_sizes, const quern_plan_options *options, quern_plan **plan)
{
    static const quern_plan_options defaults = {0};
    if (!q || !plan)
        return report(q, QUERN_USAGE, "quern_plan_program: a null argument");
    const struct plan_request request = {
        .sizes = sizes, .n_sizes = n_sizes, .options = options ? options : &defaults};
    return plan_program(q, program, &request, plan);
}

void quern_destroy_plan(quern_plan *plan)
{
    if (!plan)
        return;
    struct device *d = plan->device;
    hush(true);
    if (d && plan->loaded)
        d->unload(d, plan);
    if (d && !forked(plan->q)) {
        d->mark_free(d, plan->mark);
        d->release(d, plan->prepared);
        d->release(d, plan->own_workspace);
        d->release(d, plan->counters);
    }
    hush(false);
    for (int i = 0; plan->codes && i < plan->program.n_kernels; i++)
        free(plan->codes[i].bytes);
    free(plan->codes);
    free(plan->loaded);
    free(plan->buffers);
    free(plan->block);
    free(plan->arguments);
    free(plan->json);
    free(plan->explained[0]);
    free(plan->explained[1]);
    arena_free(&plan->gen.arena);
    quern_destroy_program((quern_program *)(uintptr_t)plan->source);
    pthread_mutex_destroy(&plan->lock);
    free(plan);
}

int quern_plan_n_arguments(const quern_plan *plan)
{
    return plan ? plan->n_arguments : 0;
}

quern_status quern_plan_argument(const quern_plan *plan, int i, quern_argument *out)
{
    if (!plan || !out || i < 0 || i >= plan->n_arguments)
        return report(plan ? plan->q : NULL, QUERN_USAGE,
                      "quern_plan_argument: there is no argument %d", i);
    const struct buffer *b = plan->arguments[i].buffer;
    *out = (quern_argument){.name = b->name,
                            .role = plan->arguments[i].role,
                            .dtype = (quern_dtype)b->dtype,
                            .rank = b->rank,
                            .bytes = b->bytes};
    memcpy(out->dim, b->dim, sizeof out->dim);
    return QUERN_OK;
}

const char *part_name(enum kernel_part part)
{
    return part == PART_prepare ? "prepare" : "run";
}

int quern_plan_n_kernels(const quern_plan *plan)
{
    return plan ? plan->program.n_kernels : 0;
}

quern_status quern_plan_kernel(const quern_plan *plan, int i, quern_kernel *out)
{
    if (!plan || !out || i < 0 || i >= plan->program.n_kernels)
        return report(plan ? plan->q : NULL, QUERN_USAGE,
                      "quern_plan_kernel: there is no kernel %d", i);
    const struct kernel *k = &plan->program.kernels[i];
    *out = (quern_kernel){.name = k->name,
                          .part = part_name(k->part),
                          .family = k->family,
                          .expression = k->expression,
                          .spec = k->spec,
                          .source = k->source,
                          .shared_bytes = k->shared_bytes,
                          .cooperative = k->cooperative,
                          .alignment = k->alignment,
                          .bytes = k->bytes,
                          .flops = k->flops,
                          .floor_us = k->floor_us,
                          .n_candidates = k->n_candidates};
    memcpy(out->grid, k->grid, sizeof out->grid);
    memcpy(out->block, k->block, sizeof out->block);
    return QUERN_OK;
}

quern_status quern_plan_candidate(const quern_plan *plan, int kernel, int candidate,
                                  const char **spec, double *predicted_us)
{
    const struct kernel *k = plan && kernel >= 0 && kernel < plan->program.n_kernels
                                 ? &plan->program.kernels[kernel]
                                 : NULL;
    if (!k || candidate < 0 || candidate >= k->n_candidates || !spec || !predicted_us)
        return report(plan ? plan->q : NULL, QUERN_USAGE,
                      "quern_plan_candidate: kernel %d has no candidate %d", kernel, candidate);
    *spec = k->candidates[candidate].spec;
    *predicted_us = k->candidates[candidate].predicted_us;
    return QUERN_OK;
}

int64_t quern_plan_prepared_bytes(const quern_plan *plan)
{
    return plan ? plan->program.prepared_bytes : 0;
}

const char *quern_plan_arch(const quern_plan *plan)
{
    return plan ? plan->target.name : NULL;
}

int64_t quern_plan_workspace_bytes(const quern_plan *plan)
{
    return plan ? plan->program.workspace_bytes : 0;
}

quern_status quern_plan_first_use(const quern_plan *plan, quern_first_use *out)
{
    if (!plan || !out)
        return report(plan ? plan->q : NULL, QUERN_USAGE, "quern_plan_first_use: a null argument");
    *out = plan->first_use;
    return QUERN_OK;
}
