// bfloat16 stored in two bytes, because C++17 has no such type.
#ifndef SHMARRAY_BFLOAT16_HPP
#define SHMARRAY_BFLOAT16_HPP

#include <cstdint>
#include <cstring>

#include <shmarray/mode.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// An element of dtype bfloat16, the upper half of a float. It has no arithmetic: it converts to
/// float and from it, rounding to nearest even.
class bfloat16 {
  public:
    bfloat16() = default;
    bfloat16(float value) noexcept : bits_(narrow(value)) {}
    operator float() const noexcept {
        const std::uint32_t bits = static_cast<std::uint32_t>(bits_) << 16;
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }

    static bfloat16 from_bits(std::uint16_t bits) noexcept {
        bfloat16 made;
        made.bits_ = bits;
        return made;
    }
    std::uint16_t bits() const noexcept { return bits_; }

  private:
    static std::uint16_t narrow(float value) noexcept {
        std::uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        if ((bits & 0x7fffffffU) > 0x7f800000U) // NaN: it stays one and becomes quiet
            return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
        return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
    }

    std::uint16_t bits_;
};

static_assert(sizeof(bfloat16) == 2, "the layout of the dtype");

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_BFLOAT16_HPP
