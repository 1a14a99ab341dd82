// report_bench.c: what bench measured to text for people and JSON for programs.

#include "tools/bench.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

// The host device runs the same kernels, at no speed to compare anything with.
static bool on_gpu(const quern_costs *c)
{
    return c->warm.replays > 0;
}

// No run is over before its bytes have moved, nor before an empty kernel would be.
static double least_us(const quern_costs *c)
{
    return c->floor_us > c->empty_replay.median_us ? c->floor_us : c->empty_replay.median_us;
}

// ---- text ----

static void print_timing(FILE *out, const char *what, const quern_timing *t)
{
    fprintf(out, "%-10s %10.2f us  (%.2f to %.2f)", what, t->median_us, t->min_us, t->max_us);
}

// Every run of so many microseconds: what it achieves, and how it compares.
static void print_rates(FILE *out, const quern_costs *c, const quern_timing *t)
{
    fprintf(out, "  %.3g TB/s, %.3g TFLOP/s", c->bytes / t->median_us / 1e6,
            c->flops / t->median_us / 1e6);
    if (c->copy.median_us > 0)
        fprintf(out, "; %.2f x the copy", t->median_us / c->copy.median_us);
    if (least_us(c) > 0)
        fprintf(out, "; %.2f x the floor", t->median_us / least_us(c));
}

static void print_runs(FILE *out, const quern_costs *c)
{
    print_timing(out, "replay", &c->replay);
    print_rates(out, c, &c->replay);
    fputc('\n', out);
    print_timing(out, "warm", &c->warm);
    print_rates(out, c, &c->warm);
    fputc('\n', out);
    print_timing(out, "call", &c->call);
    fprintf(out, "  %.2f us of it until quern_execute returns\n", c->host.median_us);
}

static void print_floors(FILE *out, const quern_costs *c)
{
    if (c->copy.replays) {
        print_timing(out, "copy", &c->copy);
        fprintf(out, "  %.3g TB/s, a device copy that moves as many bytes\n",
                c->bytes / c->copy.median_us / 1e6);
    }
    if (c->empty_replay.replays) {
        print_timing(out, "empty", &c->empty_replay);
        fprintf(out,
                "  a kernel that does nothing; called %.2f us, %.2f until the driver returns\n",
                c->empty_call.median_us, c->empty_host.median_us);
    }
    fprintf(out, "%-10s %10.2f us  at %.3g TB/s and %.3g TFLOP/s in f32, or the empty kernel\n",
            "floor", least_us(c), c->bytes_per_second / 1e12, c->flops_per_second / 1e12);
}

static void print_first_use(FILE *out, const char *what, const quern_first_use *f)
{
    fprintf(out, "%-10s %10.1f ms  front end %.1f, compiled kernels %.1f, load %.1f", what,
            f->front_end_ms + f->nvrtc_ms + f->load_ms, f->front_end_ms, f->nvrtc_ms, f->load_ms);
    fprintf(out, f->open_ms >= 0.05 ? "; opening the device %.1f\n" : "\n", f->open_ms);
}

void bench_report(FILE *out, const struct bench_result *r)
{
    const quern_costs *c = &r->costs;
    fprintf(out,
            "%s on %s (%s), math %s, weights %s: %d kernel%s, %.6g bytes and %.6g flop a run\n",
            r->program, r->device, r->arch, quern_math_name(r->math),
            r->each_run ? "each-run" : "prepared", c->n_launches, c->n_launches == 1 ? "" : "s",
            c->bytes, c->flops);
    if (on_gpu(c)) {
        print_runs(out, c);
        print_floors(out, c);
    } else {
        print_timing(out, "call", &c->call);
        fputs("  on the CPU: no measure of the kernels\n", out);
    }
    if (c->n_sets > 1)
        fprintf(out, "%-10s %10d of %.6g bytes, which replay takes in turns\n", "sets", c->n_sets,
                c->set_bytes);
    if (r->has_cold)
        print_first_use(out, "cold", &r->cold);
    if (r->has_warm)
        print_first_use(out, "cached", &r->warm);
}

// ---- JSON ----

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *timing_json(const quern_timing *t)
{
    if (!t->replays)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "median", number(t->median_us), "min", number(t->min_us),
                     "max", number(t->max_us));
}

static json_t *median_json(const quern_timing *t)
{
    return t->replays ? number(t->median_us) : json_null();
}

static json_t *first_use_json(bool known, const quern_first_use *f)
{
    if (!known)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f}", "open", f->open_ms, "front_end", f->front_end_ms,
                     "nvrtc", f->nvrtc_ms, "load", f->load_ms);
}

static void put(json_t *root, const char *key, json_t *value)
{
    json_object_set_new(root, key, value);
}

static json_t *result_json(const struct bench_result *r)
{
    const quern_costs *c = &r->costs;
    double us = c->replay.median_us;
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:s}", "program", r->program, "device",
                             r->device, "arch", r->arch, "math", quern_math_name(r->math),
                             "weights", r->each_run ? "each-run" : "prepared");
    put(root, "replay_us", timing_json(&c->replay));
    put(root, "warm_us", timing_json(&c->warm));
    put(root, "call_us", timing_json(&c->call));
    put(root, "host_us", timing_json(&c->host));
    put(root, "copy_us", median_json(&c->copy));
    put(root, "copy_range_us", timing_json(&c->copy));
    put(root, "empty_launch_us", median_json(&c->empty_replay));
    put(root, "empty_call_us", median_json(&c->empty_call));
    put(root, "empty_host_us", median_json(&c->empty_host));
    put(root, "bytes", number(c->bytes));
    put(root, "flops", number(c->flops));
    put(root, "floor_us", number(c->floor_us));
    put(root, "tb_per_s", on_gpu(c) ? number(c->bytes / us / 1e6) : json_null());
    put(root, "tflop_per_s", on_gpu(c) ? number(c->flops / us / 1e6) : json_null());
    put(root, "ratio_to_copy", c->copy.replays ? number(us / c->copy.median_us) : json_null());
    put(root, "ratio_to_floor", on_gpu(c) ? number(us / least_us(c)) : json_null());
    put(root, "n_launches", json_integer(c->n_launches));
    put(root, "n_sets", json_integer(c->n_sets));
    put(root, "set_bytes", number(c->set_bytes));
    put(root, "first_use_ms", first_use_json(r->has_cold, &r->cold));
    put(root, "cached_use_ms", first_use_json(r->has_warm, &r->warm));
    return root;
}

enum exit_status bench_json(const struct bench_result *r)
{
    return print_json(result_json(r));
}
