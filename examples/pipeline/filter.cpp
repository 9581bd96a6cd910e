// The second stage of the pipeline: finds the edges in photographs, in place, in C++.
//
//     filter           Reads a handle from each line of standard input. For each array it prints
//                      the nanoseconds that the filter took, and at the end the bytes copied.
//     filter --bytes   Does the same without shared memory: reads "HEIGHT WIDTH" and a pickle of
//                      bytes, and writes a pickle and the nanoseconds.
#include <shmarray.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

namespace {

// Sobel's gradient (Sobel and Feldman 1968), (|gx| + |gy|) / 2, of each channel. The rows above and
// at the pixel are copied first, so that the result can replace the photograph row by row.
void find_edges(std::uint8_t *pixels, std::size_t height, std::size_t width) {
    const std::size_t row_bytes = width * 3;
    std::vector<std::uint8_t> above(pixels, pixels + row_bytes), here(above);
    for (std::size_t y = 0; y < height; ++y) {
        std::uint8_t *out = pixels + y * row_bytes;
        std::memcpy(here.data(), out, row_bytes);
        const std::uint8_t *below = y + 1 < height ? out + row_bytes : here.data();
        for (std::size_t x = 3; x + 3 < row_bytes; ++x) {
            const int gx = (above[x + 3] + 2 * here[x + 3] + below[x + 3]) -
                           (above[x - 3] + 2 * here[x - 3] + below[x - 3]);
            const int gy = (below[x - 3] + 2 * below[x] + below[x + 3]) -
                           (above[x - 3] + 2 * above[x] + above[x + 3]);
            out[x] = static_cast<std::uint8_t>(std::min(255, (std::abs(gx) + std::abs(gy)) / 2));
        }
        std::fill(out, out + 3, std::uint8_t{0});
        std::fill(out + row_bytes - 3, out + row_bytes, std::uint8_t{0});
        std::swap(above, here);
    }
}

// Runs find_edges and returns the nanoseconds that it took.
long long find_edges_timed(std::uint8_t *pixels, std::size_t height, std::size_t width) {
    const auto began = std::chrono::steady_clock::now();
    find_edges(pixels, height, width);
    return std::chrono::nanoseconds(std::chrono::steady_clock::now() - began).count();
}

void filter_handles() {
    for (std::string handle; std::getline(std::cin, handle);) {
        const auto photo = shmarray::array<std::uint8_t>::attach(handle);
        const auto nanoseconds =
            find_edges_timed(photo.data(), static_cast<std::size_t>(photo.shape()[0]),
                             static_cast<std::size_t>(photo.shape()[1]));
        std::cout << nanoseconds << std::endl;
    }
    std::cout << shmarray::copied_bytes() << std::endl;
}

// Reads the output of pickle.dumps(bytes, protocol=5) for more than 64 KiB: PROTO 5, BINBYTES,
// size, bytes, MEMOIZE, STOP.
bool read_pickle(std::vector<std::uint8_t> &bytes) {
    std::uint8_t head[7];
    std::uint32_t size;
    if (std::fread(head, 1, sizeof head, stdin) != sizeof head)
        return false;
    std::memcpy(&size, head + 3, sizeof size);
    bytes.resize(size);
    std::uint8_t tail[2];
    return std::fread(bytes.data(), 1, size, stdin) == size && std::fread(tail, 1, 2, stdin) == 2;
}

void write_pickle(const std::vector<std::uint8_t> &bytes, long long nanoseconds) {
    std::uint8_t head[7] = {0x80, 5, 'B'};
    const auto size = static_cast<std::uint32_t>(bytes.size());
    std::memcpy(head + 3, &size, sizeof size);
    std::fwrite(head, 1, sizeof head, stdout);
    std::fwrite(bytes.data(), 1, size, stdout);
    std::fwrite("\x94.", 1, 2, stdout);
    std::printf("%lld\n", nanoseconds);
    std::fflush(stdout);
}

void filter_bytes() {
    std::vector<std::uint8_t> pixels;
    for (std::size_t height, width; std::scanf("%zu %zu", &height, &width) == 2;) {
        if (std::getchar() != '\n' || !read_pickle(pixels))
            throw std::runtime_error("the input ended in the middle of a photograph");
        const auto nanoseconds = find_edges_timed(pixels.data(), height, width);
        write_pickle(pixels, nanoseconds);
    }
    std::printf("0\n");
}

} // namespace

int main(int count, char **arguments) try {
    count > 1 && std::string(arguments[1]) == "--bytes" ? filter_bytes() : filter_handles();
} catch (const std::exception &error) {
    std::cerr << "filter: " << error.what() << std::endl;
    return 1;
}
