// Arrays as std::mdspan, where the standard library has it.
#ifndef SHMARRAY_MDSPAN_HPP
#define SHMARRAY_MDSPAN_HPP

#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_mdspan
#include <array>
#include <cstddef>
#include <cstdint>
#include <mdspan>

#include <shmarray/held.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {
namespace detail {

template <class T, std::size_t Dimensions, bool IsContiguous>
auto mdspan_of(const held &array) {
    using extents = std::dextents<std::int64_t, Dimensions>;
    using layout = std::conditional_t<IsContiguous, std::layout_right, std::layout_stride>;
    using answer = std::mdspan<T, extents, layout>;
    std::array<std::int64_t, Dimensions> counts{}, steps{};
    constexpr auto whole = static_cast<std::int64_t>(sizeof(T));
    bool fits = array.shape.size() == Dimensions;
    for (std::size_t dimension = 0; fits && dimension < Dimensions; ++dimension) {
        counts[dimension] = array.shape[dimension];
        const std::int64_t step = counts[dimension] > 1 ? array.strides[dimension] : whole;
        steps[dimension] = step / whole;
        fits = IsContiguous || (step > 0 && step % whole == 0);
    }
    if (!fits)
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
