// A list whose items are known only at run time.
#ifndef SHMARRAY_ANY_LIST_HPP
#define SHMARRAY_ANY_LIST_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <shmarray.h>
#include <shmarray/any_array.hpp>
#include <shmarray/file_path.hpp>
#include <shmarray/item.hpp>
#include <shmarray/list.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// What the items of a list are.
enum class item_kind : shma_item_kind {
    number = SHMA_ITEM_NUMBER,  ///< a number, or another item of one dtype
    array = SHMA_ITEM_ARRAY,    ///< an array; all have one dtype and one number of dimensions
    string = SHMA_ITEM_STRING,  ///< UTF-8
    bytes = SHMA_ITEM_BYTES,    ///< bytes
    record = SHMA_ITEM_RECORD,  ///< a record, which has an item of each field
    list = SHMA_ITEM_LIST,      ///< a list of items of one kind
    pickle = SHMA_ITEM_PICKLE,  ///< an object of Python, which only Python reads
    nothing = SHMA_ITEM_NOTHING ///< every item is None, or there is none
};

/// A list whose items are known only at run time. as() gives it an item type. A list with one
/// converts to it. It is an item type itself: list<any_list> reads lists of any items.
class any_list {
  public:
    any_list() = default;

    template <class T>
    any_list(const list<T> &typed)
        : owner_(typed.owner_), column_(typed.column_), first_(typed.first_), count_(typed.count_) {
    }

    /// Attaches the list that has this handle or this name. Throws like list<T>::attach().
    static any_list attach(std::string_view handle_or_name) {
        return try_attach(handle_or_name).value();
    }
    static result<any_list> try_attach(std::string_view handle_or_name) {
        const auto terminated = detail::terminated(handle_or_name);
        if (!terminated)
            return terminated.error();
        return whole(detail::produce_list(shma_list_attach, terminated->c_str()));
    }

    /// Returns the list whose bytes an array has, such as one that was received. Throws like
    /// list<T>::attach().
    static any_list of(const any_array &bytes) { return try_of(bytes).value(); }
    static result<any_list> try_of(const any_array &bytes) {
        return whole(detail::produce_list(shma_list_of_array, bytes.get()));
    }

    /// Opens a list in a file like list<T>::open().
    static any_list open(const file_path &path, bool checked = false) {
        return try_open(path, checked).value();
    }
    static result<any_list> try_open(const file_path &path, bool checked = false) {
        const auto terminated = path.terminated();
        if (!terminated)
            return terminated.error();
        return whole(detail::produce_list(shma_list_open, terminated->c_str(), checked ? 1 : 0));
    }

    /// Returns whether there is a list.
    explicit operator bool() const noexcept { return owner_.use_count() != 0; }

    /// Releases the list, as the destructor does. The object is then null.
    void close() noexcept { *this = any_list(); }

    /// Returns the number of items.
    std::size_t size() const noexcept { return count_; }
    bool empty() const noexcept { return size() == 0; }
    /// Returns what the items are; nothing if this object is null.
    item_kind kind() const noexcept {
        return column_ == nullptr ? item_kind::nothing
                                  : static_cast<item_kind>(shma_column_kind(column_));
    }
    /// Returns the dtype of numbers and of the elements of arrays as it stands in a handle, or "".
    std::string dtype_text() const {
        return column_ == nullptr ? std::string() : shma_column_dtype_text(column_);
    }
    /// Returns the number of dimensions of arrays, or 0.
    std::size_t ndim() const noexcept { return shma_column_ndim(column_); }
    /// Returns whether an item is None; false if there is none of that index.
    bool is_none(std::size_t index) const noexcept {
        return index < count_ && shma_column_is_none(column_, first_ + index) != 0;
    }

    /// Returns the names of the fields of records.
    std::vector<std::string> names() const {
        return kind() == item_kind::record ? detail::names_of(column_) : std::vector<std::string>();
    }

    /// Returns the list of a field of records. Throws not_found if there is none of that name.
    any_list field(std::string_view name) const { return try_field(name).value(); }
    result<any_list> try_field(std::string_view name) const {
        auto column = detail::field_of(column_, name);
        if (!column)
            return column.error();
        return any_list(owner_, *column, first_, count_);
    }

    /// Returns the list with an item type, as in as<std::string_view>(). Throws dtype_mismatch if
    /// its items are no T.
    template <class T>
    list<T> as() const {
        return try_as<T>().value();
    }
    template <class T>
    result<list<T>> try_as() const {
        if (!*this)
            return detail::invalid("invalid list: it is null");
        return list<T>::checked(owner_, column_, first_, count_);
    }

    /// Returns the column for calls of the C ABI; null if this object is.
    const shma_column *get() const noexcept { return column_; }

  private:
    template <class, class>
    friend struct detail::item_of;

    any_list(detail::list_owner opened, const shma_column *column, std::size_t first,
             std::size_t count) noexcept
        : owner_(std::move(opened)), column_(column), first_(first), count_(count) {}

    static result<any_list> whole(result<detail::list_owner> opened) {
        if (!opened)
            return opened.error();
        const shma_list *const all = opened->get();
        return any_list(*std::move(opened), shma_list_items(all), 0, shma_list_count(all));
    }

    detail::list_owner owner_;
    const shma_column *column_ = nullptr;
    std::size_t first_ = 0, count_ = 0;
};

namespace detail {

/// Lists of any items, which are read as such a list only.
template <>
struct item_of<any_list> {
    struct state {
        bool has_none = false;
    };

    static result<state> prepare(const shma_column *column) {
        if (auto kind = check_kind(column, SHMA_ITEM_LIST); !kind)
            return kind.error();
        return state{has_none(column)};
    }

    static std::int32_t read(const list_owner &owner, const shma_column *column, const state &known,
                             std::size_t index, any_list &item, shma_error &why) {
        std::size_t first = 0, count = 0;
        if (known.has_none && shma_column_is_none(column, index) != 0)
            return refuse_none(why, index);
        const std::int32_t status = shma_column_range(column, index, &first, &count, &why);
        if (status == SHMA_OK)
            item = any_list(owner, shma_column_child(column, 0), first, count);
        return status;
    }
};

} // namespace detail

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_ANY_LIST_HPP
