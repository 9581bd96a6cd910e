// Dictionaries in C: what is put in is found, nothing else is, and broken ones are refused.
#include "children.h"
#include "files.h"

static shma_dict *const untouched_dict = (shma_dict *)&two_by_three;
static shma_list *const untouched_list = (shma_list *)&two_by_three;
static const size_t untouched_index = 99;

static const char *const three_words[] = {"one", "", "three \xc3\xa4"};
static const int64_t three_integers[] = {INT64_MIN, -1, INT64_MAX};
static const double three_values[] = {1.5, -2, 3};

static shma_column_builder *of_kind(shma_item_kind kind) {
    shma_column_builder *builder = NULL;
    expect_ok(shma_column_builder_create(kind, &builder, NULL));
    return builder;
}

static shma_column_builder *of_numbers(shma_dtype dtype, const void *numbers, size_t count) {
    shma_column_builder *builder = NULL;
    expect_ok(shma_column_builder_create_numbers(dtype, NULL, &builder, NULL));
    expect_ok(shma_column_builder_push_numbers(builder, numbers, count, NULL));
    return builder;
}

static shma_column_builder *of_words(shma_item_kind kind, const char *const *words, size_t count) {
    shma_column_builder *builder = of_kind(kind);
    for (size_t i = 0; i < count; i++) {
        const size_t size_bytes = strlen(words[i]);
        if (kind == SHMA_ITEM_STRING)
            expect_ok(shma_column_builder_push_string(builder, words[i], size_bytes, NULL));
        else
            expect_ok(shma_column_builder_push_bytes(builder, words[i], size_bytes, NULL));
    }
    return builder;
}

static shma_column_builder *of_values(size_t count) {
    return of_numbers(SHMA_FLOAT64, three_values, count);
}

static shma_dict *made_of(shma_column_builder *keys, shma_column_builder *values) {
    shma_dict *made = NULL;
    expect_ok(shma_dict_create(keys, values, NULL, &made, NULL));
    return made;
}

// Returns a dictionary of three keys, attached by its handle as in another process.
static shma_dict *three_of(shma_column_builder *keys) {
    char handle[4096];
    shma_dict *made = made_of(keys, of_values(3)), *again = NULL;
    expect_ok(shma_array_handle(shma_dict_array(made), handle, sizeof handle, NULL, NULL));
    expect_ok(shma_dict_attach(handle, &again, NULL));
    shma_dict_close(made);
    assert_int_equal(shma_dict_count(again), 3);
    return again;
}

static shma_dict *three_words_of(shma_item_kind kind) {
    return three_of(of_words(kind, three_words, 3));
}

static int32_t find(const shma_dict *dict, shma_item_kind kind, const char *key,
                    size_t *index_out) {
    return kind == SHMA_ITEM_STRING
               ? shma_dict_find_string(dict, key, strlen(key), index_out, &error)
               : shma_dict_find_bytes(dict, key, strlen(key), index_out, &error);
}

static void expect_absent(const shma_dict *dict, shma_item_kind kind, const char *key) {
    size_t index = untouched_index;
    assert_int_equal(find(dict, kind, key, &index), SHMA_ABSENT);
    assert_int_equal(index, untouched_index);
}

static void expect_value_at(const shma_dict *dict, size_t index, double expected) {
    const void *data = NULL;
    size_t size_bytes = 0;
    expect_ok(shma_column_item(shma_dict_values(dict), index, &data, &size_bytes, NULL));
    assert_int_equal(size_bytes, sizeof expected);
    assert_memory_equal(data, &expected, sizeof expected);
}

static void expect_three_words(const shma_dict *dict, shma_item_kind kind) {
    assert_int_equal(shma_column_kind(shma_dict_keys(dict)), kind);
    for (size_t i = 0; i < 3; i++) {
        const void *data = NULL;
        size_t index = untouched_index, size_bytes = 0;
        expect_ok(find(dict, kind, three_words[i], &index));
        assert_int_equal(index, i);
        expect_value_at(dict, index, three_values[i]);
        expect_ok(shma_column_item(shma_dict_keys(dict), i, &data, &size_bytes, NULL));
        assert_int_equal(size_bytes, strlen(three_words[i]));
        assert_memory_equal(data, three_words[i], size_bytes);
    }
    expect_absent(dict, kind, "two");
    expect_absent(dict, kind, "onetwo");
    expect_absent(dict, kind, "on");
}

static void a_key_finds_its_value_and_no_other_key_does(void **state) {
    const shma_item_kind kinds[] = {SHMA_ITEM_STRING, SHMA_ITEM_BYTES};
    for (size_t i = 0; i < 2; i++) {
        shma_dict *dict = three_words_of(kinds[i]);
        size_t index = untouched_index;
        expect_three_words(dict, kinds[i]);
        expect_absent(dict, kinds[i], "\xc3");    // no UTF-8
        expect_absent(dict, kinds[1 - i], "one"); // it is a key of another kind
        assert_int_equal(shma_dict_find_integer(dict, 1, &index, &error), SHMA_ABSENT);
        shma_dict_close(dict);
    }
}

static void integers_of_64_bits_are_keys(void **state) {
    shma_dict *dict = three_of(of_numbers(SHMA_INT64, three_integers, 3));
    const int64_t others[] = {0, 1, INT64_MIN + 1, INT64_MAX - 1};
    assert_int_equal(shma_column_dtype(shma_dict_keys(dict)), SHMA_INT64);
    for (size_t i = 0; i < 3; i++) {
        size_t index = untouched_index;
        expect_ok(shma_dict_find_integer(dict, three_integers[i], &index, NULL));
        assert_int_equal(index, i);
        expect_value_at(dict, index, three_values[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t index = untouched_index;
        assert_int_equal(shma_dict_find_integer(dict, others[i], &index, NULL), SHMA_ABSENT);
    }
    expect_absent(dict, SHMA_ITEM_STRING, "-1");
    expect_absent(dict, SHMA_ITEM_BYTES, "\xff\xff\xff\xff\xff\xff\xff\xff");
    shma_dict_close(dict);
}

static void keys_and_strings_may_have_zero_bytes(void **state) {
    shma_column_builder *keys = of_kind(SHMA_ITEM_BYTES), *values = of_kind(SHMA_ITEM_NOTHING);
    expect_ok(shma_column_builder_push_bytes(keys, "\0\1", 2, NULL));
    expect_ok(shma_column_builder_push_none(values, NULL));
    shma_dict *dict = made_of(keys, values);
    size_t index = untouched_index;
    expect_ok(shma_dict_find_bytes(dict, "\0\1", 2, &index, NULL));
    assert_int_equal(index, 0);
    assert_int_equal(shma_dict_find_bytes(dict, "\0\2", 2, &index, NULL), SHMA_ABSENT);
    assert_int_equal(shma_dict_find_bytes(dict, NULL, 0, &index, NULL), SHMA_ABSENT);
    assert_int_equal(shma_column_is_none(shma_dict_values(dict), 0), 1);
    shma_dict_close(dict);
}

static void one_of_a_hundred_thousand_is_found(void **state) {
    enum { COUNT = 100000 };
    static int64_t numbers[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = (int64_t)i * 4096;
    shma_dict *dict =
        made_of(of_numbers(SHMA_INT64, numbers, COUNT), of_numbers(SHMA_INT64, numbers, COUNT));
    for (size_t i = 0; i < COUNT; i++) {
        size_t index = untouched_index;
        must(shma_dict_find_integer(dict, numbers[i], &index, NULL) == SHMA_OK && index == i);
        must(shma_dict_find_integer(dict, numbers[i] + 1, &index, NULL) == SHMA_ABSENT);
    }
    shma_dict_close(dict);
}

static void a_dictionary_without_entries_has_no_key(void **state) {
    shma_dict *dict = made_of(of_kind(SHMA_ITEM_NOTHING), of_kind(SHMA_ITEM_NOTHING));
    assert_int_equal(shma_dict_count(dict), 0);
    assert_int_equal(shma_column_count(shma_dict_keys(dict)), 0);
    expect_absent(dict, SHMA_ITEM_STRING, "");
    expect_absent(dict, SHMA_ITEM_BYTES, "");
    shma_dict_close(dict);
}

static void a_dictionary_has_a_name_and_its_array_is_retained(void **state) {
    shma_options options = SHMA_OPTIONS_INIT;
    options.name = "words";
    shma_dict *dict = NULL, *second = untouched_dict, *found = NULL, *again = NULL;
    expect_ok(shma_dict_create(of_words(SHMA_ITEM_STRING, three_words, 3), of_values(3), &options,
                               &dict, NULL));
    expect_failure(
        shma_dict_create(of_kind(SHMA_ITEM_BYTES), of_values(0), &options, &second, &error),
        SHMA_ERROR_EXISTS, "\"words\"");
    assert_ptr_equal(second, untouched_dict);
    expect_ok(shma_dict_attach("words", &found, NULL));
    shma_dict_close(dict);
    shma_array *array = shma_array_retain(shma_dict_array(found));
    shma_dict_close(found);
    expect_ok(shma_dict_of_array(array, &again, NULL));
    shma_array_close(array);
    expect_three_words(again, SHMA_ITEM_STRING);
    shma_dict_close(again);
    expect_failure(shma_dict_attach("words", &second, &error), SHMA_ERROR_NOT_FOUND, "\"words\"");
}

static void a_value_that_is_an_array_holds_the_dictionary(void **state) {
    static const int64_t shape[] = {2};
    static const float elements[] = {0.5, -1};
    shma_column_builder *values = NULL;
    expect_ok(shma_column_builder_create_arrays(SHMA_FLOAT32, NULL, 1, &values, NULL));
    expect_ok(shma_column_builder_push_array(values, 1, shape, elements, NULL));
    shma_dict *dict = made_of(of_words(SHMA_ITEM_STRING, three_words, 1), values);
    shma_array *array = NULL;
    expect_ok(shma_column_array(shma_dict_values(dict), 0, &array, NULL));
    shma_dict_close(dict);
    assert_memory_equal(shma_array_data(array), elements, sizeof elements);
    shma_array_close(array);
}

static void expect_refused(shma_column_builder *keys, shma_column_builder *values,
                           const char *words) {
    shma_dict *dict = untouched_dict;
    expect_failure(shma_dict_create(keys, values, NULL, &dict, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   words);
    assert_ptr_equal(dict, untouched_dict);
}

static void keys_that_cannot_be_found_are_refused(void **state) {
    static const char *const twice[] = {"a", "b", "a"};
    const double number = 1;
    shma_column_builder *none = of_words(SHMA_ITEM_STRING, twice, 1);
    expect_ok(shma_column_builder_push_none(none, NULL));
    expect_refused(of_words(SHMA_ITEM_STRING, twice, 3), of_values(3),
                   "number 0 and number 2 are the same");
    expect_refused(none, of_values(2), "one is None");
    expect_refused(of_numbers(SHMA_FLOAT64, &number, 1), of_values(1), "not strings, bytes or <i8");
    expect_refused(of_words(SHMA_ITEM_STRING, twice, 2), of_values(1), "there are 1 for 2 keys");
}

static void another_dtype_is_refused(void **state) {
    shma_array *array = NULL;
    shma_dict *dict = untouched_dict;
    expect_ok(shma_array_create(SHMA_INT32, 2, two_by_three, NULL, &array, NULL));
    expect_failure(shma_dict_of_array(array, &dict, &error), SHMA_ERROR_DTYPE_MISMATCH, "dict");
    assert_ptr_equal(dict, untouched_dict);
    shma_array_close(array);
}

static void a_list_is_no_dictionary_and_a_dictionary_no_list(void **state) {
    char handle[4096];
    const char *const path = new_file("of_list"), *const other_path = new_file("of_dict");
    shma_list *list = NULL, *no_list = untouched_list;
    shma_dict *dict = three_words_of(SHMA_ITEM_STRING), *no_dict = untouched_dict;
    expect_ok(shma_list_create(of_values(3), NULL, &list, NULL));

    expect_ok(shma_array_handle(shma_list_array(list), handle, sizeof handle, NULL, NULL));
    expect_failure(shma_dict_attach(handle, &no_dict, &error), SHMA_ERROR_DTYPE_MISMATCH, "dict");
    expect_ok(shma_array_handle(shma_dict_array(dict), handle, sizeof handle, NULL, NULL));
    expect_failure(shma_list_attach(handle, &no_list, &error), SHMA_ERROR_DTYPE_MISMATCH, "list");
    expect_ok(shma_list_save(path, list, NULL));
    expect_failure(shma_dict_open(path, 0, &no_dict, &error), SHMA_ERROR_INVALID_FILE,
                   "it is a list");
    expect_ok(shma_dict_save(other_path, dict, NULL));
    expect_failure(shma_list_open(other_path, 0, &no_list, &error), SHMA_ERROR_INVALID_FILE,
                   "it is a dictionary");
    assert_ptr_equal(no_dict, untouched_dict);
    assert_ptr_equal(no_list, untouched_list);
    shma_list_close(list);
    shma_dict_close(dict);
    remove(path);
    remove(other_path);
}

static void a_dictionary_in_a_file_is_the_same_one(void **state) {
    const char *const path = new_file("words");
    shma_dict *dict = three_words_of(SHMA_ITEM_STRING), *opened = untouched_dict;
    expect_ok(shma_dict_save(path, dict, NULL));
    const void *last = NULL;
    size_t size_bytes = 0;
    expect_ok(shma_column_item(shma_dict_values(dict), 2, &last, &size_bytes, NULL));
    const char *const first = shma_array_data(shma_dict_array(dict));
    const long offset = (long)((const char *)last - first);
    shma_dict_close(dict);
    for (int32_t checked = 0; checked < 2; checked++) {
        expect_ok(shma_dict_open(path, checked, &opened, NULL));
        assert_null(shma_dict_array(opened));
        expect_three_words(opened, SHMA_ITEM_STRING);
        shma_dict_close(opened);
    }
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, offset, SEEK_SET);
    fputc('x', file);
    fclose(file);
    opened = untouched_dict;
    expect_failure(shma_dict_open(path, 1, &opened, &error), SHMA_ERROR_INVALID_FILE, "checksum");
    assert_int_equal(truncate(path, 100), 0);
    expect_failure(shma_dict_open(path, 0, &opened, &error), SHMA_ERROR_INVALID_FILE, "words");
    remove(path);
    expect_failure(shma_dict_open(path, 0, &opened, &error), SHMA_ERROR_NOT_FOUND, "words");
    assert_ptr_equal(opened, untouched_dict);
}

// Returns an array of a dictionary's bytes.
static shma_array *array_of(const void *bytes, size_t size_bytes) {
    const int64_t shape[] = {(int64_t)size_bytes};
    shma_options options = SHMA_OPTIONS_INIT;
    options.dtype_text = "{\"descr\":\"dict\",\"itemsize\":1}";
    shma_array *array = NULL;
    expect_ok(shma_array_share(bytes, SHMA_OPAQUE, 1, shape, NULL, &options, &array, NULL));
    return array;
}

static void a_golden_dictionary_is_read(void **state) {
    char path[4096];
    size_t size_bytes = 0;
    snprintf(path, sizeof path, "%s/dictionary", SHMARRAY_GOLDEN_LISTS);
    char *bytes = bytes_of(path, &size_bytes);
    shma_array *array = array_of(bytes, size_bytes);
    free(bytes);
    shma_dict *dict = NULL;
    expect_ok(shma_dict_of_array(array, &dict, NULL));
    shma_array_close(array);
    const shma_column *keys = shma_dict_keys(dict);
    assert_true(shma_dict_count(dict) > 1);
    for (size_t at = 0; at < shma_dict_count(dict); at++) {
        const void *key = NULL;
        size_t index = untouched_index;
        expect_ok(shma_column_item(keys, at, &key, &size_bytes, NULL));
        expect_ok(shma_dict_find_string(dict, key, size_bytes, &index, NULL));
        assert_int_equal(index, at);
    }
    expect_absent(dict, SHMA_ITEM_STRING, "nowhere");
    shma_dict_close(dict);
}

// Asserts that an item, if there is one, lies in the dictionary, and returns a sum of its bytes.
static uint64_t sum_of_item(const shma_column *column, size_t index, const shma_array *all) {
    const uint8_t *const first = shma_array_data(all), *const end = first + shma_array_size(all);
    const void *data = NULL;
    size_t size_bytes = 0;
    uint64_t sum = 1;
    if (shma_column_item(column, index, &data, &size_bytes, &error) != SHMA_OK || data == NULL)
        return 0;
    const uint8_t *const bytes = data;
    assert_true(bytes >= first && size_bytes <= (size_t)(end - bytes));
    for (size_t at = 0; at < size_bytes; at++)
        sum += bytes[at];
    return sum;
}

// Seeks keys in a dictionary, whatever its bytes are. Returns how many were found.
static size_t found_in(const shma_dict *dict, const shma_array *all) {
    static const char *const more[] = {"one", "", "three \xc3\xa4", "two"};
    size_t found = 0;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        size_t index = untouched_index;
        const int32_t status = find(dict, SHMA_ITEM_STRING, more[i], &index);
        if (status != SHMA_OK) {
            assert_true(status == SHMA_ABSENT || status == SHMA_ERROR_INVALID_SEGMENT);
            continue;
        }
        assert_true(index < shma_dict_count(dict));
        found += sum_of_item(shma_dict_keys(dict), index, all) > 0;
        sum_of_item(shma_dict_values(dict), index, all);
    }
    return found;
}

static void broken_bytes_are_refused_or_every_entry_lies_in_the_dictionary(void **state) {
    static const uint8_t others[] = {0, 1, 2, 64, 0x7f, 0x80, 0xff};
    shma_dict *dict = three_words_of(SHMA_ITEM_STRING), *broken = NULL;
    const shma_array *made = shma_dict_array(dict);
    shma_array *all = array_of(shma_array_data(made), shma_array_size(made));
    shma_dict_close(dict);
    uint8_t *bytes = shma_array_data(all);
    size_t refused = 0, found = 0;
    for (size_t at = 0; at < shma_array_size(all); at++) {
        const uint8_t before = bytes[at];
        for (size_t other = 0; other < sizeof others; other++) {
            bytes[at] = others[other];
            const int32_t status = shma_dict_of_array(all, &broken, &error);
            if (status != SHMA_OK) {
                assert_int_equal(status, SHMA_ERROR_INVALID_SEGMENT);
                refused++;
                continue;
            }
            found += found_in(broken, all);
            bytes[at] = (uint8_t)~bytes[at]; // while it is open
            found += found_in(broken, all);
            shma_dict_close(broken);
        }
        bytes[at] = before;
    }
    assert_true(refused > 100 && found > 1000);
    shma_array_close(all);
}

static void bytes_that_are_cut_are_refused(void **state) {
    shma_dict *dict = three_words_of(SHMA_ITEM_STRING), *cut = untouched_dict;
    const shma_array *made = shma_dict_array(dict);
    const size_t size_bytes = shma_array_size(made);
    for (size_t kept = 0; kept < size_bytes; kept += 7) {
        shma_array *array = array_of(shma_array_data(made), kept);
        expect_failure(shma_dict_of_array(array, &cut, &error), SHMA_ERROR_INVALID_SEGMENT,
                       "invalid list: ");
        assert_ptr_equal(cut, untouched_dict);
        shma_array_close(array);
    }
    shma_dict_close(dict);
}

static int make_a_dictionary_and_wait(void *unused) {
    shma_dict *dict = three_words_of(SHMA_ITEM_STRING);
    char handle[2048];
    must(shma_array_handle(shma_dict_array(dict), handle, sizeof handle, NULL, NULL) == SHMA_OK);
    say_text(handle);
    wait_for_go();
    end_by(BY_KILL, 0);
    return 0;
}

static void a_killed_creator_leaves_its_dictionary_to_those_that_have_it(void **state) {
    const struct child child = start_child(make_a_dictionary_and_wait, NULL);
    const struct text handle = hear_text(&child);
    shma_dict *dict = NULL, *late = untouched_dict;
    expect_ok(shma_dict_attach(handle.bytes, &dict, &error));
    let_go(&child);
    assert_int_equal(ended(&child), SIGKILL);
    expect_three_words(dict, SHMA_ITEM_STRING);
    shma_dict_close(dict);
    swept();
    assert_int_not_equal(shma_dict_attach(handle.bytes, &late, NULL), SHMA_OK);
    assert_ptr_equal(late, untouched_dict);
}

static void null_where_something_is_needed(void **state) {
    const int32_t needed = SHMA_ERROR_INVALID_ARGUMENT;
    shma_dict *dict = untouched_dict, *made = three_words_of(SHMA_ITEM_STRING);
    size_t index = untouched_index;
    expect_failure(shma_dict_attach(NULL, &dict, &error), needed, "handle_or_name: it is NULL");
    expect_failure(shma_dict_attach("x", NULL, &error), needed, "dict_out");
    expect_failure(shma_dict_of_array(NULL, &dict, &error), needed, "array: it is NULL");
    expect_failure(shma_dict_of_array(shma_dict_array(made), NULL, &error), needed, "dict_out");
    expect_refused(NULL, of_values(0), "keys: it is NULL");
    expect_refused(of_kind(SHMA_ITEM_STRING), NULL, "values: it is NULL");
    expect_refused(NULL, NULL, "keys: it is NULL");
    shma_column_builder *both = of_kind(SHMA_ITEM_STRING);
    expect_refused(both, both, "values: it is NULL, or the keys");
    expect_failure(shma_dict_create(of_kind(SHMA_ITEM_STRING), of_values(0), NULL, NULL, &error),
                   needed, "dict_out");
    expect_failure(shma_dict_open(NULL, 0, &dict, &error), needed, "path");
    expect_failure(shma_dict_save(NULL, made, &error), needed, "path");
    expect_failure(shma_dict_save(new_file("words"), NULL, &error), needed, "dict");
    expect_failure(shma_dict_find_string(NULL, "a", 1, &index, &error), needed, "dict: it is NULL");
    expect_failure(shma_dict_find_string(made, NULL, 1, &index, &error), needed, "key: it is NULL");
    expect_failure(shma_dict_find_string(made, "a", 1, NULL, &error), needed, "index_out");
    expect_failure(shma_dict_find_bytes(made, NULL, 1, &index, &error), needed, "key: it is NULL");
    expect_failure(shma_dict_find_integer(NULL, 1, &index, &error), needed, "dict: it is NULL");
    expect_failure(shma_dict_find_integer(made, 1, NULL, &error), needed, "index_out");
    assert_ptr_equal(dict, untouched_dict);
    assert_int_equal(index, untouched_index);
    assert_int_equal(shma_dict_count(NULL), 0);
    assert_null(shma_dict_array(NULL));
    assert_null(shma_dict_keys(NULL));
    assert_null(shma_dict_values(NULL));
    shma_dict_close(NULL);
    shma_dict_close(made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_key_finds_its_value_and_no_other_key_does),
        TEST(integers_of_64_bits_are_keys),
        TEST(keys_and_strings_may_have_zero_bytes),
        TEST(one_of_a_hundred_thousand_is_found),
        TEST(a_dictionary_without_entries_has_no_key),
        TEST(a_dictionary_has_a_name_and_its_array_is_retained),
        TEST(a_value_that_is_an_array_holds_the_dictionary),
        TEST(keys_that_cannot_be_found_are_refused),
        TEST(another_dtype_is_refused),
        TEST(a_list_is_no_dictionary_and_a_dictionary_no_list),
        TEST(a_dictionary_in_a_file_is_the_same_one),
        TEST(a_golden_dictionary_is_read),
        TEST(broken_bytes_are_refused_or_every_entry_lies_in_the_dictionary),
        TEST(bytes_that_are_cut_are_refused),
        TEST(a_killed_creator_leaves_its_dictionary_to_those_that_have_it),
        TEST(null_where_something_is_needed),
    };
    return cmocka_run_group_tests_name("dicts", tests, NULL, NULL);
}
