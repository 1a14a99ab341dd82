// test_weights.c: the contract of weights, on the host device: what is prepared, when, and what a
// caller reads who did not say that a weight changed.

#include "tests/planning.h"
#include "tests/programs.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { R = 6, D = 8 };

// g is read by the run itself, s is kept.
static const char shifted[] = "program shifted(R, D)\ninput x : f32[D]\nweight w : f32[R, D]\n"
                              "weight g : f32[D]\ns = sum(w, axis = 0)\noutput y = x * s + g\n";

struct weighed {
    quern *q;
    quern_plan *plan;
    _Alignas(256) float w[R * D], w2[R * D], g[D], x[D], y[D];
    void *arguments[2];
};

static const quern_size sizes[] = {
    {"R", R},
    {"D", D}
};

static void fill(float *w, float value)
{
    for (int i = 0; i < R * D; i++)
        w[i] = value;
}

static void bench_open(struct weighed *b, int each_run)
{
    *b = (struct weighed){
        .q = open_on(QUERN_DEVICE_HOST, 0), .arguments = {b->x, b->y}
    };
    b->plan = planned(b->q, shifted, &(quern_plan_options){.each_run = each_run}, sizes, 2);
    fill(b->w, 1);
    fill(b->w2, 10);
    for (int i = 0; i < D; i++)
        b->x[i] = 1;
}

static void bench_bind(struct weighed *b)
{
    ck_assert_int_eq(quern_bind(b->plan, "w", b->w), QUERN_OK);
    ck_assert_int_eq(quern_bind(b->plan, "g", b->g), QUERN_OK);
}

static void bench_close(struct weighed *b)
{
    quern_destroy_plan(b->plan);
    quern_close(b->q);
}

static void expect_run_on(struct weighed *b, float y, quern_stream stream)
{
    memset(b->y, 0xff, sizeof b->y);
    quern_status s = quern_execute(b->plan, b->arguments, 2, stream);
    ck_assert_msg(s == QUERN_OK, "%s", quern_message(b->q));
    for (int i = 0; i < D; i++)
        ck_assert_float_eq(b->y[i], y);
}

static void expect_run(struct weighed *b, float y)
{
    expect_run_on(b, y, NULL);
}

START_TEST(executing_prepares_by_itself)
{
    struct weighed b;
    bench_open(&b, _i);
    bench_bind(&b);
    expect_run(&b, R);
    expect_run(&b, R);
    bench_close(&b);
}
END_TEST

// Without the word, what is kept stays, and what a run reads itself is seen: the caller's mistake.
START_TEST(an_overwritten_weight_is_seen_once_the_plan_is_told)
{
    struct weighed b;
    bench_open(&b, 0);
    bench_bind(&b);
    expect_run(&b, R);
    fill(b.w, 2);
    expect_run(&b, R);
    for (int i = 0; i < D; i++)
        b.g[i] = 100;
    expect_run(&b, R + 100);
    ck_assert_int_eq(quern_weights_changed(b.plan), QUERN_OK);
    expect_run(&b, 2 * R + 100);
    fill(b.w, 3);
    expect_run(&b, 2 * R + 100);
    bench_close(&b);
}
END_TEST

START_TEST(with_each_run_an_overwritten_weight_is_seen_at_once)
{
    struct weighed b;
    bench_open(&b, 1);
    bench_bind(&b);
    ck_assert_int_eq(quern_prepare(b.plan, NULL), QUERN_OK);
    for (int i = 1; i < 4; i++) {
        fill(b.w, (float)i);
        expect_run(&b, (float)(i * R));
    }
    ck_assert_int_eq(quern_plan_prepared_bytes(b.plan), 0);
    bench_close(&b);
}
END_TEST

START_TEST(preparing_computes_anew_whether_or_not_a_weight_changed)
{
    struct weighed b;
    bench_open(&b, 0);
    bench_bind(&b);
    ck_assert_int_eq(quern_prepare(b.plan, NULL), QUERN_OK);
    fill(b.w, 2); // the run reads what was prepared before
    expect_run(&b, R);
    ck_assert_int_eq(quern_prepare(b.plan, NULL), QUERN_OK);
    expect_run(&b, 2 * R);
    bench_close(&b);
}
END_TEST

START_TEST(a_weight_bound_elsewhere_is_prepared_again)
{
    struct weighed b;
    bench_open(&b, _i);
    bench_bind(&b);
    expect_run(&b, R);
    ck_assert_int_eq(quern_bind(b.plan, "w", b.w2), QUERN_OK);
    expect_run(&b, 10 * R);
    ck_assert_int_eq(quern_bind(b.plan, "w", b.w), QUERN_OK);
    expect_run(&b, R);
    fill(b.w, 4); // binding the same pointer says that it changed
    ck_assert_int_eq(quern_bind(b.plan, "w", b.w), QUERN_OK);
    expect_run(&b, 4 * R);
    bench_close(&b);
}
END_TEST

START_TEST(without_a_weight_nothing_runs)
{
    struct weighed b;
    bench_open(&b, _i);
    ck_assert_int_eq(quern_bind(b.plan, "g", b.g), QUERN_OK);
    ck_assert_int_eq(quern_execute(b.plan, b.arguments, 2, NULL), QUERN_USAGE);
    expect_message(b.q, "weight `w` is not bound");
    ck_assert_int_eq(quern_prepare(b.plan, NULL), QUERN_USAGE);
    expect_message(b.q, "weight `w` is not bound");
    bench_bind(&b);
    expect_run(&b, R);
    // what was kept of it would still be there
    ck_assert_int_eq(quern_bind(b.plan, "w", NULL), QUERN_OK);
    b.y[0] = -7;
    ck_assert_int_eq(quern_execute(b.plan, b.arguments, 2, NULL), QUERN_USAGE);
    expect_message(b.q, "weight `w` is not bound");
    ck_assert_int_eq(quern_prepare(b.plan, NULL), QUERN_USAGE);
    ck_assert_float_eq(b.y[0], -7);
    ck_assert_int_eq(quern_bind(b.plan, "w", b.w2), QUERN_OK);
    expect_run(&b, 10 * R);
    bench_close(&b);
}
END_TEST

START_TEST(another_stream_may_execute_what_one_prepared)
{
    struct weighed b;
    char streams[2];
    bench_open(&b, _i);
    bench_bind(&b);
    ck_assert_int_eq(quern_prepare(b.plan, (quern_stream)&streams[0]), QUERN_OK);
    expect_run_on(&b, R, (quern_stream)&streams[1]);
    expect_run_on(&b, R, NULL);
    bench_close(&b);
}
END_TEST

START_TEST(an_execute_that_fails_has_not_prepared)
{
    struct weighed b;
    bench_open(&b, 0);
    bench_bind(&b);
    ck_assert_int_eq(quern_execute(b.plan, (void *[]){NULL, b.y}, 2, NULL), QUERN_USAGE);
    fill(b.w, 5);
    expect_run(&b, 5 * R);
    ck_assert_int_eq(quern_weights_changed(NULL), QUERN_USAGE);
    ck_assert_int_eq(quern_prepare(NULL, NULL), QUERN_USAGE);
    bench_close(&b);
}
END_TEST

START_TEST(what_is_kept_is_not_in_the_workspace)
{
    struct weighed b;
    void *workspace;
    bench_open(&b, _i);
    bench_bind(&b);
    size_t bytes = (size_t)quern_plan_workspace_bytes(b.plan);
    ck_assert_int_eq(posix_memalign(&workspace, 256, bytes + 256), 0);
    ck_assert_int_eq(quern_use_workspace(b.plan, workspace), QUERN_OK);
    expect_run(&b, R);
    memset(workspace, 0xff, bytes);
    expect_run(&b, R);
    ck_assert_int_eq(quern_use_workspace(b.plan, NULL), QUERN_OK);
    free(workspace);
    expect_run(&b, R);
    bench_close(&b);
}
END_TEST

START_TEST(a_timed_run_is_prepared)
{
    struct weighed b;
    quern_timing timing;
    bench_open(&b, _i);
    ck_assert_int_eq(quern_time(b.plan, b.arguments, 2, &timing), QUERN_USAGE);
    bench_bind(&b);
    ck_assert_int_eq(quern_time(b.plan, b.arguments, 2, &timing), QUERN_OK);
    ck_assert_double_gt(timing.min_us, 0);
    expect_run(&b, R);
    bench_close(&b);
}
END_TEST

// ---- what a plan says of it ----

static int64_t kept_bytes(const char *text, quern_plan_options options)
{
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    quern_plan *plan = planned(q, text, &options, sizes, 2);
    int64_t bytes = quern_plan_prepared_bytes(plan);
    quern_destroy_plan(plan);
    quern_close(q);
    return bytes;
}

START_TEST(the_memory_that_is_kept_is_told)
{
    static const struct {
        const char *expression;
        int64_t bytes;
    } cases[] = {
        {"x * sum(w, axis = 0)",                        256}, // of which 32 are used
        {"x * sum(w, axis = 0) + sum(w * w, axis = 0)", 512},
        {"x + w[0]",                                    0  },
        {"(x[None] @ w.T)[0, 0] + x",                   0  },
        {"x * exp(w[0])",                               0  },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "program p(R, D)\ninput x : f32[D]\nweight w : f32[R, D]\noutput y = %s\n",
                 cases[i].expression);
        ck_assert_msg(kept_bytes(text, (quern_plan_options){0}) == cases[i].bytes, "%s",
                      cases[i].expression);
        ck_assert_int_eq(kept_bytes(text, (quern_plan_options){.each_run = 1}), 0);
    }
}
END_TEST

// Two users of one sum: one kernel of prepare; and no two kernels have one name.
START_TEST(kernels_belong_to_a_part_and_prepare_comes_first)
{
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    quern_plan *plan =
        planned(q,
                "program p(R, D)\ninput x : f32[D]\nweight w : f32[R, D]\ns = sum(w, axis = 0)\n"
                "output y = x * s\noutput z = sum(x / s)\n",
                &(quern_plan_options){.each_run = _i}, sizes, 2);
    int n = quern_plan_n_kernels(plan), n_prepare = 0;
    quern_kernel k[8];
    ck_assert_int_lt(n, 8);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(quern_plan_kernel(plan, i, &k[i]), QUERN_OK);
        ck_assert_str_eq(k[i].part, i ? "run" : "prepare");
        n_prepare += !strcmp(k[i].part, "prepare");
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(k[i].name, k[j].name);
    }
    ck_assert_int_eq(n_prepare, 1);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

static double number_at(json_t *root, const char *a, const char *b, const char *c)
{
    json_t *at = json_object_get(root, a);
    if (b)
        at = json_object_get(json_object_get(at, b), c);
    ck_assert(json_is_number(at));
    return json_number_value(at);
}

START_TEST(explain_and_the_plan_as_json_tell_the_parts_apart)
{
    static const char *const words[] = {"prepared", "each-run"};
    quern *q = open_on(QUERN_DEVICE_NONE, 0);
    quern_plan *plan = planned(q, shifted, &(quern_plan_options){.each_run = _i}, sizes, 2);
    json_t *root = json_loads(quern_plan_explain(plan, 1), 0, NULL);
    ck_assert_ptr_nonnull(root);
    ck_assert_str_eq(json_string_value(json_object_get(root, "weights")), words[_i]);
    ck_assert_double_eq(number_at(root, "prepared_bytes", NULL, NULL), _i ? 0 : 256);
    ck_assert_double_ge(number_at(root, "totals", "prepare", "bytes"), 4 * R * D);
    ck_assert_double_eq(number_at(root, "totals", "run", "bytes"), 4 * 4 * D);
    json_t *kernels = json_object_get(root, "kernels");
    ck_assert_int_eq(json_array_size(kernels), 2);
    for (size_t i = 0; i < 2; i++)
        ck_assert_str_eq(json_string_value(json_object_get(json_array_get(kernels, i), "part")),
                         i ? "run" : "prepare");
    json_decref(root);

    root = json_loads(quern_plan_json(plan), 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(root, "weights")), words[_i]);
    ck_assert_double_eq(number_at(root, "prepared_bytes", NULL, NULL), _i ? 0 : 256);
    json_decref(root);
    ck_assert_ptr_nonnull(strstr(quern_plan_explain(plan, 0), _i ? "in each run" : "keeps 256 B"));
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

// ---- values ----

static const char *const values[] = {
    "program p(M, N)\ninput x : f32[M, N]\nweight w : f32[N, N]\nweight v : f32[N]\n"
    "output y = x @ softmax(w, axis = 0) + v * rsqrt(var(w, axis = 1) + 1.0)\n"
    "output t = sum(w)\noutput u = w.T\noutput z = x * exp(v)\n",
    "program p(M, N)\ninput x : f16[M, N]\nweight w : f16[M, N]\nweight v : i8[M, N]\n"
    "output y = x * mean(w, axis = 0)\noutput z = x @ (w @ w.T @ w).T\n"
    "output k = argmax(v, axis = 1)\noutput c = x + cast(v, f16) * max(w, axis = 1)[:, None]\n",
};
static const int64_t shapes[][2] = {
    {0,  3 },
    {1,  1 },
    {5,  33},
    {64, 31},
    {3,  64}
};

START_TEST(both_ways_agree_with_the_reference)
{
    enum { N_SHAPES = sizeof shapes / sizeof *shapes };
    static const quern_plan_options ways[] = {{.each_run = 0}, {.each_run = 1}};
    struct job jobs[2 * N_SHAPES];
    quern_size given[N_SHAPES][2];
    for (int i = 0; i < 2 * N_SHAPES; i++) {
        quern_size *size = given[i / 2];
        size[0] = (quern_size){"M", shapes[i / 2][0]};
        size[1] = (quern_size){"N", shapes[i / 2][1]};
        jobs[i] = (struct job){.text = values[_i],
                               .sizes = size,
                               .n_sizes = 2,
                               .input_kind = "normal",
                               .options = &ways[i % 2]};
    }
    ck_assert_int_eq(run_jobs(jobs, 2 * N_SHAPES), 0);
}
END_TEST

Suite *weights_suite(void)
{
    Suite *suite = suite_create("weights");
    TCase *t = tcase_create("weights");
    tcase_add_checked_fixture(t, planning_set_up, planning_tear_down);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, executing_prepares_by_itself, 0, 2);
    tcase_add_test(t, an_overwritten_weight_is_seen_once_the_plan_is_told);
    tcase_add_test(t, with_each_run_an_overwritten_weight_is_seen_at_once);
    tcase_add_test(t, preparing_computes_anew_whether_or_not_a_weight_changed);
    tcase_add_loop_test(t, a_weight_bound_elsewhere_is_prepared_again, 0, 2);
    tcase_add_loop_test(t, without_a_weight_nothing_runs, 0, 2);
    tcase_add_loop_test(t, another_stream_may_execute_what_one_prepared, 0, 2);
    tcase_add_test(t, an_execute_that_fails_has_not_prepared);
    tcase_add_loop_test(t, what_is_kept_is_not_in_the_workspace, 0, 2);
    tcase_add_loop_test(t, a_timed_run_is_prepared, 0, 2);
    tcase_add_test(t, the_memory_that_is_kept_is_told);
    tcase_add_loop_test(t, kernels_belong_to_a_part_and_prepare_comes_first, 0, 2);
    tcase_add_loop_test(t, explain_and_the_plan_as_json_tell_the_parts_apart, 0, 2);
    suite_add_tcase(suite, t);
    TCase *v = tcase_create("values");
    tcase_set_timeout(v, 300);
    tcase_add_loop_test(v, both_ways_agree_with_the_reference, 0, sizeof values / sizeof *values);
    suite_add_tcase(suite, v);
    return suite;
}
