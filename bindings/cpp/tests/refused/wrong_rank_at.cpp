// An index that is checked at run time has as many numbers as the array has dimensions, too.
#include <shmarray.hpp>

float element(const shmarray::array<float, 2> &a) {
#ifdef REFUSED
    return a.at(1, 0, 2);
#else
    return a.at(1, 0);
#endif
}
