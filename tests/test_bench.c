// test_bench.c: `quern bench` from outside, on the host device.

#include "tests/child.h"
#include "tests/tests.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *json_of(const char *text)
{
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    ck_assert_msg(root != NULL, "%s in %s", error.text, text);
    return root;
}

static double real(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_number(value), "%s is no number", key);
    return json_number_value(value);
}

static void expect_null(const json_t *object, const char *key)
{
    ck_assert_msg(json_is_null(json_object_get(object, key)), "%s is not null", key);
}

static void expect_timing(const json_t *root, const char *key)
{
    const json_t *t = json_object_get(root, key);
    ck_assert_msg(json_is_object(t), "%s is no object", key);
    ck_assert_int_eq(json_object_size(t), 3);
    ck_assert(real(t, "min") > 0);
    ck_assert(real(t, "min") <= real(t, "median"));
    ck_assert(real(t, "median") <= real(t, "max"));
}

START_TEST(json_has_every_key_and_null_for_what_the_host_cannot_say)
{
    static const char *const unsaid[] = {"warm_us",         "host_us",       "copy_us",
                                         "copy_range_us",   "empty_call_us", "empty_host_us",
                                         "empty_launch_us", "ratio_to_copy", "ratio_to_floor"};
    struct result r;
    quern(&r, NULL, "bench %s -D N=5 --device host --json", in_folder("scale.qn"));
    ck_assert_msg(r.status == 0, "%s", r.err);
    json_t *root = json_of(r.out);
    ck_assert_str_eq(json_string_value(json_object_get(root, "program")), "scale");
    ck_assert_str_eq(json_string_value(json_object_get(root, "device")), "host");
    expect_timing(root, "replay_us");
    expect_timing(root, "call_us");
    for (size_t i = 0; i < sizeof unsaid / sizeof *unsaid; i++)
        expect_null(root, unsaid[i]);
    ck_assert_double_eq(real(root, "bytes"), 3 * 5 * 4); // x, w and y
    ck_assert_double_eq(real(root, "set_bytes"), 3 * 5 * 4);
    ck_assert(real(root, "flops") >= 2 * 5);
    ck_assert(real(root, "floor_us") > 0);
    ck_assert_double_eq(real(root, "n_launches"), 1);
    ck_assert_double_eq(real(root, "n_sets"), 1);
    ck_assert_ptr_nonnull(strstr(r.err, "scale on host"));
    json_decref(root);
}
END_TEST

START_TEST(the_first_use_compiles_and_the_next_does_not)
{
    struct result r;
    quern(&r, NULL, "bench %s -D N=6 --device host --json", in_folder("scale.qn"));
    ck_assert_msg(r.status == 0, "%s", r.err);
    json_t *root = json_of(r.out);
    const json_t *cold = json_object_get(root, "first_use_ms"),
                 *cached = json_object_get(root, "cached_use_ms");
    static const char *const parts[] = {"open", "front_end", "nvrtc", "load"};
    for (int i = 0; i < 4; i++) {
        ck_assert(real(cold, parts[i]) >= 0);
        ck_assert(real(cached, parts[i]) >= 0);
    }
    ck_assert(real(cold, "front_end") > 0);
    ck_assert_msg(real(cold, "nvrtc") > 3 * real(cached, "nvrtc"), "%s", r.out);
    json_decref(root);
}
END_TEST

START_TEST(without_a_cache_or_a_compiler_one_first_use_is_unknown)
{
    struct result r;
    quern(&r, NULL, "bench %s -D N=5 --device host --json --no-cache", in_folder("scale.qn"));
    ck_assert_msg(r.status == 0, "%s", r.err);
    json_t *root = json_of(r.out);
    ck_assert(json_is_object(json_object_get(root, "first_use_ms")));
    expect_null(root, "cached_use_ms");
    json_decref(root);

    quern(&r, NULL, "bench %s -D N=5 --device host --json --offline", in_folder("scale.qn"));
    ck_assert_msg(r.status == 0, "%s", r.err); // make_folder's run has filled the cache
    root = json_of(r.out);
    expect_null(root, "first_use_ms");
    ck_assert(json_is_object(json_object_get(root, "cached_use_ms")));
    json_decref(root);

    quern(&r, NULL, "bench %s -D N=7 --device host --json --offline", in_folder("scale.qn"));
    ck_assert_int_ne(r.status, 0);
    ck_assert_str_eq(r.out, "");
}
END_TEST

START_TEST(outputs_are_right_after_the_measurement)
{
    struct result r;
    const char *y = in_folder("y.npy"), *again = in_folder("again.npy");
    quern(&r, NULL, "run %s -D N=5 --random 1 --device host --check --out y=%s",
          in_folder("scale.qn"), y);
    ck_assert_msg(r.status == 0, "%s", r.err);
    quern(&r, NULL, "bench %s -D N=5 --device host --out y=%s", in_folder("scale.qn"), again);
    ck_assert_msg(r.status == 0, "%s", r.err); // the same seed, where none is given
    ck_assert_ptr_nonnull(strstr(r.out, "call "));
    size_t n, m;
    char *a = contents(y, &n), *b = contents(again, &m);
    ck_assert_uint_eq(n, m);
    ck_assert_mem_eq(a, b, n);
    free(a);
    free(b);
}
END_TEST

START_TEST(a_plot_is_a_whole_picture_with_the_run_in_it)
{
    struct result r;
    const char *svg = in_folder("roof.svg");
    quern(&r, NULL, "bench %s -D N=5 --device host --plot %s", in_folder("scale.qn"), svg);
    ck_assert_msg(r.status == 0, "%s", r.err);
    size_t n;
    char *text = contents(svg, &n);
    text[n] = '\0';
    ck_assert_int_eq(strncmp(text, "<svg ", 5), 0);
    ck_assert_str_eq(text + n - 7, "</svg>\n");
    ck_assert_ptr_nonnull(strstr(text, "scale on host"));
    ck_assert_ptr_nonnull(strstr(text, "<circle "));
    ck_assert_ptr_null(strstr(text, "nan"));
    ck_assert_ptr_null(strstr(text, "inf"));
    free(text);
    quern(&r, NULL, "bench %s -D N=5 --device host --plot %s/no/x.svg", in_folder("scale.qn"), svg);
    ck_assert_int_eq(r.status, 1);
}
END_TEST

START_TEST(what_cannot_be_measured_is_said)
{
    struct result r;
    quern(&r, NULL, "bench %s --device host", in_folder("scale.qn"));
    ck_assert_int_eq(r.status, 1);
    ck_assert_ptr_nonnull(strstr(r.err, "N"));
    quern(&r, NULL, "bench %s -D N=0 --device host", in_folder("scale.qn"));
    ck_assert_int_ne(r.status, 0);
    quern(&r, NULL, "bench %s -D N=5 --check", in_folder("scale.qn"));
    ck_assert_int_eq(r.status, 2);
    quern(&r, NULL, "bench %s -D N=5 --arch sm_80,sm_90a", in_folder("scale.qn"));
    ck_assert_int_eq(r.status, 2);
}
END_TEST

Suite *bench_suite(void)
{
    Suite *s = suite_create("bench");
    TCase *command = tcase_create("the command");
    tcase_set_timeout(command, 120);
    tcase_add_unchecked_fixture(command, make_folder, remove_folder);
    tcase_add_test(command, json_has_every_key_and_null_for_what_the_host_cannot_say);
    tcase_add_test(command, the_first_use_compiles_and_the_next_does_not);
    tcase_add_test(command, without_a_cache_or_a_compiler_one_first_use_is_unknown);
    tcase_add_test(command, outputs_are_right_after_the_measurement);
    tcase_add_test(command, a_plot_is_a_whole_picture_with_the_run_in_it);
    tcase_add_test(command, what_cannot_be_measured_is_said);
    suite_add_tcase(s, command);
    return s;
}
