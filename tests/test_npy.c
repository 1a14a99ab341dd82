// test_npy.c: .npy bytes to arrays or to a message, and no header, however broken, to harm.

#include "tests/tests.h"
#include "tools/npy.h"
#include <stdlib.h>
#include <string.h>

// A file in memory: version, header text (padded by nothing) and n_elements bytes of data counting
// from 0.
static unsigned char *file_of(int version, const char *header, size_t n_elements, size_t *n)
{
    size_t length = strlen(header), fixed = version == 1 ? 10 : 12;
    unsigned char *bytes = calloc(1, fixed + length + n_elements);
    *n = fixed + length + n_elements;
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (unsigned char)version;
    for (size_t i = 8; i < fixed; i++)
        bytes[i] = (unsigned char)(length >> 8 * (i - 8));
    memcpy(bytes + fixed, header, length);
    for (size_t i = 0; i < n_elements; i++)
        bytes[fixed + length + i] = (unsigned char)i;
    return bytes;
}

static const struct {
    const char *descr;
    quern_dtype dtype;
    size_t bytes;
} dtypes[] = {
    {"<f4", QUERN_F32,  4},
    {"<f2", QUERN_F16,  2},
    {"<V2", QUERN_BF16, 2},
    {"|V2", QUERN_BF16, 2},
    {"<f8", QUERN_F64,  8},
    {"<i4", QUERN_I32,  4},
    {"<i8", QUERN_I64,  8},
    {"|i1", QUERN_I8,   1},
    {"|u1", QUERN_U8,   1},
    {"|b1", QUERN_BOOL, 1},
    {"=f4", QUERN_F32,  4},
    {"f4",  QUERN_F32,  4},
};

START_TEST(every_dtype_is_read_in_every_version)
{
    for (int version = 1; version <= 3; version++) {
        char header[96], *message = NULL;
        size_t n, bytes = 6 * dtypes[_i].bytes;
        snprintf(header, sizeof header,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }   \n",
                 dtypes[_i].descr);
        unsigned char *file = file_of(version, header, bytes, &n);
        struct npy a;
        ck_assert_msg(npy_parse(file, n, &a, &message), "%s: %s", dtypes[_i].descr, message);
        ck_assert_int_eq(a.dtype, dtypes[_i].dtype);
        ck_assert_int_eq(a.rank, 2);
        ck_assert_int_eq(a.dim[0], 2);
        ck_assert_int_eq(a.dim[1], 3);
        ck_assert_uint_eq(a.bytes, bytes);
        for (size_t i = 0; i < bytes; i++)
            ck_assert_int_eq(((unsigned char *)a.data)[i], a.dtype == QUERN_BOOL ? i != 0 : i);
        npy_free(&a);
        free(file);
    }
}
END_TEST

// HEADER => RANK BYTES
static const char *const shapes[] = {
    "{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n => 0 4",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }\n => 1 20",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (5L, 2L)}\n => 2 40",
    "{\"shape\":(1,2,3),\"fortran_order\":False,\"descr\":\"<f4\"} => 3 24",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1152921504606846976), }\n => 2 0",
    "{'descr': '|i1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2), } => "
    "12 2",
};

START_TEST(shapes_of_any_rank_order_and_spacing_are_read)
{
    size_t n, bytes;
    int rank;
    char *message = NULL, *header = strdup(shapes[_i]), *arrow = strstr(header, " => ");
    ck_assert_int_eq(sscanf(arrow + 4, "%d %zu", &rank, &bytes), 2);
    *arrow = '\0';
    unsigned char *file = file_of(1, header, bytes, &n);
    struct npy a;
    ck_assert_msg(npy_parse(file, n, &a, &message), "%s", message);
    ck_assert_int_eq(a.rank, rank);
    ck_assert_uint_eq(a.bytes, bytes);
    npy_free(&a);
    free(file);
    free(header);
}
END_TEST

// HEADER => BYTES of elements, and the message
static const char *const refusals[] = {
    "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), } => 08 is in Fortran order; save "
    "numpy.ascontiguousarray of it",
    "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), } => 08 is big-endian ('>f4'); save "
    "it as '<f4'",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2,), } => 08 holds pickled Python objects, "
    "which are not read",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), } => 08 has structured "
    "elements; save its fields one by one",
    "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), } => 08 has elements of type '<c8'; "
    "quern reads f4 f2 f8 i4 i8 i1 u1 b1, and V2 as bf16",
    "{'descr': '<U3', 'fortran_order': False, 'shape': (1,), } => 12 has elements of type '<U3'; "
    "quern reads f4 f2 f8 i4 i8 i1 u1 b1, and V2 as bf16",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } => 08 is truncated: its shape needs "
    "12 bytes of elements and it has 8",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } => 08 has 4 bytes after its last "
    "element",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), } => 08 has a "
    "shape too large to be true",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,), } => 08 has a shape "
    "too large to be true",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), } => 08 has a "
    "shape with a dimension that is no size",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), } => 08 has a shape with a dimension "
    "that is no size",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), } => 08 is truncated: its "
    "shape needs 4000000000000 bytes of elements and it has 8",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2), } => 08 has a header without a "
    "readable 'shape'",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,2), } => 08 has "
    "more than 12 dimensions",
    "{'descr': '<f4', 'fortran_order': False, } => 08 has a header without descr, fortran_order "
    "and shape",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1} => 08 has a header with an "
    "unknown key 'more'",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x => 08 has a header with something "
    "after its dict",
    " => 08 has a header that is no dict",
};

START_TEST(what_cannot_be_read_is_refused_with_its_reason)
{
    size_t n;
    char *message = NULL, *header = strdup(refusals[_i]), *arrow = strstr(header, " => ");
    *arrow = '\0';
    unsigned char *file = file_of(1, header, (size_t)atoi(arrow + 4), &n);
    struct npy a;
    ck_assert(!npy_parse(file, n, &a, &message));
    ck_assert_str_eq(message, arrow + 7);
    free(message);
    free(file);
    free(header);
}
END_TEST

START_TEST(a_later_version_is_refused)
{
    size_t n;
    char *message = NULL;
    unsigned char *file =
        file_of(4, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, &n);
    struct npy a;
    ck_assert(!npy_parse(file, n, &a, &message));
    ck_assert_str_eq(message, "is of .npy version 4.0; 1.0, 2.0 and 3.0 are known");
    free(message);
    free(file);
}
END_TEST

START_TEST(archives_and_other_files_are_told_apart)
{
    char *message = NULL;
    struct npy a;
    ck_assert(!npy_parse("PK\3\4rest of an archive", 20, &a, &message));
    ck_assert_str_eq(message, "is an .npz archive; save its arrays one by one as .npy");
    free(message);
    ck_assert(!npy_parse("1.0 2.0 3.0\n", 12, &a, &message));
    ck_assert_str_eq(message, "is not an .npy file");
    free(message);
    ck_assert(!npy_parse("", 0, &a, &message));
    free(message);
    ck_assert(!npy_read("/nonexistent/x.npy", &a, &message));
    ck_assert_str_eq(message, "cannot be read: No such file or directory");
    free(message);
    ck_assert(!npy_read("/", &a, &message));
    ck_assert_str_eq(message, "cannot be read: Is a directory");
    free(message);
    ck_assert(!npy_read("/dev/zero", &a, &message));
    ck_assert_str_eq(message, "is a device, not a file");
    free(message);
}
END_TEST

START_TEST(the_header_is_the_one_numpy_writes)
{
    static const char expected[128] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': "
                                      "False, 'shape': (8, 64, 128), }  "
                                      "                                               ";
    size_t n;
    char *header = npy_header(QUERN_F32, 3, (const int64_t[]){8, 64, 128}, &n);
    ck_assert_uint_eq(n, 128);
    ck_assert_int_eq(header[127], '\n');
    ck_assert_mem_eq(header, expected, 78);
    for (int i = 78; i < 127; i++)
        ck_assert_int_eq(header[i], ' ');
    free(header);
}
END_TEST

START_TEST(what_is_written_is_read_back)
{
    for (quern_dtype dtype = QUERN_F32; dtype <= QUERN_BOOL; dtype++)
        for (int rank = 0; rank <= NPY_MAX_RANK; rank++) {
            int64_t dim[NPY_MAX_RANK];
            size_t n, bytes = (size_t)quern_dtype_bytes(dtype);
            for (int i = 0; i < rank; i++) {
                dim[i] = i % 3 + 1;
                bytes *= (size_t)dim[i];
            }
            char *header = npy_header(dtype, rank, dim, &n), *message = NULL;
            ck_assert_uint_eq(n % 64, 0);
            unsigned char *file = calloc(1, n + bytes);
            memcpy(file, header, n);
            struct npy a;
            ck_assert_msg(npy_parse(file, n + bytes, &a, &message), "%s", message);
            ck_assert_int_eq(a.dtype, dtype);
            ck_assert_int_eq(a.rank, rank);
            for (int i = 0; i < rank; i++)
                ck_assert_int_eq(a.dim[i], dim[i]);
            npy_free(&a);
            free(file);
            free(header);
        }
}
END_TEST

START_TEST(no_beginning_of_a_file_is_a_file)
{
    size_t n;
    unsigned char *file =
        file_of(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, &n);
    for (size_t cut = 0; cut < n; cut++) {
        unsigned char *part = malloc(cut ? cut : 1); // of its own, so that reading past it is seen
        char *message = NULL;
        struct npy a;
        memcpy(part, file, cut);
        ck_assert(!npy_parse(part, cut, &a, &message));
        ck_assert_ptr_nonnull(message);
        free(message);
        free(part);
    }
    free(file);
}
END_TEST

static uint32_t next(uint32_t *state) // xorshift
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

START_TEST(a_damaged_header_is_refused_or_describes_its_file)
{
    size_t n;
    unsigned char *file =
        file_of(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (20, 3), }\n", 240, &n);
    unsigned char *damaged = malloc(n);
    uint32_t state = 12345;
    int n_read = 0;
    for (int round = 0; round < 50000; round++) {
        static const char likely[] = "0123456789(),'{}:<>|[] fiubVOTL\0\xff";
        memcpy(damaged, file, n);
        for (uint32_t k = next(&state) % 3 + 1; k > 0; k--)
            damaged[next(&state) % (n - 240)] =
                (unsigned char)likely[next(&state) % (sizeof likely - 1)];
        char *message = NULL;
        struct npy a;
        if (npy_parse(damaged, n, &a, &message)) {
            n_read++;
            ck_assert_uint_eq(a.bytes, 240);
            npy_free(&a);
        } else {
            ck_assert_ptr_nonnull(message);
            free(message);
        }
    }
    ck_assert_int_gt(n_read, 0); // the damage is not so great that nothing is ever tried
    free(damaged);
    free(file);
}
END_TEST

Suite *npy_suite(void)
{
    Suite *s = suite_create("npy");
    TCase *t = tcase_create(".npy files");
    tcase_add_loop_test(t, every_dtype_is_read_in_every_version, 0, sizeof dtypes / sizeof *dtypes);
    tcase_add_loop_test(t, shapes_of_any_rank_order_and_spacing_are_read, 0,
                        sizeof shapes / sizeof *shapes);
    tcase_add_loop_test(t, what_cannot_be_read_is_refused_with_its_reason, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(t, a_later_version_is_refused);
    tcase_add_test(t, archives_and_other_files_are_told_apart);
    tcase_add_test(t, the_header_is_the_one_numpy_writes);
    tcase_add_test(t, what_is_written_is_read_back);
    tcase_add_test(t, no_beginning_of_a_file_is_a_file);
    tcase_add_test(t, a_damaged_header_is_refused_or_describes_its_file);
    suite_add_tcase(s, t);
    return s;
}
