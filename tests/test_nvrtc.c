// test_nvrtc.c: every template, with several specs, through NVRTC for every architecture, and what
// came out: no warning, no local memory, wide accesses where the spec promises them, room for the
// block.  No GPU is needed; without NVRTC there is one test, which says so.

#include "runtime/runtime.h"
#include "templates/templates.h"
#include "tests/compiled.h"
#include "tests/cubin.h"
#include "tests/on_host.h"
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
    FMA = 4,    // an inner loop of many multiply-adds
    SHARED = 8  // blocks of a team, or of a cluster where the GPU has those, share a row
};

// Programs of sizes M, N and K.
static const char multiply_add[] = "input a : f32[N]\ninput b : f32[N]\noutput y = a * b + 1\n",
                  activations[] = "input a : f16[N]\ninput p : bool[N]\n"
                                  "output y = where(p, gelu(a), mish(a))\n"
                                  "output z = logsumexp(stack([a, a * 2]), axis = 0) ** 2.5\n",
                  padded[] = "input x : f32[M, N]\noutput y = pad(x.T, [[1, 2], [3, 4]]) / 3\n",
                  transposed[] = "input x : f32[M, N]\ninput z : f32[N, M]\noutput y = x.T + z\n",
                  softmax[] = "input x : f32[M, N]\noutput y = softmax(x, axis = 1)\n",
                  layer_norm[] = "input x : f16[M, N]\nweight w : f32[N]\nweight b : f32[N]\n"
                                 "output y = layer_norm(x, w, b)\n",
                  argmax[] = "input x : bf16[M, N]\noutput i = argmax(x, axis = 1)\n"
                             "output n = sum(x > 0, axis = 1)\n",
                  columns[] = "input x : f32[M, N]\noutput s = sum(x, axis = 0)\n"
                              "output a = amax(abs(x), axis = 0)\n",
                  products[] = "input x : f32[M, N]\ninput y : f32[M, N]\ninput z : f32[M, N]\n"
                               "input w : f32[M, N]\noutput s = sum(x * y + z * w, axis = 0)\n",
                  norm[] = "input x : f64[M, N]\noutput s = norm(x)\n",
                  product[] = "input a : f32[M, K]\ninput b : f32[K, N]\noutput c = a @ b\n",
                  dressed[] = "input a : f32[M, K]\ninput w : f32[N, K]\ninput b : f32[N]\n"
                              "output c = gelu(linear(relu(a), w, b))\n",
                  batched[] = "input a : f16[3, M, K]\ninput b : f16[3, K, N]\n"
                              "output c = a @ b + 1\n",
                  in_f64[] = "input a : f64[M, K]\ninput b : f64[N, K]\noutput c = a @ b.T\n";

static const struct probe {
    const char *family, *text;
    int64_t m, n, k;
    int alignment;
    unsigned expected;
} probes[] = {
    {"map",     multiply_add, 1,      1 << 20, 1,    0, WIDE         },
    {"map",     multiply_add, 1,      1 << 20, 1,    4, NARROW       },
    {"map",     activations,  1,      1000003, 1,    0, 0            },
    {"map",     padded,       70001,  70003,   1,    0, 0            },
    {"map",     transposed,   4096,   8192,    1,    0, WIDE         },
    {"rows",    softmax,      4096,   64,      1,    0, WIDE         },
    {"rows",    softmax,      4096,   16384,   1,    0, WIDE         },
    {"rows",    softmax,      200,    1 << 22, 1,    0, 0            },
    {"rows",    softmax,      64,     131072,  1,    0, SHARED | WIDE},
    {"rows",    softmax,      200,    131072,  1,    0, SHARED | WIDE},
    {"rows",    softmax,      64,     99999,   1,    0, SHARED       },
    {"rows",    softmax,      200,    360000,  1,    0, SHARED       },
    {"rows",    layer_norm,   64,     131072,  1,    0, SHARED       },
    {"rows",    layer_norm,   1024,   131072,  1,    0, SHARED       },
    {"rows",    layer_norm,   200,    480000,  1,    0, SHARED       },
    {"rows",    layer_norm,   4096,   5120,    1,    0, 0            },
    {"rows",    argmax,       129,    777,     1,    0, 0            },
    {"columns", columns,      100000, 1024,    1,    0, 0            },
    {"columns", products,     100000, 1024,    1,    0, 0            },
    {"columns", norm,         100000, 1023,    1,    0, 0            },
    {"gemm",    product,      4096,   4096,    4096, 0, FMA          },
    {"gemm",    dressed,      8,      4093,    4095, 0, 0            },
    {"gemm",    batched,      1000,   1024,    512,  0, FMA          },
    {"gemm",    in_f64,       500,    500,     500,  0, 0            },
};
enum { N_PROBES = sizeof probes / sizeof *probes, N_ARCHS = sizeof archs / sizeof *archs };
enum { MAX_FAULTS = 8 };

// ---- one kernel ----

// Found by the threads that compile, and shown by the test.
struct faults {
    const char *arch;
    enum math math;
    pthread_mutex_t lock;
    int next, n;
    int first; // of the candidates that are tried
    char *text[MAX_FAULTS];
};

static void fault(struct faults *f, const struct kernel *k, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void fault(struct faults *f, const struct kernel *k, const char *format, ...)
{
    char why[600];
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
    nvrtc_options(&options, f->arch, f->math);
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
    bool on_tensor_cores = strstr(k->spec, "parts_a=") && !strstr(k->spec, "parts_a=0");
    int local = cubin_count(c, OPCODE_load_local) + cubin_count(c, OPCODE_store_local);
    // The compiler may park a few scalars of an outer loop, to fit one more block on the SM.
    int parked = on_tensor_cores || !(expected & FMA) ? 16 : 0;
    int copies = cubin_count(c, OPCODE_copy_async), loads = cubin_count(c, OPCODE_load_global);
    int stores = cubin_count(c, OPCODE_store_global);
    int wide = cubin_count_wide(c, OPCODE_load_global, WIDTH_16);
    int wide_stores = cubin_count_wide(c, OPCODE_store_global, WIDTH_16);
    if (c->frame_bytes > parked || local > parked)
        fault(f, k, "%d accesses to local memory, a frame of %d bytes", local, c->frame_bytes);
    if (!(loads + copies) || !stores)
        fault(f, k, "%d loads, %d stores of global memory", loads, stores);
    bool in_teams = k->team > 1; // whose packets are narrower, and whose rows are copied
    if (in_teams && !copies)
        fault(f, k, "teams without copies");
    if (expected & WIDE && !in_teams && (wide != loads || wide_stores != stores))
        fault(f, k, "16 bytes wide are %d of %d loads, %d of %d stores", wide, loads, wide_stores,
              stores);
    if (expected & NARROW && (wide || wide_stores))
        fault(f, k, "%d loads and %d stores are 16 bytes wide", wide, wide_stores);
    bool in_cluster = expected & SHARED && target_find(f->arch)->max_cluster > 1 && !in_teams;
    if (in_cluster != (k->cluster[0] > 1 && cubin_count(c, OPCODE_cluster_barrier) > 0))
        fault(f, k, "clusters of %u blocks, %d halves of barriers", k->cluster[0],
              cubin_count(c, OPCODE_cluster_barrier));
    int multiplied = cubin_count(c, on_tensor_cores ? OPCODE_mma : OPCODE_ffma);
    if (multiplied < (on_tensor_cores ? 16 : 128) && (on_tensor_cores || expected & FMA))
        fault(f, k, "%d multiply-adds", multiplied);
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

static void compile_probe(struct compiled *c, const struct faults *f, const struct probe *p,
                          const struct chosen_spec *spec, bool list_candidates)
{
    struct size sizes[] = {
        {"M", p->m},
        {"N", p->n},
        {"K", p->k}
    };
    struct compile_options options = {.target = target_find(f->arch),
                                      .sizes = sizes,
                                      .n_sizes = 3,
                                      .alignment = p->alignment,
                                      .math = f->math,
                                      .specs = spec,
                                      .n_specs = spec != NULL,
                                      .list_candidates = list_candidates};
    char text[512];
    snprintf(text, sizeof text, "program p(M, N, K)\n%s", p->text);
    compile_text(c, text, &options);
}

static void try_probe(struct faults *f, const struct probe *p)
{
    struct compiled c;
    compile_probe(&c, f, p, NULL, false);
    struct kernel none = {.expression = p->text, .spec = ""};
    int last = c.program.n_kernels - 1;
    if (!c.ok)
        fault(f, &none, "%s", c.shown);
    else if (strcmp(c.program.kernels[last].family, p->family) != 0)
        fault(f, &none, "%s was expected, not %s", p->family, c.program.kernels[last].family);
    for (int i = 0; c.ok && i <= last; i++)
        try_kernel(f, &c.program.kernels[i], i == last ? p->expected : 0);
    compiled_free(&c);
}

// Of the last kernel's candidates one in SPACING, others for each arch: they compile, without a
// word, and an SM has room for a block.
enum { SPACING = 96 };

static void try_candidates(struct faults *f, const struct probe *p, int first)
{
    struct compiled base, c;
    compile_probe(&base, f, p, NULL, true);
    int last = base.program.n_kernels - 1;
    const struct kernel *k = &base.program.kernels[last];
    for (int i = first % SPACING; i < k->n_candidates; i += SPACING) {
        size_t n_bytes = 0;
        struct cubin cubin;
        compile_probe(&c, f, p, &(struct chosen_spec){k->name, k->candidates[i].spec}, false);
        const struct kernel *one = &c.program.kernels[last];
        char *bytes = cubin_of(f, one, &n_bytes);
        if (!bytes || !cubin_read(bytes, n_bytes, one->name, &cubin))
            fault(f, one, "no cubin of it");
        else
            check_room(f, one, &cubin);
        free(bytes);
        compiled_free(&c);
    }
    compiled_free(&base);
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
        if (has_address_sanitizer() && (i + f->first) % 2)
            continue;
        try_probe(f, &probes[i]);
        if (f->math == MATH_real)
            try_candidates(f, &probes[i], f->first + i);
    }
}

// In the slower build of the sanitizers every other probe, others for the next arch, and with fast
// math one arch in three.
START_TEST(kernels_compile_to_what_their_specs_promise)
{
    if (has_address_sanitizer() && _i >= N_ARCHS && _i % 3)
        return;
    enum { N_THREADS = 2 };
    struct faults f = {.arch = archs[_i % N_ARCHS],
                       .math = _i < N_ARCHS ? MATH_real : MATH_fast,
                       .first = 5 * _i,
                       .lock = PTHREAD_MUTEX_INITIALIZER};
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

bool nvrtc_is_here(void)
{
    struct nvrtc found;
    bool here = nvrtc_open(&found, getenv("CUDA_HOME"), 0);
    nvrtc_close(&found);
    return here;
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
    tcase_add_loop_test(t, kernels_compile_to_what_their_specs_promise, 0, 2 * N_ARCHS);
    return suite;
}
