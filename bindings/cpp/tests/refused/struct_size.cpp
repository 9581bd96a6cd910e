// The dtype of a structure has the structure's size.
#include <shmarray.hpp>

struct particle {
    float x;
    float y;
};

template <>
struct shmarray::struct_traits<particle> {
#ifdef REFUSED
    static constexpr const char *dtype = R"({"descr":[["x","<f4"]],"itemsize":4})";
#else
    static constexpr const char *dtype = R"({"descr":[["x","<f4"],["y","<f4"]],"itemsize":8})";
#endif
};

shmarray::array<particle> make() { return shmarray::array<particle>::create({2}); }
