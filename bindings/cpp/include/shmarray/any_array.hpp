// An array whose dtype is known only at run time, with all members that need no element type.
#ifndef SHMARRAY_ANY_ARRAY_HPP
#define SHMARRAY_ANY_ARRAY_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <shmarray.h>
#include <shmarray/error.hpp>

namespace shmarray {

/// The access to an array that is attached without an element type. For array<T>, const T says it.
enum class access : std::int32_t { read_write = SHMA_READ_WRITE, read_only = SHMA_READ_ONLY };

/// The order of elements in memory: the last (c) or the first (f) dimension varies fastest.
enum class order : std::int32_t { c = SHMA_ORDER_C, f = SHMA_ORDER_F };

/// An open bound of a slice. As start it stands for the first element in the direction of the step,
/// as stop for the end behind the last one.
inline constexpr std::int64_t far_end = SHMA_END;

/// Creation options.
struct options {
    std::string name = {};     ///< a name for the array, or none
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

class any_array;
template <class T>
class array;

namespace detail {

/// Walks through elements of any strides in C order. It has the position and the byte offset.
class cursor {
  public:
    cursor() = default;
    cursor(dimensions shape, dimensions strides, std::size_t position) noexcept
        : shape_(shape), strides_(strides), position_(position) {}

    std::size_t position() const noexcept { return position_; }
    std::int64_t offset() const noexcept { return offset_; }

    /// A dimension is at its end if the position, counted in steps of it, is a multiple of its
    /// count.
    void next() noexcept {
        std::size_t steps = ++position_;
        for (std::size_t dimension = shape_.size(); dimension-- > 0;) {
            const auto count = static_cast<std::size_t>(shape_[dimension]);
            if (steps % count != 0) {
                offset_ += strides_[dimension];
                return;
            }
            offset_ -= (shape_[dimension] - 1) * strides_[dimension];
            steps /= count;
        }
    }

  private:
    dimensions shape_, strides_;
    std::size_t position_ = 0;
    std::int64_t offset_ = 0;
};

/// Returns the numbers of a vector for the C ABI; NULL for strides that are not given.
inline const std::int64_t *numbers(const std::vector<std::int64_t> &strides, std::size_t ndim) {
    if (!strides.empty() && strides.size() != ndim)
        raise(SHMA_ERROR_INVALID_ARGUMENT, 0,
              "invalid strides: their number is not that of the dimensions");
    return strides.empty() ? nullptr : strides.data();
}

inline shma_options plain(const options &chosen) {
    shma_options made = SHMA_OPTIONS_INIT;
    made.name = chosen.name.empty() ? nullptr : chosen.name.c_str();
    made.persist = chosen.persist ? 1 : 0;
    made.uninitialized = chosen.uninitialized ? 1 : 0;
    made.mode = chosen.mode;
    made.order = static_cast<shma_order>(chosen.order);
    return made;
}

/// Returns whether the array has an element at that index. An object without an array has none.
inline bool inside(dimensions shape, const std::int64_t *index, std::size_t count) noexcept {
    bool in = shape.begin() != nullptr && count == shape.size();
    for (std::size_t dimension = 0; in && dimension < count; ++dimension)
        in = index[dimension] >= 0 && index[dimension] < shape[dimension];
    return in;
}

template <class Function>
std::string text_of(Function function, const shma_array *from) {
    std::size_t needed = 0;
    function(from, nullptr, 0, &needed, nullptr);
    std::string text(needed, '\0');
    call(function, from, text.data(), text.size(), &needed);
    text.resize(needed - 1); // without the terminating zero
    return text;
}

template <class Function, class... Arguments>
any_array produce(Function function, Arguments... arguments);

} // namespace detail

/// An array whose dtype is known only at run time, with all members that need no element type.
class any_array {
  public:
    any_array() = default;

    /// Takes ownership of an array of the C ABI.
    explicit any_array(shma_array *produced) noexcept : held_(produced) {}

    /// Creates an array: of zeros, unless chosen.uninitialized is set. The dtype's text is such as
    /// "<i4", "|V3" or a structured type's JSON. Throws no_space, already_exists or
    /// invalid_argument.
    static any_array create(const std::string &dtype_text, const std::vector<std::int64_t> &shape,
                            const options &chosen = {}) {
        shma_options with_dtype = detail::plain(chosen);
        with_dtype.dtype_text = dtype_text.c_str();
        return detail::produce(shma_array_create, SHMA_OPAQUE, shape.size(), shape.data(),
                               &with_dtype);
    }

    /// Attaches the array that has this handle or this name. Throws not_found, stale_handle,
    /// invalid_handle or permission_denied.
    static any_array attach(const std::string &handle_or_name, access wanted = access::read_write) {
        return detail::produce(shma_array_attach, handle_or_name.c_str(),
                               static_cast<shma_access>(wanted));
    }

    /// Returns the number of dimensions.
    std::size_t ndim() const noexcept { return shma_array_ndim(get()); }
    /// Returns the number of elements.
    std::size_t size() const noexcept { return shma_array_size(get()); }
    /// Returns the size of one element in bytes.
    std::size_t itemsize() const noexcept { return shma_array_itemsize(get()); }
    /// Returns the number of elements along each dimension. The numbers are valid as long as this
    /// object.
    dimensions shape() const noexcept { return {shma_array_shape(get()), ndim()}; }
    /// Returns the bytes between elements along each dimension. The numbers are valid as long as
    /// this object.
    dimensions strides() const noexcept { return {shma_array_strides(get()), ndim()}; }
    /// Returns a pointer to the first element. It is valid as long as this object.
    void *data() const noexcept { return shma_array_data(get()); }
    /// Returns SHMA_INT32 and so on, or SHMA_OPAQUE for elements that C has no type for.
    shma_dtype dtype() const noexcept { return shma_array_dtype(get()); }
    /// Returns the dtype as it stands in a handle: "<i4", or the JSON of a structured type.
    std::string dtype_text() const { return detail::text_of(shma_array_dtype_text, get()); }
    /// Returns whether stores to the elements fault.
    bool is_readonly() const noexcept { return shma_array_is_readonly(get()) != 0; }
    /// Returns whether the elements lie side by side in that order.
    bool is_contiguous(order in = order::c) const noexcept {
        return shma_array_is_contiguous(get(), static_cast<shma_order>(in)) != 0;
    }

    /// Returns the handle: one line of text that any process on this machine can attach.
    std::string handle() const { return detail::text_of(shma_array_handle, get()); }

    /// Returns a handle to be sent out of band, such as over a socket or in a file or a database.
    /// Its ticket holds the array even after this process ends. The ticket is released when the
    /// handle is attached or discarded, or when the last process of this process's family ends.
    /// Each call creates a ticket of its own.
    std::string handle_to_send() const { return detail::text_of(shma_array_handle_to_send, get()); }

    /// Returns a second object for the same memory.
    any_array view() const { return view(shape(), strides()); }

    /// Returns a view: the same memory with another shape. Strides (by default C order) and offset,
    /// from the first element, are in bytes. Throws out_of_bounds if an element of the view is
    /// outside the memory that the array spans.
    any_array view(const std::vector<std::int64_t> &shape,
                   const std::vector<std::int64_t> &strides = {}, std::int64_t offset = 0) const {
        const std::int64_t *steps = detail::numbers(strides, shape.size());
        return detail::produce(shma_array_view, get(), shape.size(), shape.data(), steps, offset);
    }

    /// Returns a view of the elements start, start + step, … before stop. Negative bounds count
    /// from the end; far_end leaves a bound open.
    any_array slice(std::size_t dimension, std::int64_t start = far_end,
                    std::int64_t stop = far_end, std::int64_t step = 1) const {
        return detail::produce(shma_array_slice, get(), dimension, start, stop, step);
    }

    /// Returns a view of the elements at one index of a dimension, without that dimension. A
    /// negative index counts from the end.
    any_array select(std::size_t dimension, std::int64_t index) const {
        return detail::produce(shma_array_select, get(), dimension, index);
    }

    /// Returns a view with the dimensions in reverse order, or in the order of axes.
    any_array transpose(const std::vector<std::size_t> &axes = {}) const {
        if (!axes.empty() && axes.size() != ndim())
            detail::raise(SHMA_ERROR_INVALID_ARGUMENT, 0,
                          "invalid axes: their number is not that of the dimensions");
        return detail::produce(shma_array_transpose, get(), axes.empty() ? nullptr : axes.data());
    }

    /// Returns a copy of the elements' bytes, in C order.
    std::vector<unsigned char> bytes() const {
        std::vector<unsigned char> copy(size() * itemsize());
        detail::cursor from(shape(), strides(), 0);
        for (std::size_t to = 0; to < copy.size(); to += itemsize(), from.next())
            std::memcpy(copy.data() + to,
                        static_cast<const unsigned char *>(data()) + from.offset(), itemsize());
        return copy;
    }

    /// Returns the same memory as elements of T. Throws dtype_mismatch if the dtype differs.
    template <class T>
    array<T> as() const;

    /// Returns the array for calls of the C ABI; this object keeps its ownership.
    const shma_array *get() const noexcept { return held_.get(); }

  private:
    struct closer {
        void operator()(shma_array *held) const noexcept { shma_array_close(held); }
    };
    std::unique_ptr<shma_array, closer> held_;
};

namespace detail {

template <class Function, class... Arguments>
any_array produce(Function function, Arguments... arguments) {
    shma_array *produced = nullptr;
    call(function, arguments..., &produced);
    return any_array(produced);
}

} // namespace detail

} // namespace shmarray

#endif // SHMARRAY_ANY_ARRAY_HPP
