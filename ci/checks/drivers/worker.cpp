// A nursery: starts a worker, as run.py describes it, for each line of its input, which is a seed.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <shmarray.hpp>

using namespace std::chrono_literals;
using array = shmarray::array<std::int64_t>;

namespace {

constexpr std::int64_t step = 512; // a mark on every page
constexpr std::int64_t channel_size = 2000;
const std::vector<std::int64_t> sizes = {1, 3, 25, 512, 2000, 7000, 40000, 150000};

// An array and the seed of its contents.
struct marks {
    array memory;
    std::int64_t seed;
};
using marked = std::shared_ptr<marks>;

marked mark(array memory, std::int64_t seed) {
    return std::make_shared<marks>(marks{std::move(memory), seed});
}

[[noreturn]] void fault(const std::string &what) {
    const auto line = "wrong " + std::to_string(getpid()) + " c++: " + what + "\n";
    static_cast<void>(!write(STDOUT_FILENO, line.data(), line.size()));
    _exit(3);
}

class worker {
  public:
    worker(std::uint64_t seed, const shmarray::pipe &here, const shmarray::pipe &there)
        : random_(seed), here_(here), there_(there),
          mail_(std::string(std::getenv("SHMARRAY_DIR")) + "/mail") {}

    void live() {
        say("up " + std::to_string(getpid()) + " c++");
        while (!std::filesystem::exists(mail_ / "stop")) {
            for (auto deeds = 8; deeds > 0; --deeds)
                do_something();
            say("did " + std::to_string(getpid()) + " c++ " + std::to_string(messages_) + " " +
                std::to_string(checked_));
            messages_ = checked_ = 0;
            while (waitpid(-1, nullptr, WNOHANG) > 0) {
            }
        }
    }

  private:
    static void say(const std::string &line) {
        const auto whole = line + "\n";
        static_cast<void>(!write(STDOUT_FILENO, whole.data(), whole.size()));
    }

    void do_something() {
        const auto choice = random_() % 130;
        if (choice < 42)
            send();
        else if (choice < 84)
            receive();
        else if (choice < 89)
            post();
        else if (choice < 94)
            fetch();
        else if (choice < 98)
            name();
        else if (choice < 100)
            fork_a_child();
        else
            use_a_channel();
    }

    marked make(const shmarray::options &options = {}) {
        const auto count = sizes[random_() % sizes.size()];
        const auto seed = static_cast<std::int64_t>((random_() >> 2) | 1);
        auto memory = array::create({count}, options);
        memory(count - 1) = seed + count - 1;
        // Index 0 is last: a process that finds the array by its name knows that all are there.
        for (std::int64_t at = (count - 1) / step * step; at >= 0; at -= step)
            memory(at) = seed + at;
        return mark(std::move(memory), seed);
    }

    void check(const marked &one) {
        const auto &[memory, seed] = *one;
        const auto count = memory.shape()[0];
        for (std::int64_t at = 0; at < count; at += step)
            if (memory(at) != seed + at)
                fault("element " + std::to_string(at) + " of " + std::to_string(count));
        if (memory(count - 1) != seed + count - 1)
            fault("the last of " + std::to_string(count));
        ++checked_;
    }

    void hold(marked one) {
        held_.push_back(std::move(one));
        while (held_.size() > 8) {
            check(held_.front());
            held_.pop_front();
        }
    }

    void send() {
        std::vector<marked> all;
        for (auto count = random_() % 3 + 1; count > 0; --count) {
            if (!held_.empty() && random_() % 2 == 0)
                all.push_back(held_[random_() % held_.size()]);
            else
                all.push_back(make());
        }
        std::string seeds;
        std::vector<shmarray::sendable> arrays;
        for (const auto &one : all) {
            seeds += std::to_string(one->seed) + " ";
            arrays.emplace_back(one->memory);
        }
        here_.send(seeds, arrays, 5ms);
        if (random_() % 4 == 0)
            hold(std::move(all.front()));
    }

    void receive() {
        auto received = there_.receive(5ms);
        if (!received)
            return;
        ++messages_;
        if (random_() % 8 == 0)
            return; // unwanted
        take_all(*received, std::string(received->payload()));
    }

    void take_all(const shmarray::message &message, const std::string &text) {
        std::istringstream seeds(text);
        for (std::size_t index = 0; index < message.size(); ++index) {
            std::int64_t seed = 0;
            seeds >> seed;
            auto one = mark(message.array<std::int64_t>(index), seed);
            check(one);
            if (random_() % 3 == 0)
                hold(std::move(one));
        }
    }

    // Sends a handle out of band, in a file that any worker may take.
    void post() {
        const auto one = make();
        const auto aside = mail_ / ("new-" + std::to_string(getpid()));
        const auto handle = one->memory.handle_to_send();
        std::ofstream(aside) << one->seed << "\n" << handle << "\n";
        std::error_code taken;
        std::filesystem::create_hard_link(
            aside, mail_ / ("letter-" + std::to_string(random_() % 6)), taken);
        std::filesystem::remove(aside);
        if (taken)
            shmarray::discard(handle); // there is one that nobody has fetched
    }

    void fetch() {
        const auto taken = mail_ / ("taken-" + std::to_string(getpid()));
        std::error_code missing;
        std::filesystem::rename(mail_ / ("letter-" + std::to_string(random_() % 6)), taken,
                                missing);
        if (missing)
            return;
        std::ifstream file(taken);
        std::int64_t seed = 0;
        std::string handle;
        file >> seed >> handle;
        if (random_() % 4 == 0)
            shmarray::discard(handle);
        else
            check(mark(array::attach(handle), seed));
        std::filesystem::remove(taken);
    }

    void name() {
        const auto name = "soak-" + std::to_string(random_() % 4);
        try {
            switch (random_() % 3) {
            case 0: {
                shmarray::options options;
                options.name = name;
                hold(make(options));
                break;
            }
            case 1: {
                auto found = array::attach(name);
                const auto seed = found(0);
                if (seed != 0)
                    check(mark(std::move(found), seed)); // else its maker has not come so far
                break;
            }
            default:
                shmarray::unlink(name);
            }
        } catch (const shmarray::already_exists &) {
        } catch (const shmarray::not_found &) {
        }
    }

    // Sends or receives by a channel that all workers have: a queue or a broadcast.
    void use_a_channel() {
        const auto is_queue = random_() % 2 == 0;
        auto &channel = is_queue ? queue_ : broadcast_;
        if (!channel) {
            shmarray::channel_options chosen;
            chosen.slots = 5;
            chosen.exist_ok = true;
            if (!is_queue) {
                chosen.mode = shmarray::channel_mode::broadcast;
                chosen.when_full = shmarray::when_full::drop_oldest;
            }
            channel = shmarray::channel<std::int64_t>::create(
                is_queue ? "soak-queue" : "soak-broadcast", {channel_size}, chosen);
        }
        if (random_() % 2 == 0)
            send_by(channel);
        else if (auto received = channel.receive(5ms)) {
            check(mark(received->array().view({channel_size}),
                       std::atoll(std::string(received->meta()).c_str())));
            ++messages_;
        }
    }

    void send_by(const shmarray::channel<std::int64_t> &channel) {
        auto loan = channel.loan(5ms);
        if (!loan)
            return;
        const auto seed = static_cast<std::int64_t>((random_() >> 2) | 1);
        auto &memory = loan->array();
        memory(channel_size - 1) = seed + channel_size - 1;
        for (std::int64_t at = (channel_size - 1) / step * step; at >= 0; at -= step)
            memory(at) = seed + at;
        loan->publish(std::to_string(seed));
    }

    // Forks a child that goes on alone, whatever its parent does, and ends in one of several ways.
    void fork_a_child() {
        if (fork() != 0)
            return;
        for (auto rounds = random_() % 200; rounds > 0; --rounds) {
            for (const auto &one : held_)
                check(one);
            if (rounds % 8 == 0) {
                send();
                use_a_channel();
            }
        }
        if (random_() % 2 == 0)
            _exit(0);
        std::exit(0);
    }

    std::mt19937_64 random_;
    const shmarray::pipe &here_, &there_;
    std::filesystem::path mail_;
    std::deque<marked> held_;
    shmarray::channel<std::int64_t> queue_, broadcast_;
    std::uint64_t messages_ = 0, checked_ = 0;
};

// Starts a grandchild, so that the supervisor, which counts, becomes its parent.
void start(std::uint64_t seed, const shmarray::pipe &here, const shmarray::pipe &there) {
    const auto child = fork();
    if (child != 0) {
        waitpid(child, nullptr, 0);
        return;
    }
    if (fork() != 0)
        _exit(0);
    setsid();
    close(STDIN_FILENO);
    try {
        worker(seed, here, there).live();
    } catch (const std::exception &error) {
        fault(error.what());
    }
    std::exit(0);
}

} // namespace

int main(int, char **arguments) {
    const auto here = shmarray::pipe::from_fd(std::atoi(arguments[1]));
    const auto there = shmarray::pipe::from_fd(std::atoi(arguments[2]));
    array::create(
        {1}); // its family lives as long as this process: no letter's array may be gone before
    for (std::uint64_t seed; std::cin >> seed;)
        start(seed, here, there);
    // The pipe owns the fds until this process ends; its children have copies.
}
