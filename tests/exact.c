// exact.c: programs with inputs and expected outputs by formula, on the device that
// QUERN_TEST_DEVICE names.

#include "tests/exact.h"
#include "tests/programs.h"
#include "tests/tests.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool exact_on_gpu(void)
{
    const char *device = getenv("QUERN_TEST_DEVICE");
    return device && !strcmp(device, "cuda");
}

static void expect_ok(const struct exact *e, quern_status status)
{
    ck_assert_msg(status == QUERN_OK, "%.3000s", quern_message(e->q)); // check's messages are short
}

// "M=3 N=4" to sizes, whose names are in text.
static int read_sizes(char *text, quern_size *sizes)
{
    int n = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');
        *equals = 0;
        sizes[n++] = (quern_size){word, strtoll(equals + 1, NULL, 10)};
    }
    return n;
}

static quern_status plan_of(struct exact *e, const char *text, const char *sizes,
                            const quern_plan_options *options)
{
    char copy[256];
    quern_size list[16];
    snprintf(copy, sizeof copy, "%s", sizes ? sizes : "");
    int n = read_sizes(copy, list);
    e->q = open_device();
    ck_assert_msg(e->q != NULL, "the device cannot be opened");
    quern_status status = quern_parse(e->q, text, strlen(text), "test.qn", &e->program);
    return status ? status : quern_plan_program(e->q, e->program, list, n, options, &e->plan);
}

static void find_arguments(struct exact *e)
{
    e->n = quern_plan_n_arguments(e->plan);
    ck_assert_int_le(e->n, MAX_ARGUMENTS);
    for (int i = 0; i < e->n; i++) {
        quern_argument *a = &e->arguments[i];
        expect_ok(e, quern_plan_argument(e->plan, i, a));
        expect_ok(e, quern_alloc(e->q, (size_t)a->bytes, &e->device[i]));
        e->host[i] = malloc((size_t)a->bytes + 1);
        memset(e->host[i], 0xff, (size_t)a->bytes); // an element that is never written is NaN
    }
}

void exact_open(struct exact *e, const char *text, const char *sizes)
{
    memset(e, 0, sizeof *e);
    expect_ok(e, plan_of(e, text, sizes, NULL));
    find_arguments(e);
}

static bool has_all(const char *spec, const char *const *has)
{
    while (*has && strstr(spec, *has))
        has++;
    return !*has;
}

void exact_open_with(struct exact *e, const char *text, const char *sizes, const char *const *has)
{
    struct exact all = {0};
    quern_kernel kernel;
    quern_spec chosen = {.spec = ""};
    quern_plan_options list = {.candidates = 1, .no_load = 1, .no_wisdom = 1};
    quern_plan_options options = {.specs = &chosen, .n_specs = 1};
    double predicted_us;
    expect_ok(&all, plan_of(&all, text, sizes, &list));
    ck_assert_int_eq(quern_plan_n_kernels(all.plan), 1);
    expect_ok(&all, quern_plan_kernel(all.plan, 0, &kernel));
    for (int i = 0; i < kernel.n_candidates && !has_all(chosen.spec, has); i++)
        expect_ok(&all, quern_plan_candidate(all.plan, 0, i, &chosen.spec, &predicted_us));
    ck_assert_msg(has_all(chosen.spec, has), "no candidate has%s... of\n%s", *has, text);
    chosen.kernel = kernel.name;
    memset(e, 0, sizeof *e);
    expect_ok(e, plan_of(e, text, sizes, &options));
    expect_ok(e, quern_plan_kernel(e->plan, 0, &kernel));
    ck_assert_str_eq(kernel.spec, chosen.spec);
    exact_close(&all);
    find_arguments(e);
}

void exact_close(struct exact *e)
{
    for (int i = 0; i < e->n; i++) {
        free(e->host[i]);
        quern_free(e->q, e->device[i]);
    }
    quern_destroy_plan(e->plan);
    quern_destroy_program(e->program);
    quern_close(e->q);
}

static int argument(const struct exact *e, const char *name)
{
    for (int i = 0; i < e->n; i++)
        if (!strcmp(e->arguments[i].name, name))
            return i;
    return -1;
}

static int must_have(const struct exact *e, const char *name)
{
    int i = argument(e, name);
    ck_assert_msg(i >= 0, "the program has no argument %s", name);
    return i;
}

static int64_t numel(const quern_argument *a)
{
    return a->bytes / quern_dtype_bytes(a->dtype);
}

int64_t exact_numel(const struct exact *e, const char *output)
{
    return numel(&e->arguments[must_have(e, output)]);
}

// To the next element in C order.
static void advance(const quern_argument *a, int64_t *at)
{
    for (int d = a->rank - 1; d >= 0 && ++at[d] == a->dim[d]; d--)
        at[d] = 0;
}

void exact_set(struct exact *e, const char *input, formula *f)
{
    int i = must_have(e, input);
    int64_t at[12] = {0}, n = numel(&e->arguments[i]);
    for (int64_t k = 0; k < n; k++, advance(&e->arguments[i], at))
        quern_set_element(e->arguments[i].dtype, e->host[i], k, f(at));
}

void exact_list(struct exact *e, const char *input, int n, const double *values)
{
    int i = must_have(e, input);
    ck_assert_int_eq(numel(&e->arguments[i]), n);
    for (int k = 0; k < n; k++)
        quern_set_element(e->arguments[i].dtype, e->host[i], k, values[k]);
}

void exact_run(struct exact *e)
{
    void *given[MAX_ARGUMENTS];
    int n = 0;
    for (int i = 0; i < e->n; i++) {
        expect_ok(e, quern_upload(e->q, e->device[i], e->host[i], (size_t)e->arguments[i].bytes));
        if (e->arguments[i].role == QUERN_WEIGHT)
            expect_ok(e, quern_bind(e->plan, e->arguments[i].name, e->device[i]));
        else
            given[n++] = e->device[i];
    }
    expect_ok(e, quern_execute(e->plan, given, n, NULL));
    expect_ok(e, quern_synchronize(e->q, NULL));
    for (int i = 0; i < e->n; i++)
        if (e->arguments[i].role == QUERN_OUTPUT)
            expect_ok(
                e, quern_download(e->q, e->host[i], e->device[i], (size_t)e->arguments[i].bytes));
}

double exact_got(const struct exact *e, const char *output, int64_t i)
{
    int a = must_have(e, output);
    ck_assert_int_lt(i, numel(&e->arguments[a]));
    return quern_element(e->arguments[a].dtype, e->host[a], i);
}

// Of a number of that size, where the dtype is stored.
static double ulp(quern_dtype t, double value)
{
    int mantissa = t == QUERN_F64 ? 53 : t == QUERN_F16 ? 11 : t == QUERN_BF16 ? 8 : 24;
    int least = t == QUERN_F64 ? -1074 : t == QUERN_F16 ? -24 : t == QUERN_BF16 ? -133 : -149;
    int exponent = value == 0 ? least : ilogb(value) + 1 - mantissa;
    return ldexp(1, exponent < least ? least : exponent);
}

static void expect_near(const struct exact *e, int a, int64_t k, double expected, double ulps)
{
    double got = quern_element(e->arguments[a].dtype, e->host[a], k);
    bool same = (isnan(got) && isnan(expected)) ||
                (got == expected && (ulps > 0 || signbit(got) == signbit(expected)));
    double room = isfinite(expected) ? ulps * ulp(e->arguments[a].dtype, expected) : 0;
    ck_assert_msg(same || fabs(got - expected) <= room - (ulps == 0),
                  "%s[%lld] is %.9g, expected %.9g", e->arguments[a].name, (long long)k, got,
                  expected);
}

void exact_values(const struct exact *e, const char *output, formula *f, double ulps)
{
    int a = must_have(e, output);
    int64_t at[12] = {0}, n = numel(&e->arguments[a]);
    for (int64_t k = 0; k < n; k++, advance(&e->arguments[a], at))
        expect_near(e, a, k, f(at), ulps);
}

void exact_expect(const struct exact *e, const char *output, int n, const double *values,
                  double ulps)
{
    int a = must_have(e, output);
    ck_assert_msg(numel(&e->arguments[a]) == n, "%s has %lld elements, expected %d", output,
                  (long long)numel(&e->arguments[a]), n);
    for (int k = 0; k < n; k++)
        expect_near(e, a, k, values[k], ulps);
}

void exact_shape(const struct exact *e, const char *output, int rank, const int64_t *dim)
{
    const quern_argument *a = &e->arguments[must_have(e, output)];
    ck_assert_msg(a->rank == rank, "%s has rank %d, expected %d", output, a->rank, rank);
    for (int d = 0; d < rank; d++)
        ck_assert_msg(a->dim[d] == dim[d], "%s: axis %d has %lld elements, expected %lld", output,
                      d, (long long)a->dim[d], (long long)dim[d]);
}

void exact_about(double got, double right, double relative)
{
    if (isnan(right))
        ck_assert_msg(isnan(got), "%.9g is not NaN", got);
    else
        ck_assert_msg(got == right || fabs(got - right) <= relative * fabs(right),
                      "%.9g, expected %.9g", got, right);
}

void exact_program(struct exact *e, const char *text, const char *sizes, formula *x, formula *y)
{
    exact_open(e, text, sizes);
    if (x)
        exact_set(e, "x", x);
    if (y)
        exact_set(e, "y", y);
    exact_run(e);
}

char *exact_refused(const char *text, const char *sizes)
{
    struct exact e = {0};
    quern_status status = plan_of(&e, text, sizes, NULL);
    ck_assert_msg(status == QUERN_PROGRAM, "%s: %s", quern_status_name(status), text);
    char *said = strdup(quern_message(e.q));
    exact_close(&e);
    return said;
}

static double position(const int64_t *at)
{
    return (double)at[0];
}

static double position_and_one(const int64_t *at)
{
    return (double)at[0] + 1;
}

void exact_still_usable(void)
{
    struct exact e;
    exact_program(&e, "program p(N)\ninput x : f32[N]\noutput y = x + 1\n", "N=1000", position,
                  NULL);
    exact_values(&e, "y", position_and_one, 0);
    exact_close(&e);
}
