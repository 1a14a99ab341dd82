// test_nvrtc.c: every template, with several specs, through NVRTC for every architecture, and what
// came out: no warning, no local memory, wide accesses where the spec promises them, room for the
// block.  No GPU is needed; without NVRTC there is one test, which says so.

#include "runtime/runtime.h"
#include "templates/templates.h"
#include "tests/compiled.h"
#include "tests/cubin.h"
#include "tests/tests.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static struct nvrtc nvrtc;

static const char *const archs[] = {"sm_75",  "sm_80",  "sm_86", "sm_89",
                                    "sm_90a", "sm_100", "sm_120"};

// What is expected of a probe's last kernel.
enum {
    WIDE = 1,   // every load is of 16 bytes, and so is every store of an element
    NARROW = 2, // none is
    FMA = 4     // an inner loop of many multiply-adds
};

static const struct probe {
    const char *family, *text;
    struct size sizes[4];
    int alignment;
    unsigned expected;
} probes[] = {
    {"map",
     "program p(N)\ninput a : f32[N]\ninput b : f32[N]\noutput y = a * b + 1\n",                   {{"N", 1 << 20}},
     0, WIDE  },
    {"map",
     "program p(N)\ninput a : f32[N]\ninput b : f32[N]\noutput y = a * b + 1\n",                   {{"N", 1 << 20}},
     4, NARROW},
    {"map",
     "program p(N)\ninput a : f16[N]\ninput p : bool[N]\noutput y = where(p, gelu(a), mish(a))\n"
     "output z = log_softmax(stack([a, a * 2]), axis = 0)[0] ** 2.5\n",                            {{"N", 1000003}},
     0, 0     },
    {"map",
     "program p(M, N)\ninput x : f32[M, N]\noutput y = pad(x.T, [[1, 2], [3, 4]]) / 3\n",          {{"M", 70001}, {"N", 70003}},
     0, 0     },
    {"rows",
     "program p(M, N)\ninput x : f32[M, N]\noutput y = softmax(x, axis = 1)\n",                    {{"M", 4096}, {"N", 64}},
     0, WIDE  },
    {"rows",
     "program p(M, N)\ninput x : f32[M, N]\noutput y = softmax(x, axis = 1)\n",                    {{"M", 4096}, {"N", 16384}},
     0, WIDE  },
    {"rows",
     "program p(M, N)\ninput x : f32[M, N]\noutput y = softmax(x, axis = 1)\n",                    {{"M", 200}, {"N", 1 << 20}},
     0, 0     },
    {"rows",
     "program p(M, N)\ninput x : f16[M, N]\nweight w : f32[N]\nweight b : f32[N]\n"
     "output y = layer_norm(x, w, b)\n",                                                           {{"M", 4096}, {"N", 5120}},
     0, 0     },
    {"rows",
     "program p(M, N)\ninput x : bf16[M, N]\noutput i = argmax(x, axis = 1)\n"
     "output n = sum(x > 0, axis = 1)\n",                                                          {{"M", 129}, {"N", 777}},
     0, 0     },
    {"columns",
     "program p(M, N)\ninput x : f32[M, N]\noutput m = mean(x, axis = 0)\n"
     "output a = amax(abs(x), axis = 0)\n",                                                        {{"M", 100000}, {"N", 1024}},
     0, 0     },
    {"columns",
     "program p(M, N)\ninput x : f64[M, N]\noutput s = norm(x)\n",                                 {{"M", 100000}, {"N", 1023}},
     0, 0     },
    {"gemm",
     "program p(M, N, K)\ninput a : f32[M, K]\ninput b : f32[K, N]\noutput c = a @ b\n",           {{"M", 4096}, {"N", 4096}, {"K", 4096}},
     0, FMA   },
    {"gemm",
     "program p(M, N, K)\ninput a : f32[M, K]\nweight w : f32[N, K]\nweight b : f32[N]\n"
     "output c = gelu(linear(relu(a), w, b))\n",                                                   {{"M", 8}, {"N", 4093}, {"K", 4095}},
     0, 0     },
    {"gemm",
     "program p(M, N, K)\ninput a : f16[3, M, K]\ninput b : f16[3, K, N]\noutput c = a @ b + 1\n", {{"M", 1000}, {"N", 1024}, {"K", 512}},
     0, FMA   },
    {"gemm",
     "program p(M, N, K)\ninput a : f64[M, K]\ninput b : f64[N, K]\noutput c = a @ b.T\n",         {{"M", 500}, {"N", 500}, {"K", 500}},
     0, 0     },
};
enum { N_PROBES = sizeof probes / sizeof *probes, MAX_FAULTS = 64 };

// ---- one kernel ----

// Found by the threads that compile, and shown by the test.
struct faults {
    const char *arch;
    pthread_mutex_t lock;
    int next, n;
    char *text[MAX_FAULTS];
};

static void fault(struct faults *f, const struct kernel *k, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void fault(struct faults *f, const struct kernel *k, const char *format, ...)
{
    char why[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    pthread_mutex_lock(&f->lock);
    if (f->n < MAX_FAULTS &&
        asprintf(&f->text[f->n], "%s, %s, %s: %s\n", f->arch, k->expression, k->spec, why) > 0)
        f->n++;
    pthread_mutex_unlock(&f->lock);
}

// The cubin, the caller's; NULL where there is none, or where NVRTC had anything to say.
static char *cubin_of(struct faults *f, const struct kernel *k, size_t *n_bytes)
{
    const char *texts[64], *names[64];
    struct nvrtc_options options;
    nvrtcProgram program;
    size_t n_log = 0;
    char *bytes = NULL;
    for (int i = 0; i < n_templates; i++)
        texts[i] = templates[i].text, names[i] = templates[i].name;
    nvrtc_options(&options, f->arch, false);
    if (nvrtc.nvrtcCreateProgram(&program, k->source, "k.cu", n_templates, texts, names))
        return NULL;
    nvrtcResult result = nvrtc.nvrtcCompileProgram(program, options.n, options.words);
    nvrtc.nvrtcGetProgramLogSize(program, &n_log);
    char *log = calloc(1, n_log + 1);
    if (n_log > 1 && !nvrtc.nvrtcGetProgramLog(program, log))
        fault(f, k, "%s\n%s", nvrtc.nvrtcGetErrorString(result), log);
    else if (!result && !nvrtc.nvrtcGetCUBINSize(program, n_bytes))
        nvrtc.nvrtcGetCUBIN(program, bytes = calloc(1, *n_bytes + 1));
    free(log);
    nvrtc.nvrtcDestroyProgram(&program);
    return bytes;
}

static void check_census(struct faults *f, const struct kernel *k, unsigned expected,
                         const struct cubin *c)
{
    int local = cubin_count(c, OPCODE_load_local) + cubin_count(c, OPCODE_store_local);
    int loads = cubin_count(c, OPCODE_load_global), stores = cubin_count(c, OPCODE_store_global);
    int wide = cubin_count_wide(c, OPCODE_load_global, WIDTH_16);
    int wide_stores = cubin_count_wide(c, OPCODE_store_global, WIDTH_16);
    if (local || c->frame_bytes)
        fault(f, k, "%d accesses to local memory, a frame of %d bytes", local, c->frame_bytes);
    if (!loads || !stores)
        fault(f, k, "%d loads, %d stores of global memory", loads, stores);
    if (expected & WIDE && (wide != loads || wide_stores != stores))
        fault(f, k, "16 bytes wide are %d of %d loads, %d of %d stores", wide, loads, wide_stores,
              stores);
    if (expected & NARROW && (wide || wide_stores))
        fault(f, k, "%d loads and %d stores are 16 bytes wide", wide, wide_stores);
    if (expected & FMA && cubin_count(c, OPCODE_ffma) < 128 && strcmp(f->arch, "sm_100") &&
        strcmp(f->arch, "sm_120"))
        fault(f, k, "%d multiply-adds", cubin_count(c, OPCODE_ffma));
}

// A block that the SM has no room for does not launch.
static void check_room(struct faults *f, const struct kernel *k, const struct cubin *c)
{
    const struct target *t = target_find(f->arch);
    int threads = (int)k->block[0], warps = (threads + 31) / 32;
    int registers = (c->registers + 7) / 8 * 8 * 32 * ((warps + 3) / 4 * 4);
    if (!c->registers || registers > t->registers_per_sm || c->registers > 255)
        fault(f, k, "%d registers for each of %d threads", c->registers, threads);
    if (c->shared_bytes + k->shared_bytes > (size_t)t->shared_per_block)
        fault(f, k, "%zu + %u bytes of shared memory", c->shared_bytes, k->shared_bytes);
}

static void try_kernel(struct faults *f, const struct kernel *k, unsigned expected)
{
    size_t n_bytes = 0;
    struct cubin c;
    char *bytes = cubin_of(f, k, &n_bytes);
    if (!bytes || !cubin_read(bytes, n_bytes, k->name, &c)) {
        fault(f, k, "no cubin of it");
    } else {
        check_census(f, k, expected, &c);
        check_room(f, k, &c);
    }
    free(bytes);
}

// ---- all of them ----

static void try_probe(struct faults *f, const struct probe *probe)
{
    struct compiled c;
    int n = 0;
    while (n < 4 && probe->sizes[n].name)
        n++;
    compile_text(&c, probe->text,
                 &(struct compile_options){.target = target_find(f->arch),
                                           .sizes = probe->sizes,
                                           .n_sizes = n,
                                           .alignment = probe->alignment});
    struct kernel none = {.expression = probe->text, .spec = ""};
    if (!c.ok)
        fault(f, &none, "%s", c.shown);
    else if (strcmp(c.program.kernels[c.program.n_kernels - 1].family, probe->family) != 0)
        fault(f, &none, "%s was expected, not %s", probe->family,
              c.program.kernels[c.program.n_kernels - 1].family);
    for (int i = 0; c.ok && i < c.program.n_kernels; i++)
        try_kernel(f, &c.program.kernels[i], i == c.program.n_kernels - 1 ? probe->expected : 0);
    compiled_free(&c);
}

static void *work(void *state)
{
    struct faults *f = state;
    for (;;) {
        pthread_mutex_lock(&f->lock);
        int i = f->next++;
        pthread_mutex_unlock(&f->lock);
        if (i >= N_PROBES)
            return NULL;
        try_probe(f, &probes[i]);
    }
}

START_TEST(kernels_compile_to_what_their_specs_promise)
{
    enum { N_THREADS = 2 };
    struct faults f = {.arch = archs[_i], .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[N_THREADS];
    if (!nvrtc_compiles_for(&nvrtc, f.arch)) {
        fprintf(stderr, "nvrtc: skipped %s, which NVRTC %d.%d does not know\n", f.arch, nvrtc.major,
                nvrtc.minor);
        return;
    }
    for (int i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &f), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < f.n; i++)
        fputs(f.text[i], stderr), free(f.text[i]);
    ck_assert_int_eq(f.n, 0);
}
END_TEST

START_TEST(there_is_no_nvrtc_so_nothing_was_compiled)
{
    fprintf(stderr, "nvrtc: skipped, NVRTC is not on this machine\n");
}
END_TEST

static void set_up(void)
{
    ck_assert(nvrtc_open(&nvrtc, NULL, 0));
}

static void tear_down(void)
{
    nvrtc_close(&nvrtc);
}

Suite *nvrtc_suite(void)
{
    Suite *suite = suite_create("nvrtc");
    TCase *t = tcase_create("nvrtc");
    struct nvrtc found;
    suite_add_tcase(suite, t);
    bool exists = nvrtc_open(&found, NULL, 0);
    nvrtc_close(&found);
    if (!exists) {
        tcase_add_test(t, there_is_no_nvrtc_so_nothing_was_compiled);
        return suite;
    }
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, kernels_compile_to_what_their_specs_promise, 0,
                        sizeof archs / sizeof *archs);
    return suite;
}
