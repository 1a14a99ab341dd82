// test_tune_command.c: `quern tune` and `quern wisdom` from outside, on the host device.

#include "tests/child.h"
#include "tests/tests.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *tuned_json(const char *options)
{
    struct result r;
    quern(&r, NULL, "tune %s -D N=3000 --device host --json %s", in_folder("scale.qn"), options);
    ck_assert_msg(r.status == 0, "%s", r.err);
    ck_assert_ptr_nonnull(strstr(r.err, "a run takes "));
    json_t *root = json_loads(r.out, 0, NULL);
    ck_assert_msg(root != NULL, "%s", r.out);
    return root;
}

START_TEST(the_command_reports_and_the_others_use_what_it_found)
{
    struct result r;
    const char *program, *device, *arch, *math, *weights, *effort, *name, *spec, *status;
    double before, after, seconds, us;
    int n_untried, kept;
    json_t *kernels, *candidates, *samples, *why, *median;
    json_t *root = tuned_json("--budget 20s");
    ck_assert_int_eq(json_unpack(root,
                                 "{s:s, s:s, s:s, s:s, s:s, s:s, s:F, s:F, s:F, s:i, s:b, s:o !}",
                                 "program", &program, "device", &device, "arch", &arch, "math",
                                 &math, "weights", &weights, "effort", &effort, "default_us",
                                 &before, "tuned_us", &after, "seconds", &seconds, "n_untried",
                                 &n_untried, "kept", &kept, "kernels", &kernels),
                     0);
    ck_assert_str_eq(device, "host");
    ck_assert_str_eq(effort, "measure");
    ck_assert(kept && after <= before);
    ck_assert_int_eq(json_array_size(kernels), 1);
    ck_assert_int_eq(json_unpack(json_array_get(kernels, 0), "{s:s, s:o !}", "name", &name,
                                 "candidates", &candidates),
                     0);
    ck_assert_str_eq(name, "scale_0_map");
    char chosen[256] = "";
    for (size_t i = 0; i < json_array_size(candidates); i++) {
        ck_assert_int_eq(json_unpack(json_array_get(candidates, i),
                                     "{s:s, s:F, s:o, s:o, s:s, s:o !}", "spec", &spec,
                                     "predicted_us", &us, "median_us", &median, "samples_us",
                                     &samples, "status", &status, "why", &why),
                         0);
        ck_assert(json_is_null(median) == (json_array_size(samples) == 0));
        if (!strcmp(status, "chosen"))
            snprintf(chosen, sizeof chosen, "%s", spec);
    }
    ck_assert_str_ne(chosen, "");
    json_decref(root);

    quern(&r, NULL, "run %s -D N=3000 --device host --random 1 --check -v", in_folder("scale.qn"));
    ck_assert_msg(r.status == 0 && strstr(r.out, chosen), "%s%s", r.out, r.err);
    quern(&r, NULL, "explain %s -D N=3000 --device host", in_folder("scale.qn"));
    ck_assert_msg(strstr(r.out, chosen) && strstr(r.out, "specs by wisdom"), "%s", r.out);
    quern(&r, NULL, "explain %s -D N=3000 --device host --no-wisdom", in_folder("scale.qn"));
    ck_assert_ptr_null(strstr(r.out, "specs by wisdom"));
    quern(&r, NULL, "wisdom show");
    ck_assert_msg(strstr(r.out, "scale N=3000 M=3000, math real") && strstr(r.out, chosen), "%s",
                  r.out);
}
END_TEST

START_TEST(wisdom_goes_from_machine_to_machine)
{
    struct result r;
    const char *file = in_folder("w.json"), *scale = in_folder("scale.qn");
    json_decref(tuned_json("--budget 3s"));
    quern(&r, NULL, "wisdom export %s", file);
    ck_assert_msg(r.status == 0, "%s", r.err);
    quern(&r, NULL, "wisdom forget scale");
    ck_assert_str_eq(r.out, "1 records forgotten\n");
    quern(&r, NULL, "wisdom show");
    ck_assert_str_eq(r.out, "");
    quern(&r, NULL, "emit %s -D N=3000 --arch sm_90a --format source --wisdom %s -o %s", scale,
          file, in_folder("out"));
    ck_assert_msg(r.status == 0 && !*r.err, "%s", r.err);
    quern(&r, NULL, "emit %s -D N=3001 --arch sm_90a --format source --wisdom %s -o %s", scale,
          file, in_folder("out"));
    ck_assert_msg(r.status == 0 && strstr(r.err, "has nothing for scale"), "%s", r.err);
    quern(&r, NULL, "wisdom import %s", file);
    ck_assert_str_eq(r.out, "1 records taken\n");
    quern(&r, NULL, "wisdom merge %s", file);
    ck_assert_str_eq(r.out, "0 records taken\n");
    quern(&r, NULL, "wisdom import %s", scale);
    ck_assert_int_eq(r.status, 1);
    quern(&r, NULL, "wisdom import %s", in_folder("none.json"));
    ck_assert_int_eq(r.status, 1);
    quern(&r, NULL, "wisdom forget");
    ck_assert_str_eq(r.out, "1 records forgotten\n");
}
END_TEST

START_TEST(without_a_cache_nothing_is_kept)
{
    json_t *root = tuned_json("--budget 0.01s --no-cache");
    ck_assert(json_is_false(json_object_get(root, "kept")));
    ck_assert_int_gt(json_integer_value(json_object_get(root, "n_untried")), 0);
    json_decref(root);
    struct result r;
    quern(&r, NULL, "wisdom show");
    ck_assert_str_eq(r.out, "");
}
END_TEST

Suite *tune_command_suite(void)
{
    Suite *s = suite_create("tune_command");
    TCase *command = tcase_create("the command");
    tcase_set_timeout(command, 120);
    tcase_add_checked_fixture(command, make_folder, remove_folder);
    tcase_add_test(command, the_command_reports_and_the_others_use_what_it_found);
    tcase_add_test(command, wisdom_goes_from_machine_to_machine);
    tcase_add_test(command, without_a_cache_nothing_is_kept);
    suite_add_tcase(s, command);
    return s;
}
