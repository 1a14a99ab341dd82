// test_stitch.c: kernels that became the phases of one launch, on the host device: right values,
// the same bits each time and with fewer blocks, and no barrier too few.

#include "tests/compiled.h"
#include "tests/on_host.h"
#include "tests/programs.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

// The first of the probes are one launch each, but for the last of them no block needs what another
// one made.
enum { N_STITCHED = 11 };

// What two phases hand to each other, in every order of families.
static const struct probe {
    const char *families;
    int phases, barriers;
    int shared;       // phases that clusters make for themselves, where there are clusters; 0: none
    const char *text; // of one dtype
} probes[] = {
  // clang-format off: texts of several lines
    {"columns map",         2, 1, 1,
     "program amax(M, N)\ninput x : %s[M, N]\noutput y = x / (max(abs(x)) + 1)\n"              },
    {"columns map",         2, 1, 0,
     "program shown(M, N)\ninput x : %s[M, N]\ns = max(abs(x))\noutput y = x / (s + 1)\n"
     "output z = s + 0\n"                                                                      },
    {"columns map",         2, 1, 1,
     "program place(M, N)\ninput x : %s[M, N]\ni = argmax(reshape(x, [M * N]))\n"
     "output y = maximum(x, cast(i, %s))\n"                                                    },
    {"columns columns map", 3, 2, 2,
     "program down(M, N)\ninput x : %s[M, N]\noutput y = softmax(x, axis = 0)\n"               },
    {"columns gemm",        2, 1, 1,
     "program product(M, N)\ninput x : %s[M, N]\ninput w : %s[33, N]\n"
     "s = maximum(max(abs(x)), 1)\noutput y = linear(x / s, w)\n"                              },
    {"columns gemm",        2, 1, 1,
     "program quant(M, N)\ninput x : %s[M, N]\ninput g : %s[M]\ninput w : %s[27, N]\n"
     "input b : %s[27]\na = sigmoid(g)[:, None]\ns = maximum(max(abs(x)), 1e-3) / 127\n"
     "q = clamp(round(x / s), -127, 127) * s\n"
     "output y = linear(a * q + (1 - a) * x, w, b)\n"                                          },
    {"columns rows",        2, 1, 1,
     "program centred(M, N)\ninput x : %s[M, N]\noutput y = softmax(x - mean(x), axis = 1)\n"  },
    {"columns gemm gemm",   3, 1, 1,
     "program beside(M, N)\ninput x : %s[M, N]\ninput z : %s[M, 20]\ninput w : %s[19, N]\n"
     "input v : %s[23, 20]\ns = 1 + max(abs(x))\noutput p = linear(z, v)\n"
     "output y = linear(x / s, w)\n"                                                           },
    {"gemm gemm",           2, 1, 0,
     "program twice(M, N)\ninput x : %s[M, N]\ninput v : %s[40, N]\ninput w : %s[9, 40]\n"
     "output y = linear(maximum(linear(x, v), 0), w)\n"                                        },
    {"gemm rows",           2, 1, 0,
     "program scores(M, N)\ninput q : %s[M, N]\ninput k : %s[50, N]\n"
     "output y = softmax(q @ k.T, axis = 1)\n"                                                 },
    {"rows gemm",           2, 1, 0,
     "program normed(M, N)\ninput x : %s[M, N]\ninput w : %s[24, N]\n"
     "m = mean(x, axis = 1, keepdims = true)\n"
     "output y = linear((x - m) * (x - m) / (1 + max(abs(x), axis = 1, keepdims = true)), w)\n"},
    {"",                    0, 0, 0,
     "program apart(M, N)\ninput x : %s[M, N]\noutput y = x + 1\noutput z = sum(x, axis = 1)\n"
     "output w = sum(x, axis = 0)\n"                                                           },
    {"",                    0, 0, 0,
     "program chain(M, N)\ninput x : %s[M, N]\na = x - max(x)\nb = a / (1 + max(abs(a)))\n"
     "c = b - mean(b, axis = 0)\noutput y = c + min(c)\n"                                      },
    {"",                    0, 0, 0,
     "program batches(M, N)\ninput a : %s[3, M, N]\ninput b : %s[3, N, 17]\n"
     "p = a @ b\noutput y = triu(p) / (1 + max(abs(p), axis = [1, 2], keepdims = true))\n"     },
 // clang-format on
};

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

static void compile_probe(struct compiled *c, const char *text, const char *arch)
{
    struct size sizes[] = {
        {"M", 256},
        {"N", 128}
    };
    char *typed_text = typed(text, "f32");
    compile_right_text(
        c, typed_text,
        &(struct compile_options){.target = target_find(arch), .sizes = sizes, .n_sizes = 2});
    free(typed_text);
}

START_TEST(short_kernels_become_phases)
{
    const struct probe *p = &probes[_i % N_STITCHED];
    bool clusters = _i >= N_STITCHED && p->shared;
    struct compiled c;
    compile_probe(&c, p->text, _i < N_STITCHED ? "sm_80" : "sm_90a");
    const struct kernel *k = c.program.kernels;
    ck_assert_int_eq(c.program.n_kernels, 1);
    ck_assert_str_eq(k->family, "stitch");
    ck_assert_int_eq(count(k->source, "\nnamespace phase"), p->phases);
    ck_assert_int_eq(count(k->source, "grid_barrier(args.barrier);"), clusters ? 0 : p->barriers);
    ck_assert_int_eq(count(k->source, "::finish_in_cluster("), clusters ? p->shared : 0);
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
    struct job jobs[COUNT(probes) * COUNT(forms)];
    char *texts[COUNT(probes) * COUNT(forms)];
    int n = 0;
    for (int i = 0; i < COUNT(probes); i++)
        for (int k = 0; k < COUNT(forms); k++) {
            if (has_address_sanitizer() && k != (i ? 1 + i % 2 : 0))
                continue;
            texts[n] = typed(probes[i].text, forms[k].dtype);
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
    enum { MOST = COUNT(probes) * COUNT(forms) };
    struct job jobs[MOST];
    struct compiled compiled[MOST];
    char *texts[MOST];
    quern_spec specs[MOST];
    quern_plan_options options[MOST];
    int n = 0;
    for (int i = 0; i < N_STITCHED; i++)
        for (int k = 0; k < COUNT(forms) && probes[i].shared; k++) {
            if (has_address_sanitizer() && (i + _i) % COUNT(forms) != k)
                continue;
            char *text = texts[n] = typed(probes[i].text, forms[k].dtype);
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
    char *text = typed(probes[3].text, "f32");
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

// ---- one kernel, launched by hand ----

struct memory {
    void *buffer[64];
    int n;
};

static void **allocate(struct memory *m, const struct program *p)
{
    *m = (struct memory){.n = p->n_buffers};
    ck_assert_int_le(p->n_buffers, 64);
    uint64_t seed = 7;
    for (int b = 0; b < p->n_buffers; b++) {
        size_t bytes = ((size_t)p->buffers[b].bytes + 511) / 256 * 256;
        m->buffer[b] = aligned_alloc(256, bytes);
        memset(m->buffer[b], p->buffers[b].kind == BUFFER_counter ? 0 : 0xff, bytes);
        for (int64_t i = 0; p->buffers[b].kind == BUFFER_input && i < p->buffers[b].bytes / 4;
             i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            ((float *)m->buffer[b])[i] = (float)(seed >> 40) / (1 << 23) - 1;
        }
    }
    return m->buffer;
}

static void release(struct memory *m)
{
    for (int b = 0; b < m->n; b++)
        free(m->buffer[b]);
}

// What is wrong with a launch of the program's one kernel: the caller's; NULL: nothing, and what it
// wrote is in m.
static char *launch_once(const struct compiled *c, const struct host_library *library,
                         const struct kernel *k, bool reversed, struct memory *m)
{
    void **buffers = allocate(m, &c->program), *pointers[64];
    for (int i = 0; i < k->n_args; i++)
        pointers[i] = buffers[k->args[i]];
    return launch_kernel(library, k, reversed, pointers);
}

static char *outputs_of(const struct compiled *c, const struct host_library *library,
                        const struct kernel *k, bool reversed, size_t *n_bytes)
{
    const struct program *p = &c->program;
    struct memory m;
    assert_ran(launch_once(c, library, k, reversed, &m));
    char *bytes;
    FILE *out = open_memstream(&bytes, n_bytes);
    for (int i = 0; i < p->n_outputs; i++)
        fwrite(m.buffer[p->outputs[i]], 1, (size_t)p->buffers[p->outputs[i]].bytes, out);
    fclose(out);
    release(&m);
    return bytes;
}

// Every other probe goes under the sanitizers, which take several times as long.
static const char *every_other(int probe)
{
    return probe % 2 ? NULL : sanitizer_flags();
}

START_TEST(fewer_blocks_give_the_same_bits)
{
    static const unsigned grids[] = {1, 2, 7};
    struct compiled c;
    compile_probe(&c, probes[_i].text, "sm_80");
    struct host_library *library =
        load_kernels(c.program.kernels, c.program.n_kernels, every_other(_i));
    ck_assert_int_eq(c.program.n_kernels, 1);
    struct kernel k = c.program.kernels[0];
    size_t n, n_fewer;
    char *whole = outputs_of(&c, library, &k, false, &n);
    for (int i = has_address_sanitizer() ? 2 : 0; i < COUNT(grids); i++) {
        k.grid[0] = grids[i];
        char *fewer = outputs_of(&c, library, &k, i % 2, &n_fewer);
        ck_assert_uint_eq(n, n_fewer);
        ck_assert_msg(!memcmp(whole, fewer, n), "%u blocks: other bits", grids[i]);
        free(fewer);
    }
    free(whole);
    host_unload(library);
    compiled_free(&c);
}
END_TEST

// Clusters that nothing is left for, and a grid of which blocks take several turns.
START_TEST(more_clusters_give_the_same_bits)
{
    struct compiled c;
    compile_probe(&c, probes[_i].text, "sm_90a");
    struct kernel k = c.program.kernels[0];
    if (k.cluster[0] > 1) {
        struct host_library *library = load_kernels(&k, 1, every_other(_i + 1));
        size_t n, n_more;
        char *whole = outputs_of(&c, library, &k, false, &n);
        k.grid[0] += k.cluster[0];
        char *more = outputs_of(&c, library, &k, true, &n_more);
        ck_assert_uint_eq(n, n_more);
        ck_assert(!memcmp(whole, more, n));
        free(whole);
        free(more);
        host_unload(library);
    }
    compiled_free(&c);
}
END_TEST

// The test of the tests: blocks that go on without waiting give something else.
START_TEST(a_barrier_left_out_is_seen)
{
    static const char barrier[] = "grid_barrier(args.barrier);";
    struct compiled c;
    compile_probe(&c, probes[_i].text, "sm_80");
    struct kernel k = c.program.kernels[0];
    char *source = strdup(k.source), *at = strstr(source, barrier);
    ck_assert_ptr_nonnull(at);
    while (at) {
        memset(at, ' ', sizeof barrier - 1);
        memcpy(at, "__syncthreads();", strlen("__syncthreads();"));
        at = strstr(source, barrier);
    }
    struct host_library *right = load_kernels(&k, 1, NULL);
    size_t n, n_without;
    char *whole = outputs_of(&c, right, &k, false, &n);
    k.source = source;
    struct host_library *wrong = load_kernels(&k, 1, NULL);
    char *without = outputs_of(&c, wrong, &k, false, &n_without);
    ck_assert_uint_eq(n, n_without);
    ck_assert(memcmp(whole, without, n) != 0);
    free(whole);
    free(without);
    free(source);
    host_unload(right);
    host_unload(wrong);
    compiled_free(&c);
}
END_TEST

// The same of clusters: a block that does not wait for what is sent to it ends before it comes.
START_TEST(what_is_not_waited_for_is_seen)
{
    static const char include[] = "#include \"device.cuh\"\n";
    struct compiled c;
    compile_probe(&c, probes[_i].text, "sm_90a");
    struct kernel k = c.program.kernels[0];
    const char *after = strstr(k.source, include);
    ck_assert_ptr_nonnull(after);
    after += strlen(include);
    if (probes[_i].shared) {
        char *source;
        size_t size;
        FILE *out = open_memstream(&source, &size);
        fprintf(out, "%.*s#define receive_all(inbox) __syncthreads()\n%s", (int)(after - k.source),
                k.source, after);
        fclose(out);
        k.source = source;
        struct host_library *library = load_kernels(&k, 1, NULL);
        struct memory m;
        char *message = launch_once(&c, library, &k, false, &m);
        ck_assert_ptr_nonnull(message);
        ck_assert_msg(strstr(message, "the block has ended") != NULL, "%s", message);
        release(&m);
        free(message);
        free(source);
        host_unload(library);
    }
    compiled_free(&c);
}
END_TEST

// What a phase wrote, later ones do not read as if it were settled: the read-only path of a GPU may
// have the old value.
START_TEST(what_a_phase_wrote_is_read_coherently)
{
    struct compiled c;
    compile_probe(&c, probes[_i % COUNT(probes)].text, _i < COUNT(probes) ? "sm_80" : "sm_90a");
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
    tcase_add_loop_test(t, fewer_blocks_give_the_same_bits, 0, N_STITCHED);
    tcase_add_loop_test(t, a_barrier_left_out_is_seen, 0, N_STITCHED - 1);
    tcase_add_loop_test(t, more_clusters_give_the_same_bits, 0, N_STITCHED);
    tcase_add_loop_test(t, what_is_not_waited_for_is_seen, 0, N_STITCHED);
    tcase_add_loop_test(t, clusters_of_every_size_agree_with_the_reference, 0, COUNT(scopes));
    tcase_add_loop_test(t, what_a_phase_wrote_is_read_coherently, 0, 2 * COUNT(probes));
    suite_add_tcase(s, t);
    return s;
}
