// A text is no shape, although its characters are integers.
#include <shmarray.hpp>

shmarray::array<int> make() {
#ifdef REFUSED
    return shmarray::array<int>::create("frame");
#else
    return shmarray::array<int>::create({5}, {"frame"});
#endif
}
