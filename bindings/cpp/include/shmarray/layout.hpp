// Shapes, strides and creation options.
#ifndef SHMARRAY_LAYOUT_HPP
#define SHMARRAY_LAYOUT_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <shmarray.h>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// The access to an array that is attached without an element type. For array<T>, const T says it.
enum class access : std::int32_t { read_write = SHMA_READ_WRITE, read_only = SHMA_READ_ONLY };

/// The order of elements in memory: the last (c) or the first (f) dimension varies fastest.
enum class order : std::int32_t { c = SHMA_ORDER_C, f = SHMA_ORDER_F };

/// An open bound of a slice: as start, the first element in the direction of step; as stop, the
/// position after the last one.
inline constexpr std::int64_t far_end = SHMA_END;

/// The Rank of an array whose number of dimensions is known only at run time.
inline constexpr std::size_t dynamic_rank = static_cast<std::size_t>(-1);

/// The Layout of arrays whose elements lie side by side in C order. Their iterators are pointers.
struct contiguous {};

/// The Layout of arrays of any strides.
struct strided {};

/// A text that any kind of string converts to.
struct text : std::string {
    using std::string::string;
    using std::string::operator=;
    text(const char *other) : std::string(other != nullptr ? other : "") {} // a null is no text
    text(std::string other) noexcept : std::string(std::move(other)) {}
    text(std::string_view other) : std::string(other) {}
    text &operator=(const char *other) { return *this = text(other); }
};

/// Creation options.
struct options {
    text name = {};            ///< a name for the array, or none
    bool persist = false;      ///< lives until its name is unlinked, even without a holder
    std::uint32_t mode = 0600; ///< permission bits of the segment
    shmarray::order order = shmarray::order::c; ///< order of the elements in memory
    bool uninitialized = false;                 ///< not zeroed: may have bytes of earlier arrays
};

/// A shape or strides: numbers that are valid as long as their array.
class dimensions {
  public:
    dimensions() = default;
    dimensions(const std::int64_t *first, std::size_t count) noexcept
        : first_(first), count_(count) {}

    const std::int64_t *begin() const noexcept { return first_; }
    const std::int64_t *end() const noexcept { return first_ + count_; }
    std::size_t size() const noexcept { return count_; }
    std::int64_t operator[](std::size_t dimension) const noexcept { return first_[dimension]; }
    operator std::vector<std::int64_t>() const { return {begin(), end()}; }

  private:
    const std::int64_t *first_ = nullptr;
    std::size_t count_ = 0;
};

class number_list;

namespace detail {

/// The most dimensions of an array.
inline constexpr std::size_t most_dimensions = 64;

/// Whether T counts something, as a character or a bool does not.
template <class T>
inline constexpr bool is_count = std::is_integral_v<T>;
template <>
inline constexpr bool is_count<bool> = false;
template <>
inline constexpr bool is_count<char> = false;
template <>
inline constexpr bool is_count<wchar_t> = false;
template <>
inline constexpr bool is_count<char16_t> = false;
template <>
inline constexpr bool is_count<char32_t> = false;
#ifdef __cpp_char8_t
template <>
inline constexpr bool is_count<char8_t> = false;
#endif

template <class Type, class = void>
struct is_list : std::false_type {};
template <class Type>
struct is_list<Type, std::void_t<decltype(std::begin(std::declval<const Type &>())),
                                 decltype(std::size(std::declval<const Type &>()))>>
    : std::bool_constant<
          !std::is_base_of_v<number_list, Type> &&
          is_count<std::decay_t<decltype(*std::begin(std::declval<const Type &>()))>>> {};

} // namespace detail

/// A shape, strides or axes as an argument: any integers in braces, as in {image.rows, 3}, or any
/// container of integers. It has the numbers itself.
class number_list {
  public:
    number_list() = default;

    template <
        class... Integers,
        std::enable_if_t<(sizeof...(Integers) > 0) && (detail::is_count<Integers> && ...), int> = 0>
    number_list(Integers... numbers) noexcept : size_(sizeof...(Integers)) {
        static_assert(sizeof...(Integers) <= detail::most_dimensions, "too many dimensions");
        std::size_t at = 0;
        ((numbers_[at++] = static_cast<std::int64_t>(numbers)), ...);
    }

    template <class List, std::enable_if_t<detail::is_list<List>::value, int> = 0>
    number_list(const List &list) noexcept {
        for (const auto number : list) {
            if (size_ < detail::most_dimensions)
                numbers_[size_] = static_cast<std::int64_t>(number);
            ++size_;
        }
    }

    /// Returns the number of numbers. Those beyond the most dimensions of an array are not stored.
    std::size_t size() const noexcept { return size_; }
    const std::int64_t *data() const noexcept { return numbers_.data(); }
    std::int64_t operator[](std::size_t at) const noexcept { return numbers_[at]; }
    /// Iterate over the stored numbers. A temporary list has no iterators, which would outlive it.
    const std::int64_t *begin() const & noexcept { return data(); }
    const std::int64_t *end() const & noexcept {
        return data() + std::min(size_, detail::most_dimensions);
    }
    const std::int64_t *begin() const && = delete;
    const std::int64_t *end() const && = delete;
    operator std::vector<std::int64_t>() const { return {begin(), end()}; }

    /// Returns a failure if there are more numbers than an array can have dimensions.
    result<void> check() const {
        if (size_ > detail::most_dimensions)
            return detail::invalid("invalid shape: it has more than 64 dimensions");
        return {};
    }

  private:
    std::size_t size_ = 0;
    std::array<std::int64_t, detail::most_dimensions> numbers_; // the first size_ are set
};

/// A shape with as many numbers as the array has dimensions. Another number of integers does not
/// compile; a container of another size fails.
template <std::size_t Rank>
class shape_of : public number_list {
  public:
    template <class... Integers,
              std::enable_if_t<sizeof...(Integers) == Rank && (detail::is_count<Integers> && ...),
                               int> = 0>
    shape_of(Integers... numbers) noexcept : number_list(numbers...) {}

    template <class... Integers,
              std::enable_if_t<(sizeof...(Integers) > 0) && sizeof...(Integers) != Rank &&
                                   (detail::is_count<Integers> && ...),
                               long> = 0>
    shape_of(Integers...) noexcept {
        static_assert(sizeof...(Integers) == Rank,
                      "the shape must have as many numbers as the Rank says");
    }

    template <class List,
              std::enable_if_t<detail::is_list<List>::value || std::is_same_v<List, number_list> ||
                                   std::is_same_v<List, shape_of<dynamic_rank>>,
                               int> = 0>
    shape_of(const List &list) noexcept : number_list(list) {}

    result<void> check() const {
        if (size() != Rank)
            return detail::invalid("invalid shape: its number is not the array's Rank");
        return number_list::check();
    }
};

template <>
class shape_of<dynamic_rank> : public number_list {
  public:
    using number_list::number_list;

    // Hides the inherited one, so it must take all lists that this takes.
    template <class List,
              std::enable_if_t<detail::is_list<List>::value || std::is_same_v<List, number_list>,
                               int> = 0>
    shape_of(const List &list) noexcept : number_list(list) {}
};

namespace detail {

template <class Type>
struct identity {
    using type = Type;
};

/// The parameter type of a function whose template argument is said or dynamic_rank, never deduced.
template <std::size_t Rank>
using shape_argument = typename identity<shape_of<Rank>>::type;

/// Returns the numbers for the C ABI; NULL for strides that are not given.
inline const std::int64_t *optional(const number_list &strides) noexcept {
    return strides.size() == 0 ? nullptr : strides.data();
}

/// Returns a failure unless there is a stride for each dimension, or none at all.
inline result<void> check_strides(const number_list &shape, const number_list &strides) {
    if (strides.size() != 0 && strides.size() != shape.size())
        return invalid("invalid strides: their number is not that of the dimensions");
    return shape.check();
}

/// Returns a failure if the C ABI would read another name than this.
inline result<void> check_options(const options &chosen) {
    auto name = terminated(chosen.name);
    return name ? result<void>() : result<void>(name.error());
}

/// Returns the options for the C ABI, which are valid as long as `chosen` and `dtype_text`.
inline shma_options plain(const options &chosen, const char *dtype_text = nullptr) noexcept {
    shma_options made = SHMA_OPTIONS_INIT;
    made.name = chosen.name.empty() ? nullptr : chosen.name.c_str();
    made.persist = chosen.persist ? 1 : 0;
    made.uninitialized = chosen.uninitialized ? 1 : 0;
    made.mode = chosen.mode;
    made.order = static_cast<shma_order>(chosen.order);
    made.dtype_text = dtype_text;
    return made;
}

/// Returns whether the array has an element at that index. An object without an array has none.
inline bool inside(dimensions shape, const std::int64_t *index, std::size_t count) noexcept {
    bool in = shape.begin() != nullptr && count == shape.size();
    for (std::size_t dimension = 0; in && dimension < count; ++dimension)
        in = index[dimension] >= 0 && index[dimension] < shape[dimension];
    return in;
}

} // namespace detail
} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_LAYOUT_HPP
