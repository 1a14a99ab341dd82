// test_diag.c: how a report reads: its place, its line, its caret.

#include "tests/tests.h"
#undef fail // check's
#include "gen/gen.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

struct report {
    struct gen g;
    jmp_buf escape;
    struct source source;
};

static void open_report(struct report *r, const char *text)
{
    *r = (struct report){
        .source = {"a.qn", text, strlen(text)}
    };
    r->g.source = &r->source;
    r->g.escape = &r->escape;
    if (setjmp(r->escape))
        ck_abort_msg("out of memory");
}

static struct span find(const struct report *r, const char *part)
{
    const char *at = strstr(r->source.text, part);
    ck_assert_ptr_nonnull(at);
    return (struct span){at, (int)strlen(part)};
}

static void expect_printed(struct report *r, const char *expected)
{
    char *said;
    size_t n;
    FILE *out = open_memstream(&said, &n);
    diag_print(&r->g, out);
    fclose(out);
    ck_assert_str_eq(said, expected);
    free(said);
    arena_free(&r->g.arena);
}

START_TEST(a_report_shows_place_line_and_caret)
{
    struct report r;
    open_report(&r, "first\nsecond line\nthird\n");
    ck_assert(!fail_at(&r.g, find(&r, "line"), "expected %d, got %d", 1, 2));
    ck_assert_int_eq(r.g.n_errors, 1);
    expect_printed(&r, "a.qn:2:8: error: expected 1, got 2\n"
                       "second line\n"
                       "       ^~~~\n");
}
END_TEST

START_TEST(reports_come_in_order_and_by_severity)
{
    struct report r;
    open_report(&r, "a b c");
    warn_at(&r.g, find(&r, "c"), "w");
    r.g.at = find(&r, "a");
    ck_assert(!fail(&r.g, "e"));
    note_at(&r.g, find(&r, "b"), "n");
    ck_assert_int_eq(r.g.n_warnings, 1);
    expect_printed(&r, "a.qn:1:5: warning: w\na b c\n    ^\n"
                       "a.qn:1:1: error: e\na b c\n^\n"
                       "a.qn:1:3: note: n\na b c\n  ^\n");
}
END_TEST

// A search goes on from where the last one ended, and begins anew for what lies before that.
START_TEST(places_are_found_in_any_order)
{
    static const struct {
        const char *part;
        int64_t line, column;
    } parts[] = {
        {"two",  2, 1},
        {"six",  4, 1},
        {"five", 3, 3},
        {"one",  1, 1},
        {"six",  4, 1},
        {"five", 3, 3},
    };
    struct report r;
    struct text_line from = {NULL, 0};
    struct position at;
    open_report(&r, "one\ntwo\n  five\nsix");
    for (int i = 0; i < (int)(sizeof parts / sizeof *parts); i++) {
        ck_assert(find_position(&r.g, find(&r, parts[i].part), &from, &at));
        ck_assert_int_eq(at.line, parts[i].line);
        ck_assert_int_eq(at.column, parts[i].column);
    }
    ck_assert(!find_position(&r.g, (struct span){NULL, 0}, &from, &at));
}
END_TEST

START_TEST(tabs_and_wide_characters_keep_the_caret_in_place)
{
    struct report r;
    open_report(&r, "\tgr\xc3\xb6\xc3\x9f"
                    "e = \xe2\x82\xac x\n");
    fail_at(&r.g, find(&r, "\xe2\x82\xac x"), "m");
    expect_printed(&r, "a.qn:1:10: error: m\n"
                       "\tgr\xc3\xb6\xc3\x9f"
                       "e = \xe2\x82\xac x\n"
                       "\t        ^~~\n");
}
END_TEST

START_TEST(bytes_that_no_terminal_shows_become_question_marks)
{
    struct report r;
    open_report(&r, "a\x1b[31m \xff\xc3) x");
    fail_at(&r.g, find(&r, "x"), "m");
    expect_printed(&r, "a.qn:1:12: error: m\na?[31m ?"
                       "?) x\n           ^\n");
}
END_TEST

START_TEST(a_place_at_the_end_of_the_text_has_a_caret)
{
    struct report r;
    open_report(&r, "one\ntwo");
    fail_at(&r.g, (struct span){r.source.text + 7, 0}, "m");
    expect_printed(&r, "a.qn:2:4: error: m\ntwo\n   ^\n");
}
END_TEST

START_TEST(a_span_over_lines_is_marked_on_its_first)
{
    struct report r;
    open_report(&r, "f(a,\n  b)\n");
    fail_at(&r.g, find(&r, "f(a,\n  b)"), "m");
    expect_printed(&r, "a.qn:1:1: error: m\nf(a,\n^~~~\n");
}
END_TEST

START_TEST(a_long_line_is_cut_around_the_caret)
{
    char text[1001], expected[400];
    struct report r;
    memset(text, '-', 1000);
    text[1000] = '\0';
    memcpy(text + 500, "here", 4);
    open_report(&r, text);
    fail_at(&r.g, find(&r, "here"), "m");
    snprintf(expected, sizeof expected, "a.qn:1:501: error: m\n...%.60shere%.76s...\n%63s^~~~\n",
             text, text, "");
    expect_printed(&r, expected);
}
END_TEST

START_TEST(a_place_in_the_prelude_is_shown_at_the_users_call)
{
    struct report r;
    struct source prelude = {"prelude.qn", "fn f(x) { return x }", 20};
    open_report(&r, "y = f(x)\n");
    r.g.prelude = &prelude;
    r.g.at = find(&r, "f(x)");
    r.g.within = "f";
    fail_at(&r.g, (struct span){prelude.text + 17, 1}, "m");
    expect_printed(&r, "a.qn:1:5: error: f: m\ny = f(x)\n    ^~~~\n");
}
END_TEST

START_TEST(without_a_place_the_file_alone_is_named)
{
    struct report r;
    open_report(&r, "x");
    fail(&r.g, "m");
    expect_printed(&r, "a.qn: error: m\n");
}
END_TEST

START_TEST(after_ten_errors_the_others_are_counted)
{
    struct report r;
    char expected[1000] = "";
    open_report(&r, "x");
    for (int i = 0; i < 13; i++) {
        fail_at(&r.g, find(&r, "x"), "e%d", i);
        note_at(&r.g, find(&r, "x"), "n%d", i);
    }
    for (int i = 0; i < 10; i++)
        sprintf(expected + strlen(expected),
                "a.qn:1:1: error: e%d\nx\n^\na.qn:1:1: note: n%d\nx\n^\n", i, i);
    strcat(expected, "3 more errors are not shown\n");
    ck_assert_int_eq(r.g.n_errors, 13);
    expect_printed(&r, expected);
}
END_TEST

START_TEST(arena_memory_is_zero_and_out_of_memory_takes_the_way_out)
{
    struct report r;
    volatile bool escaped = false;
    open_report(&r, "x");
    const unsigned char *bytes = arena_alloc(&r.g, 1000);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(bytes[i], 0);
    ck_assert_str_eq(arena_text(&r.g, "%d-%s", 7, "a"), "7-a");
    ck_assert_uint_eq(r.g.arena.bytes, 1004);
    if (setjmp(r.escape))
        escaped = true;
    else
        arena_alloc(&r.g, SIZE_MAX - 8);
    ck_assert(escaped);
    arena_free(&r.g.arena);
    ck_assert_ptr_null(r.g.arena.blocks);
}
END_TEST

Suite *diag_suite(void)
{
    Suite *s = suite_create("diag");
    TCase *c = tcase_create("diag");
    tcase_add_test(c, a_report_shows_place_line_and_caret);
    tcase_add_test(c, reports_come_in_order_and_by_severity);
    tcase_add_test(c, places_are_found_in_any_order);
    tcase_add_test(c, tabs_and_wide_characters_keep_the_caret_in_place);
    tcase_add_test(c, bytes_that_no_terminal_shows_become_question_marks);
    tcase_add_test(c, a_place_at_the_end_of_the_text_has_a_caret);
    tcase_add_test(c, a_span_over_lines_is_marked_on_its_first);
    tcase_add_test(c, a_long_line_is_cut_around_the_caret);
    tcase_add_test(c, a_place_in_the_prelude_is_shown_at_the_users_call);
    tcase_add_test(c, without_a_place_the_file_alone_is_named);
    tcase_add_test(c, after_ten_errors_the_others_are_counted);
    tcase_add_test(c, arena_memory_is_zero_and_out_of_memory_takes_the_way_out);
    suite_add_tcase(s, c);
    return s;
}
