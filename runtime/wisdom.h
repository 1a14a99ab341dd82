// wisdom.h: what the files of wisdom share
#pragma once
#include "runtime/runtime.h"
#include "runtime/store.h"
#include <jansson.h>

enum { WISDOM_FORMAT = 1 };
#define ANY "any" // of what is here: agrees with whatever was measured

// wisdom_files.c: records
json_t *text_hash(const char *text); // NULL for NULL
bool is_record(const json_t *record);
// The name of its file; false: out of memory.
bool record_file(const json_t *record, char file[64]);
// NULL: there is none that can be read; a file that cannot be is noted.
json_t *record_read(const quern *q, const struct cache *c, const char *file);
bool record_write(const struct cache *c, const json_t *record);
// The first thing that differs of what two records were measured for and with; NULL: nothing.
// anywhere: on whatever machine.
const char *record_difference(const json_t *a, const json_t *b, bool anywhere);
