// Failures in C: the status, the field that the message names, and NULL for every pointer.
#include <errno.h>

#include "tests.h"

static shma_array *make(void) {
    shma_array *array = NULL;
    expect_ok(shma_array_create(SHMA_INT32, 2, two_by_three, NULL, &array, NULL));
    return array;
}

static void expect_attach(const char *handle, int32_t expected, const char *words) {
    shma_array *array = untouched;
    expect_failure(shma_array_attach(handle, SHMA_READ_WRITE, &array, &error), expected, words);
    assert_ptr_equal(array, untouched);
}

static void a_bad_argument_is_named(void **state) {
    const shma_options fresh = SHMA_OPTIONS_INIT;
    shma_options options = fresh;
    expect_create(99, two_by_three, NULL, SHMA_ERROR_INVALID_DTYPE, "99");
    expect_create(SHMA_INT8, (int64_t[]){2, -1}, NULL, SHMA_ERROR_INVALID_ARGUMENT,
                  "invalid shape");
    expect_create(SHMA_INT8, (int64_t[]){INT64_MAX, 2}, NULL, SHMA_ERROR_INVALID_ARGUMENT,
                  "invalid shape");
    options.name = "a/b";
    expect_create(SHMA_INT8, two_by_three, &options, SHMA_ERROR_INVALID_ARGUMENT,
                  "invalid name \"a/b\"");
    options = fresh;
    options.persist = 1;
    expect_create(SHMA_INT8, two_by_three, &options, SHMA_ERROR_INVALID_ARGUMENT,
                  "invalid persist");
    options = fresh;
    options.mode = 4 << 6; // 0400, which C2y writes 0o400
    expect_create(SHMA_INT8, two_by_three, &options, SHMA_ERROR_INVALID_ARGUMENT, "invalid mode");
    options = fresh;
    options.order = 2;
    expect_create(SHMA_INT8, two_by_three, &options, SHMA_ERROR_INVALID_ARGUMENT, "invalid order");
    options = fresh;
    options.dtype_text = "|O8";
    expect_create(SHMA_OPAQUE, two_by_three, &options, SHMA_ERROR_INVALID_DTYPE, "|O8");
}

static void too_many_dimensions_are_refused(void **state) {
    int64_t shape[65];
    shma_array *array = untouched;
    for (size_t dimension = 0; dimension < 65; dimension++)
        shape[dimension] = 1;
    expect_failure(shma_array_create(SHMA_INT8, 65, shape, NULL, &array, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "65 dimensions");
    expect_ok(shma_array_create(SHMA_INT8, 64, shape, NULL, &array, &error));
    shma_array_close(array);
}

static void full_shared_memory_says_how_much_was_asked(void **state) {
    const int64_t exbibyte = INT64_C(1) << 60;
    expect_create(SHMA_INT8, (int64_t[]){1, exbibyte}, NULL, SHMA_ERROR_NO_SPACE, "11529215046068");
}

static void a_system_error_has_its_number(void **state) {
    shma_array *array = untouched;
    char *directory = strdup(getenv("SHMARRAY_DIR"));
    setenv("SHMARRAY_DIR", "/dev/shm/there is no such directory", 1);
    const int32_t status = shma_array_create(SHMA_INT8, 0, NULL, NULL, &array, &error);
    setenv("SHMARRAY_DIR", directory, 1);
    free(directory);
    check_failure(status, SHMA_ERROR_OS, &error, "there is no such directory");
    assert_int_equal(error.os_errno, ENOENT);
}

// Returns `text` with its only `from` replaced by `to`.
static const char *changed(const char *text, const char *from, const char *to) {
    static char made[4096];
    const char *found = strstr(text, from);
    assert_non_null(found);
    snprintf(made, sizeof made, "%.*s%s%s", (int)(found - text), text, to, found + strlen(from));
    return made;
}

static const char *of_another_generation(const char *handle) {
    unsigned long long generation = 0;
    char from[64], to[64];
    const char *found = strstr(handle, "\"generation\":");
    assert_non_null(found);
    assert_int_equal(sscanf(found, "\"generation\":%llu", &generation), 1);
    snprintf(from, sizeof from, "\"generation\":%llu", generation);
    snprintf(to, sizeof to, "\"generation\":%llu", generation ^ 1);
    return changed(handle, from, to);
}

static void a_broken_handle_names_its_field(void **state) {
    char handle[4096];
    shma_array *array = make();
    expect_ok(shma_array_handle(array, handle, sizeof handle, NULL, NULL));
    expect_attach(changed(handle, "[2,3]", "[2,null]"), SHMA_ERROR_INVALID_HANDLE, "shape[1]");
    expect_attach(changed(handle, "[2,3]", "[2]"), SHMA_ERROR_INVALID_HANDLE, "strides");
    expect_attach(changed(handle, "[2,3]", "[200,3]"), SHMA_ERROR_INVALID_HANDLE,
                  "shape, strides, offset");
    expect_attach(changed(handle, "\"offset\":0", "\"offset\":-1"), SHMA_ERROR_INVALID_HANDLE,
                  "offset");
    expect_attach(changed(handle, "\"offset\":0,", ""), SHMA_ERROR_INVALID_HANDLE,
                  "offset: missing field");
    expect_attach(changed(handle, "<i4", "<i3"), SHMA_ERROR_INVALID_HANDLE, "dtype");
    expect_attach(changed(handle, "\"shmarray\":1", "\"shmarray\":2"), SHMA_ERROR_INVALID_HANDLE,
                  "shmarray");
    expect_attach(changed(handle, "]}", "],\"colour\":1}"), SHMA_ERROR_INVALID_HANDLE,
                  "colour: unknown field");
    expect_attach(of_another_generation(handle), SHMA_ERROR_STALE_HANDLE, "stale handle");
    expect_attach("", SHMA_ERROR_INVALID_ARGUMENT, "invalid name");
    shma_array_close(array);
    expect_attach(handle, SHMA_ERROR_NOT_FOUND, "no segment");
}

static void text_that_is_not_utf8_is_refused(void **state) {
    expect_attach("\xff", SHMA_ERROR_INVALID_ARGUMENT, "handle_or_name");
}

static void a_file_that_is_no_segment_is_refused(void **state) {
    char path[4096];
    snprintf(path, sizeof path, "%s/shmarray-aaaaaaaaaaaaaaaaaaaaaaaa", getenv("SHMARRAY_DIR"));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int byte = 0; byte < 8192; byte++)
        fputc(byte, file);
    fclose(file);
    expect_attach(
        "{\"shmarray\":1,\"segment\":\"aaaaaaaaaaaaaaaaaaaaaaaa\",\"generation\":7,\"offset\":0,"
        "\"dtype\":\"<i4\",\"shape\":[],\"strides\":[]}",
        SHMA_ERROR_INVALID_SEGMENT, "magic");
    remove(path);
}

static void a_view_cannot_leave_its_array(void **state) {
    shma_array *array = make(), *row = NULL, *view = untouched;
    expect_ok(shma_array_select(array, 0, 0, &row, NULL));
    const int64_t four = 4, step = 4;
    expect_failure(shma_array_view(row, 1, &four, &step, 0, &view, &error),
                   SHMA_ERROR_OUT_OF_BOUNDS, "the view"); // although the array itself is longer
    expect_failure(shma_array_view(row, 1, &step, &step, -4, &view, &error),
                   SHMA_ERROR_OUT_OF_BOUNDS, "the view");
    expect_failure(shma_array_select(array, 0, 2, &view, &error), SHMA_ERROR_OUT_OF_BOUNDS,
                   "invalid index");
    expect_failure(shma_array_select(array, 2, 0, &view, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   "invalid dimension");
    expect_failure(shma_array_slice(array, 0, 0, 1, 0, &view, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   "invalid step");
    expect_failure(shma_array_transpose(array, (size_t[]){0, 0}, &view, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "invalid axes");
    assert_ptr_equal(view, untouched);
    shma_array_close(row);
    shma_array_close(array);
}

static void a_status_has_its_name(void **state) {
    shma_array *array = untouched;
    assert_string_equal(shma_status_name(shma_array_attach("nobody", SHMA_READ_ONLY, &array, NULL)),
                        "SHMA_ERROR_NOT_FOUND");
    assert_string_equal(shma_status_name(SHMA_OK), "SHMA_OK");
    assert_string_equal(shma_status_name(SHMA_CLOSED), "SHMA_CLOSED");
    assert_string_equal(shma_status_name(SHMA_FULL), "SHMA_FULL");
    assert_string_equal(shma_status_name(SHMA_SENDER_DIED), "SHMA_SENDER_DIED");
    assert_string_equal(shma_status_name(SHMA_ABSENT), "SHMA_ABSENT");
    assert_null(shma_status_name(SHMA_ABSENT + 1));
    assert_null(shma_status_name(INT32_MIN));
}

static void success_leaves_the_error_alone(void **state) {
    shma_error error = {42, 43, "as it was"};
    shma_array *array = NULL;
    expect_ok(shma_array_create(SHMA_INT32, 2, two_by_three, NULL, &array, &error));
    assert_int_equal(error.status, 42);
    assert_int_equal(error.os_errno, 43);
    assert_string_equal(error.message, "as it was");
    shma_array_close(array);
}

static void null_where_an_array_is_made(void **state) {
    shma_array *made = untouched;
    const int32_t data[6] = {0};
    const int32_t needed = SHMA_ERROR_INVALID_ARGUMENT;
    expect_failure(shma_array_create(SHMA_INT32, 2, NULL, NULL, &made, &error), needed,
                   "shape: it is NULL");
    expect_failure(shma_array_create(SHMA_INT32, 2, two_by_three, NULL, NULL, &error), needed,
                   "array_out");
    assert_int_equal(shma_array_create(SHMA_INT32, 2, NULL, NULL, NULL, NULL), needed);
    expect_failure(shma_array_share(NULL, SHMA_INT32, 2, two_by_three, NULL, NULL, &made, &error),
                   needed, "data: it is NULL");
    expect_failure(shma_array_share(data, SHMA_INT32, 2, NULL, NULL, NULL, &made, &error), needed,
                   "shape");
    expect_failure(shma_array_share(data, SHMA_INT32, 2, two_by_three, NULL, NULL, NULL, &error),
                   needed, "array_out");
    assert_int_equal(shma_array_share(NULL, SHMA_INT32, 2, NULL, NULL, NULL, NULL, NULL), needed);
    expect_failure(shma_array_attach(NULL, SHMA_READ_WRITE, &made, &error), needed,
                   "handle_or_name");
    expect_failure(shma_array_attach("nobody", SHMA_READ_WRITE, NULL, &error), needed, "array_out");
    expect_failure(shma_array_attach("nobody", 2, &made, &error), needed, "invalid access");
    assert_int_equal(shma_array_attach(NULL, SHMA_READ_WRITE, NULL, NULL), needed);
    assert_ptr_equal(made, untouched);
}

static void null_where_a_view_is_made(void **state) {
    shma_array *array = make(), *made = untouched;
    const int32_t needed = SHMA_ERROR_INVALID_ARGUMENT;
    expect_failure(shma_array_view(NULL, 2, two_by_three, NULL, 0, &made, &error), needed,
                   "array: it is NULL");
    expect_failure(shma_array_view(array, 2, NULL, NULL, 0, &made, &error), needed,
                   "shape: it is NULL");
    expect_failure(shma_array_view(array, 2, two_by_three, NULL, 0, NULL, &error), needed,
                   "view_out");
    assert_int_equal(shma_array_view(NULL, 2, NULL, NULL, 0, NULL, NULL), needed);
    expect_failure(shma_array_slice(NULL, 0, 0, 1, 1, &made, &error), needed, "array: it is NULL");
    expect_failure(shma_array_slice(array, 0, 0, 1, 1, NULL, &error), needed, "view_out");
    assert_int_equal(shma_array_slice(NULL, 0, 0, 1, 1, NULL, NULL), needed);
    expect_failure(shma_array_select(NULL, 0, 0, &made, &error), needed, "array: it is NULL");
    expect_failure(shma_array_select(array, 0, 0, NULL, &error), needed, "view_out");
    assert_int_equal(shma_array_select(NULL, 0, 0, NULL, NULL), needed);
    expect_failure(shma_array_reshape(NULL, 2, two_by_three, &made, &error), needed,
                   "array: it is NULL");
    expect_failure(shma_array_reshape(array, 2, NULL, &made, &error), needed, "shape: it is NULL");
    expect_failure(shma_array_reshape(array, 2, two_by_three, NULL, &error), needed, "view_out");
    assert_int_equal(shma_array_reshape(NULL, 2, NULL, NULL, NULL), needed);
    expect_failure(shma_array_transpose(NULL, NULL, &made, &error), needed, "array: it is NULL");
    expect_failure(shma_array_transpose(array, NULL, NULL, &error), needed, "view_out");
    assert_int_equal(shma_array_transpose(NULL, NULL, NULL, NULL), needed);
    assert_ptr_equal(made, untouched);
    shma_array_close(array);
}

static void null_where_a_text_is_written(void **state) {
    size_t needed = 7;
    char text[4096];
    shma_array *array = make();
    typedef int32_t writer(const shma_array *, char *, size_t, size_t *, shma_error *);
    writer *const writers[] = {shma_array_handle, shma_array_dtype_text, shma_array_handle_to_send};
    for (size_t which = 0; which < 3; which++) {
        needed = 7;
        expect_failure(writers[which](NULL, text, sizeof text, &needed, &error),
                       SHMA_ERROR_INVALID_ARGUMENT, "array: it is NULL");
        assert_int_equal(needed, 7);
        expect_failure(writers[which](array, NULL, sizeof text, &needed, &error),
                       SHMA_ERROR_TEXT_TOO_SHORT, "bytes");
        assert_true(needed > 3 && needed != 7);
        expect_ok(writers[which](array, text, sizeof text, NULL, NULL));
        assert_int_equal(writers[which](NULL, NULL, 0, NULL, NULL), SHMA_ERROR_INVALID_ARGUMENT);
        assert_int_equal(writers[which](array, NULL, 0, NULL, NULL), SHMA_ERROR_TEXT_TOO_SHORT);
    }
    expect_ok(shma_handle_discard(text, NULL)); // it was a handle with a ticket
    shma_array_close(array);
}

static void null_where_one_only_looks(void **state) {
    assert_null(shma_array_data(NULL));
    assert_int_equal(shma_array_ndim(NULL), 0);
    assert_null(shma_array_shape(NULL));
    assert_null(shma_array_strides(NULL));
    assert_int_equal(shma_array_size(NULL), 0);
    assert_int_equal(shma_array_dtype(NULL), SHMA_OPAQUE);
    assert_int_equal(shma_array_itemsize(NULL), 0);
    assert_int_equal(shma_array_is_readonly(NULL), 0);
    assert_int_equal(shma_array_is_contiguous(NULL, SHMA_ORDER_C), 0);
    assert_int_equal(shma_array_is_aligned(NULL, 1), 0);
    assert_null(shma_array_retain(NULL));
    shma_array_close(NULL);
}

static void null_where_a_message_is_sent(void **state) {
    const int32_t needed = SHMA_ERROR_INVALID_ARGUMENT;
    shma_pipe *here, *there, *made = (shma_pipe *)untouched;
    expect_ok(shma_pipe_pair(&here, &there, NULL));
    shma_array *none = NULL;
    expect_failure(shma_pipe_pair(NULL, &made, &error), needed, "one_out: it is NULL");
    expect_failure(shma_pipe_pair(&made, NULL, &error), needed, "other_out: it is NULL");
    assert_int_equal(shma_pipe_pair(NULL, NULL, NULL), needed);
    assert_ptr_equal(made, untouched);
    assert_int_equal(shma_pipe_from_fd(shma_pipe_fd(here), NULL, NULL), needed);
    expect_failure(shma_pipe_send(NULL, NULL, 0, NULL, 0, 0, &error), needed, "pipe: it is NULL");
    expect_failure(shma_pipe_send(here, NULL, 1, NULL, 0, 0, &error), needed, "arrays: it is NULL");
    assert_int_equal(shma_pipe_send(here, &none, 1, NULL, 0, 0, NULL), needed);
    expect_failure(shma_pipe_send(here, NULL, 0, NULL, 1, 0, &error), needed,
                   "payload: it is NULL");
    assert_int_equal(shma_pipe_fd(NULL), -1);
    shma_pipe_close(NULL);
    shma_pipe_close(here);
    shma_pipe_close(there);
}

static void null_where_a_message_is_received(void **state) {
    const int32_t needed = SHMA_ERROR_INVALID_ARGUMENT;
    shma_pipe *here, *there;
    shma_message *message = (shma_message *)untouched;
    shma_array *array = untouched;
    size_t bytes = 7;
    expect_ok(shma_pipe_pair(&here, &there, NULL));
    expect_ok(shma_pipe_send(here, NULL, 0, "x", 1, SHMA_NO_TIMEOUT, NULL));
    assert_int_equal(shma_pipe_receive(NULL, 0, &message, NULL), needed);
    assert_ptr_equal(message, untouched);
    assert_int_equal(shma_pipe_receive(there, 0, NULL, NULL), needed);
    expect_ok(shma_pipe_receive(there, 0, &message, NULL)); // the failed call left it in the pipe
    assert_non_null(shma_message_payload(message, NULL));
    assert_int_equal(shma_message_array(NULL, 0, SHMA_READ_WRITE, &array, NULL), needed);
    assert_int_equal(shma_message_array(message, 0, SHMA_READ_WRITE, NULL, NULL), needed);
    assert_ptr_equal(array, untouched);
    assert_null(shma_message_payload(NULL, &bytes));
    assert_int_equal(bytes, 0);
    assert_null(shma_message_payload(NULL, NULL));
    assert_int_equal(shma_message_count(NULL), 0);
    assert_int_equal(shma_handle_discard(NULL, NULL), needed);
    assert_int_equal(shma_segment_list_create(NULL, NULL), SHMA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(shma_segment_list_count(NULL), 0);
    assert_null(shma_segment_list_get(NULL, 0));
    shma_segment_list_close(NULL);
    shma_message_close(NULL);
    shma_message_close(message);
    shma_pipe_close(here);
    shma_pipe_close(there);
}

static void null_elsewhere(void **state) {
    uint64_t count = 7;
    expect_failure(shma_segment_unlink(NULL, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   "name: it is NULL");
    assert_int_equal(shma_segment_unlink(NULL, NULL), SHMA_ERROR_INVALID_ARGUMENT);
    expect_ok(shma_sweep(NULL, NULL, NULL));
    expect_ok(shma_sweep(&count, NULL, NULL));
    assert_int_equal(count, 0);
    count = 7;
    expect_ok(shma_sweep(NULL, &count, NULL));
    assert_int_equal(count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_bad_argument_is_named),
        TEST(too_many_dimensions_are_refused),
        TEST(full_shared_memory_says_how_much_was_asked),
        TEST(a_system_error_has_its_number),
        TEST(a_broken_handle_names_its_field),
        TEST(text_that_is_not_utf8_is_refused),
        TEST(a_file_that_is_no_segment_is_refused),
        TEST(a_view_cannot_leave_its_array),
        TEST(a_status_has_its_name),
        TEST(success_leaves_the_error_alone),
        TEST(null_where_an_array_is_made),
        TEST(null_where_a_view_is_made),
        TEST(null_where_a_text_is_written),
        TEST(null_where_one_only_looks),
        TEST(null_where_a_message_is_sent),
        TEST(null_where_a_message_is_received),
        TEST(null_elsewhere),
    };
    return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
