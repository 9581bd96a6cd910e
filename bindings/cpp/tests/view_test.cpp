// Views: the same memory with another shape, and iteration over its elements.
#include <algorithm>
#include <numeric>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::array;
using shmarray::far_end;
using shmarray::strided_array;

template <class Array>
std::vector<int> in_order(const Array &a) {
    return {a.begin(), a.end()};
}

TEST("slices_step_reverse_and_count_from_the_end") {
    const auto a = tens();
    const auto odd = a.slice(1, 1, far_end, 2);
    CHECK(numbers(odd.shape()) == numbers{3, 2});
    CHECK(numbers(odd.strides()) == numbers{16, 8});
    CHECK(odd(2, 1) == 23);
    CHECK(a.slice(0, far_end, far_end, -1)(0, 3) == 23);
    CHECK(a.slice(1, -1)(1, 0) == 13);
    CHECK(a.slice(1, far_end, -1)(1, 2) == 12);
    CHECK(a.slice(0).size() == 12);
    CHECK_THROWS_AS(a.slice(2), shmarray::invalid_argument);
}

TEST("select_and_transpose") {
    const auto a = tens();
    CHECK(in_order(a.select(0, 1)) == std::vector<int>{10, 11, 12, 13});
    CHECK(in_order(a.select(1, -1)) == std::vector<int>{3, 13, 23});
    CHECK(a.transpose()(3, 2) == 23);
    CHECK(numbers(a.transpose({0, 1}).strides()) == numbers(a.strides()));
    CHECK_THROWS_AS(a.transpose({0}), shmarray::invalid_argument);
    CHECK_THROWS_AS(a.transpose({0, 0}), shmarray::invalid_argument);
    CHECK_THROWS_AS(a.select(0, 3), shmarray::error);
}

TEST("a_view_is_the_same_memory_and_stays_inside") {
    auto a = tens();
    const auto flat = a.view({12});
    CHECK(flat(11) == 23);
    const auto corner = a.view({2, 2}, {16, 4}, 24);
    CHECK(corner(1, 1) == 23);
    corner(0, 0) = -1;
    CHECK(a(1, 2) == -1);
    CHECK(a.view({5}, {0}, 4)(4) == 1);
    CHECK_THROWS_AS(a.view({13}), shmarray::out_of_bounds);
    CHECK_THROWS_AS(a.view({2}, {4}, -4), shmarray::out_of_bounds);
    CHECK_THROWS_AS(a.view({2}, {4, 4}), shmarray::invalid_argument);
    CHECK_THROWS_AS(a.view({2}, {4}, 1), shmarray::invalid_argument); // not aligned
    a = {};
    CHECK(corner(1, 1) == 23); // the view holds the memory
}

TEST("the_numbers_of_a_temporary_array_are_a_copy") {
    const auto a = tens();
    const auto shape = a.transpose().shape();
    const auto strides = a.transpose().strides();
    const auto untyped = shmarray::any_array(a).transpose().shape();
    static_assert(!std::is_same_v<decltype(shape), const shmarray::dimensions>);
    const auto other = a.view({1, 12}).reshape({2, 6}); // in the place of the views that are gone
    CHECK(numbers(shape) == numbers{4, 3});
    CHECK(numbers(strides) == numbers{4, 16});
    CHECK(numbers(untyped) == numbers{4, 3});
    CHECK(array<int>::create(shape).shape()[0] == 4);
    std::int64_t product = 1;
    for (const std::int64_t count : a.transpose().shape())
        product *= count;
    CHECK(product == 12);
    static_assert(std::is_same_v<decltype(a.shape()), shmarray::dimensions>); // no copy
}

TEST("views_of_views_travel_by_handle") {
    const auto a = tens();
    const auto view = a.slice(0, far_end, far_end, -2).transpose().slice(0, 1, 3);
    const auto attached = strided_array<const int>::attach(view.handle());
    CHECK(in_order(attached) == std::vector<int>{21, 1, 22, 2});
    CHECK(in_order(attached) == in_order(view));
}

TEST("iteration_is_in_c_order_whatever_the_strides") {
    const auto a = tens();
    CHECK(in_order(a) == std::vector<int>{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23});
    CHECK(in_order(a.transpose()) == std::vector<int>{0, 10, 20, 1, 11, 21, 2, 12, 22, 3, 13, 23});
    CHECK(in_order(a.slice(0, far_end, far_end, -2)) ==
          std::vector<int>{20, 21, 22, 23, 0, 1, 2, 3});
    CHECK(in_order(a.view({2, 1, 2}, {0, 0, 4})) == std::vector<int>{0, 1, 0, 1});
    CHECK(in_order(array<int>::create({3, 0, 2})).empty());
    CHECK(in_order(array<int>::create({})) == std::vector<int>{0});
    CHECK(in_order(array<int>()).empty());
}

#if __cplusplus >= 202002L
TEST("a_span_is_all_of_a_contiguous_array") {
    const auto a = tens();
    const std::span<int> all = a.span();
    CHECK(all.size() == 12);
    all[11] = 5;
    CHECK(a(2, 3) == 5);
    const std::span<const int> read = array<const int>::attach(a.handle()).span();
    CHECK(read.size() == 12);
    CHECK_THROWS_AS(a.transpose().as<int>(), shmarray::invalid_argument);
    CHECK_THROWS_AS(a.slice(1, 0, 2).as<int>(), shmarray::invalid_argument);
    CHECK(a.slice(0, 1, 2).as<int>().span()[3] == 13);
    const std::span<int> implicitly = a;
    CHECK(implicitly.data() == all.data());
}
#endif

#if defined(NEEDS_MDSPAN) && !defined(__cpp_lib_mdspan)
#error "this compiler was chosen because its library has std::mdspan"
#endif

#ifdef __cpp_lib_mdspan
TEST("an_mdspan_has_the_shape_and_strides") {
    const auto a = tens();
    const auto columns = a.slice(1, 1, far_end, 2).transpose().mdspan<2>();
    CHECK(columns.extent(0) == 2);
    CHECK(columns.stride(0) == 2);
    CHECK(&columns[1, 2] == &a(2, 3));
    const auto rows = a.as<const int, 2>().mdspan();
    static_assert(std::is_same_v<decltype(rows)::layout_type, std::layout_right>);
    static_assert(std::is_same_v<decltype(rows)::element_type, const int>);
    CHECK(&rows[2, 3] == &a(2, 3));
    CHECK_THROWS_AS(a.mdspan<1>(), shmarray::invalid_argument);
    CHECK_FALSE(a.try_mdspan<3>().has_value());
    CHECK_THROWS_AS(a.slice(0, far_end, far_end, -1).mdspan<2>(), shmarray::invalid_argument);
}

TEST("an_mdspan_is_refused_if_its_layout_has_no_such_strides") {
    const auto a = array<int>::create({6});
    CHECK_FALSE(a.view({4, 3}, {4, 4}).try_mdspan<2>().has_value()); // overlapping windows
    CHECK_FALSE(a.view({2, 3}, {8, 4}).try_mdspan<2>().has_value());
    CHECK_FALSE(a.view({4, 6}, {0, 4}).try_mdspan<2>().has_value());
    CHECK(a.view({2, 3}, {12, 4}).mdspan<2>().stride(0) == 3);
    CHECK(a.view({3, 2}, {4, 12}).mdspan<2>().stride(1) == 3);
    CHECK(a.view({2, 1, 3}, {12, 0, 4}).mdspan<3>().size() == 6);
    CHECK(a.view({1, 3}, {-4, 8}).mdspan<2>().stride(1) == 2);
    CHECK(array<int>::create({0, 3}).transpose().mdspan<2>().size() == 0);
    CHECK(array<int>::create({3, 0, 2}).slice(0, far_end, far_end, -1).mdspan<3>().empty());
    CHECK(array<int>::create({}).transpose().mdspan<0>().size() == 1);
}

TEST("an_object_without_an_array_has_no_mdspan") {
    CHECK_FALSE(array<int, 0>().try_mdspan().has_value());
    CHECK_FALSE(array<int, 2>().try_mdspan().has_value());
    CHECK_FALSE(strided_array<int>().try_mdspan<0>().has_value());
    auto moved = array<int, 0>::create({});
    const auto kept = std::move(moved);
    CHECK_FALSE(moved.try_mdspan().has_value()); // NOLINT: the state after a move is documented
    CHECK(kept.mdspan().size() == 1);
}
#endif

} // namespace
