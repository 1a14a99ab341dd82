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

// The table's way to combine two partial results, with their texts put in.
static const char *combined(struct gen *g, const struct node *node, const char *a, const char *b)
{
    const char *text = "";
    for (const char *p = op_info[node->op].cuda; *p; p++)
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
                combined(e->f->g, nest->heavy[i], acc, reduced_text(e, i)));
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

static void emit_phase(struct emitter *e, int phase)
{
    const struct nest *nest = e->nest;
    struct gen *g = e->f->g;
    fprintf(e->out, "struct alignas(%d) Acc%d {\n", accumulator_alignment(nest, phase), phase);
    for (int i = 0; i < nest->n_heavy; i++)
        if (nest->heavy_phase[i] == phase)
            fprintf(e->out, "    %s a%d;\n", accumulator_type(g, nest->heavy[i]), i);
    fprintf(e->out, "};\n__device__ inline void identity(Acc%d &acc) { acc = {", phase);
    const char *separator = "";
    for (int i = 0; i < nest->n_heavy; i++)
        if (nest->heavy_phase[i] == phase)
            fprintf(e->out, "%s%s", separator, identity_text(g, nest->heavy[i])), separator = ", ";
    fprintf(e->out, "}; }\n__device__ inline void combine(Acc%d &into, const Acc%d &from)\n{\n",
            phase, phase);
    for (int i = 0; i < nest->n_heavy; i++)
        if (nest->heavy_phase[i] == phase)
            fprintf(e->out, "    into.a%d = %s;\n", i,
                    combined(g, nest->heavy[i], arena_text(g, "into.a%d", i),
                             arena_text(g, "from.a%d", i)));
    fputs("}\n\n", e->out);
    emit_accumulate(e, phase);
    fprintf(e->out,
            "__device__ inline void finish(const Args &args, index_t r, Row &row, const Acc%d "
            "&acc)\n{\n",
            phase);
    begin_function(e, phase, true);
    emit_row_values(e, phase + 1);
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
}
