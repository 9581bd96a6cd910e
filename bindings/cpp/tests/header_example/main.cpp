// Runs the example at the top of shmarray.hpp. ci/test-c writes its lines to example.inc.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include <shmarray.hpp>

namespace {

std::string received, logged;

void send(const std::string &handle) { received = handle; }
void log(const std::string &message) { logged = message; }

[[maybe_unused]] void use(const shmarray::array<float, 2> &) {
    std::cerr << "an array of another dtype was attached\n";
    std::exit(1);
}

} // namespace

int main() {
#include "example.inc"
    const bool is_right = channels == 3 && frame(0, 0, 0) == 255 && frame(479, 0, 2) == 7 &&
                          every_second.shape()[0] == 240 && every_second(239, 0, 2) == 255;
    const bool is_logged = logged == "the array's dtype is |u1, not float32";
    return is_right && is_logged ? 0 : 1;
}
