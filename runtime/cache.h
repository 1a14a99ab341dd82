// cache.h: compiled kernels on disk, kept by the hash of all that they are made from
#pragma once
#include "runtime/device.h"

enum { KEY_BYTES = 32, CACHE_FORMAT = 1 };

struct cache_key {
    unsigned char bytes[KEY_BYTES];
    char hex[2 * KEY_BYTES + 1];
};

// What a compiled object is made from, and what to say about it.
struct recipe {
    const char *kernel;         // its name
    const char *source;         // whole
    const char *arch;           // "sm_90a", or "host"
    const char *compiler;       // "nvrtc 13.0", or the C++ compiler's own words
    const char *const *options; // words
    int n_options;
    const char *extension;     // of the entry's file: "cubin", "host"
    const char *build_command; // what would build it, for an offline miss
    quern_status (*make)(void *state, struct code *out);
    void *state;
};

struct cache_key recipe_key(const struct recipe *recipe);

// cache.c
struct cache *cache_open(const quern *q, const char *dir,
                         int64_t max_bytes); // NULL: unusable, said once
void cache_close(struct cache *c);
// Takes the code from the cache, or makes it and puts it there.  c may be NULL.
quern_status cache_get(const quern *q, struct cache *c, const struct recipe *recipe,
                       struct code *out);
bool cache_find(const quern *q, struct cache *c, const struct recipe *recipe,
                struct code *out);                             // never makes it
void cache_drop(struct cache *c, const struct recipe *recipe); // it was read, and does not load
void cache_each(struct cache *c, void (*each)(void *user, const quern_cache_entry *entry),
                void *user, bool verify);
int cache_prune(struct cache *c, int64_t max_bytes); // how many entries went
void cache_totals(struct cache *c, int64_t *n_entries, int64_t *bytes);
void cache_set_patience(struct cache *c,
                        int milliseconds); // how long to wait for another's compile

// entry.c: one file: header, metadata, code
struct entry {
    char *metadata; // holds the three
    const char *kernel, *arch, *compiler;
    int64_t bytes; // of the file
    struct code code;
};

enum entry_state { ENTRY_good, ENTRY_absent, ENTRY_bad };

// why: of ENTRY_bad, a few words.  What is good is the caller's, to free.
enum entry_state entry_read(int folder, const char *file, const unsigned char *key,
                            struct entry *out, const char **why);
// The same without the code and without its checksum.
enum entry_state entry_describe(int folder, const char *file, const unsigned char *key,
                                struct entry *out, const char **why);
void entry_free(struct entry *e);
// Publishes whole or not at all; false: errno says why.
bool entry_write(int folder, const char *file, const struct cache_key *key,
                 const struct recipe *recipe, const struct code *code);
bool file_publish(int folder, const char *file, const void *bytes,
                  size_t n_bytes); // by a temporary name
// The whole of a file of at most `most` bytes that only we can have written.  ENTRY_good: the
// bytes, with a NUL behind them, are the caller's.
enum entry_state file_take(int folder, const char *file, size_t most, struct code *out,
                           const char **why);
bool write_all(int fd, const void *bytes, size_t n_bytes);

// lock.c: one lock a key, which the kernel frees when its holder dies
int key_lock(int folder, const struct cache_key *key,
             int patience_ms); // -1: could not be had in time
void key_unlock(int lock);
