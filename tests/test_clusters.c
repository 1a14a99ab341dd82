// test_clusters.c: blocks that run at once on the host device: their barrier, their shared memory,
// the packets they exchange, and what it reports

#include "tests/on_host.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

static struct kernel kernels[] = {
#include "tests/cluster_kernels.def"
};
enum { N_KERNELS = sizeof kernels / sizeof *kernels };

static struct host_library *library;

static void compile_all(void)
{
    library = load_kernels(kernels, N_KERNELS, sanitizer_flags());
}

// A copy of that kernel, with as many blocks, in clusters of that many.
static struct kernel in_clusters(const char *name, unsigned blocks, unsigned cluster)
{
    struct kernel k = *find_kernel(kernels, name);
    k.grid[0] = blocks, k.cluster[0] = cluster;
    k.cluster[1] = k.cluster[2] = 1;
    return k;
}

#define launch_in_clusters(name, blocks, cluster, reversed, ...)                                   \
    launch_kernel(library, &(struct kernel[]){in_clusters(name, blocks, cluster)}[0], reversed,    \
                  (void *const[]){__VA_ARGS__})

START_TEST(blocks_of_a_cluster_reach_each_others_shared_memory)
{
    for (int reversed = 0; reversed < 2; reversed++) {
        int out[8 * 64] = {0};
        assert_ran(launch_in_clusters("cluster_rotate", 8, 4, reversed, out));
        for (int i = 0; i < 8 * 64; i++) // written by the block before it, which read it from there
            ck_assert_int_eq(out[i], 1000 * (i / 64) + 63 - i % 64);
    }
}
END_TEST

START_TEST(clusters_are_boxes_of_the_grid)
{
    int out[4 * 2 * 2];
    struct kernel k = *find_kernel(kernels, "cluster_ranks");
    unsigned grid[3] = {4, 2, 2}, cluster[3] = {2, 1, 2};
    memcpy(k.grid, grid, sizeof grid);
    memcpy(k.cluster, cluster, sizeof cluster);
    assert_ran(launch_kernel(library, &k, false, (void *const[]){out}));
    for (int i = 0; i < 16; i++) {
        int x = i % 4, z = i / 8, rank = x % 2 + 2 * z, first = i - x % 2 - 8 * z;
        ck_assert_int_eq(out[i], 100 * rank + first);
    }
}
END_TEST

START_TEST(a_cluster_barrier_that_a_thread_misses_is_named)
{
    for (int reversed = 0; reversed < 2; reversed++) {
        assert_fails(
            launch_in_clusters("few_in_cluster", 4, 4, reversed, NULL),
            "kernel few_in_cluster, block (2,0,0), thread (5,0,0): ended, and cluster_wait at "
            "few_in_cluster.cu:9 waits for it: 127 of 128 threads of 4 blocks arrived");
        assert_fails(launch_in_clusters("block_holds_cluster_up", 2, 2, reversed, NULL),
                     "kernel block_holds_cluster_up, block (1,0,0): __syncthreads at "
                     "block_holds_cluster_up.cu:8: 27 of 32 threads arrived, 1 ended, 0 wait for "
                     "their warp, 4 wait for other blocks");
    }
    assert_fails(launch_in_clusters("arrives_twice", 2, 2, false, NULL),
                 "kernel arrives_twice, block (0,0,0), thread (0,0,0): cluster_arrive at "
                 "arrives_twice.cu:6: arrives twice without waiting");
    assert_fails(launch_in_clusters("waits_first", 2, 2, false, NULL),
                 "kernel waits_first, block (0,0,0), thread (0,0,0): cluster_wait at "
                 "waits_first.cu:5: waits without having arrived");
}
END_TEST

START_TEST(shared_memory_of_a_block_that_may_be_gone_is_not_reached)
{
    int out[3] = {0, 1, 0};
    assert_fails(launch_in_clusters("remote_too_early", 2, 2, false, out),
                 "kernel remote_too_early, block (0,0,0), thread (0,0,0): shared memory of block 1 "
                 "of the cluster: the block may not have begun");
    assert_fails(launch_in_clusters("remote_too_late", 2, 2, false, out),
                 "kernel remote_too_late, block (0,0,0), thread (0,0,0): shared memory of block 1 "
                 "of the cluster: the block has ended");
    assert_fails(launch_in_clusters("remote_elsewhere", 2, 2, false, out),
                 "kernel remote_elsewhere, block (1,0,0), thread (0,0,0): shared memory of block 0 "
                 "of the cluster: the address is not in shared memory");
    out[1] = 0, out[2] = 2;
    assert_fails(launch_in_clusters("remote_elsewhere", 2, 2, false, out),
                 "kernel remote_elsewhere, block (1,0,0), thread (0,0,0): shared memory of block 2 "
                 "of the cluster: the cluster has no such block");
}
END_TEST

START_TEST(a_block_overtakes_what_no_barrier_holds)
{
    int out[1] = {0};
    assert_ran(launch_in_clusters("overtaken", 2, 2, true, out));
    ck_assert_int_eq(out[0], 2);
}
END_TEST

START_TEST(a_cooperative_grid_runs_at_once)
{
    for (int reversed = 0; reversed < 2; reversed++) {
        int out[5 * 32] = {0};
        struct kernel k = *find_kernel(kernels, "whole_grid");
        k.grid[0] = 5;
        k.cooperative = true;
        for (int i = 0; i < 5 * 32; i++)
            out[i] = 100 * (i / 32);
        assert_ran(launch_kernel(library, &k, reversed, (void *const[]){out}));
        for (int i = 0; i < 5 * 32; i++)
            ck_assert_int_eq(out[i], 100 * ((i / 32 + 3) % 5) + 33);
    }
}
END_TEST

static struct kernel at_once(const char *name, unsigned blocks)
{
    struct kernel k = *find_kernel(kernels, name);
    k.grid[0] = blocks;
    k.cooperative = true;
    return k;
}

// What was sent before with another tag is not taken for it, whoever comes first.
START_TEST(a_packet_is_taken_by_its_tag)
{
    for (int reversed = 0; reversed < 2; reversed++) {
        uint64_t packets[8];
        unsigned tag = 41;
        double out[3 * 32];
        struct kernel k = at_once("packets", 3);
        for (int i = 0; i < 8; i++)
            packets[i] = 40ull << 32 | 0x40590000;
        for (tag = 41; tag < 44; tag++) {
            memset(out, 0xff, sizeof out);
            assert_ran(launch_kernel(library, &k, reversed, (void *const[]){packets, &tag, out}));
            for (int i = 0; i < 3 * 32; i++)
                ck_assert_double_eq(out[i], 150 + 25 + 3.5);
        }
    }
}
END_TEST

START_TEST(a_packet_that_is_not_sent_is_a_deadlock)
{
    uint64_t packets[2] = {7, 6};
    struct kernel k = at_once("unsent", 2);
    for (int reversed = 0; reversed < 2; reversed++)
        assert_fails(launch_kernel(library, &k, reversed, (void *const[]){packets}),
                     "kernel unsent, block (1,0,0), thread (9,0,0): yield_turn at unsent.cu:6 "
                     "waits for what no other thread does: 32 of 64 threads ended");
}
END_TEST

START_TEST(who_yields_may_be_waited_for)
{
    uint64_t packets[1] = {0};
    struct kernel k = at_once("counting", 2);
    for (int reversed = 0; reversed < 2; reversed++, packets[0] = 0)
        assert_ran(launch_kernel(library, &k, reversed, (void *const[]){packets}));
}
END_TEST

START_TEST(a_cluster_that_no_gpu_takes_is_an_error)
{
    assert_fails(launch_in_clusters("cluster_rotate", 34, 17, false, NULL),
                 "kernel cluster_rotate, block (0,0,0): cluster is 17 x 1 x 1 blocks: 1 to 16 can "
                 "be launched");
    assert_fails(launch_in_clusters("cluster_rotate", 10, 4, false, NULL),
                 "kernel cluster_rotate, block (0,0,0): grid is 10 x 1 x 1 blocks, not a multiple "
                 "of the cluster's 4 x 1 x 1");
}
END_TEST

Suite *clusters_suite(void)
{
    Suite *s = suite_create("clusters");
    TCase *t = tcase_create("clusters");
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, compile_all, NULL);
    tcase_add_test(t, blocks_of_a_cluster_reach_each_others_shared_memory);
    tcase_add_test(t, clusters_are_boxes_of_the_grid);
    tcase_add_test(t, a_cluster_barrier_that_a_thread_misses_is_named);
    tcase_add_test(t, shared_memory_of_a_block_that_may_be_gone_is_not_reached);
    tcase_add_test(t, a_block_overtakes_what_no_barrier_holds);
    tcase_add_test(t, a_cooperative_grid_runs_at_once);
    tcase_add_test(t, a_packet_is_taken_by_its_tag);
    tcase_add_test(t, a_packet_that_is_not_sent_is_a_deadlock);
    tcase_add_test(t, who_yields_may_be_waited_for);
    tcase_add_test(t, a_cluster_that_no_gpu_takes_is_an_error);
    suite_add_tcase(s, t);
    return s;
}
