// What the tests stand on: the directory of segments, and this program as a second process.
#ifndef SHMARRAY_TESTS_FIXTURE_HPP
#define SHMARRAY_TESTS_FIXTURE_HPP

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

/// Segments and names in SHMARRAY_DIR. The registry stays by design.
int files_in_directory();

/// Checks that a test leaves as much as it found.
class LeavesNothing {
  public:
    LeavesNothing() : before_(files_in_directory()) {}
    LeavesNothing(const LeavesNothing &) = delete;
    LeavesNothing &operator=(const LeavesNothing &) = delete;
    ~LeavesNothing() { CHECK(files_in_directory() == before_); }

  private:
    int before_;
};

/// Names in SHMARRAY_DIR, in order: the same ones mean that nothing came and nothing went.
std::vector<std::string> names_in_directory();

/// Makes SHMARRAY_DIR a small file system ("size=1m,nr_inodes=20") while it lives.
class SmallDirectory {
  public:
    explicit SmallDirectory(const std::string &options);
    SmallDirectory(const SmallDirectory &) = delete;
    SmallDirectory &operator=(const SmallDirectory &) = delete;
    ~SmallDirectory();

    /// Returns its path; empty if this process may not mount a file system.
    const std::string &path() const { return path_; }
    std::uint64_t free_bytes() const;

  private:
    std::string before_, path_;
};

/// Runs `body` in a forked child, which leaves with what it returns, and gives the wait status.
int run_forked(const std::function<int()> &body);

/// Starts this program anew with `child ROLE ARGUMENT`, and gives its wait status.
int run_child(const std::string &role, const std::string &argument);

/// What a child does, by its role; the exit code. In process_test.cpp.
int be_child(const std::string &role, const std::string &argument);

#endif
