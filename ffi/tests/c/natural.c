// Every function, called as a C program naturally calls it: without a cast, with literals, locals
// and arrays of `shma_array *`. ci/test-c compiles this file with every compiler and every standard
// from C99 on, with the warnings of conversions as errors.
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <shmarray.h>

static void must(shma_status status, const shma_error *error) {
    if (status != SHMA_OK)
        fail_msg("%s: %s", shma_status_name(status), error->message);
}

static void an_image_is_made_filled_and_found_by_its_handle(void **state) {
    (void)state;
    shma_error error = SHMA_ERROR_INIT;
    shma_options options = SHMA_OPTIONS_INIT;
    options.uninitialized = 1;
    int64_t shape[] = {480, 640};
    shma_array *image, *reader;
    must(shma_array_create(SHMA_FLOAT32, 2, shape, &options, &image, &error), &error);
    float *pixels = shma_array_data(image);
    for (size_t i = 0; i < shma_array_size(image); i++)
        pixels[i] = 0.5f;
    char handle[4096];
    must(shma_array_handle(image, handle, sizeof handle, NULL, &error), &error);
    must(shma_array_attach(handle, SHMA_READ_ONLY, &reader, &error), &error);
    const float *seen = shma_array_data(reader);
    assert_true(seen[307199] == 0.5f);
    assert_true(shma_array_is_readonly(reader));
    assert_true(shma_array_is_contiguous(reader, SHMA_ORDER_C));
    shma_array_close(reader);
    shma_array_close(image);
}

static void private_memory_is_shared_and_its_shape_walked(void **state) {
    (void)state;
    shma_error error = SHMA_ERROR_INIT;
    double matrix[3][4] = {{0}};
    matrix[2][1] = 2.5;
    int64_t shape[2] = {3, 4};
    shma_array *array;
    must(shma_array_share(matrix, SHMA_FLOAT64, 2, shape, NULL, NULL, &array, &error), &error);
    int64_t count = 1, offset = 0;
    const int64_t *counts = shma_array_shape(array), *strides = shma_array_strides(array);
    for (size_t i = 0; i < shma_array_ndim(array); i++)
        count *= counts[i];
    assert_int_equal(count, 12);
    offset = 2 * strides[0] + strides[1];
    const char *bytes = shma_array_data(array);
    double value;
    memcpy(&value, bytes + offset, sizeof value);
    assert_true(value == 2.5);
    shma_dtype dtype = shma_array_dtype(array);
    printf("%s of %zu bytes\n", shma_dtype_name(dtype), shma_dtype_itemsize(dtype));
    assert_int_equal(shma_array_itemsize(array), sizeof(double));
    char text[64];
    size_t needed;
    must(shma_array_dtype_text(array, text, sizeof text, &needed, &error), &error);
    assert_int_equal(needed, strlen(text) + 1);
    shma_array_close(array);
}

static void views_are_made_of_views(void **state) {
    (void)state;
    shma_error error = SHMA_ERROR_INIT;
    shma_array *cube, *turned, *plane, *rows, *corner, *flat;
    must(shma_array_create(SHMA_INT32, 3, (int64_t[]){4, 5, 6}, NULL, &cube, &error), &error);
    must(shma_array_transpose(cube, (size_t[]){2, 0, 1}, &turned, &error), &error);
    must(shma_array_select(turned, 0, -1, &plane, &error), &error);
    must(shma_array_slice(plane, 0, SHMA_END, SHMA_END, -2, &rows, &error), &error);
    int64_t shape[] = {2, 2}, strides[] = {120, 24};
    must(shma_array_view(cube, 2, shape, strides, 4, &corner, &error), &error);
    must(shma_array_reshape(cube, 1, (int64_t[]){120}, &flat, &error), &error);
    assert_int_equal(shma_array_size(rows), 10);
    shma_array *all[] = {cube, turned, plane, rows, corner, flat};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        shma_array_close(all[i]);
}

struct picture {
    const char *title;
    shma_array *pixels;
};

static struct picture picture_of(const char *title, const shma_array *pixels) {
    struct picture made = {title, shma_array_retain(pixels)};
    return made;
}

static void two_structs_own_one_array(void **state) {
    (void)state;
    shma_error error = SHMA_ERROR_INIT;
    int64_t shape[] = {16, 16};
    shma_array *pixels;
    must(shma_array_create(SHMA_UINT8, 2, shape, NULL, &pixels, &error), &error);
    struct picture one = picture_of("one", pixels), other = picture_of("other", pixels);
    shma_array_close(pixels);
    shma_array_close(one.pixels);
    assert_int_equal(shma_array_size(other.pixels), 256);
    shma_array_close(other.pixels);
}

static void a_pipe_carries_arrays_and_a_text(void **state) {
    (void)state;
    shma_error error = SHMA_ERROR_INIT;
    shma_pipe *here, *there, *copy;
    must(shma_pipe_pair(&here, &there, &error), &error);
    must(shma_pipe_from_fd(dup(shma_pipe_fd(there)), &copy, &error), &error);
    shma_array *frames[2];
    for (int64_t i = 0, bytes = 100; i < 2; i++)
        must(shma_array_create(SHMA_UINT8, 1, &bytes, NULL, &frames[i], &error), &error);
    const char *name = "two frames";
    must(shma_pipe_send(here, frames, 2, name, strlen(name), SHMA_NO_TIMEOUT, &error), &error);
    must(shma_pipe_send(here, &frames[0], 1, NULL, 0, 1000000, &error), &error);
    shma_message *message;
    must(shma_pipe_receive(copy, SHMA_NO_TIMEOUT, &message, &error), &error);
    size_t bytes;
    const char *payload = shma_message_payload(message, &bytes);
    assert_int_equal(bytes, 10);
    assert_memory_equal(payload, name, bytes);
    for (size_t i = 0; i < shma_message_count(message); i++) {
        shma_array *frame;
        must(shma_message_array(message, i, SHMA_READ_WRITE, &frame, &error), &error);
        shma_array_close(frame);
        shma_array_close(frames[i]);
    }
    shma_message_close(message);
    shma_pipe_close(here);
    shma_pipe_close(there);
    shma_pipe_close(copy);
}

static void a_named_array_is_listed_and_unlinked(void **state) {
    (void)state;
    shma_error error = SHMA_ERROR_INIT;
    shma_options options = SHMA_OPTIONS_INIT;
    options.name = "natural";
    options.persist = 1;
    options.mode = 6 << 6 | 4 << 3; // 0640, which C2y writes 0o640
    int64_t length = 10;
    shma_array *array;
    must(shma_array_create(SHMA_COMPLEX128, 1, &length, &options, &array, &error), &error);
    shma_segment_list *list;
    must(shma_segment_list_create(&list, &error), &error);
    uint64_t all_bytes = 0;
    for (size_t i = 0; i < shma_segment_list_count(list); i++) {
        const shma_segment_info *info = shma_segment_list_get(list, i);
        all_bytes += info->segment_bytes;
        if (info->name && info->persists && info->holders_count == 1)
            printf("%s: pid %u has %s\n", info->segment, info->holders[0], info->name);
    }
    assert_true(all_bytes > 0);
    shma_segment_list_close(list);
    must(shma_segment_unlink("natural", &error), &error);
    shma_array_close(array);
}

static void a_handle_is_sent_and_not_wanted(void **state) {
    (void)state;
    shma_error error = SHMA_ERROR_INIT;
    shma_array *array;
    must(shma_array_create(SHMA_BOOL, 0, NULL, NULL, &array, &error), &error);
    size_t room;
    if (shma_array_handle_to_send(array, NULL, 0, &room, NULL) != SHMA_ERROR_TEXT_TOO_SHORT)
        fail_msg("it wrote to no buffer");
    char *handle = malloc(room);
    must(shma_array_handle_to_send(array, handle, room, NULL, &error), &error);
    shma_array_close(array);
    must(shma_handle_discard(handle, &error), &error);
    free(handle);
    uint64_t segments, bytes;
    must(shma_sweep(&segments, &bytes, &error), &error);
    printf("shmarray %s, ABI %d, copied %" PRIu64 " bytes\n", shma_version(), shma_abi(),
           shma_copied_bytes());
}

static void files_are_saved_listed_and_loaded(void **state) {
    (void)state;
    shma_error error = SHMA_ERROR_INIT;
    char one[4096], all[4096];
    snprintf(one, sizeof one, "%s/one.npy", getenv("SHMARRAY_DIR"));
    snprintf(all, sizeof all, "%s/all.npz", getenv("SHMARRAY_DIR"));
    float values[] = {1, 2, 3};
    int64_t length = 3;
    shma_array *array, *loaded, *batch, *both[2];
    must(shma_array_share(values, SHMA_FLOAT32, 1, &length, NULL, NULL, &array, &error), &error);
    must(shma_npy_save(one, array, &error), &error);
    must(shma_npy_load(one, NULL, &loaded, &error), &error);
    const char *paths[] = {one, one};
    must(shma_npy_load_batch(paths, 2, 0, NULL, &batch, &error), &error);
    const char *names[] = {"image", "label"};
    shma_array *arrays[] = {array, loaded};
    shma_npz_options options = SHMA_NPZ_OPTIONS_INIT;
    options.deflated = 1;
    must(shma_npz_save(all, 2, names, arrays, &options, &error), &error);
    shma_array_close(loaded);
    shma_npz *npz;
    must(shma_npz_open(all, NULL, &npz, &error), &error);
    for (size_t i = 0; i < shma_npz_count(npz); i++)
        printf("%s\n", shma_npz_name(npz, i));
    if (shma_npz_contains(npz, "image"))
        must(shma_npz_load(npz, "image", NULL, &loaded, &error), &error);
    must(shma_npz_load_all(npz, NULL, both, &error), &error);
    shma_npz_close(npz);
    shma_array *open[] = {array, loaded, batch, both[0], both[1]};
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        shma_array_close(open[i]);
    remove(one);
    remove(all);
}

static void files_are_loaded_from_memory(void **state) {
    (void)state;
    shma_error error = SHMA_ERROR_INIT;
    shma_array *array;
    shma_npz *npz;
    const unsigned char bytes[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    if (shma_npy_load_bytes(bytes, sizeof bytes, NULL, &array, &error) == SHMA_OK)
        fail_msg("the file ends within its header");
    if (shma_npz_open_bytes(bytes, sizeof bytes, NULL, &npz, &error) == SHMA_OK)
        fail_msg("it is no archive");
    printf("%s\n", error.message);
}

static void frames_are_sent_and_received(void **state) {
    (void)state;
    shma_error error = SHMA_ERROR_INIT;
    shma_channel_options options = SHMA_CHANNEL_OPTIONS_INIT;
    options.slots = 4;
    int64_t shape[] = {2, 3};
    shma_channel *camera, *viewer;
    must(shma_channel_create("frames", SHMA_FLOAT32, 2, shape, NULL, &options, &camera, &error),
         &error);
    char handle[512];
    must(shma_channel_handle(camera, handle, sizeof handle, NULL, &error), &error);
    must(shma_channel_open(handle, 1, 1000 * 1000 * 1000, &viewer, &error), &error);
    shma_loan *loan;
    if (shma_channel_loan(camera, 0, NULL, SHMA_NO_TIMEOUT, &loan, &error) == SHMA_OK) {
        float *pixels = shma_array_data(shma_loan_array(loan));
        pixels[5] = 0.5f;
        uint64_t sequence;
        must(shma_loan_publish(loan, "left", 4, &sequence, &error), &error);
    }
    float own[2][3] = {{0}};
    must(shma_channel_send(camera, own, SHMA_FLOAT32, 2, shape, NULL, NULL, 0, SHMA_NO_TIMEOUT,
                           NULL, &error),
         &error);
    if (shma_channel_loan(camera, 0, NULL, 0, &loan, &error) == SHMA_OK)
        shma_loan_cancel(loan);
    shma_channel_end(camera);
    int fd;
    int32_t ready;
    must(shma_channel_fd(viewer, &fd, &error), &error);
    must(shma_channel_is_ready(viewer, &ready, &error), &error);
    shma_delivery *frame;
    while (shma_channel_receive(viewer, SHMA_NO_TIMEOUT, &frame, &error) == SHMA_OK) {
        const float *seen = shma_array_data(shma_delivery_array(frame));
        size_t bytes;
        const char *meta = shma_delivery_meta(frame, &bytes);
        printf("%.*s %" PRIu64 " at %" PRIu64 ", %" PRIu64 " missed: %f\n", (int)bytes, meta,
               shma_delivery_sequence(frame), shma_delivery_time_ns(frame),
               shma_delivery_missed(frame), (double)seen[5]);
        shma_delivery_close(frame);
    }
    printf("fd %d, ready %d, %d, %zu dimensions of %d\n", fd, (int)ready,
           (int)shma_channel_dtype(viewer), shma_channel_ndim(viewer),
           (int)shma_channel_shape(viewer)[0]);
    shma_channel_close(viewer);
    shma_channel_close(camera);

    shma_channel *arrays;
    must(shma_channel_create_by_handle("arrays", NULL, &arrays, &error), &error);
    assert_true(shma_channel_has_handles(arrays));
    shma_array *array;
    must(shma_array_create(SHMA_FLOAT32, 2, shape, NULL, &array, &error), &error);
    must(shma_channel_send_array(arrays, array, NULL, 0, SHMA_NO_TIMEOUT, NULL, &error), &error);
    shma_array_close(array);
    must(shma_channel_receive(arrays, SHMA_NO_TIMEOUT, &frame, &error), &error);
    shma_delivery_close(frame);
    shma_channel_close(arrays);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_image_is_made_filled_and_found_by_its_handle),
        cmocka_unit_test(private_memory_is_shared_and_its_shape_walked),
        cmocka_unit_test(views_are_made_of_views),
        cmocka_unit_test(two_structs_own_one_array),
        cmocka_unit_test(a_pipe_carries_arrays_and_a_text),
        cmocka_unit_test(a_named_array_is_listed_and_unlinked),
        cmocka_unit_test(a_handle_is_sent_and_not_wanted),
        cmocka_unit_test(files_are_saved_listed_and_loaded),
        cmocka_unit_test(files_are_loaded_from_memory),
        cmocka_unit_test(frames_are_sent_and_received),
    };
    return cmocka_run_group_tests_name("natural", tests, NULL, NULL);
}
