// A program closes every fd behind the library's back: its arrays stay held and every call still
// works.
#include <sys/syscall.h>

#include "children.h"

static const int64_t hundred[] = {100};
static struct {
    shma_array *array, *named, *view, *reader;
} held;

static void close_with_a_loop(int first) {
    for (int fd = first; fd < 4096; fd++)
        close(fd);
}

static void close_as_a_range(int first) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, ~0U, 0) == 0)
        return;
#endif
    close_with_a_loop(first);
}

static shma_array *make(const char *name, int64_t value) {
    shma_options options = SHMA_OPTIONS_INIT;
    shma_array *array = NULL;
    options.name = name;
    must(shma_array_create(SHMA_INT64, 1, hundred, &options, &array, NULL) == SHMA_OK);
    for (int64_t i = 0; i < hundred[0]; i++)
        ((int64_t *)shma_array_data(array))[i] = value;
    return array;
}

static int64_t at(const shma_array *array, size_t index) {
    return ((const int64_t *)shma_array_data(array))[index];
}

static struct text handle_of(const shma_array *array) {
    struct text text;
    must(shma_array_handle(array, text.bytes, sizeof text.bytes, NULL, NULL) == SHMA_OK);
    return text;
}

static void hold(void) {
    held.array = make(NULL, 7);
    held.named = make("named", 8);
    must(shma_array_slice(held.array, 0, 5, 50, 5, &held.view, NULL) == SHMA_OK);
    must(shma_array_attach("named", SHMA_READ_ONLY, &held.reader, NULL) == SHMA_OK);
}

static void let_all_go(void) {
    shma_array_close(held.array);
    shma_array_close(held.named);
    shma_array_close(held.view);
    shma_array_close(held.reader);
}

// Calls each kind of function that a program uses.
static void do_everything(void) {
    shma_array *again = NULL, *copy = NULL, *second = make("second", 9);
    const struct text first = handle_of(held.view), other = handle_of(second);
    must(shma_array_attach(first.bytes, SHMA_READ_WRITE, &again, NULL) == SHMA_OK);
    ((int64_t *)shma_array_data(held.array))[5] += 30;
    must(at(again, 0) == at(held.view, 0) && at(held.view, 0) == 37 && at(held.reader, 99) == 8);
    ((int64_t *)shma_array_data(again))[0] -= 30;
    shma_array_close(again);
    must(shma_array_attach(other.bytes, SHMA_READ_ONLY, &again, NULL) == SHMA_OK);
    shma_array_close(second);
    must(at(again, 50) == 9);
    must(shma_array_share(shma_array_data(again), SHMA_INT64, 1, hundred, NULL, NULL, &copy,
                          NULL) == SHMA_OK);
    must(at(copy, 99) == 9);
    must(shma_segment_unlink("second", NULL) == SHMA_OK);
    must(shma_sweep(NULL, NULL, NULL) == SHMA_OK);
    shma_array_close(again);
    shma_array_close(copy);
    must(shma_array_attach("named", SHMA_READ_WRITE, &again, NULL) == SHMA_OK);
    must(at(again, 3) == 8);
    shma_array_close(again);
}

static int close_even_the_standard_ones(void *unused) {
    hold();
    close_as_a_range(0);
    for (int turn = 0; turn < 3; turn++)
        do_everything();
    let_all_go();
    return files_in_directory() == 0 ? 0 : 1;
}

static void even_the_standard_fds_may_be_closed(void **state) {
    const struct child child = start_child(close_even_the_standard_ones, NULL);
    assert_int_equal(ended(&child), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(even_the_standard_fds_may_be_closed),
    };
    adopt_orphans();
    return cmocka_run_group_tests_name("fds", tests, NULL, NULL);
}
