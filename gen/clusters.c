// clusters.c: rows that one block cannot keep on chip: how many blocks share one, and what each of
// their threads keeps in registers and in shared memory.

#include "gen/integers.h"
#include "gen/kernel.h"

// Registers of a thread that keep the row, in bytes: half of what it has where threads fill an SM,
// less where vectors from shared memory pass through them too.
enum { KEPT_BYTES = 128, KEPT_BESIDE_PARKED = 96, PORTABLE_CLUSTER = 8 };
enum { MANY_WALKS = 4 }; // rows of a cluster, for the next one to be worth having on its way

// A row of which one reduction is all that is wanted is read once as it is, by one block where
// there are rows enough for all SMs.
bool gains_by_sharing(const struct fusion *f, const struct nest *nest)
{
    bool again = nest->n_phases > 1 || nest->extent[VAR_r] < f->target->n_sms / 2;
    for (int i = 0; i < nest->n_stores; i++)
        again = again || !stores_per_row(nest, i);
    return again;
}

bool is_read_again(struct fusion *f, const struct nest *nest, const struct node *reduction)
{
    bool *after = arena_new(f->g, bool, f->graph->n_nodes);
    after[reduction->id] = true;
    for (int i = reduction->id + 1; i < f->graph->n_nodes; i++) {
        const struct node *node = f->graph->nodes[i];
        enum op_kind kind = op_info[node->op].kind;
        bool depends = false;
        for (int j = 0; j < node->n_in; j++)
            depends |= after[node->in[j]->id];
        if (!depends || kind == KIND_contraction)
            continue;
        if (kind != KIND_reduction && node_numel(node) == domain_numel(nest))
            return true;
        if (kind == KIND_reduction && node_numel(node->in[0]) == domain_numel(nest) &&
            node->attr.axes == nest->axes)
            return true;
        after[i] = kind != KIND_reduction;
    }
    return false;
}

// Few long rows: clusters that together take at least half of the SMs, and keep a row with room for
// more than this operand of it, are better than a pass over all rows for each reduction.
bool clusters_suit(struct fusion *f, const struct nest *nest, const struct node *reduction,
                   const struct value *operand)
{
    struct accesses a = value_accesses(f->g, nest, operand);
    int64_t rows = nest->extent[VAR_r], length = nest->extent[VAR_c], bytes = 0;
    for (int i = 0; i < a.n_loads; i++)
        bytes += dtype_info[a.loads[i]->dtype].bytes;
    bytes = bytes > 4 ? bytes : 4;
    return f->target->max_cluster >= PORTABLE_CLUSTER &&
           rows * PORTABLE_CLUSTER >= f->target->n_sms / 2 &&
           length <= PORTABLE_CLUSTER * 1024 * KEPT_BYTES / bytes &&
           is_read_again(f, nest, reduction);
}

// Registers of what all rows share and some reduction needs: it is there from the first stage on.
static int early_bytes(struct fusion *f, const struct nest *nest)
{
    bool *seen = arena_new(f->g, bool, nest->n_values);
    int bytes = 0;
    for (int i = 0; i < nest->n_heavy; i++) {
        struct accesses a = value_accesses(f->g, nest, nest->heavy_in[2 * i]);
        for (int j = 0; j < a.n_loads; j++) {
            const struct value *v = a.loads[j];
            bool shared = (v->variables & (1u << VAR_r | 1u << VAR_c)) == 1u << VAR_c;
            bytes += shared && !seen[v->id] ? 4 : 0;
            seen[v->id] = true;
        }
    }
    return bytes;
}

// Of a vector of the row in shared memory; 0: something of it cannot be there.
static int parked_bytes(struct fusion *f, const struct scheduled *s, const struct accesses *a)
{
    uint32_t element = 1u << VAR_r | 1u << VAR_c;
    int bytes = 0;
    for (int i = 0; i < a->n_loads; i++) {
        if ((a->loads[i]->variables & element) != element)
            continue;
        if (!can_stage(f, s->nest, a->loads[i], s->spec.vec))
            return 0;
        bytes += dtype_info[a->loads[i]->dtype].bytes * s->spec.vec;
    }
    return bytes;
}

// Whether that many blocks of that many threads can keep a row; if so it is scheduled that way.
static bool share(struct fusion *f, struct scheduled *s, int threads, int cluster, int vector_bytes,
                  int staged_bytes)
{
    struct spec *spec = &s->spec;
    int64_t rows = s->nest->extent[VAR_r], cols = s->nest->extent[VAR_c];
    int64_t vectors = ceil_div(ceil_div(cols, spec->vec), (int64_t)threads * cluster);
    int64_t items = vectors;
    if (items > KEPT_BYTES / vector_bytes)
        items = KEPT_BESIDE_PARKED / vector_bytes;
    int64_t at = 2 * (threads / 32 + cluster) * spec->acc_bytes;
    int64_t staging_at = ceil_div(at, 128) * 128;
    int64_t parked = vectors - items;
    int64_t shared = parked ? staging_at + parked * threads * staged_bytes : at;
    if ((parked && !staged_bytes) || !items || shared > f->target->shared_per_block ||
        rows > INT32_MAX / cluster)
        return false;
    spec->resident = true, spec->looped = false, spec->late = parked || items * vector_bytes > 64;
    spec->threads = spec->threads_per_row = threads, spec->rows_per_block = 1;
    spec->blocks_per_sm = most_threads(f->target) / threads;
    spec->cluster = cluster, spec->items = (int)items, spec->parked = (int)parked;
    spec->staging_at = parked ? (int)staging_at : 0, spec->staged_bytes = parked ? staged_bytes : 0;
    s->shared_bytes = (unsigned)shared;
    s->blocks = rows * cluster;
    return true;
}

// A shared row that is all in registers, with the next one coming through shared memory: as many
// clusters as run at once walk through the rows.
static bool stage(struct fusion *f, struct scheduled *s, int staged_bytes)
{
    const struct target *t = f->target;
    struct spec *spec = &s->spec;
    int64_t rows = s->nest->extent[VAR_r];
    int64_t at = ceil_div(s->shared_bytes, 128) * 128;
    int64_t shared = at + (int64_t)spec->items * spec->threads * staged_bytes;
    int64_t clusters = (int64_t)spec->blocks_per_sm * t->n_sms / spec->cluster;
    if (spec->parked || !staged_bytes || rows < 2 * clusters || shared > t->shared_per_block ||
        spec->blocks_per_sm * (shared + 1024) > t->shared_per_sm || clusters < 1)
        return false;
    spec->staged = spec->looped = true;
    spec->staging_at = (int)at, spec->staged_bytes = staged_bytes;
    s->shared_bytes = (unsigned)shared;
    s->blocks = clusters * spec->cluster;
    return true;
}

// Registers of a thread for what all rows share, in bytes, were it kept.
static int shared_bytes(const struct scheduled *s, const struct accesses *a)
{
    int bytes = 0;
    for (int i = 0; i < a->n_loads; i++)
        if ((a->loads[i]->variables & (1u << VAR_r | 1u << VAR_c)) == 1u << VAR_c)
            bytes += 4 * s->spec.vec * s->spec.items;
    return bytes;
}

bool stage_clusters(struct fusion *f, struct scheduled *s, const struct accesses *a,
                    int vector_bytes)
{
    int threads = most_threads(f->target) / 2, staged_bytes = parked_bytes(f, s, a);
    int portable = min_of(f->target->max_cluster, PORTABLE_CLUSTER);
    vector_bytes += early_bytes(f, s->nest) * s->spec.vec;
    for (int cluster = 2; cluster <= portable; cluster *= 2) {
        struct scheduled tried = *s;
        if (!share(f, &tried, threads, cluster, vector_bytes, 0) ||
            shared_bytes(&tried, a) > KEPT_BYTES || !stage(f, &tried, staged_bytes) ||
            s->nest->extent[VAR_r] * cluster < MANY_WALKS * tried.blocks)
            continue;
        *s = tried;
        return true;
    }
    return false;
}

double staged_clusters_us(const struct target *t, const struct scheduled *s)
{
    return 1e6 * s->bytes / t->bytes_per_second * (1.04 + 0.055 * s->spec.phases);
}

// The fewest blocks, of half an SM's threads if possible: then one block loads while the other one
// reduces.
void cluster_rows(struct fusion *f, struct scheduled *s, const struct accesses *a, int vector_bytes)
{
    int most = most_threads(f->target), max = f->target->max_cluster;
    int portable = min_of(max, PORTABLE_CLUSTER);
    if (max < 2)
        return;
    vector_bytes += early_bytes(f, s->nest) * s->spec.vec;
    for (int threads = most / 2; threads <= most; threads *= 2)
        for (int cluster = 2; cluster <= portable; cluster *= 2)
            if (share(f, s, threads, cluster, vector_bytes, 0))
                return;
    int staged_bytes = parked_bytes(f, s, a);
    for (int cluster = portable; cluster <= max; cluster *= 2)
        if (share(f, s, most, cluster, vector_bytes, staged_bytes))
            return;
}

// One block of half an SM's threads, with what of a row its registers do not hold in shared memory;
// false: that is nothing, or two blocks of it are too much for an SM.
bool park_rows(struct fusion *f, struct scheduled *s, const struct accesses *a, int vector_bytes)
{
    const struct target *t = f->target;
    struct scheduled tried = *s;
    int threads = most_threads(t) / 2;
    vector_bytes += early_bytes(f, s->nest) * s->spec.vec;
    if (t->sm < 80 || !share(f, &tried, threads, 1, vector_bytes, parked_bytes(f, s, a)) ||
        !tried.spec.parked || 2 * ((int)tried.shared_bytes + 1024) > t->shared_per_sm)
        return false;
    *s = tried;
    return true;
}

bool cluster_as(struct fusion *f, struct scheduled *s, const struct accesses *a, int vector_bytes,
                const struct wishes *w)
{
    int threads = w->of[WISH_threads], cluster = w->of[WISH_cluster];
    int64_t vectors = ceil_div(s->nest->extent[VAR_c], s->spec.vec);
    if (cluster > f->target->max_cluster || threads > most_threads(f->target) ||
        vectors < (int64_t)threads * cluster)
        return false;
    vector_bytes += early_bytes(f, s->nest) * s->spec.vec;
    int staged_bytes = parked_bytes(f, s, a);
    return share(f, s, threads, cluster, vector_bytes, staged_bytes) &&
           (cluster > 1 || s->spec.parked) &&
           (w->way != WAY_cluster_staged || stage(f, s, staged_bytes));
}
