// Lists in C: what is put in and comes out, golden lists of another writer, and broken ones.
#include <pthread.h>

#include "children.h"
#include "files.h"

static shma_list *const untouched_list = (shma_list *)&two_by_three;
static shma_column_builder *const untouched_builder = (shma_column_builder *)&two_by_three;

static shma_column_builder *of_kind(shma_item_kind kind) {
    shma_column_builder *builder = NULL;
    expect_ok(shma_column_builder_create(kind, &builder, NULL));
    return builder;
}

static shma_column_builder *of_numbers(shma_dtype dtype) {
    shma_column_builder *builder = NULL;
    expect_ok(shma_column_builder_create_numbers(dtype, NULL, &builder, NULL));
    return builder;
}

static shma_column_builder *of_arrays(shma_dtype dtype, size_t ndim) {
    shma_column_builder *builder = NULL;
    expect_ok(shma_column_builder_create_arrays(dtype, NULL, ndim, &builder, NULL));
    return builder;
}

static void push_string(const shma_column_builder *builder, const char *string) {
    expect_ok(shma_column_builder_push_string(builder, string, strlen(string), NULL));
}

static void push_none(const shma_column_builder *builder) {
    expect_ok(shma_column_builder_push_none(builder, NULL));
}

// Returns a list of the items, attached by its handle as in another process.
static shma_list *list_of(shma_column_builder *items) {
    char handle[4096];
    shma_list *made = NULL, *again = NULL;
    expect_ok(shma_list_create(items, NULL, &made, NULL));
    expect_ok(shma_array_handle(shma_list_array(made), handle, sizeof handle, NULL, NULL));
    expect_ok(shma_list_attach(handle, &again, NULL));
    shma_list_close(made);
    return again;
}

enum { NUMBERS, IMAGES, SAME, STRINGS, BYTES, NOTHING, WORDS, FIELDS };
static const char *const names[] = {"number", "image", "same", "string", "bytes", "none", "words"};

// Returns a builder of three records with a field of each kind.
static shma_column_builder *everything(void) {
    static const int32_t numbers[] = {1, -3};
    static const int64_t shapes[][2] = {{1, 2}, {3, 1}}, two[] = {2};
    static const uint16_t elements[] = {1, 2, 3};
    static const char *const strings[] = {"", "\xc3\xa4", "text"};
    static const char bytes[] = {2, 0};
    shma_column_builder *fields[FIELDS], *records = NULL;
    fields[NUMBERS] = of_numbers(SHMA_INT32);
    expect_ok(shma_column_builder_push_numbers(fields[NUMBERS], numbers, 1, NULL));
    push_none(fields[NUMBERS]);
    expect_ok(shma_column_builder_push_numbers(fields[NUMBERS], numbers + 1, 1, NULL));
    fields[IMAGES] = of_arrays(SHMA_UINT16, 2);
    expect_ok(shma_column_builder_push_array(fields[IMAGES], 2, shapes[0], elements, NULL));
    push_none(fields[IMAGES]);
    expect_ok(shma_column_builder_push_array(fields[IMAGES], 2, shapes[1], elements, NULL));
    fields[SAME] = of_arrays(SHMA_UINT8, 1);
    fields[STRINGS] = of_kind(SHMA_ITEM_STRING);
    fields[BYTES] = of_kind(SHMA_ITEM_BYTES);
    fields[NOTHING] = of_kind(SHMA_ITEM_NOTHING);
    shma_column_builder *lists = NULL;
    expect_ok(shma_column_builder_create_lists(of_kind(SHMA_ITEM_STRING), &lists, NULL));
    fields[WORDS] = lists;
    expect_ok(shma_column_builder_create_records(FIELDS, names, fields, &records, NULL));
    const shma_column_builder *field[FIELDS];
    for (size_t i = 0; i < FIELDS; i++)
        field[i] = shma_column_builder_field(records, i);
    for (size_t i = 0; i < 3; i++) {
        expect_ok(shma_column_builder_push_array(field[SAME], 1, two, "ab", NULL));
        push_string(field[STRINGS], strings[i]);
        expect_ok(shma_column_builder_push_bytes(field[BYTES], bytes, i, NULL));
        push_none(field[NOTHING]);
        push_string(shma_column_builder_field(field[WORDS], 0), "a");
        if (i == 1)
            push_string(shma_column_builder_field(field[WORDS], 0), "b");
        expect_ok(shma_column_builder_push_list(field[WORDS], NULL));
    }
    assert_null(shma_column_builder_field(records, FIELDS));
    expect_ok(shma_column_builder_push_records(records, 3, NULL));
    assert_int_equal(shma_column_builder_count(records), 3);
    return records;
}

static void expect_item(const shma_column *column, size_t index, const void *bytes,
                        size_t size_bytes) {
    const void *data = NULL;
    size_t found_bytes = 99;
    expect_ok(shma_column_item(column, index, &data, &found_bytes, NULL));
    assert_int_equal(found_bytes, size_bytes);
    assert_non_null(data);
    assert_memory_equal(data, bytes, size_bytes);
}

static void expect_none(const shma_column *column, size_t index) {
    const void *data = &two_by_three;
    size_t size_bytes = 99;
    assert_int_equal(shma_column_is_none(column, index), 1);
    expect_ok(shma_column_item(column, index, &data, &size_bytes, NULL));
    assert_null(data);
    assert_int_equal(size_bytes, 0);
}

static void expect_no_item(const shma_column *column, size_t index, int32_t expected,
                           const char *words) {
    const void *data = &two_by_three;
    size_t size_bytes = 99;
    expect_failure(shma_column_item(column, index, &data, &size_bytes, &error), expected, words);
    assert_ptr_equal(data, &two_by_three);
    assert_int_equal(size_bytes, 99);
}

static void each_kind_comes_out_as_it_was_put_in(void **state) {
    shma_list *list = list_of(everything());
    const shma_column *items = shma_list_items(list), *field[FIELDS];
    assert_int_equal(shma_list_count(list), 3);
    assert_int_equal(shma_column_kind(items), SHMA_ITEM_RECORD);
    assert_int_equal(shma_column_child_count(items), FIELDS);
    assert_string_equal(shma_column_name(items), "");
    for (size_t i = 0; i < FIELDS; i++) {
        field[i] = shma_column_field(items, names[i]);
        assert_ptr_equal(field[i], shma_column_child(items, i));
        assert_string_equal(shma_column_name(field[i]), names[i]);
        assert_int_equal(shma_column_count(field[i]), 3);
    }
    assert_null(shma_column_field(items, "numbe"));
    assert_null(shma_column_child(items, FIELDS));

    const int32_t last = -3;
    assert_int_equal(shma_column_kind(field[NUMBERS]), SHMA_ITEM_NUMBER);
    assert_int_equal(shma_column_dtype(field[NUMBERS]), SHMA_INT32);
    assert_string_equal(shma_column_dtype_text(field[NUMBERS]), "<i4");
    assert_int_equal(shma_column_nulls(field[NUMBERS]), 1);
    assert_int_equal(shma_column_is_none(field[NUMBERS], 0), 0);
    expect_none(field[NUMBERS], 1);
    expect_item(field[NUMBERS], 2, &last, sizeof last);

    const uint16_t elements[] = {1, 2, 3};
    int64_t shape[2] = {9, 9};
    shma_array *image = NULL;
    assert_int_equal(shma_column_kind(field[IMAGES]), SHMA_ITEM_ARRAY);
    assert_int_equal(shma_column_ndim(field[IMAGES]), 2);
    assert_int_equal(shma_column_itemsize(field[IMAGES]), 2);
    expect_item(field[IMAGES], 2, elements, sizeof elements);
    expect_none(field[IMAGES], 1);
    expect_ok(shma_column_shape(field[IMAGES], 2, 2, shape, NULL));
    assert_int_equal(shape[0], 3);
    assert_int_equal(shape[1], 1);
    expect_ok(shma_column_shape(field[IMAGES], 1, 2, shape, NULL));
    assert_int_equal(shape[0], 0);
    expect_ok(shma_column_array(field[IMAGES], 0, &image, NULL));

    expect_item(field[SAME], 1, "ab", 2);
    expect_item(field[STRINGS], 0, "", 0);
    expect_item(field[STRINGS], 2, "text", 4);
    expect_item(field[BYTES], 2, "\2", 2);
    assert_int_equal(shma_column_nulls(field[NOTHING]), 3);
    expect_none(field[NOTHING], 0);
    size_t first = 9, count = 9;
    expect_ok(shma_column_range(field[WORDS], 1, &first, &count, NULL));
    assert_int_equal(first, 1);
    assert_int_equal(count, 2);
    expect_item(shma_column_child(field[WORDS], 0), first + 1, "b", 1);

    shma_list_close(list);
    assert_int_equal(shma_array_shape(image)[1], 2); // it holds the list's memory
    assert_memory_equal(shma_array_data(image), elements, 4);
    assert_int_equal(shma_array_is_readonly(image), 1);
    shma_array_close(image);
}

static void values_and_offsets_are_arrays(void **state) {
    shma_list *list = list_of(everything());
    const shma_column *items = shma_list_items(list);
    shma_array *values = NULL, *offsets = NULL, *none = untouched;
    const shma_column *strings = shma_column_field(items, "string");
    expect_ok(shma_column_values(strings, &values, NULL));
    assert_int_equal(shma_array_dtype(values), SHMA_UINT8);
    assert_memory_equal(shma_array_data(values), "\xc3\xa4text", 6);
    expect_ok(shma_column_offsets(strings, &offsets, NULL));
    assert_int_equal(shma_array_shape(offsets)[0], 4);
    assert_int_equal(((int64_t *)shma_array_data(offsets))[3], 6);
    shma_array_close(values);
    shma_array_close(offsets);
    expect_failure(shma_column_values(items, &none, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   "Records have no values");
    expect_failure(shma_column_offsets(shma_column_field(items, "same"), &none, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "have no offsets");
    assert_ptr_equal(none, untouched);
    shma_list_close(list);
}

static void a_list_has_a_name_and_its_array_is_retained(void **state) {
    shma_options options = SHMA_OPTIONS_INIT;
    options.name = "words";
    shma_column_builder *strings = of_kind(SHMA_ITEM_STRING);
    push_string(strings, "one");
    shma_list *list = NULL, *second = untouched_list, *found = NULL, *again = NULL;
    expect_ok(shma_list_create(strings, &options, &list, NULL));
    expect_failure(shma_list_create(of_kind(SHMA_ITEM_BYTES), &options, &second, &error),
                   SHMA_ERROR_EXISTS, "\"words\"");
    assert_ptr_equal(second, untouched_list);
    expect_ok(shma_list_attach("words", &found, NULL));
    shma_list_close(list);
    shma_array *array = shma_array_retain(shma_list_array(found));
    shma_list_close(found);
    expect_ok(shma_list_of_array(array, &again, NULL));
    shma_array_close(array);
    expect_item(shma_list_items(again), 0, "one", 3);
    shma_list_close(again);
    expect_failure(shma_list_attach("words", &second, &error), SHMA_ERROR_NOT_FOUND, "\"words\"");
}

static void items_of_another_kind_or_index_are_refused(void **state) {
    const int32_t refused = SHMA_ERROR_INVALID_ARGUMENT;
    shma_list *list = list_of(everything());
    const shma_column *items = shma_list_items(list);
    const shma_column *strings = shma_column_field(items, "string");
    const shma_column *images = shma_column_field(items, "image");
    size_t first = 0, count = 0;
    int64_t shape[65] = {9};
    shma_array *array = untouched;
    expect_no_item(strings, 3, SHMA_ERROR_OUT_OF_BOUNDS, "3");
    expect_no_item(strings, SIZE_MAX, SHMA_ERROR_OUT_OF_BOUNDS, "");
    expect_no_item(items, 0, refused, "Records have no bytes of their own");
    expect_no_item(shma_column_field(items, "words"), 0, refused, "Lists have no bytes");
    assert_int_equal(shma_column_is_none(strings, 3), 0);
    expect_failure(shma_column_range(strings, 0, &first, &count, &error), refused, "Strings");
    expect_failure(shma_column_shape(strings, 0, 1, shape, &error), refused, "Strings");
    expect_failure(shma_column_shape(images, 0, 1, shape, &error), refused, "1 places for 2");
    expect_failure(shma_column_shape(images, 0, 65, shape, &error), refused, "65 dimensions");
    expect_failure(shma_column_array(strings, 0, &array, &error), refused, "Strings");
    expect_failure(shma_column_array(images, 3, &array, &error), SHMA_ERROR_OUT_OF_BOUNDS, "3");
    assert_int_equal(shape[0], 9);
    assert_ptr_equal(array, untouched);
    shma_list_close(list);
}

static void what_does_not_agree_is_not_added(void **state) {
    const int32_t refused = SHMA_ERROR_INVALID_ARGUMENT;
    static const int64_t two[] = {2}, negative[] = {-1}, huge[] = {INT64_MAX};
    shma_column_builder *numbers = of_numbers(SHMA_INT32), *arrays = of_arrays(SHMA_FLOAT64, 1);
    shma_column_builder *strings = of_kind(SHMA_ITEM_STRING), *none = untouched_builder;
    expect_failure(shma_column_builder_push_string(numbers, "a", 1, &error), refused, "Numbers");
    expect_failure(shma_column_builder_push_numbers(numbers, NULL, 1, &error), refused, "data");
    expect_failure(shma_column_builder_push_numbers(numbers, two, SIZE_MAX, &error), refused,
                   "no memory of that size");
    expect_failure(shma_column_builder_push_array(arrays, 2, two_by_three, two, &error), refused,
                   "2 dimensions, not 1");
    expect_failure(shma_column_builder_push_array(arrays, 1, negative, two, &error), refused,
                   "negative");
    expect_failure(shma_column_builder_push_array(arrays, 1, huge, two, &error), refused, "memory");
    expect_failure(shma_column_builder_push_string(strings, "\xff", 1, &error), refused, "utf-8");
    expect_failure(shma_column_builder_push_bytes(strings, "a", 1, &error), refused, "Strings");
    expect_failure(shma_column_builder_push_list(strings, &error), refused, "Strings");
    expect_failure(shma_column_builder_push_records(strings, 1, &error), refused, "Strings");
    assert_int_equal(shma_column_builder_count(numbers), 0);
    assert_int_equal(shma_column_builder_count(arrays), 0);
    assert_int_equal(shma_column_builder_count(strings), 0);
    expect_failure(shma_column_builder_create(SHMA_ITEM_RECORD, &none, &error), refused, "kind");
    expect_failure(shma_column_builder_create_numbers(99, NULL, &none, &error),
                   SHMA_ERROR_INVALID_DTYPE, "99");
    expect_failure(shma_column_builder_create_arrays(SHMA_BOOL, NULL, 0, &none, &error), refused,
                   "ndim");
    // A builder of records takes its fields also when it is refused.
    const char *const twice[] = {"a", "a"}, *const different[] = {"a", "b"};
    shma_column_builder *same[] = {strings, strings};
    expect_failure(shma_column_builder_create_records(2, different, same, &none, &error), refused,
                   "\"b\" is NULL, or is there twice");
    shma_column_builder *both[] = {numbers, arrays};
    expect_failure(shma_column_builder_create_records(2, twice, both, &none, &error), refused,
                   "two are named \"a\"");
    assert_ptr_equal(none, untouched_builder);
    shma_column_builder *lists = NULL, *fields[1] = {of_kind(SHMA_ITEM_STRING)}, *records = NULL;
    expect_ok(shma_column_builder_create_records(1, twice, fields, &records, NULL));
    expect_failure(shma_column_builder_push_records(records, 1, &error), refused,
                   "\"a\" has 0 items of 1");
    push_none(records);
    assert_int_equal(shma_column_builder_count(shma_column_builder_field(records, 0)), 1);
    expect_ok(shma_column_builder_create_lists(records, &lists, NULL));
    expect_failure(shma_column_builder_push_none(lists, &error), refused, "no list has");
    expect_ok(shma_column_builder_push_list(lists, NULL));
    shma_column_builder_close(lists);
}

static void *push_a_thousand_strings(void *builder) {
    for (int i = 0; i < 1000; i++)
        must(shma_column_builder_push_string(builder, "four", 4, NULL) == SHMA_OK);
    return NULL;
}

static void threads_add_to_one_builder(void **state) {
    shma_column_builder *strings = of_kind(SHMA_ITEM_STRING);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, push_a_thousand_strings, strings), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    shma_list *list = list_of(strings);
    assert_int_equal(shma_list_count(list), 4000);
    expect_item(shma_list_items(list), 3999, "four", 4);
    shma_list_close(list);
}

static void columns_are_not_too_deep(void **state) {
    shma_column_builder *items = of_kind(SHMA_ITEM_NOTHING);
    shma_list *list = untouched_list;
    for (int depth = 0; depth < 16; depth++) {
        shma_column_builder *lists = NULL;
        expect_ok(shma_column_builder_create_lists(items, &lists, NULL));
        items = lists;
    }
    expect_failure(shma_list_create(items, NULL, &list, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   "16 deep");
    assert_ptr_equal(list, untouched_list);
}

// Returns an array of a list's bytes.
static shma_array *array_of(const void *bytes, size_t size_bytes) {
    const int64_t shape[] = {(int64_t)size_bytes};
    shma_options options = SHMA_OPTIONS_INIT;
    options.dtype_text = "{\"descr\":\"list\",\"itemsize\":1}";
    shma_array *array = NULL;
    expect_ok(shma_array_share(bytes, SHMA_OPAQUE, 1, shape, NULL, &options, &array, NULL));
    return array;
}

static shma_array *golden(const char *name) {
    char path[4096];
    size_t size_bytes = 0;
    snprintf(path, sizeof path, "%s/%s", SHMARRAY_GOLDEN_LISTS, name);
    char *bytes = bytes_of(path, &size_bytes);
    shma_array *array = array_of(bytes, size_bytes);
    free(bytes);
    return array;
}

// The items as JSON without white space, as they are in the index of the golden lists.
struct json {
    char text[8192];
    size_t length;
};

static void add(struct json *json, const char *text, size_t length) {
    assert_true(json->length + length < sizeof json->text);
    memcpy(json->text + json->length, text, length);
    json->length += length;
    json->text[json->length] = 0;
}

static void add_text(struct json *json, const char *text) { add(json, text, strlen(text)); }

static void add_number(struct json *json, shma_dtype dtype, const void *data, size_t index) {
    char text[64] = "";
    if (dtype == SHMA_FLOAT64)
        snprintf(text, sizeof text, "%.1f", ((const double *)data)[index]);
    else if (dtype == SHMA_INT64)
        snprintf(text, sizeof text, "%lld", (long long)((const int64_t *)data)[index]);
    else if (dtype == SHMA_INT32)
        snprintf(text, sizeof text, "%d", ((const int32_t *)data)[index]);
    else if (dtype == SHMA_UINT16)
        snprintf(text, sizeof text, "%d", ((const uint16_t *)data)[index]);
    else if (dtype == SHMA_UINT8)
        snprintf(text, sizeof text, "%d", ((const uint8_t *)data)[index]);
    else
        fail_msg("no golden list has dtype %d", dtype);
    add_text(json, text);
}

static void add_item(struct json *json, const shma_column *column, size_t index);

static void add_elements(struct json *json, const shma_column *column, size_t index,
                         const void *data, size_t size_bytes) {
    int64_t shape[64];
    const size_t ndim = shma_column_ndim(column);
    expect_ok(shma_column_shape(column, index, ndim, shape, NULL));
    add_text(json, "{\"shape\":[");
    for (size_t dimension = 0; dimension < ndim; dimension++) {
        add_text(json, dimension ? "," : "");
        add_number(json, SHMA_INT64, shape, dimension);
    }
    add_text(json, "],\"elements\":[");
    for (size_t at = 0; at < size_bytes / shma_column_itemsize(column); at++) {
        add_text(json, at ? "," : "");
        add_number(json, shma_column_dtype(column), data, at);
    }
    add_text(json, "]}");
}

static void add_list(struct json *json, const shma_column *column, size_t index) {
    size_t first = 0, count = 0;
    expect_ok(shma_column_range(column, index, &first, &count, NULL));
    add_text(json, "[");
    for (size_t at = 0; at < count; at++) {
        add_text(json, at ? "," : "");
        add_item(json, shma_column_child(column, 0), first + at);
    }
    add_text(json, "]");
}

static void add_record(struct json *json, const shma_column *column, size_t index) {
    for (size_t at = 0; at < shma_column_child_count(column); at++) {
        add_text(json, at ? ",\"" : "{\"");
        add_text(json, shma_column_name(shma_column_child(column, at)));
        add_text(json, "\":");
        add_item(json, shma_column_child(column, at), index);
    }
    add_text(json, "}");
}

static void add_bytes(struct json *json, const shma_column *column, size_t index) {
    const shma_item_kind kind = shma_column_kind(column);
    const void *data = NULL;
    size_t size_bytes = 0;
    expect_ok(shma_column_item(column, index, &data, &size_bytes, NULL));
    if (kind == SHMA_ITEM_NUMBER)
        add_number(json, shma_column_dtype(column), data, 0);
    else if (kind == SHMA_ITEM_ARRAY)
        add_elements(json, column, index, data, size_bytes);
    else {
        add_text(json, "\"");
        for (size_t at = 0; kind == SHMA_ITEM_BYTES && at < size_bytes; at++) {
            char digits[3];
            snprintf(digits, sizeof digits, "%02x", ((const uint8_t *)data)[at]);
            add_text(json, digits);
        }
        if (kind == SHMA_ITEM_STRING)
            add(json, data, size_bytes);
        add_text(json, "\"");
    }
}

static void add_item(struct json *json, const shma_column *column, size_t index) {
    if (shma_column_is_none(column, index))
        add_text(json, "null");
    else if (shma_column_kind(column) == SHMA_ITEM_LIST)
        add_list(json, column, index);
    else if (shma_column_kind(column) == SHMA_ITEM_RECORD)
        add_record(json, column, index);
    else
        add_bytes(json, column, index);
}

// Returns the index without the white space that is outside of texts.
static char *read_index(void) {
    char path[4096];
    size_t size_bytes = 0, length = 0;
    snprintf(path, sizeof path, "%s/index.json", SHMARRAY_GOLDEN_LISTS);
    char *index = bytes_of(path, &size_bytes);
    int is_text = 0;
    for (size_t at = 0; at < size_bytes; at++) {
        is_text ^= index[at] == '"';
        if (is_text || !strchr(" \n", index[at]))
            index[length++] = index[at];
    }
    index[length] = 0;
    return index;
}

static void golden_lists_are_read_as_what_they_were(void **state) {
    static const char *const lists[] = {"numbers", "numbers_or_none", "no_numbers", "ragged",
                                        "images",  "one_shape",       "strings",    "bytes",
                                        "nothing", "nested",          "records",    "scalars",
                                        "tuples",  "pairs",           "of_a_class"};
    char *index = read_index();
    struct json json = {"", 0};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        shma_array *array = golden(lists[i]);
        shma_list *list = NULL;
        expect_ok(shma_list_of_array(array, &list, &error));
        shma_array_close(array);
        add_text(&json, i ? ",\"" : "{\"");
        add_text(&json, lists[i]);
        add_text(&json, "\":[");
        for (size_t at = 0; at < shma_list_count(list); at++) {
            add_text(&json, at ? "," : "");
            add_item(&json, shma_list_items(list), at);
        }
        add_text(&json, "]");
        shma_list_close(list);
    }
    add_text(&json, "}");
    assert_string_equal(json.text, index);
    free(index);
}

static void a_list_in_a_file_is_the_same_one(void **state) {
    char path[4096];
    snprintf(path, sizeof path, "%s/items", getenv("SHMARRAY_DIR"));
    shma_list *made = list_of(everything()), *opened = untouched_list;
    expect_ok(shma_list_save(path, made, NULL));
    const void *data = NULL, *same = NULL;
    size_t bytes = 0, same_bytes = 0;
    for (int32_t checked = 0; checked < 2; checked++) {
        expect_ok(shma_list_open(path, checked, &opened, NULL));
        assert_null(shma_list_array(opened));
        assert_int_equal(shma_list_count(opened), 3);
        const shma_column *strings = shma_column_field(shma_list_items(opened), "string");
        const shma_column *made_strings = shma_column_field(shma_list_items(made), "string");
        expect_ok(shma_column_item(strings, 2, &data, &bytes, NULL));
        expect_ok(shma_column_item(made_strings, 2, &same, &same_bytes, NULL));
        assert_int_equal(bytes, same_bytes);
        assert_memory_equal(data, same, bytes);
        shma_array *none = untouched;
        expect_failure(shma_column_values(strings, &none, &error), SHMA_ERROR_INVALID_ARGUMENT,
                       "it is in a file");
        shma_list_close(opened);
    }
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fputc('x', file);
    fclose(file);
    opened = untouched_list;
    expect_failure(shma_list_open(path, 0, &opened, &error), SHMA_ERROR_INVALID_FILE, "magic");
    remove(path);
    expect_failure(shma_list_open(path, 0, &opened, &error), SHMA_ERROR_NOT_FOUND, "items");
    expect_failure(shma_list_open(NULL, 0, &opened, &error), SHMA_ERROR_INVALID_ARGUMENT, "path");
    expect_failure(shma_list_save(path, NULL, &error), SHMA_ERROR_INVALID_ARGUMENT, "list");
    assert_ptr_equal(opened, untouched_list);
    shma_list_close(made);
}

static void pickles_are_for_python_alone(void **state) {
    shma_array *array = golden("pickles"), *none = untouched;
    shma_list *list = NULL;
    expect_ok(shma_list_of_array(array, &list, NULL));
    const shma_column *items = shma_list_items(list);
    assert_int_equal(shma_column_kind(items), SHMA_ITEM_PICKLE);
    assert_int_equal(shma_column_count(items), 2);
    expect_no_item(items, 0, SHMA_ERROR_INVALID_ARGUMENT, "pickles, which only Python reads");
    expect_failure(shma_column_values(items, &none, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   "only Python");
    assert_ptr_equal(none, untouched);
    shma_list_close(list);
    shma_array_close(array);
}

static void an_array_that_is_no_list_is_refused(void **state) {
    shma_array *array = NULL;
    shma_list *list = untouched_list;
    expect_ok(shma_array_create(SHMA_INT32, 2, two_by_three, NULL, &array, NULL));
    expect_failure(shma_list_of_array(array, &list, &error), SHMA_ERROR_DTYPE_MISMATCH, "list");
    shma_array_close(array);
    array = array_of("shmalist", 8);
    expect_failure(shma_list_of_array(array, &list, &error), SHMA_ERROR_INVALID_SEGMENT,
                   "invalid list: bytes: ");
    assert_ptr_equal(list, untouched_list);
    shma_array_close(array);
}

// Reads everything of a column. All that is read must lie in the list, whatever its bytes are.
static uint64_t sum_of(const shma_column *column, const shma_array *all) {
    const uint8_t *const first = shma_array_data(all), *const end = first + shma_array_size(all);
    uint64_t sum = 0;
    for (size_t index = 0; index < shma_column_count(column) && index < 8; index++) {
        const void *data = NULL;
        size_t size_bytes = 0, from = 0, count = 0;
        int64_t shape[64];
        shma_array *array = NULL;
        sum += (uint64_t)shma_column_is_none(column, index);
        if (shma_column_item(column, index, &data, &size_bytes, &error) == SHMA_OK && data) {
            const uint8_t *bytes = data;
            assert_true(bytes >= first && size_bytes <= (size_t)(end - bytes));
            for (size_t at = 0; at < size_bytes; at++)
                sum += bytes[at];
        }
        if (shma_column_shape(column, index, shma_column_ndim(column), shape, &error) == SHMA_OK)
            sum += (uint64_t)shape[0];
        if (shma_column_range(column, index, &from, &count, &error) == SHMA_OK)
            assert_true(count <= shma_column_count(shma_column_child(column, 0)));
        if (shma_column_array(column, index, &array, &error) == SHMA_OK)
            shma_array_close(array);
    }
    for (size_t at = 0; at < shma_column_child_count(column); at++)
        sum += sum_of(shma_column_child(column, at), all);
    return sum;
}

static void broken_bytes_are_refused_or_every_item_lies_in_the_list(void **state) {
    static const uint8_t others[] = {0, 1, 2, 64, 0x7f, 0x80, 0xff};
    shma_list *list = NULL, *broken = NULL;
    expect_ok(shma_list_create(everything(), NULL, &list, NULL));
    shma_array *all =
        array_of(shma_array_data(shma_list_array(list)), shma_array_size(shma_list_array(list)));
    shma_list_close(list);
    uint8_t *bytes = shma_array_data(all);
    size_t refused = 0, read = 0;
    for (size_t at = 0; at < shma_array_size(all); at++) {
        const uint8_t before = bytes[at];
        for (size_t other = 0; other < sizeof others; other++) {
            bytes[at] = others[other];
            const int32_t status = shma_list_of_array(all, &broken, &error);
            if (status != SHMA_OK) {
                assert_int_equal(status, SHMA_ERROR_INVALID_SEGMENT);
                refused++;
                continue;
            }
            uint64_t sum = sum_of(shma_list_items(broken), all);
            bytes[at] = (uint8_t)~bytes[at]; // while the list is open
            sum += sum_of(shma_list_items(broken), all);
            shma_list_close(broken);
            if (sum > 0)
                read++;
        }
        bytes[at] = before;
    }
    assert_true(refused > 1000 && read > 1000);
    shma_array_close(all);
}

static void an_offset_that_leads_out_of_the_list_is_refused(void **state) {
    shma_column_builder *strings = of_kind(SHMA_ITEM_STRING);
    push_string(strings, "one");
    shma_list *list = NULL;
    expect_ok(shma_list_create(strings, NULL, &list, NULL));
    const shma_column *items = shma_list_items(list);
    shma_array *offsets = NULL;
    expect_ok(shma_column_offsets(items, &offsets, NULL));
    ((int64_t *)shma_array_data(offsets))[1] = INT64_C(1) << 40;
    expect_no_item(items, 0, SHMA_ERROR_INVALID_SEGMENT, "invalid list: offsets: ");
    ((int64_t *)shma_array_data(offsets))[1] = -1;
    expect_no_item(items, 0, SHMA_ERROR_INVALID_SEGMENT, "invalid list: offsets: ");
    shma_array_close(offsets);
    shma_list_close(list);
}

static int make_a_list_and_wait(void *unused) {
    shma_list *list = NULL;
    must(shma_list_create(everything(), NULL, &list, NULL) == SHMA_OK);
    char handle[2048];
    must(shma_array_handle(shma_list_array(list), handle, sizeof handle, NULL, NULL) == SHMA_OK);
    say_text(handle);
    wait_for_go();
    end_by(BY_KILL, 0);
    return 0;
}

static void a_killed_creator_leaves_its_list_to_those_that_have_it(void **state) {
    const struct child child = start_child(make_a_list_and_wait, NULL);
    const struct text handle = hear_text(&child);
    shma_list *list = NULL, *late = untouched_list;
    expect_ok(shma_list_attach(handle.bytes, &list, &error));
    let_go(&child);
    assert_int_equal(ended(&child), SIGKILL);
    expect_item(shma_column_field(shma_list_items(list), "string"), 2, "text", 4);
    shma_list_close(list);
    swept();
    assert_int_not_equal(shma_list_attach(handle.bytes, &late, NULL), SHMA_OK);
    assert_ptr_equal(late, untouched_list);
}

static void null_where_something_is_needed(void **state) {
    const int32_t needed = SHMA_ERROR_INVALID_ARGUMENT;
    shma_list *list = untouched_list, *made = list_of(everything());
    const shma_column *items = shma_list_items(made), *images = shma_column_field(items, "image");
    const void *data = NULL;
    size_t bytes = 0;
    shma_array *array = NULL;
    expect_failure(shma_list_attach(NULL, &list, &error), needed, "handle_or_name: it is NULL");
    expect_failure(shma_list_attach("x", NULL, &error), needed, "list_out");
    expect_failure(shma_list_of_array(NULL, &list, &error), needed, "array: it is NULL");
    expect_failure(shma_list_of_array(shma_list_array(made), NULL, &error), needed, "list_out");
    expect_failure(shma_list_create(NULL, NULL, &list, &error), needed, "items: it is NULL");
    expect_failure(shma_list_create(everything(), NULL, NULL, &error), needed, "list_out");
    assert_ptr_equal(list, untouched_list);
    assert_int_equal(shma_list_count(NULL), 0);
    assert_null(shma_list_array(NULL));
    assert_null(shma_list_items(NULL));
    shma_list_close(NULL);

    assert_int_equal(shma_column_kind(NULL), 0);
    assert_int_equal(shma_column_count(NULL), 0);
    assert_int_equal(shma_column_nulls(NULL), 0);
    assert_null(shma_column_name(NULL));
    assert_int_equal(shma_column_dtype(NULL), SHMA_OPAQUE);
    assert_null(shma_column_dtype_text(NULL));
    assert_int_equal(shma_column_itemsize(NULL), 0);
    assert_int_equal(shma_column_ndim(NULL), 0);
    assert_int_equal(shma_column_child_count(NULL), 0);
    assert_null(shma_column_child(NULL, 0));
    assert_null(shma_column_field(NULL, "a"));
    assert_null(shma_column_field(items, NULL));
    assert_int_equal(shma_column_is_none(NULL, 0), 0);
    expect_failure(shma_column_item(NULL, 0, &data, &bytes, &error), needed, "column: it is NULL");
    expect_failure(shma_column_item(images, 0, NULL, &bytes, &error), needed, "data_out");
    expect_failure(shma_column_item(images, 0, &data, NULL, &error), needed, "size_bytes_out");
    expect_failure(shma_column_shape(images, 0, 2, NULL, &error), needed, "shape_out");
    expect_failure(shma_column_range(items, 0, NULL, &bytes, &error), needed, "first_out");
    expect_failure(shma_column_range(items, 0, &bytes, NULL, &error), needed, "count_out");
    expect_failure(shma_column_array(images, 0, NULL, &error), needed, "array_out");
    expect_failure(shma_column_values(images, NULL, &error), needed, "array_out");
    expect_failure(shma_column_offsets(NULL, &array, &error), needed, "column: it is NULL");
    shma_list_close(made);

    shma_column_builder *strings = of_kind(SHMA_ITEM_STRING), *fields[] = {strings};
    shma_column_builder *none = untouched_builder;
    expect_failure(shma_column_builder_create(SHMA_ITEM_BYTES, NULL, &error), needed,
                   "builder_out");
    expect_failure(shma_column_builder_create_lists(NULL, &none, &error), needed, "items");
    expect_failure(shma_column_builder_create_records(1, names, NULL, &none, &error), needed,
                   "fields");
    expect_failure(shma_column_builder_push_none(NULL, &error), needed, "builder: it is NULL");
    expect_failure(shma_column_builder_push_string(strings, NULL, 1, &error), needed, "data");
    assert_null(shma_column_builder_field(NULL, 0));
    assert_int_equal(shma_column_builder_count(NULL), 0);
    expect_failure(shma_column_builder_create_records(1, NULL, fields, &none, &error), needed,
                   "names");
    assert_ptr_equal(none, untouched_builder);
    shma_column_builder_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(each_kind_comes_out_as_it_was_put_in),
        TEST(values_and_offsets_are_arrays),
        TEST(a_list_has_a_name_and_its_array_is_retained),
        TEST(items_of_another_kind_or_index_are_refused),
        TEST(what_does_not_agree_is_not_added),
        TEST(threads_add_to_one_builder),
        TEST(columns_are_not_too_deep),
        TEST(golden_lists_are_read_as_what_they_were),
        TEST(a_list_in_a_file_is_the_same_one),
        TEST(pickles_are_for_python_alone),
        TEST(an_array_that_is_no_list_is_refused),
        TEST(broken_bytes_are_refused_or_every_item_lies_in_the_list),
        TEST(an_offset_that_leads_out_of_the_list_is_refused),
        TEST(a_killed_creator_leaves_its_list_to_those_that_have_it),
        TEST(null_where_something_is_needed),
    };
    return cmocka_run_group_tests_name("lists", tests, NULL, NULL);
}
