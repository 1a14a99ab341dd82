// test_rewrite.c: a graph's text, rewritten, is the text expected.

#include "tests/on_graph.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

static void expect_rewrite(const char *before, const char *after)
{
    struct on_graph t;
    graph_open(&t, before);
    struct rewrite_options options = {.math = MATH_strict};
    struct graph *made = rewrite(&t.g, t.graph, &options, NULL);
    graph_check(made);
    char *text = printed(made);
    ck_assert_str_eq(text, after);
    free(text);
    text = printed(t.graph); // the old graph is as it was
    ck_assert_str_eq(text, before);
    free(text);
    graph_close(&t);
}

START_TEST(equal_nodes_become_one)
{
    expect_rewrite("graph g(N = 3)\n"
                   "%0 = input \"x\" : f32[3]\n"
                   "%1 = constant 2 : f32[]\n"
                   "%2 = mul %0, %1 : f32[3]\n"
                   "%3 = constant 2 : f32[]\n"
                   "%4 = mul %0, %3 name=\"twice\" : f32[3]\n"
                   "%5 = add %2, %4 : f32[3]\n"
                   "output \"y\" = %5\n"
                   "output \"z\" = %4\n",
                   "graph g(N = 3)\n"
                   "%0 = input \"x\" : f32[3]\n"
                   "%1 = constant 2 : f32[]\n"
                   "%2 = mul %0, %1 name=\"twice\" : f32[3]\n"
                   "%3 = add %2, %2 : f32[3]\n"
                   "output \"y\" = %3\n"
                   "output \"z\" = %2\n");
}
END_TEST

START_TEST(nodes_that_differ_in_anything_stay_two)
{
    const char *text = "graph g()\n"
                       "%0 = input \"x\" : f32[2,2]\n"
                       "%1 = input \"y\" : f32[2,2]\n"
                       "%2 = constant 0 : f32[]\n"
                       "%3 = constant -0 : f32[]\n"
                       "%4 = constant 0 : f64[]\n"
                       "%5 = sub %0, %1 : f32[2,2]\n"
                       "%6 = sub %1, %0 : f32[2,2]\n"
                       "%7 = sum %0 axes=[0] : f32[1,2]\n"
                       "%8 = sum %0 axes=[0,1] : f32[1,1]\n"
                       "%9 = max %0 axes=[0] : f32[1,2]\n"
                       "%10 = pad %0 before=[1,0] fill=0 : f32[3,2]\n"
                       "%11 = pad %0 before=[0,0] fill=0 : f32[3,2]\n"
                       "%12 = pad %0 before=[1,0] fill=-0 : f32[3,2]\n"
                       "%13 = slice %0 start=[0,0] step=[1,1] : f32[2,1]\n"
                       "%14 = slice %0 start=[0,1] step=[1,1] : f32[2,1]\n"
                       "%15 = cast %0 : f16[2,2]\n"
                       "%16 = cast %0 : bf16[2,2]\n";
    char *whole;
    size_t size;
    FILE *out = open_memstream(&whole, &size);
    fputs(text, out);
    for (int i = 2; i <= 16; i++)
        fprintf(out, "output \"o\" = %%%d\n", i);
    fclose(out);
    expect_rewrite(whole, whole);
    free(whole);
}
END_TEST

START_TEST(what_no_output_needs_goes_but_arguments_stay)
{
    expect_rewrite("graph g()\n"
                   "%0 = weight \"unused\" : f32[3]\n"
                   "%1 = exp %0 : f32[3]\n"
                   "%2 = input \"x\" : f32[3]\n"
                   "%3 = neg %2 : f32[3]\n"
                   "%4 = abs %3 : f32[3]\n"
                   "output \"y\" = %3\n",
                   "graph g()\n"
                   "%0 = weight \"unused\" : f32[3]\n"
                   "%1 = input \"x\" : f32[3]\n"
                   "%2 = neg %1 : f32[3]\n"
                   "output \"y\" = %2\n");
}
END_TEST

START_TEST(movement_that_moves_nothing_goes)
{
    expect_rewrite("graph g()\n"
                   "%0 = input \"x\" : f32[2,3]\n"
                   "%1 = reshape %0 : f32[2,3]\n"
                   "%2 = broadcast %1 : f32[2,3]\n"
                   "%3 = permute %2 perm=[0,1] : f32[2,3]\n"
                   "%4 = slice %3 start=[0,0] step=[1,1] : f32[2,3]\n"
                   "%5 = pad %4 before=[0,0] fill=9 : f32[2,3]\n"
                   "%6 = cast %5 : f32[2,3]\n"
                   "%7 = neg %6 : f32[2,3]\n"
                   "output \"y\" = %7\n"
                   "output \"x\" = %6\n",
                   "graph g()\n"
                   "%0 = input \"x\" : f32[2,3]\n"
                   "%1 = neg %0 : f32[2,3]\n"
                   "output \"y\" = %1\n"
                   "output \"x\" = %0\n");
}
END_TEST

START_TEST(a_flip_is_not_a_slice_of_all)
{
    const char *text = "graph g()\n"
                       "%0 = input \"x\" : f32[3]\n"
                       "%1 = slice %0 start=[2] step=[-1] : f32[3]\n"
                       "output \"y\" = %1\n";
    expect_rewrite(text, text);
}
END_TEST

START_TEST(chains_of_reshapes_and_permutes_become_one_or_none)
{
    expect_rewrite("graph g()\n"
                   "%0 = input \"x\" : f32[2,3,4]\n"
                   "%1 = reshape %0 : f32[24]\n"
                   "%2 = reshape %1 : f32[4,6]\n"
                   "%3 = reshape %2 : f32[2,3,4]\n"
                   "%4 = permute %3 perm=[1,2,0] : f32[3,4,2]\n"
                   "%5 = permute %4 perm=[1,2,0] : f32[4,2,3]\n"
                   "%6 = permute %5 perm=[1,2,0] : f32[2,3,4]\n"
                   "output \"a\" = %2\n"
                   "output \"b\" = %5\n"
                   "output \"c\" = %6\n",
                   "graph g()\n"
                   "%0 = input \"x\" : f32[2,3,4]\n"
                   "%1 = reshape %0 : f32[4,6]\n"
                   "%2 = permute %0 perm=[2,0,1] : f32[4,2,3]\n"
                   "output \"a\" = %1\n"
                   "output \"b\" = %2\n"
                   "output \"c\" = %0\n");
}
END_TEST

START_TEST(rewriting_a_long_chain_takes_linear_time)
{
    enum { N = 100000 };
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fputs("graph g()\n%0 = input \"x\" : f32[3]\n", out);
    for (int i = 1; i <= N; i++) // pairs of equal nodes
        fprintf(out, "%%%d = exp %%%d : f32[3]\n", i, i < 3 ? 0 : (i - 3) / 2 * 2 + 1);
    fprintf(out, "output \"y\" = %%%d\n", N);
    fclose(out);
    struct on_graph t;
    graph_open(&t, text);
    struct rewrite_options options = {.math = MATH_real};
    ck_assert_int_eq(rewrite(&t.g, t.graph, &options, NULL)->n_nodes, N / 2 + 1);
    graph_close(&t);
    free(text);
}
END_TEST

Suite *rewrite_suite(void)
{
    Suite *s = suite_create("rewrite");
    TCase *c = tcase_create("rewrite");
    tcase_set_timeout(c, 30);
    tcase_add_test(c, equal_nodes_become_one);
    tcase_add_test(c, nodes_that_differ_in_anything_stay_two);
    tcase_add_test(c, what_no_output_needs_goes_but_arguments_stay);
    tcase_add_test(c, movement_that_moves_nothing_goes);
    tcase_add_test(c, a_flip_is_not_a_slice_of_all);
    tcase_add_test(c, chains_of_reshapes_and_permutes_become_one_or_none);
    tcase_add_test(c, rewriting_a_long_chain_takes_linear_time);
    suite_add_tcase(s, c);
    return s;
}
