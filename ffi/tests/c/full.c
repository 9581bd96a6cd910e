// Full shared memory in C: a status with the sizes, never a bus error, and nothing half-made.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include <cmocka.h>

#include <shmarray.h>

#include "children.h"
#include "directory.h"

enum { SMALL_BYTES = 4 << 20, MOST = 1 << 18 };

// The parameters of a test: the size of the arrays, whether they have names, and the file system.
struct filling {
    int64_t bytes;
    int named;
    const char *options;
};

static shma_array *made[MOST];
static size_t count;

static int mount_small(void **state) {
    const struct filling *filling = *state;
    const int why = begin_small_directory(filling ? filling->options : "size=4m");
    count = 0;
    if (why == EPERM || why == EACCES)
        print_message("skipped: a small file system cannot be mounted here: %s\n", strerror(why));
    return why == EPERM || why == EACCES ? 0 : why;
}

static void need_small_directory(void) {
    if (!strstr(getenv("SHMARRAY_DIR"), "/small-"))
        skip();
}

static int unmount_small(void **state) {
    (void)state;
    for (size_t i = 0; i < count; i++)
        shma_array_close(made[i]);
    count = 0;
    const int left = files_in_directory();
    end_small_directory();
    return left;
}

static uint64_t free_bytes(void) {
    struct statvfs facts;
    assert_int_equal(statvfs(getenv("SHMARRAY_DIR"), &facts), 0);
    return (uint64_t)facts.f_bavail * facts.f_frsize;
}

// Asserts that the message has the requested bytes, the free bytes and the directory, all correct.
static void expect_facts(const shma_error *error, int64_t bytes) {
    unsigned long long asked = 0, left = 0;
    char directory[512] = "";
    assert_int_equal(error->status, SHMA_ERROR_NO_SPACE);
    const char *format = "shared memory is full: %llu bytes asked, %llu bytes free in %511[^;];";
    if (sscanf(error->message, format, &asked, &left, directory) != 3)
        fail_msg("\"%s\" lacks a fact", error->message);
    assert_true(asked >= (unsigned long long)bytes);
    assert_true(asked > left);
    assert_int_equal(left, free_bytes());
    assert_string_equal(directory, getenv("SHMARRAY_DIR"));
    assert_non_null(strstr(error->message, "--shm-size"));
}

static int32_t make(int64_t bytes, int named, shma_array **array, shma_error *error) {
    static _Atomic unsigned names;
    char name[32];
    shma_options options = SHMA_OPTIONS_INIT;
    snprintf(name, sizeof name, "n%u", names++);
    options.name = named ? name : NULL;
    return shma_array_create(SHMA_UINT8, 1, &bytes, &options, array, error);
}

// Asserts that another call fails, and that it leaves nothing behind.
static void expect_nothing_of_a_failure(int64_t bytes, int named, int32_t status) {
    shma_array *array = NULL;
    shma_error error = SHMA_ERROR_INIT;
    char *before = names_in_directory();
    assert_int_equal(make(bytes, named, &array, &error), status);
    assert_null(array);
    char *after = names_in_directory();
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static int is_all(const shma_array *array, unsigned char value) {
    const unsigned char *data = shma_array_data(array);
    const size_t bytes = shma_array_size(array);
    return data[0] == value && memcmp(data, data + 1, bytes - 1) == 0;
}

// Creates further arrays until it fails. Returns the status and their number. None is written to
// before the last is created, because creation reserves the memory.
static int32_t fill(const struct filling *filling, shma_error *error, size_t *more) {
    const size_t before = count;
    int32_t status = SHMA_OK;
    while (count < MOST &&
           (status = make(filling->bytes, filling->named, &made[count], error)) == SHMA_OK)
        count++;
    *more = count - before;
    expect_nothing_of_a_failure(filling->bytes, filling->named, status);
    for (size_t i = before; i < count; i++) {
        assert_true(is_all(made[i], 0));
        memset(shma_array_data(made[i]), (int)(i % 251), (size_t)filling->bytes);
    }
    return status;
}

// Asserts that every byte has its array's value, and adds one to it.
static void expect_each_byte(size_t first) {
    for (size_t i = first; i < count; i++) {
        assert_true(is_all(made[i], (unsigned char)(i % 251)));
        memset(shma_array_data(made[i]), (int)(i % 251 + 1), shma_array_size(made[i]));
    }
    for (size_t i = first; i < count; i++)
        assert_true(is_all(made[i], (unsigned char)(i % 251 + 1)));
}

static void close_every_second(void) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (i % 2 == 0)
            shma_array_close(made[i]);
        else
            made[kept++] = made[i];
    }
    count = kept;
}

static void close_all(void) {
    while (count > 0)
        shma_array_close(made[--count]);
}

static void fills_keeps_and_has_room_again(void **state) {
    need_small_directory();
    const struct filling *filling = *state;
    shma_error error = SHMA_ERROR_INIT;
    size_t first = 0, more = 0;
    assert_int_equal(make(1, 0, &made[0], &error), SHMA_OK); // creates the registry, which stays
    shma_array_close(made[0]);
    const uint64_t empty = free_bytes();
    assert_int_equal(fill(filling, &error, &first), SHMA_ERROR_NO_SPACE);
    expect_facts(&error, filling->bytes);
    assert_true(first > 0);
    expect_each_byte(0);
    close_every_second();
    const size_t kept = count;
    assert_int_equal(fill(filling, &error, &more), SHMA_ERROR_NO_SPACE);
    expect_facts(&error, filling->bytes);
    assert_true(more > 0);
    expect_each_byte(kept);
    for (size_t i = 0; i < kept; i++)
        assert_true(is_all(made[i], (unsigned char)((2 * i + 1) % 251 + 1)));
    close_all();
    assert_int_equal(files_in_directory(), 0);
    assert_int_equal(free_bytes(), empty);
    assert_int_equal(fill(filling, &error, &more), SHMA_ERROR_NO_SPACE);
    assert_int_equal(more, first);
}

static void an_array_larger_than_all_memory_is_only_an_error(void **state) {
    (void)state;
    need_small_directory();
    const int64_t larger[] = {SMALL_BYTES + 1, INT64_C(1) << 30, INT64_C(1) << 40,
                              INT64_C(1) << 62};
    assert_int_equal(make(1000, 0, &made[count++], NULL), SHMA_OK);
    for (size_t i = 0; i < sizeof larger / sizeof larger[0]; i++)
        for (int named = 0; named < 2; named++) {
            shma_error error = SHMA_ERROR_INIT;
            shma_array *array = NULL;
            assert_int_equal(make(larger[i], named, &array, &error), SHMA_ERROR_NO_SPACE);
            expect_facts(&error, larger[i]);
            expect_nothing_of_a_failure(larger[i], named, SHMA_ERROR_NO_SPACE);
        }
    assert_int_equal(make(1000, 0, &made[count++], NULL), SHMA_OK);
    memset(shma_array_data(made[0]), 1, 1000);
    assert_true(is_all(made[0], 1) && is_all(made[1], 0));
}

static void a_copy_that_finds_no_room_leaves_no_half_of_it(void **state) {
    (void)state;
    need_small_directory();
    static int64_t private[100][1000];
    const int64_t shape[] = {1000, 100}, strides[] = {8, 8000};
    shma_error error = SHMA_ERROR_INIT;
    for (int64_t i = 0; i < 100 * 1000; i++)
        private[i / 1000][i % 1000] = i;
    while (shma_array_share(private, SHMA_INT64, 2, shape, strides, NULL, &made[count], &error) ==
           SHMA_OK)
        count++;
    expect_facts(&error, sizeof private);
    assert_true(count >= 2);
    expect_nothing_of_a_failure(sizeof private, 0, SHMA_ERROR_NO_SPACE);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(((int64_t *)shma_array_data(made[i]))[101], 1001);
}

static void *fill_one_of_four(void *status) {
    static _Atomic size_t next;
    shma_error error = SHMA_ERROR_INIT;
    shma_array *array = NULL;
    while (make(64 << 10, 0, &array, &error) == SHMA_OK)
        made[next++] = array;
    *(int32_t *)status = error.status;
    return NULL;
}

static int fill_with_four_threads(void *unused) {
    (void)unused;
    pthread_t threads[4];
    int32_t statuses[4] = {0};
    for (int i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, fill_one_of_four, &statuses[i]) == 0);
    for (int i = 0; i < 4; i++)
        must(pthread_join(threads[i], NULL) == 0 && statuses[i] == SHMA_ERROR_NO_SPACE);
    while (made[count])
        memset(shma_array_data(made[count]), (int)(count % 251), 64 << 10), count++;
    must(count >= 4);
    for (size_t i = 0; i < count; i++)
        must(is_all(made[i], (unsigned char)(i % 251)));
    close_all();
    return files_in_directory();
}

// Runs in a child, because a bus error of a thread would end the program.
static void threads_that_fill_it_together_keep_what_each_has(void **state) {
    (void)state;
    need_small_directory();
    memset(made, 0, sizeof made);
    const struct child child = start_child(fill_with_four_threads, NULL);
    assert_int_equal(ended(&child), 0);
}

// A child has the arrays of its parent and gets the same error.
static int use_all_and_ask_for_more(void *unused) {
    (void)unused;
    shma_error error = SHMA_ERROR_INIT;
    shma_array *array = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!is_all(made[i], (unsigned char)(i % 251)))
            return 1;
        memset(shma_array_data(made[i]), (int)(i % 251 + 1), shma_array_size(made[i]));
    }
    return make(64 << 10, 0, &array, &error) == SHMA_ERROR_NO_SPACE ? 0 : 2;
}

static void a_fork_where_it_is_full_holds_and_takes_no_room(void **state) {
    (void)state;
    need_small_directory();
    const struct filling filling = {64 << 10, 0, NULL};
    size_t more = 0;
    assert_int_equal(fill(&filling, NULL, &more), SHMA_ERROR_NO_SPACE);
    const uint64_t before = free_bytes();
    const struct child child = start_child(use_all_and_ask_for_more, NULL);
    assert_int_equal(ended(&child), 0);
    assert_int_equal(free_bytes(), before);
    for (size_t i = 0; i < count; i++)
        assert_true(is_all(made[i], (unsigned char)(i % 251 + 1)));
    shma_array_close(made[--count]);
    assert_int_equal(make(64 << 10, 0, &made[count++], NULL), SHMA_OK);
}

static void without_room_for_files_keeps_and_has_room_again(void **state) {
    need_small_directory();
    const struct filling *filling = *state;
    shma_error error = SHMA_ERROR_INIT;
    size_t first = 0, more = 0;
    assert_int_not_equal(fill(filling, &error, &first), SHMA_OK);
    assert_non_null(strstr(error.message, getenv("SHMARRAY_DIR")));
    assert_true(first > 0);
    assert_true(free_bytes() > (uint64_t)filling->bytes * 8);
    expect_each_byte(0);
    close_every_second();
    const size_t kept = count;
    assert_int_not_equal(fill(filling, &error, &more), SHMA_OK);
    assert_true(more > 0);
    expect_each_byte(kept);
    close_all();
    assert_int_equal(files_in_directory(), 0);
    assert_int_not_equal(fill(filling, &error, &more), SHMA_OK);
    assert_int_equal(more, first);
}

static void without_room_for_files_is_no_space(void **state) {
    need_small_directory();
    const struct filling *filling = *state;
    shma_error error = SHMA_ERROR_INIT;
    size_t more = 0;
    assert_int_equal(fill(filling, &error, &more), SHMA_ERROR_NO_SPACE);
    assert_int_equal(error.status, SHMA_ERROR_NO_SPACE);
    assert_non_null(strstr(error.message, getenv("SHMARRAY_DIR")));
}

static struct filling fillings[] = {
    {8, 0, "size=4m"}, {4 << 10, 0, "size=4m"}, {64 << 10, 0, "size=4m"}, {1 << 20, 0, "size=4m"},
    {8, 1, "size=4m"}, {4 << 10, 1, "size=4m"}, {64 << 10, 1, "size=4m"}, {1 << 20, 1, "size=4m"},
};
// A name is a file as well: with names, one of the two limits leaves no room for the name of an
// array.
static struct filling few_files[] = {
    {1 << 20, 0, "size=64m,nr_inodes=21"},
    {1 << 20, 1, "size=64m,nr_inodes=21"},
    {1 << 20, 1, "size=64m,nr_inodes=22"},
};

#define TEST(name) cmocka_unit_test_setup_teardown(name, mount_small, unmount_small)
#define FILL(what, index)                                                                          \
    {"memory_full_of_" what "_keeps_them_and_has_room_again", fills_keeps_and_has_room_again,      \
     mount_small, unmount_small, &fillings[index]}
#define FILES(what, index)                                                                         \
    {"few_files_for_" what "_keep_what_is_there", without_room_for_files_keeps_and_has_room_again, \
     mount_small, unmount_small, &few_files[index]},                                               \
    {                                                                                              \
        "few_files_for_" what "_are_no_space", without_room_for_files_is_no_space, mount_small,    \
            unmount_small, &few_files[index]                                                       \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        FILL("8_bytes", 0),
        FILL("4_KiB", 1),
        FILL("64_KiB", 2),
        FILL("1_MiB", 3),
        FILL("8_named_bytes", 4),
        FILL("named_4_KiB", 5),
        FILL("named_64_KiB", 6),
        FILL("named_1_MiB", 7),
        TEST(an_array_larger_than_all_memory_is_only_an_error),
        TEST(a_copy_that_finds_no_room_leaves_no_half_of_it),
        TEST(threads_that_fill_it_together_keep_what_each_has),
        TEST(a_fork_where_it_is_full_holds_and_takes_no_room),
        FILES("arrays", 0),
        FILES("names", 1),
        FILES("names_or_arrays", 2),
    };
    return cmocka_run_group_tests_name("full", tests, NULL, NULL);
}
