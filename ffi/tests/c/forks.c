// Forks of programs with threads in C: ci/checks/scenarios/test_forks.py has those without.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "children.h"

// An array of 3 × 4, and three further objects that reach its element (1, 2).
static struct {
    shma_array *array, *view, *reader, *turned;
    char handle[2048];
} held;

static void hold(void) {
    const int64_t shape[] = {3, 4};
    shma_array *row = NULL;
    must(shma_array_create(SHMA_INT64, 2, shape, NULL, &held.array, NULL) == SHMA_OK);
    for (int64_t i = 0; i < 12; i++)
        ((int64_t *)shma_array_data(held.array))[i] = i;
    must(shma_array_handle(held.array, held.handle, sizeof held.handle, NULL, NULL) == SHMA_OK);
    must(shma_array_attach(held.handle, SHMA_READ_ONLY, &held.reader, NULL) == SHMA_OK);
    must(shma_array_select(held.array, 0, 1, &row, NULL) == SHMA_OK);
    must(shma_array_slice(row, 0, 2, SHMA_END, 1, &held.view, NULL) == SHMA_OK);
    must(shma_array_transpose(held.array, NULL, &held.turned, NULL) == SHMA_OK);
    shma_array_close(row);
}

static void let_all_go(void) {
    shma_array_close(held.array);
    shma_array_close(held.view);
    shma_array_close(held.reader);
    shma_array_close(held.turned);
    memset(&held, 0, sizeof held);
}

static int64_t element(const shma_array *array, int64_t first, int64_t second) {
    const int64_t *strides = shma_array_strides(array);
    const char *data = shma_array_data(array);
    return *(const int64_t *)(data + first * strides[0] + second * strides[1]);
}

// Writes by one object and reads by all and by the handle. Returns the value, or -1 if they differ.
static int64_t write_and_see(int64_t value) {
    shma_array *again = NULL;
    ((int64_t *)shma_array_data(held.array))[6] = value;
    if (shma_array_attach(held.handle, SHMA_READ_WRITE, &again, NULL) != SHMA_OK)
        return -1;
    const int same = element(again, 1, 2) == value && element(held.reader, 1, 2) == value &&
                     element(held.turned, 2, 1) == value &&
                     *(int64_t *)shma_array_data(held.view) == value;
    shma_array_close(again);
    return same ? value : -1;
}

static void expect_held(const char *handle) {
    shma_array *array = NULL;
    assert_int_equal(swept(), 0);
    expect_ok(shma_array_attach(handle, SHMA_READ_WRITE, &array, NULL));
    assert_int_equal(element(array, 2, 3), 11);
    shma_array_close(array);
    assert_int_equal(swept(), 0);
    assert_true(files_in_directory() > 0);
}

// After an ordinary end nothing is left. After any other end, a sweep gives the memory back.
static void expect_nothing_left(enum ending how) {
    if (how != BY_EXIT)
        swept();
    assert_int_equal(files_in_directory(), 0);
}

static atomic_int stop, rounds;

static void *make_attach_and_close(void *failed) {
    const int64_t shape[] = {1000};
    while (!atomic_load(&stop)) {
        char handle[2048];
        shma_array *own = NULL, *again = NULL, *common = NULL;
        int bad = shma_array_create(SHMA_INT64, 1, shape, NULL, &own, NULL);
        bad |= shma_array_handle(own, handle, sizeof handle, NULL, NULL);
        bad |= shma_array_attach(handle, SHMA_READ_ONLY, &again, NULL);
        bad |= shma_array_attach(held.handle, SHMA_READ_WRITE, &common, NULL);
        if (bad || element(common, 2, 3) != 11 || *(int64_t *)shma_array_data(again) != 0)
            *(int *)failed = 1;
        shma_array_close(own);
        shma_array_close(common);
        shma_array_close(again);
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

static int see_make_and_end(void *turn) {
    const int64_t number = *(int64_t *)turn, shape[] = {1000};
    static shma_array *own, *again;
    char handle[2048];
    // A thread of the parent may be releasing memory at the fork; the child must not inherit its
    // lock.
    if (fds_in_directory() != 0 || write_and_see(number) != number ||
        shma_array_create(SHMA_INT64, 1, shape, NULL, &own, NULL) != SHMA_OK ||
        shma_array_handle(own, handle, sizeof handle, NULL, NULL) != SHMA_OK ||
        shma_array_attach(handle, SHMA_READ_ONLY, &again, NULL) != SHMA_OK)
        return 1;
    end_by((enum ending)(number % ENDINGS), 0);
    return 2;
}

enum { THREADS = 3 };

static void start_threads(pthread_t threads[THREADS], int failed[THREADS]) {
    atomic_store(&stop, 0);
    atomic_store(&rounds, 0);
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, make_attach_and_close, &failed[i]) == 0);
}

static int stop_threads(const pthread_t threads[THREADS], const int failed[THREADS]) {
    int all = 0;
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        all |= pthread_join(threads[i], NULL) | failed[i];
    return all;
}

static void forks_beside_threads_leave_both_sides_working(void **state) {
    pthread_t threads[THREADS];
    int failed[THREADS] = {0}, bad = 0;
    hold();
    start_threads(threads, failed);
    for (int64_t turn = 0; turn < 100 || atomic_load(&rounds) < 300; turn++) {
        const struct child child = start_child(see_make_and_end, &turn);
        bad += ended(&child) != status_of((enum ending)(turn % ENDINGS)) ||
               element(held.reader, 1, 2) != turn;
    }
    assert_int_equal(stop_threads(threads, failed), 0);
    assert_int_equal(bad, 0);
    let_all_go();
    expect_nothing_left(BY_KILL);
}

static void *fork_in_a_thread(void *status) {
    const struct child child = start_child(see_make_and_end, &(int64_t){BY_EXIT});
    *(int *)status = ended(&child);
    return NULL;
}

static void a_child_of_a_thread_holds_what_its_process_held(void **state) {
    pthread_t thread;
    int status = -1;
    hold();
    assert_int_equal(pthread_create(&thread, NULL, fork_in_a_thread, &status), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, 0);
    assert_int_equal(element(held.turned, 2, 1), BY_EXIT);
    let_all_go();
    assert_int_equal(files_in_directory(), 0);
}

static void *go_on_without_main(void *main_thread) {
    if (pthread_join(*(pthread_t *)main_thread, NULL) != 0)
        _exit(1);
    say(write_and_see(1));
    say_text(held.handle);
    wait_for_go();
    say(write_and_see(2));
    exit(0);
}

static int end_the_first_thread(void *unused) {
    static pthread_t main_thread, other;
    hold();
    main_thread = pthread_self();
    if (pthread_create(&other, NULL, go_on_without_main, &main_thread) != 0)
        return 1;
    pthread_exit(NULL);
}

// To a process that tests its pid, such a process looks dead.
static void a_process_whose_first_thread_ended_holds_on(void **state) {
    const struct child child = start_child(end_the_first_thread, NULL);
    assert_int_equal(hear(&child), 1);
    const struct text handle = hear_text(&child);
    expect_held(handle.bytes);
    let_go(&child);
    assert_int_equal(hear(&child), 2);
    assert_int_equal(ended(&child), 0);
    assert_int_equal(files_in_directory(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(forks_beside_threads_leave_both_sides_working),
        TEST(a_child_of_a_thread_holds_what_its_process_held),
        TEST(a_process_whose_first_thread_ended_holds_on),
    };
    adopt_orphans();
    return cmocka_run_group_tests_name("forks", tests, NULL, NULL);
}
