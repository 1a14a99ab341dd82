// diag.c: places and messages in, errors, warnings and notes out as people read them.
//
//     a.qn:7:10: error: linear: x has 128 features and w expects 64
//     output y = linear(x, w)
//                ^~~~~~~~~~~~
//
// A message is kept with its span and is given its line only when printed.  Columns count
// characters, not bytes.

#include "gen/gen.h"
#include <stdarg.h>
#include <string.h>

struct diag {
    struct diag *next;
    enum severity severity;
    struct span at;
    const char *message;
};

static bool lies_in(const struct source *source, const char *at)
{
    return source && at && at >= source->text && at <= source->text + source->n_bytes;
}

// A place in the prelude says nothing to the user: the call being expanded does.
static struct span user_place(const struct gen *g, struct span at)
{
    return !at.at || (lies_in(g->prelude, at.at) && g->at.at) ? g->at : at;
}

static void add(struct gen *g, enum severity severity, struct span at, const char *format,
                va_list args)
{
    bool too_many_errors = g->n_errors > MAX_ERRORS && severity != SEVERITY_warning;
    bool too_many_warnings = g->n_warnings > MAX_ERRORS && severity != SEVERITY_error;
    if (too_many_errors || too_many_warnings)
        return;
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, again);
    va_end(again);

    bool prefix = g->within && severity != SEVERITY_note;
    const char *within = prefix ? arena_text(g, "%s: ", g->within) : "";
    size_t start = strlen(within), bytes = start + (size_t)(len < 0 ? 0 : len) + 1;
    char *message = arena_alloc(g, bytes);
    memcpy(message, within, start);
    vsnprintf(message + start, bytes - start, format, args);

    struct diag *d = arena_new(g, struct diag, 1);
    *d = (struct diag){NULL, severity, user_place(g, at), message};
    if (!g->next_diag)
        g->next_diag = &g->diags;
    *g->next_diag = d;
    g->next_diag = &d->next;
}

bool fail_at(struct gen *g, struct span at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g->n_errors++;
    add(g, SEVERITY_error, at, format, args);
    va_end(args);
    return false;
}

bool fail(struct gen *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g->n_errors++;
    add(g, SEVERITY_error, g->at, format, args);
    va_end(args);
    return false;
}

void warn_at(struct gen *g, struct span at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g->n_warnings++;
    add(g, SEVERITY_warning, at, format, args);
    va_end(args);
}

void note_at(struct gen *g, struct span at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(g, SEVERITY_note, at, format, args);
    va_end(args);
}

// Bytes of the UTF-8 character at `at`, or 0 where there is none.
static int character_bytes(const char *at, const char *end)
{
    const unsigned char *u = (const unsigned char *)at;
    int n = *u < 0x80 ? 1 : *u >= 0xc2 && *u < 0xe0 ? 2 : *u >= 0xe0 && *u < 0xf0 ? 3 : 4;
    if (*u >= 0xf5 || (*u >= 0x80 && *u < 0xc2) || end - at < n)
        return 0;
    for (int i = 1; i < n; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

static const char *next_character(const char *at, const char *end)
{
    int n = character_bytes(at, end);
    return at + (n ? n : 1);
}

static int64_t n_characters(const char *at, const char *end)
{
    int64_t n = 0;
    for (; at < end; at = next_character(at, end))
        n++;
    return n;
}

// What a terminal cannot show is shown as `?`, so that the caret stays under its place.
static void print_line(const char *at, const char *end, FILE *out)
{
    while (at < end) {
        int n = character_bytes(at, end);
        unsigned char c = (unsigned char)*at;
        if (n == 0 || (n == 1 && (c < 0x20 || c == 0x7f) && c != '\t'))
            fputc('?', out);
        else
            fwrite(at, 1, (size_t)n, out);
        at += n ? n : 1;
    }
}

enum { WHOLE_LINE = 160, BEFORE_CARET = 60, AFTER_CARET = 80 };

// Steps back over at most n characters, not past `start`.
static const char *back(const char *at, const char *start, int n)
{
    while (at > start && n-- > 0)
        do
            at--;
        while (at > start && ((unsigned char)*at & 0xc0) == 0x80);
    return at;
}

// The line with the caret under it; of a long line the part around the caret.
static void print_caret(const char *line, const char *end, struct span at, FILE *out)
{
    const char *from = line, *to = end;
    if (end - line > WHOLE_LINE) {
        from = back(at.at, line, BEFORE_CARET);
        to = at.at;
        for (int i = 0; i < AFTER_CARET && to < end; i++)
            to = next_character(to, end);
    }
    fputs(from > line ? "..." : "", out);
    print_line(from, to, out);
    fputs(to < end ? "...\n" : "\n", out);

    fputs(from > line ? "   " : "", out);
    for (const char *c = from; c < at.at; c = next_character(c, end))
        fputc(*c == '\t' ? '\t' : ' ', out);
    fputc('^', out);
    const char *stop = at.len < to - at.at ? at.at + at.len : to;
    for (int64_t n = n_characters(at.at, stop); n > 1; n--)
        fputc('~', out);
    fputc('\n', out);
}

// From the line it begins with on, to the one that has it.
static struct position position_in(const struct source *source, const char *at,
                                   struct text_line *line)
{
    if (!line->start || at < line->start)
        *line = (struct text_line){source->text, 1};
    for (const char *n; (n = memchr(line->start, '\n', (size_t)(at - line->start)));)
        line->start = n + 1, line->number++;
    return (struct position){line->number, n_characters(line->start, at) + 1};
}

bool find_position(const struct gen *g, struct span at, struct text_line *from,
                   struct position *out)
{
    if (!lies_in(g->source, at.at))
        return false;
    *out = position_in(g->source, at.at, from);
    return true;
}

static void print_place(const struct source *source, const struct diag *d, const char *what,
                        FILE *out)
{
    struct text_line line = {NULL, 0};
    const char *text_end = source->text + source->n_bytes;
    struct position place = position_in(source, d->at.at, &line);
    const char *end = memchr(d->at.at, '\n', (size_t)(text_end - d->at.at));
    if (!end)
        end = text_end;
    if (end > line.start && end > d->at.at && end[-1] == '\r')
        end--;
    fprintf(out, "%s:%lld:%lld: %s: %s\n", source->name, (long long)place.line,
            (long long)place.column, what, d->message);
    print_caret(line.start, end, d->at, out);
}

static void print_rest(int n, const char *what, FILE *out)
{
    if (n == MAX_ERRORS + 1)
        fprintf(out, "1 more %s is not shown\n", what);
    else if (n > MAX_ERRORS)
        fprintf(out, "%d more %ss are not shown\n", n - MAX_ERRORS, what);
}

void diag_print(const struct gen *g, FILE *out)
{
    static const char *const names[] = {
        [SEVERITY_error] = "error", [SEVERITY_warning] = "warning", [SEVERITY_note] = "note"};
    for (const struct diag *d = g->diags; d; d = d->next) {
        const struct source *source = lies_in(g->source, d->at.at)    ? g->source
                                      : lies_in(g->prelude, d->at.at) ? g->prelude
                                                                      : NULL;
        if (source)
            print_place(source, d, names[d->severity], out);
        else
            fprintf(out, "%s%s%s: %s\n", g->source ? g->source->name : "", g->source ? ": " : "",
                    names[d->severity], d->message);
    }
    print_rest(g->n_errors, "error", out);
    print_rest(g->n_warnings, "warning", out);
}
