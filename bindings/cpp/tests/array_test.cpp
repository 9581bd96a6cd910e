// Arrays of every element type: creation, attaching, elements and properties.
#include <complex>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::any_array;
using shmarray::array;

static_assert(!std::is_copy_constructible_v<array<int>> && !std::is_copy_assignable_v<array<int>>);
static_assert(std::is_nothrow_move_constructible_v<any_array>);
static_assert(std::is_move_assignable_v<array<int>>);
static_assert(std::is_same_v<decltype(std::declval<array<const int>>()(0)), const int &>);
static_assert(std::is_same_v<decltype(std::declval<array<const int>>().data()), const int *>);
static_assert(!std::is_constructible_v<array<int>, array<const int> &&>);

#define ELEMENT_TYPES                                                                              \
    bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,      \
        std::uint32_t, std::uint64_t, shmarray::float16, float, double, std::complex<float>,       \
        std::complex<double>

TEST_CASE_TEMPLATE("every_element_type_is_written_and_read_back", T, ELEMENT_TYPES) {
    const LeavesNothing leaves_nothing;
    const auto written = array<T>::create({2, 2});
    const auto read = array<const T>::attach(written.handle());
    CHECK(written(1, 0) == T(0));
    written(1, 0) = T(1);
    CHECK(read(1, 0) == T(1));
    CHECK(read(0, 1) == T(0));
    CHECK(read.itemsize() == sizeof(T));
    CHECK(read.dtype() == array<T>::dtype_number);
    CHECK(shma_dtype_itemsize(array<T>::dtype_number) == sizeof(T));
}

TEST("a_new_array_tells_its_facts") {
    const auto a = array<std::int32_t>::create({2, 3, 3});
    CHECK(numbers(a.shape()) == numbers{2, 3, 3});
    CHECK(numbers(a.strides()) == numbers{36, 12, 4});
    CHECK(a.ndim() == 3);
    CHECK(a.size() == 18);
    CHECK(a.dtype_text() == "<i4");
    CHECK(a.is_contiguous());
    CHECK_FALSE(a.is_contiguous(shmarray::order::f));
    CHECK(a.is_aligned(a.itemsize()));
    CHECK_FALSE(a.is_aligned(0));
    CHECK_FALSE(a.is_readonly());
    CHECK(a.handle().find(R"("dtype":"<i4","shape":[2,3,3],"strides":[36,12,4]})") !=
          std::string::npos);
}

TEST("an_attached_array_is_the_same_memory") {
    auto a = array<std::int32_t>::create({2, 3});
    const auto b = array<std::int32_t>::attach(a.handle());
    a(1, 2) = 7;
    CHECK(b(1, 2) == 7);
    b(0, 0) = 8;
    CHECK(a.data()[0] == 8);
    a = {};
    CHECK(b(1, 2) == 7);
}

TEST("a_const_array_is_read_only") {
    const auto a = array<float>::create({3});
    const auto r = array<const float>::attach(a.handle());
    CHECK(r.is_readonly());
    CHECK(r.view().is_readonly());
    a(1) = 0.5F;
    CHECK(r(1) == 0.5F);
    CHECK_THROWS_AS(any_array::attach(a.handle(), shmarray::access::read_only).as<float>(),
                    shmarray::read_only);
    CHECK(any_array::attach(a.handle(), shmarray::access::read_only).as<const float>()(1) == 0.5F);
}

TEST("at_checks_count_and_bounds") {
    const auto a = array<int>::create({2, 3});
    a.at(1, 2U) = 5;
    CHECK(a.at(std::int8_t{1}, std::size_t{2}) == 5);
    CHECK_THROWS_AS(a.at(2, 0), shmarray::out_of_bounds);
    CHECK_THROWS_AS(a.at(0, -1), shmarray::out_of_bounds);
    CHECK_THROWS_AS(a.at(1), shmarray::out_of_bounds);
    CHECK_THROWS_AS(a.at(0, 0, 0), shmarray::out_of_bounds);
    CHECK_THROWS_AS(a.at(0, std::numeric_limits<std::uint64_t>::max()), shmarray::out_of_bounds);
}

TEST("no_dimensions_and_no_elements_are_arrays") {
    const auto scalar = array<double>::create({});
    scalar() = 0.5;
    CHECK(scalar.at() == 0.5);
    CHECK_THROWS_AS(shmarray::array<double>().at(), shmarray::out_of_bounds);
    CHECK(scalar.size() == 1);
    const auto empty = array<double>::create({0, 3});
    CHECK(empty.size() == 0);
    CHECK(array<double>::attach(empty.handle()).shape()[1] == 3);
    CHECK_THROWS_AS(empty.at(0, 0), shmarray::out_of_bounds);
}

TEST("options_order_and_name") {
    shmarray::options chosen;
    chosen.name = "cpp-options";
    chosen.order = shmarray::order::f;
    CHECK_THROWS_AS(array<std::int16_t>::create({2, 3}, chosen), shmarray::invalid_argument);
    const auto a = shmarray::strided_array<std::int16_t>::create({2, 3}, chosen);
    CHECK(numbers(a.strides()) == numbers{2, 4});
    a(1, 2) = 9;
    CHECK(shmarray::strided_array<std::int16_t>::attach("cpp-options")(1, 2) == 9);
    CHECK_THROWS_AS(array<std::int16_t>::attach("cpp-options"), shmarray::invalid_argument);
    CHECK_THROWS_AS(array<std::int16_t>::create({1}, {"cpp-options"}), shmarray::already_exists);
    shmarray::unlink("cpp-options");
    CHECK_THROWS_AS(array<std::int16_t>::attach("cpp-options"), shmarray::not_found);
    CHECK_THROWS_AS(shmarray::unlink("cpp-options"), shmarray::not_found);
}

TEST("an_uninitialized_array_works_as_any_other") {
    shmarray::options chosen;
    chosen.uninitialized = true;
    const auto made = array<int>::create({200, 300}, chosen);
    made(199, 299) = 6;
    CHECK(array<int>::attach(made.handle())(199, 299) == 6);
}

TEST("a_persistent_array_stays_until_its_name_is_unlinked") {
    shmarray::options chosen{"cpp-persistent"};
    chosen.persist = true;
    array<int>::create({2}, chosen)(1) = 6;
    CHECK(array<int>::attach("cpp-persistent")(1) == 6);
    shmarray::unlink("cpp-persistent");
}

TEST("share_copies_once_and_a_handle_never") {
    const std::vector<float> values{1, 2, 3, 4, 5, 6};
    const auto before = shmarray::copied_bytes();
    const auto a = shmarray::share(values);
    CHECK(shmarray::copied_bytes() - before == sizeof(float) * 6);
    const auto b = array<const float>::attach(a.handle());
    CHECK(shmarray::copied_bytes() - before == sizeof(float) * 6);
    CHECK(std::vector<float>(b.data(), b.data() + b.size()) == values);
    const auto c = shmarray::share(values.data(), {3, 2});
    CHECK(c(2, 0) == 5);
    const auto d = shmarray::share(values.data() + 5, {2, 2}, {-8, -4});
    CHECK(d(0, 0) == 6);
    CHECK(d(1, 1) == 3);
    CHECK_THROWS_AS(shmarray::share(values.data(), {3, 2}, {4}), shmarray::invalid_argument);
}

TEST("dtypes_that_cpp_lacks_are_any_arrays") {
    const std::string structured = R"({"descr":[["x","<f4"],["y","|u1"]],"itemsize":5})";
    const auto a = any_array::create(structured, {2, 2});
    static_cast<unsigned char *>(a.writable_data())[5] = 0xab;
    const auto b = any_array::attach(a.handle());
    CHECK(b.dtype() == SHMA_OPAQUE);
    CHECK(b.dtype_text() == structured);
    CHECK(b.itemsize() == 5);
    CHECK(b.bytes().size() == 20);
    CHECK(b.bytes()[5] == 0xab);
    CHECK(b.transpose().bytes()[10] == 0xab);
    CHECK_THROWS_AS(b.as<std::uint8_t>(), shmarray::dtype_mismatch);
    CHECK(any_array::create("<i4", {2}).as<std::int32_t>()(1) == 0);
}

/// Returns the handle of int32 elements with a stride of 5 bytes, as of a field in packed
/// structures.
std::string packed_handle(const any_array &bytes, int offset) {
    std::string handle = bytes.handle();
    handle.replace(handle.find(R"("offset":0)"), 10, R"("offset":)" + std::to_string(offset));
    handle.replace(handle.find("|u1"), 3, "<i4");
    handle.replace(handle.find("[16]"), 4, "[3]");
    handle.replace(handle.find("[1]"), 3, "[5]");
    return handle;
}

TEST("elements_out_of_alignment_are_refused_and_read_as_bytes") {
    const auto packed = array<std::uint8_t>::create({16});
    packed(1) = 0x2a;
    for (const int offset : {0, 1, 2}) {
        const std::string handle = packed_handle(packed, offset);
        CHECK_THROWS_AS(array<std::int32_t>::attach(handle), shmarray::invalid_argument);
        CHECK((any_array::attach(handle).bytes()[0] == 0x2a) == (offset == 1));
    }
    const auto one = any_array::attach(packed_handle(packed, 0)).slice(0, 0, 1);
    CHECK(one.as<std::int32_t>()(0) == 0x2a00); // a single element is aligned with any stride
}

TEST("facts_of_the_library") {
    CHECK(shmarray::version() == SHMARRAY_VERSION);
    CHECK(shmarray::sweep().segments == 0);
}

} // namespace
