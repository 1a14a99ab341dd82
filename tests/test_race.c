// test_race.c: many processes and threads at one cache, and those that die or hang in it.

#include "tests/caching.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// One line a compile, in a file that processes share.
static quern_status make_slowly(void *state, struct code *out)
{
    char path[128];
    snprintf(path, sizeof path, "%s/made", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    ck_assert_int_eq(write(fd, "x", 1), 1);
    close(fd);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    return make(state, out);
}

static int64_t times_made(void)
{
    struct stat s;
    char path[128];
    snprintf(path, sizeof path, "%s/made", folder);
    return stat(path, &s) ? 0 : s.st_size;
}

enum { PROCESSES = 8, KEYS = 4 };

static void get_all(quern *q, int first)
{
    for (int i = 0; i < KEYS; i++) {
        char source[16];
        snprintf(source, sizeof source, "kernel %d", (first + i) % KEYS);
        struct recipe r = recipe(source);
        r.make = make_slowly;
        r.state = &r;
        hits(q, r);
    }
}

START_TEST(of_many_processes_on_an_empty_folder_one_compiles_each_kernel)
{
    int start[2], status;
    ck_assert_int_eq(pipe(start), 0);
    for (int p = 0; p < PROCESSES; p++) {
        if (fork())
            continue;
        char c;
        close(start[1]);
        if (read(start[0], &c, 1) < 0) // all at once, when the other end closes
            _exit(1);
        quern *q = context(NULL);
        get_all(q, p);
        quern_close(q);
        _exit(0);
    }
    close(start[1]);
    for (int p = 0; p < PROCESSES; p++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_eq(times_made(), KEYS);
    ck_assert_int_eq(count_files("tmp."), 0);
    quern *q = context(NULL);
    get_all(q, 0);
    quern_close(q);
    ck_assert_int_eq(times_made(), KEYS);
}
END_TEST

static void *get_all_in_thread(void *q)
{
    get_all(q, 0);
    return NULL;
}

START_TEST(of_many_threads_one_compiles_each_kernel)
{
    pthread_t threads[PROCESSES];
    quern *q = context(NULL);
    for (int i = 0; i < PROCESSES; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, get_all_in_thread, q), 0);
    for (int i = 0; i < PROCESSES; i++)
        pthread_join(threads[i], NULL);
    quern_close(q);
    ck_assert_int_eq(times_made(), KEYS);
}
END_TEST

static quern_status make_forever(void *state, struct code *out)
{
    char path[128];
    (void)state;
    (void)out;
    snprintf(path, sizeof path, "%s/started", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    sleep(60);
    return QUERN_INTERNAL;
}

// A process that holds the lock of recipe("a") and never lets go.
static pid_t start_holder(void)
{
    char path[128];
    pid_t child = fork();
    if (!child) {
        struct recipe r = recipe("a");
        r.make = make_forever;
        hits_afresh(r);
        _exit(0);
    }
    snprintf(path, sizeof path, "%s/started", folder);
    while (access(path, F_OK))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return child;
}

// Seconds: longer than a busy machine takes, and far less than a lock is waited for.
static const double SOON = 10;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

START_TEST(a_killed_compiler_holds_nobody_up)
{
    pid_t holder = start_holder();
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    double start = seconds();
    ck_assert(!hits_afresh(recipe("a")));
    ck_assert_double_lt(seconds() - start, SOON);
    ck_assert(hits_afresh(recipe("a")));
}
END_TEST

START_TEST(a_stuck_compiler_costs_a_second_compile_and_no_hang)
{
    pid_t holder = start_holder();
    kill(holder, SIGSTOP);
    quern *q = context(NULL);
    cache_set_patience(find_cache(q), 100);
    double start = seconds();
    ck_assert(!hits(q, recipe("a")));
    ck_assert_double_gt(seconds() - start, 0.05);
    ck_assert_double_lt(seconds() - start, SOON);
    ck_assert(hits(q, recipe("a")));
    quern_close(q);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
}
END_TEST

static pid_t forked_child;

static quern_status make_and_fork(void *state, struct code *out)
{
    forked_child = fork();
    if (!forked_child) {
        sleep(20);
        _exit(0);
    }
    return make(state, out);
}

START_TEST(a_child_forked_during_a_compile_does_not_keep_the_lock)
{
    struct recipe r = recipe("a");
    r.make = make_and_fork;
    r.state = &r;
    hits_afresh(r);
    unlink(entry_path(&r));
    double start = seconds();
    ck_assert(!hits_afresh(recipe("a")));
    ck_assert_double_lt(seconds() - start, SOON);
    kill(forked_child, SIGKILL);
    waitpid(forked_child, NULL, 0);
}
END_TEST

Suite *race_suite(void)
{
    Suite *suite = suite_create("race");
    TCase *t = tcase_create("race");
    tcase_add_checked_fixture(t, caching_set_up, caching_tear_down);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, of_many_processes_on_an_empty_folder_one_compiles_each_kernel);
    tcase_add_test(t, of_many_threads_one_compiles_each_kernel);
    tcase_add_test(t, a_killed_compiler_holds_nobody_up);
    tcase_add_test(t, a_stuck_compiler_costs_a_second_compile_and_no_hang);
    tcase_add_test(t, a_child_forked_during_a_compile_does_not_keep_the_lock);
    suite_add_tcase(suite, t);
    return suite;
}
