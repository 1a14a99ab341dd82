// candidates.c: a nest to all specs that are worth a try: what the model chooses, and every
// combination of wishes in spaces.def that its family can grant, each once.

#include "gen/kernel.h"
#include <string.h>

// {0, 0}: as the model chooses.
struct range {
    int first, last;
};

static const struct space {
    enum family family;
    enum way way;
    struct range of[WISH_COUNT];
} spaces[] = {
#define WISH(wish, first, last) [WISH_##wish] = {first, last},
#define SPACE(family, way, wishes) {FAMILY_##family, WAY_##way, {wishes}},
#include "gen/spaces.def"
#undef SPACE
#undef WISH
};
enum { N_SPACES = sizeof spaces / sizeof *spaces };

static struct wishes first_wishes(const struct space *space)
{
    struct wishes w = {.way = space->way};
    for (int i = 0; i < WISH_COUNT; i++)
        w.of[i] = space->of[i].first;
    return w;
}

// false: all combinations were had.
static bool next_wishes(const struct space *space, struct wishes *w)
{
    for (int i = 0; i < WISH_COUNT; i++) {
        if (w->of[i] < space->of[i].last) {
            w->of[i] += i == WISH_tile || i == WISH_teams || i == WISH_lag ? 1 : w->of[i];
            return true;
        }
        w->of[i] = space->of[i].first;
    }
    return false;
}

enum { MAX_CANDIDATES = 512 };

// What schedule gives, then the others by rising predicted_us.
struct list {
    struct fusion *f;
    const struct nest *nest;
    struct accesses accesses;
    int alignment, n;
    struct scheduled at[MAX_CANDIDATES];
    const char *text[MAX_CANDIDATES];
};

// The model's own stays first, the others rise; the earlier of equals stays so.
static void insert(struct list *l, const struct scheduled *s, const char *text)
{
    int at = l->n++;
    for (; at > 1 && l->at[at - 1].predicted_us > s->predicted_us; at--)
        l->at[at] = l->at[at - 1], l->text[at] = l->text[at - 1];
    l->at[at] = *s, l->text[at] = text;
}

static void try_wishes(struct list *l, const struct wishes *w)
{
    struct scheduled s;
    if (l->n == MAX_CANDIDATES || !schedule_as(l->f, l->nest, &l->accesses, l->alignment, w, &s))
        return;
    if (l->n && l->at[0].form == FAMILY_map_tiles && s.form == FAMILY_map)
        return; // many times slower where the model has tiles
    const char *text = spec_text(l->f->g, &s, "");
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->text[i], text))
            return;
    s.predicted_us = predicted_us(l->f->target, &s, &l->accesses);
    insert(l, &s, text);
}

static struct list *list_candidates(struct fusion *f, const struct nest *nest, int alignment)
{
    static const struct wishes none = {.way = WAY_any};
    struct list *l = arena_new(f->g, struct list, 1);
    l->f = f, l->nest = nest, l->alignment = alignment;
    l->accesses = nest_accesses(f->g, nest);
    try_wishes(l, &none);
    for (int i = 0; i < N_SPACES && domain_numel(nest); i++) {
        if (spaces[i].family != nest->family)
            continue;
        struct wishes w = first_wishes(&spaces[i]);
        do
            try_wishes(l, &w);
        while (next_wishes(&spaces[i], &w));
    }
    return l;
}

static void describe(struct gen *g, const struct list *l, struct kernel *k)
{
    struct candidate *candidates = arena_new(g, struct candidate, l->n);
    for (int i = 0; i < l->n; i++)
        candidates[i] = (struct candidate){l->text[i], l->at[i].predicted_us};
    k->candidates = candidates;
    k->n_candidates = l->n;
}

static const char *chosen_text(const struct compile_options *o, const char *kernel)
{
    for (int i = 0; i < o->n_specs; i++)
        if (!strcmp(o->specs[i].kernel, kernel))
            return o->specs[i].spec;
    return NULL;
}

static void choose_schedule(struct fusion *f, const struct nest *nest,
                            const struct compile_options *o, struct kernel *k,
                            struct scheduled *out)
{
    int alignment = o->alignment ? o->alignment : 16;
    const char *chosen = chosen_text(o, k->name);
    schedule(f, nest, alignment, out);
    k->spec = spec_text(f->g, out, "");
    if (!o->list_candidates && (!chosen || !strcmp(chosen, k->spec)))
        return;
    const struct list *l = list_candidates(f, nest, alignment);
    for (int i = 0; chosen && i < l->n; i++)
        if (!strcmp(chosen, l->text[i]))
            *out = l->at[i], k->spec = l->text[i];
    if (o->list_candidates)
        describe(f->g, l, k);
}

// The candidate of a launch of several phases that is none: its nests are kernels of their own.
static const char separate[] = "separate";

// The launch with the chosen text, else the first; false: the nests are to be separate.
static bool choose_among(struct gen *g, const struct launch *launches, int n,
                         const struct compile_options *o, struct kernel *k, struct launch *out)
{
    struct candidate *candidates = arena_new(g, struct candidate, n + 1);
    const char *chosen = chosen_text(o, k->name);
    int at = 0;
    for (int i = 0; i < n; i++) {
        candidates[i] = (struct candidate){launch_text(g, &launches[i]), launches[i].predicted_us};
        if (chosen && !strcmp(chosen, candidates[i].spec))
            at = i;
    }
    candidates[n] = (struct candidate){separate, launches[0].separate_us};
    if (chosen && !strcmp(chosen, separate))
        return false;
    *out = launches[at];
    k->spec = candidates[at].spec;
    if (o->list_candidates)
        k->candidates = candidates, k->n_candidates = n + 1;
    return true;
}

// C identifiers of a bounded length: what profilers show and what names files.
static const char *kernel_name(struct gen *g, const struct fusion *f, const struct kernel *k,
                               int nest)
{
    return arena_text(g, "%.48s_%s%d_%s", f->graph->name, k->part == PART_prepare ? "prepare_" : "",
                      nest, k->family);
}

void choose_launch(struct fusion *f, int first, const struct compile_options *o, struct kernel *k,
                   struct launch *out)
{
    struct launch launches[MAX_LAUNCHES];
    const struct nest *nest = f->nests[first];
    bool alone = o->separate || first < f->alone_until;
    int alignment = o->alignment ? o->alignment : 16;
    k->family = "stitch";
    k->name = kernel_name(f->g, f, k, first);
    bool all = o->list_candidates || chosen_text(o, k->name);
    int n = alone ? 0 : stitch(f, first, alignment, all, launches);
    if (!n && !alone)
        n = launch_beside(f, first, alignment, launches);
    if (n && choose_among(f->g, launches, n, o, k, out))
        return;
    if (n)
        f->alone_until = first + launches[0].n_phases, k->stitched = k->name;
    struct scheduled s;
    k->family = family_name[nest->family];
    k->name = kernel_name(f->g, f, k, first);
    choose_schedule(f, nest, o, k, &s);
    launch_alone(f, &s, out);
}

void note_unused_specs(struct gen *g, const struct compile_options *o, const struct program *p)
{
    const struct span nowhere = g->at = (struct span){NULL, 0}; // no part of the text is at fault
    for (int i = 0; i < o->n_specs; i++) {
        const struct chosen_spec *c = &o->specs[i];
        const struct kernel *found = NULL;
        bool is_separate = false;
        for (int k = 0; k < p->n_kernels; k++) {
            const struct kernel *kernel = &p->kernels[k];
            if (!strcmp(kernel->name, c->kernel))
                found = kernel;
            is_separate |= kernel->stitched && !strcmp(kernel->stitched, c->kernel);
        }
        if (is_separate)
            continue;
        if (!found)
            note_at(g, nowhere, "there is no kernel %s for the spec `%s`", c->kernel, c->spec);
        else if (strcmp(found->spec, c->spec))
            note_at(g, nowhere, "%s cannot have the spec `%s`: it keeps its own", c->kernel,
                    c->spec);
    }
}
