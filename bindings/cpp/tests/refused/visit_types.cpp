// A visit has one answer type, so none is silently converted to another.
#include <type_traits>

#include <shmarray.hpp>

double first(const shmarray::any_array &a) {
    return a.visit([](const auto &typed) {
        using value = typename std::decay_t<decltype(typed)>::value_type;
        if constexpr (!std::is_arithmetic_v<value>)
            return 0.0;
        else
#ifdef REFUSED
            return typed[0];
#else
            return static_cast<double>(typed[0]);
#endif
    });
}
