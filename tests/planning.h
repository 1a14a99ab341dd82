// planning.h: contexts with a cache in a folder of the test, and plans of two small programs
#pragma once
#include "runtime/runtime.h"
#include "tests/tests.h"

extern const char add_one[]; // (N): y = x + 1
extern const char scaled[];  // (B, D), weight w: y = x * w, s = its sums over D

struct noted {
    pthread_mutex_t lock;
    int n;
    char last[512];
};
extern struct noted noted; // what went to the log of any context

void planning_set_up(void);
void planning_tear_down(void);
quern *open_on(quern_device device, int offline);
quern_program *parsed(quern *q, const char *text);
quern_plan *planned(quern *q, const char *text, const quern_plan_options *options,
                    const quern_size *sizes, int n_sizes);
quern_plan *add_one_of(quern *q, int64_t n);
quern_plan *scaled_of(quern *q, int64_t b, int64_t d);
void expect_message(const quern *q, const char *part);
