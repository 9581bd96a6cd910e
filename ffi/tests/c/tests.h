// What all tests in C share. A failing call returns its status, says why, and leaves its outputs
// and the directory unchanged.
#ifndef SHMARRAY_TESTS_TESTS_H
#define SHMARRAY_TESTS_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <shmarray.h>

#include "directory.h"

// cmocka passes a state to each test, which few of them read.
#pragma GCC diagnostic ignored "-Wunused-parameter"

// Each test leaves as many files as it found: none.
#define TEST(name) cmocka_unit_test_teardown(name, nothing_is_left)

#define expect_ok(call) assert_int_equal(call, SHMA_OK)

// Asserts that the call, which writes to `error`, failed with that status, and that the message has
// these words.
#define expect_failure(call, expected, words)                                                      \
    (error = (shma_error)SHMA_ERROR_INIT, check_failure(call, expected, &error, words))

static shma_error error;

static const int64_t two_by_three[] = {2, 3};
// The value of each output before a call; a failing call leaves it unchanged.
static shma_array *const untouched = (shma_array *)&two_by_three;

static inline int nothing_is_left(void **state) { return files_in_directory(); }

static inline void check_failure(int32_t status, int32_t expected, const shma_error *found,
                                 const char *words) {
    assert_int_equal(status, expected);
    assert_int_equal(found->status, expected);
    if (!strstr(found->message, words))
        fail_msg("\"%s\" does not say \"%s\"", found->message, words);
}

static inline void expect_create(shma_dtype dtype, const int64_t *shape,
                                 const shma_options *options, int32_t expected, const char *words) {
    shma_array *array = untouched;
    expect_failure(shma_array_create(dtype, 2, shape, options, &array, &error), expected, words);
    assert_ptr_equal(array, untouched);
}

// Attaches an array by its handle, which the caller closes.
static inline shma_array *attached_again(const shma_array *array, shma_access access) {
    char handle[4096];
    shma_array *again = NULL;
    expect_ok(shma_array_handle(array, handle, sizeof handle, NULL, NULL));
    expect_ok(shma_array_attach(handle, access, &again, NULL));
    return again;
}

// Returns the number of segments that a sweep gave back.
static inline uint64_t swept(void) {
    uint64_t segments = 0;
    expect_ok(shma_sweep(&segments, NULL, NULL));
    return segments;
}

#endif
