// npy.c: NumPy's .npy files to arrays in C order, and the header for writing one.
//
// A file is a magic string, a version, the length of a header, the header (a Python dict: descr,
// fortran_order, shape) and the elements.  Nothing is allocated from what a header claims: the
// file's own size bounds it all.

#include "tools/npy.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6 };

static const struct {
    const char *descr; // without the byte order
    quern_dtype dtype;
} descrs[] = {
    {"f4", QUERN_F32 },
    {"f2", QUERN_F16 },
    {"V2", QUERN_BF16},
    {"f8", QUERN_F64 },
    {"i4", QUERN_I32 },
    {"i8", QUERN_I64 },
    {"i1", QUERN_I8  },
    {"u1", QUERN_U8  },
    {"b1", QUERN_BOOL},
};
enum { N_DESCRS = sizeof descrs / sizeof *descrs };

__attribute__((format(printf, 2, 3))) static bool refuse(char **message, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (vasprintf(message, format, list) < 0)
        *message = NULL;
    va_end(list);
    return false;
}

// ---- the header: a cursor over a Python dict literal ----

struct cursor {
    const char *at, *end;
};

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool take(struct cursor *c, char expected)
{
    skip_space(c);
    if (c->at == c->end || *c->at != expected)
        return false;
    c->at++;
    return true;
}

static bool take_word(struct cursor *c, const char *word)
{
    size_t n = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n))
        return false;
    c->at += n;
    return true;
}

// A quoted string without escapes; len and text point into the header.
static bool take_string(struct cursor *c, const char **text, int *len)
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    char quote = *c->at++;
    *text = c->at;
    while (c->at < c->end && *c->at != quote)
        c->at++;
    if (c->at == c->end || c->at - *text > 64)
        return false;
    *len = (int)(c->at++ - *text);
    return true;
}

static bool take_integer(struct cursor *c, int64_t *value)
{
    skip_space(c);
    const char *first = c->at;
    *value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, *c->at - '0', value))
            return false;
    bool any = c->at > first;
    if (any && c->at < c->end && *c->at == 'L') // Python 2 wrote longs so
        c->at++;
    return any;
}

static bool parse_descr(struct cursor *c, struct npy *a, char **message)
{
    const char *text;
    int len;
    skip_space(c);
    if (c->at < c->end && *c->at == '[')
        return refuse(message, "has structured elements; save its fields one by one");
    if (!take_string(c, &text, &len) || len == 0)
        return refuse(message, "has a header without a readable 'descr'");
    const char *kind = text + (strchr("<>|=", *text) != NULL);
    int kind_len = len - (int)(kind - text);
    if (kind_len > 0 && *kind == 'O')
        return refuse(message, "holds pickled Python objects, which are not read");
    for (int i = 0; i < N_DESCRS; i++)
        if (kind_len == 2 && !memcmp(kind, descrs[i].descr, 2)) {
            a->dtype = descrs[i].dtype;
            if (*text == '>' && quern_dtype_bytes(a->dtype) > 1)
                return refuse(message, "is big-endian ('%.*s'); save it as '<%.*s'", len, text,
                              kind_len, kind);
            return true;
        }
    return refuse(
        message, "has elements of type '%.*s'; quern reads f4 f2 f8 i4 i8 i1 u1 b1, and V2 as bf16",
        len, text);
}

static bool parse_order(struct cursor *c, char **message)
{
    if (take_word(c, "True"))
        return refuse(message, "is in Fortran order; save numpy.ascontiguousarray of it");
    return take_word(c, "False") ||
           refuse(message, "has a header without a readable 'fortran_order'");
}

static bool parse_shape(struct cursor *c, struct npy *a, char **message)
{
    if (!take(c, '('))
        return refuse(message, "has a header without a readable 'shape'");
    for (a->rank = 0; !take(c, ')'); a->rank++) {
        if (a->rank == NPY_MAX_RANK)
            return refuse(message, "has more than %d dimensions", NPY_MAX_RANK);
        if (!take_integer(c, &a->dim[a->rank]))
            return refuse(message, "has a shape with a dimension that is no size");
        bool last = !take(c, ',');
        if (last &&
            (a->rank == 0 || c->at == c->end || *c->at != ')')) // (3,) is a tuple, (3) is not
            return refuse(message, "has a header without a readable 'shape'");
    }
    return true;
}

enum { DESCR = 1, ORDER = 2, SHAPE = 4 };

static unsigned key_bit(const char *key, int len)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    for (int i = 0; i < 3; i++)
        if (strlen(keys[i]) == (size_t)len && !memcmp(keys[i], key, (size_t)len))
            return 1U << i;
    return 0;
}

static bool parse_value(struct cursor *c, unsigned key, struct npy *a, char **message)
{
    return key == DESCR   ? parse_descr(c, a, message)
           : key == ORDER ? parse_order(c, message)
                          : parse_shape(c, a, message);
}

static bool parse_header(struct cursor c, struct npy *a, char **message)
{
    unsigned seen = 0;
    if (!take(&c, '{'))
        return refuse(message, "has a header that is no dict");
    while (!take(&c, '}')) {
        const char *key;
        int len;
        if (!take_string(&c, &key, &len) || !take(&c, ':'))
            return refuse(message, "has a header that is no dict");
        unsigned which = key_bit(key, len);
        if (!which)
            return refuse(message, "has a header with an unknown key '%.*s'", len, key);
        if (!parse_value(&c, which, a, message))
            return false;
        seen |= which;
        if (!take(&c, ',')) {
            if (!take(&c, '}'))
                return refuse(message, "has a header that is no dict");
            break;
        }
    }
    skip_space(&c);
    if (c.at != c.end)
        return refuse(message, "has a header with something after its dict");
    return seen == (DESCR | ORDER | SHAPE) ||
           refuse(message, "has a header without descr, fortran_order and shape");
}

// Where the elements begin, by the fixed part of the file; 0: refused.
static size_t header_end(const unsigned char *p, size_t n, size_t *header_start, char **message)
{
    if (n >= 4 && !memcmp(p, "PK\3\4", 4))
        return refuse(message, "is an .npz archive; save its arrays one by one as .npy");
    if (n < MAGIC_BYTES || memcmp(p, magic, MAGIC_BYTES))
        return refuse(message, "is not an .npy file");
    if (n < MAGIC_BYTES + 4)
        return refuse(message, "is truncated: it ends inside its header");
    int major = p[6], minor = p[7];
    if (major < 1 || major > 3 || minor != 0)
        return refuse(message, "is of .npy version %d.%d; 1.0, 2.0 and 3.0 are known", major,
                      minor);
    size_t fixed = major == 1 ? 10 : 12;
    if (n < fixed)
        return refuse(message, "is truncated: it ends inside its header");
    size_t length = p[8] | (size_t)p[9] << 8;
    if (major > 1)
        length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (length > n - fixed)
        return refuse(message, "is truncated: it ends inside its header");
    *header_start = fixed;
    return fixed + length;
}

// Sets a->bytes; false where the shape has more bytes than 63 bits count.
static bool shape_bytes(struct npy *a)
{
    int64_t product = quern_dtype_bytes(a->dtype); // of the dimensions that are not 0
    bool empty = false;
    for (int i = 0; i < a->rank; i++) {
        empty |= a->dim[i] == 0;
        if (a->dim[i] != 0 && __builtin_mul_overflow(product, a->dim[i], &product))
            return false;
    }
    a->bytes = empty ? 0 : (size_t)product;
    return true;
}

// Fills all of a but its data, and finds where in the file the elements stand.
static bool describe(const unsigned char *p, size_t n, struct npy *a, size_t *at, char **message)
{
    size_t start = 0;
    size_t end = header_end(p, n, &start, message);
    memset(a, 0, sizeof *a);
    if (!end ||
        !parse_header((struct cursor){(const char *)p + start, (const char *)p + end}, a, message))
        return false;
    if (!shape_bytes(a))
        return refuse(message, "has a shape too large to be true");
    if (n - end < a->bytes)
        return refuse(message, "is truncated: its shape needs %zu bytes of elements and it has %zu",
                      a->bytes, n - end);
    if (n - end > a->bytes)
        return refuse(message, "has %zu bytes after its last element", n - end - a->bytes);
    *at = end;
    return true;
}

// A bool is 0 or 1: any other byte would be undefined in a kernel.
static void normalise(struct npy *a)
{
    if (a->dtype == QUERN_BOOL)
        for (size_t i = 0; i < a->bytes; i++)
            ((unsigned char *)a->data)[i] = ((unsigned char *)a->data)[i] != 0;
}

bool npy_parse(const void *bytes, size_t n, struct npy *out, char **message)
{
    size_t at;
    if (!describe(bytes, n, out, &at, message))
        return false;
    out->data = malloc(out->bytes ? out->bytes : 1);
    if (!out->data)
        return refuse(message, "needs %zu bytes of memory", out->bytes);
    memcpy(out->data, (const char *)bytes + at, out->bytes);
    normalise(out);
    return true;
}

// Everything that fd yields: a pipe says its size only by ending.
static unsigned char *read_all(int fd, size_t expected, size_t *n)
{
    size_t room = expected + 1,
           used = 0; // one more, so that a file that did not grow ends in one read
    unsigned char *bytes = malloc(room);
    while (bytes) {
        ssize_t got = read(fd, bytes + used, room - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            *n = used;
            if (got == 0)
                return bytes;
            break;
        }
        used += (size_t)got;
        if (used == room) {
            unsigned char *more = realloc(bytes, room *= 2);
            if (!more)
                break;
            bytes = more;
        }
    }
    int error = errno;
    free(bytes);
    errno = error;
    return NULL;
}

bool npy_read(const char *path, struct npy *out, char **message)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    memset(out, 0, sizeof *out);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return refuse(message, "cannot be read: %s", strerror(error));
    }
    if (S_ISCHR(st.st_mode)) {
        close(fd);
        return refuse(message, "is a device, not a file");
    }
    size_t n, at;
    size_t expected = S_ISREG(st.st_mode) ? (size_t)st.st_size : 4096;
    unsigned char *bytes = read_all(fd, expected, &n);
    int error = errno;
    close(fd);
    if (!bytes)
        return refuse(message, "cannot be read: %s", strerror(error));
    if (!describe(bytes, n, out, &at, message)) {
        free(bytes);
        return false;
    }
    memmove(bytes, bytes + at, out->bytes); // to where malloc aligned it
    out->data = bytes;
    normalise(out);
    return true;
}

void npy_free(struct npy *a)
{
    free(a->data);
    a->data = NULL;
}

static const char *descr_of(quern_dtype dtype)
{
    for (int i = 0; i < N_DESCRS; i++)
        if (descrs[i].dtype == dtype)
            return descrs[i].descr;
    return NULL;
}

char *npy_header(quern_dtype dtype, int rank, const int64_t *dim, size_t *n_bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, n_bytes);
    if (!out)
        return NULL;
    fwrite("\x93NUMPY\1\0\0\0", 1, 10, out);
    fprintf(out, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
            quern_dtype_bytes(dtype) == 1 ? '|' : '<', descr_of(dtype));
    for (int i = 0; i < rank; i++)
        fprintf(out, i || rank > 1 ? "%lld%s" : "%lld,%s", (long long)dim[i],
                i + 1 < rank ? ", " : "");
    fputs("), }", out);
    for (long at = ftell(out); at % 64 != 63; at++)
        fputc(' ', out);
    fputc('\n', out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    text[8] = (char)((*n_bytes - 10) & 255);
    text[9] = (char)((*n_bytes - 10) >> 8);
    return text;
}
