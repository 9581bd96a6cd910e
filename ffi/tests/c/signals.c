// Signals in C: exceeding the limit of file sizes is an error and not fatal, a fork in a signal
// handler does not hang, and a handler neither ends nor prolongs a wait, unless its thread asks.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "children.h"

enum { LIMIT = 1 << 20, HANDLED = 300, WATCHDOG_SECONDS = 120 };

static int nothing_is_left_after_a_sweep(void **state) {
    swept();
    return files_in_directory();
}

static int32_t make(int64_t bytes, shma_array **array, shma_error *error) {
    return shma_array_create(SHMA_UINT8, 1, &bytes, NULL, array, error);
}

static void limit_files(void) {
    const struct rlimit limit = {LIMIT, RLIM_INFINITY};
    must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

// Memory is not short, and the message must not say that it is.
static void must_be_refused(int32_t status, const shma_error *error) {
    must(status < 0);
    must(!strstr(error->message, "shared memory is full"));
}

static int go_beyond_the_limit(void *unused) {
    static char memory[4 * LIMIT];
    const int64_t count = sizeof memory;
    shma_error error = SHMA_ERROR_INIT;
    shma_array *array = NULL;
    struct sigaction action;
    limit_files();
    must_be_refused(make(count, &array, &error), &error);
    must_be_refused(shma_array_share(memory, SHMA_UINT8, 1, &count, NULL, NULL, &array, &error),
                    &error);
    must(sigaction(SIGXFSZ, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    must(make(LIMIT / 2, &array, NULL) == SHMA_OK);
    ((uint8_t *)shma_array_data(array))[LIMIT / 2 - 1] = 1;
    shma_array_close(array);
    return 0;
}

static void an_array_beyond_the_limit_of_file_sizes_is_an_error_and_no_death(void **state) {
    const struct child child = start_child(go_beyond_the_limit, NULL);
    assert_int_equal(ended(&child), 0);
}

static volatile sig_atomic_t forked, refused;

// Forks in a signal handler, as crash reporters and profilers do.
static void fork_in_handler(int unused) {
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child > 0)
        forked++;
    else
        refused++;
}

// Requests one signal, which arrives soon.
static void set_timer(suseconds_t microseconds) {
    const struct itimerval once = {{0, 0}, {0, microseconds}};
    must(setitimer(ITIMER_REAL, &once, NULL) == 0);
}

static void use_the_library(void) {
    for (int64_t bytes = 10; bytes < 1 << 19; bytes *= 20) {
        shma_array *array = NULL;
        must(make(bytes, &array, NULL) == SHMA_OK);
        ((uint8_t *)shma_array_data(array))[bytes - 1] = 1;
        shma_array_close(array);
    }
}

// It runs as the only thread of a process, so that the fork of the C library waits for no thread.
static int work_beside_a_timer(void *unused) {
    signal(SIGALRM, fork_in_handler);
    for (suseconds_t round = 1; forked + refused < HANDLED; round++) {
        set_timer(round % 150 + 1);
        use_the_library();
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
    set_timer(0);
    while (waitpid(-1, NULL, 0) > 0)
        ; // a child that still runs holds the arrays that it inherited
    return 0;
}

// Returns whether a child ends in time, else kills it.
static int ends_in_time(pid_t pid) {
    struct pollfd end = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    const int ends = end.fd >= 0 && poll(&end, 1, WATCHDOG_SECONDS * 1000) > 0;
    if (!ends)
        kill(pid, SIGKILL);
    close(end.fd);
    return ends;
}

// The call may fail, or end the process with a message; it must not hang.
static void a_fork_in_a_signal_handler_works_or_is_refused(void **state) {
    FILE *said = tmpfile();
    const int errors = dup(2);
    assert_non_null(said);
    dup2(fileno(said), 2);
    const struct child child = start_child(work_beside_a_timer, NULL);
    dup2(errors, 2);
    close(errors);
    const int ends = ends_in_time(child.pid);
    const int status = ended(&child);
    char text[4096] = "";
    rewind(said);
    text[fread(text, 1, sizeof text - 1, said)] = 0;
    fclose(said);
    if (!ends)
        fail_msg("the watchdog waited %d s for a process that forks in a signal handler",
                 WATCHDOG_SECONDS);
    if (status != 0 && !strstr(text, "fork"))
        fail_msg("it ended with status %#x and said: %s", (unsigned)status, text);
}

static volatile sig_atomic_t handled;

static void count_signal(int unused) { handled++; }

// Handles a signal every 10 ms until `stop_handling`.
static void start_handling(void) {
    const struct itimerval often = {{0, 10000}, {0, 10000}};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count_signal;
    action.sa_flags = SA_RESTART;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static void stop_handling(void) {
    const struct itimerval never = {{0, 0}, {0, 0}};
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    signal(SIGALRM, SIG_DFL);
}

// Two channels without a free slot, one without a message, and a pipe whose near end has neither
// room nor a message.
static shma_channel *full, *full_of_handles, *empty;
static shma_pipe *near_end, *far_end;
static shma_array *number;

static int32_t wait_to_receive(int64_t timeout_ns) {
    shma_delivery *delivery = NULL;
    return shma_channel_receive(empty, timeout_ns, &delivery, &error);
}

static int32_t wait_for_a_loan(int64_t timeout_ns) {
    shma_loan *loan = NULL;
    return shma_channel_loan(full, 0, NULL, timeout_ns, &loan, &error);
}

static int32_t wait_for_a_loan_of_a_shape(int64_t timeout_ns) {
    const int64_t one = 1;
    shma_loan *loan = NULL;
    return shma_channel_loan(full, 1, &one, timeout_ns, &loan, &error);
}

static int32_t send_memory(const shma_channel *channel, int64_t timeout_ns) {
    const int64_t one = 1;
    return shma_channel_send(channel, shma_array_data(number), SHMA_INT32, 1, &one, NULL, NULL, 0,
                             timeout_ns, NULL, &error);
}

static int32_t wait_to_send(int64_t timeout_ns) { return send_memory(full, timeout_ns); }

static int32_t wait_to_send_a_copy(int64_t timeout_ns) {
    return send_memory(full_of_handles, timeout_ns);
}

static int32_t send_number(const shma_channel *channel, int64_t timeout_ns) {
    return shma_channel_send_array(channel, number, NULL, 0, timeout_ns, NULL, &error);
}

static int32_t wait_to_send_an_array(int64_t timeout_ns) { return send_number(full, timeout_ns); }

static int32_t wait_to_send_a_handle(int64_t timeout_ns) {
    return send_number(full_of_handles, timeout_ns);
}

static int32_t wait_for_a_channel(int64_t timeout_ns) {
    shma_channel *channel = NULL;
    return shma_channel_open("nobody", 1, timeout_ns, &channel, &error);
}

static int32_t wait_for_a_message(int64_t timeout_ns) {
    shma_message *message = NULL;
    return shma_pipe_receive(near_end, timeout_ns, &message, &error);
}

static int32_t wait_for_room(int64_t timeout_ns) {
    return shma_pipe_send(near_end, &number, 1, NULL, 0, timeout_ns, &error);
}

static int32_t (*const waits[])(int64_t timeout_ns) = {
    wait_to_receive,     wait_for_a_loan,       wait_for_a_loan_of_a_shape, wait_to_send,
    wait_to_send_a_copy, wait_to_send_an_array, wait_to_send_a_handle,      wait_for_a_channel,
    wait_for_a_message,  wait_for_room};
enum { WAITS = sizeof waits / sizeof *waits };

static void open_what_they_wait_for(void) {
    const int64_t one = 1;
    shma_channel_options options = SHMA_CHANNEL_OPTIONS_INIT;
    options.slots = 1;
    expect_ok(shma_array_create(SHMA_INT32, 1, &one, NULL, &number, NULL));
    expect_ok(shma_channel_create_by_handle("handles", &options, &full_of_handles, NULL));
    options.varying = 1;
    expect_ok(shma_channel_create("full", SHMA_INT32, 1, &one, NULL, &options, &full, NULL));
    expect_ok(shma_channel_create("empty", SHMA_INT32, 1, &one, NULL, NULL, &empty, NULL));
    expect_ok(send_number(full, SHMA_NO_TIMEOUT));
    expect_ok(send_number(full_of_handles, SHMA_NO_TIMEOUT));
    expect_ok(shma_pipe_pair(&near_end, &far_end, NULL));
    while (wait_for_room(0) == SHMA_OK)
        ;
}

static void close_what_they_wait_for(void) {
    shma_channel_close(full);
    shma_channel_close(full_of_handles);
    shma_channel_close(empty);
    shma_pipe_close(near_end);
    shma_pipe_close(far_end);
    shma_array_close(number);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

// If it prolonged a wait, the wait would not end: it runs more often than the wait is long.
static void a_handler_neither_ends_nor_prolongs_a_wait(void **state) {
    const int64_t timeout_ns = 100 * 1000 * 1000;
    open_what_they_wait_for();
    start_handling();
    for (size_t at = 0; at < WAITS; at++) {
        const sig_atomic_t before = handled;
        const int64_t began = now_ns();
        assert_int_equal(waits[at](timeout_ns), SHMA_TIMED_OUT);
        assert_true(now_ns() - began >= timeout_ns);
        assert_true(handled > before);
    }
    stop_handling();
    close_what_they_wait_for();
}

static void a_handler_ends_the_waits_of_a_thread_that_asked_for_it(void **state) {
    open_what_they_wait_for();
    start_handling();
    assert_int_equal(shma_set_interruptible(1), 0);
    for (size_t at = 0; at < WAITS; at++) {
        error = (shma_error)SHMA_ERROR_INIT;
        assert_int_equal(waits[at](SHMA_NO_TIMEOUT), SHMA_ERROR_OS);
        assert_int_equal(error.os_errno, EINTR);
    }
    assert_int_equal(shma_set_interruptible(0), 1);
    stop_handling();
    close_what_they_wait_for();
}

#define SWEPT(name) cmocka_unit_test_teardown(name, nothing_is_left_after_a_sweep)

int main(void) {
    const struct CMUnitTest tests[] = {
        SWEPT(an_array_beyond_the_limit_of_file_sizes_is_an_error_and_no_death),
        SWEPT(a_fork_in_a_signal_handler_works_or_is_refused),
        SWEPT(a_handler_neither_ends_nor_prolongs_a_wait),
        SWEPT(a_handler_ends_the_waits_of_a_thread_that_asked_for_it),
    };
    return cmocka_run_group_tests_name("signals", tests, NULL, NULL);
}
