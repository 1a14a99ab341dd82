// entry.c: one cache entry, as bytes in a file: header, metadata, code.
//
//     magic "quern\r\n\x1a", format version, sizes, the key it was made for, a checksum of all of
//     it metadata: kernel, arch and compiler, one a line the code
//
// A reader believes nothing: an entry that others could have written, that is cut off, altered, of
// another format or made for another key is bad.  A writer makes a temporary file and renames it,
// so that a reader sees all of it or none.

#include "runtime/cache.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct header {
    char magic[8];
    uint32_t version, metadata_bytes;
    uint64_t code_bytes;
    unsigned char key[KEY_BYTES], checksum[KEY_BYTES];
};
_Static_assert(sizeof(struct header) == 24 + 2 * KEY_BYTES, "the header has no padding");

static const char magic[8] = {'q', 'u', 'e', 'r', 'n', '\r', '\n', '\x1a'};

enum { MAX_METADATA = 1 << 20 };
static const int64_t max_entry_bytes = (int64_t)1 << 31;

bool write_all(int fd, const void *bytes, size_t n_bytes)
{
    for (const char *at = bytes; n_bytes;) {
        ssize_t n = write(fd, at, n_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

static bool read_all(int fd, void *bytes, size_t n_bytes)
{
    for (char *at = bytes; n_bytes;) {
        ssize_t n = read(fd, at, n_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

bool file_publish(int folder, const char *file, const void *bytes, size_t n_bytes)
{
    char temporary[64];
    snprintf(temporary, sizeof temporary, "tmp.%08x%08x", randombytes_random(),
             randombytes_random());
    int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool whole = !fchmod(fd, 0600) && write_all(fd, bytes, n_bytes);
    int error = errno;
    if (close(fd) && whole) { // a network file system reports a full disk here
        whole = false;
        error = errno;
    }
    if (whole && renameat(folder, temporary, folder, file)) {
        whole = false;
        error = errno;
    }
    if (!whole)
        unlinkat(folder, temporary, 0);
    errno = error;
    return whole;
}

static void checksum(const struct header *h, const void *metadata, const void *code,
                     unsigned char *out)
{
    struct header plain = *h;
    memset(plain.checksum, 0, sizeof plain.checksum);
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, KEY_BYTES);
    crypto_generichash_update(&state, (const unsigned char *)&plain, sizeof plain);
    crypto_generichash_update(&state, metadata, h->metadata_bytes);
    crypto_generichash_update(&state, code, h->code_bytes);
    crypto_generichash_final(&state, out, KEY_BYTES);
}

bool entry_write(int folder, const char *file, const struct cache_key *key,
                 const struct recipe *recipe, const struct code *code)
{
    char *metadata = NULL;
    int n = asprintf(&metadata, "%s\n%s\n%s\n", recipe->kernel, recipe->arch, recipe->compiler);
    if (n < 0)
        return false;
    struct header h = {
        .version = CACHE_FORMAT, .metadata_bytes = (uint32_t)n, .code_bytes = code->n_bytes};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.key, key->bytes, sizeof h.key);
    checksum(&h, metadata, code->bytes, h.checksum);

    size_t n_bytes = sizeof h + (size_t)n + code->n_bytes;
    char *bytes = malloc(n_bytes);
    bool published = false;
    if (bytes) {
        memcpy(bytes, &h, sizeof h);
        memcpy(bytes + sizeof h, metadata, (size_t)n);
        memcpy(bytes + sizeof h + n, code->bytes, code->n_bytes);
        published = file_publish(folder, file, bytes, n_bytes);
    }
    free(bytes);
    free(metadata);
    return published;
}

static bool trusted(const struct stat *s, const char **why)
{
    if (!S_ISREG(s->st_mode))
        *why = "not a file";
    else if (s->st_uid != geteuid())
        *why = "of another user";
    else if (s->st_mode & (S_IWGRP | S_IWOTH))
        *why = "writable by others";
    else
        return true;
    return false;
}

// The right header for the key and the file's size.
static bool right_header(const struct header *h, const unsigned char *key, int64_t file_bytes,
                         const char **why)
{
    if (memcmp(h->magic, magic, sizeof magic))
        *why = "not an entry";
    else if (h->version != CACHE_FORMAT)
        *why = "of another version";
    else if (memcmp(h->key, key, KEY_BYTES))
        *why = "another kernel's";
    else if (h->metadata_bytes > MAX_METADATA || h->code_bytes > (uint64_t)max_entry_bytes ||
             (uint64_t)file_bytes != sizeof *h + h->metadata_bytes + h->code_bytes)
        *why = "cut off";
    else
        return true;
    return false;
}

// Three lines become three strings.
static bool split_metadata(struct entry *e)
{
    const char **parts[] = {&e->kernel, &e->arch, &e->compiler};
    char *at = e->metadata;
    for (int i = 0; i < 3; i++) {
        char *end = strchr(at, '\n');
        if (!end)
            return false;
        *end = '\0';
        *parts[i] = at;
        at = end + 1;
    }
    return true;
}

static enum entry_state read_open(int fd, const unsigned char *key, bool whole, struct entry *out,
                                  const char **why)
{
    struct header h;
    struct stat s;
    *why = "not readable";
    if (fstat(fd, &s) || !trusted(&s, why))
        return ENTRY_bad;
    *why = "cut off";
    if (!read_all(fd, &h, sizeof h) || !right_header(&h, key, s.st_size, why))
        return ENTRY_bad;
    out->bytes = s.st_size;
    out->metadata = calloc(1, (size_t)h.metadata_bytes + 1);
    out->code.n_bytes = h.code_bytes;
    out->code.bytes = whole ? malloc(h.code_bytes + 1) : NULL;
    if (!out->metadata || (whole && !out->code.bytes) ||
        !read_all(fd, out->metadata, h.metadata_bytes) ||
        (whole && !read_all(fd, out->code.bytes, h.code_bytes)))
        return ENTRY_bad;
    unsigned char sum[KEY_BYTES];
    *why = "altered";
    if (whole) {
        ((char *)out->code.bytes)[h.code_bytes] = '\0'; // PTX is text
        checksum(&h, out->metadata, out->code.bytes, sum);
        if (memcmp(sum, h.checksum, sizeof sum))
            return ENTRY_bad;
    }
    out->code.hit = true;
    return split_metadata(out) ? ENTRY_good : ENTRY_bad;
}

// -1: *absent says whether it is there at all.
static int open_file(int folder, const char *file, bool *absent, const char **why)
{
    int fd = openat(folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *absent = fd < 0 && errno == ENOENT;
    if (fd < 0)
        *why = errno == ELOOP ? "a symbolic link" : "not readable";
    return fd;
}

enum entry_state file_take(int folder, const char *file, size_t most, struct code *out,
                           const char **why)
{
    struct stat s;
    bool absent;
    *out = (struct code){0};
    int fd = open_file(folder, file, &absent, why);
    if (fd < 0)
        return absent ? ENTRY_absent : ENTRY_bad;
    *why = "not readable";
    bool whole = !fstat(fd, &s) && trusted(&s, why);
    if (whole && (uint64_t)s.st_size > most) {
        *why = "too large";
        whole = false;
    }
    out->n_bytes = whole ? (size_t)s.st_size : 0;
    out->bytes = whole ? calloc(1, out->n_bytes + 1) : NULL;
    whole = out->bytes && read_all(fd, out->bytes, out->n_bytes);
    close(fd);
    if (whole)
        return ENTRY_good;
    free(out->bytes);
    *out = (struct code){0};
    return ENTRY_bad;
}

static enum entry_state read_file(int folder, const char *file, const unsigned char *key,
                                  bool whole, struct entry *out, const char **why)
{
    bool absent;
    memset(out, 0, sizeof *out);
    int fd = open_file(folder, file, &absent, why);
    if (fd < 0)
        return absent ? ENTRY_absent : ENTRY_bad;
    enum entry_state state = read_open(fd, key, whole, out, why);
    close(fd);
    if (state != ENTRY_good)
        entry_free(out);
    return state;
}

enum entry_state entry_read(int folder, const char *file, const unsigned char *key,
                            struct entry *out, const char **why)
{
    return read_file(folder, file, key, true, out, why);
}

enum entry_state entry_describe(int folder, const char *file, const unsigned char *key,
                                struct entry *out, const char **why)
{
    return read_file(folder, file, key, false, out, why);
}

void entry_free(struct entry *e)
{
    free(e->metadata);
    free(e->code.bytes);
    memset(e, 0, sizeof *e);
}
