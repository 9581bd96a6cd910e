// The elements of one array of a list.
#ifndef SHMARRAY_ARRAY_VIEW_HPP
#define SHMARRAY_ARRAY_VIEW_HPP

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_span
#include <span>
#endif
#ifdef __cpp_lib_mdspan
#include <mdspan>
#endif

#include <shmarray/layout.hpp>
#include <shmarray/mode.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// The elements of one array of a list, in C order: a pointer and a shape, which own nothing. They
/// are valid as long as an object of their list.
template <class T, std::size_t Rank = 1>
class array_view {
    static_assert(Rank > 0 && Rank != dynamic_rank, "say the number of dimensions, 1 or more");

  public:
    using element_type = T;
    using value_type = std::remove_const_t<T>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using reference = T &;
    using pointer = T *;
    using iterator = T *;
    static constexpr std::size_t rank = Rank;

    array_view() = default;
    array_view(T *data, const std::array<std::int64_t, Rank> &shape) noexcept
        : data_(data), shape_(shape) {}

    /// Returns a pointer to the first element.
    T *data() const noexcept { return data_; }
    /// Returns the number of elements along each dimension.
    const std::array<std::int64_t, Rank> &shape() const noexcept { return shape_; }
    /// Returns the number of elements.
    std::size_t size() const noexcept {
        std::int64_t count = 1;
        for (const std::int64_t along : shape_)
            count *= along;
        return static_cast<std::size_t>(count);
    }
    bool empty() const noexcept { return size() == 0; }
    T *begin() const noexcept { return data_; }
    T *end() const noexcept { return data_ + size(); }

    /// Returns the element at an index, one number for each dimension. Only an assert checks it.
    template <class... Index>
    T &operator()(Index... index) const noexcept {
        static_assert((std::is_integral_v<Index> && ...), "an index consists of integers");
        static_assert(sizeof...(Index) == Rank,
                      "an index has as many numbers as the array has dimensions");
        const std::int64_t at[] = {static_cast<std::int64_t>(index)...};
        assert(detail::inside({shape_.data(), Rank}, at, Rank) && "the index is outside the array");
        std::int64_t position = 0;
        for (std::size_t dimension = 0; dimension < Rank; ++dimension)
            position = position * shape_[dimension] + at[dimension];
        return data_[position];
    }

    /// Returns the element at an index of an array of one dimension.
    template <class Index>
    T &operator[](Index index) const noexcept {
        return (*this)(index);
    }

#ifdef __cpp_lib_span
    /// Returns all elements.
    std::span<T> span() const noexcept { return {data(), size()}; }
#endif

#ifdef __cpp_lib_mdspan
    /// Returns the array as a std::mdspan.
    std::mdspan<T, std::dextents<std::int64_t, Rank>> mdspan() const noexcept {
        return {data(), std::dextents<std::int64_t, Rank>(shape_)};
    }
#endif

  private:
    T *data_ = nullptr;
    std::array<std::int64_t, Rank> shape_{};
};

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_ARRAY_VIEW_HPP
