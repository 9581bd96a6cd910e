// Functions that list, unlink and sweep segments.
#ifndef SHMARRAY_SEGMENT_HPP
#define SHMARRAY_SEGMENT_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <shmarray.h>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// The kind of a segment or of a cell.
enum class segment_kind : shma_segment_kind {
    array = SHMA_SEGMENT_ARRAY,     ///< an array that has a holder, or that persists without one
    pool = SHMA_SEGMENT_POOL,       ///< free memory that living processes keep for new arrays
    remains = SHMA_SEGMENT_REMAINS, ///< memory that dead processes left behind
    channel = SHMA_SEGMENT_CHANNEL  ///< a channel that a process has open, or that persists
};

/// Describes an array, which need not be attached, or memory that is not an array at present.
struct segment_info {
    std::string segment;                ///< its id; with a cell's number, as in "id.17"
    std::string name;                   ///< the name that was given on creation, or ""
    segment_kind kind;                  ///< an array, memory of a pool, or of dead processes
    bool persists;                      ///< lives until its name is unlinked
    std::uint64_t segment_bytes;        ///< bytes of shared memory
    std::string dtype;                  ///< as in a handle; "|u1" for memory without an array
    std::vector<std::int64_t> shape;    ///< elements along each dimension
    std::vector<std::uint32_t> holders; ///< pids of living processes, in their pid namespaces
    std::uint64_t tickets;              ///< tickets of messages and of handles that hold it
    std::uint32_t creator_pid;          ///< the pid of its creator, in its pid namespace
    std::uint64_t created_ns;           ///< nanoseconds since 1970; for a cell, its segment's
};

namespace detail {

inline segment_info info(const shma_segment_info &from) {
    return {from.segment,
            from.name ? from.name : "",
            static_cast<segment_kind>(from.kind),
            from.persists != 0,
            from.segment_bytes,
            from.dtype,
            {from.shape, from.shape + from.ndim},
            {from.holders, from.holders + from.holders_count},
            from.tickets,
            from.creator_pid,
            from.created_ns};
}

} // namespace detail

/// Lists the shared memory that this library uses on this machine.
inline result<std::vector<segment_info>> try_segments() {
    shma_segment_list *produced = nullptr;
    if (auto called = detail::call(shma_segment_list_create, &produced); !called)
        return called.error();
    const std::unique_ptr<shma_segment_list, decltype(&shma_segment_list_close)> list(
        produced, shma_segment_list_close);
    std::vector<segment_info> infos;
    for (std::size_t index = 0; index < shma_segment_list_count(list.get()); index++)
        infos.push_back(detail::info(*shma_segment_list_get(list.get(), index)));
    return infos;
}
inline std::vector<segment_info> segments() { return try_segments().value(); }

/// Removes the name of an array. The array is given back when its last holder releases it.
inline result<void> try_unlink(std::string_view name) {
    const auto terminated = detail::terminated(name);
    return terminated ? detail::act(shma_segment_unlink, terminated->c_str()) : terminated.error();
}
inline void unlink(std::string_view name) { try_unlink(name).value(); }

/// The number of segments and bytes that a sweep gave back.
struct swept {
    std::uint64_t segments = 0;
    std::uint64_t bytes = 0;
};

/// Gives back the memory that dead processes held and the unused memory in the pools of all this
/// user's processes. Programs need not call it: creates and receives give back what dead processes
/// held.
inline result<swept> try_sweep() {
    swept done;
    if (auto called = detail::call(shma_sweep, &done.segments, &done.bytes); !called)
        return called.error();
    return done;
}
inline swept sweep() { return try_sweep().value(); }

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif
