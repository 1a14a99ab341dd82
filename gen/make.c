// make.c: the builders, for rules: inputs to a node of the working graph, an equal one where there
// is one.  Rules ask for nothing impossible, so none of these fails.

#include "gen/rewrite.h"
#include <assert.h>
#include <string.h>

struct node *make1(struct rewriter *r, enum op op, struct node *a)
{
    return interned(r, graph_elementwise(r->g, r->graph, op, 1, &a));
}

struct node *make2(struct rewriter *r, enum op op, struct node *a, struct node *b)
{
    struct node *in[] = {a, b};
    return interned(r, graph_elementwise(r->g, r->graph, op, 2, in));
}

struct node *make3(struct rewriter *r, enum op op, struct node *a, struct node *b, struct node *c)
{
    struct node *in[] = {a, b, c};
    return interned(r, graph_elementwise(r->g, r->graph, op, 3, in));
}

struct node *make_number(struct rewriter *r, enum dtype dtype, double value)
{
    return interned(r, graph_constant(r->g, r->graph, dtype, value));
}

struct node *make_integer(struct rewriter *r, enum dtype dtype, int64_t value)
{
    return interned(r, graph_integer(r->g, r->graph, dtype, value));
}

struct node *make_cast(struct rewriter *r, struct node *x, enum dtype dtype)
{
    return x->dtype == dtype ? x : interned(r, graph_cast(r->g, r->graph, x, dtype));
}

struct node *make_reduce(struct rewriter *r, enum op op, struct node *x, uint32_t axes)
{
    return interned(r, graph_reduce(r->g, r->graph, op, x, axes));
}

struct node *make_matmul(struct rewriter *r, struct node *a, struct node *b)
{
    return interned(r, graph_matmul(r->g, r->graph, a, b));
}

static bool has_shape(const struct node *x, int rank, const int64_t *dim)
{
    return x->rank == rank && !memcmp(x->dim, dim, sizeof *dim * (size_t)rank);
}

struct node *make_reshape(struct rewriter *r, struct node *x, int rank, const int64_t *dim)
{
    if (has_shape(x, rank, dim))
        return x;
    return interned(r, graph_reshape(r->g, r->graph, x, rank, dim));
}

struct node *make_permute(struct rewriter *r, struct node *x, const int *perm)
{
    bool moves = false;
    for (int a = 0; a < x->rank; a++)
        moves |= perm[a] != a;
    return moves ? interned(r, graph_permute(r->g, r->graph, x, perm)) : x;
}

struct node *make_broadcast(struct rewriter *r, struct node *x, int rank, const int64_t *dim)
{
    if (has_shape(x, rank, dim))
        return x;
    return interned(r, graph_broadcast(r->g, r->graph, x, rank, dim));
}

struct node *make_slice(struct rewriter *r, struct node *x, const int64_t *start,
                        const int64_t *step, const int64_t *dim)
{
    return interned(r, graph_slice(r->g, r->graph, x, start, step, dim));
}

// The elementwise op of n on other inputs.
struct node *make_like(struct rewriter *r, const struct node *n, struct node *const *in)
{
    if (n->op == OP_cast)
        return make_cast(r, in[0], n->dtype);
    return interned(r, graph_elementwise(r->g, r->graph, n->op, n->n_in, in));
}

struct node *swapped(struct rewriter *r, struct node *x)
{
    int perm[MAX_RANK];
    for (int a = 0; a < x->rank; a++)
        perm[a] = a;
    perm[x->rank - 1] = x->rank - 2;
    perm[x->rank - 2] = x->rank - 1;
    return make_permute(r, x, perm);
}

// x in the shape of `like`: as it is, with axes of size 1 put in or left out, or broadcast.
struct node *fitted(struct rewriter *r, struct node *x, const struct node *like)
{
    assert(x->dtype == like->dtype);
    if (node_numel(x) == node_numel(like))
        return make_reshape(r, x, like->rank, like->dim);
    return make_broadcast(r, x, like->rank, like->dim);
}
