// test_stitch.c: kernels that become the phases of one launch, on the host device: which, and right
// values in every scope

#include "tests/compiled.h"
#include "tests/exact.h"
#include "tests/on_host.h"
#include "tests/programs.h"
#include "tests/stitched.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

START_TEST(short_kernels_become_phases)
{
    const struct stitched *p = &stitched[_i % N_STITCHED];
    bool clusters = _i >= N_STITCHED && p->shared;
    struct compiled c;
    compile_stitched(&c, p, _i < N_STITCHED ? "sm_80" : "sm_90a");
    const struct kernel *k = c.program.kernels;
    ck_assert_int_eq(c.program.n_kernels, 1);
    ck_assert_str_eq(k->family, "stitch");
    ck_assert_int_eq(count(k->source, "\nnamespace phase"), p->phases);
    int n_waits = count(k->source, "grid_barrier(args.barrier);") +
                  count(k->source, "::run_told(a0, ahead0, tag0)");
    ck_assert_int_eq(n_waits, clusters ? 0 : p->barriers);
    ck_assert_int_eq(count(k->source, "::finish_in_cluster("), clusters ? p->shared : 0);
    // B is there before what A waits for, where no contraction comes between.
    if (p->shared && strstr(p->families, "gemm") && !(clusters && p->phases > 2))
        ck_assert_int_gt(
            count(k->source, " | phase1::AHEAD_b") + count(k->source, " | phase2::AHEAD_b"), 1);
    ck_assert_int_eq(k->cooperative, !clusters);
    ck_assert_int_eq(k->cluster[0] > 1, clusters);
    ck_assert_uint_le(k->grid[0], 132);
    char *families = strdup(p->families);
    int phase = 0;
    for (char *family = strtok(families, " "); family; family = strtok(NULL, " "), phase++) {
        char name[32];
        snprintf(name, sizeof name, " %s%d.", family, phase);
        ck_assert_msg(strstr(k->spec, name) != NULL, "no%s in %s", name, k->spec);
    }
    free(families);
    compiled_free(&c);
}
END_TEST

// Mostly for a GPU of 16 SMs: the host device takes its time for the threads of 132.  Under the
// sanitizers one form a probe, of sizes that nothing divides.
START_TEST(phases_agree_with_the_reference)
{
    static const quern_plan_options small = {.arch = "sm_87"};
    static const struct {
        const char *dtype, *inputs;
        quern_size sizes[2];
    } forms[] = {
        {"f32", "normal",  {{"M", 256}, {"N", 128}}},
        {"f32", "special", {{"M", 133}, {"N", 165}}},
        {"f16", "normal",  {{"M", 133}, {"N", 165}}}
    };
    struct job jobs[(N_STITCHED + N_UNSTITCHED) * COUNT(forms)];
    char *texts[(N_STITCHED + N_UNSTITCHED) * COUNT(forms)];
    int n = 0;
    for (int i = 0; i < (N_STITCHED + N_UNSTITCHED); i++)
        for (int k = 0; k < COUNT(forms); k++) {
            if (has_address_sanitizer() && k != (i ? 1 + i % 2 : 0))
                continue;
            texts[n] = typed(stitched[i].text, forms[k].dtype);
            jobs[n] = (struct job){texts[n], forms[k].sizes, 2, forms[k].inputs, &small};
            if (getenv("QUERN_TEST_DEVICE") || (i == 0 && k == 0))
                jobs[n].options = NULL;
            n++;
        }
    int n_failed = run_jobs(jobs, n);
    for (int i = 0; i < n; i++)
        free(texts[i]);
    ck_assert_int_eq(n_failed, 0);
}
END_TEST

// The largest of each row stands with one of 64 blocks, whose packets a lane has two of.
static int64_t summit;
enum { SLOPE = 65536 };

static double with_summit(const int64_t *at)
{
    int64_t there = at[0] ? SLOPE - 1 - summit : summit;
    return at[1] == there ? 100 + (double)at[0] : (double)(at[1] % 7);
}

static double above_summit(const int64_t *at)
{
    return with_summit(at) + 100 + (double)at[0];
}

START_TEST(no_block_is_missed_of_those_that_tell)
{
    enum { N_SUMMITS = 8 };
    struct exact e;
    exact_open_with(&e,
                    "program p(N)\ninput x : f32[2, N]\n"
                    "output y = x + max(x, axis = 1, keepdims = true)\n",
                    "N=65536", (const char *const[]){".told=1 ", ".splits=64 ", NULL});
    for (int i = 0; i < N_SUMMITS; i++) {
        summit = (int64_t)i * (SLOPE / N_SUMMITS + 1001) % SLOPE;
        exact_set(&e, "x", with_summit);
        exact_run(&e);
        exact_values(&e, "y", above_summit, 0);
    }
    exact_close(&e);
}
END_TEST

static const char *const scopes[] = {" cluster=1 ", " cluster=2 ", " cluster=4 ", " cluster=16 "};

// The first candidate in that scope; NULL: there is none.
static const char *in_scope(struct compiled *c, const char *text, const quern_size *sizes,
                            const char *scope)
{
    struct size of[] = {
        {"M", sizes[0].value},
        {"N", sizes[1].value}
    };
    struct compile_options o = {.sizes = of, .n_sizes = 2, .list_candidates = true};
    compile_right_text(c, text, &o);
    const struct kernel *k = c->program.kernels;
    for (int i = 0; i < k->n_candidates; i++)
        if (strstr(k->candidates[i].spec, scope))
            return k->candidates[i].spec;
    return NULL;
}

// The scope, threads and tile are asked for by name; sizes that fill neither blocks nor clusters.
// Under the sanitizers one form a probe and scope.
START_TEST(clusters_of_every_size_agree_with_the_reference)
{
    static const struct {
        const char *dtype, *inputs;
        quern_size sizes[2];
    } forms[] = {
        {"f32", "normal",  {{"M", 256}, {"N", 128}}},
        {"f32", "special", {{"M", 37}, {"N", 121}} },
        {"f16", "normal",  {{"M", 133}, {"N", 164}}}
    };
    enum { MOST = (N_STITCHED + N_UNSTITCHED) * COUNT(forms) };
    struct job jobs[MOST];
    struct compiled compiled[MOST];
    char *texts[MOST];
    quern_spec specs[MOST];
    quern_plan_options options[MOST];
    int n = 0;
    for (int i = 0; i < N_STITCHED; i++)
        for (int k = 0; k < COUNT(forms) && stitched[i].shared; k++) {
            if (has_address_sanitizer() && (i + _i) % COUNT(forms) != k)
                continue;
            char *text = texts[n] = typed(stitched[i].text, forms[k].dtype);
            const char *spec = in_scope(&compiled[n], text, forms[k].sizes, scopes[_i]);
            if (spec) {
                specs[n] = (quern_spec){compiled[n].program.kernels[0].name, spec};
                options[n] =
                    (quern_plan_options){.arch = "sm_90a", .specs = &specs[n], .n_specs = 1};
                jobs[n] = (struct job){text, forms[k].sizes, 2, forms[k].inputs, &options[n]};
                n++;
            } else {
                compiled_free(&compiled[n]);
                free(text);
            }
        }
    ck_assert_int_ge(n, has_address_sanitizer() ? 3 : 8);
    int n_failed = run_jobs(jobs, n);
    for (int i = 0; i < n; i++) {
        compiled_free(&compiled[i]);
        free(texts[i]);
    }
    ck_assert_int_eq(n_failed, 0);
}
END_TEST

// The last candidate of a stitched kernel: its phases as kernels of their own.
START_TEST(phases_can_be_chosen_to_be_separate)
{
    static const struct chosen_spec chosen[] = {
        {"down_0_stitch", "separate"}
    };
    struct size sizes[] = {
        {"M", 256},
        {"N", 128}
    };
    struct compile_options o = {.sizes = sizes, .n_sizes = 2, .list_candidates = true};
    struct compiled joined, apart;
    char *text = typed(stitched[3].text, "f32");
    compile_right_text(&joined, text, &o);
    const struct kernel *k = joined.program.kernels;
    ck_assert_int_eq(joined.program.n_kernels, 1);
    ck_assert_int_ge(k->n_candidates, 2);
    ck_assert_str_eq(k->candidates[0].spec, k->spec);
    ck_assert_str_eq(k->candidates[k->n_candidates - 1].spec, "separate");
    for (int i = 0; i < k->n_candidates; i++)
        ck_assert_double_gt(k->candidates[i].predicted_us, 0);
    o.specs = chosen, o.n_specs = 1;
    compile_right_text(&apart, text, &o);
    ck_assert_str_eq(apart.shown, "");
    ck_assert_int_eq(apart.program.n_kernels, 3);
    ck_assert_str_eq(apart.program.kernels[0].name, "down_0_columns");
    ck_assert_str_eq(apart.program.kernels[1].name, "down_1_columns");
    ck_assert_str_eq(apart.program.kernels[2].name, "down_2_map");
    compiled_free(&apart);
    static const struct chosen_spec wrong[] = {
        {"down_1_stitch", "separate"}
    };
    o.specs = wrong;
    compile_right_text(&apart, text, &o);
    ck_assert_ptr_nonnull(strstr(apart.shown, "there is no kernel down_1_stitch"));
    ck_assert_int_eq(apart.program.n_kernels, 1);
    compiled_free(&apart);
    compiled_free(&joined);
    free(text);
}
END_TEST

// What a phase wrote, later ones do not read as if it were settled: the read-only path of a GPU may
// have the old value.
START_TEST(what_a_phase_wrote_is_read_coherently)
{
    struct compiled c;
    compile_stitched(&c, &stitched[_i % (N_STITCHED + N_UNSTITCHED)],
                     _i < (N_STITCHED + N_UNSTITCHED) ? "sm_80" : "sm_90a");
    for (int i = 0; i < c.program.n_kernels; i++) {
        char *source = strdup(c.program.kernels[i].source), *end;
        char *written[32];
        int n_written = 0;
        for (char *at = strstr(source, "\nnamespace phase"); at; at = end) {
            end = strstr(at + 1, "\nnamespace phase");
            char *args = strstr(at, "struct Args {"), *functions = strstr(args, "};");
            char *last = end ? end : source + strlen(source);
            for (int w = 0; w < n_written; w++) {
                char settled[96], of_vector[96];
                snprintf(settled, sizeof settled, " load(args.%s ", written[w]);
                snprintf(of_vector, sizeof of_vector, ">(args.%s ", written[w]);
                char *one = strstr(functions, settled), *vector = strstr(functions, of_vector);
                ck_assert_msg(!one || one > last, "%s is read as if settled:\n%s", written[w], at);
                while (vector && vector < last) {
                    while (*vector != ' ')
                        vector--;
                    ck_assert_msg(strncmp(vector, " load_vec", 9) != 0,
                                  "%s is read as if settled:\n%s", written[w], at);
                    vector = strstr(strstr(vector, of_vector) + 1, of_vector);
                }
            }
            for (char *line = strchr(args, '\n'); line < functions; line = strchr(line + 1, '\n')) {
                char *star = strchr(line, '*'), *semicolon = strchr(line, ';');
                if (star && star < functions && strncmp(line + 5, "const ", 6) != 0)
                    written[n_written++] = strndup(star + 1, (size_t)(semicolon - star - 1));
            }
        }
        for (int w = 0; w < n_written; w++)
            free(written[w]);
        free(source);
    }
    compiled_free(&c);
}
END_TEST

Suite *stitch_suite(void)
{
    Suite *s = suite_create("stitch");
    TCase *t = tcase_create("stitch");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, short_kernels_become_phases, 0, 2 * N_STITCHED);
    tcase_add_test(t, phases_agree_with_the_reference);
    tcase_add_test(t, phases_can_be_chosen_to_be_separate);
    tcase_add_test(t, no_block_is_missed_of_those_that_tell);
    tcase_add_loop_test(t, clusters_of_every_size_agree_with_the_reference, 0, COUNT(scopes));
    tcase_add_loop_test(t, what_a_phase_wrote_is_read_coherently, 0,
                        2 * (N_STITCHED + N_UNSTITCHED));
    suite_add_tcase(s, t);
    return s;
}
