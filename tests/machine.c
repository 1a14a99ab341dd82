// machine.c: a machine whose GPU is the one of the driver in tests/fake, for child processes.

#include "tests/machine.h"
#include "tests/child.h"
#include "tests/tests.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const knobs[] = {"FAKE_CUDA_SMS", "FAKE_CUDA_BLOCKS_PER_SM", "FAKE_CUDA_CLUSTER",
                                    "FAKE_CUDA_FAIL"};
static char *loader_path; // as it was

void use_driver(const char *name)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s%s%s", beside(name), loader_path ? ":" : "",
             loader_path ? loader_path : "");
    setenv("LD_LIBRARY_PATH", path, 1);
}

void make_machine(void)
{
    const char *path = getenv("LD_LIBRARY_PATH");
    make_folder();
    loader_path = path ? strdup(path) : NULL;
    use_driver("fake");
    setenv("FAKE_CUDA_LOG", in_folder("launches"), 1);
    write_text("long.qn", "program long(R, N)\ninput x : f64[R, N]\noutput y = softmax(x)\n");
}

void reset_machine(void)
{
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
        unsetenv(knobs[i]);
    use_driver("fake");
}

void remove_machine(void)
{
    reset_machine();
    unsetenv("FAKE_CUDA_LOG");
    if (loader_path)
        setenv("LD_LIBRARY_PATH", loader_path, 1);
    else
        unsetenv("LD_LIBRARY_PATH");
    free(loader_path);
    remove_folder();
}

void set(const char *knob, const char *value)
{
    setenv(knob, value, 1);
}

const char *launches(void)
{
    static char text[1 << 16];
    size_t n = 0;
    FILE *log = fopen(in_folder("launches"), "r");
    if (log) {
        n = fread(text, 1, sizeof text - 1, log);
        fclose(log);
        unlink(in_folder("launches"));
    }
    text[n] = '\0';
    return text;
}

int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

void expect_part(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "`%s` is not in: %s", part, text);
}

bool can_make_machine(void)
{
    char path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    while (n > 0 && path[n - 1] != '/')
        n--;
    strcpy(path + (n > 0 ? n : 0), "fake/libcuda.so.1");
    return !access(path, R_OK) && nvrtc_is_here();
}

// The loader looks among what is loaded before it looks anywhere else.
bool load_driver(void)
{
    const char *forks = getenv("CK_FORK");
    bool own = !forks || strcmp(forks, "no") != 0;
    void *fake = own ? dlopen(beside("fake/libcuda.so.1"), RTLD_NOW | RTLD_LOCAL) : NULL;
    if (fake && dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == fake)
        return true;
    fprintf(stderr, "driver_plans: skipped a test that needs a process without a driver\n");
    return false;
}
