// Loads the shared library at run time, as the foreign-function module of an interpreter does.
#include <dlfcn.h>

#include "tests.h"

// Returns the number of functions in a list of symbols, one on each line. Each must exist.
static int find_listed(void *library, const char *list) {
    FILE *lines = fopen(list, "r");
    assert_non_null(lines);
    char line[256], name[128];
    int found = 0;
    while (fgets(line, sizeof line, lines)) {
        if (sscanf(line, " shma_%100[a-z0-9_];", name) != 1)
            continue;
        memmove(name + 5, name, strlen(name) + 1);
        memcpy(name, "shma_", 5);
        if (!dlsym(library, name))
            fail_msg("%s is not in the library", name);
        found++;
    }
    fclose(lines);
    return found;
}

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    assert_non_null(found);
    return found;
}

static void it_has_every_listed_function_and_they_work(void **state) {
    void *library = dlopen(SHMARRAY_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    assert_true(find_listed(library, SHMARRAY_MAP) > 20);
    int32_t (*create)(shma_dtype, size_t, const int64_t *, const shma_options *, shma_array **,
                      shma_error *);
    void (*close_array)(shma_array *);
    void *(*data)(const shma_array *);
    *(void **)&create = function(library, "shma_array_create");
    *(void **)&close_array = function(library, "shma_array_close");
    *(void **)&data = function(library, "shma_array_data");
    shma_array *array = NULL;
    expect_ok(create(SHMA_INT32, 1, (int64_t[]){3}, NULL, &array, NULL));
    ((int32_t *)data(array))[2] = 1;
    close_array(array);
    assert_int_equal(files_in_directory(), 0);
    assert_int_equal(dlclose(library), 0);
}

static void it_can_be_loaded_again_after_it_was_closed(void **state) {
    for (int time = 0; time < 3; time++) {
        void *library = dlopen(SHMARRAY_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library);
        const char *(*version)(void);
        *(void **)&version = function(library, "shma_version");
        assert_string_equal(version(), SHMARRAY_VERSION);
        assert_int_equal(dlclose(library), 0);
    }
}

static void the_number_of_its_abi_is_that_of_its_soname(void **state) {
    void *library = dlopen(SHMARRAY_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    int32_t (*abi)(void);
    *(void **)&abi = function(library, "shma_abi");
    char soname[64];
    snprintf(soname, sizeof soname, "libshmarray.so.%d", abi());
    void *by_soname = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);
    assert_ptr_equal(by_soname, library);
    assert_int_equal(dlclose(by_soname), 0);
    assert_int_equal(dlclose(library), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(it_has_every_listed_function_and_they_work),
        TEST(it_can_be_loaded_again_after_it_was_closed),
        TEST(the_number_of_its_abi_is_that_of_its_soname),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
