// test_trust.c: whose folders and entries the cache believes, and what it does without.

#include "tests/caching.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

START_TEST(an_entry_that_others_can_write_is_not_used)
{
    struct recipe r = recipe("a");
    hits_afresh(r);
    ck_assert_int_eq(chmod(entry_path(&r), 0666), 0);
    expect_rebuilt(r, "mode 666", 0);
    char elsewhere[256];
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
    ck_assert_int_eq(rename(entry_path(&r), elsewhere), 0);
    ck_assert_int_eq(symlink(elsewhere, entry_path(&r)), 0);
    expect_rebuilt(r, "a symbolic link", 0);
}
END_TEST

static const mode_t umasks[] = {0, 022, 077, 0777};

START_TEST(modes_do_not_depend_on_the_umask)
{
    struct recipe r = recipe("a");
    struct stat s;
    ck_assert_int_eq(mkdir(above(), 0755), 0);
    umask(umasks[_i]);
    hits_afresh(r);
    umask(022);
    ck_assert_int_eq(stat(dir, &s), 0);
    ck_assert_uint_eq(s.st_mode & 0777, 0700);
    DIR *d = opendir(dir);
    for (const struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        ck_assert_int_eq(fstatat(dirfd(d), e->d_name, &s, 0), 0);
        ck_assert_msg((s.st_mode & 0777) == 0600, "%s has mode %o", e->d_name, s.st_mode & 0777);
    }
    closedir(d);
    ck_assert(hits_afresh(r));
}
END_TEST

// Runs without a cache, twice in one context, and says so once.
static void expect_distrust(const char *why)
{
    quern *q = context(NULL);
    ck_assert(!hits(q, recipe("a")));
    ck_assert(!hits(q, recipe("a")));
    quern_close(q);
    ck_assert_int_eq(notes.n, 1);
    ck_assert_msg(strstr(notes.last, why) && strstr(notes.last, dir), "%s", notes.last);
}

START_TEST(a_folder_that_others_can_write_is_not_trusted)
{
    hits_afresh(recipe("a"));
    ck_assert_int_eq(chmod(dir, 0777), 0);
    expect_distrust("writable by others");
}
END_TEST

START_TEST(a_folder_of_another_user_is_not_trusted)
{
    if (geteuid())
        return; // needs chown
    hits_afresh(recipe("a"));
    ck_assert_int_eq(chown(dir, NOBODY, NOBODY), 0);
    expect_distrust("another user");
}
END_TEST

START_TEST(a_link_to_another_user_s_folder_is_not_trusted)
{
    char theirs[256];
    if (geteuid())
        return;
    snprintf(theirs, sizeof theirs, "%s/theirs", folder);
    ck_assert_int_eq(mkdir(theirs, 0700), 0);
    ck_assert_int_eq(chown(theirs, NOBODY, NOBODY), 0);
    ck_assert_int_eq(mkdir(above(), 0755), 0);
    ck_assert_int_eq(symlink(theirs, dir), 0);
    expect_distrust("another user");
}
END_TEST

START_TEST(an_entry_of_another_user_is_not_used)
{
    struct recipe r = recipe("a");
    if (geteuid())
        return;
    hits_afresh(r);
    ck_assert_int_eq(chown(entry_path(&r), NOBODY, NOBODY), 0);
    expect_rebuilt(r, "another user's entry", 0);
}
END_TEST

START_TEST(a_folder_that_cannot_be_made_is_done_without)
{
    strcpy(dir, "/proc/quern/cache");
    quern *q = context(NULL);
    ck_assert(!hits(q, recipe("a")));
    ck_assert(!hits(q, recipe("b")));
    quern_close(q);
    ck_assert_int_eq(notes.n, 1);
}
END_TEST

// As a plain user, whom modes bind.
static int use_read_only_folder(void)
{
    if (!geteuid() && (setgid(NOBODY) || setuid(NOBODY)))
        return 1;
    hits_afresh(recipe("a"));
    if (chmod(dir, 0500))
        return 2;
    quern *q = context(NULL);
    bool right = hits(q, recipe("a")) && !hits(q, recipe("b")) && !hits(q, recipe("c"));
    quern_close(q);
    return !right ? 3 : notes.n != 1 ? 4 : chmod(dir, 0700) ? 5 : 0;
}

START_TEST(a_read_only_folder_still_hits_and_says_once_that_it_cannot_write)
{
    int status;
    ck_assert_int_eq(mkdir(above(), 0777), 0);
    ck_assert_int_eq(chmod(above(), 0777), 0);
    pid_t child = fork();
    if (!child)
        _exit(use_read_only_folder());
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_full_disk_is_done_without)
{
    char long_source[4096];
    memset(long_source, 'x', sizeof long_source - 1);
    long_source[sizeof long_source - 1] = '\0';
    signal(SIGXFSZ, SIG_IGN);
    quern *q = context(NULL);
    ck_assert(!hits(q, recipe("a")));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000}), 0);
    ck_assert(!hits(q, recipe(long_source)));
    ck_assert(!hits(q, recipe(long_source)));
    ck_assert(hits(q, recipe("a")));
    quern_close(q);
    ck_assert_int_eq(notes.n, 1);
    ck_assert_int_eq(count_files("tmp."), 0);
}
END_TEST

START_TEST(a_folder_removed_meanwhile_is_done_without)
{
    char command[256];
    quern *q = context(NULL);
    ck_assert(!hits(q, recipe("a")));
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert(!hits(q, recipe("a")));
    quern_close(q);
}
END_TEST

Suite *trust_suite(void)
{
    Suite *suite = suite_create("trust");
    TCase *t = tcase_create("trust");
    tcase_add_checked_fixture(t, caching_set_up, caching_tear_down);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, an_entry_that_others_can_write_is_not_used);
    tcase_add_loop_test(t, modes_do_not_depend_on_the_umask, 0, sizeof umasks / sizeof *umasks);
    tcase_add_test(t, a_folder_that_others_can_write_is_not_trusted);
    tcase_add_test(t, a_folder_of_another_user_is_not_trusted);
    tcase_add_test(t, a_link_to_another_user_s_folder_is_not_trusted);
    tcase_add_test(t, an_entry_of_another_user_is_not_used);
    tcase_add_test(t, a_folder_that_cannot_be_made_is_done_without);
    tcase_add_test(t, a_read_only_folder_still_hits_and_says_once_that_it_cannot_write);
    tcase_add_test(t, a_full_disk_is_done_without);
    tcase_add_test(t, a_folder_removed_meanwhile_is_done_without);
    suite_add_tcase(suite, t);
    return suite;
}
