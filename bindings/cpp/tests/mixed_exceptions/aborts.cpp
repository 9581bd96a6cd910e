// The file that is compiled without exceptions: it has the same functions of the header.
#include <shmarray.hpp>

#ifdef __cpp_exceptions
#error "this file is compiled with -fno-exceptions"
#endif

bool has_missing();

bool has_missing() {
    auto missing = shmarray::any_array::try_attach("nobody");
    return missing && missing.value() && shmarray::array<int>::attach("nobody");
}
