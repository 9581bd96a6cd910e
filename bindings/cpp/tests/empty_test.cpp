// Objects that were moved from, closed or default-constructed are empty, whatever their type.
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::any_array;
using shmarray::array;
using shmarray::strided_array;

template <class Array>
void check_empty(const Array &a) {
    CHECK_FALSE(a);
    CHECK(a.data() == nullptr);
    CHECK(a.get() == nullptr);
    CHECK(a.size() == 0);
    CHECK(a.empty());
    CHECK(a.ndim() == a.shape().size());
    CHECK(a.ndim() == a.strides().size());
    CHECK(a.itemsize() == 0);
    CHECK_FALSE(a.is_readonly());
    CHECK(a.bytes().empty());
    CHECK_THROWS_AS(a.handle(), shmarray::invalid_argument);
    CHECK_THROWS_AS(a.handle_to_send(), shmarray::invalid_argument);
    CHECK_THROWS_AS(a.dtype_text(), shmarray::invalid_argument);
    CHECK_THROWS_AS(a.transpose(), shmarray::invalid_argument);
    CHECK_THROWS_AS(a.reshape({}), shmarray::invalid_argument);
}

template <class Array>
void leaves_empty(Array a) {
    const void *const memory = a.data();
    REQUIRE(a);
    Array b = std::move(a);
    check_empty(a); // NOLINT: the state after a move is documented
    CHECK(b.data() == memory);
    a = std::move(b);
    check_empty(b); // NOLINT
    CHECK(a.data() == memory);
    auto &same = a;
    a = std::move(same);
    CHECK(a.data() == memory);
    a.close();
    check_empty(a);
    a.close();
    check_empty(Array());
}

TEST("arrays_are_empty_after_a_move_and_a_close") {
    leaves_empty(array<int>::create({4}));
    leaves_empty(array<float, 2>::create({4, 2}));
    leaves_empty(array<int>::create({4, 2}).transpose());
    leaves_empty(strided_array<const int, 2>(array<int, 2>::create({4, 2})));
    leaves_empty(any_array::create("<i4", {2, 2}));
    const array<float, 2> none;
    CHECK(none.shape() == std::array<std::int64_t, 2>{0, 0});
    CHECK(none.ndim() == 2);
    CHECK(array<float>().ndim() == 0);
    CHECK(none.begin() == none.end());
    CHECK(strided_array<int>().begin() == strided_array<int>().end());
    CHECK_THROWS_AS(array<double>().at(), shmarray::out_of_bounds);
}

TEST("a_conversion_from_an_rvalue_leaves_it_empty") {
    auto a = array<int, 1>::create({4});
    array<int> of_any_rank = std::move(a);
    check_empty(a); // NOLINT: the state after a conversion is documented
    array<const int> reader = std::move(of_any_rank);
    check_empty(of_any_rank); // NOLINT
    any_array untyped = std::move(reader);
    check_empty(reader); // NOLINT
    const array<const int> again(std::move(untyped));
    check_empty(untyped); // NOLINT
    CHECK(again.size() == 4);
}

TEST("a_close_gives_the_memory_back_when_the_last_object_has_closed") {
    const int before = files_in_directory();
    auto a = array<int>::create({100000});
    array<const int> reader = a;
    a.close();
    CHECK(files_in_directory() == before + 1);
    CHECK(reader(99999) == 0);
    reader.close();
    CHECK(files_in_directory() == before);
}

TEST("pipes_and_messages_are_empty_after_a_move_and_a_close") {
    auto [here, there] = shmarray::pipe::pair();
    auto moved = std::move(here);
    CHECK_FALSE(here); // NOLINT: the state after a move is documented
    CHECK(here.fd() == -1);
    CHECK_THROWS_AS(here.send("x"), shmarray::invalid_argument);
    CHECK_THROWS_AS(here.receive(), shmarray::invalid_argument);
    REQUIRE(moved);
    moved.send("hello", {array<int>::create({2})});
    auto arrived = there.receive();
    auto kept = std::move(arrived);
    CHECK_FALSE(arrived); // NOLINT
    REQUIRE(kept);
    shmarray::message message = std::move(*kept);
    CHECK_FALSE(kept);
    CHECK(message.payload() == "hello");
    shmarray::message other = std::move(message);
    CHECK_FALSE(message); // NOLINT
    CHECK(message.payload().empty());
    CHECK(message.size() == 0);
    CHECK(message.get() == nullptr);
    CHECK_THROWS_AS(message.array<int>(0), shmarray::invalid_argument);
    other.close();
    CHECK_FALSE(other);
    there.close();
    CHECK_FALSE(there);
    CHECK(moved.send("x") == shmarray::outcome::closed);
}

TEST("a_result_that_was_moved_from_has_no_value") {
    auto made = array<int>::try_create({2});
    auto moved = std::move(made);
    CHECK_FALSE(made); // NOLINT: the state after a move is documented
    CHECK(made.error().message() == "moved from");
    REQUIRE(moved);
    made = std::move(moved);
    CHECK(made->size() == 2);
    CHECK_FALSE(moved); // NOLINT
}

} // namespace
