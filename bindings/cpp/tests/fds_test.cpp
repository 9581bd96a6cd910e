// A program closes every fd behind the library's back: its arrays stay held and every call still
// works.
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::array;
using ints = array<std::int32_t>;
using strided_ints = shmarray::strided_array<std::int32_t>;

void close_from(int first) {
    for (int fd = first; fd < 4096; ++fd)
        close(fd);
}

/// One array, and three further objects that reach the same memory.
struct held {
    ints whole = ints::create({3, 4}, {"cpp-held"});
    strided_ints view = whole.slice(1, 0, shmarray::far_end, 2);
    array<const std::int32_t> reader = array<const std::int32_t>::attach("cpp-held");
    strided_ints turned = strided_ints::attach(whole.transpose().handle());
};

/// Writes by one object; returns whether all others, a handle and a name see the value.
bool all_see(held &mine, std::int32_t value) {
    mine.whole(1, 2) = value;
    return mine.view(1, 1) == value && mine.reader(1, 2) == value && mine.turned(2, 1) == value &&
           strided_ints::attach(mine.view.handle())(1, 1) == value &&
           ints::attach("cpp-held")(1, 2) == value;
}

/// Calls each kind of function that a program uses, and returns whether all is as expected.
bool does_everything(held &mine) {
    auto made = array<double>::create({1000}, {"cpp-made"});
    made(999) = 0.5;
    const auto again = array<const double>::attach(made.handle());
    shmarray::unlink("cpp-made");
    made = array<double>::create({7});
    shmarray::sweep();
    return again(999) == 0.5 && made(6) == 0 && all_see(mine, 70) && all_see(mine, 71);
}

int close_and_end(const std::function<void()> &end) {
    return run_forked([&end] {
        held mine;
        close_from(3);
        const bool good = does_everything(mine);
        close_from(0);
        if (!good || !does_everything(mine))
            return 1;
        end();
        return 0;
    });
}

TEST_CASE("a_process_without_fds_holds_makes_and_gives_back") {
    const LeavesNothing leaves_nothing;
    CHECK(close_and_end([] {}) == 0); // it ends by _exit, without destructors
    shmarray::sweep();
    CHECK(files_in_directory() == 0);
    const int status = close_and_end([] { std::raise(SIGKILL); });
    CHECK(WIFSIGNALED(status));
    shmarray::sweep();
}

/// Two pipes, which a child has at fds 0 and 1, so that they outlive the closing of the others.
struct talk {
    int asks[2], answers[2];
    talk() {
        REQUIRE(pipe(asks) == 0);
        REQUIRE(pipe(answers) == 0);
    }
    ~talk() {
        for (const int end : {asks[1], answers[0]})
            close(end);
    }
};

pid_t start_holder(const talk &pipes) {
    const pid_t child = fork();
    if (child != 0)
        return child;
    char byte = 0;
    held mine;
    dup2(pipes.asks[0], 0);
    dup2(pipes.answers[1], 1);
    close_from(3);
    all_see(mine, 5);
    const bool told = write(1, "h", 1) == 1 && read(0, &byte, 1) == 1;
    _exit(told && mine.reader(1, 2) == 6 && does_everything(mine) ? 0 : 1);
}

TEST_CASE("others_cannot_take_what_a_process_without_fds_holds") {
    const LeavesNothing leaves_nothing;
    const talk pipes;
    char byte = 0;
    int status = -1;
    const pid_t child = start_holder(pipes);
    REQUIRE(child > 0);
    close(pipes.asks[0]);
    close(pipes.answers[1]);
    REQUIRE(read(pipes.answers[0], &byte, 1) == 1);
    const auto before = names_in_directory();
    for (int turn = 0; turn < 3; ++turn) {
        CHECK(ints::attach("cpp-held")(1, 2) == 5); // the temporary attaches and closes
        CHECK(shmarray::sweep().segments == 0);
    }
    CHECK(names_in_directory() == before);
    ints::attach("cpp-held")(1, 2) = 6;
    REQUIRE(write(pipes.asks[1], "g", 1) == 1);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    shmarray::sweep();
}

TEST_CASE("a_forked_child_without_fds_holds_what_its_parent_drops") {
    const LeavesNothing leaves_nothing;
    const int status = run_forked([] {
        auto mine = std::make_unique<held>();
        close_from(3);
        const pid_t child = fork();
        if (child != 0) {
            mine.reset();
            shmarray::sweep();
            int of_child = -1;
            return waitpid(child, &of_child, 0) == child && of_child == 0 ? 0 : 1;
        }
        close_from(3);
        _exit(does_everything(*mine) ? 0 : 1);
    });
    CHECK(status == 0);
    shmarray::sweep();
}

} // namespace
