// test_wisdom.c: what tuning found is found again where everything is the same, and nowhere else;
// what is wrong with a file of it is noted and does no harm.

#include "runtime/store.h"
#include "runtime/wisdom.h"
#include "tests/planning.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 1000 };

static const quern_plan_options listed = {.candidates = 1, .no_wisdom = 1},
                                by_model = {.no_wisdom = 1};

// The spec of add_one's only kernel, in the plan's memory.
static const char *spec_of(const quern_plan *plan)
{
    quern_kernel kernel;
    ck_assert_int_eq(quern_plan_kernel(plan, 0, &kernel), QUERN_OK);
    return kernel.spec;
}

static quern_plan *plan_as(quern *q, const quern_plan_options *options, int64_t n)
{
    return planned(q, add_one, options, &(quern_size){"N", n}, 1);
}

// Keeps, as if it had been measured, that add_one is fastest with its candidate of that number.
static char *keep_candidate(quern *q, int number, double tuned_us)
{
    quern_plan *plan = plan_as(q, &listed, N);
    struct chosen_spec choice = {plan->program.kernels[0].name, NULL};
    double us;
    ck_assert_int_eq(quern_plan_candidate(plan, 0, number, &choice.spec, &us), QUERN_OK);
    ck_assert(wisdom_keep(plan, &choice, 1, 9, tuned_us));
    char *spec = strdup(choice.spec);
    quern_destroy_plan(plan);
    return spec;
}

// Whether a plan of a new context has that spec.
static bool takes(const char *spec, const quern_plan_options *options, int64_t n)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    quern_plan *plan = plan_as(q, options, n);
    bool same = !strcmp(spec_of(plan), spec);
    ck_assert_int_eq(plan->by_wisdom, same);
    quern_destroy_plan(plan);
    quern_close(q);
    return same;
}

// The path of the only file of wisdom there is.
static const char *wisdom_path(const quern *q)
{
    static char path[PATH_MAX];
    int n = 0;
    DIR *dir = opendir(q->cache_dir);
    for (const struct dirent *d; (d = readdir(dir));)
        if (!strncmp(d->d_name, "wisdom-", 7))
            n++, snprintf(path, sizeof path, "%s/%s", q->cache_dir, d->d_name);
        else
            ck_assert(strncmp(d->d_name, "tmp.", 4));
    closedir(dir);
    ck_assert_int_eq(n, 1);
    return path;
}

START_TEST(what_was_found_is_used_where_all_is_the_same)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    char *spec = keep_candidate(q, 1, 1);
    struct stat s;
    ck_assert(!stat(wisdom_path(q), &s));
    ck_assert_int_eq(s.st_mode & 0777, 0600);
    noted.n = 0;
    ck_assert(takes(spec, NULL, N));
    ck_assert(!takes(spec, &by_model, N));
    ck_assert(!takes(spec, NULL, N + 4));
    ck_assert(!takes(spec, &(quern_plan_options){.math = QUERN_MATH_STRICT}, N));
    ck_assert(!takes(spec, &(quern_plan_options){.each_run = 1}, N));
    ck_assert(!takes(spec, &(quern_plan_options){.alignment = 32}, N));
    ck_assert(!takes(spec, &(quern_plan_options){.arch = "sm_80"}, N));
    ck_assert_int_eq(noted.n, 0);

    quern_plan *plan = plan_as(q, NULL, N);
    ck_assert_ptr_nonnull(strstr(quern_plan_explain(plan, 0), "specs by wisdom"));
    ck_assert_ptr_nonnull(strstr(quern_plan_explain(plan, 1), "\"wisdom\": true"));
    quern_destroy_plan(plan);
    quern *none = open_on(QUERN_DEVICE_NONE, 0); // as emit
    plan = plan_as(none, &(quern_plan_options){.no_load = 1}, N);
    ck_assert_str_ne(spec_of(plan), spec);
    quern_destroy_plan(plan);
    quern_close(none);
    quern_close(q);
    free(spec);
}
END_TEST

START_TEST(given_specs_come_before_wisdom)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    char *spec = keep_candidate(q, 1, 1);
    quern_plan *plan = plan_as(q, &by_model, N);
    char *own = strdup(spec_of(plan));
    quern_destroy_plan(plan);
    quern_spec given = {"add_one_0_map", own};
    plan = plan_as(q, &(quern_plan_options){.specs = &given, .n_specs = 1}, N);
    ck_assert_str_eq(spec_of(plan), own);
    quern_destroy_plan(plan);
    quern_close(q);
    free(own);
    free(spec);
}
END_TEST

START_TEST(a_new_record_takes_the_place_of_the_old_one_whole)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    char *first = keep_candidate(q, 1, 1);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", wisdom_path(q));
    int reader = open(path, O_RDONLY);
    struct stat before, after;
    ck_assert(!fstat(reader, &before));
    char *second = keep_candidate(q, 2, 1);
    ck_assert_str_eq(wisdom_path(q), path);
    ck_assert(!stat(path, &after));
    ck_assert(before.st_ino != after.st_ino);
    ck_assert(takes(second, NULL, N));
    char byte;
    ck_assert_int_eq(pread(reader, &byte, 1, before.st_size - 1), 1); // still whole for its reader
    close(reader);
    quern_close(q);
    free(first);
    free(second);
}
END_TEST

// ---- what is wrong with a file ----

static void overwrite(const char *path, const char *text, size_t n)
{
    FILE *out = fopen(path, "wb");
    ck_assert_uint_eq(fwrite(text, 1, n, out), n);
    fclose(out);
}

static char *whole(const char *path, size_t *n)
{
    FILE *in = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    *n = fread(text, 1, 1 << 16, in);
    fclose(in);
    return text;
}

// Another value for a key of the record; NULL: none.
static void change(const char *path, const char *key, json_t *value)
{
    json_t *record = json_load_file(path, 0, NULL);
    if (value)
        json_object_set_new(record, key, value);
    else
        json_object_del(record, key);
    ck_assert(!json_dump_file(record, path, 0));
    json_decref(record);
}

static const struct {
    const char *key, *value; // value NULL: the key is gone
    const char *said;
} changes[] = {
    {"driver",   "12.9",     "another driver"},
    {"nvrtc",    "11.8",     "another nvrtc" },
    {"quern",    "0.0.1",    "another quern" },
    {"code",     "0123",     "another code"  },
    {"gpu",      "Tesla T4", "another gpu"   },
    {"kernels",  "none",     "damaged"       },
    {"sms",      "132",      "damaged"       },
    {"code",     NULL,       "damaged"       },
    {"tuned_us", NULL,       "damaged"       },
    {"format",   NULL,       "damaged"       },
};

START_TEST(a_record_of_something_else_is_noted_and_not_used)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    char *spec = keep_candidate(q, 1, 1);
    change(wisdom_path(q), changes[_i].key,
           changes[_i].value ? json_string(changes[_i].value) : NULL);
    noted.n = 0;
    ck_assert(!takes(spec, NULL, N));
    ck_assert_int_eq(noted.n, 1);
    ck_assert_msg(strstr(noted.last, changes[_i].said), "%s", noted.last);
    ck_assert(!takes(spec, &by_model, N));
    ck_assert_int_eq(noted.n, 1);
    quern_close(q);
    free(spec);
}
END_TEST

START_TEST(a_file_that_is_no_record_is_noted_and_not_used)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    char *spec = keep_candidate(q, 1, 1);
    const char *path = wisdom_path(q);
    size_t n;
    char *text = whole(path, &n);
    for (size_t cut = 0; cut < n; cut += n / 5) {
        overwrite(path, text, cut);
        noted.n = 0;
        ck_assert(!takes(spec, NULL, N));
        ck_assert_int_eq(noted.n, 1);
    }
    overwrite(path, text, n);
    ck_assert(takes(spec, NULL, N));
    chmod(path, 0666);
    ck_assert(!takes(spec, NULL, N));
    ck_assert_ptr_nonnull(strstr(noted.last, "writable by others"));
    char elsewhere[PATH_MAX];
    snprintf(elsewhere, sizeof elsewhere, "%s.elsewhere", path);
    chmod(path, 0600);
    ck_assert(!rename(path, elsewhere));
    ck_assert(!symlink(elsewhere, path));
    ck_assert(!takes(spec, NULL, N));
    ck_assert_ptr_nonnull(strstr(noted.last, "a symbolic link"));
    free(text);
    free(spec);
    quern_close(q);
}
END_TEST

START_TEST(a_spec_that_no_longer_is_a_candidate_is_noted)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    char *spec = keep_candidate(q, 1, 1);
    change(wisdom_path(q), "kernels",
           json_pack("[{s:s, s:s}]", "name", "add_one_0_map", "spec", "vec=3"));
    noted.n = 0;
    quern_plan *plan = plan_as(q, NULL, N), *own = plan_as(q, &by_model, N);
    ck_assert_str_eq(spec_of(plan), spec_of(own));
    ck_assert_int_eq(noted.n, 1);
    ck_assert_ptr_nonnull(strstr(noted.last, "cannot have the spec `vec=3`"));
    quern_destroy_plan(own);
    quern_destroy_plan(plan);
    quern_close(q);
    free(spec);
}
END_TEST

// ---- in and out ----

START_TEST(what_is_exported_can_be_imported_merged_and_forgotten)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    char *slow = keep_candidate(q, 1, 5), *slow_text, *fast_text;
    ck_assert_int_eq(quern_wisdom_export(q, &slow_text), QUERN_OK);
    char *fast = keep_candidate(q, 2, 2);
    ck_assert_int_eq(quern_wisdom_export(q, &fast_text), QUERN_OK);
    int n;
    ck_assert_int_eq(quern_wisdom_import(q, slow_text, 1, &n), QUERN_OK);
    ck_assert_int_eq(n, 0); // what is here is faster
    ck_assert(takes(fast, NULL, N));
    ck_assert_int_eq(quern_wisdom_import(q, slow_text, 0, &n), QUERN_OK);
    ck_assert_int_eq(n, 1);
    ck_assert(takes(slow, NULL, N));
    ck_assert_int_eq(quern_wisdom_import(q, fast_text, 1, &n), QUERN_OK);
    ck_assert_int_eq(n, 1);
    ck_assert(takes(fast, NULL, N));

    ck_assert_int_eq(quern_wisdom_forget(q, "add_two", &n), QUERN_OK);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(quern_wisdom_forget(q, "add_one", &n), QUERN_OK);
    ck_assert_int_eq(n, 1);
    ck_assert(!takes(fast, NULL, N));
    ck_assert_int_eq(quern_wisdom_import(q, fast_text, 0, NULL), QUERN_OK);
    ck_assert(takes(fast, NULL, N));
    overwrite(wisdom_path(q), "{", 1);
    ck_assert_int_eq(quern_wisdom_forget(q, NULL, &n), QUERN_OK);
    ck_assert_int_eq(n, 1);
    free(slow), free(fast), free(slow_text), free(fast_text);
    quern_close(q);
}
END_TEST

START_TEST(what_is_no_export_is_refused_whole)
{
    static const char *const wrong[] = {"", "[]", "{}", "{\"wisdom\": 3}", "{\"wisdom\": [{}]}"};
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    char *spec = keep_candidate(q, 1, 1), *text;
    ck_assert_int_eq(quern_wisdom_export(q, &text), QUERN_OK);
    ck_assert_int_eq(quern_wisdom_forget(q, NULL, NULL), QUERN_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(quern_wisdom_import(q, wrong[i], 0, NULL), QUERN_PROGRAM);
        expect_message(q, "no wisdom");
    }
    json_t *root = json_loads(text, 0, NULL);
    json_array_append_new(json_object_get(root, "wisdom"), json_object());
    char *half = json_dumps(root, 0);
    ck_assert_int_eq(quern_wisdom_import(q, half, 0, NULL), QUERN_PROGRAM);
    ck_assert(!takes(spec, NULL, N));
    ck_assert_int_eq(quern_wisdom_import(q, NULL, 0, NULL), QUERN_USAGE);
    quern *bare;
    ck_assert_int_eq(quern_open(&bare, &(quern_options){.device = QUERN_DEVICE_NONE}), QUERN_OK);
    ck_assert_int_eq(quern_wisdom_export(bare, &half), QUERN_USAGE);
    quern_close(bare);
    json_decref(root);
    free(text), free(half), free(spec);
    quern_close(q);
}
END_TEST

START_TEST(a_given_text_counts_whatever_machine_it_is_of)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    char *spec = keep_candidate(q, 1, 1), *text;
    change(wisdom_path(q), "driver", json_string("12.9"));
    change(wisdom_path(q), "gpu", json_string("NVIDIA H200"));
    change(wisdom_path(q), "sms", json_integer(132));
    ck_assert_int_eq(quern_wisdom_export(q, &text), QUERN_OK);
    ck_assert_int_eq(quern_wisdom_forget(q, NULL, NULL), QUERN_OK);
    ck_assert(!takes(spec, NULL, N));
    const quern_plan_options given = {.wisdom = text};
    ck_assert(takes(spec, &given, N));
    noted.n = 0;
    ck_assert(!takes(spec, &given, N + 4));
    ck_assert_int_eq(noted.n, 1);
    ck_assert(!takes(spec, &(quern_plan_options){.wisdom = "no JSON"}, N));
    ck_assert_int_eq(noted.n, 2);
    quern *none = open_on(QUERN_DEVICE_NONE, 0); // as emit --wisdom
    quern_plan *plan = plan_as(none, &(quern_plan_options){.no_load = 1, .wisdom = text}, N);
    ck_assert_str_eq(spec_of(plan), spec);
    quern_destroy_plan(plan);
    quern_close(none);
    free(text), free(spec);
    quern_close(q);
}
END_TEST

// ---- two at once ----

static void *keep_again(void *state)
{
    quern_plan *plan = state;
    const struct kernel *k = &plan->program.kernels[0];
    for (int i = 0; i < 200; i++) {
        struct chosen_spec choice = {k->name, k->candidates[i % k->n_candidates].spec};
        ck_assert(wisdom_keep(plan, &choice, 1, 2, 1));
    }
    return NULL;
}

START_TEST(two_writers_never_leave_a_torn_record)
{
    quern *q = open_on(QUERN_DEVICE_HOST, 0);
    pthread_t writers[2];
    quern_plan *plans[2];
    noted.n = 0;
    for (int i = 0; i < 2; i++)
        plans[i] = plan_as(q, &listed, N);
    for (int i = 0; i < 2; i++)
        pthread_create(&writers[i], NULL, keep_again, plans[i]);
    for (int i = 0; i < 100; i++) {
        struct wisdom w;
        wisdom_find(plans[0], NULL, &w);
        wisdom_free(&w);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(writers[i], NULL);
        quern_destroy_plan(plans[i]);
    }
    ck_assert_msg(noted.n == 0, "%s", noted.last);
    wisdom_path(q);
    quern_close(q);
}
END_TEST

Suite *wisdom_suite(void)
{
    Suite *s = suite_create("wisdom");
    TCase *t = tcase_create("wisdom");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, planning_set_up, planning_tear_down);
    tcase_add_test(t, what_was_found_is_used_where_all_is_the_same);
    tcase_add_test(t, given_specs_come_before_wisdom);
    tcase_add_test(t, a_new_record_takes_the_place_of_the_old_one_whole);
    tcase_add_loop_test(t, a_record_of_something_else_is_noted_and_not_used, 0,
                        sizeof changes / sizeof *changes);
    tcase_add_test(t, a_file_that_is_no_record_is_noted_and_not_used);
    tcase_add_test(t, a_spec_that_no_longer_is_a_candidate_is_noted);
    tcase_add_test(t, what_is_exported_can_be_imported_merged_and_forgotten);
    tcase_add_test(t, what_is_no_export_is_refused_whole);
    tcase_add_test(t, a_given_text_counts_whatever_machine_it_is_of);
    tcase_add_test(t, two_writers_never_leave_a_torn_record);
    suite_add_tcase(s, t);
    return s;
}
