// rewrite.c: graph to simpler graph with the same outputs.
//
// One walk in creation order copies what some output needs into a new graph: a movement or cast of
// a movement or cast is merged, one that does nothing is left out, and a node that is already there
// is used again. What the merging left unused is then dropped.  Arguments all stay, in their order;
// linear time.

#include "gen/graph.h"
#include <string.h>

struct rewriter {
    struct gen *g;
    struct graph *out;
    struct node **place;  // of the old graph's node i in the new graph; NULL: not needed
    struct node **bucket; // new nodes by hash, open addressing
    uint64_t n_buckets;   // a power of two, more than twice the nodes
};

static bool is_argument(const struct node *n)
{
    return n->op == OP_input || n->op == OP_weight;
}

// needed[i]: an output depends on node i, or it is an argument.
static bool *needed_nodes(struct gen *g, const struct graph *graph)
{
    bool *needed = arena_new(g, bool, graph->n_nodes);
    for (int i = 0; i < graph->n_outputs; i++)
        needed[graph->outputs[i].node->id] = true;
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const struct node *n = graph->nodes[i];
        needed[i] |= is_argument(n);
        for (int j = 0; needed[i] && j < n->n_in; j++)
            needed[n->in[j]->id] = true;
    }
    return needed;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_of(const struct node *n)
{
    int head[] = {(int)n->op, (int)n->dtype, n->rank, n->n_in};
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), head, sizeof head);
    hash = mix(hash, n->dim, sizeof n->dim[0] * (size_t)n->rank);
    for (int i = 0; i < n->n_in; i++)
        hash = mix(hash, &n->in[i]->id, sizeof n->in[i]->id);
    return mix(hash, &n->attr, sizeof n->attr);
}

// Attributes are compared as bytes: nodes are zeroed when made, and 0.0 is not -0.0.
static bool is_same_value(const struct node *a, const struct node *b)
{
    return a->op == b->op && a->dtype == b->dtype && node_same_shape(a, b) && a->n_in == b->n_in &&
           (!a->n_in || !memcmp(a->in, b->in, sizeof a->in[0] * (size_t)a->n_in)) &&
           !memcmp(&a->attr, &b->attr, sizeof a->attr);
}

// reshape(reshape(x)) -> reshape(x)
// permute(permute(x)) -> permute(x)
static void merge_with_input(struct node *n)
{
    const struct node *x = n->n_in == 1 ? n->in[0] : n;
    if (x == n || x->op != n->op)
        return;
    if (n->op == OP_permute)
        for (int a = 0; a < n->rank; a++)
            n->attr.perm[a] = x->attr.perm[n->attr.perm[a]];
    if (n->op == OP_permute || n->op == OP_reshape)
        n->in[0] = x->in[0];
}

static bool keeps_order(const struct node *permute)
{
    for (int a = 0; a < permute->rank; a++)
        if (permute->attr.perm[a] != a)
            return false;
    return true;
}

static bool takes_all_forward(const struct node *slice)
{
    for (int a = 0; a < slice->rank; a++)
        if (slice->attr.start[a] != 0 || slice->attr.step[a] != 1)
            return false;
    return true;
}

// reshape, broadcast, pad to the shape it has, permute in order, slice of all, cast to its dtype ->
// x
static bool does_nothing(const struct node *n)
{
    if (n->n_in != 1 || n->dtype != n->in[0]->dtype || !node_same_shape(n, n->in[0]))
        return false;
    switch ((int)n->op) {
    case OP_cast:
    case OP_reshape:
    case OP_broadcast:
    case OP_pad:
        return true;
    case OP_permute:
        return keeps_order(n);
    case OP_slice:
        return takes_all_forward(n);
    }
    return false;
}

static struct node *copy_of(struct rewriter *r, const struct node *old)
{
    struct node *n = node_new(r->g, old->op, old->dtype, old->n_in, old->in);
    for (int i = 0; i < n->n_in; i++)
        n->in[i] = r->place[n->in[i]->id];
    node_set_shape(n, old->rank, old->dim);
    n->attr = old->attr;
    n->name = old->name;
    n->at = old->at;
    return n;
}

// The node of the new graph that stands for n: an earlier one of the same value, or n itself.
static struct node *intern(struct rewriter *r, struct node *n)
{
    uint64_t i = hash_of(n);
    for (i &= r->n_buckets - 1; r->bucket[i]; i = (i + 1) & (r->n_buckets - 1))
        if (is_same_value(r->bucket[i], n))
            return r->bucket[i];
    r->bucket[i] = n;
    return node_add(r->g, r->out, n);
}

static struct node *rewritten(struct rewriter *r, const struct node *old)
{
    struct node *n = copy_of(r, old);
    if (is_argument(n)) {
        node_add(r->g, r->out, n);
        r->out->arguments[n->attr.argument] = n;
        return n;
    }
    merge_with_input(n);
    struct node *place = does_nothing(n) ? n->in[0] : intern(r, n);
    if (!place->name)
        place->name = n->name;
    return place;
}

static void drop_unused(struct gen *g, struct graph *graph)
{
    const bool *needed = needed_nodes(g, graph);
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        if (needed[i]) {
            graph->nodes[n] = graph->nodes[i];
            graph->nodes[n]->id = n;
            n++;
        }
    graph->n_nodes = n;
}

struct graph *rewrite(struct gen *g, const struct graph *graph)
{
    struct rewriter r = {.g = g, .out = graph_new(g, graph->name), .n_buckets = 16};
    while (r.n_buckets < 2 * (uint64_t)graph->n_nodes)
        r.n_buckets *= 2;
    r.place = arena_new(g, struct node *, graph->n_nodes);
    r.bucket = arena_new(g, struct node *, r.n_buckets);
    r.out->sizes = graph->sizes;
    r.out->n_sizes = graph->n_sizes;
    r.out->n_arguments = graph->n_arguments;
    r.out->arguments = arena_new(g, struct node *, graph->n_arguments);
    const bool *needed = needed_nodes(g, graph);
    for (int i = 0; i < graph->n_nodes; i++)
        if (needed[i])
            r.place[i] = rewritten(&r, graph->nodes[i]);
    r.out->n_outputs = graph->n_outputs;
    r.out->outputs = arena_new(g, struct output, graph->n_outputs);
    for (int i = 0; i < graph->n_outputs; i++) {
        r.out->outputs[i] = graph->outputs[i];
        r.out->outputs[i].node = r.place[graph->outputs[i].node->id];
    }
    drop_unused(g, r.out);
    return r.out;
}
