// arena.c: byte counts in, zeroed memory out, all of it freed at once.
//
// One calloc block per object rather than a bump pointer, so that sanitizers see where each object
// ends.

#include "gen/gen.h"
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

struct arena_block {
    struct arena_block *next;
    max_align_t data[];
};

static _Noreturn void out_of_memory(struct gen *g)
{
    assert(g->escape);
    longjmp(*(jmp_buf *)g->escape, 1);
}

void *arena_alloc(struct gen *g, size_t bytes)
{
    struct arena_block *block = NULL;
    if (bytes <= PTRDIFF_MAX - sizeof *block)
        block = calloc(1, sizeof *block + bytes);
    if (!block)
        out_of_memory(g);
    block->next = g->arena.blocks;
    g->arena.blocks = block;
    g->arena.bytes += bytes;
    return block->data;
}

char *arena_text(struct gen *g, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0) {
        va_end(again);
        out_of_memory(g);
    }
    char *text = arena_alloc(g, (size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    return text;
}

void arena_free(struct arena *a)
{
    while (a->blocks) {
        struct arena_block *next = a->blocks->next;
        free(a->blocks);
        a->blocks = next;
    }
    a->bytes = 0;
}
