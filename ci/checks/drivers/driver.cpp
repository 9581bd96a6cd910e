// The C++ driver: one command a line, one answer a line. README.md has the commands.
#include <cxxabi.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <complex>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <shmarray.hpp>

namespace {

using shmarray::any_array;
using shmarray::any_list;
using shmarray::array;
using shmarray::array_view;
using shmarray::column_builder;
using shmarray::dict;
using shmarray::far_end;
using shmarray::strided_array;
using namespace std::chrono_literals;
using ints = array<std::int64_t>;
using words = std::vector<std::string>;

constexpr auto longest = 5ms;
constexpr int warm_up = 100;

template <class T>
struct is_complex : std::false_type {};
template <class T>
struct is_complex<std::complex<T>> : std::true_type {};

template <class T>
T pattern(std::int64_t k) {
    const auto real =
        static_cast<float>(static_cast<double>(k) / 2 - 3.25); // exact, as all of them
    if constexpr (std::is_same_v<T, bool>)
        return k % 3 == 0;
    else if constexpr (std::is_integral_v<T>)
        return static_cast<T>(7 * k + 3 - (std::is_signed_v<T> ? 20 : 0));
    else if constexpr (is_complex<T>::value)
        return {real, 2.5F - static_cast<float>(k)};
    else
        return real;
}

template <class Act, class... Elements>
void for_each_of(shmarray::detail::type_list<Elements...>, Act act) {
    const char *const *text = shmarray::detail::element_texts;
    (act(Elements(), *text++), ...);
}

/// Calls `act` with a zero of each element type and its dtype's text.
template <class Act>
void for_each_type(Act act) {
    for_each_of(shmarray::detail::element_types(), act);
}

/// Calls `act` with a zero of the type that a dtype's text names, and returns its answer.
template <class Act>
std::string with_type(const std::string &dtype_text, Act act) {
    std::string answer;
    for_each_type([&](auto zero, const char *text) {
        if (dtype_text == text)
            answer = act(zero);
    });
    if (answer.empty())
        shmarray::failure(SHMA_ERROR_INVALID_DTYPE, 0, "C++ has no elements of dtype " + dtype_text)
            .raise();
    return answer;
}

template <class T>
strided_array<T> make_layout(const std::string &layout) {
    shmarray::options f_order;
    f_order.order = shmarray::order::f;
    if (layout == "f")
        return strided_array<T>::create({2, 3, 4}, f_order);
    if (layout == "strided")
        return array<T>::create({4, 6, 4}).slice(0, 0, far_end, 2).slice(1, 0, far_end, 2);
    if (layout == "reversed")
        return array<T>::create({2, 3, 4})
            .slice(0, far_end, far_end, -1)
            .slice(2, far_end, far_end, -1);
    if (layout == "transposed")
        return array<T>::create({4, 3, 2}).transpose();
    if (layout == "scalar")
        return array<T>::create({});
    if (layout == "empty")
        return array<T>::create({0, 3});
    return array<T>::create({2, 3, 4});
}

std::string list(shmarray::dimensions numbers) {
    std::string text;
    for (const std::int64_t number : numbers)
        text += (text.empty() ? "" : ",") + std::to_string(number);
    return text.empty() ? "-" : text;
}

std::string hex(const std::vector<unsigned char> &bytes) {
    static const char digits[] = "0123456789abcdef";
    std::string text;
    for (const unsigned char byte : bytes)
        (text += digits[byte >> 4]) += digits[byte & 15U];
    return text.empty() ? "-" : text;
}

template <class T>
std::string bad(std::size_t k, T found) {
    std::ostringstream text;
    if constexpr (std::is_integral_v<T>)
        text << "bad " << k << ' ' << +found;
    else
        text << "bad " << k << ' ' << found;
    return text.str();
}

template <class T>
std::string compare(const strided_array<const T> &elements) {
    std::size_t k = 0;
    for (const T &found : elements) {
        if (!(found == pattern<T>(static_cast<std::int64_t>(k))))
            return bad(k, found);
        ++k;
    }
    return "ok " + std::to_string(k);
}

template <class Elements>
void fill_pattern(Elements &&elements, std::int64_t k = 0) {
    for (auto &value : elements)
        value = pattern<std::remove_reference_t<decltype(value)>>(k++);
}

/// The last element in C order: index by index, from the end.
template <class T>
strided_array<T> last(const any_array &held) {
    auto rest = held.as<strided_array<T>>();
    while (rest.ndim() != 0)
        rest = rest.select(0, -1);
    return rest;
}

// Ends the program as an error of a user's does: nothing catches it.
struct uncaught {};

std::string ok(const std::string &answer = "") { return answer.empty() ? "ok" : "ok " + answer; }

std::int64_t number(const std::string &text) { return std::atoll(text.c_str()); }

/// Writes the first element last: where it is there, all are.
void fill(const any_array &held, std::int64_t value) {
    auto elements = held.as<ints>();
    std::fill(elements.data() + 1, elements.data() + std::max<std::size_t>(elements.size(), 1),
              value);
    *static_cast<volatile std::int64_t *>(elements.data()) = value;
}

bool is_all(const any_array &held, std::int64_t value) {
    const auto elements = held.as<strided_array<const std::int64_t>>();
    return std::all_of(elements.begin(), elements.end(),
                       [value](std::int64_t found) { return found == value; });
}

/// Returns the seconds of one call of `count`.
template <class Work>
std::string each(std::int64_t count, Work work) {
    const auto began = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::ostringstream text;
    text.precision(9);
    text << std::fixed << took.count() / static_cast<double>(count);
    return text.str();
}

/// Threads that make, attach and drop arrays.
class worker_threads {
  public:
    /// Starts so many threads; 0 stops them.
    void set(std::int64_t count) {
        stop_ = count == 0;
        if (count == 0) {
            for (auto &thread : threads_)
                thread.join();
            threads_.clear();
            if (failed_)
                throw std::runtime_error("a thread could not work");
        }
        for (; count > 0; --count)
            threads_.emplace_back([this] {
                try {
                    for (; !stop_; ++rounds_)
                        make_attach_and_drop();
                } catch (const std::exception &) {
                    failed_ = true; // an exit of the process takes its arrays away
                }
            });
    }

    /// The rounds that they have made.
    std::string rounds() const { return std::to_string(rounds_); }

    /// Leaves them running: the process ends beside them.
    ~worker_threads() {
        for (auto &thread : threads_)
            thread.detach();
    }

  private:
    static void make_attach_and_drop() {
        const auto own = ints::create({1000});
        const auto again = array<const std::int64_t>::attach(own.handle());
        own(999) = 7;
        if (again(999) != 7)
            throw std::runtime_error("another value");
    }

    std::atomic<bool> stop_{false};
    std::atomic<bool> failed_{false};
    std::atomic<std::uint64_t> rounds_{0};
    std::vector<std::thread> threads_;
};

using bytes_channel = shmarray::channel<std::uint8_t, 1>;

bytes_channel create_channel(const std::string &name, std::int64_t size) {
    shmarray::channel_options chosen;
    chosen.slots = 4;
    return bytes_channel::create(name, {size}, chosen);
}

bytes_channel open_channel(const std::string &name) {
    shmarray::open_options chosen;
    chosen.timeout = {};
    return bytes_channel::open(name, chosen);
}

void send_first(const bytes_channel &by, std::uint8_t first) {
    auto loan = by.loan();
    loan->array()(0) = first;
    loan->publish();
}

/// Returns the first byte, or -1 at the end of the stream.
int receive_first(const bytes_channel &by, const shmarray::timeout &timeout) {
    for (;;) {
        auto message = by.receive(timeout);
        if (message)
            return message->array()(0);
        if (message.outcome() != shmarray::outcome::timed_out)
            return -1;
    }
}

shmarray::timeout timeout_of(const std::string &wait) {
    return wait == "poll" ? shmarray::timeout(0ns) : shmarray::timeout();
}

// Lists.
constexpr std::int64_t list_count = 5;

/// Item k of a list whose items are read as T, as list<T>::create takes it: here a number.
template <class T>
struct item {
    static T at(std::int64_t k) { return pattern<T>(k); }
};

template <>
struct item<std::string_view> {
    static std::string at(std::int64_t k) {
        static const std::string characters("é\0\"😀", 8);
        static constexpr std::size_t bytes[list_count] = {0, 2, 3, 4, 8};
        return characters.substr(0, bytes[k]);
    }
};

template <>
struct item<array_view<const std::byte>> {
    static std::string at(std::int64_t k) {
        return std::string("\0\x55\xaa\xff", 4).substr(0, static_cast<std::size_t>(k));
    }
};

template <class T>
array<T, 2> image_at(std::int64_t rows, std::int64_t k) {
    auto elements = array<T, 2>::create({rows, 2});
    fill_pattern(elements, k);
    return elements;
}

template <class T>
struct item<array_view<const T>> {
    static array<T, 1> at(std::int64_t k) {
        auto elements = array<T, 1>::create({k % 3});
        fill_pattern(elements, k);
        return elements;
    }
};

template <class T>
struct item<array_view<const T, 2>> {
    static array<T, 2> at(std::int64_t k) { return image_at<T>(k % 3, k); }
};

template <class T>
struct item<std::optional<T>> {
    static std::optional<decltype(item<T>::at(0))> at(std::int64_t k) {
        if (k % 3 == 1)
            return std::nullopt;
        return item<T>::at(k);
    }
};

template <class T>
struct item<shmarray::list<T>> {
    static std::vector<decltype(item<T>::at(0))> at(std::int64_t k) {
        std::vector<decltype(item<T>::at(0))> items;
        for (std::int64_t j = 0; j < k % 3; ++j)
            items.push_back(item<T>::at(k + j));
        return items;
    }
};

template <class T>
std::vector<decltype(item<T>::at(0))> items_of(std::int64_t count = list_count) {
    std::vector<decltype(item<T>::at(0))> items;
    for (std::int64_t k = 0; k < count; ++k)
        items.push_back(item<T>::at(k));
    return items;
}

template <class T>
any_array list_of(std::int64_t count = list_count) {
    return shmarray::list<T>::create(items_of<T>(count)).array();
}

template <class T>
column_builder column_of() {
    return column_builder::of<T>(items_of<T>());
}

const std::vector<std::optional<double>> nothing(list_count);

any_array list_of_records() {
    using shmarray::list;
    const auto points =
        column_builder::records({{"x", column_of<double>()}, {"flag", column_of<bool>()}});
    return list<shmarray::record>::create(
               column_builder::records(
                   {{"text", column_of<std::string_view>()},
                    {"size", column_of<std::optional<std::int64_t>>()},
                    {"sample", column_of<array_view<const float>>()},
                    {"größe", column_of<list<std::optional<std::string_view>>>()},
                    {"point", points},
                    {"none", column_builder::of<std::optional<double>>(nothing)}}))
        .array();
}

template <class T>
any_array list_of_one_shape() {
    std::vector<array<T, 2>> items;
    for (std::int64_t k = 0; k < list_count; ++k)
        items.push_back(image_at<T>(2, k));
    return shmarray::list<array_view<const T, 2>>::create(items).array();
}

using entry_value = std::optional<std::int64_t>;

template <class Key>
any_array dict_of() {
    std::map<decltype(item<Key>::at(0)), entry_value> entries; // its order is that of the items
    for (std::int64_t k = 0; k < list_count; ++k)
        entries[item<Key>::at(k)] = item<entry_value>::at(k);
    return dict<Key, entry_value>::create(entries).array();
}

/// Makes a list of a kind that no dtype tells; null if it is none of them.
any_array list_of_kind(const std::string &kind) {
    using shmarray::list;
    using std::optional;
    using bytes = array_view<const std::byte>;
    static const std::map<std::string, std::function<any_array()>> kinds = {
        {"strings", [] { return list_of<std::string_view>(); }},
        {"bytes", [] { return list_of<bytes>(); }},
        {"images-|u1", [] { return list_of<array_view<const std::uint8_t, 2>>(); }},
        {"images-<c8", [] { return list_of<array_view<const std::complex<float>, 2>>(); }},
        {"same-<f4", list_of_one_shape<float>},
        {"empty", [] { return list_of<double>(0); }},
        {"nothing", [] { return list<optional<double>>::create(nothing).array(); }},
        {"records", list_of_records},
        {"maybe-<i8", [] { return list_of<optional<std::int64_t>>(); }},
        {"maybe-strings", [] { return list_of<optional<std::string_view>>(); }},
        {"maybe-bytes", [] { return list_of<optional<bytes>>(); }},
        {"maybe-vectors-<f4", [] { return list_of<optional<array_view<const float>>>(); }},
        {"maybe-images-|u1", [] { return list_of<optional<array_view<const std::uint8_t, 2>>>(); }},
        {"lists-<i8", [] { return list_of<list<std::int64_t>>(); }},
        {"lists-strings", [] { return list_of<list<std::string_view>>(); }},
        {"lists-vectors-<f4", [] { return list_of<list<array_view<const float>>>(); }},
        {"maybe-lists-bytes", [] { return list_of<optional<list<bytes>>>(); }},
        {"lists-lists-maybe-strings",
         [] { return list_of<list<list<optional<std::string_view>>>>(); }},
        {"dictionary-strings", dict_of<std::string_view>},
        {"dictionary-bytes", dict_of<bytes>},
        {"dictionary-<i8", dict_of<std::int64_t>},
    };
    const auto found = kinds.find(kind);
    return found == kinds.end() ? any_array() : found->second();
}

/// Returns a number as JSON. With so many digits every float has its own text.
template <class T>
std::string json_of(T number) {
    std::ostringstream text;
    text.precision(17);
    if constexpr (std::is_same_v<T, bool>)
        text << (number ? "true" : "false");
    else if constexpr (std::is_integral_v<T>)
        text << +number;
    else if constexpr (is_complex<T>::value)
        text << '[' << json_of(number.real()) << ',' << json_of(number.imag()) << ']';
    else
        text << std::showpoint << static_cast<double>(number);
    return text.str();
}

std::string json_of_text(std::string_view characters) {
    std::ostringstream text;
    text << '"' << std::hex << std::setfill('0');
    for (const char character : characters) {
        if (static_cast<unsigned char>(character) < ' ' || character == '"' || character == '\\')
            text << "\\u" << std::setw(4) << +character;
        else
            text << character;
    }
    return text.str() + '"';
}

/// Joins what `one` returns for each number below `count`.
template <class One>
std::string joined(std::size_t count, One one) {
    std::string all;
    for (std::size_t at = 0; at < count; ++at)
        all += (at == 0 ? "" : ",") + one(at);
    return all;
}

template <class View>
std::string json_of_array(const View &elements) {
    const auto &shape = elements.shape();
    return "{\"shape\":[" + joined(shape.size(), [&](auto at) { return json_of(shape[at]); }) +
           "],\"elements\":[" +
           joined(elements.size(), [&](auto at) { return json_of(elements.begin()[at]); }) + "]}";
}

std::string json_of_item(const any_list &items, std::size_t index) {
    using shmarray::item_kind;
    const auto of_column = [&](auto zero) {
        using T = decltype(zero);
        if (items.ndim() == 0)
            return json_of(items.as<T>()[index]);
        if (items.ndim() == 1)
            return json_of_array(items.as<array_view<const T>>()[index]);
        return json_of_array(items.as<array_view<const T, 2>>()[index]);
    };
    if (items.is_none(index))
        return "null";
    switch (items.kind()) {
    case item_kind::number:
    case item_kind::array:
        return with_type(items.dtype_text(), of_column);
    case item_kind::bytes: {
        const auto bytes = items.as<array_view<const unsigned char>>()[index];
        return bytes.empty() ? "\"\"" : json_of_text(hex({bytes.begin(), bytes.end()}));
    }
    case item_kind::list: {
        const any_list part = items.as<any_list>()[index];
        return "[" + joined(part.size(), [&](auto at) { return json_of_item(part, at); }) + "]";
    }
    case item_kind::record: {
        const auto names = items.names();
        const auto field = [&](auto at) {
            return json_of_text(names[at]) + ":" + json_of_item(items.field(names[at]), index);
        };
        return "{" + joined(names.size(), field) + "}";
    }
    default:
        return json_of_text(items.as<std::string_view>()[index]);
    }
}

std::string json_of_items(const any_list &items) {
    return "[" + joined(items.size(), [&](auto at) { return json_of_item(items, at); }) + "]";
}

/// Finds keys in a dictionary.
template <class Key>
std::string json_of_entries(const dict<Key, entry_value> &all, const shmarray::list<Key> &keys) {
    return joined(keys.size(), [&](auto at) {
        const auto found = all.find(keys[at]);
        std::string value = "\"absent\"";
        if (found != all.end())
            value = found->second ? json_of(*found->second) : "null";
        return "[" + json_of_item(any_list(keys), at) + "," + value + "]";
    });
}

template <class Key, class Absent>
std::string json_of_dict(const dict<Key, entry_value> &all, const Absent &absent) {
    const auto no_keys = shmarray::list<Key>::create(std::vector<Absent>{absent});
    return "[" + json_of_entries(all, all.keys()) + "," + json_of_entries(all, no_keys) + "]";
}

/// Attaches a dictionary by the type that its keys have, and finds each of them.
std::string find(const std::string &handle) {
    const std::string absent = "absent";
    if (const auto all = dict<std::string_view, entry_value>::try_attach(handle))
        return json_of_dict(*all, absent);
    if (const auto all = dict<array_view<const std::byte>, entry_value>::try_attach(handle))
        return json_of_dict(*all, absent);
    return json_of_dict(dict<std::int64_t, entry_value>::attach(handle), std::int64_t(0));
}

class Driver {
  public:
    std::string answer(const std::string &line) {
        words given = split(line);
        const auto found = commands().find(given[0]);
        if (found == commands().end())
            shmarray::failure(SHMA_ERROR_UNSUPPORTED, 0, "no such command: " + given[0]).raise();
        given.erase(given.begin());
        return found->second(*this, given);
    }

  private:
    struct entry {
        any_array array;
        std::optional<std::int64_t> value;
    };
    using command = std::function<std::string(Driver &, const words &)>;

    /// A handle is the rest of its line.
    static words split(const std::string &line) {
        words found(1);
        const std::size_t most = line.rfind("attach ", 0) == 0 ? 4 : std::string::npos;
        for (const char c : line) {
            if (c == ' ' && found.size() < most)
                found.emplace_back();
            else
                found.back() += c;
        }
        return found;
    }

    static const std::map<std::string, command> &commands() {
        static const std::map<std::string, command> all = {
            {"hello", [](Driver &, const words &) { return "ok cpp " + shmarray::version(); }},
            {"dtypes", [](Driver &, const words &) { return dtypes(); }},
            {"create", [](Driver &d, const words &w) { return d.create(w[0], w[1], w[2]); }},
            {"attach", [](Driver &d, const words &w) { return d.attach(w[0], w[1], w[2]); }},
            {"compare", &Driver::of_elements<comparing>},
            {"write", &Driver::of_elements<writing>},
            {"written", &Driver::of_elements<written>},
            {"bytes", [](Driver &d, const words &w) { return ok(hex(d[w[0]].array.bytes())); }},
            {"handle", [](Driver &d, const words &w) { return ok(d[w[0]].array.handle()); }},
            {"ticket",
             [](Driver &d, const words &w) { return ok(d[w[0]].array.handle_to_send()); }},
            {"publish", [](Driver &d, const words &w) { return d.publish(w[0], w[1]); }},
            {"receive", [](Driver &, const words &w) { return receive(w[0]); }},
            {"list", [](Driver &d, const words &w) { return d.make_list(w[0], w[1]); }},
            {"items",
             [](Driver &, const words &w) {
                 const auto items = any_list::attach(w[0]);
                 return ok(json_of_items(w.size() > 1 ? items.field(w[1]) : items));
             }},
            {"find", [](Driver &, const words &w) { return ok(find(w[0])); }},
            {"make", [](Driver &d, const words &w) { return d.make(w); }},
            {"share", [](Driver &d, const words &w) { return d.share(w[0], w[1], w[2]); }},
            {"view",
             [](Driver &d, const words &w) {
                 const auto whole = d[w[1]].array.as<strided_array<std::int64_t>>();
                 return d.keep(w[0], whole.slice(0, 1, far_end, 2), {});
             }},
            {"fill",
             [](Driver &d, const words &w) {
                 d[w[0]].value = number(w[1]);
                 return fill(d[w[0]].array, number(w[1])), ok();
             }},
            {"is",
             [](Driver &d, const words &w) {
                 const auto &held = d[w[0]].array;
                 return is_all(held, number(w[1])) ? ok(std::to_string(held.size()))
                                                   : "bad 0 " + d.first(w[0]);
             }},
            {"get", [](Driver &d, const words &w) { return ok(d.first(w[0])); }},
            {"check", [](Driver &d, const words &) { return d.check(); }},
            {"drop", [](Driver &d, const words &w) { return d.drop(w); }},
            {"unlink", [](Driver &, const words &w) { return shmarray::unlink(w[0]), ok(); }},
            {"sweep", [](Driver &,
                         const words &) { return ok(std::to_string(shmarray::sweep().segments)); }},
            {"segments", [](Driver &, const words &) { return segments(); }},
            {"discard", [](Driver &, const words &w) { return shmarray::discard(w[0]), ok(); }},
            {"pipes",
             [](Driver &d, const words &w) {
                 d.out_ = shmarray::pipe::from_fd(static_cast<int>(number(w[0])));
                 d.in_ = shmarray::pipe::from_fd(static_cast<int>(number(w[1])));
                 return ok();
             }},
            {"send", [](Driver &d, const words &w) { return d.send(w); }},
            {"take", [](Driver &d, const words &w) { return d.take(w[0], w[1]); }},
            {"channel", [](Driver &d, const words &w) { return d.channel(w[0], number(w[1])); }},
            {"fork", [](Driver &, const words &w) { return fork_child(w[0], w[1]); }},
            {"session",
             [](Driver &, const words &) { return setsid() > 0 ? ok() : "error errno"; }},
            {"directory",
             [](Driver &, const words &w) {
                 return setenv("SHMARRAY_DIR", w[0].c_str(), 1) == 0 ? ok() : "error errno";
             }},
            {"user",
             [](Driver &, const words &w) {
                 const auto id = static_cast<uid_t>(number(w[0]));
                 return setgroups(0, nullptr) == 0 && setgid(id) == 0 && setuid(id) == 0
                            ? ok()
                            : "error errno";
             }},
            {"close_fds",
             [](Driver &, const words &w) {
                 for (int fd = static_cast<int>(number(w[0])); fd < 4096; ++fd)
                     close(fd);
                 return ok();
             }},
            {"threads",
             [](Driver &d, const words &w) { return d.threads_.set(number(w[0])), ok(); }},
            {"rounds", [](Driver &d, const words &) { return ok(d.threads_.rounds()); }},
            {"spawn",
             [](Driver &, const words &w) {
                 const auto line = "cat <" + w[0] + " >" + w[1] + " &";
                 return std::system(line.c_str()) == 0 ? ok() : "error errno";
             }},
            {"exec",
             [](Driver &, const words &w) {
                 execlp(w[0].c_str(), w[0].c_str(), static_cast<char *>(nullptr));
                 return std::string("error errno");
             }},
            {"end", [](Driver &, const words &w) { return end(w[0]); }},
            {"time_ask",
             [](Driver &, const words &w) {
                 return time_ask(w[0], number(w[1]), number(w[2]), timeout_of(w[3]));
             }},
            {"time_answer",
             [](Driver &, const words &w) { return time_answer(w[0], timeout_of(w[1])); }},
        };
        return all;
    }

    entry &operator[](const std::string &key) {
        const auto found = held_.find(key);
        if (found == held_.end())
            shmarray::failure(SHMA_ERROR_INVALID_ARGUMENT, 0, "no array " + key).raise();
        return found->second;
    }

    std::string keep(const std::string &key, any_array kept, std::optional<std::int64_t> value) {
        const auto handle = kept.handle();
        held_[key] = {std::move(kept), value};
        return ok(handle);
    }

    std::string first(const std::string &key) {
        return std::to_string((*this)[key].array.as<strided_array<const std::int64_t>>()(0));
    }

    static std::string dtypes() {
        std::string answer = "ok";
        for_each_type([&](auto, const char *text) { answer += std::string(" ") + text; });
        return answer;
    }

    std::string create(const std::string &key, const std::string &dtype,
                       const std::string &layout) {
        return with_type(dtype, [&](auto zero) {
            auto made = make_layout<decltype(zero)>(layout);
            fill_pattern(made);
            return keep(key, std::move(made), {});
        });
    }

    std::string attach(const std::string &key, const std::string &access,
                       const std::string &handle) {
        auto attached = any_array::attach(handle, access_of(access));
        const auto answer = ok(attached.dtype_text() + " " + list(attached.shape()) + " " +
                               list(attached.strides()));
        keep(key, std::move(attached), {});
        return answer;
    }

    static shmarray::access access_of(const std::string &text) {
        return text == "ro" ? shmarray::access::read_only : shmarray::access::read_write;
    }

    std::string publish(const std::string &name, const std::string &dtype) {
        return with_type(dtype, [&](auto zero) {
            using Channel = shmarray::channel<decltype(zero), 3>;
            published_.reset();
            auto made = std::make_shared<Channel>(Channel::create(name, {2, 3, 4}));
            auto loan = made->loan();
            fill_pattern(loan->array());
            loan->publish(dtype);
            published_ = made;
            return ok(made->handle());
        });
    }

    static std::string receive(const std::string &handle_or_name) {
        std::string answer;
        for_each_type([&](auto zero, const char *) {
            using T = decltype(zero);
            auto opened = shmarray::channel<const T>::try_open(handle_or_name);
            if (!opened && opened.error().status() == SHMA_ERROR_DTYPE_MISMATCH)
                return;
            auto message = opened.value().receive();
            answer = compare<T>(message->array()) + " " + std::string(message->meta());
        });
        return answer;
    }

    template <template <class> class Command>
    static std::string of_elements(Driver &driver, const words &given) {
        const auto &held = driver[given[0]].array;
        return with_type(held.dtype_text(),
                         [&](auto zero) { return Command<decltype(zero)>()(held); });
    }

    template <class T>
    struct comparing {
        std::string operator()(const any_array &held) {
            return compare<T>(held.as<strided_array<const T>>());
        }
    };

    template <class T>
    struct writing {
        std::string operator()(const any_array &held) {
            try {
                last<T>(held)() = pattern<T>(100);
            } catch (const shmarray::read_only &refusal) {
                return std::string("refused ") + refusal.what();
            }
            return "ok";
        }
    };

    template <class T>
    struct written {
        std::string operator()(const any_array &held) {
            const T found = last<const T>(held)();
            return found == pattern<T>(100) ? "ok" : bad(held.size() - 1, found);
        }
    };

    std::string make_list(const std::string &key, const std::string &kind) {
        if (auto made = list_of_kind(kind))
            return keep(key, std::move(made), {});
        const bool is_vectors = kind.rfind("vectors-", 0) == 0;
        return with_type(is_vectors ? kind.substr(8) : kind, [&](auto zero) {
            using T = decltype(zero);
            return keep(key, is_vectors ? list_of<array_view<const T>>() : list_of<T>(), {});
        });
    }

    std::string make(const words &given) {
        shmarray::options options;
        if (given.size() > 3 && given[3] != "-")
            options.name = given[3];
        if (given.size() > 4)
            options.mode = static_cast<std::uint32_t>(std::stoul(given[4], nullptr, 8));
        options.persist = given.size() > 5 && given[5] == "1";
        any_array made = ints::create({number(given[1])}, options);
        const std::int64_t value = number(given[2]);
        if (value == 0)
            return keep(given[0], std::move(made), {});
        fill(made, value);
        return keep(given[0], std::move(made), value);
    }

    std::string share(const std::string &key, const std::string &count, const std::string &value) {
        const std::vector<std::int64_t> mine(static_cast<std::size_t>(2 * number(count)),
                                             number(value));
        return keep(key, ints::share(mine.data(), {number(count)}, {16}), number(value));
    }

    std::string check() const {
        std::string wrong;
        std::size_t right = 0;
        for (const auto &[key, held] : held_) {
            if (held.value && is_all(held.array, *held.value))
                ++right;
            else if (held.value)
                wrong += " " + key;
        }
        return wrong.empty() ? ok(std::to_string(right)) : "bad" + wrong;
    }

    std::string drop(const words &keys) {
        for (const auto &key : keys)
            held_.erase(key);
        if (keys.empty())
            held_.clear(), published_.reset(), channels_.clear();
        return ok();
    }

    static std::string segments() {
        words names;
        for (const auto &info : shmarray::segments())
            if (info.kind == shmarray::segment_kind::array)
                names.push_back(info.name.empty() ? "-" : info.name);
        std::sort(names.begin(), names.end());
        std::string answer = "ok";
        for (const auto &name : names)
            answer += " " + name;
        return answer;
    }

    std::string send(const words &keys) const {
        std::string values;
        std::vector<shmarray::sendable> arrays;
        for (const auto &key : keys) {
            const auto found = held_.find(key);
            if (found == held_.end() || !found->second.value)
                continue;
            values += std::to_string(*found->second.value) + " ";
            arrays.emplace_back(found->second.array);
        }
        const auto sent = out_.send(values, arrays, longest);
        return sent == shmarray::outcome::done ? ok(std::to_string(arrays.size())) : "none";
    }

    std::string take(const std::string &key, const std::string &access) {
        auto received = in_.receive(longest);
        if (!received)
            return "none";
        std::istringstream values{std::string(received->payload())};
        std::size_t index = 0;
        for (std::int64_t value = 0; values >> value; ++index) {
            if (key == "-")
                continue;
            auto taken = received->array(index, access_of(access));
            if (!is_all(taken, value))
                return "bad " + std::to_string(index);
            keep(key, std::move(taken), value);
        }
        return ok(std::to_string(index));
    }

    /// Sends a value, or receives one where it is 0.
    std::string channel(const std::string &mode, std::int64_t value) {
        auto &channel = channels_[mode];
        if (!channel) {
            shmarray::channel_options chosen;
            chosen.slots = 5;
            chosen.exist_ok = true;
            if (mode == "broadcast") {
                chosen.mode = shmarray::channel_mode::broadcast;
                chosen.when_full = shmarray::when_full::drop_oldest;
            }
            if (mode == "latest")
                chosen.mode = shmarray::channel_mode::latest;
            channel = shmarray::channel<std::int64_t>::create("common-" + mode, {2000}, chosen);
        }
        if (value != 0) {
            auto loan = channel.loan(longest);
            if (!loan)
                return "none";
            fill(loan->array().view({2000}), value);
            loan->publish(std::to_string(value));
            return "ok 0";
        }
        auto message = channel.receive(longest);
        if (!message)
            return "none";
        const auto expected = number(std::string(message->meta()));
        return is_all(message->array().view({2000}), expected) ? "ok 1" : "bad 0";
    }

    /// Forks a process that goes on alone: the host adopts it.
    static std::string fork_child(const std::string &into, const std::string &out) {
        int status = -1;
        const pid_t child = fork();
        if (child > 0)
            return waitpid(child, &status, 0) == child && status == 0 ? ok() : "error errno";
        if (fork() > 0)
            _exit(0);
        dup2(open(into.c_str(), O_RDONLY), 0);
        dup2(open(out.c_str(), O_WRONLY), 1);
        return ok(std::to_string(getpid()));
    }

    static std::string end(const std::string &how) {
        if (how == "exit")
            std::exit(0);
        if (how == "_exit")
            _exit(0);
        if (how == "kill")
            raise(SIGKILL);
        if (how == "abort")
            std::abort();
        throw uncaught();
    }

    // Measurements: the loops are timed here.
    static std::string time_ask(const std::string &name, std::int64_t size, std::int64_t count,
                                const shmarray::timeout &timeout) {
        auto there = create_channel(name + ".there", size);
        auto back = create_channel(name + ".back", size);
        const auto ask = [&](std::int64_t times) {
            for (std::int64_t turn = 0; turn < times; ++turn) {
                send_first(there, static_cast<std::uint8_t>(turn));
                if (receive_first(back, timeout) != static_cast<std::uint8_t>(turn))
                    std::abort(); // another frame came back
            }
        };
        ask(warm_up);
        return ok(each(count, [&] { ask(count); }));
    }

    static std::string time_answer(const std::string &name, const shmarray::timeout &timeout) {
        auto there = open_channel(name + ".there"), back = open_channel(name + ".back");
        for (int first; (first = receive_first(there, timeout)) >= 0;)
            send_first(back, static_cast<std::uint8_t>(first));
        return ok();
    }

    std::map<std::string, entry> held_;
    std::shared_ptr<void> published_;
    std::map<std::string, shmarray::channel<std::int64_t>> channels_;
    shmarray::pipe out_, in_;
    worker_threads threads_;
};

std::string class_name(const std::exception &thrown) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(typeid(thrown).name(), nullptr, nullptr, &status), &std::free);
    return status == 0 ? name.get() : typeid(thrown).name();
}

} // namespace

int main() {
    Driver driver;
    for (std::string line; std::getline(std::cin, line);) {
        try {
            std::cout << driver.answer(line) << std::endl;
        } catch (const std::exception &thrown) {
            std::cout << "error " << class_name(thrown) << ' ' << thrown.what() << std::endl;
        }
    }
}
