// nvrtc.c: a kernel's source to a cubin (or PTX), through libnvrtc.
//
// The kernel templates go along as in-memory headers, so NVRTC reads no file and its errors name
// our templates.  What it refuses is a fault of the generator: the source is kept in the temporary
// folder and the message has the log.

#include "runtime/nvrtc.h"
#include "runtime/runtime.h"
#include "templates/templates.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool arch_parse(const char *name, struct arch *out)
{
    out->virtual = !strncmp(name, "compute_", 8);
    if (!out->virtual && strncmp(name, "sm_", 3))
        return false;
    const char *digits = name + (out->virtual ? 8 : 3);
    size_t n = strspn(digits, "0123456789");
    if (n < 2 || n > 4)
        return false;
    out->sm = (int)strtol(digits, NULL, 10);
    out->suffix = digits[n];
    if (!out->suffix)
        return true;
    return !digits[n + 1] &&
           ((out->suffix == 'a' && out->sm >= 90) || (out->suffix == 'f' && out->sm >= 100));
}

void nvrtc_options(struct nvrtc_options *o, const char *arch, enum math math)
{
    snprintf(o->arch, sizeof o->arch, "--gpu-architecture=%s", arch);
    o->n = 0;
    o->words[o->n++] = o->arch;
    o->words[o->n++] = "--std=c++17";
    o->words[o->n++] = "-default-device";
    if (math == MATH_strict)
        o->words[o->n++] = "--fmad=false";
    if (math == MATH_fast)
        o->words[o->n++] = "--use_fast_math";
}

bool nvrtc_compiles_for(const struct nvrtc *n, const char *name)
{
    struct arch arch;
    if (!arch_parse(name, &arch))
        return false;
    for (int i = 0; i < n->n_archs; i++)
        if (n->archs[i] == arch.sm)
            return true;
    return false;
}

char *nvrtc_arch_list(const struct nvrtc *n)
{
    char *text = NULL;
    size_t n_text;
    FILE *out = open_memstream(&text, &n_text);
    if (!out)
        return NULL;
    for (int i = 0; i < n->n_archs; i++)
        fprintf(out, i ? " sm_%d" : "sm_%d", n->archs[i]);
    fclose(out);
    return text;
}

static nvrtcResult create_program(const struct nvrtc *n, const struct kernel *kernel,
                                  nvrtcProgram *program)
{
    const char **texts = calloc((size_t)n_templates * 2, sizeof *texts);
    if (!texts)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    const char **names = texts + n_templates;
    for (int i = 0; i < n_templates; i++) {
        texts[i] = templates[i].text;
        names[i] = templates[i].name;
    }
    char *file = NULL;
    nvrtcResult r = NVRTC_ERROR_OUT_OF_MEMORY;
    if (asprintf(&file, "%s.cu", kernel->name) >= 0) {
        r = n->nvrtcCreateProgram(program, kernel->source, file, n_templates, texts, names);
        free(file);
    }
    free(texts);
    return r;
}

static char *log_of(const struct nvrtc *n, nvrtcProgram program)
{
    size_t n_bytes = 0;
    if (n->nvrtcGetProgramLogSize(program, &n_bytes) || !n_bytes)
        return NULL;
    char *text = calloc(1, n_bytes + 1);
    if (text && n->nvrtcGetProgramLog(program, text)) {
        free(text);
        return NULL;
    }
    return text;
}

// Writes the source where a person can look at it; path has room for PATH_MAX bytes.
static bool keep_source(const struct kernel *kernel, char *path, size_t n_path)
{
    snprintf(path, n_path, P_tmpdir "/quern-%.60s-XXXXXX.cu", kernel->name);
    int fd = mkstemps(path, 3);
    if (fd < 0)
        return false;
    bool whole = write_all(fd, kernel->source, strlen(kernel->source));
    close(fd);
    return whole;
}

static quern_status report_refusal(quern *q, const struct nvrtc *n, const struct kernel *kernel,
                                   nvrtcProgram program, nvrtcResult r)
{
    char *log = program ? log_of(n, program) : NULL;
    const char *text = log ? log : "";
    quern_status status;
    if (r == NVRTC_ERROR_OUT_OF_MEMORY) {
        status = report(q, QUERN_MEMORY, "out of memory while NVRTC compiled %s", kernel->name);
    } else if (r == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
        status = report(q, QUERN_MISSING,
                        "NVRTC (%s) cannot work: libnvrtc-builtins.so.%d.%d is not beside it\n%s",
                        n->path, n->major, n->minor, text);
    } else {
        char path[256];
        bool kept = keep_source(kernel, path, sizeof path);
        status = report(q, QUERN_INTERNAL, "%s does not compile (%s); its source is %s%s\n%s",
                        kernel->name, n->nvrtcGetErrorString(r), kept ? "kept in " : "lost",
                        kept ? path : "", text);
    }
    free(log);
    return status;
}

static quern_status take_code(const struct nvrtc *n, nvrtcProgram program, bool ptx,
                              struct code *out)
{
    if ((ptx ? n->nvrtcGetPTXSize : n->nvrtcGetCUBINSize)(program, &out->n_bytes) || !out->n_bytes)
        return QUERN_INTERNAL;
    out->bytes = calloc(1, out->n_bytes + 1);
    if (!out->bytes)
        return QUERN_MEMORY;
    if ((ptx ? n->nvrtcGetPTX : n->nvrtcGetCUBIN)(program, out->bytes)) {
        free(out->bytes);
        out->bytes = NULL;
        return QUERN_INTERNAL;
    }
    return QUERN_OK;
}

quern_status nvrtc_compile(quern *q, const struct nvrtc *n, const struct kernel *kernel,
                           const struct nvrtc_options *options, struct code *out)
{
    nvrtcProgram program = NULL;
    nvrtcResult r = create_program(n, kernel, &program);
    if (!r)
        r = n->nvrtcCompileProgram(program, options->n, options->words);
    quern_status status = QUERN_OK;
    if (r) {
        status = report_refusal(q, n, kernel, program, r);
    } else {
        status = take_code(n, program, strstr(options->arch, "compute_") != NULL, out);
        if (status)
            report(q, status, "NVRTC gave no code for %s", kernel->name);
    }
    if (program)
        n->nvrtcDestroyProgram(&program);
    return status;
}
