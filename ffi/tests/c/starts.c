// Executed programs in C: every kind of exec releases the arrays; a daemon holds its arrays as any
// process does.
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <shmarray.h>

#include "children.h"
#include "directory.h"

extern char **environ;

static const int64_t large[] = {1 << 18};
static char handle[2048];

static shma_array *make(int64_t value) {
    shma_array *array = NULL;
    must(shma_array_create(SHMA_INT64, 1, large, NULL, &array, NULL) == SHMA_OK);
    must(shma_array_handle(array, handle, sizeof handle, NULL, NULL) == SHMA_OK);
    ((int64_t *)shma_array_data(array))[large[0] - 1] = value;
    return array;
}

static int64_t last(const shma_array *array) {
    return ((const int64_t *)shma_array_data(array))[large[0] - 1];
}

static uint64_t swept(void) {
    uint64_t segments = 0;
    assert_int_equal(shma_sweep(&segments, NULL, NULL), SHMA_OK);
    return segments;
}

static int nothing_is_left(void **state) {
    (void)state;
    return files_in_directory();
}

// Moves the ends of a pipe to the fds of standard input and output.
struct ends {
    int in, out;
};

static pid_t by_vfork(const struct ends *ends) {
    const pid_t child = vfork();
    if (child == 0) {
        dup2(ends->in, 0);
        dup2(ends->out, 1);
        execlp("cat", "cat", (char *)NULL);
        _exit(127);
    }
    return child;
}

static pid_t by_fork(const struct ends *ends) {
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends->in, 0);
        dup2(ends->out, 1);
        execlp("cat", "cat", (char *)NULL);
        _exit(127);
    }
    return child;
}

static pid_t by_posix_spawn(const struct ends *ends) {
    pid_t child = -1;
    char *arguments[] = {"cat", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends->in, 0);
    posix_spawn_file_actions_adddup2(&actions, ends->out, 1);
    assert_int_equal(posix_spawnp(&child, "cat", &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

// When the program answers, it runs, and it neither holds nor inherited an array.
static void expect_no_hold_of(pid_t (*start)(const struct ends *)) {
    int asks[2], answers[2];
    char answer[4];
    shma_array *array = make(7);
    assert_int_equal(pipe2(asks, O_CLOEXEC) | pipe2(answers, O_CLOEXEC), 0);
    const pid_t program = start(&(struct ends){asks[0], answers[1]});
    assert_int_equal(write(asks[1], "here", 4), 4);
    assert_int_equal(read(answers[0], answer, 4), 4);
    assert_memory_equal(answer, "here", 4);
    assert_int_equal(swept(), 0);
    assert_int_equal(last(array), 7);
    shma_array_close(array);
    assert_int_equal(files_in_directory(), 0);
    close(asks[0]);
    close(asks[1]);
    assert_int_equal(status_of_process(program), 0);
    close(answers[0]);
    close(answers[1]);
}

static void a_program_started_by_vfork_holds_nothing(void **state) {
    (void)state;
    expect_no_hold_of(by_vfork);
}

static void a_program_started_by_fork_holds_nothing(void **state) {
    (void)state;
    expect_no_hold_of(by_fork);
}

static void a_program_started_by_posix_spawn_holds_nothing(void **state) {
    (void)state;
    expect_no_hold_of(by_posix_spawn);
}

static void a_program_started_by_popen_or_system_holds_nothing(void **state) {
    (void)state;
    shma_array *array = make(8);
    assert_int_equal(system("exit 3"), 3 << 8);
    FILE *program = popen("cat >/dev/null", "w");
    assert_non_null(program);
    assert_int_equal(swept(), 0);
    assert_int_equal(last(array), 8);
    shma_array_close(array);
    assert_int_equal(files_in_directory(), 0);
    assert_int_equal(pclose(program), 0);
}

static pid_t vfork_and_fail(void) {
    const pid_t child = vfork();
    if (child == 0) {
        execl("/there/is/no/such/program", "program", (char *)NULL);
        _exit(127);
    }
    return child;
}

static pid_t vfork_and_leave(void) {
    const pid_t child = vfork();
    if (child == 0)
        _exit(0);
    return child;
}

// Under valgrind the child reports its failure as after a fork.
static int is_not_spawned(void) {
    char *arguments[] = {"program", NULL};
    pid_t child = -1;
    const int failed =
        posix_spawn(&child, "/there/is/no/such/program", NULL, NULL, arguments, environ);
    return failed != 0 || status_of_process(child) == 127 << 8;
}

static void a_start_that_fails_loses_nothing(void **state) {
    (void)state;
    shma_array *array = make(9), *again = NULL;
    assert_int_equal(status_of_process(vfork_and_fail()), 127 << 8);
    assert_int_equal(status_of_process(vfork_and_leave()), 0);
    assert_true(is_not_spawned());
    assert_int_equal(execl("/there/is/no/such/program", "program", (char *)NULL), -1);
    assert_int_equal(swept(), 0);
    assert_int_equal(shma_array_attach(handle, SHMA_READ_WRITE, &again, NULL), SHMA_OK);
    assert_int_equal(last(again), 9);
    shma_array_close(array);
    assert_int_equal(last(again), 9);
    shma_array_close(again);
    assert_int_equal(files_in_directory(), 0);
}

static int hold_and_exec(void *unused) {
    (void)unused;
    static shma_array *array, *second;
    array = make(5);
    must(shma_array_attach(handle, SHMA_READ_ONLY, &second, NULL) == SHMA_OK);
    must(last(array) == 5 && last(second) == 5);
    say_text(handle);
    wait_for_go();
    execlp("cat", "cat", (char *)NULL);
    return 127;
}

// When the program answers, it runs, and its process no longer has the previous memory.
static void expect_echo(const struct child *program) {
    char answer[4] = "";
    assert_int_equal(write(program->ask, "here", 4), 4);
    assert_int_equal(read(program->hear, answer, 4), 4);
    assert_memory_equal(answer, "here", 4);
}

static void a_process_that_execs_holds_no_longer_though_it_lives(void **state) {
    (void)state;
    shma_array *array = NULL;
    swept();
    const struct child child = start_child(hold_and_exec, NULL);
    const struct text text = hear_text(&child);
    assert_int_equal(swept(), 0);
    assert_true(files_in_directory() > 0);
    let_go(&child);
    // The permission to continue is no longer in the pipe, because the old program read it.
    expect_echo(&child);
    assert_int_equal(swept(), 1);
    assert_int_equal(files_in_directory(), 0);
    assert_int_equal(shma_array_attach(text.bytes, SHMA_READ_WRITE, &array, NULL),
                     SHMA_ERROR_NOT_FOUND);
    assert_int_equal(waitpid(child.pid, NULL, WNOHANG), 0); // it lives
    assert_int_equal(ended(&child), 0);
}

static void an_array_of_a_process_that_execs_stays_with_its_other_holders(void **state) {
    (void)state;
    shma_array *array = NULL;
    const struct child child = start_child(hold_and_exec, NULL);
    const struct text text = hear_text(&child);
    assert_int_equal(shma_array_attach(text.bytes, SHMA_READ_WRITE, &array, NULL), SHMA_OK);
    let_go(&child);
    expect_echo(&child);
    assert_int_equal(swept(), 0);
    assert_int_equal(last(array), 5);
    shma_array_close(array); // the last holder: the other one no longer exists
    assert_int_equal(files_in_directory(), 0);
    assert_int_equal(ended(&child), 0);
}

static int hold_and_end(void *how) {
    static shma_array *array;
    array = make(6);
    must(last(array) == 6);
    end_by(*(enum ending *)how, 0);
    return 1;
}

static void however_a_process_ends_what_it_held_is_given_back(void **state) {
    (void)state;
    for (enum ending how = 0; how < ENDINGS; how++) {
        swept();
        const struct child child = start_child(hold_and_end, &how);
        assert_int_equal(ended(&child), status_of(how));
        assert_int_equal(files_in_directory(), how == BY_EXIT ? 0 : 1);
        assert_int_equal(swept(), how == BY_EXIT ? 0 : 1);
        assert_int_equal(files_in_directory(), 0);
    }
}

// Writes to the pipes of its starter, which outlive it; its standard fds lead to /dev/null.
static int become_daemon(void *how) {
    static shma_array *before, *after;
    const int ask = dup(0), hear = dup(1);
    before = make(1);
    say_text(handle);
    if (daemon(0, 0) != 0)
        return 1;
    dup2(ask, 0);
    dup2(hear, 1);
    after = make(2);
    say(getpid());
    say_text(handle);
    wait_for_go();
    say(last(before) * 10 + last(after));
    wait_for_go();
    end_by(*(enum ending *)how, 0);
    return 1;
}

static void expect_a_daemon_to_hold_and_give_back(enum ending how) {
    shma_array *before = NULL, *after = NULL;
    swept();
    const struct child starter = start_child(become_daemon, &how);
    const struct text first = hear_text(&starter);
    assert_int_equal(status_of_process(starter.pid), 0);
    const pid_t pid = (pid_t)hear(&starter);
    const struct text second = hear_text(&starter);
    assert_int_equal(swept(), 0);
    assert_int_equal(shma_array_attach(first.bytes, SHMA_READ_WRITE, &before, NULL), SHMA_OK);
    assert_int_equal(shma_array_attach(second.bytes, SHMA_READ_WRITE, &after, NULL), SHMA_OK);
    ((int64_t *)shma_array_data(before))[large[0] - 1] = 3;
    ((int64_t *)shma_array_data(after))[large[0] - 1] = 4;
    shma_array_close(before);
    shma_array_close(after);
    assert_int_equal(swept(), 0);
    let_go(&starter);
    assert_int_equal(hear(&starter), 34);
    let_go(&starter);
    assert_int_equal(status_of_process(pid), status_of(how));
    assert_int_equal(swept(), how == BY_EXIT ? 0 : 2);
    assert_int_equal(files_in_directory(), 0);
    close(starter.ask);
    close(starter.hear);
}

static void a_daemon_holds_when_its_starter_is_gone_and_gives_back_at_its_end(void **state) {
    (void)state;
    for (enum ending how = 0; how < ENDINGS; how++)
        expect_a_daemon_to_hold_and_give_back(how);
}

#define TEST(name) cmocka_unit_test_teardown(name, nothing_is_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_program_started_by_vfork_holds_nothing),
        TEST(a_program_started_by_fork_holds_nothing),
        TEST(a_program_started_by_posix_spawn_holds_nothing),
        TEST(a_program_started_by_popen_or_system_holds_nothing),
        TEST(a_start_that_fails_loses_nothing),
        TEST(a_process_that_execs_holds_no_longer_though_it_lives),
        TEST(an_array_of_a_process_that_execs_stays_with_its_other_holders),
        TEST(however_a_process_ends_what_it_held_is_given_back),
        TEST(a_daemon_holds_when_its_starter_is_gone_and_gives_back_at_its_end),
    };
    adopt_orphans();
    return cmocka_run_group_tests_name("starts", tests, NULL, NULL);
}
