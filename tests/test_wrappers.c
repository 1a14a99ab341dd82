// test_wrappers.c: templates/'s arithmetic, conversions, memory access and reductions, run by the
// host device; and the same source through NVRTC for every architecture, where there is one.

#include "runtime/nvrtc.h"
#include "templates/templates.h"
#include "tests/on_host.h"
#include "tests/tests.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// Rows of wrapper_rows.def, each a comparison in one kernel

static const struct {
    const char *type, *a, *b, *expression, *expected;
} rows[] = {
#define ROW(type, a, b, expression, expected) {#type, #a, #b, #expression, #expected},
#include "tests/wrapper_rows.def"
#undef ROW
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const char rows_head[] =
    "#include \"device.cuh\"\n"
    "#define nan_f of_bits(0x7fc00000u)\n"
    "#define inf_f highest<float>()\n"
    "struct Args { int *ok; };\n"
    "template <typename T> __device__ bool same(T x, T y) { return x == y; }\n"
    "template <> __device__ bool same<float>(float x, float y)\n"
    "{ return x != x ? y != y : bits_of(x) == bits_of(y); }\n"
    "template <> __device__ bool same<double>(double x, double y)\n"
    "{ return x != x ? y != y : bits_of(x) == bits_of(y); }\n"
    "template <typename T> __device__ bool near(T x, double y)\n"
    "{ return fabs((double)x - y) <= fabs(y) * (sizeof(T) == 4 ? 3e-7 : 1e-15); }\n"
    "extern \"C\" __global__ void all_rows(const __grid_constant__ Args args)\n{\n";

static bool same_as_before(int i)
{
    return i > 0 && !strcmp(rows[i].type, rows[i - 1].type) &&
           !strcmp(rows[i].expression, rows[i - 1].expression);
}

// The operands pass through volatile memory, so that the compiler computes nothing beforehand.
// once: of rows with one expression, the first.
static char *rows_source(bool once)
{
    char *source;
    size_t n_bytes;
    FILE *out = open_memstream(&source, &n_bytes);
    fputs(rows_head, out);
    for (int i = 0; i < N_ROWS; i++) {
        const char *type = rows[i].type;
        if (once && same_as_before(i))
            continue;
        fprintf(out, "    { volatile %s va = %s, vb = %s; %s a = va, b = vb;", type, rows[i].a,
                rows[i].b, type);
        fprintf(out, " args.ok[%d] = same(%s, %s); }\n", i, rows[i].expression, rows[i].expected);
    }
    fputs("}\n", out);
    fclose(out);
    return source;
}

// f16 and bf16, memory

static const char formats_source[] =
    "#include \"device.cuh\"\n"
    "struct Args { half_t *h; bfloat_t *b; float *from_h; float *from_b; half_t *back_h;\n"
    "    bfloat_t *back_b; double *x; half_t *x_h; bfloat_t *x_b; };\n"
    "extern \"C\" __global__ void formats(const __grid_constant__ Args args)\n{\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    args.from_h[i] = to_compute(load(args.h + i));\n"
    "    args.from_b[i] = to_compute(load(args.b + i));\n"
    "    args.back_h[i] = to_storage<half_t>(args.from_h[i]);\n"
    "    args.back_b[i] = to_storage<bfloat_t>(args.from_b[i]);\n"
    "    args.x_h[i] = to_storage<half_t>(args.x[i]);\n"
    "    args.x_b[i] = to_storage<bfloat_t>(args.x[i]);\n"
    "}\n";

// 128 bytes of each type by each way; the last two as structs.
static const char memory_source[] =
    "#include \"device.cuh\"\n"
    "struct Mixed { double a; float b; int c; };\n"
    "struct Bytes { unsigned char v[3]; };\n"
    "struct Args { char *in; char *out; };\n"
    "template <typename T, int N> __device__ void copy(const char *in, char *&out)\n{\n"
    "    const T *from = (const T *)in;\n"
    "    for (int i = 0; i < 128 / (int)sizeof(T); i += N)\n"
    "        store_vec((T *)out + i, load_vec<T, N>(from + i));\n"
    "    out += 128;\n"
    "    for (int i = 0; i < 128 / (int)sizeof(T); i += N)\n"
    "        store_vec((T *)out + i, load_vec<T, N, ReadAgain>(from + i));\n"
    "    out += 128;\n"
    "    for (int i = 0; i < 128 / (int)sizeof(T); i += N)\n"
    "        store_vec((T *)out + i, load_vec<T, N, ReadLast>(from + i));\n"
    "    out += 128;\n}\n"
    "template <typename T> __device__ void copy_one(const char *in, char *&out)\n{\n"
    "    for (int i = 0; i < 128 / (int)sizeof(T); i++)\n"
    "        store((T *)out + i, load((const T *)in + i));\n"
    "    out += 128;\n"
    "    for (int i = 0; i < 128 / (int)sizeof(T); i++)\n"
    "        store((T *)out + i, load_coherent((const T *)in + i));\n"
    "    out += 128;\n}\n"
    "extern \"C\" __global__ void copies(const __grid_constant__ Args args)\n{\n"
    "    char *out = args.out;\n"
    "    copy<float, 1>(args.in, out);\n    copy<float, 2>(args.in, out);\n"
    "    copy<float, 4>(args.in, out);\n    copy<float, 8>(args.in, out);\n"
    "    copy<half_t, 1>(args.in, out);\n    copy<half_t, 2>(args.in, out);\n"
    "    copy<half_t, 8>(args.in, out);\n    copy<bfloat_t, 4>(args.in, out);\n"
    "    copy<double, 1>(args.in, out);\n    copy<double, 2>(args.in, out);\n"
    "    copy<double, 4>(args.in, out);\n    copy<long long, 2>(args.in, out);\n"
    "    copy<unsigned char, 1>(args.in, out);\n    copy<signed char, 2>(args.in, out);\n"
    "    copy<unsigned char, 16>(args.in, out);\n    copy<int, 4>(args.in, out);\n"
    "    copy_one<float>(args.in, out);\n    copy_one<Mixed>(args.in, out);\n"
    "    copy_one<Indexed<double>>(args.in, out);\n    copy_one<unsigned char>(args.in, out);\n}\n";
enum { N_COPIES = 56 };

// Reductions: an accumulator knows the range of threads it stands for, so that what leaves some out
// or takes one twice shows.

static const char reduce_head[] =
    "#include \"device.cuh\"\n"
    "struct Acc { double sum; float largest; int first, last, adjoining; };\n"
    "struct Args { double *x; Acc *out; };\n"
    "__device__ void combine(Acc &a, const Acc &b)\n{\n"
    "    a.sum += b.sum;\n"
    "    a.largest = maximum(a.largest, b.largest);\n"
    "    bool adjoin = a.last + 1 == b.first || b.last + 1 == a.first;\n"
    "    a.adjoining &= b.adjoining && adjoin;\n"
    "    a.first = min(a.first, b.first);\n"
    "    a.last = max(a.last, b.last);\n}\n"
    "__device__ Acc start(double x)\n{\n"
    "    return {x, (float)x, (int)threadIdx.x, (int)threadIdx.x, 1};\n}\n";

struct acc {
    double sum;
    float largest;
    int first, last, adjoining;
};

static const struct {
    int width, threads; // of a group, of the block; widths under 32 go through warp_reduce
} reductions[] = {
    {1,    32  },
    {2,    64  },
    {4,    32  },
    {8,    32  },
    {16,   96  },
    {32,   64  },
    {32,   128 },
    {64,   64  },
    {64,   256 },
    {96,   192 },
    {128,  128 },
    {160,  320 },
    {256,  256 },
    {256,  1024},
    {384,  768 },
    {512,  1024},
    {1024, 1024}
};
enum { N_REDUCTIONS = sizeof reductions / sizeof *reductions, N_KERNELS = 3 + N_REDUCTIONS };

static struct kernel kernels[N_KERNELS];
static struct host_library *library;

static char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *text(const char *format, ...)
{
    char *s;
    va_list values;
    va_start(values, format);
    ck_assert_int_ge(vasprintf(&s, format, values), 0);
    va_end(values);
    return s;
}

// Twice in a row: the second call must find shared memory free.
static void make_reduction(struct kernel *k, int width, int threads)
{
    char *call = width < 32 ? text("warp_reduce<%d>(acc, combine);", width)
                            : text("block_reduce<%d>(acc, combine, shared);", width);
    k->name = text("reduce_%d_of_%d", width, threads);
    k->source = text("%sextern \"C\" __global__ void %s(const __grid_constant__ Args args)\n{\n"
                     "    Acc *shared = (Acc *)dynamic_shared() + threadIdx.x / %d * (%d / 32);\n"
                     "    for (int turn = 0; turn < 2; turn++) {\n"
                     "        Acc acc = start(args.x[turn * blockDim.x + threadIdx.x]);\n"
                     "        %s\n"
                     "        args.out[turn * blockDim.x + threadIdx.x] = acc;\n    }\n}\n",
                     reduce_head, k->name, width, width, call);
    k->block[0] = (unsigned)threads;
    k->shared_bytes = (unsigned)(threads / 32 * (int)sizeof(struct acc));
    free(call);
}

static void make_kernels(void)
{
    kernels[0] = (struct kernel){
        .name = "all_rows", .source = rows_source(false), .block = {1, 1, 1}
    };
    kernels[1] = (struct kernel){
        .name = "formats", .source = formats_source, .block = {256, 1, 1}
    };
    kernels[2] = (struct kernel){
        .name = "copies", .source = memory_source, .block = {1, 1, 1}
    };
    for (int i = 0; i < N_REDUCTIONS; i++) {
        kernels[3 + i].block[1] = kernels[3 + i].block[2] = 1;
        make_reduction(&kernels[3 + i], reductions[i].width, reductions[i].threads);
    }
    for (int i = 0; i < N_KERNELS; i++)
        kernels[i].grid[0] = kernels[i].grid[1] = kernels[i].grid[2] = 1;
    kernels[1].grid[0] = 256;
    library = load_kernels(kernels, N_KERNELS, sanitizer_flags());
}

static void free_kernels(void)
{
    host_unload(library);
    free((void *)(uintptr_t)kernels[0].source);
    for (int i = 3; i < N_KERNELS; i++) {
        free((void *)(uintptr_t)kernels[i].name);
        free((void *)(uintptr_t)kernels[i].source);
    }
}

static void launch(const struct kernel *k, bool reversed, void *const *pointers)
{
    char *message = launch_kernel(library, k, reversed, pointers);
    ck_assert_msg(!message, "%s", message);
}

START_TEST(every_row_holds)
{
    static int ok[N_ROWS];
    launch(&kernels[0], false, (void *const[]){ok});
    for (int i = 0; i < N_ROWS; i++)
        ck_assert_msg(ok[i], "%s a = %s, b = %s: %s is not %s", rows[i].type, rows[i].a, rows[i].b,
                      rows[i].expression, rows[i].expected);
}
END_TEST

enum { PATTERNS = 65536 };

// Doubles at, just under and just over what lies between two neighbours of a format, and others.
static double hard_to_round(int i, enum dtype dtype)
{
    unsigned short pair[2] = {(unsigned short)i, (unsigned short)(i + 1)};
    double low = load_element(dtype, pair, 0), high = load_element(dtype, pair, 1);
    double middle = (low + high) / 2;
    if (!isfinite(middle))
        return low;
    return i % 3 == 0 ? middle : nextafter(middle, i % 3 == 1 ? low : high);
}

static void check_formats(enum dtype hard)
{
    static unsigned short bits[PATTERNS], back_h[PATTERNS], back_b[PATTERNS], x_h[PATTERNS],
        x_b[PATTERNS];
    static float from_h[PATTERNS], from_b[PATTERNS];
    static double x[PATTERNS];
    for (int i = 0; i < PATTERNS; i++) {
        bits[i] = (unsigned short)i;
        x[i] = hard_to_round(i, hard);
    }
    launch(&kernels[1], false,
           (void *const[]){bits, bits, from_h, from_b, back_h, back_b, x, x_h, x_b});
    for (int i = 0; i < PATTERNS; i++) {
        double h = load_element(DT_f16, bits, i), b = load_element(DT_bf16, bits, i);
        ck_assert(isnan(h) ? isnan(from_h[i]) : from_h[i] == (float)h);
        ck_assert(isnan(b) ? isnan(from_b[i]) : from_b[i] == (float)b);
        ck_assert_int_eq(back_h[i], isnan(h) ? 0x7fff : i);
        ck_assert_int_eq(back_b[i], isnan(b) ? 0x7fff : i);
        if (isnan(x[i]))
            continue;
        unsigned short expected;
        store_element(DT_f16, &expected, 0, x[i]);
        ck_assert_msg(x_h[i] == expected, "%a is f16 %04x and not %04x", x[i], expected, x_h[i]);
        store_element(DT_bf16, &expected, 0, x[i]);
        ck_assert_msg(x_b[i] == expected, "%a is bf16 %04x and not %04x", x[i], expected, x_b[i]);
    }
}

START_TEST(every_f16_and_bf16_goes_to_float_and_back)
{
    check_formats(DT_f16);
}
END_TEST

START_TEST(doubles_round_to_f16_and_bf16_once)
{
    check_formats(DT_bf16);
}
END_TEST

START_TEST(loads_and_stores_move_every_byte)
{
    static _Alignas(128) unsigned char in[128], out[N_COPIES * 128];
    for (int i = 0; i < 128; i++)
        in[i] = (unsigned char)(i * 37 + 1);
    launch(&kernels[2], false, (void *const[]){in, out});
    for (int i = 0; i < N_COPIES * 128; i++)
        ck_assert_msg(out[i] == in[i % 128], "copy %d, byte %d", i / 128, i % 128);
}
END_TEST

START_TEST(every_thread_gets_its_groups_result)
{
    int width = reductions[_i].width, threads = reductions[_i].threads;
    double x[2048];
    struct acc out[2048];
    for (int i = 0; i < 2 * threads; i++)
        x[i] = (i * 7919 % 1000) - 500;
    for (int reversed = 0; reversed < 2; reversed++) {
        memset(out, 0, sizeof out);
        launch(&kernels[3 + _i], reversed, (void *const[]){x, out});
        for (int i = 0; i < 2 * threads; i++) {
            int first = i / width * width;
            double sum = 0, largest = x[first];
            for (int j = first; j < first + width; j++) {
                sum += x[j];
                largest = fmax(largest, x[j]);
            }
            ck_assert(out[i].sum == sum && (double)out[i].largest == largest);
            ck_assert_int_eq(out[i].first, first % threads);
            ck_assert_int_eq(out[i].last, first % threads + width - 1);
            ck_assert_int_eq(out[i].adjoining, 1);
        }
    }
}
END_TEST

// NVRTC

static struct kernel fragment_kernels[] = {
#include "tests/fragment_kernels.def"
};

static const char *const archs[] = {"sm_75",  "sm_80",  "sm_86", "sm_89",
                                    "sm_90a", "sm_100", "sm_120"};

static void compile_for(const struct nvrtc *n, const char *arch, const struct kernel *k)
{
    const char *names[32], *texts[32], *options[2] = {NULL, "--std=c++17"};
    for (int i = 0; i < n_templates; i++) {
        names[i] = templates[i].name;
        texts[i] = templates[i].text;
    }
    char *arch_option = text("--gpu-architecture=%s", arch);
    options[0] = arch_option;
    nvrtcProgram program;
    ck_assert_int_eq(n->nvrtcCreateProgram(&program, k->source, k->name, n_templates, texts, names),
                     0);
    nvrtcResult result = n->nvrtcCompileProgram(program, 2, options);
    size_t bytes;
    n->nvrtcGetProgramLogSize(program, &bytes);
    char *log = calloc(bytes + 1, 1);
    n->nvrtcGetProgramLog(program, log);
    ck_assert_msg(result == NVRTC_SUCCESS && !log[0], "%s for %s: %s", k->name, arch, log);
    free(log);
    free(arch_option);
    n->nvrtcDestroyProgram(&program);
}

START_TEST(nvrtc_takes_every_wrapper)
{
    struct nvrtc n;
    if (has_address_sanitizer()) {
        if (_i == 0)
            puts("wrappers: not compiled for GPUs under the sanitizers, which see nothing there");
        return;
    }
    if (!nvrtc_open(&n, NULL, 0)) {
        if (_i == 0)
            puts("wrappers: not compiled for GPUs: no NVRTC on this machine");
        nvrtc_close(&n);
        return;
    }
    struct kernel once = {.name = "rows", .source = rows_source(true)};
    compile_for(&n, archs[_i], &once);
    free((void *)(uintptr_t)once.source);
    compile_for(&n, archs[_i], &kernels[1]);
    compile_for(&n, archs[_i], &kernels[2]);
    compile_for(&n, archs[_i], &kernels[3 + 5]);
    compile_for(&n, archs[_i], &kernels[3 + 9]);
    compile_for(&n, archs[_i], find_kernel(fragment_kernels, "pairs"));
    compile_for(&n, archs[_i], find_kernel(fragment_kernels, "votes"));
    compile_for(&n, archs[_i], find_kernel(fragment_kernels, "extremes"));
    if (strcmp(archs[_i], "sm_75") != 0) { // whose tensor cores know no bfloat16
        compile_for(&n, archs[_i], find_kernel(fragment_kernels, "matrices"));
        compile_for(&n, archs[_i], find_kernel(fragment_kernels, "products"));
    }
    nvrtc_close(&n);
}
END_TEST

Suite *wrappers_suite(void)
{
    Suite *s = suite_create("wrappers");
    TCase *t = tcase_create("wrappers");
    tcase_set_timeout(t, 120);
    tcase_add_unchecked_fixture(t, make_kernels, free_kernels);
    tcase_add_test(t, every_row_holds);
    tcase_add_test(t, every_f16_and_bf16_goes_to_float_and_back);
    tcase_add_test(t, doubles_round_to_f16_and_bf16_once);
    tcase_add_test(t, loads_and_stores_move_every_byte);
    tcase_add_loop_test(t, every_thread_gets_its_groups_result, 0, N_REDUCTIONS);
    tcase_add_loop_test(t, nvrtc_takes_every_wrapper, 0, sizeof archs / sizeof *archs);
    suite_add_tcase(s, t);
    return s;
}
