// test_vectors.c: tensors that PyTorch made, through `quern run`: every output within the tolerance
// of the expected one, ties and zeros to the last bit.
//
// index.json says what each directory is.  All of them lie beside the repository; the small ones
// are kept in tests/vectors as well.

#include "tests/child.h"
#include "tests/tests.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *folder(void)
{
    return access("../shared/vectors/index.json", R_OK) ? "tests/vectors" : "../shared/vectors";
}

// NULL where there is none.  The caller's.
static json_t *read_index(void)
{
    char path[256];
    snprintf(path, sizeof path, "%s/index.json", folder());
    return json_load_file(path, 0, NULL);
}

static const struct {
    const char *begins, *file; // what the index says, and the program that is meant
} programs[] = {
    {"quant_linear",     "tools/examples/quant_linear.qn"    },
    {"linear_mean_gelu", "tools/examples/linear_mean_gelu.qn"},
    {"softmax, ",        "tests/programs/rows.qn"            },
    {"one program",      "tests/programs/activations.qn"     },
    {"matmul",           "tests/programs/matmul.qn"          },
};

static const char *program_of(const char *words)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (!strncmp(words, programs[i].begins, strlen(programs[i].begins)))
            return programs[i].file;
    ck_abort_msg("no program for vectors of `%s`", words);
    return NULL;
}

// One option for each tensor of the case.
static void add_files(FILE *out, const char *option, const char *prefix, const char *name,
                      json_t *tensors)
{
    const char *tensor;
    json_t *shape;
    json_object_foreach(tensors, tensor, shape)
        fprintf(out, " %s=%s=%s/%s/%s%s.npy", option, tensor, folder(), name, prefix, tensor);
}

static bool is_exact(const char *name)
{
    return !strcmp(name, "quant_linear_ties") || !strcmp(name, "quant_linear_zeros");
}

// The elements of an .npy file, behind its header.
static char *elements(const char *path, size_t *n)
{
    char *file = contents(path, n);
    size_t header = 10 + (unsigned char)file[8] + 256u * (unsigned char)file[9];
    ck_assert_uint_lt(header, *n);
    memmove(file, file + header, *n -= header);
    return file;
}

// y in f32 is the expected value in f64, rounded once.
static void expect_same_bits(const char *name)
{
    char path[256];
    size_t n_expected, n_got;
    snprintf(path, sizeof path, "%s/%s/expected_y.npy", folder(), name);
    char *expected = elements(path, &n_expected), *got = elements(in_folder("y.npy"), &n_got);
    ck_assert_uint_eq(n_expected, 2 * n_got);
    for (size_t i = 0; i < n_got / sizeof(float); i++) {
        double exact;
        memcpy(&exact, expected + 8 * i, sizeof exact);
        float right = (float)exact;
        ck_assert_msg(!memcmp(&right, got + 4 * i, sizeof right), "%s[%zu] is not %.9g", name, i,
                      (double)right);
    }
    free(expected);
    free(got);
}

START_TEST(vectors_are_met)
{
    struct result r;
    json_t *index = read_index(), *item = json_array_get(index, (size_t)_i);
    ck_assert_msg(item != NULL, "%s/index.json has no item %d; tests run in the root of the tree",
                  folder(), _i);
    const char *name = json_string_value(json_object_get(item, "case"));
    const char *device = getenv("QUERN_TEST_DEVICE");
    char *options;
    size_t n;
    FILE *out = open_memstream(&options, &n);
    add_files(out, "--in", "", name, json_object_get(item, "inputs"));
    add_files(out, "--expect", "expected_", name, json_object_get(item, "outputs"));
    if (is_exact(name))
        fprintf(out, " --out=y=%s", in_folder("y.npy"));
    fclose(out);
    quern(&r, NULL, "run %s --device %s%s",
          program_of(json_string_value(json_object_get(item, "program"))), device ? device : "host",
          options);
    ck_assert_msg(r.status == 0, "%s: %s%s", name, r.err, r.out);
    ck_assert_ptr_nonnull(strstr(r.out, "ok against"));
    if (is_exact(name))
        expect_same_bits(name);
    free(options);
    json_decref(index);
}
END_TEST

Suite *vectors_suite(void)
{
    Suite *suite = suite_create("vectors");
    TCase *t = tcase_create("vectors");
    json_t *index = read_index();
    int n = (int)json_array_size(index);
    json_decref(index);
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, make_folder, remove_folder);
    tcase_add_loop_test(t, vectors_are_met, 0, n ? n : 1);
    suite_add_tcase(suite, t);
    return suite;
}
