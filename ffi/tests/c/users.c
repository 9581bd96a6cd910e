// A second user of the same shared memory has access where it was granted, and nowhere else. Needs
// root.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <shmarray.h>

#include "children.h"
#include "directory.h"

enum { NOBODY = 65534 };

static const int64_t hundred[] = {100};
static char of_all_tests[4096];

// The tasks of the other user's process.
struct question {
    enum {
        ATTACH,
        ATTACH_READ_ONLY,
        CREATE,
        UNLINK,
        SWEEP,
        FIRST,
        STORE,
        CLOSE,
        WHO_LOCKS_REGISTRY
    } what;
    int64_t value;
    struct text text;
};

static int64_t put_or_ask_registry(const struct question *question) {
    static int registry = -1;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (registry == -1)
        registry = open(question->text.bytes, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (registry == -1 || fchmod(registry, 0666) != 0 || fcntl(registry, F_OFD_GETLK, &lock) != 0)
        return -1;
    return lock.l_type;
}

static int64_t answer(const struct question *question) {
    static shma_array *array;
    const char *text = question->text.bytes;
    shma_options options = SHMA_OPTIONS_INIT;
    uint64_t segments = 0;
    options.name = text;
    options.mode = 0666;
    switch (question->what) {
    case ATTACH:
        return shma_array_attach(text, SHMA_READ_WRITE, &array, NULL);
    case ATTACH_READ_ONLY:
        return shma_array_attach(text, SHMA_READ_ONLY, &array, NULL);
    case CREATE:
        return shma_array_create(SHMA_INT64, 1, hundred, &options, &array, NULL);
    case UNLINK:
        return shma_segment_unlink(text, NULL);
    case SWEEP:
        return shma_sweep(&segments, NULL, NULL) == SHMA_OK ? (int64_t)segments : -1;
    case FIRST:
        return *(int64_t *)shma_array_data(array);
    case STORE:
        return *(int64_t *)shma_array_data(array) = question->value;
    case CLOSE:
        shma_array_close(array);
        array = NULL;
        return 0;
    default:
        return put_or_ask_registry(question);
    }
}

// The process of another user without privileges, which has not used the library before the test.
static int be_nobody(void *unused) {
    (void)unused;
    struct question question;
    must(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    while (read(0, &question, sizeof question) == sizeof question)
        say(answer(&question));
    exit(0);
}

static struct child nobody;

static int64_t nobody_does(int what, const char *text, int64_t value) {
    struct question question;
    memset(&question, 0, sizeof question);
    question.what = what;
    question.value = value;
    snprintf(question.text.bytes, sizeof question.text.bytes, "%s", text);
    assert_int_equal(write(nobody.ask, &question, sizeof question), sizeof question);
    return hear(&nobody);
}

// A directory with the mode of /dev/shm: every user may create files and unlink their own.
static int begin(void **state) {
    (void)state;
    char directory[] = "/dev/shm/shmarray-test-users-XXXXXX";
    snprintf(of_all_tests, sizeof of_all_tests, "%s", getenv("SHMARRAY_DIR"));
    if (geteuid() != 0 || !mkdtemp(directory) || chmod(directory, 01777) != 0)
        return 0;
    setenv("SHMARRAY_DIR", directory, 1);
    nobody = start_child(be_nobody, NULL);
    return 0;
}

static void need_root(void) {
    if (geteuid() != 0) {
        print_message("skipped: only root can become another user\n");
        skip();
    }
}

static int finish(void **state) {
    (void)state;
    const char *directory = getenv("SHMARRAY_DIR");
    if (strcmp(directory, of_all_tests) == 0)
        return 0;
    const int status = nobody.pid ? ended(&nobody) : 0;
    if (shma_sweep(NULL, NULL, NULL) != SHMA_OK || files_in_directory() != 0 || status != 0)
        return 1;
    remove_registries(directory);
    const int removed = rmdir(directory);
    setenv("SHMARRAY_DIR", of_all_tests, 1);
    return removed;
}

static shma_array *make(const char *name, uint32_t mode, int64_t value) {
    shma_options options = SHMA_OPTIONS_INIT;
    shma_array *array = NULL;
    options.name = name;
    options.mode = mode;
    assert_int_equal(shma_array_create(SHMA_INT64, 1, hundred, &options, &array, NULL), SHMA_OK);
    *(int64_t *)shma_array_data(array) = value;
    return array;
}

static int64_t first(const shma_array *array) { return *(const int64_t *)shma_array_data(array); }

static struct text handle_of(const shma_array *array) {
    struct text text;
    assert_int_equal(shma_array_handle(array, text.bytes, sizeof text.bytes, NULL, NULL), SHMA_OK);
    return text;
}

static uint64_t swept(void) {
    uint64_t segments = 0;
    assert_int_equal(shma_sweep(&segments, NULL, NULL), SHMA_OK);
    return segments;
}

static void another_user_cannot_attach_by_handle_or_name(void **state) {
    (void)state;
    need_root();
    shma_array *array = make("series", 0, 7);
    const struct text handle = handle_of(array);
    assert_int_equal(nobody_does(ATTACH, handle.bytes, 0), SHMA_ERROR_PERMISSION_DENIED);
    assert_int_equal(nobody_does(ATTACH_READ_ONLY, handle.bytes, 0), SHMA_ERROR_PERMISSION_DENIED);
    assert_int_equal(nobody_does(ATTACH, "series", 0), SHMA_ERROR_PERMISSION_DENIED);
    assert_int_equal(nobody_does(ATTACH_READ_ONLY, "series", 0), SHMA_ERROR_PERMISSION_DENIED);
    assert_int_equal(first(array), 7);
    shma_array_close(array);
}

static void another_user_cannot_take_a_name_away_nor_have_it(void **state) {
    (void)state;
    need_root();
    shma_array *array = make("series", 0, 7), *again = NULL;
    assert_int_equal(nobody_does(UNLINK, "series", 0), SHMA_ERROR_PERMISSION_DENIED);
    assert_int_equal(nobody_does(CREATE, "series", 0), SHMA_ERROR_EXISTS);
    assert_int_equal(shma_array_attach("series", SHMA_READ_WRITE, &again, NULL), SHMA_OK);
    assert_int_equal(first(again), 7);
    shma_array_close(array);
    shma_array_close(again);
}

static int hold_until_killed(void *unused) {
    (void)unused;
    static shma_array *array;
    shma_options options = SHMA_OPTIONS_INIT;
    options.name = "held";
    must(shma_array_create(SHMA_INT64, 1, hundred, &options, &array, NULL) == SHMA_OK);
    say(1);
    wait_for_go();
    *(int64_t *)shma_array_data(array) = 5;
    say(5);
    wait_for_go();
    return 0;
}

static void another_user_cannot_sweep_away_what_is_held_nor_what_the_dead_left(void **state) {
    (void)state;
    need_root();
    swept();
    const struct child holder = start_child(hold_until_killed, NULL);
    assert_int_equal(hear(&holder), 1);
    char *before = names_in_directory();
    assert_int_equal(nobody_does(SWEEP, "", 0), 0);
    let_go(&holder);
    assert_int_equal(hear(&holder), 5);
    kill(holder.pid, SIGKILL);
    assert_int_equal(ended(&holder), SIGKILL);
    assert_int_equal(nobody_does(SWEEP, "", 0), 0);
    char *after = names_in_directory();
    assert_string_equal(before, after);
    free(before);
    free(after);
    assert_true(swept() > 0);
    assert_int_equal(files_in_directory(), 0);
}

static void a_name_taken_by_another_user_finds_no_array(void **state) {
    (void)state;
    need_root();
    shma_array *array = NULL;
    shma_options options = SHMA_OPTIONS_INIT;
    options.name = "his";
    assert_int_equal(nobody_does(CREATE, "his", 0), SHMA_OK);
    assert_int_equal(shma_array_attach("his", SHMA_READ_WRITE, &array, NULL),
                     SHMA_ERROR_PERMISSION_DENIED);
    assert_int_equal(shma_array_create(SHMA_INT64, 1, hundred, &options, &array, NULL),
                     SHMA_ERROR_EXISTS);
    assert_int_equal(nobody_does(CLOSE, "", 0), 0);
}

static void a_mode_lets_another_user_in_by_the_handle(void **state) {
    (void)state;
    need_root();
    shma_array *array = make(NULL, 0666, 7);
    const struct text handle = handle_of(array);
    assert_int_equal(nobody_does(ATTACH, handle.bytes, 0), SHMA_OK);
    assert_int_equal(nobody_does(FIRST, "", 0), 7);
    assert_int_equal(nobody_does(STORE, "", 8), 8);
    assert_int_equal(first(array), 8);
    shma_array_close(array);
    assert_int_equal(swept(), 0);
    assert_true(files_in_directory() > 0);
    assert_int_equal(nobody_does(FIRST, "", 0), 8);
    assert_int_equal(nobody_does(CLOSE, "", 0), 0);
    swept();
    assert_int_equal(files_in_directory(), 0);
}

static void an_array_held_by_another_user_is_given_back_at_that_users_death(void **state) {
    (void)state;
    need_root();
    shma_array *array = make(NULL, 0666, 7);
    const struct text handle = handle_of(array);
    assert_int_equal(nobody_does(ATTACH, handle.bytes, 0), SHMA_OK);
    shma_array_close(array);
    assert_int_equal(swept(), 0);
    kill(nobody.pid, SIGKILL);
    assert_int_equal(ended(&nobody), SIGKILL);
    nobody.pid = 0;
    assert_true(swept() > 0);
    assert_int_equal(files_in_directory(), 0);
}

static void another_users_end_takes_nothing_from_its_owner(void **state) {
    (void)state;
    need_root();
    shma_array *array = make(NULL, 0666, 7), *again = NULL;
    const struct text handle = handle_of(array);
    assert_int_equal(nobody_does(ATTACH, handle.bytes, 0), SHMA_OK);
    assert_int_equal(nobody_does(CLOSE, "", 0), 0);
    assert_int_equal(nobody_does(SWEEP, "", 0), 0);
    kill(nobody.pid, SIGKILL);
    assert_int_equal(ended(&nobody), SIGKILL);
    nobody.pid = 0;
    assert_int_equal(swept(), 0);
    assert_int_equal(shma_array_attach(handle.bytes, SHMA_READ_WRITE, &again, NULL), SHMA_OK);
    assert_int_equal(first(again), 7);
    shma_array_close(array);
    shma_array_close(again);
    swept();
    assert_int_equal(files_in_directory(), 0);
}

static void a_mode_for_reading_gives_no_write_access(void **state) {
    (void)state;
    need_root();
    shma_array *array = make(NULL, 0644, 7);
    const struct text handle = handle_of(array);
    assert_int_equal(nobody_does(ATTACH, handle.bytes, 0), SHMA_ERROR_PERMISSION_DENIED);
    assert_int_equal(nobody_does(ATTACH_READ_ONLY, handle.bytes, 0), SHMA_OK);
    *(int64_t *)shma_array_data(array) = 8;
    shma_array_close(array);
    assert_int_equal(swept(), 0);
    assert_int_equal(nobody_does(FIRST, "", 0), 8);
    assert_int_equal(nobody_does(CLOSE, "", 0), 0);
    swept();
    assert_int_equal(files_in_directory(), 0);
}

// A user who locks bytes of a file of their own must not be able to make others wait without end.
static void a_registry_that_another_user_put_there_is_not_trusted(void **state) {
    (void)state;
    need_root();
    struct text path;
    snprintf(path.bytes, sizeof path.bytes, "%s/shmarray-registry-0", getenv("SHMARRAY_DIR"));
    assert_int_equal(nobody_does(WHO_LOCKS_REGISTRY, path.bytes, 0), F_UNLCK);
    shma_array *array = make(NULL, 0, 7);
    const int64_t locks = nobody_does(WHO_LOCKS_REGISTRY, path.bytes, 0);
    shma_array_close(array);
    assert_int_equal(locks, F_UNLCK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(another_user_cannot_attach_by_handle_or_name),
        TEST(another_user_cannot_take_a_name_away_nor_have_it),
        TEST(another_user_cannot_sweep_away_what_is_held_nor_what_the_dead_left),
        TEST(a_name_taken_by_another_user_finds_no_array),
        TEST(a_mode_lets_another_user_in_by_the_handle),
        TEST(an_array_held_by_another_user_is_given_back_at_that_users_death),
        TEST(another_users_end_takes_nothing_from_its_owner),
        TEST(a_mode_for_reading_gives_no_write_access),
        TEST(a_registry_that_another_user_put_there_is_not_trusted),
    };
    return cmocka_run_group_tests_name("users", tests, NULL, NULL);
}
