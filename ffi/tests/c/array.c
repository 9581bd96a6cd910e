// Arrays in C: creation, attaching, views and properties.
#include "tests.h"

static shma_array *make(shma_dtype dtype, size_t ndim, const int64_t *shape) {
    shma_error error = SHMA_ERROR_INIT;
    shma_array *array = NULL;
    expect_ok(shma_array_create(dtype, ndim, shape, NULL, &array, &error));
    assert_int_equal(error.status, 0);
    return array;
}

static void expect_numbers(const int64_t *found, size_t count, const int64_t *expected) {
    assert_non_null(found);
    assert_memory_equal(found, expected, count * sizeof *expected);
}

static int32_t element(const shma_array *array, int64_t i, int64_t j) {
    const int64_t *strides = shma_array_strides(array);
    int32_t value;
    memcpy(&value, (const char *)shma_array_data(array) + i * strides[0] + j * strides[1],
           sizeof value);
    return value;
}

// Returns an array of 3 × 4 whose element (i, j) is 10 i + j.
static shma_array *make_tens(void) {
    shma_array *array = make(SHMA_INT32, 2, (int64_t[]){3, 4});
    int32_t *values = shma_array_data(array);
    for (int32_t i = 0; i < 3; i++)
        for (int32_t j = 0; j < 4; j++)
            values[4 * i + j] = 10 * i + j;
    return array;
}

static void a_new_array_is_zeros_and_tells_its_facts(void **state) {
    shma_array *array = make(SHMA_INT32, 3, (int64_t[]){2, 3, 3});
    assert_int_equal(shma_array_ndim(array), 3);
    expect_numbers(shma_array_shape(array), 3, (int64_t[]){2, 3, 3});
    expect_numbers(shma_array_strides(array), 3, (int64_t[]){36, 12, 4});
    assert_int_equal(shma_array_size(array), 18);
    assert_int_equal(shma_array_itemsize(array), 4);
    assert_int_equal(shma_array_dtype(array), SHMA_INT32);
    assert_int_equal(shma_array_is_readonly(array), 0);
    assert_int_equal(shma_array_is_contiguous(array, SHMA_ORDER_C), 1);
    assert_int_equal(shma_array_is_contiguous(array, SHMA_ORDER_F), 0);
    assert_int_equal(shma_array_is_aligned(array, 4), 1);
    assert_int_equal(shma_array_is_aligned(array, 8), 0); // its rows have 12 bytes
    assert_memory_equal(shma_array_data(array), (int32_t[18]){0}, 18 * sizeof(int32_t));
    shma_array_close(array);
}

static void an_array_is_made_over_memory_of_another(void **state) {
    shma_array *array = make_tens(), *found = NULL;
    int32_t *values = shma_array_data(array);
    shma_error error = SHMA_ERROR_INIT;
    expect_ok(shma_array_over_memory(values + 5, SHMA_INT32, 2, (int64_t[]){2, 2},
                                     (int64_t[]){16, 4}, &found, &error));
    shma_array_close(array);
    assert_ptr_equal(shma_array_data(found), values + 5);
    assert_int_equal(element(found, 0, 1), 12);
    assert_int_equal(element(found, 1, 0), 21);
    shma_array *bytes = NULL;
    expect_ok(shma_array_over_memory(values, SHMA_UINT8, 1, (int64_t[]){48}, NULL, &bytes, &error));
    assert_int_equal(shma_array_size(bytes), 48);
    shma_array *none = NULL;
    int32_t own[3] = {0};
    const void *wrong[] = {own, values + 12, NULL};
    for (size_t i = 0; i < 3; i++) {
        shma_status status =
            shma_array_over_memory(wrong[i], SHMA_INT32, 1, (int64_t[]){4096}, NULL, &none, &error);
        assert_int_equal(status, SHMA_ERROR_INVALID_ARGUMENT);
        assert_null(none);
    }
    shma_array_close(found);
    shma_array_close(bytes);
}

static void every_dtype_has_its_size_and_name(void **state) {
    static const struct {
        shma_dtype dtype;
        size_t itemsize;
        const char *name, *text;
    } rows[] = {
        {SHMA_BOOL, 1, "bool", "|b1"},
        {SHMA_INT8, 1, "int8", "|i1"},
        {SHMA_INT16, 2, "int16", "<i2"},
        {SHMA_INT32, 4, "int32", "<i4"},
        {SHMA_INT64, 8, "int64", "<i8"},
        {SHMA_UINT8, 1, "uint8", "|u1"},
        {SHMA_UINT16, 2, "uint16", "<u2"},
        {SHMA_UINT32, 4, "uint32", "<u4"},
        {SHMA_UINT64, 8, "uint64", "<u8"},
        {SHMA_FLOAT16, 2, "float16", "<f2"},
        {SHMA_FLOAT32, 4, "float32", "<f4"},
        {SHMA_FLOAT64, 8, "float64", "<f8"},
        {SHMA_COMPLEX64, 8, "complex64", "<c8"},
        {SHMA_COMPLEX128, 16, "complex128", "<c16"},
        {SHMA_BFLOAT16, 2, "bfloat16", "bfloat16"},
        {SHMA_INT4, 1, "int4", "int4"},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        char text[16];
        shma_array *array = make(rows[row].dtype, 1, (int64_t[]){5});
        assert_int_equal(shma_array_dtype(array), rows[row].dtype);
        assert_int_equal(shma_array_itemsize(array), rows[row].itemsize);
        assert_int_equal(shma_dtype_itemsize(rows[row].dtype), rows[row].itemsize);
        assert_string_equal(shma_dtype_name(rows[row].dtype), rows[row].name);
        expect_ok(shma_array_dtype_text(array, text, sizeof text, NULL, NULL));
        assert_string_equal(text, rows[row].text);
        shma_array_close(array);
    }
    assert_int_equal(shma_dtype_itemsize(SHMA_OPAQUE), 0);
    assert_int_equal(shma_dtype_itemsize(SHMA_DTYPE_COUNT + 1), 0);
    assert_null(shma_dtype_name(SHMA_OPAQUE));
    assert_null(shma_dtype_name(-1));
}

static void an_attached_array_is_the_same_memory(void **state) {
    shma_array *array = make_tens(), *attached = NULL;
    attached = attached_again(array, SHMA_READ_WRITE);
    ((int32_t *)shma_array_data(array))[6] = -6;
    assert_int_equal(element(attached, 1, 2), -6);
    ((int32_t *)shma_array_data(attached))[6] = -7;
    assert_int_equal(element(array, 1, 2), -7);
    shma_array_close(array);
    assert_int_equal(element(attached, 1, 2), -7);
    assert_int_equal(files_in_directory(), 1);
    shma_array_close(attached);
}

static void a_readonly_attach_says_so_and_reads(void **state) {
    shma_array *array = make_tens(), *reader = NULL, *view = NULL;
    reader = attached_again(array, SHMA_READ_ONLY);
    assert_int_equal(shma_array_is_readonly(reader), 1);
    expect_ok(shma_array_transpose(reader, NULL, &view, NULL));
    assert_int_equal(shma_array_is_readonly(view), 1);
    assert_int_equal(element(view, 3, 2), 23);
    shma_array_close(view);
    shma_array_close(reader);
    shma_array_close(array);
}

static void a_slice_steps_and_reverses(void **state) {
    shma_array *array = make_tens(), *view = NULL;
    expect_ok(shma_array_slice(array, 1, 1, SHMA_END, 2, &view, NULL));
    expect_numbers(shma_array_shape(view), 2, (int64_t[]){3, 2});
    expect_numbers(shma_array_strides(view), 2, (int64_t[]){16, 8});
    assert_int_equal(element(view, 2, 1), 23);
    shma_array_close(view);
    expect_ok(shma_array_slice(array, 0, SHMA_END, SHMA_END, -1, &view, NULL));
    expect_numbers(shma_array_strides(view), 2, (int64_t[]){-16, 4});
    assert_int_equal(element(view, 0, 3), 23);
    shma_array_close(view);
    expect_ok(shma_array_slice(array, 1, -2, -1, 1, &view, NULL));
    expect_numbers(shma_array_shape(view), 2, (int64_t[]){3, 1});
    assert_int_equal(element(view, 1, 0), 12);
    shma_array_close(array);
    assert_int_equal(element(view, 1, 0), 12); // the view holds the memory
    shma_array_close(view);
}

static void select_takes_a_dimension_away(void **state) {
    shma_array *array = make_tens(), *row = NULL, *scalar = NULL;
    expect_ok(shma_array_select(array, 0, -1, &row, NULL));
    assert_int_equal(shma_array_ndim(row), 1);
    assert_memory_equal(shma_array_data(row), ((int32_t[]){20, 21, 22, 23}), 16);
    expect_ok(shma_array_select(row, 0, 1, &scalar, NULL));
    assert_int_equal(shma_array_ndim(scalar), 0);
    assert_int_equal(shma_array_size(scalar), 1);
    assert_int_equal(*(int32_t *)shma_array_data(scalar), 21);
    shma_array_close(scalar);
    shma_array_close(row);
    shma_array_close(array);
}

static void transpose_reverses_or_takes_axes(void **state) {
    shma_array *array = make(SHMA_INT16, 3, (int64_t[]){2, 3, 4}), *view = NULL;
    expect_ok(shma_array_transpose(array, NULL, &view, NULL));
    expect_numbers(shma_array_shape(view), 3, (int64_t[]){4, 3, 2});
    expect_numbers(shma_array_strides(view), 3, (int64_t[]){2, 8, 24});
    assert_int_equal(shma_array_is_contiguous(view, SHMA_ORDER_F), 1);
    shma_array_close(view);
    expect_ok(shma_array_transpose(array, (size_t[]){1, 0, 2}, &view, NULL));
    expect_numbers(shma_array_shape(view), 3, (int64_t[]){3, 2, 4});
    expect_numbers(shma_array_strides(view), 3, (int64_t[]){8, 24, 2});
    shma_array_close(view);
    shma_array_close(array);
}

static void reshape_keeps_the_elements_and_refuses_a_copy(void **state) {
    shma_array *array = make_tens(), *view = NULL, *columns = NULL, *turned = NULL;
    expect_ok(shma_array_reshape(array, 2, (int64_t[]){6, 2}, &view, &error));
    expect_numbers(shma_array_strides(view), 2, (int64_t[]){8, 4});
    assert_int_equal(element(view, 3, 1), 13);
    shma_array_close(view);
    expect_ok(shma_array_slice(array, 1, 0, SHMA_END, 2, &columns, &error));
    expect_ok(shma_array_reshape(columns, 2, (int64_t[]){2, 3}, &view, &error));
    expect_numbers(shma_array_strides(view), 2, (int64_t[]){24, 8});
    assert_int_equal(element(view, 1, 2), 22);
    shma_array_close(view);
    shma_array_close(columns);
    expect_ok(shma_array_transpose(array, NULL, &turned, &error));
    expect_failure(shma_array_reshape(turned, 1, (int64_t[]){12}, &view, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "would need a copy");
    expect_failure(shma_array_reshape(array, 1, (int64_t[]){11}, &view, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "another number of elements");
    shma_array_close(turned);
    shma_array_close(array);
}

static void a_view_has_its_own_shape_strides_and_offset(void **state) {
    shma_array *array = make_tens(), *view = NULL, *again = NULL;
    expect_ok(shma_array_view(array, 2, (int64_t[]){2, 2}, (int64_t[]){16, 4}, 20, &view, NULL));
    assert_int_equal(element(view, 0, 0), 11);
    assert_int_equal(element(view, 1, 1), 22);
    assert_ptr_equal(shma_array_data(view), (char *)shma_array_data(array) + 20);
    expect_ok(shma_array_view(view, 2, (int64_t[]){1, 2}, NULL, -0, &again, NULL));
    expect_numbers(shma_array_strides(again), 2, (int64_t[]){8, 4});
    assert_int_equal(element(again, 0, 1), 12);
    shma_array_close(again);
    shma_array_close(view);
    expect_ok(shma_array_view(array, 2, (int64_t[]){5, 5}, (int64_t[]){0, 0}, 4, &view, NULL));
    assert_int_equal(element(view, 4, 4), 1); // a stride of zero repeats an element
    shma_array_close(view);
    shma_array_close(array);
}

static void a_view_travels_by_its_handle(void **state) {
    shma_array *array = make_tens(), *view = NULL, *attached = NULL;
    expect_ok(shma_array_slice(array, 1, SHMA_END, SHMA_END, -2, &view, NULL));
    const uint64_t copied = shma_copied_bytes();
    attached = attached_again(view, SHMA_READ_ONLY);
    assert_int_equal(shma_copied_bytes(), copied);
    expect_numbers(shma_array_shape(attached), 2, (int64_t[]){3, 2});
    assert_int_equal(element(attached, 2, 1), 21);
    shma_array_close(attached);
    shma_array_close(view);
    shma_array_close(array);
}

static void a_text_that_is_too_short_says_how_long_it_must_be(void **state) {
    shma_array *array = make_tens();
    size_t needed = 0, again = 0;
    char text[4096];
    assert_int_equal(shma_array_handle(array, NULL, 0, &needed, &error), SHMA_ERROR_TEXT_TOO_SHORT);
    assert_int_equal(error.status, SHMA_ERROR_TEXT_TOO_SHORT);
    memset(text, '#', sizeof text);
    assert_int_equal(shma_array_handle(array, text, needed - 1, &again, NULL),
                     SHMA_ERROR_TEXT_TOO_SHORT);
    assert_int_equal(again, needed);
    assert_int_equal(text[0], '#');
    expect_ok(shma_array_handle(array, text, needed, &again, NULL));
    assert_int_equal(again, needed);
    assert_int_equal(strlen(text), needed - 1);
    assert_int_equal(text[needed], '#');
    assert_int_equal(shma_array_dtype_text(array, text, 3, &needed, NULL),
                     SHMA_ERROR_TEXT_TOO_SHORT);
    assert_int_equal(needed, sizeof "<i4");
    shma_array_close(array);
}

static void share_copies_private_memory_of_any_strides(void **state) {
    const int16_t values[2][4] = {{0, 1, 2, 3}, {10, 11, 12, 13}};
    const uint64_t copied = shma_copied_bytes();
    shma_array *array = NULL;
    expect_ok(shma_array_share(values, SHMA_INT16, 2, (int64_t[]){2, 4}, NULL, NULL, &array, NULL));
    assert_memory_equal(shma_array_data(array), values, sizeof values);
    assert_int_equal(shma_copied_bytes() - copied, sizeof values);
    shma_array_close(array);
    const int64_t shape[] = {2, 2}, backwards[] = {8, -4};
    expect_ok(shma_array_share(&values[0][3], SHMA_INT16, 2, shape, backwards, NULL, &array, NULL));
    assert_memory_equal(shma_array_data(array), ((int16_t[]){3, 1, 13, 11}), 8);
    expect_numbers(shma_array_strides(array), 2, (int64_t[]){4, 2});
    shma_array_close(array);
    shma_options options = SHMA_OPTIONS_INIT;
    options.order = SHMA_ORDER_F;
    expect_ok(
        shma_array_share(values, SHMA_INT16, 2, (int64_t[]){2, 4}, NULL, &options, &array, NULL));
    assert_memory_equal(shma_array_data(array), ((int16_t[]){0, 10, 1, 11, 2, 12, 3, 13}), 16);
    shma_array_close(array);
}

static void zero_sizes_and_no_dimensions_are_arrays(void **state) {
    shma_array *array = make(SHMA_FLOAT64, 2, (int64_t[]){0, 3}), *attached = NULL;
    assert_int_equal(shma_array_size(array), 0);
    attached = attached_again(array, SHMA_READ_WRITE);
    expect_numbers(shma_array_shape(attached), 2, (int64_t[]){0, 3});
    shma_array_close(attached);
    shma_array_close(array);
    expect_ok(shma_array_share(NULL, SHMA_INT8, 1, (int64_t[]){0}, NULL, NULL, &array, NULL));
    shma_array_close(array);
    array = make(SHMA_FLOAT64, 0, NULL);
    assert_int_equal(shma_array_size(array), 1);
    *(double *)shma_array_data(array) = 0.5;
    shma_array_close(array);
}

static void an_opaque_dtype_keeps_its_text_and_size(void **state) {
    static const char structured[] = "{\"descr\":[[\"x\",\"<f4\"],[\"y\",\"<i2\"]],\"itemsize\":6}";
    char text[128];
    shma_options options = SHMA_OPTIONS_INIT;
    shma_array *array = NULL, *attached = NULL;
    options.dtype_text = structured;
    expect_ok(shma_array_create(SHMA_OPAQUE, 1, (int64_t[]){4}, &options, &array, NULL));
    attached = attached_again(array, SHMA_READ_WRITE);
    assert_int_equal(shma_array_dtype(attached), SHMA_OPAQUE);
    assert_int_equal(shma_array_itemsize(attached), 6);
    expect_ok(shma_array_dtype_text(attached, text, sizeof text, NULL, NULL));
    assert_string_equal(text, structured);
    shma_array_close(attached);
    shma_array_close(array);
    options.dtype_text = NULL;
    options.itemsize = 24;
    expect_ok(shma_array_create(SHMA_OPAQUE, 1, (int64_t[]){4}, &options, &array, NULL));
    expect_ok(shma_array_dtype_text(array, text, sizeof text, NULL, NULL));
    assert_string_equal(text, "|V24");
    shma_array_close(array);
}

static void a_retained_array_stays_until_each_owner_has_closed_it(void **state) {
    shma_array *array = make_tens(), *view = NULL;
    assert_ptr_equal(shma_array_retain(array), array);
    const shma_array *const reader = array;
    assert_ptr_equal(shma_array_retain(reader), array);
    for (int owners = 3; owners > 1; owners--) {
        shma_array_close(array);
        assert_int_equal(element(array, 1, 2), 12);
        assert_int_equal(files_in_directory(), 1);
    }
    expect_ok(shma_array_select(array, 0, 1, &view, NULL));
    assert_ptr_equal(shma_array_retain(view), view);
    shma_array_close(array);
    shma_array_close(view);
    assert_int_equal(*(int32_t *)shma_array_data(view), 10);
    assert_int_equal(files_in_directory(), 1);
    shma_array_close(view);
    assert_int_equal(files_in_directory(), 0);
}

static void the_initial_options_are_the_ordinary_array(void **state) {
    shma_options options = SHMA_OPTIONS_INIT;
    shma_array *array = NULL;
    expect_ok(shma_array_create(SHMA_INT8, 2, (int64_t[]){2, 3}, &options, &array, NULL));
    assert_int_equal(shma_array_is_contiguous(array, SHMA_ORDER_C), 1);
    shma_array_close(array);
    options.order = SHMA_ORDER_F;
    expect_ok(shma_array_create(SHMA_INT8, 2, (int64_t[]){2, 3}, &options, &array, NULL));
    expect_numbers(shma_array_strides(array), 2, (int64_t[]){1, 2});
    shma_array_close(array);
}

// Creates an array with these options and closes it. Returns the first byte that it had, or -1 if
// the last one differed. Both bytes are set to 5 before the array is closed.
static int begins_with(const shma_options *options, int64_t bytes) {
    shma_array *array = NULL;
    expect_ok(shma_array_create(SHMA_UINT8, 1, &bytes, options, &array, NULL));
    uint8_t *data = shma_array_data(array);
    const int found = data[0] == data[bytes - 1] ? data[0] : -1;
    data[0] = data[bytes - 1] = 5;
    shma_array_close(array);
    return found;
}

static void memory_is_used_again_and_cleared_unless_the_options_say_otherwise(void **state) {
    shma_options as_it_is = SHMA_OPTIONS_INIT;
    as_it_is.uninitialized = 1;
    setenv("SHMARRAY_POOL_BYTES", "100000000", 1);
    for (int64_t bytes = 100; bytes < 10000000; bytes *= 100) {
        assert_int_equal(begins_with(NULL, bytes), 0);
        assert_int_equal(begins_with(&as_it_is, bytes), 5);
        assert_int_equal(begins_with(NULL, bytes), 0);
    }
    setenv("SHMARRAY_POOL_BYTES", "0", 1);
    expect_ok(shma_sweep(NULL, NULL, NULL));
}

static void the_version_is_that_of_the_package(void **state) {
    assert_string_equal(shma_version(), SHMARRAY_VERSION);
    assert_string_equal(SHMA_VERSION_STRING, SHMARRAY_VERSION);
    char numbers[64];
    snprintf(numbers, sizeof numbers, "%d.%d.%d", SHMA_VERSION_MAJOR, SHMA_VERSION_MINOR,
             SHMA_VERSION_PATCH);
    assert_string_equal(numbers, SHMARRAY_VERSION);
    assert_int_equal(shma_abi(), SHMA_ABI);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_new_array_is_zeros_and_tells_its_facts),
        TEST(an_array_is_made_over_memory_of_another),
        TEST(every_dtype_has_its_size_and_name),
        TEST(an_attached_array_is_the_same_memory),
        TEST(a_readonly_attach_says_so_and_reads),
        TEST(a_slice_steps_and_reverses),
        TEST(select_takes_a_dimension_away),
        TEST(transpose_reverses_or_takes_axes),
        TEST(reshape_keeps_the_elements_and_refuses_a_copy),
        TEST(a_view_has_its_own_shape_strides_and_offset),
        TEST(a_view_travels_by_its_handle),
        TEST(a_text_that_is_too_short_says_how_long_it_must_be),
        TEST(share_copies_private_memory_of_any_strides),
        TEST(zero_sizes_and_no_dimensions_are_arrays),
        TEST(an_opaque_dtype_keeps_its_text_and_size),
        TEST(a_retained_array_stays_until_each_owner_has_closed_it),
        TEST(the_initial_options_are_the_ordinary_array),
        TEST(memory_is_used_again_and_cleared_unless_the_options_say_otherwise),
        TEST(the_version_is_that_of_the_package),
    };
    return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
