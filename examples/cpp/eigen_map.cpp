// Linear algebra in shared memory: Eigen reads and writes an array's elements in place.
//
//     prints: the residual is below 1e-12: yes
//     prints: the reader's sum of x is 2: yes
#include <Eigen/Dense>

#include <cmath>
#include <iostream>

#include <shmarray.hpp>

namespace {

// In C order, which is not Eigen's own; an array's rows lie one after the other.
using row_major = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<row_major> map(const shmarray::array<double, 2> &a) {
    const auto [rows, columns] = a.shape();
    return {a.data(), rows, columns};
}

// Any strides: Eigen counts them in elements.
using strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;

Eigen::Map<const row_major, 0, strides> map(const shmarray::strided_array<const double, 2> &a) {
    const auto [rows, columns] = a.shape();
    const auto bytes = static_cast<std::int64_t>(sizeof(double));
    return {a.data(), rows, columns, strides(a.strides()[0] / bytes, a.strides()[1] / bytes)};
}

const char *yes_or_no(bool is_so) { return is_so ? "yes" : "no"; }

} // namespace

int main() {
    const auto a = shmarray::array<double, 2>::create({2, 2});
    const auto b = shmarray::array<double, 2>::create({2, 1});
    const auto x = shmarray::array<double, 2>::create({2, 1});
    map(a) << 3, 1, 1, 2;
    map(b) << 5, 2.5;
    map(x) = map(a).partialPivLu().solve(map(b)); // written to shared memory
    std::cout << "the residual is below 1e-12: "
              << yes_or_no((map(a) * map(x) - map(b)).norm() < 1e-12) << "\n";

    // As another process would: attached by its handle, read-only, and transposed.
    const auto reader = shmarray::array<const double, 2>::attach(x.handle());
    const double sum = map(reader.transpose()).sum();
    std::cout << "the reader's sum of x is 2: " << yes_or_no(std::abs(sum - 2) < 1e-12) << "\n";
}
