// Views: the same memory with another shape or strides.
#ifndef SHMARRAY_VIEWS_HPP
#define SHMARRAY_VIEWS_HPP

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <shmarray.h>
#include <shmarray/held.hpp>
#include <shmarray/layout.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {
namespace detail {

/// The types of an array's views.
template <class Self>
struct views_of {
    template <std::size_t>
    using reshaped = Self;
    template <std::size_t>
    using viewed = Self;
    template <std::size_t>
    using restrided = Self;
    using sliced = Self;
    using selected = Self;
};

template <class T, std::size_t Rank, class Layout>
struct views_of<array<T, Rank, Layout>> {
    template <std::size_t NewRank>
    using reshaped = array<T, NewRank, Layout>;
    template <std::size_t NewRank>
    using viewed = array<T, NewRank, contiguous>;
    template <std::size_t NewRank>
    using restrided = array<T, NewRank, strided>;
    using sliced = array<T, Rank, strided>;
    using selected = array<T, Rank == dynamic_rank || Rank == 0 ? Rank : Rank - 1, strided>;
};

/// The views of an array. A view keeps the element type and its const, and holds the memory itself:
/// it stays valid after the array is closed.
template <class Self>
class with_views : public array_base {
    using types = views_of<Self>;

  public:
    /// Returns a second object for the same memory.
    Self view() const { return share(); }

    /// Returns a view of that shape in C order without gaps, which begins at the first element;
    /// this array's strides do not matter. Throws out_of_bounds if it ends outside the memory that
    /// the array spans.
    template <std::size_t Rank = dynamic_rank>
    typename types::template viewed<Rank> view(const shape_argument<Rank> &shape) const {
        return try_view<Rank>(shape).value();
    }
    template <std::size_t Rank = dynamic_rank>
    result<typename types::template viewed<Rank>>
    try_view(const shape_argument<Rank> &shape) const {
        return make<typename types::template viewed<Rank>>(shape, {}, 0);
    }

    /// Returns a view with any strides and an offset from the first element, both in bytes. Throws
    /// out_of_bounds if an element of the view is outside the memory that the array spans.
    template <std::size_t Rank = dynamic_rank>
    typename types::template restrided<Rank> view(const shape_argument<Rank> &shape,
                                                  const number_list &strides,
                                                  std::int64_t offset = 0) const {
        return try_view<Rank>(shape, strides, offset).value();
    }
    template <std::size_t Rank = dynamic_rank>
    result<typename types::template restrided<Rank>> try_view(const shape_argument<Rank> &shape,
                                                              const number_list &strides,
                                                              std::int64_t offset = 0) const {
        return make<typename types::template restrided<Rank>>(shape, strides, offset);
    }

    /// Returns the same elements in the same C order in another shape. Throws invalid_argument if
    /// it has another number of elements, or if only a copy could have it.
    template <std::size_t Rank = dynamic_rank>
    typename types::template reshaped<Rank> reshape(const shape_argument<Rank> &shape) const {
        return try_reshape<Rank>(shape).value();
    }
    template <std::size_t Rank = dynamic_rank>
    result<typename types::template reshaped<Rank>>
    try_reshape(const shape_argument<Rank> &shape) const {
        if (auto checked = shape.check(); !checked)
            return checked.error();
        return wrap<typename types::template reshaped<Rank>>(
            produce(shma_array_reshape, get(), shape.size(), shape.data()));
    }

    /// Returns a view of the elements start, start + step, … before stop. Negative bounds count
    /// from the end; far_end leaves a bound open.
    typename types::sliced slice(std::size_t dimension, std::int64_t start = far_end,
                                 std::int64_t stop = far_end, std::int64_t step = 1) const {
        return try_slice(dimension, start, stop, step).value();
    }
    result<typename types::sliced> try_slice(std::size_t dimension, std::int64_t start = far_end,
                                             std::int64_t stop = far_end,
                                             std::int64_t step = 1) const {
        return wrap<typename types::sliced>(
            produce(shma_array_slice, get(), dimension, start, stop, step));
    }

    /// Returns a view of the elements at one index of a dimension, without that dimension. A
    /// negative index counts from the end.
    typename types::selected select(std::size_t dimension, std::int64_t index) const {
        return try_select(dimension, index).value();
    }
    result<typename types::selected> try_select(std::size_t dimension, std::int64_t index) const {
        return wrap<typename types::selected>(produce(shma_array_select, get(), dimension, index));
    }

    /// Returns a view with the dimensions in reverse order, or in the order of axes.
    typename types::sliced transpose(const number_list &axes = {}) const {
        return try_transpose(axes).value();
    }
    result<typename types::sliced> try_transpose(const number_list &axes = {}) const {
        std::size_t order[most_dimensions] = {};
        if (axes.size() != 0 && axes.size() != ndim())
            return invalid("invalid axes: their number is not that of the dimensions");
        for (std::size_t at = 0; at < axes.size(); ++at)
            order[at] = static_cast<std::size_t>(axes[at]);
        return wrap<typename types::sliced>(
            produce(shma_array_transpose, get(), axes.size() == 0 ? nullptr : order));
    }

  protected:
    with_views() = default;
    explicit with_views(held from) noexcept : array_base(std::move(from)) {}

  private:
    Self share() const { return Self(held_, already_checked()); }

    template <class View, class Shape>
    result<View> make(const Shape &shape, const number_list &strides, std::int64_t offset) const {
        if (auto checked = shape.check(); !checked)
            return checked.error();
        if (auto checked = check_strides(shape, strides); !checked)
            return checked.error();
        return wrap<View>(
            produce(shma_array_view, get(), shape.size(), shape.data(), optional(strides), offset));
    }

    /// Returns the view with this array's element type and const.
    template <class View>
    result<View> wrap(result<held> made) const {
        if (!made)
            return made.error();
        made->is_readonly = made->is_readonly || is_readonly();
        return View::of_view(std::move(*made));
    }
};

} // namespace detail
} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_VIEWS_HPP
