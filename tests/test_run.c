// test_run.c: `quern run` from outside: programs and data in, outputs, checks and exit status out.

#include "tests/child.h"
#include "tests/tests.h"
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- programs and data ----

START_TEST(a_wrong_program_is_shown_with_its_place)
{
    struct result r;
    quern(&r, "program p(N)\ninput x : f32[N]\noutput y = x + z\n",
          "explain - -D N=4 --arch sm_90a");
    ck_assert_int_eq(r.status, 1);
    ck_assert_str_eq(r.out, "");
    ck_assert_ptr_nonnull(strstr(r.err, "<stdin>:3:16: error: "));
}
END_TEST

START_TEST(sizes_come_from_options_and_files_and_must_agree)
{
    struct result r;
    const char *scale = in_folder("scale.qn"), *y = in_folder("y.npy");
    quern(&r, NULL, "run %s -D N=5 --random 1 --device host --out y=%s", scale, y);
    ck_assert_msg(r.status == 0, "%s", r.err);
    quern(&r, NULL, "run %s --in x=%s --random 1 --check --device host", scale, y);
    ck_assert_msg(r.status == 0, "%s", r.err); // no -D: the file says it
    quern(&r, NULL, "run %s --in x=%s -D N=6 --random 1 --device host", scale, y);
    ck_assert_int_eq(r.status, 1);
    ck_assert_ptr_nonnull(strstr(r.err, "size N is 6 by -D and 5 by "));
    quern(&r, NULL, "run %s -D N=5 -D M=7 --random 1 --device host", scale);
    ck_assert_int_eq(r.status, 1);
    quern(&r, NULL, "run %s -D N=5 -D Q=7 --random 1 --device host", scale);
    ck_assert_int_eq(r.status, 1);
    ck_assert_ptr_nonnull(strstr(r.err, "-D Q: program scale has no such size"));
}
END_TEST

START_TEST(weights_are_prepared_or_not_as_asked)
{
    static const char *const ways[] = {"prepared", "each-run"};
    struct result r;
    write_text("kept.qn", "program kept(N)\ninput x : f32[N]\nweight w : f32[N, N]\n"
                          "output y = x * sum(w, axis = 0)\n");
    for (int i = 0; i < 2; i++) {
        quern(&r, NULL, "run %s -D N=5 --random 1 --device host --check -v --weights %s",
              in_folder("kept.qn"), ways[i]);
        ck_assert_msg(r.status == 0, "%s", r.err);
        ck_assert_ptr_nonnull(strstr(r.out, "kernel kept_prepare_0_"));
        ck_assert_ptr_nonnull(strstr(r.out, i ? "prepared 0 bytes" : "prepared 256 bytes"));
        ck_assert_ptr_nonnull(strstr(r.out, "ok against the f64 reference"));
    }
}
END_TEST

START_TEST(what_is_missing_or_unknown_is_named)
{
    struct result r;
    const char *scale = in_folder("scale.qn"), *y = in_folder("y.npy");
    quern(&r, NULL, "run %s -D N=5 --device host", scale);
    ck_assert_int_eq(r.status, 1);
    ck_assert_ptr_nonnull(
        strstr(r.err, "no data for x w; give --in NAME=FILE.npy, or --random SEED"));
    quern(&r, NULL, "run %s -D N=5 --random 1 --device host --out z=%s", scale, y);
    ck_assert_int_eq(r.status, 1);
    ck_assert_ptr_nonnull(strstr(r.err, "the program has no output z"));
    quern(&r, NULL, "run %s --in x=%s --device host", scale, scale);
    ck_assert_int_eq(r.status, 1);
    ck_assert_ptr_nonnull(strstr(r.err, "scale.qn is not an .npy file"));
}
END_TEST

START_TEST(a_file_of_another_dtype_or_shape_names_both)
{
    struct result r;
    const char *other = in_folder("other.qn"), *y = in_folder("y.npy");
    write_text("other.qn", "program other(N)\ninput x : f16[N]\noutput y = x + x\n");
    quern(&r, NULL, "run %s -D N=5 --random 1 --device host --out y=%s", in_folder("scale.qn"), y);
    ck_assert_msg(r.status == 0, "%s", r.err);
    quern(&r, NULL, "run %s --in x=%s --device host", other, y);
    ck_assert_int_eq(r.status, 1);
    ck_assert_ptr_nonnull(strstr(r.err, "y.npy is f32[5] and input x is f16[5]"));
}
END_TEST

START_TEST(random_data_depends_on_the_seed_alone)
{
    struct result r;
    const char *scale = in_folder("scale.qn");
    size_t n[3];
    char *bytes[3];
    for (int i = 0; i < 3; i++) {
        quern(&r, NULL, "run %s -D N=5 --random %d --device host --out y=%s", scale, i == 2 ? 8 : 7,
              in_folder("y.npy"));
        ck_assert_msg(r.status == 0, "%s", r.err);
        bytes[i] = contents(in_folder("y.npy"), &n[i]);
        ck_assert_uint_eq(n[i], 128 + 20);
    }
    ck_assert_mem_eq(bytes[0], bytes[1], 148);
    ck_assert_mem_ne(bytes[0], bytes[2], 148);
    for (int i = 0; i < 3; i++)
        free(bytes[i]);
}
END_TEST

START_TEST(expect_finds_one_wrong_element)
{
    struct result r;
    const char *scale = in_folder("scale.qn"), *y = in_folder("y.npy");
    quern(&r, NULL, "run %s -D N=5 --random 1 --device host --out y=%s", scale, y);
    ck_assert_msg(r.status == 0, "%s", r.err);
    quern(&r, NULL, "run %s -D N=5 --random 1 --device host --expect y=%s", scale, y);
    ck_assert_msg(r.status == 0, "%s", r.err);
    FILE *file = fopen(y, "r+b");
    fseek(file, 128 + 3 * 4, SEEK_SET);
    fwrite(&(float){1e3f}, 4, 1, file);
    fclose(file);
    quern(&r, NULL, "run %s -D N=5 --random 1 --device host --expect y=%s", scale, y);
    ck_assert_int_eq(r.status, 1);
    ck_assert_ptr_nonnull(strstr(r.out, "WRONG against "));
    ck_assert_ptr_nonnull(strstr(r.out, "worst at [3]: "));
    ck_assert_ptr_nonnull(strstr(r.out, "expected 1000, "));
}
END_TEST

START_TEST(json_alone_is_on_standard_output)
{
    struct result r;
    quern(&r, NULL, "run %s -D N=5 --random 1 --device host --check --json", in_folder("scale.qn"));
    ck_assert_msg(r.status == 0, "%s", r.err);
    json_t *root = json_loads(r.out, 0, NULL), *outputs;
    const char *program, *device, *arch, *name, *dtype;
    int ok, output_ok, dim;
    double absolute, relative, tolerance;
    ck_assert_int_eq(json_unpack(root, "{s:s, s:s, s:s, s:b, s:o !}", "program", &program, "device",
                                 &device, "arch", &arch, "ok", &ok, "outputs", &outputs),
                     0);
    ck_assert_str_eq(program, "scale");
    ck_assert_str_eq(device, "host");
    ck_assert_int_eq(ok, 1);
    ck_assert_int_eq(json_unpack(outputs, "[{s:s, s:s, s:[i], s:F, s:F, s:F, s:b !}]", "name",
                                 &name, "dtype", &dtype, "shape", &dim, "max_abs_error", &absolute,
                                 "max_rel_error", &relative, "tolerance", &tolerance, "ok",
                                 &output_ok),
                     0);
    ck_assert_str_eq(name, "y");
    ck_assert_str_eq(dtype, "f32");
    ck_assert_int_eq(dim, 5);
    ck_assert(absolute >= 0 && absolute <= 1e-5 && tolerance > 0);
    json_decref(root);
}
END_TEST

START_TEST(run_works_at_every_alignment)
{
    struct result r;
    static const int alignments[] = {1, 4, 8, 16, 128, 256};
    quern(&r, NULL, "run %s -D N=64 --random 1 --device host --check --alignment %d",
          in_folder("scale.qn"), alignments[_i]);
    ck_assert_msg(r.status == 0, "%s%s", r.err, r.out);
}
END_TEST

// ---- the examples ----

static const struct {
    const char *file, *sizes;
} examples[] = {
    {"quant_linear.qn",     "-D B=2 -D T=3 -D D=24"             },
    {"linear_mean_gelu.qn", "-D B=5 -D I=12 -D O=7"             },
    {"softmax.qn",          "-D R=3 -D N=37"                    },
    {"layer_norm.qn",       "-D R=3 -D N=37"                    },
    {"rms_norm.qn",         "-D R=3 -D N=37"                    },
    {"mlp.qn",              "-D B=3 -D D=12 -D H=20"            },
    {"attention_scores.qn", "-D B=1 -D H=2 -D T=5 -D S=7 -D D=8"},
    {"column_stats.qn",     "-D R=33 -D N=9"                    },
};

START_TEST(every_example_is_right)
{
    struct result r;
    quern(&r, NULL, "run %s %s --random 1 --check --device host", example(examples[_i].file),
          examples[_i].sizes);
    ck_assert_msg(r.status == 0, "%s%s", r.err, r.out);
    ck_assert_ptr_nonnull(strstr(r.out, "ok against the f64 reference"));
}
END_TEST

// The example of a host program: the library alone, without the command.
START_TEST(the_host_program_is_right)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "%s >/dev/null 2>&1", beside("quant_linear"));
    ck_assert_int_eq(system(command), 0);
}
END_TEST

Suite *run_suite(void)
{
    Suite *s = suite_create("run");
    TCase *runs = tcase_create("runs");
    tcase_set_timeout(runs, 120);
    tcase_add_unchecked_fixture(runs, make_folder, remove_folder);
    tcase_add_test(runs, a_wrong_program_is_shown_with_its_place);
    tcase_add_test(runs, sizes_come_from_options_and_files_and_must_agree);
    tcase_add_test(runs, weights_are_prepared_or_not_as_asked);
    tcase_add_test(runs, what_is_missing_or_unknown_is_named);
    tcase_add_test(runs, a_file_of_another_dtype_or_shape_names_both);
    tcase_add_test(runs, random_data_depends_on_the_seed_alone);
    tcase_add_test(runs, expect_finds_one_wrong_element);
    tcase_add_test(runs, json_alone_is_on_standard_output);
    tcase_add_loop_test(runs, run_works_at_every_alignment, 0, 6);
    tcase_add_loop_test(runs, every_example_is_right, 0, sizeof examples / sizeof *examples);
    tcase_add_test(runs, the_host_program_is_right);
    suite_add_tcase(s, runs);
    return s;
}
