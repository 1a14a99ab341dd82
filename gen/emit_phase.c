// emit_phase.c: a nest's reductions, phase by phase: an accumulator with its identity, how it takes
// an element, how two of them combine, and what becomes of it when the row is done.

#include "gen/emit.h"
#include <string.h>

void begin_function(struct emitter *e, int stage, bool whole_row)
{
    memset(e->printed, 0, sizeof *e->printed * (size_t)e->nest->n_values);
    memset(e->held, 0, sizeof *e->held * (size_t)e->nest->n_values);
    e->stage = stage;
    e->whole_row = whole_row;
    e->indent = whole_row ? "    " : "        ";
}

void emit_lane_loop(struct emitter *e)
{
    fprintf(e->out, "#pragma unroll\n    for (int j = 0; j < %s; j++) {\n", e->lanes_text);
}

static bool is_arg_reduction(const struct node *node)
{
    return node->op == OP_argmax || node->op == OP_argmin;
}

// What a reduction accumulates in: the output's compute type, or a value with its index.
static const char *accumulator_type(struct gen *g, const struct node *node)
{
    if (is_arg_reduction(node))
        return arena_text(g, "Indexed<%s>", dtype_info[node->in[0]->dtype].compute);
    return dtype_info[node->dtype].compute;
}

static const char *identity_text(struct gen *g, const struct node *node)
{
    const char *type = dtype_info[node->in[0]->dtype].compute;
    switch (node->op) {
    case OP_sum:
        return "0";
    case OP_prod:
        return "1";
    case OP_max:
        return arena_text(g, "lowest<%s>()", type);
    case OP_min:
        return arena_text(g, "highest<%s>()", type);
    case OP_argmax:
        return arena_text(g, "{lowest<%s>(), highest<long long>()}", type);
    default:
        return arena_text(g, "{highest<%s>(), highest<long long>()}", type);
    }
}

// The table's text of an operator, or of a reduction's way to combine two partial results, with
// those of its operands put in.
static const char *applied(struct gen *g, enum op op, const char *a, const char *b)
{
    const char *text = "";
    for (const char *p = op_info[op].cuda; *p; p++)
        if (*p == '%')
            text = arena_text(g, "%s%s", text, *++p == '0' ? a : b);
        else
            text = arena_text(g, "%s%c", text, *p);
    return text;
}

static const char *reduced_text(struct emitter *e, int heavy)
{
    const struct node *node = e->nest->heavy[heavy];
    const char *value = spelled(e, e->nest->heavy_in[2 * heavy]);
    struct gen *g = e->f->g;
    if (!is_arg_reduction(node))
        return arena_text(g, "(%s)%s", accumulator_type(g, node), value);
    int axis = 0;
    while (!(node->attr.axes >> axis & 1))
        axis++;
    return arena_text(g, "%s{%s, (long long)%s}", accumulator_type(g, node), value,
                      index_text(e, e->nest->at[axis], true));
}

static bool joins_phases(const struct emitter *e)
{
    return e->s->spec.exchanges < e->s->spec.phases;
}

// What is summed beside a reduction, whose shift that sum is needed to move; NULL: nothing.
static const struct value *shifted_sum(const struct emitter *e, int heavy)
{
    struct join join = {JOIN_none, NULL, NULL};
    if (joins_phases(e) && e->nest->heavy_phase[heavy])
        join = join_of(e->nest, heavy);
    return join.kind == JOIN_square ? join.shifted : NULL;
}

static void emit_accumulate(struct emitter *e, int phase)
{
    const struct nest *nest = e->nest;
    const struct value **operands = arena_new(e->f->g, const struct value *, nest->n_heavy);
    int n_operands = 0;
    for (int i = 0; i < nest->n_heavy; i++)
        if (nest->heavy_phase[i] == phase)
            operands[n_operands++] = nest->heavy_in[2 * i];
    const char *kept = e->lane_variable == VAR_r ? "Spec::vec" : "1";
    fprintf(e->out,
            "__device__ inline void accumulate(const Args &args, index_t r, index_t c, const Row "
            "(&row)[%s],\n"
            "                                  Elements<Spec::vec> &e, Acc%d (&acc)[%s])\n{\n",
            kept, phase, kept);
    begin_function(e, phase, false);
    e->lanes_text = "Spec::vec";
    emit_divisions(e, operands, n_operands);
    emit_lane_loop(e);
    for (int i = 0; i < nest->n_heavy; i++) {
        if (nest->heavy_phase[i] != phase)
            continue;
        emit_value(e, nest->heavy_in[2 * i]);
        const char *acc =
            arena_text(e->f->g, "acc[%s].a%d", e->lane_variable == VAR_r ? "j" : "0", i);
        fprintf(e->out, "        %s = %s;\n", acc,
                applied(e->f->g, nest->heavy[i]->op, acc, reduced_text(e, i)));
        if (shifted_sum(e, i))
            fprintf(e->out, "        acc[0].d%d += %s;\n", i, spelled(e, shifted_sum(e, i)));
    }
    fputs("    }\n}\n\n", e->out);
    e->lanes_text = "lanes";
}

// Of a phase's accumulators: whole words, which shuffles move, and never less than a member's own.
static int accumulator_alignment(const struct nest *nest, int phase)
{
    for (int i = 0; i < nest->n_heavy; i++)
        if (nest->heavy_phase[i] == phase && dtype_info[nest->heavy[i]->dtype].bytes == 8)
            return 8; // f64, i64, and the index of argmax
    return 4;
}

// The largest or the smallest of floats are found by one instruction for a warp.
static void emit_over_warp(struct emitter *e, int phase)
{
    const struct nest *nest = e->nest;
    for (int i = 0; i < nest->n_heavy; i++) {
        enum op op = nest->heavy[i]->op;
        bool is_extreme = op == OP_max || op == OP_min;
        if (nest->heavy_phase[i] == phase &&
            (!is_extreme || strcmp(accumulator_type(e->f->g, nest->heavy[i]), "float") != 0))
            return;
    }
    fprintf(e->out, "__device__ inline bool over_warp(Acc%d &acc)\n{\n", phase);
    for (int i = 0; i < nest->n_heavy; i++)
        if (nest->heavy_phase[i] == phase)
            fprintf(e->out, "    acc.a%d = warp_%s(acc.a%d);\n", i,
                    nest->heavy[i]->op == OP_max ? "maximum" : "minimum", i);
    fputs("    return true;\n}\n\n", e->out);
}

static void emit_phase(struct emitter *e, int phase)
{
    const struct nest *nest = e->nest;
    struct gen *g = e->f->g;
    fprintf(e->out, "struct alignas(%d) Acc%d {\n", accumulator_alignment(nest, phase), phase);
    for (int i = 0; i < nest->n_heavy; i++)
        if (nest->heavy_phase[i] == phase) {
            const char *type = accumulator_type(g, nest->heavy[i]);
            fprintf(e->out, "    %s a%d;\n", type, i);
            if (shifted_sum(e, i))
                fprintf(e->out, "    %s d%d;\n", type, i);
        }
    fprintf(e->out, "};\n__device__ inline void identity(Acc%d &acc) { acc = {", phase);
    const char *separator = "";
    for (int i = 0; i < nest->n_heavy; i++)
        if (nest->heavy_phase[i] == phase)
            fprintf(e->out, "%s%s%s", separator, identity_text(g, nest->heavy[i]),
                    shifted_sum(e, i) ? ", 0" : ""),
                separator = ", ";
    fprintf(e->out, "}; }\n__device__ inline void combine(Acc%d &into, const Acc%d &from)\n{\n",
            phase, phase);
    for (int i = 0; i < nest->n_heavy; i++)
        if (nest->heavy_phase[i] == phase) {
            fprintf(e->out, "    into.a%d = %s;\n", i,
                    applied(g, nest->heavy[i]->op, arena_text(g, "into.a%d", i),
                            arena_text(g, "from.a%d", i)));
            if (shifted_sum(e, i))
                fprintf(e->out, "    into.d%d += from.d%d;\n", i, i);
        }
    fputs("}\n\n", e->out);
    emit_over_warp(e, phase);
    emit_accumulate(e, phase);
    fprintf(e->out,
            "__device__ inline void finish(const Args &args, index_t r, Row &row, const Acc%d "
            "&acc)\n{\n",
            phase);
    begin_function(e, phase, true);
    emit_row_values(e, phase + 1);
    fputs("}\n\n", e->out);
}

// What a part of the row makes of its own results of phase 0, so that the shift they give is near
// that of any of its elements, and finite where these are.
static void emit_own_shift(struct emitter *e)
{
    const struct nest *nest = e->nest;
    struct gen *g = e->f->g;
    fputs("// of n of the columns\n"
          "__device__ inline void as_whole(Acc0 &acc, index_t n)\n{\n",
          e->out);
    for (int i = 0; i < nest->n_heavy; i++) {
        const struct node *node = nest->heavy[i];
        const char *type = accumulator_type(g, node), *a = arena_text(g, "acc.a%d", i);
        if (nest->heavy_phase[i] || dtype_info[node->dtype].class != CLASS_float)
            continue;
        if (node->op == OP_sum)
            fprintf(e->out, "    %s *= (%s)Spec::cols / (%s)n;\n", a, type, type);
        else if (node->op == OP_max)
            fprintf(e->out, "    %s = %s ? %s : 0;\n", a, applied(g, OP_isfinite, a, ""), a);
    }
    fputs("}\n", e->out);
}

// A difference of shifts with the factors that the exponent has.
static const char *scaled_text(struct gen *g, const struct value *v, const struct value *shifted,
                               const char *difference)
{
    if (v == shifted)
        return difference;
    const char *in[2];
    for (int i = 0; i < 2; i++)
        in[i] = v->in[i]->kind == VALUE_constant ? constant_text(g, v->in[i])
                                                 : scaled_text(g, v->in[i], shifted, difference);
    return applied(g, v->node->op, in[0], in[1]);
}

// A sum of exp that is 0 stays so, unless the row's shift makes it a NaN: it is of -Inf alone, and
// its own shift may be anything.
static void emit_move_shift(struct emitter *e)
{
    const struct nest *nest = e->nest;
    struct gen *g = e->f->g;
    fputs("__device__ inline void move_shift(Acc1 &acc, index_t n, const Row &from, const Row &to)"
          "\n{\n",
          e->out);
    for (int i = 0; i < nest->n_heavy; i++) {
        struct join join = join_of(nest, i);
        const char *type = accumulator_type(g, nest->heavy[i]);
        if (!nest->heavy_phase[i])
            continue;
        int v = join.shift->id;
        const char *by = arena_text(g, "(from.v%d - to.v%d)", v, v);
        if (join.kind == JOIN_exp)
            fprintf(e->out, "    if (acc.a%d != 0 || !%s)\n        acc.a%d *= %s;\n", i,
                    applied(g, OP_isfinite, arena_text(g, "to.v%d", v), ""), i,
                    applied(g, OP_exp,
                            scaled_text(g, nest->heavy_in[2 * i]->in[0], join.shifted, by), ""));
        else
            fprintf(e->out, "    acc.a%d += %s * (2 * acc.d%d + (%s)n * %s);\n", i, by, i, type,
                    by);
    }
    fputs("}\n\n", e->out);
}

void emit_phases(struct emitter *e)
{
    for (int phase = 0; phase < e->nest->n_phases; phase++)
        emit_phase(e, phase);
    fputs("template <int p> struct Phase;\n", e->out);
    for (int phase = 0; phase < e->nest->n_phases; phase++)
        fprintf(e->out, "template <> struct Phase<%d> { using Acc = Acc%d; };\n", phase, phase);
    fputs("\n", e->out);
    if (joins_phases(e)) {
        emit_own_shift(e);
        emit_move_shift(e);
    }
}
