// shmarray: typed n-dimensional arrays in shared memory, the same in every language.
//
//     auto a = shmarray::array<std::int32_t>::create({2, 3, 3});
//     send(a.handle());                                         // one line of text
//     auto b = shmarray::array<std::int32_t>::attach(received); // the same memory, elsewhere
//     a(0, 1, 2) = 5;
//
// An array object owns a hold on memory, not the memory itself. Moving it is cheap. Copying it does
// not compile, because a copy could be mistaken for a copy of the elements; view() returns a second
// object for the same memory. As with std::span, the element type has the const: array<const T> is
// read-only, and attach() of such a type maps the pages read-only. An array that was moved from or
// default-constructed is empty: it can be destroyed and assigned to, and its size is 0.
//
// Another process may write an element while this one reads it. To avoid data races, write the data
// first and send the handle afterwards.
#ifndef SHMARRAY_HPP
#define SHMARRAY_HPP

#include <cstdint>
#include <string>
#include <vector>

#include <shmarray.h>
#include <shmarray/any_array.hpp>
#include <shmarray/array.hpp>
#include <shmarray/error.hpp>
#include <shmarray/float16.hpp>
#include <shmarray/message.hpp>
#include <shmarray/segment.hpp>

namespace shmarray {

/// Creates an array and copies private memory into it. Strides are in bytes; the default is C
/// order.
template <class T>
array<T> share(const T *data, const std::vector<std::int64_t> &shape,
               const std::vector<std::int64_t> &strides = {}, const options &chosen = {}) {
    const std::int64_t *steps = detail::numbers(strides, shape.size());
    const shma_options made = detail::plain(chosen);
    return array<T>(detail::produce(shma_array_share, static_cast<const void *>(data),
                                    array<T>::dtype_number, shape.size(), shape.data(), steps,
                                    &made));
}

/// Creates an array of one dimension and copies a vector into it.
template <class T>
array<T> share(const std::vector<T> &values, const options &chosen = {}) {
    return share(values.data(), {static_cast<std::int64_t>(values.size())}, {}, chosen);
}

/// Returns the number of bytes of array data that this library has copied in this process.
inline std::uint64_t copied_bytes() noexcept { return shma_copied_bytes(); }

/// Returns the version of the library, such as "0.1.0".
inline std::string version() { return shma_version(); }

} // namespace shmarray

#endif // SHMARRAY_HPP
