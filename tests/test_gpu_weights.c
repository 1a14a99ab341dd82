// test_gpu_weights.c: the contract of weights on a GPU: the order between streams, and what a
// captured run holds.  Without a driver there is one test, which says so.

#include "runtime/cuda.h"
#include "tests/planning.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// Large enough that preparing takes a while.
enum { R = 4096, D = 4096 };
static const size_t w_bytes = sizeof(float) * R * D, x_bytes = sizeof(float) * D;

static const char shifted[] = "program shifted(R, D)\ninput x : f32[D]\nweight w : f32[R, D]\n"
                              "weight g : f32[D]\ns = sum(w, axis = 0)\noutput y = x * s + g\n";

#define CUDA(f, ...) ck_assert_int_eq(b->cu.f(__VA_ARGS__), CUDA_SUCCESS)

struct weighed {
    struct driver cu;
    __typeof__(&cuMemsetD32Async) fill; // the library has no use for it
    quern *q;
    quern_plan *plan;
    CUstream a, b;
    void *w, *w2, *g, *x, *y;
    void *arguments[2];
    float host[D];
};

static void expect_ok(const struct weighed *b, quern_status s)
{
    ck_assert_msg(s == QUERN_OK, "%s: %s", quern_status_name(s), quern_message(b->q));
}

static void set(struct weighed *b, void *to, size_t bytes, float value, CUstream stream)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    ck_assert_int_eq(b->fill((CUdeviceptr)to, bits, bytes / sizeof value, stream), CUDA_SUCCESS);
}

static struct weighed *bench_open(int each_run)
{
    char why[256];
    struct weighed *b = calloc(1, sizeof *b);
    CUcontext context;
    ck_assert_msg(driver_open(&b->cu, why, sizeof why), "%s", why);
    *(void **)&b->fill = dlsym(b->cu.library, "cuMemsetD32Async");
    ck_assert(b->fill != NULL);
    b->q = open_on(QUERN_DEVICE_CUDA, 0);
    b->plan = planned(b->q, shifted,
                      &(quern_plan_options){
                          .each_run = each_run
    },
                      (quern_size[]){{"R", R}, {"D", D}}, 2);
    void **memory[] = {&b->w, &b->w2, &b->g, &b->x, &b->y};
    for (int i = 0; i < 5; i++)
        expect_ok(b, quern_alloc(b->q, i < 2 ? w_bytes : x_bytes, memory[i]));
    b->arguments[0] = b->x, b->arguments[1] = b->y;
    CUDA(cuDevicePrimaryCtxRetain, &context, 0);
    CUDA(cuCtxPushCurrent, context);
    CUDA(cuStreamCreate, &b->a, CU_STREAM_NON_BLOCKING);
    CUDA(cuStreamCreate, &b->b, CU_STREAM_NON_BLOCKING);
    set(b, b->w, w_bytes, 1, b->a);
    set(b, b->w2, w_bytes, 10, b->a);
    set(b, b->g, x_bytes, 0, b->a);
    set(b, b->x, x_bytes, 1, b->a);
    CUDA(cuStreamSynchronize, b->a);
    expect_ok(b, quern_bind(b->plan, "w", b->w));
    expect_ok(b, quern_bind(b->plan, "g", b->g));
    return b;
}

static void bench_close(struct weighed *b)
{
    void *memory[] = {b->w, b->w2, b->g, b->x, b->y};
    CUDA(cuStreamDestroy, b->a);
    CUDA(cuStreamDestroy, b->b);
    quern_destroy_plan(b->plan);
    for (int i = 0; i < 5; i++)
        expect_ok(b, quern_free(b->q, memory[i]));
    quern_close(b->q);
    driver_close(&b->cu);
    free(b);
}

static void expect_y(struct weighed *b, float y, CUstream stream)
{
    CUDA(cuStreamSynchronize, stream);
    expect_ok(b, quern_download(b->q, b->host, b->y, x_bytes));
    for (int i = 0; i < D; i++)
        ck_assert_float_eq(b->host[i], y);
}

static void expect_run(struct weighed *b, float y, CUstream stream)
{
    set(b, b->y, x_bytes, -1, stream);
    expect_ok(b, quern_execute(b->plan, b->arguments, 2, stream));
    expect_y(b, y, stream);
}

// Some milliseconds of work, so that what is launched behind it has surely not begun.
static void occupy(struct weighed *b, CUstream stream)
{
    for (int i = 0; i < 200; i++)
        set(b, b->w2, w_bytes, 10, stream);
}

START_TEST(weights_are_prepared_on_demand_and_after_a_word)
{
    struct weighed *b = bench_open(_i);
    expect_run(b, R, b->a);
    set(b, b->w, w_bytes, 2, b->a);
    expect_run(b, _i ? 2 * R : R, b->a); // nobody said so
    expect_ok(b, quern_weights_changed(b->plan));
    expect_run(b, 2 * R, b->a);
    expect_ok(b, quern_bind(b->plan, "w", b->w2));
    expect_run(b, 10 * R, b->a);
    expect_ok(b, quern_bind(b->plan, "w", NULL));
    ck_assert_int_eq(quern_execute(b->plan, b->arguments, 2, b->a), QUERN_USAGE);
    bench_close(b);
}
END_TEST

START_TEST(a_run_waits_for_what_another_stream_prepares)
{
    struct weighed *b = bench_open(0);
    expect_run(b, R, b->a);
    for (int round = 2; round < 5; round++) {
        occupy(b, b->a);
        set(b, b->w, w_bytes, (float)round, b->a);
        expect_ok(b, quern_prepare(b->plan, b->a));
        CUresult still = b->cu.cuEventQuery(b->plan->mark);
        expect_run(b, (float)(round * R), b->b);
        ck_assert_int_eq(still, CUDA_ERROR_NOT_READY); // else the test tests nothing
    }
    bench_close(b);
}
END_TEST

START_TEST(a_run_that_prepares_comes_after_an_earlier_prepare)
{
    struct weighed *b = bench_open(0);
    occupy(b, b->a);
    expect_ok(b, quern_prepare(b->plan, b->a));
    expect_ok(b, quern_bind(b->plan, "w", b->w2));
    expect_run(b, 10 * R, b->b);
    CUDA(cuStreamSynchronize, b->a);
    expect_run(b, 10 * R, b->b);
    bench_close(b);
}
END_TEST

static CUgraphExec captured(struct weighed *b, CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    CUDA(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect_ok(b, quern_execute(b->plan, b->arguments, 2, stream));
    CUDA(cuStreamEndCapture, stream, &graph);
    CUDA(cuGraphInstantiateWithFlags, &exec, graph, 0);
    CUDA(cuGraphDestroy, graph);
    return exec;
}

static void expect_replay(struct weighed *b, CUgraphExec exec, float y, CUstream stream)
{
    set(b, b->y, x_bytes, -1, stream);
    CUDA(cuGraphLaunch, exec, stream);
    expect_y(b, y, stream);
}

// Each replay prepares; what is outside the graph does not count on any of them.
START_TEST(a_run_captured_after_a_change_prepares_in_each_replay)
{
    struct weighed *b = bench_open(0);
    expect_run(b, R, b->a);
    set(b, b->w, w_bytes, 2, b->a);
    expect_ok(b, quern_weights_changed(b->plan));
    CUgraphExec exec = captured(b, b->a);
    expect_run(b, 2 * R, b->a); // the graph has not run: prepares for itself
    set(b, b->w, w_bytes, 3, b->a);
    expect_replay(b, exec, 3 * R, b->a);
    set(b, b->w, w_bytes, 4, b->a);
    expect_replay(b, exec, 4 * R, b->a);
    CUDA(cuGraphExecDestroy, exec);
    bench_close(b);
}
END_TEST

START_TEST(a_run_captured_as_prepared_reads_what_is_prepared_outside)
{
    struct weighed *b = bench_open(0);
    expect_run(b, R, b->a);
    CUgraphExec exec = captured(b, b->a);
    set(b, b->w, w_bytes, 2, b->a);
    expect_replay(b, exec, R, b->a); // the graph has no kernels that prepare
    expect_ok(b, quern_weights_changed(b->plan));
    expect_replay(b, exec, R, b->a);
    expect_ok(b, quern_prepare(b->plan, b->a));
    expect_replay(b, exec, 2 * R, b->a);
    CUDA(cuGraphExecDestroy, exec);
    bench_close(b);
}
END_TEST

// Captured while another stream still prepares: the graph itself waits.
START_TEST(a_graph_waits_for_what_was_being_prepared_when_it_was_captured)
{
    struct weighed *b = bench_open(0);
    expect_run(b, R, b->a);
    occupy(b, b->a);
    set(b, b->w, w_bytes, 7, b->a);
    expect_ok(b, quern_prepare(b->plan, b->a));
    CUgraphExec exec = captured(b, b->b);
    CUresult still = b->cu.cuEventQuery(b->plan->mark);
    expect_replay(b, exec, 7 * R, b->b);
    ck_assert_int_eq(still, CUDA_ERROR_NOT_READY);
    CUDA(cuGraphExecDestroy, exec);
    bench_close(b);
}
END_TEST

START_TEST(with_each_run_a_graph_is_always_fresh)
{
    struct weighed *b = bench_open(1);
    CUgraphExec exec = captured(b, b->a);
    for (int i = 1; i < 4; i++) {
        set(b, b->w, w_bytes, (float)i, b->a);
        expect_replay(b, exec, (float)(i * R), b->a);
    }
    CUDA(cuGraphExecDestroy, exec);
    bench_close(b);
}
END_TEST

// Preparing reads 64 MiB, a run some KiB: it shows in the time.
START_TEST(timing_leaves_out_what_is_prepared)
{
    quern_timing t[2];
    for (int each_run = 0; each_run < 2; each_run++) {
        struct weighed *b = bench_open(each_run);
        expect_ok(b, quern_time(b->plan, b->arguments, 2, &t[each_run]));
        bench_close(b);
    }
    ck_assert_double_lt(t[0].median_us * 2, t[1].median_us);
}
END_TEST

START_TEST(there_is_no_driver_so_no_weight_was_prepared_on_a_gpu)
{
    fprintf(stderr, "gpu_weights: skipped, there is no NVIDIA driver\n");
}
END_TEST

Suite *gpu_weights_suite(void)
{
    Suite *suite = suite_create("gpu_weights");
    TCase *t = tcase_create("gpu_weights");
    suite_add_tcase(suite, t);
    if (!cuda_driver_exists()) {
        tcase_add_test(t, there_is_no_driver_so_no_weight_was_prepared_on_a_gpu);
        return suite;
    }
    tcase_add_checked_fixture(t, planning_set_up, planning_tear_down);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, weights_are_prepared_on_demand_and_after_a_word, 0, 2);
    tcase_add_test(t, a_run_waits_for_what_another_stream_prepares);
    tcase_add_test(t, a_run_that_prepares_comes_after_an_earlier_prepare);
    tcase_add_test(t, a_run_captured_after_a_change_prepares_in_each_replay);
    tcase_add_test(t, a_run_captured_as_prepared_reads_what_is_prepared_outside);
    tcase_add_test(t, a_graph_waits_for_what_was_being_prepared_when_it_was_captured);
    tcase_add_test(t, with_each_run_a_graph_is_always_fresh);
    tcase_add_test(t, timing_leaves_out_what_is_prepared);
    return suite;
}
