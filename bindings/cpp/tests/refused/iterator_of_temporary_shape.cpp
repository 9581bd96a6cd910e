// An iterator does not outlive the copy of a temporary array's shape.
#include <cstdint>

#include <shmarray.hpp>

std::int64_t rows(const shmarray::array<int> &a) {
#ifdef REFUSED
    return *a.transpose().shape().begin();
#else
    return a.transpose().shape()[0];
#endif
}
