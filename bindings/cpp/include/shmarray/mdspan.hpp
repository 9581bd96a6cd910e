// Arrays as std::mdspan, where the standard library has it.
#ifndef SHMARRAY_MDSPAN_HPP
#define SHMARRAY_MDSPAN_HPP

#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_mdspan
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mdspan>
#include <numeric>
#include <type_traits>

#include <shmarray/held.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {
namespace detail {

/// Sets the strides of dimensions that are never stepped along, so that all fulfil what
/// std::layout_stride requires. Returns false if it has no such mapping: a stride is not positive,
/// or elements overlap.
template <std::size_t Dimensions>
bool suits_layout_stride(const std::array<std::int64_t, Dimensions> &counts,
                         std::array<std::int64_t, Dimensions> &steps) {
    std::array<std::size_t, Dimensions> by_step{};
    std::iota(by_step.begin(), by_step.end(), std::size_t{0});
    std::sort(by_step.begin(), by_step.end(),
              [&](std::size_t one, std::size_t other) { return steps[one] < steps[other]; });
    const bool is_empty = std::find(counts.begin(), counts.end(), 0) != counts.end();
    std::int64_t spanned = 1; // by the dimensions so far
    for (const std::size_t dimension : by_step) {
        if (is_empty)
            steps[dimension] = spanned;
        else if (counts[dimension] == 1)
            continue;
        if (steps[dimension] < spanned ||
            __builtin_mul_overflow(steps[dimension], std::max<std::int64_t>(counts[dimension], 1),
                                   &spanned))
            return false;
    }
    for (std::size_t dimension = 0; dimension < Dimensions; ++dimension)
        if (!is_empty && counts[dimension] == 1)
            steps[dimension] = spanned;
    return true;
}

template <class T, std::size_t Dimensions, bool IsContiguous>
auto mdspan_of(const held &array) {
    using extents = std::dextents<std::int64_t, Dimensions>;
    using layout = std::conditional_t<IsContiguous, std::layout_right, std::layout_stride>;
    using answer = std::mdspan<T, extents, layout>;
    std::array<std::int64_t, Dimensions> counts{}, steps{};
    constexpr auto whole = static_cast<std::int64_t>(sizeof(T));
    bool fits = array.owner != nullptr && array.shape.size() == Dimensions;
    for (std::size_t dimension = 0; fits && dimension < Dimensions; ++dimension) {
        counts[dimension] = array.shape[dimension];
        steps[dimension] = array.strides[dimension] / whole;
        fits = counts[dimension] <= 1 || array.size == 0 || array.strides[dimension] % whole == 0;
    }
    if (!fits || !(IsContiguous || suits_layout_stride(counts, steps)))
        return result<answer>(invalid("invalid strides: no std::mdspan of that rank has them"));
    T *const first = reinterpret_cast<T *>(array.first);
    if constexpr (IsContiguous)
        return result<answer>(answer(first, extents(counts)));
    else
        return result<answer>(answer(first, {extents(counts), steps}));
}

} // namespace detail
} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // __cpp_lib_mdspan
#endif // SHMARRAY_MDSPAN_HPP
