// Lists: items by index and by iterators, fields, None, what is created, and what is refused.
#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::any_array;
using shmarray::any_list;
using shmarray::array;
using shmarray::array_view;
using shmarray::column_builder;
using shmarray::item_kind;
using shmarray::list;
using shmarray::record;
using namespace std::string_literals;
using namespace std::string_view_literals;

const std::vector<std::string> three_words = {"one", "", "three"};
const std::vector<std::vector<float>> three_samples = {{1.5F, -2}, {}, {0, 1, 2}};

list<record> make_records() {
    return list<record>::create(column_builder::records(
        {{"word", column_builder::of<std::string_view>(three_words)},
         {"sample", column_builder::of<array_view<const float>>(three_samples)},
         {"label", column_builder::of<std::optional<std::int64_t>>(
                       std::vector<std::optional<int>>{7, std::nullopt, -9})}}));
}

template <class T>
std::vector<std::remove_const_t<T>> copied(array_view<T> elements) {
    return {elements.begin(), elements.end()};
}

TEST("numbers_are_read_as_they_were_put_in") {
    const std::vector<double> values = {0.5, -1, 3};
    const auto made = list<double>::create(values);
    const auto numbers_again = list<double>::attach(made.handle());
    CHECK(numbers_again.size() == 3);
    CHECK(numbers_again[1] == -1);
    CHECK(std::equal(numbers_again.begin(), numbers_again.end(), values.begin(), values.end()));
    CHECK(std::accumulate(numbers_again.begin(), numbers_again.end(), 0.0) == 2.5);
    CHECK(list<bool>::create(std::vector<bool>{true, false, true})[2]);
    CHECK(list<std::int32_t>::create(std::array<short, 2>{4, 5})[1] == 5);
}

TEST("strings_are_views_of_the_list") {
    const auto made = list<std::string_view>::create(three_words);
    const auto strings = list<std::string_view>::attach(made.handle());
    CHECK(strings[0] == "one");
    CHECK(strings[1].empty());
    CHECK(strings.at(2) == "three");
    CHECK(strings[0].data() == strings[0].data());
    CHECK(std::vector<std::string>(strings.begin(), strings.end()) == three_words);
    CHECK(std::find(strings.begin(), strings.end(), "three"sv) - strings.begin() == 2);
}

TEST("arrays_of_any_length_are_views") {
    const auto made = list<array_view<const float>>::create(three_samples);
    const auto arrays = list<array_view<const float>>::attach(made.handle());
    CHECK(copied(arrays[0]) == three_samples[0]);
    CHECK(arrays[1].empty());
    CHECK(arrays[2].shape() == std::array<std::int64_t, 1>{3});
    CHECK(arrays[2][1] == 1);
    CHECK(arrays.begin()->size() == 2);
}

#ifdef __cpp_lib_span
TEST("arrays_of_one_dimension_are_spans_and_bytes_too") {
    const auto spans = list<std::span<const float>>::create(three_samples);
    CHECK(std::ranges::equal(spans[2], three_samples[2]));
    const auto bytes = list<std::span<const std::byte>>::create(three_words);
    CHECK(bytes[2].size() == 5);
    CHECK(bytes[2][1] == std::byte{'h'});
}
#endif

#ifdef __cpp_lib_ranges
static_assert(std::random_access_iterator<list<std::string_view>::iterator>);
static_assert(std::ranges::random_access_range<const list<record>>);
#endif

TEST("arrays_of_more_dimensions_have_a_shape") {
    std::vector<array<std::uint16_t, 2>> images;
    for (std::int64_t count = 1; count < 4; ++count) {
        images.push_back(array<std::uint16_t, 2>::create({count, 2}));
        std::iota(images.back().begin(), images.back().end(), std::uint16_t{0});
    }
    const auto made = list<array_view<const std::uint16_t, 2>>::create(images);
    const auto image = made[2];
    CHECK(image.shape() == std::array<std::int64_t, 2>{3, 2});
    CHECK(image(2, 1) == 5);
    CHECK(std::equal(image.begin(), image.end(), images[2].begin(), images[2].end()));
#ifdef __cpp_lib_mdspan
    CHECK(image.mdspan().extent(0) == 3);
#endif
    const auto again = list<array_view<const std::uint16_t, 2>>::create(made);
    CHECK(again[1](1, 0) == 2);
    CHECK(status_of(list<array_view<const std::uint16_t>>::try_attach(made.handle())) ==
          SHMA_ERROR_INVALID_ARGUMENT);
}

TEST("bytes_are_views_of_bytes") {
    const auto bytes = list<array_view<const std::byte>>::create(three_words);
    CHECK(bytes[0].size() == 3);
    CHECK(bytes[2][0] == std::byte{'t'});
    CHECK(list<array_view<const std::uint8_t>>::attach(bytes.handle())[0][0] == 'o');
    CHECK(status_of(list<std::string_view>::try_attach(bytes.handle())) ==
          SHMA_ERROR_DTYPE_MISMATCH);
}

TEST("a_field_of_records_is_a_list") {
    const auto made = make_records();
    const auto records = list<record>::attach(made.handle());
    CHECK(records.size() == 3);
    CHECK(records.names() == std::vector<std::string>{"word", "sample", "label"});
    const auto word = records.field<std::string_view>("word");
    CHECK(word[2] == "three");
    CHECK(records.field<array_view<const float>>("sample")[0][1] == -2);
    const record second = records[1];
    CHECK(second.field<std::string_view>("word").empty());
    CHECK(second.field<std::optional<std::int64_t>>("label") == std::nullopt);
    CHECK(second.is_none("label"));
    CHECK(records[2].field<std::int64_t>("label") == -9);
    CHECK(records.begin()->names() == records.names());
    CHECK(status_of(records.try_field<double>("label")) == SHMA_ERROR_DTYPE_MISMATCH);
    CHECK(status_of(records.try_field<double>("lab")) == SHMA_ERROR_NOT_FOUND);
    CHECK(status_of(second.try_field<double>("lab")) == SHMA_ERROR_NOT_FOUND);
    CHECK_THROWS_AS(second.field<std::int64_t>("label"), shmarray::invalid_argument);
}

TEST("a_field_holds_the_list") {
    const auto word = make_records().field<std::string_view>("word");
    CHECK(word[2] == "three");
    CHECK(list<record>::attach(word.handle()).size() == 3);
}

TEST("lists_have_lists") {
    const std::vector<std::vector<std::string>> lines = {{"a", "b"}, {}, {"c"}};
    const auto made = list<list<std::string_view>>::create(lines);
    const auto again = list<list<std::string_view>>::attach(made.handle());
    CHECK(again[0].size() == 2);
    CHECK(again[1].empty());
    CHECK(again[2][0] == "c");
    CHECK(again[0].try_at(2).error().status() == SHMA_ERROR_OUT_OF_BOUNDS);
    std::string all;
    for (const auto &line : again)
        for (const std::string_view word : line)
            all += word;
    CHECK(all == "abc");
    const std::vector<std::vector<std::vector<double>>> deep = {{{1, 2}, {}}, {{3}}};
    CHECK(list<list<list<double>>>::create(deep)[1][0][0] == 3);
}

TEST("what_may_be_none_is_optional") {
    using optional = std::optional<double>;
    const std::vector<optional> values = {1.5, std::nullopt, 2.5};
    const auto made = list<optional>::create(values);
    CHECK(std::equal(made.begin(), made.end(), values.begin(), values.end()));
    CHECK(made.is_none(1));
    CHECK_FALSE(made.is_none(0));
    CHECK_FALSE(made.is_none(3));
    const auto plain = list<double>::attach(made.handle());
    CHECK(plain[2] == 2.5);
    CHECK(status_of(plain.try_at(1)) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK_THROWS_AS(plain[1], shmarray::invalid_argument);
    const auto strings = list<std::optional<std::string_view>>::create(
        std::vector<std::optional<std::string>>{std::nullopt, "text"});
    CHECK(strings[1] == "text");
    CHECK_FALSE(strings[0]);
    CHECK(list<optional>::create(std::vector<double>{}).empty());
}

TEST("a_structure_is_an_item") {
    const std::vector<std::complex<float>> values = {{1, 2}, {3, 4}};
    CHECK(list<std::complex<float>>::create(values)[1] == values[1]);
}

TEST("a_list_goes_by_name_and_by_message") {
    auto made = list<std::string_view>::create(three_words, {"words"});
    CHECK(list<std::string_view>::attach("words")[0] == "one");
    CHECK(status_of(list<std::string_view>::try_create(three_words, {"words"})) ==
          SHMA_ERROR_EXISTS);
    auto [here, there] = shmarray::pipe::pair();
    here.send("words", {made.array()});
    made.close();
    CHECK_FALSE(made);
    auto received = there.receive();
    const auto arrived =
        list<std::string_view>::of(received->array(0, shmarray::access::read_only));
    CHECK(arrived[2] == "three");
    const auto handle = arrived.handle_to_send();
    CHECK(list<std::string_view>::attach(handle).size() == 3);
}

TEST("a_copy_is_the_same_list") {
    auto first = list<std::string_view>::create(three_words);
    const auto second = first;
    first.close();
    CHECK(first.empty());
    CHECK(second[0] == "one");
}

TEST("a_null_list_has_no_items") {
    const list<double> none;
    CHECK_FALSE(none);
    CHECK(none.begin() == none.end());
    CHECK(none.get() == nullptr);
    CHECK_THROWS_AS(none[0], shmarray::out_of_bounds);
    CHECK(status_of(none.try_handle()) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(none.try_array()) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(record().try_field<double>("a")) == SHMA_ERROR_NOT_FOUND);
    CHECK(status_of(list<double>::try_create(column_builder())) == SHMA_ERROR_INVALID_ARGUMENT);
}

column_builder builder_of_words() { return column_builder::of<std::string_view>(three_words); }

TEST("what_a_builder_cannot_take_is_refused") {
    CHECK(status_of(list<std::string_view>::try_create(std::vector<std::string>{"\xff"})) ==
          SHMA_ERROR_INVALID_ARGUMENT);
    const auto one = column_builder::of<double>(std::vector<double>{1});
    const auto two = column_builder::of<double>(std::vector<double>{1, 2});
    CHECK(two.size() == 2);
    CHECK(status_of(column_builder::try_records({{"a", one}, {"b", two}})) ==
          SHMA_ERROR_INVALID_ARGUMENT);
    CHECK_FALSE(one);
    CHECK(status_of(column_builder::try_records({{"a\0b"s, column_builder()}})) ==
          SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(list<double>::try_create(builder_of_words())) == SHMA_ERROR_DTYPE_MISMATCH);
}

TEST("a_list_of_any_items_says_what_they_are") {
    const auto made = make_records();
    const auto any = any_list::attach(made.handle());
    CHECK(any.kind() == item_kind::record);
    CHECK(any.size() == 3);
    CHECK(any.names() == made.names());
    const any_list sample = any.field("sample");
    CHECK(sample.kind() == item_kind::array);
    CHECK(sample.dtype_text() == "<f4");
    CHECK(sample.ndim() == 1);
    CHECK(sample.as<array_view<const float>>()[2].size() == 3);
    const any_list label = made.field<std::optional<std::int64_t>>("label");
    CHECK(label.is_none(1));
    CHECK_FALSE(label.is_none(3));
    CHECK(label.names().empty());
    CHECK(label.as<std::int64_t>()[2] == -9);
    CHECK(status_of(label.try_as<double>()) == SHMA_ERROR_DTYPE_MISMATCH);
    CHECK(status_of(label.try_field("a")) == SHMA_ERROR_NOT_FOUND);
    CHECK(status_of(any_list::try_attach("nobody")) == SHMA_ERROR_NOT_FOUND);
    CHECK(any_list::of(made.array()).as<record>().size() == 3);
    const std::vector<std::vector<std::string>> lines = {{}, {"a", "b"}};
    const any_list part = list<list<std::string_view>>::create(lines)[1];
    CHECK(part.size() == 2);
    CHECK(part.as<std::string_view>()[1] == "b");
    any_list none;
    CHECK(none.kind() == item_kind::nothing);
    CHECK(none.dtype_text().empty());
    CHECK(status_of(none.try_as<double>()) == SHMA_ERROR_INVALID_ARGUMENT);
    none = any;
    none.close();
    CHECK_FALSE(none);
    CHECK(none.empty());
}

TEST("lists_of_any_items_are_read_as_such") {
    using strings = std::vector<std::string>;
    const std::vector<std::optional<std::vector<strings>>> values = {
        std::vector<strings>{{"a", "b"}, {}}, std::nullopt, std::vector<strings>{}};
    const auto made = list<std::optional<list<list<std::string_view>>>>::create(values);
    const auto lists = any_list::attach(made.handle()).as<std::optional<any_list>>();
    REQUIRE(lists[0]);
    CHECK(lists[0]->kind() == item_kind::list);
    const any_list words = lists[0]->as<any_list>()[0];
    CHECK(words.as<std::string_view>()[1] == "b");
    CHECK(lists[0]->as<any_list>()[1].empty());
    CHECK_FALSE(lists[1]);
    CHECK(lists[2]->empty());
    const auto plain = list<any_list>::attach(made.handle());
    CHECK(status_of(plain.try_at(1)) == SHMA_ERROR_INVALID_ARGUMENT);
    CHECK(status_of(words.try_as<any_list>()) == SHMA_ERROR_DTYPE_MISMATCH);
    const auto records = list<record>::create(column_builder::records(
        {{"words", column_builder::of<list<std::string_view>>(std::vector<strings>{{"c"}})}}));
    CHECK(records[0].field<any_list>("words").as<std::string_view>()[0] == "c");
    shma_array *produced = nullptr;
    REQUIRE(shma_column_offsets(made.get(), &produced, nullptr) == SHMA_OK);
    any_array(produced).as<std::int64_t, 1>()[1] = 9;
    CHECK(status_of(plain.try_at(0)) == SHMA_ERROR_INVALID_SEGMENT);
}

TEST("a_list_is_saved_and_opened") {
    const std::string path = std::string(std::getenv("SHMARRAY_DIR")) + "/records.list";
    make_records().save(path);
    for (const bool checked : {false, true}) {
        const auto opened = list<record>::open(path, checked);
        CHECK(opened.field<std::string_view>("word")[2] == "three");
        CHECK(opened.field<array_view<const float>>("sample")[0][1] == -2);
        const auto label = opened.field<std::optional<std::int64_t>>("label");
        CHECK(label[0] == 7);
        CHECK(label[1] == std::nullopt);
        CHECK(status_of(opened.try_array()) == SHMA_ERROR_INVALID_ARGUMENT);
        CHECK(status_of(opened.try_handle()) == SHMA_ERROR_INVALID_ARGUMENT);
    }
    CHECK(any_list::open(path).size() == 3);
    CHECK(status_of(list<double>::try_open(path)) == SHMA_ERROR_DTYPE_MISMATCH);
    CHECK(std::remove(path.c_str()) == 0);
    CHECK(status_of(list<record>::try_open(path)) == SHMA_ERROR_NOT_FOUND);
    CHECK(status_of(any_list::try_open(path)) == SHMA_ERROR_NOT_FOUND);
    CHECK(status_of(list<double>().try_save(path)) == SHMA_ERROR_INVALID_ARGUMENT);
}

TEST("broken_offsets_are_an_error_of_their_item") {
    const auto made = list<std::string_view>::create(three_words);
    shma_array *produced = nullptr;
    REQUIRE(shma_column_offsets(made.get(), &produced, nullptr) == SHMA_OK);
    const auto offsets = any_array(produced).as<std::int64_t, 1>();
    offsets[1] = std::int64_t{1} << 40;
    CHECK(status_of(made.try_at(0)) == SHMA_ERROR_INVALID_SEGMENT);
    CHECK(status_of(made.try_at(1)) == SHMA_ERROR_INVALID_SEGMENT);
    CHECK(made[2] == "three");
    CHECK_THROWS_AS(made[0], shmarray::error);
}

TEST("iterators_have_random_access") {
    const auto strings = list<std::string_view>::create(three_words);
    auto first = strings.begin();
    const auto last = strings.end();
    CHECK(last - first == 3);
    CHECK((first < last && first <= last && last > first && last >= first && first != last));
    CHECK(first[2] == "three");
    CHECK(*first++ == "one");
    CHECK(first->empty());
    CHECK(*++first == "three");
    CHECK(*first-- == "three");
    CHECK(*(1 + first) == "three");
    CHECK(*(last - 1) == "three");
    CHECK(*--first == "one");
    CHECK(first == strings.begin());
    CHECK_THROWS_AS(*last, shmarray::out_of_bounds);
    const std::vector<std::string_view> backwards(std::make_reverse_iterator(last),
                                                  std::make_reverse_iterator(first));
    CHECK(backwards.front() == "three");
}

TEST("an_array_is_no_list") {
    const auto a = array<double>::create({3});
    CHECK(status_of(list<double>::try_attach(a.handle())) == SHMA_ERROR_DTYPE_MISMATCH);
    CHECK_THROWS_AS(list<double>::attach("nobody"), shmarray::not_found);
}

} // namespace
