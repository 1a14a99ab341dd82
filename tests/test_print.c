// test_print.c: a graph's text is printed and read back without loss, and wrong texts are reported.

#include "tests/on_graph.h"
#include "tests/tests.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static char *file_text(const char *path)
{
    FILE *in = fopen(path, "r");
    ck_assert_msg(in != NULL, "cannot open %s", path);
    char *text = NULL;
    size_t size = 0;
    ssize_t got = getdelim(&text, &size, 0, in);
    fclose(in);
    ck_assert_msg(got > 0, "%s is empty", path);
    return text;
}

static void expect_prints_as_read(const char *text)
{
    struct on_graph t;
    graph_open(&t, text);
    char *again = printed(t.graph);
    ck_assert_str_eq(again, text);
    free(again);
    graph_close(&t);
}

START_TEST(every_golden_prints_as_it_was_read)
{
    DIR *folder = opendir("tests/golden/print");
    ck_assert_msg(folder != NULL, "run this from the repository's root");
    int n_texts = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[512];
        snprintf(path, sizeof path, "tests/golden/print/%s", entry->d_name);
        char *text = file_text(path);
        expect_prints_as_read(text);
        free(text);
        n_texts++;
    }
    closedir(folder);
    ck_assert_int_ge(n_texts, 4);
}
END_TEST

static double constant_of(const char *written)
{
    char text[100];
    snprintf(text, sizeof text, "graph g()\n%%0 = constant %s\noutput \"y\" = %%0\n", written);
    struct on_graph t;
    graph_open(&t, text);
    double value = t.graph->nodes[0]->attr.value;
    graph_close(&t);
    return value;
}

START_TEST(constants_are_rounded_to_their_dtype)
{
    ck_assert(constant_of("0.1 : f32[]") == 0.1f);
    ck_assert(constant_of("0.1 : f64[]") == 0.1);
    ck_assert(constant_of("0.1 : f16[]") == 0.0999755859375);
    ck_assert(constant_of("0.1 : bf16[]") == 0.10009765625);
    ck_assert(constant_of("65520 : f16[]") > 1e300);
    ck_assert(constant_of("65519 : f16[]") == 65504);
}
END_TEST

START_TEST(a_constant_prints_as_the_shortest_decimal_that_gives_it)
{
    expect_prints_as_read("graph g()\n"
                          "%0 = constant 0.1 : f32[]\n"
                          "%1 = constant 0.1 : f16[]\n"
                          "%2 = constant 0.3333333333333333 : f64[]\n"
                          "%3 = constant -0 : f32[]\n"
                          "%4 = constant inf : f32[]\n"
                          "%5 = constant -inf : bf16[]\n"
                          "%6 = constant nan : f32[]\n"
                          "%7 = constant 1e-45 : f32[]\n"
                          "%8 = constant 5e-324 : f64[]\n"
                          "%9 = constant 1.7976931348623157e+308 : f64[]\n"
                          "%10 = constant -9223372036854775808 : i64[]\n"
                          "%11 = constant 1 : bool[]\n");
}
END_TEST

START_TEST(comments_blank_lines_and_the_order_of_attributes_do_not_matter)
{
    struct on_graph t;
    graph_open(&t, "# one\n\ngraph g()  \n  # two\n%0 = input \"x\" : f32[4]\n\n"
                   "\t%1 = slice %0 step=[2] start=[1] name=\"odd\" : f32[2] \noutput \"y\" = %1");
    char *text = printed(t.graph);
    ck_assert_str_eq(text, "graph g()\n%0 = input \"x\" : f32[4]\n"
                           "%1 = slice %0 name=\"odd\" start=[1] step=[2] : f32[2]\n"
                           "output \"y\" = %1\n");
    free(text);
    graph_close(&t);
}
END_TEST

// After "graph g()\n%0 = input "x" : f32[2,3]\n%1 = input "i" : i32[2,3]\n".
static const struct {
    const char *line, *message;
} wrong_lines[] = {
    {"%3 = neg %0 : f32[2,3]",                           "g:4:1: error: expected %2"            },
    {"%2 = nag %0 : f32[2,3]",                           "expected the name of an op"           },
    {"%2 = neg %2 : f32[2,3]",                           "no %2 above this line"                },
    {"%2 = neg : f32[2,3]",                              "neg: takes 1 inputs, got 0"           },
    {"%2 = add %0 : f32[2,3]",                           "add: takes 2 inputs, got 1"           },
    {"%2 = neg %0 : f32[3,2]",                           "neg makes f32[2,3], not f32[3,2]"     },
    {"%2 = neg %0 : f64[2,3]",                           "neg makes f32[2,3], not f64[2,3]"     },
    {"%2 = neg %0 : f99[2,3]",                           "expected a dtype"                     },
    {"%2 = neg %0 : f32[2,3",                            "expected ']'"                         },
    {"%2 = neg %0 : f32[2,3] x",                         "expected the end of the line"         },
    {"%2 = neg %0 axes=[1] : f32[2,3]",                  "neg: has no axes="                    },
    {"%2 = sum %0 : f32[2,1]",                           "sum: axes= is missing"                },
    {"%2 = sum %0 axes=[] : f32[2,3]",                   "sum: axes= is empty"                  },
    {"%2 = sum %0 axes=[2] : f32[2,3]",                  "sum: no axis 2 in f32[2,3]"           },
    {"%2 = sum %0 axes=[-1] : f32[2,1]",                 "sum: no axis -1"                      },
    {"%2 = sum %0 axes=[1] axes=[1] : f32[2,1]",         "this attribute is already given"      },
    {"%2 = argmax %0 axes=[0,1] : i64[1,1]",             "argmax: takes exactly one axis"       },
    {"%2 = add %0, %1 : f32[2,3]",                       "add: dtypes differ: f32 and i32"      },
    {"%2 = sqrt %1 : i32[2,3]",                          "sqrt: takes a floating dtype, got i32"},
    {"%2 = not %0 : bool[2,3]",                          "not: takes bool, got f32"             },
    {"%2 = matmul %0, %0 : f32[2,3]",                    "inner dimensions differ: 3 and 2"     },
    {"%2 = reshape %0 : f32[7]",                         "has 6 elements and f32[7] has 7"      },
    {"%2 = reshape %0 : f32[-6]",                        "dimension 0 is negative: -6"          },
    {"%2 = reshape %0 : f32[1099511627777]",             "more than 2^40 elements"              },
    {"%2 = reshape %0 : f32[1,1,1,1,1,1,1,1,1,1,1,1,6]", "more than 12 values"                  },
    {"%2 = permute %0 perm=[0,0] : f32[2,2]",            "axis 0 is named twice in f32[2,3]"    },
    {"%2 = permute %0 perm=[0,7] : f32[2,2]",            "axis 7 is not in f32[2,3]"            },
    {"%2 = permute %0 perm=[0] : f32[2]",                "perm= has 1 values for 2 axes"        },
    {"%2 = broadcast %0 : f32[2,2,4]",                   "does not broadcast to f32[2,2,4]"     },
    {"%2 = slice %0 start=[0,0] step=[1,0] : f32[2,3]",  "the step of axis 1 is 0"              },
    {"%2 = slice %0 start=[0,1] step=[1,1] : f32[2,3]",  "3 elements from 1 by 1 leave axis 1"  },
    {"%2 = slice %0 start=[0,2] step=[1,-2] : f32[2,3]", "3 elements from 2 by -2 leave axis 1" },
    {"%2 = slice %0 start=[0] step=[1] : f32[2]",        "start= has 1 values for 2 axes"       },
    {"%2 = pad %0 before=[0,0] fill=0 : f32[2,2]",       "pad: axis 1 cannot grow by 0 and -1"  },
    {"%2 = pad %1 before=[0,0] fill=0.5 : i32[2,4]",     "pad: 0.5 does not fit in i32"         },
    {"%2 = concat %0, %1 axis=0 : f32[4,3]",             "concat: dtypes differ: f32 and i32"   },
    {"%2 = concat %0, %0 axis=2 : f32[4,3]",             "concat: no axis 2 in f32[2,3]"        },
    {"%2 = constant 300 : i8[]",                         "constant: 300 does not fit in i8"     },
    {"%2 = constant 1.5 : i32[]",                        "constant: 1.5 is no i32"              },
    {"%2 = constant x : f32[]",                          "expected a number"                    },
    {"%2 = constant 1 : f32[99999999999999999999]",      "this integer does not fit in 64 bits" },
    {"%2 = iota axis=1 : i64[3]",                        "iota: no axis 1 in 1 dimensions"      },
    {"%2 = input \"x : f32[]",                           "expected '\"'"                        },
    {"output \"y\" = %2",                                "no %2 above this line"                },
    {"other \"y\" = %1",                                 "expected 'output' or a node"          },
};

START_TEST(a_wrong_line_is_reported_and_nothing_else)
{
    char text[400];
    snprintf(text, sizeof text,
             "graph g()\n%%0 = input \"x\" : f32[2,3]\n%%1 = input \"i\" : i32[2,3]\n%s\n",
             wrong_lines[_i].line);
    char *found = reported(text);
    ck_assert_msg(found != NULL, "nothing was reported of %s", wrong_lines[_i].line);
    ck_assert_msg(strstr(found, wrong_lines[_i].message) != NULL, "of %s was reported %s",
                  wrong_lines[_i].line, found);
    ck_assert_msg(!strstr(strchr(found, '\n'), "error:"), "more than one report: %s", found);
    free(found);
}
END_TEST

START_TEST(a_step_that_overflows_is_reported)
{
    char *found = reported("graph g()\n%0 = input \"x\" : f32[9]\n"
                           "%1 = slice %0 start=[1] step=[9223372036854775807] : f32[3]\n");
    ck_assert(found && strstr(found, "leave axis 0 of f32[9]"));
    free(found);
}
END_TEST

START_TEST(a_wrong_header_is_reported)
{
    static const char *const texts[] = {
        "",         "\n\n",       "grph g()",      "graph",         "graph g",
        "graph g(", "graph g(B)", "graph g(B = )", "graph g(B = 1", "graph g() x"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *found = reported(texts[i]);
        ck_assert_msg(found != NULL, "nothing was reported of %s", texts[i]);
        free(found);
    }
}
END_TEST

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void mutate(char *text, size_t *n, uint64_t *state)
{
    static const char bytes[] = "%%,,[]=:0123456789-\n \"xf\xff";
    size_t at = next_random(state) % *n, other = next_random(state) % *n;
    switch (next_random(state) % 5) {
    case 0:
        text[at] = bytes[next_random(state) % (sizeof bytes - 1)];
        break;
    case 1: // one byte less
        memmove(text + at, text + at + 1, *n - at);
        (*n)--;
        break;
    case 2:
        text[at] = text[other];
        break;
    case 3: // the rest is cut off, now and then
        if (next_random(state) % 8 == 0)
            *n = at + 1;
        text[*n] = 0;
        break;
    case 4: // a digit more or less
        text[at] = (char)(text[at] ^ 1);
        break;
    }
}

// Half-wrong texts may be read or refused; what is read has to be sound and print as itself.
START_TEST(mutated_texts_never_crash_the_reader)
{
    char *good = file_text("tests/golden/print/every_op.txt");
    size_t length = strlen(good);
    uint64_t state = 20240607;
    int n_read = 0;
    for (int round = 0; round < 3000; round++) {
        char *text = strdup(good);
        size_t n = length;
        for (uint64_t i = next_random(&state) % 3 + 1; i > 0 && n > 1; i--)
            mutate(text, &n, &state);
        struct gen g = {.n_errors = 0};
        struct source source = {.name = "g", .text = text, .n_bytes = n};
        struct graph *graph = read_graph(&g, &source);
        ck_assert(graph ? g.n_errors == 0 : g.n_errors > 0);
        if (graph) {
            graph_check(graph);
            char *first = printed(graph);
            expect_prints_as_read(first);
            free(first);
            n_read++;
        }
        arena_free(&g.arena);
        free(text);
    }
    free(good);
    ck_assert_int_gt(n_read, 100);
}
END_TEST

Suite *print_suite(void)
{
    Suite *s = suite_create("print");
    TCase *c = tcase_create("print and read");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, every_golden_prints_as_it_was_read);
    tcase_add_test(c, constants_are_rounded_to_their_dtype);
    tcase_add_test(c, a_constant_prints_as_the_shortest_decimal_that_gives_it);
    tcase_add_test(c, comments_blank_lines_and_the_order_of_attributes_do_not_matter);
    tcase_add_loop_test(c, a_wrong_line_is_reported_and_nothing_else, 0,
                        (int)(sizeof wrong_lines / sizeof wrong_lines[0]));
    tcase_add_test(c, a_step_that_overflows_is_reported);
    tcase_add_test(c, a_wrong_header_is_reported);
    tcase_add_test(c, mutated_texts_never_crash_the_reader);
    suite_add_tcase(s, c);
    return s;
}
