// emit_functions.c: a scheduled nest to the functions that its family's template calls.
//
// load_elements (what is read for some lanes), accumulate (into a phase's accumulators), finish
// (accumulators to values of the row), store_elements and store_row; for a contraction load and
// stage of either operand, and epilogue.

#include "gen/emit.h"
#include "gen/integers.h"
#include <string.h>

enum { DEAR = 8 }; // operators, as op_info counts them: worth a register

static const char *const parameters[FAMILY_COUNT] = {
    [FAMILY_map] = "index_t c",
    [FAMILY_rows] = "index_t r, index_t c",
    [FAMILY_columns] = "index_t r, index_t c",
    [FAMILY_gemm] = "index_t b, index_t m, index_t n",
};

static void find_needs(struct emitter *e)
{
    const struct nest *nest = e->nest;
    for (int i = 0; i < nest->n_heavy && nest->family != FAMILY_gemm; i++)
        need_in_stage(e, nest->heavy_in[2 * i], nest->heavy_phase[i]);
    for (int i = 0; i < nest->n_stores; i++)
        need_in_stage(e, nest->store_values[i], nest->n_phases);
    for (int i = 0; i < nest->n_values; i++) {
        const struct value *v = nest->values[i];
        uint32_t stages = e->stages[i];
        bool several = (stages & (stages - 1)) != 0;
        bool lasts = !v->phase || e->s->spec.exchanges == e->s->spec.phases; // as computed at first
        e->cached[i] = several && lasts && nest->family == FAMILY_rows && e->s->spec.resident &&
                       !e->s->spec.parked && v->kind == VALUE_op &&
                       op_info[v->node->op].cost >= DEAR;
    }
}

static void emit_row_functions(struct emitter *e)
{
    fputs("struct Row {\n", e->out);
    emit_row_fields(e);
    fputs("};\n\n__device__ inline void load_row(const Args &args, index_t r, Row &row)\n{\n",
          e->out);
    begin_function(e, 0, true);
    emit_row_values(e, 0);
    fputs("}\n\n", e->out);
}

// The loads of elements by the time they are made: with the element, with the last stage (what
// would occupy registers through all phases), once for all rows, or on the way of a staged row.
struct load_times {
    bool *any, *early, *late, *columns, *staged;
};

static struct load_times load_times(struct emitter *e)
{
    const struct nest *nest = e->nest;
    const struct spec *spec = &e->s->spec;
    int n = nest->n_values + 1;
    bool *flags = arena_new(e->f->g, bool, 5 * n);
    struct load_times times = {flags, flags + n, flags + 2 * n, flags + 3 * n, flags + 4 * n};
    for (int i = 0; i < nest->n_values; i++) {
        const struct value *v = nest->values[i];
        if (!e->stages[i] || !is_element_load(e, v))
            continue;
        bool rows = nest->family == FAMILY_rows, last = e->stages[i] == 1u << nest->n_phases;
        times.any[i] = true;
        if (goes_through_a_tile(e, v))
            continue;
        if (rows && (spec->staged || spec->parked) && can_stage(e->f, nest, v, spec->vec))
            times.staged[i] = true;
        else if (rows && spec->staged && spec->cluster == 1 && !spec->shared_again &&
                 !(v->variables & 1u << VAR_r))
            times.columns[i] = true;
        else
            (rows && spec->late && last ? times.late : times.early)[i] = true;
    }
    return times;
}

static void emit_loader(struct emitter *e, const char *name, const char *where, const bool *chosen)
{
    fprintf(e->out,
            "template <int lanes%s>\n__device__ inline void %s(const Args &args, %s, "
            "Elements<lanes> &e)\n{\n",
            e->loads_as_told ? ", typename How = ReadOnly" : "", name, where);
    begin_function(e, 0, false);
    emit_loads(e, chosen);
    fputs("}\n\n", e->out);
}

// The two halves of a staged row: copies to this thread's slots, and from there to Elements.
static void emit_staging(struct emitter *e, const bool *staged)
{
    const struct nest *nest = e->nest;
    int before = 0;
    fputs("__device__ inline void stage_elements(const Args &args, index_t r, index_t c, "
          "unsigned char *region)\n{\n",
          e->out);
    for (int i = 0; i < nest->n_values; i++) {
        const struct value *v = nest->values[i];
        if (!staged[i])
            continue;
        const char *type = arena_text(e->f->g, "Vec<%s, Spec::vec>", dtype_info[v->dtype].storage);
        fprintf(e->out,
                "    copy_async(thread_slot<%s>(region, %d * Spec::threads), (const %s *)(args.%s "
                "+ %s));\n",
                type, before, type, argument_name(e, v->node, false),
                offset_text(e, v->index, false));
        before += dtype_info[v->dtype].bytes * e->s->spec.vec;
    }
    fputs("}\n\n__device__ inline void read_staged(unsigned char *region, Elements<Spec::vec> "
          "&e)\n{\n",
          e->out);
    before = 0;
    for (int i = 0; i < nest->n_values; i++) {
        const struct value *v = nest->values[i];
        if (!staged[i])
            continue;
        fprintf(e->out,
                "    e.x%d = *thread_slot<Vec<%s, Spec::vec>>(region, %d * Spec::threads);\n", i,
                dtype_info[v->dtype].storage, before);
        before += dtype_info[v->dtype].bytes * e->s->spec.vec;
    }
    fputs("}\n\n", e->out);
}

static void emit_elements(struct emitter *e)
{
    const struct nest *nest = e->nest;
    struct load_times times = load_times(e);
    fputs("template <int lanes> struct Elements {\n", e->out);
    emit_load_fields(e, times.any);
    for (int i = 0; i < nest->n_values; i++)
        if (e->cached[i])
            fprintf(e->out, "    %s v%d[lanes];\n", dtype_info[nest->values[i]->dtype].compute, i);
    fputs("};\n\n", e->out);
    e->loads_as_told = nest->family == FAMILY_rows;
    emit_loader(e, "load_elements", parameters[nest->family], times.early);
    e->loads_as_told = false;
    if (nest->family != FAMILY_rows)
        return;
    emit_loader(e, "load_late", parameters[nest->family], times.late);
    emit_loader(e, "load_columns", "index_t c", times.columns);
    emit_loader(e, "load_staged", parameters[nest->family], times.staged);
    emit_staging(e, times.staged);
}

static bool is_vector_store(struct emitter *e, int store)
{
    const struct index *index = store_index(e->f, e->nest, store);
    return index_side_by_side(e->f->pool, index, e->lane_variable, e->lanes);
}

static void emit_store(struct emitter *e, int store)
{
    const struct node *node = e->nest->stores[store];
    const char *type = dtype_info[node->dtype].storage, *name = argument_name(e, node, true);
    const char *value = spelled(e, stored_value(e, store));
    if (is_vector_store(e, store))
        fprintf(e->out, "        y%d.v[j] = to_storage<%s>(%s);\n", store, type, value);
    else
        fprintf(e->out, "        args.%s[%s] = to_storage<%s>(%s);\n", name,
                index_text(e, store_index(e->f, e->nest, store), true), type, value);
}

// The last stage: values of the elements, then one store per tensor.
static void emit_store_body(struct emitter *e)
{
    const struct nest *nest = e->nest;
    const struct value **values = arena_new(e->f->g, const struct value *, nest->n_stores + 1);
    int n_values = 0;
    begin_function(e, nest->n_phases, false);
    for (int i = 0; i < nest->n_stores; i++) {
        if (stores_per_row(nest, i))
            continue;
        values[n_values++] = stored_value(e, i);
        if (is_vector_store(e, i))
            fprintf(e->out, "    Vec<%s, %s> y%d;\n", dtype_info[nest->stores[i]->dtype].storage,
                    e->lanes_text, i);
    }
    emit_divisions(e, values, n_values);
    emit_lane_loop(e);
    for (int i = 0; i < nest->n_stores; i++) {
        if (stores_per_row(nest, i))
            continue;
        emit_value(e, stored_value(e, i));
        emit_store(e, i);
    }
    fputs("    }\n", e->out);
    for (int i = 0; i < nest->n_stores; i++)
        if (!stores_per_row(nest, i) && is_vector_store(e, i))
            fprintf(e->out, "    store_vec(args.%s + %s, y%d);\n",
                    argument_name(e, nest->stores[i], true),
                    offset_text(e, store_index(e->f, nest, i), false), i);
}

static bool stores_elements(const struct nest *nest)
{
    bool any = false;
    for (int i = 0; i < nest->n_stores; i++)
        any |= !stores_per_row(nest, i);
    return any;
}

static void emit_store_elements(struct emitter *e)
{
    if (e->nest->family == FAMILY_map)
        fputs("template <int lanes>\n__device__ inline void store_elements(const Args &args, "
              "index_t c, "
              "const Elements<lanes> &e)\n{\n",
              e->out);
    else
        fprintf(e->out,
                "enum { stores_elements = %d };\n"
                "template <int lanes>\n__device__ inline void store_elements(const Args &args, "
                "index_t r, index_t c, const Row (&row)[1],\n"
                "                                      Elements<lanes> &e)\n{\n",
                stores_elements(e->nest));
    emit_store_body(e);
    fputs("}\n\n", e->out);
}

static void emit_store_row(struct emitter *e)
{
    const struct nest *nest = e->nest;
    fputs("__device__ inline void store_row(const Args &args, index_t r, const Row &row)\n{\n",
          e->out);
    begin_function(e, nest->n_phases, true);
    for (int i = 0; i < nest->n_stores; i++) {
        if (!stores_per_row(nest, i))
            continue;
        const struct node *node = nest->stores[i];
        fprintf(e->out, "    args.%s[%s] = to_storage<%s>(%s);\n", argument_name(e, node, true),
                index_text(e, store_index(e->f, nest, i), false), dtype_info[node->dtype].storage,
                spelled(e, nest->store_values[i]));
    }
    fputs("}\n\n", e->out);
}

// The values that an operand which waits for an earlier phase can have made before that: the same
// for all lanes, of settled memory alone, dear, and used for one that cannot be.
static void find_ready(struct emitter *e, const bool *fresh, bool *ready)
{
    const struct nest *nest = e->nest;
    bool *can = arena_new(e->f->g, bool, nest->n_values + 1), waits = false;
    int *cost = arena_new(e->f->g, int, nest->n_values + 1);
    for (int i = 0; i < nest->n_values; i++)
        waits |= fresh[i];
    for (int i = 0; i < nest->n_values && waits; i++) {
        const struct value *v = nest->values[i];
        can[i] = !(v->variables & 1u << e->lane_variable) && !fresh[i] &&
                 (v->kind == VALUE_op || v->kind == VALUE_constant || v->kind == VALUE_load);
        cost[i] = v->kind == VALUE_op ? op_info[v->node->op].cost : 0;
        for (int k = 0; k < v->n_in; k++) {
            can[i] &= can[v->in[k]->id];
            cost[i] = min_of(cost[i] + cost[v->in[k]->id], DEAR);
        }
        for (int k = 0; k < v->n_in && e->stages[i] && !can[i]; k++)
            ready[v->in[k]->id] |= can[v->in[k]->id] && cost[v->in[k]->id] == DEAR;
    }
}

static void emit_ready(struct emitter *e, const char *capital, const bool *ready)
{
    const struct nest *nest = e->nest;
    bool any = false;
    for (int i = 0; i < nest->n_values; i++)
        any |= ready[i];
    if (!any)
        return;
    fprintf(e->out, "__device__ inline void make_ready(Raw%s &e)\n{\n", capital);
    begin_function(e, 0, false);
    e->indent = "    ";
    for (int i = 0; i < nest->n_values; i++)
        if (ready[i]) {
            emit_value(e, nest->values[i]);
            fprintf(e->out, "    e.v%d = v%d;\n", i, i);
        }
    fputs("}\n\n", e->out);
}

// One operand of a contraction: its loads, and what becomes of them.
static void emit_operand(struct emitter *e, const struct value *operand, int which)
{
    const struct nest *nest = e->nest;
    const char *letter = which ? "b" : "a", *capital = which ? "B" : "A";
    const char *at = which ? "index_t b, index_t k, index_t n" : "index_t b, index_t m, index_t k";
    const struct spec *spec = &e->s->spec;
    bool along_k = which ? spec->b_along_k : spec->a_along_k;
    bool *all = arena_new(e->f->g, bool, 4 * nest->n_values + 4);
    bool *settled = all + nest->n_values + 1, *fresh = settled + nest->n_values + 1;
    bool *ready = fresh + nest->n_values + 1;
    memset(e->stages, 0, sizeof *e->stages * (size_t)nest->n_values);
    need_in_stage(e, operand, 0);
    for (int i = 0; i < nest->n_values; i++) {
        all[i] = e->stages[i] && nest->values[i]->kind == VALUE_load;
        settled[i] = all[i] && !is_fresh(e, nest->values[i]->node);
        fresh[i] = all[i] && !settled[i];
    }
    e->lane_variable = along_k ? VAR_k : which ? VAR_n : VAR_m;
    e->lanes = which ? spec->vec_b : spec->vec_a;
    e->lanes_text = arena_text(e->f->g, "Spec::vec_%s", letter);
    find_ready(e, fresh, ready);
    fprintf(e->out, "struct Raw%s {\n", capital);
    emit_load_fields(e, all);
    for (int i = 0; i < nest->n_values; i++)
        if (ready[i])
            fprintf(e->out, "    %s v%d;\n", dtype_info[nest->values[i]->dtype].compute, i);
    fputs("};\n\n", e->out);
    for (int i = 0; i < 2; i++) {
        fprintf(e->out, "__device__ inline void load_%s%s(const Args &args, %s, Raw%s &e)\n{\n",
                i ? "fresh_" : "", letter, at, capital);
        begin_function(e, 0, false);
        emit_loads(e, i ? fresh : settled);
        fputs("}\n\n", e->out);
    }
    emit_ready(e, capital, ready);
    e->ready = ready;
    fprintf(e->out,
            "__device__ inline void stage_%s(const Args &args, %s, const Raw%s &e, Acc "
            "(&out)[%s])\n{\n",
            letter, at, capital, e->lanes_text);
    begin_function(e, 0, false);
    emit_divisions(e, &operand, 1);
    emit_lane_loop(e);
    emit_value(e, operand);
    fprintf(e->out, "        out[j] = %s;\n    }\n}\n\n", spelled(e, operand));
    e->ready = NULL;
}

static void emit_epilogue(struct emitter *e)
{
    const struct nest *nest = e->nest;
    memset(e->stages, 0, sizeof *e->stages * (size_t)nest->n_values);
    for (int i = 0; i < nest->n_stores; i++)
        need_in_stage(e, nest->store_values[i], nest->n_phases);
    e->lane_variable = VAR_n;
    e->lanes = e->s->spec.vec;
    e->lanes_text = "lanes";
    emit_elements(e);
    e->lanes_text = "Spec::vec_c";
    fputs("__device__ inline void epilogue(const Args &args, index_t b, index_t m, index_t n, "
          "const Acc (&acc)[Spec::vec_c], const Elements<Spec::vec_c> &e)\n{\n",
          e->out);
    emit_store_body(e);
    fputs("}\n\n", e->out);
}

// Whether some element of the tile that begins at (m, n) is kept: the mask at the corner where it
// is largest.
static void emit_tile_mask(struct emitter *e)
{
    const struct index *mask = contraction_mask(e->f, e->nest);
    fputs("__device__ inline bool tile_is_needed(long long m, long long n)\n{\n", e->out);
    if (mask) {
        struct corner corner = mask_corner(mask);
        fputs(corner.m ? "    m += Spec::block_m - 1;\n" : "", e->out);
        fputs(corner.n ? "    n += Spec::block_n - 1;\n" : "", e->out);
        fprintf(e->out, "    return %s >= 0;\n}\n\n", signed_index_text(e, mask));
    } else {
        fputs("    return true;\n}\n\n", e->out);
    }
}

void emit_functions(struct emitter *e)
{
    e->lane_variable = e->s->lane_variable;
    e->lanes = e->s->spec.vec;
    e->lanes_text = "lanes";
    find_needs(e);
    switch (e->nest->family) {
    case FAMILY_map:
        emit_elements(e);
        if (e->s->form == FAMILY_map_tiles)
            emit_tiles(e);
        emit_store_elements(e);
        break;
    case FAMILY_rows:
        emit_row_functions(e);
        emit_elements(e);
        emit_phases(e);
        emit_store_elements(e);
        emit_store_row(e);
        break;
    case FAMILY_columns:
        emit_row_functions(e);
        emit_elements(e);
        emit_phases(e);
        emit_store_row(e);
        break;
    case FAMILY_gemm:
        emit_operand(e, e->nest->heavy_in[0], 0);
        emit_operand(e, e->nest->heavy_in[1], 1);
        emit_epilogue(e);
        emit_tile_mask(e);
        break;
    case FAMILY_map_tiles:
    case FAMILY_row_teams:
    case FAMILY_COUNT:
        break;
    }
}
