// fiber.c: stacks that take turns on one thread of the process.
//
// A guarded fiber's stack has an inaccessible page below it, so that an overrun faults instead of
// spoiling another fiber.  Each guard is a mapping more, of which a process has some 65,000; stacks
// without them lie in one.  On x86-64 a switch saves the registers that a call preserves and
// costs a few nanoseconds; elsewhere it is ucontext's, which makes a system call.  Address
// sanitizer, where the process has it, is told of every switch.

#include "runtime/host.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

enum { STACK_BYTES = 256 * 1024 };

void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t size)
    __attribute__((weak));
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom, size_t *size)
    __attribute__((weak));
void __asan_unpoison_memory_region(const volatile void *at, size_t size) __attribute__((weak));

#if defined(__x86_64__)
typedef void *context; // the stack pointer; what a call preserves lies there
#else
typedef ucontext_t context;
#endif

struct fiber {
    context own, caller;
    void (*body)(void *);
    void *argument;
    char *mapping; // the guard page, then the stack
    size_t mapping_bytes, guard_bytes;
    void *fake_stack;          // the sanitizer's
    const void *caller_bottom; // of the stack that resumed it
    size_t caller_bytes;
};

static void fiber_start(struct fiber *f)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(NULL, &f->caller_bottom, &f->caller_bytes);
    f->body(f->argument);
    abort();
}

#if defined(__x86_64__)

void fiber_switch(context *save, context load);
void fiber_entry(void);
__asm__(".text\n"
        ".type fiber_switch, @function\n"
        "fiber_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size fiber_switch, . - fiber_switch\n"
        ".type fiber_entry, @function\n"
        "fiber_entry:\n" // r12: the function, r13: its argument
        "    movq %r13, %rdi\n"
        "    callq *%r12\n"
        "    ud2\n"
        ".size fiber_entry, . - fiber_entry\n");

// What fiber_switch pops the first time: r15 r14 r13 r12 rbx rbp, then the return address.
static void context_make(struct fiber *f)
{
    uintptr_t *top = (uintptr_t *)(void *)(f->mapping + f->mapping_bytes) -
                     9; // fiber_entry calls with an aligned stack
    top[2] = (uintptr_t)f;
    top[3] = (uintptr_t)fiber_start;
    top[6] = (uintptr_t)fiber_entry;
    f->own = top;
}

static void context_switch(context *save, context *load)
{
    fiber_switch(save, *load);
}

#else

// makecontext passes ints alone.
static void start_of_halves(unsigned high, unsigned low)
{
    fiber_start((struct fiber *)((uintptr_t)high << 16 << 16 | low));
}

static void context_make(struct fiber *f)
{
    getcontext(&f->own);
    f->own.uc_stack.ss_sp = f->mapping + f->guard_bytes;
    f->own.uc_stack.ss_size = f->mapping_bytes - f->guard_bytes;
    f->own.uc_link = NULL;
    uintptr_t address = (uintptr_t)f;
    makecontext(&f->own, (void (*)(void))start_of_halves, 2, (unsigned)(address >> 16 >> 16),
                (unsigned)address);
}

static void context_switch(context *save, context *load)
{
    swapcontext(save, load);
}

#endif

struct fiber *fiber_new(void (*body)(void *), void *argument, bool guarded)
{
    struct fiber *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->body = body;
    f->argument = argument;
    f->guard_bytes = (size_t)sysconf(_SC_PAGESIZE);
    f->mapping_bytes = f->guard_bytes + STACK_BYTES;
    f->mapping = mmap(NULL, f->mapping_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (f->mapping == MAP_FAILED) {
        free(f);
        return NULL;
    }
    if (guarded) // where it fails, an overrun is found later or never
        mprotect(f->mapping, f->guard_bytes, PROT_NONE);
    context_make(f);
    return f;
}

void fiber_resume(struct fiber *f)
{
    void *fake_stack = NULL;
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&fake_stack, f->mapping + f->guard_bytes, STACK_BYTES);
    context_switch(&f->caller, &f->own);
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(fake_stack, NULL, NULL);
}

void fiber_suspend(struct fiber *f)
{
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&f->fake_stack, f->caller_bottom, f->caller_bytes);
    context_switch(&f->own, &f->caller);
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(f->fake_stack, &f->caller_bottom, &f->caller_bytes);
}

void fiber_free(struct fiber *f)
{
    if (__asan_unpoison_memory_region) // frames that never returned have left red zones
        __asan_unpoison_memory_region(f->mapping, f->mapping_bytes);
    munmap(f->mapping, f->mapping_bytes);
    free(f);
}
