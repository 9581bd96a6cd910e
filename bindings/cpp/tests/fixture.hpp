// Helpers of the tests: the directory of segments, and this program as a second process.
#ifndef SHMARRAY_TESTS_FIXTURE_HPP
#define SHMARRAY_TESTS_FIXTURE_HPP

#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

/// Returns the number of segments and names in SHMARRAY_DIR, without the registry, which stays.
int files_in_directory();

/// Checks that a test leaves as many files as it found.
class LeavesNothing {
  public:
    LeavesNothing() : before_(files_in_directory()) {}
    LeavesNothing(const LeavesNothing &) = delete;
    LeavesNothing &operator=(const LeavesNothing &) = delete;
    ~LeavesNothing() { CHECK(files_in_directory() == before_); }

  private:
    int before_;
};

/// Returns the sorted names in SHMARRAY_DIR. If they are equal, nothing was added or removed.
std::vector<std::string> names_in_directory();

/// Runs `body` in a forked child, which exits with its result. Returns the wait status.
int run_forked(const std::function<int()> &body);

/// Runs this program again with `child ROLE ARGUMENT`. Returns its wait status.
int run_child(const std::string &role, const std::string &argument);

/// Runs the task of a child's role and returns the exit code. Defined in process_test.cpp.
int be_child(const std::string &role, const std::string &argument);

#endif
