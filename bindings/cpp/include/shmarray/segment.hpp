// Segments: listed, unlinked, swept.
#ifndef SHMARRAY_SEGMENT_HPP
#define SHMARRAY_SEGMENT_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <shmarray.h>
#include <shmarray/error.hpp>

namespace shmarray {

/// What a segment, or a cell of one, is.
enum class segment_kind : shma_segment_kind {
    array = SHMA_SEGMENT_ARRAY,    ///< an array that a process or a message holds, or that persists
    pool = SHMA_SEGMENT_POOL,      ///< memory that living processes keep for their next arrays
    remains = SHMA_SEGMENT_REMAINS ///< memory that dead processes left
};

/// Facts about an array that need not be attached, or about memory that is no array now.
struct segment_info {
    std::string segment;                ///< its id; of an array in a cell, as in "id.17"
    std::string name;                   ///< the name that a person gave it, or ""
    segment_kind kind;                  ///< an array, a pool's memory, or what the dead left
    bool persists;                      ///< stays without holders until its name is unlinked
    std::uint64_t segment_bytes;        ///< bytes of shared memory
    std::string dtype;                  ///< as in a handle; "|u1" of memory that is no array
    std::vector<std::int64_t> shape;    ///< elements along each dimension
    std::vector<std::uint32_t> holders; ///< pids of living processes, as each sees itself
    std::uint64_t tickets;              ///< messages that hold it and can still be received
    std::uint32_t creator_pid;          ///< the process that made it, as it saw itself
    std::uint64_t created_ns;           ///< nanoseconds since 1970; of a cell, its segment's
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

/// Lists the shared memory that the library has on this machine.
inline std::vector<segment_info> segments() {
    shma_segment_list *produced = nullptr;
    detail::call(shma_segment_list_create, &produced);
    const std::unique_ptr<shma_segment_list, decltype(&shma_segment_list_close)> list(
        produced, shma_segment_list_close);
    std::vector<segment_info> infos;
    for (std::size_t index = 0; index < shma_segment_list_count(list.get()); index++)
        infos.push_back(detail::info(*shma_segment_list_get(list.get(), index)));
    return infos;
}

/// Takes a name away. The array goes with its last holder.
inline void unlink(const std::string &name) { detail::call(shma_segment_unlink, name.c_str()); }

/// What a sweep gave back.
struct swept {
    std::uint64_t segments = 0;
    std::uint64_t bytes = 0;
};

/// Gives back what dead processes held. No program needs to call it: the first use of the library
/// in each process does.
inline swept sweep() {
    swept done;
    detail::call(shma_sweep, &done.segments, &done.bytes);
    return done;
}

} // namespace shmarray

#endif
