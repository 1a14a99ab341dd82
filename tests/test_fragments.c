// test_fragments.c: mma.cuh on the host device: which lane holds which words of a matrix, what a
// warp multiplies, floats as pairs of bfloat16; what a block votes for between two products; and
// what a warp finds of its floats.

#include "tests/on_host.h"
#include "tests/operands.h"
#include "tests/tests.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct kernel kernels[] = {
#include "tests/fragment_kernels.def"
};
enum { N_KERNELS = sizeof kernels / sizeof *kernels };

static struct host_library *library;

static void compile_all(void)
{
    library = load_kernels(kernels, N_KERNELS, sanitizer_flags());
}

static void unload(void)
{
    host_unload(library);
}

static void launch(const char *name, bool reversed, void *const *pointers)
{
    assert_ran(launch_kernel(library, find_kernel(kernels, name), reversed, pointers));
}

enum { N_WARPS = 2 };

// Element (row, column) of matrix i is 64 i + 8 row + column, and more by 256 in the next warp.
START_TEST(every_lane_gets_its_words_of_four_matrices)
{
    uint32_t out[N_WARPS][32][2][4];
    for (int reversed = 0; reversed < 2; reversed++) {
        memset(out, 0xff, sizeof out);
        launch("matrices", reversed, (void *const[]){out});
        for (unsigned w = 0; w < N_WARPS; w++)
            for (unsigned lane = 0; lane < 32; lane++)
                for (unsigned i = 0; i < 4; i++) {
                    unsigned first = 256 * w + 64 * i, row = lane / 4, column = 2 * (lane % 4);
                    unsigned plain = first + 8 * row + column,
                             transposed = first + 8 * column + row;
                    ck_assert_uint_eq(out[w][lane][0][i], plain | (plain + 1) << 16);
                    ck_assert_uint_eq(out[w][lane][1][i], transposed | (transposed + 8) << 16);
                }
    }
}
END_TEST

// In rising order; a NaN of either sign is before and behind all of them.
static const double rising[] = {-INFINITY, -FLT_MAX, -1, -0x1p-126, -0x1p-149, -0.0,
                                0.0,       0x1p-149, 1,  1.5,       FLT_MAX,   INFINITY};
enum { N_RISING = sizeof rising / sizeof *rising, N_TURNS = 64 };

static bool same_float(float a, float b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

// Each warp has some of them, from its first on and up to its last, every other turn with a NaN.
START_TEST(a_warp_finds_the_largest_and_the_smallest_float)
{
    static float x[N_TURNS * N_WARPS][32], most[N_TURNS * N_WARPS][32],
        least[N_TURNS * N_WARPS][32];
    seed_operands(12);
    for (int i = 0; i < N_TURNS * N_WARPS; i++) {
        unsigned first = random_bits() % N_RISING, n = N_RISING - first;
        for (int lane = 0; lane < 32; lane++)
            x[i][lane] = (float)rising[first + random_bits() % (1 + (unsigned)i % n)];
        if (i % 4 >= 2)
            x[i][random_bits() % 32] = of_bits(i % 4 == 2 ? 0x7fc00000 : 0xffc00001);
    }
    launch("extremes", false, (void *const[]){x, most, least});
    for (int i = 0; i < N_TURNS * N_WARPS; i++) {
        float largest = -INFINITY, smallest = INFINITY;
        for (int lane = 0; lane < 32; lane++) {
            float v = x[i][lane];
            bool is_nan = isnan(v) || isnan(largest);
            bool more = v > largest || (v == largest && !signbit(v));
            bool less = v < smallest || (v == smallest && signbit(v));
            largest = is_nan ? NAN : more ? v : largest;
            smallest = is_nan ? NAN : less ? v : smallest;
        }
        for (int lane = 0; lane < 32; lane++)
            ck_assert_msg(
                same_float(most[i][lane], largest) && same_float(least[i][lane], smallest),
                "warp %d, lane %d: %g to %g, not %g to %g", i, lane, (double)least[i][lane],
                (double)most[i][lane], (double)smallest, (double)largest);
    }
}
END_TEST

static int small_integer(void)
{
    return (int)(random_bits() >> 8) % 17 - 8;
}

static uint16_t bfloat_of(double x)
{
    uint16_t bits;
    store_element(DT_bf16, &bits, 0, x);
    return bits;
}

// What a warp multiplies, as PTX deals it out to the lanes.
struct warp {
    int a[16][16], b[16][8], c[16][8]; // of row and k, of k and column, of row and column
};

static void fill(struct warp *w)
{
    for (int i = 0; i < 16; i++) {
        for (int k = 0; k < 16; k++)
            w->a[i][k] = small_integer();
        for (int j = 0; j < 8; j++)
            w->b[i][j] = small_integer(), w->c[i][j] = small_integer();
    }
}

static void deal(const struct warp *w, uint16_t (*a)[4][2], uint16_t (*b)[2][2], float (*c)[4])
{
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            int r = lane / 4, t = lane % 4;
            c[lane][i] = (float)w->c[r + i / 2 * 8][2 * t + i % 2];
            for (int j = 0; j < 2; j++) {
                a[lane][i][j] = bfloat_of(w->a[r + i % 2 * 8][2 * t + i / 2 * 8 + j]);
                if (i < 2)
                    b[lane][i][j] = bfloat_of(w->b[2 * t + i * 8 + j][r]);
            }
        }
}

START_TEST(a_warp_adds_the_product_of_two_matrices)
{
    static struct warp warps[N_WARPS];
    static uint16_t a[N_WARPS][32][4][2], b[N_WARPS][32][2][2];
    static float c[N_WARPS][32][4];
    seed_operands(11);
    for (int reversed = 0; reversed < 2; reversed++) {
        for (int w = 0; w < N_WARPS; w++) {
            fill(&warps[w]);
            deal(&warps[w], a[w], b[w], c[w]);
        }
        launch("products", reversed, (void *const[]){a, b, c});
        for (int w = 0; w < N_WARPS; w++)
            for (int i = 0; i < 16; i++)
                for (int j = 0; j < 8; j++) {
                    int sum = warps[w].c[i][j];
                    for (int k = 0; k < 16; k++)
                        sum += warps[w].a[i][k] * warps[w].b[k][j];
                    float got = c[w][i % 8 * 4 + j / 2][i / 8 * 2 + j % 2];
                    ck_assert_msg(got == (float)sum, "[%d,%d]: %g, not %d", i, j, (double)got, sum);
                }
    }
}
END_TEST

// Every bfloat16, and floats just above it, just under and over halfway to the next, and halfway.
static const uint32_t below[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0, 0x8000};
enum { N_BELOW = sizeof below / sizeof *below, N_FLOATS = 65536 * N_BELOW };

static float x[N_FLOATS], y[N_FLOATS];
static uint32_t pair[N_FLOATS], beyond[N_FLOATS];

static void launch_pairs(void)
{
    for (uint32_t i = 0; i < N_FLOATS; i++) {
        x[i] = of_bits(i / N_BELOW << 16 | below[i % N_BELOW]);
        y[N_FLOATS - 1 - i] = x[i];
    }
    launch("pairs", false, (void *const[]){x, y, pair, beyond});
}

START_TEST(two_floats_become_a_pair_of_bfloats)
{
    launch_pairs();
    for (int i = 0; i < N_FLOATS; i++) {
        uint16_t first = pair[i] & 0xffff, second = pair[i] >> 16;
        uint16_t right_first = isnan(x[i]) ? 0x7fff : bfloat_of((double)x[i]);
        uint16_t right_second = isnan(y[i]) ? 0x7fff : bfloat_of((double)y[i]);
        ck_assert_msg(first == right_first, "%a is %04x, not %04x", (double)x[i], first,
                      right_first);
        ck_assert_msg(second == right_second, "%a is %04x, not %04x", (double)y[i], second,
                      right_second);
    }
}
END_TEST

START_TEST(no_bits_are_beyond_a_bfloat_and_some_beyond_all_else)
{
    launch_pairs();
    for (int i = 0; i < N_FLOATS; i++) {
        bool is_bfloat = !isnan(x[i]) && (bits_of(x[i]) & 0xffff) == 0;
        ck_assert_msg(((beyond[i] & 0xffff) == 0) == is_bfloat, "%a: %08x", (double)x[i],
                      beyond[i]);
    }
}
END_TEST

// Who says so in which turn: nobody, the first thread, the last, all, one with its upper bits
// alone.
static int vote(int turn, int block, int thread)
{
    switch ((turn + block) % 6) {
    case 1:
        return thread == 0;
    case 2:
        return thread == 95 ? -1 : 0;
    case 4:
        return 1;
    case 5:
        return thread == 40 ? 0x10000 : 0;
    default:
        return 0;
    }
}

// Of three blocks that run at once, each for itself.
START_TEST(one_thread_that_says_so_is_heard_by_its_whole_block)
{
    enum { TURNS = 8, BLOCKS = 3, THREADS = 96 };
    static int votes[TURNS][BLOCKS][THREADS], any[TURNS][BLOCKS][THREADS];
    for (int i = 0; i < TURNS * BLOCKS * THREADS; i++)
        (&votes[0][0][0])[i] = vote(i / BLOCKS / THREADS, i / THREADS % BLOCKS, i % THREADS);
    for (int reversed = 0; reversed < 2; reversed++) {
        memset(any, 0x55, sizeof any);
        launch("votes", reversed, (void *const[]){votes, any});
        for (int i = 0; i < TURNS * BLOCKS * THREADS; i++) {
            int turn = i / BLOCKS / THREADS, block = i / THREADS % BLOCKS;
            bool said = (turn + block) % 3 != 0;
            ck_assert_msg(((&any[0][0][0])[i] != 0) == said, "turn %d, block %d, thread %d", turn,
                          block, i % THREADS);
        }
    }
}
END_TEST

Suite *fragments_suite(void)
{
    Suite *s = suite_create("fragments");
    TCase *t = tcase_create("fragments");
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, compile_all, unload);
    tcase_add_test(t, every_lane_gets_its_words_of_four_matrices);
    tcase_add_test(t, a_warp_finds_the_largest_and_the_smallest_float);
    tcase_add_test(t, a_warp_adds_the_product_of_two_matrices);
    tcase_add_test(t, two_floats_become_a_pair_of_bfloats);
    tcase_add_test(t, no_bits_are_beyond_a_bfloat_and_some_beyond_all_else);
    tcase_add_test(t, one_thread_that_says_so_is_heard_by_its_whole_block);
    suite_add_tcase(s, t);
    return s;
}
