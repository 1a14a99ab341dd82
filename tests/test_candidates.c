// test_candidates.c: every spec that a kernel could have gives right answers, on the host device,
// and compiles; the first is what schedule chooses.

#include "tests/agreement.h"
#include "tests/compiled.h"
#include "tests/on_host.h"
#include "tests/programs.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

static const struct probe {
    const char *text;
    int64_t m, n;
    const char *arch;
    int alignment, at_least;
} probes[] = {
#define PROBE(...) {__VA_ARGS__},
#include "tests/candidates.def"
#undef PROBE
};
enum { N_PROBES = sizeof probes / sizeof *probes, MAX_BUFFERS = 16, MAX_KERNELS = 512 };

// Few SMs, so that little work is enough for all of them.
static const struct target *small_model(const char *arch)
{
    static struct target t;
    t = *target_find(arch);
    t.n_sms = 4;
    return &t;
}

// "base" or "c12" as the program's name: kernels of one batch have different names.
static void compile_probe(struct compiled *c, const struct probe *probe,
                          const struct target *target, const char *name,
                          const struct chosen_spec *spec)
{
    struct size sizes[] = {
        {"M", probe->m},
        {"N", probe->n}
    };
    char text[512];
    snprintf(text, sizeof text, "program %s(M, N)\n%s", name, probe->text);
    compile_right_text(c, text,
                       &(struct compile_options){.target = target,
                                                 .sizes = sizes,
                                                 .n_sizes = 2,
                                                 .alignment = probe->alignment,
                                                 .specs = spec,
                                                 .n_specs = spec != NULL,
                                                 .list_candidates = !spec});
}

static int count_candidates(const struct program *p)
{
    int n = 0;
    for (int k = 0; k < p->n_kernels; k++)
        n += p->kernels[k].n_candidates;
    return n;
}

// The last candidate of several phases, which is no spec of one kernel.
static bool is_separate(const char *spec)
{
    return !strcmp(spec, "separate");
}

// The i-th candidate of all kernels of `base`, compiled under a name of its own.
static void compile_candidate(struct compiled *c, const struct probe *probe,
                              const struct program *base, int i)
{
    const struct kernel *k = base->kernels;
    char name[16], kernel[64];
    int number = i;
    while (i >= k->n_candidates)
        i -= k++->n_candidates;
    snprintf(name, sizeof name, "c%d", number);
    snprintf(kernel, sizeof kernel, "%s%s", name, k->name + strlen("base"));
    compile_probe(c, probe, base->target, name,
                  &(struct chosen_spec){kernel, k->candidates[i].spec});
    ck_assert_msg(!strstr(c->shown, "note"), "%s", c->shown);
    if (is_separate(k->candidates[i].spec))
        ck_assert_int_gt(c->program.n_kernels, base->n_kernels);
    else
        ck_assert_str_eq(c->program.kernels[k - base->kernels].spec, k->candidates[i].spec);
}

static void *room(size_t bytes)
{
    void *data;
    ck_assert(!posix_memalign(&data, 16, bytes + 1));
    return memset(data, 0xff, bytes); // an element that is never written is NaN
}

// Runs a program's kernels, each once and then the other way round: counters are left as they were.
static void run_candidate(struct compiled *c, const struct host_library *library,
                          struct tensor *arguments, const struct tensor *expected)
{
    const struct program *p = &c->program;
    void *data[MAX_BUFFERS], *pointers[MAX_BUFFERS];
    ck_assert_int_le(p->n_buffers, MAX_BUFFERS);
    for (int b = 0; b < p->n_buffers; b++) {
        data[b] = room((size_t)p->buffers[b].bytes);
        if (p->buffers[b].kind == BUFFER_counter)
            memset(data[b], 0, (size_t)p->buffers[b].bytes);
    }
    for (int i = 0; i < p->n_arguments; i++)
        memcpy(data[p->arguments[i]], arguments[i].data, node_bytes(p->graph->arguments[i]));
    for (int reversed = 0; reversed < 2; reversed++) {
        for (int k = 0; k < p->n_kernels; k++) {
            for (int i = 0; i < p->kernels[k].n_args; i++)
                pointers[i] = data[p->kernels[k].args[i]];
            assert_ran(launch_kernel(library, &p->kernels[k], reversed, pointers));
        }
        for (int i = 0; i < p->n_outputs; i++)
            expect_near(p->graph, &p->graph->outputs[i], data[p->outputs[i]], &expected[i],
                        p->kernels[0].spec);
    }
    for (int b = 0; b < p->n_buffers; b++)
        free(data[b]);
}

static void evaluate(struct compiled *c, struct tensor *arguments, struct tensor *expected)
{
    const struct graph *graph = c->program.graph;
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct node *node = graph->arguments[i];
        arguments[i] = (struct tensor){
            .dtype = node->dtype, .rank = node->rank, .data = room(node_bytes(node))};
        memcpy(arguments[i].dim, node->dim, sizeof node->dim);
        fill_argument(node, arguments[i].data, (unsigned)i);
    }
    ck_assert(eval(&c->g, graph, EVAL_exact, arguments, expected));
}

// All of them; under the sanitizers, which take three times as long, one in twenty.
START_TEST(every_candidate_agrees_with_the_reference)
{
    const struct probe *probe = &probes[_i];
    static struct kernel kernels[MAX_KERNELS];
    int step = has_address_sanitizer() ? 20 : 1, n_kernels = 0;
    struct tensor arguments[4], expected[4];
    struct compiled base;
    compile_probe(&base, probe, small_model(probe->arch), "base", NULL);
    evaluate(&base, arguments, expected);
    int n = count_candidates(&base.program);
    ck_assert_msg(n >= probe->at_least, "%d candidates", n);
    struct compiled *all = calloc((size_t)n, sizeof *all);
    for (int i = 0; i < n; i += step) {
        compile_candidate(&all[i], probe, &base.program, i);
        for (int k = 0; k < all[i].program.n_kernels; k++) {
            ck_assert_int_lt(n_kernels, MAX_KERNELS);
            kernels[n_kernels++] = all[i].program.kernels[k];
        }
    }
    struct host_library *library = load_kernels(kernels, n_kernels, sanitizer_flags());
    for (int i = 0; i < n; i += step) {
        run_candidate(&all[i], library, arguments, expected);
        compiled_free(&all[i]);
    }
    host_unload(library);
    for (int i = 0; i < base.program.n_arguments; i++)
        free(arguments[i].data);
    compiled_free(&base);
    free(all);
}
END_TEST

static bool fits(const struct target *t, const struct kernel *k)
{
    return k->block[0] <= 1024 && (int)k->block[0] <= t->threads_per_sm &&
           (int)k->shared_bytes <= t->shared_per_block && (int)k->cluster[0] <= t->max_cluster &&
           k->grid[0] % k->cluster[0] == 0 && k->grid[0] % k->team == 0 &&
           (k->team == 1 ||
            (t->teams && (int)(k->grid[0] * k->block[0]) <= t->n_sms * t->threads_per_sm));
}

// The default, and what it is for the model; the others rise from there, each once, and fit.
START_TEST(the_first_candidate_is_the_models_choice)
{
    const struct probe *probe = &probes[_i];
    int step = has_address_sanitizer() ? n_targets : 1; // then of one target each
    for (int t = _i % step; t < n_targets; t += step) {
        struct compiled base, plain;
        compile_probe(&base, probe, &targets[t], "base", NULL);
        compile_probe(&plain, probe, &targets[t], "base", &(struct chosen_spec){"none", ""});
        for (int k = 0; k < base.program.n_kernels; k++) {
            const struct kernel *kernel = &base.program.kernels[k];
            const struct candidate *c = kernel->candidates;
            ck_assert_str_eq(kernel->source, plain.program.kernels[k].source);
            ck_assert_str_eq(kernel->spec, c[0].spec);
            // Of a launch of phases the best of every scope come first, and kernels apart last.
            int falls = 0, may_fall = strcmp(kernel->family, "stitch") ? 0 : 1;
            for (int i = 0; i < kernel->n_candidates; i++) {
                ck_assert(c[i].predicted_us > 0 && c[i].predicted_us < 1e9);
                falls +=
                    i >= 2 && !is_separate(c[i].spec) && c[i - 1].predicted_us > c[i].predicted_us;
                ck_assert_int_le(falls, may_fall);
                for (int j = 0; j < i; j++)
                    ck_assert_str_ne(c[i].spec, c[j].spec);
            }
        }
        for (int i = 0; i < count_candidates(&base.program); i++) {
            struct compiled one;
            compile_candidate(&one, probe, &base.program, i);
            for (int k = 0; k < one.program.n_kernels; k++)
                ck_assert(fits(&targets[t], &one.program.kernels[k]));
            compiled_free(&one);
        }
        compiled_free(&base);
        compiled_free(&plain);
    }
}
END_TEST

START_TEST(a_spec_that_is_no_candidate_is_noted_and_has_no_effect)
{
    struct compiled base, other;
    compile_probe(&base, &probes[0], &targets[0], "base", NULL);
    compile_probe(&other, &probes[0], &targets[0], "base",
                  &(struct chosen_spec){"base_0_map", "threads=3"});
    ck_assert_str_eq(base.program.kernels[0].source, other.program.kernels[0].source);
    ck_assert_str_eq(other.shown,
                     "a.qn: note: base_0_map cannot have the spec `threads=3`: it keeps its own\n");
    compiled_free(&other);
    compile_probe(&other, &probes[0], &targets[0], "base",
                  &(struct chosen_spec){"base_7_map", "threads=3"});
    ck_assert_str_eq(other.shown,
                     "a.qn: note: there is no kernel base_7_map for the spec `threads=3`\n");
    compiled_free(&other);
    compiled_free(&base);
}
END_TEST

START_TEST(nothing_to_compute_leaves_nothing_to_choose)
{
    struct probe empty = probes[_i];
    struct compiled c;
    if (strstr(empty.text, "arg")) // has no value over an empty axis
        return;
    empty.m = 0;
    compile_probe(&c, &empty, &targets[0], "base", NULL);
    for (int k = 0; k < c.program.n_kernels; k++)
        ck_assert_int_ge(c.program.kernels[k].n_candidates, 1);
    compiled_free(&c);
}
END_TEST

Suite *candidates_suite(void)
{
    Suite *s = suite_create("candidates");
    TCase *right = tcase_create("right");
    tcase_set_timeout(right, 240);
    tcase_add_loop_test(right, every_candidate_agrees_with_the_reference, 0, N_PROBES);
    suite_add_tcase(s, right);

    TCase *lists = tcase_create("lists");
    tcase_set_timeout(lists, 60);
    tcase_add_loop_test(lists, the_first_candidate_is_the_models_choice, 0, N_PROBES);
    tcase_add_test(lists, a_spec_that_is_no_candidate_is_noted_and_has_no_effect);
    tcase_add_loop_test(lists, nothing_to_compute_leaves_nothing_to_choose, 0, N_PROBES);
    suite_add_tcase(s, lists);
    return s;
}
