// test_runtime.c: the public interface: misuse, messages, plans, the host device, cubins.

#include "runtime/runtime.h"
#include "tests/tests.h"
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char add_one[] = "program add_one(N)\n\ninput x : f32[N]\noutput y = x + 1\n";
static const char scaled[] = "program scaled(B, D)\n\ninput x : f32[B, D]\nweight w : f32[D]\n"
                             "output y = x * w\noutput s = sum(x * w, axis = 1)\n";

static char folder[64];

static struct {
    pthread_mutex_t lock;
    int n;
    char last[512];
} notes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_note(void *user, const char *line)
{
    (void)user;
    pthread_mutex_lock(&notes.lock);
    notes.n++;
    snprintf(notes.last, sizeof notes.last, "%s", line);
    pthread_mutex_unlock(&notes.lock);
}

static void set_up(void)
{
    strcpy(folder, "/tmp/quern-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static quern *open_on(quern_device device, int offline)
{
    quern *q;
    quern_options o = {.device = device, .cache_dir = folder, .offline = offline, .log = keep_note};
    ck_assert_int_eq(quern_open(&q, &o), QUERN_OK);
    return q;
}

static quern_program *parsed(quern *q, const char *text)
{
    quern_program *program;
    quern_status s = quern_parse(q, text, strlen(text), "test.qn", &program);
    ck_assert_msg(s == QUERN_OK, "%s", quern_message(q));
    return program;
}

static quern_plan *planned(quern *q, const char *text, const quern_plan_options *options,
                           const quern_size *sizes, int n_sizes)
{
    quern_plan *plan;
    quern_program *program = parsed(q, text);
    quern_status s = quern_plan_program(q, program, sizes, n_sizes, options, &plan);
    ck_assert_msg(s == QUERN_OK, "%s", quern_message(q));
    quern_destroy_program(program);
    return plan;
}

static quern_plan *add_one_of(quern *q, int64_t n)
{
    return planned(q, add_one, NULL, &(quern_size){"N", n}, 1);
}

static quern_plan *scaled_of(quern *q, int64_t b, int64_t d)
{
    return planned(q, scaled, NULL,
                   (quern_size[]){
                       {"B", b},
                       {"D", d}
    },
                   2);
}

static void expect_message(const quern *q, const char *part)
{
    ck_assert_msg(strstr(quern_message(q), part), "`%s` is not in: %s", part, quern_message(q));
}

START_TEST(null_handles_are_a_usage_error)
{
    quern_program *program;
    quern_plan *plan;
    quern_timing timing;
    void *p;
    int n = 0;
    ck_assert_int_eq(quern_open(NULL, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_parse(NULL, "", 0, "x", &program), QUERN_USAGE);
    ck_assert_int_eq(quern_plan_program(NULL, NULL, NULL, 0, NULL, &plan), QUERN_USAGE);
    ck_assert_int_eq(quern_execute(NULL, NULL, 0, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_bind(NULL, "w", NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_prepare(NULL, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_weights_changed(NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_use_workspace(NULL, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_alloc(NULL, 1, &p), QUERN_USAGE);
    ck_assert_int_eq(quern_free(NULL, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_upload(NULL, NULL, NULL, 0), QUERN_USAGE);
    ck_assert_int_eq(quern_synchronize(NULL, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_time(NULL, NULL, 0, &timing), QUERN_USAGE);
    ck_assert_int_eq(quern_reference(NULL, NULL, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_check(NULL, 0, NULL, NULL, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_sizes_of_argument(NULL, "x", 0, NULL, NULL, &n), QUERN_USAGE);
    ck_assert_int_eq(quern_doctor(NULL, NULL), QUERN_USAGE);
    ck_assert_uint_gt(strlen(quern_message(NULL)), 0);
    ck_assert_int_eq(quern_plan_n_arguments(NULL), 0);
    ck_assert_ptr_null(quern_plan_explain(NULL, 0));
    ck_assert_str_eq(quern_device_name(NULL), "none");
    quern_destroy_plan(NULL);
    quern_destroy_program(NULL);
    quern_close(NULL);
}
END_TEST

START_TEST(a_bad_program_is_reported_with_its_lines)
{
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    quern_program *program = (void *)q;
    const char *text = "program p(N)\ninput x : f32[N\noutput y = x\n";
    ck_assert_int_eq(quern_parse(q, text, strlen(text), "bad.qn", &program), QUERN_PROGRAM);
    ck_assert_ptr_null(program);
    expect_message(q, "bad.qn:2:");
    expect_message(q, "error:");
    expect_message(q, "^");
    quern_close(q);
}
END_TEST

START_TEST(a_program_wrong_for_its_sizes_is_reported_by_plan)
{
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    quern_plan *plan;
    const char *text = "program p(N, M)\ninput a : f32[N]\ninput b : f32[M]\noutput y = a + b\n";
    quern_program *program = parsed(q, text);
    quern_size sizes[] = {
        {"N", 3},
        {"M", 4}
    };
    ck_assert_int_eq(quern_plan_program(q, program, sizes, 2, NULL, &plan), QUERN_PROGRAM);
    expect_message(q, "test.qn:4:");
    ck_assert_ptr_null(plan);
    sizes[1].value = 3;
    ck_assert_int_eq(quern_plan_program(q, program, sizes, 2, NULL, &plan), QUERN_OK);
    quern_destroy_plan(plan);
    ck_assert_int_eq(quern_plan_program(q, program, sizes, 1, NULL, &plan), QUERN_PROGRAM);
    expect_message(q, "M");
    quern_destroy_program(program);
    quern_close(q);
}
END_TEST

static void *fail_in_thread(void *q)
{
    void *p;
    ck_assert_str_eq(quern_message(q), "");
    ck_assert_int_eq(quern_alloc(q, 1, &p), QUERN_USAGE);
    expect_message(q, "quern_alloc");
    return NULL;
}

START_TEST(each_thread_and_context_has_its_own_message)
{
    quern *q = open_on(QUERN_DEVICE_NONE, 0), *other = open_on(QUERN_DEVICE_NONE, 0);
    pthread_t thread;
    ck_assert_int_eq(quern_cache_prune(q, -1, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_free(other, NULL), QUERN_USAGE);
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_in_thread, q), 0);
    pthread_join(thread, NULL);
    expect_message(q, "quern_cache_prune");
    expect_message(other, "quern_free");
    quern_close(q);
    quern_close(other);
}
END_TEST

START_TEST(a_program_tells_its_sizes)
{
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    quern_program *program =
        parsed(q, "program p(B, D, N = 2 * D)\ninput x : f32[B, D, 4]\noutput y = x + 1\n");
    int fallback;
    quern_size sizes[3];
    int n = 3;
    ck_assert_str_eq(quern_program_name(program), "p");
    ck_assert_int_eq(quern_program_n_sizes(program), 3);
    ck_assert_str_eq(quern_program_size(program, 2, &fallback), "N");
    ck_assert_int_eq(fallback, 1);
    ck_assert_str_eq(quern_program_size(program, 0, &fallback), "B");
    ck_assert_int_eq(fallback, 0);
    ck_assert_ptr_null(quern_program_size(program, 3, NULL));
    ck_assert_int_eq(quern_sizes_of_argument(program, "x", 3, (int64_t[]){7, 8, 4}, sizes, &n),
                     QUERN_OK);
    ck_assert_int_eq(n, 2);
    ck_assert_str_eq(sizes[1].name, "D");
    ck_assert_int_eq(sizes[1].value, 8);
    n = 3;
    ck_assert_int_eq(quern_sizes_of_argument(program, "x", 2, (int64_t[]){7, 8}, sizes, &n),
                     QUERN_PROGRAM);
    expect_message(q, "expected 3 dimensions, got 2");
    n = 3;
    ck_assert_int_eq(quern_sizes_of_argument(program, "x", 3, (int64_t[]){7, 8, 5}, sizes, &n),
                     QUERN_PROGRAM);
    n = 1;
    ck_assert_int_eq(quern_sizes_of_argument(program, "x", 3, (int64_t[]){7, 8, 4}, sizes, &n),
                     QUERN_USAGE);
    ck_assert_int_eq(quern_sizes_of_argument(program, "z", 3, (int64_t[]){7, 8, 4}, sizes, &n),
                     QUERN_USAGE);
    quern_destroy_program(program);
    quern_close(q);
}
END_TEST

static const struct {
    const char *arch;
    quern_status status;
} archs[] = {
    {"sm_80",   QUERN_OK   },
    {"sm_90",   QUERN_OK   },
    {"sm_90a",  QUERN_OK   },
    {"sm_999",  QUERN_USAGE},
    {"sm_80a",  QUERN_USAGE},
    {"sm_90z",  QUERN_USAGE},
    {"sm_90aa", QUERN_USAGE},
    {"90",      QUERN_USAGE},
    {"",        QUERN_USAGE},
    {"gfx1100", QUERN_USAGE},
    {"sm_",     QUERN_USAGE},
    {"sm_35",   QUERN_USAGE},
    {"sm_-90",  QUERN_USAGE},
    {"sm_ 90",  QUERN_USAGE},
    {"sm_90 ",  QUERN_USAGE}
};

START_TEST(an_unknown_arch_is_refused_with_those_that_are_known)
{
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    quern_program *program = parsed(q, add_one);
    quern_plan *plan;
    quern_status s = quern_plan_program(q, program, &(quern_size){"N", 4}, 1,
                                        &(quern_plan_options){.arch = archs[_i].arch}, &plan);
    ck_assert_msg(s == archs[_i].status, "%s: %s", archs[_i].arch, quern_message(q));
    if (s) {
        expect_message(q, "unknown arch");
        expect_message(q, "sm_90a");
    } else {
        ck_assert_str_eq(quern_plan_arch(plan), archs[_i].arch);
    }
    quern_destroy_plan(plan);
    quern_destroy_program(program);
    quern_close(q);
}
END_TEST

START_TEST(bad_plan_requests_are_refused)
{
    quern *q = open_on(QUERN_DEVICE_NONE, 0), *other = open_on(QUERN_DEVICE_NONE, 0);
    quern_program *program = parsed(q, add_one);
    quern_size size =
                   {
                       "N", 4
    },
               nameless = {NULL, 4}, unknown[] = {{"N", 4}, {"Q", 1}};
    quern_plan *plan;
    static const int alignments[] = {-1, 3, 512};
    ck_assert_int_eq(quern_plan_program(other, program, &size, 1, NULL, &plan), QUERN_USAGE);
    ck_assert_int_eq(quern_plan_program(q, program, NULL, 1, NULL, &plan), QUERN_USAGE);
    ck_assert_int_eq(quern_plan_program(q, program, &nameless, 1, NULL, &plan), QUERN_USAGE);
    ck_assert_int_ne(quern_plan_program(q, program, unknown, 2, NULL, &plan), QUERN_OK);
    expect_message(q, "Q");
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(quern_plan_program(q, program, &size, 1,
                                            &(quern_plan_options){.alignment = alignments[i]},
                                            &plan),
                         QUERN_USAGE);
    quern_destroy_program(program);
    quern_close(q);
    quern_close(other);
}
END_TEST

START_TEST(a_plan_that_is_not_loaded_cannot_run)
{
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    quern_plan *plan = add_one_of(q, 4);
    float x[4] = {0}, y[4];
    quern_timing timing;
    ck_assert_int_eq(quern_execute(plan, (void *[]){x, y}, 2, NULL), QUERN_USAGE);
    expect_message(q, "not loaded");
    ck_assert_int_eq(quern_time(plan, (void *[]){x, y}, 2, &timing), QUERN_USAGE);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(plans_run_on_the_host_device)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    quern_plan *plan = add_one_of(q, 1000);
    void *pointers[2];
    float host[1000];
    ck_assert_str_eq(quern_device_name(q), "host");
    ck_assert_ptr_null(quern_native_arch(q));
    for (int i = 0; i < 1000; i++)
        host[i] = (float)i / 2;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(quern_alloc(q, sizeof host, &pointers[i]), QUERN_OK);
        ck_assert_uint_eq((uintptr_t)pointers[i] % 256, 0);
    }
    ck_assert_int_eq(quern_upload(q, pointers[0], host, sizeof host), QUERN_OK);
    ck_assert_int_eq(quern_execute(plan, pointers, 2, NULL), QUERN_OK);
    ck_assert_int_eq(quern_synchronize(q, NULL), QUERN_OK);
    ck_assert_int_eq(quern_download(q, host, pointers[1], sizeof host), QUERN_OK);
    for (int i = 0; i < 1000; i++)
        ck_assert_float_eq(host[i], (float)i / 2 + 1);
    quern_timing timing;
    ck_assert_int_eq(quern_time(plan, pointers, 2, &timing), QUERN_OK);
    ck_assert_double_gt(timing.min_us, 0);
    ck_assert_double_le(timing.min_us, timing.median_us);
    ck_assert_double_le(timing.median_us, timing.max_us);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(quern_free(q, pointers[i]), QUERN_OK);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

static void expect_scaled(const float *x, const float *w, const float *y, const float *s, int b,
                          int d)
{
    for (int i = 0; i < b; i++) {
        double sum = 0;
        for (int j = 0; j < d; j++) {
            ck_assert_float_eq(y[i * d + j], x[i * d + j] * w[j]);
            sum += (double)(x[i * d + j] * w[j]);
        }
        ck_assert_double_eq_tol((double)s[i], sum, 1e-5);
    }
}

START_TEST(a_weight_has_to_be_bound_and_may_change)
{
    enum { B = 3, D = 5 };
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    quern_plan *plan = scaled_of(q, B, D);
    _Alignas(16) float x[B * D], w[D] = {1, 2, 3, 4, 5}, w2[D] = {-1, 0, 1, 0.5f, 2}, y[B * D],
                                 s[B];
    void *pointers[] = {x, y, s};
    for (int i = 0; i < B * D; i++)
        x[i] = (float)(i - 7) / 3;
    ck_assert_int_eq(quern_plan_n_arguments(plan), 4);
    ck_assert_int_eq(quern_execute(plan, pointers, 3, NULL), QUERN_USAGE);
    expect_message(q, "weight `w` was never bound");
    ck_assert_int_eq(quern_prepare(plan, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_bind(plan, "x", x), QUERN_USAGE);
    ck_assert_int_eq(quern_bind(plan, "nothing", w), QUERN_USAGE);
    expect_message(q, "nothing");
    ck_assert_int_eq(quern_bind(plan, "w", w), QUERN_OK);
    ck_assert_int_eq(quern_prepare(plan, NULL), QUERN_OK);
    ck_assert_int_eq(quern_execute(plan, pointers, 3, NULL), QUERN_OK);
    expect_scaled(x, w, y, s, B, D);
    w[2] = 30;
    ck_assert_int_eq(quern_weights_changed(plan), QUERN_OK);
    ck_assert_int_eq(quern_execute(plan, pointers, 3, NULL), QUERN_OK);
    expect_scaled(x, w, y, s, B, D);
    ck_assert_int_eq(quern_bind(plan, "w", w2), QUERN_OK);
    ck_assert_int_eq(quern_execute(plan, pointers, 3, NULL), QUERN_OK);
    expect_scaled(x, w2, y, s, B, D);
    ck_assert_int_eq(quern_bind(plan, "w", NULL), QUERN_OK);
    ck_assert_int_eq(quern_execute(plan, pointers, 3, NULL), QUERN_USAGE);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(pointers_are_checked_before_anything_runs)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    quern_plan *plan = add_one_of(q, 1024);
    _Alignas(16) float x[1025] = {0}, y[1025];
    y[0] = -5;
    ck_assert_int_eq(quern_execute(plan, (void *[]){x, y}, 1, NULL), QUERN_USAGE);
    expect_message(q, "takes 2 pointers");
    ck_assert_int_eq(quern_execute(plan, NULL, 2, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_execute(plan, (void *[]){NULL, y}, 2, NULL), QUERN_USAGE);
    expect_message(q, "`x` is null");
    ck_assert_int_eq(quern_execute(plan, (void *[]){x, NULL}, 2, NULL), QUERN_USAGE);
    expect_message(q, "`y` is null");
    ck_assert_int_eq(quern_execute(plan, (void *[]){(char *)x + 2, y}, 2, NULL), QUERN_USAGE);
    expect_message(q, "`x` is at");
    quern_kernel kernel;
    ck_assert_int_eq(quern_plan_kernel(plan, 0, &kernel), QUERN_OK);
    if (kernel.alignment > 4) {
        ck_assert_int_eq(quern_execute(plan, (void *[]){x, y + 1}, 2, NULL), QUERN_USAGE);
        expect_message(q, "`y` is at");
    }
    ck_assert_float_eq(y[0], -5);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(a_plan_for_element_aligned_pointers_takes_them)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    quern_plan *plan =
        planned(q, add_one, &(quern_plan_options){.alignment = 1}, &(quern_size){"N", 1024}, 1);
    _Alignas(16) float x[1025] = {0}, y[1025];
    ck_assert_int_eq(quern_execute(plan, (void *[]){x + 1, y + 1}, 2, NULL), QUERN_OK);
    ck_assert_float_eq(y[1], 1);
    ck_assert_float_eq(y[1024], 1);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(nothing_to_compute_needs_no_pointers)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    quern_plan *plan = add_one_of(q, 0);
    ck_assert_int_eq(quern_execute(plan, (void *[]){NULL, NULL}, 2, NULL), QUERN_OK);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(the_caller_may_own_the_workspace)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    quern_plan *plan = planned(q,
                               "program p(N)\ninput x : f32[N, N]\n"
                               "output y = softmax(x @ x, axis = 0) @ x\n",
                               NULL, &(quern_size){"N", 16}, 1);
    size_t bytes = (size_t)quern_plan_workspace_bytes(plan);
    _Alignas(16) float x[256], y[2][256];
    void *own;
    for (int i = 0; i < 256; i++)
        x[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    ck_assert_uint_gt(bytes, 0);
    ck_assert_int_eq(posix_memalign(&own, 256, bytes + 256), 0);
    ck_assert_int_eq(quern_execute(plan, (void *[]){x, y[0]}, 2, NULL), QUERN_OK);
    ck_assert_int_eq(quern_use_workspace(plan, (char *)own + 8), QUERN_USAGE);
    ck_assert_int_eq(quern_use_workspace(plan, own), QUERN_OK);
    memset(own, 0xFF, bytes);
    ck_assert_int_eq(quern_execute(plan, (void *[]){x, y[1]}, 2, NULL), QUERN_OK);
    ck_assert_mem_eq(y[0], y[1], sizeof y[0]);
    memset(own, 0xFF, bytes);
    ck_assert_int_eq(quern_use_workspace(plan, NULL), QUERN_OK);
    ck_assert_int_eq(quern_execute(plan, (void *[]){x, y[1]}, 2, NULL), QUERN_OK);
    ck_assert_mem_eq(y[0], y[1], sizeof y[0]);
    for (size_t i = 0; i < bytes; i++)
        ck_assert_uint_eq(((unsigned char *)own)[i], 0xFF);
    free(own);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(check_finds_the_worst_element)
{
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    quern_plan *plan = scaled_of(q, 2, 3);
    float x[6] = {1, 2, 3, 4, 5, 6}, w[3] = {1, 10, 100}, y[6] = {1, 20, 300, 4, 50, 600};
    double expected_y[6], expected_s[2];
    quern_check_result r;
    ck_assert_int_eq(
        quern_reference(plan, (const void *[]){x, w}, (double *[]){expected_y, expected_s}),
        QUERN_OK);
    ck_assert_double_eq(expected_y[4], 50);
    ck_assert_double_eq(expected_s[1], 654);
    ck_assert_int_eq(quern_check(plan, 0, y, expected_y, &r), QUERN_OK);
    ck_assert_int_eq(r.ok, 1);
    ck_assert_double_eq(r.max_abs_error, 0);
    y[1] = 21;
    y[4] = 55;
    ck_assert_int_eq(quern_check(plan, 0, y, expected_y, &r), QUERN_OK);
    ck_assert_int_eq(r.ok, 0);
    ck_assert_int_eq(r.worst, 4);
    ck_assert_double_eq(r.got, 55);
    ck_assert_double_eq(r.expected, 50);
    ck_assert_double_eq(r.max_abs_error, 5);
    ck_assert_double_eq_tol(r.max_rel_error, 0.1, 1e-12);
    y[4] = NAN;
    ck_assert_int_eq(quern_check(plan, 0, y, expected_y, &r), QUERN_OK);
    ck_assert_int_eq(r.ok, 0);
    ck_assert_int_eq(r.worst, 4);
    expected_y[4] = NAN;
    y[1] = 20;
    ck_assert_int_eq(quern_check(plan, 0, y, expected_y, &r), QUERN_OK);
    ck_assert_int_eq(r.ok, 1);
    ck_assert_int_eq(quern_check(plan, 2, y, expected_y, &r), QUERN_USAGE);
    ck_assert_int_eq(
        quern_reference(plan, (const void *[]){x, NULL}, (double *[]){expected_y, expected_s}),
        QUERN_USAGE);
    expect_message(q, "`w`");
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

static void *run_many(void *q)
{
    for (int round = 0; round < 2; round++) {
        _Alignas(16) float x[64], y[64];
        quern_plan *plan = add_one_of(q, 64);
        for (int i = 0; i < 64; i++)
            x[i] = (float)(i + round);
        ck_assert_int_eq(quern_execute(plan, (void *[]){x, y}, 2, NULL), QUERN_OK);
        for (int i = 0; i < 64; i++)
            ck_assert_float_eq(y[i], x[i] + 1);
        quern_destroy_plan(plan);
    }
    return NULL;
}

START_TEST(many_threads_plan_and_run_the_same_program)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_many, q), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    quern_close(q);
}
END_TEST

START_TEST(a_second_process_compiles_nothing)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    quern_destroy_plan(add_one_of(q, 8));
    quern_close(q);
    int status;
    pid_t child = fork();
    if (!child) {
        quern *again = open_on(QUERN_DEVICE_HOST, 1); // offline: a miss is an error
        quern_destroy_plan(add_one_of(again, 8));
        quern_close(again);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(offline_a_miss_says_how_to_build_it)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 1);
    quern_program *program = parsed(q, add_one);
    quern_plan *plan;
    ck_assert_int_eq(quern_plan_program(q, program, &(quern_size){"N", 9}, 1, NULL, &plan),
                     QUERN_MISSING);
    expect_message(q, "quern run test.qn -D N=9");
    quern_destroy_program(program);
    quern_close(q);
}
END_TEST

START_TEST(a_missing_compiler_is_missing)
{
    quern *q;
    quern_plan *plan;
    quern_options o = {.device = QUERN_DEVICE_HOST, .cxx = "no-such-compiler"};
    ck_assert_int_eq(quern_open(&q, &o), QUERN_OK);
    quern_program *program = parsed(q, add_one);
    ck_assert_int_eq(quern_plan_program(q, program, &(quern_size){"N", 9}, 1, NULL, &plan),
                     QUERN_MISSING);
    expect_message(q, "no-such-compiler");
    quern_destroy_program(program);
    quern_close(q);
}
END_TEST

START_TEST(a_gpu_without_a_driver_is_missing)
{
    quern *q = (void *)folder;
    if (cuda_driver_exists())
        return;
    ck_assert_int_eq(quern_open(&q, &(quern_options){.device = QUERN_DEVICE_CUDA}), QUERN_MISSING);
    ck_assert_ptr_null(q);
    expect_message(NULL, "libcuda.so.1");
    q = open_on(QUERN_DEVICE_AUTO, 0);
    ck_assert_str_eq(quern_device_name(q), "host");
    ck_assert_int_eq(notes.n, 1);
    ck_assert_ptr_nonnull(strstr(notes.last, "host"));
    quern_close(q);
}
END_TEST

START_TEST(explain_and_json_have_their_keys)
{
    static const char *const explained[] = {
        "program", "arch", "rules", "kernels", "totals", "prepared_bytes", "workspace_bytes"};
    static const char *const kept[] = {"program",         "arch",   "sizes", "arguments", "buffers",
                                       "workspace_bytes", "kernels"};
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    quern_plan *plan = scaled_of(q, 8, 64);
    json_t *root = json_loads(quern_plan_explain(plan, 1), 0, NULL);
    for (size_t i = 0; i < sizeof explained / sizeof *explained; i++)
        ck_assert_ptr_nonnull(json_object_get(root, explained[i]));
    const json_t *kernels = json_object_get(root, "kernels");
    ck_assert_uint_eq(json_array_size(kernels), (size_t)quern_plan_n_kernels(plan));
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(kernels, 0), "part")), "run");
    ck_assert(json_is_object(json_object_get(json_array_get(kernels, 0), "spec")));
    json_decref(root);
    root = json_loads(quern_plan_json(plan), 0, NULL);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        ck_assert_ptr_nonnull(json_object_get(root, kept[i]));
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(root, "sizes"), "D")), 64);
    json_decref(root);
    ck_assert_ptr_nonnull(strstr(quern_plan_explain(plan, 0), "scaled"));
    ck_assert_ptr_eq(quern_plan_json(plan), quern_plan_json(plan));
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(doctor_reports_each_thing)
{
    static const char *const keys[] = {"version", "driver", "nvrtc",  "gpu",
                                       "cxx",     "cache",  "advice", "checks"};
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    char *text;
    ck_assert_int_eq(quern_doctor(q, &text), QUERN_OK);
    json_t *root = json_loads(text, 0, NULL);
    free(text);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        ck_assert_msg(json_object_get(root, keys[i]), "no %s", keys[i]);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "checks")), 5);
    json_decref(root);
    quern_close(q);
}
END_TEST

static bool has_nvrtc(quern *q)
{
    if (find_nvrtc(q))
        return true;
    quern_close(q);
    return false;
}

START_TEST(cubins_come_from_nvrtc_then_from_the_cache)
{
    const void *first, *second;
    size_t n_first, n_second;
    int hit;
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    if (!has_nvrtc(q))
        return;
    quern_plan *plan = add_one_of(q, 100), *again = add_one_of(q, 100);
    ck_assert_msg(!quern_plan_cubin(plan, 0, &first, &n_first, &hit), "%s", quern_message(q));
    ck_assert_int_eq(hit, 0);
    ck_assert_mem_eq(first, "\177ELF", 4);
    ck_assert_int_eq(quern_plan_cubin(again, 0, &second, &n_second, &hit), QUERN_OK);
    ck_assert_int_eq(hit, 1);
    ck_assert_uint_eq(n_first, n_second);
    ck_assert_mem_eq(first, second, n_first);
    ck_assert_int_eq(quern_plan_cubin(again, 7, &second, &n_second, &hit), QUERN_USAGE);
    quern_destroy_plan(plan);
    quern_destroy_plan(again);
    quern_close(q);
}
END_TEST

START_TEST(each_arch_and_math_has_its_own_cubin)
{
    static const char *const arch[] = {"sm_80", "sm_90", "sm_90a", "sm_90a"};
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    if (!has_nvrtc(q))
        return;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++) {
            const void *bytes;
            size_t n;
            int hit;
            quern_plan_options options = {.arch = arch[i], .strict = i == 3};
            quern_plan *plan = planned(q, add_one, &options, &(quern_size){"N", 100}, 1);
            ck_assert_int_eq(quern_plan_cubin(plan, 0, &bytes, &n, &hit), QUERN_OK);
            ck_assert_int_eq(hit, round);
            quern_destroy_plan(plan);
        }
    }
    quern_close(q);
}
END_TEST

// A warm cache needs no compiler: a context that thinks it has none.
START_TEST(without_nvrtc_a_warm_cache_serves)
{
    const void *bytes;
    size_t n;
    int hit = 0;
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    if (!has_nvrtc(q))
        return;
    quern_plan *plan = add_one_of(q, 100);
    ck_assert_int_eq(quern_plan_cubin(plan, 0, &bytes, &n, NULL), QUERN_OK);
    quern_destroy_plan(plan);
    q->opened->has_nvrtc = false;
    plan = add_one_of(q, 100);
    ck_assert_int_eq(quern_plan_cubin(plan, 0, &bytes, &n, &hit), QUERN_OK);
    ck_assert_int_eq(hit, 1);
    quern_destroy_plan(plan);
    plan = add_one_of(q, 101);
    ck_assert_int_eq(quern_plan_cubin(plan, 0, &bytes, &n, &hit), QUERN_MISSING);
    expect_message(q, "libnvrtc");
    expect_message(q, "CUDA_HOME");
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

START_TEST(source_that_does_not_compile_is_kept_with_the_log)
{
    struct kernel kernel = {.name = "wrong_map_0",
                            .source = "__global__ void f() { not_a_function(); }\n"};
    struct nvrtc_options options;
    struct code code;
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    if (!has_nvrtc(q))
        return;
    nvrtc_options(&options, "sm_90a", false);
    ck_assert_int_eq(nvrtc_compile(q, find_nvrtc(q), &kernel, &options, &code), QUERN_INTERNAL);
    expect_message(q, "not_a_function");
    expect_message(q, "wrong_map_0.cu(1)");
    const char *path = strstr(quern_message(q), P_tmpdir "/quern-wrong_map_0-");
    ck_assert_ptr_nonnull(path);
    char name[128], line[128] = "";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(path, "\n"), path);
    FILE *in = fopen(name, "r");
    ck_assert_ptr_nonnull(in);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, in));
    ck_assert_str_eq(line, kernel.source);
    fclose(in);
    unlink(name);
    quern_close(q);
}
END_TEST

Suite *runtime_suite(void)
{
    Suite *suite = suite_create("runtime");
    TCase *t = tcase_create("runtime");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, null_handles_are_a_usage_error);
    tcase_add_test(t, a_bad_program_is_reported_with_its_lines);
    tcase_add_test(t, a_program_wrong_for_its_sizes_is_reported_by_plan);
    tcase_add_test(t, each_thread_and_context_has_its_own_message);
    tcase_add_test(t, a_program_tells_its_sizes);
    tcase_add_loop_test(t, an_unknown_arch_is_refused_with_those_that_are_known, 0,
                        sizeof archs / sizeof *archs);
    tcase_add_test(t, bad_plan_requests_are_refused);
    tcase_add_test(t, a_plan_that_is_not_loaded_cannot_run);
    tcase_add_test(t, plans_run_on_the_host_device);
    tcase_add_test(t, a_weight_has_to_be_bound_and_may_change);
    tcase_add_test(t, pointers_are_checked_before_anything_runs);
    tcase_add_test(t, a_plan_for_element_aligned_pointers_takes_them);
    tcase_add_test(t, nothing_to_compute_needs_no_pointers);
    tcase_add_test(t, the_caller_may_own_the_workspace);
    tcase_add_test(t, check_finds_the_worst_element);
    tcase_add_test(t, many_threads_plan_and_run_the_same_program);
    tcase_add_test(t, a_second_process_compiles_nothing);
    tcase_add_test(t, offline_a_miss_says_how_to_build_it);
    tcase_add_test(t, a_missing_compiler_is_missing);
    tcase_add_test(t, a_gpu_without_a_driver_is_missing);
    tcase_add_test(t, explain_and_json_have_their_keys);
    tcase_add_test(t, doctor_reports_each_thing);
    tcase_add_test(t, cubins_come_from_nvrtc_then_from_the_cache);
    tcase_add_test(t, each_arch_and_math_has_its_own_cubin);
    tcase_add_test(t, without_nvrtc_a_warm_cache_serves);
    tcase_add_test(t, source_that_does_not_compile_is_kept_with_the_log);
    suite_add_tcase(suite, t);
    return suite;
}
