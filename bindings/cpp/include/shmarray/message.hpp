// Messages: arrays on their way to another process, held until they are received. On Linux.
//
//     auto [here, there] = shmarray::pipe::pair(); // there goes to another process, by fork or socket
//     auto frame = shmarray::array<float>::create({480, 640});
//     here.send("frame 1", {frame});                      // the message holds it from now on
//
//     if (auto received = there.receive(100ms))           // else received.outcome() says why not
//         auto frame = received->array<const float>(0);   // received->payload() is "frame 1"
#ifndef SHMARRAY_MESSAGE_HPP
#define SHMARRAY_MESSAGE_HPP

#include <algorithm>
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
#include <shmarray/error.hpp>

namespace shmarray {

/// What came of an attempt to send or to receive.
enum class outcome : std::int32_t {
    done = SHMA_OK,
    timed_out = SHMA_TIMED_OUT,
    closed = SHMA_CLOSED
};

/// As long as it takes, or no longer than that. Any duration of whole ticks will do; a negative one
/// is zero.
using timeout = std::optional<std::chrono::nanoseconds>;

/// An array to send: any of them.
class sendable {
  public:
    sendable(const any_array &array) noexcept : held_(array.get()) {}
    const shma_array *get() const noexcept { return held_; }

  private:
    const shma_array *held_;
};

/// Bytes and arrays that were received. It holds its arrays; those that were asked for live on by
/// themselves.
class message {
  public:
    /// Takes over what the C ABI produced.
    explicit message(shma_message *produced) noexcept : held_(produced) {}

    /// The bytes. They live as long as the message.
    std::string_view payload() const noexcept {
        std::size_t bytes = 0;
        const void *const first = shma_message_payload(get(), &bytes);
        return {static_cast<const char *>(first), bytes};
    }

    /// The number of arrays.
    std::size_t size() const noexcept { return shma_message_count(get()); }

    /// One of the arrays: out_of_bounds if there is none of that index, dtype_mismatch if it has
    /// another dtype. With const T its pages are read-only.
    template <class T>
    shmarray::array<T> array(std::size_t index) const {
        return shmarray::array<T>(
            array(index, std::is_const_v<T> ? access::read_only : access::read_write));
    }

    /// One of the arrays, of whatever dtype.
    any_array array(std::size_t index, access how) const {
        return detail::produce(shma_message_array, get(), index, static_cast<shma_access>(how));
    }

    /// For calls of the C ABI; stays ours.
    const shma_message *get() const noexcept { return held_.get(); }

  private:
    struct closer {
        void operator()(shma_message *held) const noexcept { shma_message_close(held); }
    };
    std::unique_ptr<shma_message, closer> held_;
};

/// A message, or why there is none.
class received {
  public:
    explicit received(message arrived) noexcept : message_(std::move(arrived)) {}
    explicit received(shmarray::outcome why) noexcept : outcome_(why) {}

    explicit operator bool() const noexcept { return message_.has_value(); }
    message &operator*() noexcept { return *message_; }
    message *operator->() noexcept { return &*message_; }

    /// done, timed_out, or closed: nobody has the other end, and all that was sent has been
    /// received.
    shmarray::outcome outcome() const noexcept { return outcome_; }

  private:
    std::optional<message> message_;
    shmarray::outcome outcome_ = shmarray::outcome::done;
};

/// One end of a pipe that carries arrays and bytes, both ways.
///
/// Any number of processes may share an end: each message is received once, and whole. A message
/// that nobody can receive any more gives its arrays back.
class pipe {
  public:
    /// Takes over what the C ABI produced.
    explicit pipe(shma_pipe *produced) noexcept : held_(produced) {}

    /// A new pipe: its two ends. Their descriptors close on exec.
    static std::pair<pipe, pipe> pair() {
        shma_pipe *one = nullptr, *other = nullptr;
        detail::call(shma_pipe_pair, &one, &other);
        return {pipe(one), pipe(other)};
    }

    /// An end that came from another process. Its descriptor is the pipe's from then on; when this
    /// throws (invalid_argument if it is no end of such a pipe) it is still the caller's.
    static pipe from_fd(int fd) {
        shma_pipe *produced = nullptr;
        detail::call(shma_pipe_from_fd, fd, &produced);
        return pipe(produced);
    }

    /// The descriptor, which stays the pipe's. Readable when receive would not wait.
    int fd() const noexcept { return shma_pipe_fd(held_.get()); }

    /// Sends bytes and arrays, which the message holds from then on. timed_out when there was no
    /// room in that time, closed when nobody has the other end: then nothing was sent.
    ///
    /// Throws error with os_errno() EINTR when a signal's handler ran meanwhile.
    outcome send(std::string_view payload, const std::vector<sendable> &arrays = {},
                 timeout longest = {}) const {
        std::vector<const shma_array *> plain(arrays.size());
        std::transform(arrays.begin(), arrays.end(), plain.begin(),
                       [](const sendable &one) { return one.get(); });
        return static_cast<outcome>(detail::call(
            shma_pipe_send, held_.get(), plain.data(), plain.size(),
            static_cast<const void *>(payload.data()), payload.size(), nanoseconds(longest)));
    }

    /// A message, or why there is none. Throws as send, and invalid_argument when what came is no
    /// message.
    received receive(timeout longest = {}) const {
        shma_message *produced = nullptr;
        const auto status =
            detail::call(shma_pipe_receive, held_.get(), nanoseconds(longest), &produced);
        return status == SHMA_OK ? received(message(produced))
                                 : received(static_cast<outcome>(status));
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

/// Gives back what an unwanted message holds: a handle_to_send() that nobody will attach. Twice is
/// as good as once.
inline void discard(const std::string &handle) { detail::call(shma_handle_discard, handle.c_str()); }

} // namespace shmarray

#endif // SHMARRAY_MESSAGE_HPP
