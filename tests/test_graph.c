// test_graph.c: builders give the shapes and dtypes that NumPy would, or say what is wrong.

#include "tests/on_graph.h"
#include "tests/tests.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct gen g;
static struct graph *graph;

static void open_graph(void)
{
    g = (struct gen){.n_errors = 0};
    graph = graph_new(&g, "g");
}

static void close_graph(void)
{
    graph_check(graph);
    arena_free(&g.arena);
}

static struct node *input(enum dtype dtype, int rank, const int64_t *dim)
{
    return graph_argument(&g, graph, OP_input, "x", dtype, rank, dim);
}

#define SHAPE(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void expect_shape(const struct node *n, enum dtype dtype, int rank, const int64_t *dim)
{
    ck_assert(n != NULL);
    ck_assert_str_eq(shape_text(&g, n->dtype, n->rank, n->dim), shape_text(&g, dtype, rank, dim));
}

static void expect_message(const char *part)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    diag_print(&g, out);
    fclose(out);
    ck_assert_msg(g.n_errors == 1 && strstr(text, part), "%d errors: %s", g.n_errors, text);
    free(text);
}

START_TEST(elementwise_ops_broadcast_as_numpy_does)
{
    struct node *a = input(DT_f32, SHAPE(8, 1, 6, 1)), *b = input(DT_f32, SHAPE(7, 1, 5));
    struct node *scalar = graph_constant(&g, graph, DT_f32, 2);
    struct node *empty = input(DT_f32, SHAPE(0));
    expect_shape(graph_elementwise(&g, graph, OP_add, 2, (struct node *[]){a, b}), DT_f32,
                 SHAPE(8, 7, 6, 5));
    expect_shape(graph_elementwise(&g, graph, OP_lt, 2, (struct node *[]){b, scalar}), DT_bool,
                 SHAPE(7, 1, 5));
    expect_shape(graph_elementwise(&g, graph, OP_mul, 2, (struct node *[]){a, empty}), DT_f32,
                 SHAPE(8, 1, 6, 0));
}
END_TEST

START_TEST(shapes_that_do_not_broadcast_are_named)
{
    struct node *a = input(DT_f32, SHAPE(8, 3)), *b = input(DT_f32, SHAPE(4));
    ck_assert(!graph_elementwise(&g, graph, OP_add, 2, (struct node *[]){a, b}));
    expect_message("add: f32[8,3] and f32[4] do not broadcast: they differ at axis 1");
}
END_TEST

START_TEST(a_failed_input_is_passed_on_without_a_second_report)
{
    struct node *a = input(DT_f32, SHAPE(8, 3)), *b = input(DT_f32, SHAPE(4));
    struct node *none = graph_elementwise(&g, graph, OP_add, 2, (struct node *[]){a, b});
    ck_assert(!graph_elementwise(&g, graph, OP_add, 2, (struct node *[]){a, none}));
    ck_assert(!graph_cast(&g, graph, none, DT_f16));
    ck_assert(!graph_reduce(&g, graph, OP_sum, none, 1));
    ck_assert(!graph_matmul(&g, graph, a, none));
    ck_assert(!graph_reshape(&g, graph, none, 0, NULL));
    ck_assert(!graph_permute(&g, graph, none, NULL));
    ck_assert(!graph_broadcast(&g, graph, none, 0, NULL));
    ck_assert(!graph_slice(&g, graph, none, NULL, NULL, NULL));
    ck_assert(!graph_pad(&g, graph, none, NULL, NULL, 0));
    ck_assert(!graph_concat(&g, graph, 2, (struct node *[]){a, none}, 0));
    ck_assert_int_eq(g.n_errors, 1);
}
END_TEST

START_TEST(reductions_keep_their_axes_and_widen_integers)
{
    struct node *x = input(DT_f32, SHAPE(2, 3, 4)), *i = input(DT_i8, SHAPE(2, 3));
    struct node *b = input(DT_bool, SHAPE(2, 3));
    expect_shape(graph_reduce(&g, graph, OP_sum, x, 5), DT_f32, SHAPE(1, 3, 1));
    expect_shape(graph_reduce(&g, graph, OP_sum, i, 1), DT_i64, SHAPE(1, 3));
    expect_shape(graph_reduce(&g, graph, OP_max, i, 1), DT_i8, SHAPE(1, 3));
    expect_shape(graph_reduce(&g, graph, OP_prod, b, 2), DT_i64, SHAPE(2, 1));
    expect_shape(graph_reduce(&g, graph, OP_max, b, 2), DT_bool, SHAPE(2, 1));
    expect_shape(graph_reduce(&g, graph, OP_argmin, x, 2), DT_i64, SHAPE(2, 1, 4));
}
END_TEST

START_TEST(reducing_no_axes_is_the_value_itself)
{
    struct node *x = input(DT_f32, SHAPE(2)), *i = input(DT_i8, SHAPE(2));
    ck_assert_ptr_eq(graph_reduce(&g, graph, OP_sum, x, 0), x);
    ck_assert_ptr_eq(graph_reduce(&g, graph, OP_max, i, 0), i);
    expect_shape(graph_reduce(&g, graph, OP_sum, i, 0), DT_i64, SHAPE(2));
}
END_TEST

START_TEST(an_axis_that_is_not_there_is_named)
{
    struct node *x = input(DT_f32, 0, NULL);
    ck_assert(!graph_reduce(&g, graph, OP_sum, x, 1));
    expect_message("sum: no axis 0 in f32[]");
}
END_TEST

START_TEST(the_largest_of_nothing_is_an_error_only_if_asked_for)
{
    struct node *x = input(DT_f32, SHAPE(3, 4, 0, 5));
    expect_shape(graph_reduce(&g, graph, OP_max, x, 2), DT_f32, SHAPE(3, 1, 0, 5));
    expect_shape(graph_reduce(&g, graph, OP_sum, x, 4), DT_f32, SHAPE(3, 4, 1, 5));
    ck_assert(!graph_reduce(&g, graph, OP_max, x, 4));
    expect_message("max over an empty axis has no value");
}
END_TEST

START_TEST(matmul_broadcasts_its_batch)
{
    struct node *a = input(DT_f32, SHAPE(5, 1, 2, 3)), *b = input(DT_f32, SHAPE(7, 3, 4));
    expect_shape(graph_matmul(&g, graph, a, b), DT_f32, SHAPE(5, 7, 2, 4));
    expect_shape(graph_matmul(&g, graph, input(DT_f16, SHAPE(2, 0)), input(DT_f16, SHAPE(0, 4))),
                 DT_f16, SHAPE(2, 4));
}
END_TEST

START_TEST(matmul_says_which_sizes_differ)
{
    struct node *a = input(DT_f32, SHAPE(2, 4096)), *b = input(DT_f32, SHAPE(1024, 4));
    ck_assert(!graph_matmul(&g, graph, a, b));
    expect_message("matmul: inner dimensions differ: 4096 and 1024");
}
END_TEST

START_TEST(a_vector_is_no_matrix)
{
    struct node *a = input(DT_f32, SHAPE(2, 3)), *b = input(DT_f32, SHAPE(3));
    ck_assert(!graph_matmul(&g, graph, a, b));
    expect_message("matmul: takes matrices, got f32[2,3] and f32[3]");
}
END_TEST

START_TEST(too_many_elements_are_an_error)
{
    const int64_t most = (int64_t)1 << 40, huge = INT64_MAX;
    struct node *x = input(DT_f32, SHAPE(1));
    expect_shape(graph_broadcast(&g, graph, x, 1, &most), DT_f32, 1, &most);
    ck_assert(!graph_broadcast(&g, graph, x, SHAPE(most, 2)));
    expect_message("has more than 2^40 elements");
    ck_assert(!input(DT_f32, SHAPE(huge, huge, 0)));
    ck_assert(!graph_pad(&g, graph, x, &huge, &huge, 0));
    ck_assert(!graph_iota(&g, graph, 1, &huge, 0));
    ck_assert_int_eq(g.n_errors, 4);
}
END_TEST

START_TEST(a_negative_dimension_is_an_error)
{
    ck_assert(!input(DT_f32, SHAPE(2, -1)));
    expect_message("input: dimension 1 is negative: -1");
}
END_TEST

START_TEST(more_than_twelve_dimensions_are_an_error)
{
    const int64_t ones[13] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct node *x = input(DT_f32, 12, ones);
    ck_assert(!graph_broadcast(&g, graph, x, 13, ones));
    expect_message("broadcast: 13 dimensions; the most is 12");
}
END_TEST

START_TEST(arithmetic_on_bool_is_refused)
{
    struct node *b = input(DT_bool, SHAPE(2));
    ck_assert(!graph_elementwise(&g, graph, OP_add, 2, (struct node *[]){b, b}));
    expect_message("add: takes numbers, got bool");
}
END_TEST

START_TEST(where_takes_a_bool_and_two_of_one_dtype)
{
    struct node *b = input(DT_bool, SHAPE(2, 1)), *x = input(DT_f16, SHAPE(3));
    expect_shape(graph_elementwise(&g, graph, OP_where, 3, (struct node *[]){b, x, x}), DT_f16,
                 SHAPE(2, 3));
    ck_assert(!graph_elementwise(&g, graph, OP_where, 3, (struct node *[]){x, x, x}));
    expect_message("where: takes bool, got f16");
}
END_TEST

START_TEST(a_constant_can_be_asked_for_in_any_dtype)
{
    ck_assert_int_eq(graph_constant(&g, graph, DT_i32, 3)->attr.integer, 3);
    ck_assert(graph_integer(&g, graph, DT_f16, 3)->attr.value == 3);
    ck_assert(isnan(graph_constant(&g, graph, DT_f16, NAN)->attr.value));
    ck_assert(signbit(graph_constant(&g, graph, DT_bf16, -1e-300)->attr.value));
    ck_assert(!graph_constant(&g, graph, DT_i32, 0.5));
    expect_message("constant: 0.5 is no i32");
}
END_TEST

START_TEST(a_slice_of_fewer_than_two_has_step_one)
{
    struct node *x = input(DT_f32, SHAPE(10));
    const int64_t start = 9, step = -5, one = 1, none = 0;
    ck_assert_int_eq(graph_slice(&g, graph, x, &start, &step, &one)->attr.step[0], 1);
    ck_assert_int_eq(graph_slice(&g, graph, x, &start, &step, &none)->attr.start[0], 0);
}
END_TEST

START_TEST(arguments_and_outputs_keep_their_order)
{
    const int64_t two = 2;
    for (int i = 0; i < 20; i++) {
        enum op op = i % 3 ? OP_input : OP_weight;
        struct node *n = graph_argument(&g, graph, op, "a", DT_f32, 1, &two);
        graph_output(&g, graph, "o", n);
    }
    ck_assert_int_eq(graph->n_arguments, 20);
    ck_assert_int_eq(graph->n_outputs, 20);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(graph->arguments[i]->attr.argument, i);
        ck_assert_ptr_eq(graph->outputs[i].node, graph->arguments[i]);
    }
}
END_TEST

START_TEST(every_row_of_the_tables_is_filled)
{
    for (int o = 0; o < OP_COUNT; o++) {
        ck_assert(op_info[o].name && op_info[o].arity >= -1 && op_info[o].arity <= 3);
        bool computes = op_info[o].kind == KIND_elementwise || op_info[o].kind == KIND_reduction;
        ck_assert_msg(computes == (op_info[o].cuda != NULL), "%s", op_info[o].name);
    }
    for (int d = 0; d < DT_COUNT; d++) {
        ck_assert(dtype_info[d].name && dtype_info[d].bytes && dtype_info[d].storage);
        ck_assert((dtype_info[d].mantissa > 0) == (dtype_info[d].class == CLASS_float));
    }
}
END_TEST

Suite *graph_suite(void)
{
    Suite *s = suite_create("graph");
    TCase *c = tcase_create("builders");
    tcase_add_checked_fixture(c, open_graph, close_graph);
    tcase_add_test(c, elementwise_ops_broadcast_as_numpy_does);
    tcase_add_test(c, shapes_that_do_not_broadcast_are_named);
    tcase_add_test(c, a_failed_input_is_passed_on_without_a_second_report);
    tcase_add_test(c, reductions_keep_their_axes_and_widen_integers);
    tcase_add_test(c, reducing_no_axes_is_the_value_itself);
    tcase_add_test(c, an_axis_that_is_not_there_is_named);
    tcase_add_test(c, the_largest_of_nothing_is_an_error_only_if_asked_for);
    tcase_add_test(c, matmul_broadcasts_its_batch);
    tcase_add_test(c, matmul_says_which_sizes_differ);
    tcase_add_test(c, a_vector_is_no_matrix);
    tcase_add_test(c, too_many_elements_are_an_error);
    tcase_add_test(c, a_negative_dimension_is_an_error);
    tcase_add_test(c, more_than_twelve_dimensions_are_an_error);
    tcase_add_test(c, arithmetic_on_bool_is_refused);
    tcase_add_test(c, where_takes_a_bool_and_two_of_one_dtype);
    tcase_add_test(c, a_constant_can_be_asked_for_in_any_dtype);
    tcase_add_test(c, a_slice_of_fewer_than_two_has_step_one);
    tcase_add_test(c, arguments_and_outputs_keep_their_order);
    tcase_add_test(c, every_row_of_the_tables_is_filled);
    suite_add_tcase(s, c);
    return s;
}
