// Children of a test: each says what it sees on its descriptor 1, and waits at 0 until it may go
// on.
#ifndef SHMARRAY_TESTS_CHILDREN_H
#define SHMARRAY_TESTS_CHILDREN_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// Set in children: an assertion of cmocka's would go on there with the next test.
static int is_child;

// LeakSanitizer asks this. A child that forked and exits has frames and threads of its parent's no
// more.
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return is_child; }

// An assertion that holds in a child as well.
static inline void must(int holds) {
    if (!holds && is_child)
        _exit(93);
    assert_true(holds);
}

enum ending { BY_EXIT, BY__EXIT, BY_QUICK_EXIT, BY_KILL, BY_ABORT, ENDINGS };

// Room for a handle.
struct text {
    char bytes[2048];
};

struct child {
    pid_t pid;
    int ask;
    int hear;
};

// In a child: ends with a status, or by a signal.
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

// The wait status of who ended in that way with 0.
static inline int status_of(enum ending how) {
    return how == BY_KILL ? SIGKILL : how == BY_ABORT ? SIGABRT : 0;
}

static inline void say(int64_t number) {
    if (write(1, &number, sizeof number) != sizeof number)
        _exit(90);
}

static inline void say_text(const char *text) {
    struct text room = {""};
    snprintf(room.bytes, sizeof room.bytes, "%s", text);
    if (write(1, &room, sizeof room) != sizeof room)
        _exit(91);
}

// In a child: until it may go on. Who asks no more wants it to end.
static inline void wait_for_go(void) {
    char byte;
    if (read(0, &byte, 1) != 1)
        _exit(92);
}

// Starts a child that runs `body` and leaves by _exit with what that returns.
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

// What a child said; -1 when it ended without a word.
static inline int64_t hear(const struct child *child) {
    int64_t number = -1;
    return read(child->hear, &number, sizeof number) == sizeof number ? number : -1;
}

static inline struct text hear_text(const struct child *child) {
    struct text room = {""};
    for (size_t got = 0; got < sizeof room;) {
        const ssize_t more = read(child->hear, room.bytes + got, sizeof room - got);
        if (more <= 0)
            return (struct text){"nothing was said"};
        got += (size_t)more;
    }
    return room;
}

static inline void let_go(const struct child *child) {
    if (write(child->ask, ".", 1) != 1)
        abort();
}

// Its wait status, when the kernel has taken back what it had.
static inline int status_of_process(pid_t pid) {
    int status = -1;
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

static inline int ended(const struct child *child) {
    close(child->ask);
    close(child->hear);
    return status_of_process(child->pid);
}

// Orphans of this process's become its children, so that it can wait for them.
static inline void adopt_orphans(void) {
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        abort();
}

#endif
