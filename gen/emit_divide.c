// emit_divide.c: divisions of many values by one, in all lanes at once.
//
// Where a divisor is the same for all lanes, its reciprocal is found once and templates/math.cuh's
// divide_by makes three operations of a division, with the bits of a true one; a check of all the
// quotients stands after them, outside the loop over lanes.  So the loop is cut in two at each such
// division, and what is needed on both sides has an array: of Elements, or u5 for the lanes of v5.
// One product is enough, and no check, for a quotient that is rounded to 16 bits right away
// (divide_narrow), but for `--math strict`.

#include "gen/emit.h"
#include <math.h>
#include <string.h>

static bool is_same_in_lanes(struct emitter *e, const struct value *v)
{
    while (v->kind == VALUE_op && v->n_in == 1)
        v = v->in[0];
    if (v->kind == VALUE_load && !is_row_value(e, v))
        return is_uniform_load(e, v);
    return !(v->variables & 1u << e->lane_variable);
}

// A power of two is multiplied with by any compiler; the others' reciprocal it finds itself.
static bool is_good_constant(const struct value *v)
{
    int exponent;
    double d = v->node->op == OP_constant ? fabs((double)(float)v->node->attr.value) : 0;
    return d >= 0x1p-126 && d <= 0x1p125 && frexp(d, &exponent) != 0.5;
}

// Whether a divisor's reciprocal costs less than it saves.
static bool serves_enough(struct emitter *e, const struct value *divisor)
{
    const struct spec *spec = &e->s->spec;
    if (divisor->kind == VALUE_constant)
        return is_good_constant(divisor);
    if (!is_row_value(e, divisor))
        return e->lanes >= 4;
    return e->nest->family != FAMILY_rows || !spec->resident || spec->vec * spec->items >= 4;
}

bool is_division_of_lanes(struct emitter *e, const struct value *v)
{
    return v->kind == VALUE_op && v->node->op == OP_div &&
           !strcmp(dtype_info[v->dtype].compute, "float") && !is_same_in_lanes(e, v->in[0]) &&
           is_same_in_lanes(e, v->in[1]) && serves_enough(e, v->in[1]);
}

// Whether a quotient is nothing but rounded to a narrower format, in which the error of a product
// with the reciprocal is lost: what the format has exactly comes out exactly, anything else within
// its rounding.
static bool is_rounded_at_once(struct emitter *e, const struct value *v)
{
    const struct nest *nest = e->nest;
    for (int i = 0; i < 2 * nest->n_heavy; i++)
        if (nest->heavy_in[i] == v)
            return false;
    for (int i = 0; i < nest->n_stores; i++)
        if (nest->store_values[i] == v)
            return false;
    for (int i = 0; i < nest->n_values; i++) {
        const struct value *user = nest->values[i];
        bool rounds = user->kind == VALUE_op && user->node->op == OP_cast &&
                      (user->dtype == DT_f16 || user->dtype == DT_bf16);
        for (int j = 0; j < user->n_in; j++)
            if (user->in[j] == v && !rounds)
                return false;
    }
    return v->dtype == DT_f32;
}

// What emit_value would have to compute for v.
static void reach(struct emitter *e, bool *reached, const struct value *v)
{
    if (reached[v->id] || v->kind == VALUE_constant || is_row_value(e, v) || is_kept(e, v) ||
        e->held[v->id] || is_ready(e, v))
        return;
    reached[v->id] = true;
    for (int i = 0; i < v->n_in; i++)
        reach(e, reached, v->in[i]);
}

static bool *reached_from(struct emitter *e, const struct value *const *roots, int n_roots)
{
    bool *reached = arena_new(e->f->g, bool, e->nest->n_values + 1);
    for (int i = 0; i < n_roots; i++)
        reach(e, reached, roots[i]);
    return reached;
}

static void emit_outside_lanes(struct emitter *e, const struct value *v)
{
    const char *indent = e->indent;
    e->indent = "    ";
    emit_value(e, v);
    e->indent = indent;
}

// A Divisor's name or expression; it is made here where no row has it.
static const char *divisor_text(struct emitter *e, const struct value *d, bool *made)
{
    struct gen *g = e->f->g;
    if (d->kind == VALUE_constant)
        return arena_text(g, "divisor(%s)", constant_text(g, d));
    if (is_row_value(e, d))
        return arena_text(g, "row[0].d%d", d->id);
    if (!made[d->id]) {
        emit_outside_lanes(e, d);
        fprintf(e->out, "    const Divisor d%d = divisor(%s);\n", d->id, spelled(e, d));
    }
    made[d->id] = true;
    return arena_text(g, "d%d", d->id);
}

static void hold(struct emitter *e, const struct value *v)
{
    e->held[v->id] = true;
    if (!e->cached[v->id])
        fprintf(e->out, "    %s u%d[%s];\n", dtype_info[v->dtype].compute, v->id, e->lanes_text);
}

// The values of a numerator that the second loop uses too: operators, since a load is no work.
static bool *needed_again(struct emitter *e, const struct value *numerator,
                          const struct value *const *roots, int n_roots)
{
    bool *first = reached_from(e, &numerator, 1), *all = reached_from(e, roots, n_roots);
    bool *again = arena_new(e->f->g, bool, e->nest->n_values + 1);
    for (int i = 0; i < e->nest->n_values; i++)
        for (int j = 0; j < e->nest->values[i]->n_in && all[i] && !first[i]; j++)
            again[e->nest->values[i]->in[j]->id] = true;
    for (int i = 0; i < n_roots; i++)
        again[roots[i]->id] = true;
    for (int i = 0; i < e->nest->n_values; i++)
        again[i] &= first[i] && e->nest->values[i]->kind == VALUE_op && !e->printed[i];
    again[numerator->id] = true;
    return again;
}

// The first loop: the numerator and what is needed again, into arrays.
static void emit_numerator(struct emitter *e, const struct value *numerator,
                           const struct value *const *roots, int n_roots)
{
    int n = e->nest->n_values;
    bool *again = needed_again(e, numerator, roots, n_roots);
    bool *printed = arena_new(e->f->g, bool, n + 1);
    memcpy(printed, e->printed, sizeof *printed * (size_t)n);
    for (int i = 0; i < n; i++)
        if (again[i] && !e->cached[i])
            fprintf(e->out, "    %s u%d[%s];\n", dtype_info[e->nest->values[i]->dtype].compute, i,
                    e->lanes_text);
    emit_lane_loop(e);
    emit_value(e, numerator);
    for (int i = 0; i < n; i++)
        if (again[i] && !e->cached[i])
            fprintf(e->out, "        u%d[j] = %s;\n", i, spelled(e, e->nest->values[i]));
    fputs("    }\n", e->out);
    memcpy(e->printed, printed, sizeof *printed * (size_t)n);
    for (int i = 0; i < n; i++)
        e->held[i] |= again[i];
}

void emit_divisions(struct emitter *e, const struct value *const *roots, int n_roots)
{
    const bool *reached = reached_from(e, roots, n_roots);
    bool *made = arena_new(e->f->g, bool, e->nest->n_values + 1);
    for (int i = 0; i < e->nest->n_values; i++) {
        const struct value *v = e->nest->values[i], *numerator = v->in[0];
        if (!reached[i] || !is_division_of_lanes(e, v))
            continue;
        const char *divisor = divisor_text(e, v->in[1], made);
        if (!is_kept(e, numerator) && !e->held[numerator->id])
            emit_numerator(e, numerator, roots, n_roots);
        hold(e, v);
        const char *function =
            !e->f->strict && is_rounded_at_once(e, v) ? "divide_narrow" : "divide_by";
        fprintf(e->out, "    %s(%s, %s, %s);\n", function, divisor, lanes_name(e, numerator),
                lanes_name(e, v));
    }
}
