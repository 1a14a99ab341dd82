// nvrtc_find.c: the machine's folders to an opened libnvrtc.
//
// Order: the folder the caller names, the loader's path, /usr/local/cuda, other toolkits beside it
// (newest first), the distribution's folder, next to the executable.  In each, the newest version
// first.  NVRTC opens libnvrtc-builtins by bare name, which finds nothing outside the loader's
// path, so it is opened here, first, from libnvrtc's own folder.

#include "runtime/nvrtc.h"
#include "runtime/runtime.h"
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const sonames[] = {"libnvrtc.so.15", "libnvrtc.so.14",   "libnvrtc.so.13",
                                      "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};

static const struct {
    const char *name;
    size_t offset;
} entry_points[] = {
#define RTC(f) {#f, offsetof(struct nvrtc, f)},
#include "runtime/nvrtc.def"
#undef RTC
};

struct search {
    struct nvrtc *n;
    int newest;
    FILE *tried;
};

static bool bind_all(struct nvrtc *n)
{
    for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; i++) {
        void *f = dlsym(n->library, entry_points[i].name);
        if (!f)
            return false;
        memcpy((char *)n + entry_points[i].offset, &f, sizeof f);
    }
    return true;
}

static bool read_archs(struct nvrtc *n)
{
    if (n->nvrtcVersion(&n->major, &n->minor) || n->nvrtcGetNumSupportedArchs(&n->n_archs))
        return false;
    n->archs = calloc((size_t)n->n_archs + 1, sizeof *n->archs);
    return n->archs && !n->nvrtcGetSupportedArchs(n->archs);
}

static void open_builtins(struct nvrtc *n)
{
    char real[PATH_MAX], builtins[PATH_MAX + 64];
    struct link_map *map = NULL;
    if (dlinfo(n->library, RTLD_DI_LINKMAP, &map) || !map || !realpath(map->l_name, real))
        return;
    n->path = strdup(real);
    char *slash = strrchr(real, '/');
    if (slash)
        *slash = '\0';
    snprintf(builtins, sizeof builtins, "%s/libnvrtc-builtins.so.%d.%d", real, n->major, n->minor);
    dlopen(builtins, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void forget(struct nvrtc *n)
{
    free(n->path);
    free(n->archs);
    if (n->library)
        dlclose(n->library);
    memset(n, 0, sizeof *n);
}

// One candidate.  Unloading a compiler that has started threads or thread-local state is not safe:
// NODELETE.
static bool try_library(struct search *s, const char *path)
{
    struct nvrtc *n = s->n;
    n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!n->library)
        return false;
    if (!bind_all(n) || !read_archs(n)) {
        fprintf(s->tried, "%s: not a usable NVRTC\n", path);
    } else if (s->newest && n->major > s->newest) {
        fprintf(s->tried, "%s: version %d.%d is newer than the driver\n", path, n->major, n->minor);
    } else {
        open_builtins(n);
        return true;
    }
    forget(n);
    return false;
}

static int is_nvrtc(const struct dirent *d)
{
    return !strncmp(d->d_name, "libnvrtc.so", 11);
}

static int is_toolkit(const struct dirent *d)
{
    return !strncmp(d->d_name, "cuda-", 5);
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    return versionsort(b, a);
}

static bool try_folder(struct search *s, const char *folder)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, is_nvrtc, newest_first);
    bool found = false;
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        if (!found && snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name) < PATH_MAX)
            found = try_library(s, path);
        free(names[i]);
    }
    free(names);
    if (!found)
        fprintf(s->tried, "%s\n", folder);
    return found;
}

static bool try_toolkit(struct search *s, const char *home)
{
    static const char *const folders[] = {"lib64", "lib", "targets/x86_64-linux/lib",
                                          "targets/sbsa-linux/lib"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s", home, folders[i]) < PATH_MAX &&
            !access(path, F_OK) && try_folder(s, path))
            return true;
    }
    return false;
}

static bool try_toolkits(struct search *s)
{
    if (try_toolkit(s, "/usr/local/cuda"))
        return true;
    struct dirent **names = NULL;
    int n = scandir("/usr/local", &names, is_toolkit, newest_first);
    bool found = false;
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "/usr/local/%s", names[i]->d_name);
        found = found || try_toolkit(s, path);
        free(names[i]);
    }
    free(names);
    if (!found)
        fprintf(s->tried, "/usr/local/cuda*/lib64\n");
    return found;
}

static bool try_loader(struct search *s)
{
    for (size_t i = 0; i < sizeof sonames / sizeof *sonames; i++)
        if (try_library(s, sonames[i]))
            return true;
    fprintf(s->tried, "the loader's path (libnvrtc.so.11.2 to libnvrtc.so.15)\n");
    return false;
}

static bool try_beside_executable(struct search *s)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 8);
    if (n <= 0)
        return false;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return false;
    *slash = '\0';
    if (try_folder(s, path))
        return true;
    strcpy(slash, "/../lib");
    return try_folder(s, path);
}

bool nvrtc_open(struct nvrtc *n, const char *cuda_home, int newest)
{
    memset(n, 0, sizeof *n);
    char *text = NULL;
    size_t n_text;
    struct search s = {.n = n, .newest = newest, .tried = open_memstream(&text, &n_text)};
    if (!s.tried)
        return false;
    if (cuda_home && *cuda_home)
        fprintf(s.tried, "%s/lib64 (CUDA_HOME)\n", cuda_home);
    bool found = (cuda_home && *cuda_home && try_toolkit(&s, cuda_home)) || try_loader(&s) ||
                 try_toolkits(&s) || try_folder(&s, "/usr/lib/x86_64-linux-gnu") ||
                 try_folder(&s, "/usr/lib/aarch64-linux-gnu") || try_beside_executable(&s);
    fclose(s.tried);
    n->tried = text;
    return found;
}

void nvrtc_close(struct nvrtc *n)
{
    free(n->tried);
    forget(n);
}
