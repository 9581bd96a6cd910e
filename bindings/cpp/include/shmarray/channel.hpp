// Channels: bounded queues of arrays, which any process opens by name or handle. Linux only.
//
//     auto frames = shmarray::channel<std::uint8_t, 3>::create("frames", {480, 640, 3});
//     if (auto frame = frames.loan(100ms)) {         // else see frame.outcome()
//         frame->array()(0, 0, 0) = 255;             // filled in place
//         frame->publish("left camera");
//     }
//
//     // Elsewhere, in any language. Ends when no process sends any more.
//     auto frames = shmarray::channel<const std::uint8_t, 3>::open("frames");
//     for (auto &frame : frames) {
//         use(frame.array(), frame.meta());          // in its slot, until the next frame
//         pictures.push_back(frame.copy());          // with memory of its own
//         held.push_back(frame.keep());              // keeps the slot: a sender may wait for it
//     }
#ifndef SHMARRAY_CHANNEL_HPP
#define SHMARRAY_CHANNEL_HPP

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <shmarray.h>
#include <shmarray/any_array.hpp>
#include <shmarray/array.hpp>
#include <shmarray/held.hpp>
#include <shmarray/layout.hpp>
#include <shmarray/message.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// Who receives a message.
enum class channel_mode : shma_channel_mode {
    queue = SHMA_CHANNEL_QUEUE,         ///< one of the receivers
    broadcast = SHMA_CHANNEL_BROADCAST, ///< each receiver, from when it joined
    /// Each receiver, which reads the last message as often as it likes: receive() waits only for
    /// the first one, wait_newer() for the next. No sender waits for receivers. At least 3 slots.
    latest = SHMA_CHANNEL_LATEST
};

/// What a sender does when all slots are taken.
enum class when_full : shma_when_full {
    block = SHMA_WHEN_FULL_BLOCK, ///< it waits
    drop_oldest =
        SHMA_WHEN_FULL_DROP_OLDEST, ///< it drops the oldest message; receivers are told how many
    error = SHMA_WHEN_FULL_ERROR    ///< its outcome is full
};

/// Options of a new channel.
struct channel_options {
    std::uint32_t slots = 8;                                    ///< at most 1023
    channel_mode mode = channel_mode::queue;                    ///< who receives a message
    shmarray::when_full when_full = shmarray::when_full::block; ///< what a full channel does
    bool varying = false;           ///< each message has a shape of its own, up to the channel's
    bool exist_ok = false;          ///< opens an existing channel of the same description
    bool persist = false;           ///< lives until its name is unlinked
    std::uint32_t file_mode = 0600; ///< 0644: other users can follow a broadcast
    std::uint32_t ends = 128;       ///< how many can have it open, at most 1023
};

/// How a channel is opened.
struct open_options {
    /// Receives a broadcast from now on; otherwise from the first receive on. One that receives
    /// and never does so stops the senders of a broadcast, and itself if it sends.
    bool receives = true;
    /// How long to wait until there is such a channel; by default not at all. Without a value
    /// there is no limit.
    shmarray::timeout timeout = std::chrono::nanoseconds(0);
    /// Receives first at most so many earlier messages of a broadcast: the last ones of which the
    /// slots have not been needed for others.
    std::uint32_t history = 0;
};

namespace detail {

inline const char *text_of(outcome why) noexcept {
    switch (why) {
    case outcome::timed_out:
        return "nothing came in that time";
    case outcome::closed:
        return "the stream has ended: every sender has closed";
    case outcome::full:
        return "no slot of the channel is free";
    case outcome::sender_died:
        return "the stream has ended: the last sender died";
    case outcome::done:
        break;
    }
    return "there is none";
}

} // namespace detail

/// A value, or the reason why there is none.
template <class T>
class maybe {
  public:
    explicit maybe(T value) noexcept : value_(std::move(value)) {}
    explicit maybe(shmarray::outcome why) noexcept : outcome_(why) {}

    explicit operator bool() const noexcept { return value_.has_value(); }

    /// Returns the value. If there is none, it throws error, whose status() is the outcome's.
    T &value() & { return require(), *value_; }
    T value() && { return require(), *std::move(value_); }

    /// Returns the value, which must be there. That of a temporary object, such as receive()
    /// returns, was not checked and would be gone at the end of the statement: it has value().
    T &operator*() & noexcept {
        assert(value_ && "there is no value: see outcome()");
        return *value_;
    }
    T *operator->() & noexcept { return &**this; }
    T &operator*() && = delete;
    T *operator->() && = delete;

    /// Returns done, timed_out, full, closed (no process sends any more, and everything was
    /// received) or sender_died (the same, and the last sender died).
    shmarray::outcome outcome() const noexcept { return outcome_; }

  private:
    void require() const {
        if (!value_)
            failure(static_cast<std::int32_t>(outcome_), 0, detail::text_of(outcome_)).raise();
    }

    std::optional<T> value_;
    shmarray::outcome outcome_ = shmarray::outcome::done;
};

/// A slot that a sender fills in place. Unless it is published it is given back by the destructor,
/// and nobody receives anything.
template <class T, std::size_t Rank = dynamic_rank>
class loan {
  public:
    loan(shma_loan *produced, shmarray::array<T, Rank> in_slot) noexcept
        : held_(produced), array_(std::move(in_slot)) {}

    /// Returns the array to fill, which is null once it was published or given back. Its elements
    /// are what the slot's last message left.
    shmarray::array<T, Rank> &array() & noexcept { return array_; }
    shmarray::array<T, Rank> &array() && = delete; // nobody could publish it

    /// Publishes the array, with at most 64 bytes of metadata. Returns the number of the message,
    /// which counts from 0. Throws invalid_argument if the metadata is too long, if the loan was
    /// published or given back before, or if an array that was made of this one lives, such as a
    /// slice, which could write to the message. Then nobody receives anything.
    std::uint64_t publish(std::string_view meta = {}) { return try_publish(meta).value(); }
    result<std::uint64_t> try_publish(std::string_view meta = {}) {
        std::uint64_t sequence = 0;
        array_.close();
        auto called = detail::call(shma_loan_publish, held_.release(),
                                   static_cast<const void *>(meta.data()), meta.size(), &sequence);
        if (!called)
            return called.error();
        return sequence;
    }

    /// Gives the slot back, as the destructor does. An array that was made of the loan's keeps it.
    void cancel() noexcept {
        array_.close();
        held_.reset();
    }

  private:
    struct closer {
        void operator()(shma_loan *held) const noexcept { shma_loan_cancel(held); }
    };
    std::unique_ptr<shma_loan, closer> held_;
    shmarray::array<T, Rank> array_;
};

/// A message that was received. Its slot is given back when the delivery is gone, and the arrays
/// that were made of its array: keep(), view(), slice(). Until then a sender may wait for the slot.
template <class T, std::size_t Rank = dynamic_rank>
class delivery {
  public:
    delivery(shma_delivery *produced, shmarray::array<T, Rank> in_slot) noexcept
        : held_(produced), array_(std::move(in_slot)) {}

    /// Returns the array, in its slot; in a channel of handles, the array that was sent. It is null
    /// once the delivery was moved from. That of a temporary delivery keeps the slot.
    shmarray::array<T, Rank> &array() & noexcept { return array_; }
    const shmarray::array<T, Rank> &array() const & noexcept { return array_; }
    shmarray::array<T, Rank> array() && noexcept { return std::move(array_); }

    /// Returns the same array, which keeps the slot for as long as it or a view of it lives.
    shmarray::array<T, Rank> keep() const { return array_.view(); }

    /// Returns a copy, with memory of its own. Throws like array::create().
    shmarray::array<std::remove_const_t<T>, Rank> copy() const { return try_copy().value(); }
    result<shmarray::array<std::remove_const_t<T>, Rank>> try_copy() const {
        return shmarray::array<std::remove_const_t<T>, Rank>::try_share(array_.data(),
                                                                        array_.shape());
    }

    /// Returns the number of the message: 0 for the first of the channel, 1 more for each after it.
    std::uint64_t sequence() const noexcept { return shma_delivery_sequence(held_.get()); }

    /// Returns when the message was published.
    std::chrono::system_clock::time_point time() const noexcept {
        using std::chrono::system_clock;
        const std::chrono::nanoseconds since(
            static_cast<std::int64_t>(shma_delivery_time_ns(held_.get())));
        return system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(since));
    }

    /// Returns the time since the message was published, by the system's clock.
    std::chrono::nanoseconds age() const noexcept {
        return std::chrono::nanoseconds(
            static_cast<std::int64_t>(shma_delivery_age_ns(held_.get())));
    }

    /// Returns how many messages were dropped since the one that was received before.
    std::uint64_t missed() const noexcept { return shma_delivery_missed(held_.get()); }

    /// Returns the bytes that were sent beside the array. They are valid as long as the delivery;
    /// those of a temporary delivery are a copy.
    std::string_view meta() const & noexcept {
        std::size_t bytes = 0;
        const void *const first = shma_delivery_meta(held_.get(), &bytes);
        return {static_cast<const char *>(first), bytes};
    }
    std::string meta() const && { return std::string(meta()); }

  private:
    struct closer {
        void operator()(shma_delivery *held) const noexcept { shma_delivery_close(held); }
    };
    std::unique_ptr<shma_delivery, closer> held_;
    shmarray::array<T, Rank> array_;
};

/// An end of a channel that is under way to another process, which opens it by the handle and has a
/// copy of the fd until then. It counts as an end of the channel until it is opened, or until all
/// copies of the fd are closed: this one by the destructor.
class handed_over {
  public:
    explicit handed_over(shma_handed_over *produced) noexcept : held_(produced) {}

    /// Returns the handle: one line of text. It is valid as long as this object.
    const char *handle() const noexcept { return shma_handed_over_handle(held_.get()); }
    /// Returns the fd, which is close-on-exec; -1 if this was moved from.
    int fd() const noexcept { return shma_handed_over_fd(held_.get()); }

  private:
    struct closer {
        void operator()(shma_handed_over *held) const noexcept { shma_handed_over_close(held); }
    };
    std::unique_ptr<shma_handed_over, closer> held_;
};

/// A bounded queue of arrays of T. Several threads may use one, also while one of them calls
/// close().
///
/// With const T it can only receive: to lend or send does not compile. T and Rank are checked when
/// a channel is opened; those of a channel of handles with each message.
template <class T, std::size_t Rank = dynamic_rank>
class channel {
  public:
    using element_type = T;
    using delivery = shmarray::delivery<T, Rank>;
    using loan_type = shmarray::loan<T, Rank>;

    channel() = default;
    channel(channel &&other) noexcept
        : held_(std::move(other.held_)), is_closed_(other.is_closed_.load()) {}
    channel &operator=(channel &&other) noexcept {
        held_ = std::move(other.held_);
        is_closed_ = other.is_closed_.load();
        return *this;
    }
    ~channel() = default;

    /// Returns whether there is a channel: none was moved from or closed.
    explicit operator bool() const noexcept { return held_ != nullptr && !is_closed_; }

    /// Creates a channel whose messages are arrays of this shape, in C order. Throws
    /// already_exists, no_space or invalid_argument.
    static channel create(std::string_view name, const shape_of<Rank> &shape,
                          const channel_options &chosen = {}) {
        return try_create(name, shape, chosen).value();
    }
    static result<channel> try_create(std::string_view name, const shape_of<Rank> &shape,
                                      const channel_options &chosen = {}) {
        if (auto checked = shape.check(); !checked)
            return checked.error();
        const auto terminated = detail::terminated(name);
        if (!terminated)
            return terminated.error();
        const shma_channel_options made = plain(chosen);
        shma_options element = SHMA_OPTIONS_INIT;
        element.dtype_text = detail::wanted<T>().text;
        shma_channel *produced = nullptr;
        auto called = detail::call(shma_channel_create, terminated->c_str(), number, shape.size(),
                                   shape.data(), &element, &made, &produced);
        if (!called)
            return called.error();
        return channel(produced);
    }

    /// Creates a channel whose messages are shared arrays outside of the channel. Each
    /// message holds its array until it is received. Throws like create().
    static channel create_by_handle(std::string_view name, const channel_options &chosen = {}) {
        return try_create_by_handle(name, chosen).value();
    }
    static result<channel> try_create_by_handle(std::string_view name,
                                                const channel_options &chosen = {}) {
        const auto terminated = detail::terminated(name);
        if (!terminated)
            return terminated.error();
        const shma_channel_options made = plain(chosen);
        shma_channel *produced = nullptr;
        auto called =
            detail::call(shma_channel_create_by_handle, terminated->c_str(), &made, &produced);
        if (!called)
            return called.error();
        return channel(produced);
    }

    /// Opens the channel that has a name or a handle, and waits for a name as long as
    /// chosen.timeout says. Throws not_found if there is none, dtype_mismatch or invalid_argument
    /// if it has another dtype or another number of dimensions, invalid_argument or invalid_handle
    /// if the name or the handle is not a channel's, stale_handle, and invalid_argument if there is
    /// a chosen.history and the channel is no broadcast.
    static channel open(std::string_view handle_or_name, const open_options &chosen = {}) {
        return try_open(handle_or_name, chosen).value();
    }
    static result<channel> try_open(std::string_view handle_or_name,
                                    const open_options &chosen = {}) {
        const auto terminated = detail::terminated(handle_or_name);
        if (!terminated)
            return terminated.error();
        shma_channel *produced = nullptr;
        const std::int64_t longest = nanoseconds(chosen.timeout);
        auto called =
            chosen.history > 0
                ? detail::call(shma_channel_open_with_history, terminated->c_str(), chosen.history,
                               longest, &produced)
                : detail::call(shma_channel_open, terminated->c_str(),
                               static_cast<std::int32_t>(chosen.receives), longest, &produced);
        if (!called)
            return called.error();
        if (*called == SHMA_TIMED_OUT)
            return failure(SHMA_ERROR_NOT_FOUND, 0,
                           "there was no channel " + *terminated + " in that time");
        channel opened(produced);
        if (auto checked = opened.check(); !checked)
            return checked.error();
        return opened;
    }

    /// Takes a slot on loan, to be filled in place. Its outcome is timed_out or full if there is
    /// none. Throws permission_denied if the channel is another user's, and invalid_argument if it
    /// is closed, also by another thread while this one waits.
    maybe<loan_type> loan(timeout longest = {}) const { return try_loan(longest).value(); }
    result<maybe<loan_type>> try_loan(timeout longest = {}) const {
        return lend(0, nullptr, longest);
    }
    /// Does so for an array of that shape, in a channel of varying shapes. Throws invalid_argument,
    /// too, if the shape does not fit.
    maybe<loan_type> loan_shape(const shape_of<Rank> &shape, timeout longest = {}) const {
        return try_loan_shape(shape, longest).value();
    }
    result<maybe<loan_type>> try_loan_shape(const shape_of<Rank> &shape,
                                            timeout longest = {}) const {
        if (auto checked = shape.check(); !checked)
            return checked.error();
        static constexpr std::int64_t none = 0; // a shape of no dimensions is none of the channel's
        return lend(shape.size(), shape.size() == 0 ? &none : shape.data(), longest);
    }

    /// Sends an array: a copy of its elements, or in a channel of handles the array itself. Returns
    /// done, timed_out or full. Throws like loan(), dtype_mismatch, and invalid_argument if the
    /// shape or the metadata does not fit.
    outcome send(const sendable &array, std::string_view meta = {}, timeout longest = {}) const {
        return try_send(array, meta, longest).value();
    }
    result<outcome> try_send(const sendable &array, std::string_view meta = {},
                             timeout longest = {}) const {
        require_sender();
        auto sent = detail::call(shma_channel_send_array, held_.get(), array.get(),
                                 static_cast<const void *>(meta.data()), meta.size(),
                                 nanoseconds(longest), static_cast<std::uint64_t *>(nullptr));
        if (!sent)
            return sent.error();
        return static_cast<outcome>(*sent);
    }

    /// Sends a copy of private memory of that shape, in C order. Returns and throws like send().
    outcome send(const T *data, const shape_of<Rank> &shape, std::string_view meta = {},
                 timeout longest = {}) const {
        return try_send(data, shape, meta, longest).value();
    }
    result<outcome> try_send(const T *data, const shape_of<Rank> &shape, std::string_view meta = {},
                             timeout longest = {}) const {
        require_sender();
        if (auto checked = shape.check(); !checked)
            return checked.error();
        auto sent =
            detail::call(shma_channel_send, held_.get(), static_cast<const void *>(data), number,
                         shape.size(), shape.data(), static_cast<const std::int64_t *>(nullptr),
                         static_cast<const void *>(meta.data()), meta.size(), nanoseconds(longest),
                         static_cast<std::uint64_t *>(nullptr));
        if (!sent)
            return sent.error();
        return static_cast<outcome>(*sent);
    }

    /// Receives a message. The outcome is timed_out if none came in that time; closed if no process
    /// sends any more and everything was received; sender_died if, besides, the last sender died.
    /// Throws like loan().
    maybe<delivery> receive(timeout longest = {}) const { return try_receive(longest).value(); }
    result<maybe<delivery>> try_receive(timeout longest = {}) const {
        shma_delivery *produced = nullptr;
        auto called =
            detail::call(shma_channel_receive, held_.get(), nanoseconds(longest), &produced);
        if (!called)
            return called.error();
        if (*called != SHMA_OK)
            return maybe<delivery>(static_cast<outcome>(*called));
        auto in_slot = array_of(shma_delivery_array(produced));
        if (!in_slot) {
            shma_delivery_close(produced);
            return in_slot.error();
        }
        return maybe<delivery>(delivery(produced, *std::move(in_slot)));
    }

    /// Waits until the latest value is newer than the one with that number, by default than none.
    /// Returns done, timed_out, closed or sender_died. Throws like loan(), and invalid_argument if
    /// the channel's mode is not latest.
    outcome wait_newer(std::optional<std::uint64_t> sequence = {}, timeout longest = {}) const {
        return try_wait_newer(sequence, longest).value();
    }
    result<outcome> try_wait_newer(std::optional<std::uint64_t> sequence = {},
                                   timeout longest = {}) const {
        const std::int64_t known = sequence ? static_cast<std::int64_t>(*sequence) : -1;
        auto called =
            detail::call(shma_channel_wait_newer, held_.get(), known, nanoseconds(longest));
        if (!called)
            return called.error();
        return static_cast<outcome>(*called);
    }

    /// An input iterator over the messages, of the latest value over each that is newer, until no
    /// process sends any more, or the channel is closed, also by another thread. It throws like
    /// receive().
    class iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = delivery;
        using difference_type = std::ptrdiff_t;
        using pointer = delivery *;
        using reference = delivery &;

        iterator() = default;
        explicit iterator(const channel &from) : from_(&from) { ++*this; }

        delivery &operator*() const noexcept { return *current_; }
        delivery *operator->() const noexcept { return current_.get(); }
        iterator &operator++() {
            std::optional<std::uint64_t> last;
            if (current_)
                last = current_->sequence();
            current_.reset(); // its slot may be the only one
            auto received = from_->try_receive_after(last);
            if (!received && from_->is_closed_) {
                from_ = nullptr;
                return *this;
            }
            auto next = std::move(received).value();
            if (next)
                current_ = std::make_shared<delivery>(std::move(*next));
            else
                from_ = nullptr;
            return *this;
        }
        void operator++(int) { ++*this; }

        friend bool operator==(const iterator &one, const iterator &other) noexcept {
            return one.from_ == other.from_;
        }
        friend bool operator!=(const iterator &one, const iterator &other) noexcept {
            return !(one == other);
        }

      private:
        const channel *from_ = nullptr;
        std::shared_ptr<delivery> current_;
    };

    /// Receives the first message. A delivery of a loop is valid until the next one, unless it is
    /// moved from the loop.
    iterator begin() const { return iterator(*this); }
    iterator end() const noexcept { return {}; }

    /// Returns whether a receive need not wait now. Throws like loan().
    bool is_ready() const { return try_is_ready().value(); }
    result<bool> try_is_ready() const {
        std::int32_t ready = 0;
        auto called = detail::call(shma_channel_is_ready, held_.get(), &ready);
        if (!called)
            return called.error();
        return ready != 0;
    }

    /// Returns an fd for poll and epoll, readable while a receive need not wait; the channel owns
    /// it. Receive until nothing is left: that makes it unreadable. Throws like loan().
    int fd() const { return try_fd().value(); }
    result<int> try_fd() const {
        int fd = -1;
        auto called = detail::call(shma_channel_fd, held_.get(), &fd);
        if (!called)
            return called.error();
        return fd;
    }

    /// Returns the handle: one line of text by which any process on this machine opens this channel
    /// and no other, also if its name was removed and taken again. It does not keep the channel.
    /// Throws invalid_argument if the channel is closed.
    std::string handle() const { return try_handle().value(); }
    result<std::string> try_handle() const {
        if (!*this)
            return detail::invalid("invalid channel: it is closed");
        return detail::text_of(shma_channel_handle, held_.get());
    }

    /// Hands an end over to another process, as one hands an end of a pipe to a child: from now on
    /// it counts, also if this process closes the channel. Throws invalid_argument if all ends are
    /// in use or the channel is closed, and unsupported if it is another user's.
    handed_over hand_over() const { return try_hand_over().value(); }
    result<handed_over> try_hand_over() const {
        shma_handed_over *produced = nullptr;
        auto called = detail::call(shma_channel_hand_over, held_.get(), &produced);
        if (!called)
            return called.error();
        return handed_over(produced);
    }

    /// Returns the shape of a message; of varying shapes the largest.
    dimensions shape() const noexcept {
        return {shma_channel_shape(held_.get()), shma_channel_ndim(held_.get())};
    }

    /// Ends this object's part in the channel, as the destructor does: the other side sees the end
    /// of the stream after what was sent. Loans and deliveries stay valid. If other threads wait at
    /// this channel, their loops over it end, and their other calls throw invalid_argument.
    void close() noexcept {
        is_closed_ = true;
        shma_channel_end(held_.get());
    }

  private:
    static constexpr shma_dtype number = detail::dtype_of<std::remove_const_t<T>>::value;

    explicit channel(shma_channel *produced) noexcept : held_(produced) {}

    static std::int64_t nanoseconds(const timeout &longest) noexcept {
        return longest ? std::max<std::int64_t>(longest->count(), 0) : SHMA_NO_TIMEOUT;
    }

    static shma_channel_options plain(const channel_options &chosen) noexcept {
        shma_channel_options made = SHMA_CHANNEL_OPTIONS_INIT;
        made.slots = chosen.slots;
        made.ends = chosen.ends;
        made.mode = static_cast<shma_channel_mode>(chosen.mode);
        made.when_full = static_cast<shma_when_full>(chosen.when_full);
        made.varying = chosen.varying;
        made.exist_ok = chosen.exist_ok;
        made.persist = chosen.persist;
        made.file_mode = chosen.file_mode;
        return made;
    }

    result<void> check() const {
        if (shma_channel_has_handles(held_.get()) != 0)
            return {};
        if (shma_channel_dtype(held_.get()) != number)
            return failure(SHMA_ERROR_DTYPE_MISMATCH, 0,
                           std::string("the channel has another dtype than ") +
                               shma_dtype_name(number));
        if (Rank != dynamic_rank && shape().size() != Rank)
            return failure(SHMA_ERROR_INVALID_ARGUMENT, 0,
                           "invalid shape: the channel has " + std::to_string(shape().size()) +
                               " dimensions, not " + std::to_string(Rank));
        return {};
    }

    static constexpr void require_sender() {
        static_assert(!std::is_const_v<T>, "a channel of const T can only receive");
    }

    /// Returns the typed array of a loan or delivery, which keeps the slot.
    static result<array<T, Rank>> array_of(const shma_array *in_slot) {
        return any_array(shma_array_retain(in_slot)).template try_as<T, Rank>();
    }

    result<maybe<loan_type>> lend(std::size_t ndim, const std::int64_t *shape,
                                  const timeout &longest) const {
        require_sender();
        shma_loan *produced = nullptr;
        auto called = detail::call(shma_channel_loan, held_.get(), ndim, shape,
                                   nanoseconds(longest), &produced);
        if (!called)
            return called.error();
        if (*called != SHMA_OK)
            return maybe<loan_type>(static_cast<outcome>(*called));
        auto in_slot = array_of(shma_loan_array(produced));
        if (!in_slot) {
            shma_loan_cancel(produced);
            return in_slot.error();
        }
        return maybe<loan_type>(loan_type(produced, *std::move(in_slot)));
    }

    /// Receives a message; of the latest value one that is newer than the last.
    result<maybe<delivery>> try_receive_after(std::optional<std::uint64_t> last) const {
        if (shma_channel_is_latest(held_.get()) != 0) {
            auto newer = try_wait_newer(last);
            if (!newer)
                return newer.error();
            if (*newer != outcome::done)
                return maybe<delivery>(*newer);
        }
        return try_receive();
    }

    struct closer {
        void operator()(shma_channel *held) const noexcept { shma_channel_close(held); }
    };
    std::unique_ptr<shma_channel, closer> held_;
    std::atomic<bool> is_closed_ = false;
};

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_CHANNEL_HPP
