// Arrays between processes in C: names, persistence, lists, and pages that are read-only.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests.h"

static const int64_t hundred[] = {100};

static shma_array *make(const shma_options *options) {
    shma_array *array = NULL;
    expect_ok(shma_array_create(SHMA_INT64, 1, hundred, options, &array, NULL));
    return array;
}

static shma_options named(const char *name, int persist) {
    shma_options options = SHMA_OPTIONS_INIT;
    options.name = name;
    options.persist = persist;
    return options;
}

// Runs `body` in a forked child and returns its wait status.
static int in_child(int (*body)(shma_array *), shma_array *array) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        _exit(body(array));
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int write_squares(shma_array *array) {
    int64_t *values = shma_array_data(array);
    for (int64_t i = 0; i < 100; i++)
        values[i] = i * i;
    return 0;
}

static int store(shma_array *array) {
    signal(SIGSEGV, SIG_DFL); // a sanitizer would report it
    *(volatile int64_t *)shma_array_data(array) = 1;
    return 0;
}

static void a_store_to_readonly_pages_is_a_fault(void **state) {
    shma_array *array = make(NULL), *reader = NULL;
    reader = attached_again(array, SHMA_READ_ONLY);
    const int status = in_child(store, reader);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    assert_int_equal(*(int64_t *)shma_array_data(array), 0);
    shma_array_close(reader);
    shma_array_close(array);
}

static void a_name_finds_an_array_while_somebody_holds_it(void **state) {
    const shma_options options = named("camera-1", 0);
    shma_array *array = make(&options), *found = NULL, *second = NULL;
    write_squares(array);
    expect_ok(shma_array_attach("camera-1", SHMA_READ_ONLY, &found, NULL));
    assert_int_equal(((int64_t *)shma_array_data(found))[9], 81);
    expect_failure(shma_array_create(SHMA_INT64, 1, hundred, &options, &second, &error),
                   SHMA_ERROR_EXISTS, "\"camera-1\"");
    shma_array_close(array);
    shma_array_close(found);
    expect_failure(shma_array_attach("camera-1", SHMA_READ_ONLY, &found, &error),
                   SHMA_ERROR_NOT_FOUND, "\"camera-1\"");
}

static void unlink_takes_the_name_and_leaves_the_array(void **state) {
    const shma_options options = named("camera-2", 0);
    shma_array *array = make(&options), *found = NULL;
    expect_ok(shma_segment_unlink("camera-2", NULL));
    assert_int_equal(shma_segment_unlink("camera-2", NULL), SHMA_ERROR_NOT_FOUND);
    assert_int_equal(shma_segment_unlink("a/b", NULL), SHMA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(shma_array_attach("camera-2", SHMA_READ_ONLY, &found, NULL),
                     SHMA_ERROR_NOT_FOUND);
    write_squares(array);
    shma_array_close(array);
}

static int make_persistent(shma_array *unused) {
    const shma_options options = named("table", 1);
    shma_array *array = NULL;
    if (shma_array_create(SHMA_INT64, 1, hundred, &options, &array, NULL) != SHMA_OK)
        return 1;
    return write_squares(array); // not closed: ending the process is enough
}

static void a_persistent_array_outlives_its_processes_until_unlinked(void **state) {
    shma_array *found = NULL;
    assert_int_equal(in_child(make_persistent, NULL), 0);
    for (int time = 0; time < 2; time++) {
        expect_ok(shma_sweep(NULL, NULL, NULL));
        expect_ok(shma_array_attach("table", SHMA_READ_WRITE, &found, NULL));
        assert_int_equal(((int64_t *)shma_array_data(found))[11], 121);
        shma_array_close(found);
    }
    assert_int_equal(files_in_directory(), 2);
    expect_ok(shma_segment_unlink("table", NULL));
}

// Returns the info of the segment that has this name.
static const shma_segment_info *info_of(const shma_segment_list *list, const char *name) {
    for (size_t index = 0; index < shma_segment_list_count(list); index++) {
        const shma_segment_info *info = shma_segment_list_get(list, index);
        if (info->name != NULL && strcmp(info->name, name) == 0)
            return info;
    }
    return NULL;
}

static void segments_are_listed_with_their_holders(void **state) {
    const shma_options options = named("camera-3", 0);
    shma_array *array = make(&options);
    shma_segment_list *list = NULL;
    expect_ok(shma_segment_list_create(&list, NULL));
    const shma_segment_info *info = info_of(list, "camera-3");
    assert_non_null(info);
    assert_int_equal(info->kind, SHMA_SEGMENT_ARRAY);
    assert_int_equal(info->persists, 0);
    assert_true(info->segment_bytes > 100 * sizeof(int64_t));
    assert_string_equal(info->dtype, "<i8");
    assert_int_equal(info->ndim, 1);
    assert_int_equal(info->shape[0], 100);
    assert_int_equal(info->holders_count, 1);
    assert_int_equal(info->holders[0], getpid());
    assert_int_equal(info->tickets, 0);
    assert_int_equal(info->creator_pid, getpid());
    assert_true(info->created_ns > UINT64_C(1700000000000000000));
    assert_int_equal(strlen(info->segment), 24);
    assert_null(shma_segment_list_get(list, shma_segment_list_count(list)));
    shma_array_close(array); // the list does not change
    assert_string_equal(info->name, "camera-3");
    shma_segment_list_close(list);
}

// The shared memory would do: it is this process that can map no more.
static int create_beyond_the_limit(shma_array *array) {
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%ld", &pages) != 1 || fclose(statm) != 0)
        return 1;
    const rlim_t mapped = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
    const struct rlimit limit = {mapped + (64 << 20), RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 2;
    const int64_t shape[] = {256 << 20};
    const shma_status status = shma_array_create(SHMA_UINT8, 1, shape, NULL, &array, &error);
    return status == SHMA_ERROR_NO_MEMORY && strstr(error.message, "cannot be mapped") ? 0 : 3;
}

static void a_process_that_can_map_no_more_has_no_memory(void **state) {
    assert_int_equal(in_child(create_beyond_the_limit, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_store_to_readonly_pages_is_a_fault),
        TEST(a_name_finds_an_array_while_somebody_holds_it),
        TEST(unlink_takes_the_name_and_leaves_the_array),
        TEST(segments_are_listed_with_their_holders),
        TEST(a_persistent_array_outlives_its_processes_until_unlinked),
        TEST(a_process_that_can_map_no_more_has_no_memory),
    };
    return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
