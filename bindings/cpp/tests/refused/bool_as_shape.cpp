// A bool is no number of elements.
#include <shmarray.hpp>

shmarray::array<int> make(bool is_wide) {
#ifdef REFUSED
    return shmarray::array<int>::create({2, is_wide});
#else
    return shmarray::array<int>::create({2, is_wide ? 1 : 0});
#endif
}
