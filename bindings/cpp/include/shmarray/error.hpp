// Failures: why a call failed, and the exception that each is thrown as.
#ifndef SHMARRAY_ERROR_HPP
#define SHMARRAY_ERROR_HPP

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include <shmarray.h>
#include <shmarray/mode.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// The base of all exceptions of this library, thrown itself for a status without a class below.
/// what() is one line with the values involved.
class SHMARRAY_EXCEPTION error : public std::runtime_error {
  public:
    error(std::int32_t status, std::int32_t os_errno, const std::string &message)
        : std::runtime_error(message), status_(status), os_errno_(os_errno) {}

    /// Returns one of the SHMA_ERROR_ numbers of the C header.
    std::int32_t status() const noexcept { return status_; }

    /// Returns the operating system's error number, or 0.
    std::int32_t os_errno() const noexcept { return os_errno_; }

  private:
    std::int32_t status_;
    std::int32_t os_errno_;
};

/// The segment or name does not exist: its memory was given back, or it was never on this machine.
/// Also: there is no such file, no such member of an NPZ file, or no such key of a dictionary.
struct SHMARRAY_EXCEPTION not_found : error {
    using error::error;
};

/// The name already exists.
struct SHMARRAY_EXCEPTION already_exists : error {
    using error::error;
};

/// The handle has an earlier generation than its segment: that array no longer exists.
struct SHMARRAY_EXCEPTION stale_handle : error {
    using error::error;
};

/// The text is not a valid handle; what() names the field.
struct SHMARRAY_EXCEPTION invalid_handle : error {
    using error::error;
};

/// A name, shape, stride, offset or option is invalid.
struct SHMARRAY_EXCEPTION invalid_argument : error {
    using error::error;
};

/// The dtype of the array differs from the requested one.
struct SHMARRAY_EXCEPTION dtype_mismatch : error {
    using error::error;
};

/// A view or an index is outside its array.
struct SHMARRAY_EXCEPTION out_of_bounds : error {
    using error::error;
};

/// The array is read-only and the requested element type is not const.
struct SHMARRAY_EXCEPTION read_only : error {
    using error::error;
};

/// Shared memory is full; what() says how many bytes were requested and how many are free.
struct SHMARRAY_EXCEPTION no_space : error {
    using error::error;
};

/// This process can get no more private memory, or can map no more of any kind; what() says how
/// many bytes were requested, and what for.
struct SHMARRAY_EXCEPTION no_memory : error {
    using error::error;
};

/// The operating system or the owner of the memory refuses access.
struct SHMARRAY_EXCEPTION permission_denied : error {
    using error::error;
};

/// The file is not a valid NPY or NPZ file, or exceeds a limit; what() names the file, the member
/// and the field.
struct SHMARRAY_EXCEPTION invalid_file : error {
    using error::error;
};

/// The reason why a call failed: what a result<T> has in place of a value.
class failure {
  public:
    failure() = default;
    failure(std::int32_t status, std::int32_t os_errno, std::string message) noexcept
        : status_(status), os_errno_(os_errno), message_(std::move(message)) {}

    /// Returns one of the SHMA_ERROR_ numbers of the C header.
    std::int32_t status() const noexcept { return status_; }

    /// Returns the operating system's error number, or 0.
    std::int32_t os_errno() const noexcept { return os_errno_; }

    /// Returns one line of text with the values involved.
    const std::string &message() const noexcept { return message_; }

    /// Throws the exception of this status. In a program that is compiled without exceptions, it
    /// prints the message and aborts.
    [[noreturn]] void raise() const;

  private:
    std::int32_t status_ = SHMA_ERROR_INVALID_ARGUMENT;
    std::int32_t os_errno_ = 0;
    std::string message_ = "moved from";
};

namespace detail {

template <class Exception>
[[noreturn]] void raise_as(const failure &why) {
#ifdef __cpp_exceptions
    throw Exception(why.status(), why.os_errno(), why.message());
#else
    std::fprintf(stderr, "shmarray: %s\n", why.message().c_str());
    std::abort();
#endif
}

} // namespace detail

[[noreturn]] inline void failure::raise() const {
    switch (status_) {
    case SHMA_ERROR_NOT_FOUND:
        detail::raise_as<not_found>(*this);
    case SHMA_ERROR_EXISTS:
        detail::raise_as<already_exists>(*this);
    case SHMA_ERROR_STALE_HANDLE:
        detail::raise_as<stale_handle>(*this);
    case SHMA_ERROR_INVALID_HANDLE:
        detail::raise_as<invalid_handle>(*this);
    case SHMA_ERROR_INVALID_ARGUMENT:
        detail::raise_as<invalid_argument>(*this);
    case SHMA_ERROR_DTYPE_MISMATCH:
        detail::raise_as<dtype_mismatch>(*this);
    case SHMA_ERROR_OUT_OF_BOUNDS:
        detail::raise_as<out_of_bounds>(*this);
    case SHMA_ERROR_READ_ONLY:
        detail::raise_as<read_only>(*this);
    case SHMA_ERROR_NO_SPACE:
        detail::raise_as<no_space>(*this);
    case SHMA_ERROR_NO_MEMORY:
        detail::raise_as<no_memory>(*this);
    case SHMA_ERROR_PERMISSION_DENIED:
        detail::raise_as<permission_denied>(*this);
    case SHMA_ERROR_INVALID_FILE:
        detail::raise_as<invalid_file>(*this);
    default:
        detail::raise_as<error>(*this);
    }
}

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_ERROR_HPP
