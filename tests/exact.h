// exact.h: a program on a device, with inputs from formulas and outputs that must have exactly the
// values of a formula
#pragma once
#include "runtime/quern.h"
#include <stdbool.h>

enum { MAX_ARGUMENTS = 64 };

struct exact {
    quern *q;
    quern_program *program;
    quern_plan *plan;
    int n;
    quern_argument arguments[MAX_ARGUMENTS];
    void *host[MAX_ARGUMENTS], *device[MAX_ARGUMENTS];
};

// A value from the coordinates of an element.
typedef double formula(const int64_t *at);

// sizes: "M=3 N=4", or NULL.  The test fails where the program does not compile.
void exact_open(struct exact *e, const char *text, const char *sizes);
// As exact_open, a program of one kernel, which has the first candidate whose spec has all of these
// texts (up to a NULL); the test fails where it has none such.
void exact_open_with(struct exact *e, const char *text, const char *sizes, const char *const *has);
void exact_close(struct exact *e);
void exact_set(struct exact *e, const char *input, formula *f);
void exact_list(struct exact *e, const char *input, int n, const double *values);
void exact_run(struct exact *e);

double exact_got(const struct exact *e, const char *output, int64_t i);
int64_t exact_numel(const struct exact *e, const char *output);
// ulps: of the expected value in the output's dtype; 0: to the bit, but for what kind of NaN it is.
void exact_values(const struct exact *e, const char *output, formula *f, double ulps);
void exact_expect(const struct exact *e, const char *output, int n, const double *values,
                  double ulps);
void exact_shape(const struct exact *e, const char *output, int rank, const int64_t *dim);
// NaN for NaN, otherwise within a share of what is right.
void exact_about(double got, double right, double relative);
// open, set the inputs x and y where there are such, and run.
void exact_program(struct exact *e, const char *text, const char *sizes, formula *x, formula *y);
// What is said of a program that must not compile, the caller's.
char *exact_refused(const char *text, const char *sizes);
// y = x + 1 still gives what it should, in this process.
void exact_still_usable(void);
bool exact_on_gpu(void);
