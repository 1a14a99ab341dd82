// test_command.c: the quern command from outside: its arguments, and every command but run.

#include "tests/child.h"
#include "tests/tests.h"
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- the command line ----

static const struct {
    const char *arguments;
    int status;
    const char *err;
} mistakes[] = {
    {"frob",                              2, "quern: unknown command frob; see `quern help`\n"                },
    {"emti",                              2, "quern: unknown command emti; did you mean emit?\n"              },
    {"run",                               2, "quern: run: expected FILE; see `quern help run`\n"              },
    {"run a.qn b.qn",                     2, "quern: run takes one FILE, got a.qn and b.qn\n"                 },
    {"run a.qn --chekc",                  2, "quern: run: unknown option --chekc; did you mean --check?\n"    },
    {"run a.qn --frobnicate",             2, "quern: run: unknown option --frobnicate; see `quern help run`\n"},
    {"run a.qn -x",                       2, "quern: run: unknown option -x; see `quern help run`\n"          },
    {"run a.qn --dump graph",             2, "quern: run takes no --dump; see `quern help run`\n"             },
    {"run a.qn --check=1",                2, "quern: --check takes no value\n"                                },
    {"run a.qn -D",                       2, "quern: -D needs a value; see `quern help run`\n"                },
    {"run a.qn -D N",                     2, "quern: -D N: expected NAME=NUMBER\n"                            },
    {"run a.qn -D N=",                    2, "quern: -D N=: expected NAME=NUMBER\n"                           },
    {"run a.qn -D =4",                    2, "quern: -D =4: expected NAME=NUMBER\n"                           },
    {"run a.qn -D 4=4",                   2, "quern: -D 4=4: expected NAME=NUMBER\n"                          },
    {"run a.qn -D N=four",                2, "quern: -D N=four: four is not a whole number\n"                 },
    {"run a.qn -D N=1.5",                 2, "quern: -D N=1.5: 1.5 is not a whole number\n"                   },
    {"run a.qn -D N=4k",                  2, "quern: -D N=4k: 4k is not a whole number\n"                     },
    {"run a.qn -DN=-1",                   1, "quern: -D N=-1: a size is from 0 to 2^40\n"                     },
    {"run a.qn -DN=1099511627777",        1, "quern: -D N=1099511627777: a size is from 0 to 2^40\n"          },
    {"run a.qn -DN=99999999999999999999", 1,
     "quern: -D N=99999999999999999999: a size is from 0 to 2^40\n"                                           },
    {"run a.qn -D N=4 -D N=5",            2, "quern: -D N=5: N is already 4\n"                                },
    {"run a.qn --in x",                   2, "quern: --in x: expected NAME=FILE.npy\n"                        },
    {"run a.qn --in x=a --in x=b",        2, "quern: --in x=b: x is already a\n"                              },
    {"run a.qn --random",                 2, "quern: --random needs a value; see `quern help run`\n"          },
    {"run a.qn --random -3",              2, "quern: --random -3: the seed is a whole number from 0 on\n"     },
    {"run a.qn --device gpu",             2, "quern: --device gpu: expected auto, cuda or host\n"             },
    {"run a.qn --math fast",              2, "quern: --math fast: expected strict or real\n"                  },
    {"run a.qn --alignment 3",            2, "quern: --alignment 3: expected a power of two from 1 to 256\n"  },
    {"run a.qn --arch sm_80,sm_90a",      2, "quern: run takes one --arch, got 2\n"                           },
    {"run a.qn --arch ,",                 2, "quern: --arch: expected names such as sm_90a,sm_80\n"           },
    {"emit a.qn --format c",              2, "quern: --format c: expected cubin or source\n"                  },
    {"explain a.qn --arch sm_80,sm_90a",  2, "quern: explain takes one --arch, got 2\n"                       },
    {"doctor now",                        2, "quern: doctor takes no operand, got now\n"                      },
    {"cache",                             2, "quern: cache: expected ACTION; see `quern help cache`\n"        },
    {"cache lst",                         2, "quern: cache: unknown action lst; did you mean list?\n"         },
    {"cache list --max-bytes 5",          2, "quern: cache list takes no --max-bytes\n"                       },
    {"help rum",                          2, "quern: help: unknown topic rum; did you mean run?\n"            },
    {"run /nonexistent/a.qn",             1,
     "quern: /nonexistent/a.qn cannot be read: No such file or directory\n"                                   },
    {"run /tmp",                          1, "quern: /tmp cannot be read: Is a directory\n"                   },
    {"run /dev/zero",                     1, "quern: /dev/zero is too large for a program: over 16 MiB\n"     },
};

START_TEST(a_mistake_is_one_sentence_and_its_exit_status)
{
    struct result r;
    quern(&r, NULL, "%s", mistakes[_i].arguments);
    ck_assert_str_eq(r.err, mistakes[_i].err);
    ck_assert_str_eq(r.out, "");
    ck_assert_int_eq(r.status, mistakes[_i].status);
}
END_TEST

START_TEST(a_binary_file_is_not_a_program)
{
    struct result r;
    quern(&r, NULL, "explain %s", beside("quern"));
    ck_assert_int_eq(r.status, 1);
    ck_assert_ptr_nonnull(strstr(r.err, "is not text: byte "));
}
END_TEST

START_TEST(help_comes_by_every_road)
{
    struct result r, s;
    quern(&r, NULL, "--version");
    ck_assert_int_eq(r.status, 0);
    ck_assert_int_eq(strncmp(r.out, "quern ", 6), 0);
    quern(&r, NULL, "help run");
    quern(&s, NULL, "run x.qn --help");
    ck_assert_int_eq(r.status, 0);
    ck_assert_str_eq(r.out, s.out);
    ck_assert_ptr_nonnull(strstr(r.out, "--check"));
    quern(&r, NULL, "help");
    quern(&s, NULL, "--help");
    ck_assert_str_eq(r.out, s.out);
    quern(&s, NULL, "%s", "");
    ck_assert_int_eq(s.status, 2);
    ck_assert_str_eq(s.out, "");
    ck_assert_int_eq(strncmp(s.err, r.out, strlen(s.err)), 0);
}
END_TEST

START_TEST(a_full_disk_is_a_failure)
{
    char command[PATH_MAX + 64];
    snprintf(command, sizeof command, "%s help >/dev/full 2>/dev/null", beside("quern"));
    int status = system(command);
    ck_assert_int_eq(WEXITSTATUS(status), 1);
}
END_TEST

// ---- emit, explain, the cache, doctor ----

START_TEST(emit_writes_the_same_bytes_again)
{
    struct result r;
    const char *a = in_folder("out/a"), *b = in_folder("out/b"), *scale = in_folder("scale.qn");
    quern(&r, NULL, "emit %s -D N=64 --arch sm_90a,sm_80 --format source -o %s", scale, a);
    ck_assert_msg(r.status == 0, "%s", r.err);
    quern(&r, NULL, "emit %s -D N=64 --arch sm_90a,sm_80 --format source -o %s", scale, b);
    ck_assert_int_eq(r.status, 0);
    ck_assert_int_eq(n_files(a), 3);
    static const char *const names[] = {"scale.sm_90a.cu", "scale.sm_80.cu", "scale.json"};
    for (int i = 0; i < 3; i++) {
        char path[PATH_MAX + 128];
        size_t n, m;
        snprintf(path, sizeof path, "%s/%s", a, names[i]);
        char *first = contents(path, &n);
        snprintf(path, sizeof path, "%s/%s", b, names[i]);
        char *second = contents(path, &m);
        ck_assert_uint_gt(n, 0);
        ck_assert_uint_eq(n, m);
        ck_assert_mem_eq(first, second, n);
        ck_assert_ptr_nonnull(strstr(r.out, names[i]));
        free(first);
        free(second);
    }
}
END_TEST

START_TEST(emit_makes_cubins_without_a_gpu)
{
    struct result r;
    quern(&r, NULL, "emit %s -D N=64 --arch sm_90a -o %s", in_folder("scale.qn"), in_folder("out"));
    if (r.status == 3) { // no NVRTC here: nothing may be left behind
        ck_assert_int_eq(n_files(in_folder("out")), 0);
        return;
    }
    ck_assert_msg(r.status == 0, "%s", r.err);
    size_t n;
    char *cubin = contents(in_folder("out/scale.sm_90a.cubin"), &n);
    ck_assert_uint_gt(n, 64);
    ck_assert_mem_eq(cubin, "\177ELF", 4);
    free(cubin);
}
END_TEST

START_TEST(emit_writes_all_or_nothing)
{
    struct result r;
    const char *scale = in_folder("scale.qn");
    quern(&r, NULL, "emit %s -D N=64 --arch sm_90a,sm_1 --format source -o %s", scale,
          in_folder("none"));
    ck_assert_int_ne(r.status, 0);
    ck_assert_ptr_nonnull(strstr(r.err, "sm_1"));
    ck_assert_int_ne(access(in_folder("none"), F_OK), 0);

    mkdir(in_folder("out"), 0700);
    mkdir(in_folder("out/scale.json"), 0700); // in the way of the last file
    quern(&r, NULL, "emit %s -D N=64 --arch sm_90a --format source -o %s", scale, in_folder("out"));
    ck_assert_int_eq(r.status, 1);
    ck_assert_int_eq(n_files(in_folder("out")), 1);

    quern(&r, NULL, "emit %s -D N=64 --arch sm_90a --format source -o %s/x", scale, scale);
    ck_assert_int_eq(r.status, 1);
    ck_assert_ptr_nonnull(strstr(r.err, "cannot be made: Not a directory"));
}
END_TEST

START_TEST(explain_speaks_to_people_and_programs)
{
    struct result r;
    quern(&r, NULL, "explain %s -D N=64 --arch sm_90a --dump graph,source", in_folder("scale.qn"));
    ck_assert_msg(r.status == 0, "%s", r.err);
    ck_assert_ptr_nonnull(strstr(r.out, "= mul "));
    ck_assert_ptr_nonnull(strstr(r.out, "struct Args"));
    quern(&r, NULL, "explain %s -D N=64 --arch sm_90a --json", in_folder("scale.qn"));
    ck_assert_int_eq(r.status, 0);
    json_t *root = json_loads(r.out, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(root, "program")), "scale");
    ck_assert_int_eq(json_array_size(json_object_get(root, "kernels")), 1);
    json_decref(root);
}
END_TEST

START_TEST(the_cache_is_where_it_was_asked_to_be)
{
    struct result r;
    quern(&r, NULL, "cache path");
    ck_assert_int_eq(r.status, 0);
    ck_assert_int_eq(strncmp(r.out, in_folder("cache"), strlen(in_folder("cache"))), 0);
    quern(&r, NULL, "cache verify");
    ck_assert_int_eq(r.status, 0);
    ck_assert_ptr_nonnull(strstr(r.out, "0 damaged"));
    quern(&r, NULL, "cache clear");
    ck_assert_int_eq(r.status, 0);
    quern(&r, NULL, "cache list");
    ck_assert_str_eq(r.out, "0 kernels, 0 bytes\n");
}
END_TEST

START_TEST(doctor_says_what_is_here)
{
    struct result r;
    quern(&r, NULL, "doctor");
    ck_assert(r.status == 0 || r.status == 3);
    ck_assert_ptr_nonnull(strstr(r.out, "nvrtc"));
    quern(&r, NULL, "doctor --json");
    json_t *root = json_loads(r.out, 0, NULL);
    ck_assert_int_gt(json_array_size(json_object_get(root, "checks")), 3);
    json_decref(root);
}
END_TEST

Suite *command_suite(void)
{
    Suite *s = suite_create("command");
    TCase *line = tcase_create("the command line");
    tcase_add_loop_test(line, a_mistake_is_one_sentence_and_its_exit_status, 0,
                        sizeof mistakes / sizeof *mistakes);
    tcase_add_test(line, a_binary_file_is_not_a_program);
    tcase_add_test(line, help_comes_by_every_road);
    tcase_add_test(line, a_full_disk_is_a_failure);
    suite_add_tcase(s, line);

    TCase *files = tcase_create("files");
    tcase_set_timeout(files, 120);
    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(files, emit_writes_the_same_bytes_again);
    tcase_add_test(files, emit_makes_cubins_without_a_gpu);
    tcase_add_test(files, emit_writes_all_or_nothing);
    tcase_add_test(files, explain_speaks_to_people_and_programs);
    tcase_add_test(files, the_cache_is_where_it_was_asked_to_be);
    tcase_add_test(files, doctor_says_what_is_here);
    suite_add_tcase(s, files);
    return s;
}
