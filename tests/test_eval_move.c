// test_eval_move.c: movement, axes and empty shapes through the reference evaluator.

#include "tests/on_graph.h"
#include "tests/tests.h"
#include <math.h>
#include <stdlib.h>

static double *counting(int64_t n)
{
    double *x = calloc((size_t)n + 1, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)i;
    return x;
}

// With x = 0, 1, 2, ... of n_in elements.
static void expect_of_counting(const char *text, int64_t n_in, int64_t n, const double *expected)
{
    double *x = counting(n_in);
    expect_eval(text, EVAL_exact, x, n, expected);
    free(x);
}

START_TEST(a_transposed_product_summed_over_a_short_axis)
{
    static const double y[] = {70,  190, 310, 76,  212, 348, 82, 234,
                               386, 88,  256, 424, 94,  278, 462};
    struct on_graph t;
    graph_open(&t, "graph g()\n%0 = input \"a\" : f32[4,5]\n%1 = input \"b\" : f32[3,4]\n"
                   "%2 = permute %0 perm=[1,0] : f32[5,4]\n%3 = reshape %2 : f32[5,4,1]\n"
                   "%4 = permute %1 perm=[1,0] : f32[4,3]\n%5 = reshape %4 : f32[1,4,3]\n"
                   "%6 = mul %3, %5 : f32[5,4,3]\n%7 = sum %6 axes=[1] : f32[5,1,3]\n"
                   "output \"y\" = %7\n");
    double *a = counting(20), *b = counting(12);
    graph_set(&t, 0, a);
    graph_set(&t, 1, b);
    graph_eval(&t, EVAL_exact);
    expect_values(&t, 0, 15, y);
    free(a);
    free(b);
    graph_close(&t);
}
END_TEST

START_TEST(an_expanded_tensor_is_reshaped_and_summed)
{
    static const double v[] = {1, 2, 3, 4}, y[] = {6, 12, 18, 24};
    expect_eval("graph g()\n%0 = input \"v\" : f32[4]\n%1 = broadcast %0 : f32[2,3,4]\n"
                "%2 = reshape %1 : f32[6,4]\n%3 = sum %2 axes=[0] : f32[1,4]\noutput \"y\" = %3\n",
                EVAL_exact, v, 4, y);
}
END_TEST

START_TEST(a_column_is_expanded_against_a_matrix)
{
    static const double d[] = {2, 3};
    double y[256];
    for (int c = 0; c < 128; c++) {
        y[c] = 2 * c + 1;
        y[128 + c] = 3 * c + 1;
    }
    expect_eval("graph g()\n%0 = input \"d\" : f32[2,1]\n%1 = iota axis=1 : i64[2,128]\n"
                "%2 = cast %1 : f32[2,128]\n%3 = mul %0, %2 : f32[2,128]\n%4 = constant 1 : f32[]\n"
                "%5 = add %3, %4 : f32[2,128]\noutput \"y\" = %5\n",
                EVAL_exact, d, 256, y);
}
END_TEST

START_TEST(a_flip_reads_backwards)
{
    double y[31];
    for (int i = 0; i < 31; i++)
        y[i] = 60 - 2 * i;
    expect_of_counting("graph g()\n%0 = input \"x\" : f32[31]\n"
                       "%1 = slice %0 start=[30] step=[-1] : f32[31]\n%2 = add %1, %1 : f32[31]\n"
                       "output \"y\" = %2\n",
                       31, 31, y);
}
END_TEST

START_TEST(slices_of_permuted_slices)
{
    // x is (3,4): columns 3 and 1, transposed, then rows backwards from the second on
    static const double y[] = {7, 3, 5, 1};
    expect_of_counting("graph g()\n%0 = input \"x\" : f32[3,4]\n"
                       "%1 = slice %0 start=[0,3] step=[1,-2] : f32[3,2]\n"
                       "%2 = permute %1 perm=[1,0] : f32[2,3]\n"
                       "%3 = slice %2 start=[0,1] step=[1,-1] : f32[2,2]\noutput \"y\" = %3\n",
                       12, 4, y);
}
END_TEST

START_TEST(pad_fills_around)
{
    static const double y[] = {-1, -1, -1, -1, 0, 1, -1, -1, 2, 3, -1, -1};
    expect_of_counting("graph g()\n%0 = input \"x\" : i32[2,2]\n"
                       "%1 = pad %0 before=[1,0] fill=-1 : i32[3,4]\noutput \"y\" = %1\n",
                       4, 12, y);
    static const double z[] = {0, 1, NAN};
    expect_of_counting("graph g()\n%0 = input \"x\" : f32[2]\n"
                       "%1 = pad %0 before=[0] fill=nan : f32[3]\noutput \"y\" = %1\n",
                       2, 3, z);
}
END_TEST

START_TEST(concat_puts_one_after_the_other)
{
    static const double y[] = {0, 1, 0, 2, 2, 3, 1, 3};
    expect_of_counting(
        "graph g()\n%0 = input \"x\" : f32[2,2]\n"
        "%1 = permute %0 perm=[1,0] : f32[2,2]\n%2 = concat %0, %1 axis=1 : f32[2,4]\n"
        "output \"y\" = %2\n",
        4, 8, y);
    static const double z[] = {0, 1, 2, 0, 1, 2};
    expect_of_counting(
        "graph g()\n%0 = input \"x\" : f32[3]\n"
        "%1 = slice %0 start=[0] step=[1] : f32[0]\n%2 = concat %0, %1, %0 axis=0 : f32[6]\n"
        "output \"y\" = %2\n",
        3, 6, z);
}
END_TEST

START_TEST(iota_counts_along_its_axis)
{
    static const double y[] = {0, 0, 0, 1, 1, 1};
    expect_eval("graph g()\n%0 = iota axis=0 : i64[2,3]\noutput \"y\" = %0\n", EVAL_exact, NULL, 6,
                y);
}
END_TEST

START_TEST(views_longer_than_a_chunk_are_walked_right)
{
    enum { R = 37, C = 61 };
    double y[R * C];
    for (int c = 0; c < C; c++)
        for (int r = 0; r < R; r++)
            y[c * R + r] = r * C + c + 1;
    expect_of_counting("graph g()\n%0 = input \"x\" : f32[37,61]\n"
                       "%1 = permute %0 perm=[1,0] : f32[61,37]\n%2 = constant 1 : f32[]\n"
                       "%3 = add %1, %2 : f32[61,37]\noutput \"y\" = %3\n",
                       R * C, R * C, y);
    for (int i = 0; i < R * C; i++)
        y[i]--;
    expect_of_counting("graph g()\n%0 = input \"x\" : f32[37,61]\n"
                       "%1 = permute %0 perm=[1,0] : f32[61,37]\n%2 = reshape %1 : f32[2257]\n"
                       "output \"y\" = %2\n",
                       R * C, R * C, y);
}
END_TEST

START_TEST(many_axes_are_summed_at_once)
{
    static const double sums[] = {34911, 39285, 43659}, most[] = {431, 458, 485};
    expect_of_counting("graph g()\n%0 = input \"x\" : f32[3,2,3,3,3,3]\n"
                       "%1 = sum %0 axes=[0,1,3,4,5] : f32[1,1,3,1,1,1]\noutput \"y\" = %1\n",
                       486, 3, sums);
    expect_of_counting("graph g()\n%0 = input \"x\" : f32[3,2,3,3,3,3]\n"
                       "%1 = max %0 axes=[0,1,3,4,5] : f32[1,1,3,1,1,1]\noutput \"y\" = %1\n",
                       486, 3, most);
}
END_TEST

START_TEST(an_axis_of_one_is_reduced_to_itself)
{
    static const double same[] = {0, 1, 2, 3, 4, 5}, zeros[6] = {0};
    expect_of_counting(
        "graph g()\n%0 = input \"u\" : f32[2,1,3]\n%1 = sum %0 axes=[1] : f32[2,1,3]\n"
        "output \"y\" = %1\n",
        6, 6, same);
    expect_of_counting("graph g()\n%0 = input \"u\" : f32[2,1,3]\n"
                       "%1 = argmax %0 axes=[1] : i64[2,1,3]\noutput \"y\" = %1\n",
                       6, 6, zeros);
}
END_TEST

START_TEST(twelve_dimensions_broadcast)
{
    double b[25], y[225];
    for (int i = 0; i < 25; i++)
        b[i] = 100;
    struct on_graph t;
    graph_open(&t, "graph g()\n%0 = input \"a\" : f32[1,1,3,1,1,1,1,1,1,1,5,5]\n"
                   "%1 = input \"b\" : f32[1,1,3,1,1,5,5]\n"
                   "%2 = reshape %1 : f32[1,1,1,1,1,1,1,3,1,1,5,5]\n"
                   "%3 = minimum %0, %2 : f32[1,1,3,1,1,1,1,3,1,1,5,5]\noutput \"y\" = %3\n");
    double *a = counting(75), many[75];
    for (int i = 0; i < 75; i++)
        many[i] = b[i % 25];
    for (int i = 0; i < 225; i++)
        y[i] = fmin(i / 75 * 25 + i % 25, 100);
    graph_set(&t, 0, a);
    graph_set(&t, 1, many);
    graph_eval(&t, EVAL_exact);
    expect_values(&t, 0, 225, y);
    free(a);
    graph_close(&t);
}
END_TEST

START_TEST(empty_dimensions_give_empty_or_neutral_results)
{
    double zeros[60] = {0}, nan[60], ones[5] = {1, 1, 1, 1, 1};
    for (int i = 0; i < 60; i++)
        nan[i] = NAN;
    expect_of_counting("graph g()\n%0 = input \"x\" : f32[3,4,0,5]\n"
                       "%1 = sum %0 axes=[1] : f32[3,1,0,5]\noutput \"y\" = %1\n",
                       0, 0, zeros);
    expect_of_counting("graph g()\n%0 = input \"x\" : f32[3,4,0,5]\n"
                       "%1 = sum %0 axes=[2] : f32[3,4,1,5]\noutput \"y\" = %1\n",
                       0, 60, zeros);
    expect_of_counting("graph g()\n%0 = input \"x\" : f32[3,4,0,5]\n"
                       "%1 = sum %0 axes=[2] : f32[3,4,1,5]\n%2 = constant 0 : f32[]\n"
                       "%3 = div %1, %2 : f32[3,4,1,5]\noutput \"mean\" = %3\n",
                       0, 60, nan);
    expect_of_counting("graph g()\n%0 = input \"z\" : f32[5,0]\n%1 = prod %0 axes=[1] : f32[5,1]\n"
                       "output \"y\" = %1\n",
                       0, 5, ones);
    expect_of_counting("graph g()\n%0 = input \"x\" : f32[0,7]\n%1 = max %0 axes=[1] : f32[0,1]\n"
                       "%2 = sub %0, %1 : f32[0,7]\n%3 = permute %2 perm=[1,0] : f32[7,0]\n"
                       "%4 = reshape %3 : f32[0,3]\noutput \"y\" = %4\n",
                       0, 0, zeros);
    expect_of_counting(
        "graph g()\n%0 = input \"x\" : f32[5,0]\n%1 = permute %0 perm=[1,0] : f32[0,5]\n"
        "%2 = matmul %0, %1 : f32[5,5]\n%3 = sum %2 axes=[0,1] : f32[1,1]\n"
        "%4 = pad %0 before=[0,1] fill=1 : f32[5,1]\noutput \"y\" = %4\n"
        "output \"z\" = %3\n",
        0, 5, ones);
}
END_TEST

START_TEST(an_output_may_be_an_argument_or_asked_for_twice)
{
    static const double x[] = {1, 2, 3, 4}, turned[] = {1, 3, 2, 4};
    struct on_graph t;
    graph_open(&t, "graph g()\n%0 = input \"x\" : f16[2,2]\n%1 = permute %0 perm=[1,0] : f16[2,2]\n"
                   "output \"a\" = %1\noutput \"b\" = %0\noutput \"c\" = %1\n");
    graph_set(&t, 0, x);
    graph_eval(&t, EVAL_exact);
    expect_values(&t, 0, 4, turned);
    expect_values(&t, 1, 4, x);
    expect_values(&t, 2, 4, turned);
    graph_close(&t);
}
END_TEST

// Each value is freed after its last use: kept, these would take 400 MB.
START_TEST(a_chain_of_50000_nodes_is_evaluated)
{
    enum { N = 50000 };
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fputs("graph g()\n%0 = input \"x\" : f32[1000]\n%1 = constant 1 : f32[]\n", out);
    for (int i = 0; i < N; i++)
        fprintf(out, "%%%d = add %%%d, %%1 : f32[1000]\n", i + 2, i ? i + 1 : 0);
    fprintf(out, "output \"y\" = %%%d\n", N + 1);
    fclose(out);
    double *x = counting(1000), *y = counting(1000);
    for (int i = 0; i < 1000; i++)
        y[i] += N;
    expect_eval(text, EVAL_exact, x, 1000, y);
    free(x);
    free(y);
    free(text);
}
END_TEST

Suite *eval_move_suite(void)
{
    Suite *s = suite_create("eval_move");
    TCase *c = tcase_create("movement");
    tcase_set_timeout(c, 30);
    tcase_add_test(c, a_transposed_product_summed_over_a_short_axis);
    tcase_add_test(c, an_expanded_tensor_is_reshaped_and_summed);
    tcase_add_test(c, a_column_is_expanded_against_a_matrix);
    tcase_add_test(c, a_flip_reads_backwards);
    tcase_add_test(c, slices_of_permuted_slices);
    tcase_add_test(c, pad_fills_around);
    tcase_add_test(c, concat_puts_one_after_the_other);
    tcase_add_test(c, iota_counts_along_its_axis);
    tcase_add_test(c, views_longer_than_a_chunk_are_walked_right);
    tcase_add_test(c, many_axes_are_summed_at_once);
    tcase_add_test(c, an_axis_of_one_is_reduced_to_itself);
    tcase_add_test(c, twelve_dimensions_broadcast);
    tcase_add_test(c, empty_dimensions_give_empty_or_neutral_results);
    tcase_add_test(c, an_output_may_be_an_argument_or_asked_for_twice);
    tcase_add_test(c, a_chain_of_50000_nodes_is_evaluated);
    suite_add_tcase(s, c);
    return s;
}
