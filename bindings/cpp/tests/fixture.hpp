// Helpers of the tests: the directory of segments, and this program as a second process.
#ifndef SHMARRAY_TESTS_FIXTURE_HPP
#define SHMARRAY_TESTS_FIXTURE_HPP

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// An exception within an assertion ends its test, which then has failed. Compiling takes a fifth
// less.
#define DOCTEST_CONFIG_NO_TRY_CATCH_IN_ASSERTS
#include <doctest/doctest.h>
#include <shmarray.hpp>

using numbers = std::vector<std::int64_t>;

/// Returns the number of segments and names in SHMARRAY_DIR, without the registry, which stays.
int files_in_directory();

/// Checks that a test leaves as many files as it found, as each `TEST` does.
class LeavesNothing {
  public:
    LeavesNothing() : before_(files_in_directory()) {}
    LeavesNothing(const LeavesNothing &) = delete;
    LeavesNothing &operator=(const LeavesNothing &) = delete;
    ~LeavesNothing() { CHECK(files_in_directory() == before_); }

  private:
    int before_;
};

#define TEST(name) TEST_CASE_FIXTURE(LeavesNothing, name)

/// Returns an array of 3 × 4 whose element (i, j) is 10 i + j.
inline shmarray::array<int> tens() {
    auto a = shmarray::array<int>::create({3, 4});
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 4; ++j)
            a(i, j) = 10 * i + j;
    return a;
}

/// Checks that a result is a failure, and returns its status.
template <class Result>
std::int32_t status_of(const Result &failed) {
    CHECK_FALSE(failed.has_value());
    CHECK_FALSE(failed);
    CHECK_FALSE(failed.error().message().empty());
    return failed.error().status();
}

/// Returns the sorted names in SHMARRAY_DIR. If they are equal, nothing was added or removed.
std::vector<std::string> names_in_directory();

/// Runs `body` in a forked child, which exits with its result. Returns the wait status.
int run_forked(const std::function<int()> &body);

/// Runs this program again with `child ROLE ARGUMENT`. Returns its wait status.
int run_child(const std::string &role, const std::string &argument);

/// Runs the task of a child's role and returns the exit code. Defined in process_test.cpp.
int be_child(const std::string &role, const std::string &argument);

#endif
