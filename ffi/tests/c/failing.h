// A failing call returns its status, says why, and leaves its outputs and the directory unchanged.
#ifndef SHMARRAY_TESTS_FAILING_H
#define SHMARRAY_TESTS_FAILING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <shmarray.h>

#include "directory.h"

static const int64_t two_by_three[] = {2, 3};
// The value of each output before a call; a failing call leaves it unchanged.
static shma_array *const untouched = (shma_array *)&two_by_three;

static int nothing_is_left(void **state) {
    (void)state;
    return files_in_directory();
}

// Asserts that the status was returned and is in the error, and that the message has these words.
static void expect_failure(int32_t status, int32_t expected, const shma_error *error,
                           const char *words) {
    assert_int_equal(status, expected);
    assert_int_equal(error->status, expected);
    if (!strstr(error->message, words))
        fail_msg("\"%s\" does not say \"%s\"", error->message, words);
}

static inline void expect_create(shma_dtype dtype, const int64_t *shape,
                                 const shma_options *options, int32_t expected, const char *words) {
    shma_error error = SHMA_ERROR_INIT;
    shma_array *array = untouched;
    expect_failure(shma_array_create(dtype, 2, shape, options, &array, &error), expected, &error,
                   words);
    assert_ptr_equal(array, untouched);
}

#endif
