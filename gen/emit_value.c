// emit_value.c: values of a nest as lines of source: one temporary each, in the order they are
// needed.
//
// A row value is the same for a whole row; it lives in Row once the function that computes it is
// done.  An element value varies along the row; it is computed for each lane, and kept in Elements
// only when it is dear and a later stage needs it again.

#include "gen/emit.h"
#include <string.h>

bool is_row_value(const struct emitter *e, const struct value *v)
{
    return (e->nest->family == FAMILY_rows || e->nest->family == FAMILY_columns) &&
           !(v->variables & 1u << VAR_c);
}

bool is_element_load(const struct emitter *e, const struct value *v)
{
    return v->kind == VALUE_load && !is_row_value(e, v);
}

void need_row(struct emitter *e, const struct value *v)
{
    if (v->kind == VALUE_constant)
        return;
    e->in_row[v->id] = true;
    if (e->row_needed[v->id])
        return;
    e->row_needed[v->id] = true;
    for (int i = 0; i < v->n_in; i++) {
        bool was_field = e->in_row[v->in[i]->id];
        need_row(e, v->in[i]);
        if (v->in[i]->phase == v->phase) // a temporary of the same function will do
            e->in_row[v->in[i]->id] = was_field;
    }
}

// As a Divisor alone, unless something else needs the value.
static void need_divisor(struct emitter *e, const struct value *v)
{
    bool was_field = e->in_row[v->id];
    need_row(e, v);
    e->in_row[v->id] = was_field;
    e->divides[v->id] = v->kind != VALUE_constant;
}

void need_in_stage(struct emitter *e, const struct value *v, int stage)
{
    if (is_row_value(e, v)) {
        need_row(e, v);
        return;
    }
    if (e->stages[v->id] & 1u << stage)
        return;
    e->stages[v->id] |= 1u << stage;
    for (int i = 0; i < v->n_in; i++)
        if (i == 1 && is_division_of_lanes(e, v) && is_row_value(e, v->in[1]))
            need_divisor(e, v->in[1]);
        else
            need_in_stage(e, v->in[i], stage);
}

static int first_stage(const struct emitter *e, const struct value *v)
{
    int stage = 0;
    while (!(e->stages[v->id] >> stage & 1))
        stage++;
    return stage;
}

bool is_kept(const struct emitter *e, const struct value *v)
{
    return e->cached[v->id] && first_stage(e, v) < e->stage;
}

const char *lanes_name(struct emitter *e, const struct value *v)
{
    return arena_text(e->f->g, e->cached[v->id] ? "e.v%d" : "u%d", v->id);
}

bool is_ready(const struct emitter *e, const struct value *v)
{
    return e->ready && e->ready[v->id];
}

const char *spelled(struct emitter *e, const struct value *v)
{
    struct gen *g = e->f->g;
    if (v->kind == VALUE_constant)
        return constant_text(g, v);
    if (e->printed[v->id])
        return arena_text(g, "v%d", v->id);
    if (is_ready(e, v))
        return arena_text(g, "e.v%d", v->id);
    if (v->kind == VALUE_result && e->nest->family == FAMILY_gemm && !e->held[v->id])
        return arena_text(g, "(%s)acc[j]", dtype_info[v->dtype].compute);
    if (e->whole_row)
        return arena_text(g, "row.v%d", v->id);
    if (is_row_value(e, v))
        return arena_text(g, "row[%s].v%d", e->lane_variable == VAR_r ? "j" : "0", v->id);
    return arena_text(g, "%s[j]", lanes_name(e, v));
}

static const char *access_text(struct emitter *e, const struct value *v, bool at_lane)
{
    return arena_text(e->f->g, "%s(args.%s + %s)", loader(e, v->node),
                      argument_name(e, v->node, false), offset_text(e, v->index, at_lane));
}

static const char *guarded_access_text(struct emitter *e, const struct value *v, bool at_lane)
{
    const char *access = access_text(e, v, at_lane);
    if (!v->guard)
        return access;
    return arena_text(e->f->g, "%s ? %s : zero<%s>()", guard_text(e, v->guard, at_lane), access,
                      dtype_info[v->dtype].storage);
}

static bool is_vector(struct emitter *e, const struct value *v)
{
    return !v->guard && index_side_by_side(e->f->pool, v->index, e->lane_variable, e->lanes);
}

bool is_uniform_load(struct emitter *e, const struct value *v)
{
    int64_t stride;
    int multiple;
    if (!(v->variables & 1u << e->lane_variable))
        return true;
    return e->lanes > 1 && !v->guard &&
           index_lanes(e->f->pool, v->index, e->lane_variable, e->lanes, &stride, &multiple) &&
           !stride;
}

void emit_load_fields(struct emitter *e, const bool *chosen)
{
    for (int i = 0; i < e->nest->n_values; i++) {
        const struct value *v = e->nest->values[i];
        if (!chosen[i])
            continue;
        const char *type = dtype_info[v->dtype].storage;
        if (is_uniform_load(e, v))
            fprintf(e->out, "    %s x%d;\n", type, i);
        else
            fprintf(e->out, "    Vec<%s, %s> x%d;\n", type, e->lanes_text, i);
    }
}

static void emit_gather(struct emitter *e, const struct value *v)
{
    fprintf(e->out, "#pragma unroll\n    for (int j = 0; j < %s; j++)\n        e.x%d.v[j] = %s;\n",
            e->lanes_text, v->id, guarded_access_text(e, v, true));
}

// Whether a row's block reads what the others read too: what all rows share, if it is little enough
// to stay in L2 beside them.  (Blocks in teams gain nothing, and have no registers for it.)
static bool is_of_all_rows(const struct emitter *e, const struct value *v)
{
    int64_t bytes = node_numel(v->node) * dtype_info[v->dtype].bytes;
    return e->s->form == FAMILY_rows && !(v->variables & 1u << VAR_r) && !is_fresh(e, v->node) &&
           bytes <= e->f->target->l2_bytes / 8;
}

// How a vector is loaded, where that is not as any other.
static const char *loading(const struct emitter *e, const struct value *v)
{
    if (is_of_all_rows(e, v))
        return ", ReadAgain";
    return e->loads_as_told && !is_fresh(e, v->node) ? ", How" : "";
}

void emit_loads(struct emitter *e, const bool *chosen)
{
    for (int i = 0; i < e->nest->n_values; i++) {
        const struct value *v = e->nest->values[i];
        if (!chosen[i])
            continue;
        if (is_uniform_load(e, v))
            fprintf(e->out, "    e.x%d = %s;\n", i, guarded_access_text(e, v, false));
        else if (is_vector(e, v))
            fprintf(e->out, "    e.x%d = %s_vec<%s, %s%s>(args.%s + %s);\n", i, loader(e, v->node),
                    dtype_info[v->dtype].storage, e->lanes_text, loading(e, v),
                    argument_name(e, v->node, false), offset_text(e, v->index, false));
        else
            emit_gather(e, v);
    }
}

// Whether all that a kernel makes is rounded to 16 bits.
static bool makes_narrow(const struct nest *nest)
{
    bool narrow = true;
    for (int i = 0; i < nest->n_stores; i++)
        narrow &= nest->stores[i]->dtype == DT_f16 || nest->stores[i]->dtype == DT_bf16;
    return narrow;
}

enum spread { SPREAD_none, SPREAD_too_far, SPREAD_factor, SPREAD_positive };

// How a relative error of what is spread so far shows in a value that needs some of it: as such an
// error, or more.
static enum spread spread_to(const struct value *v, const enum spread *spread)
{
    enum spread most = SPREAD_none;
    for (int i = 0; i < v->n_in; i++)
        if (spread[v->in[i]->id] > most)
            most = spread[v->in[i]->id];
    enum op op = v->kind == VALUE_op ? v->node->op : OP_COUNT;
    if (!most || (op == OP_cast && dtype_info[v->dtype].class == CLASS_float))
        return most;
    return op == OP_mul || op == OP_div ? SPREAD_factor : SPREAD_too_far;
}

static enum spread spread_by(const struct nest *nest, int heavy, const enum spread *spread)
{
    const struct value *a = nest->heavy_in[2 * heavy], *b = nest->heavy_in[2 * heavy + 1];
    if (!spread[a->id] && !(b && spread[b->id]))
        return SPREAD_none;
    bool adds_up = nest->heavy[heavy]->op == OP_sum && spread[a->id] == SPREAD_positive;
    return adds_up ? SPREAD_positive : SPREAD_too_far;
}

// Whether a relative error of a value makes none larger of the kernel's results: it is spread by
// factors, quotients, rounding and sums of positive values alone, so that nothing cancels or is cut
// off.
static bool stays_relative(struct emitter *e, const struct value *v)
{
    const struct nest *nest = e->nest;
    enum spread *spread = arena_new(e->f->g, enum spread, nest->n_values + 1);
    spread[v->id] = SPREAD_positive;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < nest->n_values; i++) {
            const struct value *to = nest->values[i];
            enum spread found = spread[i] ? spread[i] : spread_to(to, spread);
            for (int h = 0; h < nest->n_heavy && to->kind == VALUE_result && !found; h++)
                if (nest->heavy[h] == to->node)
                    found = spread_by(nest, h, spread);
            if (found == SPREAD_too_far)
                return false;
            more |= found != spread[i];
            spread[i] = found;
        }
    }
    return true;
}

// The table's text, or that of what does as well for the values to be stored.
static const char *cuda_text(struct emitter *e, const struct value *v)
{
    bool narrow =
        v->node->op == OP_exp && !e->f->strict && makes_narrow(e->nest) && stays_relative(e, v);
    return narrow ? "exp_narrow(%0)" : op_info[v->node->op].cuda;
}

// The operator's text of the table with %0 %1 %2 for inputs, %t and %T for its type.
static const char *operator_text(struct emitter *e, const struct value *v)
{
    const char *text = "";
    struct gen *g = e->f->g;
    for (const char *p = cuda_text(e, v); *p; p++) {
        if (*p != '%')
            text = arena_text(g, "%s%c", text, *p);
        else if (*++p == 't')
            text = arena_text(g, "%s%s", text, dtype_info[v->dtype].compute);
        else if (*p == 'T')
            text = arena_text(g, "%s%s", text, dtype_info[v->dtype].name);
        else
            text = arena_text(g, "%s%s", text, spelled(e, v->in[*p - '0']));
    }
    return text;
}

// Integers wrap: the sum is taken unsigned, since C++ leaves signed overflow open.
static const char *wrapping_text(struct emitter *e, const struct value *v)
{
    const struct dtype_info *type = &dtype_info[v->dtype];
    enum op op = v->node->op;
    bool wraps = op == OP_add || op == OP_sub || op == OP_mul;
    if (type->class != CLASS_integer || type->bytes < 4 || !wraps)
        return NULL;
    return arena_text(e->f->g, "(%s)((unsigned %s)%s %s (unsigned %s)%s)", type->compute,
                      type->compute, spelled(e, v->in[0]), op_info[op].symbol, type->compute,
                      spelled(e, v->in[1]));
}

// Lanes of bf16 come two from a word.
static const char *lane_text(struct emitter *e, const struct value *v)
{
    if (is_uniform_load(e, v))
        return "";
    return v->dtype == DT_bf16 ? ", j" : ".v[j]";
}

static const char *definition(struct emitter *e, const struct value *v)
{
    struct gen *g = e->f->g;
    bool at_lane = !e->whole_row;
    switch (v->kind) {
    case VALUE_load:
        if (e->whole_row)
            return arena_text(g, "to_compute(%s)", guarded_access_text(e, v, false));
        return arena_text(g, "to_compute(e.x%d%s)", v->id, lane_text(e, v));
    case VALUE_index:
        return arena_text(g, "(long long)%s", index_text(e, v->index, at_lane));
    case VALUE_select:
        return arena_text(g, "%s ? %s : %s", guard_text(e, v->guard, at_lane), spelled(e, v->in[0]),
                          spelled(e, v->in[1]));
    case VALUE_result:
        for (int i = 0; i < e->nest->n_heavy; i++)
            if (e->nest->heavy[i] == v->node)
                return arena_text(g, "acc.a%d%s", i,
                                  v->node->op == OP_argmax || v->node->op == OP_argmin ? ".index"
                                                                                       : "");
        return "";
    case VALUE_op:
    case VALUE_constant:
        break;
    }
    const char *text = wrapping_text(e, v);
    return text ? text : operator_text(e, v);
}

const struct value *stored_value(struct emitter *e, int store)
{
    const struct value *v = e->nest->store_values[store];
    bool narrow = v->dtype == DT_f16 || v->dtype == DT_bf16;
    bool is_cast = v->kind == VALUE_op && v->node->op == OP_cast && !is_row_value(e, v);
    return narrow && is_cast && v->dtype == e->nest->stores[store]->dtype ? v->in[0] : v;
}

static void emit_temporary(struct emitter *e, const struct value *v)
{
    const char *text = definition(e, v);
    fprintf(e->out, "%sconst %s v%d = %s;\n", e->indent, dtype_info[v->dtype].compute, v->id, text);
    e->printed[v->id] = true;
}

void emit_value(struct emitter *e, const struct value *v)
{
    if (e->printed[v->id] || e->held[v->id] || is_kept(e, v) || v->kind == VALUE_constant ||
        is_ready(e, v) || is_row_value(e, v) ||
        (v->kind == VALUE_result && e->nest->family == FAMILY_gemm))
        return;
    for (int i = 0; i < v->n_in; i++)
        emit_value(e, v->in[i]);
    emit_temporary(e, v);
    if (e->cached[v->id])
        fprintf(e->out, "        e.v%d[j] = v%d;\n", v->id, v->id);
}

void emit_row_fields(struct emitter *e)
{
    for (int i = 0; i < e->nest->n_values; i++) {
        if (e->in_row[i] && e->row_needed[i])
            fprintf(e->out, "    %s v%d;\n", dtype_info[e->nest->values[i]->dtype].compute, i);
        if (e->divides[i])
            fprintf(e->out, "    Divisor d%d;\n", i);
    }
}

void emit_row_values(struct emitter *e, int phase)
{
    for (int i = 0; i < e->nest->n_values; i++) {
        const struct value *v = e->nest->values[i];
        if (!e->row_needed[i] || v->phase != phase || v->kind == VALUE_constant)
            continue;
        emit_temporary(e, v);
        if (e->in_row[i])
            fprintf(e->out, "    row.v%d = v%d;\n", i, i);
        if (e->divides[i])
            fprintf(e->out, "    row.d%d = divisor(v%d);\n", i, i);
    }
}
