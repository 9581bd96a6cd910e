// An array with an element type, and with a Rank and a Layout.
#ifndef SHMARRAY_ARRAY_HPP
#define SHMARRAY_ARRAY_HPP

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_span
#include <span>
#endif

#include <shmarray.h>
#include <shmarray/any_array.hpp>
#include <shmarray/dtype.hpp>
#include <shmarray/held.hpp>
#include <shmarray/iterator.hpp>
#include <shmarray/layout.hpp>
#include <shmarray/mdspan.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/views.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

namespace detail {

/// Whether the array type From converts to the array type To, which says less.
template <class From, class To>
inline constexpr bool converts = false;

template <class T, std::size_t Rank, class Layout, class To, std::size_t ToRank, class ToLayout>
inline constexpr bool converts<array<T, Rank, Layout>, array<To, ToRank, ToLayout>> =
    !std::is_same_v<array<T, Rank, Layout>, array<To, ToRank, ToLayout>> &&
    is_any_of<To, T, const T> && (ToRank == Rank || ToRank == dynamic_rank) &&
    is_any_of<ToLayout, Layout, strided>;

} // namespace detail

/// An array of T, or a read-only one of const T. References to its elements are valid as long as
/// the array or a view of it lives.
///
/// The Rank may be known at compile time: array<float, 2>. Its Layout says whether the elements lie
/// side by side in C order, the default, or are a strided_array's. An array converts to one that
/// says less (const T, dynamic_rank, strided), and shares the memory.
template <class T, std::size_t Rank, class Layout>
class array : public detail::with_views<array<T, Rank, Layout>> {
    using base = detail::with_views<array>;
    static constexpr bool lies_side_by_side = std::is_same_v<Layout, contiguous>;
    static_assert(lies_side_by_side || std::is_same_v<Layout, strided>,
                  "a Layout is contiguous or strided");

  public:
    using element_type = T;
    using value_type = std::remove_const_t<T>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using reference = T &;
    using pointer = T *;
    using iterator = std::conditional_t<lies_side_by_side, T *, strided_iterator<T>>;
    static constexpr shma_dtype dtype_number = detail::dtype_of<value_type>::value;
    static constexpr std::size_t rank = Rank;

    array() = default;

    /// Shares the memory of an array whose type says more, or takes it over from an rvalue.
    template <class U, std::size_t R, class L,
              std::enable_if_t<detail::converts<array<U, R, L>, array>, int> = 0>
    array(const array<U, R, L> &other) : base(kept_const(base::held_of(other))) {}
    template <class U, std::size_t R, class L,
              std::enable_if_t<detail::converts<array<U, R, L>, array>, int> = 0>
    array(array<U, R, L> &&other) noexcept : base(kept_const(base::taken_from(other))) {}

    /// Takes over the memory of an array of this dtype, Rank and Layout. Throws like as(), and then
    /// the argument is unchanged. It must be an any_array itself: a typed array would lose its
    /// const here.
    template <class Untyped, std::enable_if_t<std::is_same_v<Untyped, any_array>, int> = 0>
    explicit array(Untyped &&untyped) : array(untyped.template as<array>()) {
        untyped.close();
    }

    /// Creates an array: of zeros, unless chosen.uninitialized is set. Throws no_space,
    /// already_exists or invalid_argument.
    static array create(const shape_of<Rank> &shape, const options &chosen = {}) {
        return try_create(shape, chosen).value();
    }
    static result<array> try_create(const shape_of<Rank> &shape, const options &chosen = {}) {
        if (auto checked = check(shape, chosen); !checked)
            return checked.error();
        const shma_options made = detail::plain(chosen, detail::wanted<T>().text);
        return checked(
            detail::produce(shma_array_create, dtype_number, shape.size(), shape.data(), &made));
    }

    /// Creates an array and copies private memory into it. Strides are in bytes; the default is C
    /// order. Throws like create().
    static array share(const value_type *data, const shape_of<Rank> &shape,
                       const number_list &strides = {}, const options &chosen = {}) {
        return try_share(data, shape, strides, chosen).value();
    }
    static result<array> try_share(const value_type *data, const shape_of<Rank> &shape,
                                   const number_list &strides = {}, const options &chosen = {}) {
        if (auto checked = check(shape, chosen); !checked)
            return checked.error();
        if (auto checked = detail::check_strides(shape, strides); !checked)
            return checked.error();
        const shma_options made = detail::plain(chosen, detail::wanted<T>().text);
        return checked(detail::produce(shma_array_share, static_cast<const void *>(data),
                                       dtype_number, shape.size(), shape.data(),
                                       detail::optional(strides), &made));
    }

    /// Creates an array of memory that lies in an array of this process, such as the elements of a
    /// container with shmarray::allocator. Nothing is copied, and the memory is kept. Strides are
    /// in bytes; the default is C order. Throws invalid_argument if it lies in none.
    static array over_memory(const value_type *data, const shape_of<Rank> &shape,
                             const number_list &strides = {}) {
        return try_over_memory(data, shape, strides).value();
    }
    static result<array> try_over_memory(const value_type *data, const shape_of<Rank> &shape,
                                         const number_list &strides = {}) {
        if (auto checked = shape.check(); !checked)
            return checked.error();
        if (auto checked = detail::check_strides(shape, strides); !checked)
            return checked.error();
        return checked(detail::produce(shma_array_over_memory, static_cast<const void *>(data),
                                       dtype_number, shape.size(), shape.data(),
                                       detail::optional(strides)));
    }

    /// Attaches the array that has this handle or this name. With const T its pages are read-only.
    /// Throws not_found, stale_handle, invalid_handle or permission_denied, and like as().
    static array attach(std::string_view handle_or_name) {
        return try_attach(handle_or_name).value();
    }
    static result<array> try_attach(std::string_view handle_or_name) {
        const auto terminated = detail::terminated(handle_or_name);
        if (!terminated)
            return terminated.error();
        return checked(detail::produce(
            shma_array_attach, terminated->c_str(),
            static_cast<shma_access>(std::is_const_v<T> ? SHMA_READ_ONLY : SHMA_READ_WRITE)));
    }

    /// Returns a pointer to the first element; null if the object is null.
    T *data() const noexcept { return reinterpret_cast<T *>(this->held_.first); }

    /// Returns the number of dimensions: the Rank, also if the object is null.
    std::size_t ndim() const noexcept { return Rank == dynamic_rank ? base::ndim() : Rank; }
    /// Returns the number of elements along each dimension: with a Rank a std::array, as in
    /// auto [rows, columns] = a.shape(), whose numbers are 0 if the object is null. Without one,
    /// the numbers are valid until this object is closed, moved from or destroyed; those of a
    /// temporary object are a copy.
    auto shape() const & noexcept { return numbers<dimensions>(this->held_.shape); }
    auto shape() const && noexcept { return numbers<number_list>(this->held_.shape); }
    /// Returns the bytes between elements along each dimension, valid as those of shape().
    auto strides() const & noexcept { return numbers<dimensions>(this->held_.strides); }
    auto strides() const && noexcept { return numbers<number_list>(this->held_.strides); }

    /// Returns the element at an index, one number for each dimension. Only an assert checks it.
    template <class... Index>
    T &operator()(Index... index) const noexcept {
        check_count<Index...>();
        const std::int64_t at[] = {static_cast<std::int64_t>(index)..., 0};
        assert(detail::inside(this->held_.shape, at, sizeof...(index)) &&
               "the index is outside the array");
        return element(at, sizeof...(index));
    }

    /// Returns the element at an index of an array of one dimension.
    template <class Index>
    T &operator[](Index index) const noexcept {
        return (*this)(index);
    }

    /// Returns the element at an index. Throws out_of_bounds if the array has none there.
    template <class... Index>
    T &at(Index... index) const {
        check_count<Index...>();
        const std::int64_t at[] = {static_cast<std::int64_t>(index)..., 0};
        if (!detail::inside(this->held_.shape, at, sizeof...(index)))
            failure(SHMA_ERROR_OUT_OF_BOUNDS, 0,
                    "out of bounds: the array has no element at this index")
                .raise();
        return element(at, sizeof...(index));
    }

    /// Iterates over the elements in C order. The iterators of a contiguous array are pointers;
    /// those of a strided one have random access. They are valid as long as the array.
    iterator begin() const noexcept { return iterator_at(0); }
    iterator end() const noexcept { return iterator_at(static_cast<std::ptrdiff_t>(this->size())); }

    /// Sets all elements to a value.
    template <class U = T, std::enable_if_t<!std::is_const_v<U>, int> = 0>
    void fill(const value_type &value) const {
        std::fill(begin(), end(), value);
    }

#ifdef __cpp_lib_span
    /// Returns all elements of a contiguous array.
    std::span<T> span() const noexcept {
        static_assert(lies_side_by_side, "a span needs elements side by side: use "
                                         "as<T>(), which checks it");
        return {data(), this->size()};
    }
#endif

#ifdef __cpp_lib_mdspan
    /// Returns the array as a std::mdspan: with std::layout_right if it is contiguous, else with
    /// std::layout_stride. Throws invalid_argument if it has another number of dimensions, strides
    /// that are not positive or no multiple of the itemsize, or elements that overlap, or if this
    /// object is null.
    template <std::size_t Dimensions = Rank>
    auto mdspan() const {
        return try_mdspan<Dimensions>().value();
    }
    template <std::size_t Dimensions = Rank>
    auto try_mdspan() const {
        static_assert(Dimensions != dynamic_rank, "say the number of dimensions: mdspan<2>()");
        static_assert(Rank == dynamic_rank || Rank == Dimensions, "the array has another Rank");
        return detail::mdspan_of<T, Dimensions, lies_side_by_side>(this->held_);
    }
#endif

  private:
    friend base;
    friend class detail::array_base;
    template <class>
    friend class detail::with_views;

    array(detail::held made, detail::already_checked) noexcept
        : base(kept_const(std::move(made))) {}

    /// Says that the elements are const if T is, so that no later conversion loses it.
    static detail::held kept_const(detail::held made) noexcept {
        made.is_readonly = made.is_readonly || (std::is_const_v<T> && made.owner != nullptr);
        return made;
    }

    static result<array> checked(result<detail::held> made) {
        if (!made)
            return made.error();
        auto elements = detail::check_elements(*made, detail::wanted<T>());
        return elements ? of_layout(std::move(*made)) : result<array>(elements.error());
    }

    /// Takes a view of an array with these elements.
    static result<array> of_view(detail::held made) {
        if (!detail::is_aligned(made, alignof(T)))
            return detail::invalid("invalid strides: elements would not be aligned");
        return of_layout(std::move(made));
    }

    static result<array> of_layout(detail::held made) {
        if (auto layout = detail::check_layout(made, Rank, lies_side_by_side); !layout)
            return layout.error();
        return array(std::move(made), detail::already_checked());
    }

    static result<void> check(const shape_of<Rank> &shape, const options &chosen) {
        if (lies_side_by_side && chosen.order != order::c && shape.size() > 1)
            return detail::invalid("invalid order: a contiguous array is in C order; a "
                                   "strided_array may be in any");
        if (auto checked = detail::check_options(chosen); !checked)
            return checked.error();
        return shape.check();
    }

    template <class... Index>
    static constexpr void check_count() noexcept {
        static_assert((std::is_integral_v<Index> && ...), "an index consists of integers");
        static_assert(Rank == dynamic_rank || sizeof...(Index) == Rank,
                      "an index has as many numbers as the array has dimensions");
    }

    T &element(const std::int64_t *index, std::size_t count) const noexcept {
        std::int64_t at = 0;
        if constexpr (lies_side_by_side) {
            for (std::size_t dimension = 0; dimension < count; ++dimension)
                at = at * this->held_.shape[dimension] + index[dimension];
            return data()[at];
        } else {
            for (std::size_t dimension = 0; dimension < count; ++dimension)
                at += index[dimension] * this->held_.strides[dimension];
            return *reinterpret_cast<T *>(this->held_.first + at);
        }
    }

    iterator iterator_at(std::ptrdiff_t position) const noexcept {
        if constexpr (lies_side_by_side)
            return data() + position;
        else
            return {this->held_.first, this->held_.shape, this->held_.strides, position};
    }

    template <class OfAnyRank>
    static auto numbers(dimensions of_all) noexcept {
        if constexpr (Rank == dynamic_rank) {
            return OfAnyRank(of_all);
        } else {
            std::array<std::int64_t, Rank> copied{};
            std::copy(of_all.begin(), of_all.end(), copied.begin());
            return copied;
        }
    }
};

template <class T, std::size_t Rank>
result<detail::array_for<T, Rank>> detail::array_base::try_as() const {
    return array_for<T, Rank>::checked(held_);
}

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_ARRAY_HPP
