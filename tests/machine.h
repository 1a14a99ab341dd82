// machine.h: a machine whose GPU is the one of the driver in tests/fake, for child processes
#pragma once
#include <stdbool.h>

bool can_make_machine(void); // outside of tests too

// Fixtures: make_folder with long.qn (f64[R, N], softmax) besides, and the fake driver; that driver
// as it is by itself.
void make_machine(void);
void remove_machine(void);
void reset_machine(void);
void use_driver(const char *name);             // a folder beside this program
void set(const char *knob, const char *value); // of tests/fake/fake.h
// Makes this process's libcuda.so.1 the fake one, until it ends.  false: it cannot, and says so.
bool load_driver(void);

const char *launches(void); // since the last call, a line each; valid until the next
int count(const char *text, const char *part);
void expect_part(const char *text, const char *part);
