// test_host.c: the host device: turns, barriers, warps, what it reports, and what it must survive

#include "tests/on_host.h"
#include "tests/tests.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// ARGS { statements } as a kernel of that name; the line numbers of messages count from "#include".
#define SOURCE(name, args, ...)                                                                    \
    "#include \"device.cuh\"\nstruct Args {" args "};\n"                                           \
    "extern \"C\" __global__ void " name "(const __grid_constant__ Args args)\n{\n" __VA_ARGS__    \
    "}\n"
#define KERNEL(n, threads, shared, args, ...)                                                      \
    {                                                                                              \
        .name = n, .source = SOURCE(n, args, __VA_ARGS__), .grid = {1, 1, 1},                      \
        .block = {threads, 1, 1}, .shared_bytes = shared                                           \
    }

static struct kernel kernels[] = {
    {.name = "coordinates",
     .source = SOURCE(
         "coordinates", "int *out;",
     "    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
         "    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
         "    args.out[block * 24 + thread] = threadIdx.z * 100 + threadIdx.y * 10 + threadIdx.x "
         "+\n"
         "        1000 * (blockIdx.z * 100 + blockIdx.y * 10 + blockIdx.x);\n"),
     .grid = {2, 3, 2},
     .block = {4, 3, 2}},
    KERNEL("order", 64, 0, "unsigned *n; int *out;",
           "    args.out[atomic_ticket(args.n)] = threadIdx.x;\n"),
    KERNEL("rotate", 128, 128 * 4, "int *out;",
           "    int *shared = (int *)dynamic_shared();\n"
           "    for (int i = 0; i < 5; i++) {\n"
           "        shared[threadIdx.x] = threadIdx.x + 1000 * i;\n"
           "        __syncthreads();\n"
           "        args.out[threadIdx.x] += shared[(threadIdx.x + 1) % 128];\n"
           "        __syncthreads();\n"
           "    }\n"),
    KERNEL("rotate_without_barrier", 128, 128 * 4, "int *out;",
           "    int *shared = (int *)dynamic_shared();\n"
           "    shared[threadIdx.x] = threadIdx.x;\n"
           "    args.out[threadIdx.x] = shared[threadIdx.x ^ 1];\n"),
    KERNEL("fresh_shared", 1, 12, "int *out;",
           "    int *shared = (int *)dynamic_shared();\n"
           "    args.out[blockIdx.x] = shared[0] & shared[1] & shared[2];\n"
           "    shared[0] = shared[1] = shared[2] = 0;\n"),
    KERNEL("few_at_barrier", 128, 0, "int *out;",
           "    if (threadIdx.x < 3)\n"
           "        __syncthreads();\n"),
    KERNEL("two_barriers", 64, 0, "int *out;",
           "    if (threadIdx.x < 32)\n"
           "        __syncthreads();\n"
           "    else\n"
           "        __syncthreads();\n"),
    KERNEL("half_a_warp", 64, 0, "int *out;",
           "    if (threadIdx.x < 40)\n"
           "        args.out[0] = __shfl_xor_sync(0xffffffffu, (int)threadIdx.x, 1);\n"),
    KERNEL("barrier_and_warp", 64, 0, "int *out;",
           "    if (threadIdx.x == 63)\n"
           "        __syncwarp();\n"
           "    else\n"
           "        __syncthreads();\n"),
    KERNEL("not_in_mask", 32, 0, "int *out;", "    __syncwarp(0xfffffffeu);\n"),
    KERNEL("from_outside", 32, 0, "int *out;",
           "    if (threadIdx.x < 4)\n"
           "        args.out[threadIdx.x] = __shfl_sync(0xfu, (int)threadIdx.x, 4);\n"),
    KERNEL("shuffles", 32, 0, "int *out; double *wide;",
           "    int i = threadIdx.x;\n"
           "    args.out[i] = __shfl_sync(0xffffffffu, i, 5);\n"
           "    args.out[32 + i] = __shfl_down_sync(0xffffffffu, i, 3, 8);\n"
           "    args.out[64 + i] = __shfl_up_sync(0xffffffffu, i, 1);\n"
           "    args.out[96 + i] = __shfl_xor_sync(0xffffffffu, i, 16);\n"
           "    args.out[128 + i] = (int)__ballot_sync(0xffffffffu, i % 3 == 0);\n"
           "    if (i < 16)\n"
           "        args.out[160 + i] = __any_sync(0xffffu, i == 15) + 2 * __all_sync(0xffffu, i < "
           "16);\n"
           "    else\n"
           "        args.out[160 + i] = __any_sync(0xffff0000u, i < 16) + 2 * "
           "__all_sync(0xffff0000u, i > 16);\n"
           "    args.wide[i] = __shfl_sync(0xffffffffu, i + 0.5, 31 - i);\n"),
    KERNEL("last_warp", 40, 0, "int *out;",
           "    args.out[threadIdx.x] = (int)__ballot_sync(0xffffffffu, true);\n"),
    KERNEL("misaligned", 32, 0, "float *in; float *out;",
           "    store_vec(args.out, load_vec<float, 4>(args.in + threadIdx.x));\n"),
    KERNEL("misaligned_store", 1, 0, "half_t *out;",
           "    store_vec(args.out + 1, Vec<half_t, 2>());\n"),
    KERNEL("trapped", 1, 0, "int *out;",
           "    args.out[0] = 1;\n    __trap();\n    args.out[0] = 2;\n"),
    KERNEL("no_shared", 1, 0, "int *out;", "    args.out[0] = dynamic_shared()[0];\n"),
    KERNEL("beyond_global", 1, 0, "float *in; float *out;",
           "    store_vec(args.out, load_vec<float, 4>(args.in));\n"),
    KERNEL("beyond_shared", 32, 31 * 4, "int *out;",
           "    __syncthreads();\n"
           "    ((int *)dynamic_shared())[threadIdx.x] = args.out[0];\n"),
    KERNEL("many_barriers", 256, 4, "int *out;",
           "    for (int i = 0; i < 200; i++) {\n"
           "        if (threadIdx.x == i)\n"
           "            *(int *)dynamic_shared() = args.out[0] + i;\n"
           "        __syncthreads();\n"
           "        args.out[1 + threadIdx.x] += *(int *)dynamic_shared();\n"
           "        __syncthreads();\n"
           "    }\n"),
    KERNEL("static_shared", 64, 0, "int *out;",
           "    __shared__ int shared[64];\n"
           "    shared[threadIdx.x] = threadIdx.x + args.out[0] * 0;\n"
           "    __syncthreads();\n"
           "    args.out[threadIdx.x] = shared[63 - threadIdx.x];\n"),
    KERNEL("last_block", 32, 4, "unsigned *counter; int *partial; int *out;",
           "    unsigned *last = (unsigned *)dynamic_shared();\n"
           "    if (threadIdx.x == 0) {\n"
           "        store(args.partial + blockIdx.x, (int)blockIdx.x + 1);\n"
           "        memory_fence();\n"
           "        *last = atomic_ticket(args.counter);\n"
           "    }\n"
           "    __syncthreads();\n"
           "    if (*last != gridDim.x - 1)\n"
           "        return;\n"
           "    int sum = 0;\n"
           "    for (int i = threadIdx.x; i < gridDim.x; i += 32)\n"
           "        sum += load_coherent(args.partial + i);\n"
           "    warp_reduce<32>(sum, [](int &a, int b) { a += b; });\n"
           "    args.out[threadIdx.x] = sum;\n"),
};
enum { N_KERNELS = sizeof kernels / sizeof *kernels };

static struct host_library *library;

static void compile_all(void)
{
    library = load_kernels(kernels, N_KERNELS, sanitizer_flags());
}

static struct kernel *find(const char *name)
{
    int i = 0;
    while (strcmp(kernels[i].name, name))
        i++;
    return &kernels[i];
}

#define launch(name, ...) launch_kernel(library, find(name), false, (void *const[]){__VA_ARGS__})
#define launch_reversed(name, ...)                                                                 \
    launch_kernel(library, find(name), true, (void *const[]){__VA_ARGS__})

static void assert_ran(char *message)
{
    ck_assert_msg(!message, "%s", message);
}

static void assert_fails(char *message, const char *expected)
{
    ck_assert_ptr_nonnull(message);
    ck_assert_str_eq(message, expected);
    free(message);
}

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
        assert_ran(launch_kernel(library, find("rotate"), reversed, (void *const[]){out}));
        for (int i = 0; i < 128; i++)
            ck_assert_int_eq(out[i], 5 * ((i + 1) % 128) + 10000);
    }
}
END_TEST

START_TEST(a_missing_barrier_shows_in_both_orders)
{
    for (int reversed = 0; reversed < 2; reversed++) {
        int out[128] = {0};
        assert_ran(
            launch_kernel(library, find("rotate_without_barrier"), reversed, (void *const[]){out}));
        for (int i = 0; i < 128; i++) // the partner has written, or shared memory is as it started
            ck_assert_int_eq(out[i], (i & 1) != reversed ? i ^ 1 : -1);
    }
}
END_TEST

START_TEST(shared_memory_starts_as_ones_in_every_block)
{
    int out[3] = {0};
    find("fresh_shared")->grid[0] = 3;
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
    struct kernel k = *find("trapped");
    k.block[0] = 1025;
    assert_fails(launch_kernel(library, &k, false, NULL),
                 "kernel trapped, block (0,0,0): block is 1025 x 1 x 1 threads: 1 to 1024 can be "
                 "launched");
    k = *find("trapped");
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
    find("last_block")->grid[0] = 70;
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

static void *launch_many(void *argument)
{
    int base = *(int *)argument;
    intptr_t wrong = 0;
    for (int n = 0; n < 5; n++) {
        int out[257] = {base};
        char *message = launch("many_barriers", out);
        wrong += message != NULL;
        free(message);
        for (int i = 1; i <= 256; i++)
            wrong += out[i] != 200 * base + 199 * 200 / 2;
        message = launch("few_at_barrier", NULL); // one fails while the other runs
        wrong += !message;
        free(message);
    }
    return (void *)wrong;
}

START_TEST(two_threads_launch_at_once)
{
    pthread_t thread[2];
    int base[2] = {1000, 2000000};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, launch_many, &base[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        ck_assert_ptr_null(wrong);
    }
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
        free(launch_kernel(library, find(name), false, pointers));
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
    tcase_add_test(t, two_threads_launch_at_once);
    tcase_add_test(t, address_sanitizer_sees_what_lies_beyond);
    tcase_add_test(t, what_the_process_cannot_hold_is_refused);
    tcase_add_test(t, a_missing_compiler_is_told_from_a_failed_one);
    tcase_add_test(t, the_same_kernels_make_the_same_object);
    suite_add_tcase(s, t);
    return s;
}
