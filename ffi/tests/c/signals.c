// Signals in C: exceeding the limit of file sizes is an error and not fatal, and a fork in a signal
// handler does not hang.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>

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

#define SWEPT(name) cmocka_unit_test_teardown(name, nothing_is_left_after_a_sweep)

int main(void) {
    const struct CMUnitTest tests[] = {
        SWEPT(an_array_beyond_the_limit_of_file_sizes_is_an_error_and_no_death),
        SWEPT(a_fork_in_a_signal_handler_works_or_is_refused),
    };
    return cmocka_run_group_tests_name("signals", tests, NULL, NULL);
}
