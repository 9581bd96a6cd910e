// Forks in C: in whatever order and way the processes of a family end, the others keep what they
// hold, and nothing else is left.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <shmarray.h>

#include "children.h"
#include "directory.h"

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

static uint64_t swept(void) {
    uint64_t segments = 0;
    assert_int_equal(shma_sweep(&segments, NULL, NULL), SHMA_OK);
    return segments;
}

static void expect_held(const char *handle) {
    shma_array *array = NULL;
    assert_int_equal(swept(), 0);
    assert_int_equal(shma_array_attach(handle, SHMA_READ_WRITE, &array, NULL), SHMA_OK);
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

static int nothing_is_left(void **state) {
    (void)state;
    return files_in_directory();
}

static int fork_and_end_first(void *how) {
    hold();
    const pid_t child = fork();
    if (child == 0) {
        wait_for_go();
        say(write_and_see(77));
        end_by(*(enum ending *)how, 0);
    }
    say(child);
    say_text(held.handle);
    end_by(*(enum ending *)how, 0);
    return 1;
}

static void a_child_keeps_its_views_when_its_parent_ends_first(void **state) {
    (void)state;
    for (enum ending how = 0; how < ENDINGS; how++) {
        const struct child parent = start_child(fork_and_end_first, &how);
        const pid_t child = (pid_t)hear(&parent);
        const struct text handle = hear_text(&parent);
        assert_int_equal(status_of_process(parent.pid), status_of(how));
        expect_held(handle.bytes);
        let_go(&parent);
        assert_int_equal(hear(&parent), 77);
        close(parent.ask);
        close(parent.hear);
        assert_int_equal(status_of_process(child), status_of(how));
        expect_nothing_left(how);
    }
}

static int fork_and_end_last(void *how) {
    hold();
    const pid_t child = fork();
    if (child == 0) {
        say(write_and_see(77));
        end_by(*(enum ending *)how, 0);
    }
    say(status_of_process(child));
    say_text(held.handle);
    wait_for_go();
    say(write_and_see(78));
    end_by(*(enum ending *)how, 0);
    return 1;
}

static void a_parent_keeps_its_views_when_its_child_ends_first(void **state) {
    (void)state;
    for (enum ending how = 0; how < ENDINGS; how++) {
        const struct child parent = start_child(fork_and_end_last, &how);
        assert_int_equal(hear(&parent), 77);
        assert_int_equal(hear(&parent), status_of(how));
        const struct text handle = hear_text(&parent);
        expect_held(handle.bytes);
        let_go(&parent);
        assert_int_equal(hear(&parent), 78);
        assert_int_equal(ended(&parent), status_of(how));
        expect_nothing_left(how);
    }
}

// Each of three generations of processes waits at a pipe of its own, and has the end of another
// pipe, which closes when it ends.
struct generations {
    int waits[3][2];
    int lives[3][2];
    enum ending how;
};

static int be_three(void *argument) {
    const struct generations *three = argument;
    static shma_array *own;
    const int64_t shape[] = {5};
    int number = 0;
    char byte;
    hold();
    while (number < 2 && fork() == 0)
        number++;
    for (int other = 0; other < 3; other++)
        if (other != number)
            close(three->lives[other][1]);
    if (shma_array_create(SHMA_INT64, 1, shape, NULL, &own, NULL) != SHMA_OK)
        return 1;
    const int64_t facts[] = {number, getpid()};
    if (write(1, facts, sizeof facts) != sizeof facts ||
        read(three->waits[number][0], &byte, 1) != 1)
        return 2;
    ((int64_t *)shma_array_data(own))[4] = 70 + number;
    say(write_and_see(((int64_t *)shma_array_data(own))[4]));
    end_by(three->how, 0);
    return 3;
}

static void let_three_end(struct generations *three, const struct child *first,
                          const int order[3]) {
    pid_t pids[3] = {0};
    char byte;
    for (int i = 0; i < 3; i++) {
        int64_t facts[2] = {-1, -1};
        assert_int_equal(read(first->hear, facts, sizeof facts), sizeof facts);
        pids[facts[0]] = (pid_t)facts[1];
    }
    for (int i = 0; i < 3; i++) {
        swept(); // gives back only what the dead processes held
        assert_int_equal(write(three->waits[order[i]][1], ".", 1), 1);
        assert_int_equal(hear(first), 70 + order[i]);
        assert_int_equal(read(three->lives[order[i]][0], &byte, 1), 0); // it has ended
    }
    for (int i = 0; i < 3; i++) // an orphan is a child of this process
        assert_int_equal(status_of_process(pids[i]), status_of(three->how));
}

static void parent_child_and_grandchild_end_in_any_order(void **state) {
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int turn = 0; turn < 6 * ENDINGS; turn++) {
        struct generations three = {.how = turn / 6};
        for (int i = 0; i < 3; i++)
            assert_int_equal(pipe(three.waits[i]) | pipe(three.lives[i]), 0);
        const struct child first = start_child(be_three, &three);
        for (int i = 0; i < 3; i++)
            close(three.lives[i][1]);
        let_three_end(&three, &first, orders[turn % 6]);
        expect_nothing_left(three.how);
        close(first.ask);
        close(first.hear);
        for (int i = 0; i < 3; i++)
            close(three.waits[i][0]), close(three.waits[i][1]), close(three.lives[i][0]);
    }
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
    (void)state;
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

static int exit_beside_threads(void *unused) {
    (void)unused;
    static pthread_t threads[THREADS];
    static int failed[THREADS];
    hold();
    start_threads(threads, failed);
    while (atomic_load(&rounds) < 20)
        sched_yield();
    exit(failed[0] | failed[1] | failed[2]);
}

static void a_process_may_exit_while_its_threads_make_and_close(void **state) {
    (void)state;
    for (int turn = 0; turn < 30; turn++) {
        const struct child child = start_child(exit_beside_threads, NULL);
        assert_int_equal(ended(&child), 0);
    }
    expect_nothing_left(BY__EXIT); // what a thread created during the exit needs a sweep
}

static void *fork_in_a_thread(void *status) {
    const struct child child = start_child(see_make_and_end, &(int64_t){BY_EXIT});
    *(int *)status = ended(&child);
    return NULL;
}

static void a_child_of_a_thread_holds_what_its_process_held(void **state) {
    (void)state;
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
    (void)unused;
    hold();
    main_thread = pthread_self();
    if (pthread_create(&other, NULL, go_on_without_main, &main_thread) != 0)
        return 1;
    pthread_exit(NULL);
}

// To a process that tests its pid, such a process looks dead.
static void a_process_whose_first_thread_ended_holds_on(void **state) {
    (void)state;
    const struct child child = start_child(end_the_first_thread, NULL);
    assert_int_equal(hear(&child), 1);
    const struct text handle = hear_text(&child);
    expect_held(handle.bytes);
    let_go(&child);
    assert_int_equal(hear(&child), 2);
    assert_int_equal(ended(&child), 0);
    assert_int_equal(files_in_directory(), 0);
}

static int stop_oneself(void *unused) {
    (void)unused;
    hold();
    say_text(held.handle);
    raise(SIGSTOP);
    return write_and_see(3) == 3 ? 0 : 1;
}

static void a_process_that_is_stopped_holds_on(void **state) {
    (void)state;
    int status = -1;
    const struct child child = start_child(stop_oneself, NULL);
    const struct text handle = hear_text(&child);
    assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
    assert_true(WIFSTOPPED(status));
    expect_held(handle.bytes);
    kill(child.pid, SIGCONT);
    assert_int_equal(ended(&child), 0);
    expect_nothing_left(BY__EXIT);
}

#define TEST(name) cmocka_unit_test_teardown(name, nothing_is_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_child_keeps_its_views_when_its_parent_ends_first),
        TEST(a_parent_keeps_its_views_when_its_child_ends_first),
        TEST(parent_child_and_grandchild_end_in_any_order),
        TEST(forks_beside_threads_leave_both_sides_working),
        TEST(a_process_may_exit_while_its_threads_make_and_close),
        TEST(a_child_of_a_thread_holds_what_its_process_held),
        TEST(a_process_whose_first_thread_ended_holds_on),
        TEST(a_process_that_is_stopped_holds_on),
    };
    adopt_orphans();
    return cmocka_run_group_tests_name("forks", tests, NULL, NULL);
}
