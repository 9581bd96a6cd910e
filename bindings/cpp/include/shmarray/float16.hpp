// IEEE 754 binary16 stored in two bytes, because C++17 has no such type.
#ifndef SHMARRAY_FLOAT16_HPP
#define SHMARRAY_FLOAT16_HPP

#include <cstdint>
#include <cstring>

#include <shmarray/mode.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// An element of dtype float16. It has no arithmetic: it converts to float and from it, rounding to
/// nearest even.
class float16 {
  public:
    float16() = default;
    float16(float value) noexcept : bits_(narrow(value)) {}
    operator float() const noexcept { return widen(bits_); }

    static float16 from_bits(std::uint16_t bits) noexcept {
        float16 made;
        made.bits_ = bits;
        return made;
    }
    std::uint16_t bits() const noexcept { return bits_; }

  private:
    static std::uint32_t bits_of(float value) noexcept {
        std::uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        return bits;
    }

    static float float_of(std::uint32_t bits) noexcept {
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }

    static std::uint16_t narrow(float value) noexcept {
        const std::uint32_t bits = bits_of(value);
        const std::uint32_t sign = bits >> 16 & 0x8000U;
        return static_cast<std::uint16_t>(sign | narrow_magnitude(bits & 0x7fffffffU));
    }

    static std::uint32_t narrow_magnitude(std::uint32_t bits) noexcept {
        if (bits > 0x7f800000U) // NaN: it stays one and becomes quiet
            return 0x7e00U | (bits >> 13 & 0x3ffU);
        if (bits >= 0x477ff000U) // 65520 and more round to infinity
            return 0x7c00U;
        if (bits < 0x38800000U) // below 2^-14: adding 0.5 leaves multiples of 2^-24, rounded
            return bits_of(float_of(bits) + 0.5F) - bits_of(0.5F);
        const std::uint32_t to_even = 0xfffU + (bits >> 13 & 1U);
        return (bits + to_even - 0x38000000U) >> 13; // the exponent's bias goes from 127 to 15
    }

    static float widen(std::uint16_t bits) noexcept {
        const std::uint32_t sign = (bits & 0x8000U) << 16;
        const std::uint32_t exponent = bits >> 10 & 0x1fU;
        const std::uint32_t fraction = bits & 0x3ffU;
        if (exponent == 0x1fU)
            return float_of(sign | 0x7f800000U | fraction << 13);
        if (exponent != 0)
            return float_of(sign | (exponent + 112U) << 23 | fraction << 13);
        const float magnitude = static_cast<float>(fraction) / 16777216.0F; // multiples of 2^-24
        return float_of(sign | bits_of(magnitude));
    }

    std::uint16_t bits_;
};

static_assert(sizeof(float16) == 2, "the layout of the dtype");

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_FLOAT16_HPP
