// driver.c: libcuda.so.1, found by the loader, to a table of its entry points.  Nothing here
// initialises the driver.

#include "runtime/driver.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// cuda.h spells cuMemAlloc as cuMemAlloc_v2: the name has to expand before it becomes a string.
#define NAME(f) NAME_(f)
#define NAME_(f) #f

struct entry_point {
    const char *name, *older;
    bool needed;
    size_t offset;
};

static const struct entry_point entry_points[] = {
#define CU(f, older, needed) {NAME(f), older, needed, offsetof(struct driver, f)},
#include "runtime/driver.def"
#undef CU
};

static bool bind_all(struct driver *cu, char *why, size_t n_why)
{
    for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; i++) {
        const struct entry_point *e = &entry_points[i];
        void *f = dlsym(cu->library, e->name);
        if (!f && e->older)
            f = dlsym(cu->library, e->older);
        if (!f && e->needed) {
            snprintf(why, n_why, "the driver has no %s: it is too old", e->name);
            return false;
        }
        memcpy((char *)cu + e->offset, &f, sizeof f);
    }
    return true;
}

bool driver_open(struct driver *cu, char *why, size_t n_why)
{
    memset(cu, 0, sizeof *cu);
    cu->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!cu->library) {
        snprintf(why, n_why, "no NVIDIA driver: %s", dlerror());
        return false;
    }
    if (!bind_all(cu, why, n_why)) {
        driver_close(cu);
        return false;
    }
    struct link_map *map = NULL;
    if (!dlinfo(cu->library, RTLD_DI_LINKMAP, &map) && map)
        cu->path = strdup(map->l_name);
    if (cu->cuDriverGetVersion(&cu->version))
        cu->version = 0;
    return true;
}

void driver_close(struct driver *cu)
{
    free(cu->path);
    if (cu->library)
        dlclose(cu->library);
    memset(cu, 0, sizeof *cu);
}
