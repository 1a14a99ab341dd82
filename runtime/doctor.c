// doctor.c: what the machine has of what quern can use, and what to install for the rest, as JSON.
//
// The facts come as one object a thing (driver, gpu, nvrtc, cxx, cache); "checks" says the same for
// people, and "advice" is the hints of the checks that failed.

#include "runtime/driver.h"
#include "runtime/runtime.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct examination {
    const quern *q;
    json_t *root, *checks, *advice;
};

static void check(struct examination *e, const char *name, const char *needed_for,
                  const char *found, json_t *looked, const char *hint)
{
    json_array_append_new(
        e->checks, json_pack("{s:s, s:b, s:s, s:s?, s:o, s:s?}", "name", name, "ok", found != NULL,
                             "needed_for", needed_for, "found", found, "looked",
                             looked ? looked : json_array(), "hint", found ? NULL : hint));
    if (!found)
        json_array_append_new(e->advice, json_string(hint));
}

static json_t *lines(const char *text)
{
    json_t *list = json_array();
    while (text && *text) {
        size_t n = strcspn(text, "\n");
        json_array_append_new(list, json_stringn(text, n));
        text += n + (text[n] == '\n');
    }
    return list;
}

static void examine_driver(struct examination *e)
{
    struct driver cu;
    char why[512] = "", found[600];
    bool there = driver_open(&cu, why, sizeof why);
    json_t *o = json_pack(
        "{s:b, s:s?, s:o}", "found", there, "path", there ? cu.path : NULL, "version",
        there ? json_sprintf("%d.%d", cu.version / 1000, cu.version % 1000 / 10) : json_null());
    json_object_set_new(e->root, "driver", o);
    if (there)
        snprintf(found, sizeof found, "%s, for CUDA %d.%d", cu.path ? cu.path : "libcuda.so.1",
                 cu.version / 1000, cu.version % 1000 / 10);
    check(e, "driver", "running on a GPU", there ? found : NULL,
          json_pack("[s]", there ? "the loader's path" : why),
          "install NVIDIA's driver, which brings libcuda.so.1");
    driver_close(&cu);
}

static quern *open_gpu(void)
{
    quern *q = NULL;
    return quern_open(&q, &(quern_options){.device = QUERN_DEVICE_CUDA}) ? NULL : q;
}

static void examine_gpu(struct examination *e)
{
    quern *q = open_gpu();
    struct device *d = NULL;
    char found[400];
    if (q && !need_device(q, &d))
        snprintf(found, sizeof found, "%s, %s, %d SMs", d->name, d->target.name, d->target.n_sms);
    else
        d = NULL;
    json_object_set_new(e->root, "gpu",
                        d ? json_pack("{s:s, s:s, s:i}", "name", d->name, "arch", d->target.name,
                                      "sms", d->target.n_sms)
                          : json_null());
    check(e, "gpu", "running on a GPU", d ? found : NULL,
          q ? json_pack("[s]", quern_message(q)) : NULL,
          "no GPU can be used: programs run on the host device, and emit needs --arch");
    quern_close(q);
}

static void examine_nvrtc(struct examination *e)
{
    struct nvrtc n;
    bool there = nvrtc_open(&n, e->q->cuda_home, 0);
    char *archs = there ? nvrtc_arch_list(&n) : NULL, found[800];
    json_object_set_new(e->root, "nvrtc",
                        json_pack("{s:b, s:s?, s:o, s:o}", "found", there, "path", n.path,
                                  "version",
                                  there ? json_sprintf("%d.%d", n.major, n.minor) : json_null(),
                                  "tried", lines(n.tried)));
    if (there)
        snprintf(found, sizeof found, "%d.%d, %s, for %s", n.major, n.minor, n.path ? n.path : "",
                 archs ? archs : "");
    check(e, "nvrtc", "compiling for a GPU", there ? found : NULL, lines(n.tried),
          "install libnvrtc of the CUDA toolkit (such as the package cuda-nvrtc-13-0), or set "
          "CUDA_HOME");
    free(archs);
    nvrtc_close(&n);
}

static void examine_cxx(struct examination *e)
{
    char words[256], found[600];
    bool there = compiler_words(e->q->cxx, words, sizeof words);
    json_object_set_new(e->root, "cxx",
                        json_pack("{s:s, s:b}", "command", e->q->cxx, "found", there));
    if (there)
        snprintf(found, sizeof found, "%s: %s", e->q->cxx, words);
    check(e, "c++", "the host device", there ? found : NULL, json_pack("[s]", e->q->cxx),
          "install a C++ compiler, such as the package g++");
}

static void examine_cache(struct examination *e)
{
    struct cache *c = find_cache(e->q);
    const char *path = e->q->cache_dir;
    int64_t n = 0, bytes = 0;
    char *found = NULL;
    if (c) {
        cache_totals(c, &n, &bytes);
        if (asprintf(&found, "%s: %lld entries, %lld bytes", path, (long long)n, (long long)bytes) <
            0)
            found = NULL;
    }
    json_object_set_new(e->root, "cache",
                        json_pack("{s:s?, s:b, s:I, s:I}", "path", path, "usable", c != NULL,
                                  "entries", (json_int_t)n, "bytes", (json_int_t)bytes));
    check(
        e, "cache", "compiling each kernel only once", c ? (found ? found : path) : NULL,
        path ? json_pack("[s]", path) : NULL,
        path ? "make the cache's folder writable by you alone, or name another with QUERN_CACHE_DIR"
             : "name a folder for the cache with QUERN_CACHE_DIR");
    free(found);
}

quern_status quern_doctor(quern *q, char **json)
{
    if (!q || !json)
        return report(q, QUERN_USAGE, "quern_doctor: a null argument");
    struct examination e = {q, json_object(), json_array(), json_array()};
    json_object_set_new(e.root, "version", json_string(QUERN_VERSION));
    examine_driver(&e);
    examine_gpu(&e);
    examine_nvrtc(&e);
    examine_cxx(&e);
    examine_cache(&e);
    json_object_set_new(e.root, "advice", e.advice);
    json_object_set_new(e.root, "checks", e.checks);
    *json = json_dumps(e.root, JSON_INDENT(2));
    json_decref(e.root);
    return *json ? QUERN_OK : report(q, QUERN_MEMORY, "out of memory");
}
