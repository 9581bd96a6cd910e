// Iterators, pointers for contiguous arrays and random access for strided ones, in algorithms.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <type_traits>
#include <vector>
#if __cplusplus >= 202002L
#include <ranges>
#endif

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::array;
using shmarray::far_end;
using shmarray::strided_array;

// A range-for over a contiguous array is a loop by pointer, and takes no longer.
static_assert(std::is_same_v<decltype(std::declval<array<int>>().begin()), int *>);
static_assert(std::is_same_v<decltype(std::declval<array<const int, 2>>().end()), const int *>);
static_assert(std::is_same_v<std::iterator_traits<strided_array<int>::iterator>::iterator_category,
                             std::random_access_iterator_tag>);
static_assert(std::is_same_v<std::iterator_traits<strided_array<const int>::iterator>::reference,
                             const int &>);
#if __cplusplus >= 202002L
static_assert(std::ranges::contiguous_range<array<int>> && std::ranges::sized_range<array<int>>);
static_assert(std::ranges::contiguous_range<const array<const float, 2>>);
static_assert(std::contiguous_iterator<array<int>::iterator>);
static_assert(std::ranges::random_access_range<strided_array<int>>);
static_assert(std::random_access_iterator<strided_array<const int>::iterator>);
static_assert(std::sortable<strided_array<int>::iterator>);
static_assert(std::sized_sentinel_for<strided_array<int>::iterator, strided_array<int>::iterator>);
#endif

array<int> counted(std::int64_t rows, std::int64_t columns) {
    auto a = array<int>::create({rows, columns});
    std::iota(a.begin(), a.end(), 0);
    return a;
}

TEST("iterators_write_and_serve_algorithms") {
    const auto a = array<int>::create({4, 4});
    const auto columns = a.slice(1, 0, far_end, 2);
    std::iota(columns.begin(), columns.end(), 1);
    CHECK(a(3, 2) == 8);
    CHECK(a(3, 1) == 0);
    CHECK(std::accumulate(a.begin(), a.end(), 0) == 36);
    for (int &value : a.select(0, 3))
        value = -1;
    CHECK(std::count(a.begin(), a.end(), -1) == 4);
    auto at = columns.begin();
    CHECK(*at++ == 1);
    CHECK(*at == 2);
    CHECK(at != columns.begin());
    CHECK(at.operator->() == &a(0, 2));
}

/// All views of 2 × 3 × 4 elements that slices and transposes make of it.
std::vector<strided_array<int>> views() {
    auto a = array<int>::create({2, 3, 4});
    std::iota(a.begin(), a.end(), 0);
    std::vector<strided_array<int>> all;
    all.push_back(a);
    all.push_back(a.transpose());
    all.push_back(a.slice(2, far_end, far_end, -1));
    all.push_back(a.slice(1, 0, far_end, 2).transpose({2, 0, 1}));
    all.push_back(a.select(1, 1));
    all.push_back(a.select(0, 1).select(0, 2).slice(0, 0, far_end, 3));
    all.push_back(a.select(0, 0).select(0, 0).select(0, 0));
    all.push_back(a.view({3, 2}, {0, 4}));
    all.push_back(a.slice(1, 3));
    return all;
}

TEST("random_access_reaches_the_same_elements_from_everywhere") {
    for (const auto &view : views()) {
        std::vector<int *> in_order;
        for (int &element : view)
            in_order.push_back(&element);
        REQUIRE(in_order.size() == view.size());
        const auto count = static_cast<std::ptrdiff_t>(view.size());
        CHECK(view.end() - view.begin() == count);
        for (std::ptrdiff_t from = 0; from <= count; ++from)
            for (std::ptrdiff_t to = 0; to < count; ++to) {
                const auto start = view.begin() + from;
                const bool agree = &start[to - from] == in_order[static_cast<std::size_t>(to)] &&
                                   &*(start + (to - from)) == &start[to - from] &&
                                   (start < view.begin() + to) == (from < to);
                CHECK(agree);
            }
        for (auto back = view.end(); back != view.begin();) {
            --back;
            CHECK(&*back == in_order[static_cast<std::size_t>(back - view.begin())]);
        }
    }
}

TEST("an_iterator_to_write_is_one_to_read") {
    const auto odd = array<int>::create({3, 4}).slice(1, 1, far_end, 2);
    using writes = decltype(odd)::iterator;
    using reads = shmarray::strided_iterator<const int>;
    static_assert(std::is_convertible_v<writes, reads> && !std::is_constructible_v<writes, reads>);
    reads at = odd.begin();
    CHECK(at == odd.begin());
    CHECK(odd.begin() == at);
    at += 2;
    CHECK(at != odd.begin());
    CHECK(at > odd.begin());
    CHECK(odd.begin() < at);
    CHECK(at - odd.begin() == 2);
    CHECK(odd.end() - at == 4);
    CHECK(&*at == &odd(1, 0));
    at = odd.end();
    CHECK(at == odd.end());
}

TEST("algorithms_sort_any_array") {
    const auto a = counted(7, 10);
    std::reverse(a.begin(), a.end());
    std::sort(a.begin(), a.end());
    CHECK(a(6, 9) == 69);
    const auto odd_columns = a.slice(1, 1, far_end, 2);
    std::sort(odd_columns.begin(), odd_columns.end(), std::greater<>());
    CHECK(odd_columns(0, 0) == 69);
    CHECK(odd_columns(6, 4) == 1);
    CHECK(a(0, 0) == 0); // the even columns stay
    CHECK(a(6, 8) == 68);
    const auto turned = a.transpose();
    std::stable_sort(turned.begin(), turned.end());
    CHECK(a(1, 0) == 1);
    CHECK(std::binary_search(turned.begin(), turned.end(), 42));
    std::nth_element(turned.begin(), turned.begin() + 3, turned.end(), std::greater<>());
    CHECK(turned.begin()[3] == 66);
}

#if __cplusplus >= 202002L
TEST("std_ranges_take_any_array") {
    const auto a = counted(5, 6);
    std::ranges::sort(a, std::ranges::greater());
    CHECK(a(0, 0) == 29);
    std::ranges::sort(a.transpose());
    CHECK(a(1, 0) == 1);
    CHECK(a(0, 1) == 5);
    CHECK(std::ranges::max(a.slice(0, far_end, far_end, -2)) == 29);
    CHECK(std::ranges::equal(a, a.reshape({30})));
    CHECK(std::ranges::count(a.transpose(), 5) == 1);
}
#endif

TEST("fill_sets_each_element_and_no_other") {
    const auto a = array<int, 2>::create({3, 4});
    a.fill(7);
    CHECK(std::count(a.begin(), a.end(), 7) == 12);
    a.slice(1, 0, far_end, 3).fill(-1);
    CHECK(std::accumulate(a.begin(), a.end(), 0) == 6 * 7 - 6);
    CHECK(a(2, 1) == 7);
    array<int>().fill(3);
}

} // namespace
