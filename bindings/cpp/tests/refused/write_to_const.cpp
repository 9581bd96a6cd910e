// An element of const T is not written.
#include <shmarray.hpp>

#ifdef REFUSED
void write(const shmarray::array<const float> &a) { a(0) = 1; }
#else
void write(const shmarray::array<float> &a) { a(0) = 1; }
#endif
