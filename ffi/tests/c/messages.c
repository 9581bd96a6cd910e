// Messages in C: pipes that carry arrays, handles with a ticket, and what happens to both when a
// process dies.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests.h"

// An array in a cell, and one in a segment of its own.
static const int64_t sizes[] = {8, 100000};
static const int64_t soon = 1000 * 1000;
// The ends of the pipe that each test has.
static shma_pipe *here, *there;

static int open_pipe(void **state) { return shma_pipe_pair(&here, &there, NULL); }

static void close_end(shma_pipe **end) {
    shma_pipe_close(*end);
    *end = NULL;
}

static int nothing_is_left_without_the_pipe(void **state) {
    close_end(&here);
    close_end(&there);
    return files_in_directory();
}

static int left_after_sweep(void) {
    swept();
    return files_in_directory();
}

static shma_array *marked(int64_t size, uint8_t mark) {
    shma_array *array = NULL;
    expect_ok(shma_array_create(SHMA_UINT8, 1, &size, NULL, &array, NULL));
    *(uint8_t *)shma_array_data(array) = mark;
    return array;
}

static uint8_t mark_of(const shma_array *array) { return *(const uint8_t *)shma_array_data(array); }

static int32_t send_one(const shma_pipe *pipe, shma_array *array, int64_t timeout_ns) {
    return shma_pipe_send(pipe, &array, 1, NULL, 0, timeout_ns, NULL);
}

static shma_message *receive(const shma_pipe *pipe) {
    shma_message *message = NULL;
    expect_ok(shma_pipe_receive(pipe, SHMA_NO_TIMEOUT, &message, NULL));
    return message;
}

static shma_array *take(const shma_message *message, size_t index) {
    shma_array *array = NULL;
    expect_ok(shma_message_array(message, index, SHMA_READ_WRITE, &array, NULL));
    return array;
}

static void wait_for(pid_t child, int signal) {
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(signal ? WTERMSIG(status) : WEXITSTATUS(status), signal);
}

static void a_message_arrives_with_its_arrays_and_bytes(void **state) {
    shma_array *small = marked(sizes[0], 5), *large = marked(sizes[1], 6);
    shma_array *arrays[] = {small, large, small};
    expect_ok(shma_pipe_send(here, arrays, 3, "frame", 5, SHMA_NO_TIMEOUT, NULL));
    shma_array_close(small);
    shma_array_close(large);
    shma_message *message = receive(there);
    size_t bytes = 0;
    assert_memory_equal(shma_message_payload(message, &bytes), "frame", 5);
    assert_int_equal(bytes, 5);
    assert_int_equal(shma_message_count(message), 3);
    small = take(message, 0);
    large = take(message, 1);
    shma_message_close(message);
    assert_int_equal(mark_of(small), 5);
    assert_int_equal(mark_of(large), 6);
    assert_int_equal(shma_array_size(large), sizes[1]);
    shma_array_close(small);
    shma_array_close(large);
}

static void either_may_be_missing_and_the_bytes_may_be_many(void **state) {
    expect_ok(shma_pipe_send(here, NULL, 0, NULL, 0, SHMA_NO_TIMEOUT, NULL));
    shma_message *message = receive(there);
    size_t bytes = 7;
    shma_message_payload(message, &bytes);
    assert_int_equal(bytes, 0);
    assert_int_equal(shma_message_count(message), 0);
    shma_message_close(message);
    char *many = malloc(1 << 20);
    memset(many, 'x', 1 << 20);
    expect_ok(shma_pipe_send(there, NULL, 0, many, 1 << 20, SHMA_NO_TIMEOUT, NULL));
    message = receive(here);
    assert_memory_equal(shma_message_payload(message, &bytes), many, 1 << 20);
    assert_int_equal(bytes, 1 << 20);
    shma_message_close(message);
    free(many);
}

static void a_received_array_may_be_readonly(void **state) {
    shma_array *array = marked(8, 1), *reader = NULL;
    expect_ok(send_one(here, array, SHMA_NO_TIMEOUT));
    shma_message *message = receive(there);
    expect_ok(shma_message_array(message, 0, SHMA_READ_ONLY, &reader, NULL));
    assert_int_equal(shma_array_is_readonly(reader), 1);
    *(uint8_t *)shma_array_data(array) = 2;
    assert_int_equal(mark_of(reader), 2);
    shma_array_close(reader);
    shma_array_close(array);
    shma_message_close(message);
}

static void a_message_holds_though_its_sender_has_ended(void **state) {
    for (size_t which = 0; which < 2; which++) {
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0)
            _exit(send_one(there, marked(sizes[which], 7), SHMA_NO_TIMEOUT));
        wait_for(child, 0);
        assert_int_equal(left_after_sweep(), 1);
        shma_message *message = receive(here);
        shma_array *array = take(message, 0);
        shma_message_close(message);
        assert_int_equal(left_after_sweep(), 1);
        assert_int_equal(mark_of(array), 7);
        shma_array_close(array);
        assert_int_equal(files_in_directory(), 0);
    }
}

static void a_sender_killed_after_it_sent_takes_nothing_away(void **state) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        _exit(send_one(there, marked(sizes[1], 9), SHMA_NO_TIMEOUT) == SHMA_OK && raise(SIGKILL));
    wait_for(child, SIGKILL);
    assert_int_equal(left_after_sweep(), 1);
    shma_message *message = receive(here);
    shma_array *array = take(message, 0);
    assert_int_equal(mark_of(array), 9);
    shma_array_close(array);
    shma_message_close(message);
    assert_int_equal(left_after_sweep(), 0);
}

static void a_killed_receiver_leaves_nothing(void **state) {
    for (size_t which = 0; which < 2; which++) {
        shma_array *array = marked(sizes[which], 1);
        expect_ok(send_one(here, array, SHMA_NO_TIMEOUT));
        shma_array_close(array);
        assert_int_equal(left_after_sweep(), 1);
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            receive(there); // and ends before it attaches the array
            raise(SIGKILL);
        }
        wait_for(child, SIGKILL);
        assert_int_equal(left_after_sweep(), 0);
    }
}

static void unreceivable_messages_are_given_back(void **state) {
    for (size_t which = 0; which < 2; which++) {
        shma_array *array = marked(sizes[which], 1);
        expect_ok(send_one(here, array, SHMA_NO_TIMEOUT));
        shma_array_close(array);
    }
    close_end(&here);
    assert_int_equal(left_after_sweep(), 2); // the other end can still receive
    close_end(&there);
    assert_int_equal(left_after_sweep(), 0);
}

static void a_closed_end_is_an_outcome_and_not_an_error(void **state) {
    shma_error error = {42, 43, "as it was"};
    shma_array *array = marked(sizes[1], 3);
    expect_ok(send_one(there, array, SHMA_NO_TIMEOUT));
    close_end(&there);
    assert_int_equal(shma_pipe_send(here, &array, 1, "x", 1, SHMA_NO_TIMEOUT, &error), SHMA_CLOSED);
    shma_message_close(receive(here)); // sent before the close
    shma_message *message = (shma_message *)untouched;
    assert_int_equal(shma_pipe_receive(here, SHMA_NO_TIMEOUT, &message, &error), SHMA_CLOSED);
    assert_ptr_equal(message, untouched);
    assert_int_equal(error.status, 42);
    assert_int_equal(mark_of(array), 3);
    shma_array_close(array);
}

static void an_answer_arrives_though_its_sender_left_a_task_unread(void **state) {
    shma_array *array = marked(8, 4);
    expect_ok(send_one(here, array, SHMA_NO_TIMEOUT));
    expect_ok(shma_pipe_send(there, NULL, 0, "answer", 6, SHMA_NO_TIMEOUT, NULL));
    close_end(&there);
    shma_message *message = receive(here);
    assert_memory_equal(shma_message_payload(message, NULL), "answer", 6);
    shma_message_close(message);
    assert_int_equal(shma_pipe_receive(here, SHMA_NO_TIMEOUT, &message, NULL), SHMA_CLOSED);
    shma_array_close(array);
    close_end(&here);
    assert_int_equal(left_after_sweep(), 0);
}

static void an_empty_pipe_and_a_full_one_time_out(void **state) {
    shma_message *message = (shma_message *)untouched;
    assert_int_equal(shma_pipe_receive(there, 0, &message, NULL), SHMA_TIMED_OUT);
    assert_int_equal(shma_pipe_receive(there, soon, &message, NULL), SHMA_TIMED_OUT);
    assert_ptr_equal(message, untouched);
    shma_array *array = marked(sizes[1], 3);
    int sent = 0;
    while (send_one(here, array, 0) == SHMA_OK)
        sent++;
    assert_true(sent > 50);
    assert_int_equal(send_one(here, array, soon), SHMA_TIMED_OUT);
    shma_array_close(array);
    for (int time = 0; time < sent; time++)
        shma_message_close(receive(there));
    assert_int_equal(files_in_directory(), 0);
}

static void do_nothing(int signal) { (void)signal; }

// The timer repeats, so a signal that arrives before the wait does not matter.
static void a_signal_ends_a_wait_if_the_thread_asked_for_it(void **state) {
    shma_error error = SHMA_ERROR_INIT;
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = do_nothing;
    assert_int_equal(sigaction(SIGALRM, &act, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    shma_message *message = NULL;
    assert_int_equal(shma_set_interruptible(1), 0);
    const int32_t status = shma_pipe_receive(there, SHMA_NO_TIMEOUT, &message, &error);
    assert_int_equal(shma_set_interruptible(0), 1);
    assert_int_equal(shma_pipe_receive(there, 20 * soon, &message, &error), SHMA_TIMED_OUT);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(status, SHMA_ERROR_OS);
    assert_int_equal(error.os_errno, EINTR);
}

// This program, executed again with an fd: it sends back what it receives.
static int answer(const char *fd) {
    shma_pipe *pipe = NULL;
    if (shma_pipe_from_fd(atoi(fd), &pipe, NULL) != SHMA_OK || shma_pipe_fd(pipe) != atoi(fd))
        return 1;
    shma_message *message = receive(pipe);
    shma_array *array = take(message, 0);
    shma_message_close(message);
    *(uint8_t *)shma_array_data(array) *= 2;
    const int32_t status = send_one(pipe, array, SHMA_NO_TIMEOUT);
    shma_array_close(array);
    shma_pipe_close(pipe);
    return status;
}

static void an_end_passes_to_another_program_by_its_fd(void **state) {
    char program[4096] = "", fd[16];
    assert_true(fcntl(shma_pipe_fd(there), F_GETFD) & FD_CLOEXEC);
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    snprintf(fd, sizeof fd, "%d", shma_pipe_fd(there));
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        fcntl(shma_pipe_fd(there), F_SETFD, 0);
        execl(program, "messages", "answer", fd, (char *)NULL);
        _exit(127);
    }
    close_end(&there);
    shma_array *array = marked(sizes[1], 21);
    expect_ok(send_one(here, array, SHMA_NO_TIMEOUT));
    shma_message *message = receive(here);
    wait_for(child, 0);
    assert_int_equal(mark_of(array), 42);
    shma_array_close(array);
    shma_message_close(message);
    assert_int_equal(shma_pipe_receive(here, SHMA_NO_TIMEOUT, &message, NULL), SHMA_CLOSED);
}

static void an_fd_that_is_not_a_pipe_is_refused_and_stays_open(void **state) {
    shma_pipe *pipe = (shma_pipe *)untouched;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    expect_failure(shma_pipe_from_fd(ends[0], &pipe, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   "not an end of a pipe");
    assert_true(fcntl(ends[0], F_GETFD) >= 0);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(shma_pipe_from_fd(ends[0], &pipe, &error), SHMA_ERROR_OS);
    assert_int_equal(error.os_errno, EBADF);
    expect_failure(shma_pipe_from_fd(-1, &pipe, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   "invalid fd: -1");
    assert_ptr_equal(pipe, untouched);
}

static void an_invalid_message_is_refused(void **state) {
    shma_message *message = (shma_message *)untouched;
    assert_int_equal(write(shma_pipe_fd(here), "noise", 5), 5);
    expect_failure(shma_pipe_receive(there, SHMA_NO_TIMEOUT, &message, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "invalid message");
    assert_ptr_equal(message, untouched);
}

static void an_array_that_a_message_has_not_is_out_of_bounds(void **state) {
    shma_array *array = marked(8, 1), *taken = untouched;
    expect_ok(send_one(here, array, SHMA_NO_TIMEOUT));
    shma_message *message = receive(there);
    assert_int_equal(shma_message_array(message, 1, SHMA_READ_WRITE, &taken, NULL),
                     SHMA_ERROR_OUT_OF_BOUNDS);
    assert_int_equal(shma_message_array(message, 0, 2, &taken, NULL), SHMA_ERROR_INVALID_ARGUMENT);
    assert_ptr_equal(taken, untouched);
    shma_message_close(message);
    shma_array_close(array);
}

static void a_handle_to_send_holds_until_it_is_attached_or_discarded(void **state) {
    for (size_t which = 0; which < 2; which++) {
        char first[4096], second[4096];
        shma_array *array = marked(sizes[which], 8), *attached = NULL;
        expect_ok(shma_array_handle_to_send(array, first, sizeof first, NULL, NULL));
        expect_ok(shma_array_handle_to_send(array, second, sizeof second, NULL, NULL));
        assert_non_null(strstr(first, ",\"ticket\":"));
        assert_string_not_equal(first, second);
        shma_array_close(array);
        assert_int_equal(left_after_sweep(), 1);
        expect_ok(shma_array_attach(first, SHMA_READ_ONLY, &attached, NULL));
        assert_int_equal(mark_of(attached), 8);
        shma_array_close(attached);
        assert_int_equal(left_after_sweep(), 1);
        expect_ok(shma_handle_discard(second, NULL));
        assert_int_equal(files_in_directory(), 0);
        expect_ok(shma_handle_discard(second, NULL)); // a second discard does nothing
    }
}

static void a_room_that_is_too_short_leaves_no_ticket(void **state) {
    char text[4096];
    size_t needed = 0, written = 0;
    shma_array *array = marked(sizes[1], 8);
    assert_int_equal(shma_array_handle_to_send(array, NULL, 0, &needed, NULL),
                     SHMA_ERROR_TEXT_TOO_SHORT);
    memset(text, '#', sizeof text);
    assert_int_equal(shma_array_handle_to_send(array, text, needed - 1, NULL, NULL),
                     SHMA_ERROR_TEXT_TOO_SHORT);
    assert_int_equal(text[0], '#');
    shma_array_close(array);
    assert_int_equal(files_in_directory(), 0);
    array = marked(sizes[1], 8); // a new array, whose generation may have more digits
    assert_int_equal(shma_array_handle_to_send(array, NULL, 0, &needed, NULL),
                     SHMA_ERROR_TEXT_TOO_SHORT);
    expect_ok(shma_array_handle_to_send(array, text, needed, &written, NULL));
    assert_int_equal(written, needed);
    assert_int_equal(strlen(text), needed - 1);
    shma_array_close(array);
    assert_int_equal(files_in_directory(), 1);
    expect_ok(shma_handle_discard(text, NULL));
}

static void discard_takes_handles_of_all_kinds_and_nothing_else(void **state) {
    char handle[4096];
    shma_array *array = marked(sizes[1], 8);
    expect_ok(shma_array_handle(array, handle, sizeof handle, NULL, NULL));
    expect_ok(shma_handle_discard(handle, &error)); // it holds nothing
    assert_int_equal(mark_of(array), 8);
    shma_array_close(array);
    expect_ok(shma_handle_discard(handle, &error));
    assert_int_equal(shma_handle_discard("{\"shmarray\":1}", &error), SHMA_ERROR_INVALID_HANDLE);
    assert_int_equal(shma_handle_discard("a-name", &error), SHMA_ERROR_INVALID_HANDLE);
}

#define WITH_PIPE(name)                                                                            \
    cmocka_unit_test_setup_teardown(name, open_pipe, nothing_is_left_without_the_pipe)

int main(int count, char **arguments) {
    if (count == 3 && strcmp(arguments[1], "answer") == 0)
        return answer(arguments[2]);
    const struct CMUnitTest tests[] = {
        WITH_PIPE(a_message_arrives_with_its_arrays_and_bytes),
        WITH_PIPE(either_may_be_missing_and_the_bytes_may_be_many),
        WITH_PIPE(a_received_array_may_be_readonly),
        WITH_PIPE(a_message_holds_though_its_sender_has_ended),
        WITH_PIPE(a_sender_killed_after_it_sent_takes_nothing_away),
        WITH_PIPE(a_killed_receiver_leaves_nothing),
        WITH_PIPE(unreceivable_messages_are_given_back),
        WITH_PIPE(a_closed_end_is_an_outcome_and_not_an_error),
        WITH_PIPE(an_answer_arrives_though_its_sender_left_a_task_unread),
        WITH_PIPE(an_empty_pipe_and_a_full_one_time_out),
        WITH_PIPE(a_signal_ends_a_wait_if_the_thread_asked_for_it),
        WITH_PIPE(an_end_passes_to_another_program_by_its_fd),
        WITH_PIPE(an_fd_that_is_not_a_pipe_is_refused_and_stays_open),
        WITH_PIPE(an_invalid_message_is_refused),
        WITH_PIPE(an_array_that_a_message_has_not_is_out_of_bounds),
        WITH_PIPE(a_handle_to_send_holds_until_it_is_attached_or_discarded),
        WITH_PIPE(a_room_that_is_too_short_leaves_no_ticket),
        WITH_PIPE(discard_takes_handles_of_all_kinds_and_nothing_else),
    };
    return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
