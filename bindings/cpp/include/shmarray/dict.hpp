// Dictionaries: frozen mappings in shared memory, whose keys are found by a hash table there.
#ifndef SHMARRAY_DICT_HPP
#define SHMARRAY_DICT_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_span
#include <span>
#endif

#include <shmarray.h>
#include <shmarray/any_array.hpp>
#include <shmarray/array_view.hpp>
#include <shmarray/file_path.hpp>
#include <shmarray/held.hpp>
#include <shmarray/item.hpp>
#include <shmarray/layout.hpp>
#include <shmarray/list.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

namespace detail {

using dict_owner = std::shared_ptr<shma_dict>;

/// How a key of a type is sought, and how a message names it. Other types are no keys.
template <class Key, class = void>
struct key_of {
    static constexpr bool is_key = false;
};

template <>
struct key_of<std::string_view> {
    static constexpr bool is_key = true;

    static std::int32_t find(const shma_dict *dict, std::string_view key, std::size_t &index,
                             shma_error &why) noexcept {
        return shma_dict_find_string(dict, key.data(), key.size(), &index, &why);
    }

    static std::string text(std::string_view key) { return '"' + std::string(key) + '"'; }
};

template <>
struct key_of<array_view<const std::byte>> {
    static constexpr bool is_key = true;

    template <class Bytes>
    static std::int32_t find(const shma_dict *dict, const Bytes &key, std::size_t &index,
                             shma_error &why) noexcept {
        return shma_dict_find_bytes(dict, key.data(), key.size(), &index, &why);
    }

    template <class Bytes>
    static std::string text(const Bytes &key) {
        return "of these " + std::to_string(key.size()) + " bytes";
    }
};

#ifdef __cpp_lib_span
template <>
struct key_of<std::span<const std::byte>> : key_of<array_view<const std::byte>> {};
#endif

/// Integers of 64 bits: std::int64_t, and long long where that is another type.
template <class Key>
struct key_of<Key, std::enable_if_t<std::is_integral_v<Key> && std::is_signed_v<Key> &&
                                    sizeof(Key) == sizeof(std::int64_t)>> {
    static constexpr bool is_key = true;

    static std::int32_t find(const shma_dict *dict, Key key, std::size_t &index,
                             shma_error &why) noexcept {
        return shma_dict_find_integer(dict, key, &index, &why);
    }

    static std::string text(Key key) { return std::to_string(key); }
};

/// The entries of a dictionary by their index.
template <class Key, class Value>
struct entries {
    list<Key> keys;
    list<Value> values;

    std::pair<Key, Value> operator[](std::size_t index) const {
        return {keys[index], values[index]};
    }
};

} // namespace detail

/// A frozen mapping in shared memory, used as a const std::map, in the order in which it was made.
/// Its keys are std::string_view, std::int64_t, or bytes: array_view<const std::byte>, and
/// std::span<const std::byte> where the standard library has spans. Its values are read as the
/// items of a list<Value>.
///
/// A key is found by a hash table in the shared memory: attaching takes no longer for more entries.
/// Views are valid as long as an object of their dictionary. A dictionary never changes, so a copy
/// of the object is the same dictionary. An object that was closed or default-constructed is null
/// and has no entries.
template <class Key, class Value>
class dict {
    using key = detail::key_of<Key>;
    static_assert(key::is_key, "the keys of a dictionary are strings, bytes or std::int64_t");

  public:
    using key_type = Key;
    using mapped_type = Value;
    using value_type = std::pair<Key, Value>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using reference = value_type;
    using const_reference = value_type;
    using iterator = list_iterator<value_type, detail::entries<Key, Value>>;
    using const_iterator = iterator;

    dict() = default;

    /// Attaches the dictionary that has this handle or this name. Throws not_found, stale_handle,
    /// invalid_handle or permission_denied; dtype_mismatch if it is none, or if its keys are no Key
    /// or its values no Value; error if its bytes are not a dictionary's. One without entries has
    /// any Key and Value.
    static dict attach(std::string_view handle_or_name) {
        return try_attach(handle_or_name).value();
    }
    static result<dict> try_attach(std::string_view handle_or_name) {
        const auto terminated = detail::terminated(handle_or_name);
        if (!terminated)
            return terminated.error();
        return produced(shma_dict_attach, terminated->c_str());
    }

    /// Returns the dictionary whose bytes an array has, such as one that was received. Throws like
    /// attach().
    static dict of(const any_array &bytes) { return try_of(bytes).value(); }
    static result<dict> try_of(const any_array &bytes) {
        return produced(shma_dict_of_array, bytes.get());
    }

    /// Opens a dictionary in a file, as list<T>::open() does.
    static dict open(const file_path &path, bool checked = false) {
        return try_open(path, checked).value();
    }
    static result<dict> try_open(const file_path &path, bool checked = false) {
        const auto terminated = path.terminated();
        if (!terminated)
            return terminated.error();
        return produced(shma_dict_open, terminated->c_str(), checked ? 1 : 0);
    }

    /// Saves the dictionary to a file, as list<T>::save() does.
    void save(const file_path &path) const { try_save(path).value(); }
    result<void> try_save(const file_path &path) const {
        const auto terminated = path.terminated();
        return terminated ? detail::act(shma_dict_save, terminated->c_str(), get())
                          : terminated.error();
    }

    /// Creates a dictionary of the pairs of a range: a std::map, a std::unordered_map, a
    /// std::vector of std::pair. Keys and values are those that list<Key> and list<Value> are
    /// created of. Throws no_space or already_exists, and invalid_argument also if a key is there
    /// twice.
    template <class Pairs, std::enable_if_t<!std::is_same_v<Pairs, column_builder>, int> = 0>
    static dict create(const Pairs &pairs, const options &chosen = {}) {
        return try_create(pairs, chosen).value();
    }
    template <class Pairs, std::enable_if_t<!std::is_same_v<Pairs, column_builder>, int> = 0>
    static result<dict> try_create(const Pairs &pairs, const options &chosen = {}) {
        auto keys = column_builder::try_of<Key>(std::initializer_list<Key>());
        if (!keys)
            return keys.error();
        auto values = column_builder::try_of<Value>(std::initializer_list<Value>());
        if (!values)
            return values.error();
        for (const auto &[name, value] : pairs) {
            if (auto pushed = detail::item_of<Key>::push(keys->get(), name); !pushed)
                return pushed.error();
            if (auto pushed = detail::item_of<Value>::push(values->get(), value); !pushed)
                return pushed.error();
        }
        return try_create(*keys, *values, chosen);
    }

    /// Creates a dictionary of the keys of one builder and as many values of another, such as
    /// records. Both are null afterwards.
    static dict create(const column_builder &keys, const column_builder &values,
                       const options &chosen = {}) {
        return try_create(keys, values, chosen).value();
    }
    static result<dict> try_create(const column_builder &keys, const column_builder &values,
                                   const options &chosen = {}) {
        if (auto checked = detail::check_options(chosen); !checked)
            return checked.error();
        const shma_options made = detail::plain(chosen);
        shma_column_builder *const of_keys = keys.release();
        return produced(shma_dict_create, of_keys, values.release(), &made);
    }

    /// Returns whether there is a dictionary.
    explicit operator bool() const noexcept { return owner_ != nullptr; }

    /// Releases the dictionary, as the destructor does. The object is then null.
    void close() noexcept { *this = dict(); }

    /// Returns the number of entries.
    std::size_t size() const noexcept { return entries_.keys.size(); }
    bool empty() const noexcept { return size() == 0; }

    /// Returns an iterator to the entry of a key, or end(). Throws error if the dictionary's bytes
    /// are broken.
    iterator find(const Key &sought) const { return try_find(sought).value(); }
    result<iterator> try_find(const Key &sought) const {
        const auto index = index_of(sought);
        if (!index)
            return index.error();
        return iterator(&entries_, static_cast<difference_type>(*index));
    }

    /// Returns whether there is an entry of a key. Throws like find().
    bool contains(const Key &sought) const { return try_contains(sought).value(); }
    result<bool> try_contains(const Key &sought) const {
        const auto index = index_of(sought);
        if (!index)
            return index.error();
        return *index != size();
    }

    /// Returns the value of a key. Throws not_found if there is none, invalid_argument if it is
    /// None and Value is no std::optional; error if the dictionary's bytes are broken.
    Value at(const Key &sought) const { return try_at(sought).value(); }
    result<Value> try_at(const Key &sought) const {
        const auto index = index_of(sought);
        if (!index)
            return index.error();
        if (*index == size())
            return failure(SHMA_ERROR_NOT_FOUND, 0,
                           "the dictionary has no key " + key::text(sought));
        return entries_.values.try_at(*index);
    }

    /// Iterates over the entries. Its iterators have random access and return pairs by value.
    iterator begin() const noexcept { return {&entries_, 0}; }
    iterator end() const noexcept { return {&entries_, static_cast<difference_type>(size())}; }

    /// Returns the list of the keys, or of the values in their order. It holds the dictionary, but
    /// has no handle and no file.
    list<Key> keys() const { return entries_.keys; }
    list<Value> values() const { return entries_.values; }

    /// Returns the array of the dictionary's bytes, for messages. Throws invalid_argument if this
    /// object is null, or the dictionary in a file.
    any_array array() const { return try_array().value(); }
    result<any_array> try_array() const {
        const shma_array *const bytes = shma_dict_array(get());
        if (bytes == nullptr)
            return detail::invalid("invalid dictionary: it is null, or in a file");
        return any_array(shma_array_retain(bytes));
    }

    /// Returns the handle: one line of text that any process on this machine can attach.
    std::string handle() const { return try_handle().value(); }
    result<std::string> try_handle() const {
        return detail::text_of(shma_array_handle, shma_dict_array(get()));
    }

    /// Returns a handle to be sent out of band, as array::handle_to_send() does.
    std::string handle_to_send() const { return try_handle_to_send().value(); }
    result<std::string> try_handle_to_send() const {
        return detail::text_of(shma_array_handle_to_send, shma_dict_array(get()));
    }

    /// Returns the dictionary for calls of the C ABI; this object keeps its ownership.
    const shma_dict *get() const noexcept { return owner_.get(); }

  private:
    dict(detail::dict_owner opened, detail::entries<Key, Value> all) noexcept
        : owner_(std::move(opened)), entries_(std::move(all)) {}

    template <class Function, class... Arguments>
    static result<dict> produced(Function function, Arguments... arguments) {
        shma_dict *made = nullptr;
        auto called = detail::call(function, arguments..., &made);
        if (!called)
            return called.error();
        const detail::dict_owner opened(made, shma_dict_close);
        if (shma_dict_count(made) == 0)
            return dict(opened, {});
        auto keys = column_of<Key>(opened, shma_dict_keys(made), "keys");
        if (!keys)
            return keys.error();
        auto values = column_of<Value>(opened, shma_dict_values(made), "values");
        if (!values)
            return values.error();
        return dict(opened, {*std::move(keys), *std::move(values)});
    }

    /// Returns the list of a column, which holds the dictionary.
    template <class T>
    static result<list<T>> column_of(const detail::dict_owner &opened, const shma_column *column,
                                     const char *name) {
        const detail::list_owner holds(opened, nullptr);
        auto items = list<T>::checked(holds, column, 0, shma_column_count(column));
        if (!items)
            return failure(items.error().status(), items.error().os_errno(),
                           std::string("the dictionary's ") + name + ": " +
                               items.error().message());
        return items;
    }

    /// Returns the index of a key, or the size if there is no such key.
    result<std::size_t> index_of(const Key &sought) const {
        std::size_t index = size();
        if (empty())
            return index;
        shma_error why;
        if (const std::int32_t status = key::find(get(), sought, index, why); status < 0)
            return failure(status, why.os_errno, why.message);
        return index;
    }

    detail::dict_owner owner_;
    detail::entries<Key, Value> entries_;
};

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_DICT_HPP
