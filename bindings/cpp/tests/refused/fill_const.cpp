// An array of const T is not filled.
#include <shmarray.hpp>

#ifdef REFUSED
void fill(const shmarray::array<const float> &a) { a.fill(1); }
#else
void fill(const shmarray::array<float> &a) { a.fill(1); }
#endif
