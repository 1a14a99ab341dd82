// test_driver.c: what the command asks of a GPU's driver and makes of its answers, on a driver that
// has no GPU (tests/fake).

#include "tests/child.h"
#include "tests/machine.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

static void run_quant_linear(struct result *r, const char *options)
{
    launches();
    quern(r, NULL, "run %s -D B=8 -D T=64 -D D=128 --random 1%s", example("quant_linear.qn"),
          options);
}

static void run_linear(struct result *r, const char *options)
{
    launches();
    quern(r, NULL, "run %s -D B=64 -D I=256 -D O=256 --random 1%s", example("linear_mean_gelu.qn"),
          options);
}

static void expect_ran(const struct result *r)
{
    ck_assert_msg(r->status == 0, "status %d: %s", r->status, r->err);
}

START_TEST(doctor_shows_the_gpu)
{
    struct result r;
    quern(&r, NULL, "doctor");
    expect_ran(&r);
    expect_part(r.out, "fake H200, sm_90a, 132 SMs");
    expect_part(r.out, "for CUDA 13.0");
    expect_part(r.out, "run on a GPU: yes");
}
END_TEST

// ---- clusters ----

static const struct {
    const char *fits; // the largest cluster
    int n;            // elements of a row
    const char *launched;
    int n_notes;
} long_rows[] = {
    {"16", 350000, " cluster=16\n", 0},
    {"8",  350000, " cluster=1\n",  1}, // 8 blocks cannot keep such a row
    {"0",  350000, " cluster=1\n",  1},
    {"8",  100000, " cluster=8\n",  0},
    {"4",  100000, " cluster=4\n",  1},
    {"0",  100000, " cluster=1\n",  2},
};

START_TEST(clusters_are_as_large_as_fit)
{
    struct result r;
    set("FAKE_CUDA_SMS", "16");
    set("FAKE_CUDA_CLUSTER", long_rows[_i].fits);
    launches();
    quern(&r, NULL, "run %s -D R=8 -D N=%d --random 1", in_folder("long.qn"), long_rows[_i].n);
    expect_ran(&r);
    const char *launched = launches();
    expect_part(launched, long_rows[_i].launched);
    ck_assert_int_eq(count(launched, "\n"), 1);
    ck_assert_int_eq(count(r.err, "fake H200 has no room for a cluster of "),
                     long_rows[_i].n_notes);
    ck_assert_int_eq(count(r.err, "\n"), long_rows[_i].n_notes);
}
END_TEST

START_TEST(a_cluster_that_the_driver_refuses_does_not_fit)
{
    struct result r;
    set("FAKE_CUDA_SMS", "16");
    set("FAKE_CUDA_FAIL", "cuOccupancyMaxActiveClusters:912@1");
    launches();
    quern(&r, NULL, "run %s -D R=8 -D N=100000 --random 1", in_folder("long.qn"));
    expect_ran(&r);
    expect_part(launches(), " cluster=4\n");
    ck_assert_str_eq(r.err, "quern: long_0_rows: fake H200 has no room for a cluster of 8 blocks: "
                            "planned again for 4 at most\n");
}
END_TEST

// What would run in its place is not what was to be measured.  With fast math no reference is asked
// for, which nothing here would agree with.
START_TEST(tuning_sets_aside_what_does_not_fit)
{
    struct result r;
    set("FAKE_CUDA_SMS", "16");
    set("FAKE_CUDA_CLUSTER", "8");
    quern(&r, NULL, "tune %s -D R=8 -D N=100000 --math fast", in_folder("long.qn"));
    expect_ran(&r);
    expect_part(r.out, "\n                 long_0_rows: fake H200 has no room for a cluster of 16");
    ck_assert_int_eq(count(r.err, "planned again"), 0);
}
END_TEST

static const struct {
    const char *fits, *launched;
    int n_notes;
} scopes[] = {
    {"16", " cluster=8\n",   0},
    {"4",  " cooperative\n", 1},
    {"0",  " cooperative\n", 1},
};

// The phases of one launch.
START_TEST(a_scope_that_does_not_fit_is_the_grids)
{
    struct result r;
    set("FAKE_CUDA_CLUSTER", scopes[_i].fits);
    run_quant_linear(&r, " --arch sm_90");
    expect_ran(&r);
    const char *launched = launches();
    expect_part(launched, scopes[_i].launched);
    ck_assert_int_eq(count(launched, "\n"), 1);
    ck_assert_int_eq(count(r.err, "fake H200 has no room for a cluster of "), scopes[_i].n_notes);
    ck_assert_int_eq(count(r.err, "\n"), scopes[_i].n_notes);
}
END_TEST

START_TEST(an_older_driver_is_not_asked)
{
    struct result r;
    use_driver("fake/old");
    set("FAKE_CUDA_SMS", "16");
    launches();
    quern(&r, NULL, "run %s -D R=8 -D N=100000 --random 1 --time", in_folder("long.qn"));
    expect_ran(&r);
    expect_part(launches(), " cluster=8\n");
    ck_assert_str_eq(r.err, "");
    set("FAKE_CUDA_CLUSTER", "4");
    quern(&r, NULL, "run %s -D R=8 -D N=100000 --random 1", in_folder("long.qn"));
    ck_assert_int_eq(r.status, 1);
    ck_assert_str_eq(r.err, "quern: launch of long_0_rows: CUDA_ERROR_INVALID_CLUSTER_SIZE\n");
}
END_TEST

// ---- grids that are on the GPU at once ----

static const struct {
    const char *sms, *per_sm, *grid;
} rooms[] = {
    {"132", "1", " grid=128,1,1 "},
    {"64",  "2", " grid=128,1,1 "},
    {"64",  "1", " grid=64,1,1 " },
    {"1",   "3", " grid=3,1,1 "  },
};

START_TEST(a_cooperative_grid_is_what_there_is_room_for)
{
    struct result r;
    set("FAKE_CUDA_SMS", rooms[_i].sms);
    set("FAKE_CUDA_BLOCKS_PER_SM", rooms[_i].per_sm);
    set("FAKE_CUDA_CLUSTER", "0");
    run_quant_linear(&r, " --arch sm_90"); // planned for 132 SMs, whatever there are
    expect_ran(&r);
    const char *launched = launches();
    expect_part(launched, rooms[_i].grid);
    expect_part(launched, " cooperative\n");
    ck_assert_int_eq(count(launched, "\n"), 1);
}
END_TEST

START_TEST(a_gpu_without_room_for_a_block_is_an_error)
{
    struct result r;
    set("FAKE_CUDA_BLOCKS_PER_SM", "0");
    set("FAKE_CUDA_CLUSTER", "0");
    run_quant_linear(&r, "");
    ck_assert_int_eq(r.status, 1);
    expect_part(r.err, "\nquern: quant_linear_0_stitch: fake H200 has no room for a block\n");
    ck_assert_str_eq(launches(), "");
}
END_TEST

START_TEST(separate_kernels_are_launched_one_by_one)
{
    struct result r;
    run_quant_linear(&r, " --separate");
    expect_ran(&r);
    const char *launched = launches();
    ck_assert_int_eq(count(launched, "\n"), 2);
    ck_assert_int_eq(count(launched, "cooperative"), 0);
    expect_part(launched, "quant_linear_0_columns grid=16,1,1 ");
    expect_part(launched, "\nquant_linear_1_gemm grid=128,1,1 ");
}
END_TEST

// ---- weights ----

START_TEST(weights_are_prepared_once)
{
    struct result r;
    run_linear(&r, " --time");
    expect_ran(&r);
    const char *launched = launches();
    ck_assert_int_eq(strncmp(launched, "linear_mean_gelu_prepare_0_stitch ", 34), 0);
    ck_assert_int_eq(count(launched, "_prepare_"), 1);
    ck_assert_int_gt(count(launched, "linear_mean_gelu_0_rows "), 2);
    run_linear(&r, " --time --weights each-run");
    launched = launches();
    ck_assert_int_gt(count(launched, "_prepare_"), 2);
    ck_assert_int_eq(2 * count(launched, "_prepare_"), count(launched, "\n"));
}
END_TEST

START_TEST(bench_needs_nothing_else_of_a_driver)
{
    struct result r;
    quern(&r, NULL, "bench %s -D B=64 -D I=256 -D O=256", example("linear_mean_gelu.qn"));
    expect_ran(&r);
    ck_assert_str_eq(r.err, "");
    expect_part(r.out, "linear_mean_gelu on fake H200 (sm_90a)");
}
END_TEST

// ---- failures ----

#define DROPPED "cache: the entry of quant_linear_0_stitch does not load on this GPU and is dropped"
#define FOREIGN "quant_linear_0_stitch, compiled for sm_90a, does not load on fake H200 (sm_90a)"

// FUNCTION:CODE => STATUS, and what is said
static const char *const failures[] = {
    "cuModuleLoadData:209@1 => 0 quern: " DROPPED "\n",
    "cuModuleLoadData:218 => 1 quern: " DROPPED "\nquern: " FOREIGN "\n",
    "cuModuleLoadData:2 => 3 quern: cuModuleLoadData: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n",
    "cuModuleGetFunction:1 => 1 quern: cuModuleGetFunction: CUDA_ERROR_INVALID_VALUE: invalid "
    "argument\n",
    "cuMemAlloc:2 => 3 quern: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n",
    "cuLaunchKernelEx:701 => 1 quern: launch of quant_linear_0_stitch: "
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES\n",
    "cuLaunchKernelEx:700 => 1 quern: launch of quant_linear_0_stitch: "
    "CUDA_ERROR_ILLEGAL_ADDRESS\n",
    "cuStreamSynchronize:700 => 1 quern: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS: illegal "
    "memory access\n",
    "cuStreamSynchronize:700@2 => 1 quern: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS: "
    "illegal memory access\n",
    "cuEventCreate:2 => 3 quern: cuEventCreate: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n",
    "cuMemcpyDtoH:12345 => 1 quern: cuMemcpyDtoH: unknown error: no description\n",
};

START_TEST(what_the_driver_fails_with_is_one_sentence)
{
    struct result r;
    run_quant_linear(&r, ""); // fills the cache
    expect_ran(&r);
    const char *arrow = strstr(failures[_i], " => ");
    char fails[64];
    snprintf(fails, sizeof fails, "%.*s", (int)(arrow - failures[_i]), failures[_i]);
    set("FAKE_CUDA_FAIL", fails);
    run_quant_linear(&r, " --time");
    ck_assert_str_eq(r.err, arrow + 6);
    ck_assert_int_eq(r.status, arrow[4] - '0');
}
END_TEST

START_TEST(code_that_was_just_made_is_not_made_again)
{
    struct result r;
    set("FAKE_CUDA_FAIL", "cuModuleLoadData:209");
    run_quant_linear(&r, " --no-cache");
    ck_assert_int_eq(r.status, 1);
    ck_assert_str_eq(r.err, "quern: " FOREIGN "\n");
}
END_TEST

START_TEST(without_a_usable_gpu_programs_run_on_the_host)
{
    struct result r;
    set("FAKE_CUDA_FAIL", "cuInit:100");
    quern(&r, NULL, "run %s -D N=5 --random 1 --check", in_folder("scale.qn"));
    expect_ran(&r);
    ck_assert_str_eq(r.err,
                     "quern: cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device; running on "
                     "the host device\n");
    quern(&r, NULL, "run %s -D N=5 --random 1 --device cuda", in_folder("scale.qn"));
    ck_assert_int_eq(r.status, 3);
    ck_assert_str_eq(r.err, "quern: cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device\n");
    quern(&r, NULL, "doctor");
    expect_part(r.out, "run on a GPU: no");
}
END_TEST

static const char *const entries[] = {
#define CU(f, older, needed) #f,
#include "runtime/driver.def"
#undef CU
};

// Whatever fails, and whenever: no crash, and a sentence where it matters.
START_TEST(every_call_may_fail)
{
    struct result r;
    char fails[256];
    for (int nth = 0; nth < 4; nth++) {
        snprintf(fails, sizeof fails, "%s:%d%s%.0d", entries[_i], nth ? 2 : 719, nth ? "@" : "",
                 nth);
        set("FAKE_CUDA_FAIL", fails);
        run_linear(&r, nth > 1 ? "" : " --time");
        ck_assert_msg(r.status == 0 || r.status == 1 || r.status == 3, "%s: status %d: %s", fails,
                      r.status, r.err);
        if (r.status)
            expect_part(r.err, "quern: ");
    }
}
END_TEST

START_TEST(there_is_no_nvrtc_or_no_fake_so_nothing_ran)
{
    fprintf(stderr, "driver: skipped, NVRTC or the driver without a GPU is not on this machine\n");
}
END_TEST

#define LENGTH(table) (sizeof(table) / sizeof *(table))

Suite *driver_suite(void)
{
    Suite *s = suite_create("driver");
    TCase *command = tcase_create("the command");
    suite_add_tcase(s, command);
    if (!can_make_machine()) {
        tcase_add_test(command, there_is_no_nvrtc_or_no_fake_so_nothing_ran);
        return s;
    }
    tcase_set_timeout(command, 120);
    tcase_add_unchecked_fixture(command, make_machine, remove_machine);
    tcase_add_checked_fixture(command, reset_machine, NULL);
    tcase_add_test(command, doctor_shows_the_gpu);
    tcase_add_loop_test(command, clusters_are_as_large_as_fit, 0, LENGTH(long_rows));
    tcase_add_loop_test(command, a_scope_that_does_not_fit_is_the_grids, 0, LENGTH(scopes));
    tcase_add_test(command, a_cluster_that_the_driver_refuses_does_not_fit);
    tcase_add_test(command, tuning_sets_aside_what_does_not_fit);
    tcase_add_test(command, an_older_driver_is_not_asked);
    tcase_add_loop_test(command, a_cooperative_grid_is_what_there_is_room_for, 0, LENGTH(rooms));
    tcase_add_test(command, a_gpu_without_room_for_a_block_is_an_error);
    tcase_add_test(command, separate_kernels_are_launched_one_by_one);
    tcase_add_test(command, weights_are_prepared_once);
    tcase_add_test(command, bench_needs_nothing_else_of_a_driver);
    tcase_add_loop_test(command, what_the_driver_fails_with_is_one_sentence, 0, LENGTH(failures));
    tcase_add_test(command, code_that_was_just_made_is_not_made_again);
    tcase_add_test(command, without_a_usable_gpu_programs_run_on_the_host);
    tcase_add_loop_test(command, every_call_may_fail, 0, LENGTH(entries));

    return s;
}
