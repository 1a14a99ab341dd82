// subscript.c: x[1:8:2, None, ..., -1] to a slice and a reshape, as NumPy has it.  Also element i
// of a list.

#include "gen/build.h"
#include <inttypes.h>

struct selection {
    int64_t start[MAX_RANK], step[MAX_RANK], taken[MAX_RANK]; // of x's axes
    int rank;                                                 // of the result
    int64_t dim[MAX_RANK];
    int axis; // of x that the next index is about
    bool slices;
};

static bool add_dim(struct build *b, struct selection *s, int64_t dim)
{
    if (s->rank == MAX_RANK)
        return fail(b->g, "the result has more than %d dimensions", MAX_RANK);
    s->dim[s->rank++] = dim;
    return true;
}

static bool take(struct build *b, struct selection *s, const struct expr *e, int64_t *out)
{
    struct value v = evaluate(b, e);
    place_at(b, e->at);
    if (v.kind == VALUE_node)
        return fail(b->g, "an index is known when the program is built; %s is a tensor",
                    label(b, &v));
    return want_integer(b, arena_text(b->g, "index of axis %d", s->axis), &v, out);
}

static bool select_one(struct build *b, const struct index *index, int64_t size,
                       struct selection *s)
{
    int64_t i;
    if (!take(b, s, index->start, &i))
        return false;
    place_at(b, index->at);
    if (i < -size || i >= size)
        return fail(b->g, "index %" PRId64 " is outside axis %d, which has size %" PRId64, i,
                    s->axis, size);
    s->start[s->axis] = i < 0 ? i + size : i;
    s->taken[s->axis++] = 1;
    s->slices = true;
    return true;
}

// A bound counted from the end where it is negative, moved into what the direction can reach
static int64_t clamp_bound(int64_t i, int64_t size, int64_t step)
{
    int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? size - 1 : size;
    i = i < 0 ? i + size : i;
    return i < lowest ? lowest : i > highest ? highest : i;
}

int64_t range_start(int64_t size, int64_t step, const int64_t *start)
{
    return start ? clamp_bound(*start, size, step) : step < 0 ? size - 1 : 0;
}

int64_t range_count(int64_t size, int64_t step, int64_t start, const int64_t *stop)
{
    int64_t end = stop ? clamp_bound(*stop, size, step) : step < 0 ? -1 : size;
    int64_t distance = step < 0 ? start - end : end - start;
    uint64_t stride = step < 0 ? 0 - (uint64_t)step : (uint64_t)step;
    return distance > 0 ? (int64_t)(((uint64_t)distance - 1) / stride) + 1 : 0;
}

static bool select_range(struct build *b, const struct index *index, int64_t size,
                         struct selection *s)
{
    int64_t step = 1, start, stop;
    if ((index->step && !take(b, s, index->step, &step)) ||
        (index->start && !take(b, s, index->start, &start)) ||
        (index->stop && !take(b, s, index->stop, &stop)))
        return false;
    place_at(b, index->at);
    if (step == 0)
        return fail(b->g, "a step of 0");
    int64_t from = range_start(size, step, index->start ? &start : NULL);
    int64_t count = range_count(size, step, from, index->stop ? &stop : NULL);
    s->start[s->axis] = from;
    s->step[s->axis] = step;
    s->taken[s->axis++] = count;
    s->slices = s->slices || count != size || step < 0;
    return add_dim(b, s, count);
}

static bool select_rest(struct build *b, const struct node *x, int n, struct selection *s)
{
    for (; n > 0; n--, s->axis++)
        if (!add_dim(b, s, x->dim[s->axis]))
            return false;
    return true;
}

static bool select_all(struct build *b, const struct expr *e, const struct node *x,
                       struct selection *s)
{
    int named = 0, n_rest = 0;
    for (int i = 0; i < e->n_items; i++) {
        enum index_kind kind = e->indices[i].kind;
        named += kind == INDEX_at || kind == INDEX_range;
        n_rest += kind == INDEX_rest;
    }
    place_at(b, e->at);
    if (named > x->rank)
        return fail(b->g, "%d indices of %s, which has %d dimensions", named, node_text(b->g, x),
                    x->rank);
    if (n_rest > 1)
        return fail(b->g, "more than one `...` among the indices");
    for (int i = 0; i < e->n_items; i++) {
        const struct index *index = &e->indices[i];
        int64_t size = s->axis < x->rank ? x->dim[s->axis] : 0;
        bool ok = index->kind == INDEX_at      ? select_one(b, index, size, s)
                  : index->kind == INDEX_range ? select_range(b, index, size, s)
                  : index->kind == INDEX_new   ? add_dim(b, s, 1)
                                               : select_rest(b, x, x->rank - named, s);
        if (!ok)
            return false;
    }
    return select_rest(b, x, x->rank - s->axis, s);
}

static struct value list_item(struct build *b, const struct expr *e, const struct value *list)
{
    int64_t i;
    if (e->n_items != 1 || e->indices[0].kind != INDEX_at) {
        fail(b->g, "a list takes one integer as its index");
        return value_failed();
    }
    struct value v = evaluate(b, e->indices[0].start);
    place_at(b, e->at);
    if (!want_integer(b, "index", &v, &i))
        return value_failed();
    if (i < -list->n || i >= list->n) {
        fail(b->g, "index %" PRId64 " is outside a list of %d", i, list->n);
        return value_failed();
    }
    return list->items[i < 0 ? i + list->n : i];
}

struct value subscript(struct build *b, const struct expr *e)
{
    struct value left = evaluate(b, e->left);
    place_at(b, e->at);
    if (left.kind == VALUE_list)
        return list_item(b, e, &left);
    struct node *x = node_of(b, &left);
    struct selection s = {0};
    if (!x)
        return value_failed();
    for (int a = 0; a < x->rank; a++) {
        s.step[a] = 1;
        s.taken[a] = x->dim[a];
    }
    if (!select_all(b, e, x, &s))
        return value_failed();
    place_at(b, e->at);
    if (s.slices)
        x = graph_slice(b->g, b->graph, x, s.start, s.step, s.taken);
    return value_node(x ? reshape_to(b, x, s.rank, s.dim) : NULL);
}
