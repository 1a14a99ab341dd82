// test_cache.c: the cache on disk: keys, damage, trust, bounds, and many processes at once.

#include "runtime/cache.h"
#include "runtime/runtime.h"
#include "tests/tests.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static char folder[64]; // of the test, removed after it
static char dir[128];   // the cache in it

static struct {
    int n;
    char last[512];
} notes;

static void count_note(void *user, const char *line)
{
    (void)user;
    notes.n++;
    snprintf(notes.last, sizeof notes.last, "%s", line);
}

// The folder that the cache's folder is made in.
static const char *above(void)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/a", folder);
    return path;
}

static void set_up(void)
{
    strcpy(folder, "/tmp/quern-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    chmod(folder, 0755);
    snprintf(dir, sizeof dir, "%s/a/cache", folder);
    memset(&notes, 0, sizeof notes);
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static quern *context(const quern_options *more)
{
    quern_options o = more ? *more : (quern_options){0};
    o.device = QUERN_DEVICE_NONE;
    o.log = count_note;
    if (!o.cache_dir)
        o.cache_dir = dir;
    quern *q;
    ck_assert_int_eq(quern_open(&q, &o), QUERN_OK);
    return q;
}

// What a recipe's compiler does here: counts, and gives the source back, repeated.
static int n_made;

static quern_status make(void *state, struct code *out)
{
    const struct recipe *r = state;
    size_t n = strlen(r->source);
    n_made++;
    *out = (struct code){.bytes = malloc(n + 1), .n_bytes = n};
    memcpy(out->bytes, r->source, n + 1);
    return QUERN_OK;
}

static const char *const options[] = {"--std=c++17", "-default-device"};

static struct recipe recipe(const char *source)
{
    return (struct recipe){.kernel = "relu_map_0",
                           .source = source,
                           .arch = "sm_90a",
                           .compiler = "nvrtc 13.0",
                           .options = options,
                           .n_options = 2,
                           .extension = "cubin",
                           .make = make,
                           .build_command = "quern emit relu.qn --arch sm_90a"};
}

// Gets it and says whether it was there.
static bool hits(quern *q, struct recipe r)
{
    struct code code;
    if (r.make == make)
        r.state = &r;
    ck_assert_int_eq(cache_get(q, find_cache(q), &r, &code), QUERN_OK);
    ck_assert_uint_eq(code.n_bytes, strlen(r.source));
    ck_assert_mem_eq(code.bytes, r.source, code.n_bytes);
    free(code.bytes);
    return code.hit;
}

static bool hits_afresh(struct recipe r)
{
    quern *q = context(NULL);
    bool hit = hits(q, r);
    quern_close(q);
    return hit;
}

static char *entry_path(const struct recipe *r)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s.%s", dir, recipe_key(r).hex, r->extension);
    return path;
}

static int count_files(const char *prefix)
{
    int n = 0;
    DIR *d = opendir(dir);
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += !strncmp(e->d_name, prefix, strlen(prefix));
    closedir(d);
    return n;
}

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

static void flip_byte(const char *path, off_t at)
{
    unsigned char c;
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pread(fd, &c, 1, at), 1);
    c ^= 0x20;
    ck_assert_int_eq(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

static void expect_rebuilt(struct recipe r, const char *how, long at)
{
    notes.n = 0;
    ck_assert_msg(!hits_afresh(r), "%s at %ld is not noticed", how, at);
    ck_assert_int_eq(notes.n, 1);
    ck_assert_ptr_nonnull(strstr(notes.last, r.kernel));
    ck_assert_msg(hits_afresh(r), "%s at %ld is not repaired", how, at);
}

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

static int64_t folder_bytes(void)
{
    int64_t total = 0;
    struct stat s;
    DIR *d = opendir(dir);
    for (const struct dirent *e; (e = readdir(d));)
        if (!fstatat(dirfd(d), e->d_name, &s, 0) && S_ISREG(s.st_mode))
            total += s.st_size;
    closedir(d);
    return total;
}

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
    ck_assert_double_lt(seconds() - start, 1);
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
    ck_assert_double_lt(seconds() - start, 2);
    ck_assert(hits(q, recipe("a")));
    quern_close(q);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
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
    ck_assert_int_le(llabs(l.used - time(NULL)), 2);

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
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, what_was_made_once_is_found_by_another_context);
    tcase_add_test(t, whatever_changes_the_result_changes_the_key);
    tcase_add_test(t, the_key_is_the_same_for_any_folder_and_user);
    tcase_add_test(t, a_hit_leaves_the_entry_s_times_alone);
    tcase_add_test(t, every_altered_byte_is_noticed);
    tcase_add_test(t, every_truncation_is_noticed);
    tcase_add_test(t, another_kernel_s_entry_under_the_name_is_not_used);
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
    tcase_add_test(t, the_least_recently_used_leaves_when_the_bound_is_reached);
    tcase_add_test(t, what_a_killed_writer_left_is_swept);
    tcase_add_test(t, of_many_processes_on_an_empty_folder_one_compiles_each_kernel);
    tcase_add_test(t, of_many_threads_one_compiles_each_kernel);
    tcase_add_test(t, a_killed_compiler_holds_nobody_up);
    tcase_add_test(t, a_stuck_compiler_costs_a_second_compile_and_no_hang);
    tcase_add_test(t, offline_a_miss_names_the_kernel_and_the_command);
    tcase_add_test(t, a_failed_compile_is_not_remembered);
    tcase_add_test(t, entries_are_listed_verified_and_pruned);
    tcase_add_test(t, a_context_without_a_cache_lists_nothing);
    tcase_add_test(t, the_usual_folder_follows_the_environment);
    suite_add_tcase(suite, t);
    return suite;
}
