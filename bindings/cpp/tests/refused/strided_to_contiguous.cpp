// Strides are not lost without a check.
#include <shmarray.hpp>

shmarray::array<float> rows(const shmarray::array<float> &a) {
#ifdef REFUSED
    return a.slice(0, 1);
#else
    return a.slice(0, 1).as<float>();
#endif
}
