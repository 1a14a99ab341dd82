// compile.c: the pipeline.  A syntax tree and sizes come in, kernels as CUDA source go out; every
// step is a line, and every step can show what it made.

#include "gen/integers.h"
#include "gen/kernel.h"
#include <string.h>

// Graphs after each rule take memory as the square of their nodes: of larger ones the last is
// shown.
enum { MAX_SHOWN_STEPS = 500 };

static bool wants_dump(const struct compile_options *o, const char *stage)
{
    size_t n = strlen(stage);
    for (const char *at = o->dump; at; at = strchr(at, ',')) {
        at += *at == ',';
        if ((!strncmp(at, stage, n) && (at[n] == ',' || !at[n])) || !strncmp(at, "all", 3))
            return o->dump_to != NULL;
    }
    return false;
}

static void dump_graph(const struct compile_options *o, const char *stage, const char *part,
                       const struct graph *graph)
{
    graph_check(graph);
    if (!wants_dump(o, stage))
        return;
    fprintf(o->dump_to, "== %s%s\n", stage, part);
    print_graph(graph, o->dump_to);
}

static struct graph *rewrite_shown(struct gen *g, const struct graph *built,
                                   const struct compile_options *o, struct receipt *receipt)
{
    struct rewrite_options how = {.math = o->math,
                                  .each_run = o->each_run,
                                  .keep_graphs = wants_dump(o, "rewrite") &&
                                                 built->n_nodes <= MAX_SHOWN_STEPS};
    struct graph *graph = rewrite(g, built, &how, receipt);
    for (int i = 0; how.keep_graphs && i < receipt->n_lines; i++) {
        const struct receipt_line *line = &receipt->lines[i];
        dump_graph(o, "rewrite", arena_text(g, ": %s", line->rule), line->after);
    }
    return graph;
}

// An output must be a value of its own: one that is an argument, a constant, or an output already,
// is copied.
static void own_outputs(struct gen *g, struct graph *graph)
{
    for (int i = 0; i < graph->n_outputs; i++) {
        struct node *node = graph->outputs[i].node;
        bool taken = op_info[node->op].kind == KIND_leaf;
        for (int j = 0; j < i; j++)
            taken |= graph->outputs[j].node == node;
        if (taken)
            graph->outputs[i].node = graph_copy(g, graph, node);
    }
}

// The buffer that holds a node's value, made when it is first asked for.
struct buffers {
    struct gen *g;
    struct program *program;
    int *of_node; // per node: 1 + buffer
    int capacity;
};

static int add_buffer(struct buffers *b, struct buffer buffer)
{
    struct program *p = b->program;
    if (p->n_buffers == b->capacity) {
        struct buffer *grown = arena_new(b->g, struct buffer, b->capacity = 2 * b->capacity + 16);
        if (p->n_buffers)
            memcpy(grown, p->buffers, sizeof *grown * (size_t)p->n_buffers);
        p->buffers = grown;
    }
    p->buffers[p->n_buffers] = buffer;
    return p->n_buffers++;
}

static struct buffer buffer_of(const struct node *node, enum buffer_kind kind, const char *name,
                               int argument)
{
    struct buffer b = {
        .kind = kind, .name = name, .dtype = node->dtype, .rank = node->rank, .argument = argument};
    memcpy(b.dim, node->dim, sizeof b.dim);
    b.bytes = node_numel(node) * dtype_info[node->dtype].bytes;
    return b;
}

// Every allocation starts at a multiple of 256 bytes.
static int64_t whole_lines(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static int node_buffer(struct buffers *b, const struct node *node)
{
    if (!b->of_node[node->id])
        b->of_node[node->id] = 1 + add_buffer(b, buffer_of(node, BUFFER_workspace, NULL, 0));
    return b->of_node[node->id] - 1;
}

static void add_arguments(struct buffers *b, const struct graph *graph)
{
    struct program *p = b->program;
    p->arguments = arena_new(b->g, int, graph->n_arguments);
    p->outputs = arena_new(b->g, int, graph->n_outputs);
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct node *node = graph->arguments[i];
        enum buffer_kind kind = node->op == OP_weight ? BUFFER_weight : BUFFER_input;
        p->arguments[p->n_arguments++] = add_buffer(b, buffer_of(node, kind, node->name, i));
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct output *output = &graph->outputs[i];
        p->outputs[p->n_outputs++] =
            add_buffer(b, buffer_of(output->node, BUFFER_output, output->name, i));
    }
}

// The buffers of what prepare gives to run, one after the other in memory where they are kept.
static int *add_prepared(struct buffers *b, const struct parts *parts, bool each_run)
{
    int *prepared = arena_new(b->g, int, parts->n_kept + 1);
    for (int i = 0; i < parts->n_kept; i++) {
        const struct output *output = &parts->prepare->outputs[i];
        struct buffer buffer = buffer_of(output->node, BUFFER_workspace, output->name, 0);
        if (!each_run) {
            buffer.kind = BUFFER_prepared;
            buffer.offset = b->program->prepared_bytes;
            b->program->prepared_bytes += whole_lines(buffer.bytes);
        }
        prepared[i] = add_buffer(b, buffer);
    }
    return prepared;
}

// Says where the arguments and outputs of a part lie; what else it computes is workspace.
static void enter_part(struct buffers *b, const struct graph *graph, const int *from,
                       const int *outputs, const int *prepared)
{
    const struct program *p = b->program;
    b->of_node = arena_new(b->g, int, graph->n_nodes);
    for (int i = 0; i < graph->n_arguments; i++)
        b->of_node[graph->arguments[i]->id] =
            1 +
            (from[i] < p->n_arguments ? p->arguments[from[i]] : prepared[from[i] - p->n_arguments]);
    for (int i = 0; i < graph->n_outputs; i++)
        b->of_node[graph->outputs[i].node->id] = 1 + outputs[i];
}

// Zero before the first run; what a run leaves there the next one finds.
static int add_counter(struct buffers *b, enum dtype dtype, int n)
{
    int64_t size = dtype_info[dtype].bytes, end = b->program->counter_bytes;
    struct buffer counter = {.kind = BUFFER_counter,
                             .dtype = dtype,
                             .bytes = size * n,
                             .offset = (end + size - 1) / size * size};
    b->program->counter_bytes = counter.offset + counter.bytes;
    return add_buffer(b, counter);
}

static int argument_buffer(struct buffers *b, const struct launch *l, const struct emitted_arg *a)
{
    const struct scheduled *s = &l->phases[a->phase];
    struct buffer partial = {.kind = BUFFER_workspace, .dtype = DT_u8, .bytes = s->partial_bytes};
    switch (a->kind) {
    case ARG_partial:
        return add_buffer(b, partial);
    case ARG_tickets:
        return add_counter(b, DT_i32, s->n_tickets);
    case ARG_exchange:
        return add_counter(b, DT_i64, s->n_packets);
    case ARG_barrier:
        return add_counter(b, DT_i32, 1);
    case ARG_tensor:
        break;
    }
    return node_buffer(b, a->node);
}

static void bind_arguments(struct buffers *b, struct kernel *k, const struct launch *l,
                           const struct emitted_args *args)
{
    k->args = arena_new(b->g, int, args->n + 1);
    for (int i = 0; i < args->n; i++)
        k->args[k->n_args++] = argument_buffer(b, l, &args->arg[i]);
}

// What people read of all phases, and what they cost together.
static void describe_launch(struct gen *g, const struct fusion *f, struct kernel *k,
                            const struct launch *l)
{
    for (int i = 0; i < l->n_phases; i++) {
        const struct scheduled *s = &l->phases[i];
        const char *expression = expression_text(f, s->nest);
        k->expression = i ? arena_text(g, "%s; %s", k->expression, expression) : expression;
        k->alignment = s->alignment > k->alignment ? s->alignment : k->alignment;
        k->bytes += s->bytes, k->flops += s->flops, k->floor_us += s->floor_us;
    }
}

// The kernel that begins with that nest; returns how many nests are in it.
static int add_kernel(struct buffers *b, struct fusion *f, int first, enum kernel_part part,
                      const struct compile_options *o)
{
    struct program *p = b->program;
    struct kernel *k = &p->kernels[p->n_kernels++];
    struct emitted_args args;
    struct launch l;
    k->part = part;
    choose_launch(f, first, o, k, &l);
    k->source = emit(f, &l, k->name, &args);
    describe_launch(b->g, f, k, &l);
    bind_arguments(b, k, &l, &args);
    k->grid[0] = (unsigned)l.blocks, k->grid[1] = k->grid[2] = 1;
    k->block[0] = (unsigned)l.threads, k->block[1] = k->block[2] = 1;
    k->cluster[0] = (unsigned)max_of(l.cluster, 1), k->cluster[1] = k->cluster[2] = 1;
    k->shared_bytes = l.shared_bytes;
    k->cooperative = l.cooperative;
    k->team = (unsigned)l.phases->spec.team;
    k->walks = l.phases->spec.staged && l.phases->spec.cluster > 1;
    if (wants_dump(o, "schedule"))
        fprintf(o->dump_to, "== schedule %s\n%s\n", k->name, k->spec);
    if (wants_dump(o, "source"))
        fprintf(o->dump_to, "== source %s\n%s", k->name, k->source);
    return l.n_phases;
}

// Workspace by lifetime: a buffer takes the first gap that is free from its first kernel to its
// last.
static void place_workspace(struct gen *g, struct program *p)
{
    int *first = arena_new(g, int, p->n_buffers), *last = arena_new(g, int, p->n_buffers);
    for (int k = p->n_kernels - 1; k >= 0; k--)
        for (int i = 0; i < p->kernels[k].n_args; i++) {
            int b = p->kernels[k].args[i];
            first[b] = k;
            last[b] = last[b] ? last[b] : k + 1;
        }
    for (int b = 0; b < p->n_buffers; b++) {
        struct buffer *buffer = &p->buffers[b];
        if (buffer->kind != BUFFER_workspace || !last[b])
            continue;
        int64_t bytes = whole_lines(buffer->bytes), offset = 0;
        for (int other = 0; other < b; other++) {
            const struct buffer *o = &p->buffers[other];
            bool together = o->kind == BUFFER_workspace && last[other] && first[other] < last[b] &&
                            first[b] < last[other];
            if (together && offset < o->offset + o->bytes && o->offset < offset + bytes) {
                offset = whole_lines(o->offset + o->bytes);
                other = -1; // that gap may overlap one that was passed
            }
        }
        buffer->offset = offset;
        if (offset + bytes > p->workspace_bytes)
            p->workspace_bytes = offset + bytes;
    }
}

static struct fusion *fuse_part(struct gen *g, struct graph *part, const char *name,
                                const struct compile_options *o)
{
    own_outputs(g, part);
    dump_graph(o, "split", name, part);
    struct fusion *f = fuse(g, part, o->target);
    if (!f)
        return NULL;
    f->strict = o->math == MATH_strict;
    if (wants_dump(o, "fuse")) {
        fprintf(o->dump_to, "== fuse%s\n", name);
        print_fusion(f, o->dump_to);
    }
    return f;
}

static void add_kernels(struct buffers *b, struct fusion *f, enum kernel_part part,
                        const struct compile_options *o)
{
    for (int i = 0; i < f->n_nests;)
        i += add_kernel(b, f, i, part, o);
}

static void add_parts(struct buffers *b, const struct parts *parts, struct fusion *prepare,
                      struct fusion *run, const struct compile_options *o)
{
    struct program *p = b->program;
    const int *prepared = add_prepared(b, parts, o->each_run);
    p->kernels = arena_new(b->g, struct kernel, run->n_nests + (prepare ? prepare->n_nests : 0));
    if (prepare) {
        enter_part(b, parts->prepare, parts->prepare_from, prepared, prepared);
        add_kernels(b, prepare, PART_prepare, o);
    }
    p->n_prepare = p->n_kernels;
    enter_part(b, parts->run, parts->run_from, p->outputs, prepared);
    add_kernels(b, run, PART_run, o);
}

bool compile_graph(struct gen *g, struct graph *built, const struct compile_options *o,
                   struct program *out)
{
    dump_graph(o, "graph", "", built);

    struct receipt receipt = {.steps = 0};
    struct graph *graph = rewrite_shown(g, built, o, &receipt);
    own_outputs(g, graph);
    dump_graph(o, "rewrite", "", graph);

    struct parts parts = split(g, graph, o->target);
    struct fusion *prepare = NULL, *run = NULL;
    if (parts.prepare && !(prepare = fuse_part(g, parts.prepare, " prepare", o)))
        return false;
    if (!(run = fuse_part(g, parts.run, "", o)))
        return false;

    *out = (struct program){
        .name = graph->name, .target = o->target, .graph = built, .receipt = receipt};
    struct buffers buffers = {.g = g, .program = out};
    add_arguments(&buffers, graph);
    add_parts(&buffers, &parts, prepare, run, o);
    place_workspace(g, out);
    note_unused_specs(g, o, out);
    return true;
}

bool compile(struct gen *g, const struct program_ast *ast, const struct compile_options *o,
             struct program *out)
{
    struct graph *graph = build(g, ast, o->sizes, o->n_sizes);
    return graph && compile_graph(g, graph, o, out);
}
