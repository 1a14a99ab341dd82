// quern.c: the context: options in, a handle out, and what of the machine is opened for it when
// first needed.

#include "runtime/runtime.h"
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

static void release(quern *q)
{
    struct opened *o = q->opened;
    if (o) {
        free(o->why_no_device);
        pthread_mutex_destroy(&o->lock);
        free(o);
    }
    messages_free(q->messages);
    free(q->cache_dir);
    free(q->cxx);
    free(q->cxx_flags);
    free(q->cuda_home);
    free(q);
}

static bool set_options(quern *q, const quern_options *o)
{
    q->device = o->device;
    q->cache_bytes = o->cache_bytes;
    q->offline = o->offline != 0;
    q->log = o->log;
    q->log_user = o->log_user;
    q->cache_dir = copy(o->cache_dir);
    q->cxx = copy(o->cxx ? o->cxx : "c++");
    q->cxx_flags = copy(o->cxx_flags);
    q->cuda_home = copy(o->cuda_home);
    q->messages = messages_new();
    q->opened = calloc(1, sizeof *q->opened);
    return q->cxx && q->messages && q->opened && !pthread_mutex_init(&q->opened->lock, NULL) &&
           (!o->cache_dir || q->cache_dir) && (!o->cxx_flags || q->cxx_flags) &&
           (!o->cuda_home || q->cuda_home);
}

quern_status quern_open(quern **q, const quern_options *options)
{
    static const quern_options defaults = {0};
    if (!q)
        return report(NULL, QUERN_USAGE, "quern_open: a null argument");
    *q = NULL;
    if (!options)
        options = &defaults;
    if ((unsigned)options->device > QUERN_DEVICE_NONE)
        return report(NULL, QUERN_USAGE, "quern_open: unknown device %d", (int)options->device);
    if (options->cache_bytes < 0)
        return report(NULL, QUERN_USAGE, "quern_open: a cache of %lld bytes",
                      (long long)options->cache_bytes);
    if (sodium_init() < 0)
        return report(NULL, QUERN_MISSING, "libsodium does not start");
    if (options->device == QUERN_DEVICE_CUDA && !cuda_driver_exists())
        return report(NULL, QUERN_MISSING, "no NVIDIA driver: the loader finds no libcuda.so.1");
    quern *made = calloc(1, sizeof *made);
    if (!made || !set_options(made, options)) {
        if (made)
            release(made);
        return report(NULL, QUERN_MEMORY, "out of memory");
    }
    made->opened->owner = made;
    *q = made;
    return QUERN_OK;
}

void quern_close(quern *q)
{
    if (!q)
        return;
    struct opened *o = q->opened;
    if (o->device)
        o->device->close(o->device);
    if (o->tried_nvrtc)
        nvrtc_close(&o->nvrtc);
    cache_close(o->cache);
    release(q);
}

bool forked(const quern *q)
{
    pid_t pid = atomic_load_explicit(&q->opened->gpu_pid, memory_order_relaxed);
    return pid && pid != getpid();
}

quern_status report_fork(const quern *q)
{
    return report(
        q, QUERN_USAGE,
        "this process was forked after its parent had opened the GPU: open quern after the fork");
}

// The lock is held.
static quern_status open_device(const quern *q, struct opened *o)
{
    quern *owner = o->owner;
    if (q->device == QUERN_DEVICE_NONE)
        return QUERN_OK;
    if (q->device != QUERN_DEVICE_HOST &&
        (q->device == QUERN_DEVICE_CUDA || cuda_driver_exists())) {
        quern_status status = cuda_open(owner, &o->device);
        if (!status || q->device == QUERN_DEVICE_CUDA)
            return status;
        note(q, "%s; running on the host device", quern_message(q));
    } else if (q->device == QUERN_DEVICE_AUTO) {
        note(q, "no NVIDIA driver; running on the host device");
    }
    return host_open(owner, &o->device);
}

quern_status need_device(const quern *q, struct device **out)
{
    struct opened *o = q->opened;
    if (forked(q))
        return report_fork(q);
    pthread_mutex_lock(&o->lock);
    if (!o->tried_device) {
        o->device_status = open_device(q, o);
        o->why_no_device = o->device_status ? copy(quern_message(q)) : NULL;
        o->tried_device = true;
    }
    quern_status status = o->device_status;
    *out = o->device;
    pthread_mutex_unlock(&o->lock);
    return status ? report(q, status, "%s", o->why_no_device ? o->why_no_device : "no device")
                  : QUERN_OK;
}

const struct nvrtc *find_nvrtc(const quern *q)
{
    struct opened *o = q->opened;
    pthread_mutex_lock(&o->lock);
    if (!o->tried_nvrtc) {
        int newest = o->device ? o->device->newest_nvrtc : 0;
        o->has_nvrtc = nvrtc_open(&o->nvrtc, q->cuda_home, newest);
        o->tried_nvrtc = true;
    }
    pthread_mutex_unlock(&o->lock);
    return o->has_nvrtc ? &o->nvrtc : NULL;
}

quern_status report_no_nvrtc(const quern *q, const char *kernel)
{
    const char *tried = q->opened->nvrtc.tried;
    return report(q, QUERN_MISSING,
                  "cannot compile %s: libnvrtc, the CUDA run-time compiler, was not found; install "
                  "it or set CUDA_HOME; "
                  "looked in\n%s",
                  kernel, tried ? tried : "");
}

struct cache *find_cache(const quern *q)
{
    struct opened *o = q->opened;
    pthread_mutex_lock(&o->lock);
    if (!o->tried_cache) {
        if (q->cache_dir && *q->cache_dir)
            o->cache = cache_open(q, q->cache_dir, q->cache_bytes);
        o->tried_cache = true;
    }
    pthread_mutex_unlock(&o->lock);
    return o->cache;
}

const char *quern_device_name(const quern *q)
{
    struct device *d;
    return !q || need_device(q, &d) || !d ? "none" : d->name;
}

const char *quern_native_arch(const quern *q)
{
    struct device *d;
    return !q || need_device(q, &d) || !d || !d->native ? NULL : d->target.name;
}

const char *quern_status_name(quern_status s)
{
    static const char *const names[] = {
        [QUERN_OK] = "ok",
        [QUERN_PROGRAM] = "program",
        [QUERN_USAGE] = "usage",
        [QUERN_MISSING] = "missing",
        [QUERN_DEVICE] = "device",
        [QUERN_MEMORY] = "memory",
        [QUERN_INTERNAL] = "internal",
    };
    return (unsigned)s <= QUERN_INTERNAL ? names[s] : "unknown";
}

static bool known(quern_dtype t)
{
    return (unsigned)t < DT_COUNT;
}

const char *quern_dtype_name(quern_dtype t)
{
    return known(t) ? dtype_info[t].name : NULL;
}

int quern_dtype_bytes(quern_dtype t)
{
    return known(t) ? dtype_info[t].bytes : 0;
}

double quern_element(quern_dtype t, const void *data, int64_t i)
{
    return known(t) ? load_element((enum dtype)t, data, i) : 0;
}

void quern_set_element(quern_dtype t, void *data, int64_t i, double value)
{
    if (known(t))
        store_element((enum dtype)t, data, i, value);
}

int quern_default_cache_dir(char *path, size_t size)
{
    const char *own = getenv("QUERN_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int n = -1;
    if (own && *own)
        n = snprintf(path, size, "%s", own);
    else if (xdg && *xdg == '/') // the XDG specification: a relative one is to be ignored
        n = snprintf(path, size, "%s/quern", xdg);
    else if (home && *home)
        n = snprintf(path, size, "%s/.cache/quern", home);
    return n > 0 && (size_t)n < size;
}

quern_status quern_cache_list(quern *q, void (*each)(void *user, const quern_cache_entry *entry),
                              void *user, int verify)
{
    if (!q || !each)
        return report(q, QUERN_USAGE, "quern_cache_list: a null argument");
    struct cache *c = find_cache(q);
    if (!c)
        return report(q, QUERN_USAGE, "there is no cache%s%s", q->cache_dir ? " at " : "",
                      q->cache_dir ? q->cache_dir : "");
    cache_each(c, each, user, verify != 0);
    return QUERN_OK;
}

quern_status quern_cache_prune(quern *q, int64_t max_bytes, int *n_removed)
{
    if (!q || max_bytes < 0)
        return report(q, QUERN_USAGE, "quern_cache_prune: %s",
                      q ? "negative bytes" : "a null argument");
    struct cache *c = find_cache(q);
    if (!c)
        return report(q, QUERN_USAGE, "there is no cache%s%s", q->cache_dir ? " at " : "",
                      q->cache_dir ? q->cache_dir : "");
    int gone = cache_prune(c, max_bytes);
    if (n_removed)
        *n_removed = gone;
    return QUERN_OK;
}
