// receipt.c: the rules that rewrote a plan's program to what people and programs want to know of
// them.

#include "runtime/runtime.h"
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { EXCERPT = 60 };

static bool is_space(char c)
{
    return isspace((unsigned char)c) != 0;
}

// The text of a span on one line, without its comments, cut where it is long; text has room.
static void excerpt(struct span at, char text[EXCERPT + 4])
{
    const char *p = at.at, *end = at.at + at.len;
    int n = 0;
    for (; p < end && n < EXCERPT; p++) {
        if (*p == '#')
            while (p + 1 < end && *p != '\n')
                p++;
        if (is_space(*p) && n && text[n - 1] != ' ')
            text[n++] = ' ';
        else if (!is_space(*p))
            text[n++] = *p;
    }
    strcpy(text + n, p < end ? "..." : "");
}

// "FILE:LINE:COLUMN", the caller's; NULL: nowhere.
static char *place_text(const quern_plan *plan, struct span at, struct text_line *from)
{
    struct position position;
    char *text;
    if (!find_position(&plan->gen, at, from, &position) ||
        asprintf(&text, "%s:%lld:%lld", plan->gen.source->name, (long long)position.line,
                 (long long)position.column) < 0)
        return NULL;
    return text;
}

static void print_saved(FILE *out, double flops, double bytes)
{
    print_amount(out, flops, "flop");
    fputs(", ", out);
    print_amount(out, bytes, "B");
}

static void print_rule(FILE *out, const quern_plan *plan, const struct receipt_line *line,
                       struct text_line *from)
{
    char text[EXCERPT + 4], *place = place_text(plan, line->at, from);
    fprintf(out, "\n  %s, %s: ", line->rule, rule_class_name[line->class]);
    print_saved(out, line->saved_flops, line->saved_bytes);
    if (place) {
        excerpt(line->at, text);
        fprintf(out, "\n    %s: %s", place, text);
    }
    free(place);
}

void print_rules(FILE *out, const quern_plan *plan)
{
    const struct receipt *receipt = &plan->program.receipt;
    double flops = 0, bytes = 0;
    struct text_line from = {NULL, 0};
    if (!receipt->n_lines)
        return;
    for (int i = 0; i < receipt->n_lines; i++) {
        flops += receipt->lines[i].saved_flops;
        bytes += receipt->lines[i].saved_bytes;
    }
    fprintf(out, "\nrewritten by %d rule%s, math %s, which save%s ", receipt->n_lines,
            receipt->n_lines == 1 ? "" : "s", math_name[plan->math],
            receipt->n_lines == 1 ? "s" : "");
    print_saved(out, flops, bytes);
    for (int i = 0; i < receipt->n_lines; i++)
        print_rule(out, plan, &receipt->lines[i], &from);
    fputc('\n', out);
}

// A file's name may be any bytes, and JSON has text alone.
static json_t *place_json(const quern_plan *plan, struct span at, struct text_line *from)
{
    char *text = place_text(plan, at, from);
    json_t *json = text ? json_string(text) : NULL;
    free(text);
    return json ? json : json_null();
}

json_t *rules_json(const quern_plan *plan)
{
    const struct receipt *receipt = &plan->program.receipt;
    double us = 1e6 / plan->target.f32_flops;
    json_t *rules = json_array();
    struct text_line from = {NULL, 0};
    for (int i = 0; i < receipt->n_lines; i++) {
        const struct receipt_line *line = &receipt->lines[i];
        json_array_append_new(rules, json_pack("{s:s, s:s, s:o, s:f, s:f, s:f}", "name", line->rule,
                                               "class", rule_class_name[line->class], "at",
                                               place_json(plan, line->at, &from), "saved_flops",
                                               line->saved_flops, "saved_bytes", line->saved_bytes,
                                               "saved_us", us * line->saved_time));
    }
    return rules;
}

json_t *rule_names_json(const quern_plan *plan)
{
    const struct receipt *receipt = &plan->program.receipt;
    json_t *rules = json_array();
    for (int i = 0; i < receipt->n_lines; i++)
        json_array_append_new(rules, json_pack("{s:s, s:s}", "name", receipt->lines[i].rule,
                                               "class", rule_class_name[receipt->lines[i].class]));
    return rules;
}
