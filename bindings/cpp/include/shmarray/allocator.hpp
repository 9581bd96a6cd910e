// Containers whose elements are born in shared memory.
#ifndef SHMARRAY_ALLOCATOR_HPP
#define SHMARRAY_ALLOCATOR_HPP

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

#include <shmarray.h>
#include <shmarray/mode.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

namespace detail {

/// The bytes in front of what is allocated, which have the pointer to its array. An array begins at
/// a multiple of it.
inline constexpr std::size_t front_bytes = 64;

[[noreturn]] inline void refuse_allocation() {
#ifdef __cpp_exceptions
    throw std::bad_alloc();
#else
    std::abort();
#endif
}

/// Allocates an array of bytes. Larger alignments than that of an array are refused.
inline void *allocate(std::size_t bytes, std::size_t alignment) {
    if (alignment > front_bytes || bytes > static_cast<std::size_t>(INT64_MAX) - front_bytes)
        refuse_allocation();
    const auto all = static_cast<std::int64_t>(bytes + front_bytes);
    shma_options chosen = SHMA_OPTIONS_INIT;
    chosen.uninitialized = 1;
    shma_array *array = nullptr;
    if (shma_array_create(SHMA_UINT8, 1, &all, &chosen, &array, nullptr) != SHMA_OK)
        refuse_allocation();
    auto *front = static_cast<unsigned char *>(shma_array_data(array));
    std::memcpy(front, &array, sizeof array);
    return front + front_bytes;
}

inline void deallocate(void *memory) noexcept {
    shma_array *array = nullptr;
    std::memcpy(&array, static_cast<unsigned char *>(memory) - front_bytes, sizeof array);
    shma_array_close(array);
}

} // namespace detail

/// Allocates the elements of a container in shared memory: std::vector<float,
/// shmarray::allocator<float>>. array<float>::over_memory(v.data(), {v.size()}) is an array of
/// them, which can be sent, and which keeps them when the container is gone. While another process
/// has them, neither insert nor erase: elements would move below it, and those of a container that
/// grows are new memory, which nobody else has.
///
/// Throws std::bad_alloc when shared memory is full, and for an alignment above 64. A forked child
/// shares the elements with its parent.
template <class T>
class allocator {
  public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    allocator() = default;
    template <class U>
    allocator(const allocator<U> &) noexcept {}

    T *allocate(std::size_t count) {
        if (count > static_cast<std::size_t>(-1) / sizeof(T))
            detail::refuse_allocation();
        return static_cast<T *>(detail::allocate(count * sizeof(T), alignof(T)));
    }
    void deallocate(T *memory, std::size_t) noexcept { detail::deallocate(memory); }
};

template <class T, class U>
bool operator==(const allocator<T> &, const allocator<U> &) noexcept {
    return true;
}
template <class T, class U>
bool operator!=(const allocator<T> &, const allocator<U> &) noexcept {
    return false;
}

#ifdef __cpp_lib_memory_resource

/// The same for containers of std::pmr: std::pmr::vector<float> v(shmarray::shared_resource()).
class shared_memory_resource final : public std::pmr::memory_resource {
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        return detail::allocate(bytes, alignment);
    }
    void do_deallocate(void *memory, std::size_t, std::size_t) override {
        detail::deallocate(memory);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }
};

/// Returns the resource, which lives as long as the program.
inline std::pmr::memory_resource *shared_resource() {
    static auto *const resource = new shared_memory_resource;
    return resource;
}

#endif

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_ALLOCATOR_HPP
