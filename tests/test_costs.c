// test_costs.c: quern_bench: what a run touches, and what it costs, on the host device and, where
// there is a driver, on a GPU.

#include "tests/planning.h"
#include <stdlib.h>

static const char kept_text[] = "program kept(N)\ninput x : f32[N]\nweight w : f32[N, N]\n"
                                "output y = x * sum(w, axis = 0)\n";

// What is prepared is a run's to read, and its weight is not.
START_TEST(bytes_are_those_that_a_run_touches)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    quern_plan_options options = {.each_run = _i};
    quern_plan *plan = planned(q, kept_text, &options, &(quern_size){"N", 64}, 1);
    _Alignas(16) static float x[64], y[64], w[64 * 64];
    for (int i = 0; i < 64; i++)
        x[i] = (float)i;
    for (int i = 0; i < 64 * 64; i++)
        w[i] = 1;
    quern_costs costs;
    void *arguments[] = {x, y};
    ck_assert_int_eq(quern_bench(plan, arguments, 2, &costs), QUERN_USAGE);
    expect_message(q, "weight `w` is not bound");
    ck_assert_int_eq(quern_bind(plan, "w", w), QUERN_OK);
    ck_assert_int_eq(quern_bench(plan, arguments, 2, &costs), QUERN_OK);
    double vector = sizeof x, matrix = sizeof w;
    ck_assert_double_eq(costs.set_bytes, 2 * vector + (_i ? matrix : vector));
    ck_assert(costs.bytes <= costs.set_bytes && costs.bytes >= 2 * vector);
    ck_assert_int_eq(costs.n_launches, _i ? 2 : 1);
    ck_assert_int_gt(costs.replay.replays, 0);
    ck_assert_int_eq(costs.warm.replays, 0);
    ck_assert_float_eq(y[3], 3 * 64);
    ck_assert_int_eq(quern_bench(plan, arguments, 1, &costs), QUERN_USAGE);
    ck_assert_int_eq(quern_bench(NULL, arguments, 2, &costs), QUERN_USAGE);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

static void expect_timing(const quern_timing *t)
{
    ck_assert_int_gt(t->replays, 0);
    ck_assert(0 < t->min_us && t->min_us <= t->median_us && t->median_us <= t->max_us);
}

// Memory for x, w and y of `scaled`, x and w filled with ones; w is bound.
static void place_ones(quern *q, quern_plan *plan, const int64_t *bytes, void **device)
{
    for (int i = 0; i < 4; i++) {
        float *ones = malloc((size_t)bytes[i]);
        for (int64_t k = 0; k < bytes[i] / 4; k++)
            ones[k] = 1;
        ck_assert_int_eq(quern_alloc(q, (size_t)bytes[i], &device[i]), QUERN_OK);
        ck_assert_int_eq(quern_upload(q, device[i], ones, (size_t)bytes[i]), QUERN_OK);
        free(ones);
    }
    ck_assert_int_eq(quern_bind(plan, "w", device[1]), QUERN_OK);
}

// Everything is measured, and the plan is left as it was: with the caller's weight.
START_TEST(a_gpu_says_it_all_and_the_plan_is_left_as_it_was)
{
    enum { B = 4096, D = 1024 };
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    quern_plan *plan = scaled_of(q, B, D);
    const int64_t bytes[] = {4 * B * D, 4 * D, 4 * B * D, 4 * B}; // x, w, y, s
    void *device[4];
    place_ones(q, plan, bytes, device);
    void *arguments[] = {device[0], device[2], device[3]};
    quern_costs c;
    ck_assert_msg(quern_bench(plan, arguments, 3, &c) == QUERN_OK, "%s", quern_message(q));
    const quern_timing *all[] = {&c.replay, &c.warm,         &c.call,       &c.host,
                                 &c.copy,   &c.empty_replay, &c.empty_call, &c.empty_host};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        expect_timing(all[i]);
    ck_assert(c.n_sets * c.set_bytes >= 3 * (double)plan->target.l2_bytes);
    ck_assert(c.empty_replay.median_us < c.replay.median_us);
    ck_assert(c.host.median_us <= c.call.median_us);

    float y = 0, three = 3;
    ck_assert_int_eq(quern_upload(q, device[1], &three, 4), QUERN_OK); // w[0], seen by the next run
    ck_assert_int_eq(quern_weights_changed(plan), QUERN_OK);
    ck_assert_int_eq(quern_execute(plan, arguments, 3, NULL), QUERN_OK);
    ck_assert_int_eq(quern_synchronize(q, NULL), QUERN_OK);
    ck_assert_int_eq(quern_download(q, &y, device[2], 4), QUERN_OK);
    ck_assert_float_eq(y, 3);
    for (int i = 0; i < 4; i++)
        quern_free(q, device[i]);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

Suite *costs_suite(void)
{
    Suite *s = suite_create("costs");
    TCase *host = tcase_create("on the host");
    tcase_set_timeout(host, 120);
    tcase_add_checked_fixture(host, planning_set_up, planning_tear_down);
    tcase_add_loop_test(host, bytes_are_those_that_a_run_touches, 0, 2); // prepared, each run
    suite_add_tcase(s, host);
    if (!cuda_driver_exists())
        return s;
    TCase *gpu = tcase_create("on a GPU");
    tcase_set_timeout(gpu, 120);
    tcase_add_checked_fixture(gpu, planning_set_up, planning_tear_down);
    tcase_add_test(gpu, a_gpu_says_it_all_and_the_plan_is_left_as_it_was);
    suite_add_tcase(s, gpu);
    return s;
}
