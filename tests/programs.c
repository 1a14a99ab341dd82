// programs.c: runs program texts on a device and compares every output with the f64 reference.

#include "tests/programs.h"
#include "gen/gen.h"
#include "tests/on_host.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

quern *open_device(void)
{
    const char *device = getenv("QUERN_TEST_DEVICE");
    quern_options options = {.device = QUERN_DEVICE_HOST};
    quern *q = NULL;
    if (has_address_sanitizer())
        options.cxx_flags = SANITIZER_FLAGS " -fno-sanitize-recover=undefined";
    if (device && !strcmp(device, "cuda"))
        options.device = QUERN_DEVICE_CUDA;
    return quern_open(&q, &options) == QUERN_OK ? q : NULL;
}

char *typed(const char *text, const char *dtype)
{
    char *out = NULL;
    size_t size;
    FILE *to = open_memstream(&out, &size);
    for (const char *p = text; *p; p++)
        if (p[0] == '%' && p[1] == 's')
            fputs(dtype, to), p++;
        else
            fputc(*p, to);
    fclose(to);
    return out;
}

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

static double normal(uint64_t *seed)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += uniform(seed);
    return sum;
}

static const double specials[] = {0,    -0.0, INFINITY,   -INFINITY, NAN,   0.5,  -0.5, 1.5, 2.5,
                                  -2.5, 3.5,  1,          -1,        1e-40, -20,  20,   88,  -88.8,
                                  127,  -128, 0.49999997, 3,         -3,    1e-8, 16.5, 1e4};

static void fill(const quern_argument *a, void *data, const char *kind, uint64_t seed)
{
    enum dtype dtype = (enum dtype)a->dtype;
    int64_t n = a->bytes / dtype_info[dtype].bytes, shift = 3 * (int64_t)seed;
    for (int64_t i = 0; i < n; i++) {
        double value = normal(&seed);
        if (!strcmp(kind, "special") && i < (int64_t)(sizeof specials / sizeof *specials))
            value = specials[(i + shift) % (int64_t)(sizeof specials / sizeof *specials)];
        if (!strcmp(kind, "small integers"))
            value = floor(uniform(&seed) * 9) - 4;
        if (dtype_info[dtype].class == CLASS_float)
            store_element(dtype, data, i, value);
        else
            store_integer(dtype, data, i, isfinite(value) ? (int64_t)(value * 3) : 0);
    }
}

// Everything of one job that must be given back.
struct run {
    quern *q;
    quern_program *program;
    quern_plan *plan;
    int n_arguments, n_inputs, n_outputs;
    void **host, **device; // per argument of the plan: inputs and weights, then outputs
    double **expected;
};

static void release(struct run *r)
{
    for (int i = 0; i < r->n_arguments; i++) {
        free(r->host[i]);
        quern_free(r->q, r->device[i]);
    }
    for (int i = 0; i < r->n_outputs; i++)
        free(r->expected[i]);
    free(r->host);
    free(r->device);
    free(r->expected);
    quern_destroy_plan(r->plan);
    quern_destroy_program(r->program);
}

static bool prepare(struct run *r, const struct job *job)
{
    if (quern_parse(r->q, job->text, strlen(job->text), "test.qn", &r->program) ||
        quern_plan_program(r->q, r->program, job->sizes, job->n_sizes, job->options, &r->plan))
        return false;
    int n = quern_plan_n_arguments(r->plan);
    r->host = calloc((size_t)n + 1, sizeof *r->host);
    r->device = calloc((size_t)n + 1, sizeof *r->device);
    r->expected = calloc((size_t)n + 1, sizeof *r->expected);
    r->n_arguments = n;
    for (int i = 0; i < n; i++) {
        quern_argument a;
        if (quern_plan_argument(r->plan, i, &a) ||
            quern_alloc(r->q, (size_t)a.bytes, &r->device[i]))
            return false;
        r->host[i] = malloc((size_t)a.bytes + 8);
        memset(r->host[i], 0xff, (size_t)a.bytes); // an element that is never written is NaN
        if (a.role == QUERN_OUTPUT)
            r->expected[r->n_outputs++] =
                malloc(8 * ((size_t)a.bytes / (size_t)quern_dtype_bytes(a.dtype)) + 8);
        else
            fill(&a, r->host[r->n_inputs++], job->input_kind, (uint64_t)i + 1);
        if (quern_upload(r->q, r->device[i], r->host[i], (size_t)a.bytes))
            return false;
    }
    return true;
}

static bool execute(struct run *r)
{
    void **arguments = calloc((size_t)r->n_arguments + 1, sizeof *arguments);
    int n = 0;
    bool ok = true;
    for (int i = 0; ok && i < r->n_arguments; i++) {
        quern_argument a;
        quern_plan_argument(r->plan, i, &a);
        if (a.role == QUERN_WEIGHT)
            ok = !quern_bind(r->plan, a.name, r->device[i]);
        else
            arguments[n++] = r->device[i];
    }
    for (int repeat = 0; ok && repeat < 2;
         repeat++) // twice: counters must be left as they were found
        ok = !quern_execute(r->plan, arguments, n, NULL) && !quern_synchronize(r->q, NULL);
    free(arguments);
    return ok;
}

static bool compare(struct run *r, char *why, size_t why_size)
{
    if (quern_reference(r->plan, (const void *const *)r->host, r->expected))
        return false;
    for (int i = 0; i < r->n_outputs; i++) {
        int argument = r->n_inputs + i;
        quern_argument a;
        quern_check_result result;
        if (quern_plan_argument(r->plan, argument, &a) ||
            quern_download(r->q, r->host[argument], r->device[argument], (size_t)a.bytes) ||
            quern_check(r->plan, i, r->host[argument], r->expected[i], &result))
            return false;
        if (!result.ok) {
            snprintf(why, why_size,
                     "output %s[%lld]: got %.9g, expected %.9g, tolerance %.3g + %.3g * |expected|",
                     a.name, (long long)result.worst, result.got, result.expected, result.absolute,
                     result.relative);
            return false;
        }
    }
    return true;
}

bool run_job(quern *q, const struct job *job, char *why, size_t why_size)
{
    struct run r = {.q = q};
    *why = 0;
    bool ok = prepare(&r, job) && execute(&r) && compare(&r, why, why_size);
    if (!ok && !*why)
        snprintf(why, why_size, "%s", quern_message(q));
    release(&r);
    return ok;
}

struct queue {
    const struct job *jobs;
    int n_jobs, next, n_failed;
    pthread_mutex_t lock;
};

static void report_failure(const struct job *job, const char *why)
{
    fprintf(stderr, "FAILED with");
    for (int i = 0; i < job->n_sizes; i++)
        fprintf(stderr, " %s=%lld", job->sizes[i].name, (long long)job->sizes[i].value);
    fprintf(stderr, ", %s inputs: %s\n%s\n", job->input_kind, why, job->text);
}

static void *work(void *state)
{
    struct queue *queue = state;
    quern *q = open_device();
    for (;;) {
        pthread_mutex_lock(&queue->lock);
        int i = queue->next < queue->n_jobs ? queue->next++ : -1;
        pthread_mutex_unlock(&queue->lock);
        if (i < 0)
            break;
        char why[4096] = "the device could not be opened";
        if (q && run_job(q, &queue->jobs[i], why, sizeof why))
            continue;
        pthread_mutex_lock(&queue->lock);
        report_failure(&queue->jobs[i], why);
        queue->n_failed++;
        pthread_mutex_unlock(&queue->lock);
    }
    quern_close(q);
    return NULL;
}

int run_jobs(const struct job *jobs, int n_jobs)
{
    enum { N_THREADS = 2 };
    struct queue queue = {.jobs = jobs, .n_jobs = n_jobs, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, work, &queue);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    return queue.n_failed;
}
