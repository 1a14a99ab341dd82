// caching.c: a cache in a folder of the test, and recipes whose compiler only counts.

#include "tests/caching.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char folder[64]; // of the test, removed after it
char dir[128];   // the cache in it

struct notes notes;

static void count_note(void *user, const char *line)
{
    (void)user;
    notes.n++;
    snprintf(notes.last, sizeof notes.last, "%s", line);
}

// The folder that the cache's folder is made in.
const char *above(void)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/a", folder);
    return path;
}

void caching_set_up(void)
{
    strcpy(folder, "/tmp/quern-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    chmod(folder, 0755);
    snprintf(dir, sizeof dir, "%s/a/cache", folder);
    memset(&notes, 0, sizeof notes);
}

void caching_tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

quern *context(const quern_options *more)
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

// What a recipe's compiler does here: counts, and gives the source back.
int n_made;

quern_status make(void *state, struct code *out)
{
    const struct recipe *r = state;
    size_t n = strlen(r->source);
    n_made++;
    *out = (struct code){.bytes = malloc(n + 1), .n_bytes = n};
    memcpy(out->bytes, r->source, n + 1);
    return QUERN_OK;
}

static const char *const options[] = {"--std=c++17", "-default-device"};

struct recipe recipe(const char *source)
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
bool hits(quern *q, struct recipe r)
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

bool hits_afresh(struct recipe r)
{
    quern *q = context(NULL);
    bool hit = hits(q, r);
    quern_close(q);
    return hit;
}

char *entry_path(const struct recipe *r)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s.%s", dir, recipe_key(r).hex, r->extension);
    return path;
}

int count_files(const char *prefix)
{
    int n = 0;
    DIR *d = opendir(dir);
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += !strncmp(e->d_name, prefix, strlen(prefix));
    closedir(d);
    return n;
}

void flip_byte(const char *path, off_t at)
{
    unsigned char c;
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pread(fd, &c, 1, at), 1);
    c ^= 0x20;
    ck_assert_int_eq(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

void expect_rebuilt(struct recipe r, const char *how, long at)
{
    notes.n = 0;
    ck_assert_msg(!hits_afresh(r), "%s at %ld is not noticed", how, at);
    ck_assert_int_eq(notes.n, 1);
    ck_assert_ptr_nonnull(strstr(notes.last, r.kernel));
    ck_assert_msg(hits_afresh(r), "%s at %ld is not repaired", how, at);
}

int64_t folder_bytes(void)
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
