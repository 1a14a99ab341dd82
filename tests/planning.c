// planning.c: contexts with a cache in a folder of the test, and plans of two small programs.

#include "tests/planning.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char add_one[] = "program add_one(N)\n\ninput x : f32[N]\noutput y = x + 1\n";
const char scaled[] = "program scaled(B, D)\n\ninput x : f32[B, D]\nweight w : f32[D]\n"
                      "output y = x * w\noutput s = sum(x * w, axis = 1)\n";

static char folder[64];

struct noted noted = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_note(void *user, const char *line)
{
    (void)user;
    pthread_mutex_lock(&noted.lock);
    noted.n++;
    snprintf(noted.last, sizeof noted.last, "%s", line);
    pthread_mutex_unlock(&noted.lock);
}

void planning_set_up(void)
{
    strcpy(folder, "/tmp/quern-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

void planning_tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

quern *open_on(quern_device device, int offline)
{
    quern *q;
    quern_options o = {.device = device, .cache_dir = folder, .offline = offline, .log = keep_note};
    ck_assert_int_eq(quern_open(&q, &o), QUERN_OK);
    return q;
}

quern_program *parsed(quern *q, const char *text)
{
    quern_program *program;
    quern_status s = quern_parse(q, text, strlen(text), "test.qn", &program);
    ck_assert_msg(s == QUERN_OK, "%s", quern_message(q));
    return program;
}

quern_plan *planned(quern *q, const char *text, const quern_plan_options *options,
                    const quern_size *sizes, int n_sizes)
{
    quern_plan *plan;
    quern_program *program = parsed(q, text);
    quern_status s = quern_plan_program(q, program, sizes, n_sizes, options, &plan);
    ck_assert_msg(s == QUERN_OK, "%s", quern_message(q));
    quern_destroy_program(program);
    return plan;
}

quern_plan *add_one_of(quern *q, int64_t n)
{
    return planned(q, add_one, NULL, &(quern_size){"N", n}, 1);
}

quern_plan *scaled_of(quern *q, int64_t b, int64_t d)
{
    return planned(q, scaled, NULL,
                   (quern_size[]){
                       {"B", b},
                       {"D", d}
    },
                   2);
}

void expect_message(const quern *q, const char *part)
{
    ck_assert_msg(strstr(quern_message(q), part), "`%s` is not in: %s", part, quern_message(q));
}
