// test_storage.c: elements in memory to doubles and integers and back, rounded once.

#include "gen/gen.h"
#include "tests/tests.h"
#include <math.h>
#include <string.h>

static unsigned stored(enum dtype dtype, double value)
{
    uint64_t room = 0;
    store_element(dtype, &room, 0, value);
    return (unsigned)room;
}

static double loaded(enum dtype dtype, unsigned bits)
{
    uint64_t room = bits;
    return load_element(dtype, &room, 0);
}

static bool survives(enum dtype dtype, unsigned bits)
{
    double value = loaded(dtype, bits);
    unsigned again = stored(dtype, value);
    return isnan(value) ? isnan(loaded(dtype, again)) : again == bits;
}

START_TEST(every_half_and_bfloat_survives_the_round_trip)
{
    for (unsigned bits = 0; bits < 0x10000; bits++)
        if (!survives(DT_f16, bits) || !survives(DT_bf16, bits))
            ck_abort_msg("%#x does not", bits);
}
END_TEST

// Between two neighbours: below the middle goes down, above it up, the middle to the even one.
static bool goes_to_nearest(enum dtype dtype, unsigned bits)
{
    double low = loaded(dtype, bits), high = loaded(dtype, bits + 1), middle = (low + high) / 2;
    unsigned even = bits + (bits & 1);
    return stored(dtype, nextafter(middle, low)) == bits &&
           stored(dtype, nextafter(middle, high)) == bits + 1 && stored(dtype, middle) == even &&
           stored(dtype, -middle) == 0x8000 + even;
}

START_TEST(rounding_is_to_nearest_even_everywhere)
{
    for (unsigned bits = 0; bits < 0x7f7f; bits++)
        if ((bits < 0x7bff && !goes_to_nearest(DT_f16, bits)) || !goes_to_nearest(DT_bf16, bits))
            ck_abort_msg("between %#x and the next", bits);
}
END_TEST

START_TEST(known_halves_and_bfloats)
{
    ck_assert_uint_eq(stored(DT_f16, 1), 0x3c00);
    ck_assert_uint_eq(stored(DT_f16, -2), 0xc000);
    ck_assert_uint_eq(stored(DT_f16, 65504), 0x7bff);
    ck_assert_uint_eq(stored(DT_f16, 65519.999999), 0x7bff);
    ck_assert_uint_eq(stored(DT_f16, 65520), 0x7c00);
    ck_assert_uint_eq(stored(DT_f16, 0x1p-24), 1);
    ck_assert_uint_eq(stored(DT_f16, 0x1p-25), 0);
    ck_assert_uint_eq(stored(DT_f16, 0x1.000001p-25), 1);
    ck_assert_uint_eq(stored(DT_f16, -1e-300), 0x8000);
    ck_assert_uint_eq(stored(DT_f16, -INFINITY), 0xfc00);
    ck_assert_uint_eq(stored(DT_bf16, 1), 0x3f80);
    ck_assert_uint_eq(stored(DT_bf16, 0x1.fffffep127), 0x7f80);
    ck_assert_uint_eq(stored(DT_bf16, 0x1p-133), 1);
    ck_assert_uint_eq(stored(DT_bf16, 1e300), 0x7f80);
    ck_assert(isnan(loaded(DT_bf16, stored(DT_bf16, NAN))));
}
END_TEST

START_TEST(a_double_is_rounded_once_and_not_by_way_of_f32)
{
    ck_assert_uint_eq(stored(DT_f16, 1 + 0x1p-11), 0x3c00);
    ck_assert_uint_eq(stored(DT_f16, 1 + 0x1p-11 + 0x1p-40), 0x3c01);
    ck_assert_uint_eq(stored(DT_bf16, 1 + 0x1p-8 + 0x1p-40), 0x3f81);
}
END_TEST

START_TEST(an_integer_is_rounded_once_and_not_by_way_of_f64)
{
    float single;
    store_integer(DT_f32, &single, 0, ((int64_t)1 << 61) + ((int64_t)1 << 37) + 1);
    ck_assert(single == 0x1.000002p61f);
    store_integer(DT_f32, &single, 0, -((int64_t)1 << 61) - ((int64_t)1 << 37) - 1);
    ck_assert(single == -0x1.000002p61f);
    store_integer(DT_f32, &single, 0, INT64_MAX);
    ck_assert(single == 0x1p63f);
}
END_TEST

START_TEST(reals_saturate_into_integers_and_nan_is_zero)
{
    static const double from[] = {INFINITY, -INFINITY, NAN, 510, -200, 127.5, -128.5, 3.9, -3.9};
    static const int8_t to[] = {127, -128, 0, 127, -128, 127, -128, 3, -3};
    for (int i = 0; i < 9; i++) {
        int8_t got[2];
        store_element(DT_i8, got, 1, from[i]);
        ck_assert_int_eq(got[1], to[i]);
    }
    int64_t wide;
    store_element(DT_i64, &wide, 0, 0x1p63);
    ck_assert(wide == INT64_MAX);
    store_element(DT_i64, &wide, 0, -0x1p63);
    ck_assert(wide == INT64_MIN);
    ck_assert_uint_eq(stored(DT_u8, -1), 0);
    ck_assert_uint_eq(stored(DT_u8, 256), 255);
    ck_assert_uint_eq(stored(DT_bool, NAN), 1);
    ck_assert_uint_eq(stored(DT_bool, -0.0), 0);
}
END_TEST

START_TEST(integers_wrap_into_narrower_ones)
{
    unsigned char room[8] = {0};
    store_integer(DT_i8, room, 0, 200);
    ck_assert_int_eq(load_integer(DT_i8, room, 0), -56);
    store_integer(DT_u8, room, 0, -1);
    ck_assert_int_eq(load_integer(DT_u8, room, 0), 255);
    store_integer(DT_i32, room, 0, ((int64_t)1 << 32) + 7);
    ck_assert_int_eq(load_integer(DT_i32, room, 0), 7);
    store_integer(DT_bool, room, 0, 256);
    ck_assert_int_eq(room[0], 1);
}
END_TEST

START_TEST(elements_need_no_alignment)
{
    unsigned char room[40];
    for (int dtype = 0; dtype < DT_COUNT; dtype++) {
        store_element((enum dtype)dtype, room + 1, 2, 1);
        ck_assert(load_element((enum dtype)dtype, room + 1, 2) == 1);
        ck_assert_int_eq(load_integer((enum dtype)dtype, room + 1, 2), 1);
    }
}
END_TEST

Suite *storage_suite(void)
{
    Suite *s = suite_create("storage");
    TCase *c = tcase_create("storage");
    tcase_set_timeout(c, 30);
    tcase_add_test(c, every_half_and_bfloat_survives_the_round_trip);
    tcase_add_test(c, rounding_is_to_nearest_even_everywhere);
    tcase_add_test(c, known_halves_and_bfloats);
    tcase_add_test(c, a_double_is_rounded_once_and_not_by_way_of_f32);
    tcase_add_test(c, an_integer_is_rounded_once_and_not_by_way_of_f64);
    tcase_add_test(c, reals_saturate_into_integers_and_nan_is_zero);
    tcase_add_test(c, integers_wrap_into_narrower_ones);
    tcase_add_test(c, elements_need_no_alignment);
    suite_add_tcase(s, c);
    return s;
}
