// An array loses no const.
#include <shmarray.hpp>

#ifdef REFUSED
shmarray::array<float> convert(shmarray::array<const float> a) { return a; }
#else
shmarray::array<const float> convert(shmarray::array<float> a) { return a; }
#endif
