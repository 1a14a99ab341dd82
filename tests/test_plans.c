// test_plans.c: plans that run on the host device, and their cubins.

#include "tests/planning.h"
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

// Makes a locale whose decimal point is a comma the process's; false where the machine cannot.
static bool enter_comma_locale(void)
{
    char folder[] = "/tmp/quern-test-XXXXXX", command[256];
    if (!mkdtemp(folder))
        return false;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1",
             folder);
    bool made = system(command) >= 0 && !setenv("LOCPATH", folder, 1) &&
                setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) >= 0 && made;
}

START_TEST(a_decimal_comma_of_the_host_changes_nothing)
{
    static const char text[] = "program halves(N)\ninput x : f32[N]\noutput y = x * 0.75 + 1e-3\n";
    if (!enter_comma_locale()) {
        fprintf(stderr, "plans: no locale with a decimal comma can be made here\n");
        return;
    }
    char shown[8];
    snprintf(shown, sizeof shown, "%.1f", 0.5);
    ck_assert_str_eq(shown, "0,5");
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    quern_plan *plan = planned(q, text, NULL,
                               (quern_size[]){
                                   {"N", 8}
    },
                               1);
    quern_kernel kernel;
    ck_assert_int_eq(quern_plan_kernel(plan, 0, &kernel), QUERN_OK);
    ck_assert_ptr_nonnull(strstr(kernel.source, "0.75f"));
    snprintf(shown, sizeof shown, "%.1f", 0.5);
    ck_assert_str_eq(shown, "0,5"); // the caller's again
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

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
    expect_message(q, "weight `w` is not bound");
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
    quern_plan_options options = {.math = QUERN_MATH_FINITE};
    ck_assert_int_eq(quern_plan_program(q, program, &(quern_size){"N", 9}, 1, &options, &plan),
                     QUERN_MISSING);
    expect_message(q, "quern run test.qn -D N=9");
    expect_message(q, " --math finite");
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
    static const char *const arch[] = {"sm_80", "sm_90", "sm_90a", "sm_90a", "sm_90a"};
    static const quern_math math[] = {QUERN_MATH_REAL, QUERN_MATH_REAL, QUERN_MATH_REAL,
                                      QUERN_MATH_STRICT, QUERN_MATH_FAST};
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    if (!has_nvrtc(q))
        return;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 5; i++) {
            const void *bytes;
            size_t n;
            int hit;
            quern_plan_options options = {.arch = arch[i], .math = math[i]};
            quern_plan *plan = planned(q, add_one, &options, &(quern_size){"N", 100}, 1);
            ck_assert_int_eq(quern_plan_cubin(plan, 0, &bytes, &n, &hit), QUERN_OK);
            ck_assert_int_eq(hit, round);
            quern_destroy_plan(plan);
        }
    }
    quern_close(q);
}
END_TEST

START_TEST(a_plan_takes_no_math_but_the_four)
{
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    quern_program *program = parsed(q, add_one);
    for (int math = -1; math <= QUERN_MATH_FAST + 1; math++) {
        quern_plan_options options = {.math = (quern_math)math, .no_load = 1};
        quern_size size = {"N", 100};
        quern_plan *plan;
        bool known = math >= 0 && math <= QUERN_MATH_FAST;
        ck_assert_int_eq(quern_math_name((quern_math)math) != NULL, known);
        ck_assert_int_eq(quern_plan_program(q, program, &size, 1, &options, &plan),
                         known ? QUERN_OK : QUERN_USAGE);
        quern_destroy_plan(plan);
    }
    expect_message(q, "math is 4: ");
    quern_destroy_program(program);
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
    nvrtc_options(&options, "sm_90a", MATH_real);
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

Suite *plans_suite(void)
{
    Suite *suite = suite_create("plans");
    TCase *t = tcase_create("plans");
    tcase_add_checked_fixture(t, planning_set_up, planning_tear_down);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, plans_run_on_the_host_device);
    tcase_add_test(t, a_weight_has_to_be_bound_and_may_change);
    tcase_add_test(t, pointers_are_checked_before_anything_runs);
    tcase_add_test(t, a_plan_for_element_aligned_pointers_takes_them);
    tcase_add_test(t, nothing_to_compute_needs_no_pointers);
    tcase_add_test(t, the_caller_may_own_the_workspace);
    tcase_add_test(t, many_threads_plan_and_run_the_same_program);
    tcase_add_test(t, a_second_process_compiles_nothing);
    tcase_add_test(t, offline_a_miss_says_how_to_build_it);
    tcase_add_test(t, a_missing_compiler_is_missing);
    tcase_add_test(t, cubins_come_from_nvrtc_then_from_the_cache);
    tcase_add_test(t, each_arch_and_math_has_its_own_cubin);
    tcase_add_test(t, a_decimal_comma_of_the_host_changes_nothing);
    tcase_add_test(t, a_plan_takes_no_math_but_the_four);
    tcase_add_test(t, without_nvrtc_a_warm_cache_serves);
    tcase_add_test(t, source_that_does_not_compile_is_kept_with_the_log);
    suite_add_tcase(suite, t);
    return suite;
}
