// A shape has as many numbers as the Rank says.
#include <shmarray.hpp>

shmarray::array<float, 2> make() {
#ifdef REFUSED
    return shmarray::array<float, 2>::create({2, 3, 4});
#else
    return shmarray::array<float, 2>::create({2, 3});
#endif
}
