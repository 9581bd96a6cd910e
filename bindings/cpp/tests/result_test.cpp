// The functions that return a result: each does what its throwing twin does.
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::any_array;
using shmarray::array;

TEST("a_result_has_a_value_or_a_failure") {
    auto made = array<float, 2>::try_create({2, 3});
    REQUIRE(made);
    CHECK(made->size() == 6);
    CHECK((*made)(1, 2) == 0);
    const array<float, 2> taken = std::move(made).value();
    CHECK(taken.size() == 6);
    auto missing = array<float>::try_attach("nobody");
    CHECK(status_of(missing) == SHMA_ERROR_NOT_FOUND);
    CHECK_THROWS_AS(missing.value(), shmarray::not_found);
    CHECK(std::move(missing).value_or(array<float>()).size() == 0);
}

TEST("a_value_of_a_temporary_result_lives_through_a_loop") {
    int seen = 0;
    for (int &value : array<int>::try_create({3}).value())
        seen += 1 + value++;
    for (int &value : *array<int>::try_create({3}))
        seen += 1 + value++;
    CHECK(seen == 6);
    static_assert(std::is_same_v<decltype(array<int>::try_create({3}).value()), array<int>>);
    static_assert(std::is_same_v<decltype(*array<int>::try_create({3})), array<int>>);
}

TEST("a_result_that_stays_has_another_value_too") {
    const shmarray::result<int> three = 3;
    shmarray::result<int> none = shmarray::failure();
    CHECK(three.value_or(4) == 3);
    CHECK(none.value_or(4) == 4);
    CHECK(three.has_value());
}

TEST("results_are_chained") {
    const auto second_row = [](array<int> &&a) { return a.try_select(0, 1); };
    CHECK(array<int>::try_create({2, 3}).and_then(second_row)->size() == 3);
    CHECK(status_of(array<int>::try_create({1, 3}).and_then(second_row)) ==
          SHMA_ERROR_OUT_OF_BOUNDS);
    CHECK(status_of(array<int>::try_attach("nobody").and_then(second_row)) == SHMA_ERROR_NOT_FOUND);
}

TEST("every_failure_of_an_array_is_a_result") {
    const auto a = array<int, 2>::create({2, 3});
    CHECK(status_of(array<int>::try_create({-1})) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(any_array::try_create("<x9", {1})) == SHMA_ERROR_INVALID_DTYPE);
    CHECK(status_of(any_array::try_attach("nobody")) == SHMA_ERROR_NOT_FOUND);
    CHECK(status_of(array<float>::try_attach(a.handle())) == SHMA_ERROR_DTYPE_MISMATCH);
    CHECK(status_of(shmarray::try_share<int>(nullptr, {2})) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(a.try_view({13})) == SHMA_ERROR_OUT_OF_BOUNDS);
    CHECK(status_of(a.try_view({2}, {4, 4})) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(a.try_reshape({4})) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(a.try_slice(2)) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(a.try_select(0, 2)) == SHMA_ERROR_OUT_OF_BOUNDS);
    CHECK(status_of(a.try_transpose({0})) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(a.try_as<float>()) == SHMA_ERROR_DTYPE_MISMATCH);
    CHECK(status_of(array<int>().try_handle()) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(array<int>().try_handle_to_send()) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(array<int>().try_dtype_text()) == SHMA_ERROR_INVALID_ARGUMENT);
    const any_array reader = array<const int>(a.reshape({6}));
    CHECK(status_of(reader.try_writable_data()) == SHMA_ERROR_READ_ONLY);
    CHECK(*any_array(a).try_writable_data() == a.data());
}

TEST("every_failure_of_a_message_and_a_segment_is_a_result") {
    auto ends = shmarray::pipe::try_pair();
    REQUIRE(ends);
    const auto &[here, there] = *ends;
    CHECK(*here.try_send("x") == shmarray::outcome::done);
    auto arrived = there.try_receive();
    REQUIRE(arrived);
    CHECK((**arrived).payload() == "x");
    CHECK(status_of((**arrived).try_array<int>(0)) == SHMA_ERROR_OUT_OF_BOUNDS);
    CHECK(status_of(here.try_send("", {array<int>()})) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(shmarray::pipe::try_from_fd(-1)) < 0);
    CHECK(status_of(shmarray::pipe().try_receive()) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(shmarray::try_unlink("nobody")) == SHMA_ERROR_NOT_FOUND);
    CHECK(status_of(shmarray::try_discard("a name")) == SHMA_ERROR_INVALID_HANDLE);
    CHECK(shmarray::try_sweep().has_value());
    CHECK(shmarray::try_segments()->size() == 0);
}

TEST("a_handle_of_any_length_is_written_whole") {
    const auto many = array<int>::create(std::vector<int>(64, 1));
    CHECK(many.handle().back() == '}');
    const std::string ticket = many.handle_to_send();
    CHECK(ticket.size() > many.handle().size());
    CHECK(array<int>::attach(ticket).ndim() == 64);
    const std::string field(1500, 'x');
    const std::string dtype = R"({"descr":[[")" + field + R"(","<f4"]],"itemsize":4})";
    const auto structured = any_array::create(dtype, {2});
    CHECK(structured.dtype_text() == dtype);
    CHECK(structured.handle().size() > 1500);
    CHECK(any_array::attach(structured.handle()).size() == 2);
    CHECK(any_array::attach(structured.handle_to_send()).size() == 2);
}

} // namespace
