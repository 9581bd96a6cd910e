// The dtypes of C++ types, and the trait by which a structure has one.
#ifndef SHMARRAY_DTYPE_HPP
#define SHMARRAY_DTYPE_HPP

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#if defined(__STDCPP_FLOAT16_T__) || defined(__STDCPP_BFLOAT16_T__) ||                             \
    defined(__STDCPP_FLOAT32_T__) || defined(__STDCPP_FLOAT64_T__)
#include <stdfloat>
#endif

#include <shmarray.h>
#include <shmarray/bfloat16.hpp>
#include <shmarray/float16.hpp>
#include <shmarray/mode.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// The dtype of a type of your own. Its text is that which dtype_text() returns for an array of
/// another language, such as of NumPy's np.dtype(..., align=True):
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
/// It may also be a dtype that C++ has no type for and a library has, such as "float8_e4m3fn" for
/// CUDA's __nv_fp8_e4m3. It does not compile if its size is not the type's.
template <class T>
struct struct_traits;

namespace detail {

template <class... Elements>
struct type_list {};

/// The element types, in the order of their dtypes' numbers: SHMA_BOOL, SHMA_INT8 … The dtypes
/// after SHMA_BFLOAT16 have none.
using element_types = type_list<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                                std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, float16,
                                float, double, std::complex<float>, std::complex<double>, bfloat16>;

/// The texts of all dtypes, in the order of their numbers.
inline constexpr const char *element_texts[] = {"|b1",
                                                "|i1",
                                                "<i2",
                                                "<i4",
                                                "<i8",
                                                "|u1",
                                                "<u2",
                                                "<u4",
                                                "<u8",
                                                "<f2",
                                                "<f4",
                                                "<f8",
                                                "<c8",
                                                "<c16",
                                                "bfloat16",
                                                "complex32",
                                                "bcomplex32",
                                                "float8_e3m4",
                                                "float8_e4m3",
                                                "float8_e4m3fn",
                                                "float8_e4m3fnuz",
                                                "float8_e4m3b11fnuz",
                                                "float8_e5m2",
                                                "float8_e5m2fnuz",
                                                "float8_e8m0fnu",
                                                "float6_e2m3fn",
                                                "float6_e3m2fn",
                                                "float4_e2m1fn",
                                                "int1",
                                                "int2",
                                                "int4",
                                                "uint1",
                                                "uint2",
                                                "uint4",
                                                "float8_e5m3fnu"};
static_assert(sizeof element_texts / sizeof *element_texts == SHMA_DTYPE_COUNT,
              "a dtype of shmarray.h has no text in element_texts");

/// Returns the position of T in the list, from 1 on; 0 if it is not there.
template <class T, class... Elements>
constexpr shma_dtype position_of(type_list<Elements...>) {
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
#ifdef __STDCPP_FLOAT16_T__
    else if constexpr (std::is_same_v<T, std::float16_t>)
        return float16();
#endif
#ifdef __STDCPP_BFLOAT16_T__
    else if constexpr (std::is_same_v<T, std::bfloat16_t>)
        return bfloat16();
#endif
#ifdef __STDCPP_FLOAT32_T__
    else if constexpr (std::is_same_v<T, std::float32_t>)
        return float();
#endif
#ifdef __STDCPP_FLOAT64_T__
    else if constexpr (std::is_same_v<T, std::float64_t>)
        return double();
#endif
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
                              "one has, and struct_traits gives another one");
};

/// Returns the number of the dtype that has a text; SHMA_OPAQUE for structures and other bytes.
constexpr shma_dtype number_of(std::string_view text) {
    shma_dtype number = SHMA_OPAQUE;
    for (shma_dtype at = 0; at < SHMA_DTYPE_COUNT; ++at)
        if (text == element_texts[at])
            number = at + 1;
    return number;
}

/// Returns the bytes of an element of a structure, of plain bytes ("|V3"), of numbers ("<f4"), or
/// of a dtype by name, which has the number of bits in its name.
constexpr std::size_t itemsize_of(std::string_view text) {
    if (text[0] == '{')
        return number_after(text, "\"itemsize\":");
    if (text[0] == '<' || text[0] == '|')
        return number_after(text, text.substr(0, 2));
    return (number_after(text, text.substr(0, text.find_first_of("0123456789"))) + 7) / 8;
}

/// Types with a trait.
template <class T>
struct dtype_of<T, std::void_t<decltype(struct_traits<T>::dtype)>> {
    static constexpr shma_dtype value = number_of(struct_traits<T>::dtype);
    static constexpr const char *text = value == SHMA_OPAQUE ? struct_traits<T>::dtype : nullptr;
    static_assert(itemsize_of(struct_traits<T>::dtype) == sizeof(T),
                  "the size of struct_traits' dtype is not the structure's");
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
