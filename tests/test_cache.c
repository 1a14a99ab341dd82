// test_cache.c: the cache on disk: keys, damage, bounds, what is listed.

#include "tests/caching.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

START_TEST(what_was_made_once_is_found_by_another_context)
{
    ck_assert(!hits_afresh(recipe("a")));
    ck_assert(hits_afresh(recipe("a")));
    ck_assert(!hits_afresh(recipe("b")));
    ck_assert_int_eq(n_made, 2);
    ck_assert_int_eq(notes.n, 0);
}
END_TEST

static const char *const other_options[] = {"--std=c++17", "-default-device", "--fmad=false"};
static const char *const joined_options[] = {"--std=c++17-default-device"};
static const char *const swapped_options[] = {"-default-device", "--std=c++17"};

START_TEST(whatever_changes_the_result_changes_the_key)
{
    struct recipe r[] = {recipe("const float c = 0x1.99999ap-4f;"),
                         recipe("const float c = 0x1.99999cp-4f;"),
                         recipe("x"),
                         recipe("x"),
                         recipe("x"),
                         recipe("x"),
                         recipe("x"),
                         recipe("x"),
                         recipe("x"),
                         recipe("x ")};
    r[3].arch = "sm_90";
    r[4].compiler = "nvrtc 12.9";
    r[5].options = other_options;
    r[5].n_options = 3;
    r[6].options = joined_options;
    r[6].n_options = 1;
    r[7].options = swapped_options;
    r[8].extension = "so";
    enum { N = sizeof r / sizeof *r };
    for (int i = 0; i < N; i++)
        ck_assert_msg(!hits_afresh(r[i]), "recipe %d hits another's entry", i);
    for (int i = 0; i < N; i++)
        ck_assert_msg(hits_afresh(r[i]), "recipe %d is not found again", i);
    ck_assert_int_eq(n_made, N);
}
END_TEST

START_TEST(the_key_is_the_same_for_any_folder_and_user)
{
    struct recipe r = recipe("a"), named = recipe("a");
    named.build_command = "quern emit other/place.qn";
    ck_assert_str_eq(recipe_key(&r).hex, recipe_key(&named).hex);
    hits_afresh(r);
    char moved[256];
    snprintf(moved, sizeof moved, "%s/moved", folder);
    ck_assert_int_eq(rename(dir, moved), 0);
    strcpy(dir, moved);
    ck_assert(hits_afresh(r));
}
END_TEST

START_TEST(a_hit_leaves_the_entry_s_times_alone)
{
    struct recipe r = recipe("a");
    struct stat before, after;
    hits_afresh(r);
    ck_assert_int_eq(stat(entry_path(&r), &before), 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    ck_assert(hits_afresh(r));
    ck_assert_int_eq(stat(entry_path(&r), &after), 0);
    ck_assert_int_eq(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
    ck_assert_int_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}
END_TEST

START_TEST(every_altered_byte_is_noticed)
{
    struct recipe r = recipe("some source");
    struct stat s;
    hits_afresh(r);
    ck_assert_int_eq(stat(entry_path(&r), &s), 0);
    for (off_t at = 0; at < s.st_size; at++) {
        flip_byte(entry_path(&r), at);
        expect_rebuilt(r, "a changed byte", at);
    }
}
END_TEST

START_TEST(every_truncation_is_noticed)
{
    struct recipe r = recipe("some source");
    struct stat s;
    hits_afresh(r);
    ck_assert_int_eq(stat(entry_path(&r), &s), 0);
    for (off_t n = 0; n < s.st_size; n++) {
        ck_assert_int_eq(truncate(entry_path(&r), n), 0);
        expect_rebuilt(r, "a cut", n);
    }
}
END_TEST

START_TEST(another_kernel_s_entry_under_the_name_is_not_used)
{
    struct recipe a = recipe("a"), b = recipe("b");
    char theirs[512];
    hits_afresh(a);
    hits_afresh(b);
    strcpy(theirs, entry_path(&b));
    ck_assert_int_eq(rename(theirs, entry_path(&a)), 0);
    expect_rebuilt(a, "a planted entry", 0);
}
END_TEST

START_TEST(the_least_recently_used_leaves_when_the_bound_is_reached)
{
    enum { BOUND = 100000, BIG = 4000 };
    char source[BIG + 1];
    quern *q = context(&(quern_options){.cache_bytes = BOUND});
    memset(source, 'x', BIG);
    source[BIG] = '\0';
    ck_assert(!hits(q, recipe("kept in use")));
    for (int i = 0; i < 60; i++) {
        memcpy(source, (char[]){(char)('0' + i / 10), (char)('0' + i % 10)}, 2);
        ck_assert(!hits(q, recipe(source)));
        ck_assert(hits(q, recipe("kept in use")));
        ck_assert_int_le(folder_bytes(), BOUND);
    }
    ck_assert(hits(q, recipe(source)));
    ck_assert_int_ge(folder_bytes(), BOUND / 2);
    memcpy(source, "00", 2);
    ck_assert(!hits(q, recipe(source)));
    quern_close(q);
}
END_TEST

START_TEST(what_a_killed_writer_left_is_swept)
{
    char path[256];
    hits_afresh(recipe("a"));
    snprintf(path, sizeof path, "%s/tmp.0123456789abcdef", dir);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(utimensat(AT_FDCWD, path,
                               (struct timespec[]){
                                   {1, 0},
                                   {1, 0}
    },
                               0),
                     0);
    hits_afresh(recipe("b"));
    ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

START_TEST(offline_a_miss_names_the_kernel_and_the_command)
{
    struct recipe r = recipe("a");
    struct code code;
    quern *q = context(&(quern_options){.offline = 1});
    ck_assert_int_eq(cache_get(q, find_cache(q), &r, &code), QUERN_MISSING);
    ck_assert_ptr_nonnull(strstr(quern_message(q), "relu_map_0"));
    ck_assert_ptr_nonnull(strstr(quern_message(q), "quern emit relu.qn --arch sm_90a"));
    ck_assert_int_eq(n_made, 0);
    hits_afresh(r);
    ck_assert(hits(q, r));
    quern_close(q);
}
END_TEST

static quern_status fail_to_make(void *state, struct code *out)
{
    (void)out;
    return report(state, QUERN_INTERNAL, "it does not compile");
}

START_TEST(a_failed_compile_is_not_remembered)
{
    struct recipe r = recipe("a");
    struct code code;
    quern *q = context(NULL);
    r.make = fail_to_make;
    r.state = q;
    ck_assert_int_eq(cache_get(q, find_cache(q), &r, &code), QUERN_INTERNAL);
    ck_assert_str_eq(quern_message(q), "it does not compile");
    ck_assert(!hits(q, recipe("a")));
    ck_assert(hits(q, recipe("a")));
    quern_close(q);
}
END_TEST

struct listed {
    int n, n_valid;
    char name[64], arch[16];
    int64_t used;
};

static void list_one(void *user, const quern_cache_entry *entry)
{
    struct listed *l = user;
    l->n++;
    l->n_valid += entry->valid;
    l->used = entry->used;
    ck_assert_uint_eq(strlen(entry->key), 64);
    if (!entry->valid)
        return;
    snprintf(l->name, sizeof l->name, "%s", entry->name);
    snprintf(l->arch, sizeof l->arch, "%s", entry->arch);
}

START_TEST(entries_are_listed_verified_and_pruned)
{
    struct recipe a = recipe("a"), b = recipe("b");
    struct stat s;
    int gone = -1;
    quern *q = context(NULL);
    hits(q, a);
    hits(q, b);
    struct listed l = {0};
    ck_assert_int_eq(quern_cache_list(q, list_one, &l, 1), QUERN_OK);
    ck_assert(l.n == 2 && l.n_valid == 2);
    ck_assert_str_eq(l.name, "relu_map_0");
    ck_assert_str_eq(l.arch, "sm_90a");
    ck_assert_int_le(llabs(l.used - time(NULL)), 60);

    ck_assert_int_eq(stat(entry_path(&a), &s), 0);
    flip_byte(entry_path(&a), s.st_size - 1);
    l = (struct listed){0};
    ck_assert_int_eq(quern_cache_list(q, list_one, &l, 1), QUERN_OK);
    ck_assert(l.n == 2 && l.n_valid == 1);

    ck_assert_int_eq(quern_cache_prune(q, 1 << 20, &gone), QUERN_OK);
    ck_assert_int_eq(gone, 0);
    ck_assert_int_eq(quern_cache_prune(q, folder_bytes() - 1, &gone), QUERN_OK);
    ck_assert_int_eq(gone, 1);
    ck_assert_int_eq(access(entry_path(&a), F_OK), -1); // the one used longer ago
    ck_assert_int_eq(quern_cache_prune(q, 0, &gone), QUERN_OK);
    ck_assert_int_eq(gone, 1);
    ck_assert_int_eq(folder_bytes(), 0);
    quern_close(q);
}
END_TEST

START_TEST(a_context_without_a_cache_lists_nothing)
{
    quern *q;
    ck_assert_int_eq(quern_open(&q, &(quern_options){.device = QUERN_DEVICE_NONE}), QUERN_OK);
    ck_assert(!hits(q, recipe("a")));
    ck_assert(!hits(q, recipe("a")));
    ck_assert_int_eq(quern_cache_list(q, list_one, NULL, 0), QUERN_USAGE);
    ck_assert_int_eq(quern_cache_prune(q, 0, NULL), QUERN_USAGE);
    quern_close(q);
}
END_TEST

START_TEST(the_usual_folder_follows_the_environment)
{
    char path[64];
    setenv("QUERN_CACHE_DIR", "/q", 1);
    setenv("XDG_CACHE_HOME", "/x", 1);
    setenv("HOME", "/h", 1);
    ck_assert_int_eq(quern_default_cache_dir(path, sizeof path), 1);
    ck_assert_str_eq(path, "/q");
    unsetenv("QUERN_CACHE_DIR");
    ck_assert_int_eq(quern_default_cache_dir(path, sizeof path), 1);
    ck_assert_str_eq(path, "/x/quern");
    setenv("XDG_CACHE_HOME", "relative", 1);
    ck_assert_int_eq(quern_default_cache_dir(path, sizeof path), 1);
    ck_assert_str_eq(path, "/h/.cache/quern");
    ck_assert_int_eq(quern_default_cache_dir(path, 5), 0);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    ck_assert_int_eq(quern_default_cache_dir(path, sizeof path), 0);
}
END_TEST

Suite *cache_suite(void)
{
    Suite *suite = suite_create("cache");
    TCase *t = tcase_create("cache");
    tcase_add_checked_fixture(t, caching_set_up, caching_tear_down);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, what_was_made_once_is_found_by_another_context);
    tcase_add_test(t, whatever_changes_the_result_changes_the_key);
    tcase_add_test(t, the_key_is_the_same_for_any_folder_and_user);
    tcase_add_test(t, a_hit_leaves_the_entry_s_times_alone);
    tcase_add_test(t, every_altered_byte_is_noticed);
    tcase_add_test(t, every_truncation_is_noticed);
    tcase_add_test(t, another_kernel_s_entry_under_the_name_is_not_used);
    tcase_add_test(t, the_least_recently_used_leaves_when_the_bound_is_reached);
    tcase_add_test(t, what_a_killed_writer_left_is_swept);
    tcase_add_test(t, offline_a_miss_names_the_kernel_and_the_command);
    tcase_add_test(t, a_failed_compile_is_not_remembered);
    tcase_add_test(t, entries_are_listed_verified_and_pruned);
    tcase_add_test(t, a_context_without_a_cache_lists_nothing);
    tcase_add_test(t, the_usual_folder_follows_the_environment);
    suite_add_tcase(suite, t);
    return suite;
}
