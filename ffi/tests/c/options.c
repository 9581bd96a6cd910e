// The options of a creation in C: those that the library cannot honour are refused.
#include "tests.h"

// The options of a program that was compiled with a later version of the header.
struct later_options {
    shma_options known;
    uint64_t first, second;
};

static void options_of_a_later_version_are_refused_unless_zero(void **state) {
    struct later_options later = {SHMA_OPTIONS_INIT, 0, 0};
    shma_array *array = NULL;
    for (size_t fields = 1; fields <= 2; fields++) {
        later.known.struct_bytes = sizeof later.known + fields * sizeof later.first;
        expect_ok(shma_array_create(SHMA_INT8, 2, two_by_three, &later.known, &array, NULL));
        shma_array_close(array);
    }
    later.second = UINT64_C(1) << 63; // only the last byte
    expect_create(SHMA_INT8, two_by_three, &later.known, SHMA_ERROR_INVALID_ARGUMENT,
                  "invalid options: a field of a later version is set: byte 63 of 64");
    const int8_t data[6] = {0};
    array = untouched;
    expect_failure(
        shma_array_share(data, SHMA_INT8, 2, two_by_three, NULL, &later.known, &array, &error),
        SHMA_ERROR_INVALID_ARGUMENT, "a later version");
    assert_ptr_equal(array, untouched);
}

static void options_without_a_version_are_refused(void **state) {
    static const size_t sizes[] = {0, 1, 8, 40, 47, 49, 52, 100000, SIZE_MAX};
    struct later_options later = {SHMA_OPTIONS_INIT, 0, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        later.known.struct_bytes = sizes[i];
        expect_create(SHMA_INT8, two_by_three, &later.known, SHMA_ERROR_INVALID_ARGUMENT,
                      "invalid struct_bytes");
    }
}

static void expect_dtype(shma_dtype dtype, const char *text, uint64_t itemsize, const char *words) {
    shma_options options = SHMA_OPTIONS_INIT;
    options.dtype_text = text;
    options.itemsize = itemsize;
    shma_array *array = NULL;
    if (words) {
        expect_create(dtype, two_by_three, &options, SHMA_ERROR_INVALID_ARGUMENT, words);
    } else {
        expect_ok(shma_array_create(dtype, 2, two_by_three, &options, &array, NULL));
        shma_array_close(array);
    }
}

static void options_that_contradict_the_dtype_are_refused(void **state) {
    expect_dtype(SHMA_INT32, "<i4", 4, NULL);
    expect_dtype(SHMA_INT32, NULL, 4, NULL);
    expect_dtype(SHMA_INT32, "<f8", 0, "invalid dtype_text: \"<f8\"");
    expect_dtype(SHMA_INT32, ">i4", 4, "invalid dtype_text: \">i4\"");
    expect_dtype(SHMA_INT32, "not one", 0, "invalid dtype_text: \"not one\"");
    expect_dtype(SHMA_INT32, NULL, 8, "invalid itemsize: 8");
    expect_dtype(SHMA_OPAQUE, "<i4", 4, NULL);
    expect_dtype(SHMA_OPAQUE, "|V24", 24, NULL);
    expect_dtype(SHMA_OPAQUE, "|V24", 23, "invalid itemsize: 23");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(options_of_a_later_version_are_refused_unless_zero),
        TEST(options_without_a_version_are_refused),
        TEST(options_that_contradict_the_dtype_are_refused),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
