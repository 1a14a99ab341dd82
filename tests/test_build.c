// test_build.c: programs become the recorded graphs, or the recorded diagnostics; sizes; and how
// large is too large.

#include "tests/golden.h"
#include "tests/tests.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SIZES = 16 };

struct built {
    struct gen g;
    jmp_buf escape;
    struct source source;
    struct graph *graph;
    char *said; // diagnostics
};

static void open_text(struct built *t, const char *text, size_t n_bytes, const struct size *sizes,
                      int n_sizes)
{
    *t = (struct built){
        .source = {"a.qn", text, n_bytes}
    };
    t->g.escape = &t->escape;
    if (setjmp(t->escape))
        ck_abort_msg("out of memory");
    const struct program_ast *ast = parse(&t->g, &t->source);
    t->graph = ast ? build(&t->g, ast, sizes, n_sizes) : NULL;
    size_t n;
    FILE *out = open_memstream(&t->said, &n);
    diag_print(&t->g, out);
    fclose(out);
}

static void close_text(struct built *t)
{
    arena_free(&t->g.arena);
    free(t->said);
}

static void produce(const char *input, FILE *out)
{
    struct built t;
    struct gen g = {0};
    jmp_buf escape;
    struct size sizes[MAX_SIZES];
    g.escape = &escape;
    if (setjmp(escape))
        ck_abort_msg("out of memory");
    int n = golden_sizes(&g, &input, sizes, MAX_SIZES);
    open_text(&t, input, strlen(input), sizes, n);
    fputs(t.said, out);
    if (t.graph) {
        graph_check(t.graph);
        print_graph(t.graph, out);
    }
    close_text(&t);
    arena_free(&g.arena);
}

START_TEST(programs_build_as_recorded)
{
    golden_check("build", _i, produce);
}
END_TEST

static void expect_said(const char *text, size_t n_bytes, const char *expected)
{
    struct built t;
    open_text(&t, text, n_bytes, NULL, 0);
    ck_assert_str_eq(t.said, expected);
    close_text(&t);
}

START_TEST(a_nul_byte_is_reported)
{
    static const char text[] = "program p\ninput x : f32[]\noutput y = x\0 + 1\n";
    expect_said(text, sizeof text - 1,
                "a.qn:3:13: error: a NUL byte in the text\n"
                "output y = x? + 1\n"
                "            ^\n");
}
END_TEST

START_TEST(bytes_that_are_no_text_are_reported_once_a_statement)
{
    static const char text[] = "program p\ninput x : f32[]\ny = \xff\xfe\x80 x\noutput z = \x01\n";
    expect_said(text, sizeof text - 1,
                "a.qn:3:5: error: a character outside ASCII; only comments may have those\n"
                "y = ??? x\n"
                "    ^\n"
                "a.qn:4:12: error: a control character\n"
                "output z = ?\n"
                "           ^\n");
}
END_TEST

START_TEST(a_byte_order_mark_and_carriage_returns_are_blanks)
{
    static const char text[] = "\xef\xbb\xbfprogram p\r\ninput x : f32[]\r\noutput y = x\r\n";
    expect_said(text, sizeof text - 1, "");
}
END_TEST

static char *repeated(const char *head, const char *part, size_t n, const char *tail)
{
    size_t bytes = strlen(part);
    char *text = malloc(strlen(head) + n * bytes + strlen(tail) + 1), *at = stpcpy(text, head);
    for (size_t i = 0; i < n; i++, at += bytes)
        memcpy(at, part, bytes);
    strcpy(at, tail);
    return text;
}

static void expect_built(const char *text, int n_nodes)
{
    struct built t;
    open_text(&t, text, strlen(text), NULL, 0);
    ck_assert_str_eq(t.said, "");
    ck_assert_ptr_nonnull(t.graph);
    ck_assert_int_eq(t.graph->n_nodes, n_nodes);
    close_text(&t);
}

START_TEST(a_chain_of_operators_may_be_as_long_as_it_likes)
{
    char *text = repeated("program p\ninput x : f32[]\noutput y = x", " + x", 100000, "\n");
    expect_built(text, 100001);
    free(text);
}
END_TEST

START_TEST(statements_take_linear_time)
{
    enum { N = 50000 };
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    fputs("program p\ninput x0 : f32[]\n", out);
    for (int i = 1; i <= N; i++)
        fprintf(out, "x%d = 0.5 * x%d + 1\n", i, i - 1);
    fprintf(out, "output y = x%d\n", N);
    fclose(out);
    clock_t start = clock();
    expect_built(text, 4 * N + 1);
    ck_assert_double_lt((double)(clock() - start) / CLOCKS_PER_SEC, 5);
    free(text);
}
END_TEST

static void expect_nesting_error(const char *head, const char *open)
{
    char *text = repeated(head, open, 100000, "x\n");
    struct built t;
    open_text(&t, text, strlen(text), NULL, 0);
    ck_assert_ptr_nonnull(strstr(t.said, "error: nested more than 200 levels deep"));
    ck_assert_int_eq(t.g.n_errors, 1);
    close_text(&t);
    free(text);
}

START_TEST(nesting_has_a_bound)
{
    static const char *const opens[] = {"(", "[", "-", "not ", "f(", "x[", "2 ** ", "(1, "};
    expect_nesting_error("program p\ninput x : f32[]\noutput y = ", opens[_i]);
}
END_TEST

START_TEST(nested_blocks_and_indices_have_a_bound)
{
    expect_nesting_error("program p\nfn f(x) { ", "if true { ");
    expect_nesting_error("program p\nfn f(x) { if true { } ", "else if true { } ");
    expect_nesting_error("program p\ninput x : f32[]\noutput y = x", ".T");
    expect_nesting_error("program p\ninput x : f32[]\noutput y = x", "[0]");
}
END_TEST

START_TEST(ten_megabytes_in_one_line_show_what_is_around_the_caret)
{
    char *text = repeated("program p\ninput x : f32[]\noutput y = x", " + x", 2500000, " $ 1\n");
    expect_said(text, strlen(text),
                "a.qn:3:10000014: error: a character that means nothing here\n"
                "...+ x + x + x + x + x + x + x + x + x + x + x + x + x + x + x $ 1\n"
                "                                                               ^\n");
    free(text);
}
END_TEST

START_TEST(a_name_of_ten_megabytes_is_reported_in_a_short_line)
{
    char *text = repeated("program p\ninput x : f32[]\noutput y = ", "a", 10000000, "\n");
    struct built t;
    open_text(&t, text, strlen(text), NULL, 0);
    ck_assert_ptr_nonnull(strstr(t.said, "a name has at most 255 characters"));
    ck_assert_uint_lt(strlen(t.said), 400);
    close_text(&t);
    free(text);
}
END_TEST

START_TEST(functions_that_call_each_other_twice_are_stopped)
{
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    fputs("program p\ninput x : f32[]\nfn f0(x) { return x }\n", out);
    for (int i = 1; i <= 40; i++)
        fprintf(out, "fn f%d(x) { return f%d(f%d(x)) }\n", i, i - 1, i - 1);
    fputs("output y = f40(x)\n", out);
    fclose(out);
    struct built t;
    open_text(&t, text, n, NULL, 0);
    ck_assert_ptr_nonnull(strstr(t.said, "the program expands to more than 1000000 calls"));
    ck_assert_int_eq(t.g.n_errors, 1);
    close_text(&t);
    free(text);
}
END_TEST

START_TEST(a_deep_stack_of_functions_is_an_error)
{
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    fputs("program p\ninput x : f32[]\nfn f0(x) { return x }\n", out);
    for (int i = 1; i <= 5000; i++)
        fprintf(out, "fn f%d(x) { return f%d(x) }\n", i, i - 1);
    fputs("output y = f5000(x)\n", out);
    fclose(out);
    struct built t;
    open_text(&t, text, n, NULL, 0);
    ck_assert_ptr_nonnull(strstr(t.said, "levels deep, functions included"));
    ck_assert_int_eq(t.g.n_errors, 1);
    ck_assert_uint_lt(strlen(t.said), 2000);
    close_text(&t);
    free(text);
}
END_TEST

START_TEST(at_most_ten_errors_are_shown)
{
    char *text = repeated("program p\n", "output y = $\n", 25, "");
    struct built t;
    open_text(&t, text, strlen(text), NULL, 0);
    int shown = 0;
    for (const char *at = t.said; (at = strstr(at, ": error: ")); at++)
        shown++;
    ck_assert_int_eq(shown, 10);
    ck_assert_ptr_nonnull(strstr(t.said, "15 more errors are not shown"));
    close_text(&t);
    free(text);
}
END_TEST

START_TEST(a_text_beyond_a_gigabyte_is_refused)
{
    struct built t;
    open_text(&t, "", ((size_t)1 << 30) + 1, NULL, 0);
    ck_assert_ptr_null(t.graph);
    ck_assert_str_eq(t.said, "a.qn: error: the text has more than 1073741824 bytes\n");
    close_text(&t);
}
END_TEST

// sizes_of_argument: what the shape of an argument settles

static const char *const shapes_text = "program p(B, D, N = 2 * D)\n"
                                       "input x : f32[B, D, 3, N + 1]\n"
                                       "weight w : f32[D, D]\n"
                                       "output y = x\n";

struct settled {
    const char *argument;
    int rank;
    int64_t dim[4];
    int n;
    struct size size[2];
    const char *error;
};

// clang-format off
static const struct settled settled[] = {
    {"x", 4, {2, 5, 3, 11}, 2, {{"B", 2}, {"D", 5}}, NULL},
    {"w", 2, {7, 7}, 1, {{"D", 7}}, NULL},
    {"w", 2, {7, 8}, 0, {{0}}, "a.qn:3:19: error: size D is 7 and 8 in the shape of w\n"},
    {"x", 3, {2, 5, 3}, 0, {{0}}, "a.qn:2:11: error: x has 3 dimensions, and the program says 4\n"},
    {"x", 4, {2, 5, 4, 1}, 0, {{0}},
     "a.qn:2:21: error: x has 4 at axis 2, and the program says 3\n"},
    {"z", 1, {2}, 0, {{0}}, "a.qn:1:9: error: the program has no input or weight z\n"},
    {"y", 1, {2}, 0, {{0}}, "a.qn:1:9: error: the program has no input or weight y\n"},
};
// clang-format on

START_TEST(a_shape_settles_the_sizes_it_names)
{
    const struct settled *row = &settled[_i];
    struct gen g = {0};
    struct source source = {"a.qn", shapes_text, strlen(shapes_text)};
    jmp_buf escape;
    struct size out[2];
    int n = 2;
    g.escape = &escape;
    if (setjmp(escape))
        ck_abort_msg("out of memory");
    const struct program_ast *ast = parse(&g, &source);
    bool ok = sizes_of_argument(&g, ast, row->argument, row->rank, row->dim, out, &n);
    ck_assert_int_eq(ok, !row->error);
    ck_assert_int_eq(n, row->n);
    for (int i = 0; i < n; i++) {
        ck_assert_str_eq(out[i].name, row->size[i].name);
        ck_assert_int_eq(out[i].value, row->size[i].value);
    }
    char *said;
    size_t bytes;
    FILE *stream = open_memstream(&said, &bytes);
    diag_print(&g, stream);
    fclose(stream);
    if (row->error)
        ck_assert_msg(!strncmp(said, row->error, strlen(row->error)), "%s", said);
    free(said);
    arena_free(&g.arena);
}
END_TEST

START_TEST(settled_sizes_need_room)
{
    struct gen g = {0};
    struct source source = {"a.qn", shapes_text, strlen(shapes_text)};
    jmp_buf escape;
    int64_t dim[] = {2, 5, 3, 11};
    struct size out[1];
    int n = 1;
    g.escape = &escape;
    if (setjmp(escape))
        ck_abort_msg("out of memory");
    const struct program_ast *ast = parse(&g, &source);
    ck_assert(!sizes_of_argument(&g, ast, "x", 4, dim, out, &n));
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(g.n_errors, 1);
    arena_free(&g.arena);
}
END_TEST

Suite *build_suite(void)
{
    Suite *s = suite_create("build");
    TCase *c = tcase_create("build");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, programs_build_as_recorded, 0, golden_count("build"));
    tcase_add_test(c, a_nul_byte_is_reported);
    tcase_add_test(c, bytes_that_are_no_text_are_reported_once_a_statement);
    tcase_add_test(c, a_byte_order_mark_and_carriage_returns_are_blanks);
    tcase_add_test(c, a_chain_of_operators_may_be_as_long_as_it_likes);
    tcase_add_test(c, statements_take_linear_time);
    tcase_add_loop_test(c, nesting_has_a_bound, 0, 8);
    tcase_add_test(c, nested_blocks_and_indices_have_a_bound);
    tcase_add_test(c, ten_megabytes_in_one_line_show_what_is_around_the_caret);
    tcase_add_test(c, a_name_of_ten_megabytes_is_reported_in_a_short_line);
    tcase_add_test(c, functions_that_call_each_other_twice_are_stopped);
    tcase_add_test(c, a_deep_stack_of_functions_is_an_error);
    tcase_add_test(c, at_most_ten_errors_are_shown);
    tcase_add_test(c, a_text_beyond_a_gigabyte_is_refused);
    tcase_add_test(c, settled_sizes_need_room);
    tcase_add_loop_test(c, a_shape_settles_the_sizes_it_names, 0,
                        (int)(sizeof settled / sizeof *settled));
    suite_add_tcase(s, c);
    return s;
}
