/* Measures the machine's limits: copies, system calls and wake-ups, as lines of JSON.
 *
 *     limits copy BYTES THREADS | open COUNT | pipe COUNT | socketpair COUNT | futex COUNT | spin
 * COUNT
 *
 * Each prints the seconds of each repetition, or of one of COUNT. The asking process has the first
 * core, the answering one the last.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 200, COPIES = 5, WARM_UP = 100, THREADS_MOST = 256, PAGE = 4096 };

static void must(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* The n-th core that this process may use, counted from the end if negative. */
static int core(int n) {
    cpu_set_t mine;
    must(sched_getaffinity(0, sizeof mine, &mine) == 0, "sched_getaffinity");
    int wanted = n < 0 ? CPU_COUNT(&mine) + n : n % CPU_COUNT(&mine);
    for (int number = 0; number < CPU_SETSIZE; number++)
        if (CPU_ISSET(number, &mine) && wanted-- == 0)
            return number;
    return 0;
}

static void pin(int number) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(number, &one);
    must(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

static void *memory(size_t bytes) {
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(start != MAP_FAILED, "mmap");
    return start;
}

struct part {
    char *to;
    const char *from;
    size_t bytes;
    int core;
};

static void *copy_part(void *argument) {
    struct part *part = argument;
    pin(part->core);
    memcpy(part->to, part->from, part->bytes);
    return NULL;
}

static double copy_once(char *to, const char *from, size_t bytes, int threads) {
    struct part parts[THREADS_MOST];
    pthread_t running[THREADS_MOST];
    size_t each = bytes / (size_t)threads;
    double began = now();
    for (int i = 0; i < threads; i++) {
        size_t start = each * (size_t)i;
        parts[i] = (struct part){to + start, from + start, i == threads - 1 ? bytes - start : each,
                                 core(i)};
        must(pthread_create(&running[i], NULL, copy_part, &parts[i]) == 0, "pthread_create");
    }
    for (int i = 0; i < threads; i++)
        pthread_join(running[i], NULL);
    return now() - began;
}

static void copy(size_t bytes, int threads) {
    char *to = memory(bytes), *from = memory(bytes);
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    for (int i = 0; i < COPIES; i++) {
        from[i] ^= 1;
        double seconds = copy_once(to, from, bytes, threads);
        must(memcmp(to, from, PAGE) == 0, "memcmp");
        printf("%s%.9f", i ? ", " : "[", seconds);
    }
    puts("]");
}

/* Each has a file of its own, so that none is open or mapped already. It is closed at once, since a
 * mapping needs no fd. */
static void open_and_map(int count) {
    char path[64];
    char **starts = malloc(sizeof *starts * (size_t)count);
    int process = getpid();
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/dev/shm/bench-%d-%d", process, i);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
        must(fd >= 0 && posix_fallocate(fd, 0, 65536) == 0 && close(fd) == 0, "a file in /dev/shm");
    }
    double began = now();
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/dev/shm/bench-%d-%d", process, i);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        starts[i] = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        must(starts[i] != MAP_FAILED && close(fd) == 0, "mmap");
    }
    printf("[%.9f]\n", (now() - began) / count);
    for (int i = 0; i < count; i++) {
        munmap(starts[i], 65536);
        snprintf(path, sizeof path, "/dev/shm/bench-%d-%d", process, i);
        unlink(path);
    }
}

static void ask(int fd_out, int fd_in, int count) {
    char data[MESSAGE_BYTES] = {0};
    for (int i = 0; i < count; i++) {
        data[0] = (char)i;
        must(write(fd_out, data, sizeof data) == sizeof data, "write");
        must(read(fd_in, data, sizeof data) == sizeof data && data[0] == (char)i, "read");
    }
}

static void answer(int fd_in, int fd_out, int count) {
    char data[MESSAGE_BYTES];
    for (int i = 0; i < count; i++) {
        must(read(fd_in, data, sizeof data) == sizeof data, "read");
        must(write(fd_out, data, sizeof data) == sizeof data, "write");
    }
}

static void say(double began, int count) {
    printf("[%.9f]\n", (now() - began) / count);
    wait(NULL);
}

static void through(int out, int their_in, int their_out, int in, int count) {
    int mine = core(0), theirs = core(-1);
    if (fork() == 0) {
        pin(theirs);
        answer(their_in, their_out, count + WARM_UP);
        _exit(0);
    }
    pin(mine);
    ask(out, in, WARM_UP);
    double began = now();
    ask(out, in, count);
    say(began, count);
}

static void through_pipe(int count) {
    int there[2], back[2];
    must(pipe(there) == 0 && pipe(back) == 0, "pipe");
    through(there[1], there[0], back[1], back[0], count);
}

static void through_socketpair(int count) {
    int ends[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    through(ends[0], ends[1], ends[1], ends[0], count);
}

/* Waits until the word is `value`; with `sleep` it waits in the kernel. */
static void await(atomic_int *word, int value, int sleep) {
    int seen;
    while ((seen = atomic_load(word)) != value)
        if (sleep)
            syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void tell(atomic_int *word, int value, int sleep) {
    atomic_store(word, value);
    if (sleep)
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void ping_pong(int count, int sleep) {
    atomic_int *words = memory(PAGE), *back = words + 512;
    int mine = core(0), theirs = core(-1);
    if (fork() == 0) {
        pin(theirs);
        for (int i = 1; i <= count + WARM_UP; i++) {
            await(words, i, sleep);
            tell(back, i, sleep);
        }
        _exit(0);
    }
    pin(mine);
    double began = 0;
    for (int i = 1; i <= count + WARM_UP; i++) {
        if (i == WARM_UP + 1)
            began = now();
        tell(words, i, sleep);
        await(back, i, sleep);
    }
    say(began, count);
}

int main(int count, char **arguments) {
    const char *what = count > 2 ? arguments[1] : "";
    long number = count > 2 ? atol(arguments[2]) : 0;
    int threads = count > 3 ? atoi(arguments[3]) : 1;
    must(number > 0 && threads > 0 && threads <= THREADS_MOST,
         "usage: limits WHAT NUMBER [THREADS]");
    if (strcmp(what, "copy") == 0)
        copy((size_t)number, threads);
    else if (strcmp(what, "open") == 0)
        open_and_map((int)number);
    else if (strcmp(what, "pipe") == 0)
        through_pipe((int)number);
    else if (strcmp(what, "socketpair") == 0)
        through_socketpair((int)number);
    else if (strcmp(what, "futex") == 0 || strcmp(what, "spin") == 0)
        ping_pong((int)number, what[0] == 'f');
    else
        must(0, what);
    return 0;
}
