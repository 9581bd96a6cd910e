// A type without a dtype is no element.
#include <shmarray.hpp>

#ifdef REFUSED
using element = char16_t;
#else
using element = char;
#endif

shmarray::array<element> make() { return shmarray::array<element>::create({2}); }
