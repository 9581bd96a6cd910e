// Started programs in C: however one is started, it holds nothing.
#include <fcntl.h>
#include <spawn.h>

#include "children.h"

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

static void a_program_started_by_vfork_holds_nothing(void **state) { expect_no_hold_of(by_vfork); }

static void a_program_started_by_fork_holds_nothing(void **state) { expect_no_hold_of(by_fork); }

static void a_program_started_by_posix_spawn_holds_nothing(void **state) {
    expect_no_hold_of(by_posix_spawn);
}

static void a_program_started_by_popen_or_system_holds_nothing(void **state) {
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
    shma_array *array = make(9), *again = NULL;
    assert_int_equal(status_of_process(vfork_and_fail()), 127 << 8);
    assert_int_equal(status_of_process(vfork_and_leave()), 0);
    assert_true(is_not_spawned());
    assert_int_equal(execl("/there/is/no/such/program", "program", (char *)NULL), -1);
    assert_int_equal(swept(), 0);
    expect_ok(shma_array_attach(handle, SHMA_READ_WRITE, &again, NULL));
    assert_int_equal(last(again), 9);
    shma_array_close(array);
    assert_int_equal(last(again), 9);
    shma_array_close(again);
    assert_int_equal(files_in_directory(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_program_started_by_vfork_holds_nothing),
        TEST(a_program_started_by_fork_holds_nothing),
        TEST(a_program_started_by_posix_spawn_holds_nothing),
        TEST(a_program_started_by_popen_or_system_holds_nothing),
        TEST(a_start_that_fails_loses_nothing),
    };
    adopt_orphans();
    return cmocka_run_group_tests_name("starts", tests, NULL, NULL);
}
