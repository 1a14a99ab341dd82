// wisdom.c: which specs were measured to be the fastest for a plan, found again by later ones.
//
// A record is of one program and GPU.  It also says what it was measured with (driver, NVRTC, the
// sources that the model's specs gave), and is used only where all of that is the same.  Nothing
// that is wrong with it is an error: it is noted, and the model chooses.

#include "runtime/wisdom.h"
#include <stdlib.h>
#include <string.h>

static json_t *graph_hash(const quern_plan *plan)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    if (!out)
        return NULL;
    print_graph(plan->program.graph, out);
    fclose(out);
    json_t *hash = text_hash(text);
    free(text);
    return hash;
}

// Changes with the sources, the templates and what the compiler is told.
static json_t *code_hash(const quern_plan *plan)
{
    char *sources = all_sources(&plan->program);
    if (!sources)
        return NULL;
    struct recipe recipe = {.source = sources,
                            .arch = plan->arch,
                            .compiler = QUERN_VERSION,
                            .options = plan->options.words,
                            .n_options = plan->options.n,
                            .extension = "wisdom"};
    struct cache_key key = recipe_key(&recipe);
    free(sources);
    return json_string(key.hex);
}

// Without NVRTC, what any version has made will do, as for the cache.
static json_t *nvrtc_version(const quern_plan *plan)
{
    if (!plan->device || !plan->device->native)
        return json_string("none");
    const struct nvrtc *n = find_nvrtc(plan->q);
    return n ? json_sprintf("%d.%d", n->major, n->minor) : json_string(ANY);
}

static json_t *sizes_json(const struct graph *graph)
{
    json_t *sizes = json_object();
    for (int i = 0; i < graph->n_sizes; i++)
        json_object_set_new(sizes, graph->sizes[i].name, json_integer(graph->sizes[i].value));
    return sizes;
}

static json_t *identity_of(const quern_plan *plan)
{
    const struct device *d = plan->device;
    json_t *identity = json_pack(
        "{s:i, s:s, s:o, s:o, s:s, s:s, s:i, s:i, s:s, s:s, s:i, s:s, s:o, s:s, s:o}", "format",
        WISDOM_FORMAT, "program", plan->program.name, "sizes", sizes_json(plan->program.graph),
        "graph", graph_hash(plan), "math", math_name[plan->math], "weights",
        plan->each_run ? "each-run" : "prepared", "separate", plan->separate, "alignment",
        plan->alignment ? plan->alignment : 16, "arch", plan->arch, "gpu", d ? d->name : "", "sms",
        d && d->native ? d->target.n_sms : 0, "driver", d && d->driver ? d->driver : "", "nvrtc",
        nvrtc_version(plan), "quern", QUERN_VERSION, "code", code_hash(plan));
    if (identity && plan->max_cluster)
        json_object_set_new(identity, "max_cluster", json_integer(plan->max_cluster));
    if (identity && plan->no_teams)
        json_object_set_new(identity, "teams", json_string("none"));
    return identity;
}

static json_t *own_record(const quern_plan *plan, const json_t *identity)
{
    char file[64];
    const struct cache *c = plan->device ? find_cache(plan->q) : NULL;
    json_t *record = c && record_file(identity, file) ? record_read(plan->q, c, file) : NULL;
    const char *other = record ? record_difference(record, identity, false) : NULL;
    if (!other)
        return record;
    note(plan->q, "wisdom: %s was tuned with another %s, so the model chooses; tune it again",
         plan->program.name, other);
    json_decref(record);
    return NULL;
}

// Of a text that was exported on whatever machine.
static json_t *given_record(const quern_plan *plan, const json_t *identity, const char *text)
{
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *record, *found = NULL;
    size_t i;
    json_array_foreach(json_object_get(root, "wisdom"), i, record)
    {
        if (!found && is_record(record) && !record_difference(record, identity, true))
            found = json_incref(record);
    }
    if (!found)
        note(plan->q, "wisdom: what was given has nothing for %s as it is planned for %s",
             plan->program.name, plan->arch);
    json_decref(root);
    return found;
}

bool wisdom_find(const quern_plan *plan, const char *text, struct wisdom *out)
{
    *out = (struct wisdom){.specs = NULL};
    if (!text && (!plan->device || !find_cache(plan->q)))
        return false;
    json_t *identity = identity_of(plan), *kernel;
    if (identity)
        out->record = text ? given_record(plan, identity, text) : own_record(plan, identity);
    json_decref(identity);
    const json_t *kernels = json_object_get(out->record, "kernels");
    out->specs = calloc(json_array_size(kernels) + 1, sizeof *out->specs);
    size_t i;
    json_array_foreach(kernels, i, kernel)
    {
        if (out->specs)
            out->specs[out->n_specs++] =
                (struct chosen_spec){json_string_value(json_object_get(kernel, "name")),
                                     json_string_value(json_object_get(kernel, "spec"))};
    }
    return out->record && out->specs;
}

void wisdom_free(struct wisdom *w)
{
    json_decref(w->record);
    free(w->specs);
}

bool wisdom_keep(const quern_plan *plan, const struct chosen_spec *specs, int n_specs,
                 double default_us, double tuned_us)
{
    const struct cache *c = find_cache(plan->q);
    json_t *record = c ? identity_of(plan) : NULL, *kernels = json_array();
    for (int i = 0; i < n_specs; i++)
        json_array_append_new(
            kernels, json_pack("{s:s, s:s}", "name", specs[i].kernel, "spec", specs[i].spec));
    json_object_set_new(record, "default_us", json_real(default_us));
    json_object_set_new(record, "tuned_us", json_real(tuned_us));
    json_object_set(record, "kernels", kernels);
    json_decref(kernels);
    bool kept = record && is_record(record) && record_write(c, record);
    json_decref(record);
    return kept;
}
