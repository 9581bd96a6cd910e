// An array with an element type, which adds access to elements to any_array.
#ifndef SHMARRAY_ARRAY_HPP
#define SHMARRAY_ARRAY_HPP

#include <cassert>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_span
#include <span>
#endif
#ifdef __cpp_lib_mdspan
#include <array>
#include <mdspan>
#endif

#include <shmarray.h>
#include <shmarray/any_array.hpp>
#include <shmarray/error.hpp>
#include <shmarray/float16.hpp>

namespace shmarray {

namespace detail {

template <class... Elements>
struct type_list {};

/// The element types, in the order of their dtypes' numbers: SHMA_BOOL, SHMA_INT8 …
using element_types = type_list<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                                std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, float16,
                                float, double, std::complex<float>, std::complex<double>>;

/// Returns the position of T in the list, from 1 on; 0 if it is not there.
template <class T, class... Elements>
constexpr shma_dtype position_of(type_list<Elements...>) {
    static_assert(sizeof...(Elements) == SHMA_DTYPE_COUNT,
                  "a dtype of shmarray.h has no type in element_types");
    shma_dtype position = 0, found = 0;
    ((++position, std::is_same_v<T, Elements> ? void(found = position) : void()), ...);
    return found;
}

template <class T>
struct dtype_of : std::integral_constant<shma_dtype, position_of<T>(element_types{})> {
    static_assert(dtype_of::value != 0,
                  "no dtype has elements of this type: element_types has those that one has");
};

} // namespace detail

/// An array of T, or a read-only one of const T. References to its elements are valid as long as
/// the array or a view of it lives.
template <class T>
class array : public any_array {
  public:
    using element_type = T;
    using value_type = std::remove_const_t<T>;
    static constexpr shma_dtype dtype_number = detail::dtype_of<value_type>::value;

    array() = default;

    /// Converts a writable array to a read-only one.
    template <class Other, class = std::enable_if_t<std::is_same_v<const Other, T>>>
    array(array<Other> &&writable) : array(static_cast<any_array &&>(writable)) {}

    /// Takes ownership of an array of this dtype. Throws dtype_mismatch if it has another dtype,
    /// and read_only if it is read-only and T is not const. The argument must be an any_array
    /// itself: a typed array would lose its const here.
    template <class Untyped, std::enable_if_t<std::is_same_v<Untyped, any_array>, int> = 0>
    explicit array(Untyped &&untyped) : any_array(std::move(checked(untyped))) {
        first_ = static_cast<unsigned char *>(any_array::data());
        steps_ = any_array::strides().begin();
    }

    /// Creates an array: of zeros, unless chosen.uninitialized is set. Throws no_space,
    /// already_exists or invalid_argument.
    static array create(const std::vector<std::int64_t> &shape, const options &chosen = {}) {
        const shma_options made = detail::plain(chosen);
        return array(
            detail::produce(shma_array_create, dtype_number, shape.size(), shape.data(), &made));
    }

    /// Attaches the array that has this handle or this name. With const T its pages are read-only.
    /// Throws not_found, stale_handle, invalid_handle, permission_denied, dtype_mismatch or
    /// read_only.
    static array attach(const std::string &handle_or_name) {
        return array(any_array::attach(handle_or_name, std::is_const_v<T> ? access::read_only
                                                                          : access::read_write));
    }

    /// Returns a pointer to the first element.
    T *data() const noexcept { return reinterpret_cast<T *>(first_); }

    /// Returns the element at an index, one number for each dimension. Only an assert checks it.
    template <class... Index>
    T &operator()(Index... index) const noexcept {
        static_assert((std::is_integral_v<Index> && ...), "an index consists of integers");
        const std::int64_t numbers[] = {static_cast<std::int64_t>(index)..., 0};
        assert(detail::inside(shape(), numbers, sizeof...(index)) &&
               "the index is outside the array");
        return element(numbers, sizeof...(index));
    }

    /// Returns the element at an index. Throws out_of_bounds if the array has none there.
    template <class... Index>
    T &at(Index... index) const {
        static_assert((std::is_integral_v<Index> && ...), "an index consists of integers");
        const std::int64_t numbers[] = {static_cast<std::int64_t>(index)..., 0};
        if (!detail::inside(shape(), numbers, sizeof...(index)))
            detail::raise(SHMA_ERROR_OUT_OF_BOUNDS, 0,
                          "out of bounds: the array has no element at this index");
        return element(numbers, sizeof...(index));
    }

    // The views of any_array, with the element type.
    array view() const { return array(any_array::view()); }
    array view(const std::vector<std::int64_t> &shape,
               const std::vector<std::int64_t> &strides = {}, std::int64_t offset = 0) const {
        return array(any_array::view(shape, strides, offset));
    }
    array slice(std::size_t dimension, std::int64_t start = far_end, std::int64_t stop = far_end,
                std::int64_t step = 1) const {
        return array(any_array::slice(dimension, start, stop, step));
    }
    array select(std::size_t dimension, std::int64_t index) const {
        return array(any_array::select(dimension, index));
    }
    array transpose(const std::vector<std::size_t> &axes = {}) const {
        return array(any_array::transpose(axes));
    }

    /// Iterates over the elements in C order, for any strides. For a contiguous array, data() is
    /// faster.
    class iterator {
      public:
        using iterator_category = std::forward_iterator_tag;
        using value_type = std::remove_const_t<T>;
        using difference_type = std::ptrdiff_t;
        using pointer = T *;
        using reference = T &;

        iterator() = default;
        reference operator*() const noexcept {
            return *reinterpret_cast<T *>(first_ + at_.offset());
        }
        pointer operator->() const noexcept { return &**this; }
        iterator &operator++() noexcept { return at_.next(), *this; }
        iterator operator++(int) noexcept {
            const iterator before = *this;
            ++*this;
            return before;
        }
        friend bool operator==(const iterator &a, const iterator &b) noexcept {
            return a.at_.position() == b.at_.position();
        }
        friend bool operator!=(const iterator &a, const iterator &b) noexcept { return !(a == b); }

      private:
        friend class array;
        iterator(unsigned char *first, detail::cursor at) noexcept : first_(first), at_(at) {}
        unsigned char *first_ = nullptr;
        detail::cursor at_;
    };
    iterator begin() const noexcept { return {first_, {shape(), strides(), 0}}; }
    iterator end() const noexcept { return {first_, {shape(), strides(), size()}}; }

#ifdef __cpp_lib_span
    /// Returns all elements of a contiguous array. Throws invalid_argument if it is not contiguous.
    std::span<T> span() const {
        if (!is_contiguous())
            detail::raise(SHMA_ERROR_INVALID_ARGUMENT, 0,
                          "invalid strides: a span needs elements side by side");
        return {data(), size()};
    }
#endif

#ifdef __cpp_lib_mdspan
    /// Returns the array as a std::mdspan of that many dimensions. Throws invalid_argument if it
    /// has another number of them, or strides that std::layout_stride cannot represent: those that
    /// are not positive, or not a multiple of the itemsize.
    template <std::size_t Rank>
    auto mdspan() const {
        using extents = std::dextents<std::int64_t, Rank>;
        bool fits = ndim() == Rank;
        std::array<std::int64_t, Rank> counts{}, steps{};
        constexpr auto whole = static_cast<std::int64_t>(sizeof(T));
        for (std::size_t dimension = 0; fits && dimension < Rank; ++dimension) {
            counts[dimension] = shape()[dimension];
            const std::int64_t step = counts[dimension] > 1 ? strides()[dimension] : whole;
            steps[dimension] = step / whole;
            fits = step > 0 && step % whole == 0;
        }
        if (!fits)
            detail::raise(SHMA_ERROR_INVALID_ARGUMENT, 0,
                          "invalid strides: no std::mdspan of that rank has them");
        return std::mdspan<T, extents, std::layout_stride>(data(), {extents(counts), steps});
    }
#endif

  private:
    T &element(const std::int64_t *index, std::size_t count) const noexcept {
        std::int64_t offset = 0;
        for (std::size_t dimension = 0; dimension < count; ++dimension)
            offset += index[dimension] * steps_[dimension];
        return *reinterpret_cast<T *>(first_ + offset);
    }

    /// Returns the array if T can be its element type, else throws and leaves it unchanged.
    static any_array &checked(any_array &untyped) {
        if (untyped.dtype() != dtype_number)
            detail::raise(SHMA_ERROR_DTYPE_MISMATCH, 0,
                          "the array's dtype is " + untyped.dtype_text() + ", not " +
                              shma_dtype_name(dtype_number));
        if (untyped.is_readonly() && !std::is_const_v<T>)
            detail::raise(SHMA_ERROR_READ_ONLY, 0,
                          "the array is read-only: its elements are const");
        if (untyped.size() != 0 && !is_aligned(untyped))
            detail::raise(SHMA_ERROR_INVALID_ARGUMENT, 0,
                          "invalid strides: elements are not aligned as C++ needs it; any_array "
                          "reads their bytes");
        return untyped;
    }

    /// Returns whether all elements are aligned. They may not be: other languages make arrays of
    /// the fields of packed structures.
    static bool is_aligned(const any_array &untyped) noexcept {
        constexpr auto step = static_cast<std::int64_t>(alignof(T));
        bool aligned = reinterpret_cast<std::uintptr_t>(untyped.data()) % alignof(T) == 0;
        for (std::size_t dimension = 0; aligned && dimension < untyped.ndim(); ++dimension)
            aligned = untyped.shape()[dimension] == 1 || untyped.strides()[dimension] % step == 0;
        return aligned;
    }

    unsigned char *first_ = nullptr;
    const std::int64_t *steps_ = nullptr;
};

template <class T>
array<T> any_array::as() const {
    return array<T>(view());
}

} // namespace shmarray

#endif // SHMARRAY_ARRAY_HPP
