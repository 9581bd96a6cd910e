// How the items of a list are read as a type of C++, and how they are added to a new list.
#ifndef SHMARRAY_ITEM_HPP
#define SHMARRAY_ITEM_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_span
#include <span>
#endif

#include <shmarray.h>
#include <shmarray/array_view.hpp>
#include <shmarray/dtype.hpp>
#include <shmarray/held.hpp>
#include <shmarray/layout.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

template <class T>
class list;
class record;

namespace detail {

/// What keeps the columns of a list. It is null, but not empty, if they are those of a dictionary.
using list_owner = std::shared_ptr<shma_list>;

/// Writes a failure about an item as a function of the C ABI does, and returns its status.
inline std::int32_t refuse(shma_error &why, std::int32_t status, const char *before,
                           std::size_t index, const char *behind) noexcept {
    why.status = status;
    why.os_errno = 0;
    std::snprintf(why.message, sizeof why.message, "%s %zu%s", before, index, behind);
    return status;
}

inline std::int32_t refuse_none(shma_error &why, std::size_t index) noexcept {
    return refuse(why, SHMA_ERROR_INVALID_ARGUMENT, "invalid index: item", index,
                  " is None, which a std::optional reads");
}

inline bool has_none(const shma_column *column) noexcept { return shma_column_nulls(column) != 0; }

/// Returns a failure unless the items of a column have a kind.
inline result<void> check_kind(const shma_column *column, shma_item_kind kind) {
    static constexpr const char *names[] = {"nothing", "numbers", "arrays",  "strings",  "bytes",
                                            "records", "lists",   "pickles", "only None"};
    const auto name = [](shma_item_kind of) {
        return std::string(of >= 0 && of <= SHMA_ITEM_NOTHING ? names[of] : "unknown");
    };
    const shma_item_kind found = shma_column_kind(column);
    if (found == kind)
        return {};
    return failure(SHMA_ERROR_DTYPE_MISMATCH, 0,
                   "the list's items are " + name(found) + ", not " + name(kind));
}

/// Returns a failure unless the dtype of numbers or of the elements of arrays is that of T.
template <class T>
result<void> check_dtype(const shma_column *column) {
    const char *const found = shma_column_dtype_text(column);
    const char *const expected = text_of_dtype<T>();
    if (std::string_view(found) == expected)
        return {};
    return failure(SHMA_ERROR_DTYPE_MISMATCH, 0,
                   std::string("the dtype of the list's items is ") + found + ", not " + expected);
}

/// Returns where the numbers of a column lie, as long as the list is open. Those of a list in a
/// file, which is no array, are found one by one: it returns null.
inline const unsigned char *values_of(const shma_column *column) {
    const auto values = produce(shma_column_values, column);
    return values ? values->first : nullptr;
}

/// Returns the field of records that has a name.
inline result<const shma_column *> field_of(const shma_column *records, std::string_view name) {
    const auto text = terminated(name);
    if (!text)
        return text.error();
    const shma_column *const found = shma_column_field(records, text->c_str());
    if (found == nullptr)
        return failure(SHMA_ERROR_NOT_FOUND, 0,
                       "the list's records have no field \"" + *text + "\"");
    return found;
}

inline std::vector<std::string> names_of(const shma_column *records) {
    std::vector<std::string> names;
    for (std::size_t index = 0; index < shma_column_child_count(records); ++index)
        names.emplace_back(shma_column_name(shma_column_child(records, index)));
    return names;
}

/// Calls a function of the C ABI that outputs a list.
template <class Function, class... Arguments>
result<list_owner> produce_list(Function function, Arguments... arguments) {
    shma_list *made = nullptr;
    auto called = call(function, arguments..., &made);
    if (!called)
        return called.error();
    return list_owner(made, shma_list_close);
}

/// Calls a function of the C ABI that outputs a builder.
template <class Function, class... Arguments>
result<shma_column_builder *> produce_builder(Function function, Arguments... arguments) {
    shma_column_builder *made = nullptr;
    auto called = call(function, arguments..., &made);
    if (!called)
        return called.error();
    return made;
}

template <class Range, class T, class = void>
inline constexpr bool lies_side_by_side = false;
template <class Range, class T>
inline constexpr bool
    lies_side_by_side<Range, T, std::void_t<decltype(std::data(std::declval<const Range &>()))>> =
        std::is_same_v<decltype(std::data(std::declval<const Range &>())), const T *>;

/// Adds each item of a range.
template <class Item, class Range>
result<void> push_each(const shma_column_builder *builder, const Range &items) {
    for (const auto &one : items)
        if (auto pushed = Item::push(builder, one); !pushed)
            return pushed;
    return {};
}

/// How items are read and added as a T: here as numbers, or other elements of one dtype.
///
/// `prepare` checks a column, and returns what `read` needs to know of it. `read` is called with an
/// index that the list has, and returns a status, as a function of the C ABI does. `builder` makes
/// a builder, to which `push` adds one item and `push_all` a range.
template <class T, class = void>
struct item_of {
    struct state {
        const unsigned char *values = nullptr;
        bool has_none = false;
    };

    static result<state> prepare(const shma_column *column) {
        if (auto kind = check_kind(column, SHMA_ITEM_NUMBER); !kind)
            return kind.error();
        if (auto dtype = check_dtype<T>(column); !dtype)
            return dtype.error();
        return state{values_of(column), has_none(column)};
    }

    static std::int32_t read(const list_owner &, const shma_column *column, const state &known,
                             std::size_t index, T &item, shma_error &why) {
        if (known.has_none && shma_column_is_none(column, index) != 0)
            return refuse_none(why, index);
        const void *data = known.values + index * sizeof(T);
        if (known.values == nullptr) {
            std::size_t size_bytes = 0;
            const std::int32_t status = shma_column_item(column, index, &data, &size_bytes, &why);
            if (status != SHMA_OK)
                return status;
        }
        std::memcpy(static_cast<void *>(&item), data, sizeof(T));
        return SHMA_OK;
    }

    static result<shma_column_builder *> builder() {
        const options none{};
        const shma_options element = plain(none, wanted<T>().text);
        return produce_builder(shma_column_builder_create_numbers, dtype_of<T>::value, &element);
    }

    template <class Number>
    static result<void> push(const shma_column_builder *builder, const Number &number) {
        const T value = static_cast<T>(number);
        return act(shma_column_builder_push_numbers, builder, &value, std::size_t{1});
    }

    template <class Range>
    static result<void> push_all(const shma_column_builder *builder, const Range &items) {
        if constexpr (lies_side_by_side<Range, T>)
            return act(shma_column_builder_push_numbers, builder, std::data(items),
                       std::size(items));
        else
            return push_each<item_of>(builder, items);
    }
};

template <>
struct item_of<std::string_view> {
    struct state {};

    static result<state> prepare(const shma_column *column) {
        auto kind = check_kind(column, SHMA_ITEM_STRING);
        return kind ? result<state>(state()) : result<state>(kind.error());
    }

    static std::int32_t read(const list_owner &, const shma_column *column, const state &,
                             std::size_t index, std::string_view &item, shma_error &why) {
        const void *data = nullptr;
        std::size_t size_bytes = 0;
        const std::int32_t status = shma_column_item(column, index, &data, &size_bytes, &why);
        if (status == SHMA_OK && data == nullptr)
            return refuse_none(why, index);
        item = {static_cast<const char *>(data), size_bytes};
        return status;
    }

    static result<shma_column_builder *> builder() {
        return produce_builder(shma_column_builder_create,
                               static_cast<shma_item_kind>(SHMA_ITEM_STRING));
    }

    static result<void> push(const shma_column_builder *builder, std::string_view string) {
        return act(shma_column_builder_push_string, builder, string.data(), string.size());
    }

    template <class Range>
    static result<void> push_all(const shma_column_builder *builder, const Range &items) {
        return push_each<item_of>(builder, items);
    }
};

/// Arrays; of std::byte also bytes.
template <class T, std::size_t Rank>
struct item_of<array_view<T, Rank>> {
    static_assert(std::is_const_v<T>, "a list does not change: use array_view<const T>");
    using element = std::remove_const_t<T>;
    static constexpr bool may_be_bytes = Rank == 1 && dtype_of<element>::value == SHMA_UINT8;
    static constexpr bool is_bytes = Rank == 1 && std::is_same_v<element, std::byte>;

    struct state {};

    static result<state> prepare(const shma_column *column) {
        if (may_be_bytes && shma_column_kind(column) == SHMA_ITEM_BYTES)
            return state();
        if (auto kind = check_kind(column, is_bytes ? SHMA_ITEM_BYTES : SHMA_ITEM_ARRAY); !kind)
            return kind.error();
        if (auto dtype = check_dtype<element>(column); !dtype)
            return dtype.error();
        if (shma_column_ndim(column) != Rank)
            return failure(SHMA_ERROR_INVALID_ARGUMENT, 0,
                           "invalid shape: the list's arrays have " +
                               std::to_string(shma_column_ndim(column)) + " dimensions, not " +
                               std::to_string(Rank));
        return state();
    }

    static std::int32_t read(const list_owner &, const shma_column *column, const state &,
                             std::size_t index, array_view<T, Rank> &item, shma_error &why) {
        const void *data = nullptr;
        std::size_t size_bytes = 0;
        std::array<std::int64_t, Rank> shape{};
        std::int32_t status = shma_column_item(column, index, &data, &size_bytes, &why);
        if (status == SHMA_OK && data == nullptr)
            return refuse_none(why, index);
        if (reinterpret_cast<std::uintptr_t>(data) % alignof(T) != 0)
            return refuse(why, SHMA_ERROR_INVALID_ARGUMENT, "invalid list: item", index,
                          " is not aligned as C++ needs it");
        if constexpr (Rank == 1)
            shape[0] = static_cast<std::int64_t>(size_bytes / sizeof(T));
        else if (status == SHMA_OK)
            status = shma_column_shape(column, index, Rank, shape.data(), &why);
        item = {static_cast<T *>(data), shape};
        // They differ only if a process breaks its promise and writes to the list meanwhile.
        if (status == SHMA_OK && item.size() * sizeof(T) != size_bytes)
            return refuse(why, SHMA_ERROR_INVALID_SEGMENT, "invalid list: shapes: item", index,
                          " was written meanwhile");
        return status;
    }

    static result<shma_column_builder *> builder() {
        if constexpr (is_bytes) {
            return produce_builder(shma_column_builder_create,
                                   static_cast<shma_item_kind>(SHMA_ITEM_BYTES));
        } else {
            const options none{};
            const shma_options plain_element = plain(none, wanted<element>().text);
            return produce_builder(shma_column_builder_create_arrays, dtype_of<element>::value,
                                   &plain_element, Rank);
        }
    }

    /// Adds a container of elements side by side; with more than one dimension one that has a
    /// shape, too: an array_view or an array of the same Rank.
    template <class Elements>
    static result<void> push(const shma_column_builder *builder, const Elements &elements) {
        const auto *const data = std::data(elements);
        using found = std::remove_const_t<std::remove_pointer_t<decltype(std::data(elements))>>;
        if constexpr (is_bytes) {
            static_assert(sizeof(found) == 1, "an item of bytes is a container of bytes");
            return act(shma_column_builder_push_bytes, builder, static_cast<const void *>(data),
                       std::size(elements));
        } else {
            static_assert(std::is_same_v<found, element>, "the elements have another type");
            std::array<std::int64_t, Rank> shape{};
            if constexpr (Rank == 1) {
                shape[0] = static_cast<std::int64_t>(std::size(elements));
            } else {
                const auto counts = elements.shape();
                if (counts.size() != Rank)
                    return invalid("invalid shape: its number is not the array's Rank");
                std::copy(counts.begin(), counts.end(), shape.begin());
            }
            return act(shma_column_builder_push_array, builder, Rank,
                       static_cast<const std::int64_t *>(shape.data()),
                       static_cast<const void *>(data));
        }
    }

    template <class Range>
    static result<void> push_all(const shma_column_builder *builder, const Range &items) {
        return push_each<item_of>(builder, items);
    }
};

#ifdef __cpp_lib_span
/// Arrays of one dimension; of std::byte bytes.
template <class T>
struct item_of<std::span<T>> : item_of<array_view<T>> {
    using view_item = item_of<array_view<T>>;

    static std::int32_t read(const list_owner &owner, const shma_column *column,
                             const typename view_item::state &known, std::size_t index,
                             std::span<T> &item, shma_error &why) {
        array_view<T> elements;
        const std::int32_t status = view_item::read(owner, column, known, index, elements, why);
        item = elements.span();
        return status;
    }
};
#endif

/// Items that may be None.
template <class T>
struct item_of<std::optional<T>> {
    using state = std::optional<typename item_of<T>::state>; // not of a column of nothing

    static result<state> prepare(const shma_column *column) {
        if (shma_column_kind(column) == SHMA_ITEM_NOTHING)
            return state();
        auto known = item_of<T>::prepare(column);
        return known ? result<state>(state(*known)) : result<state>(known.error());
    }

    static std::int32_t read(const list_owner &owner, const shma_column *column, const state &known,
                             std::size_t index, std::optional<T> &item, shma_error &why) {
        item.reset();
        if (!known || shma_column_is_none(column, index) != 0)
            return SHMA_OK;
        return item_of<T>::read(owner, column, *known, index, item.emplace(), why);
    }

    static result<shma_column_builder *> builder() { return item_of<T>::builder(); }

    template <class Item>
    static result<void> push(const shma_column_builder *builder, const Item &item) {
        return item_of<T>::push(builder, item);
    }
    template <class Item>
    static result<void> push(const shma_column_builder *builder, const std::optional<Item> &item) {
        return item ? item_of<T>::push(builder, *item)
                    : act(shma_column_builder_push_none, builder);
    }

    template <class Range>
    static result<void> push_all(const shma_column_builder *builder, const Range &items) {
        return push_each<item_of>(builder, items);
    }
};

/// Lists of items that are read as T.
template <class T>
struct item_of<list<T>> {
    struct state {
        const shma_column *items = nullptr;
        bool has_none = false;
        typename item_of<T>::state of_items{};
    };

    static result<state> prepare(const shma_column *column) {
        if (auto kind = check_kind(column, SHMA_ITEM_LIST); !kind)
            return kind.error();
        const shma_column *const items = shma_column_child(column, 0);
        auto known = item_of<T>::prepare(items);
        if (!known)
            return known.error();
        return state{items, has_none(column), *known};
    }

    static std::int32_t read(const list_owner &owner, const shma_column *column, const state &known,
                             std::size_t index, list<T> &item, shma_error &why) {
        std::size_t first = 0, count = 0;
        if (known.has_none && shma_column_is_none(column, index) != 0)
            return refuse_none(why, index);
        const std::int32_t status = shma_column_range(column, index, &first, &count, &why);
        if (status == SHMA_OK)
            item = list<T>(owner, known.items, first, count, known.of_items);
        return status;
    }

    static result<shma_column_builder *> builder() {
        auto items = item_of<T>::builder();
        if (!items)
            return items;
        return produce_builder(shma_column_builder_create_lists, *items);
    }

    template <class Items>
    static result<void> push(const shma_column_builder *builder, const Items &items) {
        auto pushed = item_of<T>::push_all(shma_column_builder_field(builder, 0), items);
        return pushed ? act(shma_column_builder_push_list, builder) : pushed;
    }

    template <class Range>
    static result<void> push_all(const shma_column_builder *builder, const Range &items) {
        return push_each<item_of>(builder, items);
    }
};

} // namespace detail

/// One record of a list. A loop over all records is faster over the lists of their fields:
/// list<record>::field<T>("name").
class record {
  public:
    record() = default;

    /// Returns the item of a field. Throws not_found if there is none of that name, dtype_mismatch
    /// if it is no T, and like list<T>::operator[].
    template <class T>
    T field(std::string_view name) const {
        return try_field<T>(name).value();
    }
    template <class T>
    result<T> try_field(std::string_view name) const {
        auto column = detail::field_of(column_, name);
        if (!column)
            return column.error();
        auto known = detail::item_of<T>::prepare(*column);
        if (!known)
            return known.error();
        T item{};
        shma_error why;
        const std::int32_t status =
            detail::item_of<T>::read(owner_, *column, *known, index_, item, why);
        if (status < 0)
            return failure(status, why.os_errno, why.message);
        return item;
    }

    /// Returns whether the item of a field is None. Throws not_found if there is no such field.
    bool is_none(std::string_view name) const { return try_is_none(name).value(); }
    result<bool> try_is_none(std::string_view name) const {
        auto column = detail::field_of(column_, name);
        if (!column)
            return column.error();
        return shma_column_is_none(*column, index_) != 0;
    }

    /// Returns the names of the fields.
    std::vector<std::string> names() const { return detail::names_of(column_); }

  private:
    template <class, class>
    friend struct detail::item_of;

    record(detail::list_owner owner, const shma_column *column, std::size_t index) noexcept
        : owner_(std::move(owner)), column_(column), index_(index) {}

    detail::list_owner owner_;
    const shma_column *column_ = nullptr;
    std::size_t index_ = 0;
};

namespace detail {

template <>
struct item_of<record> {
    struct state {
        bool has_none = false;
    };

    static result<state> prepare(const shma_column *column) {
        if (auto kind = check_kind(column, SHMA_ITEM_RECORD); !kind)
            return kind.error();
        return state{has_none(column)};
    }

    static std::int32_t read(const list_owner &owner, const shma_column *column, const state &known,
                             std::size_t index, record &item, shma_error &why) {
        if (known.has_none && shma_column_is_none(column, index) != 0)
            return refuse_none(why, index);
        item = record(owner, column, index);
        return SHMA_OK;
    }
};

} // namespace detail

/// The items of a list that is not created yet, in private memory. A copy has the same items; a
/// list or another builder takes them, and then all copies are null.
class column_builder {
  public:
    column_builder() = default;

    /// Returns a builder with the items of a range, as list<T>::create takes them. Throws
    /// invalid_argument if a string is not UTF-8.
    template <class T, class Range>
    static column_builder of(const Range &items) {
        return try_of<T>(items).value();
    }
    template <class T, class Range>
    static result<column_builder> try_of(const Range &items) {
        auto made = detail::item_of<T>::builder();
        if (!made)
            return made.error();
        column_builder builder(*made);
        if (auto pushed = detail::item_of<T>::push_all(builder.get(), items); !pushed)
            return pushed.error();
        return builder;
    }

    /// Returns a builder of records: {{"text", column_builder::of<std::string_view>(texts)}, …}.
    /// Throws invalid_argument if two fields have one name, or if they differ in length.
    static column_builder records(const std::vector<std::pair<std::string, column_builder>> &from) {
        return try_records(from).value();
    }
    static result<column_builder>
    try_records(const std::vector<std::pair<std::string, column_builder>> &from) {
        text_names names;
        std::vector<shma_column_builder *> fields;
        for (const auto &[name, field] : from)
            if (auto checked = detail::terminated(name); !checked)
                return checked.error();
        const std::size_t count = from.empty() ? 0 : from.front().second.size();
        for (const auto &[name, field] : from) {
            names.push_back(name.c_str());
            fields.push_back(field.release());
        }
        auto made = detail::produce_builder(shma_column_builder_create_records, fields.size(),
                                            names.data(), fields.data());
        if (!made)
            return made.error();
        column_builder builder(*made);
        if (auto pushed = detail::act(shma_column_builder_push_records, builder.get(), count);
            !pushed)
            return pushed.error();
        return builder;
    }

    /// Returns whether there are items to be taken.
    explicit operator bool() const noexcept { return get() != nullptr; }

    /// Returns the number of items.
    std::size_t size() const noexcept { return shma_column_builder_count(get()); }

    /// Returns the builder for calls of the C ABI; this object keeps its ownership.
    const shma_column_builder *get() const noexcept { return held_ ? held_->owned : nullptr; }

    /// Gives the ownership away, also that of all copies.
    shma_column_builder *release() const noexcept {
        return held_ ? std::exchange(held_->owned, nullptr) : nullptr;
    }

  private:
    using text_names = std::vector<const char *>;

    struct held {
        explicit held(shma_column_builder *made) noexcept : owned(made) {}
        held(const held &) = delete;
        held &operator=(const held &) = delete;
        ~held() { shma_column_builder_close(owned); }

        shma_column_builder *owned;
    };

    explicit column_builder(shma_column_builder *made) : held_(std::make_shared<held>(made)) {}

    std::shared_ptr<held> held_;
};

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_ITEM_HPP
