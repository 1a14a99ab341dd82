// test_index.c: index expressions mean what they were built from, whatever form they were brought
// into.

#include "gen/index.h"
#include "tests/tests.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { N_VARIABLES = 3 };
static const int64_t extents[N_VARIABLES] = {24, 35, 8};

static struct gen gen;
static jmp_buf escape;
static struct index_pool *pool;

static void setup(void)
{
    gen = (struct gen){.escape = &escape};
    gen.next_diag = &gen.diags;
    pool = index_pool_new(&gen);
}

static void teardown(void)
{
    arena_free(&gen.arena);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t value_of(const struct index *x, const int64_t *at)
{
    int64_t sum = x->constant;
    switch (x->kind) {
    case INDEX_variable:
        return at[x->variable];
    case INDEX_div:
        return floor_div(value_of(x->of, at), x->by);
    case INDEX_mod:
        return value_of(x->of, at) - x->by * floor_div(value_of(x->of, at), x->by);
    case INDEX_sum:
        break;
    }
    for (int i = 0; i < x->n_terms; i++)
        sum += x->terms[i].coefficient * value_of(x->terms[i].atom, at);
    return sum;
}

static uint64_t seed;

static int64_t below(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(seed >> 33) % n;
}

// A random expression, with what it means at each of the points.
enum { N_POINTS = 12 };
struct pair {
    const struct index *x;
    int64_t value[N_POINTS];
};
static int64_t points[N_POINTS][32];

static struct pair random_pair(int depth)
{
    struct pair p;
    static const char *const names[N_VARIABLES] = {"r", "c", "k"};
    int choice = depth ? (int)below(6) : (int)below(2);
    int64_t by = 1 + below(12);
    if (choice <= 1) {
        int v = (int)below(N_VARIABLES);
        p.x = choice ? index_constant(pool, by) : index_variable(pool, v, extents[v], names[v]);
        for (int i = 0; i < N_POINTS; i++)
            p.value[i] = choice ? by : points[i][v];
        return p;
    }
    struct pair a = random_pair(depth - 1), b = choice == 2 ? random_pair(depth - 1) : a;
    for (int i = 0; i < N_POINTS; i++) {
        int64_t quotient = floor_div(a.value[i], by);
        int64_t results[] = {
            0, 0, a.value[i] + b.value[i], a.value[i] * by, quotient, a.value[i] - by * quotient};
        p.value[i] = results[choice];
    }
    p.x = choice == 2   ? index_add(pool, a.x, b.x)
          : choice == 3 ? index_scale(pool, a.x, by)
          : choice == 4 ? index_div(pool, a.x, by)
                        : index_mod(pool, a.x, by);
    return p;
}

static void random_points(void)
{
    for (int i = 0; i < N_POINTS; i++)
        for (int v = 0; v < N_VARIABLES; v++)
            points[i][v] = i == 0 ? 0 : i == 1 ? extents[v] - 1 : below(extents[v]);
}

START_TEST(random_expressions_keep_their_value_and_range)
{
    for (int n = 0; n < 4000; n++) {
        seed = (uint64_t)n;
        random_points();
        struct pair p = random_pair(5);
        for (int i = 0; i < N_POINTS; i++) {
            ck_assert_int_eq(value_of(p.x, points[i]), p.value[i]);
            ck_assert_int_ge(p.value[i], p.x->low);
            ck_assert_int_le(p.value[i], p.x->high);
        }
    }
}
END_TEST

START_TEST(lanes_are_base_plus_stride_times_lane)
{
    int n_regular = 0;
    for (int n = 0; n < 2000; n++) {
        seed = (uint64_t)n;
        random_points();
        struct pair p = random_pair(3);
        int64_t stride;
        int multiple, lanes = n % 2 ? 4 : 8;
        if (!index_lanes(pool, p.x, 0, lanes, &stride, &multiple))
            continue;
        n_regular++;
        for (int i = 0; i < N_POINTS; i++) {
            int64_t at[N_VARIABLES] = {points[i][0] / lanes * lanes, points[i][1], points[i][2]};
            int64_t base = value_of(p.x, at);
            ck_assert_int_eq(base % multiple, 0);
            for (int lane = 0; lane < lanes; lane++, at[0]++)
                ck_assert_int_eq(value_of(p.x, at), base + stride * lane);
        }
    }
    ck_assert_int_gt(n_regular, 500);
}
END_TEST

START_TEST(a_reshape_there_and_back_is_nothing)
{
    static const int64_t shapes[][3] = {
        {4,   6,  35},
        {24,  5,  7 },
        {2,   12, 35},
        {840, 1,  1 },
        {8,   3,  35}
    };
    const struct index *flat = index_variable(pool, 0, 840, "c");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            const struct index *at[3], *back[3];
            index_coordinates(pool, 3, shapes[i], flat, at);
            index_coordinates(pool, 3, shapes[k], index_linear(pool, 3, shapes[i], at), back);
            ck_assert_ptr_eq(index_linear(pool, 3, shapes[k], back), flat);
        }
}
END_TEST

START_TEST(equal_expressions_are_one_pointer)
{
    const struct index *r = index_variable(pool, 0, 24, "r"), *c = index_variable(pool, 1, 35, "c");
    const struct index *a = index_add(pool, index_scale(pool, r, 35), c);
    const struct index *b = index_add(pool, c, index_scale(pool, r, 35));
    ck_assert_ptr_eq(a, b);
    ck_assert_ptr_eq(index_div(pool, a, 35), r);
    ck_assert_ptr_eq(index_mod(pool, a, 35), c);
    ck_assert_ptr_eq(index_div(pool, c, 35), index_constant(pool, 0));
}
END_TEST

static const char *named(void *user, int64_t value)
{
    static char text[32];
    (void)user;
    snprintf(text, sizeof text, "<%lld>", (long long)value);
    return text;
}

static void assert_text(const struct index *x, bool open, const char *expected)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    index_print(x, &(struct index_style){NULL, named, open}, out);
    fclose(out);
    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(text_has_no_literal_but_zero_and_one)
{
    const struct index *r = index_variable(pool, 0, 24, "r"), *c = index_variable(pool, 1, 35, "c");
    const struct index *x = index_add(pool, index_scale(pool, index_div(pool, r, 5), 35), c);
    assert_text(index_add(pool, x, index_constant(pool, -3)), false,
                "(c + (r / <5>) * <35> - <3>)");
}
END_TEST

START_TEST(only_the_outermost_brackets_of_an_open_text_are_gone)
{
    const struct index *r = index_variable(pool, 0, 24, "r"), *c = index_variable(pool, 1, 35, "c");
    const struct index *sum = index_add(pool, index_add(pool, r, c), index_constant(pool, 1));
    const struct index *quotient = index_div(pool, sum, 5), *rest = index_mod(pool, sum, 7);
    assert_text(sum, true, "r + c + 1");
    assert_text(quotient, true, "((r + c + 1) / <5>)");
    assert_text(rest, true, "((r + c + 1) % <7>)");
    assert_text(index_mod(pool, quotient, 3), true, "(((r + c + 1) / <5>) % <3>)");
    assert_text(index_add(pool, quotient, c), true, "c + ((r + c + 1) / <5>)");
    assert_text(index_scale(pool, quotient, 9), true, "((r + c + 1) / <5>) * <9>");
    assert_text(index_add(pool, quotient, c), false, "(c + ((r + c + 1) / <5>))");
}
END_TEST

Suite *index_suite(void)
{
    Suite *suite = suite_create("index");
    TCase *tests = tcase_create("index");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, random_expressions_keep_their_value_and_range);
    tcase_add_test(tests, lanes_are_base_plus_stride_times_lane);
    tcase_add_test(tests, a_reshape_there_and_back_is_nothing);
    tcase_add_test(tests, equal_expressions_are_one_pointer);
    tcase_add_test(tests, text_has_no_literal_but_zero_and_one);
    tcase_add_test(tests, only_the_outermost_brackets_of_an_open_text_are_gone);
    suite_add_tcase(suite, tests);
    return suite;
}
