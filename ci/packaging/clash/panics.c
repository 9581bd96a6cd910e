// A panic within the library becomes a status, also beside another Rust in the same program, whose
// panics it catches itself.
//
// The panic comes from a clock that fails: this program's clock_gettime stands before libc's, and
// Rust's standard library panics if it fails.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <shmarray.h>

static int has_no_clock;

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (has_no_clock) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_clock_gettime, clock, now);
}

#ifdef BESIDE_ANOTHER_RUST
uint32_t other_sum(uint32_t n);
#else
static uint32_t other_sum(uint32_t n) { return n == 3 ? 77 : 6; }
#endif

int main(void) {
    shma_error error = SHMA_ERROR_INIT;
    shma_pipe *one, *other;
    shma_message *message;
    if (shma_pipe_pair(&one, &other, &error) != SHMA_OK) {
        return 1;
    }
    if (shma_pipe_receive(one, 1, &message, &error) != SHMA_TIMED_OUT) {
        return 2;
    }
    has_no_clock = 1;
    const int32_t status = shma_pipe_receive(one, 1, &message, &error);
    has_no_clock = 0;
    if (status != SHMA_ERROR_PANIC || strlen(error.message) == 0) {
        fprintf(stderr, "status %d\n", (int)status);
        return 3;
    }
    shma_pipe_close(one);
    shma_pipe_close(other);
    return other_sum(4) == 6 && other_sum(3) == 77 ? 0 : 4;
}
