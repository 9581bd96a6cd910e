// An owner of an array of the C ABI, and the members of every array object.
#ifndef SHMARRAY_HELD_HPP
#define SHMARRAY_HELD_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <shmarray.h>
#include <shmarray/dtype.hpp>
#include <shmarray/iterator.hpp>
#include <shmarray/layout.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

class any_array;
class sendable;
template <class T, std::size_t Rank = dynamic_rank, class Layout = contiguous>
class array;

/// An array of any strides: a view that leaves elements out, is transposed or reversed, or an array
/// that another program may have made so.
template <class T, std::size_t Rank = dynamic_rank>
using strided_array = array<T, Rank, strided>;

namespace detail {

/// The array type that T names: T itself if it is one, else the array with elements of T.
template <class T, std::size_t Rank, class Layout>
struct array_named {
    using type = array<T, Rank, Layout>;
};
template <class T, std::size_t Rank, class Layout>
struct array_named<array<T, Rank, Layout>, dynamic_rank, contiguous> {
    using type = array<T, Rank, Layout>;
};
template <class T, std::size_t Rank = dynamic_rank, class Layout = contiguous>
using array_for = typename array_named<T, Rank, Layout>::type;

/// Says that a held was checked for the type that is made of it.
struct already_checked {};

/// An owner of an array of the C ABI, with the array's facts. Copies need no further view.
struct held {
    std::shared_ptr<shma_array> owner;
    unsigned char *first = nullptr;
    dimensions shape, strides;
    std::size_t size = 0;
    bool is_readonly = false; ///< its pages are read-only, or its elements were const
};

inline held hold(shma_array *produced) {
    return {std::shared_ptr<shma_array>(produced, shma_array_close),
            static_cast<unsigned char *>(shma_array_data(produced)),
            {shma_array_shape(produced), shma_array_ndim(produced)},
            {shma_array_strides(produced), shma_array_ndim(produced)},
            shma_array_size(produced),
            shma_array_is_readonly(produced) != 0};
}

/// Calls a function of the C ABI that outputs an array.
template <class Function, class... Arguments>
result<held> produce(Function function, Arguments... arguments) {
    shma_array *produced = nullptr;
    auto called = call(function, arguments..., &produced);
    if (!called)
        return called.error();
    return hold(produced);
}

/// Calls a function of the C ABI that writes a text about an array or a channel.
template <class Function, class Object>
result<std::string> text_of(Function function, const Object *from) {
    char most[1024]; // enough for most handles
    std::size_t needed = 0;
    auto written = call(function, from, most, sizeof most, &needed);
    if (written)
        return std::string(most, needed - 1); // without the terminating zero
    if (written.error().status() != SHMA_ERROR_TEXT_TOO_SHORT)
        return written.error();
    std::string text(needed, '\0');
    written = call(function, from, text.data(), text.size(), &needed);
    if (!written)
        return written.error();
    text.resize(needed - 1);
    return text;
}

inline bool has_order(const held &array, order in) noexcept {
    return shma_array_is_contiguous(array.owner.get(), static_cast<shma_order>(in)) != 0;
}

/// Returns whether all elements are aligned. They may not be: other languages make arrays of the
/// fields of packed structures.
inline bool is_aligned(const held &array, std::size_t alignment) noexcept {
    const auto step = static_cast<std::int64_t>(alignment);
    bool aligned = reinterpret_cast<std::uintptr_t>(array.first) % alignment == 0;
    for (std::size_t dimension = 0; aligned && dimension < array.shape.size(); ++dimension)
        aligned = array.shape[dimension] == 1 || array.strides[dimension] % step == 0;
    return aligned || array.size == 0;
}

/// Returns a failure unless the elements have that dtype and may be used as such in C++.
inline result<void> check_elements(const held &array, const wanted_dtype &wanted) {
    const shma_dtype found = shma_array_dtype(array.owner.get());
    bool is_same = found == wanted.number;
    if (!is_same || wanted.text != nullptr) {
        auto text = text_of(shma_array_dtype_text, array.owner.get());
        if (!text)
            return text.error();
        is_same = is_same && *text == wanted.text;
        const char *const name = wanted.text ? wanted.text : shma_dtype_name(wanted.number);
        if (!is_same)
            return failure(SHMA_ERROR_DTYPE_MISMATCH, 0,
                           "the array's dtype is " + *text + ", not " + name);
    }
    if (array.is_readonly && !wanted.is_const)
        return failure(SHMA_ERROR_READ_ONLY, 0, "the array is read-only: its elements are const");
    if (!is_aligned(array, wanted.alignment))
        return invalid("invalid strides: elements are not aligned as C++ needs it; any_array reads "
                       "their bytes");
    return {};
}

/// Returns a failure unless the array has that Rank and Layout.
inline result<void> check_layout(const held &array, std::size_t rank, bool is_contiguous) {
    if (rank != dynamic_rank && array.shape.size() != rank)
        return failure(SHMA_ERROR_INVALID_ARGUMENT, 0,
                       "invalid shape: the array has " + std::to_string(array.shape.size()) +
                           " dimensions, not " + std::to_string(rank));
    if (is_contiguous && !has_order(array, order::c))
        return invalid("invalid strides: the elements do not lie side by side in C order; a "
                       "strided_array has any strides");
    return {};
}

/// The members of every array object. An object that was moved from, closed or default-constructed
/// is null: its size is 0, its data() null, and it can be assigned to.
class array_base {
  public:
    /// Returns whether there is an array.
    explicit operator bool() const noexcept { return held_.owner != nullptr; }

    /// Releases the array, as the destructor does. The object is then null.
    void close() noexcept { held_ = held(); }

    /// Returns the number of dimensions.
    std::size_t ndim() const noexcept { return held_.shape.size(); }
    /// Returns the number of elements.
    std::size_t size() const noexcept { return held_.size; }
    /// Returns whether there are no elements.
    bool empty() const noexcept { return size() == 0; }
    /// Returns the size of one element in bytes.
    std::size_t itemsize() const noexcept { return shma_array_itemsize(get()); }
    /// Returns the number of elements along each dimension. The numbers are valid until this object
    /// is closed, moved from or destroyed; those of a temporary object are a copy.
    dimensions shape() const & noexcept { return held_.shape; }
    number_list shape() const && noexcept { return number_list(held_.shape); }
    /// Returns the bytes between elements along each dimension, valid as those of shape().
    dimensions strides() const & noexcept { return held_.strides; }
    number_list strides() const && noexcept { return number_list(held_.strides); }
    /// Returns SHMA_INT32 and so on, or SHMA_OPAQUE for elements that C has no type for.
    shma_dtype dtype() const noexcept { return shma_array_dtype(get()); }
    /// Returns whether the elements must not be written: the pages are read-only, so that a store
    /// faults, or the object is or comes from an array<const T>.
    bool is_readonly() const noexcept { return held_.is_readonly; }
    /// Returns whether the elements lie side by side in that order.
    bool is_contiguous(order in = order::c) const noexcept { return has_order(held_, in); }
    /// Returns whether the address of every element is a multiple of that many bytes. An array with
    /// an element type is aligned for that type.
    bool is_aligned(std::size_t alignment) const noexcept {
        return alignment > 0 && detail::is_aligned(held_, alignment);
    }

    /// Returns the dtype as it stands in a handle: "<i4", or the JSON of a structured type.
    std::string dtype_text() const { return try_dtype_text().value(); }
    result<std::string> try_dtype_text() const { return text_of(shma_array_dtype_text, get()); }

    /// Returns the handle: one line of text that any process on this machine can attach.
    std::string handle() const { return try_handle().value(); }
    result<std::string> try_handle() const { return text_of(shma_array_handle, get()); }

    /// Returns a handle to be sent out of band, such as over a socket or in a file or a database.
    /// Its ticket holds the array even after this process ends. The ticket is released when the
    /// handle is attached or discarded, or when the last process of this process's family ends.
    /// Each call creates a ticket of its own.
    std::string handle_to_send() const { return try_handle_to_send().value(); }
    result<std::string> try_handle_to_send() const {
        return text_of(shma_array_handle_to_send, get());
    }

    /// Returns the array as a tensor of DLPack 1.1: the same memory, which stays until somebody has
    /// called the tensor's deleter. A tensor of an array that is_readonly() says so. Throws
    /// error if DLPack has no such type, invalid_argument if a stride is no multiple of the item
    /// size.
    [[nodiscard]] ::DLManagedTensorVersioned *to_dlpack() const { return try_to_dlpack().value(); }
    [[nodiscard]] result<::DLManagedTensorVersioned *> try_to_dlpack() const {
        ::DLManagedTensorVersioned *made = nullptr;
        auto called =
            call(shma_array_to_dlpack, get(),
                 static_cast<shma_access>(is_readonly() ? SHMA_READ_ONLY : SHMA_READ_WRITE), &made);
        if (!called)
            return called.error();
        return made;
    }

    /// Returns a copy of the elements' bytes, in C order.
    std::vector<unsigned char> bytes() const {
        const std::size_t each = itemsize();
        std::vector<unsigned char> copy(size() * each);
        cursor from(shape(), strides(), 0);
        for (std::size_t to = 0; to < copy.size(); to += each, from.advance(1))
            std::memcpy(copy.data() + to, held_.first + from.offset(), each);
        return copy;
    }

    /// Returns the same memory as elements of T, or as an array type, without a further view:
    /// as<float>(), as<const float, 2>(), as<strided_array<float>>(). Throws dtype_mismatch if the
    /// dtype differs, read_only if the elements are const and T is not, invalid_argument if they
    /// have not that Rank and Layout.
    ///
    /// Two types of one size and sign, such as long and long long, have the same dtype, but C++
    /// assumes that pointers to them do not alias: use one of them at a time.
    template <class T, std::size_t Rank = dynamic_rank>
    array_for<T, Rank> as() const {
        return try_as<T, Rank>().value();
    }
    template <class T, std::size_t Rank = dynamic_rank>
    result<array_for<T, Rank>> try_as() const;

    /// Returns the array for calls of the C ABI; this object keeps its ownership.
    const shma_array *get() const noexcept { return held_.owner.get(); }

  protected:
    friend class shmarray::sendable;

    array_base() = default;
    explicit array_base(held from) noexcept : held_(std::move(from)) {}
    array_base(array_base &&other) noexcept : held_(std::exchange(other.held_, held())) {}
    array_base &operator=(array_base &&other) noexcept {
        held_ = std::exchange(other.held_, held());
        return *this;
    }
    ~array_base() = default;

    held held_;

    // A conversion between array types reaches the held of the other object by these.
    static const held &held_of(const array_base &other) noexcept { return other.held_; }
    static held taken_from(array_base &other) noexcept {
        return std::exchange(other.held_, held());
    }
};

template <class Type>
inline constexpr bool is_array = std::is_base_of_v<array_base, std::decay_t<Type>>;

} // namespace detail
} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_HELD_HPP
