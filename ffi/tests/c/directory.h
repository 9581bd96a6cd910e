// What lies in SHMARRAY_DIR: for tests that nothing is left behind. And a small one that can be full.
#ifndef SHMARRAY_TESTS_DIRECTORY_H
#define SHMARRAY_TESTS_DIRECTORY_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

// Segments and names there, or -1 when it cannot be read. The registry stays by design.
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

// How many descriptors this process has of files there, and of the directory itself.
static inline int descriptors_in_directory(void) {
    const char *path = getenv("SHMARRAY_DIR");
    DIR *directory = path ? opendir("/proc/self/fd") : NULL;
    if (!directory)
        return -1;
    int count = 0;
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        char target[4096] = "";
        readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
        count += strncmp(target, path, strlen(path)) == 0;
    }
    closedir(directory);
    return count;
}

static inline int is_no_registry(const struct dirent *entry) {
    return strncmp(entry->d_name, "shmarray-", 9) == 0 && strncmp(entry->d_name, "shmarray-registry-", 18) != 0;
}

// Their names in order, a line each: the same text means that nothing came and nothing went. Yours to free.
static inline char *names_in_directory(void) {
    char *names = NULL;
    size_t bytes = 0;
    FILE *text = open_memstream(&names, &bytes);
    struct dirent **entries = NULL;
    const int count = scandir(getenv("SHMARRAY_DIR"), &entries, is_no_registry, alphasort);
    for (int i = 0; i < count; i++) {
        fprintf(text, "%s\n", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    fclose(text);
    return names;
}

// Of whoever had one there.
static inline void remove_registries(const char *path) {
    DIR *directory = opendir(path);
    for (struct dirent *entry = directory ? readdir(directory) : NULL; entry; entry = readdir(directory))
        if (strncmp(entry->d_name, "shmarray-registry-", 18) == 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        closedir(directory);
}

// Where SHMARRAY_DIR was before it became small.
static char large_directory[4096];

// Makes SHMARRAY_DIR a small file system ("size=1m,nr_inodes=20"). 0, or the error number. Each is
// mounted at a place of its own, for a process knows its registry by the place.
static inline int begin_small_directory(const char *options) {
    char place[sizeof large_directory + 16];
    snprintf(large_directory, sizeof large_directory, "%s", getenv("SHMARRAY_DIR"));
    snprintf(place, sizeof place, "%s/small-XXXXXX", large_directory);
    if (!mkdtemp(place))
        return errno;
    if (mount("tmpfs", place, "tmpfs", 0, options) != 0) {
        const int why = errno;
        rmdir(place);
        return why;
    }
    setenv("SHMARRAY_DIR", place, 1);
    return 0;
}

// Lazily, for this process has its registry mapped for good.
static inline void end_small_directory(void) {
    const char *place = getenv("SHMARRAY_DIR");
    if (!place || !strstr(place, "/small-"))
        return;
    umount2(place, MNT_DETACH);
    rmdir(place);
    setenv("SHMARRAY_DIR", large_directory, 1);
}

#endif
