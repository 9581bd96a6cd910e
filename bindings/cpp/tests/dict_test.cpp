// Dictionaries: keys that are found and those that are not, pairs, files, and what is refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::any_list;
using shmarray::array;
using shmarray::array_view;
using shmarray::column_builder;
using shmarray::dict;
using shmarray::list;
using shmarray::record;
using namespace std::string_view_literals;

const std::map<std::string, double> lengths = {{"", 0}, {"one", 3}, {"fifteen", 7}};

dict<std::string_view, double> make_lengths() {
    return dict<std::string_view, double>::create(lengths);
}

TEST("a_key_finds_its_value_and_no_other_key_does") {
    const auto made = make_lengths();
    const auto found = dict<std::string_view, double>::attach(made.handle());
    CHECK(found.size() == 3);
    CHECK_FALSE(found.empty());
    for (const auto &[key, value] : lengths) {
        CHECK(found.contains(key));
        CHECK(found.at(key) == value);
        CHECK(found.find(key)->first == key);
        CHECK(found.find(key)->second == value);
    }
    CHECK(found.find("two") == found.end());
    CHECK_FALSE(found.contains("on"));
    CHECK_THROWS_AS(found.at("two"), shmarray::not_found);
    CHECK(found.try_at("two").error().message() == "the dictionary has no key \"two\"");
    CHECK(status_of(found.try_at("two")) == SHMA_ERROR_NOT_FOUND);
}

TEST("its_pairs_come_in_the_order_in_which_they_were_put_in") {
    const std::vector<std::pair<std::string, int>> pairs = {{"z", 1}, {"a", 2}, {"m", 3}};
    const auto made = dict<std::string_view, std::int32_t>::create(pairs);
    CHECK(std::equal(made.begin(), made.end(), pairs.begin(), pairs.end(),
                     [](const auto &one, const auto &other) {
                         return one.first == other.first && one.second == other.second;
                     }));
    std::string keys;
    for (const auto &[key, value] : made)
        keys += key;
    CHECK(keys == "zam");
    CHECK((made.end() - 1)->first == "m");
    CHECK(made.begin()[1].second == 2);
    const std::map<std::string, int> copy(made.begin(), made.end());
    CHECK(copy.at("m") == 3);
}

#ifdef __cpp_lib_ranges
static_assert(std::random_access_iterator<dict<std::string_view, double>::iterator>);
static_assert(std::ranges::random_access_range<const dict<std::int64_t, record>>);
#endif

TEST("integers_are_keys") {
    using limits = std::numeric_limits<std::int64_t>;
    const std::unordered_map<std::int64_t, std::string> words = {
        {limits::min(), "least"}, {-1, "minus one"}, {limits::max(), "most"}};
    const auto made = dict<std::int64_t, std::string_view>::create(words);
    CHECK(made.at(limits::min()) == "least");
    CHECK(made.at(-1) == "minus one");
    CHECK(made.at(limits::max()) == "most");
    CHECK_FALSE(made.contains(0));
    CHECK(made.try_at(7).error().message() == "the dictionary has no key 7");
    CHECK(dict<long long, std::string_view>::attach(made.handle()).at(-1) == "minus one");
    CHECK(dict<std::int64_t, std::string_view>::create(std::map<int, const char *>{{5, "five"}})
              .at(5) == "five");
}

TEST("bytes_are_keys") {
    using bytes = array_view<const std::byte>;
    const std::vector<std::byte> first = {std::byte{0}, std::byte{255}}, second = {std::byte{0}};
    const std::map<std::vector<std::byte>, double> pairs = {{first, 1}, {second, 2}};
    const auto made = dict<bytes, double>::create(pairs);
    for (const auto &[key, value] : made)
        CHECK(made.at(key) == value);
    const auto no_key = list<bytes>::create(std::vector<std::string>{"a", ""});
    CHECK(made.find(no_key[1]) == made.end());
    CHECK(made.try_at(no_key[0]).error().message() == "the dictionary has no key of these 1 bytes");
#ifdef __cpp_lib_span
    const auto spans = dict<std::span<const std::byte>, double>::attach(made.handle());
    CHECK(spans.at(first) == 1);
    CHECK(spans.at(second) == 2);
    CHECK_FALSE(spans.contains({}));
#endif
}

TEST("values_are_what_the_items_of_lists_are") {
    const std::map<std::string, std::vector<float>> samples = {{"a", {0.5F, 1}}, {"b", {}}};
    const auto arrays = dict<std::string_view, array_view<const float>>::create(samples);
    CHECK(arrays.at("a")[1] == 1);
    CHECK(arrays.at("b").empty());

    const std::map<std::string, std::vector<std::string>> lines = {{"a", {"x", "y"}}, {"b", {}}};
    const auto lists = dict<std::string_view, list<std::string_view>>::create(lines);
    CHECK(lists.at("a")[1] == "y");

    const std::map<std::string, std::optional<double>> some = {{"a", std::nullopt}, {"b", 2}};
    const auto optional = dict<std::string_view, std::optional<double>>::create(some);
    CHECK(optional.at("a") == std::nullopt);
    CHECK(optional.at("b") == 2.0);
    const auto plain = dict<std::string_view, double>::attach(optional.handle());
    CHECK(plain.at("b") == 2);
    CHECK(status_of(plain.try_at("a")) == SHMA_ERROR_INVALID_ARGUMENT);

    const std::vector<std::string> words = {"one", "two"};
    const auto records = dict<std::string_view, record>::create(
        column_builder::of<std::string_view>(words),
        column_builder::records(
            {{"size", column_builder::of<std::int64_t>(std::vector<int>{3, 4})}}));
    CHECK(records.at("two").field<std::int64_t>("size") == 4);
}

TEST("keys_and_values_are_lists_that_hold_the_dictionary") {
    auto made = make_lengths();
    const auto keys = made.keys();
    const auto values = made.values();
    made.close();
    CHECK(keys);
    CHECK(keys.size() == 3);
    CHECK(keys[1] == "fifteen");
    CHECK(values[1] == 7);
    CHECK(any_list(values).as<double>()[2] == 3);
    CHECK(status_of(keys.try_array()) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(keys.try_handle()) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(keys.try_save("keys")) == SHMA_ERROR_INVALID_ARGUMENT);
}

TEST("a_dictionary_goes_by_name_and_by_message") {
    using words = dict<std::string_view, double>;
    auto made = words::create(lengths, {"lengths"});
    CHECK(words::attach("lengths").at("one") == 3);
    CHECK(status_of(words::try_create(lengths, {"lengths"})) == SHMA_ERROR_EXISTS);
    auto [here, there] = shmarray::pipe::pair();
    here.send("lengths", {made.array()});
    made.close();
    auto received = there.receive();
    const auto arrived = words::of(received->array(0, shmarray::access::read_only));
    CHECK(arrived.at("fifteen") == 7);
    CHECK(words::attach(arrived.handle_to_send()).size() == 3);
}

TEST("a_copy_is_the_same_dictionary") {
    auto first = make_lengths();
    const auto second = first;
    first.close();
    CHECK_FALSE(first);
    CHECK(first.empty());
    CHECK(second.at("one") == 3);
}

TEST("a_null_dictionary_has_no_entries") {
    const dict<std::string_view, double> none;
    CHECK_FALSE(none);
    CHECK(none.begin() == none.end());
    CHECK(none.find("a") == none.end());
    CHECK_FALSE(none.contains("a"));
    CHECK(none.get() == nullptr);
    CHECK(none.keys().empty());
    CHECK_THROWS_AS(none.at("a"), shmarray::not_found);
    CHECK(status_of(none.try_array()) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(none.try_handle()) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(none.try_handle_to_send()) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(none.try_save("none")) == SHMA_ERROR_INVALID_ARGUMENT);
}

TEST("a_dictionary_without_entries_has_any_types") {
    const auto made =
        dict<std::string_view, double>::create(std::vector<std::pair<std::string, double>>());
    CHECK(made);
    CHECK(made.empty());
    const auto other = dict<std::int64_t, record>::attach(made.handle());
    CHECK(other);
    CHECK(other.find(1) == other.end());
    CHECK(other.handle() == made.handle());
}

TEST("keys_that_cannot_be_found_are_refused") {
    using words = dict<std::string_view, double>;
    const std::vector<std::pair<std::string, double>> twice = {{"a", 1}, {"a", 2}},
                                                      broken = {{"\xff", 1}};
    CHECK(status_of(words::try_create(twice)) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(words::try_create(broken)) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK_FALSE(make_lengths().contains("\xff"));
    const auto one = column_builder::of<double>(std::vector<double>{1});
    CHECK(status_of(words::try_create(one, one)) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK_FALSE(one);
    CHECK(status_of(words::try_create(column_builder(), column_builder())) ==
          SHMA_ERROR_INVALID_ARGUMENT);
}

TEST("other_keys_and_values_are_refused") {
    const auto made = make_lengths();
    const auto of_integers = dict<std::int64_t, double>::try_attach(made.handle());
    CHECK(status_of(of_integers) == SHMA_ERROR_DTYPE_MISMATCH);
    CHECK(of_integers.error().message().find("the dictionary's keys: ") == 0);
    const auto of_floats = dict<std::string_view, float>::try_attach(made.handle());
    CHECK(status_of(of_floats) == SHMA_ERROR_DTYPE_MISMATCH);
    CHECK(of_floats.error().message().find("the dictionary's values: ") == 0);
    CHECK(status_of(list<double>::try_attach(made.handle())) == SHMA_ERROR_DTYPE_MISMATCH);
    const auto items = list<double>::create(std::vector<double>{1});
    CHECK(status_of(dict<std::string_view, double>::try_attach(items.handle())) ==
          SHMA_ERROR_DTYPE_MISMATCH);
    CHECK_THROWS_AS((dict<std::string_view, double>::attach("nobody")), shmarray::not_found);
}

TEST("a_dictionary_is_saved_and_opened") {
    using words = dict<std::string_view, double>;
    const std::string path = std::string(std::getenv("SHMARRAY_DIR")) + "/lengths.dict";
    make_lengths().save(path);
    for (const bool checked : {false, true}) {
        const auto opened = words::open(path, checked);
        CHECK(opened.at("fifteen") == 7);
        CHECK_FALSE(opened.contains("two"));
        CHECK(std::map<std::string, double>(opened.begin(), opened.end()) == lengths);
        CHECK(status_of(opened.try_array()) == SHMA_ERROR_INVALID_ARGUMENT);
    }
    CHECK(status_of(any_list::try_open(path)) == SHMA_ERROR_INVALID_FILE);
    CHECK(std::remove(path.c_str()) == 0);
    CHECK(status_of(words::try_open(path)) == SHMA_ERROR_NOT_FOUND);
}

TEST("broken_bytes_are_an_error_of_their_key") {
    const auto made = make_lengths();
    shma_array *produced = nullptr;
    REQUIRE(shma_column_offsets(made.keys().get(), &produced, nullptr) == SHMA_OK);
    const auto offsets = shmarray::any_array(produced).as<std::int64_t, 1>();
    offsets[1] = std::int64_t{1} << 40;
    CHECK(status_of(made.try_find("")) == SHMA_ERROR_INVALID_SEGMENT);
    CHECK(status_of(made.try_contains("fifteen")) == SHMA_ERROR_INVALID_SEGMENT);
    CHECK(status_of(made.try_at("fifteen")) == SHMA_ERROR_INVALID_SEGMENT);
    CHECK(made.at("one") == 3);
    CHECK_THROWS_AS(made.find(""), shmarray::error);
}

} // namespace
