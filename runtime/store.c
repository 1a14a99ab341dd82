// store.c: the cache's folder as a whole: what is in it, how much, and what leaves when it is too
// much.
//
// Other processes publish too, so the folder is looked at again whenever we have added a sixteenth
// of the bound.  The least recently used goes first, by the time of its source file, which only we
// set.  A reader has the file open, so what leaves under it stays readable.

#include "runtime/store.h"
#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { KEY_LETTERS = 2 * KEY_BYTES, STALE_SECONDS = 600 };

struct item {
    char key[KEY_LETTERS + 1];
    char extension[16]; // of the entry; empty: its source alone
    int64_t bytes;      // of both files
    struct timespec used;
};

struct items {
    struct item *at;
    size_t n, cap;
};

static bool is_key(const char *name)
{
    return strspn(name, "0123456789abcdef") == KEY_LETTERS && name[KEY_LETTERS] == '.' &&
           strlen(name + KEY_LETTERS + 1) < 16;
}

// What a killed writer left behind.
static void sweep(int folder, const char *name)
{
    struct stat s;
    if (!strncmp(name, "tmp.", 4) && !fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) &&
        time(NULL) - s.st_mtime > STALE_SECONDS)
        unlinkat(folder, name, 0);
}

static bool add_file(struct items *list, int folder, const char *name)
{
    struct stat s;
    if (fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW))
        return true; // gone since it was listed
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64;
        struct item *at = realloc(list->at, cap * sizeof *at);
        if (!at)
            return false;
        list->at = at;
        list->cap = cap;
    }
    struct item *item = &list->at[list->n++];
    memset(item, 0, sizeof *item);
    memcpy(item->key, name, KEY_LETTERS);
    if (strcmp(name + KEY_LETTERS, ".cu"))
        strcpy(item->extension, name + KEY_LETTERS + 1);
    item->bytes = s.st_size;
    item->used = s.st_mtim;
    return true;
}

static int by_key(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order
                 : strcmp(x->extension, y->extension); // the source, which has the stamp, first
}

static int by_use(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->key, y->key);
}

// Entries with their sources, least recently used first.
static struct items look(struct cache *c)
{
    struct items list = {0};
    int again = openat(c->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    if (!dir) {
        if (again >= 0)
            close(again);
        return list;
    }
    for (const struct dirent *d; (d = readdir(dir));) {
        if (!is_key(d->d_name))
            sweep(c->folder, d->d_name);
        else if (!add_file(&list, c->folder, d->d_name))
            break;
    }
    closedir(dir);
    if (!list.n)
        return list;
    qsort(list.at, list.n, sizeof *list.at, by_key);
    size_t n = 0;
    for (size_t i = 0; i < list.n; i++) {
        if (n && !list.at[n - 1].extension[0] && !strcmp(list.at[n - 1].key, list.at[i].key)) {
            list.at[n - 1].bytes += list.at[i].bytes;
            strcpy(list.at[n - 1].extension, list.at[i].extension);
        } else {
            list.at[n++] = list.at[i];
        }
    }
    list.n = n;
    qsort(list.at, n, sizeof *list.at, by_use);
    return list;
}

static void drop(struct cache *c, const struct item *item)
{
    char name[KEY_LETTERS + 32];
    if (item->extension[0]) {
        snprintf(name, sizeof name, "%s.%s", item->key, item->extension);
        unlinkat(c->folder, name, 0);
    }
    snprintf(name, sizeof name, "%s.cu", item->key);
    unlinkat(c->folder, name, 0);
}

static int64_t total_of(const struct items *list)
{
    int64_t total = 0;
    for (size_t i = 0; i < list->n; i++)
        total += list->at[i].bytes;
    return total;
}

// Returns how many entries went.  The lock is held.
static int shrink(struct cache *c, int64_t bound, int64_t goal)
{
    struct items list = look(c);
    int64_t total = total_of(&list);
    int gone = 0;
    if (total > bound || !bound) {
        for (size_t i = 0; i < list.n && (total > goal || !goal); i++) {
            drop(c, &list.at[i]);
            total -= list.at[i].bytes;
            gone += list.at[i].extension[0] != '\0';
        }
    }
    free(list.at);
    c->total = total;
    c->grown = 0;
    return gone;
}

void store_grown(struct cache *c, int64_t bytes)
{
    pthread_mutex_lock(&c->lock);
    c->grown += bytes;
    if (c->total < 0 || c->grown > c->max_bytes / 16 || c->total + c->grown > c->max_bytes)
        shrink(c, c->max_bytes,
               c->max_bytes - c->max_bytes / 8); // room, so that not every entry evicts one
    pthread_mutex_unlock(&c->lock);
}

int cache_prune(struct cache *c, int64_t max_bytes)
{
    pthread_mutex_lock(&c->lock);
    int gone = shrink(c, max_bytes, max_bytes);
    pthread_mutex_unlock(&c->lock);
    return gone;
}

void cache_totals(struct cache *c, int64_t *n_entries, int64_t *bytes)
{
    struct items list = look(c);
    *bytes = total_of(&list);
    *n_entries = 0;
    for (size_t i = 0; i < list.n; i++)
        *n_entries += list.at[i].extension[0] != '\0';
    free(list.at);
}

void cache_each(struct cache *c, void (*each)(void *user, const quern_cache_entry *entry),
                void *user, bool verify)
{
    struct items list = look(c);
    for (size_t i = 0; i < list.n; i++) {
        const struct item *item = &list.at[i];
        char name[KEY_LETTERS + 32];
        unsigned char key[KEY_BYTES];
        struct entry e;
        const char *why;
        if (!item->extension[0])
            continue;
        snprintf(name, sizeof name, "%s.%s", item->key, item->extension);
        sodium_hex2bin(key, sizeof key, item->key, KEY_LETTERS, NULL, NULL, NULL);
        enum entry_state state =
            (verify ? entry_read : entry_describe)(c->folder, name, key, &e, &why);
        if (state == ENTRY_absent)
            continue;
        bool good = state == ENTRY_good;
        each(user, &(quern_cache_entry){.key = item->key,
                                        .name = good ? e.kernel : "",
                                        .arch = good ? e.arch : "",
                                        .bytes = item->bytes,
                                        .used = item->used.tv_sec,
                                        .valid = good});
        if (good)
            entry_free(&e);
    }
    free(list.at);
}
