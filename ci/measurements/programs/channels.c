/* Measures channels in C: prints the seconds of one message as a line of JSON.
 *
 *     channels ask|answer NAME BYTES COUNT poll|block
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <shmarray.h>

enum { warm_up = 100 };

static void must(shma_status status, const shma_error *error) {
    if (status == SHMA_OK)
        return;
    fprintf(stderr, "%s: %s\n", shma_status_name(status), error->message);
    exit(1);
}

static shma_channel *channel_of(const char *name, const char *part, const int64_t *bytes) {
    shma_error error = SHMA_ERROR_INIT;
    char whole[100];
    shma_channel *channel;
    snprintf(whole, sizeof whole, "%s.%s", name, part);
    if (bytes) {
        shma_channel_options options = SHMA_CHANNEL_OPTIONS_INIT;
        options.slots = 4;
        must(shma_channel_create(whole, SHMA_UINT8, 1, bytes, NULL, &options, &channel, &error),
             &error);
    } else {
        must(shma_channel_open(whole, 1, SHMA_NO_TIMEOUT, &channel, &error), &error);
    }
    return channel;
}

static void send_one(const shma_channel *channel, unsigned char first) {
    shma_error error = SHMA_ERROR_INIT;
    shma_loan *loan;
    must(shma_channel_loan(channel, 0, NULL, SHMA_NO_TIMEOUT, &loan, &error), &error);
    *(unsigned char *)shma_array_data(shma_loan_array(loan)) = first;
    must(shma_loan_publish(loan, NULL, 0, NULL, &error), &error);
}

/* Returns the first byte, or -1 at the end of the stream. */
static int receive_one(const shma_channel *channel, int64_t timeout_ns) {
    shma_error error = SHMA_ERROR_INIT;
    shma_delivery *delivery;
    shma_status status;
    do
        status = shma_channel_receive(channel, timeout_ns, &delivery, &error);
    while (status == SHMA_TIMED_OUT);
    if (status > SHMA_OK)
        return -1;
    must(status, &error);
    const int first = *(const unsigned char *)shma_array_data(shma_delivery_array(delivery));
    shma_delivery_close(delivery);
    return first;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void ask(const char *name, int64_t bytes, long count, int64_t timeout_ns) {
    shma_channel *there = channel_of(name, "there", &bytes);
    shma_channel *back = channel_of(name, "back", &bytes);
    printf("\"ready\"\n");
    fflush(stdout);
    double began = 0;
    for (long number = -warm_up; number < count; number++) {
        if (number == 0)
            began = now();
        send_one(there, (unsigned char)number);
        if (receive_one(back, timeout_ns) != (unsigned char)number)
            exit(2);
    }
    printf("%.9f\n", (now() - began) / (double)count);
    shma_channel_close(there);
    shma_channel_close(back);
}

static void answer(const char *name, int64_t timeout_ns) {
    shma_channel *there = channel_of(name, "there", NULL);
    shma_channel *back = channel_of(name, "back", NULL);
    for (int first; (first = receive_one(there, timeout_ns)) >= 0;)
        send_one(back, (unsigned char)first);
    shma_channel_close(there);
    shma_channel_close(back);
}

int main(int count, char **arguments) {
    if (count < 5)
        return 1;
    const int64_t timeout_ns = strcmp(arguments[count - 1], "poll") == 0 ? 0 : SHMA_NO_TIMEOUT;
    if (strcmp(arguments[1], "ask") == 0)
        ask(arguments[2], atoll(arguments[3]), atol(arguments[4]), timeout_ns);
    else
        answer(arguments[2], timeout_ns);
    return 0;
}
