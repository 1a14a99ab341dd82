// code.c: a plan's kernel to its cubin, through the cache.

#include "runtime/runtime.h"
#include <stdlib.h>
#include <string.h>

struct making {
    const quern_plan *plan;
    const struct kernel *kernel;
    const struct nvrtc *nvrtc;
};

static quern_status make_code(void *state, struct code *out)
{
    const struct making *m = state;
    if (!m->nvrtc)
        return report_no_nvrtc(m->plan->q, m->kernel->name);
    return nvrtc_compile(m->plan->q, m->nvrtc, m->kernel, &m->plan->options, out);
}

static struct recipe recipe_of(const quern_plan *plan, int i, const char *compiler)
{
    const struct kernel *k = &plan->program.kernels[i];
    return (struct recipe){.kernel = k->name,
                           .source = k->source,
                           .arch = plan->arch,
                           .compiler = compiler,
                           .options = plan->options.words,
                           .n_options = plan->options.n,
                           .extension = "cubin",
                           .make = make_code};
}

static void compiler_name(char *name, size_t n, int major, int minor)
{
    snprintf(name, n, "nvrtc %d.%d", major, minor);
}

// Without NVRTC, or with compiling forbidden, what any version has made will do: newest first.
static bool find_of_any_version(const quern_plan *plan, int i, struct cache *c, struct code *out)
{
    for (int major = 15; c && major >= 11; major--) {
        for (int minor = 9; minor >= 0; minor--) {
            char compiler[32];
            compiler_name(compiler, sizeof compiler, major, minor);
            struct recipe recipe = recipe_of(plan, i, compiler);
            if (cache_find(plan->q, c, &recipe, out))
                return true;
        }
    }
    return false;
}

static quern_status get_code(quern_plan *plan, int i, struct code *code)
{
    quern *q = plan->q;
    struct cache *cache = find_cache(q);
    const struct nvrtc *n = find_nvrtc(q);
    if ((!n || q->offline) && find_of_any_version(plan, i, cache, code))
        return QUERN_OK;
    char compiler[32];
    compiler_name(compiler, sizeof compiler, n ? n->major : 0, n ? n->minor : 0);
    struct making making = {plan, &plan->program.kernels[i], n};
    struct recipe recipe = recipe_of(plan, i, compiler);
    char *command = q->offline ? build_command(plan, false) : NULL;
    recipe.state = &making;
    recipe.build_command = command ? command : "quern emit";
    quern_status status = cache_get(q, cache, &recipe, code);
    free(command);
    return status;
}

quern_status plan_code(quern_plan *plan, int i, struct code **out)
{
    struct code *code = &plan->codes[i];
    *out = code;
    if (code->bytes)
        return QUERN_OK;
    double begun = now_ms();
    quern_status status = get_code(plan, i, code);
    plan_took_code(plan, begun, code);
    return status;
}

void plan_took_code(quern_plan *plan, double begun_ms, const struct code *code)
{
    plan->first_use.nvrtc_ms += now_ms() - begun_ms;
    plan->first_use.n_cached += code->bytes && code->hit;
    plan->first_use.n_compiled += code->bytes && !code->hit;
}

void plan_drop_code(quern_plan *plan, int i)
{
    const struct nvrtc *n = find_nvrtc(plan->q);
    char compiler[32];
    compiler_name(compiler, sizeof compiler, n ? n->major : 0, n ? n->minor : 0);
    struct recipe recipe = recipe_of(plan, i, compiler);
    cache_drop(find_cache(plan->q), &recipe);
    free(plan->codes[i].bytes);
    plan->codes[i] = (struct code){0};
}

char *all_sources(const struct program *p)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    if (!out)
        return NULL;
    for (int i = 0; i < p->n_kernels; i++)
        fprintf(out, "// kernel %s\n%s\n", p->kernels[i].name, p->kernels[i].source);
    fclose(out);
    return text;
}

char *build_command(const quern_plan *plan, bool host)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    if (!out)
        return NULL;
    // emit takes the model's specs, and knows no GPU that cannot hold its clusters or teams
    bool run = host || plan->by_wisdom || plan->max_cluster || plan->no_teams;
    fprintf(out, "quern %s %s", run ? "run" : "emit", plan->source->source.name);
    const struct graph *graph = plan->program.graph;
    for (int i = 0; i < graph->n_sizes; i++)
        fprintf(out, " -D %s=%lld", graph->sizes[i].name, (long long)graph->sizes[i].value);
    fprintf(out, " --arch %s", plan->arch);
    if (plan->math != MATH_real)
        fprintf(out, " --math %s", math_name[plan->math]);
    if (plan->each_run)
        fprintf(out, " --weights each-run");
    if (plan->separate)
        fprintf(out, " --separate");
    if (plan->alignment)
        fprintf(out, " --alignment %d", plan->alignment);
    fprintf(out, host  ? " --device host --random 1"
                 : run ? " --random 1"
                       : " --format cubin -o DIR");
    fclose(out);
    return text;
}

quern_status quern_plan_cubin(quern_plan *plan, int i, const void **bytes, size_t *n_bytes,
                              int *hit)
{
    if (!plan || !bytes || !n_bytes || i < 0 || i >= plan->program.n_kernels)
        return report(plan ? plan->q : NULL, QUERN_USAGE, "quern_plan_cubin: there is no kernel %d",
                      i);
    struct code *code;
    pthread_mutex_lock(&plan->lock);
    quern_status status = plan_code(plan, i, &code);
    pthread_mutex_unlock(&plan->lock);
    if (status)
        return status;
    *bytes = code->bytes;
    *n_bytes = code->n_bytes;
    if (hit)
        *hit = code->hit;
    return QUERN_OK;
}
