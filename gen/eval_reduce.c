// eval_reduce.c: reductions and matmul of the reference, in f64 or wrapping 64-bit integers.
//
// Sums carry their rounding error along (two-sum), so that the oracle is right to the last bit or
// two whatever the length.  max and min pass NaN on; for argmax and argmin a NaN is the largest and
// the smallest, and the first one wins.

#include "gen/eval.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fold {
    double real, carry;
    int64_t integer;
    int64_t index, seen; // argmax: where the best one is; elements so far
};

static void add_real(struct fold *f, const double *x, int64_t n)
{
    double sum = f->real, carry = f->carry;
    for (int64_t i = 0; i < n; i++) {
        double next = sum + x[i], part = next - sum;
        carry += (sum - (next - part)) + (x[i] - part);
        sum = next;
    }
    f->real = sum;
    f->carry = carry;
}

static void find_real(struct fold *f, const double *x, int64_t n, double sign) // sign -1: smallest
{
    for (int64_t i = 0; i < n; i++)
        if (f->seen + i == 0 || (!isnan(f->real) && !(sign * x[i] <= sign * f->real))) {
            f->real = x[i];
            f->index = f->seen + i;
        }
}

static void find_integer(struct fold *f, const int64_t *x, int64_t n, bool largest)
{
    for (int64_t i = 0; i < n; i++)
        if (f->seen + i == 0 || (largest ? x[i] > f->integer : x[i] < f->integer)) {
            f->integer = x[i];
            f->index = f->seen + i;
        }
}

static void fold_real(enum op op, struct fold *f, const double *x, int64_t n)
{
    int64_t i = 0;
    switch ((int)op) {
    case OP_sum:
        add_real(f, x, n);
        break;
    case OP_prod:
        for (; i < n; i++)
            f->real *= x[i];
        break;
    case OP_max:
        for (f->real = f->seen ? f->real : x[i]; i < n; i++)
            f->real = real_maximum(f->real, x[i]);
        break;
    case OP_min:
        for (f->real = f->seen ? f->real : x[i]; i < n; i++)
            f->real = real_minimum(f->real, x[i]);
        break;
    case OP_argmax:
    case OP_argmin:
        find_real(f, x, n, op == OP_argmax ? 1 : -1);
        break;
    }
    f->seen += n;
}

static void fold_integer(enum op op, struct fold *f, const int64_t *x, int64_t n)
{
    uint64_t total = (uint64_t)f->integer;
    switch ((int)op) {
    case OP_sum:
        for (int64_t i = 0; i < n; i++)
            total += (uint64_t)x[i];
        f->integer = (int64_t)total;
        break;
    case OP_prod:
        for (int64_t i = 0; i < n; i++)
            total *= (uint64_t)x[i];
        f->integer = (int64_t)total;
        break;
    case OP_max:
    case OP_argmax:
        find_integer(f, x, n, true);
        break;
    case OP_min:
    case OP_argmin:
        find_integer(f, x, n, false);
        break;
    }
    f->seen += n;
}

static union element fold_result(const struct node *n, bool is_real, const struct fold *f)
{
    union element e;
    if (op_info[n->op].types == TYPES_index)
        e.integer = f->index;
    else if (!is_real)
        e.integer = f->integer;
    else // an infinite sum has no error to carry
        e.real = n->op == OP_sum && isfinite(f->real) && isfinite(f->carry) ? f->real + f->carry
                                                                            : f->real;
    return e;
}

// The reduced axes last, in their order: one result is then a run of elements.
static int64_t bring_axes_last(const struct node *n, const struct value *x, struct value *rows)
{
    int perm[MAX_RANK], count = 0;
    int64_t length = 1;
    for (int a = 0; a < x->rank; a++)
        if (!(n->attr.axes >> a & 1))
            perm[count++] = a;
    for (int a = 0; a < x->rank; a++)
        if (n->attr.axes >> a & 1) {
            perm[count++] = a;
            length *= x->dim[a];
        }
    *rows = value_permuted(x, perm);
    return length;
}

bool reduce(const struct node *n, const struct value *x, struct value *out)
{
    bool is_real = dtype_info[n->in[0]->dtype].class == CLASS_float;
    struct value rows;
    int64_t length = bring_axes_last(n, x, &rows);
    if (!value_new(out, n->rank, n->dim))
        return false;
    int64_t n_rows = value_numel(out);
    union element room[CHUNK];
    for (int64_t row = 0; row < n_rows; row++) {
        struct fold f = {.real = n->op == OP_prod, .integer = n->op == OP_prod};
        for (int64_t i = 0; i < length; i += CHUNK) {
            int64_t count = length - i < CHUNK ? length - i : CHUNK;
            const union element *run = elements(&rows, row * length + i, count, room);
            if (is_real)
                fold_real(n->op, &f, &run->real, count);
            else
                fold_integer(n->op, &f, &run->integer, count);
        }
        out->block->data[row] = fold_result(n, is_real, &f);
    }
    return true;
}

enum { BLOCK_K = 64, BLOCK_N = 256 }; // a block of b stays in the cache for all rows of a

// row[0..n) += the sum of four rows of b, each times its factor: one pass over row for four
// products.
static void add_four_rows(int64_t n, const double *factor, const double *b, int64_t stride,
                          double *row)
{
    const double *b1 = b + stride, *b2 = b1 + stride, *b3 = b2 + stride;
    double f0 = factor[0], f1 = factor[1], f2 = factor[2], f3 = factor[3];
    for (int64_t j = 0; j < n; j++)
        row[j] += (f0 * b[j] + f1 * b1[j]) + (f2 * b2[j] + f3 * b3[j]);
}

static void add_product_real(int64_t m, int64_t k, int64_t n, const double *a, const double *b,
                             double *out)
{
    for (int64_t p0 = 0; p0 < k; p0 += BLOCK_K)
        for (int64_t j0 = 0; j0 < n; j0 += BLOCK_N) {
            int64_t p1 = p0 + BLOCK_K < k ? p0 + BLOCK_K : k;
            int64_t width = j0 + BLOCK_N < n ? BLOCK_N : n - j0;
            for (int64_t i = 0; i < m; i++) {
                double *row = out + i * n + j0;
                int64_t p = p0;
                for (; p + 4 <= p1; p += 4)
                    add_four_rows(width, a + i * k + p, b + p * n + j0, n, row);
                for (; p < p1; p++)
                    for (int64_t j = 0; j < width; j++)
                        row[j] += a[i * k + p] * b[p * n + j0 + j];
            }
        }
}

static void add_product_integer(int64_t m, int64_t k, int64_t n, const int64_t *a, const int64_t *b,
                                int64_t *out)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++)
                out[i * n + j] = (int64_t)((uint64_t)out[i * n + j] +
                                           (uint64_t)a[i * k + p] * (uint64_t)b[p * n + j]);
}

// One matrix of a batch, packed; packed again only where the batch moves on.
struct matrix {
    struct value batch; // broadcast to the result's batch dimensions
    const union element *base, *packed;
    struct value room;
};

static bool matrix_open(struct matrix *m, const struct value *v, const struct node *n)
{
    int64_t dim[MAX_RANK], rows = v->dim[v->rank - 2], columns = v->dim[v->rank - 1];
    for (int a = 0; a < n->rank - 2; a++)
        dim[a] = n->dim[a];
    dim[n->rank - 2] = rows;
    dim[n->rank - 1] = columns;
    *m = (struct matrix){.batch = value_broadcast(v, n->rank, dim)};
    return value_new(&m->room, 2, &dim[n->rank - 2]);
}

static const union element *matrix_at(struct matrix *m, const int64_t *index)
{
    struct value one = m->batch;
    for (int a = 0; a < one.rank - 2; a++)
        one.base += index[a] * one.stride[a];
    if (one.base == m->base)
        return m->packed;
    m->base = one.base;
    one.dim[0] = one.dim[one.rank - 2];
    one.stride[0] = one.stride[one.rank - 2];
    one.dim[1] = one.dim[one.rank - 1];
    one.stride[1] = one.stride[one.rank - 1];
    one.rank = 2;
    if (is_contiguous(&one))
        return m->packed = one.base;
    copy_elements(&one, &m->room);
    return m->packed = m->room.base;
}

static void multiply_batches(const struct node *node, struct matrix *a, struct matrix *b,
                             union element *out)
{
    int64_t m = node->dim[node->rank - 2], n = node->dim[node->rank - 1];
    int64_t k = a->batch.dim[node->rank - 1], index[MAX_RANK] = {0}, batches = 1;
    for (int axis = 0; axis < node->rank - 2; axis++)
        batches *= node->dim[axis];
    for (int64_t batch = 0; batch < batches; batch++, out += m * n) {
        const union element *left = matrix_at(a, index), *right = matrix_at(b, index);
        if (dtype_info[node->dtype].class == CLASS_float)
            add_product_real(m, k, n, &left->real, &right->real, &out->real);
        else
            add_product_integer(m, k, n, &left->integer, &right->integer, &out->integer);
        for (int axis = node->rank - 3; axis >= 0; axis--) {
            if (++index[axis] < node->dim[axis])
                break;
            index[axis] = 0;
        }
    }
}

bool contract(const struct node *n, const struct value *a, const struct value *b, struct value *out)
{
    struct matrix left = {.base = NULL}, right = {.base = NULL};
    bool done =
        matrix_open(&left, a, n) && matrix_open(&right, b, n) && value_new(out, n->rank, n->dim);
    if (done) {
        memset(out->block->data, 0, (size_t)value_numel(out) * sizeof out->block->data[0]);
        multiply_batches(n, &left, &right, out->block->data);
    }
    value_release(&left.room);
    value_release(&right.room);
    return done;
}
