// Full shared memory in C: a status with the sizes, never a bus error, and nothing half-made.
#include <errno.h>
#include <pthread.h>
#include <sys/statvfs.h>

#include "children.h"

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
    for (size_t i = 0; i < count; i++)
        shma_array_close(made[i]);
    count = 0;
    const int left = files_in_directory();
    end_small_directory();
    return left;
}

static int32_t make(int64_t bytes, int named, shma_array **array, shma_error *error) {
    static _Atomic unsigned names;
    char name[32];
    shma_options options = SHMA_OPTIONS_INIT;
    snprintf(name, sizeof name, "n%u", names++);
    options.name = named ? name : NULL;
    return shma_array_create(SHMA_UINT8, 1, &bytes, &options, array, error);
}

static int is_all(const shma_array *array, unsigned char value) {
    const unsigned char *data = shma_array_data(array);
    const size_t bytes = shma_array_size(array);
    return data[0] == value && memcmp(data, data + 1, bytes - 1) == 0;
}

static void close_all(void) {
    while (count > 0)
        shma_array_close(made[--count]);
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
    need_small_directory();
    memset(made, 0, sizeof made);
    const struct child child = start_child(fill_with_four_threads, NULL);
    assert_int_equal(ended(&child), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(threads_that_fill_it_together_keep_what_each_has,
                                        mount_small, unmount_small),
    };
    return cmocka_run_group_tests_name("full", tests, NULL, NULL);
}
