// test_determinism.c: the same program on the same data gives the same bits, however its blocks
// happen to be ordered.

#include "tests/compiled.h"
#include "tests/on_host.h"
#include "tests/programs.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

// One of every way in which threads or blocks share a result: warps, blocks, clusters, tickets,
// phases of a launch in either scope, groups of warps that share a contraction.
static const struct probe {
    const char *text;
    int64_t m, n;
} probes[] = {
    {"output y = softmax(x, axis = 1)\n",                                   37,  1000 },
    {"output y = layer_norm(x)\n",                                          12,  40960},
    {"output y = sum(x, axis = 0)\noutput z = std(x, axis = 0)\n",          999, 40   },
    {"output y = sum(x * x)\noutput i = argmax(reshape(x, [M * N]))\n",     300, 111  },
    {"output y = x / (1 + sum(abs(x)))\noutput z = softmax(x, axis = 0)\n", 256, 128  },
    {"output y = x @ x.T\n",                                                40,  700  },
    {"output y = (x / (1 + sum(abs(x)))) @ x.T\n",                          128, 256  },
    {"output y = relu(x @ x.T) @ x\n",                                      64,  128  },
};
enum { N_PROBES = sizeof probes / sizeof *probes };

static char *text_of(const struct probe *p)
{
    char *text;
    ck_assert_int_gt(asprintf(&text, "program p(M, N)\ninput x : f32[M, N]\n%s", p->text), 0);
    return text;
}

static float element(int64_t i)
{
    uint64_t x = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
    x ^= x >> 29, x *= 0xbf58476d1ce4e5b9u, x ^= x >> 32;
    return (float)(int32_t)x / (1 << 29);
}

// ---- through the library, as a user runs it ----

static quern_plan *plan_of(quern *q, const struct probe *p, quern_program **program)
{
    char *text = text_of(p);
    quern_size sizes[] = {
        {"M", p->m},
        {"N", p->n}
    };
    quern_plan *plan;
    ck_assert_msg(!quern_parse(q, text, strlen(text), "p.qn", program), "%s", quern_message(q));
    ck_assert_msg(!quern_plan_program(q, *program, sizes, 2, NULL, &plan), "%s", quern_message(q));
    free(text);
    return plan;
}

// On a GPU, where blocks are ordered otherwise each time.
START_TEST(a_hundred_runs_give_the_same_bits)
{
    const struct probe *p = &probes[_i];
    int n_runs = 100;
    quern *q = open_device();
    quern_program *program;
    quern_plan *plan = plan_of(q, p, &program);
    int n = quern_plan_n_arguments(plan);
    void *pointers[8];
    char *first[8] = {NULL}, *again[8] = {NULL};
    quern_argument argument[8];
    ck_assert_int_le(n, 8);
    for (int i = 0; i < n; i++) {
        quern_plan_argument(plan, i, &argument[i]);
        ck_assert(!quern_alloc(q, (size_t)argument[i].bytes, &pointers[i]));
        first[i] = malloc((size_t)argument[i].bytes);
        again[i] = malloc((size_t)argument[i].bytes);
    }
    for (int64_t i = 0; i < p->m * p->n; i++)
        ((float *)(void *)first[0])[i] = element(i);
    ck_assert(!quern_upload(q, pointers[0], first[0], (size_t)argument[0].bytes));
    for (int run = 0; run < n_runs; run++) {
        ck_assert_msg(!quern_execute(plan, pointers, n, NULL), "%s", quern_message(q));
        ck_assert_msg(!quern_synchronize(q, NULL), "%s", quern_message(q));
        for (int i = 1; i < n; i++) {
            size_t bytes = (size_t)argument[i].bytes;
            ck_assert(!quern_download(q, run ? again[i] : first[i], pointers[i], bytes));
            ck_assert_msg(!run || !memcmp(first[i], again[i], bytes), "%s: run %d of %s differs",
                          p->text, run, argument[i].name);
        }
    }
    for (int i = 0; i < n; i++) {
        quern_free(q, pointers[i]);
        free(first[i]);
        free(again[i]);
    }
    quern_destroy_plan(plan);
    quern_destroy_program(program);
    quern_close(q);
}
END_TEST

// ---- on the host, where the order can be chosen ----

static void launch_all(const struct compiled *c, const struct host_library *library, bool reversed,
                       void **buffers)
{
    for (int k = 0; k < c->program.n_kernels; k++) {
        const struct kernel *kernel = &c->program.kernels[k];
        void *pointers[32];
        for (int i = 0; i < kernel->n_args; i++)
            pointers[i] = buffers[kernel->args[i]];
        assert_ran(launch_kernel(library, kernel, reversed, pointers));
    }
}

START_TEST(blocks_in_reverse_give_the_same_bits)
{
    const struct probe *p = &probes[_i];
    struct compiled c;
    struct size sizes[] = {
        {"M", p->m},
        {"N", p->n}
    };
    char *text = text_of(p);
    compile_right_text(&c, text, &(struct compile_options){.sizes = sizes, .n_sizes = 2});
    struct host_library *library =
        load_kernels(c.program.kernels, c.program.n_kernels, sanitizer_flags());
    int n = c.program.n_buffers;
    void **buffers[2];
    for (int reversed = 0; reversed < 2; reversed++) {
        buffers[reversed] = calloc((size_t)n, sizeof **buffers);
        for (int b = 0; b < n; b++) {
            const struct buffer *buffer = &c.program.buffers[b];
            size_t bytes = ((size_t)buffer->bytes + 511) / 256 * 256;
            buffers[reversed][b] = aligned_alloc(256, bytes);
            memset(buffers[reversed][b], buffer->kind == BUFFER_counter ? 0 : 0xff, bytes);
            for (int64_t i = 0; buffer->kind == BUFFER_input && i < p->m * p->n; i++)
                ((float *)buffers[reversed][b])[i] = element(i);
        }
        launch_all(&c, library, reversed, buffers[reversed]);
    }
    for (int i = 0; i < c.program.n_outputs; i++) {
        int b = c.program.outputs[i];
        ck_assert_msg(!memcmp(buffers[0][b], buffers[1][b], (size_t)c.program.buffers[b].bytes),
                      "%s: %s depends on the order of blocks", p->text, c.program.buffers[b].name);
    }
    for (int reversed = 0; reversed < 2; reversed++) {
        for (int b = 0; b < n; b++)
            free(buffers[reversed][b]);
        free(buffers[reversed]);
    }
    host_unload(library);
    compiled_free(&c);
    free(text);
}
END_TEST

Suite *determinism_suite(void)
{
    Suite *s = suite_create("determinism");
    TCase *t = tcase_create("determinism");
    tcase_set_timeout(t, 120);
    if (getenv("QUERN_TEST_DEVICE"))
        tcase_add_loop_test(t, a_hundred_runs_give_the_same_bits, 0, N_PROBES);
    tcase_add_loop_test(t, blocks_in_reverse_give_the_same_bits, 0, N_PROBES);
    suite_add_tcase(s, t);
    return s;
}
