// device_host.c: kernels to a shared object that the system's C++ compiler makes, and to functions
// of it.

#include "gen/gen.h"
#include "runtime/host.h"
#include "templates/templates.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *text(const char *format, ...)
{
    char *s;
    va_list values;
    va_start(values, format);
    int n = vasprintf(&s, format, values);
    va_end(values);
    return n < 0 ? NULL : s;
}

static enum host_status fail_with(char **message, enum host_status status, char *sentence)
{
    *message = sentence;
    return sentence ? status : HOST_memory;
}

// Files

static FILE *create_in(const char *folder, const char *name)
{
    char *path = text("%s/%s", folder, name);
    FILE *out = path ? fopen(path, "we") : NULL;
    free(path);
    return out;
}

static void remove_in(const char *folder, const char *name)
{
    char *path = text("%s/%s", folder, name);
    if (path)
        unlink(path);
    free(path);
}

// The whole file, with a NUL behind it; NULL: it cannot be read.
static char *read_whole(const char *path, size_t *n_bytes)
{
    FILE *in = fopen(path, "re");
    char *bytes = NULL;
    FILE *out = in ? open_memstream(&bytes, n_bytes) : NULL;
    if (out) {
        char part[4096];
        size_t n;
        while ((n = fread(part, 1, sizeof part, in)) > 0)
            fwrite(part, 1, n, out);
        fclose(out);
    }
    if (in)
        fclose(in);
    return bytes;
}

// A namespace each, so that every kernel may have its own Spec, Args and functions.
static void write_unit(FILE *out, const struct kernel *kernels, int n_kernels)
{
    fprintf(out, "#include \"device.cuh\"\n");
    for (int i = 0; i < n_kernels; i++) {
        const char *name = kernels[i].name;
        fprintf(out, "namespace k%d {\n#line 1 \"%s.cu\"\n%s\n", i, name, kernels[i].source);
        fprintf(
            out,
            "extern \"C\" __attribute__((visibility(\"default\"))) void run_%s(const void *args)\n",
            name);
        fprintf(out, "{\n    %s(*(const Args *)args);\n}\n}\n", name);
    }
}

static bool write_sources(const char *folder, const struct kernel *kernels, int n_kernels)
{
    bool written = true;
    for (int i = 0; i <= n_templates; i++) {
        FILE *out = create_in(folder, i < n_templates ? templates[i].name : "kernels.cpp");
        if (!out)
            return false;
        if (i < n_templates)
            fputs(templates[i].text, out);
        else
            write_unit(out, kernels, n_kernels);
        written &= !ferror(out);
        written &= fclose(out) == 0;
    }
    return written;
}

static void remove_folder(const char *folder)
{
    for (int i = 0; i < n_templates; i++)
        remove_in(folder, templates[i].name);
    remove_in(folder, "kernels.cpp");
    remove_in(folder, "log");
    rmdir(folder);
}

// The compiler

struct words {
    char **word; // ends with NULL
    int n;
};

static bool add_word(struct words *w, char *word)
{
    char **more = word ? realloc(w->word, sizeof *more * (size_t)(w->n + 2)) : NULL;
    if (!more) {
        free(word);
        return false;
    }
    w->word = more;
    w->word[w->n++] = word;
    w->word[w->n] = NULL;
    return true;
}

static bool add_words(struct words *w, const char *spaced)
{
    bool added = true;
    for (const char *s = spaced ? spaced : ""; *s && added;) {
        size_t gap = strspn(s, " "), n = strcspn(s + gap, " ");
        if (n)
            added = add_word(w, strndup(s + gap, n));
        s += gap + n;
    }
    return added;
}

static void free_words(struct words *w)
{
    for (int i = 0; i < w->n; i++)
        free(w->word[i]);
    free(w->word);
}

// The order of -I and the prefix map keep the folder's name out of the object and out of messages.
static bool command_line(struct words *w, const char *cxx, const char *cxx_flags,
                         const char *folder, const char *so_path)
{
    return add_words(w, cxx) &&
           add_words(
               w, "-std=c++17 -O1 -w -fPIC -shared -fvisibility=hidden -ffp-contract=off -fwrapv "
                  "-fno-strict-aliasing -fno-math-errno -fno-exceptions -fno-rtti") &&
           add_words(w, cxx_flags) && add_word(w, text("-ffile-prefix-map=%s/=", folder)) &&
           add_word(w, text("-I%s", folder)) && add_word(w, strdup("-include")) &&
           add_word(w, strdup("host.cuh")) && add_word(w, text("%s/kernels.cpp", folder)) &&
           add_word(w, strdup("-o")) && add_word(w, strdup(so_path));
}

// Runs it with its output in a file.  *error: errno of starting it, else 0; true: it ended well.
static bool run_command(struct words *w, const char *log, int *error)
{
    posix_spawn_file_actions_t files;
    pid_t child;
    int status = 0;
    if ((*error = posix_spawn_file_actions_init(&files)))
        return false;
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    *error = posix_spawnp(&child, w->word[0], &files, NULL, w->word, environ);
    posix_spawn_file_actions_destroy(&files);
    if (*error)
        return false;
    pid_t ended;
    while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR)
        ;
    return ended < 0 ||
           status == 0; // a program that ignores SIGCHLD gets no status: the object tells
}

static enum host_status compile_in(const char *folder, struct words *w, const char *so_path,
                                   char **message)
{
    char *log = text("%s/log", folder);
    if (!log)
        return HOST_memory;
    int error;
    enum host_status status = HOST_ok;
    bool ended_well = run_command(w, log, &error);
    if (error == ENOENT || error == EACCES)
        status = fail_with(message, HOST_missing,
                           text("no C++ compiler: %s: %s", w->word[0], strerror(error)));
    else if (error)
        status = fail_with(message, HOST_failed,
                           text("%s cannot be started: %s", w->word[0], strerror(error)));
    else if (!ended_well || access(so_path, R_OK) != 0) {
        size_t n_bytes;
        status = fail_with(message, HOST_failed, read_whole(log, &n_bytes));
    }
    free(log);
    if (status != HOST_ok)
        unlink(so_path);
    return status;
}

enum host_status host_compile(const char *cxx, const char *cxx_flags, const struct kernel *kernels,
                              int n_kernels, const char *so_path, char **message)
{
    *message = NULL;
    char *folder = text("%s.XXXXXX", so_path);
    if (!folder)
        return HOST_memory;
    if (!mkdtemp(folder)) {
        enum host_status status =
            fail_with(message, HOST_failed, text("%s: %s", folder, strerror(errno)));
        free(folder);
        return status;
    }
    struct words w = {0};
    enum host_status status;
    if (!write_sources(folder, kernels, n_kernels))
        status = fail_with(message, HOST_failed,
                           text("%s: cannot be written: %s", folder, strerror(errno)));
    else if (!command_line(&w, cxx, cxx_flags, folder, so_path))
        status = HOST_memory;
    else if (!w.n || w.word[0][0] == '-')
        status = fail_with(message, HOST_missing, text("no C++ compiler is named"));
    else
        status = compile_in(folder, &w, so_path, message);
    free_words(&w);
    remove_folder(folder);
    free(folder);
    return status;
}

// The object

struct host_library {
    void *handle;
    void (*enter)(struct host_frame *frame);
    pthread_mutex_t *running;
};

// An object built with address sanitizer ends any process that was not: it must be refused before
// it is opened.
static bool needs_sanitizer(const char *so_path)
{
    if (dlsym(RTLD_DEFAULT, "__asan_init"))
        return false;
    size_t n_bytes = 0;
    char *bytes = read_whole(so_path, &n_bytes);
    bool needs = bytes && memmem(bytes, n_bytes, "__asan_init", strlen("__asan_init"));
    free(bytes);
    return needs;
}

enum host_status host_load(const char *so_path, struct host_library **library, char **message)
{
    *message = NULL;
    *library = NULL;
    if (needs_sanitizer(so_path))
        return fail_with(
            message, HOST_failed,
            text("%s was built with -fsanitize=address, and this program was not", so_path));
    void *handle = dlopen(so_path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return fail_with(message, HOST_failed, text("%s", dlerror()));
    struct host_library *l = calloc(1, sizeof *l);
    if (!l) {
        dlclose(handle);
        return HOST_memory;
    }
    l->handle = handle;
    *(void **)&l->enter = dlsym(handle, "host_enter");
    l->running = dlsym(handle, "host_running");
    if (!l->enter || !l->running) {
        host_unload(l);
        return fail_with(message, HOST_failed, text("%s holds no kernels for the host", so_path));
    }
    *library = l;
    return HOST_ok;
}

void host_unload(struct host_library *library)
{
    if (!library)
        return;
    dlclose(library->handle);
    free(library);
}

bool host_find(const struct host_library *library, const char *kernel, struct host_function *out)
{
    char *name = text("run_%s", kernel);
    void *run = name ? dlsym(library->handle, name) : NULL;
    free(name);
    out->enter = library->enter;
    out->running = library->running;
    *(void **)&out->run = run;
    return run != NULL;
}
