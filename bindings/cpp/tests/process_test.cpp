// Two processes with one array: this program, and a second run of it that gets a handle.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::array;
using shmarray::strided_array;

/// Checks what the parent wrote: element (i, j) is 10 i + j.
int read_tens(const std::string &handle) {
    const auto a = strided_array<const std::int32_t>::attach(handle);
    for (std::int64_t i = 0; i < a.shape()[0]; ++i)
        for (std::int64_t j = 0; j < a.shape()[1]; ++j)
            if (a(i, j) != 10 * i + j)
                return 1;
    return a.is_readonly() ? 0 : 2;
}

int double_all(const std::string &handle) {
    for (std::int32_t &value : strided_array<std::int32_t>::attach(handle))
        value *= 2;
    return 0;
}

int store_to_readonly(const std::string &handle) {
    std::signal(SIGSEGV, SIG_DFL); // a sanitizer would report it
    const auto a = array<const std::int32_t>::attach(handle);
    *const_cast<volatile std::int32_t *>(a.data()) = 1;
    return 0;
}

int leave_by_exception(const std::string &name) {
    try {
        const auto a = array<double>::create({1000}, {name});
        array<float>::attach(name);
    } catch (const shmarray::dtype_mismatch &) {
        return files_in_directory();
    }
    return -1;
}

int die_holding(const std::string &name) {
    const auto a = array<double>::create({1000}, {name});
    std::raise(SIGKILL);
    return 1;
}

int index_outside(const std::string &handle) {
    std::freopen("/dev/null", "w", stderr); // where assert writes
    return array<std::int32_t>::attach(handle)(3, 0);
}

TEST("a_second_process_reads_what_the_first_wrote") {
    const auto a = tens();
    CHECK(run_child("read_tens", a.handle()) == 0);
    const auto view = a.transpose().transpose().slice(1, 0, 3);
    CHECK(run_child("read_tens", view.handle()) == 0);
}

TEST("the_first_process_sees_what_the_second_wrote") {
    const auto a = tens();
    CHECK(run_child("double_all", a.slice(1, 0, shmarray::far_end, 2).handle()) == 0);
    CHECK(a(2, 2) == 44);
    CHECK(a(2, 3) == 23);
}

TEST("a_store_to_readonly_pages_is_a_fault") {
    const auto a = tens();
    const int status = run_child("store_to_readonly", a.handle());
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGSEGV);
    CHECK(a(0, 0) == 0);
}

TEST("a_process_that_threw_leaves_nothing") {
    CHECK(run_child("leave_by_exception", "cpp-exception") == 0);
}

TEST("a_killed_process_leaves_what_a_sweep_gives_back") {
    const int status = run_child("die_holding", "cpp-killed");
    CHECK(WIFSIGNALED(status));
    const auto swept = shmarray::sweep();
    CHECK(swept.segments == 1);
    CHECK(swept.bytes >= 8000);
}

TEST("segments_are_listed_with_their_holders") {
    shmarray::options chosen;
    chosen.name = "cpp-listed";
    const auto a = shmarray::array<float>::create({2, 3}, chosen);
    const auto all = shmarray::segments();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [](const auto &info) { return info.name == "cpp-listed"; });
    REQUIRE(found != all.end());
    CHECK(found->kind == shmarray::segment_kind::array);
    CHECK(found->dtype == "<f4");
    CHECK(found->shape == std::vector<std::int64_t>{2, 3});
    CHECK(found->holders == std::vector<std::uint32_t>{static_cast<std::uint32_t>(getpid())});
    CHECK(!found->persists);
}

#ifndef NDEBUG
TEST("an_index_outside_is_an_assertion_that_fails") {
    const auto a = tens();
    const int status = run_child("index_outside", a.handle());
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
}
#endif

} // namespace

int be_child(const std::string &role, const std::string &argument) {
    static const struct {
        const char *role;
        int (*act)(const std::string &);
    } acts[] = {
        {"read_tens", read_tens},
        {"double_all", double_all},
        {"store_to_readonly", store_to_readonly},
        {"leave_by_exception", leave_by_exception},
        {"die_holding", die_holding},
        {"index_outside", index_outside},
    };
    for (const auto &row : acts)
        if (role == row.role)
            return row.act(argument);
    return 126;
}
