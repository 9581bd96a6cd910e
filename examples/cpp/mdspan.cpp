// A heat equation on a std::mdspan over shared memory (C++23).
//
//     prints: the heat is still 1000: yes
//     prints: the reader sees it spread: yes
#include <cmath>
#include <iostream>
#include <mdspan>

#include <shmarray.hpp>

namespace {

template <class Grid>
double sum(const Grid &grid) {
    double total = 0;
    for (std::int64_t i = 0; i < grid.extent(0); ++i)
        for (std::int64_t j = 0; j < grid.extent(1); ++j)
            total += grid[i, j];
    return total;
}

// One explicit step on a torus: each cell gets a tenth of the differences to its neighbours.
template <class From, class To>
void step(const From &from, const To &to) {
    const auto rows = from.extent(0), columns = from.extent(1);
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
            to[i, j] = 0.6 * from[i, j] +
                       0.1 * (from[(i + 1) % rows, j] + from[(i + rows - 1) % rows, j] +
                              from[i, (j + 1) % columns] + from[i, (j + columns - 1) % columns]);
}

} // namespace

int main() {
    const auto now = shmarray::array<double, 2>::create({64, 48});
    const auto next = shmarray::array<double, 2>::create({64, 48});
    now(32, 24) = 1000;
    for (int round = 0; round < 50; ++round) {
        step(now.mdspan(), next.mdspan()); // std::layout_right
        step(next.mdspan(), now.mdspan());
    }
    std::cout << "the heat is still 1000: "
              << (std::abs(sum(now.mdspan()) - 1000) < 1e-9 ? "yes" : "no") << "\n";

    // Every second column of it, as another process would read them: std::layout_stride.
    const auto reader = shmarray::array<const double, 2>::attach(now.handle());
    const auto columns = reader.slice(1, 0, shmarray::far_end, 2);
    const double half = sum(columns.mdspan());
    std::cout << "the reader sees it spread: " << (half > 400 && half < 600 ? "yes" : "no") << "\n";
}
