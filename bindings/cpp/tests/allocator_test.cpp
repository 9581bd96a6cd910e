// Containers whose elements are in shared memory.
#include <cstdint>
#include <list>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::array;
template <class T>
using vector = std::vector<T, shmarray::allocator<T>>;

TEST("the_elements_of_a_container_are_an_array_that_can_be_sent") {
    vector<double> v(1000);
    std::iota(v.begin(), v.end(), 0.0);
    const double *const data = v.data();
    auto a = array<double, 2>::over_memory(v.data(), {10, 100});
    CHECK(a.data() == data);
    auto other = array<const double, 2>::attach(a.handle());
    CHECK(other(3, 4) == 304);
    v[304] = 7;
    CHECK(other(3, 4) == 7);
    v = vector<double>();
    CHECK(a(9, 99) == 999); // it keeps the memory
    auto part = shmarray::strided_array<double, 1>::over_memory(data + 1, {3}, {16});
    CHECK(part[2] == 5);
}

TEST("memory_that_is_in_no_array_is_refused") {
    double own[3] = {};
    vector<double> v(10);
    CHECK_THROWS_AS((array<double>::over_memory(own, {3})), shmarray::invalid_argument);
    CHECK_THROWS_AS((array<double>::over_memory(v.data(), {100000})), shmarray::invalid_argument);
    CHECK_THROWS_AS((array<double>::over_memory(nullptr, {1})), shmarray::invalid_argument);
    CHECK_FALSE(array<double>::try_over_memory(own, {3}));
}

TEST("containers_grow,_move_and_swap_as_with_any_allocator") {
    vector<std::int32_t> v;
    for (std::int32_t i = 0; i < 10000; ++i)
        v.push_back(i);
    vector<std::int32_t> copy = v, moved = std::move(v);
    moved[5] = -1;
    CHECK(copy[5] == 5);
    std::swap(copy, moved);
    CHECK(copy[5] == -1);
    std::list<std::string, shmarray::allocator<std::string>> texts{"a", "b"};
    texts.push_front("c");
    std::map<int, int, std::less<int>, shmarray::allocator<std::pair<const int, int>>> numbers;
    numbers[3] = 4;
    CHECK(texts.front() + std::to_string(numbers[3]) == "c4");
    struct alignas(64) aligned {
        float values[16];
    };
    vector<aligned> all(3);
    CHECK(reinterpret_cast<std::uintptr_t>(all.data()) % 64 == 0);
    CHECK_THROWS_AS(vector<std::int32_t>(std::size_t{1} << 60), std::exception);
}

#ifdef __cpp_lib_memory_resource
TEST("a_polymorphic_container_does_the_same") {
    std::pmr::vector<std::uint16_t> v({1, 2, 3}, shmarray::shared_resource());
    auto a = array<std::uint16_t>::over_memory(v.data(), {3});
    v[1] = 7;
    CHECK(array<const std::uint16_t>::attach(a.handle())[1] == 7);
    CHECK(*shmarray::shared_resource() == *shmarray::shared_resource());
    CHECK(*shmarray::shared_resource() != *std::pmr::new_delete_resource());
    std::pmr::string text(100, 'x', shmarray::shared_resource());
    CHECK(text.size() == 100);
}
#endif

} // namespace
