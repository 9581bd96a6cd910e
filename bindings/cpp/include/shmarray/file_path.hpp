// The paths of files as arguments, from any kind of string or from a std::filesystem::path.
#ifndef SHMARRAY_FILE_PATH_HPP
#define SHMARRAY_FILE_PATH_HPP

#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <shmarray/mode.hpp>
#include <shmarray/result.hpp>
#include <shmarray/segment.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

/// A path as an argument: any kind of string, or a std::filesystem::path.
class file_path {
    template <class Path>
    static constexpr bool is_text = std::is_convertible_v<const Path &, std::string_view>;
    template <class Path>
    static constexpr bool becomes_text =
        !is_text<Path> && std::is_convertible_v<const Path &, std::string>;

  public:
    template <class Path, std::enable_if_t<is_text<Path>, int> = 0>
    file_path(const Path &path) : text_(static_cast<std::string_view>(path)) {}

    template <class Path, std::enable_if_t<becomes_text<Path>, int> = 0>
    file_path(const Path &path) : text_(path) {}

    /// Returns the path.
    const std::string &text() const noexcept { return text_; }

    /// Returns the path for the C ABI, or a failure if C would read another one.
    result<std::string> terminated() const { return detail::terminated(text_); }

  private:
    std::string text_;
};

/// Paths as an argument: a list, or a range of what a file_path is made from.
class file_paths {
    template <class Paths>
    using path_of = decltype(*std::begin(std::declval<const Paths &>()));
    template <class Paths> // a std::filesystem::path is a range of its parts
    static constexpr bool is_one_path = std::is_convertible_v<const Paths &, file_path>;

  public:
    file_paths(std::initializer_list<file_path> paths) : paths_(paths) {}

    template <class Paths,
              std::enable_if_t<
                  !is_one_path<Paths> && std::is_convertible_v<path_of<Paths>, file_path>, int> = 0>
    file_paths(const Paths &paths) : paths_(std::begin(paths), std::end(paths)) {}

    std::vector<file_path>::const_iterator begin() const noexcept { return paths_.begin(); }
    std::vector<file_path>::const_iterator end() const noexcept { return paths_.end(); }

  private:
    std::vector<file_path> paths_;
};

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_FILE_PATH_HPP
