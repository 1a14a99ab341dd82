// rewrite.c: graph to a simpler graph with the same outputs, and a receipt of the rules that did
// it.
//
// A work-list of nodes; for each the rules for its op, in the order of their tables.  A rule builds
// what may stand in for its root and the engine weighs it: what would come alive against what would
// die.  A replacement is kept if it costs less time, or the same time in fewer nodes; else nothing
// has happened.  That is the measure that shrinks, (time, nodes), and why rewriting ends and never
// makes a program slower by the model.
//
// A rule that only prepares the way for another promises what that one will save, and it counts as
// saved.  Such rules go one way only: sums down to the contractions below them, permutes, reshapes
// and slices past reductions and towards the loads.
//
// Who looks at a changed node is looked at again, LOOK_UP users up, since rules see that deep.
// STEPS looks per node bound the whole, and what is reached by then is a right graph too.
//
// A rule that is not exact leaves alone what a discontinuous op looks at if every bit of it is
// specified: a quantiser's steps stay where they are.

#include "gen/rewrite.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    STEPS = 64,   // looks per node
    LOOK_UP = 3,  // users of users that may see a change
    MAX_USERS = 8 // of a node that are told of a change below them
};

const char *const math_name[] = {
    [MATH_strict] = "strict", [MATH_real] = "real", [MATH_finite] = "finite", [MATH_fast] = "fast"};
const char *const rule_class_name[] = {
    [RULE_exact] = "exact", [RULE_real] = "real", [RULE_finite] = "finite"};

const struct rule_list *const rule_lists[] = {
    &arithmetic_rules, &movement_rules,    &term_rules,      &power_rules,
    &range_rules,      &monotone_rules,    &normalise_rules, &reduction_rules,
    &group_rules,      &contraction_rules, &scale_rules,     NULL,
};

static bool rule_is_allowed(const struct rewriter *r, enum rule_class class)
{
    switch (r->options->math) {
    case MATH_strict:
        return class == RULE_exact;
    case MATH_real:
        return class != RULE_finite;
    case MATH_finite:
    case MATH_fast:
        return true;
    }
    return false;
}

static int count_rules(enum op op)
{
    int n = 0;
    for (int i = 0; rule_lists[i]; i++)
        for (int j = 0; j < rule_lists[i]->n; j++)
            n += rule_lists[i]->rule[j].root == op || rule_lists[i]->rule[j].root == OP_COUNT;
    return n;
}

static const struct rule **rules_for(const struct rewriter *r, enum op op)
{
    const struct rule **rules = arena_new(r->g, const struct rule *, count_rules(op) + 1);
    int n = 0;
    for (int i = 0; rule_lists[i]; i++)
        for (int j = 0; j < rule_lists[i]->n; j++) {
            const struct rule *rule = &rule_lists[i]->rule[j];
            if ((rule->root == op || rule->root == OP_COUNT) && rule_is_allowed(r, rule->class))
                rules[n++] = rule;
        }
    return rules;
}

static void enqueue_users(struct rewriter *r, struct node *n, int levels)
{
    const struct state *s = &r->state[n->id];
    for (int i = 0; i < s->n_users && i < MAX_USERS; i++) {
        struct node *user = s->users[i];
        if (!uses(r, user))
            continue;
        enqueue(r, user);
        if (levels > 1)
            enqueue_users(r, user, levels - 1);
    }
}

// Whatever became used once by the change: its user may take it now.
static void enqueue_around(struct rewriter *r, struct node *n)
{
    enqueue_users(r, n, LOOK_UP);
    for (int i = 0; i < n->n_in; i++)
        if (uses(r, n->in[i]) == 1)
            enqueue_users(r, n->in[i], 1);
}

static void write_receipt(struct rewriter *r, const struct rule *rule, const struct node *root)
{
    struct receipt *list = r->receipt;
    if (!list)
        return;
    if (list->n_lines == list->cap_lines) {
        int cap = 2 * list->n_lines + 16;
        struct receipt_line *bigger = arena_new(r->g, struct receipt_line, cap);
        if (list->n_lines)
            memcpy(bigger, list->lines, sizeof *bigger * (size_t)list->n_lines);
        list->lines = bigger;
        list->cap_lines = cap;
    }
    list->lines[list->n_lines++] =
        (struct receipt_line){.rule = rule->name,
                              .class = rule->class,
                              .at = root->at,
                              .saved_flops = 0 - r->change.flops,
                              .saved_bytes = 0 - r->change.bytes,
                              .saved_time = 0 - r->change.time,
                              .after = r->options->keep_graphs ? working_close(r) : NULL};
}

static bool is_better(const struct rewriter *r)
{
    double saved = r->promise - r->change.time, noise = 1e-9 * r->moved_time;
    return saved > noise || (saved >= -noise && r->change.nodes < 0);
}

// Puts `made` in the place of root if that is better.
static bool replaced(struct rewriter *r, const struct rule *rule, struct node *root,
                     struct node *made)
{
    int root_uses = uses(r, root);
    r->change = (struct cost){.nodes = 0};
    r->moved_time = 0;
    r->n_fresh = 0;
    hold(r, made);
    r->state[root->id].uses = 1;
    release(r, root);
    if (!is_better(r)) {
        hold(r, root);
        r->state[root->id].uses = root_uses;
        release(r, made);
        return false;
    }
    redirect(r, root, made);
    release(r, made);
    for (int i = 0; i < r->n_fresh; i++)
        enqueue(r, r->fresh[i]);
    write_receipt(r, rule, root);
    enqueue_around(r, made);
    return true;
}

static bool keeps_bits(const struct rewriter *r, const struct node *n)
{
    return r->state[n->id].decides && r->state[n->id].specified;
}

static void look_at(struct rewriter *r, struct node *n)
{
    const struct rule **rules = r->by_op[n->op];
    for (int i = 0; rules[i] && uses(r, n); i++) {
        if (rules[i]->class != RULE_exact && keeps_bits(r, n))
            continue;
        r->g->at = n->at;
        r->promise = 0;
        struct node *made = rules[i]->apply(r, n);
        made = made ? fitted(r, made, n) : n;
        if (made != n && replaced(r, rules[i], n, made))
            return;
    }
}

static bool is_empty(const struct node *n)
{
    if (!node_numel(n))
        return true;
    for (int i = 0; i < n->n_in; i++)
        if (!node_numel(n->in[i]))
            return true;
    return false;
}

struct graph *rewrite(struct gen *g, const struct graph *graph,
                      const struct rewrite_options *options, struct receipt *receipt)
{
    struct span at = g->at;
    struct rewrite_options given = *options;
    for (int i = 0; i < graph->n_nodes; i++)
        if (!node_numel(graph->nodes[i])) // sums of nothing do not follow the rules
            given.math = MATH_strict;
    struct rewriter r = {.g = g, .options = &given, .receipt = receipt};
    for (int op = 0; op < OP_COUNT; op++)
        r.by_op[op] = rules_for(&r, (enum op)op);
    working_open(&r, graph);
    int64_t steps = 0, most = (int64_t)STEPS * (graph->n_nodes + 16);
    for (; r.n_queued && steps < most; steps++) {
        struct node *n = r.graph->nodes[r.queue[r.queue_first]];
        r.queue_first = (r.queue_first + 1) % r.cap_queue;
        r.n_queued--;
        r.state[n->id].queued = false;
        if (uses(&r, n) && !is_empty(n))
            look_at(&r, n);
    }
    if (receipt)
        receipt->steps = steps;
    g->at = at;
    return working_close(&r);
}
