// The header without exceptions and without run-time type information.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#define DOCTEST_CONFIG_NO_EXCEPTIONS_BUT_WITH_ALL_ASSERTS
#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <shmarray.hpp>

#ifdef __cpp_exceptions
#error "this program is compiled with -fno-exceptions"
#endif
#ifdef __GXX_RTTI
#error "this program is compiled with -fno-rtti"
#endif

namespace {

using shmarray::array;

TEST_CASE("arrays_and_messages_work_by_results") {
    auto made = array<float, 2>::try_create({2, 3});
    REQUIRE(made.has_value());
    (*made)(1, 2) = 5;
    auto reader = array<const float>::try_attach(*made->try_handle());
    REQUIRE(reader);
    CHECK((*reader)(1, 2) == 5);
    auto ends = shmarray::pipe::try_pair();
    REQUIRE(ends);
    CHECK(*ends->first.try_send("frame", {*made}) == shmarray::outcome::done);
    auto arrived = ends->second.try_receive();
    REQUIRE(arrived);
    REQUIRE(*arrived);
    CHECK((**arrived).payload() == "frame");
    CHECK((**arrived).try_array<const float, 2>(0)->size() == 6);
    CHECK(made->try_reshape({6})->size() == 6);
    CHECK(shmarray::any_array(*made).try_visit([](const auto &a) { return a.size(); }).value() ==
          6);
}

TEST_CASE("a_failure_is_a_value") {
    auto missing = array<float>::try_attach("nobody");
    REQUIRE_FALSE(missing);
    CHECK(missing.error().status() == SHMA_ERROR_NOT_FOUND);
    CHECK(missing.error().message().find("nobody") != std::string::npos);
    const auto size = [](const auto &a) { return a.size(); };
    CHECK(shmarray::any_array().try_visit(size).error().status() == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(shmarray::try_unlink("nobody").error().status() == SHMA_ERROR_NOT_FOUND);
}

TEST_CASE("files_work_by_results") {
    const auto made = array<float>::try_create({2});
    REQUIRE(made);
    const std::string path = std::string(std::getenv("SHMARRAY_DIR")) + "/a.npz";
    CHECK(shmarray::try_save_npz(path, {{"a", *made}}));
    const auto opened = shmarray::npz::try_open(path);
    REQUIRE(opened);
    CHECK(opened->try_load<float, 1>("a")->size() == 2);
    CHECK(opened->try_load_all()->size() == 1);
    CHECK(opened->try_load<double>("a").error().status() == SHMA_ERROR_DTYPE_MISMATCH);
    CHECK(shmarray::try_load_npy(path).error().status() == SHMA_ERROR_INVALID_FILE);
    CHECK(std::remove(path.c_str()) == 0);
}

TEST_CASE("lists_work_by_results") {
    using shmarray::list;
    const std::vector<std::string> words = {"one", "three"};
    auto builder = shmarray::column_builder::try_of<std::string_view>(words);
    REQUIRE(builder);
    auto records = shmarray::column_builder::try_records({{"word", *builder}});
    REQUIRE(records);
    const auto made = list<shmarray::record>::try_create(*records);
    REQUIRE(made);
    const auto again = list<shmarray::record>::try_attach(*made->try_handle());
    REQUIRE(again);
    CHECK(*again->try_field<std::string_view>("word")->try_at(1) == "three");
    CHECK(again->try_at(2).error().status() == SHMA_ERROR_OUT_OF_BOUNDS);
    CHECK(again->try_field<double>("word").error().status() == SHMA_ERROR_DTYPE_MISMATCH);
}

TEST_CASE("dictionaries_work_by_results") {
    using words = shmarray::dict<std::string_view, double>;
    const std::vector<std::pair<std::string, double>> pairs = {{"one", 3}, {"fifteen", 7}};
    const auto made = words::try_create(pairs);
    REQUIRE(made);
    const auto again = words::try_attach(*made->try_handle());
    REQUIRE(again);
    CHECK(*again->try_at("fifteen") == 7);
    CHECK((*again->try_find("one"))->second == 3);
    CHECK_FALSE(*again->try_contains("two"));
    CHECK(again->try_at("two").error().status() == SHMA_ERROR_NOT_FOUND);
}

TEST_CASE("a_value_that_is_not_there_aborts_with_the_message") {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL); // the test program would report it
        dup2(ends[1], STDERR_FILENO);
        array<float>::attach("nobody");
        _exit(0);
    }
    close(ends[1]);
    char said[256] = {};
    CHECK(read(ends[0], said, sizeof said - 1) > 0);
    CHECK(std::string(said).find("shmarray: ") == 0);
    CHECK(std::string(said).find("nobody") != std::string::npos);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
    close(ends[0]);
}

} // namespace
