// An array whose dtype is known only at run time.
#ifndef SHMARRAY_ANY_ARRAY_HPP
#define SHMARRAY_ANY_ARRAY_HPP

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <shmarray.h>
#include <shmarray/held.hpp>
#include <shmarray/mode.hpp>
#include <shmarray/views.hpp>

namespace shmarray {
inline namespace SHMARRAY_MODE {
namespace detail {

/// How a visited array is passed: as an rvalue, or as an lvalue to a function that takes only this.
template <class Function, class Array>
using passed = std::conditional_t<std::is_invocable_v<Function &, Array>, Array, Array &>;

/// The answer of a function that visits elements of T.
template <class Function, class T>
using answer_of = std::invoke_result_t<Function &, passed<Function, strided_array<T>>>;

} // namespace detail

/// An array whose dtype is known only at run time. visit() and as() give it an element type. Arrays
/// with an element type convert to it and share the memory; const elements stay const.
class any_array : public detail::with_views<any_array> {
  public:
    any_array() = default;

    /// Takes ownership of an array of the C ABI.
    explicit any_array(shma_array *produced) : any_array(detail::hold(produced), {}) {}

    /// Shares the memory of an array with an element type, or takes it over from an rvalue.
    template <class Array, std::enable_if_t<detail::is_array<Array> &&
                                                !std::is_same_v<std::decay_t<Array>, any_array>,
                                            int> = 0>
    any_array(Array &&typed) : with_views(from(std::forward<Array>(typed))) {}

    /// Creates an array: of zeros, unless chosen.uninitialized is set. The dtype's text is such as
    /// "<i4", "|V3" or a structured type's JSON. Throws no_space, already_exists or
    /// invalid_argument.
    static any_array create(std::string_view dtype_text, const number_list &shape,
                            const options &chosen = {}) {
        return try_create(dtype_text, shape, chosen).value();
    }
    static result<any_array> try_create(std::string_view dtype_text, const number_list &shape,
                                        const options &chosen = {}) {
        if (auto checked = shape.check(); !checked)
            return checked.error();
        if (auto checked = detail::check_options(chosen); !checked)
            return checked.error();
        const auto terminated = detail::terminated(dtype_text);
        if (!terminated)
            return terminated.error();
        const shma_options made = detail::plain(chosen, terminated->c_str());
        return of_view(
            detail::produce(shma_array_create, SHMA_OPAQUE, shape.size(), shape.data(), &made));
    }

    /// Attaches the array that has this handle or this name. Throws not_found, stale_handle,
    /// invalid_handle or permission_denied.
    static any_array attach(std::string_view handle_or_name, access wanted = access::read_write) {
        return try_attach(handle_or_name, wanted).value();
    }
    static result<any_array> try_attach(std::string_view handle_or_name,
                                        access wanted = access::read_write) {
        const auto terminated = detail::terminated(handle_or_name);
        if (!terminated)
            return terminated.error();
        return of_view(detail::produce(shma_array_attach, terminated->c_str(),
                                       static_cast<shma_access>(wanted)));
    }

    /// Creates an array and copies a tensor of DLPack on the CPU into it. The tensor stays the
    /// caller's, who calls its deleter afterwards. Throws no_space, already_exists,
    /// invalid_argument, or error if there is no such dtype.
    static any_array from_dlpack(const ::DLManagedTensorVersioned &tensor,
                                 const options &chosen = {}) {
        return try_from_dlpack(tensor, chosen).value();
    }
    static result<any_array> try_from_dlpack(const ::DLManagedTensorVersioned &tensor,
                                             const options &chosen = {}) {
        if (auto checked = detail::check_options(chosen); !checked)
            return checked.error();
        const shma_options made = detail::plain(chosen, nullptr);
        return of_view(detail::produce(shma_array_from_dlpack, &tensor, &made));
    }

    /// Returns a pointer to the first element. It is valid as long as this object.
    const void *data() const noexcept { return held_.first; }

    /// Returns a pointer to the first element, to write. Throws read_only if is_readonly().
    void *writable_data() const { return try_writable_data().value(); }
    result<void *> try_writable_data() const {
        if (is_readonly())
            return failure(SHMA_ERROR_READ_ONLY, 0, "the array is read-only");
        return static_cast<void *>(held_.first);
    }

    /// Calls a function with this memory as a strided_array of its element type, which is const if
    /// is_readonly(), and returns its answer. The function must take each element type, with and
    /// without const, and return the same type for each. Throws dtype_mismatch if C++ has no type
    /// for the dtype, invalid_argument if this object is null.
    template <class Function>
    auto visit(Function function) const {
        return try_visit(std::move(function)).value();
    }
    template <class Function>
    auto try_visit(Function function) const {
        return visit_one_of(function, detail::element_types());
    }

  private:
    friend class detail::with_views<any_array>;
    template <class T, std::size_t Rank, class Layout>
    friend class array;

    any_array(detail::held made, detail::already_checked) noexcept : with_views(std::move(made)) {}

    static result<any_array> of_view(result<detail::held> made) {
        if (!made)
            return made.error();
        return any_array(std::move(*made), {});
    }

    static detail::held from(const detail::array_base &other) { return held_of(other); }
    static detail::held from(detail::array_base &&other) noexcept { return taken_from(other); }

    template <class Function, class... Elements>
    auto visit_one_of(Function &function, detail::type_list<Elements...>) const {
        using answer = detail::answer_of<Function, bool>;
        static_assert(
            (std::is_same_v<answer, detail::answer_of<Function, Elements>> && ...) &&
                (std::is_same_v<answer, detail::answer_of<Function, const Elements>> && ...),
            "a visiting function must return the same type for every element type");
        std::optional<result<answer>> given;
        const shma_dtype number = dtype();
        ((number == detail::dtype_of<Elements>::value
              ? void(given.emplace(call_with<answer, Elements>(function)))
              : void()),
         ...);
        if (given)
            return *std::move(given);
        auto text = try_dtype_text();
        return result<answer>(
            text ? failure(SHMA_ERROR_DTYPE_MISMATCH, 0, "C++ has no elements of dtype " + *text)
                 : text.error());
    }

    template <class Answer, class Element, class Function>
    result<Answer> call_with(Function &function) const {
        return is_readonly() ? call_as<Answer, const Element>(function)
                             : call_as<Answer, Element>(function);
    }

    template <class Answer, class Element, class Function>
    result<Answer> call_as(Function &function) const {
        auto typed = try_as<strided_array<Element>>();
        if (!typed)
            return typed.error();
        using passed = detail::passed<Function, strided_array<Element>>;
        if constexpr (std::is_void_v<Answer>)
            return function(static_cast<passed &&>(*typed)), result<void>();
        else
            return function(static_cast<passed &&>(*typed));
    }
};

} // namespace SHMARRAY_MODE
} // namespace shmarray

#endif // SHMARRAY_ANY_ARRAY_HPP
