// test_views.c: tensors read through views, at any address, and not a step beyond their end.

#include "tests/exact.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static double one(const int64_t *at)
{
    (void)at;
    return 1;
}

static double position(const int64_t *at)
{
    return (double)at[0];
}

// ---- views into a reduction ----

static double rows_of_4(const int64_t *at)
{
    return (double)(4 * at[0] + at[1]);
}

static double rows_of_5(const int64_t *at)
{
    return (double)(5 * at[0] + at[1]);
}

START_TEST(views_are_read_by_their_own_strides)
{
    struct exact e;
    exact_open(&e,
               "program p\ninput x : f32[4, 5]\ninput y : f32[3, 4]\ninput v : f32[4]\n"
               "input d : f32[2, 1]\ninput r : f32[31]\n"
               "output a = sum(x.T[:, :, None] * y.T[None, :, :], axis = 1)\n"
               "output b = sum(reshape(broadcast_to(v, [2, 3, 4]), [6, 4]), axis = 0)\n"
               "output c = broadcast_to(d, [2, 128]) * iota([2, 128], 1) + 1\n"
               "output f = flip(r, axis = 0) * 2\n",
               NULL);
    exact_set(&e, "x", rows_of_5);
    exact_set(&e, "y", rows_of_4);
    exact_list(&e, "v", 4, (double[]){1, 2, 3, 4});
    exact_list(&e, "d", 2, (double[]){2, 3});
    exact_set(&e, "r", position);
    exact_run(&e);
    exact_expect(&e, "a", 15,
                 (double[]){70, 190, 310, 76, 212, 348, 82, 234, 386, 88, 256, 424, 94, 278, 462},
                 0);
    exact_expect(&e, "b", 4, (double[]){6, 12, 18, 24}, 0);
    for (int i = 0; i < 256; i++)
        ck_assert_double_eq(exact_got(&e, "c", i), (i / 128 + 2) * (i % 128) + 1);
    for (int i = 0; i < 31; i++)
        ck_assert_double_eq(exact_got(&e, "f", i), 60 - 2 * i);
    exact_close(&e);
}
END_TEST

// ---- addresses ----

static const struct {
    const char *dtype;
    int bytes;
} elements[] = {
    {"f32", 4},
    {"f16", 2},
    {"i8",  1},
};

static double mod_1000(const int64_t *at)
{
    return (double)((1185 * at[0] + at[1]) % 1000 % 50);
}

// Copies the input to an offset, has the outputs at another, and compares with the aligned run.
static void run_at(struct exact *e, quern_plan *plan, size_t in_offset, size_t out_offset)
{
    void *base[3];
    char *at[3], *got = malloc((size_t)e->arguments[1].bytes);
    for (int i = 0; i < 3; i++) {
        size_t bytes = (size_t)e->arguments[i].bytes;
        ck_assert_int_eq(quern_alloc(e->q, bytes + 64, &base[i]), QUERN_OK);
        at[i] = (char *)base[i] + (i ? out_offset : in_offset);
    }
    ck_assert_int_eq(quern_upload(e->q, at[0], e->host[0], (size_t)e->arguments[0].bytes),
                     QUERN_OK);
    quern_status status = quern_execute(plan, (void *const *)at, 3, NULL);
    ck_assert_msg(status == QUERN_OK, "%s", quern_message(e->q));
    ck_assert_int_eq(quern_synchronize(e->q, NULL), QUERN_OK);
    for (int i = 1; i < 3; i++) {
        size_t bytes = (size_t)e->arguments[i].bytes;
        ck_assert_int_eq(quern_download(e->q, got, at[i], bytes), QUERN_OK);
        ck_assert(!memcmp(got, e->host[i], bytes));
    }
    for (int i = 0; i < 3; i++)
        quern_free(e->q, base[i]);
    free(got);
}

START_TEST(pointers_need_the_alignment_that_was_promised_and_no_more)
{
    struct exact e;
    char text[256];
    int bytes = elements[_i].bytes;
    snprintf(
        text, sizeof text,
        "program p\ninput x : %s[7, 1185]\noutput y = 2 * x + 1\noutput m = max(x, axis = 1)\n",
        elements[_i].dtype);
    exact_program(&e, text, NULL, mod_1000, NULL);
    quern_plan *plan;
    quern_plan_options options = {.alignment = bytes};
    ck_assert_int_eq(quern_plan_program(e.q, e.program, NULL, 0, &options, &plan), QUERN_OK);
    for (int i = 0; i < 16 / bytes; i += 16 / bytes / 4)
        for (int j = 0; j < 2; j++)
            run_at(&e, plan, (size_t)(i * bytes), (size_t)(j * bytes));
    void *shifted;
    ck_assert_int_eq(quern_alloc(e.q, (size_t)(e.arguments[0].bytes + bytes), &shifted), QUERN_OK);
    void *off[] = {(char *)shifted + bytes, e.device[1], e.device[2]};
    if (quern_execute(e.plan, off, 3, NULL) != QUERN_OK) // before the launch, and it says why
        ck_assert_ptr_nonnull(strstr(quern_message(e.q), "align"));
    quern_free(e.q, shifted);
    quern_destroy_plan(plan);
    exact_close(&e);
    exact_still_usable();
}
END_TEST

static const int counts[] = {1, 3, 5, 31, 33, 127, 129, 1023, 1025};

// The host device's buffers end where the tensor ends, and the sanitizers see one step beyond.
START_TEST(nothing_is_read_past_the_end)
{
    struct exact e;
    char text[4096] = "program p\n", name[16];
    for (int i = 0; i < COUNT(counts); i++)
        sprintf(text + strlen(text), "input x%d : %s[%d]\noutput y%d = x%d + 1\n", i,
                elements[_i].dtype, counts[i], i, i);
    sprintf(text + strlen(text),
            "input a : %s[2, 3]\ninput r : %s[2]\ninput c : %s[3]\ninput u : %s[3, 129]\n"
            "output s = sum(u, axis = 1)\noutput p = a * r[:, None] * c[None, :]\n"
            "output q = softmax(cast(u, f32))\n",
            elements[_i].dtype, elements[_i].dtype, elements[_i].dtype, elements[_i].dtype);
    exact_open(&e, text, NULL);
    for (int i = 0; i < e.n; i++)
        if (e.arguments[i].role == QUERN_INPUT)
            exact_set(&e, e.arguments[i].name, one);
    exact_run(&e);
    for (int i = 0; i < COUNT(counts); i++) {
        sprintf(name, "y%d", i);
        for (int k = 0; k < counts[i]; k++)
            ck_assert_double_eq(exact_got(&e, name, k), 2);
    }
    exact_expect(&e, "s", 3, (double[]){129, 129, 129}, 0);
    exact_values(&e, "p", one, 0);
    for (int i = 0; i < 3 * 129; i++)
        ck_assert_double_eq_tol(exact_got(&e, "q", i), 1.0 / 129, 1e-9);
    exact_close(&e);
}
END_TEST

Suite *views_suite(void)
{
    Suite *suite = suite_create("views");
    TCase *t = tcase_create("views");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, views_are_read_by_their_own_strides);
    tcase_add_loop_test(t, pointers_need_the_alignment_that_was_promised_and_no_more, 0,
                        COUNT(elements));
    tcase_add_loop_test(t, nothing_is_read_past_the_end, 0, COUNT(elements));
    suite_add_tcase(suite, t);
    return suite;
}
