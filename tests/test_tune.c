// test_tune.c: tuning on the host device: what is wrong or fails is never chosen, what is chosen is
// kept and used, the budget holds.

#include "tests/planning.h"
#include "tests/tests.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// A C++ compiler that makes kernels of 128 threads wrong, and of 512 threads not at all.
static const char faulty_compiler[] =
    "for word; do case $word in *.cpp) source=$word;; esac; done\n"
    "if [ \"$source\" ] && grep -q ' threads = 128;' $source; then\n"
    "    sed -i 's/ + 1.0f)/ + 1.5f)/' $source\n"
    "fi\n"
    "if [ \"$source\" ] && grep -q ' threads = 512;' $source; then\n"
    "    echo this compiler makes no 512 threads >&2\n"
    "    exit 1\n"
    "fi\n"
    "exec c++ \"$@\"\n";

static quern *open_with_compiler(const char *script)
{
    static char command[PATH_MAX + 8];
    char path[PATH_MAX];
    quern *q, *plain = open_on(QUERN_DEVICE_HOST, 0);
    snprintf(path, sizeof path, "%s/cxx.sh", plain->cache_dir);
    FILE *out = fopen(path, "w");
    fputs(script, out);
    fclose(out);
    snprintf(command, sizeof command, "sh %s", path);
    quern_options o = {.device = QUERN_DEVICE_HOST, .cache_dir = plain->cache_dir, .cxx = command};
    ck_assert_int_eq(quern_open(&q, &o), QUERN_OK);
    quern_close(plain);
    return q;
}

static quern_tuning *tuned(quern *q, const char *text, int64_t n, const quern_tune_options *o)
{
    quern_program *program = parsed(q, text);
    quern_tuning *tuning;
    quern_size size = {"N", n};
    quern_status status = quern_tune(q, program, &size, 1, o, &tuning);
    ck_assert_msg(status == QUERN_OK, "%s", quern_message(q));
    quern_destroy_program(program);
    return tuning;
}

static bool has_threads(const quern_candidate *c, int threads)
{
    char part[32];
    snprintf(part, sizeof part, " threads=%d ", threads);
    return strstr(c->spec, part) != NULL;
}

static void check_samples(const quern_candidate *c)
{
    bool timed = c->outcome == QUERN_TIMED || c->outcome == QUERN_CHOSEN;
    ck_assert_int_eq(c->n_samples > 0, timed);
    ck_assert(timed == (c->median_us > 0));
    for (int i = 0; i < c->n_samples; i++)
        ck_assert(c->samples_us[i] > 0 && c->samples_us[i] < 1e9);
    ck_assert((c->why != NULL) == (c->outcome == QUERN_WRONG || c->outcome == QUERN_FAILED));
}

START_TEST(what_is_wrong_or_does_not_compile_is_reported_and_never_chosen)
{
    quern *q = open_with_compiler(faulty_compiler);
    quern_tuning *tuning =
        tuned(q, add_one, 20000, &(quern_tune_options){.effort = QUERN_TUNE_PATIENT});
    int n_wrong = 0, n_failed = 0, n_chosen = 0;
    for (int i = 0; i < quern_tuning_n_candidates(tuning); i++) {
        quern_candidate c;
        ck_assert_int_eq(quern_tuning_candidate(tuning, i, &c), QUERN_OK);
        check_samples(&c);
        n_chosen += c.outcome == QUERN_CHOSEN;
        if (has_threads(&c, 128)) {
            n_wrong++;
            ck_assert_int_eq(c.outcome, QUERN_WRONG);
            ck_assert_ptr_nonnull(strstr(c.why, "y["));
        } else if (has_threads(&c, 512)) {
            n_failed++;
            ck_assert_int_eq(c.outcome, QUERN_FAILED);
            ck_assert_ptr_nonnull(strstr(c.why, "makes no 512 threads"));
        } else {
            ck_assert(c.outcome == QUERN_TIMED || c.outcome == QUERN_CHOSEN);
        }
    }
    ck_assert_int_gt(n_wrong, 0);
    ck_assert_int_gt(n_failed, 0);
    ck_assert_int_eq(n_chosen, 1);
    quern_destroy_tuning(tuning);
    quern_close(q);
}
END_TEST

START_TEST(a_wrong_default_is_an_error)
{
    static const char wrong[] = "for word; do case $word in *.cpp) source=$word;; esac; done\n"
                                "[ \"$source\" ] && sed -i 's/ + 1.0f)/ + 1.5f)/' $source\n"
                                "exec c++ \"$@\"\n";
    quern *q = open_with_compiler(wrong);
    quern_program *program = parsed(q, add_one);
    quern_tuning *tuning = (quern_tuning *)q;
    ck_assert_int_eq(quern_tune(q, program, &(quern_size){"N", 100}, 1, NULL, &tuning),
                     QUERN_INTERNAL);
    expect_message(q, "the model's own specs are wrong: y[");
    ck_assert_ptr_null(tuning);
    quern_destroy_program(program);
    quern_close(q);
}
END_TEST

START_TEST(what_is_chosen_wins_and_is_used_by_the_next_plan)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    quern_tuning *tuning = tuned(q, add_one, 20000, NULL);
    quern_tuned result;
    ck_assert_int_eq(quern_tuning_result(tuning, &result), QUERN_OK);
    ck_assert(result.kept && result.n_untried == 0 && result.seconds > 0);
    ck_assert(result.tuned_us > 0 && result.tuned_us <= result.default_us);
    ck_assert_str_eq(result.arch, "sm_90a");
    const char *chosen = NULL;
    quern_candidate c;
    double last = 0;
    for (int i = 0; i < quern_tuning_n_candidates(tuning); i++) {
        ck_assert_int_eq(quern_tuning_candidate(tuning, i, &c), QUERN_OK);
        ck_assert(i < 2 || c.predicted_us >= last);
        last = c.predicted_us;
        if (c.outcome == QUERN_CHOSEN)
            chosen = c.spec;
    }
    ck_assert_ptr_nonnull(chosen);
    quern_plan *plan = add_one_of(q, 20000);
    quern_kernel kernel;
    quern_plan_kernel(plan, 0, &kernel);
    ck_assert_str_eq(kernel.spec, chosen);
    ck_assert_int_eq(quern_tuning_candidate(tuning, -1, &c), QUERN_USAGE);
    ck_assert_int_eq(quern_tuning_candidate(tuning, 99, &c), QUERN_USAGE);
    quern_destroy_plan(plan);
    quern_destroy_tuning(tuning);
    quern_close(q);
}
END_TEST

START_TEST(several_kernels_are_tuned_one_after_the_other)
{
    static const char two[] = "program two(N)\ninput x : f32[N, 64]\n"
                              "m = mean(x, axis = 0)\noutput y = x - m[None, :]\n";
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    // A share of the budget for each of them.
    quern_tuning *tuning =
        tuned(q, two, 500, &(quern_tune_options){.budget_s = 3, .plan.separate = 1});
    quern_candidate c;
    int n_kernels = 0, n_chosen = 0, n_timed = 0;
    const char *name = "";
    for (int i = 0; i < quern_tuning_n_candidates(tuning); i++) {
        quern_tuning_candidate(tuning, i, &c);
        check_samples(&c);
        n_kernels += strcmp(c.kernel, name) != 0;
        n_chosen += c.outcome == QUERN_CHOSEN;
        n_timed += c.n_samples > 0;
        name = c.kernel;
    }
    ck_assert_int_eq(n_kernels, 2);
    ck_assert_int_eq(n_chosen, 2);
    ck_assert_int_gt(n_timed, 2);
    quern_destroy_tuning(tuning);
    quern_close(q);
}
END_TEST

START_TEST(a_budget_that_is_over_leaves_the_models_choice)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    double begun = now_ms();
    quern_tuning *tuning = tuned(
        q, add_one, 20000, &(quern_tune_options){.effort = QUERN_TUNE_PATIENT, .budget_s = 1e-3});
    ck_assert(now_ms() - begun < 20000);
    quern_tuned result;
    quern_tuning_result(tuning, &result);
    ck_assert_int_eq(result.n_untried, quern_tuning_n_candidates(tuning) - 1);
    ck_assert_double_eq(result.tuned_us, result.default_us);
    quern_candidate c;
    quern_tuning_candidate(tuning, 0, &c);
    ck_assert_int_eq(c.outcome, QUERN_CHOSEN);
    quern_tuning_candidate(tuning, 1, &c);
    ck_assert_int_eq(c.outcome, QUERN_UNTRIED);
    check_samples(&c);
    quern_destroy_tuning(tuning);
    quern_close(q);
}
END_TEST

START_TEST(it_runs_on_the_callers_data_and_leaves_it_alone)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    float x[64], w[8];
    for (int i = 0; i < 64; i++)
        x[i] = (float)i;
    for (int i = 0; i < 8; i++)
        w[i] = 2;
    const void *inputs[] = {x, w};
    quern_program *program = parsed(q, scaled);
    quern_tuning *tuning;
    quern_size sizes[] = {
        {"B", 8},
        {"D", 8}
    };
    quern_tune_options o = {.inputs = inputs, .budget_s = 2};
    ck_assert_int_eq(quern_tune(q, program, sizes, 2, &o, &tuning), QUERN_OK);
    for (int i = 0; i < 64; i++)
        ck_assert(x[i] == (float)i);
    quern_destroy_tuning(tuning);
    quern_destroy_program(program);
    quern_close(q);
}
END_TEST

START_TEST(a_call_that_is_wrong_is_refused)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0), *none = open_on(QUERN_DEVICE_NONE, 0);
    quern_program *program = parsed(q, add_one), *other = parsed(none, add_one);
    quern_size size = {"N", 0};
    quern_tuning *tuning;
    ck_assert_int_eq(quern_tune(NULL, program, &size, 1, NULL, &tuning), QUERN_USAGE);
    ck_assert_int_eq(quern_tune(q, program, &size, 1, NULL, NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_tune(q, NULL, &size, 1, NULL, &tuning), QUERN_USAGE);
    ck_assert_int_eq(
        quern_tune(q, program, &size, 1, &(quern_tune_options){.budget_s = -1}, &tuning),
        QUERN_USAGE);
    ck_assert_int_eq(quern_tune(q, program, &size, 1, &(quern_tune_options){.effort = 7}, &tuning),
                     QUERN_USAGE);
    ck_assert_int_eq(quern_tune(q, program, NULL, 0, NULL, &tuning), QUERN_PROGRAM);
    size.value = 9;
    ck_assert_int_eq(quern_tune(none, other, &size, 1, NULL, &tuning), QUERN_USAGE);
    expect_message(none, "not loaded on a device");
    ck_assert_int_eq(quern_tuning_result(NULL, NULL), QUERN_USAGE);
    quern_destroy_tuning(NULL);
    quern_destroy_program(program);
    quern_destroy_program(other);
    quern_close(none);
    quern_close(q);
}
END_TEST

Suite *tune_suite(void)
{
    Suite *s = suite_create("tune");
    TCase *library = tcase_create("the library");
    tcase_set_timeout(library, 240);
    tcase_add_checked_fixture(library, planning_set_up, planning_tear_down);
    tcase_add_test(library, what_is_wrong_or_does_not_compile_is_reported_and_never_chosen);
    tcase_add_test(library, a_wrong_default_is_an_error);
    tcase_add_test(library, what_is_chosen_wins_and_is_used_by_the_next_plan);
    tcase_add_test(library, several_kernels_are_tuned_one_after_the_other);
    tcase_add_test(library, a_budget_that_is_over_leaves_the_models_choice);
    tcase_add_test(library, it_runs_on_the_callers_data_and_leaves_it_alone);
    tcase_add_test(library, a_call_that_is_wrong_is_refused);
    suite_add_tcase(s, library);

    return s;
}
