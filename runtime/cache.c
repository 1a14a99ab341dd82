// cache.c: a recipe to compiled code, from disk where it is there, else made once and kept.
//
// Layout: <key>.<extension> an entry (entry.c), <key>.cu its source, whose time is the stamp of the
// entry's last use and is set by us alone; lock (lock.c); tmp.* being written.  The key hashes all
// that changes the result and nothing else. Nothing that goes wrong here is an error: a bad entry
// is a miss, a folder that cannot be used is done without.

#include "runtime/cache.h"
#include "runtime/runtime.h"
#include "runtime/store.h"
#include "templates/templates.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_MS = 30000 };

static void add(crypto_generichash_state *state, const void *bytes, uint64_t n)
{
    crypto_generichash_update(state, (const unsigned char *)&n, sizeof n);
    crypto_generichash_update(state, bytes, n);
}

static void add_text(crypto_generichash_state *state, const char *text)
{
    add(state, text, strlen(text));
}

struct cache_key recipe_key(const struct recipe *recipe)
{
    struct cache_key key;
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, KEY_BYTES);
    add(&state, &(uint32_t){CACHE_FORMAT}, sizeof(uint32_t));
    add_text(&state, recipe->extension);
    add_text(&state, recipe->compiler);
    add_text(&state, recipe->arch);
    add(&state, &recipe->n_options, sizeof recipe->n_options);
    for (int i = 0; i < recipe->n_options; i++)
        add_text(&state, recipe->options[i]);
    for (int i = 0; i < n_templates; i++) {
        add_text(&state, templates[i].name);
        add_text(&state, templates[i].text);
    }
    add_text(&state, recipe->source);
    crypto_generichash_final(&state, key.bytes, sizeof key.bytes);
    sodium_bin2hex(key.hex, sizeof key.hex, key.bytes, sizeof key.bytes);
    return key;
}

// Makes the folder and its parents.  What already is there keeps its mode.
static bool make_folders(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        int failed = mkdir(path, 0700) && errno != EEXIST;
        *slash = '/';
        if (failed && errno != EROFS && errno != EACCES)
            return false;
    }
    if (!mkdir(path, 0700))
        return !chmod(path, 0700); // whatever the umask
    return errno == EEXIST;
}

// A folder that others could have written to may hold code of theirs.
static int open_folder(const quern *q, const char *path)
{
    struct stat s;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &s)) {
        note(q, "no cache: %s: %s", path, strerror(errno));
    } else if (s.st_uid != geteuid()) {
        note(q, "no cache: %s belongs to another user and is not trusted", path);
    } else if (s.st_mode & (S_IWGRP | S_IWOTH)) {
        note(q, "no cache: %s is writable by others and is not trusted; chmod 700 it", path);
    } else {
        return folder;
    }
    if (folder >= 0)
        close(folder);
    return -1;
}

struct cache *cache_open(const quern *q, const char *dir, int64_t max_bytes)
{
    struct cache *c = calloc(1, sizeof *c);
    char *path = strdup(dir);
    if (!c || !path || pthread_mutex_init(&c->lock, NULL)) {
        free(c);
        free(path);
        return NULL;
    }
    c->path = path;
    c->max_bytes = max_bytes > 0 ? max_bytes : (int64_t)1 << 30;
    c->patience_ms = PATIENCE_MS;
    c->total = -1;
    c->folder = -1;
    if (make_folders(path))
        c->folder = open_folder(q, path);
    else
        note(q, "no cache: cannot make %s: %s", path, strerror(errno));
    if (c->folder >= 0)
        return c;
    cache_close(c);
    return NULL;
}

void cache_close(struct cache *c)
{
    if (!c)
        return;
    if (c->folder >= 0)
        close(c->folder);
    pthread_mutex_destroy(&c->lock);
    free(c->path);
    free(c);
}

void cache_set_patience(struct cache *c, int milliseconds)
{
    c->patience_ms = milliseconds;
}

struct place {
    struct cache_key key;
    char entry[2 * KEY_BYTES + 16], source[2 * KEY_BYTES + 16];
};

static struct place place_of(const struct recipe *recipe)
{
    struct place p = {.key = recipe_key(recipe)};
    snprintf(p.entry, sizeof p.entry, "%s.%.8s", p.key.hex, recipe->extension);
    snprintf(p.source, sizeof p.source, "%s.cu", p.key.hex);
    return p;
}

// speak: a note about an entry that is bad.
static bool take(const quern *q, struct cache *c, const struct recipe *recipe,
                 const struct place *p, bool speak, struct code *out)
{
    struct entry entry;
    const char *why;
    enum entry_state state = entry_read(c->folder, p->entry, p->key.bytes, &entry, &why);
    if (state == ENTRY_bad && speak)
        note(q, "cache: the entry of %s (%.12s...) is %s and is not used", recipe->kernel,
             p->key.hex, why);
    if (state != ENTRY_good)
        return false;
    *out = entry.code;
    entry.code.bytes = NULL;
    entry_free(&entry);
    // The stamp.  The entry's own times stay as they were.
    if (utimensat(c->folder, p->source, NULL, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
        utimensat(c->folder, p->entry, NULL, AT_SYMLINK_NOFOLLOW);
    return true;
}

// The source goes first: an entry always has its stamp beside it.
static void keep(const quern *q, struct cache *c, const struct recipe *recipe,
                 const struct place *p, const struct code *code)
{
    size_t n_source = strlen(recipe->source);
    if (file_publish(c->folder, p->source, recipe->source, n_source) &&
        entry_write(c->folder, p->entry, &p->key, recipe, code)) {
        store_grown(c, (int64_t)(n_source + code->n_bytes));
        return;
    }
    if (!atomic_exchange(&c->complained, true))
        note(q, "cache: cannot write to %s: %s; going on without", c->path, strerror(errno));
}

static quern_status make_and_keep(const quern *q, struct cache *c, const struct recipe *recipe,
                                  const struct place *p, struct code *out)
{
    int lock = key_lock(c->folder, &p->key, c->patience_ms);
    quern_status status = QUERN_OK;
    if (!take(q, c, recipe, p, false, out)) { // another may have made it while we waited
        status = recipe->make(recipe->state, out);
        if (!status)
            keep(q, c, recipe, p, out);
    }
    key_unlock(lock);
    return status;
}

bool cache_find(const quern *q, struct cache *c, const struct recipe *recipe, struct code *out)
{
    struct place p = place_of(recipe);
    return c && take(q, c, recipe, &p, true, out);
}

quern_status cache_get(const quern *q, struct cache *c, const struct recipe *recipe,
                       struct code *out)
{
    memset(out, 0, sizeof *out);
    if (cache_find(q, c, recipe, out))
        return QUERN_OK;
    if (q->offline)
        return report(q, QUERN_MISSING,
                      "offline, and the cache (%s) does not have %s for %s; build it with: %s",
                      c ? c->path : "none", recipe->kernel, recipe->arch, recipe->build_command);
    if (!c)
        return recipe->make(recipe->state, out);
    struct place p = place_of(recipe);
    return make_and_keep(q, c, recipe, &p, out);
}

void cache_drop(struct cache *c, const struct recipe *recipe)
{
    struct place p = place_of(recipe);
    if (c)
        unlinkat(c->folder, p.entry, 0);
}
