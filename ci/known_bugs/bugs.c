// Known bugs, one for each word, which prove that a sanitizer or valgrind is on. It is built as a
// program, or as a library whose function `bug` is called.
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<shmarray.h>)
#include <shmarray.h>
#define HAS_SHMARRAY 1
#endif
#endif

static volatile int number = 16;

int bug(const char *word);

static void store(volatile char *at) { *at = 1; }

// Unknown to the compiler: since gcc 14 UBSan is the first to see a store whose object it knows.
static void (*volatile store_at)(volatile char *) = store;

static int overflow(void) {
    volatile char *bytes = malloc((size_t)number);
    store_at(bytes + number);
    free((void *)bytes);
    return 0;
}

static int leak(void) {
    char *volatile bytes = malloc((size_t)number);
    bytes[0] = 1;
    bytes = NULL;
    return 0;
}

static int undefined(void) {
    volatile int most = INT_MAX;
    return (most + number) & 1;
}

static int in_child(const char *word) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        exit(bug(word));
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

// An array that is never closed: memory of the library that nobody can reach any more.
static int unclosed(void) {
#ifdef HAS_SHMARRAY
    shma_array *array = NULL;
    if (shma_array_create(SHMA_INT32, 1, (int64_t[]){4}, NULL, &array, NULL) != SHMA_OK)
        return 0;
    array = NULL;
#endif
    return 0;
}

int bug(const char *word) {
    if (strncmp(word, "child-", 6) == 0)
        return in_child(word + 6);
    if (strcmp(word, "overflow") == 0)
        return overflow();
    if (strcmp(word, "leak") == 0)
        return leak();
    if (strcmp(word, "undefined") == 0)
        return undefined();
    return strcmp(word, "unclosed") == 0 ? unclosed() : 0;
}

int main(int count, char **arguments) { return count == 2 ? bug(arguments[1]) : 2; }
