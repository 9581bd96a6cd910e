// A failure is not ignored without a word.
#include <shmarray.hpp>

void forget(const char *name) {
#ifdef REFUSED
    shmarray::try_unlink(name);
#else
    static_cast<void>(shmarray::try_unlink(name).has_value());
#endif
}
