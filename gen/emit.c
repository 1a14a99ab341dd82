// emit.c: a launch to the whole source of one kernel.
//
// A comment with the expression, `Spec`, `Args`, the functions that the family's template calls,
// and the template by #include.  Where the launch has several phases each of them stands in a
// namespace, and a kernel behind them works through all.

#include "gen/emit.h"
#include <stdlib.h>

// Narrow integers are summed in int and wrap at the store.
static const char *gemm_accumulator(enum dtype dtype)
{
    return dtype_info[dtype].class != CLASS_float && dtype_info[dtype].bytes < 4
               ? "int"
               : dtype_info[dtype].compute;
}

static const char *template_name(const struct scheduled *s)
{
    if (s->form != FAMILY_gemm)
        return family_name[s->form];
    return s->spec.parts_a ? "gemm_mma" : "gemm_simt";
}

static void add_special(struct emitter *e, int kind, int phase, const char *type, const char *name)
{
    e->args->arg[e->args->n++] = (struct emitted_arg){
        .kind = kind, .phase = phase, .type = type, .name = name, .written = true};
}

// Types, Spec, Args, functions and the template's text of one phase.
static void emit_nest(struct emitter *e, int phase, FILE *out)
{
    struct gen *g = e->f->g;
    const struct scheduled *s = &e->launch->phases[phase];
    const struct nest *nest = s->nest;
    int n = nest->n_values + 1;
    char *functions = NULL;
    size_t size;
    e->nest = nest, e->s = s;
    e->first_arg = e->args->n;
    e->n_constants = 0;
    e->stages = arena_new(g, uint32_t, n);
    e->row_needed = arena_new(g, bool, n);
    e->in_row = arena_new(g, bool, n);
    e->cached = arena_new(g, bool, n);
    e->divides = arena_new(g, bool, n);
    e->printed = arena_new(g, bool, n);
    e->held = arena_new(g, bool, n);
    e->out = open_memstream(&functions, &size);
    emit_functions(e);
    fclose(e->out);
    if (s->partial_bytes)
        add_special(e, ARG_partial, phase, "void", "partial");
    if (s->n_tickets)
        add_special(e, ARG_tickets, phase, "unsigned", "tickets");
    if (s->n_packets)
        add_special(e, ARG_exchange, phase, "uint64", "exchange");

    fprintf(out, "typedef %s index_t;\n", s->wide_index ? "unsigned long long" : "unsigned");
    if (nest->family == FAMILY_gemm)
        fprintf(out, "typedef %s Acc;\n", gemm_accumulator(nest->heavy[0]->dtype));
    fputs("\n", out);
    print_spec(e, out);
    fputs("\n", out);
    print_args(e, out);
    fprintf(out, "\n%s#include \"%s.cuh\"\n", functions, template_name(s));
    free(functions);
}

// Where a block keeps its own copy of a tensor in its shared memory; 0: nowhere.
static int64_t own_at(const struct emitter *e, const struct emitted_arg *a)
{
    return a->node && e->launch->own_at ? e->launch->own_at[a->node->id] : 0;
}

static bool has_warp_copies(const struct emitter *e)
{
    bool any = false;
    for (int i = 0; i < e->f->graph->n_nodes; i++)
        any |= e->launch->own_at[i] && e->launch->of_warp[i];
    return any;
}

// What a phase is called with: its part of args, or a copy in which the tensors that each block has
// for itself lie in shared memory.
static const char *phase_args(struct emitter *e, int phase, const int *first_arg, FILE *out)
{
    bool copied = false;
    for (int i = first_arg[phase]; i < first_arg[phase + 1]; i++) {
        const struct emitted_arg *a = &e->args->arg[i];
        if (!own_at(e, a))
            continue;
        if (!copied)
            fprintf(out, "    phase%d::Args a%d = args.a%d;\n", phase, phase, phase);
        fprintf(out, "    a%d.%s = (%s%s *)(dynamic_shared() + Spec::at_t%d%s);\n", phase, a->name,
                a->written ? "" : "const ", a->type, a->node->id,
                e->launch->of_warp[a->node->id] ? " + threadIdx.x / 32 * Spec::warp_copy" : "");
        copied = true;
    }
    return arena_text(e->f->g, copied ? "a%d" : "args.a%d", phase);
}

// How a block comes to what a replicated phase makes.
static bool is_in_cluster(const struct launch *l, int phase)
{
    return l->cluster && phase < l->n_phases && l->phases[phase].spec.replicated;
}

// Whether a phase waits for all blocks to come to it, not just for what they tell.
static bool has_barrier(const struct launch *l, int phase)
{
    return l->waits[phase] && !l->cluster && !l->phases[phase - 1].spec.told;
}

static bool has_barriers(const struct launch *l)
{
    bool any = false;
    for (int p = 1; p < l->n_phases; p++)
        any |= has_barrier(l, p);
    return any;
}

static bool all_settled(struct emitter *e, int phase, const struct value *v)
{
    struct accesses a = value_accesses(e->f->g, e->launch->phases[phase].nest, v);
    for (int i = 0; i < a.n_loads; i++)
        if (is_fresh(e, a.loads[i]->node))
            return false;
    return true;
}

static const char *with_flag(struct emitter *e, const char *flags, int phase, const char *flag)
{
    return arena_text(e->f->g, "%s%sphase%d::AHEAD_%s", flags, *flags ? " | " : "", phase, flag);
}

// What a contraction loads ahead of the phase before it.
static const char *loaded_ahead(struct emitter *e, int phase)
{
    const struct nest *nest = e->launch->phases[phase].nest;
    const char *flags = with_flag(e, "", phase, "loads");
    bool settled = true;
    for (int i = 0; i < nest->n_stores; i++)
        settled &= all_settled(e, phase, nest->store_values[i]);
    return settled ? with_flag(e, flags, phase, "epilogue") : flags;
}

// What it makes of that before the phase is done: it is ready, and where nothing else is in its
// shared memory then, so are operands that need no more than was loaded.
static const char *staged_ahead(struct emitter *e, int phase)
{
    const struct nest *nest = e->launch->phases[phase].nest;
    const char *flags = with_flag(e, "", phase, "ready");
    bool is_free =
        is_in_cluster(e->launch, phase - 1) || e->launch->phases[phase].spec.shared_at > 0;
    for (int i = 0; i < 2 && is_free; i++)
        if (all_settled(e, phase, nest->heavy_in[i]))
            flags = with_flag(e, flags, phase, i ? "b" : "a");
    return flags;
}

static bool is_gemm(const struct launch *l, int phase)
{
    return phase < l->n_phases && l->phases[phase].form == FAMILY_gemm;
}

// A reduction whose loads may all be under way at once: they are what others wait for, and go
// first.
static bool loads_itself(const struct launch *l, int phase)
{
    return is_in_cluster(l, phase) || (phase < l->n_phases && l->phases[phase].spec.told);
}

static void emit_load_ahead(struct emitter *e, int phase, const char *const *args, FILE *out)
{
    if (is_gemm(e->launch, phase))
        fprintf(out, "    phase%d::Ahead ahead%d;\n    phase%d::load_ahead(%s, ahead%d, %s);\n",
                phase, phase, phase, args[phase], phase, loaded_ahead(e, phase));
    else if (loads_itself(e->launch, phase))
        fprintf(out, "    phase%d::Ahead ahead%d;\n    phase%d::load_ahead(%s, ahead%d);\n", phase,
                phase, phase, args[phase], phase);
}

// Two phases side by side.
static void emit_sides(struct emitter *e, const char *const *args, FILE *out)
{
    const struct launch *l = e->launch;
    fprintf(out,
            "    constexpr unsigned side_blocks = %lld;\n    if (blockIdx.x < side_blocks)\n"
            "        phase%d::run(%s, blockIdx.x);\n    else\n"
            "        phase%d::run(%s, blockIdx.x - side_blocks);\n",
            (long long)l->side_blocks, l->side, args[l->side], 1 - l->side, args[1 - l->side]);
}

// What comes before a phase that is not the first: in grid scope a barrier of the grid, where it
// waits for more of the others than what they tell.  In cluster scope it waits for what the others
// send when it needs that, and here for the block's own warps to be done with shared memory, in
// which a replicated phase leaves nothing.
static void emit_wait(struct emitter *e, int phase, const char *const *args, FILE *out)
{
    const struct launch *l = e->launch;
    if (l->waits[phase] && is_gemm(l, phase))
        fprintf(out, "    phase%d::stage_ahead(%s, ahead%d, %s);\n", phase, args[phase], phase,
                staged_ahead(e, phase));
    if (has_barrier(l, phase))
        fputs("    grid_barrier(args.barrier);\n", out);
    else if (!l->waits[phase] || (l->cluster && !is_in_cluster(l, phase - 1)))
        fputs("    __syncthreads();\n", out);
}

static void emit_finish(struct emitter *e, int phase, const char *const *args, FILE *out)
{
    const struct launch *l = e->launch;
    if (is_in_cluster(l, phase))
        fprintf(out, "    phase%d::finish_in_cluster(%s, inbox%d);\n", phase, args[phase], phase);
    else if (l->phases[phase].spec.told)
        fprintf(out, "    phase%d::finish_told(%s, tag%d);\n", phase, args[phase], phase);
    else if (l->phases[phase].spec.replicated)
        fprintf(out, "    phase%d::finish_in_block(%s);\n", phase, args[phase]);
}

static void emit_run(struct emitter *e, int phase, const char *const *args, FILE *out)
{
    const struct launch *l = e->launch;
    if (is_in_cluster(l, phase))
        fprintf(out, "    phase%d::reduce_in_cluster(%s, ahead%d, inbox%d);\n", phase, args[phase],
                phase, phase);
    else if (is_gemm(l, phase))
        fprintf(out, "    phase%d::run(%s, ahead%d, %s%s%s);\n", phase, args[phase], phase,
                loaded_ahead(e, phase), l->waits[phase] ? " | " : "",
                l->waits[phase] ? staged_ahead(e, phase) : "");
    else if (l->phases[phase].spec.told)
        fprintf(out, "    phase%d::run_told(%s, ahead%d, tag%d);\n", phase, args[phase], phase,
                phase);
    else
        fprintf(out, "    phase%d::run(%s);\n", phase, args[phase]);
}

// Where the blocks of a cluster meet, while their first loads are under way; they have all begun
// when the first of them sends.
static void emit_inboxes(struct emitter *e, FILE *out)
{
    const struct launch *l = e->launch;
    for (int p = 0; p < l->n_phases; p++)
        if (is_in_cluster(l, p))
            fprintf(out,
                    "    Inbox *inbox%d = (Inbox *)(dynamic_shared() + Spec::slots%d);\n"
                    "    phase%d::open_slots(inbox%d);\n",
                    p, p, p, p);
    if (l->cluster > 1)
        fputs("    cluster_enter();\n    cluster_entered();\n", out);
}

// The phases one after the other.  What a phase needs of memory that is settled is on its way while
// the one before it runs.
static void emit_steps(struct emitter *e, const char *const *args, FILE *out)
{
    const struct launch *l = e->launch;
    for (int p = 0; p < l->n_phases; p++)
        if (l->phases[p].spec.told)
            fprintf(out, "    const uint32 tag%d = phase%d::next_tag(%s);\n", p, p, args[p]);
    emit_load_ahead(e, 0, args, out);
    for (int p = 0, since = 0; p < l->n_phases; p++) {
        if (p)
            emit_wait(e, p, args, out);
        for (; l->waits[p] && since < p; since++)
            emit_finish(e, since, args, out);
        if (p && loads_itself(l, p))
            emit_load_ahead(e, p, args, out);
        if (!loads_itself(l, p + 1))
            emit_load_ahead(e, p + 1, args, out);
        if (p == 0)
            emit_inboxes(e, out);
        emit_run(e, p, args, out);
    }
}

static void emit_entry(struct emitter *e, const char *name, const int *first_arg, FILE *out)
{
    const struct launch *l = e->launch;
    const char **args = arena_new(e->f->g, const char *, l->n_phases);
    fprintf(out, "\n#define KERNEL %s\nstruct Spec {\n    static constexpr int threads = %d;\n",
            name, l->threads);
    if (l->cluster > 1)
        fprintf(out, "    static constexpr int cluster = %d;\n", l->cluster);
    if (has_warp_copies(e))
        fprintf(out, "    static constexpr int warp_copy = %d;\n", WARP_COPY);
    for (int i = 0; i < e->f->graph->n_nodes; i++)
        if (l->own_at[i])
            fprintf(out, "    static constexpr int at_t%d = %lld; // in a block's shared memory\n",
                    i, (long long)l->own_at[i]);
    for (int p = 0; p < l->n_phases; p++)
        if (is_in_cluster(l, p))
            fprintf(out, "    static constexpr int slots%d = %lld;\n", p,
                    (long long)l->slots_at[p]);
    fputs("};\n\nstruct Args {\n", out);
    for (int p = 0; p < l->n_phases; p++)
        fprintf(out, "    phase%d::Args a%d;\n", p, p);
    fprintf(out,
            "%s};\n\nextern \"C\" __global__ void __launch_bounds__(Spec::threads, %d)%s\n"
            "    KERNEL(const __grid_constant__ Args args)\n{\n",
            has_barriers(l) ? "    unsigned *barrier;\n" : "",
            l->side_blocks ? l->phases[1 - l->side].spec.blocks_per_sm : 1,
            l->cluster > 1 ? " __cluster_dims__(Spec::cluster, 1, 1)" : "");
    for (int p = 0; p < l->n_phases; p++)
        args[p] = phase_args(e, p, first_arg, out);
    if (l->side_blocks)
        emit_sides(e, args, out);
    else
        emit_steps(e, args, out);
    fputs("}\n#undef KERNEL\n", out);
}

// Several phases: a namespace each, so that every one has its own Spec, Args and functions.
static void emit_nests(struct emitter *e, const char *name, FILE *out)
{
    const struct launch *l = e->launch;
    int *first_arg = arena_new(e->f->g, int, l->n_phases + 1);
    for (int p = 0; p < l->n_phases; p++) {
        first_arg[p] = e->args->n;
        fprintf(out, "\nnamespace phase%d {\n", p);
        emit_nest(e, p, out);
        fputs("}\n", out);
    }
    first_arg[l->n_phases] = e->args->n;
    emit_entry(e, name, first_arg, out);
    if (has_barriers(l))
        add_special(e, ARG_barrier, 0, "unsigned", "barrier");
}

static int most_args(const struct launch *l)
{
    int n = 1;
    for (int p = 0; p < l->n_phases; p++)
        n += l->phases[p].nest->n_values + l->phases[p].nest->n_stores + 2;
    return n;
}

const char *emit(struct fusion *f, const struct launch *launch, const char *name,
                 struct emitted_args *args)
{
    struct gen *g = f->g;
    char *text = NULL;
    size_t size;
    *args = (struct emitted_args){arena_new(g, struct emitted_arg, most_args(launch)), 0};
    struct emitter e = {.f = f, .launch = launch, .args = args};
    FILE *out = open_memstream(&text, &size);
    for (int p = 0; p < launch->n_phases; p++)
        fprintf(out, "// %s\n", expression_text(f, launch->phases[p].nest));
    fputs("#include \"device.cuh\"\n", out);
    if (launch->n_phases > 1) {
        emit_nests(&e, name, out);
    } else {
        fprintf(out, "#define KERNEL %s\n", name);
        emit_nest(&e, 0, out);
        fputs("#undef KERNEL\n", out);
    }
    fclose(out);
    const char *source = arena_text(g, "%s", text);
    free(text);
    return source;
}
