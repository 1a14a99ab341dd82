// split.c: graph to two graphs: what depends on weights alone (prepare), and the rest (run).
//
// A value is weight-only when no input is below it, and some weight is.  Where run needs one that
// is worth keeping, the graph is cut there: prepare computes it, once for all its users, and run
// has it as a further argument.  Worth keeping is
//
//     a reduction or contraction: always;
//     an elementwise value: where it reads an eighth more bytes than it writes (two weights become
//         one); where what it is made of would be kept for it, and is as large; where run would
//         compute it more than once an element, for each row it is broadcast to, and it writes no
//         more than it reads; or for each tile of a contraction, and that arithmetic takes longer
//         than two trips through memory;
//     a movement: never.  A load does it for nothing, so what is kept is what lies below it.
//
// Where a value is not kept, the same is asked of its operands.

#include "gen/graph.h"
#include <string.h>

enum { TILE = 128 }; // of a contraction: about the most that share an operand's value

enum { BELOW_weight = 1, BELOW_input = 2 };

struct splitter {
    struct gen *g;
    const struct graph *graph;
    const struct target *target;
    int *below;       // per node: bits
    bool *in_run;     // per node: run needs its value, computed or as an argument
    bool *kept;       // per node: prepare gives it to run
    bool *in_prepare; // per node
    double *computed; // per node: how many elements run computes of it, again and again counted
    bool *in_tiles;   // per node: as a contraction's operand
    double *reached;  // scratch of cost_of: elements of each node that are needed
};

static bool is_argument(const struct node *n)
{
    return n->op == OP_input || n->op == OP_weight;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static void find_weight_only(struct splitter *s)
{
    for (int i = 0; i < s->graph->n_nodes; i++) {
        const struct node *n = s->graph->nodes[i];
        s->below[i] = n->op == OP_weight ? BELOW_weight : n->op == OP_input ? BELOW_input : 0;
        for (int j = 0; j < n->n_in; j++)
            s->below[i] |= s->below[n->in[j]->id];
    }
}

struct cost {
    double bytes_read, bytes_reduced; // bytes_reduced: of them, those of reductions, contractions
    double operations;                // for one element
};

// Of an elementwise value and everything down to weights and to what is kept for certain.
static struct cost cost_of(struct splitter *s, const struct node *value)
{
    struct cost cost = {0};
    double *reached = s->reached;
    int pending = 1;
    reached[value->id] = (double)node_numel(value);
    for (int i = value->id; pending; i--) {
        const struct node *n = s->graph->nodes[i];
        double elements = smaller(reached[i], (double)node_numel(n));
        enum op_kind kind = op_info[n->op].kind;
        if (!reached[i])
            continue;
        pending--;
        reached[i] = 0;
        bool reduced = kind == KIND_reduction || kind == KIND_contraction;
        if (reduced || n->op == OP_weight) {
            double bytes = elements * dtype_info[n->dtype].bytes;
            cost.bytes_read += bytes;
            cost.bytes_reduced += reduced ? bytes : 0;
            continue;
        }
        if (kind == KIND_elementwise)
            cost.operations += op_info[n->op].cost;
        for (int j = 0; j < n->n_in; j++) {
            double *in = &reached[n->in[j]->id];
            pending += !*in && elements > 0;
            *in = *in > elements ? *in : elements;
        }
    }
    return cost;
}

static bool is_worth_keeping(struct splitter *s, const struct node *n)
{
    double elements = (double)node_numel(n);
    if (s->below[n->id] != BELOW_weight || !elements || !s->computed[n->id])
        return false;
    switch (op_info[n->op].kind) {
    case KIND_reduction:
    case KIND_contraction:
        return true;
    case KIND_leaf:
    case KIND_movement:
        return false;
    case KIND_elementwise:
        break;
    }
    struct cost cost = cost_of(s, n);
    double written = elements * dtype_info[n->dtype].bytes;
    if (cost.bytes_read >= 1.125 * written || cost.bytes_reduced >= written)
        return true;
    double again = cost.operations * (s->computed[n->id] - elements) / s->target->f32_flops;
    if (written <= cost.bytes_read)
        return again > 0;
    return s->in_tiles[n->id] && again > 2 * written / s->target->bytes_per_second;
}

// How many elements of operand `which` a contraction computes where the operand is fused into it.
static double computed_in_tiles(const struct node *n, int which)
{
    const struct node *a = n->in[0], *b = n->in[1];
    int64_t columns = n->dim[n->rank - 1], depth = a->dim[a->rank - 1];
    int64_t rows = node_numel(n) / columns;
    if (which == 0)
        return (double)((columns + TILE - 1) / TILE) * (double)rows * (double)depth;
    int64_t batches = depth ? node_numel(b) / (depth * columns) : 1;
    return (double)((rows / batches + TILE - 1) / TILE) * (double)node_numel(b);
}

static double computed_for(const struct splitter *s, const struct node *user, int which)
{
    const struct node *in = user->in[which];
    enum op_kind kind = op_info[user->op].kind;
    if (!node_numel(user) || !node_numel(in))
        return 0;
    if (kind == KIND_contraction)
        return computed_in_tiles(user, which);
    if (kind == KIND_reduction)
        return (double)node_numel(in);
    double computed = s->computed[user->id];
    bool reads_a_part = user->op == OP_concat || user->op == OP_pad;
    return reads_a_part ? computed * (double)node_numel(in) / (double)node_numel(user) : computed;
}

static bool is_in_tiles(const struct splitter *s, const struct node *user)
{
    enum op_kind kind = op_info[user->op].kind;
    return kind == KIND_contraction || (kind != KIND_reduction && s->in_tiles[user->id]);
}

// From the outputs up: users come after what they use, so that all of a node's users are known.
static int choose(struct splitter *s)
{
    int n_kept = 0;
    for (int i = 0; i < s->graph->n_outputs; i++) {
        const struct node *n = s->graph->outputs[i].node;
        s->in_run[n->id] = true;
        s->computed[n->id] = (double)node_numel(n);
    }
    for (int i = s->graph->n_nodes - 1; i >= 0; i--) {
        const struct node *n = s->graph->nodes[i];
        if (s->in_run[i] && is_worth_keeping(s, n)) {
            s->kept[i] = true;
            n_kept++;
        }
        s->in_prepare[i] |= s->kept[i];
        for (int j = 0; j < n->n_in; j++) {
            int in = n->in[j]->id;
            s->in_prepare[in] |= s->in_prepare[i];
            if (!s->in_run[i] || s->kept[i])
                continue;
            double computed = computed_for(s, n, j);
            s->in_run[in] = true;
            s->in_tiles[in] |= is_in_tiles(s, n);
            s->computed[in] = s->computed[in] > computed ? s->computed[in] : computed;
        }
    }
    return n_kept;
}

static struct graph *part_new(struct splitter *s)
{
    struct graph *part = graph_new(s->g, s->graph->name);
    part->sizes = s->graph->sizes;
    part->n_sizes = s->graph->n_sizes;
    return part;
}

static struct node *add_argument(struct splitter *s, struct graph *part, const struct node *n,
                                 const char *name)
{
    enum op op = is_argument(n) ? n->op : OP_weight;
    struct node *argument = graph_argument(s->g, part, op, name, n->dtype, n->rank, n->dim);
    argument->at = n->at;
    return argument;
}

static bool is_taken(const struct graph *part, const char *name)
{
    for (int i = 0; i < part->n_arguments; i++)
        if (!strcmp(part->arguments[i]->name, name))
            return true;
    return false;
}

// The program's own name for the value or a view of it, where it has one that is free in run.
static const char *kept_name(struct splitter *s, const struct graph *run, const struct node *n)
{
    const char *name = n->name;
    for (int i = n->id + 1; i < s->graph->n_nodes && !name; i++) {
        const struct node *user = s->graph->nodes[i];
        if (user->op == OP_reshape && user->in[0] == n)
            name = user->name;
    }
    for (int i = 0; !name || is_taken(run, name); i++)
        name = arena_text(s->g, "prepared%d", i);
    return name;
}

static void copy_node(struct splitter *s, struct graph *part, struct node **place,
                      const struct node *n)
{
    struct node *copy = node_new(s->g, n->op, n->dtype, n->n_in, n->in);
    for (int i = 0; i < n->n_in; i++)
        copy->in[i] = place[n->in[i]->id];
    node_set_shape(copy, n->rank, n->dim);
    copy->attr = n->attr;
    copy->name = n->name;
    copy->at = n->at;
    place[n->id] = node_add(s->g, part, copy);
}

// Adds the declared arguments that a part has; `from` says which those are.
static void add_declared(struct splitter *s, struct graph *part, struct node **place, int *from,
                         const bool *needed, bool inputs)
{
    for (int i = 0; i < s->graph->n_arguments; i++) {
        const struct node *n = s->graph->arguments[i];
        if (!needed[n->id] && !(inputs && n->op == OP_input))
            continue;
        from[part->n_arguments] = i;
        place[n->id] = add_argument(s, part, n, n->name);
    }
}

static void fill_prepare(struct splitter *s, struct parts *parts)
{
    struct node **place = arena_new(s->g, struct node *, s->graph->n_nodes);
    parts->prepare = part_new(s);
    add_declared(s, parts->prepare, place, parts->prepare_from, s->in_prepare, false);
    for (int i = 0; i < s->graph->n_nodes; i++)
        if (s->in_prepare[i] && !place[i])
            copy_node(s, parts->prepare, place, s->graph->nodes[i]);
    for (int i = 0, next = parts->run->n_arguments - parts->n_kept; i < s->graph->n_nodes; i++)
        if (s->kept[i])
            graph_output(s->g, parts->prepare, parts->run->arguments[next++]->name, place[i]);
}

static void fill_run(struct splitter *s, struct parts *parts)
{
    struct node **place = arena_new(s->g, struct node *, s->graph->n_nodes);
    struct graph *run = parts->run = part_new(s);
    add_declared(s, run, place, parts->run_from, s->in_run, true);
    for (int i = 0, n = 0; i < s->graph->n_nodes; i++)
        if (s->kept[i]) {
            const struct node *kept = s->graph->nodes[i];
            parts->run_from[run->n_arguments] = s->graph->n_arguments + n++;
            place[i] = add_argument(s, run, kept, kept_name(s, run, kept));
        }
    for (int i = 0; i < s->graph->n_nodes; i++)
        if (s->in_run[i] && !place[i])
            copy_node(s, run, place, s->graph->nodes[i]);
    for (int i = 0; i < s->graph->n_outputs; i++) {
        const struct output *output = &s->graph->outputs[i];
        s->g->at = output->at;
        graph_output(s->g, run, output->name, place[output->node->id]);
    }
}

struct parts split(struct gen *g, const struct graph *graph, const struct target *target)
{
    int n = graph->n_nodes;
    struct splitter s = {.g = g,
                         .graph = graph,
                         .target = target,
                         .below = arena_new(g, int, n),
                         .in_run = arena_new(g, bool, n),
                         .kept = arena_new(g, bool, n),
                         .in_prepare = arena_new(g, bool, n),
                         .computed = arena_new(g, double, n),
                         .in_tiles = arena_new(g, bool, n),
                         .reached = arena_new(g, double, n)};
    find_weight_only(&s);
    struct parts parts = {.n_kept = choose(&s)};
    parts.prepare_from = arena_new(g, int, graph->n_arguments + 1);
    parts.run_from = arena_new(g, int, graph->n_arguments + parts.n_kept + 1);
    fill_run(&s, &parts);
    if (parts.n_kept)
        fill_prepare(&s, &parts);
    return parts;
}
