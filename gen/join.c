// join.c: reductions that need an earlier one's result only as a shift: a sum of exp(g - m) where m
// is the largest g, and a sum of (g - m)**2 where m comes of the sum of g.
//
// Where blocks share a row, each can shift by what it found in its own part, and what it summed is
// moved to the shift of the whole row afterwards:
//
//   sum exp(g - m) = exp(mine - m) * sum exp(g - mine)
//   sum (g - m)**2 = sum (g - mine)**2 + (mine - m) * (2 * sum (g - mine) + n * (mine - m))
//
// so that the blocks tell each other both reductions at once.  This is how online softmax combines
// its parts (Milakov and Gimelshein, 2018), and parts of a variance (Chan, Golub and LeVeque, 1979)
// without need of an exact mean.  A shift by the largest of one's own leaves no sum of exp too
// large or too small for its moving.

#include "gen/kernel.h"

static bool is_op(const struct value *v, enum op op)
{
    return v->kind == VALUE_op && v->node->op == op;
}

static bool is_constant(const struct value *v)
{
    return v->kind == VALUE_constant && v->node->op == OP_constant;
}

// What the reduction of that result takes in, where it is such a reduction of phase 0; else NULL.
static const struct value *reduced_by(const struct nest *nest, const struct value *result,
                                      enum op op)
{
    for (int i = 0; i < nest->n_heavy && result->kind == VALUE_result; i++)
        if (nest->heavy[i] == result->node && nest->heavy[i]->op == op && !nest->heavy_phase[i])
            return nest->heavy_in[2 * i];
    return NULL;
}

static bool is_positive(const struct value *v)
{
    return is_constant(v) && dtype_info[v->dtype].class == CLASS_float && v->node->attr.value > 0;
}

// Which operand of a product with a positive constant, or of a quotient by one, is the other one;
// -1: it is none such.
static int scaled(const struct value *v)
{
    if ((is_op(v, OP_mul) || is_op(v, OP_div)) && is_positive(v->in[1]))
        return 0;
    return is_op(v, OP_mul) && is_positive(v->in[0]) ? 1 : -1;
}

static bool is_wider_cast(const struct value *v)
{
    return is_op(v, OP_cast) && dtype_info[v->dtype].class == CLASS_float &&
           dtype_info[v->in[0]->dtype].bytes < dtype_info[v->dtype].bytes;
}

// The operand of m that grows with it, where that of g stands in the same place of the same
// function; -1: there is none.
static int grown_alike(const struct value *m, const struct value *g)
{
    if (m->kind != VALUE_op || g->kind != VALUE_op || m->node->op != g->node->op ||
        m->dtype != g->dtype)
        return -1;
    if (is_wider_cast(m) && is_wider_cast(g))
        return 0;
    int at = scaled(m);
    return at >= 0 && scaled(g) == at && m->in[1 - at] == g->in[1 - at] ? at : -1;
}

// Whether m is the largest g, or both come of such alike.
static bool is_largest(const struct nest *nest, const struct value *m, const struct value *g)
{
    for (int at; (at = grown_alike(m, g)) >= 0;)
        m = m->in[at], g = g->in[at];
    return reduced_by(nest, m, OP_max) == g;
}

// where(isfinite(m), m, 0) is m, as far as a shift goes.
static const struct value *unguarded(const struct value *m)
{
    bool is_guard = is_op(m, OP_where) && is_op(m->in[0], OP_isfinite) &&
                    m->in[0]->in[0] == m->in[1] && is_constant(m->in[2]) &&
                    m->in[2]->node->attr.value == 0;
    return is_guard ? m->in[1] : m;
}

// Whether m is the sum of g times or over a positive constant.
static bool is_share_of_sum(const struct nest *nest, const struct value *m, const struct value *g)
{
    int at = scaled(m);
    return at >= 0 && reduced_by(nest, m->in[at], OP_sum) == g;
}

// Below positive factors, what is shifted in an exponent.
static const struct value *unscaled(const struct value *v)
{
    for (int at; (at = scaled(v)) >= 0;)
        v = v->in[at];
    return v;
}

struct join join_of(const struct nest *nest, int heavy)
{
    static const struct join none = {JOIN_none, NULL, NULL};
    const struct value *in = nest->heavy_in[2 * heavy];
    enum dtype dtype = nest->heavy[heavy]->dtype;
    if (nest->heavy[heavy]->op != OP_sum || (dtype != DT_f32 && dtype != DT_f64) ||
        in->kind != VALUE_op)
        return none;
    const struct value *shifted = is_op(in, OP_exp) ? unscaled(in->in[0]) : in->in[0];
    if (!is_op(shifted, OP_sub))
        return none;
    const struct value *g = shifted->in[0], *m = shifted->in[1];
    if (is_op(in, OP_exp) && is_largest(nest, unguarded(m), g))
        return (struct join){JOIN_exp, shifted, m};
    if (is_op(in, OP_mul) && in->in[1] == shifted && is_share_of_sum(nest, m, g))
        return (struct join){JOIN_square, shifted, m};
    return none;
}

bool can_join(const struct fusion *f, const struct nest *nest)
{
    bool all = nest->n_phases == 2 && !f->strict;
    for (int i = 0; i < nest->n_heavy && all; i++)
        all = !nest->heavy_phase[i] || join_of(nest, i).kind != JOIN_none;
    return all;
}

// Of the accumulators of both phases.
static int joined_bytes(const struct nest *nest)
{
    int bytes = 0;
    for (int i = 0; i < nest->n_heavy; i++) {
        enum op op = nest->heavy[i]->op;
        bool two = op == OP_argmax || op == OP_argmin || join_of(nest, i).kind == JOIN_square;
        bytes += two ? 16 : 8;
    }
    return bytes;
}

bool join_as(const struct fusion *f, struct scheduled *s, int exchanges)
{
    struct spec *spec = &s->spec;
    if (exchanges != 1 || spec->phases == 1)
        return true;
    spec->exchanges = 1;
    spec->acc_bytes = joined_bytes(s->nest);
    return can_join(f, s->nest);
}
