// patterns.c: the questions that rules ask of a node: is it a number, is it constant along some
// axes, which of a reduction's axes does an operand have.

#include "gen/rewrite.h"
#include <math.h>

bool is_float(const struct node *n)
{
    return dtype_info[n->dtype].class == CLASS_float;
}

bool is_wide(const struct node *n)
{
    return n->dtype == DT_f32 || n->dtype == DT_f64;
}

bool number(const struct node *n, double *value)
{
    while (n->op == OP_broadcast || n->op == OP_reshape || n->op == OP_permute)
        n = n->in[0];
    if (n->op != OP_constant)
        return false;
    *value = is_float(n) ? n->attr.value : (double)n->attr.integer;
    return is_float(n) ||
           (n->attr.integer < INT64_C(1) << 53 && n->attr.integer > -(INT64_C(1) << 53));
}

bool is_number(const struct node *n, double value)
{
    double v;
    return number(n, &v) && v == value && !signbit(v) == !signbit(value);
}

bool power_of_two(enum dtype dtype, double value)
{
    int exponent;
    return isfinite(value) && fabs(frexp(value, &exponent)) == 0.5 && isfinite(1 / value) &&
           constant_value(dtype, 1 / value) == 1 / value;
}

uint32_t operand_axes(const struct node *x, const struct node *n, uint32_t axes, int64_t *count)
{
    uint32_t has = 0;
    int missing = n->rank - x->rank;
    *count = 1;
    for (int a = 0; a < n->rank; a++) {
        if (!(axes >> a & 1))
            continue;
        if (a >= missing && x->dim[a - missing] == n->dim[a])
            has |= 1u << (a - missing);
        else
            *count *= n->dim[a];
    }
    return has;
}

// One value for all that is reduced over `axes` of n.
bool constant_along(const struct node *x, const struct node *n, uint32_t axes)
{
    int missing = n->rank - x->rank;
    for (int a = missing > 0 ? missing : 0; a < n->rank; a++)
        if (axes >> a & 1 && x->dim[a - missing] != 1)
            return false;
    return true;
}

int64_t reduced_count(const struct node *reduction)
{
    int64_t count = 1;
    for (int a = 0; a < reduction->in[0]->rank; a++)
        if (reduction->attr.axes >> a & 1)
            count *= reduction->in[0]->dim[a];
    return count;
}
