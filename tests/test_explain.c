// test_explain.c: `quern explain` and the plan's JSON: the rules that rewrote a program, the
// kernels that it became, and what --math changes of both.

#include "tests/child.h"
#include "tests/tests.h"
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char mean_text[] = "program mean_gelu(B, I, O)\n"
                                "input  x        : f32[B, I]\n"
                                "weight w        : f32[O, I]\n"
                                "weight bias     : f32[O]\n"
                                "weight subtract : f32[O]\n"
                                "h = linear(x, w, bias) - subtract\n"
                                "m = mean(h, axis = 1, keepdims = true)\n"
                                "s = logsumexp(m, axis = 1, keepdims = true)\n"
                                "output y = gelu(s) + x\n";

static const char large[] = "-D B=2048 -D I=8192 -D O=8192 --arch sm_90a";

static void set_up(void)
{
    make_folder();
    write_text("mean.qn", mean_text);
}

static json_t *explained(const char *options)
{
    struct result r;
    quern(&r, NULL, "explain %s %s --json", in_folder("mean.qn"), options);
    ck_assert_msg(r.status == 0, "%s", r.err);
    json_t *root = json_loads(r.out, 0, NULL);
    ck_assert_msg(root != NULL, "%s", r.out);
    return root;
}

static int n_kernels(const json_t *root, const char *part, const char *family)
{
    int n = 0;
    size_t i;
    json_t *kernel;
    json_array_foreach(json_object_get(root, "kernels"), i, kernel)
    {
        n += !strcmp(json_string_value(json_object_get(kernel, "part")), part) &&
             !strcmp(json_string_value(json_object_get(kernel, "family")), family);
    }
    return n;
}

static double total(json_t *root, const char *part, const char *what)
{
    double value;
    ck_assert_int_eq(json_unpack(root, "{s:{s:{s:F}}}", "totals", part, what, &value), 0);
    return value;
}

static void see(const struct result *r, const char *part)
{
    ck_assert_msg(strstr(r->out, part), "`%s` is not in:\n%.3000s", part, r->out);
}

// ---- the receipt ----

START_TEST(a_mean_over_features_needs_no_product_of_matrices)
{
    struct result r;
    quern(&r, NULL, "explain %s %s", in_folder("mean.qn"), large);
    ck_assert_msg(r.status == 0, "%s", r.err);
    see(&r, "rules, math real, which save 274.8 Gflop, 134.2 MB\n");
    see(&r, "\n  sum into a contraction, real: 274.8 Gflop, 134.2 MB\n");
    see(&r, "mean.qn:7:5: mean(h, axis = 1, keepdims = true)\n");
    see(&r, "\n  known terms together, real: ");
    see(&r, "mean.qn:6:5: linear(x, w, bias) - subtract\n");
    see(&r, ", exact: ");
    ck_assert(strstr(r.out, "\nmean_gelu_prepare_0_") > strstr(r.out, "math real"));
    see(&r, " = sum(w) * ");
    see(&r, " = sum((bias - subtract)) * ");
}
END_TEST

START_TEST(a_mean_over_features_is_one_kernel_of_rows)
{
    json_t *root = explained(large);
    ck_assert_int_eq(json_array_size(json_object_get(root, "kernels")), 2);
    ck_assert_int_eq(n_kernels(root, "prepare", "stitch"), 1); // the two sums side by side
    ck_assert_int_eq(n_kernels(root, "run", "rows"), 1);
    ck_assert_double_gt(total(root, "run", "flops"), 0.03e9); // x * mean, its sum, + x
    ck_assert_double_lt(total(root, "run", "flops"), 0.1e9);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "prepared_bytes")), 8192 * 4 + 256);
    json_decref(root);
}
END_TEST

START_TEST(strict_multiplies_the_matrices)
{
    char options[128];
    snprintf(options, sizeof options, "%s --math strict", large);
    json_t *root = explained(options), *rule;
    size_t i;
    ck_assert_int_eq(n_kernels(root, "run", "gemm"), 1);
    ck_assert_double_gt(total(root, "run", "flops"), 2.0 * 2048 * 8192 * 8192);
    ck_assert_str_eq(json_string_value(json_object_get(root, "math")), "strict");
    json_array_foreach(json_object_get(root, "rules"), i, rule)
    {
        ck_assert_str_eq(json_string_value(json_object_get(rule, "class")), "exact");
    }
    json_decref(root);
}
END_TEST

START_TEST(each_rule_has_its_class_place_and_saving_in_json)
{
    json_t *root = explained(large), *rules = json_object_get(root, "rules"), *rule;
    double flops, bytes, us, saved = 0;
    const char *name, *class, *at;
    bool found = false;
    size_t i;
    json_array_foreach(rules, i, rule)
    {
        ck_assert_int_eq(json_unpack(rule, "{s:s, s:s, s:s, s:F, s:F, s:F !}", "name", &name,
                                     "class", &class, "at", &at, "saved_flops", &flops,
                                     "saved_bytes", &bytes, "saved_us", &us),
                         0);
        ck_assert(!strcmp(class, "exact") || !strcmp(class, "real"));
        ck_assert_ptr_nonnull(strstr(at, "mean.qn:"));
        found |= !strcmp(name, "sum into a contraction") && strstr(at, "mean.qn:7:5") && us > 1000;
        saved += flops;
    }
    ck_assert(found);
    ck_assert_double_gt(saved, 274e9);
    json_decref(root);
}
END_TEST

START_TEST(finite_and_fast_take_rules_that_real_does_not)
{
    static const char text[] = "program p(N)\ninput x : f32[N, 1]\n"
                               "output y = x - mean(x, axis = 1, keepdims = true)\n";
    static const char *const maths[] = {"strict", "real", "finite", "fast"};
    struct result r;
    for (int i = 0; i < 4; i++) {
        quern(&r, text, "explain - -D N=64 --arch sm_90a --math %s", maths[i]);
        ck_assert_msg(r.status == 0, "%s", r.err);
        ck_assert_int_eq(strstr(r.out, ", finite: ") != NULL, i >= 2);
        ck_assert_int_eq(strstr(r.out, "y = 0") != NULL, i >= 2);
    }
}
END_TEST

START_TEST(without_rules_there_is_no_receipt)
{
    struct result r;
    quern(&r, NULL, "explain %s -D N=64 --arch sm_90a", in_folder("scale.qn"));
    ck_assert_int_eq(r.status, 0);
    ck_assert_ptr_null(strstr(r.out, "rewritten"));
    quern(&r, NULL, "explain %s -D N=64 --arch sm_90a --json", in_folder("scale.qn"));
    see(&r, "\"rules\": []");
}
END_TEST

START_TEST(a_place_is_shown_on_one_line_without_its_comments)
{
    static const char text[] =
        "program p(N)\ninput x : f32[N]\n"
        "output y = relu(relu(abs(x +   # one\n  2 + abs(x * 3) + abs(x * 5) + abs(x * 7) + "
        "abs(x * 9))))\n";
    struct result r;
    quern(&r, text, "explain - -D N=64 --arch sm_90a");
    ck_assert_msg(r.status == 0, "%s", r.err);
    see(&r, "<stdin>:3:12: relu(relu(abs(x + 2 + abs(x * 3) + abs(x * 5) + abs(x * 7) +...\n");
}
END_TEST

// ---- what else knows of it ----

START_TEST(the_dump_shows_the_graph_after_each_rule)
{
    struct result r;
    json_t *root = explained("-D B=4 -D I=8 -D O=6 --arch sm_90a"), *rule;
    quern(&r, NULL, "explain %s -D B=4 -D I=8 -D O=6 --arch sm_90a --dump rewrite",
          in_folder("mean.qn"));
    ck_assert_msg(r.status == 0, "%s", r.err);
    const char *at = r.out;
    size_t i;
    json_array_foreach(json_object_get(root, "rules"), i, rule)
    {
        char heading[128];
        snprintf(heading, sizeof heading, "== rewrite: %s\ngraph mean_gelu(",
                 json_string_value(json_object_get(rule, "name")));
        at = strstr(at, heading);
        ck_assert_msg(at != NULL, "`%s` is missing or out of order", heading);
        at += strlen(heading);
    }
    ck_assert_uint_gt(i, 3);
    ck_assert_ptr_nonnull(strstr(at, "== rewrite\ngraph mean_gelu("));
    ck_assert_ptr_null(strstr(at, "== rewrite:"));
    json_decref(root);
}
END_TEST

START_TEST(the_emitted_plan_lists_math_and_rules)
{
    struct result r;
    size_t n;
    const char *math, *weights;
    json_t *rules;
    quern(&r, NULL, "emit %s %s --math finite --format source -o %s", in_folder("mean.qn"), large,
          in_folder("out"));
    ck_assert_msg(r.status == 0, "%s", r.err);
    char *text = contents(in_folder("out/mean_gelu.json"), &n);
    json_t *root = json_loadb(text, n, 0, NULL),
           *plan = json_array_get(json_object_get(root, "plans"), 0);
    ck_assert_int_eq(
        json_unpack(plan, "{s:s, s:s, s:o}", "math", &math, "weights", &weights, "rules", &rules),
        0);
    ck_assert_str_eq(math, "finite");
    ck_assert_str_eq(weights, "prepared");
    ck_assert_uint_gt(json_array_size(rules), 3);
    for (size_t i = 0; i < json_array_size(rules); i++) {
        const char *name, *class;
        ck_assert_int_eq(
            json_unpack(json_array_get(rules, i), "{s:s, s:s !}", "name", &name, "class", &class),
            0);
    }
    json_decref(root);
    free(text);
}
END_TEST

// strict in each run, real in each run, real and prepared, and the classes beyond.
START_TEST(every_form_agrees_with_the_reference)
{
    static const char *const forms[] = {
        "--math strict --weights each-run", "--math real --weights each-run",
        "--math real --weights prepared",   "--math strict --weights prepared",
        "--math finite --weights prepared", "--math fast --weights each-run"};
    static const char *const sizes[] = {"-D B=5 -D I=12 -D O=7", "-D B=1 -D I=1 -D O=1",
                                        "-D B=33 -D I=129 -D O=64"};
    struct result r;
    for (int i = 0; i < 6; i++) {
        bool separate = i < 3;
        quern(&r, NULL, "run %s %s --random 3 --check --device host -v %s %s", in_folder("mean.qn"),
              sizes[i % 3], forms[_i], separate ? "--separate" : "");
        ck_assert_msg(r.status == 0, "%s%s", r.err, r.out);
        see(&r, "ok against the f64 reference");
        if (separate)
            ck_assert_int_eq(strstr(r.out, ", gemm,") != NULL, strstr(forms[_i], "strict") != NULL);
    }
}
END_TEST

START_TEST(specs_are_listed_for_people_and_programs)
{
    struct result r;
    quern(&r, NULL, "explain %s %s --specs", in_folder("mean.qn"), large);
    ck_assert_msg(r.status == 0, "%s", r.err);
    see(&r, "could be, by what a model predicts:\n");
    char options[128];
    snprintf(options, sizeof options, "%s --specs", large);
    json_t *root = explained(options), *kernel;
    size_t i;
    json_array_foreach(json_object_get(root, "kernels"), i, kernel)
    {
        const json_t *candidates = json_object_get(kernel, "candidates");
        ck_assert_int_ge(json_array_size(candidates), 2);
        const char *spec;
        double us;
        ck_assert(!json_unpack(json_array_get(candidates, 0), "{s:s, s:F}", "spec", &spec,
                               "predicted_us", &us));
        ck_assert(us > 0);
        see(&r, spec);
    }
    json_decref(root);
    root = explained(large);
    kernel = json_array_get(json_object_get(root, "kernels"), 0);
    ck_assert_ptr_null(json_object_get(kernel, "candidates"));
    json_decref(root);
}
END_TEST

Suite *explain_suite(void)
{
    Suite *s = suite_create("explain");
    TCase *t = tcase_create("explain");
    tcase_set_timeout(t, 120);
    tcase_add_unchecked_fixture(t, set_up, remove_folder);
    tcase_add_test(t, a_mean_over_features_needs_no_product_of_matrices);
    tcase_add_test(t, a_mean_over_features_is_one_kernel_of_rows);
    tcase_add_test(t, strict_multiplies_the_matrices);
    tcase_add_test(t, each_rule_has_its_class_place_and_saving_in_json);
    tcase_add_test(t, finite_and_fast_take_rules_that_real_does_not);
    tcase_add_test(t, without_rules_there_is_no_receipt);
    tcase_add_test(t, a_place_is_shown_on_one_line_without_its_comments);
    tcase_add_test(t, the_dump_shows_the_graph_after_each_rule);
    tcase_add_test(t, the_emitted_plan_lists_math_and_rules);
    tcase_add_test(t, specs_are_listed_for_people_and_programs);
    tcase_add_loop_test(t, every_form_agrees_with_the_reference, 0, 6);
    suite_add_tcase(s, t);
    return s;
}
