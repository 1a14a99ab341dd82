// working.c: the graph that rules change: nodes unique by content, use counts, users.
//
// A node is made by its builder at the end of the graph and is dead until something holds it.
// Holding a dead node holds its inputs; releasing the last use releases them: so the change in
// cost since the engine last looked is always known.  Nothing here recurses, however deep the
// graph is.

#include "gen/eval.h"
#include "gen/rewrite.h"
#include <assert.h>
#include <string.h>

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
    hash = mix(hash, &n->attr, sizeof n->attr);
    return hash ^ hash >> 32;
}

// Attributes are compared as bytes: nodes are zeroed when made, and 0.0 is not -0.0.
static bool is_same_value(const struct node *a, const struct node *b)
{
    return a->op == b->op && a->dtype == b->dtype && node_same_shape(a, b) && a->n_in == b->n_in &&
           (!a->n_in || !memcmp(a->in, b->in, sizeof a->in[0] * (size_t)a->n_in)) &&
           !memcmp(&a->attr, &b->attr, sizeof a->attr);
}

static struct state *state_of(const struct rewriter *r, const struct node *n)
{
    return &r->state[n->id];
}

static int *bucket_of(const struct rewriter *r, const struct node *n)
{
    return &r->bucket[hash_of(n) & (uint64_t)(r->n_buckets - 1)];
}

static void link_node(struct rewriter *r, struct node *n)
{
    int *bucket = bucket_of(r, n);
    struct state *s = state_of(r, n);
    s->next = *bucket;
    s->linked = true;
    *bucket = n->id + 1;
}

// Before its content changes: the bucket is found by it.
static void unlink_node(struct rewriter *r, struct node *n)
{
    struct state *s = state_of(r, n);
    int *at = bucket_of(r, n);
    while (s->linked && *at != n->id + 1)
        at = &r->state[*at - 1].next;
    if (s->linked)
        *at = s->next;
    s->linked = false;
}

static struct node *found(const struct rewriter *r, const struct node *n)
{
    for (int i = *bucket_of(r, n); i; i = r->state[i - 1].next)
        if (is_same_value(r->graph->nodes[i - 1], n))
            return r->graph->nodes[i - 1];
    return NULL;
}

static void grow_table(struct rewriter *r)
{
    r->n_buckets *= 2;
    r->bucket = arena_new(r->g, int, r->n_buckets);
    for (int i = 0; i < r->n_states; i++)
        if (r->state[i].linked)
            link_node(r, r->graph->nodes[i]);
}

// What a node is, from what its inputs are.
static void learn(struct rewriter *r, const struct node *n)
{
    struct state *s = state_of(r, n);
    s->of_input = n->op == OP_input;
    s->of_weight = n->op == OP_weight;
    s->specified = op_info[n->op].kind == KIND_leaf || is_specified(n) || is_discontinuous(n);
    for (int i = 0; i < n->n_in; i++) {
        const struct state *in = state_of(r, n->in[i]);
        s->of_input |= in->of_input;
        s->of_weight |= in->of_weight;
        s->specified &= in->specified;
    }
    s->range = range_of(r, n);
}

static void add_state(struct rewriter *r, struct node *n)
{
    if (r->n_states == r->cap_states) {
        struct state *bigger = arena_new(r->g, struct state, r->cap_states = 2 * r->n_states + 64);
        if (r->n_states)
            memcpy(bigger, r->state, sizeof *bigger * (size_t)r->n_states);
        r->state = bigger;
    }
    assert(n->id == r->n_states);
    r->state[r->n_states++] = (struct state){.uses = 0};
    learn(r, n);
    if (r->n_states > r->n_buckets)
        grow_table(r);
    link_node(r, n);
}

// The node of made's value: an earlier one, or made itself, which the builder has just added.
struct node *interned(struct rewriter *r, struct node *made)
{
    assert(made);
    if (made->id < r->n_states)
        return made;
    struct node *old = found(r, made);
    if (!old)
        add_state(r, made);
    else
        r->graph->n_nodes--;
    return old ? old : made;
}

// Room for one more in an array of nodes.
static struct node **with_room(struct rewriter *r, struct node **nodes, int n, int *cap)
{
    if (n < *cap)
        return nodes;
    struct node **bigger = arena_new(r->g, struct node *, *cap = 2 * n + 16);
    if (n)
        memcpy(bigger, nodes, sizeof(struct node *) * (size_t)n);
    return bigger;
}

static void push_node(struct rewriter *r, struct node *n)
{
    r->stack = with_room(r, r->stack, r->n_stack, &r->cap_stack);
    r->stack[r->n_stack++] = n;
}

static void push_fresh(struct rewriter *r, struct node *n)
{
    r->fresh = with_room(r, r->fresh, r->n_fresh, &r->cap_fresh);
    r->fresh[r->n_fresh++] = n;
}

static void add_user(struct rewriter *r, struct node *n, struct node *user)
{
    struct state *s = state_of(r, n);
    s->users = with_room(r, s->users, s->n_users, &s->cap_users);
    s->users[s->n_users++] = user;
}

static void account(struct rewriter *r, const struct node *n, int sign)
{
    struct cost c = cost_of(r, n);
    r->change.flops += sign * c.flops;
    r->change.bytes += sign * c.bytes;
    r->change.time += sign * c.time;
    r->change.nodes += sign;
    r->moved_time += c.time;
}

static bool lets_decide(const struct rewriter *r, const struct node *n)
{
    return is_discontinuous(n) || (state_of(r, n)->decides && is_specified(n));
}

static void revive(struct rewriter *r, struct node *n)
{
    account(r, n, 1);
    push_fresh(r, n);
    for (int i = 0; i < n->n_in; i++) {
        if (!state_of(r, n)->listed)
            add_user(r, n->in[i], n);
        push_node(r, n->in[i]);
    }
    state_of(r, n)->listed = true;
}

// Marks are never taken back: what a discontinuous op once looked at stays as it is.
static void mark_deciding(struct rewriter *r, struct node *n)
{
    int bottom = r->n_stack;
    push_node(r, n);
    while (r->n_stack > bottom) {
        struct node *at = r->stack[--r->n_stack];
        for (int i = 0; i < at->n_in && lets_decide(r, at); i++)
            if (!state_of(r, at->in[i])->decides) {
                state_of(r, at->in[i])->decides = true;
                push_node(r, at->in[i]);
            }
    }
}

void hold(struct rewriter *r, struct node *n)
{
    int bottom = r->n_stack;
    push_node(r, n);
    while (r->n_stack > bottom) {
        struct node *at = r->stack[--r->n_stack];
        if (state_of(r, at)->uses++)
            continue;
        revive(r, at);
        mark_deciding(r, at);
    }
}

void release(struct rewriter *r, struct node *n)
{
    int bottom = r->n_stack;
    push_node(r, n);
    while (r->n_stack > bottom) {
        struct node *at = r->stack[--r->n_stack];
        if (--state_of(r, at)->uses)
            continue;
        account(r, at, -1);
        for (int i = 0; i < at->n_in; i++)
            push_node(r, at->in[i]);
    }
}

int uses(const struct rewriter *r, const struct node *n)
{
    return state_of(r, n)->uses;
}

bool is_known(const struct rewriter *r, const struct node *n)
{
    return !state_of(r, n)->of_input;
}

void enqueue(struct rewriter *r, struct node *n)
{
    if (state_of(r, n)->queued)
        return;
    if (r->n_queued == r->cap_queue) {
        int cap = 2 * r->cap_queue + 64, *bigger = arena_new(r->g, int, cap);
        for (int i = 0; i < r->n_queued; i++)
            bigger[i] = r->queue[(r->queue_first + i) % r->cap_queue];
        r->queue = bigger;
        r->queue_first = 0;
        r->cap_queue = cap;
    }
    r->queue[(r->queue_first + r->n_queued++) % r->cap_queue] = n->id;
    state_of(r, n)->queued = true;
}

static void push_merge(struct rewriter *r, struct node *from, struct node *to)
{
    r->merge = with_room(r, r->merge, r->n_merge, &r->cap_merge);
    r->merge[r->n_merge++] = from;
    r->merge = with_room(r, r->merge, r->n_merge, &r->cap_merge);
    r->merge[r->n_merge++] = to;
}

// One user looks at `to` where it looked at `from`.  It may have become equal to another node.
static void redirect_user(struct rewriter *r, struct node *user, struct node *from, struct node *to)
{
    bool lives = uses(r, user) > 0, looked = false;
    for (int i = 0; i < user->n_in; i++)
        looked |= user->in[i] == from;
    if (!looked)
        return;
    if (lives)
        account(r, user, -1);
    unlink_node(r, user);
    for (int i = 0; i < user->n_in; i++)
        if (user->in[i] == from) {
            user->in[i] = to;
            if (lives)
                hold(r, to);
        }
    add_user(r, to, user);
    learn(r, user);
    struct node *same = found(r, user);
    if (same && uses(r, same))
        push_merge(r, user, same);
    else
        link_node(r, user);
    if (lives) {
        account(r, user, 1);
        mark_deciding(r, user);
        enqueue(r, user);
    }
}

static void redirect_outputs(struct rewriter *r, struct node *from, struct node *to)
{
    for (int i = 0; i < r->graph->n_outputs; i++)
        if (r->graph->outputs[i].node == from) {
            r->graph->outputs[i].node = to;
            hold(r, to);
        }
}

static void redirect_one(struct rewriter *r, struct node *from, struct node *to)
{
    state_of(r, to)->decides |= state_of(r, from)->decides;
    mark_deciding(r, to);
    int n_users = state_of(r, from)->n_users;
    for (int i = 0; i < n_users; i++)
        redirect_user(r, state_of(r, from)->users[i], from, to);
    redirect_outputs(r, from, to);
    if (from->name && !to->name)
        to->name = from->name;
}

// All users of `from` look at `to`.  `from` has been released as often as they held it.
// What becomes equal on the way is merged too.
void redirect(struct rewriter *r, struct node *from, struct node *to)
{
    redirect_one(r, from, to);
    while (r->n_merge) {
        struct node *kept = r->merge[--r->n_merge], *gone = r->merge[--r->n_merge];
        if (!uses(r, gone) || gone == kept || !is_same_value(gone, kept))
            continue;
        hold(r, kept);
        state_of(r, gone)->uses = 1;
        release(r, gone);
        redirect_one(r, gone, kept);
        release(r, kept);
    }
}

static struct node *copy_of(struct rewriter *r, const struct node *old, struct node *const *place)
{
    struct node *n = node_new(r->g, old->op, old->dtype, old->n_in, old->in);
    for (int i = 0; i < n->n_in; i++)
        n->in[i] = place[n->in[i]->id];
    node_set_shape(n, old->rank, old->dim);
    n->attr = old->attr;
    n->name = old->name;
    n->at = old->at;
    return n;
}

static bool is_argument(const struct node *n)
{
    return n->op == OP_input || n->op == OP_weight;
}

static struct graph *graph_like(struct gen *g, const struct graph *graph)
{
    struct graph *out = graph_new(g, graph->name);
    out->sizes = graph->sizes;
    out->n_sizes = graph->n_sizes;
    out->n_arguments = graph->n_arguments;
    out->arguments = arena_new(g, struct node *, graph->n_arguments);
    out->n_outputs = graph->n_outputs;
    out->outputs = arena_new(g, struct output, graph->n_outputs);
    for (int i = 0; i < graph->n_outputs; i++)
        out->outputs[i] = graph->outputs[i];
    return out;
}

// Equal nodes become one here.
void working_open(struct rewriter *r, const struct graph *graph)
{
    struct node **place = arena_new(r->g, struct node *, graph->n_nodes);
    r->graph = graph_like(r->g, graph);
    r->n_buckets = 64;
    r->bucket = arena_new(r->g, int, r->n_buckets);
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *old = graph->nodes[i];
        struct node *n = node_add(r->g, r->graph, copy_of(r, old, place));
        place[i] = interned(r, n);
        if (is_argument(n))
            r->graph->arguments[n->attr.argument] = n;
        if (!place[i]->name)
            place[i]->name = old->name;
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        r->graph->outputs[i].node = place[graph->outputs[i].node->id];
        hold(r, r->graph->outputs[i].node);
    }
    r->n_fresh = 0;
    for (int i = 0; i < r->n_states; i++) // inputs before their users
        if (r->state[i].uses)
            enqueue(r, r->graph->nodes[i]);
}

// A node after its inputs, with an explicit stack: a node comes up a second time to be placed.
static void place_node(struct rewriter *r, struct graph *out, struct node **place, struct node *n)
{
    push_node(r, n);
    while (r->n_stack) {
        struct node *at = r->stack[r->n_stack - 1];
        int waiting = r->n_stack;
        for (int i = at->n_in - 1; i >= 0 && !place[at->id]; i--)
            if (!place[at->in[i]->id])
                push_node(r, at->in[i]);
        if (r->n_stack > waiting)
            continue;
        if (!place[at->id])
            place[at->id] = node_add(r->g, out, copy_of(r, at, place));
        r->n_stack--;
    }
}

struct graph *working_close(struct rewriter *r)
{
    struct graph *out = graph_like(r->g, r->graph);
    struct node **place = arena_new(r->g, struct node *, r->n_states);
    r->n_stack = 0;
    for (int i = 0; i < r->n_states; i++) {
        struct node *n = r->graph->nodes[i];
        if (uses(r, n) || is_argument(n))
            place_node(r, out, place, n);
    }
    for (int i = 0; i < out->n_arguments; i++)
        out->arguments[i] = place[r->graph->arguments[i]->id];
    for (int i = 0; i < out->n_outputs; i++)
        out->outputs[i].node = place[r->graph->outputs[i].node->id];
    return out;
}
