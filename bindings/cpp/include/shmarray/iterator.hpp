// Random access to elements of any strides in C order.
#ifndef SHMARRAY_ITERATOR_HPP
#define SHMARRAY_ITERATOR_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include <shmarray/layout.hpp>
#include <shmarray/mode.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {

namespace detail {

/// The byte offset of the element at a position in C order, for any strides.
///
/// A run is the elements along the last dimension. Within one, a step is an addition; into another,
/// the offset is computed from the position.
class cursor {
  public:
    cursor() = default;
    cursor(dimensions shape, dimensions strides, std::ptrdiff_t position) noexcept
        : shape_(shape), strides_(strides) {
        if (shape.size() != 0) {
            run_ = shape[shape.size() - 1];
            step_ = strides[shape.size() - 1];
        }
        seek(position);
    }

    std::ptrdiff_t position() const noexcept { return position_; }
    std::int64_t offset() const noexcept { return offset_; }

    void advance(std::ptrdiff_t count) noexcept {
        const std::int64_t left = left_ - count;
        if (left <= 0 || left > run_)
            return seek(position_ + count);
        position_ += count;
        left_ = left;
        offset_ += count * step_;
    }

    /// Returns the offset of another element.
    std::int64_t offset_at(std::ptrdiff_t count) const noexcept {
        cursor other = *this;
        other.advance(count);
        return other.offset_;
    }

  private:
    void seek(std::ptrdiff_t position) noexcept {
        position_ = position;
        offset_ = 0;
        left_ = run_ - (shape_.size() > 1 && run_ > 0 ? position % run_ : position);
        for (std::size_t dimension = shape_.size(); dimension-- > 0;) {
            const std::int64_t count = shape_[dimension] > 0 ? shape_[dimension] : 1;
            // The first dimension takes what is left: behind the last element it is its count.
            const std::int64_t index = dimension == 0 ? position : position % count;
            offset_ += index * strides_[dimension];
            position /= count;
        }
    }

    dimensions shape_, strides_;
    std::ptrdiff_t position_ = 0;
    std::int64_t offset_ = 0;
    std::int64_t run_ = 1, step_ = 0; ///< elements of a run, and bytes between them
    std::int64_t left_ = 1;           ///< elements of this run from the position on
};

} // namespace detail

/// A random-access iterator over the elements of a strided array, in C order. It refers to elements
/// in memory, so its reference is a T &. It is valid as long as the array.
template <class T>
class strided_iterator {
  public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = std::remove_const_t<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = T *;
    using reference = T &;

    strided_iterator() = default;
    strided_iterator(unsigned char *first, dimensions shape, dimensions strides,
                     std::ptrdiff_t position) noexcept
        : first_(first), at_(shape, strides, position) {}

    /// Converts an iterator over elements to write. Comparisons take both.
    template <class U, std::enable_if_t<std::is_same_v<const U, T> && !std::is_const_v<U>, int> = 0>
    strided_iterator(const strided_iterator<U> &other) noexcept
        : first_(other.first_), at_(other.at_) {}

    reference operator*() const noexcept { return element(at_.offset()); }
    pointer operator->() const noexcept { return &**this; }
    reference operator[](difference_type count) const noexcept {
        return element(at_.offset_at(count));
    }

    strided_iterator &operator++() noexcept { return *this += 1; }
    strided_iterator &operator--() noexcept { return *this -= 1; }
    strided_iterator operator++(int) noexcept {
        const strided_iterator before = *this;
        ++*this;
        return before;
    }
    strided_iterator operator--(int) noexcept {
        const strided_iterator before = *this;
        --*this;
        return before;
    }
    strided_iterator &operator+=(difference_type count) noexcept {
        return at_.advance(count), *this;
    }
    strided_iterator &operator-=(difference_type count) noexcept { return *this += -count; }

    friend strided_iterator operator+(strided_iterator a, difference_type count) noexcept {
        return a += count;
    }
    friend strided_iterator operator+(difference_type count, strided_iterator a) noexcept {
        return a += count;
    }
    friend strided_iterator operator-(strided_iterator a, difference_type count) noexcept {
        return a -= count;
    }
    friend difference_type operator-(const strided_iterator &a,
                                     const strided_iterator &b) noexcept {
        return a.at_.position() - b.at_.position();
    }
    friend bool operator==(const strided_iterator &a, const strided_iterator &b) noexcept {
        return a - b == 0;
    }
    friend bool operator!=(const strided_iterator &a, const strided_iterator &b) noexcept {
        return a - b != 0;
    }
    friend bool operator<(const strided_iterator &a, const strided_iterator &b) noexcept {
        return a - b < 0;
    }
    friend bool operator>(const strided_iterator &a, const strided_iterator &b) noexcept {
        return a - b > 0;
    }
    friend bool operator<=(const strided_iterator &a, const strided_iterator &b) noexcept {
        return a - b <= 0;
    }
    friend bool operator>=(const strided_iterator &a, const strided_iterator &b) noexcept {
        return a - b >= 0;
    }

  private:
    template <class>
    friend class strided_iterator;

    T &element(std::int64_t offset) const noexcept {
        return *reinterpret_cast<T *>(first_ + offset);
    }

    unsigned char *first_ = nullptr;
    detail::cursor at_;
};

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_ITERATOR_HPP
