// einsum.c: contractions: matmul with NumPy's rules for vectors, and einsum by permute, reshape and
// matmul.

#include "gen/build.h"
#include <inttypes.h>
#include <string.h>

static bool inner_sizes_agree(struct build *b, const struct call *c, const struct value *in,
                              struct node *const *nodes)
{
    const struct node *x = nodes[0], *y = nodes[1];
    int64_t k = x->dim[x->rank - 1], other = y->dim[y->rank == 1 ? 0 : y->rank - 2];
    int rank;
    int64_t dim[MAX_RANK];
    struct clash clash;
    const char *texts[2] = {node_text(b->g, x), node_text(b->g, y)};
    if (k != other)
        fail_call(b, c, "%s is %s and %s is %s: the inner sizes %" PRId64 " and %" PRId64 " differ",
                  label(b, &in[0]), texts[0], label(b, &in[1]), texts[1], k, other);
    else if (x->rank > 2 && y->rank > 2 && !broadcast_shape(2, nodes, 2, &rank, dim, &clash))
        fail_call(b, c, "%s is %s and %s is %s: the batch dimensions do not broadcast",
                  label(b, &in[0]), texts[0], label(b, &in[1]), texts[1]);
    else
        return true;
    note_declared(b, in[1].symbol ? &in[1] : &in[0]);
    return false;
}

static struct value matmul_named(struct build *b, const struct call *c, const struct value *in)
{
    struct node *nodes[2];
    if (!as_nodes(b, 2, in, nodes))
        return value_failed();
    struct node *x = nodes[0], *y = nodes[1];
    if (x->rank == 0 || y->rank == 0)
        return fail_call(b, c, "%s is %s, and a contraction takes vectors or matrices",
                         label(b, &in[x->rank != 0]), node_text(b->g, nodes[x->rank != 0]));
    if (!inner_sizes_agree(b, c, in, nodes))
        return value_failed();
    int64_t row[2] = {1, x->dim[x->rank - 1]}, column[2] = {y->dim[0], 1};
    struct node *left = x->rank == 1 ? reshape_to(b, x, 2, row) : x;
    struct node *right = y->rank == 1 ? reshape_to(b, y, 2, column) : y;
    struct node *out = left && right ? graph_matmul(b->g, b->graph, left, right) : NULL;
    if (!out)
        return value_failed();
    int64_t dim[MAX_RANK];
    int rank = 0;
    for (int a = 0; a < out->rank; a++) // a vector's axis of size 1 goes again
        if (!(a == out->rank - 2 && x->rank == 1) && !(a == out->rank - 1 && y->rank == 1))
            dim[rank++] = out->dim[a];
    return value_node(reshape_to(b, out, rank, dim));
}

struct value matmul(struct build *b, const struct value *x, const struct value *y)
{
    struct value in[2] = {*x, *y};
    return matmul_named(b, NULL, in);
}

struct value build_matmul(struct build *b, const struct call *c)
{
    return matmul_named(b, c, c->args);
}

enum { MAX_OPERANDS = 2, LETTERS = 128 };

struct equation {
    int n;                               // operands
    char in[MAX_OPERANDS][MAX_RANK + 1]; // a letter an axis
    char out[MAX_RANK + 1];
    int64_t size[LETTERS];
    bool sized[LETTERS];
};

static bool has(const char *letters, char letter)
{
    return letter && strchr(letters, letter);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Letters up to a character that is none; blanks are passed over.
static bool read_letters(struct build *b, const struct call *c, const char **at, char *letters)
{
    int n = 0;
    for (; is_letter(**at) || **at == ' '; ++*at) {
        if (**at == ' ')
            continue;
        if (n == MAX_RANK) {
            fail_call(b, c, "more than %d letters for one tensor", MAX_RANK);
            return false;
        }
        if (has(letters, **at)) {
            fail_call(b, c, "`%c` stands twice for one tensor: diagonals are not taken", **at);
            return false;
        }
        letters[n++] = **at;
    }
    return true;
}

// Without "->" the result has, in alphabetical order, the letters that stand once.
static bool implicit_result(struct build *b, const struct call *c, struct equation *q)
{
    int n = 0;
    for (int letter = 'A'; letter <= 'z'; letter++) {
        int count = has(q->in[0], (char)letter) + (q->n == 2 && has(q->in[1], (char)letter));
        if (count != 1)
            continue;
        if (n == MAX_RANK) {
            fail_call(b, c, "the result has more than %d dimensions", MAX_RANK);
            return false;
        }
        q->out[n++] = (char)letter;
    }
    return true;
}

static bool read_equation(struct build *b, const struct call *c, const char *text,
                          struct equation *q)
{
    const char *at = text;
    do {
        if (q->n == MAX_OPERANDS) {
            fail_call(b, c, "takes one or two tensors");
            return false;
        }
        if (!read_letters(b, c, &at, q->in[q->n++]))
            return false;
    } while (*at == ',' && at++);
    if (at[0] == '-' && at[1] == '>') {
        at += 2;
        if (!read_letters(b, c, &at, q->out))
            return false;
    } else if (!*at) {
        return implicit_result(b, c, q);
    }
    if (!*at)
        return true;
    fail_call(b, c, "`%c` has no meaning in \"%s\"%s", *at, text,
              *at == '.' ? ": write the batch dimensions as letters" : "");
    return false;
}

static bool match_sizes(struct build *b, const struct call *c, struct equation *q,
                        const struct value *operands, struct node **nodes)
{
    for (int i = 0; i < q->n; i++) {
        int n = (int)strlen(q->in[i]);
        if (n != nodes[i]->rank) {
            fail_call(b, c, "\"%s\" has %d letters and %s is %s", q->in[i], n,
                      label(b, &operands[i]), node_text(b->g, nodes[i]));
            return false;
        }
        for (int a = 0; a < n; a++) {
            int letter = q->in[i][a];
            if (q->sized[letter] && q->size[letter] != nodes[i]->dim[a]) {
                fail_call(b, c, "`%c` is %" PRId64 " in %s and %" PRId64 " in %s", letter,
                          q->size[letter], label(b, &operands[0]), nodes[i]->dim[a],
                          label(b, &operands[i]));
                note_declared(b, &operands[i]);
                return false;
            }
            q->sized[letter] = true;
            q->size[letter] = nodes[i]->dim[a];
        }
    }
    for (const char *letter = q->out; *letter; letter++)
        if (!q->sized[(int)*letter]) {
            fail_call(b, c, "`%c` of the result is in no tensor", *letter);
            return false;
        }
    return true;
}

// Sums over the letters that stand in this operand alone.  `letters` keeps the others.
static struct node *sum_alone(struct build *b, struct node *x, char *letters, const char *other,
                              const char *out)
{
    uint32_t axes = 0;
    int64_t dim[MAX_RANK];
    int rank = 0;
    char kept[MAX_RANK + 1] = {0};
    for (int a = 0; a < x->rank; a++)
        if (!has(other, letters[a]) && !has(out, letters[a])) {
            axes |= 1u << a;
        } else {
            dim[rank] = x->dim[a];
            kept[rank++] = letters[a];
        }
    enum dtype dtype = x->dtype;
    memcpy(letters, kept, sizeof kept);
    if (axes)
        x = graph_reduce(b->g, b->graph, OP_sum, x, axes);
    if (x && x->dtype != dtype)
        x = graph_cast(b->g, b->graph, x, dtype);
    return x ? reshape_to(b, x, rank, dim) : NULL;
}

static struct node *ordered(struct build *b, struct node *x, const char *from, const char *to)
{
    int perm[MAX_RANK];
    for (int a = 0; a < x->rank; a++)
        perm[a] = (int)(strchr(from, to[a]) - from);
    return permute_by(b, x, perm);
}

// Letters of `from` that are (or are not) in `in`, after those that `to` has
static void add_letters(char *to, const char *from, const char *in, bool are)
{
    char *end = to + strlen(to);
    for (; *from; from++)
        if (has(in, *from) == are)
            *end++ = *from;
}

static int64_t product(const struct equation *q, const char *letters)
{
    int64_t p = 1;
    for (; *letters; letters++)
        p *= q->size[(int)*letters];
    return p;
}

static int shape_of(const struct equation *q, const char *letters, int64_t *dim)
{
    int n = 0;
    for (; *letters; letters++)
        dim[n++] = q->size[(int)*letters];
    return n;
}

// [batch, left, sum] and [batch, sum, right] to [batch, left, right].  Nothing to sum: an outer
// product.
static struct node *contract(struct build *b, const struct equation *q, struct node **nodes)
{
    const char *x = q->in[0], *y = q->in[1];
    char batch[MAX_RANK + 1] = {0}, both[MAX_RANK + 1] = {0}, sum[MAX_RANK + 1] = {0};
    char left[MAX_RANK + 1] = {0}, right[MAX_RANK + 1] = {0};
    char order[2][3 * MAX_RANK + 1] = {{0}}, result[3 * MAX_RANK + 1] = {0};
    add_letters(both, x, y, true);
    add_letters(batch, both, q->out, true);
    add_letters(sum, both, q->out, false);
    add_letters(left, x, y, false);
    add_letters(right, y, x, false);
    snprintf(order[0], sizeof order[0], "%s%s%s", batch, left, sum);
    snprintf(order[1], sizeof order[1], "%s%s%s", batch, sum, right);
    snprintf(result, sizeof result, "%s%s%s", batch, left, right);

    int64_t dim[3 * MAX_RANK];
    int n = shape_of(q, batch, dim);
    if (n + 2 > MAX_RANK) {
        fail(b->g, "einsum: more than %d batch dimensions", MAX_RANK - 2);
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        if (!(nodes[i] = ordered(b, nodes[i], q->in[i], order[i])))
            return NULL;
        dim[n] = product(q, i ? sum : left);
        dim[n + 1] = product(q, i ? right : sum);
        if (!(nodes[i] = reshape_to(b, nodes[i], n + 2, dim)))
            return NULL;
    }
    struct node *out = *sum ? graph_matmul(b->g, b->graph, nodes[0], nodes[1])
                            : graph_elementwise(b->g, b->graph, OP_mul, 2, nodes);
    int rank = shape_of(q, result, dim);
    out = out ? reshape_to(b, out, rank, dim) : NULL;
    return out ? ordered(b, out, result, q->out) : NULL;
}

struct value build_einsum(struct build *b, const struct call *c)
{
    const struct value *text = &c->args[0], *operands = c->args[1].items;
    struct equation q = {0};
    struct node *nodes[MAX_OPERANDS];
    if (text->kind != VALUE_text)
        return fail_call(b, c, "expected an equation such as \"ij,jk->ik\", got %s",
                         value_kind_text(b, text));
    if (!read_equation(b, c, text->text, &q))
        return value_failed();
    if (q.n != c->args[1].n)
        return fail_call(b, c, "\"%s\" names %d tensor%s, got %d", text->text, q.n,
                         q.n > 1 ? "s" : "", c->args[1].n);
    if (!as_nodes(b, q.n, operands, nodes) || !match_sizes(b, c, &q, operands, nodes))
        return value_failed();
    for (int i = 0; i < q.n; i++)
        if (!(nodes[i] = sum_alone(b, nodes[i], q.in[i], q.n == 2 ? q.in[1 - i] : "", q.out)))
            return value_failed();
    return value_node(q.n == 2 ? contract(b, &q, nodes) : ordered(b, nodes[0], q.in[0], q.out));
}
