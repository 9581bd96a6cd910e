// Tensors of DLPack: made of arrays, and copied into them.
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <shmarray.hpp>

#include "fixture.hpp"

// From dlpack.h, of DLPack 1.1.
struct DLManagedTensorVersioned {
    std::uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(DLManagedTensorVersioned *);
    std::uint64_t flags;
    struct {
        void *data;
        std::int32_t device_type, device_id, ndim;
        std::uint8_t code, bits;
        std::uint16_t lanes;
        std::int64_t *shape, *strides;
        std::uint64_t byte_offset;
    } tensor;
};

namespace {

struct give_back {
    void operator()(DLManagedTensorVersioned *tensor) const { tensor->deleter(tensor); }
};
using owned = std::unique_ptr<DLManagedTensorVersioned, give_back>;

TEST_CASE("a tensor is the memory of an array, and keeps it") {
    owned tensor;
    {
        auto made = shmarray::array<float, 2>::create({2, 3});
        std::iota(made.begin(), made.end(), 0.0F);
        tensor.reset(made.transpose().to_dlpack());
        CHECK(tensor->flags == 0);
    }
    const auto &found = tensor->tensor;
    CHECK(std::vector(found.shape, found.shape + 2) == std::vector<std::int64_t>{3, 2});
    CHECK(std::vector(found.strides, found.strides + 2) == std::vector<std::int64_t>{1, 3});
    CHECK(static_cast<const float *>(found.data)[5] == 5.0F);

    const auto copied = shmarray::any_array::from_dlpack(*tensor).as<const float, 2>();
    CHECK(copied(2, 1) == 5.0F);
    CHECK(copied(0, 1) == 3.0F);
}

TEST_CASE("a tensor of const elements must not be written") {
    const auto made = shmarray::array<int>::create({4});
    const shmarray::array<const int> as_const = made;
    CHECK(owned(as_const.to_dlpack())->flags == 1);
    CHECK(owned(made.to_dlpack())->flags == 0);
}

TEST_CASE("a tensor on another device is refused") {
    const auto made = shmarray::array<int>::create({4});
    const owned tensor(made.to_dlpack());
    tensor->tensor.device_type = 2;
    const auto refused = shmarray::any_array::try_from_dlpack(*tensor);
    REQUIRE(!refused);
    CHECK(refused.error().status() == SHMA_ERROR_INVALID_ARGUMENT);
    const auto opaque = shmarray::any_array::create("|V3", {2}).try_to_dlpack();
    REQUIRE(!opaque);
    CHECK(opaque.error().status() == SHMA_ERROR_INVALID_DTYPE);
}

} // namespace
