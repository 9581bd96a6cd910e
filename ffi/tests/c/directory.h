// What lies in SHMARRAY_DIR: for tests that nothing is left behind.
#ifndef SHMARRAY_TESTS_DIRECTORY_H
#define SHMARRAY_TESTS_DIRECTORY_H

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

// Segments and names there, or -1 when it cannot be read. The registry of locks stays by design.
static inline int files_in_directory(void) {
    const char *path = getenv("SHMARRAY_DIR");
    DIR *directory = path ? opendir(path) : NULL;
    if (!directory)
        return -1;
    int count = 0;
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        const char *name = entry->d_name;
        count += strncmp(name, "shmarray-", 9) == 0 && strncmp(name, "shmarray-registry-", 18) != 0;
    }
    closedir(directory);
    return count;
}

#endif
