// NPY files in C: loaded from paths and from memory, saved, and refused.

#include "files.h"

static shma_array *make_ints(void) {
    shma_array *array = NULL;
    expect_ok(shma_array_create(SHMA_INT32, 2, two_by_three, NULL, &array, NULL));
    for (int32_t i = 0; i < 6; i++)
        ((int32_t *)shma_array_data(array))[i] = 10 * i;
    return array;
}

static shma_array *load(const char *path) {
    shma_array *array = NULL;
    if (shma_npy_load(path, NULL, &array, &error) != SHMA_OK)
        fail_msg("%s", error.message);
    return array;
}

static void a_saved_array_is_loaded_again(void **state) {
    shma_array *array = make_ints(), *turned = NULL, *again;
    expect_ok(shma_npy_save(new_file("a.npy"), array, NULL));
    again = load(new_file("a.npy"));
    assert_int_equal(shma_array_dtype(again), SHMA_INT32);
    assert_int_equal(shma_array_shape(again)[1], 3);
    assert_memory_equal(shma_array_data(again), shma_array_data(array), 24);
    shma_array_close(again);
    expect_ok(shma_array_transpose(array, NULL, &turned, NULL));
    expect_ok(shma_npy_save(new_file("a.npy"), turned, NULL));
    again = load(new_file("a.npy"));
    assert_true(shma_array_is_contiguous(again, SHMA_ORDER_F));
    assert_int_equal(shma_array_shape(again)[0], 3);
    assert_int_equal(((int32_t *)shma_array_data(again))[1], 10);
    shma_array_close(again);
    shma_array_close(turned);
    shma_array_close(array);
    remove(new_file("a.npy"));
}

static void every_file_of_numpy_is_saved_with_the_same_bytes(void **state) {
    static const char *const names[] = {"f4",    "0d", "big-f8", "records", "aligned", "3d-columns",
                                        "empty", "U",  "M8-ns",  "b1",      "f2",      "c16"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "numpy-py313-2.2.6-%s.npy", names[i]);
        shma_array *array = load(in_corpus(name));
        expect_ok(shma_npy_save(new_file("a.npy"), array, NULL));
        expect_same_bytes(new_file("a.npy"), in_corpus(name));
        shma_array_close(array);
    }
    remove(new_file("a.npy"));
}

static void bytes_in_memory_are_loaded(void **state) {
    size_t bytes = 0;
    char *file = bytes_of(in_corpus("numpy-py313-2.2.6-f4.npy"), &bytes);
    shma_array *array = NULL, *kept = untouched;
    expect_ok(shma_npy_load_bytes(file, bytes, NULL, &array, NULL));
    assert_int_equal(shma_array_dtype(array), SHMA_FLOAT32);
    expect_failure(shma_npy_load_bytes(file, bytes - 1, NULL, &kept, &error),
                   SHMA_ERROR_INVALID_FILE, "invalid file in memory: data");
    assert_memory_equal(shma_array_data(array), file + bytes - 24, 24);
    free(file);
    expect_failure(shma_npy_load_bytes("", 0, NULL, &kept, &error), SHMA_ERROR_INVALID_FILE,
                   "magic");
    expect_failure(shma_npy_load_bytes(NULL, 0, NULL, &kept, &error), SHMA_ERROR_INVALID_FILE,
                   "magic");
    assert_ptr_equal(kept, untouched);
    shma_array_close(array);
}

static void expect_load(const char *path, const shma_options *options, int32_t expected,
                        const char *words) {
    shma_array *array = untouched;
    expect_failure(shma_npy_load(path, options, &array, &error), expected, words);
    assert_ptr_equal(array, untouched);
}

static void options_are_those_of_a_creation_and_agree_with_the_file(void **state) {
    const char *const path = in_corpus("numpy-py313-2.2.6-f4.npy");
    const shma_options fresh = SHMA_OPTIONS_INIT;
    shma_options options = fresh;
    shma_array *array = NULL, *named = NULL;
    options.name = "loaded";
    options.dtype_text = "<f4";
    options.itemsize = 4;
    expect_ok(shma_npy_load(path, &options, &array, NULL));
    expect_ok(shma_array_attach("loaded", SHMA_READ_ONLY, &named, NULL));
    expect_load(path, &options, SHMA_ERROR_EXISTS, "loaded");
    shma_array_close(named);
    shma_array_close(array);
    options.dtype_text = "<f8";
    expect_load(path, &options, SHMA_ERROR_DTYPE_MISMATCH, "the array's dtype is <f4, not <f8");
    options = fresh;
    options.itemsize = 8;
    expect_load(path, &options, SHMA_ERROR_INVALID_ARGUMENT, "invalid itemsize");
    options = fresh;
    options.order = SHMA_ORDER_F;
    expect_load(path, &options, SHMA_ERROR_INVALID_ARGUMENT, "invalid order: the file says");
    options.struct_bytes = 1;
    expect_load(path, &options, SHMA_ERROR_INVALID_ARGUMENT, "SHMA_OPTIONS_INIT");
}

static void a_file_that_is_not_valid_is_refused_with_its_field(void **state) {
    static const struct {
        const char *file;
        int32_t status;
        const char *words;
    } rows[] = {
        {"there is none.npy", SHMA_ERROR_NOT_FOUND, "no such file: "},
        {"handmade-magic.npy", SHMA_ERROR_INVALID_FILE, "handmade-magic.npy: magic: "},
        {"handmade-cut-at-151.npy", SHMA_ERROR_INVALID_FILE, ": data: "},
        {"handmade-version-4.0.npy", SHMA_ERROR_INVALID_FILE, ": version: "},
        {"handmade-shape-overflows.npy", SHMA_ERROR_INVALID_FILE, ": shape: "},
        {"handmade-a-call.npy", SHMA_ERROR_INVALID_FILE, "handmade-a-call.npy: "},
        {"numpy-py313-2.2.6-object.npy", SHMA_ERROR_INVALID_DTYPE, "object.npy: the file has "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_load(in_corpus(rows[i].file), NULL, rows[i].status, rows[i].words);
    expect_load(SHMARRAY_CORPUS, NULL, SHMA_ERROR_INVALID_FILE, "it is not a regular file");
    expect_load("\xff", NULL, SHMA_ERROR_NOT_FOUND, "no such file: ");
}

static void many_files_become_one_array(void **state) {
    char paths[5][4096];
    const char *list[5];
    shma_array *array = make_ints(), *batch = NULL;
    for (int i = 0; i < 5; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d.npy", getenv("SHMARRAY_DIR"), i);
        list[i] = paths[i];
        *(int32_t *)shma_array_data(array) = i;
        expect_ok(shma_npy_save(list[i], array, NULL));
    }
    expect_ok(shma_npy_load_batch(list, 5, 2, NULL, &batch, NULL));
    assert_int_equal(shma_array_ndim(batch), 3);
    assert_int_equal(shma_array_shape(batch)[0], 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(((int32_t *)shma_array_data(batch))[6 * i], i);
        assert_int_equal(((int32_t *)shma_array_data(batch))[6 * i + 5], 50);
    }
    shma_array_close(batch);
    batch = untouched;
    list[3] = in_corpus("numpy-py313-2.2.6-f4.npy");
    expect_failure(shma_npy_load_batch(list, 5, 0, NULL, &batch, &error), SHMA_ERROR_INVALID_FILE,
                   "f4.npy: descr: ");
    list[3] = in_corpus("there is none.npy");
    expect_failure(shma_npy_load_batch(list, 5, 0, NULL, &batch, &error), SHMA_ERROR_NOT_FOUND,
                   "there is none.npy");
    list[3] = NULL;
    expect_failure(shma_npy_load_batch(list, 5, 0, NULL, &batch, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "paths: it is NULL");
    expect_failure(shma_npy_load_batch(list, 0, 0, NULL, &batch, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "invalid files");
    assert_ptr_equal(batch, untouched);
    for (int i = 0; i < 5; i++)
        remove(paths[i]);
    shma_array_close(array);
}

static void a_save_that_fails_leaves_the_older_file(void **state) {
    shma_array *array = make_ints(), *again;
    expect_ok(shma_npy_save(new_file("a.npy"), array, NULL));
    expect_failure(shma_npy_save(new_file("no folder/a.npy"), array, &error), SHMA_ERROR_NOT_FOUND,
                   "no folder/a.npy");
    expect_failure(shma_npy_save(SHMARRAY_CORPUS, array, &error), SHMA_ERROR_INVALID_FILE,
                   "it is a directory");
    expect_failure(shma_npy_save(new_file("a.npy"), NULL, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   "array: it is NULL");
    again = load(new_file("a.npy"));
    assert_int_equal(shma_array_size(again), 6);
    shma_array_close(again);
    shma_array_close(array);
    remove(new_file("a.npy"));
}

static void a_file_with_two_names_and_a_pipe_are_written_as_they_are(void **state) {
    shma_array *array = make_ints(), *again = NULL;
    char bytes[1024], path[64];
    int ends[2];
    expect_ok(shma_npy_save(new_file("a.npy"), array, NULL));
    assert_int_equal(link(new_file("a.npy"), new_file("other")), 0);
    ((int32_t *)shma_array_data(array))[5] = 7;
    expect_ok(shma_npy_save(new_file("a.npy"), array, NULL));
    expect_same_bytes(new_file("a.npy"), new_file("other"));
    again = load(new_file("other"));
    assert_int_equal(((int32_t *)shma_array_data(again))[5], 7);
    shma_array_close(again);
    remove(new_file("a.npy"));
    remove(new_file("other"));
    // As /dev/stdout is one.
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[1]);
    expect_ok(shma_npy_save(path, array, NULL));
    const ssize_t got = read(ends[0], bytes, sizeof bytes);
    assert_true(got > 0);
    expect_ok(shma_npy_load_bytes(bytes, (size_t)got, NULL, &again, NULL));
    assert_memory_equal(shma_array_data(again), shma_array_data(array), 24);
    close(ends[0]);
    close(ends[1]);
    shma_array_close(again);
    shma_array_close(array);
}

static void null_where_a_path_or_an_output_is_needed(void **state) {
    shma_array *array = untouched;
    const int32_t needed = SHMA_ERROR_INVALID_ARGUMENT;
    const char *const path = in_corpus("numpy-py313-2.2.6-f4.npy");
    expect_load(NULL, NULL, needed, "path: it is NULL");
    expect_failure(shma_npy_load(path, NULL, NULL, &error), needed, "array_out");
    expect_failure(shma_npy_load_bytes(NULL, 1, NULL, &array, &error), needed, "data: it is NULL");
    expect_failure(shma_npy_load_bytes("", 0, NULL, NULL, &error), needed, "array_out");
    expect_failure(shma_npy_load_batch(NULL, 1, 0, NULL, &array, &error), needed,
                   "paths: it is NULL");
    expect_failure(shma_npy_load_batch(&path, 1, 0, NULL, NULL, &error), needed, "array_out");
    expect_failure(shma_npy_save(NULL, NULL, &error), needed, "path: it is NULL");
    assert_int_equal(shma_npy_load(NULL, NULL, NULL, NULL), needed);
    assert_int_equal(shma_npy_load_bytes(NULL, 0, NULL, NULL, NULL), needed);
    assert_int_equal(shma_npy_load_batch(NULL, 0, 0, NULL, NULL, NULL), needed);
    assert_int_equal(shma_npy_save(NULL, NULL, NULL), needed);
    assert_ptr_equal(array, untouched);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_saved_array_is_loaded_again),
        TEST(every_file_of_numpy_is_saved_with_the_same_bytes),
        TEST(bytes_in_memory_are_loaded),
        TEST(options_are_those_of_a_creation_and_agree_with_the_file),
        TEST(a_file_that_is_not_valid_is_refused_with_its_field),
        TEST(many_files_become_one_array),
        TEST(a_save_that_fails_leaves_the_older_file),
        TEST(a_file_with_two_names_and_a_pipe_are_written_as_they_are),
        TEST(null_where_a_path_or_an_output_is_needed),
    };
    return cmocka_run_group_tests_name("npy", tests, NULL, NULL);
}
