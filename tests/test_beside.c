// test_beside.c: a short reduction in the launch of a long one: right values, blocks of its own,
// and only where it needs nothing of the other and finds room.

#include "tests/compiled.h"
#include "tests/programs.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const char *const pairs[] = {
    // clang-format off: texts of several lines
    "program after(M, N, K)\ninput w : f32[M, N]\ninput b : f32[K]\n"
    "output s = sum(w, axis = 0)\noutput t = sum(b)\n",
    "program before(M, N, K)\ninput w : f32[M, N]\ninput b : f32[K]\n"
    "output t = max(abs(b))\noutput s = mean(w, axis = 0)\n",
    "program three(M, N, K)\ninput w : f32[M, N]\ninput b : f32[3, K]\n"
    "output s = max(w, axis = 0)\noutput t = sum(b * b, axis = 1) + 1\n",
    "program most(M, N, K)\ninput w : f32[M, N]\ninput b : f32[K]\n"
    "output s = argmax(w, axis = 0)\noutput t = argmin(b)\n",
    // clang-format on
};

static void compile_sizes(struct compiled *c, const char *text, const int64_t *size,
                          struct compile_options o)
{
    struct size sizes[] = {
        {"M", size[0]},
        {"N", size[1]},
        {"K", size[2]}
    };
    o.sizes = sizes, o.n_sizes = 3;
    compile_right_text(c, text, &o);
}

static const int64_t large[] = {8192, 8192, 8000};

START_TEST(a_short_reduction_goes_beside_a_long_one)
{
    struct compiled c;
    compile_sizes(&c, pairs[_i], large, (struct compile_options){0});
    const struct kernel *k = c.program.kernels;
    ck_assert_int_eq(c.program.n_kernels, 1);
    ck_assert_ptr_nonnull(strstr(k->spec, " beside=2 "));
    ck_assert_ptr_nonnull(strstr(k->source, _i == 2 ? "side_blocks = 3;" : "side_blocks = 1;"));
    ck_assert_ptr_null(strstr(k->source, "grid_barrier"));
    ck_assert(!k->cooperative);
    ck_assert_uint_le(k->grid[0], 132 * 8);
    compiled_free(&c);
}
END_TEST

static const struct {
    const char *text;
    int64_t k;
} apart[] = {
  // clang-format off: texts of several lines
    {"program needs(M, N, K)\ninput w : f32[M, N]\ninput b : f32[K]\ns = sum(w, axis = 0)\n"
     "output t = sum(maximum(b, sum(s)))\noutput u = s\n",             8000   },
    {"program too_long(M, N, K)\ninput w : f32[M, N]\ninput b : f32[20, K]\n"
     "output s = sum(w, axis = 0)\noutput t = sum(b, axis = 1)\n",     4000000},
    {"program no_room(M, N, K)\ninput w : f32[M, N]\ninput b : f32[600, K]\n"
     "output s = sum(w, axis = 0)\noutput t = sum(b, axis = 1)\n",     1000   },
    {"program elements(M, N, K)\ninput w : f32[M, N]\ninput b : f32[9, K]\n"
     "output s = sum(w, axis = 0)\noutput t = softmax(b, axis = 1)\n", 1000   },
    {"program rows(M, N, K)\ninput w : f32[M, N]\ninput b : f32[K]\n"
     "output s = sum(w, axis = 1)\noutput t = sum(b)\n",               8000   },
 // clang-format on
};

START_TEST(others_stay_apart)
{
    struct compiled c;
    compile_sizes(&c, apart[_i].text, (int64_t[]){8192, 8192, apart[_i].k},
                  (struct compile_options){0});
    for (int i = 0; i < c.program.n_kernels; i++)
        ck_assert_ptr_null(strstr(c.program.kernels[i].spec, "beside="));
    ck_assert_int_gt(c.program.n_kernels, 1);
    compiled_free(&c);
}
END_TEST

START_TEST(it_can_be_chosen_to_be_separate)
{
    static const struct chosen_spec chosen = {"after_0_stitch", "separate"};
    struct compiled c;
    compile_sizes(&c, pairs[0], large, (struct compile_options){.specs = &chosen, .n_specs = 1});
    ck_assert_int_eq(c.program.n_kernels, 2);
    ck_assert_str_eq(c.program.kernels[0].family, "columns");
    ck_assert_str_eq(c.program.kernels[1].family, "rows");
    ck_assert_str_eq(c.shown, "");
    compiled_free(&c);
}
END_TEST

// For a GPU of 16 SMs, whose threads the host device has time for.
START_TEST(both_agree_with_the_reference)
{
    static const quern_plan_options small = {.arch = "sm_87"};
    static const char *const inputs[] = {"normal", "special"};
    static const quern_size sizes[2][3] = {
        {{"M", 2048}, {"N", 256}, {"K", 5000}},
        {{"M", 2001}, {"N", 263}, {"K", 777} }
    };
    struct job jobs[2 * COUNT(pairs)];
    int n = 0;
    for (int i = 0; i < COUNT(pairs); i++)
        for (int k = 0; k < 2; k++)
            jobs[n++] = (struct job){pairs[i], sizes[k], 3, inputs[k], &small};
    for (int i = 1; i < n; i += 2) { // the second sizes leave room in each
        struct compiled c;
        int64_t size[] = {jobs[i].sizes[0].value, jobs[i].sizes[1].value, jobs[i].sizes[2].value};
        compile_sizes(&c, jobs[i].text, size,
                      (struct compile_options){.target = target_find("sm_87")});
        ck_assert_ptr_nonnull(strstr(c.program.kernels[0].spec, " beside=2 "));
        compiled_free(&c);
    }
    for (int i = 0; i < n && getenv("QUERN_TEST_DEVICE"); i++)
        jobs[i].options = NULL;
    ck_assert_int_eq(run_jobs(jobs, n), 0);
}
END_TEST

Suite *beside_suite(void)
{
    Suite *s = suite_create("beside");
    TCase *t = tcase_create("beside");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, a_short_reduction_goes_beside_a_long_one, 0, COUNT(pairs));
    tcase_add_loop_test(t, others_stay_apart, 0, COUNT(apart));
    tcase_add_test(t, it_can_be_chosen_to_be_separate);
    tcase_add_test(t, both_agree_with_the_reference);
    suite_add_tcase(s, t);
    return s;
}
