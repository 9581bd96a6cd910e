// Messages: arrays that are sent to other processes and held until they are received. Linux only.
//
//     auto [here, there] = shmarray::pipe::pair(); // another process gets `there`, such as by fork
//     auto frame = shmarray::array<float>::create({480, 640});
//     here.send("frame 1", {frame});                      // the message holds the array
//
//     if (auto received = there.receive(100ms))           // else see received.outcome()
//         auto frame = received->array<const float>(0);   // received->payload() is "frame 1"
#ifndef SHMARRAY_MESSAGE_HPP
#define SHMARRAY_MESSAGE_HPP

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <shmarray.h>
#include <shmarray/any_array.hpp>
#include <shmarray/array.hpp>
#include <shmarray/held.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// The outcome of a call of send or receive that did not fail.
enum class outcome : std::int32_t {
    done = SHMA_OK,
    timed_out = SHMA_TIMED_OUT,
    closed = SHMA_CLOSED,
    full = SHMA_FULL,              ///< a channel has no free slot, and does not wait
    sender_died = SHMA_SENDER_DIED ///< a channel has ended, and its last sender died
};

/// The longest time to wait; without a value there is no limit. It converts from any duration that
/// counts in integers, such as 100ms, not 0.1s. A negative one counts as zero.
using timeout = std::optional<std::chrono::nanoseconds>;

/// While it lives, a signal handler that runs in this thread ends the thread's waits: they throw
/// error with os_errno() EINTR, and nothing was sent, received or opened. Otherwise a wait goes on
/// for what is left of its timeout. A handler that runs before the wait has begun does not end it.
class interruptible {
  public:
    interruptible() noexcept : before_(shma_set_interruptible(1)) {}
    ~interruptible() { shma_set_interruptible(before_); }
    interruptible(const interruptible &) = delete;
    interruptible &operator=(const interruptible &) = delete;

  private:
    std::int32_t before_;
};

/// An array of any type, for pipe::send, save_npy and save_npz. It holds the memory as the array
/// does.
class sendable {
  public:
    sendable(const detail::array_base &array) noexcept : held_(array.held_.owner) {}
    const shma_array *get() const noexcept { return held_.get(); }

  private:
    std::shared_ptr<const shma_array> held_;
};

/// A received message: bytes and arrays. It holds its arrays as long as it lives. An array that was
/// attached has a hold of its own. A message that was moved from or closed is null.
class message {
  public:
    message() = default;

    /// Takes ownership of a message of the C ABI.
    explicit message(shma_message *produced) noexcept : held_(produced) {}

    /// Returns whether there is a message.
    explicit operator bool() const noexcept { return held_ != nullptr; }

    /// Releases the message, as the destructor does.
    void close() noexcept { held_.reset(); }

    /// Returns the bytes. They are valid as long as the message.
    std::string_view payload() const noexcept {
        std::size_t bytes = 0;
        const void *const first = shma_message_payload(get(), &bytes);
        return {static_cast<const char *>(first), bytes};
    }

    /// Returns the number of arrays.
    std::size_t size() const noexcept { return shma_message_count(get()); }

    /// Attaches one of the arrays: array<float>(0), array<const float, 2>(0), or as an array type,
    /// array<strided_array<float>>(0). With const elements its pages are read-only. Throws
    /// out_of_bounds if there is none of that index, and like any_array::as().
    template <class T, std::size_t Rank = dynamic_rank>
    detail::array_for<T, Rank> array(std::size_t index) const {
        return try_array<T, Rank>(index).value();
    }
    template <class T, std::size_t Rank = dynamic_rank>
    result<detail::array_for<T, Rank>> try_array(std::size_t index) const {
        using element = typename detail::array_for<T, Rank>::element_type;
        auto untyped =
            try_array(index, std::is_const_v<element> ? access::read_only : access::read_write);
        if (!untyped)
            return untyped.error();
        return untyped->template try_as<T, Rank>();
    }

    /// Attaches one of the arrays, of any dtype.
    any_array array(std::size_t index, access wanted) const {
        return try_array(index, wanted).value();
    }
    result<any_array> try_array(std::size_t index, access wanted) const {
        shma_array *produced = nullptr;
        auto called = detail::call(shma_message_array, get(), index,
                                   static_cast<shma_access>(wanted), &produced);
        if (!called)
            return called.error();
        return any_array(produced);
    }

    /// Returns the message for calls of the C ABI; this object keeps its ownership.
    const shma_message *get() const noexcept { return held_.get(); }

  private:
    struct closer {
        void operator()(shma_message *held) const noexcept { shma_message_close(held); }
    };
    std::unique_ptr<shma_message, closer> held_;
};

/// A message, or the reason why there is none.
class received {
  public:
    explicit received(message arrived) noexcept : message_(std::move(arrived)) {}
    explicit received(shmarray::outcome why) noexcept : outcome_(why) {}

    explicit operator bool() const noexcept { return static_cast<bool>(message_); }

    /// Returns the message, which must be there.
    message &operator*() noexcept {
        assert(message_ && "no message was received: see outcome()");
        return message_;
    }
    message *operator->() noexcept { return &**this; }

    /// Returns done, timed_out, or closed: no process has the other end and every message has been
    /// received.
    shmarray::outcome outcome() const noexcept { return outcome_; }

  private:
    message message_;
    shmarray::outcome outcome_ = shmarray::outcome::done;
};

/// One end of a bidirectional pipe for arrays and bytes.
///
/// Any number of processes may share an end. Each message is received whole and by one process. A
/// message that no process can receive any more releases its arrays.
class pipe {
  public:
    pipe() = default;

    /// Takes ownership of a pipe of the C ABI.
    explicit pipe(shma_pipe *produced) noexcept : held_(produced) {}

    /// Returns whether there is a pipe: none was moved from or closed.
    explicit operator bool() const noexcept { return held_ != nullptr; }

    /// Closes this end, as the destructor does.
    void close() noexcept { held_.reset(); }

    /// Creates a pipe and returns its two ends. Their fds are close-on-exec.
    static std::pair<pipe, pipe> pair() { return try_pair().value(); }
    static result<std::pair<pipe, pipe>> try_pair() {
        shma_pipe *one = nullptr, *other = nullptr;
        if (auto called = detail::call(shma_pipe_pair, &one, &other); !called)
            return called.error();
        return std::pair<pipe, pipe>(one, other);
    }

    /// Makes a pipe of an fd that came from another process, and takes ownership of the fd. Throws
    /// invalid_argument if it is not the end of such a pipe; after a failure the caller still owns
    /// the fd.
    static pipe from_fd(int fd) { return try_from_fd(fd).value(); }
    static result<pipe> try_from_fd(int fd) {
        shma_pipe *produced = nullptr;
        if (auto called = detail::call(shma_pipe_from_fd, fd, &produced); !called)
            return called.error();
        return pipe(produced);
    }

    /// Returns the fd, which the pipe owns; -1 if there is no pipe. It is readable if receive would
    /// not wait.
    int fd() const noexcept { return shma_pipe_fd(held_.get()); }

    /// Sends bytes and arrays; the message holds the arrays until it is received. Returns timed_out
    /// if the pipe had no room in that time, closed if no process has the other end. Nothing was
    /// sent unless it returns done.
    outcome send(std::string_view payload, const std::vector<sendable> &arrays = {},
                 timeout longest = {}) const {
        return try_send(payload, arrays, longest).value();
    }
    result<outcome> try_send(std::string_view payload, const std::vector<sendable> &arrays = {},
                             timeout longest = {}) const {
        // The C ABI takes a list of plain pointers, and changes no array.
        std::vector<shma_array *> plain(arrays.size());
        std::transform(arrays.begin(), arrays.end(), plain.begin(),
                       [](const sendable &one) { return const_cast<shma_array *>(one.get()); });
        auto sent = detail::call(shma_pipe_send, held_.get(), plain.data(), plain.size(),
                                 static_cast<const void *>(payload.data()), payload.size(),
                                 nanoseconds(longest));
        if (!sent)
            return sent.error();
        return static_cast<outcome>(*sent);
    }

    /// Receives a message, or returns why there is none. Throws invalid_argument if the received
    /// bytes are not a message.
    received receive(timeout longest = {}) const { return try_receive(longest).value(); }
    result<received> try_receive(timeout longest = {}) const {
        shma_message *produced = nullptr;
        auto status = detail::call(shma_pipe_receive, held_.get(), nanoseconds(longest), &produced);
        if (!status)
            return status.error();
        return *status == SHMA_OK ? received(message(produced))
                                  : received(static_cast<outcome>(*status));
    }

  private:
    static std::int64_t nanoseconds(const timeout &longest) noexcept {
        return longest ? std::max<std::int64_t>(longest->count(), 0) : SHMA_NO_TIMEOUT;
    }

    struct closer {
        void operator()(shma_pipe *held) const noexcept { shma_pipe_close(held); }
    };
    std::unique_ptr<shma_pipe, closer> held_;
};

/// Releases the ticket of a handle_to_send() that no process will attach. A second call does
/// nothing.
inline result<void> try_discard(std::string_view handle) {
    const auto terminated = detail::terminated(handle);
    return terminated ? detail::act(shma_handle_discard, terminated->c_str()) : terminated.error();
}
inline void discard(std::string_view handle) { try_discard(handle).value(); }

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_MESSAGE_HPP
