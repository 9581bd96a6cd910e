// float16 and bfloat16: every bit pattern, and the rounding of numbers between them.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::bfloat16;
using shmarray::float16;

static_assert(std::is_trivially_copyable_v<float16> && std::is_standard_layout_v<float16>);
static_assert(std::is_trivially_copyable_v<bfloat16> && std::is_standard_layout_v<bfloat16>);

TEST("every_pattern_of_bits_comes_back") {
    int changed = 0, not_numbers = 0;
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const float value = float16::from_bits(static_cast<std::uint16_t>(bits));
        const bool is_nan = (bits & 0x7c00U) == 0x7c00U && (bits & 0x3ffU) != 0;
        const std::uint32_t quiet = is_nan ? bits | 0x200U : bits;
        changed += float16(value).bits() != quiet || std::isnan(value) != is_nan;
        not_numbers += is_nan;
    }
    CHECK(changed == 0);
    CHECK(not_numbers == 2 * 1023);
}

TEST("values_are_those_of_ieee_754") {
    CHECK(float16(1.0F).bits() == 0x3c00);
    CHECK(float16(-2.0F).bits() == 0xc000);
    CHECK(float16(0.333251953125F).bits() == 0x3555);
    CHECK(float16(65504.0F).bits() == 0x7bff);
    CHECK(float16(6.103515625e-05F).bits() == 0x0400);   // the smallest normal number
    CHECK(float16(5.9604644775390625e-08F).bits() == 1); // the smallest number
    CHECK(float16(-0.0F).bits() == 0x8000);
    CHECK(static_cast<float>(float16::from_bits(0x3555)) == 0.333251953125F);
}

TEST("values_in_between_round_to_nearest_even") {
    CHECK(float16(2049.0F).bits() == float16(2048.0F).bits());
    CHECK(float16(2051.0F).bits() == float16(2052.0F).bits());
    CHECK(float16(2049.001F).bits() == float16(2050.0F).bits());
    CHECK(float16(65519.996F).bits() == 0x7bff);
    CHECK(float16(65520.0F).bits() == 0x7c00);
    CHECK(float16(std::numeric_limits<float>::max()).bits() == 0x7c00);
    CHECK(float16(2.98023223876953125e-08F).bits() ==
          0); // half of the smallest number rounds to even
    CHECK(float16(2.9802325e-08F).bits() == 1);
    CHECK(float16(8.94069671630859375e-08F).bits() ==
          2);                                        // one and a half times the smallest number
    CHECK(float16(6.1005353e-05F).bits() == 0x0400); // rounds up to a normal number
}

TEST("bfloat16_is_the_upper_half_of_a_float") {
    int changed = 0;
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const float value = bfloat16::from_bits(static_cast<std::uint16_t>(bits));
        std::uint32_t whole;
        std::memcpy(&whole, &value, sizeof whole);
        const std::uint32_t quiet = std::isnan(value) ? bits | 0x40U : bits;
        changed += whole >> 16 != bits || (whole & 0xffffU) != 0 || bfloat16(value).bits() != quiet;
    }
    CHECK(changed == 0);
}

TEST("bfloat16_rounds_to_nearest_even") {
    CHECK(bfloat16(257.0F).bits() == bfloat16(256.0F).bits());
    CHECK(bfloat16(259.0F).bits() == bfloat16(260.0F).bits());
    CHECK(bfloat16(257.0001F).bits() == bfloat16(258.0F).bits());
    CHECK(bfloat16(std::numeric_limits<float>::max()).bits() == 0x7f80);
    CHECK(bfloat16(-0.0F).bits() == 0x8000);
}

} // namespace
