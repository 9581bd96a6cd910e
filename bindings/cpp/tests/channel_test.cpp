// Channels: loans, deliveries, both modes, ranges, fds and failures.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <future>
#include <poll.h>
#include <semaphore.h>
#include <string>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using namespace std::chrono_literals;
using shmarray::array;
using shmarray::channel;
using shmarray::outcome;

static_assert(std::is_nothrow_move_constructible_v<channel<int>> &&
              !std::is_copy_constructible_v<channel<int>>);

shmarray::channel_options slots(std::uint32_t count) {
    shmarray::channel_options chosen;
    chosen.slots = count;
    return chosen;
}

bool is_readable(int fd, int milliseconds) {
    pollfd asked{fd, POLLIN, 0};
    return poll(&asked, 1, milliseconds) == 1;
}

TEST("a_loan_becomes_a_message_and_a_message_a_delivery") {
    auto frames = channel<float, 2>::create("frames", {4, 3}, slots(2));
    auto other = channel<const float, 2>::open("frames");
    CHECK(other.shape()[0] == 4);
    auto loan = frames.loan();
    REQUIRE(loan);
    loan->array()(3, 2) = 1.5F;
    const auto before = std::chrono::system_clock::now();
    CHECK(loan->publish("left") == 0);
    auto message = other.receive();
    REQUIRE(message);
    CHECK(message->array()(3, 2) == 1.5F);
    CHECK(message->array().is_readonly());
    CHECK(message->meta() == "left");
    CHECK(message->sequence() == 0);
    CHECK(message->missed() == 0);
    CHECK(message->time() >= before - 1ms);
    CHECK(message->time() <= std::chrono::system_clock::now());
}

TEST("an_array_of_a_delivery_keeps_the_slot") {
    auto sends = channel<int>::create("numbers", {2}, slots(1));
    auto receives = channel<int>::open("numbers");
    sends.loan().value().publish();
    array<int> kept;
    {
        auto message = receives.receive();
        kept = message->array().view({2});
    }
    CHECK(sends.loan(0ns).outcome() == outcome::timed_out);
    kept.close();
    CHECK(sends.loan(0ns));
    CHECK(sends.loan(0ns)); // the one before was given back
}

TEST("a_delivery_is_looked_at_kept_or_copied") {
    auto sends = channel<int, 1>::create("numbers", {2}, slots(1));
    auto receives = channel<const int, 1>::open("numbers");
    const std::array<int, 2> numbers{3, 4};
    std::vector<array<int, 1>> copies;
    std::vector<array<const int, 1>> kept;
    std::vector<channel<const int, 1>::delivery> moved;
    CHECK(sends.send(numbers.data(), {2}) == outcome::done);
    copies.push_back(receives.receive().value().copy());
    CHECK(sends.send(numbers.data(), {2}, "kept", 0ns) == outcome::done);
    copies.at(0)(0) = 5;
    kept.push_back(receives.receive().value().keep());
    CHECK(sends.loan(0ns).outcome() == outcome::timed_out);
    CHECK(kept.at(0)(0) == 3);
    kept.clear();
    CHECK(sends.send(numbers.data(), {2}, "moved", 0ns) == outcome::done);
    sends.close();
    for (auto &message : receives)
        moved.push_back(std::move(message));
    CHECK(moved.at(0).array()(1) == 4);
    CHECK(moved.at(0).meta() == "moved");
    CHECK(copies.at(0)(0) == 5);
    CHECK(copies.at(0)(1) == 4);
}

TEST("what_a_temporary_delivery_returns_outlives_it") {
    auto sends = channel<int, 1>::create("numbers", {2}, slots(1));
    auto receives = channel<int, 1>::open("numbers");
    const std::array<int, 2> numbers{3, 4};
    CHECK(sends.send(numbers.data(), {2}) == outcome::done);
    int sum = 0;
    for (const int number : receives.receive().value().array()) {
        CHECK(sends.loan(0ns).outcome() == outcome::timed_out);
        sum += number;
    }
    CHECK(sum == 7);
    const std::string meta(40, 'm');
    CHECK(sends.send(numbers.data(), {2}, meta, 0ns) == outcome::done);
    const auto received = receives.receive().value().meta();
    CHECK(received == meta);
    CHECK(sends.loan(0ns));
}

TEST("no_array_can_write_to_what_was_published") {
    auto sends = channel<int, 2>::create("numbers", {2, 2}, slots(1));
    auto receives = channel<const int, 2>::open("numbers");
    {
        auto loan = sends.loan();
        auto row = loan->array().select(0, 1);
        CHECK_THROWS_AS(loan->publish(), shmarray::invalid_argument);
        CHECK_FALSE(loan->array());
        CHECK_THROWS_AS(loan->publish(), shmarray::invalid_argument);
        CHECK(sends.loan(0ns).outcome() == outcome::timed_out); // the row keeps the slot
        row(0) = 1;
    }
    CHECK(receives.receive(0ns).outcome() == outcome::timed_out);
    {
        auto loan = sends.loan(0ns);
        auto row = loan->array().select(0, 1);
        loan->cancel();
        CHECK(sends.loan(0ns).outcome() == outcome::timed_out);
    }
    auto loan = sends.loan(0ns);
    REQUIRE(loan);
    loan->array().select(0, 1)(0) = 2;
    loan->publish();
    CHECK_FALSE(loan->array());
    auto message = receives.receive();
    const auto taken = std::move(*message);
    CHECK(taken.array()(1, 0) == 2);
    CHECK_FALSE(message->array());
}

TEST("a_value_that_is_not_there_says_why") {
    auto numbers = channel<int>::create("numbers", {1}, slots(1));
    try {
        numbers.receive(0ns).value();
        CHECK(false);
    } catch (const shmarray::error &error) {
        CHECK(error.status() == static_cast<int>(outcome::timed_out));
        CHECK(std::string(error.what()) == "nothing came in that time");
    }
    auto none = numbers.receive(0ns);
    CHECK_THROWS_AS(none.value(), shmarray::error);
}

sem_t handled;

/// Handles a signal every millisecond, as profilers do, while it lives.
class Handling {
  public:
    Handling() {
        REQUIRE(sem_init(&handled, 0, 0) == 0);
        struct sigaction action{};
        action.sa_handler = [](int) { sem_post(&handled); };
        action.sa_flags = SA_RESTART;
        REQUIRE(sigaction(SIGALRM, &action, &before_) == 0);
        set_timer(1000);
    }
    Handling(const Handling &) = delete;
    Handling &operator=(const Handling &) = delete;
    ~Handling() {
        set_timer(0);
        sigaction(SIGALRM, &before_, nullptr);
        sem_destroy(&handled);
    }

    /// Waits until the handler has run that often.
    static void wait_for(int times) {
        for (int time = 0; time < times; ++time)
            while (sem_wait(&handled) != 0)
                ;
    }

    /// Lets it run in other threads only.
    static void block() {
        sigset_t alarm;
        sigemptyset(&alarm);
        sigaddset(&alarm, SIGALRM);
        pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
    }

  private:
    static void set_timer(suseconds_t microseconds) {
        const itimerval often{{0, microseconds}, {0, microseconds}};
        REQUIRE(setitimer(ITIMER_REAL, &often, nullptr) == 0);
    }

    struct sigaction before_{};
};

TEST("a_loop_goes_on_beside_a_signal_handler") {
    auto camera = channel<float, 2>::create("frames", {4, 4});
    auto viewer = channel<const float, 2>::open("frames");
    const Handling handling;
    std::thread sender([&] {
        Handling::block();
        for (int number = 0; number < 3; ++number) {
            Handling::wait_for(20);
            camera.loan().value().publish(std::to_string(number));
        }
        Handling::wait_for(20);
        camera.close();
    });
    std::string seen;
    for (auto &frame : viewer)
        seen += frame.meta();
    CHECK(seen == "012");
    sender.join();
}

TEST("a_thread_may_ask_that_a_signal_handler_ends_its_waits") {
    auto numbers = channel<int>::create("numbers", {1});
    const auto [here, there] = shmarray::pipe::pair();
    const Handling handling;
    {
        const shmarray::interruptible asked;
        {
            const shmarray::interruptible again;
        }
        auto received = numbers.try_receive();
        CHECK(status_of(received) == SHMA_ERROR_OS);
        CHECK(received.error().os_errno() == EINTR);
        CHECK(there.try_receive().error().os_errno() == EINTR);
    }
    CHECK(numbers.receive(20ms).outcome() == outcome::timed_out);
    CHECK(there.receive(20ms).outcome() == outcome::timed_out);
}

TEST("who_waits_at_a_channel_is_told_that_another_thread_closes_it") {
    for (int round = 0; round < 20; ++round) {
        auto sends = channel<int>::create("numbers", {1});
        auto viewer = channel<const int>::open("numbers");
        auto other = channel<const int>::open("numbers");
        std::promise<void> looping, receiving;
        std::thread loop([&] {
            looping.set_value();
            for ([[maybe_unused]] auto &message : viewer)
                CHECK(false);
        });
        std::thread call([&] {
            receiving.set_value();
            CHECK(status_of(other.try_receive()) == SHMA_ERROR_INVALID_ARGUMENT);
        });
        looping.get_future().wait();
        receiving.get_future().wait();
        for (int turn = 0; turn < 100 * round; ++turn)
            std::this_thread::yield(); // in late rounds both sleep
        viewer.close();
        other.close();
        loop.join();
        call.join();
        CHECK_FALSE(viewer);
        CHECK_THROWS_AS(viewer.receive(), shmarray::invalid_argument);
        viewer = channel<const int>::open("numbers");
        CHECK(viewer.receive(0ns).outcome() == outcome::timed_out);
    }
}

TEST("what_was_sent_is_a_range_that_ends") {
    auto sends = channel<std::int64_t, 1>::create("numbers", {3});
    auto receives = channel<const std::int64_t, 1>::open("numbers");
    std::thread sender([&] {
        for (std::int64_t number = 0; number < 100; ++number) {
            const std::array<std::int64_t, 3> values{number, 0, -number};
            CHECK(sends.send(values.data(), {3}) == outcome::done);
        }
        sends.close();
    });
    std::int64_t expected = 0;
    for (auto &message : receives) {
        CHECK(message.array()(0) == expected);
        CHECK(message.array()(2) == -expected);
        ++expected;
    }
    sender.join();
    CHECK(expected == 100);
    CHECK(receives.receive().outcome() == outcome::closed);
}

TEST("each_receiver_of_a_broadcast_gets_each_message") {
    auto chosen = slots(2);
    chosen.mode = shmarray::channel_mode::broadcast;
    chosen.when_full = shmarray::when_full::drop_oldest;
    auto sends = channel<int>::create("numbers", {1}, chosen);
    auto one = channel<int>::open("numbers"), other = channel<int>::open("numbers");
    for (int number = 0; number < 5; ++number) {
        CHECK(sends.send(&number, {1}) == outcome::done);
        CHECK(one.receive().value().array()(0) == number);
    }
    auto late = other.receive();
    CHECK(late->array()(0) == 3);
    CHECK(late->missed() == 3);
}

TEST("one_that_opens_a_broadcast_late_gets_its_history") {
    auto chosen = slots(8);
    chosen.mode = shmarray::channel_mode::broadcast;
    auto sends = channel<int>::create("numbers", {1}, chosen);
    for (int number = 0; number < 5; ++number)
        CHECK(sends.send(&number, {1}) == outcome::done);
    shmarray::open_options late;
    late.history = 2;
    auto receives = channel<const int>::open("numbers", late);
    sends.close();
    std::vector<int> numbers;
    for (const auto &message : receives)
        numbers.push_back(message.array()(0));
    CHECK(numbers == std::vector<int>{3, 4});
    auto queue = channel<int>::create("queue", {1});
    CHECK_THROWS_AS(channel<int>::open("queue", late), shmarray::invalid_argument);
    CHECK_THROWS_AS(queue.wait_newer(), shmarray::invalid_argument);
}

TEST("an_end_that_was_handed_over_counts_before_the_child_opens_it") {
    auto receives = channel<int>::create("numbers", {1});
    auto sends = channel<int>::open("numbers");
    auto handed_over = sends.hand_over();
    const pid_t child = fork();
    if (child == 0) {
        auto mine = channel<int>::open(handed_over.handle());
        for (int number = 0; number < 3; ++number)
            mine.send(&number, {1});
        mine.close();
        _exit(0);
    }
    sends.close();
    {
        auto ours = std::move(handed_over);
    } // closes this process's fd
    std::vector<int> numbers;
    for (const auto &message : receives)
        numbers.push_back(message.array()(0));
    CHECK(numbers == std::vector<int>{0, 1, 2});
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST("the_latest_value_is_read_by_all_as_often_as_they_like") {
    auto chosen = slots(3);
    chosen.mode = shmarray::channel_mode::latest;
    auto sends = channel<int>::create("pose", {2}, chosen);
    auto reads = channel<const int>::open("pose");
    CHECK(reads.wait_newer({}, 0ns) == outcome::timed_out);
    for (int number = 0; number < 4; ++number) {
        const int values[] = {number, -number};
        CHECK(sends.send(values, {2}, "", 0ns) == outcome::done);
    }
    auto first = reads.receive(), again = reads.receive();
    CHECK(first->array()(1) == -3);
    CHECK(again->array()(1) == -3);
    CHECK(first->sequence() == 3);
    CHECK(first->age() < 1h);
    CHECK(reads.wait_newer(first->sequence(), 0ns) == outcome::timed_out);
    CHECK(reads.wait_newer(2) == outcome::done);
    // Two values are kept, one of them a copy, and a sender still overwrites the latest.
    for (int number = 4; number < 10; ++number) {
        const int values[] = {number, -number};
        CHECK(sends.send(values, {2}, "", 0ns) == outcome::done);
    }
    CHECK(first->array()(0) == 3);
    CHECK(again->array()(0) == 3);
    sends.close();
    std::vector<int> newer;
    for (const auto &message : reads)
        newer.push_back(message.array()(0));
    CHECK(newer == std::vector<int>{9});
    CHECK(reads.wait_newer(9) == outcome::closed);
}

TEST("shapes_vary_and_handles_travel") {
    shmarray::channel_options chosen;
    chosen.varying = true;
    auto images = channel<std::uint8_t>::create("images", {10, 10}, chosen);
    auto loan = images.loan_shape({3, 7});
    CHECK(loan->array().shape()[1] == 7);
    loan->publish();
    CHECK(images.receive().value().array().size() == 21);
    CHECK_THROWS_AS(images.loan_shape({11, 10}), shmarray::invalid_argument);

    auto arrays = channel<double>::create_by_handle("arrays");
    {
        auto whole = array<double>::create({100});
        whole(99) = 2.5;
        CHECK(arrays.send(whole, "all") == outcome::done);
        CHECK(arrays.send(whole.slice(0, 98, 100)) == outcome::done);
    }
    auto first = arrays.receive(), second = arrays.receive();
    CHECK(first->array()(99) == 2.5);
    CHECK(first->meta() == "all");
    CHECK(second->array()(1) == 2.5);
    second->array()(0) = 7;
    CHECK(first->array()(98) == 7); // it is one array
}

TEST("an_fd_is_readable_while_there_is_something") {
    auto sends = channel<int>::create("numbers", {1});
    auto receives = channel<int>::open("numbers");
    CHECK_FALSE(receives.is_ready());
    const int fd = receives.fd();
    CHECK_FALSE(is_readable(fd, 0));
    const int number = 4;
    CHECK(sends.send(&number, {1}) == outcome::done);
    CHECK(is_readable(fd, -1));
    CHECK(receives.is_ready());
    CHECK(receives.receive(0ns).value().array()(0) == 4);
    CHECK_FALSE(is_readable(fd, 0));
    CHECK(receives.receive(0ns).outcome() == outcome::timed_out);
}

TEST("a_killed_sender_is_told_apart_from_one_that_closed") {
    auto receives = channel<int>::create("numbers", {1}, slots(1));
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        auto sends = channel<int>::open("numbers");
        const int number = 1;
        if (sends.send(&number, {1}) != outcome::done)
            _exit(1);
        raise(SIGKILL);
    }
    CHECK(receives.receive().value().array()(0) == 1);
    CHECK(receives.receive().outcome() == outcome::sender_died);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
}

TEST("what_does_not_fit_is_refused") {
    auto pairs = channel<int, 1>::create("numbers", {2}, slots(1));
    CHECK_THROWS_AS((channel<float, 1>::open("numbers")), shmarray::dtype_mismatch);
    CHECK_THROWS_AS((channel<int, 2>::open("numbers")), shmarray::invalid_argument);
    CHECK_THROWS_AS(channel<int>::open("nothing"), shmarray::not_found);
    CHECK_THROWS_AS(channel<int>::open("nothing", {true, 1ms}), shmarray::not_found);
    CHECK_THROWS_AS((channel<int, 1>::create("numbers", {2})), shmarray::already_exists);
    CHECK_THROWS_AS((channel<int, 1>::create("many", {2}, slots(5000))),
                    shmarray::invalid_argument);
    const std::array<int, 3> three{};
    CHECK_THROWS_AS(pairs.send(three.data(), {3}), shmarray::invalid_argument);
    CHECK_THROWS_AS(pairs.send(array<float>::create({2})), shmarray::dtype_mismatch);
    CHECK_THROWS_AS(pairs.loan().value().publish(std::string(65, 'm')), shmarray::invalid_argument);
    CHECK(pairs.loan(0ns)); // that slot came back
    const auto named = array<int>::create({1}, [] {
        shmarray::options chosen;
        chosen.name = "an-array";
        return chosen;
    }());
    CHECK_THROWS_AS(channel<int>::open("an-array"), shmarray::invalid_argument);
    CHECK_THROWS_AS(array<int>::attach("numbers"), shmarray::invalid_argument);
}

TEST("a_channel_is_handed_over_by_its_handle") {
    auto frames = channel<float, 2>::create("frames", {4, 3});
    const std::string handle = frames.handle();
    auto other = channel<const float, 2>::open(handle);
    CHECK(other.handle() == handle);
    frames.loan().value().publish("by handle");
    auto message = other.receive();
    REQUIRE(message);
    CHECK(message->meta() == "by handle");
    CHECK_THROWS_AS((channel<int, 2>::open(handle)), shmarray::dtype_mismatch);
    CHECK_THROWS_AS(array<float>::attach(handle), shmarray::invalid_argument);
    const auto small = array<float>::create({3});
    CHECK_THROWS_AS(channel<float>::open(small.handle()), shmarray::invalid_handle);
    frames.close();
    CHECK_FALSE(frames.try_handle());
}

} // namespace
