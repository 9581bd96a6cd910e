// The C driver of the conformance runner: one command a line, one answer a line.
#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <shmarray.h>

// The longest line: a handle whose dtype has the longest text allowed.
enum { LINE_BYTES = 1 << 17 };

static char line[LINE_BYTES], text[LINE_BYTES];
static shma_array *held;
static shma_channel *published;
static shma_error error;

// The pattern's numbers are exact, normal and not zero in binary16, so nothing rounds.
static uint16_t half_of(double value) {
    int exponent = 0;
    const double fraction = frexp(fabs(value), &exponent);
    const unsigned sign = value < 0 ? 0x8000U : 0;
    return (uint16_t)(sign | (unsigned)(exponent + 14) << 10 |
                      ((unsigned)ldexp(fraction, 11) & 0x3ffU));
}

static double real_part(int64_t k) { return (double)k / 2 - 3.25; }

static double imaginary_part(int64_t k) { return 2.5 - (double)k; }

// Each dtype: its number, its text, its C type, pattern(k).
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
    ROW(SHMA_COMPLEX128, "<c16", double complex, real_part(k) + imaginary_part(k) * I)

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

// Keeps the new array before it closes the old one: they may be the same segment.
static void hold(shma_array *array) {
    shma_array_close(held);
    held = array;
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

static shma_array *make(shma_dtype dtype, const char *layout) {
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

static void hello(void) { printf("ok c %s", shma_version()); }

static void say_dtypes(void) {
    fputs("ok", stdout);
    for (size_t row = 0; row < DTYPE_COUNT; row++)
        printf(" %s", dtypes[row].text);
}

static void say_handle(void) {
    if (shma_array_handle(held, text, sizeof text, NULL, &error))
        say_error();
    else
        printf("ok %s", text);
}

static shma_dtype dtype_of(const char *name) {
    for (size_t row = 0; row < DTYPE_COUNT; row++)
        if (strcmp(name, dtypes[row].text) == 0)
            return dtypes[row].dtype;
    return SHMA_OPAQUE;
}

static void fill(const shma_array *array) {
    for (size_t k = 0; k < shma_array_size(array); k++)
        store(shma_array_dtype(array), element(array, k), (int64_t)k);
}

static void create(char *rest) {
    char *layout = strchr(rest, ' ');
    if (layout)
        *layout++ = 0;
    const shma_dtype dtype = dtype_of(rest);
    if (!layout || dtype == SHMA_OPAQUE) {
        refuse(SHMA_ERROR_INVALID_DTYPE, "C has no elements of that dtype");
        return;
    }
    shma_array *array = make(dtype, layout);
    if (!array) {
        say_error();
        return;
    }
    fill(array);
    hold(array);
    say_handle();
}

static void attach(const char *rest) {
    const char *handle = strchr(rest, ' ');
    const shma_access access = strncmp(rest, "ro ", 3) == 0 ? SHMA_READ_ONLY : SHMA_READ_WRITE;
    shma_array *array = NULL;
    if (shma_array_attach(handle ? handle + 1 : "", access, &array, &error)) {
        say_error();
        return;
    }
    hold(array);
    shma_array_dtype_text(held, text, sizeof text, NULL, NULL);
    printf("ok %s", text);
    say_numbers(shma_array_shape(held), shma_array_ndim(held));
    say_numbers(shma_array_strides(held), shma_array_ndim(held));
}

// Compares one element with pattern(number); says `bad` and returns false when it differs.
static bool is_right(size_t k, int64_t number) {
    if (is_pattern(shma_array_dtype(held), element(held, k), number))
        return true;
    printf("bad %zu ", k);
    say_hex(element(held, k), shma_array_itemsize(held));
    return false;
}

static void compare(void) {
    const size_t size = shma_array_size(held);
    for (size_t k = 0; k < size; k++)
        if (!is_right(k, (int64_t)k))
            return;
    printf("ok %zu", size);
}

static void publish(char *rest) {
    const int64_t shape[] = {2, 3, 4};
    const char *name = strtok(rest, " "), *dtype = strtok(NULL, " ");
    shma_loan *loan = NULL;
    shma_channel_close(published);
    published = NULL;
    if (!dtype ||
        shma_channel_create(name, dtype_of(dtype), 3, shape, NULL, NULL, &published, &error) ||
        shma_channel_loan(published, 0, NULL, SHMA_NO_TIMEOUT, &loan, &error)) {
        say_error();
        return;
    }
    fill(shma_loan_array(loan));
    if (shma_loan_publish(loan, dtype, strlen(dtype), NULL, &error) ||
        shma_channel_handle(published, text, sizeof text, NULL, &error))
        say_error();
    else
        printf("ok %s", text);
}

static void receive(const char *handle_or_name) {
    shma_channel *channel = NULL;
    shma_delivery *delivery = NULL;
    if (shma_channel_open(handle_or_name, 1, 0, &channel, &error) ||
        shma_channel_receive(channel, SHMA_NO_TIMEOUT, &delivery, &error)) {
        say_error();
    } else {
        size_t bytes = 0;
        const char *meta = shma_delivery_meta(delivery, &bytes);
        hold(shma_array_retain(shma_delivery_array(delivery)));
        compare();
        printf(" %.*s", (int)bytes, meta);
        hold(NULL);
    }
    shma_delivery_close(delivery);
    shma_channel_close(channel);
}

static void write_last(void) {
    if (shma_array_is_readonly(held)) {
        fputs("refused the array is read-only", stdout);
        return;
    }
    store(shma_array_dtype(held), element(held, shma_array_size(held) - 1), 100);
    fputs("ok", stdout);
}

static void written(void) {
    if (is_right(shma_array_size(held) - 1, 100))
        fputs("ok", stdout);
}

static void say_bytes(void) {
    const size_t size = shma_array_size(held), itemsize = shma_array_itemsize(held);
    fputs(size != 0 && itemsize != 0 ? "ok " : "ok -", stdout);
    for (size_t k = 0; k < size; k++)
        say_hex(element(held, k), itemsize);
}

static void let_go(void) {
    hold(NULL);
    shma_channel_close(published);
    published = NULL;
    fputs("ok", stdout);
}

// The commands without arguments, and whether each needs an array, elements of a C type, and at
// least one element.
static const struct {
    const char *name;
    void (*answer)(void);
    bool array, elements, last;
} commands[] = {
    {"hello", hello, false, false, false},      {"dtypes", say_dtypes, false, false, false},
    {"handle", say_handle, true, false, false}, {"bytes", say_bytes, true, false, false},
    {"compare", compare, true, true, false},    {"write", write_last, true, true, true},
    {"written", written, true, true, true},     {"close", let_go, false, false, false},
};

static void answer_plain(const char *name) {
    for (size_t row = 0; row < sizeof commands / sizeof *commands; row++) {
        if (strcmp(name, commands[row].name) != 0)
            continue;
        if (commands[row].array && !held)
            refuse(SHMA_ERROR_INVALID_ARGUMENT, "no array is held");
        else if (commands[row].elements && shma_array_dtype(held) == SHMA_OPAQUE)
            refuse(SHMA_ERROR_INVALID_DTYPE, "C has no elements of that dtype");
        else if (commands[row].last && shma_array_size(held) == 0)
            refuse(SHMA_ERROR_OUT_OF_BOUNDS, "the array has no elements");
        else
            commands[row].answer();
        return;
    }
    refuse(SHMA_ERROR_UNSUPPORTED, "no such command");
}

int main(void) {
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "create ", 7) == 0)
            create(line + 7);
        else if (strncmp(line, "attach ", 7) == 0)
            attach(line + 7);
        else if (strncmp(line, "publish ", 8) == 0)
            publish(line + 8);
        else if (strncmp(line, "receive ", 8) == 0)
            receive(line + 8);
        else
            answer_plain(line);
        putchar('\n');
        fflush(stdout);
    }
    shma_array_close(held);
    shma_channel_close(published);
    return 0;
}
