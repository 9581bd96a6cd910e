// Threads in C: the header says which objects several of them may use at once.
#include <pthread.h>
#include <sched.h>

#include "tests.h"

enum { THREADS = 4, TIMES = 500 };

static shma_array *make_numbers(int64_t count) {
    shma_array *array = NULL;
    expect_ok(shma_array_create(SHMA_INT32, 1, &count, NULL, &array, NULL));
    int32_t *numbers = shma_array_data(array);
    for (int32_t i = 0; i < count; i++)
        numbers[i] = i;
    return array;
}

// Starts threads, the i-th with `first + i * step`.
static void start(pthread_t threads[THREADS], void *(*body)(void *), void *first, size_t step) {
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, (char *)first + i * step), 0);
}

// Waits for threads and asserts that each returned NULL.
static void join(const pthread_t threads[THREADS]) {
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

// Runs a body with one argument in several threads.
static void in_threads(void *(*body)(void *), void *argument) {
    pthread_t threads[THREADS];
    start(threads, body, argument, 0);
    join(threads);
}

// Takes an array and gives it back many times over, and ends its own ownership.
static void *own(void *owned) {
    shma_array *array = owned;
    intptr_t wrong = 0;
    for (int time = 0; time < 40 * TIMES; time++) {
        wrong += shma_array_retain(array) != array;
        wrong += ((const int32_t *)shma_array_data(array))[6] != 6;
        shma_array_close(array);
    }
    shma_array_close(array);
    return (void *)wrong;
}

static void they_own_one_array_and_the_last_closes_it(void **state) {
    shma_array *array = make_numbers(8);
    for (int owner = 1; owner < THREADS; owner++)
        assert_ptr_equal(shma_array_retain(array), array);
    in_threads(own, array);
    assert_int_equal(files_in_directory(), 0);
}

// Slices an array, attaches the slice by its handle, and reads an element by each.
static intptr_t slice_and_attach(const shma_array *array, int32_t at) {
    char handle[4096];
    shma_array *slice = NULL, *attached = NULL;
    if (shma_array_slice(array, 0, at, SHMA_END, 1, &slice, NULL) != SHMA_OK ||
        shma_array_handle(slice, handle, sizeof handle, NULL, NULL) != SHMA_OK ||
        shma_array_attach(handle, SHMA_READ_ONLY, &attached, NULL) != SHMA_OK)
        return 1;
    const int32_t *seen = shma_array_data(slice), *again = shma_array_data(attached);
    const intptr_t wrong = seen[0] != at || again[0] != at;
    shma_array_close(slice);
    shma_array_close(attached);
    return wrong;
}

static void *use(void *array) {
    intptr_t wrong = 0;
    for (int32_t time = 0; time < TIMES; time++) {
        shma_segment_list *list = NULL;
        wrong += slice_and_attach(array, time % 8);
        wrong += strcmp(shma_dtype_name(shma_array_dtype(array)), "int32") != 0;
        if (time % 50 == 0) {
            wrong += shma_segment_list_create(&list, NULL) != SHMA_OK;
            wrong += shma_sweep(NULL, NULL, NULL) != SHMA_OK;
            shma_segment_list_close(list);
        }
    }
    return (void *)wrong;
}

static void they_use_one_array_at_once(void **state) {
    shma_array *array = make_numbers(8);
    in_threads(use, array);
    shma_array_close(array);
}

// The two ends of a pipe, the array of all messages, and how often each message arrived.
static shma_pipe *here, *there;
static shma_array *sent;
static _Atomic int arrived[THREADS][TIMES];

struct label {
    int32_t sender, number;
};

static void *send_all(void *sender) {
    struct label label = {*(const int32_t *)sender, 0};
    intptr_t wrong = 0;
    for (; label.number < TIMES; label.number++)
        wrong +=
            shma_pipe_send(here, &sent, 1, &label, sizeof label, SHMA_NO_TIMEOUT, NULL) != SHMA_OK;
    return (void *)wrong;
}

// Receives until no message can arrive any more. The messages of each sender come in order.
static void *receive_all(void *unused) {
    int32_t last[THREADS] = {-1, -1, -1, -1};
    intptr_t wrong = 0;
    shma_message *message = NULL;
    while (shma_pipe_receive(there, SHMA_NO_TIMEOUT, &message, NULL) == SHMA_OK) {
        struct label label;
        shma_array *array = NULL;
        memcpy(&label, shma_message_payload(message, NULL), sizeof label);
        wrong += shma_message_array(message, 0, SHMA_READ_ONLY, &array, NULL) != SHMA_OK;
        wrong += ((const int32_t *)shma_array_data(array))[7] != 7;
        wrong += label.number <= last[label.sender];
        last[label.sender] = label.number;
        arrived[label.sender][label.number]++;
        shma_array_close(array);
        shma_message_close(message);
    }
    return (void *)wrong;
}

static void they_send_and_receive_on_one_pipe(void **state) {
    static int32_t numbers[THREADS] = {0, 1, 2, 3};
    pthread_t receivers[THREADS], senders[THREADS];
    expect_ok(shma_pipe_pair(&here, &there, NULL));
    sent = make_numbers(8);
    start(receivers, receive_all, numbers, 0);
    start(senders, send_all, numbers, sizeof *numbers);
    join(senders);
    shma_pipe_close(here);
    shma_array_close(sent);
    join(receivers);
    shma_pipe_close(there);
    for (int sender = 0; sender < THREADS; sender++)
        for (int number = 0; number < TIMES; number++)
            assert_int_equal(arrived[sender][number], 1);
}

static void *attach_all(void *message) {
    intptr_t wrong = 0;
    for (size_t time = 0; time < TIMES; time++) {
        shma_array *array = NULL;
        wrong += shma_message_array(message, time % 3, SHMA_READ_ONLY, &array, NULL) != SHMA_OK;
        wrong += shma_array_size(array) != time % 3 + 1;
        shma_array_close(array);
    }
    return (void *)wrong;
}

static void they_attach_the_arrays_of_one_message(void **state) {
    shma_array *arrays[3];
    shma_message *message = NULL;
    expect_ok(shma_pipe_pair(&here, &there, NULL));
    for (int i = 0; i < 3; i++)
        arrays[i] = make_numbers(i + 1);
    expect_ok(shma_pipe_send(here, arrays, 3, NULL, 0, SHMA_NO_TIMEOUT, NULL));
    expect_ok(shma_pipe_receive(there, SHMA_NO_TIMEOUT, &message, NULL));
    for (int i = 0; i < 3; i++)
        shma_array_close(arrays[i]);
    in_threads(attach_all, message);
    shma_message_close(message);
    shma_pipe_close(here);
    shma_pipe_close(there);
}

static shma_channel *channel;
static _Atomic int waiting;

// Waits for a message that never comes.
static void *receive_none(void *unused) {
    shma_delivery *delivery = NULL;
    waiting++;
    return shma_channel_receive(channel, SHMA_NO_TIMEOUT, &delivery, NULL) ==
                   SHMA_ERROR_INVALID_ARGUMENT
               ? NULL
               : (void *)1;
}

static void they_are_told_that_another_ends_their_channel(void **state) {
    static int32_t numbers[THREADS];
    const int64_t one = 1;
    for (int round = 0; round < 20; round++) {
        pthread_t receivers[THREADS];
        waiting = 0;
        expect_ok(shma_channel_create("numbers", SHMA_INT32, 1, &one, NULL, NULL, &channel, NULL));
        start(receivers, receive_none, numbers, 0);
        while (waiting < THREADS)
            sched_yield();
        for (int turn = 0; turn < 100 * round; turn++)
            sched_yield(); // in late rounds they sleep
        shma_channel_end(channel);
        join(receivers);
        shma_channel_close(channel);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(they_own_one_array_and_the_last_closes_it),
        TEST(they_use_one_array_at_once),
        TEST(they_send_and_receive_on_one_pipe),
        TEST(they_attach_the_arrays_of_one_message),
        TEST(they_are_told_that_another_ends_their_channel),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
