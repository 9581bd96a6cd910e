// Tensors of DLPack in C: made of arrays, and copied into them.
#include <pthread.h>
#include <sys/wait.h>

#include "tests.h"

// From dlpack.h, of DLPack 1.1.
enum { CPU = 1, FLOAT = 2, READ_ONLY = 1, PADDED = 4 };
typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} tensor_struct;
typedef struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    tensor_struct tensor;
} managed;

static shma_array *make(shma_dtype dtype) {
    shma_array *array = NULL;
    expect_ok(shma_array_create(dtype, 2, two_by_three, NULL, &array, NULL));
    return array;
}

static void a_tensor_is_the_memory_of_the_array_and_keeps_it(void **state) {
    shma_array *array = make(SHMA_FLOAT32);
    ((float *)shma_array_data(array))[5] = 0.5F;
    managed *made = NULL;
    expect_ok(shma_array_to_dlpack(array, SHMA_READ_WRITE, &made, &error));
    shma_array_close(array);
    assert_int_equal(made->major, 1);
    assert_int_equal(made->flags, 0);
    assert_int_equal(made->tensor.device_type, CPU);
    assert_int_equal(made->tensor.ndim, 2);
    assert_int_equal(made->tensor.code, FLOAT);
    assert_int_equal(made->tensor.bits, 32);
    assert_int_equal(made->tensor.lanes, 1);
    assert_memory_equal(made->tensor.shape, two_by_three, sizeof two_by_three);
    assert_memory_equal(made->tensor.strides, ((int64_t[]){3, 1}), 2 * sizeof(int64_t));
    assert_true(((float *)made->tensor.data)[5] == 0.5F);
    assert_int_not_equal(files_in_directory(), 0);
    made->deleter(made);
}

static void a_tensor_says_what_may_not_be_written_and_what_has_a_byte(void **state) {
    shma_array *array = make(SHMA_INT4);
    shma_array *again = attached_again(array, SHMA_READ_ONLY);
    managed *made = NULL;
    expect_ok(shma_array_to_dlpack(again, SHMA_READ_WRITE, &made, NULL));
    assert_int_equal(made->flags, READ_ONLY | PADDED);
    assert_int_equal(made->tensor.bits, 4);
    made->deleter(made);
    expect_ok(shma_array_to_dlpack(array, SHMA_READ_ONLY, &made, NULL));
    assert_int_equal(made->flags, READ_ONLY | PADDED);
    made->deleter(made);
    expect_failure(shma_array_to_dlpack(array, 5, &made, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   "access");
    shma_array_close(again);
    shma_array_close(array);
}

static void a_type_that_dlpack_lacks_is_refused(void **state) {
    shma_array *array = make(SHMA_FLOAT8_E5M3FNU);
    managed *made = (managed *)&two_by_three;
    expect_failure(shma_array_to_dlpack(array, SHMA_READ_WRITE, &made, &error),
                   SHMA_ERROR_INVALID_DTYPE, "DLPack has no such type");
    assert_ptr_equal(made, &two_by_three);
    expect_failure(shma_array_to_dlpack(NULL, SHMA_READ_ONLY, &made, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "array");
    expect_failure(shma_array_to_dlpack(array, SHMA_READ_ONLY, NULL, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "tensor_out");
    shma_array_close(array);
}

static void a_tensor_of_another_framework_is_copied_and_stays_its_owners(void **state) {
    float values[] = {9, 0, 1, 2, 3, 4, 5};
    int64_t shape[] = {2, 3}, strides[] = {1, 2};
    managed foreign = {1, 3, NULL, NULL, 0, {values, CPU, 0, 2, FLOAT, 32, 1, shape, strides, 4}};
    shma_options options = SHMA_OPTIONS_INIT;
    options.name = "copied";
    shma_array *array = NULL, *named = NULL;
    expect_ok(shma_array_from_dlpack(&foreign, &options, &array, &error));
    values[1] = 8; // not in the copy
    expect_ok(shma_array_attach("copied", SHMA_READ_ONLY, &named, NULL));
    assert_int_equal(shma_array_dtype(named), SHMA_FLOAT32);
    const float expected[] = {0, 2, 4, 1, 3, 5};
    assert_int_equal(shma_array_is_contiguous(named, SHMA_ORDER_C), 1);
    assert_memory_equal(shma_array_data(named), expected, sizeof expected);
    shma_array_close(named);
    shma_array_close(array);
}

static void a_tensor_elsewhere_is_refused(void **state) {
    float values[6] = {0};
    int64_t shape[] = {2, 3};
    managed foreign = {1, 0, NULL, NULL, 0, {values, 2, 1, 2, FLOAT, 32, 1, shape, NULL, 0}};
    shma_array *array = untouched;
    expect_failure(shma_array_from_dlpack(&foreign, NULL, &array, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "it is on device 2:1");
    foreign.tensor.device_type = CPU;
    foreign.tensor.code = 99;
    expect_failure(shma_array_from_dlpack(&foreign, NULL, &array, &error), SHMA_ERROR_INVALID_DTYPE,
                   "code 99");
    expect_failure(shma_array_from_dlpack(NULL, NULL, &array, &error), SHMA_ERROR_INVALID_ARGUMENT,
                   "tensor");
    expect_failure(shma_array_from_dlpack(&foreign, NULL, NULL, &error), SHMA_ERROR_INVALID_DTYPE,
                   "code 99");
    assert_ptr_equal(array, untouched);
}

static managed *tensor_of_an_array(void) {
    shma_array *array = make(SHMA_FLOAT32);
    managed *made = NULL;
    expect_ok(shma_array_to_dlpack(array, SHMA_READ_WRITE, &made, &error));
    shma_array_close(array);
    ((float *)made->tensor.data)[5] = 0.5F;
    return made;
}

static void *give_back(void *tensor) {
    managed *made = tensor;
    made->deleter(made);
    return NULL;
}

static void any_thread_gives_a_tensor_back(void **state) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, give_back, tensor_of_an_array()), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(files_in_directory(), 0);
}

// What a process gives back when it ends: `exit` calls it after all of the library, since it was
// registered before the first call.
static managed *last;
static void give_back_last(void) {
    if (last)
        give_back(last);
}

static void a_child_gives_back_what_is_its_own_also_at_its_very_end(void **state) {
    managed *made = tensor_of_an_array();
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        give_back(made);
        last = tensor_of_an_array();
        exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(files_in_directory(), 1); // the parent's
    assert_true(((float *)made->tensor.data)[5] == 0.5F);
    give_back(made);
}

int main(void) {
    atexit(give_back_last);
    const struct CMUnitTest tests[] = {
        TEST(a_tensor_is_the_memory_of_the_array_and_keeps_it),
        TEST(a_tensor_says_what_may_not_be_written_and_what_has_a_byte),
        TEST(a_type_that_dlpack_lacks_is_refused),
        TEST(a_tensor_of_another_framework_is_copied_and_stays_its_owners),
        TEST(a_tensor_elsewhere_is_refused),
        TEST(any_thread_gives_a_tensor_back),
        TEST(a_child_gives_back_what_is_its_own_also_at_its_very_end),
    };
    return cmocka_run_group_tests_name("dlpack", tests, NULL, NULL);
}
