// The dtypes of C++ types, and the trait by which a structure has one.
#ifndef SHMARRAY_DTYPE_HPP
#define SHMARRAY_DTYPE_HPP

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <shmarray.h>
#include <shmarray/float16.hpp>
#include <shmarray/mode.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// The dtype of a structure of your own. Its text is that which dtype_text() returns for an array
/// of another language, such as of NumPy's np.dtype(..., align=True):
///
///     struct particle {
///         float x;
///         std::uint8_t kind;
///     };
///     template <>
///     struct shmarray::struct_traits<particle> {
///         static constexpr const char *dtype =
///             R"({"descr":[["x","<f4"],["kind","|u1"],["","|V3"]],"itemsize":8})";
///     };
///
/// It does not compile if its size is not the structure's.
template <class T>
struct struct_traits;

namespace detail {

template <class... Elements>
struct type_list {};

/// The element types, in the order of their dtypes' numbers: SHMA_BOOL, SHMA_INT8 …
using element_types = type_list<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                                std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, float16,
                                float, double, std::complex<float>, std::complex<double>>;

/// The texts of their dtypes, in the same order.
inline constexpr const char *element_texts[SHMA_DTYPE_COUNT] = {"|b1", "|i1", "<i2", "<i4", "<i8",
                                                                "|u1", "<u2", "<u4", "<u8", "<f2",
                                                                "<f4", "<f8", "<c8", "<c16"};

/// Returns the position of T in the list, from 1 on; 0 if it is not there.
template <class T, class... Elements>
constexpr shma_dtype position_of(type_list<Elements...>) {
    static_assert(sizeof...(Elements) == SHMA_DTYPE_COUNT,
                  "a dtype of shmarray.h has no type in element_types");
    shma_dtype position = 0, found = 0;
    ((++position, std::is_same_v<T, Elements> ? void(found = position) : void()), ...);
    return found;
}

template <class T, class... Others>
inline constexpr bool is_any_of = (std::is_same_v<T, Others> || ...);

/// The types that have a dtype by their size and sign, although they may be no std::int…_t: char,
/// long long, and the like. Types of characters wider than char have none.
template <class T>
inline constexpr bool is_number =
    std::is_integral_v<T> && !is_any_of<T, bool, wchar_t, char16_t, char32_t>;

template <std::size_t Bytes, bool IsSigned>
auto fixed_width() {
    static_assert(Bytes == 1 || Bytes == 2 || Bytes == 4 || Bytes == 8, "no dtype has this size");
    if constexpr (Bytes == 1)
        return std::conditional_t<IsSigned, std::int8_t, std::uint8_t>();
    else if constexpr (Bytes == 2)
        return std::conditional_t<IsSigned, std::int16_t, std::uint16_t>();
    else if constexpr (Bytes == 4)
        return std::conditional_t<IsSigned, std::int32_t, std::uint32_t>();
    else
        return std::conditional_t<IsSigned, std::int64_t, std::uint64_t>();
}

/// Returns a value of the listed element type that has the same values as T; for other types a T.
template <class T>
auto listed() {
    if constexpr (std::is_same_v<T, std::byte>)
        return std::uint8_t();
    else if constexpr (is_number<T>)
        return fixed_width<sizeof(T), std::is_signed_v<T>>();
    else if constexpr (std::is_enum_v<T>)
        return listed<std::underlying_type_t<T>>();
    else
        return T();
}

/// Returns the number that follows a word in a text, 0 if there is none.
constexpr std::size_t number_after(std::string_view text, std::string_view word) {
    std::size_t number = 0, at = text.find(word);
    if (at == std::string_view::npos)
        return 0;
    for (at += word.size(); at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
        number = number * 10 + static_cast<std::size_t>(text[at] - '0');
    return number;
}

template <class T, class = void>
struct dtype_of {
    static constexpr shma_dtype value = position_of<decltype(listed<T>())>(element_types{});
    static constexpr const char *text = nullptr;
    static_assert(value != 0, "no dtype has elements of this type: element_types has those that "
                              "one has, and struct_traits gives a structure one");
};

/// Structures: SHMA_OPAQUE with the trait's text.
template <class T>
struct dtype_of<T, std::void_t<decltype(struct_traits<T>::dtype)>> {
    static constexpr shma_dtype value = SHMA_OPAQUE;
    static constexpr const char *text = struct_traits<T>::dtype;
    static constexpr std::size_t itemsize =
        text[0] == '{' ? number_after(text, "\"itemsize\":") : number_after(text, "|V");
    static_assert(itemsize == sizeof(T), "the size of struct_traits' dtype is not the structure's");
    static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>,
                  "an element is bytes that other languages read");
};

/// Returns the dtype of T as it stands in a handle.
template <class T>
constexpr const char *text_of_dtype() {
    using found = dtype_of<T>;
    return found::text != nullptr ? found::text : element_texts[found::value - 1];
}

/// A dtype, for messages and comparisons at run time.
struct wanted_dtype {
    shma_dtype number;
    const char *text; ///< of a structure
    std::size_t alignment;
    bool is_const;
};

template <class T>
constexpr wanted_dtype wanted() {
    using found = dtype_of<std::remove_const_t<T>>;
    return {found::value, found::text, alignof(T), std::is_const_v<T>};
}

} // namespace detail
} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_DTYPE_HPP
