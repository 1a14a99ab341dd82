// mask.c: which tiles of a contraction anyone looks at.
//
// A store of where(i - j >= d, A @ B, other), as triu and tril write it, needs no product where the
// condition is false.  Over a tile the difference is largest at a corner, so one comparison tells
// whether every element of the tile is discarded; such a tile's products are not computed.  What is
// stored stays the same to the last bit: the discarded side of a where never shows.

#include "gen/kernel.h"

// A value as an index, when it is one: coordinates, integers, their sums and differences.
static const struct index *index_of(struct fusion *f, const struct value *v)
{
    struct index_pool *pool = f->pool;
    if (v->kind == VALUE_index)
        return v->index;
    if (v->kind == VALUE_constant && v->node->op == OP_constant &&
        dtype_info[v->dtype].class == CLASS_integer)
        return index_constant(pool, v->node->attr.integer);
    if (v->kind != VALUE_op || (v->node->op != OP_add && v->node->op != OP_sub))
        return NULL;
    const struct index *a = index_of(f, v->in[0]), *b = index_of(f, v->in[1]);
    if (!a || !b)
        return NULL;
    return index_add(pool, a, v->node->op == OP_sub ? index_scale(pool, b, -1) : b);
}

static bool is_affine(const struct index *x)
{
    uint32_t ours = 1u << VAR_m | 1u << VAR_n;
    if (x->variables & ~ours)
        return false;
    for (int i = 0; x->kind == INDEX_sum && i < x->n_terms; i++)
        if (x->terms[i].atom->kind != INDEX_variable)
            return false;
    return x->kind == INDEX_sum || x->kind == INDEX_variable;
}

// condition <=> index >= 0; NULL where it is nothing of the kind.
static const struct index *at_least_zero(struct fusion *f, const struct value *condition)
{
    if (condition->kind != VALUE_op || condition->n_in != 2)
        return NULL;
    enum op op = condition->node->op;
    bool less = op == OP_lt || op == OP_le, strict = op == OP_lt || op == OP_gt;
    if (!less && op != OP_gt && op != OP_ge)
        return NULL;
    const struct index *a = index_of(f, condition->in[less]),
                       *b = index_of(f, condition->in[!less]);
    if (!a || !b)
        return NULL;
    a = index_add(f->pool, a, index_scale(f->pool, b, -1));
    a = index_add(f->pool, a, index_constant(f->pool, strict ? -1 : 0));
    return is_affine(a) ? a : NULL;
}

static bool needs_result(const struct value *v)
{
    return v->phase > 0;
}

const struct index *contraction_mask(struct fusion *f, const struct nest *nest)
{
    const struct index *mask = NULL;
    for (int i = 0; i < nest->n_stores; i++) {
        const struct value *v = nest->store_values[i];
        bool is_where = v->kind == VALUE_op && v->node->op == OP_where;
        if (!is_where || needs_result(v->in[2]) || needs_result(v->in[0]))
            return NULL;
        const struct index *one = at_least_zero(f, v->in[0]);
        if (!one || (mask && mask != one))
            return NULL;
        mask = one;
    }
    return mask;
}

// The expression's coefficient of a variable.
static int64_t slope(const struct index *x, int variable)
{
    if (x->kind == INDEX_variable)
        return x->variable == variable;
    for (int i = 0; i < x->n_terms; i++)
        if (x->terms[i].atom->variable == variable)
            return x->terms[i].coefficient;
    return 0;
}

struct corner mask_corner(const struct index *mask)
{
    return (struct corner){slope(mask, VAR_m) > 0, slope(mask, VAR_n) > 0};
}

double mask_share(const struct index *mask, int64_t m, int64_t n, int block_m, int block_n)
{
    struct corner last = mask_corner(mask);
    int64_t constant = mask->kind == INDEX_sum ? mask->constant : 0;
    int64_t step_m = slope(mask, VAR_m), step_n = slope(mask, VAR_n), needed = 0, all = 0;
    for (int64_t i = 0; i < m; i += block_m)
        for (int64_t j = 0; j < n; j += block_n, all++) {
            int64_t at_m = i + (last.m ? block_m - 1 : 0), at_n = j + (last.n ? block_n - 1 : 0);
            needed += constant + step_m * at_m + step_n * at_n >= 0;
        }
    return all ? (double)needed / (double)all : 1;
}
