// A camera: pans over photographs, and publishes each view of them as a frame.
//
//     camera PHOTOGRAPHS.npy [FRAMES_PER_SECOND [FRAMES]]
//
// The photographs are one array (count, height, width, 3). Without a number of frames it goes on
// until it is stopped. It may be stopped and started again while others receive.
#include <shmarray.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

constexpr std::int64_t height = 240, width = 320;

void run(const char *path, double frames_per_second, long frames) {
    const auto photographs = shmarray::load_npy<const std::uint8_t, 4>(path);
    const auto [count, rows, columns, channels] = photographs.shape();
    if (channels != 3 || rows < height || columns < width)
        throw std::runtime_error("photographs are at least 240 × 320 and have three channels");

    shmarray::channel_options chosen;
    chosen.mode = shmarray::channel_mode::broadcast;
    chosen.when_full = shmarray::when_full::drop_oldest; // a slow viewer does not stop a camera
    chosen.exist_ok = true;                              // of a camera that was there before
    auto camera = shmarray::channel<std::uint8_t, 3>::create("camera", {height, width, 3}, chosen);

    const std::chrono::duration<double> period(1 / frames_per_second);
    auto due = std::chrono::steady_clock::now();
    for (long number = 0; frames == 0 || number < frames; ++number) {
        const auto photograph = number / 100 % count;
        const auto top = number % 100 * (rows - height) / 100;
        const auto left = number % 100 * (columns - width) / 100;
        auto frame = camera.loan();
        for (std::int64_t row = 0; row < height; ++row)
            std::copy_n(&photographs(photograph, top + row, left, 0), width * 3,
                        &frame->array()(row, 0, 0));
        frame->publish("photograph " + std::to_string(photograph));
        due += std::chrono::duration_cast<std::chrono::steady_clock::duration>(period);
        std::this_thread::sleep_until(due);
    }
}

} // namespace

int main(int count, char **arguments) {
    if (count < 2) {
        std::fprintf(stderr, "camera PHOTOGRAPHS.npy [FRAMES_PER_SECOND [FRAMES]]\n");
        return 1;
    }
    try {
        run(arguments[1], count > 2 ? std::atof(arguments[2]) : 30,
            count > 3 ? std::atol(arguments[3]) : 0);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "camera: %s\n", error.what());
        return 1;
    }
}
