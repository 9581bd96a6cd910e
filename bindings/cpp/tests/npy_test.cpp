// NPY and NPZ files: loads with and without an element type, saves, and refused files.
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::any_array;
using shmarray::array;
using shmarray::load_npy;
using shmarray::npz;
using shmarray::strided_array;

static_assert(std::is_nothrow_move_constructible_v<npz> && !std::is_copy_constructible_v<npz>);
static_assert(std::is_same_v<decltype(load_npy<float, 2>("")), array<float, 2>>);
static_assert(std::is_same_v<decltype(load_npy("")), any_array>);
static_assert(!std::is_convertible_v<std::filesystem::path, shmarray::file_paths>);
static_assert(!std::is_convertible_v<std::string, shmarray::file_paths>);
static_assert(!std::is_convertible_v<std::vector<int>, shmarray::file_paths>);

/// A path beside the segments, whose file is removed at the end.
class NewFile {
  public:
    explicit NewFile(const std::string &name)
        : path_(std::string(std::getenv("SHMARRAY_DIR")) + "/" + name) {}
    NewFile(const NewFile &) = delete;
    NewFile &operator=(const NewFile &) = delete;
    ~NewFile() { std::remove(path_.c_str()); }

    const std::string &path() const { return path_; }

  private:
    std::string path_;
};

std::string in_corpus(const std::string &name) { return std::string(SHMARRAY_CORPUS) + "/" + name; }

std::string bytes_of(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string &path, const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

/// Returns an array of 2 × 3 with the numbers from `first` on.
array<std::int32_t, 2> counted(std::int32_t first) {
    auto made = array<std::int32_t, 2>::create({2, 3});
    for (std::int32_t &each : made)
        each = first++;
    return made;
}

template <class Result>
bool says(const Result &tried, const std::string &words) {
    return !tried && tried.error().message().find(words) != std::string::npos;
}

TEST("a_saved_file_is_loaded_with_and_without_an_element_type") {
    const NewFile file("a.npy");
    shmarray::save_npy(file.path(), counted(1));
    const auto loaded = load_npy<std::int32_t, 2>(file.path());
    CHECK(loaded(1, 2) == 6);
    CHECK(load_npy<const std::int32_t>(file.path()).is_readonly());
    CHECK(load_npy<array<std::int32_t, 2>>(file.path())(0, 1) == 2);
    const auto untyped = load_npy(file.path());
    CHECK(untyped.dtype_text() == "<i4");
    CHECK(numbers(untyped.shape()) == numbers{2, 3});
    CHECK(array<std::int32_t>::attach(loaded.handle())(1, 0) == 4);
    shmarray::save_npy(file.path(), any_array(counted(7)).slice(1, 1));
    CHECK(load_npy<std::int32_t, 2>(file.path())(1, 1) == 12);
}

TEST("a_path_is_any_kind_of_string_or_of_the_file_system") {
    const NewFile file("a.npy");
    const std::filesystem::path path = file.path();
    shmarray::save_npy(path, counted(1));
    CHECK(load_npy<std::int32_t, 2>(path)(1, 2) == 6);
    CHECK(load_npy(path.parent_path() / "a.npy").size() == 6);
    CHECK(load_npy(std::string_view(file.path())).size() == 6);
    CHECK(load_npy(path.c_str()).size() == 6);
    const std::vector<std::filesystem::path> paths{path, path};
    CHECK(shmarray::load_npy_batch(paths).size() == 12);
    CHECK(shmarray::load_npy_batch(std::array<const char *, 1>{path.c_str()}).size() == 6);
    CHECK(shmarray::load_npy_batch({path, file.path(), path.c_str()}).size() == 18);
    shmarray::save_npz(path, {{"it", counted(1)}}); // replaces the NPY file
    CHECK(npz::open(path).load("it").size() == 6);
}

TEST_CASE_TEMPLATE("each_element_type_is_saved_and_loaded", T, bool, std::int8_t, std::int16_t,
                   std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
                   std::uint64_t, shmarray::float16, float, double, std::complex<float>,
                   std::complex<double>, long long, std::byte) {
    const LeavesNothing leaves_nothing;
    const NewFile file("each.npy");
    const auto made = array<T>::create({2});
    CHECK(made.dtype_text() == shmarray::detail::text_of_dtype<T>());
    shmarray::save_npy(file.path(), made);
    CHECK(load_npy<T, 1>(file.path()).size() == 2);
}

TEST("bytes_in_memory_are_loaded") {
    const std::string bytes = bytes_of(in_corpus("numpy-py313-2.2.6-f4.npy"));
    REQUIRE_FALSE(bytes.empty());
    const auto loaded = shmarray::load_npy_bytes(bytes.data(), bytes.size());
    CHECK(loaded.dtype_text() == "<f4");
    CHECK(shmarray::load_npy_bytes<float>(bytes.data(), bytes.size()).bytes() == loaded.bytes());
    const auto cut = shmarray::try_load_npy_bytes(bytes.data(), bytes.size() - 1);
    CHECK(says(cut, "in memory"));
    CHECK_THROWS_AS(shmarray::load_npy_bytes<float>(nullptr, 0), shmarray::invalid_file);
}

TEST("a_file_in_fortran_order_needs_a_strided_array") {
    const std::string path = in_corpus("numpy-py313-2.2.6-f8-columns.npy");
    CHECK(load_npy(path).is_contiguous(shmarray::order::f));
    CHECK(load_npy<strided_array<double, 2>>(path).size() == load_npy(path).size());
    CHECK_THROWS_AS(load_npy<double>(path), shmarray::invalid_argument);
    CHECK_THROWS_AS((load_npy<strided_array<double, 3>>(path)), shmarray::invalid_argument);
}

TEST("a_load_with_a_name_leaves_nothing_under_it_after_a_failure") {
    const NewFile file("named.npy");
    shmarray::save_npy(file.path(), counted(0));
    shmarray::options chosen;
    chosen.name = "loaded";
    chosen.persist = true;
    CHECK_THROWS_AS((load_npy<std::int32_t, 3>(file.path(), chosen)), shmarray::invalid_argument);
    CHECK_THROWS_AS(load_npy<float>(file.path(), chosen), shmarray::dtype_mismatch);
    CHECK_THROWS_AS(array<std::int32_t>::attach("loaded"), shmarray::not_found);
    CHECK(load_npy<std::int32_t>(file.path(), chosen)(1, 2) == 5);
    CHECK_THROWS_AS(load_npy<std::int32_t>(file.path(), chosen), shmarray::already_exists);
    CHECK(array<std::int32_t>::attach("loaded")(1, 2) == 5);
    shmarray::unlink("loaded");
}

TEST("a_file_that_is_not_valid_is_refused") {
    const NewFile file("bad.npy");
    CHECK_THROWS_AS(load_npy("/there is/none.npy"), shmarray::not_found);
    CHECK_THROWS_AS(load_npy<float>("/there is/none.npy"), shmarray::not_found);
    const std::string whole = bytes_of(in_corpus("numpy-py313-2.2.6-f4.npy"));
    for (const std::size_t length : {std::size_t{0}, std::size_t{7}, whole.size() - 1}) {
        write(file.path(), whole.substr(0, length));
        CHECK_THROWS_AS(load_npy<float>(file.path()), shmarray::invalid_file);
        CHECK(says(shmarray::try_load_npy(file.path()), file.path()));
    }
    const std::string object = in_corpus("numpy-py313-2.2.6-object.npy");
    CHECK(status_of(shmarray::try_load_npy(object)) == SHMA_ERROR_INVALID_DTYPE);
    const std::string floats = in_corpus("numpy-py313-2.2.6-f4.npy");
    CHECK(status_of(shmarray::try_load_npy<double>(floats)) == SHMA_ERROR_DTYPE_MISMATCH);
}

TEST("texts_and_options_that_c_would_read_otherwise_are_refused") {
    const std::string zero("a\0b", 3);
    const int refused = SHMA_ERROR_INVALID_ARGUMENT;
    const auto made = counted(0);
    CHECK(status_of(shmarray::try_load_npy(zero)) == refused);
    CHECK(status_of(shmarray::try_load_npy<float>(zero)) == refused);
    CHECK(status_of(shmarray::try_load_npy_batch({"a", zero})) == refused);
    CHECK(status_of(shmarray::try_save_npy(zero, made)) == refused);
    CHECK(status_of(shmarray::try_save_npz(zero, {})) == refused);
    CHECK(status_of(shmarray::try_save_npz("a.npz", {{zero, made}})) == refused);
    CHECK(status_of(npz::try_open(zero)) == refused);
    shmarray::options chosen;
    chosen.name = zero;
    const std::string path = in_corpus("numpy-py313-2.2.6-f4.npy");
    CHECK(status_of(shmarray::try_load_npy(path, chosen)) == refused);
    chosen.name = "";
    chosen.order = shmarray::order::f;
    CHECK(says(shmarray::try_load_npy(path, chosen), "order"));
}

TEST("a_literal_is_a_path_whatever_options_follow_it") {
    const char *const path = "/there is/none.npz";
    CHECK(status_of(shmarray::try_load_npy("/there is/none.npy", {})) == SHMA_ERROR_NOT_FOUND);
    CHECK(status_of(shmarray::try_load_npy<float>(path, {})) == SHMA_ERROR_NOT_FOUND);
    CHECK(status_of(npz::try_open("/there is/none.npz", {1 << 20})) == SHMA_ERROR_NOT_FOUND);
    CHECK(status_of(npz::try_open(path, {1 << 20})) == SHMA_ERROR_NOT_FOUND);
}

TEST("files_are_loaded_into_one_array") {
    const NewFile one("1.npy"), other("2.npy"), third("3.npy");
    shmarray::save_npy(one.path(), counted(0));
    shmarray::save_npy(other.path(), counted(6));
    shmarray::save_npy(third.path(), array<std::int32_t>::create({3, 2}));
    const auto batch = shmarray::load_npy_batch<std::int32_t, 3>({one.path(), other.path()});
    CHECK(batch.shape() == std::array<std::int64_t, 3>{2, 2, 3});
    CHECK(batch(1, 1, 2) == 11);
    CHECK(shmarray::load_npy_batch({one.path()}, {}, 2).dtype() == SHMA_INT32);
    const auto different = [&] { shmarray::load_npy_batch({one.path(), third.path()}); };
    CHECK_THROWS_AS(different(), shmarray::invalid_file);
    const auto no_floats = shmarray::try_load_npy_batch<float>({one.path()});
    CHECK(status_of(no_floats) == SHMA_ERROR_DTYPE_MISMATCH);
    CHECK_THROWS_AS(shmarray::load_npy_batch({}), shmarray::invalid_argument);
    CHECK_THROWS_AS(shmarray::load_npy_batch({one.path(), "nobody.npy"}), shmarray::not_found);
}

TEST("an_archive_is_saved_listed_and_loaded") {
    const NewFile file("a.npz"), again("again.npz");
    for (const bool deflated : {false, true}) {
        const auto image = counted(1);
        const auto labels = array<double>::create({4});
        shmarray::save_npz(file.path(), {{"image", image}, {"label", labels}}, {deflated, 2, 64});
        const auto opened = npz::open(file.path());
        CHECK(opened.size() == 2);
        CHECK(opened.names() == std::vector<std::string>{"image", "label"});
        CHECK(opened.contains("image.npy"));
        CHECK_FALSE(opened.contains("nobody"));
        CHECK_FALSE(opened.contains(std::string("image\0", 6)));
        CHECK(opened.load<std::int32_t, 2>("image")(1, 2) == 6);
        CHECK(opened.load("label").dtype() == SHMA_FLOAT64);
        const auto all = opened.load_all();
        CHECK(all.size() == 2);
        CHECK(all.at("image").as<std::int32_t>()(0, 1) == 2);
        shmarray::save_npz(again.path(), {all.begin(), all.end()}, {deflated});
        CHECK(npz::open(again.path()).load("image").bytes() == image.bytes());
    }
    shmarray::save_npz(file.path(), {});
    CHECK(npz::open(file.path()).load_all().empty());
}

TEST("an_archive_in_memory_outlives_nothing_but_its_arrays") {
    const std::string bytes = bytes_of(in_corpus("infozip-deflated.npz"));
    auto opened = npz::open_bytes(bytes.data(), bytes.size(), {1 << 20, 2});
    const auto metadata = opened.load<const std::uint8_t>("metadata.json");
    const auto moved = std::move(opened);
    CHECK_FALSE(opened); // NOLINT: a moved-from archive is null
    CHECK(moved.load_all().count("metadata.json") == 1);
    CHECK(metadata(0) == '{');
    CHECK(status_of(npz::try_open_bytes(bytes.data(), bytes.size() / 2)) ==
          SHMA_ERROR_INVALID_FILE);
}

TEST("a_null_archive_has_no_members") {
    auto opened = npz::open(in_corpus("numpy-py313-2.2.6-stored.npz"));
    REQUIRE(opened);
    opened.close();
    CHECK_FALSE(opened);
    CHECK(opened.get() == nullptr);
    CHECK(opened.size() == 0);
    CHECK(opened.names().empty());
    CHECK_FALSE(opened.contains("a"));
    CHECK_THROWS_AS(opened.load("a"), shmarray::invalid_argument);
    CHECK_THROWS_AS(opened.load<float>("a"), shmarray::invalid_argument);
    CHECK_THROWS_AS(opened.load_all(), shmarray::invalid_argument);
}

TEST("an_archive_or_member_that_is_not_valid_is_refused") {
    CHECK_THROWS_AS(npz::open("/there is/none.npz"), shmarray::not_found);
    CHECK_THROWS_AS(npz::open(in_corpus("handmade-zip-cut.npz")), shmarray::invalid_file);
    const auto broken = npz::open(in_corpus("handmade-zip-checksum.npz"));
    CHECK(says(broken.try_load("a"), "member \"a.npy\": CRC"));
    CHECK(says(broken.try_load_all(), "CRC"));
    const auto stored = npz::open(in_corpus("numpy-py313-2.2.6-stored.npz"));
    CHECK_THROWS_AS(stored.load("nobody"), shmarray::not_found);
    CHECK(says(stored.try_load<std::complex<float>>("a"), "<c8"));
    shmarray::options named;
    named.name = "all";
    CHECK_THROWS_AS(stored.load_all(named), shmarray::invalid_argument);
}

TEST("a_bomb_is_refused") {
    const NewFile file("bomb.npz");
    const auto zeros = array<std::uint8_t>::create({4 << 20});
    shmarray::save_npz(file.path(), {{"zeros", zeros}}, {true});
    const auto limited = npz::open(file.path(), {1 << 20});
    CHECK_THROWS_AS(limited.load<std::uint8_t>("zeros"), shmarray::invalid_file);
    CHECK(says(limited.try_load("zeros"), "max_bytes"));
    CHECK(says(limited.try_load_all(), "max_bytes"));
    CHECK(npz::open(file.path(), {5 << 20}).load("zeros").size() == 4 << 20);
}

TEST("a_save_that_fails_leaves_no_file") {
    const NewFile file("a.npz");
    const auto made = counted(0);
    const auto twice = [&] { shmarray::save_npz(file.path(), {{"a", made}, {"a", made}}); };
    CHECK_THROWS_AS(twice(), shmarray::invalid_argument);
    const auto nothing = [&] { shmarray::save_npz(file.path(), {{"a", any_array()}}); };
    CHECK_THROWS_AS(nothing(), shmarray::invalid_argument);
    CHECK_THROWS_AS(shmarray::save_npy(file.path(), any_array()), shmarray::invalid_argument);
    CHECK_FALSE(std::ifstream(file.path()).is_open());
    CHECK_THROWS_AS(shmarray::save_npy("/there is/none.npy", made), shmarray::not_found);
    CHECK_THROWS_AS(shmarray::save_npz("/there is/none.npz", {}), shmarray::not_found);
}

} // namespace
