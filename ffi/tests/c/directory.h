// Reads SHMARRAY_DIR, so that tests can check that nothing is left behind, and replaces it with a
// small file system that can be filled.
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

// Returns the number of segments and names in SHMARRAY_DIR, or -1 if it cannot be read. The
// registry is not counted: it stays by design.
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

// Returns the number of fds that this process has open on files there and on the directory itself.
static inline int fds_in_directory(void) {
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

// The value of SHMARRAY_DIR before begin_small_directory.
static char large_directory[4096];

// Mounts a small file system ("size=1m,nr_inodes=20") and points SHMARRAY_DIR to it. Returns 0 or
// the error number. Each mount has a path of its own, because a process identifies its registry by
// path.
static inline int begin_small_directory(const char *options) {
    char path[sizeof large_directory + 16];
    snprintf(large_directory, sizeof large_directory, "%s", getenv("SHMARRAY_DIR"));
    snprintf(path, sizeof path, "%s/small-XXXXXX", large_directory);
    if (!mkdtemp(path))
        return errno;
    if (mount("tmpfs", path, "tmpfs", 0, options) != 0) {
        const int why = errno;
        rmdir(path);
        return why;
    }
    setenv("SHMARRAY_DIR", path, 1);
    return 0;
}

// Unmounts lazily, because this process keeps its registry mapped until it ends.
static inline void end_small_directory(void) {
    const char *path = getenv("SHMARRAY_DIR");
    if (!path || !strstr(path, "/small-"))
        return;
    umount2(path, MNT_DETACH);
    rmdir(path);
    setenv("SHMARRAY_DIR", large_directory, 1);
}

#endif
