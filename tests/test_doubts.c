// test_doubts.c: contractions on tensor cores, on the device that QUERN_TEST_DEVICE names: what is
// no sum of bfloat16 parts is multiplied as f32 is, in a launch of its own and in a phase, and
// errors are no larger than those of f32.

#include "tests/factors.h"
#include "tests/on_host.h"
#include "tests/operands.h"
#include "tests/tests.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static void expect_chains(const struct exact *e, const struct factors *f, int64_t n, int64_t k,
                          const char *what)
{
    for (int64_t i = 0; i < exact_numel(e, "c"); i++) {
        double got = exact_got(e, "c", i), right = (double)f32_chain(f, i / n, i % n, k);
        ck_assert_msg(same_value(got, right), "%s: c[%d,%d] is %.9g, not %.9g", what, (int)(i / n),
                      (int)(i % n), got, right);
    }
}

static double nearly_one(const int64_t *at)
{
    return at[0] % 2 ? 1 + 0x1p-12 : 1 + 0x1p-23;
}

static double identity(const int64_t *at)
{
    return at[0] == at[1];
}

START_TEST(all_bits_of_an_operand_count)
{
    struct exact e;
    exact_open_with(&e,
                    "program p\ninput a : f32[64, 64]\ninput b : f32[64, 64]\noutput c = a @ b\n",
                    NULL, (const char *const[]){"parts_a=3", "parts_b=3", NULL});
    exact_set(&e, "a", nearly_one);
    exact_set(&e, "b", identity);
    exact_run(&e);
    exact_values(&e, "c", nearly_one, 0);
    exact_close(&e);
}
END_TEST

// ---- one operand that is out of the ordinary ----

// In A a row, in B a column has it; what else is in there is 0 where it would hide it.
static struct doubt {
    double value;
    bool in_b;
    int64_t x, k;
} doubt;

static double or_doubt(const int64_t *at, bool is_b)
{
    bool there = is_b == doubt.in_b && at[is_b] == doubt.x;
    if (there && at[!is_b] == doubt.k)
        return doubt.value;
    return there && fabs(doubt.value) < 1 ? 0 : is_b ? small_b(at) : small_a(at);
}

static double a_or_doubt(const int64_t *at)
{
    return or_doubt(at, false);
}

static double b_or_doubt(const int64_t *at)
{
    return or_doubt(at, true);
}

// Those that all dtypes have come first.
static const double doubts[] = {INFINITY, -INFINITY, NAN,       FLT_MAX,         -FLT_MAX,
                                1e-38,    1e-40,     -0x1p-149, 0x1.000002p-120, 0x1p-133};
enum { N_DOUBTS = COUNT(doubts), N_DOUBTS_OF_ALL = 3 };

static const struct {
    const char *a, *b, *product, *has[3];
} products[] = {
    {"f32",  "f32",  "a @ b",                       {"parts_a=3 parts_b=3", "split=1 "}},
    {"f32",  "f32",  "a @ b",                       {"parts_a=3 parts_b=3", "split=2 "}},
    {"bf16", "f32",  "cast(a, f32) @ b",            {"parts_a=1 parts_b=3", "split=1 "}},
    {"f16",  "bf16", "cast(a, f32) @ cast(b, f32)", {"parts_a=2 parts_b=1", "split=1 "}},
    {"bf16", "bf16", "cast(a, f32) @ cast(b, f32)", {"parts_a=1 parts_b=1", "split=1 "}},
};

// In the first tile along k, or in the last.  Under the sanitizers, which take their time, one of
// the first two products each.
START_TEST(one_doubtful_operand_is_multiplied_as_it_is)
{
    enum { M = 40, N = 52, K = 72 };
    static const struct factors factors = {a_or_doubt, b_or_doubt};
    struct exact e;
    char text[256], what[64];
    bool all_f32 = !strcmp(products[_i].product, "a @ b");
    snprintf(text, sizeof text,
             "program p\ninput a : %s[%d, %d]\ninput b : %s[%d, %d]\noutput c = %s\n",
             products[_i].a, M, K, products[_i].b, K, N, products[_i].product);
    exact_open_with(&e, text, NULL, products[_i].has);
    for (int i = 0; i < 2 * (all_f32 ? N_DOUBTS : N_DOUBTS_OF_ALL); i++) {
        if (has_address_sanitizer() && all_f32 && (i / 2 + i + _i) % 2)
            continue;
        doubt = (struct doubt){(double)(float)doubts[i / 2], i % 2, 21, i / 2 % 2 ? 69 : 13};
        exact_set(&e, "a", a_or_doubt);
        exact_set(&e, "b", b_or_doubt);
        exact_run(&e);
        snprintf(what, sizeof what, "%s %s, %a in %s", products[_i].a, products[_i].b, doubt.value,
                 doubt.in_b ? "b" : "a");
        expect_chains(&e, &factors, N, K, what);
    }
    exact_close(&e);
}
END_TEST

// Its lost bits tell beside a huge factor alone, which another warp may have met: the other sums of
// its row, or its column, are ordinary ones.
static struct {
    int64_t tiny, huge, k; // rows and columns, or columns and rows
    bool tiny_in_b;
} meeting;

static double with_tiny(int64_t x, int64_t k, double other)
{
    if (x != meeting.tiny)
        return other;
    return k == meeting.k ? 0x1.8p-133 : k == meeting.k - 1;
}

static double with_huge(int64_t x, int64_t k, double other)
{
    if (k == meeting.k - 1)
        return x == meeting.huge ? 0 : 3;
    return k == meeting.k && x == meeting.huge ? 0x1p100 : other;
}

static double meeting_a(const int64_t *at)
{
    return meeting.tiny_in_b ? with_huge(at[0], at[1], small_a(at))
                             : with_tiny(at[0], at[1], small_a(at));
}

static double meeting_b(const int64_t *at)
{
    return meeting.tiny_in_b ? with_tiny(at[1], at[0], small_b(at))
                             : with_huge(at[1], at[0], small_b(at));
}

START_TEST(a_tiny_operand_tells_beside_a_huge_one)
{
    enum { N = 52, K = 72, N_MEETINGS = 8 };
    static const struct factors factors = {meeting_a, meeting_b};
    struct exact e;
    exact_open_with(&e,
                    "program p\ninput a : f32[40, 72]\ninput b : f32[72, 52]\noutput c = a @ b\n",
                    NULL, products[_i].has);
    for (int i = 0; i < 2 * N_MEETINGS; i++) {
        int64_t by = i % N_MEETINGS;
        meeting.tiny_in_b = i >= N_MEETINGS;
        meeting.tiny = 5 * by, meeting.k = 9 * by + 3;
        meeting.huge = meeting.tiny_in_b ? 39 - 4 * by : 51 - 6 * by;
        exact_set(&e, "a", meeting_a);
        exact_set(&e, "b", meeting_b);
        exact_run(&e);
        expect_chains(&e, &factors, N, K, "tiny and huge");
    }
    exact_close(&e);
}
END_TEST

// ---- in a phase ----

// quant_linear of x whose quantised values are its own and whose gates are even: a plain product.
// What is out of the ordinary, one at a time.
static enum { NOTHING, INFINITE_X, NAN_GATE, INFINITE_W, TINY_W, N_STRANGE } strange;

static double quant_x(const int64_t *at)
{
    if (strange == INFINITE_X && at[0] == 1 && at[1] == 3 && at[2] == 5)
        return INFINITY;
    return at[0] + at[1] + at[2] == 0 ? 127 : small_a((int64_t[]){at[0] * 16 + at[1], at[2]});
}

static double quant_gate(const int64_t *at)
{
    return strange == NAN_GATE && at[0] == 1 && at[1] == 3 ? NAN : 0;
}

static double quant_w(const int64_t *at)
{
    if (strange == INFINITE_W && at[0] == 4 && at[1] == 7)
        return -INFINITY;
    if (strange == TINY_W && at[0] == 4)
        return at[1] == 7 ? 1e-40 : 0;
    return small_b(at);
}

static double quant_bias(const int64_t *at)
{
    return at[0] == 4 ? 0 : (double)(at[0] % 5);
}

static double quant_y(const int64_t *at)
{
    float sum = 0;
    if (strange == INFINITE_X || isnan(quant_gate(at)))
        return NAN; // the scale is infinite, and 0 times that is in every element
    for (int64_t d = 0; d < 32; d++)
        sum = fmaf((float)quant_x((int64_t[]){at[0], at[1], d}),
                   (float)quant_w((int64_t[]){at[2], d}), sum);
    return (double)(sum + (float)quant_bias(&at[2]));
}

START_TEST(a_phase_multiplies_doubtful_operands_as_they_are)
{
    struct exact e;
    exact_open_with(
        &e,
        "program quant_linear(B, T, D, N = D)\ninput x : f32[B, T, D]\n"
        "input logits : f32[B, T]\ninput w : f32[N, D]\ninput bias : f32[N]\n"
        "alpha = sigmoid(logits)[:, :, None]\nscale = maximum(max(abs(x)), 1e-8) / 127\n"
        "xq = clamp(round(x / scale), -127, 127) * scale\n"
        "output y = linear(alpha * xq + (1 - alpha) * x, w, bias)\n",
        "B=2 T=16 D=32", (const char *const[]){"gemm1.parts_a=3", NULL});
    for (strange = NOTHING; strange < N_STRANGE; strange++) {
        exact_set(&e, "x", quant_x);
        exact_set(&e, "logits", quant_gate);
        exact_set(&e, "w", quant_w);
        exact_set(&e, "bias", quant_bias);
        exact_run(&e);
        exact_values(&e, "y", quant_y, 0);
    }
    exact_close(&e);
}
END_TEST

// ---- two phases, of which the second loads what the first has written ----

static double small_x(const int64_t *at)
{
    if (at[0] == 3 && at[1] == 5)
        return INFINITY;
    if (at[0] == 6)
        return at[1] == 2 ? 1e-40 : 0;
    return fmod(small_a(at), 3);
}

static double small_v(const int64_t *at)
{
    return fmod(small_b(at), 3);
}

static double first_product(const int64_t *at)
{
    float sum = 0;
    for (int64_t k = 0; k < 33; k++)
        sum =
            fmaf((float)small_x((int64_t[]){at[0], k}), (float)small_v((int64_t[]){at[1], k}), sum);
    return (double)(sum > 0 || isnan(sum) ? sum : 0);
}

static double second_product(const int64_t *at)
{
    float sum = 0;
    for (int64_t k = 0; k < 40; k++)
        sum = fmaf((float)first_product((int64_t[]){at[0], k}),
                   (float)small_v((int64_t[]){at[1], k}), sum);
    return (double)sum;
}

START_TEST(a_phase_loads_anew_what_an_earlier_one_wrote)
{
    struct exact e;
    exact_open_with(&e,
                    "program twice\ninput x : f32[17, 33]\ninput v : f32[40, 33]\n"
                    "input w : f32[9, 40]\noutput y = linear(maximum(linear(x, v), 0), w)\n",
                    NULL, (const char *const[]){"gemm1.parts_a=3", NULL});
    exact_set(&e, "x", small_x);
    exact_set(&e, "v", small_v);
    exact_set(&e, "w", small_v);
    exact_run(&e);
    exact_values(&e, "y", second_product, 0);
    exact_close(&e);
}
END_TEST

// ---- errors ----

enum { ROWS = 32, COLUMNS = 32, DEPTH = 512 };

static double uniform(void)
{
    return (random_bits() + 0.5) / 4294967296.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * acos(-1) * uniform());
}

static double wide(void)
{
    return normal() * exp(5 * normal());
}

// doubtful: among the operands is one that leaves a tile to ordinary arithmetic.
static const struct {
    double (*of)(void);
    bool doubtful;
} distributions[] = {
    {normal,  false},
    {uniform, false},
    {wide,    false},
    {normal,  true },
};

static float a[ROWS * DEPTH], b[DEPTH * COLUMNS];

static double element_of_a(const int64_t *at)
{
    return (double)a[at[0] * DEPTH + at[1]];
}

static double element_of_b(const int64_t *at)
{
    return (double)b[at[0] * COLUMNS + at[1]];
}

static double in_f64(int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t k = 0; k < DEPTH; k++)
        sum += (double)a[i * DEPTH + k] * (double)b[k * COLUMNS + j];
    return sum;
}

// In one group of warps, and in four that share k.  The host device rounds once where a GPU drops
// bits of 16 products: there the errors are smaller by far.
START_TEST(errors_are_no_larger_than_those_of_a_chain_in_f32)
{
    static const struct factors factors = {element_of_a, element_of_b};
    const char *has[] = {"parts_a=3 parts_b=3", _i ? "split=4 " : "split=1 ", NULL};
    struct exact e;
    exact_open_with(&e,
                    "program p\ninput a : f32[32, 512]\ninput b : f32[512, 32]\noutput c = a @ b\n",
                    NULL, has);
    seed_operands(5);
    for (int d = 0; d < COUNT(distributions); d++) {
        for (int i = 0; i < COUNT(a); i++)
            a[i] = (float)distributions[d].of(), b[i] = (float)distributions[d].of();
        a[0] = distributions[d].doubtful ? 1e-40f : a[0];
        exact_set(&e, "a", element_of_a);
        exact_set(&e, "b", element_of_b);
        exact_run(&e);
        double of_tile = 0, of_chain = 0;
        double most = distributions[d].doubtful || exact_on_gpu() ? 1 : 0.6;
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            double right = in_f64(i / COLUMNS, i % COLUMNS);
            double chain = (double)f32_chain(&factors, i / COLUMNS, i % COLUMNS, DEPTH);
            of_tile += pow(exact_got(&e, "c", i) - right, 2);
            of_chain += pow(chain - right, 2);
        }
        ck_assert_msg(sqrt(of_tile) <= most * sqrt(of_chain), "distribution %d: %g times as large",
                      d, sqrt(of_tile / of_chain));
    }
    exact_close(&e);
}
END_TEST

Suite *doubts_suite(void)
{
    Suite *s = suite_create("doubts");
    TCase *t = tcase_create("doubts");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, all_bits_of_an_operand_count);
    tcase_add_loop_test(t, one_doubtful_operand_is_multiplied_as_it_is, 0, COUNT(products));
    tcase_add_loop_test(t, a_tiny_operand_tells_beside_a_huge_one, 0, 2);
    tcase_add_test(t, a_phase_multiplies_doubtful_operands_as_they_are);
    tcase_add_test(t, a_phase_loads_anew_what_an_earlier_one_wrote);
    tcase_add_loop_test(t, errors_are_no_larger_than_those_of_a_chain_in_f32, 0, 2);
    suite_add_tcase(s, t);
    return s;
}
