// test_random.c: random programs, fused, against the reference.  `make fuzz` runs very many.
//
// The tolerance is a thousand times the usual one: random programs multiply a matrix with its own
// transpose and subtract means, which the usual one does not foresee, while a wrong index or a
// missing barrier is off by the size of the values.

#include "gen/gen.h"
#include "runtime/host.h"
#include "tests/on_host.h"
#include "tests/random_graph.h"
#include "tests/tests.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#undef fail

enum { BATCH = 16, MAX_KERNELS = 1024, SLACK = 1000 };

struct random_program {
    struct gen g;
    struct graph *graph;
    struct program program;
};

static bool make_program(struct random_program *r, uint64_t seed, int n_nodes)
{
    static const struct source nothing = {"random", "", 0};
    jmp_buf out_of_memory;
    *r = (struct random_program){
        .g = {.source = &nothing, .escape = &out_of_memory}
    };
    r->g.next_diag = &r->g.diags;
    if (setjmp(out_of_memory))
        return false;
    r->graph = random_graph(&r->g, seed, n_nodes);
    r->graph->name = arena_text(&r->g, "random_%llu", (unsigned long long)seed);
    struct compile_options options = {.target = target_find("sm_90a"), .separate = seed % 2};
    return compile_graph(&r->g, r->graph, &options, &r->program);
}

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

// Memory for every buffer; arguments are filled, and given to eval as well.
static void **buffers_of(struct random_program *r, struct tensor *arguments)
{
    const struct program *p = &r->program;
    void **memory = calloc((size_t)p->n_buffers + 1, sizeof *memory);
    uint64_t seed = 42;
    for (int b = 0; b < p->n_buffers; b++) {
        const struct buffer *buffer = &p->buffers[b];
        size_t bytes = ((size_t)buffer->bytes + 511) / 256 * 256;
        memory[b] = aligned_alloc(256, bytes);
        memset(memory[b], buffer->kind == BUFFER_counter ? 0 : 0xff, bytes);
        if (buffer->kind != BUFFER_input && buffer->kind != BUFFER_weight)
            continue;
        for (int64_t i = 0; i < buffer->bytes / 4; i++)
            store_element(DT_f32, memory[b], i, 4 * uniform(&seed) - 2);
        struct tensor *t = &arguments[buffer->argument];
        *t = (struct tensor){.dtype = buffer->dtype, .rank = buffer->rank, .data = memory[b]};
        memcpy(t->dim, buffer->dim, sizeof t->dim);
    }
    return memory;
}

static bool launch_all(const struct random_program *r, const struct host_library *library,
                       void **memory, bool reversed)
{
    void *pointers[256];
    for (int k = 0; k < r->program.n_kernels; k++) {
        const struct kernel *kernel = &r->program.kernels[k];
        for (int i = 0; i < kernel->n_args; i++)
            pointers[i] = memory[kernel->args[i]];
        char *why = launch_kernel(library, kernel, reversed, pointers);
        if (why) {
            fprintf(stderr, "%s\n", why);
            free(why);
            return false;
        }
    }
    return true;
}

static bool is_close(struct tolerance t, double got, double expected)
{
    return got == expected || (isnan(got) && isnan(expected)) ||
           fabs(got - expected) <= SLACK * (t.absolute + t.relative * fabs(expected));
}

static bool outputs_agree(const struct random_program *r, void **memory,
                          const struct tensor *expected)
{
    for (int o = 0; o < r->program.n_outputs; o++) {
        const struct node *node = r->graph->outputs[o].node;
        struct tolerance t = tolerance(r->graph, node);
        for (int64_t i = 0; i < node_numel(node); i++) {
            double got = load_element(node->dtype, memory[r->program.outputs[o]], i);
            double wanted = ((const double *)expected[o].data)[i];
            if (is_close(t, got, wanted))
                continue;
            fprintf(stderr, "output %s[%lld]: got %g, expected %g\n", r->graph->outputs[o].name,
                    (long long)i, got, wanted);
            return false;
        }
    }
    return true;
}

static bool agrees(struct random_program *r, const struct host_library *library, bool reversed)
{
    struct tensor arguments[8] = {{0}}, expected[8] = {{0}};
    void **memory = buffers_of(r, arguments);
    bool ok = eval(&r->g, r->graph, EVAL_exact, arguments, expected) &&
              launch_all(r, library, memory, reversed) && outputs_agree(r, memory, expected);
    if (!ok) {
        diag_print(&r->g, stderr);
        print_graph(r->graph, stderr);
    }
    for (int b = 0; b < r->program.n_buffers; b++)
        free(memory[b]);
    free(memory);
    return ok;
}

// One compile for many programs.  How many disagree.
static int try_batch(uint64_t first, int n_nodes)
{
    struct random_program *programs = calloc(BATCH, sizeof *programs);
    struct kernel *kernels = calloc(MAX_KERNELS, sizeof *kernels);
    int n_kernels = 0, n_wrong = 0;
    for (int i = 0; i < BATCH; i++) {
        if (!make_program(&programs[i], first + (uint64_t)i, n_nodes))
            n_wrong++, programs[i].program.n_kernels = 0;
        for (int k = 0; k < programs[i].program.n_kernels && n_kernels < MAX_KERNELS; k++)
            kernels[n_kernels++] = programs[i].program.kernels[k];
    }
    struct host_library *library = load_kernels(kernels, n_kernels, sanitizer_flags());
    for (int i = 0; i < BATCH; i++) {
        n_wrong += !agrees(&programs[i], library, i % 2);
        arena_free(&programs[i].g.arena);
    }
    host_unload(library);
    free(kernels);
    free(programs);
    return n_wrong;
}

START_TEST(random_programs_agree_with_the_reference)
{
    const char *many = getenv("QUERN_FUZZ");
    int n_batches = many ? atoi(many) / BATCH : 2;
    uint64_t first = many ? 1000 : 0;
    for (int i = 0; i < n_batches; i++)
        ck_assert_int_eq(try_batch(first + (uint64_t)(i * BATCH), 8 + 8 * (_i % 4)), 0);
}
END_TEST

Suite *random_suite(void)
{
    Suite *suite = suite_create("random");
    TCase *tests = tcase_create("random");
    tcase_set_timeout(tests, getenv("QUERN_FUZZ") ? 36000 : 120);
    tcase_add_loop_test(tests, random_programs_agree_with_the_reference, 0, 3);
    suite_add_tcase(suite, tests);
    return suite;
}
