// test_gpu.c: plans on a GPU: values, streams, capture, contexts, threads, forks.  Without a driver
// there is one test, which says so.

#include "runtime/cuda.h"
#include "tests/planning.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// The driver of the test itself.
static struct driver cu;

#define CUDA(f, ...) ck_assert_int_eq(cu.f(__VA_ARGS__), CUDA_SUCCESS)

static void set_up(void)
{
    char why[256];
    planning_set_up();
    ck_assert_msg(driver_open(&cu, why, sizeof why), "%s", why);
}

static void tear_down(void)
{
    planning_tear_down();
}

static void expect_ok(const quern *q, quern_status s)
{
    ck_assert_msg(s == QUERN_OK, "%s: %s", quern_status_name(s), quern_message(q));
}

// Device memory for every argument of a plan, inputs and weights with some values, weights bound.
struct data {
    quern *q;
    quern_plan *plan;
    int n, n_given;
    quern_argument arguments[16];
    void *host[16], *device[16], *given[16];
};

static void fill(const quern_argument *a, void *host, unsigned seed)
{
    int64_t n = a->bytes / quern_dtype_bytes(a->dtype);
    for (int64_t i = 0; i < n; i++)
        quern_set_element(a->dtype, host, i,
                          (double)((unsigned)i * 2654435761u + seed * 40503u) / 4294967296.0 - 0.5);
}

static struct data data_for(quern *q, quern_plan *plan)
{
    struct data d = {.q = q, .plan = plan, .n = quern_plan_n_arguments(plan)};
    for (int i = 0; i < d.n; i++) {
        quern_argument *a = &d.arguments[i];
        expect_ok(q, quern_plan_argument(plan, i, a));
        d.host[i] = calloc(1, (size_t)a->bytes + 1);
        expect_ok(q, quern_alloc(q, (size_t)a->bytes, &d.device[i]));
        if (a->role == QUERN_OUTPUT)
            memset(d.host[i], 0xFF, (size_t)a->bytes);
        else
            fill(a, d.host[i], (unsigned)i);
        expect_ok(q, quern_upload(q, d.device[i], d.host[i], (size_t)a->bytes));
        if (a->role == QUERN_WEIGHT)
            expect_ok(q, quern_bind(plan, a->name, d.device[i]));
        else
            d.given[d.n_given++] = d.device[i];
    }
    return d;
}

static void data_free(struct data *d)
{
    for (int i = 0; i < d->n; i++) {
        expect_ok(d->q, quern_free(d->q, d->device[i]));
        free(d->host[i]);
    }
}

// Compares every output on the device with the reference.
static void expect_right(struct data *d)
{
    const void *inputs[16] = {0};
    double *expected[16] = {0};
    int n_in = 0, n_out = 0;
    for (int i = 0; i < d->n; i++) {
        const quern_argument *a = &d->arguments[i];
        if (a->role != QUERN_OUTPUT)
            inputs[n_in++] = d->host[i];
        else
            expected[n_out++] =
                calloc((size_t)(a->bytes / quern_dtype_bytes(a->dtype)) + 1, sizeof(double));
    }
    expect_ok(d->q, quern_reference(d->plan, inputs, expected));
    for (int i = 0; i < n_out; i++) {
        quern_check_result r;
        const quern_argument *a = &d->arguments[n_in + i];
        expect_ok(d->q,
                  quern_download(d->q, d->host[n_in + i], d->device[n_in + i], (size_t)a->bytes));
        expect_ok(d->q, quern_check(d->plan, i, d->host[n_in + i], expected[i], &r));
        ck_assert_msg(r.ok, "%s[%lld]: got %g, expected %g", a->name, (long long)r.worst, r.got,
                      r.expected);
        free(expected[i]);
    }
}

static const char softmax_rows[] = "program p(B, D)\ninput x : f32[B, D]\n"
                                   "output y = softmax(x, axis = 1)\n";
static const char half_rows[] = "program p(B, D)\ninput x : f16[B, D]\n"
                                "output y = softmax(x, axis = 1)\n";
static const char layer_rows[] = "program p(B, D)\ninput x : f32[B, D]\nweight w : f32[D]\n"
                                 "weight b : f32[D]\noutput y = layer_norm(x, w, b)\n"
                                 "output i = argmax(x, axis = 1)\n";
static const char half_sums[] = "program p(B, D)\ninput x : f16[B, D]\n"
                                "output y = sum(x, axis = 0)\n";
static const char linear_relu[] = "program p(B, D)\ninput x : f32[B, D]\nweight w : f32[D, D]\n"
                                  "output y = relu(x @ w)\n";
static const char several[] = "program p(B, D)\ninput x : f32[B, D]\n"
                              "output y = softmax(x @ x.T, axis = 0) @ x\n";

// Of (B, D), or of (N) where D is 0.
static const struct {
    const char *text;
    int64_t b, d;
} cases[] = {
    {add_one,      1,       0      },
    {add_one,      1000003, 0      },
    {scaled,       0,       3      },
    {scaled,       7,       1      },
    {scaled,       300,     4097   },
    {softmax_rows, 70000,   33     },
    {softmax_rows, 30,      131072 },
    {softmax_rows, 67,      90001  },
    {half_rows,    67,      270001 }, // where 2 bytes at a time cannot go: clusters of 16
    {softmax_rows, 67,      270000 }, // teams of the blocks of a cooperative launch
    {softmax_rows, 100,     131072 },
    {softmax_rows, 14,      1048577},
    {half_rows,    15,      2000008},
    {layer_rows,   13,      1000004},
    {half_sums,    5000,    65     },
    {linear_relu,  129,     67     },
    {several,      130,     51     },
};

static quern_plan *plan_of(quern *q, const char *text, int64_t b, int64_t d)
{
    return d ? planned(q, text, NULL,
                       (quern_size[]){
                           {"B", b},
                           {"D", d}
    },
                       2)
             : planned(q, text, NULL, &(quern_size){"N", b}, 1);
}

START_TEST(the_gpu_computes_what_the_reference_does)
{
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    quern_plan *plan = plan_of(q, cases[_i].text, cases[_i].b, cases[_i].d);
    struct data d = data_for(q, plan);
    for (int run = 0; run < 2; run++) { // the second finds the counters as the first left them
        expect_ok(q, quern_execute(plan, d.given, d.n_given, NULL));
        expect_ok(q, quern_synchronize(q, NULL));
        expect_right(&d);
    }
    data_free(&d);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(a_run_can_be_captured_and_replayed)
{
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    quern_plan *plan = plan_of(q, several, 130, 51);
    struct data d = data_for(q, plan);
    CUcontext context;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUDA(cuDevicePrimaryCtxRetain, &context, 0);
    CUDA(cuCtxPushCurrent, context);
    CUDA(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CUDA(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect_ok(q, quern_execute(plan, d.given, d.n_given, stream));
    quern_plan *meanwhile = add_one_of(q, 12345); // compiling and loading do not break the capture
    CUDA(cuStreamEndCapture, stream, &graph);
    CUDA(cuGraphInstantiateWithFlags, &exec, graph, 0);
    for (int round = 0; round < 3; round++) {
        fill(&d.arguments[0], d.host[0], 100u + (unsigned)round);
        expect_ok(q, quern_upload(q, d.device[0], d.host[0], (size_t)d.arguments[0].bytes));
        CUDA(cuGraphLaunch, exec, stream);
        expect_ok(q, quern_synchronize(q, stream));
        expect_right(&d);
    }
    CUDA(cuGraphExecDestroy, exec);
    CUDA(cuGraphDestroy, graph);
    data_free(&d);
    quern_destroy_plan(meanwhile);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

static void *run_in_thread(void *state)
{
    struct data *d = state;
    CUcontext before = (CUcontext)d, after = (CUcontext)d;
    CUDA(cuCtxGetCurrent, &before);
    ck_assert_ptr_null(before);
    expect_ok(d->q, quern_execute(d->plan, d->given, d->n_given, NULL));
    expect_ok(d->q, quern_synchronize(d->q, NULL));
    CUDA(cuCtxGetCurrent, &after);
    ck_assert_ptr_null(after);
    return NULL;
}

START_TEST(a_thread_without_a_context_runs_and_still_has_none)
{
    pthread_t thread;
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    quern_plan *plan = scaled_of(q, 33, 65);
    struct data d = data_for(q, plan);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_in_thread, &d), 0);
    pthread_join(thread, NULL);
    expect_right(&d);
    data_free(&d);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(replays_are_timed)
{
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    quern_plan *plan = add_one_of(q, 1 << 24);
    struct data d = data_for(q, plan);
    quern_timing t;
    expect_ok(q, quern_time(plan, d.given, d.n_given, &t));
    ck_assert_int_ge(t.replays, 10);
    ck_assert_double_gt(t.min_us, 1); // 128 MiB cannot be moved faster
    ck_assert_double_lt(t.median_us, 100000);
    data_free(&d);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(a_forked_child_gets_an_error_and_the_parent_goes_on)
{
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    quern_plan *plan = add_one_of(q, 100);
    struct data d = data_for(q, plan);
    int status;
    pid_t child = fork();
    if (!child) {
        void *p;
        bool right = quern_execute(plan, d.given, d.n_given, NULL) == QUERN_USAGE &&
                     strstr(quern_message(q), "fork") && quern_alloc(q, 1, &p) == QUERN_USAGE;
        quern_destroy_plan(plan);
        quern_close(q);
        _exit(!right);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    expect_ok(q, quern_execute(plan, d.given, d.n_given, NULL));
    expect_ok(q, quern_synchronize(q, NULL));
    expect_right(&d);
    data_free(&d);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(children_of_a_parent_that_only_parsed_may_use_the_gpu)
{
    quern *q = open_on(QUERN_DEVICE_AUTO, 0);
    quern_program *program = parsed(q, add_one);
    for (int i = 0; i < 4; i++) {
        if (fork())
            continue;
        quern_plan *plan;
        expect_ok(q, quern_plan_program(q, program, &(quern_size){"N", 64 + i}, 1, NULL, &plan));
        struct data d = data_for(q, plan);
        expect_ok(q, quern_execute(plan, d.given, d.n_given, NULL));
        expect_right(&d);
        _exit(strcmp(quern_device_name(q), "host") == 0);
    }
    for (int i = 0; i < 4; i++) {
        int status;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    quern_destroy_program(program);
    quern_close(q);
}
END_TEST

START_TEST(kernels_for_another_gpu_are_refused_by_name)
{
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    quern_program *program = parsed(q, add_one);
    quern_plan *plan;
    const char *other = strncmp(quern_native_arch(q), "sm_80", 5) ? "sm_80" : "sm_90";
    quern_plan_options options = {.arch = other};
    ck_assert_int_eq(quern_plan_program(q, program, &(quern_size){"N", 4}, 1, &options, &plan),
                     QUERN_USAGE);
    expect_message(q, other);
    expect_message(q, quern_native_arch(q));
    options.no_load = 1;
    expect_ok(q, quern_plan_program(q, program, &(quern_size){"N", 4}, 1, &options, &plan));
    quern_destroy_plan(plan);
    quern_destroy_program(program);
    quern_close(q);
}
END_TEST

static quern_status make_foreign(void *state, struct code *out)
{
    (void)state;
    char *bytes = strdup("\177ELF of nobody's GPU");
    *out = (struct code){.bytes = bytes, .n_bytes = strlen(bytes)};
    return QUERN_OK;
}

// A sound entry, under the right key, that does not load.
START_TEST(an_entry_that_does_not_load_is_made_again)
{
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    quern_plan *first = add_one_of(q, 77);
    const struct nvrtc *n = find_nvrtc(q);
    char compiler[32];
    snprintf(compiler, sizeof compiler, "nvrtc %d.%d", n->major, n->minor);
    struct recipe recipe = {.kernel = "x",
                            .source = first->program.kernels[0].source,
                            .arch = first->arch,
                            .compiler = compiler,
                            .options = first->options.words,
                            .n_options = first->options.n,
                            .extension = "cubin",
                            .make = make_foreign};
    struct code code;
    cache_drop(find_cache(q), &recipe);
    ck_assert_int_eq(cache_get(q, find_cache(q), &recipe, &code), QUERN_OK);
    ck_assert(!code.hit);
    free(code.bytes);
    noted.n = 0;
    quern_plan *again = add_one_of(q, 77);
    ck_assert_int_eq(noted.n, 1);
    ck_assert_ptr_nonnull(strstr(noted.last, "does not load"));
    quern_destroy_plan(first);
    quern_destroy_plan(again);
    quern_close(q);
}
END_TEST

START_TEST(there_is_no_driver_so_nothing_ran_on_a_gpu)
{
    fprintf(stderr, "gpu: skipped, there is no NVIDIA driver\n");
}
END_TEST

Suite *gpu_suite(void)
{
    Suite *suite = suite_create("gpu");
    TCase *t = tcase_create("gpu");
    suite_add_tcase(suite, t);
    if (!cuda_driver_exists()) {
        tcase_add_test(t, there_is_no_driver_so_nothing_ran_on_a_gpu);
        return suite;
    }
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, the_gpu_computes_what_the_reference_does, 0,
                        sizeof cases / sizeof *cases);
    tcase_add_test(t, a_run_can_be_captured_and_replayed);
    tcase_add_test(t, a_thread_without_a_context_runs_and_still_has_none);
    tcase_add_test(t, replays_are_timed);
    tcase_add_test(t, a_forked_child_gets_an_error_and_the_parent_goes_on);
    tcase_add_test(t, children_of_a_parent_that_only_parsed_may_use_the_gpu);
    tcase_add_test(t, kernels_for_another_gpu_are_refused_by_name);
    tcase_add_test(t, an_entry_that_does_not_load_is_made_again);
    return suite;
}
