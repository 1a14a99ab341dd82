// test_rules.c: programs rewritten, recorded and random ones, keep their values: to the bit in
// strict, within the tolerance in real.

#include "tests/golden.h"
#include "tests/on_graph.h"
#include "tests/random_patterns.h"
#include "tests/recorded.h"
#include "tests/tests.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRAMS = 2000, CHUNKS = 20, STEPS_PER_NODE = 24 };

struct pair {
    struct gen g;
    struct graph *before, *after;
    struct tensor *was, *is; // their outputs
};

static void pair_rewrite(struct pair *p, uint64_t seed, enum math math)
{
    struct rewrite_options options = {
        .math = math, .each_run = seed % 3 == 0, .keep_graphs = seed % 64 == 0};
    struct receipt receipt = {.steps = 0};
    p->after = rewrite(&p->g, p->before, &options, &receipt);
    graph_check(p->after);
    ck_assert_int_eq(p->g.n_errors, 0);
    ck_assert_msg(receipt.steps <= STEPS_PER_NODE * (p->before->n_nodes + 16),
                  "seed %lu: %ld steps for %d nodes", (unsigned long)seed, (long)receipt.steps,
                  p->before->n_nodes);
    double saved = 0;
    for (int i = 0; i < receipt.n_lines; i++) {
        saved += receipt.lines[i].saved_time;
        if (receipt.lines[i].after)
            graph_check(receipt.lines[i].after);
    }
    ck_assert_msg(saved >= -1e-6, "seed %lu: slower by %g", (unsigned long)seed, -saved);
    p->was = arena_new(&p->g, struct tensor, p->before->n_outputs);
    p->is = arena_new(&p->g, struct tensor, p->after->n_outputs);
}

static void pair_open(struct pair *p, uint64_t seed, enum taste taste, enum math math)
{
    memset(p, 0, sizeof *p);
    p->before = random_patterns(&p->g, seed, taste);
    ck_assert_int_eq(p->g.n_errors, 0);
    pair_rewrite(p, seed, math);
}

static void pair_eval(struct pair *p, enum eval_mode mode, const struct tensor *arguments)
{
    ck_assert(eval(&p->g, p->before, mode, arguments, p->was));
    ck_assert(eval(&p->g, p->after, mode, arguments, p->is));
}

static void pair_fail(const struct pair *p, uint64_t seed, int64_t i, double was, double is)
{
    char *before = printed(p->before), *after = printed(p->after);
    ck_abort_msg("seed %lu, element %ld: %.17g became %.17g\n%.1500s%.1500s", (unsigned long)seed,
                 (long)i, was, is, before, after);
}

static double element(const struct tensor *t, int64_t i)
{
    return dtype_info[t->dtype].class == CLASS_float ? ((const double *)t->data)[i]
                                                     : (double)((const int64_t *)t->data)[i];
}

static bool same_bits(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

// With nothing special among the arguments, much, and some.
static void expect_bits(struct pair *p, uint64_t seed)
{
    for (int special = 0; special < 9; special += 4) {
        pair_eval(p, EVAL_declared, random_arguments(&p->g, p->before, seed, special));
        for (int o = 0; o < p->before->n_outputs; o++)
            for (int64_t i = 0; i < node_numel(p->before->outputs[o].node); i++)
                if (!same_bits(element(&p->was[o], i), element(&p->is[o], i)))
                    pair_fail(p, seed, i, element(&p->was[o], i), element(&p->is[o], i));
    }
}

START_TEST(strict_keeps_every_bit_of_random_programs)
{
    for (uint64_t seed = (uint64_t)_i; seed < PROGRAMS; seed += CHUNKS) {
        struct pair p;
        pair_open(&p, seed, TASTE_any, MATH_strict);
        expect_bits(&p, seed);
        arena_free(&p.g.arena);
    }
}
END_TEST

static void expect_close(struct pair *p, uint64_t seed)
{
    pair_eval(p, EVAL_exact, random_arguments(&p->g, p->before, seed, 0));
    for (int o = 0; o < p->before->n_outputs; o++) {
        struct tolerance t = tolerance(p->before, p->before->outputs[o].node);
        for (int64_t i = 0; i < node_numel(p->before->outputs[o].node); i++) {
            double was = element(&p->was[o], i), is = element(&p->is[o], i);
            if (isfinite(was) && !(fabs(is - was) <= t.absolute + t.relative * fabs(was)))
                pair_fail(p, seed, i, was, is);
        }
    }
}

START_TEST(real_keeps_random_programs_within_the_tolerance)
{
    for (uint64_t seed = (uint64_t)_i; seed < PROGRAMS; seed += CHUNKS) {
        struct pair p;
        pair_open(&p, seed, TASTE_smooth, MATH_real);
        expect_close(&p, seed);
        arena_free(&p.g.arena);
    }
}
END_TEST

START_TEST(finite_keeps_finite_random_programs_within_the_tolerance)
{
    for (uint64_t seed = (uint64_t)_i; seed < PROGRAMS; seed += CHUNKS) {
        struct pair p;
        pair_open(&p, seed, TASTE_smooth, MATH_finite);
        expect_close(&p, seed);
        arena_free(&p.g.arena);
    }
}
END_TEST

// What is finite, and NaN once an argument is, stays NaN.
static void expect_nan_kept(struct pair *p, uint64_t seed)
{
    struct tensor *in = random_arguments(&p->g, p->before, seed, 0);
    struct tensor *clean = arena_new(&p->g, struct tensor, p->before->n_outputs);
    ck_assert(eval(&p->g, p->before, EVAL_exact, in, clean));
    const struct tensor *hit = &in[seed / CHUNKS % (uint64_t)p->before->n_arguments];
    store_element(hit->dtype, hit->data, 0, NAN);
    pair_eval(p, EVAL_exact, in);
    for (int o = 0; o < p->before->n_outputs; o++)
        for (int64_t i = 0; i < node_numel(p->before->outputs[o].node); i++) {
            double was = element(&p->was[o], i), is = element(&p->is[o], i);
            if (isfinite(element(&clean[o], i)) && isnan(was) && !isnan(is))
                pair_fail(p, seed, i, was, is);
        }
}

START_TEST(real_keeps_nan)
{
    for (uint64_t seed = (uint64_t)_i; seed < PROGRAMS; seed += CHUNKS) {
        struct pair p;
        pair_open(&p, seed, TASTE_smooth, MATH_real);
        expect_nan_kept(&p, seed);
        arena_free(&p.g.arena);
    }
}
END_TEST

// The recorded programs again, with sizes that the reference can compute.
static void pair_read(struct pair *p, const char *text)
{
    enum { SMALL = 32 };
    struct rewrite_options options;
    memset(p, 0, sizeof *p);
    p->before = recorded_graph(&p->g, text, SMALL, &options);
    ck_assert(p->before != NULL);
}

static void keep_values(const char *input, void *with)
{
    (void)with;
    enum { SEEDS = 4 * MATH_fast };
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        enum math math = (enum math)(seed % MATH_fast);
        struct pair p;
        pair_read(&p, input);
        pair_rewrite(&p, seed, math);
        if (math == MATH_strict)
            expect_bits(&p, seed);
        else
            expect_close(&p, seed);
        if (math == MATH_real)
            expect_nan_kept(&p, seed);
        arena_free(&p.g.arena);
    }
}

START_TEST(recorded_programs_keep_their_values)
{
    golden_input("rewrite", _i, keep_values, NULL);
}
END_TEST

// One op over and over, or two in turn; the last kind adds up terms that all see one node.
static struct node *next_link(struct gen *g, struct graph *graph, int kind, int i, struct node *x)
{
    static const enum op ops[][2] = {
        {OP_mul,     OP_mul    },
        {OP_add,     OP_sub    },
        {OP_maximum, OP_minimum},
        {OP_div,     OP_maximum},
        {OP_sub,     OP_mul    },
        {OP_add,     OP_add    }
    };
    struct node *c = graph_constant(g, graph, DT_f32, 1 + i % 7 * 0.01), *in[] = {x, c};
    int perm[] = {1, 0};
    if (kind == 6)
        return i % 2 ? graph_permute(g, graph, x, perm)
                     : graph_elementwise(g, graph, OP_neg, 1, &x);
    if (kind == 7)
        return graph_matmul(g, graph, x, graph->arguments[1]);
    if (kind == 5)
        in[1] = graph_elementwise(g, graph, OP_div, 2, (struct node *[]){graph->arguments[0], c});
    return graph_elementwise(g, graph, ops[kind][i % 2], 2, in);
}

START_TEST(a_long_chain_takes_linear_time)
{
    enum { LINKS = 50000 };
    struct gen g = {.n_errors = 0};
    int64_t dim[] = {4, 4};
    struct graph *graph = graph_new(&g, "chain");
    struct node *x = graph_argument(&g, graph, OP_input, "x", DT_f32, 2, dim);
    graph_argument(&g, graph, OP_weight, "w", DT_f32, 2, dim);
    for (int i = 0; i < LINKS; i++)
        x = next_link(&g, graph, _i, i, x);
    graph_output(&g, graph, "y", x);
    for (int math = 0; math < MATH_fast; math++) {
        struct rewrite_options options = {.math = (enum math)math};
        struct receipt receipt = {.steps = 0};
        const struct graph *made = rewrite(&g, graph, &options, &receipt);
        graph_check(made);
        ck_assert_int_le(receipt.steps, 4 * graph->n_nodes);
        ck_assert_int_le(made->n_nodes, graph->n_nodes);
    }
    arena_free(&g.arena);
}
END_TEST

Suite *rules_suite(void)
{
    Suite *s = suite_create("rules");
    TCase *c = tcase_create("rules");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, recorded_programs_keep_their_values, 0, golden_count("rewrite"));
    tcase_add_loop_test(c, strict_keeps_every_bit_of_random_programs, 0, CHUNKS);
    tcase_add_loop_test(c, real_keeps_random_programs_within_the_tolerance, 0, CHUNKS);
    tcase_add_loop_test(c, finite_keeps_finite_random_programs_within_the_tolerance, 0, CHUNKS);
    tcase_add_loop_test(c, real_keeps_nan, 0, CHUNKS);
    tcase_add_loop_test(c, a_long_chain_takes_linear_time, 0, 8);
    suite_add_tcase(s, c);
    return s;
}
