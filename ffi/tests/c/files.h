// Files of the tests: those that other programs wrote, and new ones beside the segments.
#ifndef SHMARRAY_TESTS_FILES_H
#define SHMARRAY_TESTS_FILES_H

#include "tests.h"

// Returns the path of a file of the corpus, which is valid until the next call but three.
static inline const char *in_corpus(const char *name) {
    static char paths[4][4096];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", SHMARRAY_CORPUS, name);
    return path;
}

// Returns a path in the directory of the segments, which is valid as that of in_corpus.
static inline const char *new_file(const char *name) {
    static char paths[4][4096];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", getenv("SHMARRAY_DIR"), name);
    return path;
}

// Returns the bytes of a file, which the caller frees.
static inline char *bytes_of(const char *path, size_t *bytes_out) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes_out = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*bytes_out + 1);
    assert_int_equal(fread(bytes, 1, *bytes_out, file), *bytes_out);
    fclose(file);
    return bytes;
}

static inline void expect_same_bytes(const char *path, const char *other) {
    size_t bytes = 0, other_bytes = 0;
    char *one = bytes_of(path, &bytes), *two = bytes_of(other, &other_bytes);
    assert_int_equal(bytes, other_bytes);
    assert_memory_equal(one, two, bytes);
    free(one);
    free(two);
}

#endif
