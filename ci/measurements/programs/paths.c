/* Measures creating and attaching in C: prints the seconds of one call as a line of JSON.
 *
 *     paths create BYTES COUNT     paths attach COUNT < handles, one a line
 */
#define _GNU_SOURCE
#include <shmarray.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void must(int32_t status, const shma_error *error) {
    if (status != SHMA_OK) {
        fprintf(stderr, "%s\n", error->message);
        exit(1);
    }
}

/* Not cleared: clearing is a memset of the size. */
static void create(int64_t bytes, int count) {
    shma_error error = SHMA_ERROR_INIT;
    shma_options options = SHMA_OPTIONS_INIT;
    options.uninitialized = 1;
    for (int i = 0; i < count; i++) {
        shma_array *array;
        must(shma_array_create(SHMA_UINT8, 1, &bytes, &options, &array, &error), &error);
        shma_array_close(array);
    }
}

static shma_array *attach(const char *handle) {
    shma_error error = SHMA_ERROR_INIT;
    shma_array *array;
    must(shma_array_attach(handle, SHMA_READ_WRITE, &array, &error), &error);
    return array;
}

static double attach_all(char **handles, shma_array **arrays, size_t count) {
    double began = now();
    for (size_t i = 0; i < count; i++)
        arrays[i] = attach(handles[i]);
    return (now() - began) / (double)count;
}

static double attach_held(const char *handle, int count) {
    double began = now();
    for (int i = 0; i < count; i++)
        shma_array_close(attach(handle));
    return (now() - began) / count;
}

static size_t read_handles(char ***handles_out) {
    char **handles = NULL, *line = NULL;
    size_t count = 0, room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, stdin)) > 1) {
        line[length - 1] = 0;
        handles = realloc(handles, sizeof *handles * (count + 1));
        handles[count++] = strdup(line);
    }
    *handles_out = handles;
    return count;
}

/* The first handle is attached before the clock starts: it pays for what a process does once. */
static void attach_rows(int repeat) {
    char **handles;
    size_t count = read_handles(&handles);
    if (count < 2)
        exit(1);
    shma_array **arrays = calloc(count, sizeof *arrays);
    arrays[0] = attach(handles[0]);
    double cold = attach_all(handles + 1, arrays + 1, count - 1);
    double held = attach_held(handles[1], repeat);
    for (size_t i = 1; i < count; i++)
        shma_array_close(arrays[i]);
    double again = attach_all(handles + 1, arrays + 1, count - 1);
    for (size_t i = 0; i < count; i++)
        shma_array_close(arrays[i]);
    printf("{\"cold\": %.9f, \"held\": %.9f, \"again\": %.9f}\n", cold, held, again);
}

int main(int count, char **arguments) {
    if (count == 4 && strcmp(arguments[1], "create") == 0) {
        int64_t bytes = atoll(arguments[2]);
        int times = atoi(arguments[3]);
        create(bytes, times / 10 + 1);
        double began = now();
        create(bytes, times);
        printf("%.9f\n", (now() - began) / times);
    } else if (count == 3 && strcmp(arguments[1], "attach") == 0) {
        attach_rows(atoi(arguments[2]));
    } else {
        return 2;
    }
    return 0;
}
