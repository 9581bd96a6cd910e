// NPY and NPZ files: loads into shared memory, and saves.
//
//     auto image = shmarray::load_npy<float, 2>("image.npy");
//     shmarray::save_npz("sample.npz", {{"image", image}, {"label", label}});
//
//     auto sample = shmarray::npz::open("sample.npz");
//     auto label = sample.load<std::int64_t>("label");
//     for (auto &[name, array] : sample.load_all()) // any_arrays
//         use(name, array.handle());
#ifndef SHMARRAY_NPY_HPP
#define SHMARRAY_NPY_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <shmarray.h>
#include <shmarray/any_array.hpp>
#include <shmarray/array.hpp>
#include <shmarray/dtype.hpp>
#include <shmarray/file_path.hpp>
#include <shmarray/held.hpp>
#include <shmarray/message.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>
#include <shmarray/segment.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {
namespace detail {

/// Calls a function of the C ABI that loads an array. A file of another dtype than that of the
/// text, if there is one, is refused before its elements are read.
template <class Function, class... Arguments>
result<any_array> load(const options &chosen, const char *dtype_text, Function function,
                       Arguments... arguments) {
    if (auto checked = check_options(chosen); !checked)
        return checked.error();
    const shma_options made = plain(chosen, dtype_text);
    shma_array *produced = nullptr;
    if (auto called = call(function, arguments..., &made, &produced); !called)
        return called.error();
    return any_array(produced);
}

/// Calls such a function for elements of T. After a failure no array is left under a name.
template <class T, std::size_t Rank, class Function, class... Arguments>
result<array_for<T, Rank>> load_as(const options &chosen, Function function,
                                   Arguments... arguments) {
    using element = std::remove_const_t<typename array_for<T, Rank>::element_type>;
    auto loaded = load(chosen, text_of_dtype<element>(), function, arguments...);
    if (!loaded)
        return loaded.error();
    auto typed = loaded->template try_as<T, Rank>();
    if (!typed && chosen.persist)
        static_cast<void>(try_unlink(chosen.name));
    return typed;
}

/// Texts for the C ABI, and pointers to them.
struct text_list {
    std::vector<std::string> texts;
    std::vector<const char *> pointers() const {
        std::vector<const char *> plain;
        for (const std::string &one : texts)
            plain.push_back(one.c_str());
        return plain;
    }

    /// Adds a text, or returns a failure if C would read another one.
    result<void> add(std::string_view text) {
        auto checked = terminated(text);
        if (!checked)
            return checked.error();
        texts.push_back(*std::move(checked));
        return {};
    }
};

} // namespace detail

/// Loads an NPY file into shared memory: load_npy<float>(path), load_npy<float, 2>(path), or as an
/// array type, load_npy<strided_array<float>>(path), which also takes a file in Fortran order.
/// Throws not_found, invalid_file, dtype_mismatch before any element is read, invalid_argument if
/// the array has not that Rank and Layout, and like any_array::create(). The order of the elements
/// is the file's: chosen.order stays order::c.
template <class T, std::size_t Rank = dynamic_rank>
result<detail::array_for<T, Rank>> try_load_npy(const file_path &path, const options &chosen = {}) {
    const auto terminated = path.terminated();
    if (!terminated)
        return terminated.error();
    return detail::load_as<T, Rank>(chosen, shma_npy_load, terminated->c_str());
}
template <class T, std::size_t Rank = dynamic_rank>
detail::array_for<T, Rank> load_npy(const file_path &path, const options &chosen = {}) {
    return try_load_npy<T, Rank>(path, chosen).value();
}

/// Loads an NPY file of any dtype.
inline result<any_array> try_load_npy(const file_path &path, const options &chosen = {}) {
    const auto terminated = path.terminated();
    if (!terminated)
        return terminated.error();
    return detail::load(chosen, nullptr, shma_npy_load, terminated->c_str());
}
inline any_array load_npy(const file_path &path, const options &chosen = {}) {
    return try_load_npy(path, chosen).value();
}

/// Loads the bytes of an NPY file. They are copied. It has a name of its own, since a literal in
/// place of a path would convert to a pointer.
template <class T, std::size_t Rank = dynamic_rank>
result<detail::array_for<T, Rank>> try_load_npy_bytes(const void *data, std::size_t size_bytes,
                                                      const options &chosen = {}) {
    return detail::load_as<T, Rank>(chosen, shma_npy_load_bytes, data, size_bytes);
}
template <class T, std::size_t Rank = dynamic_rank>
detail::array_for<T, Rank> load_npy_bytes(const void *data, std::size_t size_bytes,
                                          const options &chosen = {}) {
    return try_load_npy_bytes<T, Rank>(data, size_bytes, chosen).value();
}

/// Loads the bytes of an NPY file of any dtype.
inline result<any_array> try_load_npy_bytes(const void *data, std::size_t size_bytes,
                                            const options &chosen = {}) {
    return detail::load(chosen, nullptr, shma_npy_load_bytes, data, size_bytes);
}
inline any_array load_npy_bytes(const void *data, std::size_t size_bytes,
                                const options &chosen = {}) {
    return try_load_npy_bytes(data, size_bytes, chosen).value();
}

namespace detail {

inline result<text_list> paths_of(const file_paths &paths) {
    text_list checked;
    for (const file_path &path : paths)
        if (auto added = checked.add(path.text()); !added)
            return added.error();
    return checked;
}

} // namespace detail

/// Loads NPY files of one shape and dtype into one array in C order: its first dimension counts the
/// files. 0 threads stand for one for each core. Throws like load_npy, and invalid_file if a file
/// has another shape or dtype than the first one.
template <class T, std::size_t Rank = dynamic_rank>
result<detail::array_for<T, Rank>>
try_load_npy_batch(const file_paths &paths, const options &chosen = {}, std::uint32_t threads = 0) {
    const auto checked = detail::paths_of(paths);
    if (!checked)
        return checked.error();
    const auto plain = checked->pointers();
    return detail::load_as<T, Rank>(chosen, shma_npy_load_batch, plain.data(), plain.size(),
                                    threads);
}
template <class T, std::size_t Rank = dynamic_rank>
detail::array_for<T, Rank> load_npy_batch(const file_paths &paths, const options &chosen = {},
                                          std::uint32_t threads = 0) {
    return try_load_npy_batch<T, Rank>(paths, chosen, threads).value();
}

/// Loads such files of any dtype.
inline result<any_array> try_load_npy_batch(const file_paths &paths, const options &chosen = {},
                                            std::uint32_t threads = 0) {
    const auto checked = detail::paths_of(paths);
    if (!checked)
        return checked.error();
    const auto plain = checked->pointers();
    return detail::load(chosen, nullptr, shma_npy_load_batch, plain.data(), plain.size(), threads);
}
inline any_array load_npy_batch(const file_paths &paths, const options &chosen = {},
                                std::uint32_t threads = 0) {
    return try_load_npy_batch(paths, chosen, threads).value();
}

/// Saves an array to an NPY file, with the bytes that numpy.save writes. The file appears under its
/// path, which gets no ".npy", when it is complete. An older one is replaced and keeps its owner,
/// mode and attributes, or is written in place if it has several names or cannot be replaced, as
/// shma_npy_save says. Throws not_found if the folder does not exist, error if an NPY file cannot
/// describe the dtype.
inline result<void> try_save_npy(const file_path &path, const sendable &array) {
    const auto terminated = path.terminated();
    return terminated ? detail::act(shma_npy_save, terminated->c_str(), array.get())
                      : terminated.error();
}
inline void save_npy(const file_path &path, const sendable &array) {
    try_save_npy(path, array).value();
}

/// Options of npz::open.
struct npz_options {
    /// The limit on what deflated members may become together in one call; 0 stands for 1 GiB, or
    /// 100 times the size of the archive if that is more.
    std::uint64_t max_bytes = 0;
    std::uint32_t threads = 0; ///< threads of load_all; 0 stands for one for each core
};

/// Options of save_npz.
struct npz_save_options {
    bool deflated = false;     ///< members are deflated, otherwise stored
    std::uint32_t threads = 0; ///< threads that deflate; 0 stands for one for each core
    std::uint64_t align = 0;   ///< alignment of the members in bytes, such as 64; 0: as numpy.savez
};

/// An open NPZ file: named arrays in a ZIP archive. Members that are not NPY files are arrays of
/// their bytes. A file that was moved from or closed is null.
class npz {
  public:
    npz() = default;

    /// Takes ownership of an NPZ file of the C ABI.
    explicit npz(shma_npz *produced) noexcept : held_(produced) {}

    /// Opens an NPZ file and reads its directory. Members are read when they are loaded. Throws
    /// not_found, and invalid_file if it is not a ZIP archive.
    static npz open(const file_path &path, const npz_options &chosen = {}) {
        return try_open(path, chosen).value();
    }
    static result<npz> try_open(const file_path &path, const npz_options &chosen = {}) {
        const auto terminated = path.terminated();
        if (!terminated)
            return terminated.error();
        return opened(chosen, shma_npz_open, terminated->c_str());
    }

    /// Opens the bytes of an NPZ file. They are not copied: they must live longer than this object.
    static npz open_bytes(const void *data, std::size_t size_bytes,
                          const npz_options &chosen = {}) {
        return try_open_bytes(data, size_bytes, chosen).value();
    }
    static result<npz> try_open_bytes(const void *data, std::size_t size_bytes,
                                      const npz_options &chosen = {}) {
        return opened(chosen, shma_npz_open_bytes, data, size_bytes);
    }

    /// Returns whether there is an NPZ file.
    explicit operator bool() const noexcept { return held_ != nullptr; }

    /// Closes the file, as the destructor does. Its arrays stay open.
    void close() noexcept { held_.reset(); }

    /// Returns the number of members.
    std::size_t size() const noexcept { return shma_npz_count(get()); }

    /// Returns the names of the members in the order of the archive. An array's name has no ".npy",
    /// unless another member has the name without it.
    std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (std::size_t index = 0; index < size(); ++index)
            all.emplace_back(shma_npz_name(get(), index));
        return all;
    }

    /// Returns whether load() finds a member of this name, with or without ".npy".
    bool contains(std::string_view name) const {
        const auto terminated = detail::terminated(name);
        return terminated && shma_npz_contains(get(), terminated->c_str()) != 0;
    }

    /// Loads a member into shared memory: load<float>("image"), load<float, 2>("image"), or as an
    /// array type. Throws not_found if there is no such member, and like load_npy.
    template <class T, std::size_t Rank = dynamic_rank>
    detail::array_for<T, Rank> load(std::string_view name, const options &chosen = {}) const {
        return try_load<T, Rank>(name, chosen).value();
    }
    template <class T, std::size_t Rank = dynamic_rank>
    result<detail::array_for<T, Rank>> try_load(std::string_view name,
                                                const options &chosen = {}) const {
        const auto terminated = detail::terminated(name);
        if (!terminated)
            return terminated.error();
        return detail::load_as<T, Rank>(chosen, shma_npz_load, get(), terminated->c_str());
    }

    /// Loads a member of any dtype.
    any_array load(std::string_view name, const options &chosen = {}) const {
        return try_load(name, chosen).value();
    }
    result<any_array> try_load(std::string_view name, const options &chosen = {}) const {
        const auto terminated = detail::terminated(name);
        if (!terminated)
            return terminated.error();
        return detail::load(chosen, nullptr, shma_npz_load, get(), terminated->c_str());
    }

    /// Loads all members by several threads, and returns the arrays by their names. The options
    /// must not have a name.
    std::map<std::string, any_array> load_all(const options &chosen = {}) const {
        return try_load_all(chosen).value();
    }
    result<std::map<std::string, any_array>> try_load_all(const options &chosen = {}) const {
        if (auto checked = detail::check_options(chosen); !checked)
            return checked.error();
        const shma_options made = detail::plain(chosen);
        std::vector<shma_array *> produced(size());
        if (auto called = detail::call(shma_npz_load_all, get(), &made, produced.data()); !called)
            return called.error();
        return named(produced);
    }

    /// Returns the NPZ file for calls of the C ABI; this object keeps its ownership.
    const shma_npz *get() const noexcept { return held_.get(); }

  private:
    template <class Function, class... Arguments>
    static result<npz> opened(const npz_options &chosen, Function function,
                              Arguments... arguments) {
        shma_npz_options made = SHMA_NPZ_OPTIONS_INIT;
        made.max_bytes = chosen.max_bytes;
        made.threads = chosen.threads;
        shma_npz *produced = nullptr;
        auto called = detail::call(function, arguments..., &made, &produced);
        if (!called)
            return called.error();
        return npz(produced);
    }

    /// Takes ownership of the arrays of all members.
    std::map<std::string, any_array> named(const std::vector<shma_array *> &produced) const {
        std::map<std::string, any_array> all;
        std::vector<any_array> arrays(produced.begin(), produced.end());
        for (std::size_t index = 0; index < arrays.size(); ++index)
            all.emplace(shma_npz_name(get(), index), std::move(arrays[index]));
        return all;
    }

    struct closer {
        void operator()(shma_npz *held) const noexcept { shma_npz_close(held); }
    };
    std::unique_ptr<shma_npz, closer> held_;
};

/// Arrays with their names, for save_npz: {{"image", image}, {"label", label}}, or the range of
/// what npz::load_all() returned.
using named_arrays = std::vector<std::pair<std::string, sendable>>;

/// Saves arrays to an NPZ file; stored, with the bytes that numpy.savez writes. The file appears
/// under its path, which gets no ".npz", when it is complete, and takes the place of an older one
/// as with save_npy. Names are without ".npy". Throws like save_npy, and invalid_argument if a name
/// is there twice.
inline result<void> try_save_npz(const file_path &path, const named_arrays &arrays,
                                 const npz_save_options &chosen = {}) {
    const auto terminated = path.terminated();
    if (!terminated)
        return terminated.error();
    detail::text_list names;
    std::vector<shma_array *> plain; // the C ABI changes no array
    for (const auto &[name, array] : arrays) {
        if (auto added = names.add(name); !added)
            return added;
        plain.push_back(const_cast<shma_array *>(array.get()));
    }
    shma_npz_options made = SHMA_NPZ_OPTIONS_INIT;
    made.deflated = chosen.deflated ? 1 : 0;
    made.threads = chosen.threads;
    made.align = chosen.align;
    return detail::act(shma_npz_save, terminated->c_str(), plain.size(), names.pointers().data(),
                       plain.data(), &made);
}
inline void save_npz(const file_path &path, const named_arrays &arrays,
                     const npz_save_options &chosen = {}) {
    try_save_npz(path, arrays, chosen).value();
}

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_NPY_HPP
