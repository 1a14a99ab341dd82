// explain.c: a plan to what people and programs want to know of it: quern_plan_explain and
// quern_plan_json.

#include "runtime/runtime.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *shape_json(const struct buffer *b)
{
    json_t *shape = json_array();
    for (int i = 0; i < b->rank; i++)
        json_array_append_new(shape, json_integer(b->dim[i]));
    return shape;
}

static json_t *three(const unsigned *v)
{
    return json_pack("[i,i,i]", (int)v[0], (int)v[1], (int)v[2]);
}

// "vec=4 threads=256" as an object.
static json_t *spec_json(const char *spec)
{
    json_t *object = json_object();
    while (spec && *spec) {
        size_t n = strcspn(spec, " "), n_name = strcspn(spec, "= ");
        if (n_name && n_name < n) {
            char *name = strndup(spec, n_name), *value = strndup(spec + n_name + 1, n - n_name - 1),
                 *end = value;
            long long number = value ? strtoll(value, &end, 10) : 0;
            if (name && value)
                json_object_set_new(object, name,
                                    *value && !*end ? json_integer(number) : json_string(value));
            free(name);
            free(value);
        }
        spec += n;
        spec += strspn(spec, " ");
    }
    return object;
}

static json_t *kernel_json(const struct kernel *k)
{
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:f, s:f, s:f}", "name", text_or_null(k->name),
                     "part", part_name(k->part), "family", text_or_null(k->family), "expression",
                     text_or_null(k->expression), "spec", spec_json(k->spec), "bytes", k->bytes,
                     "flops", k->flops, "floor_us", k->floor_us);
}

// With its candidates, where the plan lists them.
static json_t *explained_json(const struct kernel *k)
{
    json_t *o = kernel_json(k), *candidates = json_array();
    for (int i = 0; i < k->n_candidates; i++)
        json_array_append_new(candidates, json_pack("{s:s, s:f}", "spec", k->candidates[i].spec,
                                                    "predicted_us", k->candidates[i].predicted_us));
    if (k->n_candidates)
        json_object_set(o, "candidates", candidates);
    json_decref(candidates);
    return o;
}

struct totals {
    double bytes, flops, floor_us;
};

static struct totals totals_of(const struct program *p, enum kernel_part part)
{
    struct totals t = {0};
    for (int i = 0; i < p->n_kernels; i++) {
        if (p->kernels[i].part != part)
            continue;
        t.bytes += p->kernels[i].bytes;
        t.flops += p->kernels[i].flops;
        t.floor_us += p->kernels[i].floor_us;
    }
    return t;
}

static json_t *totals_json(struct totals t)
{
    return json_pack("{s:f, s:f, s:f}", "bytes", t.bytes, "flops", t.flops, "floor_us", t.floor_us);
}

static const char *weights_word(const quern_plan *plan)
{
    return plan->each_run ? "each-run" : "prepared";
}

static char *explain_json(const quern_plan *plan)
{
    const struct program *p = &plan->program;
    json_t *kernels = json_array();
    for (int i = 0; i < p->n_kernels; i++)
        json_array_append_new(kernels, explained_json(&p->kernels[i]));
    json_t *root =
        json_pack("{s:o, s:s, s:s, s:o, s:s, s:b, s:o, s:{s:o, s:o}, s:I, s:I}", "program",
                  text_or_null(p->name), "arch", plan->arch, "math", math_name[plan->math], "rules",
                  rules_json(plan), "weights", weights_word(plan), "wisdom", plan->by_wisdom,
                  "kernels", kernels, "totals", "prepare", totals_json(totals_of(p, PART_prepare)),
                  "run", totals_json(totals_of(p, PART_run)), "prepared_bytes",
                  (json_int_t)p->prepared_bytes, "workspace_bytes", (json_int_t)p->workspace_bytes);
    char *text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return text;
}

void print_amount(FILE *out, double x, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    int i = 0;
    for (; (x >= 10000 || x <= -10000) && i < 4; i++)
        x /= 1000;
    fprintf(out, x == floor(x) ? "%.0f %s%s" : "%.1f %s%s", x, prefixes[i], unit);
}

static void print_totals(FILE *out, struct totals t)
{
    print_amount(out, t.bytes, "B");
    fprintf(out, ", ");
    print_amount(out, t.flops, "flop");
    fprintf(out, ", at least %.2f us", t.floor_us);
}

// prepare's share is what each run is spared, or pays where nothing is kept.
static void print_parts(FILE *out, const quern_plan *plan)
{
    const struct program *p = &plan->program;
    if (p->n_prepare) {
        fprintf(out, "\nprepare, %s: ", plan->each_run ? "in each run" : "once for all runs");
        print_totals(out, totals_of(p, PART_prepare));
        fprintf(out, "; keeps ");
        print_amount(out, (double)p->prepared_bytes, "B");
    }
    fprintf(out, "\n%s: ", p->n_prepare ? "run" : "in all");
    print_totals(out, totals_of(p, PART_run));
    fprintf(out, "; workspace ");
    print_amount(out, (double)p->workspace_bytes, "B");
    fputc('\n', out);
}

static void print_kernel(FILE *out, const struct kernel *k)
{
    fprintf(out, "\n%s  %s%s\n    %s\n", k->name, k->family,
            k->part == PART_prepare ? ", prepare" : "", k->expression);
    fprintf(out, "    grid %u x %u x %u, block %u x %u x %u", k->grid[0], k->grid[1], k->grid[2],
            k->block[0], k->block[1], k->block[2]);
    if (k->shared_bytes)
        fprintf(out, ", %u bytes shared", k->shared_bytes);
    if (k->cluster[0] > 1)
        fprintf(out, ", clusters of %u", k->cluster[0]);
    if (k->team > 1)
        fprintf(out, ", teams of %u", k->team);
    fprintf(out, "%s\n    %s\n    ", k->cooperative ? ", cooperative" : "", k->spec ? k->spec : "");
    print_totals(out, (struct totals){k->bytes, k->flops, k->floor_us});
    fputc('\n', out);
    if (k->n_candidates)
        fprintf(out, "    could be, by what a model predicts:\n");
    for (int i = 0; i < k->n_candidates; i++)
        fprintf(out, "    %9.2f us  %s\n", k->candidates[i].predicted_us, k->candidates[i].spec);
}

static char *explain_text(const quern_plan *plan)
{
    const struct program *p = &plan->program;
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    if (!out)
        return NULL;
    fprintf(out, "%s(", p->name);
    for (int i = 0; i < p->graph->n_sizes; i++)
        fprintf(out, "%s%s = %lld", i ? ", " : "", p->graph->sizes[i].name,
                (long long)p->graph->sizes[i].value);
    fprintf(out, ") for %s (%s): %d kernel%s\n", plan->arch, plan->target.gpu, p->n_kernels,
            p->n_kernels == 1 ? "" : "s");
    if (plan->by_wisdom)
        fputs("specs by wisdom: measured to be the fastest\n", out);
    print_rules(out, plan);
    for (int i = 0; i < p->n_kernels; i++)
        print_kernel(out, &p->kernels[i]);
    print_parts(out, plan);
    fclose(out);
    return text;
}

static const char *const buffer_kinds[] = {
    [BUFFER_input] = "input",         [BUFFER_weight] = "weight",   [BUFFER_output] = "output",
    [BUFFER_workspace] = "workspace", [BUFFER_counter] = "counter", [BUFFER_prepared] = "prepared"};

static json_t *buffer_json(const struct buffer *b)
{
    json_t *o =
        json_pack("{s:s, s:s, s:o, s:I}", "kind", buffer_kinds[b->kind], "dtype",
                  dtype_info[b->dtype].name, "shape", shape_json(b), "bytes", (json_int_t)b->bytes);
    if (b->kind == BUFFER_workspace || b->kind == BUFFER_counter || b->kind == BUFFER_prepared)
        json_object_set_new(o, "offset", json_integer(b->offset));
    if (b->name)
        json_object_set_new(o, "name", json_string(b->name));
    return o;
}

static json_t *argument_json(const quern_plan *plan, const struct argument *a)
{
    static const char *const roles[] = {
        [QUERN_INPUT] = "input", [QUERN_WEIGHT] = "weight", [QUERN_OUTPUT] = "output"};
    return json_pack("{s:o, s:s, s:s, s:o, s:I, s:i, s:i}", "name", text_or_null(a->buffer->name),
                     "role", roles[a->role], "dtype", dtype_info[a->buffer->dtype].name, "shape",
                     shape_json(a->buffer), "bytes", (json_int_t)a->buffer->bytes, "alignment",
                     a->alignment, "buffer", (int)(a->buffer - plan->program.buffers));
}

static json_t *launch_json(const struct kernel *k)
{
    json_t *o = kernel_json(k), *parameters = json_array();
    for (int i = 0; i < k->n_args; i++)
        json_array_append_new(parameters, json_integer(k->args[i]));
    json_object_set_new(o, "grid", three(k->grid));
    json_object_set_new(o, "block", three(k->block));
    json_object_set_new(o, "cluster", three(k->cluster));
    if (k->team > 1)
        json_object_set_new(o, "team", json_integer(k->team));
    json_object_set_new(o, "shared_bytes", json_integer(k->shared_bytes));
    json_object_set_new(o, "cooperative", json_boolean(k->cooperative));
    json_object_set_new(o, "alignment", json_integer(k->alignment));
    json_object_set_new(o, "parameters", parameters);
    return o;
}

static char *plan_json(const quern_plan *plan)
{
    const struct program *p = &plan->program;
    json_t *sizes = json_object(), *arguments = json_array(), *buffers = json_array(),
           *kernels = json_array();
    for (int i = 0; i < p->graph->n_sizes; i++)
        json_object_set_new(sizes, p->graph->sizes[i].name, json_integer(p->graph->sizes[i].value));
    for (int i = 0; i < plan->n_arguments; i++)
        json_array_append_new(arguments, argument_json(plan, &plan->arguments[i]));
    for (int i = 0; i < p->n_buffers; i++)
        json_array_append_new(buffers, buffer_json(&p->buffers[i]));
    for (int i = 0; i < p->n_kernels; i++)
        json_array_append_new(kernels, launch_json(&p->kernels[i]));
    json_t *root = json_pack(
        "{s:o, s:s, s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:o}", "program",
        text_or_null(p->name), "quern", QUERN_VERSION, "arch", plan->arch, "math",
        math_name[plan->math], "rules", rule_names_json(plan), "weights", weights_word(plan),
        "sizes", sizes, "arguments", arguments, "buffers", buffers, "workspace_bytes",
        (json_int_t)p->workspace_bytes, "counter_bytes", (json_int_t)p->counter_bytes,
        "prepared_bytes", (json_int_t)p->prepared_bytes, "kernels", kernels);
    char *text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return text;
}

const char *quern_plan_explain(quern_plan *plan, int json)
{
    if (!plan)
        return NULL;
    char **kept = &plan->explained[json != 0];
    pthread_mutex_lock(&plan->lock);
    if (!*kept)
        *kept = json ? explain_json(plan) : explain_text(plan);
    pthread_mutex_unlock(&plan->lock);
    if (!*kept)
        report(plan->q, QUERN_MEMORY, "out of memory");
    return *kept;
}

const char *quern_plan_json(quern_plan *plan)
{
    if (!plan)
        return NULL;
    pthread_mutex_lock(&plan->lock);
    if (!plan->json)
        plan->json = plan_json(plan);
    pthread_mutex_unlock(&plan->lock);
    if (!plan->json)
        report(plan->q, QUERN_MEMORY, "out of memory");
    return plan->json;
}
