// test_host.c: the host device: turns, barriers, warps, what it reports, and what it must survive

#include "tests/on_host.h"
#include "tests/tests.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct kernel kernels[] = {
#include "tests/host_kernels.def"
};
enum { N_KERNELS = sizeof kernels / sizeof *kernels };

static struct host_library *library;

static void compile_all(void)
{
    library = load_kernels(kernels, N_KERNELS, sanitizer_flags());
}

#define launch(name, ...)                                                                          \
    launch_kernel(library, find_kernel(kernels, name), false, (void *const[]){__VA_ARGS__})
#define launch_reversed(name, ...)                                                                 \
    launch_kernel(library, find_kernel(kernels, name), true, (void *const[]){__VA_ARGS__})

START_TEST(every_thread_of_every_block_knows_its_coordinates)
{
    int out[12 * 24];
    assert_ran(launch("coordinates", out));
    for (int i = 0; i < 12 * 24; i++) {
        int t = i % 24, b = i / 24;
        int thread = t / 12 * 100 + t / 4 % 3 * 10 + t % 4,
            block = b / 6 * 100 + b / 2 % 3 * 10 + b % 2;
        ck_assert_int_eq(out[i], block * 1000 + thread);
    }
}
END_TEST

START_TEST(threads_run_in_order_or_reversed)
{
    unsigned n = 0;
    int out[64];
    assert_ran(launch("order", &n, out));
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(out[i], i);
    n = 0;
    assert_ran(launch_reversed("order", &n, out));
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(out[i], 63 - i);
}
END_TEST

START_TEST(a_barrier_separates_writes_from_reads)
{
    for (int reversed = 0; reversed < 2; reversed++) {
        int out[128] = {0};
        assert_ran(
            launch_kernel(library, find_kernel(kernels, "rotate"), reversed, (void *const[]){out}));
        for (int i = 0; i < 128; i++)
            ck_assert_int_eq(out[i], 5 * ((i + 1) % 128) + 10000);
    }
}
END_TEST

START_TEST(a_missing_barrier_shows_in_both_orders)
{
    for (int reversed = 0; reversed < 2; reversed++) {
        int out[128] = {0};
        assert_ran(launch_kernel(library, find_kernel(kernels, "rotate_without_barrier"), reversed,
                                 (void *const[]){out}));
        for (int i = 0; i < 128; i++) // the partner has written, or shared memory is as it started
            ck_assert_int_eq(out[i], (i & 1) != reversed ? i ^ 1 : -1);
    }
}
END_TEST

START_TEST(shared_memory_starts_as_ones_in_every_block)
{
    int out[3] = {0};
    find_kernel(kernels, "fresh_shared")->grid[0] = 3;
    assert_ran(launch("fresh_shared", out));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(out[i], -1);
}
END_TEST

START_TEST(a_barrier_that_ended_threads_miss_is_named)
{
    assert_fails(launch("few_at_barrier", NULL),
                 "kernel few_at_barrier, block (0,0,0): __syncthreads at few_at_barrier.cu:6: "
                 "3 of 128 threads arrived, 125 ended, 0 wait for their warp");
}
END_TEST

START_TEST(two_barriers_are_not_one)
{
    assert_fails(launch("two_barriers", NULL),
                 "kernel two_barriers, block (0,0,0): threads wait at different barriers: "
                 "__syncthreads at two_barriers.cu:6 and at two_barriers.cu:8");
}
END_TEST

START_TEST(a_shuffle_that_lanes_miss_is_named)
{
    int out;
    assert_fails(
        launch("half_a_warp", &out),
        "kernel half_a_warp, block (0,0,0): __shfl_xor_sync at half_a_warp.cu:6: of lanes "
        "0xffffffff of warp 1 only 0x000000ff arrived; 56 threads ended, 0 wait at a barrier");
    assert_fails(launch("barrier_and_warp", NULL),
                 "kernel barrier_and_warp, block (0,0,0): __syncthreads at barrier_and_warp.cu:8: "
                 "63 of 64 threads arrived, 0 ended, 1 wait for their warp");
}
END_TEST

START_TEST(a_shuffle_keeps_to_its_mask)
{
    int out[4];
    assert_fails(
        launch("not_in_mask", NULL),
        "kernel not_in_mask, block (0,0,0), thread (0,0,0): __syncwarp at not_in_mask.cu:5: "
        "mask 0xfffffffe lacks the calling lane");
    assert_fails(
        launch("from_outside", out),
        "kernel from_outside, block (0,0,0): __shfl_sync at from_outside.cu:6: lane 0 reads "
        "from lane 4, which does not take part (lanes 0x0000000f do)");
}
END_TEST

START_TEST(shuffles_and_votes_are_the_gpus)
{
    int out[192];
    double wide[32];
    assert_ran(launch("shuffles", out, wide));
    for (int i = 0; i < 32; i++) {
        ck_assert_int_eq(out[i], 5);
        ck_assert_int_eq(out[32 + i], i % 8 < 5 ? i + 3 : i);
        ck_assert_int_eq(out[64 + i], i ? i - 1 : 0);
        ck_assert_int_eq(out[96 + i], i ^ 16);
        ck_assert_int_eq(out[128 + i], 0x49249249);
        ck_assert_int_eq(out[160 + i], i < 16 ? 3 : 0);
        ck_assert(wide[i] == 31.5 - i);
    }
}
END_TEST

START_TEST(a_last_warp_may_be_short)
{
    int out[40];
    assert_ran(launch("last_warp", out));
    for (int i = 0; i < 40; i++)
        ck_assert_int_eq(out[i], i < 32 ? -1 : 0xff);
}
END_TEST

START_TEST(a_misaligned_vector_is_an_error)
{
    _Alignas(16) float in[40] = {0}, out[4];
    assert_fails(launch("misaligned", in, out),
                 "kernel misaligned, block (0,0,0), thread (1,0,0): misaligned 16-byte access");
    _Alignas(4) unsigned short halves[4];
    assert_fails(
        launch("misaligned_store", halves),
        "kernel misaligned_store, block (0,0,0), thread (0,0,0): misaligned 4-byte access");
}
END_TEST

START_TEST(a_trap_stops_the_launch_and_not_the_process)
{
    int out = 0;
    for (int i = 0; i < 3; i++) {
        assert_fails(launch("trapped", &out),
                     "kernel trapped, block (0,0,0), thread (0,0,0): trap");
        ck_assert_int_eq(out, 1);
    }
    assert_fails(launch("no_shared", &out), "kernel no_shared, block (0,0,0), thread (0,0,0): "
                                            "dynamic_shared: the launch gives no shared memory");
}
END_TEST

START_TEST(a_launch_that_no_gpu_takes_is_an_error)
{
    struct kernel k = *find_kernel(kernels, "trapped");
    k.block[0] = 1025;
    assert_fails(launch_kernel(library, &k, false, NULL),
                 "kernel trapped, block (0,0,0): block is 1025 x 1 x 1 threads: 1 to 1024 can be "
                 "launched");
    k = *find_kernel(kernels, "trapped");
    k.grid[1] = 65536;
    assert_fails(
        launch_kernel(library, &k, false, NULL),
        "kernel trapped, block (0,0,0): grid is 1 x 65536 x 1 blocks: 2147483647 x 65535 x "
        "65535 can be launched");
    k.grid[1] = 0; // no blocks, nothing to do
    assert_ran(launch_kernel(library, &k, false, NULL));
}
END_TEST

START_TEST(the_last_block_sees_what_all_wrote)
{
    unsigned counter = 0;
    int partial[70], out[32];
    find_kernel(kernels, "last_block")->grid[0] = 70;
    assert_ran(launch_reversed("last_block", &counter, partial, out));
    ck_assert_int_eq(counter, 70);
    for (int i = 0; i < 32; i++)
        ck_assert_int_eq(out[i], 70 * 71 / 2);
}
END_TEST

START_TEST(static_shared_memory_is_the_blocks)
{
    int out[64] = {0};
    assert_ran(launch("static_shared", out));
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(out[i], 63 - i);
}
END_TEST

struct launcher {
    const struct host_library *library;
    int base, wrong;
};

static void *launch_many(void *argument)
{
    struct launcher *l = argument;
    for (int n = 0; n < 5; n++) {
        int out[257] = {l->base};
        char *message = launch_kernel(l->library, find_kernel(kernels, "many_barriers"), false,
                                      (void *const[]){out});
        l->wrong += message != NULL;
        free(message);
        for (int i = 1; i <= 256; i++)
            l->wrong += out[i] != 200 * l->base + 199 * 200 / 2;
        message = launch_kernel(l->library, find_kernel(kernels, "few_at_barrier"), false,
                                (void *const[]){NULL});
        l->wrong += !message; // one fails while another runs
        free(message);
    }
    return NULL;
}

START_TEST(threads_of_the_process_launch_at_once)
{
    struct kernel again[] = {*find_kernel(kernels, "many_barriers"),
                             *find_kernel(kernels, "few_at_barrier")};
    struct host_library *other = load_kernels(again, 2, sanitizer_flags());
    struct launcher launcher[3] = {
        {library, 1000,    0},
        {library, 2000000, 0},
        {other,   -3,      0}
    };
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, launch_many, &launcher[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        ck_assert_int_eq(launcher[i].wrong, 0);
    }
    host_unload(other);
}
END_TEST

// What a child that makes this launch says on standard error before it dies.
static void assert_dies_saying(const char *name, void *const *pointers, const char *expected)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        free(launch_kernel(library, find_kernel(kernels, name), false, pointers));
        _exit(0);
    }
    close(ends[1]);
    char said[16384];
    size_t n = 0;
    ssize_t got;
    while (n < sizeof said - 1 && (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = '\0';
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_ne(status, 0);
    ck_assert_msg(strstr(said, expected), "%s", said);
}

START_TEST(address_sanitizer_sees_what_lies_beyond)
{
    if (!has_address_sanitizer()) {
        puts("host: out-of-bounds accesses not tested: this program has no address sanitizer");
        return;
    }
    float *in = calloc(3, sizeof *in), out[4];
    int *one = calloc(1, sizeof *one);
    assert_dies_saying("beyond_global", (void *const[]){in, out}, "heap-buffer-overflow");
    assert_dies_saying("beyond_shared", (void *const[]){one}, "heap-buffer-overflow");
    *one = 1;
    assert_dies_saying("beyond_static", (void *const[]){one}, "global-buffer-overflow");
    free(in);
    free(one);
}
END_TEST

START_TEST(what_the_process_cannot_hold_is_refused)
{
    char *message, path[] = "/tmp/quern-test-XXXXXX";
    struct host_library *none;
    close(mkstemp(path));
    ck_assert_int_eq(host_load(path, &none, &message), HOST_failed);
    ck_assert_ptr_null(none);
    free(message);
    ck_assert_int_eq(host_compile("c++", "-fsanitize=address", kernels, 1, path, &message),
                     HOST_ok);
    if (!has_address_sanitizer()) {
        ck_assert_int_eq(host_load(path, &none, &message), HOST_failed);
        ck_assert_ptr_nonnull(
            strstr(message, "was built with -fsanitize=address, and this program was not"));
        free(message);
    }
    unlink(path);
}
END_TEST

START_TEST(a_missing_compiler_is_told_from_a_failed_one)
{
    char *message, path[] = "/tmp/quern-test-XXXXXX";
    close(mkstemp(path));
    ck_assert_int_eq(host_compile("no-such-c++", NULL, kernels, 1, path, &message), HOST_missing);
    assert_fails(message, "no C++ compiler: no-such-c++: No such file or directory");
    ck_assert_int_eq(host_compile(" ", NULL, kernels, 1, path, &message), HOST_missing);
    assert_fails(message, "no C++ compiler is named");
    struct kernel wrong = KERNEL("wrong", 1, 0, "int *out;", "    args.out[0] = nonsense;\n");
    ck_assert_int_eq(host_compile("c++", NULL, &wrong, 1, path, &message), HOST_failed);
    ck_assert_msg(strstr(message, "wrong.cu:5:19: error: 'nonsense' was not declared") ||
                      strstr(message, "wrong.cu:5:19: error: ‘nonsense’ was not declared"),
                  "%s", message);
    free(message);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(the_same_kernels_make_the_same_object)
{
    static char bytes[2][1 << 20];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        char *message, folder[] = "/tmp/quern-test-XXXXXX", path[64];
        ck_assert_ptr_nonnull(mkdtemp(folder));
        snprintf(path, sizeof path, "%s/kernels.so", folder);
        ck_assert_int_eq(host_compile("c++", NULL, kernels, 3, path, &message), HOST_ok);
        FILE *in = fopen(path, "r");
        n[i] = fread(bytes[i], 1, sizeof bytes[i], in);
        fclose(in);
        unlink(path);
        ck_assert_int_eq(rmdir(folder), 0); // nothing else was left there
    }
    ck_assert(n[0] == n[1] && n[0] < sizeof bytes[0] && !memcmp(bytes[0], bytes[1], n[0]));
}
END_TEST

Suite *host_suite(void)
{
    Suite *s = suite_create("host");
    TCase *t = tcase_create("host");
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, compile_all, NULL);
    tcase_add_test(t, every_thread_of_every_block_knows_its_coordinates);
    tcase_add_test(t, threads_run_in_order_or_reversed);
    tcase_add_test(t, a_barrier_separates_writes_from_reads);
    tcase_add_test(t, a_missing_barrier_shows_in_both_orders);
    tcase_add_test(t, shared_memory_starts_as_ones_in_every_block);
    tcase_add_test(t, a_barrier_that_ended_threads_miss_is_named);
    tcase_add_test(t, two_barriers_are_not_one);
    tcase_add_test(t, a_shuffle_that_lanes_miss_is_named);
    tcase_add_test(t, a_shuffle_keeps_to_its_mask);
    tcase_add_test(t, shuffles_and_votes_are_the_gpus);
    tcase_add_test(t, a_last_warp_may_be_short);
    tcase_add_test(t, a_misaligned_vector_is_an_error);
    tcase_add_test(t, a_trap_stops_the_launch_and_not_the_process);
    tcase_add_test(t, a_launch_that_no_gpu_takes_is_an_error);
    tcase_add_test(t, the_last_block_sees_what_all_wrote);
    tcase_add_test(t, static_shared_memory_is_the_blocks);
    tcase_add_test(t, threads_of_the_process_launch_at_once);
    tcase_add_test(t, address_sanitizer_sees_what_lies_beyond);
    tcase_add_test(t, what_the_process_cannot_hold_is_refused);
    tcase_add_test(t, a_missing_compiler_is_told_from_a_failed_one);
    tcase_add_test(t, the_same_kernels_make_the_same_object);
    suite_add_tcase(s, t);
    return s;
}
