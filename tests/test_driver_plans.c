// test_driver_plans.c: what plans ask of a GPU's driver and make of its answers, on a driver that
// has no GPU (tests/fake).

#include "tests/machine.h"
#include "tests/planning.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

static const char *spec_with(const quern_plan *plan, const char *part)
{
    const char *spec;
    double us;
    for (int i = 0; quern_plan_candidate(plan, 0, i, &spec, &us) == QUERN_OK; i++)
        if (strstr(spec, part))
            return spec;
    ck_abort_msg("no candidate has %s", part);
    return NULL;
}

static quern_plan *plan_long(quern *q, const quern_plan_options *options)
{
    static const char text[] = "program long(R, N)\ninput x : f64[R, N]\noutput y = softmax(x)\n";
    quern_size sizes[] = {
        {"R", 8     },
        {"N", 100000}
    };
    return planned(q, text, options, sizes, 2);
}

START_TEST(a_given_spec_whose_cluster_does_not_fit_is_left)
{
    if (!load_driver())
        return;
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    set("FAKE_CUDA_SMS", "16");
    quern_plan *all = plan_long(q, &(quern_plan_options){.candidates = 1});
    quern_spec spec = {"long_0_rows", spec_with(all, " cluster=16 ")};
    quern_plan_options given = {.specs = &spec, .n_specs = 1};
    quern_plan *as_given = plan_long(q, &given);
    ck_assert_uint_eq(as_given->program.kernels[0].cluster[0], 16);
    ck_assert_int_eq(noted.n, 0);
    set("FAKE_CUDA_CLUSTER", "8");
    quern_plan *smaller = plan_long(q, &given);
    ck_assert_uint_eq(smaller->program.kernels[0].cluster[0], 8);
    expect_part(noted.last, "planned again for 8 at most");
    ck_assert_int_eq(noted.n, 1);
    quern_destroy_plan(smaller);
    quern_destroy_plan(as_given);
    quern_destroy_plan(all);
    quern_close(q);
}
END_TEST

// More would wait for the others to end, and take as long again.
START_TEST(clusters_that_walk_are_as_many_as_fit)
{
    if (!load_driver())
        return;
    static const char text[] = "program rows(R, N)\ninput x : f32[R, N]\noutput y = softmax(x)\n";
    quern_size sizes[] = {
        {"R", 90   },
        {"N", 16384}
    };
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    set("FAKE_CUDA_SMS", "16");
    quern_plan *all = planned(q, text, &(quern_plan_options){.candidates = 1}, sizes, 2);
    const char *walking = spec_with(all, " staged=1 staging_at=256 staged_bytes=16 cluster=4 ");
    quern_spec spec = {"rows_0_rows", walking};
    quern_plan *plan =
        planned(q, text, &(quern_plan_options){.specs = &spec, .n_specs = 1}, sizes, 2);
    const struct kernel *k = plan->program.kernels;
    ck_assert(k->walks);
    ck_assert_uint_eq(k->cluster[0], 4);
    void *memory[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(quern_alloc(q, 90 * 16384 * sizeof(float), &memory[i]), QUERN_OK);
    launches();
    ck_assert_int_eq(quern_execute(plan, memory, 2, NULL), QUERN_OK);
    ck_assert_uint_gt(k->grid[0], 16); // the model has two blocks to an SM, this driver one
    expect_part(launches(), "grid=16,1,1 ");
    for (int i = 0; i < 2; i++)
        quern_free(q, memory[i]);
    quern_destroy_plan(plan);
    quern_destroy_plan(all);
    quern_close(q);
}
END_TEST

// Rows of 1048576 need all 132 SMs that the model knows of, those of 131072 need 16 blocks.
static const struct {
    int64_t rows, cols;
    const char *sms, *per_sm, *grid;
    bool again; // without teams
} teams[] = {
    {16,  1048576, "132", "1", " grid=132,1,1 ", false},
    {16,  1048576, "66",  "2", " grid=132,1,1 ", false},
    {16,  1048576, "131", "1", NULL,             true },
    {16,  1048576, "132", "0", NULL,             true },
    {128, 131072,  "132", "1", " grid=128,1,1 ", false},
    {128, 131072,  "127", "1", " grid=112,1,1 ", false},
    {128, 131072,  "17",  "1", " grid=16,1,1 ",  false},
    {128, 131072,  "8",   "2", " grid=16,1,1 ",  false},
    {128, 131072,  "15",  "1", NULL,             true },
};

START_TEST(teams_are_whole_or_there_are_none)
{
    if (!load_driver())
        return;
    static const char text[] = "program rows(R, N)\ninput x : f32[R, N]\noutput y = softmax(x)\n";
    quern_size sizes[] = {
        {"R", teams[_i].rows},
        {"N", teams[_i].cols}
    };
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    set("FAKE_CUDA_SMS", teams[_i].sms);
    set("FAKE_CUDA_BLOCKS_PER_SM", teams[_i].per_sm);
    quern_plan *plan = planned(q, text, &(quern_plan_options){.arch = "sm_90"}, sizes, 2);
    ck_assert_int_eq(plan->no_teams, teams[_i].again);
    void *memory[2];
    size_t bytes = (size_t)(teams[_i].rows * teams[_i].cols) * sizeof(float);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(quern_alloc(q, bytes, &memory[i]), QUERN_OK);
    launches();
    ck_assert_int_eq(quern_execute(plan, memory, 2, NULL), QUERN_OK);
    const char *launched = launches();
    ck_assert_int_eq(count(launched, " cooperative\n"), !teams[_i].again);
    if (teams[_i].grid)
        expect_part(launched, teams[_i].grid);
    else
        expect_part(noted.last, "planned again without teams");
    ck_assert_int_eq(noted.n, teams[_i].again);
    for (int i = 0; i < 2; i++)
        quern_free(q, memory[i]);
    quern_destroy_plan(plan);
    quern_close(q);
}
END_TEST

// Not taken for one of plans whose clusters are larger, which are made first.
START_TEST(wisdom_of_smaller_clusters_is_found)
{
    if (!load_driver())
        return;
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    set("FAKE_CUDA_SMS", "16");
    set("FAKE_CUDA_CLUSTER", "4");
    quern_plan *all = plan_long(q, &(quern_plan_options){.candidates = 1, .no_wisdom = 1});
    ck_assert_uint_eq(all->program.kernels[0].cluster[0], 4);
    ck_assert_int_eq(noted.n, 1);
    struct chosen_spec chosen = {"long_0_rows", all->program.kernels[0].candidates[1].spec};
    ck_assert(wisdom_keep(all, &chosen, 1, 9, 1));
    quern_plan *smaller = plan_long(q, NULL);
    ck_assert(smaller->by_wisdom);
    ck_assert_str_eq(smaller->program.kernels[0].spec, chosen.spec);
    ck_assert_int_eq(noted.n, 2);
    set("FAKE_CUDA_CLUSTER", "16");
    quern_plan *whole = plan_long(q, NULL);
    ck_assert(!whole->by_wisdom);
    ck_assert_int_eq(noted.n, 2);
    quern_destroy_plan(whole);
    quern_destroy_plan(smaller);
    quern_destroy_plan(all);
    quern_close(q);
}
END_TEST

struct weighed {
    quern *q;
    quern_plan *plan;
    void *memory[4], *arguments[2];
};

static struct weighed open_weighed(void)
{
    static const char text[] = "program weighed(N)\ninput x : f32[N]\nweight w : f32[N, N]\n"
                               "output y = x * sum(w, axis = 0)\n";
    struct weighed b = {.q = open_on(QUERN_DEVICE_CUDA, 0)};
    b.plan = planned(b.q, text, NULL, &(quern_size){"N", 64}, 1);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(quern_alloc(b.q, 64 * 64 * sizeof(float), &b.memory[i]), QUERN_OK);
    b.arguments[0] = b.memory[0], b.arguments[1] = b.memory[1];
    ck_assert_int_eq(quern_bind(b.plan, "w", b.memory[2]), QUERN_OK);
    return b;
}

static void close_weighed(struct weighed *b)
{
    quern_destroy_plan(b->plan);
    for (int i = 0; i < 4; i++)
        quern_free(b->q, b->memory[i]);
    quern_close(b->q);
}

static void expect_launches(struct weighed *b, int n_prepare)
{
    ck_assert_int_eq(quern_execute(b->plan, b->arguments, 2, NULL), QUERN_OK);
    const char *launched = launches();
    ck_assert_int_eq(count(launched, "weighed_prepare_"), n_prepare);
    ck_assert_int_eq(count(launched, "\n"), n_prepare + 1);
}

START_TEST(a_run_prepares_what_changed)
{
    if (!load_driver())
        return;
    struct weighed b = open_weighed();
    launches();
    expect_launches(&b, 1);
    expect_launches(&b, 0);
    expect_launches(&b, 0);
    ck_assert_int_eq(quern_weights_changed(b.plan), QUERN_OK);
    expect_launches(&b, 1);
    expect_launches(&b, 0);
    ck_assert_int_eq(quern_bind(b.plan, "w", b.memory[3]), QUERN_OK);
    expect_launches(&b, 1);
    close_weighed(&b);
}
END_TEST

START_TEST(a_dead_context_is_reported_and_cleaned_up)
{
    if (!load_driver())
        return;
    struct weighed b = open_weighed();
    quern_plan *plan;
    set("FAKE_CUDA_FAIL", "cuLaunchKernelEx:700");
    ck_assert_int_eq(quern_execute(b.plan, b.arguments, 2, NULL), QUERN_DEVICE);
    expect_message(b.q, "launch of weighed_prepare_0");
    reset_machine();
    ck_assert_int_eq(quern_synchronize(b.q, NULL), QUERN_DEVICE);
    expect_message(b.q, "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS");
    quern_program *program = parsed(b.q, add_one);
    ck_assert_int_eq(quern_plan_program(b.q, program, &(quern_size){"N", 5}, 1, NULL, &plan),
                     QUERN_DEVICE);
    expect_message(b.q, "cuModuleLoadData: CUDA_ERROR_ILLEGAL_ADDRESS");
    quern_destroy_program(program);
    close_weighed(&b);
}
END_TEST

// A stream that does not wait for the default one may be launched to at once.
START_TEST(what_is_uploaded_is_there)
{
    if (!load_driver())
        return;
    static const char text[] = "sent", other[] = "also";
    quern *q = open_on(QUERN_DEVICE_CUDA, 0);
    void *device; // the host's, on this driver
    ck_assert_int_eq(quern_alloc(q, sizeof text, &device), QUERN_OK);
    ck_assert_int_eq(quern_upload(q, device, text, sizeof text), QUERN_OK);
    ck_assert_str_eq(device, text);
    set("FAKE_CUDA_FAIL", "cuMemcpyHtoD:1");
    ck_assert_int_eq(quern_upload(q, device, other, sizeof other), QUERN_DEVICE);
    expect_message(q, "cuMemcpyHtoD: ");
    set("FAKE_CUDA_FAIL", "cuStreamSynchronize:700");
    ck_assert_int_eq(quern_upload(q, device, other, sizeof other), QUERN_DEVICE);
    expect_message(q, "cuStreamSynchronize: ");
    reset_machine();
    quern_free(q, device);
    quern_close(q);
}
END_TEST

START_TEST(there_is_no_nvrtc_or_no_fake_so_nothing_ran)
{
    fprintf(stderr,
            "driver_plans: skipped, NVRTC or the driver without a GPU is not on this machine\n");
}
END_TEST

static void set_up(void)
{
    planning_set_up();
    make_machine();
}

static void tear_down(void)
{
    remove_machine();
    planning_tear_down();
}

Suite *driver_plans_suite(void)
{
    Suite *s = suite_create("driver_plans");
    TCase *t = tcase_create("plans");
    suite_add_tcase(s, t);
    if (!can_make_machine()) {
        tcase_add_test(t, there_is_no_nvrtc_or_no_fake_so_nothing_ran);
        return s;
    }
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, a_given_spec_whose_cluster_does_not_fit_is_left);
    tcase_add_test(t, clusters_that_walk_are_as_many_as_fit);
    tcase_add_loop_test(t, teams_are_whole_or_there_are_none, 0, sizeof teams / sizeof *teams);
    tcase_add_test(t, wisdom_of_smaller_clusters_is_found);
    tcase_add_test(t, a_run_prepares_what_changed);
    tcase_add_test(t, a_dead_context_is_reported_and_cleaned_up);
    tcase_add_test(t, what_is_uploaded_is_there);
    return s;
}
