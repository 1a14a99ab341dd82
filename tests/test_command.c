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

// ARGUMENTS => STATUS MESSAGE
static const char *const mistakes[] = {
    "frob => 2 unknown command frob; see `quern help`",
    "emti => 2 unknown command emti; did you mean emit?",
    "run => 2 run: expected FILE; see `quern help run`",
    "run a.qn b.qn => 2 run takes one FILE, got a.qn and b.qn",
    "run a.qn --chekc => 2 run: unknown option --chekc; did you mean --check?",
    "run a.qn --frobnicate => 2 run: unknown option --frobnicate; see `quern help run`",
    "run a.qn -x => 2 run: unknown option -x; see `quern help run`",
    "run a.qn --dump graph => 2 run takes no --dump; see `quern help run`",
    "run a.qn --check=1 => 2 --check takes no value",
    "run a.qn -D => 2 -D needs a value; see `quern help run`",
    "run a.qn -D N => 2 -D N: expected NAME=NUMBER",
    "run a.qn -D N= => 2 -D N=: expected NAME=NUMBER",
    "run a.qn -D =4 => 2 -D =4: expected NAME=NUMBER",
    "run a.qn -D 4=4 => 2 -D 4=4: expected NAME=NUMBER",
    "run a.qn -D N=four => 2 -D N=four: four is not a whole number",
    "run a.qn -D N=1.5 => 2 -D N=1.5: 1.5 is not a whole number",
    "run a.qn -D N=4k => 2 -D N=4k: 4k is not a whole number",
    "run a.qn -DN=-1 => 1 -D N=-1: a size is from 0 to 2^40",
    "run a.qn -DN=1099511627777 => 1 -D N=1099511627777: a size is from 0 to 2^40",
    "run a.qn -DN=99999999999999999999 => 1 -D N=99999999999999999999: a size is from 0 to 2^40",
    "run a.qn -D N=4 -D N=5 => 2 -D N=5: N is already 4",
    "run a.qn --in x => 2 --in x: expected NAME=FILE.npy",
    "run a.qn --in x=a --in x=b => 2 --in x=b: x is already a",
    "run a.qn --random => 2 --random needs a value; see `quern help run`",
    "run a.qn --random -3 => 2 --random -3: the seed is a whole number from 0 on",
    "run a.qn --device gpu => 2 --device gpu: expected auto, cuda or host",
    "run a.qn --math exact => 2 --math exact: expected strict, real, finite or fast",
    "run a.qn --alignment 3 => 2 --alignment 3: expected a power of two from 1 to 256",
    "run a.qn --arch sm_80,sm_90a => 2 run takes one --arch, got 2",
    "run a.qn --arch , => 2 --arch: expected names such as sm_90a,sm_80",
    "emit a.qn --format c => 2 --format c: expected cubin or source",
    "explain a.qn --arch sm_80,sm_90a => 2 explain takes one --arch, got 2",
    "explain a.qn --dump graph,fus => 2 --dump fus: expected parse, graph, rewrite, split, "
    "fuse, schedule, source or all",
    "explain a.qn --dump graph, => 2 --dump : expected parse, graph, rewrite, split, fuse, "
    "schedule, source or all",
    "run a.qn --weights always => 2 --weights always: expected prepared or each-run",
    "run a.qn --budget 5s => 2 run takes no --budget; see `quern help run`",
    "tune a.qn --budget soon => 2 --budget soon: expected a time such as 60s or 5m",
    "tune a.qn --budget 5h => 2 --budget 5h: expected a time such as 60s or 5m",
    "tune a.qn --budget 0s => 2 --budget 0s: expected a time such as 60s or 5m",
    "tune a.qn --effort hard => 2 --effort hard: expected measure or patient",
    "tune a.qn --arch sm_80,sm_90a => 2 tune takes one --arch, got 2",
    "wisdom => 2 wisdom: expected ACTION; see `quern help wisdom`",
    "wisdom exprot => 2 wisdom: unknown action exprot; did you mean export?",
    "wisdom import => 2 wisdom import: expected a file",
    "wisdom show a => 2 wisdom show takes no a",
    "wisdom import a b => 2 wisdom import takes one FILE or PROGRAM, got a and b",
    "emit a.qn --wisdom /nonexistent/w => 1 a.qn cannot be read: No such file or directory",
    "doctor now => 2 doctor takes no operand, got now",
    "cache => 2 cache: expected ACTION; see `quern help cache`",
    "cache lst => 2 cache: unknown action lst; did you mean list?",
    "cache list --max-bytes 5 => 2 cache list takes no --max-bytes",
    "help rum => 2 help: unknown topic rum; did you mean run?",
    "run /nonexistent/a.qn => 1 /nonexistent/a.qn cannot be read: No such file or directory",
    "run /tmp => 1 /tmp cannot be read: Is a directory",
    "run /dev/zero => 1 /dev/zero is too large for a program: over 16 MiB",
};

START_TEST(a_mistake_is_one_sentence_and_its_exit_status)
{
    struct result r;
    char expected[256];
    const char *arrow = strstr(mistakes[_i], " => ");
    quern(&r, NULL, "%.*s", (int)(arrow - mistakes[_i]), mistakes[_i]);
    snprintf(expected, sizeof expected, "quern: %s\n", arrow + 6);
    ck_assert_str_eq(r.err, expected);
    ck_assert_str_eq(r.out, "");
    ck_assert_int_eq(r.status, arrow[4] - '0');
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
    quern(&r, NULL, "emit %s -D N=64 --arch sm_90a --no-cache -o %s", in_folder("scale.qn"),
          in_folder("again"));
    size_t m;
    char *again = contents(in_folder("again/scale.sm_90a.cubin"), &m);
    ck_assert_uint_eq(n, m);
    ck_assert_mem_eq(cubin, again, n);
    free(cubin);
    free(again);
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
