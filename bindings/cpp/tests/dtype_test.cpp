// Element types: C++'s own names of numbers, bytes, enumerations, and structures with a trait.
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

struct particle {
    float x;
    std::uint8_t kind;
};

struct pixel {
    std::uint8_t red, green, blue;
};

struct stranger {
    float x;
    std::uint8_t other;
};

/// As a library has it, such as CUDA's __nv_fp8_e4m3.
struct fp8 {
    std::uint8_t bits;
};

enum class label : std::uint16_t { none, cat = 515 };

} // namespace

template <>
struct shmarray::struct_traits<particle> {
    static constexpr const char *dtype =
        R"({"descr":[["x","<f4"],["kind","|u1"],["","|V3"]],"itemsize":8})";
};

template <>
struct shmarray::struct_traits<stranger> {
    static constexpr const char *dtype =
        R"({"descr":[["x","<f4"],["other","|u1"],["","|V3"]],"itemsize":8})";
};

template <>
struct shmarray::struct_traits<fp8> {
    static constexpr const char *dtype = "float8_e4m3fn";
};

template <>
struct shmarray::struct_traits<pixel> {
    static constexpr const char *dtype = "|V3";
};

namespace {

using shmarray::array;

TEST_CASE_TEMPLATE("each_name_of_a_number_has_the_dtype_of_its_size_and_sign", T, char, signed char,
                   unsigned char, short, unsigned short, int, unsigned, long, unsigned long,
                   long long, unsigned long long) {
    const LeavesNothing leaves_nothing;
    const auto a = array<T>::create({2});
    a(1) = static_cast<T>(65);
    const std::string kind = std::is_signed_v<T> ? "i" : "u";
    CHECK(a.dtype_text() == (sizeof(T) == 1 ? "|" : "<") + kind + std::to_string(sizeof(T)));
    CHECK(array<const T>::attach(a.handle())(1) == static_cast<T>(65));
}

TEST("bytes_and_enumerations_are_unsigned_integers") {
    const auto bytes = array<std::byte>::create({2});
    bytes(1) = std::byte{0xab};
    CHECK(array<std::uint8_t>::attach(bytes.handle())(1) == 0xab);
    const auto labels = array<std::uint16_t>::create({2});
    labels(0) = 515;
    CHECK(array<const label>::attach(labels.handle())(0) == label::cat);
    const auto wide = array<std::int64_t>::create({1});
    CHECK(array<long long>::attach(wide.handle()).data() != nullptr);
    CHECK(shmarray::any_array(wide).as<long long, 1>().data() ==
          reinterpret_cast<long long *>(wide.data()));
    CHECK_THROWS_AS(array<unsigned long long>::attach(wide.handle()), shmarray::dtype_mismatch);
    CHECK_THROWS_AS(array<char>::attach(labels.handle()), shmarray::dtype_mismatch);
}

TEST("a_structure_is_an_element_by_its_trait") {
    const auto a = array<particle, 1>::create({3});
    a(2) = {0.5F, 7};
    CHECK(a.dtype() == SHMA_OPAQUE);
    CHECK(a.itemsize() == sizeof(particle));
    CHECK(a.dtype_text() == shmarray::struct_traits<particle>::dtype);
    const auto reader = array<const particle>::attach(a.handle());
    CHECK(reader(2).x == 0.5F);
    CHECK(reader(2).kind == 7);
    CHECK(a.slice(0, shmarray::far_end, shmarray::far_end, -2).begin()->kind == 7);
    const auto attach = [&] { array<stranger>::attach(a.handle()); };
    CHECK_THROWS_AS(attach(), shmarray::dtype_mismatch);
    CHECK_THROWS_AS(array<pixel>::attach(a.handle()), shmarray::dtype_mismatch);
    CHECK_THROWS_AS(array<double>::attach(a.handle()), shmarray::dtype_mismatch);
    CHECK_THROWS_AS(array<particle>::attach(array<double>::create({1}).handle()),
                    shmarray::dtype_mismatch);
    const pixel red{255, 0, 0};
    CHECK(shmarray::share(&red, {1})(0).red == 255);
    CHECK(array<pixel>::create({2, 2}).strides()[0] == 6);
}

TEST("a_type_of_a_library_is_an_element_of_a_dtype_by_name") {
    const auto a = array<fp8>::create({2, 3});
    CHECK(a.dtype() == SHMA_FLOAT8_E4M3FN);
    CHECK(a.dtype_text() == "float8_e4m3fn");
    a(1, 2) = {0x38};
    CHECK(array<const fp8>::attach(a.handle())(1, 2).bits == 0x38);
    CHECK_THROWS_AS(array<std::uint8_t>::attach(a.handle()), shmarray::dtype_mismatch);
}

TEST("an_array_without_an_element_type_has_its_bytes_and_its_name") {
    const auto a = shmarray::any_array::create("float6_e2m3fn", {4});
    CHECK(a.dtype() == SHMA_FLOAT6_E2M3FN);
    CHECK(a.itemsize() == 1);
    CHECK(std::string(shmarray::any_array::attach(a.handle()).dtype_text()) == "float6_e2m3fn");
    const auto visit = [&] { a.visit([](const auto &) {}); };
    CHECK_THROWS_AS(visit(), shmarray::dtype_mismatch);
    const char *beyond = R"({"descr":"float9_e4m4","itemsize":2})";
    const auto later = shmarray::any_array::create(beyond, {4});
    CHECK(later.dtype() == SHMA_OPAQUE);
    CHECK(later.itemsize() == 2);
}

TEST("bfloat16_is_an_element") {
    const auto a = array<shmarray::bfloat16>::create({3});
    a(0) = 1.5F;
    CHECK(a.dtype() == SHMA_BFLOAT16);
    CHECK(shmarray::any_array::attach(a.handle()).visit([](const auto &values) {
        if constexpr (std::is_convertible_v<decltype(values(0)), float>)
            return static_cast<float>(values(0));
        else
            return 0.0F;
    }) == 1.5F);
#ifdef __STDCPP_BFLOAT16_T__
    CHECK(array<const std::bfloat16_t>::attach(a.handle())(0) == 1.5bf16);
#endif
#ifdef __STDCPP_FLOAT16_T__
    CHECK(array<std::float16_t>::create({1}).dtype() == SHMA_FLOAT16);
    CHECK(array<std::float32_t>::create({1}).dtype() == SHMA_FLOAT32);
    CHECK(array<std::float64_t>::create({1}).dtype() == SHMA_FLOAT64);
#endif
}

} // namespace
