// report.c: the outputs of a run to text for people and JSON for programs.

#include "tools/tools.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static void print_dims(FILE *out, int rank, const int64_t *dim)
{
    fputc('[', out);
    for (int i = 0; i < rank; i++)
        fprintf(out, "%s%" PRId64, i ? "," : "", dim[i]);
    fputc(']', out);
}

char *shape_string(quern_dtype dtype, int rank, const int64_t *dim)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    if (!out)
        return NULL;
    fputs(quern_dtype_name(dtype), out);
    print_dims(out, rank, dim);
    fclose(out);
    return text;
}

static void print_head(FILE *out, const quern_argument *a)
{
    fprintf(out, "%s: %s", a->name, quern_dtype_name(a->dtype));
    print_dims(out, a->rank, a->dim);
}

// Element i of a, as a multi-index.
static void print_place(FILE *out, const quern_argument *a, int64_t i)
{
    int64_t index[sizeof a->dim / sizeof *a->dim];
    for (int axis = a->rank - 1; axis >= 0; axis--) {
        index[axis] = a->dim[axis] ? i % a->dim[axis] : 0;
        i = a->dim[axis] ? i / a->dim[axis] : 0;
    }
    print_dims(out, a->rank, index);
}

static double unsigned_nan(double x)
{
    return isnan(x) ? (double)NAN : x;
}

void report_check(FILE *out, const quern_argument *a, const char *against,
                  const quern_check_result *r)
{
    print_head(out, a);
    fprintf(out, "  %s against %s\n", r->ok ? "ok" : "WRONG", against);
    if (a->bytes == 0)
        return;
    fprintf(out, "    largest error %.3g absolute, %.3g relative\n    worst at ", r->max_abs_error,
            r->max_rel_error);
    print_place(out, a, r->worst);
    fprintf(out, ": got %.9g, expected %.9g, tolerance %.3g + %.3g * |expected|\n",
            unsigned_nan(r->got), unsigned_nan(r->expected), r->absolute, r->relative);
}

void report_summary(FILE *out, const struct tensor *t)
{
    const quern_argument *a = &t->argument;
    int64_t n = a->bytes / quern_dtype_bytes(a->dtype), n_nan = 0;
    double min = INFINITY, max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = quern_element(a->dtype, t->host, i);
        n_nan += isnan(x);
        min = x < min ? x : min;
        max = x > max ? x : max;
        sum += isnan(x) ? 0 : x;
    }
    print_head(out, a);
    if (n - n_nan > 0)
        fprintf(out, "  min %.6g  max %.6g  mean %.6g", min, max, sum / (double)(n - n_nan));
    if (n_nan)
        fprintf(out, "  NaN: %" PRId64, n_nan);
    fputc('\n', out);
}

void report_time(FILE *out, const struct tensors *t, const quern_timing *timing)
{
    double bytes = 0;
    for (int i = 0; i < t->n; i++)
        bytes += (double)t->tensor[i].argument.bytes;
    fprintf(out, "%.2f us median, %.2f min, %.2f max of %d runs", timing->median_us, timing->min_us,
            timing->max_us, timing->replays);
    if (timing->median_us > 0)
        fprintf(out, "; %.1f GB/s over its %.0f bytes of arguments",
                bytes / timing->median_us / 1e3, bytes);
    fputc('\n', out);
}

// JSON has no infinities and no NaN: null.
static json_t *number(bool known, double x)
{
    return known && isfinite(x) ? json_real(x) : json_null();
}

static json_t *output_json(const quern_argument *a, const struct outcome *o)
{
    json_t *shape = json_array();
    for (int i = 0; i < a->rank; i++)
        json_array_append_new(shape, json_integer(a->dim[i]));
    const quern_check_result *r = &o->result;
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:b}", "name", a->name, "dtype",
                     quern_dtype_name(a->dtype), "shape", shape, "max_abs_error",
                     number(o->checked, r->max_abs_error), "max_rel_error",
                     number(o->checked, r->max_rel_error), "tolerance",
                     number(o->checked, r->absolute + r->relative * fabs(r->expected)), "ok",
                     !o->checked || r->ok);
}

enum exit_status print_json(json_t *root)
{
    char *text = root ? json_dumps(root, JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (!text)
        return complain(STATUS_missing, "out of memory");
    puts(text);
    free(text);
    return STATUS_done;
}

enum exit_status report_json(const struct session *s, const char *arch, const struct tensors *t,
                             const struct outcome *outcomes, const quern_timing *timing)
{
    bool ok = true;
    json_t *outputs = json_array();
    for (int i = t->n_in; i < t->n; i++) {
        const struct outcome *o = &outcomes[i - t->n_in];
        ok = ok && (!o->checked || o->result.ok);
        json_array_append_new(outputs, output_json(&t->tensor[i].argument, o));
    }
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:b, s:o}", "program", quern_program_name(s->program), "device",
                  quern_device_name(s->q), "arch", arch, "ok", ok, "outputs", outputs);
    if (root && timing)
        json_object_set_new(root, "replay_us",
                            json_pack("{s:f, s:f, s:f}", "median", timing->median_us, "min",
                                      timing->min_us, "max", timing->max_us));
    return print_json(root);
}
