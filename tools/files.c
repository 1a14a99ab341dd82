// files.c: whole files in and out.

#include "tools/tools.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TEXT_BYTES = 16 << 20 };

static char *read_stream(FILE *in, size_t *n_bytes)
{
    size_t room = 1 << 16, used = 0;
    char *text = malloc(room);
    while (text) {
        used += fread(text + used, 1, room - 1 - used, in);
        if (used < room - 1 || used > MAX_TEXT_BYTES)
            break;
        char *more = realloc(text, room *= 2);
        if (!more)
            free(text);
        text = more;
    }
    if (!text) {
        complain(STATUS_missing, "out of memory");
        return NULL;
    }
    text[used] = '\0';
    *n_bytes = used;
    return text;
}

char *read_text(const char *path, const char *what, size_t *n_bytes)
{
    bool standard = !strcmp(path, "-");
    const char *name = standard ? "standard input" : path;
    FILE *in = standard ? stdin : fopen(path, "rb");
    if (!in) {
        complain(STATUS_wrong, "%s cannot be read: %s", name, strerror(errno));
        return NULL;
    }
    char *text = read_stream(in, n_bytes);
    int error = ferror(in) ? errno : 0;
    if (!standard)
        fclose(in);
    bool large = text && *n_bytes > MAX_TEXT_BYTES;
    const char *zero = text ? memchr(text, '\0', *n_bytes) : NULL;
    if (error)
        complain(STATUS_wrong, "%s cannot be read: %s", name, strerror(error));
    else if (large)
        complain(STATUS_wrong, "%s is too large for %s: over %d MiB", name, what,
                 MAX_TEXT_BYTES >> 20);
    else if (zero)
        complain(STATUS_wrong, "%s is not text: byte %td is zero", name, zero - text);
    if (error || large || zero) {
        free(text);
        return NULL;
    }
    return text;
}

bool write_file(const char *path, const void *head, size_t head_bytes, const void *body,
                size_t body_bytes)
{
    FILE *out = fopen(path, "wb");
    if (!out) {
        complain(STATUS_wrong, "%s cannot be written: %s", path, strerror(errno));
        return false;
    }
    bool ok = fwrite(head, 1, head_bytes, out) == head_bytes;
    ok = ok && fwrite(body, 1, body_bytes, out) == body_bytes;
    int error = errno;
    if (fclose(out) != 0 && ok) {
        error = errno;
        ok = false;
    }
    if (ok)
        return true;
    complain(STATUS_wrong, "%s cannot be written: %s", path, strerror(error));
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) // never a device
        unlink(path);
    return false;
}

bool make_folders(const char *path)
{
    char *copy = strdup(path);
    if (!copy) {
        complain(STATUS_missing, "out of memory");
        return false;
    }
    bool ok = true;
    for (char *p = copy; ok && *p; p++) {
        bool last = p[1] == '\0';
        if (!last && (p[1] != '/' || *p == '/'))
            continue;
        char after = p[1];
        p[1] = '\0';
        ok = mkdir(copy, 0777) == 0 || errno == EEXIST || errno == EISDIR;
        p[1] = after;
    }
    struct stat st;
    if (ok && stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        ok = false;
    }
    if (!ok)
        complain(STATUS_wrong, "the folder %s cannot be made: %s", path, strerror(errno));
    free(copy);
    return ok;
}
