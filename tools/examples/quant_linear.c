/* quant_linear.c: a host program: plans a fused operator, runs it, and compares it with the
 * reference.
 *
 *     cc -I. tools/examples/quant_linear.c build/libquern.a $(pkg-config --libs libsodium jansson)
 * -ldl -lpthread -lm
 *
 * It asks for nothing but quern.h: quern's own memory stands in for what a real host program has on
 * its GPU. */

#include "runtime/quern.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text[] = "program quant_linear(B, T, D, N = D)\n"
                           "input  x      : f32[B, T, D]\n"
                           "input  logits : f32[B, T]\n"
                           "weight w      : f32[N, D]\n"
                           "weight bias   : f32[N]\n"
                           "alpha = sigmoid(logits)[:, :, None]\n"
                           "scale = maximum(max(abs(x)), 1e-8) / 127\n"
                           "xq    = clamp(round(x / scale), -127, 127) * scale\n"
                           "output y = linear(alpha * xq + (1 - alpha) * x, w, bias)\n";

static quern *q;

static void must(quern_status status)
{
    if (status == QUERN_OK)
        return;
    fprintf(stderr, "%s: %s\n", quern_status_name(status), quern_message(q));
    exit((int)status);
}

static void note(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "quern: %s\n", line);
}

/* n floats on the host, between -1 and 1, and the same on the device. */
static float *data(size_t n, void **device)
{
    float *host = malloc(n * sizeof *host);
    for (size_t i = 0; host && i < n; i++)
        host[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    must(host ? quern_alloc(q, n * sizeof *host, device) : QUERN_MEMORY);
    must(quern_upload(q, *device, host, n * sizeof *host));
    return host;
}

int main(void)
{
    static const quern_size sizes[] = {
        {"B", 8  },
        {"T", 64 },
        {"D", 128}
    };
    enum { X, LOGITS, W, BIAS, Y };
    static const size_t n[] = {8 * 64 * 128, 8 * 64, 128 * 128, 128, 8 * 64 * 128};
    quern_options options = {.log = note};
    quern_program *program;
    quern_plan *plan;
    float *host[5];
    void *device[5];

    must(quern_open(&q, &options)); /* the GPU, or the host where there is none */
    must(quern_parse(q, text, strlen(text), "quant_linear.qn", &program));
    must(quern_plan_program(q, program, sizes, 3, NULL, &plan)); /* compiles, once */
    for (int i = X; i <= Y; i++)
        host[i] = data(n[i], &device[i]);

    must(quern_bind(plan, "w", device[W]));
    must(quern_bind(plan, "bias", device[BIAS]));
    must(quern_prepare(plan, NULL));
    void *arguments[] = {device[X], device[LOGITS], device[Y]};
    must(quern_execute(plan, arguments, 3, NULL)); /* only launches: as often as you like */
    must(quern_synchronize(q, NULL));

    const void *inputs[] = {host[X], host[LOGITS], host[W], host[BIAS]};
    double *expected = malloc(n[Y] * sizeof *expected);
    quern_check_result result;
    must(expected ? quern_download(q, host[Y], device[Y], n[Y] * sizeof(float)) : QUERN_MEMORY);
    must(quern_reference(plan, inputs, &expected));
    must(quern_check(plan, 0, host[Y], expected, &result));
    printf("quant_linear on %s: largest error %.2g, %s\n", quern_device_name(q),
           result.max_abs_error, result.ok ? "ok" : "WRONG");

    for (int i = X; i <= Y; i++) {
        free(host[i]);
        must(quern_free(q, device[i]));
    }
    free(expected);
    quern_destroy_plan(plan);
    quern_destroy_program(program);
    quern_close(q);
    return result.ok ? 0 : 1;
}
