// roofline.c: what bench measured to a picture: arithmetic per byte across, rate up, both
// logarithmic, under the roofs that memory and arithmetic set.

#include "tools/bench.h"
#include <math.h>
#include <stdlib.h>

enum { WIDTH = 640, HEIGHT = 420, LEFT = 70, RIGHT = 20, TOP = 50, BOTTOM = 55 };

// Powers of two of flop per byte, powers of ten of flop per second.
struct axes {
    double x0, x1, y0, y1;
};

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static double across(const struct axes *a, double intensity)
{
    double x = intensity > 0 ? clamp(log2(intensity), a->x0, a->x1) : a->x0;
    return LEFT + (WIDTH - LEFT - RIGHT) * (x - a->x0) / (a->x1 - a->x0);
}

static double up(const struct axes *a, double rate)
{
    double y = rate > 0 ? clamp(log10(rate), a->y0, a->y1) : a->y0;
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - a->y0) / (a->y1 - a->y0);
}

// Wide enough for both roofs and the point.
static struct axes axes_of(const quern_costs *c, double intensity, double rate)
{
    struct axes a = {-6, 10, 9, 15};
    if (intensity > 0) {
        a.x0 = fmin(a.x0, floor(log2(intensity)));
        a.x1 = fmax(a.x1, ceil(log2(intensity)));
    }
    a.y0 = floor(log10(c->bytes_per_second) + a.x0 * log10(2));
    if (rate > 0)
        a.y0 = fmin(a.y0, floor(log10(rate)));
    a.y1 = ceil(log10(fmax(rate, c->flops_per_second)) + 0.3);
    return a;
}

static void text(FILE *out, double x, double y, const char *anchor, const char *words)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, words);
}

static void grid(FILE *out, const struct axes *a)
{
    char words[32];
    fputs("<g stroke=\"#ddd\">\n", out);
    for (double x = a->x0; x <= a->x1; x += 2)
        fprintf(out, "<path d=\"M%.1f %dV%d\"/>\n", across(a, exp2(x)), TOP, HEIGHT - BOTTOM);
    for (double y = a->y0; y <= a->y1; y++)
        fprintf(out, "<path d=\"M%d %.1fH%d\"/>\n", LEFT, up(a, pow(10, y)), WIDTH - RIGHT);
    fputs("</g>\n", out);
    for (double x = a->x0; x <= a->x1; x += 2) {
        snprintf(words, sizeof words, x < 0 ? "1/%g" : "%g", exp2(fabs(x)));
        text(out, across(a, exp2(x)), HEIGHT - BOTTOM + 18, "middle", words);
    }
    for (double y = a->y0; y <= a->y1; y++) {
        snprintf(words, sizeof words, "%g", pow(10, y - 12));
        text(out, LEFT - 8, up(a, pow(10, y)) + 4, "end", words);
    }
    text(out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12, "middle", "flop per byte");
    text(out, LEFT - 8, TOP - 12, "end", "TFLOP/s");
}

// A slope of so many bytes a second, up to the roof of arithmetic.
static void slope(FILE *out, const struct axes *a, const quern_costs *c, double bytes_per_second,
                  const char *style)
{
    double ridge = clamp(log2(c->flops_per_second / bytes_per_second), a->x0, a->x1);
    double left = fmax(a->x0, (a->y0 - log10(bytes_per_second)) / log10(2));
    fprintf(out, "<path d=\"M%.1f %.1fL%.1f %.1f\" %s/>\n", across(a, exp2(left)),
            up(a, exp2(left) * bytes_per_second), across(a, exp2(ridge)),
            up(a, exp2(ridge) * bytes_per_second), style);
}

static void roofs(FILE *out, const struct axes *a, const quern_costs *c)
{
    char words[64];
    double ridge = c->flops_per_second / c->bytes_per_second;
    slope(out, a, c, c->bytes_per_second, "stroke=\"#333\" stroke-width=\"2\"");
    fprintf(out, "<path d=\"M%.1f %.1fH%d\" stroke=\"#333\" stroke-width=\"2\"/>\n",
            across(a, ridge), up(a, c->flops_per_second), WIDTH - RIGHT);
    snprintf(words, sizeof words, "%.3g TFLOP/s in f32", c->flops_per_second / 1e12);
    text(out, WIDTH - RIGHT, up(a, c->flops_per_second) - 6, "end", words);
    snprintf(words, sizeof words, "%.3g TB/s", c->bytes_per_second / 1e12);
    text(out, across(a, ridge / 4) - 8, up(a, c->flops_per_second / 4) - 6, "end", words);
    if (!c->copy.replays)
        return;
    double copied = 1e6 * c->bytes / c->copy.median_us;
    slope(out, a, c, copied, "stroke=\"#777\" stroke-dasharray=\"5 4\"");
    snprintf(words, sizeof words, "copy %.3g TB/s", copied / 1e12);
    text(out, across(a, ridge / 16) + 10, up(a, copied * ridge / 16) + 14, "start", words);
}

static void point(FILE *out, const struct axes *a, const quern_costs *c, const quern_timing *t,
                  const char *style)
{
    if (t->median_us > 0)
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" %s/>\n",
                across(a, c->flops / c->bytes), up(a, 1e6 * c->flops / t->median_us), style);
}

static void draw(FILE *out, const struct bench_result *r)
{
    const quern_costs *c = &r->costs;
    double rate = c->replay.median_us > 0 ? 1e6 * c->flops / c->replay.median_us : 0;
    double intensity = c->bytes > 0 ? c->flops / c->bytes : 0;
    struct axes a = axes_of(c, intensity, rate);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    fprintf(out, "<text x=\"%d\" y=\"22\" font-size=\"14\">%s on %s: %.2f us a replay</text>\n",
            LEFT, r->program, r->device, c->replay.median_us);
    grid(out, &a);
    roofs(out, &a, c);
    point(out, &a, c, &c->warm, "fill=\"none\" stroke=\"#c40\" stroke-width=\"2\"");
    point(out, &a, c, &c->replay, "fill=\"#c40\"");
    fputs("</svg>\n", out);
}

bool bench_plot(const char *path, const struct bench_result *r)
{
    char *picture = NULL;
    size_t n;
    FILE *out = open_memstream(&picture, &n);
    if (!out) {
        complain(STATUS_missing, "out of memory");
        return false;
    }
    draw(out, r);
    fclose(out);
    bool written = write_file(path, picture, n, "", 0);
    free(picture);
    return written;
}
