// An index has as many numbers as the array has dimensions.
#include <shmarray.hpp>

float element(const shmarray::array<float, 2> &a) {
#ifdef REFUSED
    return a(1);
#else
    return a(1, 0);
#endif
}
