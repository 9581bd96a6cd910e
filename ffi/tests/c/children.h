// Child processes of a test. Each writes what it observes to fd 1, and waits at fd 0 for permission
// to continue.
#ifndef SHMARRAY_TESTS_CHILDREN_H
#define SHMARRAY_TESTS_CHILDREN_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests.h"

// Set in children, where a failed assertion of cmocka would continue with the next test.
static int is_child;

// Called by LeakSanitizer. It is off in a forked child, which no longer has the stacks and threads
// of its parent.
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return is_child; }

// An assertion that can be used in a child as well.
static inline void must(int holds) {
    if (!holds && is_child)
        _exit(93);
    assert_true(holds);
}

enum ending { BY_EXIT, BY__EXIT, BY_QUICK_EXIT, BY_KILL, BY_ABORT, ENDINGS };

// A buffer for a handle.
struct text {
    char bytes[2048];
};

struct child {
    pid_t pid;
    int ask;
    int hear;
};

// In a child: ends the process with a status or by a signal.
static inline void end_by(enum ending how, int status) {
    if (how == BY_EXIT)
        exit(status);
    if (how == BY_QUICK_EXIT)
        quick_exit(status);
    if (how == BY_KILL)
        raise(SIGKILL);
    if (how == BY_ABORT)
        abort();
    _exit(status);
}

// Returns the wait status of a process that ended in that way with status 0.
static inline int status_of(enum ending how) {
    return how == BY_KILL ? SIGKILL : how == BY_ABORT ? SIGABRT : 0;
}

static inline void say(int64_t number) {
    if (write(1, &number, sizeof number) != sizeof number)
        _exit(90);
}

static inline void say_text(const char *text) {
    struct text buffer = {""};
    snprintf(buffer.bytes, sizeof buffer.bytes, "%s", text);
    if (write(1, &buffer, sizeof buffer) != sizeof buffer)
        _exit(91);
}

// In a child: waits for permission to continue. It ends if the parent has closed the pipe.
static inline void wait_for_go(void) {
    char byte;
    if (read(0, &byte, 1) != 1)
        _exit(92);
}

// Starts a child that calls `body` and passes its result to _exit.
static inline struct child start_child(int (*body)(void *), void *argument) {
    int asks[2], answers[2];
    if (pipe(asks) != 0 || pipe(answers) != 0)
        abort();
    fflush(NULL);
    const struct child child = {fork(), asks[1], answers[0]};
    if (child.pid == 0) {
        is_child = 1;
        dup2(asks[0], 0);
        dup2(answers[1], 1);
        for (int end = 0; end < 2; end++) {
            close(asks[end]);
            close(answers[end]);
        }
        _exit(body(argument));
    }
    close(asks[0]);
    close(answers[1]);
    return child;
}

// Returns the number that a child wrote; -1 if it ended without writing one.
static inline int64_t hear(const struct child *child) {
    int64_t number = -1;
    return read(child->hear, &number, sizeof number) == sizeof number ? number : -1;
}

static inline struct text hear_text(const struct child *child) {
    struct text buffer = {""};
    for (size_t got = 0; got < sizeof buffer;) {
        const ssize_t more = read(child->hear, buffer.bytes + got, sizeof buffer - got);
        if (more <= 0)
            return (struct text){"nothing was said"};
        got += (size_t)more;
    }
    return buffer;
}

static inline void let_go(const struct child *child) {
    if (write(child->ask, ".", 1) != 1)
        abort();
}

// Waits for a process and returns its wait status. The kernel has released its locks by then.
static inline int status_of_process(pid_t pid) {
    int status = -1;
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

static inline int ended(const struct child *child) {
    close(child->ask);
    close(child->hear);
    return status_of_process(child->pid);
}

// Makes orphaned descendants children of this process, so that it can wait for them.
static inline void adopt_orphans(void) {
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        abort();
}

#endif
