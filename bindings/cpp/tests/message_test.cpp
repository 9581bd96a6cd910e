// Messages: pipes between processes, handles with a ticket, and what happens to both.
#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <sys/wait.h>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using namespace std::chrono_literals;
using shmarray::array;
using shmarray::outcome;

/// The shape of an array that is too large for a cell.
constexpr std::int64_t alone = 100000;

array<std::uint8_t> marked(std::int64_t size, std::uint8_t mark) {
    auto made = array<std::uint8_t>::create({size});
    made(0) = mark;
    return made;
}

static_assert(std::is_nothrow_move_constructible_v<shmarray::pipe> &&
              !std::is_copy_constructible_v<shmarray::pipe>);
static_assert(std::is_nothrow_move_assignable_v<shmarray::message> &&
              !std::is_copy_assignable_v<shmarray::message>);

TEST("a_message_arrives_with_its_bytes_and_arrays") {
    auto [here, there] = shmarray::pipe::pair();
    {
        const auto small = marked(8, 5);
        const auto other = array<double>::create({2, 3});
        CHECK(here.send("frame 1", {small, other, small.slice(0, 0, 2)}) == outcome::done);
    }
    auto received = there.receive();
    REQUIRE(received);
    CHECK(received.outcome() == outcome::done);
    CHECK(received->payload() == "frame 1");
    CHECK(received->size() == 3);
    const auto small = received->array<const std::uint8_t>(0);
    const auto other = received->array<double>(1);
    CHECK(received->array(2, shmarray::access::read_only).size() == 2);
    CHECK(received->array<double, 2>(1).shape()[1] == 3);
    CHECK(received->array<shmarray::strided_array<const double>>(1).is_readonly());
    CHECK_THROWS_AS((received->array<double, 1>(1)), shmarray::invalid_argument);
    {
        const auto gone = std::move(*received);
    }
    CHECK(small(0) == 5);
    CHECK(small.is_readonly());
    CHECK(other.shape()[1] == 3);
}

TEST("either_may_be_missing_and_the_arrays_may_be_in_a_vector") {
    auto [here, there] = shmarray::pipe::pair();
    CHECK(there.send("") == outcome::done);
    auto nothing = here.receive();
    CHECK(nothing->payload().empty());
    CHECK(nothing->size() == 0);
    std::vector<array<std::uint8_t>> frames;
    for (std::uint8_t frame = 0; frame < 100; ++frame)
        frames.push_back(marked(frame + 1, frame));
    CHECK(there.send({}, {frames.begin(), frames.end()}) == outcome::done);
    frames.clear();
    auto all = here.receive();
    REQUIRE(all->size() == 100);
    for (std::uint8_t frame = 0; frame < 100; ++frame)
        CHECK(all->array<std::uint8_t>(frame)(0) == frame);
}

TEST("a_list_to_send_holds_its_arrays") {
    const auto [here, there] = shmarray::pipe::pair();
    std::vector<shmarray::sendable> arrays;
    for (int value = 0; value < 3; ++value) {
        auto a = shmarray::array<int>::create({2});
        a(1) = value;
        arrays.push_back(a);
        a.close();
    }
    arrays.push_back(shmarray::array<float>::create({5}));
    CHECK(here.send("", arrays) == shmarray::outcome::done);
    arrays.clear();
    auto arrived = there.receive();
    REQUIRE(arrived);
    REQUIRE(arrived->size() == 4);
    CHECK(arrived->array<int>(2)(1) == 2);
    CHECK(arrived->array<float>(3).size() == 5);
}

TEST("another_dtype_and_another_index_are_refused") {
    auto [here, there] = shmarray::pipe::pair();
    here.send("", {marked(8, 5)});
    auto message = there.receive();
    CHECK_THROWS_AS(message->array<float>(0), shmarray::dtype_mismatch);
    CHECK_THROWS_AS(message->array<std::uint8_t>(1), shmarray::out_of_bounds);
    CHECK_THROWS_AS(here.send("", {shmarray::any_array()}), shmarray::invalid_argument);
    CHECK(message->array<std::uint8_t>(0)(0) == 5);
}

TEST("waiting_ends_with_the_time_given") {
    auto [here, there] = shmarray::pipe::pair();
    auto none = there.receive(1ms);
    CHECK_FALSE(none);
    CHECK(none.outcome() == outcome::timed_out);
    CHECK(there.receive(-1h).outcome() == outcome::timed_out);
    int sent = 0;
    while (here.send("", {marked(8, 1)}, 0s) == outcome::done)
        ++sent;
    CHECK(sent > 50);
    CHECK(here.send("", {}, 1us) == outcome::timed_out);
    while (there.receive(0ns))
        --sent;
    CHECK(sent == 0);
}

TEST("a_closed_end_is_an_outcome") {
    auto ends = shmarray::pipe::pair();
    const auto kept = marked(alone, 3);
    ends.second.send("last", {kept});
    {
        const auto closed = std::move(ends.second);
    }
    CHECK(ends.first.send("x", {kept}) == outcome::closed);
    CHECK(ends.first.receive()->payload() == "last");
    CHECK(ends.first.receive().outcome() == outcome::closed);
    CHECK(kept(0) == 3);
}

TEST("a_message_holds_though_its_sender_has_ended") {
    for (const std::int64_t size : {std::int64_t{8}, alone}) {
        auto ends = shmarray::pipe::pair();
        CHECK(run_forked(
                  [&] { return ends.second.send("", {marked(size, 7)}) != outcome::done; }) == 0);
        CHECK(shmarray::sweep().segments == 0);
        const auto a = ends.first.receive()->array<std::uint8_t>(0);
        CHECK(shmarray::sweep().segments == 0);
        CHECK(a(0) == 7);
    }
}

TEST("a_killed_receiver_leaves_what_a_sweep_gives_back") {
    auto ends = shmarray::pipe::pair();
    ends.first.send("", {marked(alone, 1)});
    const int status = run_forked([&] {
        const auto taken = ends.second.receive();
        return std::raise(SIGKILL);
    });
    CHECK(WTERMSIG(status) == SIGKILL);
    CHECK(shmarray::sweep().segments == 1);
}

TEST("unreceivable_messages_are_given_back") {
    {
        auto [here, there] = shmarray::pipe::pair();
        here.send("", {marked(8, 1), marked(alone, 1)});
        CHECK(shmarray::sweep().segments == 0);
    }
    CHECK(shmarray::sweep().segments == 2);
}

TEST("an_end_passes_on_by_its_fd") {
    auto ends = shmarray::pipe::pair();
    const auto copy = shmarray::pipe::from_fd(dup(ends.second.fd()));
    CHECK(copy.fd() != ends.second.fd());
    copy.send("", {marked(8, 9)});
    CHECK(ends.first.receive()->array<std::uint8_t>(0)(0) == 9);
    std::array<int, 2> no_end{};
    REQUIRE(::pipe(no_end.data()) == 0);
    CHECK_THROWS_AS(shmarray::pipe::from_fd(no_end[0]), shmarray::invalid_argument);
    CHECK(close(no_end[0]) == 0); // not taken over
    CHECK_THROWS_AS(shmarray::pipe::from_fd(no_end[0]), shmarray::error);
    CHECK(close(no_end[1]) == 0);
}

TEST("a_handle_to_send_holds_until_it_is_attached_or_discarded") {
    for (const std::int64_t size : {std::int64_t{8}, alone}) {
        auto a = marked(size, 4);
        const std::string first = a.handle_to_send(), second = a.handle_to_send();
        CHECK(first.back() == '}');
        CHECK(first != second);
        a = {};
        CHECK(array<const std::uint8_t>::attach(first)(0) == 4);
        CHECK(shmarray::sweep().segments == 0);
        shmarray::discard(second);
        CHECK_THROWS_AS(array<std::uint8_t>::attach(second), shmarray::not_found);
        shmarray::discard(second);
    }
    CHECK_THROWS_AS(shmarray::discard("a name"), shmarray::invalid_handle);
}

} // namespace
