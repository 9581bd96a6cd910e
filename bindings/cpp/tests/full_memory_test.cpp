// Full shared memory in C++: an exception with the sizes, never a bus error, nothing half-made.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

namespace {

using shmarray::array;
using bytes = array<std::uint8_t>;

constexpr std::int64_t small_bytes = 4 << 20;
constexpr std::int64_t sizes[] = {8, 4 << 10, 64 << 10, 1 << 20};

/// Checks that the text has the requested bytes, the free bytes and the directory, all correct.
void check_facts(const shmarray::error &error, std::int64_t size, const SmallDirectory &small) {
    unsigned long long asked = 0, left = 0;
    char directory[512] = "";
    INFO(std::string(error.what()));
    CHECK(error.status() == SHMA_ERROR_NO_SPACE);
    const char *format = "shared memory is full: %llu bytes asked, %llu bytes free in %511[^;];";
    REQUIRE(std::sscanf(error.what(), format, &asked, &left, directory) == 3);
    CHECK(asked >= static_cast<unsigned long long>(size));
    CHECK(asked > left);
    CHECK(left == small.free_bytes());
    CHECK(directory == small.path());
    CHECK(std::string(error.what()).find("--shm-size") != std::string::npos);
}

bytes make(std::int64_t size, bool named) {
    static unsigned names = 0;
    return bytes::create({size}, {named ? "n" + std::to_string(names++) : ""});
}

std::uint8_t value_of(std::size_t number) { return static_cast<std::uint8_t>(number % 251); }

/// Uses memset and memcmp, which are nearly as fast without optimization.
void make_all(const bytes &a, std::uint8_t value) { std::memset(a.data(), value, a.size()); }

bool is_all(const bytes &a, std::uint8_t value) {
    return *a.data() == value && std::memcmp(a.data(), a.data() + 1, a.size() - 1) == 0;
}

/// Creates arrays until it fails, and checks that the failure leaves nothing behind. Each array is
/// filled with its number, none before the last is created, because creation reserves the memory.
/// Returns the arrays and the error.
std::vector<bytes> fill(std::int64_t size, bool named, shmarray::error &why) {
    std::vector<bytes> made;
    try {
        for (;;)
            made.push_back(make(size, named));
    } catch (const shmarray::error &error) {
        why = error;
    }
    const auto before = names_in_directory();
    CHECK_THROWS_AS(make(size, named), shmarray::error);
    CHECK(names_in_directory() == before);
    for (std::size_t i = 0; i < made.size(); ++i) {
        REQUIRE(is_all(made[i], 0));
        make_all(made[i], value_of(i));
    }
    return made;
}

/// Does the same and checks that memory is full.
std::vector<bytes> fill_memory(std::int64_t size, bool named, const SmallDirectory &small) {
    shmarray::error why(SHMA_OK, 0, "");
    auto made = fill(size, named, why);
    check_facts(why, size, small);
    return made;
}

/// Checks that every byte has its array's value, and changes it.
void check_each_byte(std::vector<bytes> &made) {
    bool good = true;
    for (std::size_t i = 0; i < made.size(); ++i) {
        good = good && is_all(made[i], value_of(i));
        make_all(made[i], static_cast<std::uint8_t>(value_of(i) + 1));
    }
    for (std::size_t i = 0; i < made.size(); ++i)
        good = good && is_all(made[i], static_cast<std::uint8_t>(value_of(i) + 1));
    CHECK(good);
}

void drop_every_second(std::vector<bytes> &made) {
    std::vector<bytes> kept;
    for (std::size_t i = 1; i < made.size(); i += 2)
        kept.push_back(std::move(made[i]));
    made = std::move(kept);
}

void fill_drop_and_fill(std::int64_t size, bool named) {
    INFO("size ", size, named ? ", named" : "");
    const SmallDirectory small("size=4m");
    if (small.path().empty())
        return;
    make(1, false); // creates the registry, which stays
    const auto empty = small.free_bytes();
    auto made = fill_memory(size, named, small);
    const std::size_t count = made.size();
    REQUIRE(count >= 2);
    check_each_byte(made);
    drop_every_second(made);
    auto again = fill_memory(size, named, small);
    CHECK(again.size() >= 1);
    check_each_byte(again);
    for (std::size_t i = 0; i < made.size(); ++i)
        REQUIRE(is_all(made[i], static_cast<std::uint8_t>(value_of(2 * i + 1) + 1)));
    made.clear();
    again.clear();
    CHECK(files_in_directory() == 0);
    CHECK(small.free_bytes() == empty);
    CHECK(fill_memory(size, named, small).size() == count);
    CHECK(files_in_directory() == 0);
}

TEST_CASE("memory_fills_with_an_exception_keeps_what_is_there_and_has_room_again") {
    const LeavesNothing leaves_nothing;
    for (const std::int64_t size : sizes)
        fill_drop_and_fill(size, false);
}

TEST_CASE("memory_fills_with_named_arrays_and_no_name_of_a_failure_stays") {
    const LeavesNothing leaves_nothing;
    for (const std::int64_t size : sizes)
        fill_drop_and_fill(size, true);
}

TEST_CASE("an_array_larger_than_all_memory_is_only_an_exception") {
    const LeavesNothing leaves_nothing;
    const SmallDirectory small("size=4m");
    if (small.path().empty())
        return;
    auto first = make(1000, false);
    const auto before = names_in_directory();
    for (const std::int64_t size :
         {small_bytes + 1, std::int64_t{1} << 30, std::int64_t{1} << 40}) {
        for (const bool named : {false, true}) {
            try {
                make(size, named);
                FAIL("there is no room for it");
            } catch (const shmarray::no_space &error) {
                check_facts(error, size, small);
            }
            CHECK(names_in_directory() == before);
        }
    }
    const auto second = make(1000, false);
    make_all(first, std::uint8_t{1});
    CHECK(is_all(first, 1));
    CHECK(is_all(second, 0));
}

TEST_CASE("a_child_of_a_full_one_has_all_of_it_and_is_told_the_same") {
    const LeavesNothing leaves_nothing;
    const SmallDirectory small("size=4m");
    if (small.path().empty())
        return;
    auto made = fill_memory(64 << 10, false, small);
    const auto before = small.free_bytes();
    const int status = run_forked([&made] {
        for (bytes &a : made)
            make_all(a, std::uint8_t{200});
        try {
            make(64 << 10, false);
        } catch (const shmarray::no_space &) {
            return 0;
        }
        return 1;
    });
    CHECK(status == 0);
    CHECK(small.free_bytes() == before);
    CHECK(std::all_of(made.begin(), made.end(), [](const bytes &a) { return is_all(a, 200); }));
}

void fill_files_and_drop(bool named, const std::string &options) {
    INFO(options, named ? ", named" : "");
    const SmallDirectory small(options);
    if (small.path().empty())
        return;
    shmarray::error why(SHMA_OK, 0, "");
    auto made = fill(1 << 20, named, why);
    const std::size_t count = made.size();
    REQUIRE(count >= 2);
    CHECK(std::string(why.what()).find(small.path()) != std::string::npos);
    check_each_byte(made);
    drop_every_second(made);
    auto again = fill(1 << 20, named, why);
    CHECK(again.size() >= 1);
    check_each_byte(again);
    made.clear();
    again.clear();
    CHECK(files_in_directory() == 0);
    CHECK(fill(1 << 20, named, why).size() == count);
}

TEST_CASE("a_file_system_without_room_for_files_keeps_what_is_there_and_has_room_again") {
    const LeavesNothing leaves_nothing;
    fill_files_and_drop(false, "size=64m,nr_inodes=21");
    fill_files_and_drop(true, "size=64m,nr_inodes=21"); // no room for an array
    fill_files_and_drop(true, "size=64m,nr_inodes=22"); // no room for its name
}

TEST_CASE("a_file_system_without_room_for_files_is_no_space") {
    const LeavesNothing leaves_nothing;
    for (const bool named : {false, true}) {
        const SmallDirectory small("size=64m,nr_inodes=21");
        if (small.path().empty())
            return;
        shmarray::error why(SHMA_OK, 0, "");
        fill(1 << 20, named, why);
        INFO(std::string(why.what()));
        CHECK(why.status() == SHMA_ERROR_NO_SPACE);
    }
}

} // namespace
