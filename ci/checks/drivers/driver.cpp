// The C++ driver of the conformance runner: one command a line, one answer a line.
#include <cxxabi.h>

#include <complex>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include <shmarray.hpp>

namespace {

using shmarray::any_array;
using shmarray::array;
using shmarray::far_end;
using shmarray::strided_array;

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

/// The dtypes' texts, in the order of their numbers, as `element_types` has their types.
constexpr const char *texts[] = {"|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2",
                                 "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"};
static_assert(std::size(texts) == SHMA_DTYPE_COUNT, "a dtype of shmarray.h has no text in texts");

template <class Act, class... Elements>
void for_each_of(shmarray::detail::type_list<Elements...>, Act act) {
    const char *const *text = texts;
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
strided_array<T> make(const std::string &layout) {
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
void fill(Elements &&elements) {
    std::int64_t k = 0;
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

class Driver {
  public:
    std::string answer(const std::string &line) {
        const std::size_t space = line.find(' ');
        const std::string command = line.substr(0, space);
        const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
        if (command == "hello")
            return "ok cpp " + shmarray::version();
        if (command == "dtypes")
            return dtypes();
        if (command == "create")
            return create(rest);
        if (command == "attach")
            return attach(rest);
        if (command == "publish")
            return publish(rest);
        if (command == "receive")
            return receive(rest);
        if (command == "close")
            return held_ = any_array(), channel_.reset(), "ok";
        return of_array(command);
    }

  private:
    static std::string dtypes() {
        std::string answer = "ok";
        for_each_type([&](auto, const char *text) { answer += std::string(" ") + text; });
        return answer;
    }

    std::string create(const std::string &rest) {
        const std::size_t space = rest.find(' ');
        return with_type(rest.substr(0, space), [&](auto zero) {
            auto made = make<decltype(zero)>(rest.substr(space + 1));
            fill(made);
            held_ = std::move(made);
            return "ok " + held_.handle();
        });
    }

    std::string attach(const std::string &rest) {
        const auto how =
            rest.rfind("ro ", 0) == 0 ? shmarray::access::read_only : shmarray::access::read_write;
        held_ = any_array::attach(rest.substr(rest.find(' ') + 1), how);
        return "ok " + held_.dtype_text() + " " + list(held_.shape()) + " " + list(held_.strides());
    }

    std::string publish(const std::string &rest) {
        const std::string name = rest.substr(0, rest.find(' '));
        const std::string dtype = rest.substr(name.size() + 1);
        return with_type(dtype, [&](auto zero) {
            using Channel = shmarray::channel<decltype(zero), 3>;
            channel_.reset();
            auto made = std::make_shared<Channel>(Channel::create(name, {2, 3, 4}));
            auto loan = made->loan();
            fill(loan->array());
            loan->publish(dtype);
            channel_ = made;
            return "ok " + made->handle();
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

    std::string of_array(const std::string &command) const {
        if (command == "handle")
            return "ok " + held_.handle();
        if (command == "bytes")
            return "ok " + hex(held_.bytes());
        return with_type(held_.dtype_text(), [&](auto zero) -> std::string {
            using T = decltype(zero);
            if (command == "compare")
                return compare<T>(held_.as<strided_array<const T>>());
            if (command == "write")
                return write<T>();
            const T found = last<const T>(held_)();
            return found == pattern<T>(100) ? "ok" : bad(held_.size() - 1, found);
        });
    }

    template <class T>
    std::string write() const {
        try {
            last<T>(held_)() = pattern<T>(100);
        } catch (const shmarray::read_only &refusal) {
            return std::string("refused ") + refusal.what();
        }
        return "ok";
    }

    any_array held_;
    std::shared_ptr<void> channel_;
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
