// Conversions: to const, to a dynamic Rank, to strides, to any_array and back; all share one array.
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::any_array;
using shmarray::array;
using shmarray::strided_array;

template <class To, class From>
inline constexpr bool shares =
    std::is_convertible_v<const From &, To> && std::is_convertible_v<From, To>;

static_assert(shares<array<const int>, array<int>>);
static_assert(shares<array<const int>, array<int, 3>>);
static_assert(shares<strided_array<const int>, array<int, 3>>);
static_assert(shares<any_array, array<const int, 2>>);
static_assert(!std::is_constructible_v<array<int>, array<const int>>);
static_assert(!std::is_constructible_v<array<int, 2>, array<int>>);
static_assert(!std::is_constructible_v<array<int, 2>, array<int, 3>>);
static_assert(!std::is_constructible_v<array<int>, strided_array<int>>);
static_assert(!std::is_constructible_v<array<float>, array<int>>);
static_assert(!std::is_copy_constructible_v<array<int>> &&
              !std::is_copy_constructible_v<any_array>);
static_assert(!std::is_copy_assignable_v<any_array>);
static_assert(std::is_nothrow_move_constructible_v<any_array> &&
              std::is_nothrow_move_assignable_v<array<int, 2>>);

std::int64_t sum(const strided_array<const int> &values) {
    std::int64_t total = 0;
    for (const int value : values)
        total += value;
    return total;
}

TEST("an_array_to_write_becomes_one_to_read_without_a_further_view") {
    auto a = array<int, 2>::create({2, 2});
    a(1, 1) = 5;
    array<const int, 2> reader = a;
    CHECK(reader.get() == a.get()); // the same object of the C ABI
    CHECK(reader.data() == a.data());
    CHECK(reader(1, 1) == 5);
    CHECK(reader.is_readonly());
    CHECK_FALSE(a.is_readonly());
    CHECK(a.view().get() == a.get());
    CHECK(sum(a) == 5);
    reader = std::move(a);
    CHECK(reader(1, 1) == 5);
}

TEST("const_is_kept_through_any_array") {
    const auto a = array<int>::create({3});
    const array<const int> reader = a;
    const any_array untyped = reader;
    CHECK(untyped.is_readonly());
    CHECK_THROWS_AS(untyped.as<int>(), shmarray::read_only);
    CHECK_THROWS_AS(untyped.writable_data(), shmarray::read_only);
    CHECK_THROWS_AS(untyped.slice(0, 1).as<int>(), shmarray::read_only);
    CHECK_THROWS_AS(untyped.view({1}).view().reshape({1, 1}).as<int>(), shmarray::read_only);
    CHECK(untyped.as<const int>().data() == a.data());
    CHECK(any_array(a).as<int>().data() == a.data());
    const any_array pages = any_array::attach(a.handle(), shmarray::access::read_only);
    CHECK_THROWS_AS(pages.as<int>(), shmarray::read_only);
    static_assert(std::is_same_v<decltype(untyped.data()), const void *>);
}

/// Checks that no way back to elements that are not const succeeds.
template <class Array>
void stays_const(const Array &reader) {
    CHECK(reader.is_readonly());
    CHECK_THROWS_AS(reader.template as<strided_array<int>>(), shmarray::read_only);
    CHECK_THROWS_AS(reader.slice(0).template as<strided_array<int>>(), shmarray::read_only);
    CHECK_THROWS_AS(reader.view().template as<strided_array<int>>(), shmarray::read_only);
    CHECK_THROWS_AS(any_array(reader).as<strided_array<int>>(), shmarray::read_only);
    CHECK(reader.template as<strided_array<const int>>().is_readonly());
}

TEST("const_is_kept_by_every_way_to_an_array_of_const") {
    const auto a = array<int, 1>::create({3});
    stays_const(array<const int>(a));
    stays_const(array<const int>(a.view()));
    stays_const(strided_array<const int>(array<const int, 1>(a)));
    stays_const(a.as<const int>());
    stays_const(any_array(a).as<const int>());
    stays_const(array<const int>(any_array(a)));
    stays_const(a.slice(0).as<const int>());
    stays_const(array<const int>::create({3}));
    stays_const(array<const int>::share(a.data(), {3}));
    CHECK_FALSE(a.is_readonly());
    CHECK_FALSE(array<const int>().view().is_readonly());
    CHECK_FALSE(any_array(array<const int>()).is_readonly());
}

template <class T>
std::string described(const strided_array<T> &) {
    return (std::is_const_v<T> ? "const " : "") + std::to_string(sizeof(T)) +
           (std::is_floating_point_v<T> ? " float" : "");
}

TEST("a_visit_has_the_element_type_and_its_const") {
    const auto name = [](const auto &typed) { return described(typed); };
    const auto a = array<float>::create({3});
    CHECK(any_array(a).visit(name) == "4 float");
    CHECK(any_array(array<const float>(a)).visit(name) == "const 4 float");
    const auto read_only = any_array::attach(a.handle(), shmarray::access::read_only);
    CHECK(read_only.visit(name) == "const 4 float");
    any_array(a).visit([](const auto &typed) {
        if constexpr (!std::is_const_v<typename std::decay_t<decltype(typed)>::element_type>)
            typed.fill(typename std::decay_t<decltype(typed)>::value_type(1));
    });
    CHECK(a(2) == 1);
    const auto opaque = any_array::create("|V3", {2});
    CHECK_THROWS_AS(opaque.visit(name), shmarray::dtype_mismatch);
    CHECK(opaque.try_visit(name).error().message() == "C++ has no elements of dtype |V3");
}

TEST("a_visit_of_no_array_is_a_failure") {
    const auto size = [](const auto &typed) { return typed.size(); };
    any_array closed = array<int>::create({2});
    closed.close();
    CHECK(closed.try_visit(size).error().status() == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(any_array().try_visit(size).error().status() == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK_THROWS_AS(any_array().visit(size), shmarray::invalid_argument);
}

TEST("a_visiting_function_takes_its_array_in_any_way") {
    const any_array a = array<float>::create({3});
    CHECK(a.visit([](auto typed) { return typed.size(); }) == 3);
    CHECK(a.visit([](auto &typed) { return typed.size(); }) == 3);
    CHECK(a.visit([](auto &&typed) { return typed.size(); }) == 3);
    const auto first = [](const auto &typed) {
        if constexpr (std::is_arithmetic_v<typename std::decay_t<decltype(typed)>::value_type>)
            return static_cast<double>(typed[0]);
        else
            return 0.0;
    };
    a.as<float>()(0) = 3.75F;
    CHECK(a.visit(first) == 3.75);
}

TEST("a_rank_is_checked_when_it_is_known") {
    const auto a = array<float, 2>::create({2, 3});
    const auto [rows, columns] = a.shape();
    CHECK(rows == 2);
    CHECK(columns == 3);
    CHECK(a.strides()[0] == 12);
    CHECK(array<float, 2>::attach(a.handle())(1, 2) == 0);
    CHECK_THROWS_AS((array<float, 3>::attach(a.handle())), shmarray::invalid_argument);
    CHECK((array<float, 1>::try_attach(a.handle()).error().message()) ==
          "invalid shape: the array has 2 dimensions, not 1");
    CHECK_THROWS_AS((array<float, 2>::create(std::vector<int>{2, 3, 4})),
                    shmarray::invalid_argument);
    static_assert(decltype(a.select(0, 1))::rank == 1);
    static_assert(decltype(a.transpose())::rank == 2);
    static_assert(decltype(a.reshape<3>({1, 2, 3}))::rank == 3);
    static_assert(decltype(a.view({6}))::rank == shmarray::dynamic_rank);
    CHECK((array<float>(a).as<float, 2>().shape()[1] == 3));
    CHECK_THROWS_AS((array<float>(a).as<float, 1>()), shmarray::invalid_argument);
    CHECK(array<float, 0>::create({})() == 0);
    CHECK(a.transpose().as<strided_array<const float, 2>>().shape()[0] == 3);
}

TEST("reshape_keeps_order_and_refuses_a_copy") {
    const auto a = array<int>::create({2, 6});
    a(1, 1) = 7;
    CHECK(a.reshape({3, 4})(1, 3) == 7);
    CHECK(a.reshape<3>({3, 2, 2})(1, 1, 1) == 7);
    CHECK(a.reshape(std::vector<std::size_t>{12})[7] == 7);
    CHECK(a.slice(1, 0, shmarray::far_end, 2).reshape({6}).strides()[0] == 8);
    CHECK_THROWS_AS(a.reshape({5}), shmarray::invalid_argument);
    CHECK_THROWS_AS(a.transpose().reshape({12}), shmarray::invalid_argument);
    CHECK(any_array(a).reshape({12}).shape()[0] == 12);
    CHECK(array<const int>(a).reshape({12})[7] == 7);
}

TEST("handles_and_names_are_string_views") {
    const std::string_view longer = "cpp-viewed and more", name = longer.substr(0, 10);
    shmarray::options chosen;
    chosen.name = name;
    const auto a = array<int>::create({2}, chosen);
    CHECK(array<int>::attach(name).size() == 2);
    CHECK(any_array::attach(name).size() == 2);
    CHECK(array<int>::attach(std::string(name)).size() == 2);
    shmarray::unlink(name);
    CHECK_THROWS_AS(array<int>::attach(name), shmarray::not_found);
    CHECK(array<int>::create({1}, {name}).size() == 1);
    const std::string ticket = a.handle_to_send();
    shmarray::discard(std::string_view(ticket));
}

TEST("a_null_pointer_is_no_name") {
    const char *const none = nullptr;
    shmarray::options chosen;
    chosen.name = none;
    CHECK(chosen.name.empty());
    CHECK(array<int>::create({2}, chosen).size() == 2);
    CHECK(array<int>::create({2}, {none}).size() == 2);
    chosen.name = "some";
    CHECK(chosen.name == "some");
}

TEST("a_text_is_not_cut_off_at_a_zero_byte") {
    using namespace std::string_view_literals;
    constexpr auto cut = "cpp-cut\0off"sv;
    const auto a = array<int>::create({1}, {"cpp-cut"});
    CHECK_THROWS_AS(array<int>::attach(cut), shmarray::invalid_argument);
    CHECK_THROWS_AS(any_array::attach(cut), shmarray::invalid_argument);
    CHECK_THROWS_AS(shmarray::unlink(cut), shmarray::invalid_argument);
    CHECK(array<int>::attach("cpp-cut").data() != nullptr);
    CHECK_THROWS_AS(array<int>::create({1}, {"cpp-new\0er"sv}), shmarray::invalid_argument);
    CHECK_THROWS_AS(any_array::create("<i4", {1}, {"cpp-new\0er"sv}), shmarray::invalid_argument);
    CHECK_THROWS_AS(shmarray::share(a.data(), {1}, {}, {"cpp-new\0er"sv}),
                    shmarray::invalid_argument);
    CHECK_FALSE(array<int>::try_attach("cpp-new").has_value());
    CHECK_THROWS_AS(any_array::create("<i4\0<f8"sv, {1}), shmarray::invalid_argument);
    const std::string ticket = a.handle_to_send();
    CHECK_THROWS_AS(shmarray::discard(ticket + '\0'), shmarray::invalid_argument);
    shmarray::discard(ticket);
}

TEST("shapes_are_of_any_integers") {
    const std::size_t rows = 2;
    const int columns = 3;
    CHECK(array<int>::create({rows, columns}).size() == 6);
    CHECK((array<int, 2>::create({rows, columns}).size()) == 6);
    CHECK(array<int>::create(std::vector<std::uint8_t>{2, 2}).size() == 4);
    const auto a = array<int>::create({rows, columns});
    CHECK(array<float>::create(a.shape()).size() == 6);
    CHECK(any_array::create("<f4", a.shape()).size() == 6);
    CHECK_THROWS_AS(array<int>::create(std::vector<int>(65, 1)), shmarray::invalid_argument);
    CHECK(array<int>::create(std::vector<int>(64, 1)).ndim() == 64);
}

TEST("a_number_list_is_a_shape") {
    const shmarray::number_list shape{2, 3}, too_long = std::vector<int>(65, 1);
    const auto a = array<int, 2>::create(shape);
    CHECK(a.size() == 6);
    CHECK(array<int>::create(shape).ndim() == 2);
    CHECK(a.reshape({6}).reshape(shape).ndim() == 2);
    CHECK(a.reshape({6}).reshape<2>(shape).shape()[1] == 3);
    CHECK(a.view(shape)(1, 2) == 0);
    CHECK(any_array::create("<i4", shape).ndim() == 2);
    CHECK(std::vector<std::int64_t>(shape) == std::vector<std::int64_t>{2, 3});
    CHECK_THROWS_AS((array<int, 1>::create(shape)), shmarray::invalid_argument);
    CHECK_THROWS_AS(array<int>::create(too_long), shmarray::invalid_argument);
    CHECK_THROWS_AS((array<int, 64>::create(too_long)), shmarray::invalid_argument);
    const shmarray::shape_of<shmarray::dynamic_rank> same = too_long;
    CHECK_THROWS_AS((array<int, 64>::create(same)), shmarray::invalid_argument);
    static_assert(!std::is_convertible_v<std::string, shmarray::number_list>);
    static_assert(!std::is_convertible_v<std::vector<bool>, shmarray::number_list>);
    static_assert(!std::is_constructible_v<shmarray::number_list, int, char>);
    static_assert(!std::is_constructible_v<shmarray::shape_of<2>, int, char>);
    static_assert(std::is_constructible_v<shmarray::number_list, short, signed char>);
}

} // namespace
