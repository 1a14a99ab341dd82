// wisdom_files.c: records of wisdom as files, one a program and GPU, in the cache's folder, and all
// of them in and out as one text.
//
// A file is wisdom-<hash>.json, the hash over what the kernels are for: the graph, how it is
// planned, arch and GPU.  It is published whole, by renaming, and read only where nobody else can
// have written it.

#include "runtime/wisdom.h"
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20, HASH_BYTES = 16 };

// What a record is of: what names its file, and what has to be the same besides.  Optional: not to
// be there is a value too.
static const struct {
    const char *key;
    bool names, of_machine, text, optional;
} identity_keys[] = {
    {"graph",       true,  false, true,  false},
    {"math",        true,  false, true,  false},
    {"weights",     true,  false, true,  false},
    {"separate",    true,  false, false, false},
    {"alignment",   true,  false, false, false},
    {"max_cluster", true,  false, false, true },
    {"teams",       true,  false, true,  true },
    {"arch",        true,  false, true,  false},
    {"gpu",         true,  true,  true,  false},
    {"sms",         false, true,  false, false},
    {"driver",      false, true,  true,  false},
    {"nvrtc",       false, true,  true,  false},
    {"quern",       false, false, true,  false},
    {"code",        false, false, true,  false},
};
enum { N_IDENTITY = sizeof identity_keys / sizeof *identity_keys };

json_t *text_hash(const char *text)
{
    unsigned char hash[HASH_BYTES];
    char hex[2 * HASH_BYTES + 1];
    if (!text)
        return NULL;
    crypto_generichash(hash, sizeof hash, (const unsigned char *)text, strlen(text), NULL, 0);
    sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
    return json_string(hex);
}

// "wisdom-<hash>.json"; false: out of memory, or something of the identity is not there.
bool record_file(const json_t *record, char file[64])
{
    json_t *named = json_array();
    for (int i = 0; i < N_IDENTITY; i++)
        if (identity_keys[i].names)
            json_array_append(named, json_object_get(record, identity_keys[i].key));
    char *text = json_dumps(named, JSON_COMPACT);
    json_t *hash = text_hash(text);
    if (hash)
        snprintf(file, 64, "wisdom-%s.json", json_string_value(hash));
    free(text);
    json_decref(named);
    json_decref(hash);
    return hash != NULL;
}

static bool is_time(const json_t *us)
{
    return json_is_number(us) && json_number_value(us) > 0 && isfinite(json_number_value(us));
}

static bool is_spec(const json_t *kernel)
{
    return json_is_string(json_object_get(kernel, "name")) &&
           json_is_string(json_object_get(kernel, "spec"));
}

bool is_record(const json_t *record)
{
    const json_t *kernels = json_object_get(record, "kernels");
    bool right = json_integer_value(json_object_get(record, "format")) == WISDOM_FORMAT &&
                 json_is_string(json_object_get(record, "program")) &&
                 json_is_object(json_object_get(record, "sizes")) && json_is_array(kernels) &&
                 is_time(json_object_get(record, "default_us")) &&
                 is_time(json_object_get(record, "tuned_us"));
    for (int i = 0; right && i < N_IDENTITY; i++) {
        const json_t *value = json_object_get(record, identity_keys[i].key);
        right = (identity_keys[i].text ? json_is_string(value) : json_is_integer(value)) ||
                (!value && identity_keys[i].optional);
    }
    for (size_t i = 0; right && i < json_array_size(kernels); i++)
        right = is_spec(json_array_get(kernels, i));
    return right;
}

static json_t *parse_record(const struct code *bytes, const char **why)
{
    json_t *record = json_loadb(bytes->bytes, bytes->n_bytes, JSON_REJECT_DUPLICATES, NULL);
    if (record && is_record(record))
        return record;
    json_decref(record);
    *why = "damaged";
    return NULL;
}

json_t *record_read(const quern *q, const struct cache *c, const char *file)
{
    struct code bytes;
    const char *why = "";
    json_t *record = NULL;
    enum entry_state state = file_take(c->folder, file, MOST_BYTES, &bytes, &why);
    if (state == ENTRY_good)
        record = parse_record(&bytes, &why);
    free(bytes.bytes);
    if (!record && state != ENTRY_absent)
        note(q, "wisdom: %s is %s and is not used", file, why);
    return record;
}

bool record_write(const struct cache *c, const json_t *record)
{
    char file[64], *text = json_dumps(record, JSON_INDENT(1));
    bool written =
        text && record_file(record, file) && file_publish(c->folder, file, text, strlen(text));
    free(text);
    return written;
}

static bool suits(const json_t *measured, const json_t *here)
{
    const char *text = json_string_value(here);
    bool equal = measured || here ? json_equal(measured, here) : true;
    return equal || (text && !strcmp(text, ANY));
}

const char *record_difference(const json_t *a, const json_t *b, bool anywhere)
{
    for (int i = 0; i < N_IDENTITY; i++)
        if (!(anywhere && identity_keys[i].of_machine) &&
            !suits(json_object_get(a, identity_keys[i].key),
                   json_object_get(b, identity_keys[i].key)))
            return identity_keys[i].key;
    return NULL;
}

// ---- all of it ----

static quern_status need_cache(const quern *q, const char *call, struct cache **out)
{
    *out = q ? find_cache(q) : NULL;
    if (*out)
        return QUERN_OK;
    return report(q, QUERN_USAGE, "%s: %s", call, q ? "there is no cache" : "a null context");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
    char **at;
    size_t n;
};

static void names_free(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->at[i]);
    free(names->at);
}

// The files of wisdom, in order.
static struct names list_files(const struct cache *c)
{
    struct names names = {NULL, 0};
    int again = openat(c->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    if (!dir && again >= 0)
        close(again);
    for (const struct dirent *d; dir && (d = readdir(dir));) {
        char **more = !strncmp(d->d_name, "wisdom-", 7)
                          ? realloc(names.at, (names.n + 1) * sizeof *more)
                          : NULL;
        if (!more)
            continue;
        names.at = more;
        if ((names.at[names.n] = strdup(d->d_name)))
            names.n++;
    }
    if (dir)
        closedir(dir);
    if (names.n)
        qsort(names.at, names.n, sizeof *names.at, by_name);
    return names;
}

quern_status quern_wisdom_export(quern *q, char **json)
{
    struct cache *c;
    quern_status status = json ? need_cache(q, "quern_wisdom_export", &c)
                               : report(q, QUERN_USAGE, "quern_wisdom_export: a null argument");
    if (status)
        return status;
    struct names names = list_files(c);
    json_t *records = json_array();
    for (size_t i = 0; i < names.n; i++) {
        json_t *record = record_read(q, c, names.at[i]);
        if (record)
            json_array_append_new(records, record);
    }
    names_free(&names);
    json_t *root = json_pack("{s:s, s:o}", "quern", QUERN_VERSION, "wisdom", records);
    *json = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    return *json ? QUERN_OK : report(q, QUERN_MEMORY, "out of memory");
}

// Whether what is here already was measured to be at least as fast.
static bool is_as_good_here(const quern *q, const struct cache *c, const json_t *record)
{
    char file[64];
    json_t *here = record_file(record, file) ? record_read(q, c, file) : NULL;
    bool as_good = here && !record_difference(here, record, false) &&
                   json_number_value(json_object_get(here, "tuned_us")) <=
                       json_number_value(json_object_get(record, "tuned_us"));
    json_decref(here);
    return as_good;
}

quern_status quern_wisdom_import(quern *q, const char *json, int keep_faster, int *n_taken)
{
    struct cache *c;
    quern_status status = json ? need_cache(q, "quern_wisdom_import", &c)
                               : report(q, QUERN_USAGE, "quern_wisdom_import: a null argument");
    if (status)
        return status;
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, NULL),
           *records = json_object_get(root, "wisdom"), *record;
    bool right = json_is_array(records);
    size_t i;
    int taken = 0;
    json_array_foreach(records, i, record)
    {
        right = right && is_record(record);
    }
    json_array_foreach(records, i, record)
    {
        if (!right || status || (keep_faster && is_as_good_here(q, c, record)))
            continue;
        if (record_write(c, record))
            taken++;
        else
            status = report(q, QUERN_MISSING, "wisdom cannot be written to %s", c->path);
    }
    json_decref(root);
    if (n_taken)
        *n_taken = taken;
    return right ? status : report(q, QUERN_PROGRAM, "this is no wisdom that quern exported");
}

quern_status quern_wisdom_forget(quern *q, const char *program, int *n_gone)
{
    struct cache *c;
    quern_status status = need_cache(q, "quern_wisdom_forget", &c);
    if (status)
        return status;
    struct names names = list_files(c);
    int gone = 0;
    for (size_t i = 0; i < names.n; i++) {
        json_t *record = program ? record_read(q, c, names.at[i]) : NULL;
        const char *name = json_string_value(json_object_get(record, "program"));
        if (!program || (name && !strcmp(name, program)))
            gone += !unlinkat(c->folder, names.at[i], 0);
        json_decref(record);
    }
    names_free(&names);
    if (n_gone)
        *n_gone = gone;
    return QUERN_OK;
}
