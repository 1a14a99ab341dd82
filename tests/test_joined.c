// test_joined.c: two phases of reductions whose parts are joined once, on the host device: what a
// part makes its own shift of, when other parts of the row are nothing like it; and which
// reductions there are such joins for

#include "tests/compiled.h"
#include "tests/data.h"
#include "tests/on_host.h"
#include "tests/tests.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// What a part of a row makes its own shift of, when other parts of the row are nothing like it.
static float uneven(int row, int column, int n, float noise)
{
    float at = (float)column / (float)n; // along the row
    switch (row) {
    case 0:
        return at < 0.5f ? -INFINITY : noise;
    case 1:
        return -INFINITY;
    case 2:
        return column == n - 1 ? -300 : -INFINITY; // a shift by 0 is far from the row's
    case 3:
        return column == n / 2 ? INFINITY : noise;
    case 4:
        return column == 0 ? INFINITY : -INFINITY;
    case 5:
        return column == n / 3 ? NAN : noise;
    case 6:
        return column == n / 3 ? NAN : at < 0.7f ? INFINITY : -INFINITY;
    case 7:
        return 200 * (at - 0.5f) + noise; // a shift further on leaves nothing of what is here
    case 8:
        return 200 * (0.5f - at) + noise;
    case 9:
        return 1e4f + noise; // squares without a shift have lost it
    case 10:
        return at < 0.3f ? 1e4f + noise : -1e4f + noise;
    case 11:
        return 300; // whose exp is infinite
    case 12:
        return column % 2 ? 1e16f : -1e16f + 1e12f * noise;
    case 13:
        return at < 0.9f ? 1e-30f * noise : 1e15f;
    case 14:
        return column % 3 ? -0.0f : 0.0f;
    case 15: // the parts' means, rounded, are further from them than the row's mean is from its own
        return at < 0.4f ? 1e4f + noise : 1e4f + 2 + noise;
    default:
        return noise;
    }
}

static const char shifts[] =
    "program shifts(M, N)\ninput x : f32[M, N]\noutput y = softmax(x, axis = 1)\n"
    "output e = sum(exp(2 * x - 2 * max(x, axis = 1, keepdims = true)), axis = 1)\n"
    "output h = softmax(0.125 * x, axis = 1)\n"
    "output l = logsumexp(x, axis = 1)\noutput v = var(x, axis = 1)\n";

// How a row is shared, and what shares it in parts: with some columns, and with none of the last
// ones.
static const struct form {
    const char *has[3];
    int64_t n;
} forms[] = {
    {{" team=3 ", " lag=1 "},                                                                6404},
    {{" team=6 ", " lag=1 "},                                                                6404},
    {{" threads_per_row=64 rows_per_block=1 "},                                              260 },
    {{" threads_per_row=64 rows_per_block=2 "},                                              132 },
    {{" threads_per_row=128 rows_per_block=1 "},                                             260 },
    {{" threads_per_row=256 ", " looped=0 staged=0 staging_at=0 staged_bytes=0 cluster=1 "}, 3076},
    {{" threads_per_row=256 ", " looped=1 staged=1 "},                                       1028},
};
enum { N_FORMS = sizeof forms / sizeof *forms, M = 19 };

// Of that form, with both phases in one exchange or each in its own.
static void compile_form(struct compiled *c, const char *text, const struct form *form, bool joined)
{
    const char *exchanges = joined ? " phases=2 exchanges=1 " : " phases=2 exchanges=2 ";
    struct size sizes[] = {
        {"M", M      },
        {"N", form->n}
    };
    compile_with(c, text,
                 &(struct compile_options){
                     .target = small_target(), .sizes = sizes, .n_sizes = 2, .separate = true},
                 (const char *const[]){exchanges, form->has[0], form->has[1], NULL});
}

// The values as such, then in reverse, so that every part has been at either end of a row.
START_TEST(parts_of_a_row_may_be_unlike)
{
    const struct form *form = &forms[_i / 2];
    struct compiled c;
    struct data d;
    compile_form(&c, shifts, form, _i % 2);
    struct host_library *library = load_kernels(c.program.kernels, 1, sanitizer_flags());
    data_open(&d, &c);
    for (int reversed = 0; reversed < 2; reversed++) {
        data_fill(&d, 5);
        float *x = d.at[c.program.arguments[0]];
        for (int64_t i = 0; i < M * form->n; i++) {
            int64_t at = i % form->n;
            x[i] = uneven((int)(i / form->n), (int)(reversed ? form->n - 1 - at : at), (int)form->n,
                          x[i]);
        }
        data_expect(&d);
        data_run(&d, library, c.program.kernels[0].grid[0], reversed);
    }
    data_close(&d);
    host_unload(library);
    compiled_free(&c);
}
END_TEST

// More blocks than a warp has lanes: some lanes take in two parts, of which some have fewer
// columns.
START_TEST(parts_may_be_more_than_lanes)
{
    enum { N = 41988 };
    static const char text[] = "program p(M, N)\ninput x : f32[M, N]\n"
                               "output y = softmax(x, axis = 1)\noutput v = var(x, axis = 1)\n";
    struct size sizes[] = {
        {"M", M},
        {"N", N}
    };
    struct target large = *small_target();
    struct compiled c;
    struct data d;
    large.n_sms = 40;
    compile_with(
        &c, text,
        &(struct compile_options){.target = &large, .sizes = sizes, .n_sizes = 2, .separate = true},
        (const char *const[]){" team=40 ", " phases=2 exchanges=1 ", " lag=1 ", NULL});
    struct host_library *library = load_kernels(c.program.kernels, 1, NULL);
    data_open(&d, &c);
    data_fill(&d, 3);
    float *x = d.at[c.program.arguments[0]];
    for (int i = 0; i < M * N; i++)
        x[i] = uneven(i / N, i % N, N, x[i]);
    data_expect(&d);
    data_run(&d, library, 40, false);
    data_close(&d);
    host_unload(library);
    compiled_free(&c);
}
END_TEST

// All dtypes, several reductions in either phase, and what all rows share.
static const char *const programs[] = {
    "input x : f32[M, N]\noutput y = softmax(x, axis = 1)\n",
    "input x : f32[M, N]\noutput y = softmax(x / 0.7, axis = 1)\n",
    "input x : f16[M, N]\noutput y = softmax(x, axis = 1)\n",
    "input x : f64[M, N]\noutput y = softmax(x, axis = 1)\n",
    "input x : bf16[M, N]\ninput w : f32[N]\ninput b : f32[N]\n"
    "output y = layer_norm(x, w, b)\noutput i = argmax(x, axis = 1)\n",
    "input x : f32[M, N]\ninput w : f32[N]\ninput s : f32[M]\n"
    "output y = softmax(x * w + s[:, None], axis = 1)\n"
    "output d = var(x * w + s[:, None], axis = 1)\n",
};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

START_TEST(joined_phases_agree_with_the_reference)
{
    static const struct form by_warps[] = {
        {{" threads_per_row=64 rows_per_block=2 ", " looped=0 "}, 520 },
        {{" threads_per_row=256 ", " staged=1 "},                 2056},
    };
    char text[512];
    struct compiled c;
    struct data d;
    snprintf(text, sizeof text, "program p(M, N)\n%s", programs[_i / 2]);
    compile_form(&c, text, &by_warps[_i % 2], true);
    struct host_library *library = load_kernels(c.program.kernels, 1, sanitizer_flags());
    data_open(&d, &c);
    for (unsigned run = 0; run < 2; run++) {
        data_fill(&d, run);
        data_run(&d, library, c.program.kernels[0].grid[0], run);
    }
    data_close(&d);
    host_unload(library);
    compiled_free(&c);
}
END_TEST

// Reductions that need more of another one than a shift, or one whose sums may overflow on the way.
static const char *const apart[] = {
    "sum(exp(x - min(x, axis = 1)[:, None]), axis = 1)",
    "sum(exp(-0.5 * (x - max(x, axis = 1)[:, None])), axis = 1)",
    "sum(exp(x + max(x, axis = 1)[:, None]), axis = 1)",
    "sum(exp(x - 2 * max(x, axis = 1)[:, None]), axis = 1)",
    "sum(exp(x - max(x * x, axis = 1)[:, None]), axis = 1)",
    "sum(exp(x - mean(x, axis = 1)[:, None]), axis = 1)",
    "sum(square(x - max(x, axis = 1)[:, None]), axis = 1)",
    "sum(square(x - mean(x * x, axis = 1)[:, None]), axis = 1)",
    "sum(abs(x - mean(x, axis = 1)[:, None]), axis = 1)",
    "max(x * (x - mean(x, axis = 1)[:, None]), axis = 1) + var(x, axis = 1)",
};
enum { N_APART = sizeof apart / sizeof *apart };

static void count_exchanges(const char *text, bool strict, int n_with[3])
{
    struct compiled c;
    struct size sizes[] = {
        {"M", 13  },
        {"N", 3076}
    };
    compile_right_text(&c, text,
                       &(struct compile_options){.target = small_target(),
                                                 .sizes = sizes,
                                                 .n_sizes = 2,
                                                 .math = strict ? MATH_strict : MATH_real,
                                                 .list_candidates = true,
                                                 .separate = true});
    for (int k = 0; k < c.program.n_kernels; k++)
        for (int i = 0; i < c.program.kernels[k].n_candidates; i++)
            for (int n = 1; n <= 2; n++)
                n_with[n] +=
                    strstr(c.program.kernels[k].candidates[i].spec,
                           n == 1 ? "phases=2 exchanges=1" : "phases=2 exchanges=2") != NULL;
    compiled_free(&c);
}

START_TEST(what_is_no_shift_is_not_joined)
{
    char text[256];
    int n[3] = {0};
    snprintf(text, sizeof text, "program p(M, N)\ninput x : f32[M, N]\noutput y = %s\n", apart[_i]);
    count_exchanges(text, false, n);
    ck_assert_int_gt(n[2], 0);
    ck_assert_int_eq(n[1], 0);
}
END_TEST

START_TEST(strict_arithmetic_joins_nothing)
{
    static const char text[] = "program p(M, N)\ninput x : f32[M, N]\n"
                               "output y = softmax(x, axis = 1)\n";
    int n[3] = {0};
    count_exchanges(text, false, n);
    ck_assert(n[1] > 0 && n[2] > 0);
    n[1] = n[2] = 0;
    count_exchanges(text, true, n);
    ck_assert(n[1] == 0 && n[2] > 0);
}
END_TEST

Suite *joined_suite(void)
{
    Suite *s = suite_create("joined");
    TCase *t = tcase_create("joined");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, parts_of_a_row_may_be_unlike, 0, 2 * N_FORMS);
    tcase_add_test(t, parts_may_be_more_than_lanes);
    tcase_add_loop_test(t, joined_phases_agree_with_the_reference, 0, 2 * N_PROGRAMS);
    tcase_add_loop_test(t, what_is_no_shift_is_not_joined, 0, N_APART);
    tcase_add_test(t, strict_arithmetic_joins_nothing);
    suite_add_tcase(s, t);
    return s;
}
