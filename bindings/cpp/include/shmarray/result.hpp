// A value or the reason why there is none: the answers of the functions that do not throw.
//
//     if (auto frame = shmarray::array<float>::try_attach(handle))
//         use(*frame);
//     else
//         log(frame.error().message());
#ifndef SHMARRAY_RESULT_HPP
#define SHMARRAY_RESULT_HPP

#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <shmarray.h>
#include <shmarray/error.hpp>
#include <shmarray/mode.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// A T, or the failure because of which there is none, with std::expected's names. A function that
/// throws, other than at(), has a twin try_… with a result, and is that twin's value(). A result
/// that was moved from has no value.
template <class T>
class [[nodiscard]] result {
  public:
    using value_type = T;
    using error_type = failure;

    result(T value) noexcept : state_(std::in_place_index<1>, std::move(value)) {}
    result(failure why) noexcept : state_(std::in_place_index<0>, std::move(why)) {}
    result(const result &) = default;
    result(result &&other) noexcept : state_(std::exchange(other.state_, state())) {}
    result &operator=(const result &) = default;
    result &operator=(result &&other) noexcept {
        state_ = std::exchange(other.state_, state());
        return *this;
    }
    ~result() = default;

    bool has_value() const noexcept { return state_.index() == 1; }
    explicit operator bool() const noexcept { return has_value(); }

    /// Returns the value. If there is none, it throws the failure's exception.
    T &value() & { return require(), **this; }
    const T &value() const & { return require(), **this; }
    T value() && { return require(), *std::move(*this); } // lives through a range-for

    /// Returns the value, which must be there.
    T &operator*() & noexcept { return *checked(std::get_if<1>(&state_)); }
    const T &operator*() const & noexcept { return *checked(std::get_if<1>(&state_)); }
    T operator*() && noexcept { return std::move(**this); }
    T *operator->() noexcept { return &**this; }
    const T *operator->() const noexcept { return &**this; }

    /// Returns why there is no value. There must be none.
    const failure &error() const noexcept { return *checked(std::get_if<0>(&state_)); }

    /// Returns the value, or another one if there is none.
    template <class Other>
    T value_or(Other &&other) const & {
        return has_value() ? **this : static_cast<T>(std::forward<Other>(other));
    }
    template <class Other>
    T value_or(Other &&other) && {
        return has_value() ? *std::move(*this) : static_cast<T>(std::forward<Other>(other));
    }

    /// Calls a function, which returns a result, with the value. Passes a failure on.
    template <class Function>
    auto and_then(Function function) && -> std::invoke_result_t<Function, T &&> {
        if (has_value())
            return function(*std::move(*this));
        return error();
    }

  private:
    using state = std::variant<failure, T>;

    template <class Part>
    static Part *checked(Part *part) noexcept {
        assert(part != nullptr && "a result has either a value or a failure");
        return part;
    }

    void require() const {
        if (!has_value())
            error().raise();
    }

    state state_;
};

/// The result of a call that has no value.
template <>
class [[nodiscard]] result<void> {
  public:
    using value_type = void;
    using error_type = failure;

    result() = default;
    result(failure why) noexcept : done_(std::move(why)) {}

    bool has_value() const noexcept { return done_.has_value(); }
    explicit operator bool() const noexcept { return has_value(); }
    void value() const { static_cast<void>(done_.value()); }
    const failure &error() const noexcept { return done_.error(); }

  private:
    result<std::monostate> done_ = std::monostate();
};

namespace detail {

/// Calls a function of the C ABI whose last parameter is the error. Returns the status, 0 or that
/// of an ordinary outcome, or the failure.
template <class Function, class... Arguments>
result<std::int32_t> call(Function function, Arguments... arguments) {
    shma_error why; // written only if the status is negative
    const std::int32_t status = function(arguments..., &why);
    if (status < 0)
        return failure(why.status, why.os_errno, why.message);
    return status;
}

/// Calls a function of the C ABI that has no outcome besides success.
template <class Function, class... Arguments>
result<void> act(Function function, Arguments... arguments) {
    auto called = call(function, arguments...);
    return called ? result<void>() : result<void>(called.error());
}

inline failure invalid(const char *message) { return {SHMA_ERROR_INVALID_ARGUMENT, 0, message}; }

/// Returns a text for the C ABI, for which it would end at the first zero byte.
inline result<std::string> terminated(std::string_view text) {
    if (text.find('\0') != std::string_view::npos)
        return invalid("invalid text: it has a zero byte, at which a text of C ends");
    return std::string(text);
}

} // namespace detail
} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_RESULT_HPP
