// Uses the C++ header.
#include <cstdint>
#include <iostream>

#include <shmarray.hpp>

int main() {
    auto array = shmarray::array<std::int32_t>::create({2, 3});
    array(1, 2) = 7;
    const auto again = shmarray::array<const std::int32_t>::attach(array.handle());
    std::cout << again(1, 2) << "\n";
    return again(1, 2) == 7 ? 0 : 1;
}
