// What goes wrong, as C++ exceptions: one base, one child for what a program may want to catch.
#ifndef SHMARRAY_ERROR_HPP
#define SHMARRAY_ERROR_HPP

#include <cstdint>
#include <stdexcept>
#include <string>

#include <shmarray.h>

namespace shmarray {

/// Whatever fails throws this or a child of it. what() is one line with the facts.
class error : public std::runtime_error {
  public:
    error(std::int32_t status, std::int32_t os_errno, const std::string &message)
        : std::runtime_error(message), status_(status), os_errno_(os_errno) {}

    /// One of the C header's SHMA_ERROR_ numbers.
    std::int32_t status() const noexcept { return status_; }

    /// The operating system's error number, or 0.
    std::int32_t os_errno() const noexcept { return os_errno_; }

  private:
    std::int32_t status_;
    std::int32_t os_errno_;
};

/// No such segment or name: given back, or never on this machine.
struct not_found : error {
    using error::error;
};

/// The name exists.
struct already_exists : error {
    using error::error;
};

/// The handle is of an earlier life of its segment.
struct stale_handle : error {
    using error::error;
};

/// The text is not a handle; what() names the field.
struct invalid_handle : error {
    using error::error;
};

/// A bad name, shape, stride, offset or option.
struct invalid_argument : error {
    using error::error;
};

/// The array has another dtype than asked for.
struct dtype_mismatch : error {
    using error::error;
};

/// A view or an index that leaves its array.
struct out_of_bounds : error {
    using error::error;
};

/// A writable type for a read-only array.
struct read_only : error {
    using error::error;
};

/// Shared memory is full; what() says how much was asked and is free.
struct no_space : error {
    using error::error;
};

/// The system or the owner says no.
struct permission_denied : error {
    using error::error;
};

namespace detail {

/// The one table from statuses to exceptions.
[[noreturn]] inline void raise(std::int32_t status, std::int32_t os_errno,
                               const std::string &message) {
    switch (status) {
    case SHMA_ERROR_NOT_FOUND:
        throw not_found(status, os_errno, message);
    case SHMA_ERROR_EXISTS:
        throw already_exists(status, os_errno, message);
    case SHMA_ERROR_STALE_HANDLE:
        throw stale_handle(status, os_errno, message);
    case SHMA_ERROR_INVALID_HANDLE:
        throw invalid_handle(status, os_errno, message);
    case SHMA_ERROR_INVALID_ARGUMENT:
        throw invalid_argument(status, os_errno, message);
    case SHMA_ERROR_DTYPE_MISMATCH:
        throw dtype_mismatch(status, os_errno, message);
    case SHMA_ERROR_OUT_OF_BOUNDS:
        throw out_of_bounds(status, os_errno, message);
    case SHMA_ERROR_READ_ONLY:
        throw read_only(status, os_errno, message);
    case SHMA_ERROR_NO_SPACE:
        throw no_space(status, os_errno, message);
    case SHMA_ERROR_PERMISSION_DENIED:
        throw permission_denied(status, os_errno, message);
    default:
        throw error(status, os_errno, message);
    }
}

/// Calls a function of the C ABI whose last parameter is the error; throws when it fails. Gives
/// the status: 0, or that of an ordinary outcome.
template <class Function, class... Arguments>
std::int32_t call(Function function, Arguments... arguments) {
    shma_error why; // written when the status is negative, and only then
    const std::int32_t status = function(arguments..., &why);
    if (status < 0)
        raise(why.status, why.os_errno, why.message);
    return status;
}

} // namespace detail
} // namespace shmarray

#endif // SHMARRAY_ERROR_HPP
