// Measures channels in C++: prints the seconds of one message as a line of JSON.
//
//     channels ask|answer NAME BYTES COUNT poll|block
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <shmarray.hpp>

namespace {

using channel = shmarray::channel<std::uint8_t, 1>;
constexpr int warm_up = 100;

channel create(const std::string &name, std::int64_t bytes) {
    shmarray::channel_options chosen;
    chosen.slots = 4;
    return channel::create(name, {bytes}, chosen);
}

channel open(const std::string &name) {
    shmarray::open_options chosen;
    chosen.timeout = {};
    return channel::open(name, chosen);
}

void send(const channel &by, std::uint8_t first) {
    auto loan = by.loan();
    loan->array()(0) = first;
    loan->publish();
}

/// Returns the first byte, or -1 at the end of the stream.
int receive(const channel &by, const shmarray::timeout &longest) {
    for (;;) {
        auto message = by.receive(longest);
        if (message)
            return message->array()(0);
        if (message.outcome() != shmarray::outcome::timed_out)
            return -1;
    }
}

void ask(const std::string &name, std::int64_t bytes, long count,
         const shmarray::timeout &longest) {
    auto there = create(name + ".there", bytes), back = create(name + ".back", bytes);
    std::puts("\"ready\"");
    std::fflush(stdout);
    auto began = std::chrono::steady_clock::now();
    for (long number = -warm_up; number < count; ++number) {
        if (number == 0)
            began = std::chrono::steady_clock::now();
        send(there, static_cast<std::uint8_t>(number));
        if (receive(back, longest) != static_cast<std::uint8_t>(number))
            std::exit(2);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf("%.9f\n", took.count() / static_cast<double>(count));
}

void answer(const std::string &name, const shmarray::timeout &longest) {
    auto there = open(name + ".there"), back = open(name + ".back");
    for (int first; (first = receive(there, longest)) >= 0;)
        send(back, static_cast<std::uint8_t>(first));
}

} // namespace

int main(int count, char **arguments) {
    if (count < 5)
        return 1;
    const std::string wait = arguments[count - 1];
    shmarray::timeout longest;
    if (wait == "poll")
        longest = std::chrono::nanoseconds(0);
    if (std::string(arguments[1]) == "ask")
        ask(arguments[2], std::atoll(arguments[3]), std::atol(arguments[4]), longest);
    else
        answer(arguments[2], longest);
}
