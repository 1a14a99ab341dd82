// eval.c: the reference: graph x arguments to the values of its outputs, node by node, on the CPU.
//
// EVAL_exact computes in f64, EVAL_declared rounds every result to its dtype (a reduction or a
// matmul once, at its end).  Casts, constants and arguments have their dtype's values in both.
//
// A discontinuous op (round, a comparison, a cast to an integer, argmax, ...) turns the last bit of
// its input into a whole step: with s = 0.1 the f32 quotient 2.35 / s is a tie and the f64 one is
// not.  A kernel cannot be asked for the f64 step.  So in EVAL_exact too, what such an op looks at
// is computed as a kernel must compute it: walking back from it, every op that IEEE specifies to
// the last bit (+ - * / sqrt fma abs min max where ...) is rounded to f32, until an op that it does
// not (exp, a sum, a matmul).  f16 and bf16 values are f32 there as well: only casts round to
// storage.  Quantisers are thus compared bit for bit.
//
// A value is freed after its last use.  Arena memory is all taken before the first block, so that
// running out of it, a longjmp, leaks none.

#include "gen/eval.h"
#include <assert.h>

struct evaluator {
    const struct graph *graph;
    enum eval_mode mode;
    const struct tensor *arguments;
    struct value *value; // by node id
    int *uses;     // by node id: users, and outputs, still to come; 0 from the start: not needed
    bool *decides; // by node id: a discontinuous op looks at it
    const struct value **operand;
};

static bool is_real(const struct node *n)
{
    return dtype_info[n->dtype].class == CLASS_float;
}

bool is_discontinuous(const struct node *n)
{
    switch ((int)n->op) {
    case OP_sign:
    case OP_floor:
    case OP_ceil:
    case OP_round:
    case OP_trunc:
    case OP_isnan:
    case OP_isinf:
    case OP_isfinite:
    case OP_mod:
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge:
    case OP_eq:
    case OP_ne:
    case OP_argmax:
    case OP_argmin:
        return true;
    case OP_cast:
        return !is_real(n);
    }
    return false;
}

bool is_specified(const struct node *n)
{
    switch ((int)n->op) {
    case OP_neg:
    case OP_abs:
    case OP_sign:
    case OP_sqrt:
    case OP_floor:
    case OP_ceil:
    case OP_round:
    case OP_trunc:
    case OP_cast:
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_div:
    case OP_mod:
    case OP_minimum:
    case OP_maximum:
    case OP_where:
    case OP_fma:
    case OP_max:
    case OP_min:
        return true;
    }
    return op_info[n->op].kind == KIND_movement;
}

static void find_uses(struct evaluator *e)
{
    for (int i = 0; i < e->graph->n_outputs; i++)
        e->uses[e->graph->outputs[i].node->id]++;
    for (int i = e->graph->n_nodes - 1; i >= 0; i--) {
        const struct node *n = e->graph->nodes[i];
        for (int j = 0; e->uses[i] && j < n->n_in; j++)
            e->uses[n->in[j]->id]++;
    }
}

static void find_deciding(struct evaluator *e)
{
    for (int i = e->graph->n_nodes - 1; i >= 0; i--) {
        const struct node *n = e->graph->nodes[i];
        if (!is_discontinuous(n) && !(e->decides[i] && is_specified(n)))
            continue;
        for (int j = 0; j < n->n_in; j++)
            e->decides[n->in[j]->id] = true;
    }
}

static enum precision precision_of(const struct evaluator *e, const struct node *n)
{
    if (e->mode == EVAL_declared)
        return PRECISION_declared;
    return e->decides[n->id] ? PRECISION_compute : PRECISION_exact;
}

static bool eval_argument(const struct evaluator *e, const struct node *n, struct value *out)
{
    if (!value_new(out, n->rank, n->dim))
        return false;
    load_all(n->dtype, e->arguments[n->attr.argument].data, node_numel(n), out->block->data);
    return true;
}

static bool eval_iota(const struct node *n, struct value *out)
{
    struct value line;
    int axis = n->attr.axis;
    if (!value_new(&line, 1, &n->dim[axis]))
        return false;
    for (int64_t i = 0; i < n->dim[axis]; i++)
        line.block->data[i].integer = i;
    *out = value_broadcast(&line, 0, NULL);
    out->rank = n->rank;
    for (int a = 0; a < n->rank; a++) {
        out->dim[a] = n->dim[a];
        out->stride[a] = a == axis;
    }
    return true;
}

static bool eval_leaf(const struct evaluator *e, const struct node *n, struct value *out)
{
    if (n->op == OP_iota)
        return eval_iota(n, out);
    if (n->op != OP_constant)
        return eval_argument(e, n, out);
    if (!value_new(out, 0, NULL))
        return false;
    if (is_real(n))
        out->block->data[0].real = n->attr.value;
    else
        out->block->data[0].integer = n->attr.integer;
    return true;
}

static bool eval_elementwise(const struct evaluator *e, const struct node *n, struct value *out)
{
    enum { MAX_ARITY = 3 };
    union element room[MAX_ARITY][CHUNK];
    const union element *in[MAX_ARITY];
    struct value operand[MAX_ARITY];
    if (!value_new(out, n->rank, n->dim))
        return false;
    assert(n->n_in <= MAX_ARITY);
    for (int j = 0; j < n->n_in; j++)
        operand[j] = value_broadcast(e->operand[j], n->rank, n->dim);
    int64_t numel = node_numel(n);
    for (int64_t i = 0; i < numel; i += CHUNK) {
        int64_t count = numel - i < CHUNK ? numel - i : CHUNK;
        for (int j = 0; j < n->n_in; j++)
            in[j] = elements(&operand[j], i, count, room[j]);
        apply(n, precision_of(e, n), count, in, out->block->data + i);
    }
    return true;
}

static bool eval_node(const struct evaluator *e, const struct node *n, struct value *out)
{
    for (int j = 0; j < n->n_in; j++)
        e->operand[j] = &e->value[n->in[j]->id];
    switch (op_info[n->op].kind) {
    case KIND_leaf:
        return eval_leaf(e, n, out);
    case KIND_elementwise:
        return eval_elementwise(e, n, out);
    case KIND_movement:
        return move(n, e->operand, out);
    case KIND_reduction:
        if (!reduce(n, e->operand[0], out))
            return false;
        break;
    case KIND_contraction:
        if (!contract(n, e->operand[0], e->operand[1], out))
            return false;
        break;
    }
    round_results(precision_of(e, n), n->dtype, out->block->data, node_numel(n));
    return true;
}

static void drop_use(struct evaluator *e, const struct node *n)
{
    if (--e->uses[n->id] == 0)
        value_release(&e->value[n->id]);
}

static bool eval_nodes(struct evaluator *e)
{
    for (int i = 0; i < e->graph->n_nodes; i++) {
        const struct node *n = e->graph->nodes[i];
        if (!e->uses[i])
            continue;
        if (!eval_node(e, n, &e->value[i]))
            return false;
        for (int j = 0; j < n->n_in; j++)
            drop_use(e, n->in[j]);
    }
    return true;
}

static void prepare_output(struct gen *g, const struct node *n, struct tensor *t)
{
    *t = (struct tensor){.dtype = n->dtype, .rank = n->rank};
    for (int a = 0; a < n->rank; a++)
        t->dim[a] = n->dim[a];
    t->data = arena_new(g, union element, node_numel(n));
}

static void write_output(const struct value *v, struct tensor *t)
{
    int64_t numel = value_numel(v);
    union element room[CHUNK], *out = t->data;
    for (int64_t i = 0; i < numel; i += CHUNK) {
        int64_t count = numel - i < CHUNK ? numel - i : CHUNK;
        const union element *from = elements(v, i, count, room);
        for (int64_t j = 0; j < count; j++)
            out[i + j] = from[j];
    }
}

static int most_inputs(const struct graph *graph)
{
    int most = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->n_in > most)
            most = graph->nodes[i]->n_in;
    return most;
}

bool eval(struct gen *g, const struct graph *graph, enum eval_mode mode,
          const struct tensor *arguments, struct tensor *outputs)
{
    struct evaluator e = {.graph = graph, .mode = mode, .arguments = arguments};
    e.value = arena_new(g, struct value, graph->n_nodes);
    e.uses = arena_new(g, int, graph->n_nodes);
    e.decides = arena_new(g, bool, graph->n_nodes);
    e.operand = arena_new(g, const struct value *, most_inputs(graph));
    for (int i = 0; i < graph->n_outputs; i++)
        prepare_output(g, graph->outputs[i].node, &outputs[i]);
    find_uses(&e);
    find_deciding(&e);
    bool done = eval_nodes(&e);
    for (int i = 0; done && i < graph->n_outputs; i++)
        write_output(&e.value[graph->outputs[i].node->id], &outputs[i]);
    for (int i = 0; i < graph->n_nodes; i++)
        value_release(&e.value[i]);
    return done || fail(g, "eval: out of memory");
}
