// A picture in shared memory: OpenCV works on it in place, without a copy of its own.
//
//     prints: OpenCV's memory is the array's: yes
//     prints: white pixels in the picture: 7200
//     prints: white pixels in the upper half: 3600
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include <cstdint>
#include <iostream>

#include <shmarray.hpp>

namespace {

using picture = shmarray::array<std::uint8_t, 3>;

cv::Mat as_mat(const picture &pixels) {
    const auto [rows, columns, channels] = pixels.shape();
    const int type = CV_8UC(static_cast<int>(channels));
    return {static_cast<int>(rows), static_cast<int>(columns), type, pixels.data()};
}

// A part of a picture: each row is contiguous, and cv::Mat takes the bytes between rows.
cv::Mat as_mat(const shmarray::strided_array<std::uint8_t, 3> &part) {
    const auto [rows, columns, channels] = part.shape();
    const int type = CV_8UC(static_cast<int>(channels));
    return {static_cast<int>(rows), static_cast<int>(columns), type, part.data(),
            static_cast<std::size_t>(part.strides()[0])};
}

int white_pixels(const cv::Mat &colours) {
    cv::Mat grey;
    cv::cvtColor(colours, grey, cv::COLOR_BGR2GRAY);
    return cv::countNonZero(grey == 255);
}

} // namespace

int main() {
    const auto pixels = picture::create({120, 160, 3});
    const cv::Mat mat = as_mat(pixels);
    cv::rectangle(mat, cv::Point(40, 30), cv::Point(159, 89), cv::Scalar(255, 255, 255),
                  cv::FILLED);
    std::cout << "OpenCV's memory is the array's: " << (pixels(30, 40, 1) == 255 ? "yes" : "no")
              << "\n";

    const auto received = picture::attach(pixels.handle()); // in any process
    const cv::Mat whole = as_mat(received), upper = as_mat(received.slice(0, 0, 60));
    std::cout << "white pixels in the picture: " << white_pixels(whole) << "\n"
              << "white pixels in the upper half: " << white_pixels(upper) << "\n";
}
