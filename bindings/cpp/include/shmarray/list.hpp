// Lists: immutable sequences in shared memory, which are read by index, by iterators and by field.
#ifndef SHMARRAY_LIST_HPP
#define SHMARRAY_LIST_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <shmarray.h>
#include <shmarray/any_array.hpp>
#include <shmarray/file_path.hpp>
#include <shmarray/held.hpp>
#include <shmarray/item.hpp>
#include <shmarray/layout.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

class any_list;
template <class Key, class Value>
class dict;

/// A random-access iterator over the items of a list, or over the entries of a dictionary. It
/// returns items by value, and is valid as long as that object.
template <class T, class Items = list<T>>
class list_iterator {
  public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using reference = T;

    /// An item that lives as long as an expression.
    class pointer {
      public:
        explicit pointer(T item) : item_(std::move(item)) {}
        const T *operator->() const noexcept { return &item_; }

      private:
        T item_;
    };

    list_iterator() = default;
    list_iterator(const Items *items, difference_type position) noexcept
        : items_(items), position_(position) {}

    T operator*() const { return (*this)[0]; }
    pointer operator->() const { return pointer(**this); }
    T operator[](difference_type count) const {
        return (*items_)[static_cast<std::size_t>(position_ + count)];
    }

    list_iterator &operator++() noexcept { return *this += 1; }
    list_iterator &operator--() noexcept { return *this -= 1; }
    list_iterator operator++(int) noexcept { return {items_, position_++}; }
    list_iterator operator--(int) noexcept { return {items_, position_--}; }
    list_iterator &operator+=(difference_type count) noexcept {
        position_ += count;
        return *this;
    }
    list_iterator &operator-=(difference_type count) noexcept { return *this += -count; }

    friend list_iterator operator+(list_iterator a, difference_type count) noexcept {
        return a += count;
    }
    friend list_iterator operator+(difference_type count, list_iterator a) noexcept {
        return a += count;
    }
    friend list_iterator operator-(list_iterator a, difference_type count) noexcept {
        return a -= count;
    }
    friend difference_type operator-(const list_iterator &a, const list_iterator &b) noexcept {
        return a.position_ - b.position_;
    }
    friend bool operator==(const list_iterator &a, const list_iterator &b) noexcept {
        return a - b == 0;
    }
    friend bool operator!=(const list_iterator &a, const list_iterator &b) noexcept {
        return a - b != 0;
    }
    friend bool operator<(const list_iterator &a, const list_iterator &b) noexcept {
        return a - b < 0;
    }
    friend bool operator>(const list_iterator &a, const list_iterator &b) noexcept {
        return a - b > 0;
    }
    friend bool operator<=(const list_iterator &a, const list_iterator &b) noexcept {
        return a - b <= 0;
    }
    friend bool operator>=(const list_iterator &a, const list_iterator &b) noexcept {
        return a - b >= 0;
    }

  private:
    const Items *items_ = nullptr;
    difference_type position_ = 0;
};

/// An immutable sequence in shared memory, in Arrow's layout. Its items are read as T:
///
///     T                          items
///     double, an element type    numbers of its dtype
///     std::string_view           strings; no zero byte is behind them
///     array_view<const T, Rank>  arrays of that dtype and number of dimensions
///     std::span<const T>         arrays of one dimension, where the standard library has spans
///     std::span<const std::byte> bytes, and so array_view<const std::byte>
///     record                     records; field<T>("name") is the list of one of their fields
///     list<T>                    lists
///     any_list                   lists whose items are known only at run time
///     std::optional<T>           any of these, or None
///
/// Views are valid as long as an object of their list. A list never changes, so a copy of the
/// object is the same list. An object that was closed or default-constructed is null and has no
/// items.
template <class T>
class list {
    using item = detail::item_of<T>;

  public:
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using reference = T;
    using const_reference = T;
    using iterator = list_iterator<T>;
    using const_iterator = iterator;

    list() = default;

    /// Attaches the list that has this handle or this name. Throws not_found, stale_handle,
    /// invalid_handle or permission_denied; dtype_mismatch if its items are no T; error if its
    /// bytes are not a list's.
    static list attach(std::string_view handle_or_name) {
        return try_attach(handle_or_name).value();
    }
    static result<list> try_attach(std::string_view handle_or_name) {
        const auto terminated = detail::terminated(handle_or_name);
        if (!terminated)
            return terminated.error();
        return produced(shma_list_attach, terminated->c_str());
    }

    /// Returns the list whose bytes an array has, such as one that was received. Throws like
    /// attach().
    static list of(const any_array &bytes) { return try_of(bytes).value(); }
    static result<list> try_of(const any_array &bytes) {
        return produced(shma_list_of_array, bytes.get());
    }

    /// Opens a list in a file, which is mapped. If checked, all of it is read and compared with its
    /// checksum. Throws like attach(), and invalid_file. Such a list has no handle.
    static list open(const file_path &path, bool checked = false) {
        return try_open(path, checked).value();
    }
    static result<list> try_open(const file_path &path, bool checked = false) {
        const auto terminated = path.terminated();
        if (!terminated)
            return terminated.error();
        return produced(shma_list_open, terminated->c_str(), checked ? 1 : 0);
    }

    /// Saves the whole list to a file, which appears when it is complete, as save_npy() does.
    void save(const file_path &path) const { try_save(path).value(); }
    result<void> try_save(const file_path &path) const {
        const auto terminated = path.terminated();
        return terminated ? detail::act(shma_list_save, terminated->c_str(),
                                        static_cast<const shma_list *>(owner_.get()))
                          : terminated.error();
    }

    /// Creates a list of the items of a range: a std::vector<std::string> for list<
    /// std::string_view>, a std::vector<std::vector<float>> for list<std::span<const float>>, of
    /// std::optional for list<std::optional<T>>. Throws no_space, already_exists or
    /// invalid_argument.
    template <class Range, std::enable_if_t<!std::is_same_v<Range, column_builder>, int> = 0>
    static list create(const Range &items, const options &chosen = {}) {
        return try_create(items, chosen).value();
    }
    template <class Range, std::enable_if_t<!std::is_same_v<Range, column_builder>, int> = 0>
    static result<list> try_create(const Range &items, const options &chosen = {}) {
        auto builder = column_builder::try_of<T>(items);
        return builder ? try_create(*builder, chosen) : result<list>(builder.error());
    }

    /// Creates a list of what a builder has, which is null afterwards. So records become a list.
    static list create(const column_builder &items, const options &chosen = {}) {
        return try_create(items, chosen).value();
    }
    static result<list> try_create(const column_builder &items, const options &chosen = {}) {
        if (auto checked = detail::check_options(chosen); !checked)
            return checked.error();
        const shma_options made = detail::plain(chosen);
        return produced(shma_list_create, items.release(), &made);
    }

    /// Returns whether there is a list.
    explicit operator bool() const noexcept { return owner_.use_count() != 0; }

    /// Releases the list, as the destructor does. The object is then null.
    void close() noexcept { *this = list(); }

    /// Returns the number of items.
    std::size_t size() const noexcept { return count_; }
    bool empty() const noexcept { return size() == 0; }

    /// Returns an item. Throws out_of_bounds if there is none of that index; invalid_argument if it
    /// is None and T is no std::optional; error if the list's bytes are broken.
    T operator[](std::size_t index) const {
        T found{};
        shma_error why;
        const std::int32_t status = read(index, found, why);
        if (status < 0)
            failure(status, why.os_errno, why.message).raise();
        return found;
    }
    T at(std::size_t index) const { return (*this)[index]; }
    result<T> try_at(std::size_t index) const {
        T found{};
        shma_error why;
        const std::int32_t status = read(index, found, why);
        if (status < 0)
            return failure(status, why.os_errno, why.message);
        return found;
    }

    /// Returns whether an item is None; false if there is none of that index.
    bool is_none(std::size_t index) const noexcept {
        return index < count_ && shma_column_is_none(column_, first_ + index) != 0;
    }

    /// Iterates over the items. Its iterators have random access and return items by value.
    iterator begin() const noexcept { return {this, 0}; }
    iterator end() const noexcept { return {this, static_cast<difference_type>(count_)}; }

    /// Returns the list of a field of records, as long as this one. Throws not_found if they have
    /// none of that name, dtype_mismatch if its items are no U.
    template <class U>
    list<U> field(std::string_view name) const {
        return try_field<U>(name).value();
    }
    template <class U>
    result<list<U>> try_field(std::string_view name) const {
        static_assert(std::is_same_v<T, record>, "only records have fields: use list<record>");
        auto column = detail::field_of(column_, name);
        if (!column)
            return column.error();
        return list<U>::checked(owner_, *column, first_, count_);
    }

    /// Returns the names of the fields of records.
    std::vector<std::string> names() const {
        static_assert(std::is_same_v<T, record>, "only records have fields: use list<record>");
        return detail::names_of(column_);
    }

    /// Returns the array of the whole list's bytes, for messages. Throws invalid_argument if this
    /// object is null, the list in a file, or a part of a dictionary, which has the array.
    any_array array() const { return try_array().value(); }
    result<any_array> try_array() const {
        const shma_array *const bytes = shma_list_array(owner_.get());
        if (bytes == nullptr)
            return detail::invalid("invalid list: it is null, in a file, or of a dictionary");
        return any_array(shma_array_retain(bytes));
    }

    /// Returns the handle of the whole list: one line of text that any process on this machine can
    /// attach.
    std::string handle() const { return try_handle().value(); }
    result<std::string> try_handle() const {
        return detail::text_of(shma_array_handle, shma_list_array(owner_.get()));
    }

    /// Returns a handle of the whole list to be sent out of band, as array::handle_to_send() does.
    std::string handle_to_send() const { return try_handle_to_send().value(); }
    result<std::string> try_handle_to_send() const {
        return detail::text_of(shma_array_handle_to_send, shma_list_array(owner_.get()));
    }

    /// Returns the column for calls of the C ABI; null if this object is. A list that is an item of
    /// another one has a part of its column.
    const shma_column *get() const noexcept { return column_; }

  private:
    template <class>
    friend class list;
    friend class any_list;
    template <class, class>
    friend class dict;
    template <class, class>
    friend struct detail::item_of;

    using state = typename item::state;

    list(detail::list_owner opened, const shma_column *column, std::size_t first, std::size_t count,
         state known) noexcept
        : owner_(std::move(opened)), column_(column), first_(first), count_(count), known_(known) {}

    template <class Function, class... Arguments>
    static result<list> produced(Function function, Arguments... arguments) {
        auto opened = detail::produce_list(function, arguments...);
        if (!opened)
            return opened.error();
        const shma_list *const all = opened->get();
        return checked(*std::move(opened), shma_list_items(all), 0, shma_list_count(all));
    }

    static result<list> checked(detail::list_owner opened, const shma_column *column,
                                std::size_t first, std::size_t count) {
        auto known = item::prepare(column);
        if (!known)
            return known.error();
        return list(std::move(opened), column, first, count, *known);
    }

    std::int32_t read(std::size_t index, T &found, shma_error &why) const {
        if (index >= count_)
            return detail::refuse(why, SHMA_ERROR_OUT_OF_BOUNDS,
                                  "out of bounds: the list has no item", index, "");
        return item::read(owner_, column_, known_, first_ + index, found, why);
    }

    detail::list_owner owner_;
    const shma_column *column_ = nullptr;
    std::size_t first_ = 0, count_ = 0;
    state known_{};
};

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_LIST_HPP
