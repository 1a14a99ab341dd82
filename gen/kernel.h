// kernel.h: what fuse, schedule and emit hand to each other: nests of loops and the scalar values
// inside them
//
// A nest is one kernel to be: an iteration domain (a few flat variables), the heavy operators it is
// built around (reductions, or one contraction), and the values computed at a point of the domain.
// Values are interned: the same operator at the same place is one value, so what a row needs twice
// is computed once.
#pragma once
#include "gen/gen.h"
#include "gen/index.h"

// map_tiles, row_teams: no nest is of them; they are the forms that schedule gives a map through
// shared memory, and rows that many blocks share.
enum family {
    FAMILY_map,
    FAMILY_rows,
    FAMILY_columns,
    FAMILY_gemm,
    FAMILY_map_tiles,
    FAMILY_row_teams,
    FAMILY_COUNT
};
extern const char *const family_name[FAMILY_COUNT]; // nest.c

// The variables of a domain.  map: C alone.  rows, columns: R over the kept axes, C over the
// reduced ones. gemm: B, M, N and K.
enum { VAR_r, VAR_c, VAR_b, VAR_m, VAR_n, VAR_k, VAR_COUNT };

enum value_kind {
    VALUE_load,     // node's buffer at index, where guard holds; 0 elsewhere
    VALUE_constant, // node's value
    VALUE_index,    // index itself, as i64
    VALUE_op,       // node's operator on in[]
    VALUE_select,   // guard ? in[0] : in[1]
    VALUE_result    // what the nest's heavy node gives at its own coordinates
};

// A conjunction of low <= index <= high.
struct guard {
    const struct index *index;
    int64_t low, high;
    const struct guard *next;
};

struct value {
    enum value_kind kind;
    int id; // position in nest->values; inputs come before users
    const struct node *node;
    enum dtype dtype;
    const struct index *index;
    const struct guard *guard;
    int n_in;
    struct value *in[3];
    uint32_t variables; // bit per variable it depends on
    int phase;          // 1 + the last phase of reductions whose result it needs; 0: none
};

struct nest {
    enum family family;
    int id; // position in fusion->nests, which is the order of execution
    int64_t extent[VAR_COUNT];
    const struct index *variable[VAR_COUNT];

    // rows, columns: the shape that is reduced, its reduced axes; map: the shape it is computed
    // over
    int rank;
    int64_t dim[MAX_RANK];
    uint32_t axes;
    const struct index *at[MAX_RANK]; // coordinates in that shape (gemm: in the output's) as
                                      // indices of the variables

    const struct node **heavy; // reductions in creation order, or the contraction
    int *heavy_phase;
    struct value **heavy_in; // the operand of each reduction; of the contraction: A, then B
    int n_heavy, cap_heavy, n_phases;

    struct value **values;
    int n_values, cap_values, n_loads;
    struct value **table; // interned by content, open addressing
    int cap_table;

    struct lowered *lowered; // memo: node at coordinates to value
    int n_lowered, cap_lowered;

    const struct node **stores; // nodes whose buffers it fills
    struct value **store_values;
    int n_stores, cap_stores;
};

struct fusion {
    struct gen *g;
    const struct graph *graph;
    const struct target *target;
    struct index_pool *pool;
    struct nest **nests;
    int n_nests, cap_nests;
    struct nest **home; // per node: the nest that computes it, NULL: recomputed where it is used
    int *depth;         // per node: operators that would be recomputed in a row
    int *loads;         // per node: at least as many as the tensors that recomputing it would read
    int alone_until;    // the nests before that one are not stitched
    bool strict;        // --math strict: every operator has the bits of its own rounding
};

// nest.c: nests as they are made

struct nest *map_nest(struct fusion *f, const struct node *shape);
struct nest *reduction_nest(struct fusion *f, const struct node *reduction);
// Axes of the output over B (both operands vary), M (rows, and batches of A alone) and N.
struct nest *contraction_nest(struct fusion *f, const struct node *node);
// in2: B of a contraction.  Always true, so that it can be the last step of what may fail.
bool add_heavy(struct fusion *f, struct nest *nest, const struct node *node, int phase,
               struct value *in, struct value *in2);
int64_t domain_numel(const struct nest *nest);

// lower.c: a node at coordinates to a value of a nest

// NULL where the nest cannot compute it: it needs another coordinate of the nest's own heavy
// results, or the result of a later nest.  at: one index per dimension of node.
struct value *lower(struct fusion *f, struct nest *nest, const struct node *node,
                    const struct index *const *at);
struct value *result_value(struct fusion *f, struct nest *nest, int heavy);
// Coordinates of a node that has as many elements as the whole domain, or as the kept part of it.
void natural_coordinates(struct fusion *f, const struct nest *nest, const struct node *node,
                         bool kept, const struct index **at);

// Whether a store has one value per row of the nest, and where it goes in the node's buffer.
bool stores_per_row(const struct nest *nest, int store);
const struct index *store_index(struct fusion *f, const struct nest *nest, int store);

// fuse.c: graph to nests

struct fusion *fuse(struct gen *g, const struct graph *graph, const struct target *target);

// describe.c: nests as people read them

void print_fusion(const struct fusion *f, FILE *out);
const char *expression_text(const struct fusion *f, const struct nest *nest); // "y = erf(x) + b"

// access.c: what a nest reads, writes and computes

struct accesses {
    const struct value **loads;
    int n_loads;
    double read_bytes, flops;
};

double nest_points(const struct nest *nest); // of the iteration domain
struct accesses nest_accesses(struct gen *g, const struct nest *nest);
struct accesses value_accesses(struct gen *g, const struct nest *nest, const struct value *v);
// At so many points; what is the same for several is computed once for them.
double value_flops(struct gen *g, const struct nest *nest, const struct value *v, double points);
// The widest vector along a variable, of at most so many lanes (MAX_LANES: any), that some access
// can use whole, within the promised alignment; *alignment grows to what it needs of pointers.
enum { MAX_LANES = 8 };
int vector_width(struct fusion *f, const struct nest *nest, const struct accesses *a,
                 bool with_stores, int along, int most, int promised, int *alignment);
// Whether a row kernel can send a load through shared memory: elements of a row, in whole accesses.
bool can_stage(struct fusion *f, const struct nest *nest, const struct value *load, int lanes);
// Bytes of the tensors that lie side by side along a variable.
int64_t side_by_side_bytes(struct fusion *f, const struct accesses *a, int along);

// mask.c: which tiles of a contraction anyone looks at

// An affine index of m and n that is negative wherever every store of the nest discards the
// product; NULL where there is none.
const struct index *contraction_mask(struct fusion *f, const struct nest *nest);
struct corner {
    bool m, n; // the tile's last row, column; else its first
};
struct corner mask_corner(const struct index *mask); // of a tile, where the mask is largest
// The share of the tiles that are needed.
double mask_share(const struct index *mask, int64_t m, int64_t n, int block_m, int block_n);

// schedule.c: nest to spec

// Every field of specs.def; a family uses its own.
struct spec {
    int vec, threads;   // all but gemm's vec
    int unroll;         // map, map_tiles
    int tile_p, tile_q; // map_tiles
    int threads_per_row, rows_per_block, items, phases, staging_at, staged_bytes; // rows
    int cluster, parked, acc_bytes;                                               // rows
    int team, ahead, lag, exchanges;                            // row_teams, and much of rows'
    bool resident, staged;                                      // rows
    bool late, shared_again;                                    // rows, row_teams: emit's alone
    bool looped;                                                // rows, gemm
    int threads_x, threads_y, splits;                           // columns
    bool along_kept, replicated, told;                          // columns
    int block_m, block_n, block_k, thread_m, thread_n, lanes_n; // gemm, as all below
    int split, promote_k, raster, blocks_per_sm, shared_bytes, shared_at;
    int vec_a, vec_b, vec_c, parts_a, parts_b;
    bool a_along_k, b_along_k, masked;
};

// The flat variable of a map in coordinates: c = ((o * length_p + p) * inner + i) * length_q + q.
struct tiling {
    int64_t outer, length_p, inner, length_q;
    int promised; // bytes that pointers are aligned to
};

// What a spec is asked to be, besides right; 0: as the model chooses.
enum way {
    WAY_any,
    WAY_only,           // columns, gemm: there is but one
    WAY_flat,           // map: no tiles
    WAY_tiled,          // map: through shared memory
    WAY_kept,           // rows: in the registers of one block
    WAY_staged,         // rows: the next one comes through shared memory meanwhile
    WAY_clustered,      // rows: in several blocks
    WAY_cluster_staged, // rows: in several blocks, the next one comes meanwhile
    WAY_team,           // rows: in the blocks of a cooperative launch, several in a pipeline
    WAY_streamed,       // rows: read again by every phase
    WAY_phase           // any: of a launch whose blocks have so many threads, one to an SM
};
enum wish {
    WISH_vec, // at most
    WISH_threads,
    WISH_unroll,
    WISH_tile_p,
    WISH_tile_q,
    WISH_elements, // of a tile, for each thread
    WISH_threads_per_row,
    WISH_cluster,   // of a phase: the scope of its launch, as launch->cluster
    WISH_teams,     // that the blocks of all SMs make
    WISH_lag,       // steps
    WISH_exchanges, // 1: one a row, 2: one a phase
    WISH_threads_x,
    WISH_splits,
    WISH_blocks_per_sm, // that share the columns' ranges
    WISH_tile,          // gemm: its number in the list of tiles, from 1
    WISH_COUNT
};
struct wishes {
    enum way way;
    int of[WISH_COUNT];
};

static inline int wished(const struct wishes *w, enum wish wish, int otherwise)
{
    return w->of[wish] ? w->of[wish] : otherwise;
}

struct scheduled {
    const struct nest *nest;
    enum family form;     // whose template and fields it has: the nest's own, or one beside it
    struct tiling tiling; // map_tiles
    struct spec spec;
    int64_t blocks;
    unsigned shared_bytes;
    bool wide_index; // offsets need 64 bits
    int lane_variable;
    int64_t partial_bytes; // columns in several splits: workspace for partial results
    int n_tickets;
    int n_packets; // what blocks exchange results by: of row_teams, and of columns that are told
    int alignment;
    double bytes, flops, floor_us;
    double clocks;       // gemm: of the busiest SM, by the model of gemm_tiles.c
    double predicted_us; // of a candidate
};

// alignment: bytes that every pointer is promised to be aligned to.
void schedule(struct fusion *f, const struct nest *nest, int alignment, struct scheduled *out);
// false: the wishes cannot all be had.  Without wishes: true, and as above.
bool schedule_as(struct fusion *f, const struct nest *nest, const struct accesses *a, int alignment,
                 const struct wishes *wishes, struct scheduled *out);
// "vec=4 threads=256", with a prefix before each name
const char *spec_text(struct gen *g, const struct scheduled *s, const char *prefix);
void set_floor(struct fusion *f, struct scheduled *s); // floor_us, from bytes and flops
int accumulator_bytes(const struct nest *nest);        // of the largest phase
int most_threads(const struct target *t);              // of a block

// schedule_rows.c, schedule_columns.c, schedule_gemm.c: the families

bool schedule_rows(struct fusion *f, struct scheduled *s, const struct accesses *a, int promised,
                   const struct wishes *w);
bool schedule_columns(struct fusion *f, struct scheduled *s, const struct accesses *a, int promised,
                      const struct wishes *w);
bool schedule_gemm(struct fusion *f, struct scheduled *s, int promised, const struct wishes *w);

// clusters.c: rows that several blocks share

// Clusters that walk through rows, where they can keep one, the next one is on its way, and what
// all rows share does not crowd the registers; false: they are not for these rows.
bool stage_clusters(struct fusion *f, struct scheduled *s, const struct accesses *a,
                    int vector_bytes);
// How long these take, in microseconds (measured on an H200 for rows of 131072: 0.91 of the rate of
// a copy with one phase, 0.865 with two).
double staged_clusters_us(const struct target *t, const struct scheduled *s);
// Whether a row that one block cannot keep is better kept by several of them than read again.
bool gains_by_sharing(const struct fusion *f, const struct nest *nest);
// Whether a reduction's row is read again once the reduction is known: by a further one over it, or
// for a value per element.
bool is_read_again(struct fusion *f, const struct nest *nest, const struct node *reduction);
// Whether that is the way to a reduction over few long rows.
bool clusters_suit(struct fusion *f, const struct nest *nest, const struct node *reduction,
                   const struct value *operand);
// A row that one block cannot keep on chip goes to a cluster of them where the target has those.
// vector_bytes: registers that a vector of the row occupies, in bytes.
void cluster_rows(struct fusion *f, struct scheduled *s, const struct accesses *a,
                  int vector_bytes);
// A row to one block, two of which an SM has, as cluster_rows does it: partly in shared memory.
// false: it is kept without that, or not even so.
bool park_rows(struct fusion *f, struct scheduled *s, const struct accesses *a, int vector_bytes);
// Any row, to a cluster as wished; false: it cannot be.
bool cluster_as(struct fusion *f, struct scheduled *s, const struct accesses *a, int vector_bytes,
                const struct wishes *w);

// teams.c: rows that all SMs share, in as many teams of blocks as keep a row

// As clusters_suit.
bool teams_suit(struct fusion *f, const struct nest *nest, const struct node *reduction,
                const struct value *operand);
// Whether there are rows enough to keep teams busy; if so the best ones are made of the blocks.
bool team_rows(struct fusion *f, struct scheduled *s, const struct accesses *a);
// Any rows, by teams as wished; false: they cannot be.
bool team_as(struct fusion *f, struct scheduled *s, const struct accesses *a,
             const struct wishes *w);
// How long teams take to walk through the rows, in microseconds.
double walk_us(const struct target *t, const struct scheduled *s);

// join.c: reductions of phase 1 whose parts can be joined together with those of phase 0

struct join {
    enum join_kind { JOIN_none, JOIN_exp, JOIN_square } kind; // sum of exp(shifted), of shifted**2
    const struct value *shifted, *shift;                      // shifted: something less the shift
};
struct join join_of(const struct nest *nest, int heavy);
// Whether all of them can; not in strict arithmetic, since it rounds otherwise.
bool can_join(const struct fusion *f, const struct nest *nest);
// As wished; false: they cannot be joined.
bool join_as(const struct fusion *f, struct scheduled *s, int exchanges);

// tiles.c: the transposing map

// An index of c as one of the variables o, p, i and q.
const struct index *tile_index(struct fusion *f, const struct tiling *t, const struct index *x);
// Whether a load lies side by side along p, and not along q.
bool is_transposed(struct fusion *f, const struct tiling *t, const struct value *load);
// The widest vector along p of a transposed load.
int tile_lanes(struct fusion *f, const struct tiling *t, const struct value *load);
// What a tile of that type occupies of shared memory.
int tile_bytes(const struct spec *spec, enum dtype dtype);
// Whether a map has transposed loads, and unless tiles are wished for enough of them; if so it is
// scheduled that way.
bool schedule_tiles(struct fusion *f, struct scheduled *s, const struct accesses *a, int promised,
                    const struct wishes *w);

// predict.c: a schedule to about how long it takes, good enough to say what to try first

double predicted_us(const struct target *t, const struct scheduled *s, const struct accesses *a);

// phases.c: nests to the phases of a launch

// Who wrote a tensor that a phase of a launch reads: an earlier launch, any block of this one, or
// this very block.
enum origin { ORIGIN_settled, ORIGIN_launch, ORIGIN_block };
enum { WARP_COPY = 16 }; // bytes

// Phases that one kernel works through, all with as many threads to a block.
struct launch {
    struct scheduled *phases;
    bool *waits; // per phase: for all blocks of the scope to be done with those before it
    int n_phases, threads;
    // Blocks of a cluster.  Several phases: the scope, which is those blocks that together make
    // what later phases need; 0: it is the whole grid.
    int cluster;
    int64_t blocks;
    int64_t side_blocks; // the first blocks, which do phase `side` while the others do the other
    int side;            // one; 0: every block does all phases
    unsigned shared_bytes;
    bool cooperative;                 // some phase waits for the grid, or blocks are in teams
    double predicted_us, separate_us; // as it is; its phases as kernels of their own
    enum origin *origin;              // per node; NULL: all are settled
    // Per node: where in its shared memory a block keeps its own copy, or the first of its warps
    // does; 0: nowhere.  Per phase: where what a cluster's blocks send comes to.
    int64_t *own_at, *slots_at;
    bool *of_warp; // per node: the next warp's copy is WARP_COPY bytes further
};

// Whether a nest loads something that the other one stores.
bool reads_any(const struct nest *nest, const struct nest *made);
// So many nests from that one on as the phases of one launch, in grid scope or in that of clusters
// as large as is wished; false: they cannot be.
bool launch_in_grid(struct fusion *f, int first, int n_phases, int alignment,
                    const struct wishes *w, struct launch *l);
bool launch_in_clusters(struct fusion *f, int first, int n_phases, int alignment,
                        const struct wishes *w, struct launch *l);
// Whether all that such phases need of each other is made by reductions, as a cluster's blocks can.
bool clusters_can_share(struct fusion *f, int first, int n_phases);

// stitch.c: nests to launches

// The launches that begin with that nest, of as many of those after it as gain from it, the best
// first, at most MAX_LAUNCHES; 0: the nest is better alone.  all: more of them, which a measurement
// may find to be better.
enum { MAX_LAUNCHES = 216 };
int stitch(struct fusion *f, int first, int alignment, bool all, struct launch *launches);
// beside.c: of that nest and the next one, one of which is short and has blocks of its own; false:
// they are none such.
bool launch_beside(struct fusion *f, int first, int alignment, struct launch *out);
// Of a nest alone.
void launch_alone(struct fusion *f, const struct scheduled *s, struct launch *out);
// "vec=4 threads=256"; of several phases "threads=256 phases=2 columns0.vec=4 ... gemm1.vec_a=4
// ..."
const char *launch_text(struct gen *g, const struct launch *l);

// candidates.c: a nest to all specs that are worth a try, and the one of them that is chosen

// A kernel's launch, which begins with that nest: the candidate that the options name for it, else
// the model's choice.  Fills in the kernel's name and spec, and its candidates where the options
// want them.
void choose_launch(struct fusion *f, int first, const struct compile_options *o, struct kernel *k,
                   struct launch *out);
// Notes the options' specs that no kernel has.
void note_unused_specs(struct gen *g, const struct compile_options *o, const struct program *p);

// emit.c: a launch to source

struct emitted_arg {
    enum { ARG_tensor, ARG_partial, ARG_tickets, ARG_exchange, ARG_barrier } kind;
    const struct node *node; // of a tensor
    int phase;               // whose partial results or tickets
    const char *type, *name;
    bool written;
};
struct emitted_args {
    struct emitted_arg *arg; // in the order of Args
    int n;
};
const char *emit(struct fusion *f, const struct launch *launch, const char *name,
                 struct emitted_args *args);
