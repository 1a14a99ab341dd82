// emit_tiles.c: the transposed loads of a map that goes through shared memory: for each a type that
// fetches a vector along p, and how Elements takes what the tiles hold.

#include "gen/emit.h"

static bool is_in_a_tile(struct emitter *e, const struct value *v)
{
    return e->stages[v->id] && goes_through_a_tile(e, v);
}

bool goes_through_a_tile(struct emitter *e, const struct value *v)
{
    return e->s->form == FAMILY_map_tiles && v->kind == VALUE_load &&
           is_transposed(e->f, &e->s->tiling, v);
}

static const struct guard *guard_at_tile(struct emitter *e, const struct guard *guard)
{
    if (!guard)
        return NULL;
    struct guard *copy = arena_new(e->f->g, struct guard, 1);
    *copy = *guard;
    copy->index = tile_index(e->f, &e->s->tiling, guard->index);
    copy->next = guard_at_tile(e, guard->next);
    return copy;
}

static const char *fetched(struct emitter *e, const struct value *v, int lanes)
{
    struct gen *g = e->f->g;
    const char *type = dtype_info[v->dtype].storage;
    const char *place = arena_text(g, "args.%s + %s", argument_name(e, v->node, false),
                                   index_text(e, tile_index(e->f, &e->s->tiling, v->index), false));
    if (lanes > 1)
        return arena_text(g, "load_vec<%s, %d>(%s)", type, lanes, place);
    const char *guard = guard_text(e, guard_at_tile(e, v->guard), false);
    return guard ? arena_text(g, "{%s ? load(%s) : zero<%s>()}", guard, place, type)
                 : arena_text(g, "{load(%s)}", place);
}

static void emit_tile(struct emitter *e, const struct value *v, int at)
{
    const char *type = dtype_info[v->dtype].storage;
    int lanes = tile_lanes(e->f, &e->s->tiling, v);
    fprintf(e->out,
            "struct Tile%d {\n    typedef %s type;\n    static constexpr int lanes = %d, at = "
            "%d;\n    static __device__ inline Vec<%s, %d> fetch(const Args &args, index_t o, "
            "index_t p, index_t i, index_t q)\n    {\n        return %s;\n    }\n};\n\n",
            v->id, type, lanes, at, type, lanes, fetched(e, v, lanes));
}

void emit_tiles(struct emitter *e)
{
    int at = 0;
    for (int i = 0; i < e->nest->n_values; i++) {
        const struct value *v = e->nest->values[i];
        if (!is_in_a_tile(e, v))
            continue;
        emit_tile(e, v, at);
        at += tile_bytes(&e->s->spec, v->dtype);
    }
    fputs("template <typename Fill> __device__ inline void fill_tiles(Fill fill)\n{\n", e->out);
    for (int i = 0; i < e->nest->n_values; i++)
        if (is_in_a_tile(e, e->nest->values[i]))
            fprintf(e->out, "    fill(Tile%d());\n", i);
    fputs("}\n\ntemplate <int lanes, typename Read>\n__device__ inline void "
          "read_tiles(Elements<lanes> &e, Read read)\n{\n",
          e->out);
    for (int i = 0; i < e->nest->n_values; i++)
        if (is_in_a_tile(e, e->nest->values[i]))
            fprintf(e->out, "    e.x%d = read(Tile%d());\n", i, i);
    fputs("}\n\n", e->out);
}
