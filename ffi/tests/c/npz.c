// NPZ files in C: their names, their members one by one and all at once, and refused ones.
#include "files.h"

static shma_npz *const untouched_npz = (shma_npz *)&two_by_three;

static shma_npz *open_npz(const char *path) {
    shma_npz *npz = NULL;
    if (shma_npz_open(path, NULL, &npz, &error) != SHMA_OK)
        fail_msg("%s", error.message);
    return npz;
}

static void expect_member(const shma_npz *npz, const char *name, int32_t expected,
                          const char *words) {
    shma_array *array = untouched;
    expect_failure(shma_npz_load(npz, name, NULL, &array, &error), expected, words);
    assert_ptr_equal(array, untouched);
}

static void expect_open(const char *path, const shma_npz_options *options, int32_t expected,
                        const char *words) {
    shma_npz *npz = untouched_npz;
    expect_failure(shma_npz_open(path, options, &npz, &error), expected, words);
    assert_ptr_equal(npz, untouched_npz);
}

static void saved_arrays_are_listed_and_loaded(void **state) {
    const int32_t data[6] = {1, 2, 3, 4, 5, 6};
    const char *names[] = {"numbers", "one/number"};
    shma_array *saved[2], *again = NULL;
    expect_ok(shma_array_share(data, SHMA_INT32, 2, two_by_three, NULL, NULL, &saved[0], NULL));
    expect_ok(shma_array_select(saved[0], 0, 1, &saved[1], NULL));
    for (int32_t deflated = 0; deflated < 2; deflated++) {
        shma_npz_options options = SHMA_NPZ_OPTIONS_INIT;
        options.deflated = deflated;
        options.align = 64;
        options.threads = 2;
        expect_ok(shma_npz_save(new_file("a.npz"), 2, names, saved, &options, NULL));
        shma_npz *npz = open_npz(new_file("a.npz"));
        assert_int_equal(shma_npz_count(npz), 2);
        assert_string_equal(shma_npz_name(npz, 1), "one/number");
        assert_null(shma_npz_name(npz, 2));
        assert_int_equal(shma_npz_contains(npz, "numbers"), 1);
        assert_int_equal(shma_npz_contains(npz, "numbers.npy"), 1);
        assert_int_equal(shma_npz_contains(npz, "number"), 0);
        assert_int_equal(shma_npz_contains(npz, "\xff"), 0);
        expect_ok(shma_npz_load(npz, "numbers", NULL, &again, NULL));
        assert_memory_equal(shma_array_data(again), data, sizeof data);
        shma_array_close(again);
        expect_ok(shma_npz_load(npz, "one/number.npy", NULL, &again, NULL));
        shma_npz_close(npz);
        assert_int_equal(((int32_t *)shma_array_data(again))[2], 6);
        shma_array_close(again);
    }
    remove(new_file("a.npz"));
    shma_array_close(saved[0]);
    shma_array_close(saved[1]);
}

static void stored_archives_of_numpy_are_saved_with_the_same_bytes(void **state) {
    static const char *const files[] = {"numpy-py313-2.2.6-stored.npz",
                                        "numpy-py313-2.2.6-positional.npz",
                                        "numpy-py313-2.2.6-no-arrays.npz"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        shma_npz *npz = open_npz(in_corpus(files[i]));
        const char *names[8];
        shma_array *arrays[8];
        const size_t count = shma_npz_count(npz);
        assert_true(count < 8);
        for (size_t member = 0; member < count; member++)
            names[member] = shma_npz_name(npz, member);
        expect_ok(shma_npz_load_all(npz, NULL, arrays, NULL));
        expect_ok(shma_npz_save(new_file("a.npz"), count, names, arrays, NULL, NULL));
        expect_same_bytes(new_file("a.npz"), in_corpus(files[i]));
        for (size_t member = 0; member < count; member++)
            shma_array_close(arrays[member]);
        shma_npz_close(npz);
    }
    remove(new_file("a.npz"));
}

static void a_name_loads_its_own_member(void **state) {
    shma_npz *npz = open_npz(in_corpus("zipfile-names.npz"));
    static const char *const names[] = {"\xe6\x95\xb4", "caf\xc3\xa9", "dir/b", "UPPER.NPY", "",
                                        "no suffix",    "x.npy"};
    assert_int_equal(shma_npz_count(npz), 7);
    for (size_t i = 0; i < 7; i++) {
        shma_array *array = NULL;
        assert_string_equal(shma_npz_name(npz, i), names[i]);
        expect_ok(shma_npz_load(npz, names[i], NULL, &array, NULL));
        shma_array_close(array);
    }
    shma_npz_close(npz);
}

static void a_member_that_is_no_array_is_its_bytes(void **state) {
    shma_array *array = NULL;
    shma_npz *npz = open_npz(in_corpus("infozip-deflated.npz"));
    assert_int_equal(shma_npz_contains(npz, "metadata.json"), 1);
    expect_ok(shma_npz_load(npz, "metadata.json", NULL, &array, NULL));
    assert_int_equal(shma_array_dtype(array), SHMA_UINT8);
    assert_int_equal(shma_array_shape(array)[0], 37);
    assert_memory_equal(shma_array_data(array), "{", 1);
    shma_array_close(array);
    shma_npz_close(npz);
}

static void bytes_in_memory_are_opened(void **state) {
    size_t bytes = 0;
    char *file = bytes_of(in_corpus("numpy-py313-2.2.6-deflated.npz"), &bytes);
    shma_npz *npz = NULL, *kept = untouched_npz;
    shma_array *arrays[3] = {NULL};
    expect_ok(shma_npz_open_bytes(file, bytes, NULL, &npz, NULL));
    expect_member(npz, "nobody", SHMA_ERROR_NOT_FOUND,
                  "no member is named \"nobody\" in the archive in memory");
    expect_ok(shma_npz_load_all(npz, NULL, arrays, NULL));
    shma_npz_close(npz);
    assert_int_equal(shma_array_shape(arrays[1])[0], 30);
    for (size_t i = 0; i < 3; i++)
        shma_array_close(arrays[i]);
    expect_failure(shma_npz_open_bytes(file, bytes - 1, NULL, &kept, &error),
                   SHMA_ERROR_INVALID_FILE, "in memory: archive: ");
    expect_failure(shma_npz_open_bytes(NULL, 0, NULL, &kept, &error), SHMA_ERROR_INVALID_FILE,
                   "in memory: archive: ");
    assert_ptr_equal(kept, untouched_npz);
    free(file);
}

static void objects_are_refused_and_their_names_are_listed(void **state) {
    shma_npz *npz = open_npz(in_corpus("numpy-py313-2.2.6-object.npz"));
    shma_array *arrays[2] = {untouched, untouched};
    assert_int_equal(shma_npz_count(npz), 2);
    assert_string_equal(shma_npz_name(npz, 1), "o");
    expect_member(npz, "o", SHMA_ERROR_INVALID_DTYPE, "object.npz: member \"o.npy\": ");
    expect_failure(shma_npz_load_all(npz, NULL, arrays, &error), SHMA_ERROR_INVALID_DTYPE,
                   "member \"o.npy\"");
    assert_ptr_equal(arrays[0], untouched);
    expect_ok(shma_npz_load(npz, "a", NULL, &arrays[0], NULL));
    shma_array_close(arrays[0]);
    shma_npz_close(npz);
}

static void an_archive_that_is_not_valid_is_refused(void **state) {
    expect_open(in_corpus("there is none.npz"), NULL, SHMA_ERROR_NOT_FOUND, "no such file: ");
    expect_open(in_corpus("handmade-zip-cut.npz"), NULL, SHMA_ERROR_INVALID_FILE,
                "handmade-zip-cut.npz: ");
    expect_open(in_corpus("numpy-py313-2.2.6-f4.npy"), NULL, SHMA_ERROR_INVALID_FILE, "archive: ");
}

static void a_member_that_is_not_valid_is_refused_by_name(void **state) {
    static const struct {
        const char *file, *member, *words;
    } rows[] = {
        {"handmade-zip-checksum.npz", "a", "checksum.npz: member \"a.npy\": CRC"},
        {"handmade-zip-deflate-broken.npz", "a", "member \"a.npy\": "},
        {"infozip-encrypted.npz", "a", "member \"a.npy\": flags: it is encrypted"},
        {"7z-deflate64.npz", "big", "member \"big.npy\": compression method: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shma_npz *npz = open_npz(in_corpus(rows[i].file));
        expect_member(npz, rows[i].member, SHMA_ERROR_INVALID_FILE, rows[i].words);
        shma_npz_close(npz);
    }
}

static void a_bomb_is_refused_before_it_is_inflated(void **state) {
    const char *name = "zeros";
    const int64_t length = INT64_C(4) << 20;
    shma_npz_options options = SHMA_NPZ_OPTIONS_INIT;
    shma_array *zeros = NULL, *array = untouched;
    expect_ok(shma_array_create(SHMA_UINT8, 1, &length, NULL, &zeros, NULL));
    options.deflated = 1;
    expect_ok(shma_npz_save(new_file("bomb.npz"), 1, &name, &zeros, &options, NULL));
    shma_array_close(zeros);
    options.deflated = 0;
    options.max_bytes = 1 << 20;
    shma_npz *npz = NULL;
    expect_ok(shma_npz_open(new_file("bomb.npz"), &options, &npz, NULL));
    expect_member(npz, "zeros", SHMA_ERROR_INVALID_FILE, "member \"zeros.npy\": max_bytes: ");
    expect_failure(shma_npz_load_all(npz, NULL, &array, &error), SHMA_ERROR_INVALID_FILE,
                   "max_bytes");
    assert_ptr_equal(array, untouched);
    shma_npz_close(npz);
    options.max_bytes = 5 << 20;
    expect_ok(shma_npz_open(new_file("bomb.npz"), &options, &npz, NULL));
    expect_ok(shma_npz_load_all(npz, NULL, &array, NULL));
    shma_array_close(array);
    shma_npz_close(npz);
    remove(new_file("bomb.npz"));
}

static void options_that_cannot_be_honoured_are_refused(void **state) {
    const char *const path = in_corpus("numpy-py313-2.2.6-stored.npz");
    const int32_t refused = SHMA_ERROR_INVALID_ARGUMENT;
    struct {
        shma_npz_options known;
        uint64_t later;
    } options = {SHMA_NPZ_OPTIONS_INIT, 0};
    shma_npz *npz = NULL;
    options.known.deflated = 1;
    expect_open(path, &options.known, refused, "invalid deflated");
    options.known.deflated = 0;
    options.known.align = 64;
    expect_open(path, &options.known, refused, "invalid align");
    options.known.align = 0;
    options.known.struct_bytes = 20;
    expect_open(path, &options.known, refused, "SHMA_NPZ_OPTIONS_INIT");
    options.known.struct_bytes = sizeof options;
    expect_ok(shma_npz_open(path, &options.known, &npz, NULL));
    options.later = 1;
    expect_open(path, &options.known, refused, "a field of a later version is set");
    options.later = 0;
    options.known.max_bytes = 1;
    expect_failure(shma_npz_save(new_file("a.npz"), 0, NULL, NULL, &options.known, &error), refused,
                   "invalid max_bytes");
    shma_options named = SHMA_OPTIONS_INIT;
    shma_array *arrays[4] = {untouched};
    named.name = "all";
    expect_failure(shma_npz_load_all(npz, &named, arrays, &error), refused,
                   "invalid name: \"all\"");
    assert_ptr_equal(arrays[0], untouched);
    shma_npz_close(npz);
}

static void names_that_no_archive_can_have_are_refused(void **state) {
    const int32_t refused = SHMA_ERROR_INVALID_ARGUMENT;
    shma_array *array = NULL, *none = NULL;
    expect_ok(shma_array_create(SHMA_BOOL, 0, NULL, NULL, &array, NULL));
    const char *twice[] = {"a", "a"}, *no_text[] = {"a", NULL};
    shma_array *arrays[] = {array, array};
    expect_failure(shma_npz_save(new_file("a.npz"), 2, twice, arrays, NULL, &error), refused,
                   "\"a.npy\" is there twice");
    expect_failure(shma_npz_save(new_file("a.npz"), 2, no_text, arrays, NULL, &error), refused,
                   "names: it is NULL");
    expect_failure(shma_npz_save(new_file("a.npz"), 1, twice, &none, NULL, &error), refused,
                   "arrays: it is NULL");
    assert_null(fopen(new_file("a.npz"), "rb"));
    shma_array_close(array);
}

static void null_where_something_is_needed(void **state) {
    const int32_t needed = SHMA_ERROR_INVALID_ARGUMENT;
    shma_npz *npz = open_npz(in_corpus("numpy-py313-2.2.6-stored.npz"));
    expect_open(NULL, NULL, needed, "path: it is NULL");
    expect_failure(shma_npz_open("", NULL, NULL, &error), needed, "npz_out");
    expect_failure(shma_npz_open_bytes("", 0, NULL, NULL, &error), needed, "npz_out");
    shma_npz *opened = untouched_npz;
    expect_failure(shma_npz_open_bytes(NULL, 1, NULL, &opened, &error), needed, "data: it is NULL");
    assert_ptr_equal(opened, untouched_npz);
    assert_int_equal(shma_npz_count(NULL), 0);
    assert_null(shma_npz_name(NULL, 0));
    assert_int_equal(shma_npz_contains(NULL, "a"), 0);
    assert_int_equal(shma_npz_contains(npz, NULL), 0);
    expect_member(NULL, "a", needed, "npz: it is NULL");
    expect_member(npz, NULL, needed, "name: it is NULL");
    expect_failure(shma_npz_load(npz, "a", NULL, NULL, &error), needed, "array_out");
    expect_failure(shma_npz_load_all(NULL, NULL, NULL, &error), needed, "npz: it is NULL");
    expect_failure(shma_npz_load_all(npz, NULL, NULL, &error), needed, "arrays_out");
    expect_failure(shma_npz_save(NULL, 0, NULL, NULL, NULL, &error), needed, "path");
    expect_failure(shma_npz_save("x", 1, NULL, NULL, NULL, &error), needed, "names");
    assert_int_equal(shma_npz_open(NULL, NULL, NULL, NULL), needed);
    assert_int_equal(shma_npz_open_bytes(NULL, 0, NULL, NULL, NULL), needed);
    assert_int_equal(shma_npz_load(NULL, NULL, NULL, NULL, NULL), needed);
    assert_int_equal(shma_npz_load_all(NULL, NULL, NULL, NULL), needed);
    assert_int_equal(shma_npz_save(NULL, 0, NULL, NULL, NULL, NULL), needed);
    shma_npz_close(npz);
    shma_npz_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(saved_arrays_are_listed_and_loaded),
        TEST(stored_archives_of_numpy_are_saved_with_the_same_bytes),
        TEST(a_name_loads_its_own_member),
        TEST(a_member_that_is_no_array_is_its_bytes),
        TEST(bytes_in_memory_are_opened),
        TEST(objects_are_refused_and_their_names_are_listed),
        TEST(an_archive_that_is_not_valid_is_refused),
        TEST(a_member_that_is_not_valid_is_refused_by_name),
        TEST(a_bomb_is_refused_before_it_is_inflated),
        TEST(options_that_cannot_be_honoured_are_refused),
        TEST(names_that_no_archive_can_have_are_refused),
        TEST(null_where_something_is_needed),
    };
    return cmocka_run_group_tests_name("npz", tests, NULL, NULL);
}
