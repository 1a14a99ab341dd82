// emit_names.c: what generated source calls things: constants of Spec, fields of Args, literals,
// indices.
//
// A size is never a literal: it is a constant of Spec, so that two sizes of a program differ there
// alone.

#include "gen/emit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *float_text(struct gen *g, double value, bool is_double)
{
    const char *type = is_double ? "double" : "float";
    if (isnan(value))
        return arena_text(g, "(highest<%s>() - highest<%s>())", type, type);
    if (isinf(value))
        return arena_text(g, "%s<%s>()", value > 0 ? "highest" : "lowest", type);
    const char *digits = arena_text(g, is_double ? "%.17g" : "%.9g", value);
    bool whole = !strpbrk(digits, ".e");
    const char *text = arena_text(g, "%s%s%s", digits, whole ? ".0" : "", is_double ? "" : "f");
    return signbit(value) ? arena_text(g, "(%s)", text) : text;
}

const char *constant_text(struct gen *g, const struct value *v)
{
    const struct dtype_info *type = &dtype_info[v->dtype];
    bool is_constant = v->node->op == OP_constant;
    double value = v->node->op == OP_pad ? v->node->attr.fill : 0;
    if (type->class == CLASS_float) {
        value = is_constant ? v->node->attr.value : value;
        unsigned char stored[8];
        store_element(v->dtype, stored, 0, value);
        return float_text(g, load_element(v->dtype, stored, 0), v->dtype == DT_f64);
    }
    int64_t integer = is_constant ? v->node->attr.integer : (int64_t)value;
    if (type->class == CLASS_boolean)
        return integer ? "true" : "false";
    if (integer == INT64_MIN)
        return "(-9223372036854775807LL - 1)";
    return arena_text(g, "(%s)%lldLL", type->compute, (long long)integer);
}

// clang-format off: it cannot read an array made by #include
static const char *const field_names[] = {
#define SPEC(family, type, field) #field,
#include "gen/specs.def"
#undef SPEC
    "n", "m", "k", "batch", "rows", "cols", "outer", "length_p", "inner", "length_q"};
// clang-format on

// What C++, CUDA or a C library's headers on the host already mean, with a space on either side.
static const char reserved[] =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl "
    "concept "
    "const constexpr continue decltype default delete do double dynamic_cast else enum errno "
    "exchange "
    "explicit "
    "export extern false float for friend goto if index_t inline int isfinite isinf isnan linux "
    "long "
    "mutable "
    "namespace new noexcept not not_eq nullptr operator or or_eq partial private protected public "
    "register requires return short signbit signed sizeof static stderr stdin stdout struct switch "
    "template this thread_local throw tickets true try typedef typeid typename union unix unsigned "
    "using virtual void volatile wchar_t while xor xor_eq ";

static bool is_reserved(struct gen *g, const char *name)
{
    return strstr(reserved, arena_text(g, " %s ", name)) != NULL;
}

// Macros are feared where capitals are.
static bool may_be_a_macro(const char *name)
{
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '\0';
}

// `n0`, `n1`: what spec_constant calls the others.
static bool is_numbered(const char *name)
{
    return name[0] == 'n' && name[1] && !name[1 + strspn(name + 1, "0123456789")];
}

static const char *size_name(struct gen *g, const char *name)
{
    bool taken = is_reserved(g, name) || strstr(name, "__") || !strncmp(name, "size_", 5) ||
                 is_numbered(name) || (strlen(name) > 2 && may_be_a_macro(name));
    for (size_t i = 0; i < sizeof field_names / sizeof *field_names; i++)
        taken = taken || !strcmp(name, field_names[i]);
    return taken ? arena_text(g, "size_%s", name) : name;
}

// A size, a product of two sizes, or a new constant.
static const char *spec_constant(void *user, int64_t value)
{
    struct emitter *e = user;
    struct gen *g = e->f->g;
    const struct graph *graph = e->f->graph;
    for (int i = 0; i < graph->n_sizes; i++)
        if (graph->sizes[i].value == value)
            return arena_text(g, "Spec::%s", size_name(g, graph->sizes[i].name));
    for (int i = 0; i < graph->n_sizes; i++)
        for (int j = i + 1; j < graph->n_sizes; j++)
            if (graph->sizes[i].value > 1 && graph->sizes[j].value > 1 &&
                graph->sizes[i].value == value / graph->sizes[j].value &&
                value % graph->sizes[j].value == 0)
                return arena_text(g, "(Spec::%s * Spec::%s)", size_name(g, graph->sizes[i].name),
                                  size_name(g, graph->sizes[j].name));
    int n = 0;
    while (n < e->n_constants && e->constants[n] != value)
        n++;
    if (n == e->cap_constants) {
        int64_t *constants = arena_new(g, int64_t, e->cap_constants = 2 * n + 8);
        if (n)
            memcpy(constants, e->constants, sizeof *constants * (size_t)n);
        e->constants = constants;
    }
    if (n == e->n_constants)
        e->constants[e->n_constants++] = value;
    return arena_text(g, "Spec::n%d", n);
}

static const char *in_style(struct emitter *e, const struct index *x,
                            const struct index_style *style)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    index_print(x, style, out);
    fclose(out);
    const char *copy = arena_text(e->f->g, "%s", text);
    free(text);
    return copy;
}

static const struct index *of_lane(struct emitter *e, const struct index *x)
{
    enum { LANE = 29 };
    if (e->lanes <= 0 || !(x->variables & 1u << e->lane_variable))
        return x;
    const struct index *lane = index_variable(e->f->pool, LANE, INT32_MAX, "j");
    const struct index *first = e->nest->variable[e->lane_variable];
    return index_substitute(e->f->pool, x, e->lane_variable, index_add(e->f->pool, first, lane));
}

const char *index_text(struct emitter *e, const struct index *x, bool at_lane)
{
    return in_style(e, at_lane ? of_lane(e, x) : x, &(struct index_style){e, spec_constant, false});
}

static bool only_adds(const struct index *x)
{
    bool adds = x->constant >= 0;
    for (int i = 0; i < x->n_terms; i++)
        adds &= x->terms[i].coefficient > 0;
    return adds;
}

// What is added to a pointer.  In rows each term is added on its own, not their sum, which is an
// index_t and may wrap: so the compiler may put what differs between the vectors of a row into the
// instruction, and no register holds each one's address.
const char *offset_text(struct emitter *e, const struct index *x, bool at_lane)
{
    bool open = e->nest->family == FAMILY_rows && only_adds(x);
    return in_style(e, at_lane ? of_lane(e, x) : x, &(struct index_style){e, spec_constant, open});
}

static const char *signed_constant(void *user, int64_t value)
{
    struct emitter *e = user;
    return arena_text(e->f->g, "(long long)%s", spec_constant(user, value));
}

const char *signed_index_text(struct emitter *e, const struct index *x)
{
    return in_style(e, x, &(struct index_style){e, signed_constant, false});
}

// Unsigned comparison: what lies below the range wraps around and is above it.
const char *guard_text(struct emitter *e, const struct guard *guard, bool at_lane)
{
    const char *text = NULL;
    for (; guard; guard = guard->next) {
        const char *one = "false";
        if (guard->high >= guard->low) {
            const struct index *from =
                index_add(e->f->pool, guard->index, index_constant(e->f->pool, -guard->low));
            int64_t span = guard->high - guard->low;
            one = arena_text(e->f->g, "(index_t)%s <= %s", index_text(e, from, at_lane),
                             span <= 1 ? (span ? "1" : "0") : spec_constant(e, span));
        }
        text = text ? arena_text(e->f->g, "%s && %s", text, one) : one;
    }
    return text;
}

bool is_fresh(const struct emitter *e, const struct node *node)
{
    return e->launch->origin && e->launch->origin[node->id] != ORIGIN_settled;
}

const char *loader(const struct emitter *e, const struct node *node)
{
    static const char *const names[] = {
        [ORIGIN_settled] = "load", [ORIGIN_launch] = "load_coherent", [ORIGIN_block] = "load_own"};
    return names[e->launch->origin ? e->launch->origin[node->id] : ORIGIN_settled];
}

// A program's own name where C++ allows it as a field.
static const char *field_name(struct emitter *e, const struct node *node)
{
    const char *name = node->name;
    for (int i = 0; !name && i < e->f->graph->n_outputs; i++)
        if (e->f->graph->outputs[i].node == node)
            name = e->f->graph->outputs[i].name;
    bool plain = name && strlen(name) <= 32 && name[0] >= 'a' && name[0] <= 'z' &&
                 !is_reserved(e->f->g, name) && !may_be_a_macro(name) && !strstr(name, "__");
    if (plain)
        for (int i = e->first_arg; i < e->args->n; i++)
            plain = plain && strcmp(e->args->arg[i].name, name) != 0;
    return plain ? name : arena_text(e->f->g, "t%d", node->id);
}

const char *argument_name(struct emitter *e, const struct node *node, bool written)
{
    struct emitted_args *args = e->args;
    for (int i = e->first_arg; i < args->n; i++)
        if (args->arg[i].node == node)
            return args->arg[i].name;
    args->arg[args->n] = (struct emitted_arg){.node = node,
                                              .type = dtype_info[node->dtype].storage,
                                              .name = field_name(e, node),
                                              .written = written};
    return args->arg[args->n++].name;
}

void print_args(struct emitter *e, FILE *out)
{
    fputs("struct Args {\n", out);
    for (int i = e->first_arg; i < e->args->n; i++) {
        const struct emitted_arg *a = &e->args->arg[i];
        fprintf(out, "    %s%s *%s;\n", a->written ? "" : "const ", a->type, a->name);
    }
    fputs("};\n", out);
}

static void print_tiling(const struct tiling *t, FILE *out)
{
    fprintf(out,
            "    static constexpr index_t outer = %lld;\n    static constexpr index_t length_p = "
            "%lld;\n    static constexpr index_t inner = %lld;\n    static constexpr index_t "
            "length_q = %lld;\n",
            (long long)t->outer, (long long)t->length_p, (long long)t->inner,
            (long long)t->length_q);
}

static void print_extents(const struct nest *nest, FILE *out)
{
    static const struct {
        enum family family;
        int variable;
        const char *name;
    } extents[] = {
        {FAMILY_map,     VAR_c, "n"    },
        {FAMILY_rows,    VAR_r, "rows" },
        {FAMILY_rows,    VAR_c, "cols" },
        {FAMILY_columns, VAR_r, "rows" },
        {FAMILY_columns, VAR_c, "cols" },
        {FAMILY_gemm,    VAR_b, "batch"},
        {FAMILY_gemm,    VAR_m, "m"    },
        {FAMILY_gemm,    VAR_n, "n"    },
        {FAMILY_gemm,    VAR_k, "k"    },
    };
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        if (extents[i].family == nest->family)
            fprintf(out, "    static constexpr index_t %s = %lld;\n", extents[i].name,
                    (long long)nest->extent[extents[i].variable]);
}

void print_spec(struct emitter *e, FILE *out)
{
    fputs("struct Spec {\n", out);
    if (e->s->form == FAMILY_map_tiles)
        print_tiling(&e->s->tiling, out);
    else
        print_extents(e->nest, out);
    const struct spec *s = &e->s->spec;
#define SPEC(family_, type, field)                                                                 \
    if (e->s->form == FAMILY_##family_)                                                            \
        fprintf(out, "    static constexpr " #type " " #field " = %d;\n", (int)s->field);
#include "gen/specs.def"
#undef SPEC
    const struct graph *graph = e->f->graph;
    for (int i = 0; i < graph->n_sizes; i++)
        fprintf(out, "    static constexpr index_t %s = %lld;\n",
                size_name(e->f->g, graph->sizes[i].name), (long long)graph->sizes[i].value);
    for (int i = 0; i < e->n_constants; i++)
        fprintf(out, "    static constexpr index_t n%d = %lld;\n", i, (long long)e->constants[i]);
    fputs("};\n", out);
}
