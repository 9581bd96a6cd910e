// Containers of the standard library whose elements are born shared, and Eigen over them: the
// result of a program that knows nothing of shared memory is handed over by one line of text.
//
//     prints: the vector grew to 1000 elements
//     prints: another process sees row 2: 20 21 22 23
//     prints: Eigen doubled them in place: 40 42 44 46
//     prints: a polymorphic vector, too: 7
#include <cstdint>
#include <iostream>
#include <memory_resource>
#include <string>
#include <vector>

#include <Eigen/Core>
#include <shmarray.hpp>

template <class T>
using shared_vector = std::vector<T, shmarray::allocator<T>>;

static shared_vector<double> compute() {
    shared_vector<double> values;
    for (int i = 0; i < 1000; ++i)
        values.push_back(i / 4 * 10 + i % 4); // as rows of 4, element (i, j) is 10 i + j
    return values;
}

int main() {
    shared_vector<double> values = compute();
    std::cout << "the vector grew to " << values.size() << " elements\n";

    using rows_of_4 = shmarray::array<const double, 2>;
    const std::string text = rows_of_4::over_memory(values.data(), {250, 4}).handle();
    const auto other = rows_of_4::attach(text); // in any process, while somebody has the memory
    std::cout << "another process sees row 2:";
    for (int column = 0; column < 4; ++column)
        std::cout << " " << other(2, column);

    using matrix = Eigen::Matrix<double, Eigen::Dynamic, 4, Eigen::RowMajor>;
    Eigen::Map<matrix>(values.data(), 250, 4) *= 2;
    std::cout << "\nEigen doubled them in place:";
    for (int column = 0; column < 4; ++column)
        std::cout << " " << other(2, column);

    std::pmr::vector<std::uint16_t> more({5, 6, 7}, shmarray::shared_resource());
    const auto array = shmarray::array<std::uint16_t>::over_memory(more.data(), {3});
    std::cout << "\na polymorphic vector, too: " << array[2] << "\n";
}
