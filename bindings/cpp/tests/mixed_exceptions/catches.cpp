// The file that is compiled with exceptions: it catches one, and prints what went wrong.
#include <cstdio>

#include <shmarray.hpp>

bool has_missing();

namespace {

template <class Function>
bool throws_not_found(Function function) {
    try {
        function();
    } catch (const shmarray::not_found &) {
        return true;
    }
    return false;
}

} // namespace

int main() {
    const bool caught = throws_not_found([] { shmarray::any_array::attach("nobody"); }) &&
                        throws_not_found([] { shmarray::array<int>::attach("nobody"); });
    if (!caught || has_missing())
        std::puts("not_found was not thrown");
    return caught && !has_missing() ? 0 : 1;
}
