// shmarray: typed n-dimensional arrays in shared memory, the same in every language.
//
//     auto a = shmarray::array<std::int32_t>::create({2, 3, 3});
//     send(a.handle());       // one line of text, to any process …
//     auto b = shmarray::array<std::int32_t>::attach(received); // … which has the same memory
//     a(0, 1, 2) = 5;
//
// An array object is a hold on memory, not the memory: moving it is cheap, and copying it does
// not compile, since a reader could take the copy for a copy of the elements. view() says "the
// same memory once more". As with std::span, const is in the element type: array<const T> reads,
// and attached as such its pages refuse a store. A moved-from or default-made array is empty: it
// can be destroyed, assigned to, and asked for its size.
//
// Another process may write an element while this one reads it. Hand data over by writing it
// first and sending the handle then.
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

/// A new array with a copy of private memory. Strides (C order if not given) are in bytes.
template <class T>
array<T> share(const T *data, const std::vector<std::int64_t> &shape,
               const std::vector<std::int64_t> &strides = {}, const options &chosen = {}) {
    const std::int64_t *steps = detail::numbers(strides, shape.size());
    const shma_options made = detail::plain(chosen);
    return array<T>(detail::produce(shma_array_share, static_cast<const void *>(data),
                                    array<T>::dtype_number, shape.size(), shape.data(), steps,
                                    &made));
}

/// A new array of one dimension with a copy of a vector.
template <class T>
array<T> share(const std::vector<T> &values, const options &chosen = {}) {
    return share(values.data(), {static_cast<std::int64_t>(values.size())}, {}, chosen);
}

/// Bytes of array data that this process has copied with this library.
inline std::uint64_t copied_bytes() noexcept { return shma_copied_bytes(); }

/// The library's version, such as "0.1.0".
inline std::string version() { return shma_version(); }

} // namespace shmarray

#endif // SHMARRAY_HPP
