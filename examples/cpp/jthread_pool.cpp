// A pool of std::jthreads that squares the rows of one array in place (C++20). A second process
// would do the same with the array's handle.
//
//     prints: rows done by 4 threads: 1000
//     prints: the sum of all squares is right: yes
#include <atomic>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <ranges>
#include <thread>
#include <vector>

#include <shmarray.hpp>

int main() {
    constexpr std::int64_t rows = 1000, columns = 256;
    const auto values = shmarray::array<std::uint64_t, 2>::create({rows, columns});
    std::iota(values.begin(), values.end(), std::uint64_t{0});

    std::atomic<std::int64_t> next = 0, done = 0;
    {
        std::vector<std::jthread> pool;
        for (int thread = 0; thread < 4; ++thread)
            pool.emplace_back([&values, &next, &done] {
                for (std::int64_t row; (row = next++) < rows; ++done)
                    for (std::uint64_t &value : values.select(0, row).as<std::uint64_t>())
                        value *= value;
            });
    } // joins

    const std::uint64_t n = values.size();
    const std::uint64_t expected = (n - 1) * n * (2 * n - 1) / 6;
    const std::uint64_t sum = std::accumulate(values.begin(), values.end(), std::uint64_t{0});
    std::cout << "rows done by 4 threads: " << done << "\n"
              << "the sum of all squares is right: " << (sum == expected ? "yes" : "no") << "\n";
}
