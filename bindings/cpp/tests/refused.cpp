// Mistakes that the header refuses. ci/test-c compiles this file without any of them, and then with
// each one, by the name that its #ifdef has. A comment behind it is what the compiler must say.
#include <cstdint>
#include <type_traits>

#include <shmarray.hpp>

// A bool is no number of elements.
shmarray::array<int> make_wide(bool is_wide) {
#ifdef BOOL_AS_SHAPE
    return shmarray::array<int>::create({2, is_wide});
#else
    return shmarray::array<int>::create({2, is_wide ? 1 : 0});
#endif
}

// A text is no shape, although its characters are integers.
shmarray::array<int> make_frame() {
#ifdef TEXT_AS_SHAPE
    return shmarray::array<int>::create("frame");
#else
    return shmarray::array<int>::create({5}, {"frame"});
#endif
}

// A shape has as many numbers as the Rank says, and the compiler says so.
shmarray::array<float, 2> make_matrix() {
#ifdef WRONG_SHAPE // the shape must have as many numbers as the Rank says
    return shmarray::array<float, 2>::create({2, 3, 4});
#else
    return shmarray::array<float, 2>::create({2, 3});
#endif
}

// A type without a dtype is no element.
#ifdef NO_DTYPE
using element = char16_t;
#else
using element = char;
#endif
shmarray::array<element> make_letters() { return shmarray::array<element>::create({2}); }

// The dtype of a structure has the structure's size.
struct particle {
    float x;
    float y;
};

template <>
struct shmarray::struct_traits<particle> {
#ifdef STRUCT_SIZE
    static constexpr const char *dtype = R"({"descr":[["x","<f4"]],"itemsize":4})";
#else
    static constexpr const char *dtype = R"({"descr":[["x","<f4"],["y","<f4"]],"itemsize":8})";
#endif
};

shmarray::array<particle> make_particles() { return shmarray::array<particle>::create({2}); }

// An array loses no const.
#ifdef CONST_TO_MUTABLE
shmarray::array<float> converted(shmarray::array<const float> a) { return a; }
#else
shmarray::array<const float> converted(shmarray::array<float> a) { return a; }
#endif

// An element of const T is not written, and an array of them is not filled.
#ifdef WRITE_TO_CONST
void write(const shmarray::array<const float> &a) { a(0) = 1; }
#else
void write(const shmarray::array<float> &a) { a(0) = 1; }
#endif
#ifdef FILL_CONST
void fill(const shmarray::array<const float> &a) { a.fill(1); }
#else
void fill(const shmarray::array<float> &a) { a.fill(1); }
#endif

// An array is not copied by accident.
shmarray::array<float> second(const shmarray::array<float> &a) {
#ifdef COPY
    return a;
#else
    return a.view();
#endif
}

// Strides are not lost without a check.
shmarray::array<float> rows(const shmarray::array<float> &a) {
#ifdef STRIDED_TO_CONTIGUOUS
    return a.slice(0, 1);
#else
    return a.slice(0, 1).as<float>();
#endif
}

// An index has as many numbers as the array has dimensions, also if it is checked at run time.
float element_of(const shmarray::array<float, 2> &a) {
#ifdef WRONG_RANK
    return a(1);
#else
    return a(1, 0);
#endif
}

float checked_element_of(const shmarray::array<float, 2> &a) {
#ifdef WRONG_RANK_AT
    return a.at(1, 0, 2);
#else
    return a.at(1, 0);
#endif
}

// An iterator does not outlive the copy of a temporary array's shape.
std::int64_t columns(const shmarray::array<int> &a) {
#ifdef ITERATOR_OF_TEMPORARY_SHAPE
    return *a.transpose().shape().begin();
#else
    return a.transpose().shape()[0];
#endif
}

// A message that may not be there is not taken from a temporary object, with which it would go.
float first_of(const shmarray::channel<const float, 1> &frames) {
#ifdef MESSAGE_OF_TEMPORARY
    return frames.receive()->array()(0);
#else
    return frames.receive().value().array()(0);
#endif
}

// A reference to the array of a temporary delivery would outlive it.
float second_of(const shmarray::channel<const float, 1> &frames) {
#ifdef ARRAY_OF_TEMPORARY
    auto &frame = frames.receive().value().array();
#else
    auto frame = frames.receive().value().array();
#endif
    return frame(1);
}

// The array of a temporary loan is published by nobody.
void publish(const shmarray::channel<float, 1> &frames) {
#ifdef LOAN_OF_TEMPORARY
    frames.loan().value().array()(0) = 1;
#else
    auto loan = frames.loan();
    loan.value().array()(0) = 1;
    loan->publish();
#endif
}

// A channel of const T only receives.
#ifdef LOAN_OF_CONST // a channel of const T can only receive
void lend(const shmarray::channel<const float, 1> &frames) { frames.loan().value().cancel(); }
#else
void lend(const shmarray::channel<float, 1> &frames) { frames.loan().value().cancel(); }
#endif
#ifdef SEND_BY_CONST // a channel of const T can only receive
void send(const shmarray::channel<const float, 1> &frames, const shmarray::array<float, 1> &a) {
#else
void send(const shmarray::channel<float, 1> &frames, const shmarray::array<float, 1> &a) {
#endif
    frames.send(a);
}

// A list does not change, so a view of its items does not either.
float first_of(const shmarray::list<shmarray::array_view<const float>> &samples) {
#ifdef WRITE_TO_LIST
    return samples[0][0] = 1;
#else
    return samples[0][0];
#endif
}
#ifdef MUTABLE_LIST
float last_of(const shmarray::list<shmarray::array_view<float>> &samples) { return samples[0][1]; }
#endif

// A key is a string, bytes or an integer of 64 bits.
#ifdef KEY_OF_FLOATS
double value_of(const shmarray::dict<double, double> &values) { return values.at(1); }
#else
double value_of(const shmarray::dict<std::int64_t, double> &values) { return values.at(1); }
#endif

// Only records have fields.
#ifdef FIELD_OF_NUMBERS
using labelled = double;
#else
using labelled = shmarray::record;
#endif
int label_of(const shmarray::list<labelled> &items) { return items.field<int>("label")[0]; }

// A visit has one answer type, so none is silently converted to another.
double first(const shmarray::any_array &a) {
    return a.visit([](const auto &typed) {
        using value = typename std::decay_t<decltype(typed)>::value_type;
        if constexpr (!std::is_arithmetic_v<value>)
            return 0.0;
        else
#ifdef VISIT_TYPES
            return typed[0];
#else
            return static_cast<double>(typed[0]);
#endif
    });
}

// A failure is not ignored without a word.
void forget(const char *name) {
#ifdef IGNORED_RESULT
    shmarray::try_unlink(name);
#else
    static_cast<void>(shmarray::try_unlink(name).has_value());
#endif
}
