// A shared library of which only this function is visible.
#include <shmarray.hpp>

__attribute__((visibility("default"))) void attach_missing();

void attach_missing() { shmarray::any_array::attach("nobody"); }
