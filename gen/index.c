// index.c: canonical integer expressions over a kernel's variables: see index.h for the form.
//
// The rules that keep the form canonical, for floor division by c > 0:
//   (c*q + r) / c = q + r/c, (c*q + r) % c = r % c      where r cannot be negative
//   (g*y + r) / (g*c) = y/c, (g*y + r) % (g*c) = g*(y % c) + r      where 0 <= r < g
//   (x/a) / b = x/(a*b), (x % (a*b)) % b = x % b
//   c*(x/c) + x%c = x      which is what makes reshapes that do nothing disappear
// and whatever the ranges decide.

#include "gen/index.h"
#include <assert.h>
#include <string.h>

struct index_pool {
    struct gen *g;
    const struct index **table; // open addressing, a power of two
    int n, capacity;
};

struct index_pool *index_pool_new(struct gen *g)
{
    struct index_pool *p = arena_new(g, struct index_pool, 1);
    p->g = g;
    p->capacity = 256;
    p->table = arena_new(g, const struct index *, p->capacity);
    return p;
}

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct index *x)
{
    uint64_t hash = mixed(x->kind, (uint64_t)x->constant);
    hash = mixed(hash, (uint64_t)x->variable);
    hash = mixed(hash, (uint64_t)x->by);
    hash = mixed(hash, x->of ? (uint64_t)x->of->id + 1 : 0);
    for (int i = 0; i < x->n_terms; i++)
        hash =
            mixed(mixed(hash, (uint64_t)x->terms[i].atom->id), (uint64_t)x->terms[i].coefficient);
    return hash;
}

static bool same(const struct index *a, const struct index *b)
{
    if (a->kind != b->kind || a->constant != b->constant || a->variable != b->variable ||
        a->by != b->by || a->of != b->of || a->n_terms != b->n_terms)
        return false;
    if (a->kind == INDEX_variable && (a->high != b->high || strcmp(a->name, b->name)))
        return false;
    for (int i = 0; i < a->n_terms; i++)
        if (a->terms[i].atom != b->terms[i].atom ||
            a->terms[i].coefficient != b->terms[i].coefficient)
            return false;
    return true;
}

static void grow(struct index_pool *p)
{
    const struct index **old = p->table;
    int capacity = p->capacity;
    p->capacity *= 2;
    p->table = arena_new(p->g, const struct index *, p->capacity);
    for (int i = 0; i < capacity; i++) {
        if (!old[i])
            continue;
        uint64_t at = hash_of(old[i]);
        while (p->table[at & (uint64_t)(p->capacity - 1)])
            at++;
        p->table[at & (uint64_t)(p->capacity - 1)] = old[i];
    }
}

// The one copy of x, whose id is the order of creation.
static const struct index *interned(struct index_pool *p, const struct index *x)
{
    if (2 * p->n >= p->capacity)
        grow(p);
    uint64_t mask = (uint64_t)(p->capacity - 1), at = hash_of(x);
    for (; p->table[at & mask]; at++)
        if (same(p->table[at & mask], x))
            return p->table[at & mask];
    struct index *copy = arena_new(p->g, struct index, 1);
    *copy = *x;
    copy->id = p->n++;
    if (x->n_terms) {
        copy->terms = arena_new(p->g, struct index_term, x->n_terms);
        memcpy(copy->terms, x->terms, sizeof *x->terms * (size_t)x->n_terms);
    }
    p->table[at & mask] = copy;
    return copy;
}

const struct index *index_constant(struct index_pool *p, int64_t value)
{
    return interned(
        p, &(struct index){.kind = INDEX_sum, .constant = value, .low = value, .high = value});
}

bool index_is_constant(const struct index *x, int64_t *value)
{
    if (x->kind != INDEX_sum || x->n_terms)
        return false;
    if (value)
        *value = x->constant;
    return true;
}

const struct index *index_variable(struct index_pool *p, int variable, int64_t extent,
                                   const char *name)
{
    if (extent <= 1)
        return index_constant(p, 0);
    return interned(p, &(struct index){.kind = INDEX_variable,
                                       .variable = variable,
                                       .name = name,
                                       .high = extent - 1,
                                       .variables = 1u << variable});
}

// A sum under construction: terms sorted by the atom's id, no coefficient 0.
struct sum {
    int64_t constant;
    int n, capacity;
    struct index_term *terms;
};

static void sum_add_atom(struct index_pool *p, struct sum *s, const struct index *atom,
                         int64_t coefficient)
{
    int i = 0;
    while (i < s->n && s->terms[i].atom->id < atom->id)
        i++;
    if (i < s->n && s->terms[i].atom == atom) {
        s->terms[i].coefficient += coefficient;
        if (!s->terms[i].coefficient)
            memmove(s->terms + i, s->terms + i + 1, sizeof *s->terms * (size_t)(--s->n - i));
        return;
    }
    if (s->n == s->capacity) {
        struct index_term *terms =
            arena_new(p->g, struct index_term, s->capacity = 2 * s->capacity + 4);
        if (s->n)
            memcpy(terms, s->terms, sizeof *terms * (size_t)s->n);
        s->terms = terms;
    }
    memmove(s->terms + i + 1, s->terms + i, sizeof *s->terms * (size_t)(s->n++ - i));
    s->terms[i] = (struct index_term){atom, coefficient};
}

static void sum_add(struct index_pool *p, struct sum *s, const struct index *x, int64_t times)
{
    if (!times)
        return;
    if (x->kind != INDEX_sum) {
        sum_add_atom(p, s, x, times);
        return;
    }
    s->constant += times * x->constant;
    for (int i = 0; i < x->n_terms; i++)
        sum_add_atom(p, s, x->terms[i].atom, times * x->terms[i].coefficient);
}

static int position_of(const struct sum *s, const struct index *atom)
{
    for (int i = 0; i < s->n; i++)
        if (s->terms[i].atom == atom)
            return i;
    return -1;
}

// b*c * (x / c) + b * (x % c) -> b * x, once; true when it found such a pair.
static bool rejoin(struct index_pool *p, struct sum *s)
{
    for (int i = 0; i < s->n; i++) {
        const struct index *mod = s->terms[i].atom;
        if (mod->kind != INDEX_mod)
            continue;
        const struct index *quotient = index_div(p, mod->of, mod->by);
        int64_t b = s->terms[i].coefficient;
        // The quotient may be a sum itself, with every one of its terms spread in s.
        bool all = quotient->kind != INDEX_sum
                       ? position_of(s, quotient) >= 0 &&
                             s->terms[position_of(s, quotient)].coefficient == b * mod->by
                       : quotient->n_terms > 0;
        for (int t = 0; all && quotient->kind == INDEX_sum && t < quotient->n_terms; t++) {
            int at = position_of(s, quotient->terms[t].atom);
            all =
                at >= 0 && s->terms[at].coefficient == b * mod->by * quotient->terms[t].coefficient;
        }
        if (!all)
            continue;
        sum_add(p, s, quotient, -b * mod->by);
        sum_add_atom(p, s, mod, -b);
        sum_add(p, s, mod->of, b);
        return true;
    }
    return false;
}

static const struct index *finished(struct index_pool *p, struct sum *s)
{
    while (rejoin(p, s))
        ;
    if (s->n == 1 && s->terms[0].coefficient == 1 && !s->constant)
        return s->terms[0].atom;
    struct index x = {
        .kind = INDEX_sum, .constant = s->constant, .n_terms = s->n, .terms = s->terms};
    x.low = x.high = s->constant;
    for (int i = 0; i < s->n; i++) {
        const struct index *atom = s->terms[i].atom;
        int64_t c = s->terms[i].coefficient;
        x.low += c * (c > 0 ? atom->low : atom->high);
        x.high += c * (c > 0 ? atom->high : atom->low);
        x.variables |= atom->variables;
    }
    return interned(p, &x);
}

const struct index *index_add(struct index_pool *p, const struct index *a, const struct index *b)
{
    struct sum s = {0};
    sum_add(p, &s, a, 1);
    sum_add(p, &s, b, 1);
    return finished(p, &s);
}

const struct index *index_scale(struct index_pool *p, const struct index *a, int64_t by)
{
    struct sum s = {0};
    sum_add(p, &s, a, by);
    return finished(p, &s);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t gcd(int64_t a, int64_t b)
{
    a = a < 0 ? -a : a;
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

// x = by * quotient + rest, with every term in the one it belongs to; false where rest could be
// negative.
static bool parts_of(struct index_pool *p, const struct index *x, int64_t by,
                     const struct index **quotient, const struct index **rest)
{
    struct sum q = {0}, r = {0};
    if (x->kind != INDEX_sum) {
        *quotient = index_constant(p, 0), *rest = x;
        return x->low >= 0;
    }
    q.constant = floor_div(x->constant, by);
    r.constant = x->constant - by * q.constant;
    for (int i = 0; i < x->n_terms; i++) {
        int64_t c = x->terms[i].coefficient;
        if (c % by == 0)
            sum_add_atom(p, &q, x->terms[i].atom, c / by);
        else
            sum_add_atom(p, &r, x->terms[i].atom, c);
    }
    *rest = finished(p, &r);
    *quotient = finished(p, &q);
    return (*rest)->low >= 0;
}

// by = factor * h and x = factor * quotient + rest with 0 <= rest < factor: a division by `by` is
// one of the quotient by h.  The largest such factor; 0 where there is none.
static int64_t factor_of(struct index_pool *p, const struct index *x, int64_t by,
                         const struct index **quotient, const struct index **rest)
{
    int64_t best = 0;
    for (int i = 0; x->kind == INDEX_sum && i < x->n_terms; i++) {
        const struct index *q, *r;
        int64_t factor = gcd(x->terms[i].coefficient, by);
        if (factor > 1 && factor < by && factor > best && parts_of(p, x, factor, &q, &r) &&
            r->high < factor) {
            best = factor;
            *quotient = q, *rest = r;
        }
    }
    return best;
}

static const struct index *divided(struct index_pool *p, const struct index *x, int64_t by)
{
    if (floor_div(x->low, by) == floor_div(x->high, by))
        return index_constant(p, floor_div(x->low, by));
    const struct index *quotient, *rest;
    int64_t factor = factor_of(p, x, by, &quotient, &rest);
    if (factor)
        return index_div(p, quotient, by / factor);
    if (x->kind == INDEX_div)
        return index_div(p, x->of, x->by * by);
    return interned(p, &(struct index){.kind = INDEX_div,
                                       .of = x,
                                       .by = by,
                                       .low = floor_div(x->low, by),
                                       .high = floor_div(x->high, by),
                                       .variables = x->variables});
}

const struct index *index_div(struct index_pool *p, const struct index *a, int64_t by)
{
    assert(by > 0);
    if (by == 1)
        return a;
    const struct index *quotient, *rest;
    if (!parts_of(p, a, by, &quotient, &rest))
        return divided(p, a, by);
    return index_add(p, quotient, divided(p, rest, by));
}

const struct index *index_mod(struct index_pool *p, const struct index *a, int64_t by)
{
    assert(by > 0);
    if (by == 1)
        return index_constant(p, 0);
    const struct index *quotient, *rest;
    const struct index *x = parts_of(p, a, by, &quotient, &rest) ? rest : a;
    if (x->low >= 0 && floor_div(x->low, by) == floor_div(x->high, by))
        return index_add(p, x, index_constant(p, -by * floor_div(x->low, by)));
    int64_t factor = factor_of(p, x, by, &quotient, &rest);
    if (factor)
        return index_add(p, index_scale(p, index_mod(p, quotient, by / factor), factor), rest);
    if (x->kind == INDEX_mod && x->by % by == 0)
        return index_mod(p, x->of, by);
    return interned(
        p, &(struct index){
               .kind = INDEX_mod, .of = x, .by = by, .high = by - 1, .variables = x->variables});
}

const struct index *index_substitute(struct index_pool *p, const struct index *x, int variable,
                                     const struct index *by)
{
    if (!(x->variables & 1u << variable))
        return x;
    if (x->kind == INDEX_variable)
        return by;
    if (x->kind == INDEX_div)
        return index_div(p, index_substitute(p, x->of, variable, by), x->by);
    if (x->kind == INDEX_mod)
        return index_mod(p, index_substitute(p, x->of, variable, by), x->by);
    struct sum s = {.constant = x->constant};
    for (int i = 0; i < x->n_terms; i++)
        sum_add(p, &s, index_substitute(p, x->terms[i].atom, variable, by),
                x->terms[i].coefficient);
    return finished(p, &s);
}
