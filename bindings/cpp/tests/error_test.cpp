// Exceptions: their types and values, and that a failure leaves nothing behind.
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <typeindex>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::array;

/// The exception type of each status.
const std::map<std::string, std::type_index> &types() {
    static const std::map<std::string, std::type_index> rows{
        {"NOT_FOUND", typeid(shmarray::not_found)},
        {"EXISTS", typeid(shmarray::already_exists)},
        {"STALE_HANDLE", typeid(shmarray::stale_handle)},
        {"INVALID_HANDLE", typeid(shmarray::invalid_handle)},
        {"INVALID_SEGMENT", typeid(shmarray::error)},
        {"INVALID_ARGUMENT", typeid(shmarray::invalid_argument)},
        {"INVALID_DTYPE", typeid(shmarray::error)},
        {"DTYPE_MISMATCH", typeid(shmarray::dtype_mismatch)},
        {"OUT_OF_BOUNDS", typeid(shmarray::out_of_bounds)},
        {"READ_ONLY", typeid(shmarray::read_only)},
        {"NO_SPACE", typeid(shmarray::no_space)},
        {"NO_MEMORY", typeid(shmarray::no_memory)},
        {"PERMISSION_DENIED", typeid(shmarray::permission_denied)},
        {"UNSUPPORTED", typeid(shmarray::error)},
        {"OS", typeid(shmarray::error)},
        {"TEXT_TOO_SHORT", typeid(shmarray::error)},
        {"PANIC", typeid(shmarray::error)},
        {"INVALID_FILE", typeid(shmarray::invalid_file)},
    };
    return rows;
}

TEST("every_status_of_the_header_has_its_type") {
    std::ifstream header(SHMARRAY_HEADER);
    std::size_t walked = 0;
    for (std::string line; std::getline(header, line);) {
        if (line.rfind("#define SHMA_ERROR_", 0) != 0 || line.find(" (-") == std::string::npos)
            continue;
        const std::string name = line.substr(19, line.find(' ', 19) - 19);
        const auto status = static_cast<std::int32_t>(std::stol(line.substr(line.find(" (-") + 2)));
        INFO(name);
        REQUIRE(types().count(name) == 1);
        try {
            shmarray::failure(status, 7, "the facts").raise();
        } catch (const shmarray::error &thrown) {
            CHECK(std::type_index(typeid(thrown)) == types().at(name));
            CHECK(thrown.status() == status);
            CHECK(thrown.os_errno() == 7);
            CHECK(std::string(thrown.what()) == "the facts");
        }
        ++walked;
    }
    CHECK(walked == types().size());
}

template <class Error, class Action>
std::string message_of(Action action) {
    try {
        action();
    } catch (const Error &thrown) {
        return thrown.what();
    }
    return "nothing was thrown";
}

TEST("another_dtype_throws_and_names_both") {
    const auto a = array<std::int32_t>::create({2});
    const auto attach = [&] { array<float>::attach(a.handle()); };
    CHECK(message_of<shmarray::dtype_mismatch>(attach) == "the array's dtype is <i4, not float32");
    CHECK_THROWS_AS(array<std::uint32_t>::attach(a.handle()), shmarray::dtype_mismatch);
    CHECK_THROWS_AS(array<const std::int64_t>::attach(a.handle()), shmarray::dtype_mismatch);
    CHECK(a.size() == 2);
}

TEST("a_refused_conversion_takes_nothing_over") {
    auto untyped = shmarray::any_array::create("<i4", {2});
    CHECK_THROWS_AS(array<float>(std::move(untyped)), shmarray::dtype_mismatch);
    CHECK(untyped.size() == 2); // NOLINT: it was not moved from
    CHECK(array<std::int32_t>(std::move(untyped)).size() == 2);
}

TEST("errors_carry_status_field_and_number") {
    const auto broken = [] { array<int>::attach(R"({"shmarray":1,"segment":null})"); };
    CHECK(message_of<shmarray::invalid_handle>(broken).find("segment") != std::string::npos);
    const auto negative = [] { array<int>::create({2, -3}); };
    CHECK(message_of<shmarray::invalid_argument>(negative).find("invalid shape") == 0);
    CHECK_THROWS_AS(array<std::uint8_t>::create({std::int64_t{1} << 60}), shmarray::no_space);
    CHECK_THROWS_AS(array<int>::attach("nobody"), shmarray::not_found);
    const std::string directory = std::getenv("SHMARRAY_DIR");
    setenv("SHMARRAY_DIR", "/dev/shm/there is no such directory", 1);
    std::int32_t os_errno = 0;
    try {
        array<int>::create({1});
    } catch (const shmarray::error &thrown) {
        os_errno = thrown.os_errno();
    }
    setenv("SHMARRAY_DIR", directory.c_str(), 1);
    CHECK(os_errno == ENOENT);
}

TEST("a_handle_whose_array_is_gone_is_not_found") {
    const std::string handle = array<int>::create({1}).handle();
    CHECK_THROWS_AS(array<int>::attach(handle), shmarray::not_found);
}

TEST("an_exception_on_the_way_leaves_nothing_behind") {
    const auto half_done = [] {
        const auto first = array<double>::create({100}, {"half-done"});
        const auto view = first.slice(0, 10);
        array<double>::create({-1});
    };
    CHECK_THROWS_AS(half_done(), shmarray::invalid_argument);
    CHECK_THROWS_AS(array<double>::attach("half-done"), shmarray::not_found);
}

} // namespace
