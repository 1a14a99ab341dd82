// test_parse.c: program texts become the recorded trees, or the recorded diagnostics.

#include "tests/golden.h"
#include "tests/tests.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

static void produce(const char *input, FILE *out)
{
    struct gen g = {0};
    struct source source = {"a.qn", input, strlen(input)};
    jmp_buf escape;
    g.escape = &escape;
    if (setjmp(escape))
        ck_abort_msg("out of memory");
    const struct program_ast *ast = parse(&g, &source);
    diag_print(&g, out);
    if (ast)
        print_syntax(ast, out);
    arena_free(&g.arena);
}

START_TEST(texts_parse_as_recorded)
{
    golden_check("parse", _i, produce);
}
END_TEST

static char *parsed(const char *text)
{
    char *said;
    size_t n;
    FILE *out = open_memstream(&said, &n);
    produce(text, out);
    fclose(out);
    return said;
}

// Precedence and associativity are Python's: an expression, and the same with every bracket.
static const char *const bracketed[][2] = {
    {"a + b * c",                               "(a + (b * c))"                              },
    {"a - b - c",                               "((a - b) - c)"                              },
    {"a / b * c % d // e @ f",                  "(((((a / b) * c) % d) // e) @ f)"           },
    {"-x ** 2",                                 "(-(x ** 2))"                                },
    {"2 ** -x",                                 "(2 ** (-x))"                                },
    {"a ** b ** c",                             "(a ** (b ** c))"                            },
    {"- -x",                                    "(-(-x))"                                    },
    {"+x",                                      "x"                                          },
    {"-x * y",                                  "((-x) * y)"                                 },
    {"x.T ** 2",                                "(x.T ** 2)"                                 },
    {"-x[0].T",                                 "(-x[0].T)"                                  },
    {"a < b + c",                               "(a < (b + c))"                              },
    {"not a == b",                              "(not (a == b))"                             },
    {"not a and not b or c",                    "(((not a) and (not b)) or c)"               },
    {"a or b and c",                            "(a or (b and c))"                           },
    {"not not a",                               "(not (not a))"                              },
    {"(a < b) < c",                             "((a < b) < c)"                              },
    {"a + b == c and d",                        "(((a + b) == c) and d)"                     },
    {"f(a, axis = -1, b = (0, 1),)",            "f(a, axis = (-1), b = [0, 1])"              },
    {"x[:, None, 2:8, ..., -1, ::2, ::-1, 1:]", "x[:, None, 2:8, ..., (-1), ::2, ::(-1), 1:]"},
    {"[(), (a,), (a), [a]]",                    "[[], [a], a, [a]]"                          },
    {"f(1., .5, 1e-8, 2.5E+3, 7)",              "f(1, 0.5, 1e-08, 2500, 7)"                  },
    {"f(inf, -nan, true, False, None)",         "f(inf, (-nan), true, false, None)"          },
    {"f('a\"b', \"c # d\")",                    "f(\"a\"b\", \"c # d\")"                     },
    {"input + weight + output + program",       "(((input + weight) + output) + program)"    },
};

START_TEST(precedence_is_that_of_python)
{
    const char *const *row = bracketed[_i];
    char text[200], expected[200];
    snprintf(text, sizeof text, "program p\ny = %s\n", row[0]);
    snprintf(expected, sizeof expected, "program p()\ny = %s\n", row[1]);
    char *got = parsed(text);
    ck_assert_str_eq(got, expected);
    free(got);
}
END_TEST

// What is printed with all brackets is read as the same tree.
START_TEST(printing_is_idempotent)
{
    char text[200];
    snprintf(text, sizeof text, "program p\ny = %s\n", bracketed[_i][1]);
    if (strchr(bracketed[_i][1], '"')) // quotes inside quotes are not escaped
        return;
    char *once = parsed(text), *twice = parsed(once);
    ck_assert_str_eq(once, twice);
    free(once);
    free(twice);
}
END_TEST

// Any prefix of a program parses or is reported: nothing crashes, hangs or passes silently as a
// whole.
START_TEST(every_prefix_is_reported_or_parsed)
{
    static const char whole[] =
        "program p(B, N = 2 * B) # sizes\n"
        "fn f(x, a = [1, 2]) {\n    if a == None { return x }\n"
        "    else { y = x[:, None, ..., ::2]\n return y.T }\n}\n"
        "input x : f32[B, N]\noutput y : f32[N] = f(x, a = 'b') ** -1.5e3 @ x\n";
    for (size_t n = 0; n < sizeof whole; n++) {
        char *text = strndup(whole, n);
        char *said = parsed(text);
        bool reported = strstr(said, ": error: "), headed = strstr(said, "program p(");
        ck_assert_msg(reported || headed, "%s\n%s", text, said);
        free(said);
        free(text);
    }
}
END_TEST

Suite *parse_suite(void)
{
    Suite *s = suite_create("parse");
    TCase *c = tcase_create("parse");
    int n = (int)(sizeof bracketed / sizeof *bracketed);
    tcase_add_loop_test(c, texts_parse_as_recorded, 0, golden_count("parse"));
    tcase_add_loop_test(c, precedence_is_that_of_python, 0, n);
    tcase_add_loop_test(c, printing_is_idempotent, 0, n);
    tcase_add_test(c, every_prefix_is_reported_or_parsed);
    suite_add_tcase(s, c);
    return s;
}
