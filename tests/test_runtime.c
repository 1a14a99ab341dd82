// test_runtime.c: the public interface: misuse, messages, sizes, archs, checks, reports.

#include "tests/planning.h"
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

START_TEST(a_gpu_without_a_driver_is_missing)
{
    quern *q = (void *)&noted;
    if (cuda_driver_exists())
        return;
    ck_assert_int_eq(quern_open(&q, &(quern_options){.device = QUERN_DEVICE_CUDA}), QUERN_MISSING);
    ck_assert_ptr_null(q);
    expect_message(NULL, "libcuda.so.1");
    q = open_on(QUERN_DEVICE_AUTO, 0);
    ck_assert_str_eq(quern_device_name(q), "host");
    ck_assert_int_eq(noted.n, 1);
    ck_assert_ptr_nonnull(strstr(noted.last, "host"));
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

Suite *runtime_suite(void)
{
    Suite *suite = suite_create("runtime");
    TCase *t = tcase_create("runtime");
    tcase_add_checked_fixture(t, planning_set_up, planning_tear_down);
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
    tcase_add_test(t, check_finds_the_worst_element);
    tcase_add_test(t, a_gpu_without_a_driver_is_missing);
    tcase_add_test(t, explain_and_json_have_their_keys);
    tcase_add_test(t, doctor_reports_each_thing);
    suite_add_tcase(suite, t);
    return suite;
}
