// lex.c: text to tokens, one at a time.
//
// A newline is a token except inside ( ) and [ ]; several are one.  What belongs to no token comes
// out as TOKEN_bad, with the message that the parser reports if it gets that far.

#include "gen/syntax.h"
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NAME = 255 };

static const struct spelling {
    const char *text;
    enum token_kind kind;
} spellings[] =
    {
#define TOKEN(name, text) {text, TOKEN_##name},
#define KEYWORD(name)
#include "gen/tokens.def"
#undef TOKEN
#undef KEYWORD
},
  keywords[] = {
#define TOKEN(name, text)
#define KEYWORD(name) {#name, TOKEN_##name},
#include "gen/tokens.def"
#undef TOKEN
#undef KEYWORD
};

const char *token_name(enum token_kind kind)
{
    static const char *const names[] = {
        [TOKEN_end] = "the end of the text",
        [TOKEN_bad] = "a bad character",
        [TOKEN_newline] = "the end of the line",
        [TOKEN_name] = "a name",
        [TOKEN_integer] = "an integer",
        [TOKEN_float] = "a number",
        [TOKEN_text] = "a string",
#define TOKEN(name, text) [TOKEN_##name] = "`" text "`",
#define KEYWORD(name) [TOKEN_##name] = "`" #name "`",
#include "gen/tokens.def"
#undef TOKEN
#undef KEYWORD
    };
    return names[kind];
}

void lex_start(struct lexer *l, const struct source *source)
{
    *l = (struct lexer){.at = source->text, .end = source->text + source->n_bytes, .fresh = true};
    if (source->n_bytes >= 3 && !memcmp(source->text, "\xef\xbb\xbf", 3))
        l->at += 3; // a byte order mark
}

// ctype.h's classes follow the host program's locale; the language has its own.
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool begins_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool goes_on_name(char c)
{
    return begins_name(c) || is_digit(c);
}

static struct token bad(const char *at, int64_t len, const char *message)
{
    return (struct token){
        .kind = TOKEN_bad, .at = {at, (int)len},
             .message = message
    };
}

static struct token name(struct lexer *l)
{
    const char *at = l->at;
    while (goes_on_name(*l->at))
        l->at++;
    int64_t len = l->at - at;
    if (len > LONGEST_NAME)
        return bad(at, len, "a name has at most 255 characters");
    struct token t = {
        .kind = TOKEN_name, .at = {at, (int)len}
    };
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (!strncmp(keywords[i].text, at, (size_t)len) && !keywords[i].text[len])
            t.kind = keywords[i].kind;
    return t;
}

static const char *skip_digits(const char *at)
{
    while (is_digit(*at))
        at++;
    return at;
}

// strtod takes the host program's decimal point, which may be a comma: this one does not.
static double decimal(const char *at)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = strtod_l(at, NULL, plain);
    freelocale(plain);
    return value;
}

static struct token number(struct lexer *l)
{
    const char *at = l->at;
    struct token t = {.kind = TOKEN_integer};
    l->at = skip_digits(at);
    if (*l->at == '.' && l->at[1] != '.') {
        t.kind = TOKEN_float;
        l->at = skip_digits(l->at + 1);
    }
    bool scaled = *l->at == 'e' || *l->at == 'E',
         is_signed = scaled && (l->at[1] == '-' || l->at[1] == '+');
    if (scaled && is_digit(l->at[1 + is_signed])) {
        t.kind = TOKEN_float;
        l->at = skip_digits(l->at + 1 + is_signed);
    }
    if (goes_on_name(*l->at)) {
        while (goes_on_name(*l->at))
            l->at++;
        return bad(at, l->at - at, "a number ends before a letter");
    }
    t.at = (struct span){at, (int)(l->at - at)};
    errno = 0;
    if (t.kind == TOKEN_integer)
        t.integer = strtoll(at, NULL, 10);
    else
        t.number = decimal(at);
    bool too_large = t.kind == TOKEN_integer ? errno == ERANGE : t.number > 1.7976931348623157e308;
    return too_large ? bad(at, t.at.len, "a number too large to hold; infinity is written inf") : t;
}

static struct token text(struct lexer *l)
{
    const char *at = l->at, *stop = at + 1;
    while (stop < l->end && *stop != *at && *stop != '\n' && *stop)
        stop++;
    bool closed = *stop == *at;
    l->at = stop + closed;
    if (!closed)
        return bad(at, stop - at, "a string without its closing quote");
    return (struct token){
        .kind = TOKEN_text, .at = {at, (int)(l->at - at)}
    };
}

static struct token unknown(struct lexer *l)
{
    const char *at = l->at;
    unsigned char c = (unsigned char)*l->at++;
    while (l->at < l->end && c >= 0x80 && ((unsigned char)*l->at & 0xc0) == 0x80)
        l->at++;
    if (c == 0)
        return bad(at, 1, "a NUL byte in the text");
    if (c >= 0x80)
        return bad(at, l->at - at, "a character outside ASCII; only comments may have those");
    if (c < 0x20 || c == 0x7f)
        return bad(at, 1, "a control character");
    return bad(at, 1, "a character that means nothing here");
}

static struct token symbol(struct lexer *l)
{
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        int len = (int)strlen(spellings[i].text);
        if (strncmp(spellings[i].text, l->at, (size_t)len))
            continue;
        struct token t = {
            .kind = spellings[i].kind, .at = {l->at, len}
        };
        l->at += len;
        if (t.kind == TOKEN_left || t.kind == TOKEN_left_bracket)
            l->depth++;
        if ((t.kind == TOKEN_right || t.kind == TOKEN_right_bracket) && l->depth > 0)
            l->depth--;
        return t;
    }
    return unknown(l);
}

// Blanks, comments, and inside brackets newlines.
static void skip_blanks(struct lexer *l)
{
    for (; l->at < l->end; l->at++) {
        if (*l->at == '#')
            while (l->at < l->end && *l->at != '\n' && *l->at)
                l->at++;
        if (*l->at == '\n' && l->depth > 0)
            l->fresh = true;
        else if (*l->at != ' ' && *l->at != '\t' && *l->at != '\r')
            return;
    }
}

struct token lex(struct lexer *l)
{
    skip_blanks(l);
    struct token t = {
        .kind = TOKEN_end, .at = {l->at, 0}
    };
    bool first = l->fresh;
    if (l->at >= l->end) {
        t.first = true;
        return t;
    }
    if (*l->at == '\n') {
        t.kind = TOKEN_newline;
        for (; l->at < l->end && *l->at == '\n'; skip_blanks(l))
            l->at++;
        l->fresh = true;
        return t;
    }
    l->fresh = false;
    if (begins_name(*l->at))
        t = name(l);
    else if (is_digit(*l->at) || (*l->at == '.' && is_digit(l->at[1])))
        t = number(l);
    else if (*l->at == '"' || *l->at == '\'')
        t = text(l);
    else
        t = symbol(l);
    t.first = first;
    return t;
}
