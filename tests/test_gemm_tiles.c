// test_gemm_tiles.c: every contraction has tiles on every target, each within the bounds that the
// template and the target set, in the order of the cost model.

#include "gen/gemm_tiles.h"
#include "gen/gen.h"
#include "tests/tests.h"
#include <string.h>

enum { MAX_TILES = 128 };

static const int64_t sizes[] = {0, 1, 2, 3, 17, 64, 100, 1024, 4095, 65536};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static int widest(int64_t extent, int most)
{
    while (extent % most)
        most /= 2;
    return most;
}

static struct gemm_problem problem_of(int64_t batch, int64_t m, int64_t n, int64_t k, int layout)
{
    struct gemm_problem p = {.batch = batch, .m = m, .n = n, .k = k};
    p.a_along_k = layout & 1, p.b_along_k = layout & 2;
    p.acc_bytes = layout & 4 ? 8 : 4, p.floating = !(layout & 8);
    p.vec_a = widest(p.a_along_k ? k : m, 16), p.vec_b = widest(p.b_along_k ? k : n, 16);
    p.vec_c = widest(n, 8);
    return p;
}

// NULL, or what is wrong with the cut.
static const char *wrong_cut(const struct gemm_problem *p, const struct gemm_tile *t)
{
    int warp_m = 32 / t->lanes_n * t->thread_m, warp_n = t->lanes_n * t->thread_n;
    if (t->block_m % warp_m || t->block_n % warp_n)
        return "a warp is cut";
    if (t->threads != 32 * (t->block_m / warp_m) * (t->block_n / warp_n) * t->split)
        return "threads are not those of the warps";
    if ((p->a_along_k ? t->block_k : t->block_m) % t->vec_a ||
        (p->b_along_k ? t->block_k : t->block_n) % t->vec_b || t->thread_n % t->vec_c)
        return "a vector does not divide the tile";
    if ((p->a_along_k ? p->k : p->m) % t->vec_a || (p->b_along_k ? p->k : p->n) % t->vec_b ||
        p->n % t->vec_c)
        return "a vector does not divide its extent";
    if (t->vec_c * p->acc_bytes > 16)
        return "a vector of C is more than a run";
    return t->promote_k % t->block_k ? "promotion comes within a tile" : NULL;
}

static const char *wrong_fit(const struct target *target, const struct gemm_tile *t)
{
    if (t->blocks < 1 || t->blocks > 0x7fffffff)
        return "the grid is out of range";
    if (t->shared_bytes > target->shared_per_block)
        return "a block has not that much shared memory";
    if (t->blocks_per_sm < 1 || t->blocks_per_sm * t->threads > target->threads_per_sm)
        return "an SM does not hold the blocks";
    return 32 * t->threads > target->registers_per_sm ? "32 registers a thread are not there"
                                                      : NULL;
}

static void check_list(const struct target *target, const struct gemm_problem *p,
                       const struct gemm_tile *tiles, int n)
{
    const char *wrong = n < 1 || n >= MAX_TILES ? "no list" : NULL;
    for (int i = 0; i < n && !wrong; i++) {
        wrong = wrong_cut(p, &tiles[i]);
        if (!wrong)
            wrong = wrong_fit(target, &tiles[i]);
        if (i > 0 && tiles[i - 1].clocks > tiles[i].clocks)
            wrong = "the list is out of order";
    }
    if (wrong)
        ck_abort_msg("%s: %lldx%lldx%lld: %s", target->name, (long long)p->m, (long long)p->n,
                     (long long)p->k, wrong);
}

START_TEST(every_size_has_tiles_that_fit)
{
    const struct target *target = &targets[_i];
    struct gemm_tile tiles[MAX_TILES];
    for (int i = 0; i < N_SIZES * N_SIZES * N_SIZES; i++)
        for (int layout = 0; layout < 16; layout++) {
            struct gemm_problem p =
                problem_of(1 + i % 3, sizes[i % N_SIZES], sizes[i / N_SIZES % N_SIZES],
                           sizes[i / N_SIZES / N_SIZES], layout);
            check_list(target, &p, tiles, gemm_tiles(target, &p, tiles, MAX_TILES));
        }
}
END_TEST

static struct gemm_tile fastest(const struct target *t, const struct gemm_problem *p)
{
    struct gemm_tile tile;
    gemm_tiles(t, p, &tile, 1);
    return tile;
}

static void check_same(const struct gemm_tile *a, const struct gemm_tile *b)
{
    ck_assert_int_eq(a->block_m, b->block_m);
    ck_assert_int_eq(a->block_n, b->block_n);
    ck_assert_int_eq(a->split, b->split);
    ck_assert_int_eq(a->shared_bytes, b->shared_bytes);
    ck_assert_double_eq(a->clocks, b->clocks);
}

START_TEST(a_short_list_is_the_head_of_the_long_one)
{
    struct gemm_problem p = problem_of(1, 1024, 1024, 4095, 3);
    struct gemm_tile all[MAX_TILES], few[3];
    const struct target *target = target_find("sm_90a");
    ck_assert_int_gt(gemm_tiles(target, &p, all, MAX_TILES), 3);
    ck_assert_int_eq(gemm_tiles(target, &p, few, 3), 3);
    for (int i = 0; i < 3; i++)
        check_same(&few[i], &all[i]);
    struct gemm_tile one = fastest(target, &p);
    check_same(&one, &all[0]);
}
END_TEST

START_TEST(long_float_sums_are_promoted_and_no_others)
{
    struct gemm_tile tiles[MAX_TILES];
    for (int layout = 0; layout < 16; layout++) {
        struct gemm_problem p = problem_of(1, 64, 64, 65536, layout);
        int n = gemm_tiles(target_find("sm_90a"), &p, tiles, MAX_TILES);
        for (int j = 0; j < n; j++)
            ck_assert_int_eq(tiles[j].promote_k, p.floating && p.acc_bytes == 4 ? 256 : 0);
    }
}
END_TEST

START_TEST(a_large_square_takes_the_largest_tile)
{
    struct gemm_problem p = problem_of(1, 4096, 4096, 4096, 3);
    struct gemm_tile t = fastest(target_find("sm_90a"), &p);
    ck_assert_int_eq(t.block_m, 128);
    ck_assert_int_eq(t.block_n, 128);
    ck_assert_int_eq(t.blocks, 1024);
}
END_TEST

START_TEST(few_rows_take_a_flat_tile_and_share_k)
{
    struct gemm_problem p = problem_of(1, 1, 4096, 4096, 3);
    struct gemm_tile t = fastest(target_find("sm_90a"), &p);
    ck_assert_int_le(t.block_m, 4);
    ck_assert_int_ge(t.split, 4);
    ck_assert_int_ge(t.blocks, 100);
}
END_TEST

Suite *gemm_tiles_suite(void)
{
    Suite *s = suite_create("gemm_tiles");
    TCase *c = tcase_create("gemm_tiles");
    tcase_add_loop_test(c, every_size_has_tiles_that_fit, 0, n_targets);
    tcase_add_test(c, a_short_list_is_the_head_of_the_long_one);
    tcase_add_test(c, long_float_sums_are_promoted_and_no_others);
    tcase_add_test(c, a_large_square_takes_the_largest_tile);
    tcase_add_test(c, few_rows_take_a_flat_tile_and_share_k);
    suite_add_tcase(s, c);
    return s;
}
