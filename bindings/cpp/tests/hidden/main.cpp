// Catches an exception of a shared library by its type.
#include <cstdio>
#include <exception>

#include <shmarray.hpp>

__attribute__((visibility("default"))) void attach_missing();

int main() {
    try {
        attach_missing();
    } catch (const shmarray::not_found &) {
        return 0;
    } catch (const std::exception &other) {
        std::printf("caught as another type: %s\n", other.what());
    }
    return 1;
}
