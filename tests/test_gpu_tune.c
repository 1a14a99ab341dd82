// test_gpu_tune.c: tuning on a GPU: every candidate is right, and what is chosen is used.  Without
// a driver there is one test, which says so.

#include "tests/planning.h"
#include <stdlib.h>
#include <string.h>

// A program of each family, over M and N.
static const char map[] = "input x : f32[M, N]\noutput y = gelu(x) + 1\n",
                  transposed[] = "input x : f32[M, N]\ninput z : f32[N, M]\noutput y = x + z.T\n",
                  softmax[] = "input x : f32[M, N]\noutput y = softmax(x, axis = 1)\n",
                  layer_norm[] = "input x : f32[M, N]\noutput y = layer_norm(x)\n",
                  columns[] = "input x : f32[M, N]\noutput y = mean(x, axis = 0)\n",
                  gemm[] =
                      "input x : f32[M, N]\nweight w : f32[96, N]\noutput y = relu(linear(x, w))\n",
                  two[] = "input x : f32[M, N]\nweight w : f32[N, N]\n"
                          "b = sum(w * w, axis = 0)\noutput y = x * b\n";

static const struct {
    const char *text;
    int64_t m, n;
    int each_run;
} programs[] = {
    {map,        1000, 4097,  0},
    {transposed, 1024, 1024,  0},
    {softmax,    2048, 1024,  0},
    {layer_norm, 140,  60000, 0},
    {columns,    5000, 512,   0},
    {gemm,       512,  320,   0},
    {two,        100,  512,   1},
};

static quern_tuning *tuned(quern *q, const quern_program *program, const quern_size *sizes,
                           int each_run)
{
    quern_tuning *tuning;
    quern_tune_options o = {
        .plan = {.each_run = each_run}, .effort = QUERN_TUNE_PATIENT, .budget_s = 30};
    quern_status status = quern_tune(q, program, sizes, 2, &o, &tuning);
    ck_assert_msg(status == QUERN_OK, "%s", quern_message(q));
    return tuning;
}

// Returns the spec that was chosen for the plan's last kernel.
static const char *check_candidates(const quern_tuning *tuning)
{
    const char *chosen = NULL;
    for (int i = 0; i < quern_tuning_n_candidates(tuning); i++) {
        quern_candidate c;
        ck_assert_int_eq(quern_tuning_candidate(tuning, i, &c), QUERN_OK);
        bool may_fail = strstr(c.spec, " cluster=16 ") != NULL; // not every GPU launches it
        ck_assert_msg(c.outcome != QUERN_WRONG && (c.outcome != QUERN_FAILED || may_fail),
                      "%s, %s: %s", c.kernel, c.spec, c.why);
        for (int k = 0; k < c.n_samples; k++)
            ck_assert(c.samples_us[k] > 0 && c.samples_us[k] < 1e6);
        if (c.outcome == QUERN_CHOSEN)
            chosen = c.spec;
    }
    return chosen;
}

START_TEST(every_candidate_is_right_and_the_chosen_one_is_used)
{
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    quern_size sizes[] = {
        {"M", programs[_i].m},
        {"N", programs[_i].n}
    };
    char text[512];
    snprintf(text, sizeof text, "program p(M, N)\n%s", programs[_i].text);
    quern_program *program = parsed(q, text);
    quern_tuning *tuning = tuned(q, program, sizes, programs[_i].each_run);
    const char *chosen = check_candidates(tuning);
    quern_tuned result;
    ck_assert_int_eq(quern_tuning_result(tuning, &result), QUERN_OK);
    ck_assert(result.kept && result.tuned_us > 0 && result.tuned_us <= result.default_us);
    quern_plan_options o = {.each_run = programs[_i].each_run};
    quern_plan *plan = planned(q, text, &o, sizes, 2);
    quern_kernel kernel;
    quern_plan_kernel(plan, quern_plan_n_kernels(plan) - 1, &kernel);
    ck_assert_str_eq(kernel.spec, chosen);
    quern_destroy_plan(plan);
    quern_destroy_tuning(tuning);
    quern_destroy_program(program);
    quern_close(q);
}
END_TEST

START_TEST(there_is_no_driver_so_nothing_was_tuned)
{
    fprintf(stderr, "gpu_tune: skipped, there is no NVIDIA driver on this machine\n");
}
END_TEST

Suite *gpu_tune_suite(void)
{
    Suite *suite = suite_create("gpu_tune");
    TCase *t = tcase_create("gpu_tune");
    suite_add_tcase(suite, t);
    if (!cuda_driver_exists()) {
        tcase_add_test(t, there_is_no_driver_so_nothing_was_tuned);
        return suite;
    }
    tcase_add_checked_fixture(t, planning_set_up, planning_tear_down);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, every_candidate_is_right_and_the_chosen_one_is_used, 0,
                        sizeof programs / sizeof *programs);
    return suite;
}
