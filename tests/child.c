// child.c: arguments to what the quern command printed and its exit status.

#include "tests/child.h"
#include "tests/tests.h"
#include <dirent.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { MAX_ARGS = 32 };

static char folder[PATH_MAX]; // for the files of a test

const char *beside(const char *name)
{
    static char path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    ck_assert_int_gt(n, 0);
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    snprintf(slash, sizeof path - (size_t)(slash - path), "/%s", name);
    return path;
}

const char *example(const char *file)
{
    static char path[PATH_MAX + 64];
    char name[128];
    snprintf(name, sizeof name, "examples/%s", file); // as `make bundle` lays it out
    if (access(beside(name), R_OK) != 0)
        snprintf(name, sizeof name, "../tools/examples/%s", file);
    snprintf(path, sizeof path, "%s", beside(name));
    return path;
}

const char *in_folder(const char *name) // valid until the eighth call from now
{
    static char paths[8][PATH_MAX + 64];
    static int at;
    at = (at + 1) % 8;
    snprintf(paths[at], sizeof paths[at], "%s/%s", folder, name);
    return paths[at];
}

static void read_back(int fd, char *text, size_t size)
{
    ssize_t n = pread(fd, text, size - 1, 0);
    text[n < 0 ? 0 : n] = '\0';
    close(fd);
}

static int scratch_file(void)
{
    char path[] = "/tmp/quern-test-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    return fd;
}

void quern(struct result *r, const char *input, const char *format, ...)
{
    char line[8192], *path = strdup(beside("quern")), *argv[MAX_ARGS] = {path};
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    int argc = 1;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;

    int in = scratch_file(), out = scratch_file(), err = scratch_file(), wait_status;
    if (input)
        ck_assert_int_eq(pwrite(in, input, strlen(input), 0), (ssize_t)strlen(input));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, err, 2);
    pid_t child;
    ck_assert_msg(posix_spawn(&child, path, &actions, NULL, argv, environ) == 0,
                  "%s does not start", path);
    posix_spawn_file_actions_destroy(&actions);
    free(path);
    ck_assert_int_eq(waitpid(child, &wait_status, 0), child);
    r->status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
    close(in);
    read_back(out, r->out, sizeof r->out);
    read_back(err, r->err, sizeof r->err);
}

void write_text(const char *name, const char *text)
{
    FILE *out = fopen(in_folder(name), "wb");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
}

// A file's bytes, the caller's to free.
char *contents(const char *path, size_t *n)
{
    FILE *in = fopen(path, "rb");
    ck_assert_msg(in != NULL, "%s is not there", path);
    char *bytes = malloc(1 << 22);
    *n = fread(bytes, 1, 1 << 22, in);
    fclose(in);
    return bytes;
}

int n_files(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return dir ? n - 2 : 0; // without . and ..
}

static const char scale_text[] = "program scale(N, M = N)\n"
                                 "input  x : f32[N]\n"
                                 "weight w : f32[M]\n"
                                 "output y = x * w + 1\n";

void make_folder(void)
{
    struct result r;
    snprintf(folder, sizeof folder, "/tmp/quern-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    unsetenv("QUERN_OFFLINE");
    write_text("scale.qn", scale_text);
    setenv("QUERN_CACHE_DIR", in_folder("cache"), 1);
    quern(&r, NULL, "run %s -D N=5 --random 1 --device host",
          in_folder("scale.qn")); // fills the cache
}

static void remove_all(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char *inner;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        ck_assert_int_gt(asprintf(&inner, "%s/%s", path, e->d_name), 0);
        if (unlink(inner) < 0)
            remove_all(inner);
        free(inner);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

void remove_folder(void)
{
    remove_all(folder);
}
