// child.h: the quern command as a child process, for the tests of it
#pragma once
#include <stddef.h>

struct result {
    int status; // -1: killed
    char out[1 << 16], err[1 << 16];
};

// Runs the quern that stands beside this program.  Arguments are separated by single spaces.
void quern(struct result *r, const char *input, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *beside(const char *name);  // a path in the folder of this program
const char *example(const char *file); // the path of one of tools/examples
const char *in_folder(
    const char *name); // a path in the test's own folder; valid until the eighth call from now
void write_text(const char *name, const char *text); // a file in the test's own folder
char *contents(const char *path, size_t *n);         // a file's bytes, the caller's to free
int n_files(const char *path);                       // in a folder

// A fixture: a folder of the test's own, with scale.qn (y = x * w + 1) and a cache.
void make_folder(void);
void remove_folder(void);
