// Exceptions: a base class, and a derived class for each failure that programs want to catch.
#ifndef SHMARRAY_ERROR_HPP
#define SHMARRAY_ERROR_HPP

#include <cstdint>
#include <stdexcept>
#include <string>

#include <shmarray.h>

namespace shmarray {

/// The base of all exceptions of this library. what() is one line with the values involved.
class error : public std::runtime_error {
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
struct not_found : error {
    using error::error;
};

/// The name already exists.
struct already_exists : error {
    using error::error;
};

/// The handle has an earlier generation than its segment: that array no longer exists.
struct stale_handle : error {
    using error::error;
};

/// The text is not a valid handle; what() names the field.
struct invalid_handle : error {
    using error::error;
};

/// A name, shape, stride, offset or option is invalid.
struct invalid_argument : error {
    using error::error;
};

/// The dtype of the array differs from the requested one.
struct dtype_mismatch : error {
    using error::error;
};

/// A view or an index is outside its array.
struct out_of_bounds : error {
    using error::error;
};

/// The array is read-only and the requested element type is not const.
struct read_only : error {
    using error::error;
};

/// Shared memory is full; what() says how many bytes were requested and how many are free.
struct no_space : error {
    using error::error;
};

/// Private memory is used up; what() says how many bytes were requested.
struct no_memory : error {
    using error::error;
};

/// The operating system or the owner of the memory refuses access.
struct permission_denied : error {
    using error::error;
};

namespace detail {

/// Throws the exception for a status.
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
    case SHMA_ERROR_NO_MEMORY:
        throw no_memory(status, os_errno, message);
    case SHMA_ERROR_PERMISSION_DENIED:
        throw permission_denied(status, os_errno, message);
    default:
        throw error(status, os_errno, message);
    }
}

/// Calls a function of the C ABI whose last parameter is the error. Throws if it fails, else
/// returns the status: 0, or that of an ordinary outcome.
template <class Function, class... Arguments>
std::int32_t call(Function function, Arguments... arguments) {
    shma_error why; // written only if the status is negative
    const std::int32_t status = function(arguments..., &why);
    if (status < 0)
        raise(why.status, why.os_errno, why.message);
    return status;
}

} // namespace detail
} // namespace shmarray

#endif // SHMARRAY_ERROR_HPP
