// shmarray: typed n-dimensional arrays in shared memory, the same in every language.
//
//     auto image = shmarray::array<std::uint8_t, 3>::create({480, 640, 3});
//     for (std::uint8_t &value : image)                // its iterators are pointers
//         value = 255;
//     auto [rows, columns, channels] = image.shape();
//     image(rows - 1, 0, 2) = 7;                       // two numbers would not compile
//     send(image.handle());                            // one line of text, for any process
//
//     // Elsewhere. Throws unless it is an array of std::uint8_t with three dimensions.
//     auto frame = shmarray::array<const std::uint8_t, 3>::attach(received);
//     auto every_second = frame.slice(0, 0, shmarray::far_end, 2); // a strided_array
//
// array<T, Rank, Layout>
// * T is an integer (char and long long, too), an enumeration, bool, std::byte, float16, bfloat16,
//   float, double, std::complex of these two, a type of <stdfloat> of these sizes, or another type
//   with struct_traits. As with std::span it has the const: an array<const T> is read-only, and
//   attach() of such a type maps the pages read-only.
// * Rank is the number of dimensions. Without it, it is known at run time.
// * Layout is contiguous (in C order) or strided: strided_array<T, Rank>.
// * An array converts to one that says less, and to any_array, whose dtype is known at run time.
//   Such objects share the memory and cost no further view.
//
// An array object owns a hold on memory, not the memory itself. Moving it is cheap. Copying it does
// not compile, because a copy could be mistaken for a copy of the elements; view() returns a second
// object for the same memory. An object of this library that was moved from, closed or
// default-constructed is null: it is false as a bool, its data() is null, its size() is 0, and it
// can be assigned to. empty() says only that there are no elements.
//
// list<T>, attached by a handle or a name, is an immutable sequence of numbers, arrays, strings,
// bytes, records or lists: its [i], its iterators and field<T>("label") return views of the memory.
// any_list is one whose items are known at run time. dict<Key, Value> is a frozen mapping: find(),
// at() and contains() find a key in the shared memory, and its iterators return pairs.
//
// A function that fails throws an exception. Each but at() has a twin try_… that returns a
// result<T>, as std::expected does; the twin of the constructor from an any_array is try_as().
// Programs that are compiled with -fno-exceptions use the twins:
//
//     auto floats = shmarray::array<float, 2>::try_attach(received);
//     floats ? use(*floats) : log(floats.error().message());
//
// Such files link with files that are compiled with exceptions. The types here then differ between
// the two, so such files pass each other handles or shma_array pointers, not objects.
//
// Another process may write an element while this one reads it. To avoid data races, write the data
// first and send the handle afterwards.
#ifndef SHMARRAY_HPP
#define SHMARRAY_HPP

#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>

#include <shmarray.h>
#include <shmarray/allocator.hpp>
#include <shmarray/any_array.hpp>
#include <shmarray/any_list.hpp>
#include <shmarray/array.hpp>
#include <shmarray/array_view.hpp>
#include <shmarray/bfloat16.hpp>
#include <shmarray/channel.hpp>
#include <shmarray/dict.hpp>
#include <shmarray/error.hpp>
#include <shmarray/float16.hpp>
#include <shmarray/item.hpp>
#include <shmarray/list.hpp>
#include <shmarray/message.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/npy.hpp>
#include <shmarray/result.hpp>
#include <shmarray/segment.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// Creates an array and copies private memory into it. Strides are in bytes; the default is C
/// order.
template <class T, std::size_t Rank = dynamic_rank>
result<array<T, Rank>> try_share(const T *data, const detail::shape_argument<Rank> &shape,
                                 const number_list &strides = {}, const options &chosen = {}) {
    return array<T, Rank>::try_share(data, shape, strides, chosen);
}
template <class T, std::size_t Rank = dynamic_rank>
array<T, Rank> share(const T *data, const detail::shape_argument<Rank> &shape,
                     const number_list &strides = {}, const options &chosen = {}) {
    return try_share<T, Rank>(data, shape, strides, chosen).value();
}

/// Creates an array of one dimension and copies a std::vector, std::array or std::span into it.
template <class List, class T = std::remove_cv_t<
                          std::remove_pointer_t<decltype(std::data(std::declval<const List &>()))>>>
result<array<T, 1>> try_share(const List &values, const options &chosen = {}) {
    return array<T, 1>::try_share(std::data(values), {std::size(values)}, {}, chosen);
}
template <class List, class T = std::remove_cv_t<
                          std::remove_pointer_t<decltype(std::data(std::declval<const List &>()))>>>
array<T, 1> share(const List &values, const options &chosen = {}) {
    return try_share(values, chosen).value();
}

/// Returns the number of bytes of array data that this library has copied in this process.
inline std::uint64_t copied_bytes() noexcept { return shma_copied_bytes(); }

/// Returns the version of the library, such as "0.1.0".
inline std::string version() { return shma_version(); }

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_HPP
