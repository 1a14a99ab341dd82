// index_domain.c: what indices mean to a kernel: lanes of a vector, coordinates of a shape, source
// text.

#include "gen/index.h"

static int64_t extent_of(const struct index *x, int variable)
{
    if (!(x->variables & 1u << variable))
        return 1;
    if (x->kind == INDEX_variable)
        return x->high + 1;
    if (x->kind != INDEX_sum)
        return extent_of(x->of, variable);
    int64_t extent = 1;
    for (int i = 0; i < x->n_terms; i++) {
        int64_t e = extent_of(x->terms[i].atom, variable);
        extent = e > extent ? e : extent;
    }
    return extent;
}

// The coefficient of an atom in a canonical expression.
static int64_t coefficient_of(const struct index *x, const struct index *atom)
{
    if (x == atom)
        return 1;
    for (int i = 0; x->kind == INDEX_sum && i < x->n_terms; i++)
        if (x->terms[i].atom == atom)
            return x->terms[i].coefficient;
    return 0;
}

// The largest power of two up to 16 that divides x, whatever its variables are.
static int common_multiple(const struct index *x)
{
    int64_t bits = x->kind == INDEX_sum ? x->constant | 16 : 1;
    for (int i = 0; x->kind == INDEX_sum && i < x->n_terms; i++)
        bits |= x->terms[i].coefficient;
    return (int)(bits & -bits);
}

bool index_lanes(struct index_pool *p, const struct index *x, int variable, int lanes,
                 int64_t *stride, int *base_multiple)
{
    enum { VECTOR = 30, LANE = 31 };
    int64_t n_vectors = (extent_of(x, variable) + lanes - 1) / lanes;
    const struct index *lane = index_variable(p, LANE, lanes, "lane");
    const struct index *vector = index_variable(p, VECTOR, n_vectors, "vector");
    const struct index *place = index_add(p, index_scale(p, vector, lanes), lane);
    const struct index *y = index_substitute(p, x, variable, place);
    *stride = coefficient_of(y, lane);
    const struct index *base = index_add(p, y, index_scale(p, lane, -*stride));
    *base_multiple = common_multiple(base);
    return !(base->variables & 1u << LANE);
}

bool index_side_by_side(struct index_pool *p, const struct index *x, int variable, int lanes)
{
    int64_t stride;
    int multiple;
    return lanes > 1 && index_lanes(p, x, variable, lanes, &stride, &multiple) && stride == 1 &&
           multiple % lanes == 0;
}

const struct index *index_linear(struct index_pool *p, int rank, const int64_t *dim,
                                 const struct index *const *at)
{
    const struct index *linear = index_constant(p, 0);
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        linear = index_add(p, linear, index_scale(p, at[d], stride));
        stride *= dim[d] > 0 ? dim[d] : 1;
    }
    return linear;
}

void index_coordinates(struct index_pool *p, int rank, const int64_t *dim,
                       const struct index *linear, const struct index **at)
{
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        int64_t size = dim[d] > 0 ? dim[d] : 1;
        at[d] = index_mod(p, index_div(p, linear, stride), size);
        stride *= size;
    }
}

static void print_constant(const struct index_style *style, int64_t value, FILE *out)
{
    if (value >= 0 && value <= 1)
        fprintf(out, "%d", (int)value);
    else
        fputs(style->constant(style->user, value), out);
}

static void print_within(const struct index *x, const struct index_style *style, FILE *out)
{
    struct index_style closed = *style;
    closed.open = false;
    index_print(x, &closed, out);
}

static void print_atom(const struct index *x, const struct index_style *style, FILE *out)
{
    if (x->kind == INDEX_variable) {
        fputs(x->name, out);
        return;
    }
    fputc('(', out);
    print_within(x->of, style, out);
    fputs(x->kind == INDEX_div ? " / " : " % ", out);
    print_constant(style, x->by, out);
    fputc(')', out);
}

void index_print(const struct index *x, const struct index_style *style, FILE *out)
{
    if (x->kind != INDEX_sum) {
        print_atom(x, style, out);
        return;
    }
    if (!x->n_terms) {
        if (x->constant < 0)
            fputc('-', out);
        print_constant(style, x->constant < 0 ? -x->constant : x->constant, out);
        return;
    }
    bool several = !style->open && (x->n_terms > 1 || x->constant);
    fputs(several ? "(" : "", out);
    for (int i = 0; i < x->n_terms; i++) {
        int64_t c = x->terms[i].coefficient, size = c < 0 ? -c : c;
        fputs(i ? (c < 0 ? " - " : " + ") : (c < 0 ? "0 - " : ""), out);
        print_atom(x->terms[i].atom, style, out);
        if (size != 1) {
            fputs(" * ", out);
            print_constant(style, size, out);
        }
    }
    if (x->constant) {
        fputs(x->constant < 0 ? " - " : " + ", out);
        print_constant(style, x->constant < 0 ? -x->constant : x->constant, out);
    }
    fputs(several ? ")" : "", out);
}
