// Channels in C: every function with good and bad arguments, and what a killed sender leaves.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests.h"

static const int64_t pair[] = {2};
static const int64_t at_once = 0;

static shma_channel *created(uint32_t slots, shma_channel_mode mode, shma_when_full when_full) {
    shma_channel_options options = SHMA_CHANNEL_OPTIONS_INIT;
    options.slots = slots;
    options.mode = mode;
    options.when_full = when_full;
    shma_channel *channel = NULL;
    expect_ok(shma_channel_create("numbers", SHMA_INT32, 1, pair, NULL, &options, &channel, NULL));
    return channel;
}

static shma_channel *opened(void) {
    shma_channel *channel = NULL;
    expect_ok(shma_channel_open("numbers", 1, 0, &channel, NULL));
    return channel;
}

// Sends the number twice, with a text.
static uint64_t send_number(const shma_channel *channel, int32_t number, const char *meta) {
    shma_loan *loan = NULL;
    expect_ok(shma_channel_loan(channel, 0, NULL, SHMA_NO_TIMEOUT, &loan, NULL));
    int32_t *elements = shma_array_data(shma_loan_array(loan));
    elements[0] = elements[1] = number;
    uint64_t sequence = UINT64_MAX;
    expect_ok(shma_loan_publish(loan, meta, strlen(meta), &sequence, NULL));
    return sequence;
}

static shma_delivery *received(const shma_channel *channel) {
    shma_delivery *delivery = NULL;
    expect_ok(shma_channel_receive(channel, SHMA_NO_TIMEOUT, &delivery, NULL));
    return delivery;
}

static int32_t number_of(const shma_delivery *delivery) {
    const int32_t *elements = shma_array_data(shma_delivery_array(delivery));
    assert_int_equal(elements[0], elements[1]);
    return elements[0];
}

static int32_t loan_outcome(const shma_channel *channel) {
    shma_loan *loan = NULL;
    const int32_t status = shma_channel_loan(channel, 0, NULL, at_once, &loan, NULL);
    shma_loan_cancel(loan);
    return status;
}

static void a_message_arrives_with_its_facts(void **state) {
    shma_channel *sends = created(4, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK);
    shma_channel *receives = opened();
    assert_int_equal(shma_channel_dtype(receives), SHMA_INT32);
    assert_int_equal(shma_channel_ndim(receives), 1);
    assert_int_equal(shma_channel_shape(receives)[0], 2);
    assert_int_equal(shma_channel_has_handles(receives), 0);
    assert_int_equal(send_number(sends, 5, "five"), 0);
    assert_int_equal(send_number(sends, 6, ""), 1);
    shma_delivery *delivery = received(receives);
    size_t bytes = 0;
    assert_int_equal(number_of(delivery), 5);
    assert_memory_equal(shma_delivery_meta(delivery, &bytes), "five", 4);
    assert_int_equal(bytes, 4);
    assert_int_equal(shma_delivery_sequence(delivery), 0);
    assert_int_equal(shma_delivery_missed(delivery), 0);
    assert_true(shma_delivery_time_ns(delivery) > 1600000000u * UINT64_C(1000000000));
    shma_delivery_close(delivery);
    delivery = received(receives);
    assert_int_equal(shma_delivery_sequence(delivery), 1);
    shma_delivery_close(delivery);
    shma_channel_close(sends);
    shma_channel_close(receives);
}

static void a_channel_is_handed_over_by_its_handle(void **state) {
    shma_channel *sends = created(4, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK), *receives = NULL;
    char handle[512] = "", again[512] = "";
    size_t needed = 0;
    assert_int_equal(shma_channel_handle(sends, handle, 8, &needed, &error),
                     SHMA_ERROR_TEXT_TOO_SHORT);
    expect_ok(shma_channel_handle(sends, handle, needed, NULL, &error));
    assert_int_equal(strlen(handle), needed - 1);
    expect_ok(shma_channel_open(handle, 1, 0, &receives, &error));
    expect_ok(shma_channel_handle(receives, again, sizeof again, NULL, &error));
    assert_string_equal(handle, again);
    assert_int_equal(send_number(sends, 5, ""), 0);
    shma_delivery *delivery = received(receives);
    assert_int_equal(number_of(delivery), 5);
    shma_delivery_close(delivery);
    shma_array *array = NULL;
    assert_int_equal(shma_array_attach(handle, SHMA_READ_WRITE, &array, &error),
                     SHMA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(shma_channel_handle(NULL, handle, sizeof handle, NULL, &error),
                     SHMA_ERROR_INVALID_ARGUMENT);
    shma_channel_close(receives);
    shma_channel_close(sends);
    assert_int_equal(shma_channel_open(again, 1, 0, &receives, &error), SHMA_ERROR_NOT_FOUND);
}

static void outcomes_are_no_errors(void **state) {
    shma_channel *waits = created(1, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK);
    shma_delivery *delivery = NULL;
    assert_int_equal(shma_channel_receive(waits, at_once, &delivery, NULL), SHMA_TIMED_OUT);
    send_number(waits, 1, "");
    assert_int_equal(loan_outcome(waits), SHMA_TIMED_OUT);
    shma_channel_close(waits);
    shma_channel *fails = created(1, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_ERROR);
    shma_channel *receives = opened();
    send_number(fails, 1, "");
    assert_int_equal(loan_outcome(fails), SHMA_FULL);
    shma_channel_end(fails);
    assert_int_equal(loan_outcome(fails), SHMA_ERROR_INVALID_ARGUMENT);
    shma_delivery_close(received(receives));
    assert_int_equal(shma_channel_receive(receives, SHMA_NO_TIMEOUT, &delivery, NULL), SHMA_CLOSED);
    shma_channel_close(fails);
    shma_channel_close(receives);
    shma_channel *missing = NULL;
    assert_int_equal(shma_channel_open("numbers", 1, 0, &missing, NULL), SHMA_ERROR_NOT_FOUND);
    assert_int_equal(shma_channel_open("numbers", 1, 1000, &missing, NULL), SHMA_TIMED_OUT);
    assert_null(missing);
}

static void a_retained_array_keeps_the_slot(void **state) {
    shma_channel *channel = created(1, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK);
    send_number(channel, 7, "");
    shma_delivery *delivery = received(channel);
    shma_array *kept = shma_array_retain(shma_delivery_array(delivery));
    shma_delivery_close(delivery);
    assert_int_equal(loan_outcome(channel), SHMA_TIMED_OUT);
    assert_int_equal(((const int32_t *)shma_array_data(kept))[1], 7);
    shma_array_close(kept);
    expect_ok(loan_outcome(channel));
    shma_channel_close(channel);
}

static shma_array *view_of(const shma_array *array) {
    shma_array *view = NULL;
    expect_ok(shma_array_slice(array, 0, 0, 1, 1, &view, NULL));
    return view;
}

static void nothing_is_published_that_can_still_be_written(void **state) {
    shma_channel *channel = created(1, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK);
    for (int is_view = 0; is_view < 2; is_view++) {
        shma_loan *loan = NULL;
        expect_ok(shma_channel_loan(channel, 0, NULL, at_once, &loan, NULL));
        shma_array *array = shma_array_retain(shma_loan_array(loan));
        if (is_view) {
            shma_array *view = view_of(array);
            shma_array_close(array);
            array = view;
        }
        expect_failure(shma_loan_publish(loan, NULL, 0, NULL, &error), SHMA_ERROR_INVALID_ARGUMENT,
                       "retained");
        assert_int_equal(loan_outcome(channel), SHMA_TIMED_OUT);
        *(int32_t *)shma_array_data(array) = 1; // nobody's memory but ours
        shma_array_close(array);
        shma_delivery *delivery = NULL;
        assert_int_equal(shma_channel_receive(channel, at_once, &delivery, NULL), SHMA_TIMED_OUT);
    }
    shma_loan *loan = NULL;
    expect_ok(shma_channel_loan(channel, 0, NULL, at_once, &loan, NULL));
    shma_array *view = view_of(shma_loan_array(loan));
    shma_loan_cancel(loan);
    assert_int_equal(loan_outcome(channel), SHMA_TIMED_OUT);
    shma_array_close(view);
    expect_ok(shma_channel_loan(channel, 0, NULL, at_once, &loan, NULL));
    shma_array_close(view_of(shma_loan_array(loan)));
    expect_ok(shma_loan_publish(loan, NULL, 0, NULL, NULL));
    shma_delivery_close(received(channel));
    shma_channel_close(channel);
}

static void a_broadcast_goes_to_all_and_counts_what_was_missed(void **state) {
    shma_channel *sends = created(2, SHMA_CHANNEL_BROADCAST, SHMA_WHEN_FULL_DROP_OLDEST);
    shma_channel *quick = opened(), *slow = opened();
    for (int32_t number = 0; number < 5; number++) {
        send_number(sends, number, "");
        shma_delivery *delivery = received(quick);
        assert_int_equal(number_of(delivery), number);
        shma_delivery_close(delivery);
    }
    shma_delivery *late = received(slow);
    assert_int_equal(number_of(late), 3);
    assert_int_equal(shma_delivery_missed(late), 3);
    shma_delivery_close(late);
    shma_channel_close(sends);
    shma_channel_close(quick);
    shma_channel_close(slow);
}

static void one_that_opens_late_has_a_history(void **state) {
    shma_channel *sends = created(8, SHMA_CHANNEL_BROADCAST, SHMA_WHEN_FULL_BLOCK);
    for (int32_t number = 0; number < 5; number++)
        send_number(sends, number, "");
    shma_channel *late = NULL;
    expect_ok(shma_channel_open_with_history("numbers", 2, 0, &late, NULL));
    for (int32_t number = 3; number < 5; number++) {
        shma_delivery *delivery = received(late);
        assert_int_equal(number_of(delivery), number);
        assert_int_equal(shma_delivery_missed(delivery), 0);
        shma_delivery_close(delivery);
    }
    shma_channel_close(late);
    shma_error error;
    assert_int_equal(shma_channel_open_with_history("none", 2, 0, &late, &error),
                     SHMA_ERROR_NOT_FOUND);
    assert_int_equal(shma_channel_open_with_history("none", 2, 1, &late, &error), SHMA_TIMED_OUT);
    assert_int_equal(shma_channel_open_with_history(NULL, 2, 0, &late, &error),
                     SHMA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(shma_channel_open_with_history("numbers", 2, 0, NULL, &error),
                     SHMA_ERROR_INVALID_ARGUMENT);
    shma_channel_close(sends);
    sends = created(8, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK);
    assert_int_equal(shma_channel_open_with_history("numbers", 2, 0, &late, &error),
                     SHMA_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "history"));
    shma_channel_close(sends);
}

static void an_end_that_was_handed_over_counts(void **state) {
    shma_channel *receives = created(4, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK);
    shma_channel *sends = opened();
    shma_handed_over *handed_over = NULL;
    expect_ok(shma_channel_hand_over(sends, &handed_over, NULL));
    assert_true(shma_handed_over_fd(handed_over) >= 0);
    shma_channel_close(sends);
    int32_t ready = 1;
    expect_ok(shma_channel_is_ready(receives, &ready, NULL));
    assert_int_equal(ready, 0); // the stream has not ended
    expect_ok(shma_channel_open(shma_handed_over_handle(handed_over), 1, 0, &sends, NULL));
    shma_handed_over_close(handed_over);
    send_number(sends, 4, "");
    shma_channel_close(sends);
    shma_delivery *delivery = received(receives);
    assert_int_equal(number_of(delivery), 4);
    shma_delivery_close(delivery);
    assert_int_equal(shma_channel_receive(receives, SHMA_NO_TIMEOUT, &delivery, NULL), SHMA_CLOSED);

    // One that nobody opens is over with its fd.
    sends = opened();
    expect_ok(shma_channel_hand_over(sends, &handed_over, NULL));
    send_number(sends, 5, "");
    shma_channel_close(sends);
    shma_handed_over_close(handed_over);
    delivery = received(receives);
    shma_delivery_close(delivery);
    assert_int_equal(shma_channel_receive(receives, SHMA_NO_TIMEOUT, &delivery, NULL), SHMA_CLOSED);
    assert_null(shma_handed_over_handle(NULL));
    assert_int_equal(shma_handed_over_fd(NULL), -1);
    shma_handed_over_close(NULL);
    shma_error error;
    assert_int_equal(shma_channel_hand_over(NULL, &handed_over, &error),
                     SHMA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(shma_channel_hand_over(receives, NULL, &error), SHMA_ERROR_INVALID_ARGUMENT);
    shma_channel_close(receives);
}

static void the_latest_value_is_read_as_often_as_one_likes(void **state) {
    shma_channel *sends = created(3, SHMA_CHANNEL_LATEST, SHMA_WHEN_FULL_BLOCK);
    shma_channel *reads = opened();
    assert_int_equal(shma_channel_is_latest(reads), 1);
    assert_int_equal(shma_channel_wait_newer(reads, -1, 0, NULL), SHMA_TIMED_OUT);
    for (int32_t number = 0; number < 4; number++)
        send_number(sends, number, "");
    shma_delivery *first = received(reads), *again = received(reads);
    assert_int_equal(number_of(first), 3);
    assert_int_equal(number_of(again), 3);
    assert_true(shma_delivery_age_ns(first) < UINT64_C(3600000000000));
    assert_int_equal(shma_channel_wait_newer(reads, 3, 0, NULL), SHMA_TIMED_OUT);
    assert_int_equal(shma_channel_wait_newer(reads, -1, 0, NULL), SHMA_OK);
    for (int32_t number = 4; number < 10; number++)
        send_number(sends, number, "");
    assert_int_equal(shma_channel_wait_newer(reads, 3, SHMA_NO_TIMEOUT, NULL), SHMA_OK);
    assert_int_equal(number_of(first), 3);
    assert_int_equal(number_of(again), 3);
    shma_delivery_close(first);
    shma_delivery_close(again);
    shma_channel_close(sends);
    first = received(reads);
    assert_int_equal(number_of(first), 9);
    assert_int_equal(shma_delivery_missed(first), 5);
    shma_delivery_close(first);
    assert_int_equal(shma_channel_wait_newer(reads, 9, SHMA_NO_TIMEOUT, NULL), SHMA_CLOSED);
    shma_channel_close(reads);
    assert_int_equal(shma_channel_is_latest(NULL), 0);
    assert_int_equal(shma_delivery_age_ns(NULL), 0);
    shma_error error;
    assert_int_equal(shma_channel_wait_newer(NULL, 0, 0, &error), SHMA_ERROR_INVALID_ARGUMENT);
    shma_channel *queue = created(3, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK);
    assert_int_equal(shma_channel_wait_newer(queue, 0, 0, &error), SHMA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(shma_channel_is_latest(queue), 0);
    shma_channel_close(queue);
}

static void shapes_may_vary_and_arrays_may_lie_elsewhere(void **state) {
    shma_channel_options options = SHMA_CHANNEL_OPTIONS_INIT;
    options.varying = 1;
    const int64_t most[] = {4, 5}, some[] = {3, 2};
    shma_channel *channel = NULL;
    expect_ok(shma_channel_create("images", SHMA_UINT8, 2, most, NULL, &options, &channel, NULL));
    shma_loan *loan = NULL;
    expect_ok(shma_channel_loan(channel, 2, some, at_once, &loan, NULL));
    expect_ok(shma_loan_publish(loan, NULL, 0, NULL, NULL));
    shma_delivery *delivery = received(channel);
    assert_int_equal(shma_array_shape(shma_delivery_array(delivery))[1], 2);
    shma_delivery_close(delivery);
    shma_channel_close(channel);

    expect_ok(shma_channel_create_by_handle("arrays", NULL, &channel, NULL));
    assert_int_equal(shma_channel_has_handles(channel), 1);
    shma_array *array = NULL;
    expect_ok(shma_array_create(SHMA_FLOAT64, 2, most, NULL, &array, NULL));
    ((double *)shma_array_data(array))[19] = 2.5;
    uint64_t sequence = 99;
    expect_ok(shma_channel_send_array(channel, array, "x", 1, at_once, &sequence, NULL));
    assert_int_equal(sequence, 0);
    shma_array_close(array); // the message holds it
    delivery = received(channel);
    assert_true(((const double *)shma_array_data(shma_delivery_array(delivery)))[19] == 2.5);
    shma_delivery_close(delivery);
    shma_channel_close(channel);
}

static void private_memory_is_sent_with_any_strides(void **state) {
    shma_channel *channel = created(2, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK);
    const int32_t numbers[] = {1, 2, 3};
    const int64_t backwards[] = {-8}, three[] = {3};
    expect_ok(shma_channel_send(channel, numbers + 2, SHMA_INT32, 1, pair, backwards, NULL, 0,
                                at_once, NULL, NULL));
    shma_delivery *delivery = received(channel);
    const int32_t *elements = shma_array_data(shma_delivery_array(delivery));
    assert_int_equal(elements[0], 3);
    assert_int_equal(elements[1], 1);
    shma_delivery_close(delivery);
    expect_failure(shma_channel_send(channel, numbers, SHMA_INT32, 1, three, NULL, NULL, 0, at_once,
                                     NULL, &error),
                   SHMA_ERROR_INVALID_ARGUMENT, "[3]");
    assert_int_equal(shma_channel_send(channel, numbers, SHMA_FLOAT32, 1, pair, NULL, NULL, 0,
                                       at_once, NULL, &error),
                     SHMA_ERROR_DTYPE_MISMATCH);
    shma_channel_close(channel);
}

static void the_fd_is_readable_while_there_is_something(void **state) {
    shma_channel *sends = created(2, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK);
    shma_channel *receives = opened();
    int fd = -1;
    int32_t is_ready = -1;
    expect_ok(shma_channel_fd(receives, &fd, NULL));
    struct pollfd asked = {fd, POLLIN, 0};
    assert_int_equal(poll(&asked, 1, 0), 0);
    expect_ok(shma_channel_is_ready(receives, &is_ready, NULL));
    assert_int_equal(is_ready, 0);
    send_number(sends, 1, "");
    assert_int_equal(poll(&asked, 1, -1), 1);
    expect_ok(shma_channel_is_ready(receives, &is_ready, NULL));
    assert_int_equal(is_ready, 1);
    shma_delivery_close(received(receives));
    assert_int_equal(poll(&asked, 1, 0), 0);
    shma_channel_close(sends);
    shma_channel_close(receives);
}

static void a_killed_sender_is_told_apart(void **state) {
    shma_channel *receives = created(1, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK);
    const pid_t child = fork();
    if (child == 0) {
        send_number(receives, 1, "");
        raise(SIGKILL);
    }
    shma_delivery *delivery = received(receives);
    assert_int_equal(number_of(delivery), 1);
    shma_delivery_close(delivery);
    assert_int_equal(shma_channel_receive(receives, SHMA_NO_TIMEOUT, &delivery, NULL),
                     SHMA_SENDER_DIED);
    assert_int_equal(waitpid(child, NULL, 0), child);
    shma_channel_close(receives);
}

static void bad_arguments_are_refused_and_nothing_is_lost(void **state) {
    shma_channel *channel = created(1, SHMA_CHANNEL_QUEUE, SHMA_WHEN_FULL_BLOCK), *other = NULL;
    const int32_t invalid = SHMA_ERROR_INVALID_ARGUMENT;
    assert_int_equal(shma_channel_create("numbers", SHMA_INT32, 1, pair, NULL, NULL, &other, NULL),
                     SHMA_ERROR_EXISTS);
    assert_int_equal(shma_channel_create(NULL, SHMA_INT32, 1, pair, NULL, NULL, &other, NULL),
                     invalid);
    assert_int_equal(shma_channel_create("b", SHMA_INT32, 1, pair, NULL, NULL, NULL, NULL),
                     invalid);
    shma_channel_options options = SHMA_CHANNEL_OPTIONS_INIT;
    options.mode = 7;
    assert_int_equal(shma_channel_create("b", SHMA_INT32, 1, pair, NULL, &options, &other, NULL),
                     invalid);
    options.mode = SHMA_CHANNEL_QUEUE;
    options.when_full = -1;
    assert_int_equal(shma_channel_create_by_handle("b", &options, &other, NULL), invalid);
    options = (shma_channel_options)SHMA_CHANNEL_OPTIONS_INIT;
    options.struct_bytes = 12;
    assert_int_equal(shma_channel_create_by_handle("b", &options, &other, NULL), invalid);
    assert_null(other);

    shma_loan *loan = NULL;
    shma_delivery *delivery = NULL;
    assert_int_equal(shma_channel_loan(NULL, 0, NULL, at_once, &loan, NULL), invalid);
    assert_int_equal(shma_channel_loan(channel, 0, NULL, at_once, NULL, NULL), invalid);
    assert_int_equal(shma_channel_receive(NULL, at_once, &delivery, NULL), invalid);
    assert_int_equal(shma_channel_receive(channel, at_once, NULL, NULL), invalid);
    assert_int_equal(shma_channel_send_array(channel, NULL, NULL, 0, at_once, NULL, NULL), invalid);
    assert_int_equal(
        shma_channel_send(channel, NULL, SHMA_INT32, 1, pair, NULL, NULL, 0, at_once, NULL, NULL),
        invalid);
    assert_int_equal(shma_channel_fd(NULL, NULL, NULL), invalid);
    assert_int_equal(shma_channel_is_ready(channel, NULL, NULL), invalid);
    assert_int_equal(shma_loan_publish(NULL, NULL, 0, NULL, NULL), invalid);
    expect_ok(shma_channel_loan(channel, 0, NULL, at_once, &loan, NULL));
    char meta[65] = {0};
    expect_failure(shma_loan_publish(loan, meta, sizeof meta, NULL, &error), invalid, "65");
    expect_ok(loan_outcome(channel)); // that slot came back

    assert_null(shma_loan_array(NULL));
    assert_null(shma_delivery_array(NULL));
    assert_null(shma_delivery_meta(NULL, NULL));
    assert_int_equal(shma_delivery_sequence(NULL) + shma_delivery_time_ns(NULL), 0);
    assert_int_equal(shma_delivery_missed(NULL) + shma_channel_ndim(NULL), 0);
    assert_int_equal(shma_channel_dtype(NULL), SHMA_OPAQUE);
    assert_int_equal(shma_channel_has_handles(NULL), 0);
    assert_null(shma_channel_shape(NULL));
    shma_loan_cancel(NULL);
    shma_delivery_close(NULL);
    shma_channel_end(NULL);
    shma_channel_close(NULL);
    shma_channel_close(channel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_message_arrives_with_its_facts),
        TEST(a_channel_is_handed_over_by_its_handle),
        TEST(outcomes_are_no_errors),
        TEST(a_retained_array_keeps_the_slot),
        TEST(nothing_is_published_that_can_still_be_written),
        TEST(a_broadcast_goes_to_all_and_counts_what_was_missed),
        TEST(one_that_opens_late_has_a_history),
        TEST(an_end_that_was_handed_over_counts),
        TEST(the_latest_value_is_read_as_often_as_one_likes),
        TEST(shapes_may_vary_and_arrays_may_lie_elsewhere),
        TEST(private_memory_is_sent_with_any_strides),
        TEST(the_fd_is_readable_while_there_is_something),
        TEST(a_killed_sender_is_told_apart),
        TEST(bad_arguments_are_refused_and_nothing_is_lost),
    };
    return cmocka_run_group_tests_name("channels", tests, NULL, NULL);
}
