// tolerance.c: graph and output to how far a right kernel's values may be from the exact ones.
//
// A rounding analysis in one pass over the graph.  Each node has an error |got - exact| <= absolute
// + (relative + biased) * |exact|; an op adds its own rounding to what its inputs bring along. Only
// shapes and dtypes are known here, so inputs are taken to be of order 1 and of both signs: a sum
// of n terms is then of size sqrt(n), a dot of k products of size sqrt(k), and its error does not
// shrink with the result: it is absolute.  biased is what it is relative to the result if the terms
// had one sign after all; it is passed on, but not turned into anything absolute again.  Where
// values cannot cancel (exp, abs, and sums of those) errors stay relative, so that small
// probabilities are still checked to a few units in the last place.
//
//   elementwise       1 ulp of f32 for + - * / and their kind, 4 for exp and its kind, 8 for pow
//   sum of n          8 + 2 log2(n): pairwise, or better
//   dot of k          8 + sqrt(k)
//   cast, store       1 ulp of f16 or bf16: the reference may round a near tie the other way; and
//                     any value of these dtypes may be stored on its way from kernel to kernel
//   underflow         what vanishes on its way is half a least subnormal, times what it is
//                     multiplied by: an argument of exp, 2^7 at most where exp is not 0
//
// Whatever a discontinuous op yields (round, a comparison, argmax) is expected to the last bit:
// eval.c sees to it that its input is the same in a kernel.

#include "gen/gen.h"
#include <math.h>
#include <stdlib.h>

struct error {
    double absolute, relative, biased;
    double size; // of a typical value; of a bounded one the largest
    bool nonnegative, bounded, constant;
};

static const double LARGEST_SIZE = 0x1p100; // keeps chains of products finite
static const double PEAK = 4;               // the largest of many values, in typical ones

static double ulp(enum dtype dtype) // of 1, where the dtype is stored
{
    return ldexp(1, 1 - dtype_info[dtype].mantissa);
}

static double ulp_of_arithmetic(enum dtype dtype)
{
    return dtype == DT_f64 ? ulp(DT_f64) : ulp(DT_f32);
}

static bool is_narrow(enum dtype dtype)
{
    return dtype == DT_f16 || dtype == DT_bf16;
}

static double peak(const struct error *x)
{
    return x->bounded ? x->size : PEAK * x->size;
}

// How far a value may be off, as an absolute error.
static double moved(const struct error *x)
{
    return fmax(x->absolute, x->relative * peak(x));
}

static struct error leaf_error(const struct node *n)
{
    struct error e = {.size = 1};
    double value;
    switch ((int)n->op) {
    case OP_constant:
        value = dtype_info[n->dtype].class == CLASS_float ? n->attr.value : (double)n->attr.integer;
        e.constant = e.bounded = true;
        e.nonnegative = value >= 0;
        e.size = isfinite(value) ? fabs(value) : 1;
        return e;
    case OP_iota:
        e.size = (double)n->dim[n->attr.axis];
        e.nonnegative = true;
        return e;
    }
    e.nonnegative = n->dtype == DT_u8 || n->dtype == DT_bool;
    if (n->dtype == DT_u8 || n->dtype == DT_i8)
        e.size = 128;
    return e;
}

static struct error sum_error(struct error x, struct error y)
{
    struct error e = {.absolute = x.absolute + y.absolute,
                      .relative = fmax(x.relative, y.relative),
                      .biased = fmax(x.biased, y.biased),
                      .size = fmax(x.size, y.size),
                      .nonnegative = x.nonnegative && y.nonnegative,
                      .bounded = x.bounded && y.bounded};
    if (e.bounded)
        e.size = x.size + y.size;
    if (!e.nonnegative)
        e.absolute = moved(&x) + moved(&y);
    return e;
}

static struct error product_error(struct error x, struct error y, bool is_square)
{
    return (struct error){.absolute = x.absolute * peak(&y) + y.absolute * peak(&x),
                          .relative = x.relative + y.relative,
                          .biased = x.biased + y.biased,
                          .size = x.size * y.size,
                          .nonnegative = is_square || (x.nonnegative && y.nonnegative),
                          .bounded = x.bounded && y.bounded};
}

static struct error quotient_error(struct error x, struct error y)
{
    double size = y.size > 0 ? y.size : 1;
    return (struct error){.absolute = x.absolute / size,
                          .relative = x.relative + y.relative + y.absolute / size,
                          .biased = x.biased + y.biased,
                          .size = x.size / size,
                          .nonnegative = x.nonnegative && y.nonnegative,
                          .bounded = x.bounded && y.constant};
}

// One of the two is passed on.  A constant one is a bound or a mask and says nothing about the
// size.
static struct error choice_error(struct error x, struct error y)
{
    return (struct error){.absolute = fmax(x.absolute, y.absolute),
                          .relative = fmax(x.relative, y.relative),
                          .biased = fmax(x.biased, y.biased),
                          .size = x.constant   ? y.size
                                  : y.constant ? x.size
                                               : fmax(x.size, y.size),
                          .nonnegative = x.nonnegative && y.nonnegative,
                          .bounded = x.bounded && y.bounded,
                          .constant = x.constant && y.constant};
}

static struct error power_error(struct error x, struct error y)
{
    double exponent = y.constant ? y.size : PEAK, size = x.size > 0 ? x.size : 1;
    return (struct error){.relative =
                              exponent * (x.relative + x.absolute / size) + y.relative + y.absolute,
                          .biased = exponent * x.biased,
                          .size = y.constant && y.nonnegative ? pow(size, exponent) : 1,
                          .nonnegative = x.nonnegative || (y.constant && fmod(exponent, 2) == 0)};
}

// f(x) from x: how the error of the argument shows, before the op's own rounding.
static struct error unary_error(enum op op, struct error x)
{
    struct error e = x;
    e.constant = false;
    switch ((int)op) {
    case OP_abs:
        e.nonnegative = true;
        return e;
    case OP_neg:
        e.nonnegative = false;
        return e;
    case OP_sin:
    case OP_tanh:
    case OP_erf:
    case OP_atan: // flat, or a matter of chance, where x is large: errors show where it is of order
                  // 1
        e.absolute /= fmax(x.size, 1);
        e.size = fmin(x.size, 1);
        e.bounded = true;
        return e;
    case OP_erfc:
    case OP_cos:
        return (struct error){.absolute = moved(&x) / fmax(x.size, 1),
                              .size = 1,
                              .nonnegative = op == OP_erfc,
                              .bounded = true};
    case OP_exp:
    case OP_exp2:
    case OP_cosh:
        return (struct error){.relative = moved(&x), .size = 1, .nonnegative = true};
    case OP_log:
    case OP_log2:
        return (struct error){.absolute = 1.5 * (x.relative + x.absolute), .size = 1};
    case OP_sqrt:
        e.size = sqrt(x.size);
        e.nonnegative = true;
        return e;
    case OP_rsqrt:
        e.size = sqrt(x.size);
        return quotient_error((struct error){.size = 1, .nonnegative = true}, e);
    case OP_expm1:
    case OP_tan:
    case OP_sinh:
        e.absolute = PEAK * moved(&x);
        return e;
    }
    return e;
}

static double own_ulps(enum op op)
{
    switch ((int)op) {
    case OP_neg:
    case OP_abs:
    case OP_cast:
    case OP_minimum:
    case OP_maximum:
    case OP_where:
        return 0;
    case OP_pow:
        return 8;
    }
    return op_info[op].cost > 8 && op != OP_div ? 4 : 1;
}

static bool is_exact(const struct node *n) // whatever its inputs
{
    switch ((int)n->op) {
    case OP_sign:
    case OP_floor:
    case OP_ceil:
    case OP_round:
    case OP_trunc:
    case OP_mod:
        return true;
    }
    return dtype_info[n->dtype].class != CLASS_float;
}

static struct error elementwise_error(const struct node *n, const struct error *known)
{
    struct error in[3] = {{.size = 0}}, e;
    for (int i = 0; i < n->n_in; i++)
        in[i] = known[n->in[i]->id];
    switch ((int)n->op) {
    case OP_add:
        e = sum_error(in[0], in[1]);
        break;
    case OP_sub:
        in[1].nonnegative = false;
        e = sum_error(in[0], in[1]);
        break;
    case OP_mul:
        e = product_error(in[0], in[1], n->in[0] == n->in[1]);
        break;
    case OP_fma:
        e = sum_error(product_error(in[0], in[1], n->in[0] == n->in[1]), in[2]);
        break;
    case OP_div:
        e = quotient_error(in[0], in[1]);
        break;
    case OP_pow:
        e = power_error(in[0], in[1]);
        break;
    case OP_minimum:
        e = choice_error(in[0], in[1]);
        break;
    case OP_maximum:
        e = choice_error(in[0], in[1]);
        e.nonnegative = in[0].nonnegative || in[1].nonnegative;
        break;
    case OP_where:
        e = choice_error(in[1], in[2]);
        break;
    case OP_cast:
        e = in[0];
        if (n->dtype != n->in[0]->dtype && dtype_info[n->dtype].class == CLASS_float)
            e.relative += e.constant ? 0 : ulp(n->dtype);
        break;
    default:
        e = unary_error(n->op, in[0]);
    }
    e.relative += own_ulps(n->op) * ulp_of_arithmetic(n->dtype);
    return e;
}

static double reduced_length(const struct node *n)
{
    double length = 1;
    for (int a = 0; a < n->in[0]->rank; a++)
        if (n->attr.axes >> a & 1)
            length *= (double)n->in[0]->dim[a];
    return fmax(length, 1);
}

// n terms of typical size and error, of both signs: nothing is relative to what is left of them.
static struct error mixed_error(double n, double absolute, double relative, double biased,
                                double size)
{
    return (struct error){.absolute = (absolute + relative * size) * sqrt(n),
                          .biased = relative + biased,
                          .size = size * sqrt(n)};
}

static struct error reduction_error(const struct node *n, struct error x)
{
    double length = reduced_length(n), u = ulp_of_arithmetic(n->dtype);
    double relative = x.relative + u * (8 + 2 * log2(length));
    x.constant = false;
    switch ((int)n->op) {
    case OP_prod:
        return (struct error){.relative = length * (x.relative + x.absolute + u),
                              .biased = length * x.biased,
                              .size = 1,
                              .nonnegative = x.nonnegative};
    case OP_sum:
        if (!x.nonnegative)
            return mixed_error(length, x.absolute, relative, x.biased, x.size);
        x.absolute *= length;
        x.relative = relative;
        x.size *= length;
    }
    return x;
}

static struct error dot_error(const struct node *n, struct error x, struct error y)
{
    double k = fmax((double)n->in[0]->dim[n->in[0]->rank - 1], 1);
    double relative = x.relative + y.relative + ulp_of_arithmetic(n->dtype) * (8 + sqrt(k));
    return mixed_error(k, x.absolute * y.size + y.absolute * x.size, relative, x.biased + y.biased,
                       x.size * y.size);
}

static struct error movement_error(const struct node *n, const struct error *known)
{
    struct error e = known[n->in[0]->id];
    for (int i = 1; i < n->n_in; i++)
        e = choice_error(e, known[n->in[i]->id]);
    if (n->op == OP_pad && !(n->attr.fill >= 0))
        e.nonnegative = false;
    return e;
}

static struct error node_error(const struct node *n, const struct error *known)
{
    struct error e = {.size = 1};
    switch (op_info[n->op].kind) {
    case KIND_leaf:
        e = leaf_error(n);
        break;
    case KIND_elementwise:
        e = elementwise_error(n, known);
        break;
    case KIND_reduction:
        e = reduction_error(n, known[n->in[0]->id]);
        break;
    case KIND_contraction:
        e = dot_error(n, known[n->in[0]->id], known[n->in[1]->id]);
        break;
    case KIND_movement:
        e = movement_error(n, known);
        break;
    }
    if (is_exact(n))
        e.absolute = e.relative = e.biased = 0;
    e.size = fmin(e.size, LARGEST_SIZE);
    return e;
}

// A narrow value may pass through memory on its way to another kernel.
static bool may_be_stored(const struct node *n)
{
    enum op_kind kind = op_info[n->op].kind;
    return is_narrow(n->dtype) && kind != KIND_leaf && kind != KIND_movement && !is_exact(n);
}

// Without memory for the analysis nothing is tolerated.
struct tolerance tolerance(const struct graph *graph, const struct node *output)
{
    struct tolerance t = {0};
    struct error *known = calloc((size_t)output->id + 1, sizeof *known);
    if (!known || dtype_info[output->dtype].class != CLASS_float) {
        free(known);
        return t;
    }
    for (int i = 0; i <= output->id; i++) {
        known[i] = node_error(graph->nodes[i], known);
        if (i < output->id && may_be_stored(graph->nodes[i]))
            known[i].relative += ulp(graph->nodes[i]->dtype);
    }
    int least_exponent = output->dtype == DT_f16 ? -24 : output->dtype == DT_bf16 ? -133 : -142;
    t.absolute =
        known[output->id].absolute + ldexp(2, output->dtype == DT_f64 ? -1073 : least_exponent);
    t.relative = known[output->id].relative + known[output->id].biased + ulp(output->dtype);
    free(known);
    return t;
}
