// caching.h: a cache in a folder of the test, and recipes whose compiler only counts
#pragma once
#include "runtime/runtime.h"
#include "tests/tests.h"

struct notes {
    int n;
    char last[512];
};
extern struct notes notes; // what went to the log of any context

extern char folder[64]; // of the test, removed after it
extern char dir[128];   // the cache, in a folder of it that is not made yet
extern int n_made;      // calls of make in this process

void caching_set_up(void);
void caching_tear_down(void);
const char *above(void); // the folder that the cache's folder is made in
quern *context(const quern_options *more);
quern_status make(void *state, struct code *out); // state: the recipe.  Gives its source back
struct recipe recipe(const char *source);
bool hits(quern *q, struct recipe r); // gets it, and says whether it was there
bool hits_afresh(struct recipe r);    // in a context of its own
char *entry_path(const struct recipe *r);
int count_files(const char *prefix);
int64_t folder_bytes(void);
void flip_byte(const char *path, off_t at);
void expect_rebuilt(struct recipe r, const char *how, long at); // noticed once, then repaired
