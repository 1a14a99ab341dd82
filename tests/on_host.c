// on_host.c: kernels' source to functions that a test can launch

#include "tests/on_host.h"
#include "tests/tests.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

struct host_library *load_kernels(const struct kernel *kernels, int n_kernels, const char *flags)
{
    char path[] = "/tmp/quern-test-XXXXXX";
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
    char *message;
    enum host_status status = host_compile("c++", flags, kernels, n_kernels, path, &message);
    ck_assert_msg(status == HOST_ok, "%s", message);
    struct host_library *library;
    status = host_load(path, &library, &message);
    unlink(path);
    ck_assert_msg(status == HOST_ok, "%s", message);
    return library;
}

struct kernel *find_kernel(struct kernel *kernels, const char *name)
{
    while (strcmp(kernels->name, name))
        kernels++;
    return kernels;
}

char *launch_kernel(const struct host_library *library, const struct kernel *kernel, bool reversed,
                    void *const *pointers)
{
    struct host_launch launch = {.kernel = kernel, .pointers = pointers, .reversed = reversed};
    char *message;
    ck_assert(host_find(library, kernel->name, &launch.function));
    enum host_status status = host_launch(&launch, &message);
    ck_assert(status == HOST_ok || status == HOST_failed);
    ck_assert((status == HOST_ok) == !message);
    return message;
}

bool has_address_sanitizer(void)
{
    return dlsym(RTLD_DEFAULT, "__asan_init") != NULL;
}

const char *sanitizer_flags(void)
{
    return has_address_sanitizer() ? SANITIZER_FLAGS : NULL;
}

void assert_ran(char *message)
{
    ck_assert_msg(!message, "%s", message);
}

void assert_fails(char *message, const char *expected)
{
    ck_assert_ptr_nonnull(message);
    ck_assert_str_eq(message, expected);
    free(message);
}
