// test_names.c: names that C++, CUDA or quern itself uses, long ones, equal ones; and programs of
// very many operators.

#include "runtime/runtime.h"
#include "tests/compiled.h"
#include "tests/exact.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const char *const awkward[] = {"int",      "float", "threadIdx", "template", "__restrict__",
                                      "main",     "Spec",  "Args",      "args",     "KERNEL",
                                      "index_t",  "row",   "acc",       "lanes",    "_",
                                      "blockIdx", "v0",    "x0",        "t1",       "r",
                                      "c",        "e",     "load_vec",  "partial",  "errno",
                                      "NULL",     "unix",  "assert",    "half_t",   "INFINITY"};

static double position(const int64_t *at)
{
    return (double)at[0];
}

// A map and a reduction of every name, in groups that fit a plan.
static char *program_of_names(const char *const *names, int n)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "program main(N)\n");
    for (int i = 0; i < n; i++)
        fprintf(out, "input %s : f32[N]\n", names[i]);
    fprintf(out, "all_of = stack([");
    for (int i = 0; i < n; i++)
        fprintf(out, "%s%s * %d", i ? ", " : "", names[i], i + 1);
    fprintf(out,
            "])\noutput total = sum(all_of, axis = 0)\noutput largest = max(all_of, axis = 1)\n");
    for (int i = 0; i < n; i++)
        fprintf(out, "output %s_out = %s + %d\n", names[i], names[i], i);
    fclose(out);
    return text;
}

static void expect_sums(const char *text, const char *const *names, int n)
{
    struct exact e;
    char output[300];
    exact_open(&e, text, "N=37");
    for (int i = 0; i < n; i++)
        exact_set(&e, names[i], position);
    exact_run(&e);
    for (int k = 0; k < 37; k++)
        ck_assert_double_eq(exact_got(&e, "total", k), k * n * (n + 1) / 2);
    for (int i = 0; i < n; i++) {
        snprintf(output, sizeof output, "%s_out", names[i]);
        ck_assert_double_eq(exact_got(&e, "largest", i), 36 * (i + 1));
        ck_assert_double_eq(exact_got(&e, output, 36), 36 + i);
    }
    exact_close(&e);
}

// Every kernel of a program, for a GPU; without NVRTC nothing is tried.
static void expect_nvrtc_compiles(const char *text, const struct size *sizes, int n_sizes)
{
    struct nvrtc n;
    struct nvrtc_options options;
    struct compiled c;
    quern *q;
    compile_right_text(&c, text, &(struct compile_options){.sizes = sizes, .n_sizes = n_sizes});
    ck_assert_int_eq(quern_open(&q, NULL), QUERN_OK);
    nvrtc_options(&options, "sm_90a", MATH_real);
    bool found = nvrtc_open(&n, NULL, 0);
    for (int i = 0; found && i < c.program.n_kernels; i++) {
        struct code code = {0};
        quern_status status = nvrtc_compile(q, &n, &c.program.kernels[i], &options, &code);
        ck_assert_msg(status == QUERN_OK, "%.2000s", quern_message(q));
        free(code.bytes);
    }
    nvrtc_close(&n);
    quern_close(q);
    compiled_free(&c);
}

START_TEST(tensors_may_have_any_name)
{
    const char *const *names = awkward + 10 * _i;
    struct size size = {"N", 37};
    char *text = program_of_names(names, 10);
    expect_sums(text, names, 10);
    expect_nvrtc_compiles(text, &size, 1);
    free(text);
}
END_TEST

static const char *const sizes[] = {"int",    "rows",      "size_rows", "vec",     "template",
                                    "KERNEL", "threadIdx", "NULL",      "index_t", "unix"};

START_TEST(sizes_may_have_any_name)
{
    struct size given[COUNT(sizes)];
    struct exact e;
    char text[1024] = "program p(", numbers[256] = "";
    for (int i = 0; i < COUNT(sizes); i++) {
        given[i] = (struct size){sizes[i], i + 2};
        sprintf(text + strlen(text), "%s%s", i ? ", " : "", sizes[i]);
        sprintf(numbers + strlen(numbers), "%s%s=%d", i ? " " : "", sizes[i], i + 2);
    }
    strcat(text, ")\n");
    for (int i = 0; i + 1 < COUNT(sizes); i += 2)
        sprintf(text + strlen(text), "input x%d : f32[%s, %s]\noutput y%d = sum(x%d, axis = 1)\n",
                i, sizes[i], sizes[i + 1], i, i);
    exact_open(&e, text, numbers);
    for (int i = 0; i + 1 < COUNT(sizes); i += 2) {
        char name[8];
        sprintf(name, "x%d", i);
        exact_set(&e, name, position);
    }
    exact_run(&e);
    for (int i = 0; i + 1 < COUNT(sizes); i += 2) {
        char name[8];
        sprintf(name, "y%d", i);
        for (int r = 0; r < i + 2; r++)
            ck_assert_double_eq(exact_got(&e, name, r), r * (i + 3));
    }
    exact_close(&e);
    expect_nvrtc_compiles(text, given, COUNT(sizes));
}
END_TEST

START_TEST(long_names_that_differ_at_their_end_are_told_apart)
{
    enum { N = 10, LENGTH = 250 };
    static char names[N][LENGTH + 1];
    const char *list[N];
    for (int i = 0; i < N; i++) {
        memset(names[i], 'n', LENGTH);
        names[i][LENGTH - 1] = (char)('a' + i);
        list[i] = names[i];
    }
    char *text = program_of_names(list, N);
    expect_sums(text, list, N);
    free(text);
}
END_TEST

START_TEST(a_name_that_is_too_long_is_quoted)
{
    char text[1024] = "program p\ninput ";
    size_t n = strlen(text);
    memset(text + n, 'n', 300);
    strcpy(text + n + 300, " : f32[4]\noutput y = 1 + 1\n");
    char *said = exact_refused(text, NULL);
    ck_assert_ptr_nonnull(strstr(said, "a name has at most 255 characters"));
    ck_assert_ptr_nonnull(strstr(said, "nnnnnnnn"));
    free(said);
}
END_TEST

static const char *const no_names[] = {"x-y", "x.y", "1x", ""};

START_TEST(what_is_no_name_is_refused)
{
    char text[256];
    snprintf(text, sizeof text, "program p\ninput %s : f32[4]\noutput y = 1\n", no_names[_i]);
    char *said = exact_refused(text, NULL);
    ck_assert_ptr_nonnull(strstr(said, "test.qn:2:"));
    free(said);
}
END_TEST

// Same program, size and kernel names; other values.
START_TEST(two_programs_of_one_name_are_two)
{
    struct exact a, b;
    exact_program(&a, "program p(N)\ninput x : f32[N]\noutput y = x + 1\n", "N=9", position, NULL);
    exact_program(&b, "program p(N)\ninput x : f32[N]\noutput y = x + 2\n", "N=9", position, NULL);
    exact_run(&a);
    for (int i = 0; i < 9; i++) {
        ck_assert_double_eq(exact_got(&a, "y", i), i + 1);
        ck_assert_double_eq(exact_got(&b, "y", i), i + 2);
    }
    exact_close(&a);
    exact_close(&b);
}
END_TEST

static double two(const int64_t *at)
{
    (void)at;
    return 2;
}

static double one(const int64_t *at)
{
    (void)at;
    return 1;
}

static double two_to_40(const int64_t *at)
{
    (void)at;
    return 0x1p40;
}

START_TEST(a_chain_of_very_many_operators_keeps_its_value)
{
    struct exact e;
    char *text;
    size_t n;
    int length = exact_on_gpu() ? 50000 : 5000;
    FILE *out = open_memstream(&text, &n);
    fprintf(out, "program chain(N)\ninput x : f32[N]\nx1 = 0.5 * x + 1\n");
    for (int i = 2; i < length; i++)
        fprintf(out, "x%d = 0.5 * x%d + 1\n", i, i - 1);
    fprintf(out, "output y = 0.5 * x%d + 1\n", length - 1);
    fclose(out);
    exact_program(&e, text, "N=1000", two, NULL);
    exact_values(&e, "y", two, 0);
    exact_close(&e);
    free(text);
}
END_TEST

START_TEST(doubling_40_times_is_exact)
{
    struct exact e;
    char text[2048] = "program p(N)\ninput x : f32[N]\nx1 = x + x\n";
    for (int i = 2; i < 40; i++)
        sprintf(text + strlen(text), "x%d = x%d + x%d\n", i, i - 1, i - 1);
    strcat(text, "output y = x39 + x39\n");
    exact_program(&e, text, "N=1000", one, NULL);
    exact_values(&e, "y", two_to_40, 0);
    exact_close(&e);
}
END_TEST

Suite *names_suite(void)
{
    Suite *suite = suite_create("names");
    TCase *t = tcase_create("names");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, tensors_may_have_any_name, 0, COUNT(awkward) / 10);
    tcase_add_test(t, sizes_may_have_any_name);
    tcase_add_test(t, long_names_that_differ_at_their_end_are_told_apart);
    tcase_add_test(t, a_name_that_is_too_long_is_quoted);
    tcase_add_loop_test(t, what_is_no_name_is_refused, 0, COUNT(no_names));
    tcase_add_test(t, two_programs_of_one_name_are_two);
    tcase_add_test(t, a_chain_of_very_many_operators_keeps_its_value);
    tcase_add_test(t, doubling_40_times_is_exact);
    suite_add_tcase(suite, t);
    return suite;
}
