// An array is not copied by accident.
#include <shmarray.hpp>

shmarray::array<float> second(const shmarray::array<float> &a) {
#ifdef REFUSED
    return a;
#else
    return a.view();
#endif
}
