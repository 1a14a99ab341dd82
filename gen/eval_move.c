// eval_move.c: the evaluator's values: strided views of counted blocks, and the ops that move
// elements.
//
// permute, broadcast, slice and most reshapes are new views of the same block; pad and concat copy.
// A block goes when the last value that looks at it is released.

#include "gen/eval.h"
#include <stdlib.h>
#include <string.h>

static void set_shape(struct value *v, int rank, const int64_t *dim) // C order
{
    int64_t stride = 1;
    v->rank = rank;
    for (int a = rank - 1; a >= 0; a--) {
        v->dim[a] = dim[a];
        v->stride[a] = stride;
        stride *= dim[a];
    }
}

int64_t value_numel(const struct value *v)
{
    int64_t n = 1;
    for (int a = 0; a < v->rank; a++)
        n *= v->dim[a];
    return n;
}

bool value_new(struct value *v, int rank, const int64_t *dim)
{
    set_shape(v, rank, dim);
    size_t bytes = (size_t)value_numel(v) * sizeof(union element);
    v->block = malloc(sizeof *v->block + bytes);
    if (!v->block)
        return false;
    v->block->users = 1;
    v->base = v->block->data;
    return true;
}

void value_release(struct value *v)
{
    if (v->block && --v->block->users == 0)
        free(v->block);
    v->block = NULL;
}

bool is_contiguous(const struct value *v)
{
    int64_t expected = 1;
    for (int a = v->rank - 1; a >= 0; a--) {
        if (v->dim[a] == 0)
            return true;
        if (v->dim[a] != 1 && v->stride[a] != expected)
            return false;
        expected *= v->dim[a];
    }
    return true;
}

// The elements of a view that start at an index, until n are there or the last axis ends.
static int64_t copy_run(const struct value *v, const int64_t *index, int64_t n, union element *to)
{
    int last = v->rank - 1;
    const union element *from = v->base;
    for (int a = 0; a <= last; a++)
        from += index[a] * v->stride[a];
    int64_t stride = last >= 0 ? v->stride[last] : 0;
    int64_t left = last >= 0 ? v->dim[last] - index[last] : 1;
    if (n > left)
        n = left;
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i * stride];
    return n;
}

const union element *elements(const struct value *v, int64_t first, int64_t n, union element *room)
{
    if (is_contiguous(v))
        return v->base + first;
    int64_t index[MAX_RANK];
    for (int a = v->rank - 1; a >= 0; a--) {
        index[a] = first % v->dim[a];
        first /= v->dim[a];
    }
    for (int64_t done = 0; done < n;) {
        done += copy_run(v, index, n - done, room + done);
        index[v->rank - 1] = 0;
        for (int a = v->rank - 2; a >= 0; a--) {
            if (++index[a] < v->dim[a])
                break;
            index[a] = 0;
        }
    }
    return room;
}

// `to` is a view of a block that its maker still fills.
void copy_elements(const struct value *from, const struct value *to)
{
    int64_t index[MAX_RANK] = {0}, numel = value_numel(from);
    int last = from->rank - 1;
    int64_t run = last >= 0 ? from->dim[last] : 1, stride = last >= 0 ? to->stride[last] : 0;
    union element room[CHUNK];
    for (int64_t done = 0; done < numel; done += run) {
        union element *at = to->block->data + (to->base - to->block->data);
        for (int a = 0; a < last; a++)
            at += index[a] * to->stride[a];
        for (int64_t i = 0; i < run; i += CHUNK) {
            int64_t n = run - i < CHUNK ? run - i : CHUNK;
            if (last >= 0)
                index[last] = i;
            copy_run(from, index, n, room);
            for (int64_t j = 0; j < n; j++)
                at[(i + j) * stride] = room[j];
        }
        for (int a = last - 1; a >= 0; a--) {
            if (++index[a] < from->dim[a])
                break;
            index[a] = 0;
        }
    }
}

struct value value_permuted(const struct value *v, const int *perm)
{
    struct value out = *v;
    for (int a = 0; a < v->rank; a++) {
        out.dim[a] = v->dim[perm[a]];
        out.stride[a] = v->stride[perm[a]];
    }
    return out;
}

struct value value_broadcast(const struct value *v, int rank, const int64_t *dim)
{
    struct value out = *v;
    set_shape(&out, rank, dim);
    for (int a = 0; a < rank; a++) {
        int from = a - rank + v->rank;
        out.stride[a] = from >= 0 && v->dim[from] != 1 ? v->stride[from] : 0;
    }
    return out;
}

static struct value sliced(const struct node *n, const struct value *v)
{
    struct value out = *v;
    for (int a = 0; a < v->rank; a++) {
        out.base += n->dim[a] > 0 ? n->attr.start[a] * v->stride[a] : 0;
        out.dim[a] = n->dim[a];
        out.stride[a] = n->attr.step[a] * v->stride[a];
    }
    return out;
}

static bool reshape(const struct node *n, const struct value *v, struct value *out)
{
    if (is_contiguous(v)) {
        *out = *v;
        set_shape(out, n->rank, n->dim);
        out->block->users++;
        return true;
    }
    if (!value_new(out, v->rank, v->dim))
        return false;
    copy_elements(v, out);
    set_shape(out, n->rank, n->dim);
    return true;
}

static bool pad(const struct node *n, const struct value *v, struct value *out)
{
    if (!value_new(out, n->rank, n->dim))
        return false;
    union element fill = {.real = n->attr.fill};
    if (dtype_info[n->dtype].class != CLASS_float)
        fill.integer = (int64_t)n->attr.fill;
    int64_t numel = value_numel(out);
    for (int64_t i = 0; i < numel; i++)
        out->block->data[i] = fill;
    struct value middle = *out;
    for (int a = 0; a < n->rank; a++) {
        middle.base += n->attr.before[a] * out->stride[a];
        middle.dim[a] = v->dim[a];
    }
    copy_elements(v, &middle);
    return true;
}

static bool concat(const struct node *n, const struct value *const *in, struct value *out)
{
    if (!value_new(out, n->rank, n->dim))
        return false;
    struct value part = *out;
    for (int i = 0; i < n->n_in; i++) {
        part.dim[n->attr.axis] = in[i]->dim[n->attr.axis];
        copy_elements(in[i], &part);
        part.base += part.dim[n->attr.axis] * part.stride[n->attr.axis];
    }
    return true;
}

bool move(const struct node *n, const struct value *const *in, struct value *out)
{
    switch ((int)n->op) {
    case OP_reshape:
        return reshape(n, in[0], out);
    case OP_pad:
        return pad(n, in[0], out);
    case OP_concat:
        return concat(n, in, out);
    case OP_permute:
        *out = value_permuted(in[0], n->attr.perm);
        break;
    case OP_broadcast:
        *out = value_broadcast(in[0], n->rank, n->dim);
        break;
    case OP_slice:
        *out = sliced(n, in[0]);
        break;
    }
    out->block->users++;
    return true;
}
