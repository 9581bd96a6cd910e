// What the tests stand on: the directory of segments, and this program as a second process.
#ifndef SHMARRAY_TESTS_FIXTURE_HPP
#define SHMARRAY_TESTS_FIXTURE_HPP

#include <string>
#include <vector>

#include <doctest/doctest.h>

/// Segments and names in SHMARRAY_DIR. The registry of locks stays by design.
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

/// Starts this program anew with `child ROLE ARGUMENT`, and gives its wait status.
int run_child(const std::string &role, const std::string &argument);

/// What a child does, by its role; the exit code. In process_test.cpp.
int be_child(const std::string &role, const std::string &argument);

#endif
