// test_phases.c: the phases of one launch, launched by hand on the host device: the same bits with
// other numbers of blocks, and no barrier too few

#include "tests/compiled.h"
#include "tests/on_host.h"
#include "tests/stitched.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

struct memory {
    void *buffer[64];
    int n;
};

static void allocate(struct memory *m, const struct program *p)
{
    *m = (struct memory){.n = p->n_buffers};
    ck_assert_int_le(p->n_buffers, 64);
    for (int b = 0; b < p->n_buffers; b++) {
        size_t bytes = ((size_t)p->buffers[b].bytes + 511) / 256 * 256;
        m->buffer[b] = aligned_alloc(256, bytes);
        memset(m->buffer[b], p->buffers[b].kind == BUFFER_counter ? 0 : 0xff, bytes);
    }
}

// Values from -size to size.
static void fill_inputs(struct memory *m, const struct program *p, float size)
{
    uint64_t seed = 7;
    for (int b = 0; b < p->n_buffers; b++)
        for (int64_t i = 0; p->buffers[b].kind == BUFFER_input && i < p->buffers[b].bytes / 4;
             i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            ((float *)m->buffer[b])[i] = ((float)(seed >> 40) / (1 << 23) - 1) * size;
        }
}

static void release(struct memory *m)
{
    for (int b = 0; b < m->n; b++)
        free(m->buffer[b]);
}

static char *launch_on(struct memory *m, const struct host_library *library, const struct kernel *k,
                       bool reversed)
{
    void *pointers[64];
    for (int i = 0; i < k->n_args; i++)
        pointers[i] = m->buffer[k->args[i]];
    return launch_kernel(library, k, reversed, pointers);
}

// What is wrong with a launch of the program's one kernel: the caller's; NULL: nothing, and what it
// wrote is in m.
static char *launch_once(const struct compiled *c, const struct host_library *library,
                         const struct kernel *k, bool reversed, struct memory *m)
{
    allocate(m, &c->program);
    fill_inputs(m, &c->program, 1);
    return launch_on(m, library, k, reversed);
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
    compile_stitched(&c, &stitched[_i], "sm_80");
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
    compile_stitched(&c, &stitched[_i], "sm_90a");
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

// What was left by a run before, of other inputs, is not taken for what is waited for.
START_TEST(a_second_run_waits_anew)
{
    struct compiled c;
    compile_stitched(&c, &stitched[_i], "sm_80");
    const struct program *p = &c.program;
    struct host_library *library = load_kernels(p->kernels, p->n_kernels, every_other(_i));
    for (int reversed = 0; reversed <= 1; reversed++) {
        struct memory again, fresh;
        assert_ran(launch_once(&c, library, p->kernels, reversed, &again));
        fill_inputs(&again, p, 0.5f);
        assert_ran(launch_on(&again, library, p->kernels, reversed));
        allocate(&fresh, p);
        fill_inputs(&fresh, p, 0.5f);
        assert_ran(launch_on(&fresh, library, p->kernels, reversed));
        for (int i = 0; i < p->n_outputs; i++) {
            int b = p->outputs[i];
            ck_assert(!memcmp(again.buffer[b], fresh.buffer[b], (size_t)p->buffers[b].bytes));
        }
        release(&again);
        release(&fresh);
    }
    host_unload(library);
    compiled_free(&c);
}
END_TEST

// Barriers, and the tags that are waited for: what was there before is as good then.
static bool leave_out_waits(char *source)
{
    static const char barrier[] = "grid_barrier(args.barrier);", none[] = "__syncthreads();";
    static const char tag[] = "phase0::next_tag(a";
    bool any = false;
    for (char *at; (at = strstr(source, barrier)); any = true) {
        memset(at, ' ', sizeof barrier - 1);
        memcpy(at, none, sizeof none - 1);
    }
    for (char *at; (at = strstr(source, tag)); any = true) {
        memset(at, ' ', strcspn(at, ";"));
        *at = '0';
    }
    return any;
}

// The test of the tests: blocks that go on without waiting give something else.
START_TEST(a_barrier_left_out_is_seen)
{
    struct compiled c;
    compile_stitched(&c, &stitched[_i], "sm_80");
    struct kernel k = c.program.kernels[0];
    char *source = strdup(k.source);
    ck_assert(leave_out_waits(source));
    struct host_library *right = load_kernels(&k, 1, NULL);
    size_t n, n_without;
    char *whole = outputs_of(&c, right, &k, false, &n);
    k.source = source;
    struct host_library *wrong = load_kernels(&k, 1, NULL);
    bool differs = false; // where what counts is in the first block's share, in the other order
    for (int reversed = 0; reversed <= 1; reversed++) {
        char *without = outputs_of(&c, wrong, &k, reversed, &n_without);
        ck_assert_uint_eq(n, n_without);
        differs |= memcmp(whole, without, n) != 0;
        free(without);
    }
    ck_assert(differs);
    free(whole);
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
    compile_stitched(&c, &stitched[_i], "sm_90a");
    struct kernel k = c.program.kernels[0];
    const char *after = strstr(k.source, include);
    ck_assert_ptr_nonnull(after);
    after += strlen(include);
    if (stitched[_i].shared) {
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

Suite *phases_suite(void)
{
    Suite *s = suite_create("phases");
    TCase *t = tcase_create("phases");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, fewer_blocks_give_the_same_bits, 0, N_STITCHED);
    tcase_add_loop_test(t, a_second_run_waits_anew, 0, N_STITCHED);
    tcase_add_loop_test(t, a_barrier_left_out_is_seen, 0, N_STITCHED - 1);
    tcase_add_loop_test(t, more_clusters_give_the_same_bits, 0, N_STITCHED);
    tcase_add_loop_test(t, what_is_not_waited_for_is_seen, 0, N_STITCHED);
    suite_add_tcase(s, t);
    return s;
}
