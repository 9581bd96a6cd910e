// The C driver: one command a line, one answer a line. README.md has the commands.
#define _GNU_SOURCE
#include <complex.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shmarray.h>

// The longest line: a handle whose dtype has the longest text allowed.
enum { LINE_BYTES = 1 << 17, WARM_UP = 100, MOST_ARRAYS = 4096, MOST_WORDS = 6 };
static const int64_t longest_ns = 5000000;

static char line[LINE_BYTES], text[LINE_BYTES];
static shma_channel *published, *common[3]; // of each shma_channel_mode
static shma_pipe *out_pipe, *in_pipe;
static shma_error error;

// The arrays by key, each with the value of all its elements; 0 stands for none.
static struct entry {
    char key[16];
    shma_array *array;
    int64_t value;
} entries[MOST_ARRAYS];
static struct entry *last_entry = entries;

// The pattern's numbers are exact, normal and not zero in binary16, so nothing rounds.
static uint16_t half_of(double value) {
    int exponent = 0;
    const double fraction = frexp(fabs(value), &exponent);
    const unsigned sign = value < 0 ? 0x8000U : 0;
    return (uint16_t)(sign | (unsigned)(exponent + 14) << 10 |
                      ((unsigned)ldexp(fraction, 11) & 0x3ffU));
}

static uint16_t bfloat16_of(double value) {
    const float narrow = (float)value;
    uint32_t bits = 0;
    memcpy(&bits, &narrow, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static double real_part(int64_t k) { return (double)k / 2 - 3.25; }

static double imaginary_part(int64_t k) { return 2.5 - (double)k; }

static uint32_t pair_of(uint16_t (*narrow)(double), int64_t k) {
    return (uint32_t)narrow(imaginary_part(k)) << 16 | narrow(real_part(k));
}

// The lowest bits of a number, as ml_dtypes stores integers of fewer than eight.
static uint8_t low_bits(int64_t number, unsigned count) {
    return (uint8_t)((uint64_t)number & ((1U << count) - 1));
}

// Each dtype: its number, its text, its C type, pattern(k). C has no type for those that are named:
// the bits are. A float of a byte is 1 or 2, which have the given bits.
#define DTYPES(ROW)                                                                                \
    ROW(SHMA_BOOL, "|b1", bool, k % 3 == 0)                                                        \
    ROW(SHMA_INT8, "|i1", int8_t, 7 * k + 3 - 20)                                                  \
    ROW(SHMA_INT16, "<i2", int16_t, 7 * k + 3 - 20)                                                \
    ROW(SHMA_INT32, "<i4", int32_t, 7 * k + 3 - 20)                                                \
    ROW(SHMA_INT64, "<i8", int64_t, 7 * k + 3 - 20)                                                \
    ROW(SHMA_UINT8, "|u1", uint8_t, 7 * k + 3)                                                     \
    ROW(SHMA_UINT16, "<u2", uint16_t, 7 * k + 3)                                                   \
    ROW(SHMA_UINT32, "<u4", uint32_t, 7 * k + 3)                                                   \
    ROW(SHMA_UINT64, "<u8", uint64_t, 7 * k + 3)                                                   \
    ROW(SHMA_FLOAT16, "<f2", uint16_t, half_of(real_part(k)))                                      \
    ROW(SHMA_FLOAT32, "<f4", float, real_part(k))                                                  \
    ROW(SHMA_FLOAT64, "<f8", double, real_part(k))                                                 \
    ROW(SHMA_COMPLEX64, "<c8", float complex, real_part(k) + imaginary_part(k) * I)                \
    ROW(SHMA_COMPLEX128, "<c16", double complex, real_part(k) + imaginary_part(k) * I)             \
    ROW(SHMA_BFLOAT16, "bfloat16", uint16_t, bfloat16_of(real_part(k)))                            \
    ROW(SHMA_COMPLEX32, "complex32", uint32_t, pair_of(half_of, k))                                \
    ROW(SHMA_BCOMPLEX32, "bcomplex32", uint32_t, pair_of(bfloat16_of, k))                          \
    ROW(SHMA_FLOAT8_E3M4, "float8_e3m4", uint8_t, k % 2 ? 0x40 : 0x30)                             \
    ROW(SHMA_FLOAT8_E4M3, "float8_e4m3", uint8_t, k % 2 ? 0x40 : 0x38)                             \
    ROW(SHMA_FLOAT8_E4M3FN, "float8_e4m3fn", uint8_t, k % 2 ? 0x40 : 0x38)                         \
    ROW(SHMA_FLOAT8_E4M3FNUZ, "float8_e4m3fnuz", uint8_t, k % 2 ? 0x48 : 0x40)                     \
    ROW(SHMA_FLOAT8_E4M3B11FNUZ, "float8_e4m3b11fnuz", uint8_t, k % 2 ? 0x60 : 0x58)               \
    ROW(SHMA_FLOAT8_E5M2, "float8_e5m2", uint8_t, k % 2 ? 0x40 : 0x3c)                             \
    ROW(SHMA_FLOAT8_E5M2FNUZ, "float8_e5m2fnuz", uint8_t, k % 2 ? 0x44 : 0x40)                     \
    ROW(SHMA_FLOAT8_E8M0FNU, "float8_e8m0fnu", uint8_t, k % 2 ? 0x80 : 0x7f)                       \
    ROW(SHMA_FLOAT6_E2M3FN, "float6_e2m3fn", uint8_t, k % 2 ? 0x10 : 0x08)                         \
    ROW(SHMA_FLOAT6_E3M2FN, "float6_e3m2fn", uint8_t, k % 2 ? 0x10 : 0x0c)                         \
    ROW(SHMA_FLOAT4_E2M1FN, "float4_e2m1fn", uint8_t, k % 2 ? 0x04 : 0x02)                         \
    ROW(SHMA_INT1, "int1", uint8_t, low_bits(7 * k + 3 - 20, 1))                                   \
    ROW(SHMA_INT2, "int2", uint8_t, low_bits(7 * k + 3 - 20, 2))                                   \
    ROW(SHMA_INT4, "int4", uint8_t, low_bits(7 * k + 3 - 20, 4))                                   \
    ROW(SHMA_UINT1, "uint1", uint8_t, low_bits(7 * k + 3, 1))                                      \
    ROW(SHMA_UINT2, "uint2", uint8_t, low_bits(7 * k + 3, 2))                                      \
    ROW(SHMA_UINT4, "uint4", uint8_t, low_bits(7 * k + 3, 4))                                      \
    ROW(SHMA_FLOAT8_E5M3FNU, "float8_e5m3fnu", uint8_t, k % 2 ? 0x80 : 0x78)

#define NUMBER_AND_TEXT(number, text, type, pattern) {number, text},
static const struct {
    shma_dtype dtype;
    const char *text;
} dtypes[] = {DTYPES(NUMBER_AND_TEXT)};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };
_Static_assert(DTYPE_COUNT == SHMA_DTYPE_COUNT, "a dtype of shmarray.h has no row in DTYPES");

static void store(shma_dtype dtype, void *at, int64_t k) {
    switch (dtype) {
#define STORE(number, text, type, pattern)                                                         \
    case number:                                                                                   \
        *(type *)at = (type)(pattern);                                                             \
        break;
        DTYPES(STORE)
    }
}

static bool is_pattern(shma_dtype dtype, const void *at, int64_t k) {
    switch (dtype) {
#define IS_PATTERN(number, text, type, pattern)                                                    \
    case number:                                                                                   \
        return *(const type *)at == (type)(pattern);
        DTYPES(IS_PATTERN)
    }
    return false;
}

// The element that is `k`th in C order: strides from the first one.
static unsigned char *element(const shma_array *array, size_t k) {
    const int64_t *shape = shma_array_shape(array), *strides = shma_array_strides(array);
    unsigned char *at = shma_array_data(array);
    for (size_t dimension = shma_array_ndim(array); dimension-- > 0;) {
        at += (int64_t)(k % (size_t)shape[dimension]) * strides[dimension];
        k /= (size_t)shape[dimension];
    }
    return at;
}

static void say_hex(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        printf("%02x", bytes[i]);
}

static void say_numbers(const int64_t *numbers, size_t count) {
    fputs(count ? " " : " -", stdout);
    for (size_t i = 0; i < count; i++)
        printf("%s%lld", i ? "," : "", (long long)numbers[i]);
}

static void say_error(void) {
    printf("error %s %s", shma_status_name(error.status), error.message);
}

static void refuse(int32_t status, const char *message) {
    error.status = status;
    snprintf(error.message, sizeof error.message, "%s", message);
    say_error();
}

static struct entry *entry_of(const char *key) {
    for (struct entry *entry = entries; entry < last_entry; entry++)
        if (strcmp(entry->key, key) == 0)
            return entry;
    return NULL;
}

static void say_handle_of(const shma_array *array) {
    if (shma_array_handle(array, text, sizeof text, NULL, &error))
        say_error();
    else
        printf("ok %s", text);
}

// Keeps the new array before it closes the old one of this key: they may be the same segment.
static void keep(const char *key, shma_array *array, int64_t value) {
    struct entry *entry = entry_of(key);
    if (!entry) {
        entry = last_entry++;
        snprintf(entry->key, sizeof entry->key, "%s", key);
        entry->array = NULL;
    }
    shma_array_close(entry->array);
    entry->array = array;
    entry->value = value;
}

static void drop_entry(struct entry *entry) {
    shma_array_close(entry->array);
    *entry = *--last_entry;
}

// `*array` becomes a view of it; NULL stays NULL, and a failure makes it NULL.
static void slice(shma_array **array, size_t dimension, int64_t step) {
    shma_array *view = NULL;
    if (*array && shma_array_slice(*array, dimension, SHMA_END, SHMA_END, step, &view, &error))
        view = NULL;
    shma_array_close(*array);
    *array = view;
}

static void transpose(shma_array **array) {
    shma_array *view = NULL;
    if (*array && shma_array_transpose(*array, NULL, &view, &error))
        view = NULL;
    shma_array_close(*array);
    *array = view;
}

static shma_array *make_layout(shma_dtype dtype, const char *layout) {
    static const struct {
        const char *layout;
        size_t ndim;
        int64_t shape[3];
    } made_from[] = {
        {"c", 3, {2, 3, 4}},        {"f", 3, {2, 3, 4}},          {"strided", 3, {4, 6, 4}},
        {"reversed", 3, {2, 3, 4}}, {"transposed", 3, {4, 3, 2}}, {"scalar", 0, {0}},
        {"empty", 2, {0, 3}},
    };
    shma_options options = SHMA_OPTIONS_INIT;
    shma_array *array = NULL;
    options.order = strcmp(layout, "f") == 0 ? SHMA_ORDER_F : SHMA_ORDER_C;
    for (size_t row = 0; row < sizeof made_from / sizeof *made_from; row++)
        if (strcmp(layout, made_from[row].layout) == 0 &&
            shma_array_create(dtype, made_from[row].ndim, made_from[row].shape, &options, &array,
                              &error))
            return NULL;
    if (strcmp(layout, "strided") == 0) {
        slice(&array, 0, 2);
        slice(&array, 1, 2);
    } else if (strcmp(layout, "reversed") == 0) {
        slice(&array, 0, -1);
        slice(&array, 2, -1);
    } else if (strcmp(layout, "transposed") == 0) {
        transpose(&array);
    }
    return array;
}

static shma_dtype dtype_of(const char *name) {
    for (size_t row = 0; row < DTYPE_COUNT; row++)
        if (strcmp(name, dtypes[row].text) == 0)
            return dtypes[row].dtype;
    return SHMA_OPAQUE;
}

static void fill_pattern(const shma_array *array) {
    for (size_t k = 0; k < shma_array_size(array); k++)
        store(shma_array_dtype(array), element(array, k), (int64_t)k);
}

// Writes the first element last: where it is there, all are.
static void fill(const shma_array *array, int64_t value) {
    volatile int64_t *data = shma_array_data(array);
    for (size_t k = shma_array_size(array); k-- > 0;)
        data[k] = value;
}

static bool is_all(const shma_array *array, int64_t value) {
    const int64_t *data = shma_array_data(array);
    const int64_t step = shma_array_strides(array)[0] / (int64_t)sizeof *data;
    for (size_t k = 0; k < shma_array_size(array); k++)
        if (data[(int64_t)k * step] != value)
            return false;
    return true;
}

// Compares one element with pattern(number); says `bad` and returns false when it differs.
static bool is_right(const shma_array *array, size_t k, int64_t number) {
    if (is_pattern(shma_array_dtype(array), element(array, k), number))
        return true;
    printf("bad %zu ", k);
    say_hex(element(array, k), shma_array_itemsize(array));
    return false;
}

static void compare_array(const shma_array *array) {
    const size_t size = shma_array_size(array);
    for (size_t k = 0; k < size; k++)
        if (!is_right(array, k, (int64_t)k))
            return;
    printf("ok %zu", size);
}

static shma_access access_of(const char *name) {
    return strcmp(name, "ro") == 0 ? SHMA_READ_ONLY : SHMA_READ_WRITE;
}

// The answer of a call that has no other result.
static void say_status(shma_status status) {
    if (status < 0)
        say_error();
    else
        fputs(status == SHMA_OK ? "ok" : "none", stdout);
}

static void say_errno(bool done) {
    if (done)
        fputs("ok", stdout);
    else
        perror("error"), fputs("error errno", stdout);
}

// Each command has the words of its line, without the first; `w[n]` is "" if there are fewer. Some
// need none.
#pragma GCC diagnostic ignored "-Wunused-parameter"
typedef char *const *words;

static void hello(words w) { printf("ok c %s", shma_version()); }

static void say_dtypes(words w) {
    fputs("ok", stdout);
    for (size_t row = 0; row < DTYPE_COUNT; row++)
        printf(" %s", dtypes[row].text);
}

static void create(words w) {
    const shma_dtype dtype = dtype_of(w[1]);
    if (dtype == SHMA_OPAQUE) {
        refuse(SHMA_ERROR_INVALID_DTYPE, "C has no elements of that dtype");
        return;
    }
    shma_array *array = make_layout(dtype, w[2]);
    if (!array) {
        say_error();
        return;
    }
    fill_pattern(array);
    keep(w[0], array, 0);
    say_handle_of(array);
}

static void attach(words w) {
    shma_array *array = NULL;
    if (shma_array_attach(w[2], access_of(w[1]), &array, &error)) {
        say_error();
        return;
    }
    keep(w[0], array, 0);
    shma_array_dtype_text(array, text, sizeof text, NULL, NULL);
    printf("ok %s", text);
    say_numbers(shma_array_shape(array), shma_array_ndim(array));
    say_numbers(shma_array_strides(array), shma_array_ndim(array));
}

static void publish(words w) {
    const int64_t shape[] = {2, 3, 4};
    shma_loan *loan = NULL;
    shma_channel_close(published);
    published = NULL;
    if (shma_channel_create(w[0], dtype_of(w[1]), 3, shape, NULL, NULL, &published, &error) ||
        shma_channel_loan(published, 0, NULL, SHMA_NO_TIMEOUT, &loan, &error)) {
        say_error();
        return;
    }
    fill_pattern(shma_loan_array(loan));
    if (shma_loan_publish(loan, w[1], strlen(w[1]), NULL, &error) ||
        shma_channel_handle(published, text, sizeof text, NULL, &error))
        say_error();
    else
        printf("ok %s", text);
}

static void receive(words w) {
    shma_channel *channel = NULL;
    shma_delivery *delivery = NULL;
    if (shma_channel_open(w[0], 1, 0, &channel, &error) ||
        shma_channel_receive(channel, SHMA_NO_TIMEOUT, &delivery, &error)) {
        say_error();
    } else {
        size_t bytes = 0;
        const char *meta = shma_delivery_meta(delivery, &bytes);
        compare_array(shma_delivery_array(delivery));
        printf(" %.*s", (int)bytes, meta);
    }
    shma_delivery_close(delivery);
    shma_channel_close(channel);
}

static void make(words w) {
    const int64_t count = atoll(w[1]), value = atoll(w[2]);
    shma_options options = SHMA_OPTIONS_INIT;
    shma_array *array = NULL;
    if (*w[3] && strcmp(w[3], "-") != 0)
        options.name = w[3];
    options.mode = (uint32_t)strtoul(w[4], NULL, 8);
    options.persist = *w[5] == '1';
    if (shma_array_create(SHMA_INT64, 1, &count, &options, &array, &error)) {
        say_error();
        return;
    }
    if (value != 0)
        fill(array, value);
    keep(w[0], array, value);
    say_handle_of(array);
}

static void share(words w) {
    const int64_t count = atoll(w[1]), value = atoll(w[2]), strides = 2 * sizeof value;
    int64_t *mine = malloc(sizeof *mine * (size_t)(2 * count));
    shma_array *array = NULL;
    for (int64_t k = 0; k < 2 * count; k++)
        mine[k] = value;
    if (shma_array_share(mine, SHMA_INT64, 1, &count, &strides, NULL, &array, &error)) {
        say_error();
    } else {
        keep(w[0], array, value);
        say_handle_of(array);
    }
    free(mine);
}

// `view KEY OTHER`: every second element of the other array, from the second on.
static void view(words w) {
    const struct entry *other = entry_of(w[1]);
    shma_array *array = NULL;
    if (!other)
        refuse(SHMA_ERROR_INVALID_ARGUMENT, "no such array is held");
    else if (shma_array_slice(other->array, 0, 1, SHMA_END, 2, &array, &error))
        say_error();
    else
        keep(w[0], array, 0), say_handle_of(array);
}

static void check(words w) {
    size_t right = 0, wrong = 0;
    for (const struct entry *entry = entries; entry < last_entry; entry++) {
        if (entry->value == 0)
            continue;
        if (is_all(entry->array, entry->value))
            right++;
        else
            printf("%s %s", wrong++ ? "" : "bad", entry->key);
    }
    if (wrong == 0)
        printf("ok %zu", right);
}

static void drop(words w) {
    if (!*w[0]) {
        while (last_entry > entries)
            drop_entry(last_entry - 1);
        shma_channel_close(published);
        published = NULL;
        for (int mode = SHMA_CHANNEL_QUEUE; mode <= SHMA_CHANNEL_LATEST; mode++) {
            shma_channel_close(common[mode]);
            common[mode] = NULL;
        }
    }
    for (int i = 0; i < MOST_WORDS && *w[i]; i++)
        if (entry_of(w[i]))
            drop_entry(entry_of(w[i]));
    fputs("ok", stdout);
}

static void unlink_name(words w) { say_status(shma_segment_unlink(w[0], &error)); }

static void discard(words w) { say_status(shma_handle_discard(w[0], &error)); }

static void sweep(words w) {
    uint64_t segments = 0;
    if (shma_sweep(&segments, NULL, &error))
        say_error();
    else
        printf("ok %" PRIu64, segments);
}

static void list_segments(words w) {
    shma_segment_list *list = NULL;
    if (shma_segment_list_create(&list, &error)) {
        say_error();
        return;
    }
    fputs("ok", stdout);
    for (size_t index = 0; index < shma_segment_list_count(list); index++) {
        const shma_segment_info *info = shma_segment_list_get(list, index);
        if (info->kind == SHMA_SEGMENT_ARRAY)
            printf(" %s", info->name ? info->name : "-");
    }
    shma_segment_list_close(list);
}

// Messages.
static void take_pipes(words w) {
    if (shma_pipe_from_fd(atoi(w[0]), &out_pipe, &error) ||
        shma_pipe_from_fd(atoi(w[1]), &in_pipe, &error))
        say_error();
    else
        fputs("ok", stdout);
}

static void send_arrays(words w) {
    shma_array *arrays[MOST_WORDS];
    size_t count = 0, used = 0;
    for (int i = 0; i < MOST_WORDS && *w[i]; i++) {
        const struct entry *entry = entry_of(w[i]);
        if (!entry || entry->value == 0)
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%" PRId64 " ", entry->value);
        arrays[count++] = entry->array;
    }
    say_status(shma_pipe_send(out_pipe, arrays, count, text, used, longest_ns, &error));
}

static void take(words w) {
    shma_message *message = NULL;
    const shma_status status = shma_pipe_receive(in_pipe, longest_ns, &message, &error);
    if (status != SHMA_OK) {
        say_status(status);
        return;
    }
    size_t bytes = 0;
    const char *payload = shma_message_payload(message, &bytes);
    snprintf(text, sizeof text, "%.*s", (int)bytes, payload);
    const size_t count = shma_message_count(message);
    char *values = text;
    for (size_t index = 0; index < count && *w[0] != '-'; index++) {
        const int64_t value = strtoll(values, &values, 10);
        shma_array *array = NULL;
        if (shma_message_array(message, index, access_of(w[1]), &array, &error)) {
            say_error();
            goto done;
        }
        if (!is_all(array, value)) {
            printf("bad %zu", index);
            shma_array_close(array);
            goto done;
        }
        keep(w[0], array, value);
    }
    printf("ok %zu", count);
done:
    shma_message_close(message);
}

static bool open_common(shma_channel_mode mode) {
    static const char *const names[] = {"common-queue", "common-broadcast", "common-latest"};
    const int64_t shape[] = {2000};
    shma_channel_options options = SHMA_CHANNEL_OPTIONS_INIT;
    options.slots = 5;
    options.exist_ok = 1;
    options.mode = mode;
    if (mode == SHMA_CHANNEL_BROADCAST)
        options.when_full = SHMA_WHEN_FULL_DROP_OLDEST;
    return common[mode] || shma_channel_create(names[mode], SHMA_INT64, 1, shape, NULL, &options,
                                               &common[mode], &error) == SHMA_OK;
}

// Sends a value, or receives one where it is 0.
static void use_channel(words w) {
    const shma_channel_mode mode = strcmp(w[0], "queue") == 0       ? SHMA_CHANNEL_QUEUE
                                   : strcmp(w[0], "broadcast") == 0 ? SHMA_CHANNEL_BROADCAST
                                                                    : SHMA_CHANNEL_LATEST;
    shma_loan *loan = NULL;
    shma_delivery *delivery = NULL;
    if (!open_common(mode)) {
        say_error();
        return;
    }
    if (strcmp(w[1], "0") != 0) {
        shma_status status = shma_channel_loan(common[mode], 0, NULL, longest_ns, &loan, &error);
        if (status == SHMA_OK) {
            fill(shma_loan_array(loan), atoll(w[1]));
            status = shma_loan_publish(loan, w[1], strlen(w[1]), NULL, &error);
        }
        say_status(status);
        if (status == SHMA_OK)
            fputs(" 0", stdout);
        return;
    }
    const shma_status status = shma_channel_receive(common[mode], longest_ns, &delivery, &error);
    if (status != SHMA_OK) {
        say_status(status);
        return;
    }
    size_t bytes = 0;
    const char *meta = shma_delivery_meta(delivery, &bytes);
    snprintf(text, sizeof text, "%.*s", (int)bytes, meta);
    fputs(is_all(shma_delivery_array(delivery), atoll(text)) ? "ok 1" : "bad 0", stdout);
    shma_delivery_close(delivery);
}

// Processes.
//
// Forks a process that goes on alone: the host adopts it.
static void fork_child(words w) {
    int status = -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child > 0) {
        say_errno(waitpid(child, &status, 0) == child && status == 0);
        return;
    }
    if (fork() > 0)
        _exit(0);
    dup2(open(w[0], O_RDONLY), 0);
    dup2(open(w[1], O_WRONLY), 1);
    printf("ok %d", getpid());
}

static void begin_session(words w) { say_errno(setsid() > 0); }

static void set_directory(words w) { say_errno(setenv("SHMARRAY_DIR", w[0], 1) == 0); }

static void become_user(words w) {
    const uid_t id = (uid_t)atoi(w[0]);
    say_errno(setgroups(0, NULL) == 0 && setgid(id) == 0 && setuid(id) == 0);
}

static void close_fds(words w) {
    for (int fd = atoi(w[0]); fd < 4096; fd++)
        close(fd);
    fputs("ok", stdout);
}

static atomic_bool stopped;
static atomic_long rounds;

static bool made_attached_and_dropped(void) {
    const int64_t count = 1000;
    char handle[2048];
    shma_array *own = NULL, *again = NULL;
    bool is_well = !shma_array_create(SHMA_INT64, 1, &count, NULL, &own, NULL) &&
                   !shma_array_handle(own, handle, sizeof handle, NULL, NULL) &&
                   !shma_array_attach(handle, SHMA_READ_ONLY, &again, NULL);
    if (is_well) {
        ((int64_t *)shma_array_data(own))[999] = 7;
        is_well = ((const int64_t *)shma_array_data(again))[999] == 7;
    }
    shma_array_close(own);
    shma_array_close(again);
    return is_well;
}

// Works until it is stopped, or cannot: an exit of the process takes its arrays away.
static void *work_in_thread(void *unused) {
    static char failed;
    while (!stopped) {
        if (!made_attached_and_dropped())
            return &failed;
        rounds++;
    }
    return NULL;
}

// Starts so many threads; 0 stops them.
static void set_threads(words w) {
    static pthread_t threads[8];
    static int started;
    const int count = atoi(w[0]);
    bool is_well = true;
    stopped = count == 0;
    for (; count == 0 && started > 0; started--) {
        void *failed;
        pthread_join(threads[started - 1], &failed);
        is_well &= !failed;
    }
    for (; started < count; started++)
        pthread_create(&threads[started], NULL, work_in_thread, NULL);
    fputs(is_well ? "ok" : "error thread", stdout);
}

static void say_rounds(words w) { printf("ok %ld", rounds); }

static void spawn_cat(words w) {
    snprintf(text, sizeof text, "cat <%s >%s &", w[0], w[1]);
    say_errno(system(text) == 0);
}

static void exec_program(words w) {
    execlp(w[0], w[0], (char *)NULL);
    fputs("error errno", stdout);
}

static void end(words w) {
    if (strcmp(w[0], "exit") == 0)
        exit(0);
    if (strcmp(w[0], "quick_exit") == 0)
        quick_exit(0);
    if (strcmp(w[0], "kill") == 0)
        raise(SIGKILL);
    if (strcmp(w[0], "abort") == 0)
        abort();
    _exit(0);
}

// Measurements: the loops are timed here.
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void must(shma_status status) {
    if (status == SHMA_OK)
        return;
    fprintf(stderr, "%s: %s\n", shma_status_name(status), error.message);
    exit(1);
}

// Not cleared: clearing is a memset of the size.
static void create_and_close(int64_t bytes, int count) {
    shma_options options = SHMA_OPTIONS_INIT;
    options.uninitialized = 1;
    for (int i = 0; i < count; i++) {
        shma_array *array;
        must(shma_array_create(SHMA_UINT8, 1, &bytes, &options, &array, &error));
        shma_array_close(array);
    }
}

static void time_create(words w) {
    const int64_t bytes = atoll(w[0]);
    const int count = atoi(w[1]);
    create_and_close(bytes, count / 10 + 1);
    const double began = now();
    create_and_close(bytes, count);
    printf("ok %.9f", (now() - began) / count);
}

static shma_array *attached(const char *handle) {
    shma_array *array;
    must(shma_array_attach(handle, SHMA_READ_WRITE, &array, &error));
    return array;
}

static double attach_all(char **handles, shma_array **arrays, size_t count) {
    const double began = now();
    for (size_t i = 0; i < count; i++)
        arrays[i] = attached(handles[i]);
    return (now() - began) / (double)count;
}

static double attach_held(const char *handle, int count) {
    const double began = now();
    for (int i = 0; i < count; i++)
        shma_array_close(attached(handle));
    return (now() - began) / count;
}

static size_t read_handles(const char *path, char **handles, size_t most) {
    FILE *file = fopen(path, "r");
    size_t count = 0;
    while (file && count < most && fgets(text, sizeof text, file)) {
        text[strcspn(text, "\n")] = 0;
        handles[count++] = strdup(text);
    }
    if (file)
        fclose(file);
    return count;
}

// The first handle is attached before the clock starts: it pays for what is done once.
static void time_attach(words w) {
    enum { MOST = 1024 };
    char *handles[MOST];
    shma_array *arrays[MOST];
    const size_t count = read_handles(w[1], handles, MOST);
    arrays[0] = attached(handles[0]);
    const double cold = attach_all(handles + 1, arrays + 1, count - 1);
    const double held = attach_held(handles[1], atoi(w[0]));
    for (size_t i = 1; i < count; i++)
        shma_array_close(arrays[i]);
    const double again = attach_all(handles + 1, arrays + 1, count - 1);
    for (size_t i = 0; i < count; i++) {
        shma_array_close(arrays[i]);
        free(handles[i]);
    }
    printf("ok %.9f %.9f %.9f", cold, held, again);
}

// Finds so many items of a list, in an order that no cache foresees.
static void time_items(words w) {
    const size_t rounds = (size_t)atoll(w[0]);
    shma_list *list;
    must(shma_list_attach(w[1], &list, &error));
    const shma_column *items = shma_list_items(list);
    const size_t count = shma_column_count(items);
    const void *data;
    size_t at = 0, bytes = 0, all = 0;
    for (size_t k = 0; k < count; k++) // the pages are mapped before the clock starts
        must(shma_column_item(items, k, &data, &bytes, &error));
    const double began = now();
    for (size_t k = 0; k < rounds; k++) {
        at = (at + 7919 * (k % 13 + 1)) % count;
        must(shma_column_item(items, at, &data, &bytes, &error));
        all += bytes;
    }
    printf("ok %.12f %zu", (now() - began) / (double)rounds, all);
    shma_list_close(list);
}

// One of the two channels of a measurement; `bytes` makes it.
static shma_channel *channel_of(const char *name, const char *part, const int64_t *bytes) {
    char whole[100];
    shma_channel *channel;
    shma_channel_options options = SHMA_CHANNEL_OPTIONS_INIT;
    options.slots = 4;
    snprintf(whole, sizeof whole, "%s.%s", name, part);
    if (bytes)
        must(shma_channel_create(whole, SHMA_UINT8, 1, bytes, NULL, &options, &channel, &error));
    else
        must(shma_channel_open(whole, 1, SHMA_NO_TIMEOUT, &channel, &error));
    return channel;
}

static void send_first(const shma_channel *channel, unsigned char first) {
    shma_loan *loan;
    must(shma_channel_loan(channel, 0, NULL, SHMA_NO_TIMEOUT, &loan, &error));
    *(unsigned char *)shma_array_data(shma_loan_array(loan)) = first;
    must(shma_loan_publish(loan, NULL, 0, NULL, &error));
}

// Returns the first byte, or -1 at the end of the stream.
static int receive_first(const shma_channel *channel, int64_t timeout_ns) {
    shma_delivery *delivery;
    shma_status status;
    do
        status = shma_channel_receive(channel, timeout_ns, &delivery, &error);
    while (status == SHMA_TIMED_OUT);
    if (status > SHMA_OK)
        return -1;
    must(status);
    const int first = *(const unsigned char *)shma_array_data(shma_delivery_array(delivery));
    shma_delivery_close(delivery);
    return first;
}

static int64_t timeout_of(const char *wait) {
    return strcmp(wait, "poll") == 0 ? 0 : SHMA_NO_TIMEOUT;
}

static void time_ask(words w) {
    const int64_t bytes = atoll(w[1]), count = atoll(w[2]), timeout_ns = timeout_of(w[3]);
    shma_channel *there = channel_of(w[0], "there", &bytes);
    shma_channel *back = channel_of(w[0], "back", &bytes);
    double began = 0;
    for (int64_t number = -WARM_UP; number < count; number++) {
        if (number == 0)
            began = now();
        send_first(there, (unsigned char)number);
        if (receive_first(back, timeout_ns) != (unsigned char)number)
            exit(2);
    }
    printf("ok %.9f", (now() - began) / (double)count);
    shma_channel_close(there);
    shma_channel_close(back);
}

static void time_answer(words w) {
    shma_channel *there = channel_of(w[0], "there", NULL);
    shma_channel *back = channel_of(w[0], "back", NULL);
    for (int first; (first = receive_first(there, timeout_of(w[1]))) >= 0;)
        send_first(back, (unsigned char)first);
    shma_channel_close(there);
    shma_channel_close(back);
    fputs("ok", stdout);
}

// Lists.
enum { LIST_COUNT = 5, MOST_FIELDS = 6 };

// The fields of records, in their order.
struct field {
    const char *name, *kind;
};
static const struct field record_fields[] = {
    {"text", "strings"},       {"size", "maybe-<i8"},
    {"sample", "vectors-<f4"}, {"größe", "lists-maybe-strings"},
    {"point", "points"},       {"none", "nothing"},
};
static const struct field point_fields[] = {{"x", "<f8"}, {"flag", "|b1"}};

static size_t fields_of(const char *kind, const struct field **fields) {
    const bool is_points = strcmp(kind, "points") == 0;
    *fields = is_points ? point_fields : record_fields;
    if (is_points)
        return sizeof point_fields / sizeof *point_fields;
    return strcmp(kind, "records") == 0 ? sizeof record_fields / sizeof *record_fields : 0;
}

// What follows a kind's first word; NULL if that is another one.
static const char *behind(const char *kind, const char *word) {
    const size_t length = strlen(word);
    return strncmp(kind, word, length) == 0 ? kind + length : NULL;
}

static shma_column_builder *builder_of(const char *kind);

static shma_column_builder *record_builder(size_t count, const struct field *fields) {
    const char *names[MOST_FIELDS];
    shma_column_builder *builders[MOST_FIELDS], *builder = NULL;
    for (size_t i = 0; i < count; i++) {
        names[i] = fields[i].name;
        builders[i] = builder_of(fields[i].kind);
    }
    must(shma_column_builder_create_records(count, names, builders, &builder, &error));
    return builder;
}

static shma_column_builder *builder_of(const char *kind) {
    shma_column_builder *builder = NULL;
    const struct field *fields;
    const char *rest;
    if (fields_of(kind, &fields))
        return record_builder(fields_of(kind, &fields), fields);
    if ((rest = behind(kind, "maybe-")))
        return builder_of(rest);
    if ((rest = behind(kind, "lists-")))
        must(shma_column_builder_create_lists(builder_of(rest), &builder, &error));
    else if ((rest = behind(kind, "vectors-")))
        must(shma_column_builder_create_arrays(dtype_of(rest), NULL, 1, &builder, &error));
    else if ((rest = behind(kind, "images-")) || (rest = behind(kind, "same-")))
        must(shma_column_builder_create_arrays(dtype_of(rest), NULL, 2, &builder, &error));
    else if (dtype_of(kind) != SHMA_OPAQUE)
        must(shma_column_builder_create_numbers(dtype_of(kind), NULL, &builder, &error));
    else
        must(shma_column_builder_create(strcmp(kind, "strings") == 0 ? SHMA_ITEM_STRING
                                        : strcmp(kind, "bytes") == 0 ? SHMA_ITEM_BYTES
                                                                     : SHMA_ITEM_NOTHING,
                                        &builder, &error));
    return builder;
}

static void push(const shma_column_builder *builder, const char *kind, int64_t k);

// Adds an array of one or two dimensions, or with none a number.
static void push_elements(const shma_column_builder *builder, const char *dtype, size_t ndim,
                          int64_t rows, int64_t k) {
    const int64_t shape[] = {rows, 2};
    const int64_t count = ndim == 2 ? 2 * rows : rows;
    shma_array *array = NULL;
    must(shma_array_create(dtype_of(dtype), 1, &count, NULL, &array, &error));
    for (size_t j = 0; j < (size_t)count; j++)
        store(dtype_of(dtype), element(array, j), k + (int64_t)j);
    const void *data = shma_array_data(array);
    must(ndim ? shma_column_builder_push_array(builder, ndim, shape, data, &error)
              : shma_column_builder_push_numbers(builder, data, 1, &error));
    shma_array_close(array);
}

static void push_record(const shma_column_builder *builder, const char *kind, int64_t k) {
    const struct field *fields;
    const size_t count = fields_of(kind, &fields);
    for (size_t i = 0; i < count; i++)
        push(shma_column_builder_field(builder, i), fields[i].kind, k);
    must(shma_column_builder_push_records(builder, 1, &error));
}

static void push_list(const shma_column_builder *builder, const char *kind, int64_t k) {
    for (int64_t j = 0; j < k % 3; j++)
        push(shma_column_builder_field(builder, 0), kind, k + j);
    must(shma_column_builder_push_list(builder, &error));
}

// Adds item k of a list of this kind.
static void push(const shma_column_builder *builder, const char *kind, int64_t k) {
    static const char characters[] = "é\0\"😀";
    static const size_t characters_bytes[LIST_COUNT] = {0, 2, 3, 4, 8};
    static const unsigned char bytes[] = {0x00, 0x55, 0xaa, 0xff};
    const struct field *fields;
    const char *rest;
    if ((rest = behind(kind, "maybe-")) && k % 3 != 1)
        push(builder, rest, k);
    else if (rest || strcmp(kind, "nothing") == 0)
        must(shma_column_builder_push_none(builder, &error));
    else if ((rest = behind(kind, "lists-")))
        push_list(builder, rest, k);
    else if ((rest = behind(kind, "vectors-")))
        push_elements(builder, rest, 1, k % 3, k);
    else if ((rest = behind(kind, "images-")))
        push_elements(builder, rest, 2, k % 3, k);
    else if ((rest = behind(kind, "same-")))
        push_elements(builder, rest, 2, 2, k);
    else if (strcmp(kind, "strings") == 0)
        must(shma_column_builder_push_string(builder, characters, characters_bytes[k], &error));
    else if (strcmp(kind, "bytes") == 0)
        must(shma_column_builder_push_bytes(builder, bytes, (size_t)k, &error));
    else if (fields_of(kind, &fields))
        push_record(builder, kind, k);
    else
        push_elements(builder, kind, 0, 1, k);
}

// Returns a builder that has the items of a list of this kind.
static shma_column_builder *items_of(const char *kind) {
    shma_column_builder *builder = builder_of(kind);
    for (int64_t k = 0; k < LIST_COUNT && strcmp(kind, "empty") != 0; k++)
        push(builder, kind, k);
    return builder;
}

static void make_list(words w) {
    const char *keys = behind(w[1], "dictionary-");
    shma_list *list = NULL;
    shma_dict *dict = NULL;
    if (keys ? shma_dict_create(items_of(keys), items_of("maybe-<i8"), NULL, &dict, &error)
             : shma_list_create(items_of(w[1]), NULL, &list, &error)) {
        say_error();
        return;
    }
    const shma_array *made = keys ? shma_dict_array(dict) : shma_list_array(list);
    keep(w[0], shma_array_retain(made), 0);
    say_handle_of(made);
    shma_list_close(list);
    shma_dict_close(dict);
}

// With so many digits every float has its own text, and "#" leaves the point there.
static void write_float(FILE *out, double value) { fprintf(out, "%#.17g", value); }

static void write_complex(FILE *out, double complex value) {
    fputc('[', out);
    write_float(out, creal(value));
    fputc(',', out);
    write_float(out, cimag(value));
    fputc(']', out);
}

// Writes a number, unless C has no type for it.
static bool write_number(FILE *out, shma_dtype dtype, const void *at) {
    switch (dtype) {
#define WRITE_INTEGER(number, type)                                                                \
    case number:                                                                                   \
        return fprintf(out, "%lld", (long long)*(const type *)at) > 0;
        WRITE_INTEGER(SHMA_INT8, int8_t)
        WRITE_INTEGER(SHMA_INT16, int16_t)
        WRITE_INTEGER(SHMA_INT32, int32_t)
        WRITE_INTEGER(SHMA_INT64, int64_t)
        WRITE_INTEGER(SHMA_UINT8, uint8_t)
        WRITE_INTEGER(SHMA_UINT16, uint16_t)
        WRITE_INTEGER(SHMA_UINT32, uint32_t)
    case SHMA_UINT64:
        return fprintf(out, "%" PRIu64, *(const uint64_t *)at) > 0;
    case SHMA_BOOL:
        return fputs(*(const bool *)at ? "true" : "false", out) >= 0;
    case SHMA_FLOAT32:
        return write_float(out, *(const float *)at), true;
    case SHMA_FLOAT64:
        return write_float(out, *(const double *)at), true;
    case SHMA_COMPLEX64:
        return write_complex(out, *(const float complex *)at), true;
    case SHMA_COMPLEX128:
        return write_complex(out, *(const double complex *)at), true;
    }
    error.status = SHMA_ERROR_INVALID_DTYPE;
    snprintf(error.message, sizeof error.message, "C has no numbers of that dtype");
    return false;
}

static bool write_array(FILE *out, const shma_array *array) {
    fputs("{\"shape\":[", out);
    for (size_t dimension = 0; dimension < shma_array_ndim(array); dimension++)
        fprintf(out, "%s%" PRId64, dimension ? "," : "", shma_array_shape(array)[dimension]);
    fputs("],\"elements\":[", out);
    bool is_well = true;
    for (size_t k = 0; k < shma_array_size(array) && is_well; k++) {
        fputs(k ? "," : "", out);
        is_well = write_number(out, shma_array_dtype(array), element(array, k));
    }
    fputs("]}", out);
    return is_well;
}

static void write_text(FILE *out, const char *characters, size_t size_bytes) {
    fputc('"', out);
    for (size_t at = 0; at < size_bytes; at++)
        if ((unsigned char)characters[at] < ' ' || strchr("\"\\", characters[at]))
            fprintf(out, "\\u%04x", characters[at]);
        else
            fputc(characters[at], out);
    fputc('"', out);
}

static void write_hex(FILE *out, const unsigned char *bytes, size_t count) {
    fputc('"', out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%02x", bytes[i]);
    fputc('"', out);
}

static bool write_item(FILE *out, const shma_column *column, size_t index);

static bool write_array_item(FILE *out, const shma_column *column, size_t index) {
    shma_array *array = NULL;
    if (shma_column_array(column, index, &array, &error))
        return false;
    const bool is_well = write_array(out, array);
    shma_array_close(array);
    return is_well;
}

// Writes so many items of a column, from `first` on.
static bool write_items(FILE *out, const shma_column *column, size_t first, size_t count) {
    bool is_well = true;
    fputc('[', out);
    for (size_t at = 0; at < count && is_well; at++) {
        fputs(at ? "," : "", out);
        is_well = write_item(out, column, first + at);
    }
    fputc(']', out);
    return is_well;
}

static bool write_record(FILE *out, const shma_column *column, size_t index) {
    bool is_well = true;
    fputc('{', out);
    for (size_t at = 0; at < shma_column_child_count(column) && is_well; at++) {
        const shma_column *field = shma_column_child(column, at);
        fputs(at ? "," : "", out);
        write_text(out, shma_column_name(field), strlen(shma_column_name(field)));
        fputc(':', out);
        is_well = write_item(out, field, index);
    }
    fputc('}', out);
    return is_well;
}

// Writes a number, a string or bytes.
static bool write_plain(FILE *out, const shma_column *column, const void *data, size_t bytes) {
    if (shma_column_kind(column) == SHMA_ITEM_NUMBER)
        return write_number(out, shma_column_dtype(column), data);
    if (shma_column_kind(column) == SHMA_ITEM_STRING)
        write_text(out, data, bytes);
    else
        write_hex(out, data, bytes);
    return true;
}

// Writes an item as JSON; if that fails, `error` says why.
static bool write_item(FILE *out, const shma_column *column, size_t index) {
    const shma_item_kind kind = shma_column_kind(column);
    const void *data = NULL;
    size_t bytes = 0, first = 0, count = 0;
    if (shma_column_is_none(column, index))
        return fputs("null", out) >= 0;
    if (kind == SHMA_ITEM_ARRAY)
        return write_array_item(out, column, index);
    if (kind == SHMA_ITEM_RECORD)
        return write_record(out, column, index);
    if (kind == SHMA_ITEM_LIST)
        return shma_column_range(column, index, &first, &count, &error) == SHMA_OK &&
               write_items(out, shma_column_child(column, 0), first, count);
    return shma_column_item(column, index, &data, &bytes, &error) == SHMA_OK &&
           write_plain(out, column, data, bytes);
}

// Answers what was written; if that failed, `error` says why.
static void say_written(FILE *out, char **written, bool is_well) {
    fclose(out);
    if (is_well)
        printf("ok %s", *written);
    else
        say_error();
    free(*written);
}

// Answers what is written of a list, or of a field of it.
static void say_of_list(words w, bool (*write)(FILE *out, const shma_column *column)) {
    shma_list *list = NULL;
    char *written = NULL;
    size_t bytes = 0;
    if (shma_list_attach(w[0], &list, &error)) {
        say_error();
        return;
    }
    const shma_column *items = shma_list_items(list);
    FILE *out = open_memstream(&written, &bytes);
    const bool is_well = write(out, *w[1] ? shma_column_field(items, w[1]) : items);
    say_written(out, &written, is_well);
    shma_list_close(list);
}

static bool write_all(FILE *out, const shma_column *items) {
    return write_items(out, items, 0, shma_column_count(items));
}

static bool write_made(FILE *out, shma_status status, shma_array *array) {
    const bool is_well = status == SHMA_OK && write_array(out, array);
    shma_array_close(array);
    return is_well;
}

static bool write_values(FILE *out, const shma_column *items) {
    shma_array *array = NULL;
    const shma_status status = shma_column_values(items, &array, &error);
    return write_made(out, status, array);
}

static bool write_offsets(FILE *out, const shma_column *items) {
    shma_array *array = NULL;
    const shma_status status = shma_column_offsets(items, &array, &error);
    return write_made(out, status, array);
}

static void say_items(words w) { say_of_list(w, write_all); }

static void say_values(words w) { say_of_list(w, write_values); }

static void say_offsets(words w) { say_of_list(w, write_offsets); }

static shma_status find(const shma_dict *dict, const void *key, size_t bytes, size_t *index) {
    switch (shma_column_kind(shma_dict_keys(dict))) {
    case SHMA_ITEM_STRING:
        return shma_dict_find_string(dict, key, bytes, index, &error);
    case SHMA_ITEM_BYTES:
        return shma_dict_find_bytes(dict, key, bytes, index, &error);
    default:
        return shma_dict_find_integer(dict, *(const int64_t *)key, index, &error);
    }
}

// Finds a key, and writes it and its value.
static bool write_entry(FILE *out, const shma_dict *dict, const void *key, size_t bytes) {
    size_t index = 0;
    const shma_status status = find(dict, key, bytes, &index);
    fputc('[', out);
    bool is_well = write_plain(out, shma_dict_keys(dict), key, bytes);
    fputc(',', out);
    if (status == SHMA_ABSENT)
        fputs("\"absent\"", out);
    else
        is_well &= status == SHMA_OK && write_item(out, shma_dict_values(dict), index);
    fputc(']', out);
    return is_well;
}

// Writes each entry of a dictionary, and a key that is absent.
static bool write_entries(FILE *out, const shma_dict *dict) {
    static const int64_t zero = 0;
    const shma_column *keys = shma_dict_keys(dict);
    const void *key = NULL;
    size_t bytes = 0;
    fputc('[', out);
    for (size_t at = 0; at < shma_dict_count(dict); at++) {
        if (shma_column_item(keys, at, &key, &bytes, &error) || !write_entry(out, dict, key, bytes))
            return false;
        fputc(',', out);
    }
    key = shma_column_kind(keys) == SHMA_ITEM_NUMBER ? (const void *)&zero : "absent";
    const bool is_well = write_entry(out, dict, key, strlen("absent"));
    fputc(']', out);
    return is_well;
}

static void say_found(words w) {
    shma_dict *dict = NULL;
    char *written = NULL;
    size_t bytes = 0;
    if (shma_dict_attach(w[0], &dict, &error)) {
        say_error();
        return;
    }
    FILE *out = open_memstream(&written, &bytes);
    const bool is_well = write_entries(out, dict);
    say_written(out, &written, is_well);
    shma_dict_close(dict);
}

static const struct {
    const char *name;
    void (*answer)(words);
} commands[] = {
    {"hello", hello},
    {"dtypes", say_dtypes},
    {"create", create},
    {"attach", attach},
    {"publish", publish},
    {"receive", receive},
    {"list", make_list},
    {"items", say_items},
    {"find", say_found},
    {"values", say_values},
    {"offsets", say_offsets},
    {"make", make},
    {"share", share},
    {"view", view},
    {"check", check},
    {"drop", drop},
    {"unlink", unlink_name},
    {"discard", discard},
    {"sweep", sweep},
    {"segments", list_segments},
    {"pipes", take_pipes},
    {"send", send_arrays},
    {"take", take},
    {"channel", use_channel},
    {"fork", fork_child},
    {"session", begin_session},
    {"directory", set_directory},
    {"user", become_user},
    {"close_fds", close_fds},
    {"threads", set_threads},
    {"rounds", say_rounds},
    {"spawn", spawn_cat},
    {"exec", exec_program},
    {"end", end},
    {"time_create", time_create},
    {"time_attach", time_attach},
    {"time_items", time_items},
    {"time_ask", time_ask},
    {"time_answer", time_answer},
};

// The commands of one array: whether each needs elements of a C type, and at least one.
static void compare(struct entry *held, words w) { compare_array(held->array); }

static void write_last(struct entry *held, words w) {
    if (shma_array_is_readonly(held->array)) {
        fputs("refused the array is read-only", stdout);
        return;
    }
    store(shma_array_dtype(held->array), element(held->array, shma_array_size(held->array) - 1),
          100);
    fputs("ok", stdout);
}

static void written(struct entry *held, words w) {
    if (is_right(held->array, shma_array_size(held->array) - 1, 100))
        fputs("ok", stdout);
}

static void say_bytes(struct entry *held, words w) {
    const size_t size = shma_array_size(held->array), itemsize = shma_array_itemsize(held->array);
    fputs(size != 0 && itemsize != 0 ? "ok " : "ok -", stdout);
    for (size_t k = 0; k < size; k++)
        say_hex(element(held->array, k), itemsize);
}

static void say_handle(struct entry *held, words w) { say_handle_of(held->array); }

static void say_ticket(struct entry *held, words w) {
    if (shma_array_handle_to_send(held->array, text, sizeof text, NULL, &error))
        say_error();
    else
        printf("ok %s", text);
}

static void fill_with(struct entry *held, words w) {
    held->value = atoll(w[1]);
    fill(held->array, held->value);
    fputs("ok", stdout);
}

static void say_first(struct entry *held, words w) {
    printf("ok %" PRId64, *(const int64_t *)shma_array_data(held->array));
}

static void say_whether_all(struct entry *held, words w) {
    if (is_all(held->array, atoll(w[1])))
        printf("ok %zu", shma_array_size(held->array));
    else
        printf("bad 0 %" PRId64, *(const int64_t *)shma_array_data(held->array));
}

static const struct {
    const char *name;
    void (*answer)(struct entry *, words);
    bool elements, last;
} array_commands[] = {
    {"compare", compare, true, false},    {"write", write_last, true, true},
    {"written", written, true, true},     {"bytes", say_bytes, false, false},
    {"handle", say_handle, false, false}, {"ticket", say_ticket, false, false},
    {"fill", fill_with, true, true},      {"get", say_first, true, true},
    {"is", say_whether_all, true, false},
};

static void answer_for_array(const char *name, words w) {
    struct entry *held = entry_of(w[0]);
    for (size_t row = 0; row < sizeof array_commands / sizeof *array_commands; row++) {
        if (strcmp(name, array_commands[row].name) != 0)
            continue;
        if (!held)
            refuse(SHMA_ERROR_INVALID_ARGUMENT, "no such array is held");
        else if (array_commands[row].elements && shma_array_dtype(held->array) == SHMA_OPAQUE)
            refuse(SHMA_ERROR_INVALID_DTYPE, "C has no elements of that dtype");
        else if (array_commands[row].last && shma_array_size(held->array) == 0)
            refuse(SHMA_ERROR_OUT_OF_BOUNDS, "the array has no elements");
        else
            array_commands[row].answer(held, w);
        return;
    }
    refuse(SHMA_ERROR_UNSUPPORTED, "no such command");
}

static void answer(const char *name, words w) {
    for (size_t row = 0; row < sizeof commands / sizeof *commands; row++)
        if (strcmp(name, commands[row].name) == 0) {
            commands[row].answer(w);
            return;
        }
    answer_for_array(name, w);
}

// A handle is the rest of its line.
static void split_and_answer(void) {
    static char nothing[] = "";
    char *given[MOST_WORDS + 1], *rest = line;
    const int most = strncmp(line, "attach ", 7) == 0 ? 4 : MOST_WORDS + 1;
    for (int i = 0; i <= MOST_WORDS; i++) {
        given[i] = rest ? rest : nothing;
        rest = rest && i + 1 < most ? strchr(rest, ' ') : NULL;
        if (rest)
            *rest++ = 0;
    }
    answer(given[0], given + 1);
}

int main(void) {
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        split_and_answer();
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}
