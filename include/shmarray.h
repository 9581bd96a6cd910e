/*
 * shmarray: typed n-dimensional arrays in shared memory, the same in every language.
 *
 *     shma_error error = SHMA_ERROR_INIT;
 *     int64_t shape[] = {2, 3, 3};
 *     shma_array *array;
 *     if (shma_array_create(SHMA_INT32, 3, shape, NULL, &array, &error)) {
 *         fprintf(stderr, "%s\n", error.message);
 *         return 1;
 *     }
 *     ((int32_t *)shma_array_data(array))[0] = 5;
 *     char handle[4096]; // for another process, which attaches it while this array is open
 *     if (shma_array_handle(array, handle, sizeof handle, NULL, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     shma_array_close(array);
 *
 * Conventions
 *   - Functions are called shma_<noun>_<verb>, or shma_<noun>_<property> if they only return a
 *     property. The noun is the type of the first parameter or of the result, or says what a text
 *     stands for. shma_abi, shma_version, shma_copied_bytes, shma_set_interruptible and shma_sweep
 *     have no noun.
 *   - A shma_status is 0 for success, positive for an ordinary outcome (SHMA_TIMED_OUT,
 *     SHMA_CLOSED), negative for a failure. A comment names the failures of its function; besides,
 *     every function with a status may fail with SHMA_ERROR_INVALID_ARGUMENT, SHMA_ERROR_OS,
 *     SHMA_ERROR_PERMISSION_DENIED, SHMA_ERROR_NO_MEMORY, SHMA_ERROR_PANIC, and, in a process that
 *     a signal handler forked, SHMA_ERROR_UNSUPPORTED. shma_array_is_<adjective> returns 0 or 1.
 *   - The last parameter of a function with a status is the caller's shma_error, or NULL. It is
 *     written only if the status is negative.
 *   - Output parameters come before it and end in _out; only the buffer of a text is called text,
 *     and its size follows. Outputs are written only if the status is 0,
 *     except that needed_bytes_out is also written if a text buffer is too short. The caller owns
 *     each object that a function outputs, and closes it with shma_<noun>_close.
 *   - const in the type of a parameter means that the function does not close the object. It does
 *     not protect the elements of an array or the state of a pipe. Any pointer may be NULL: a
 *     function with a status that needs one fails with SHMA_ERROR_INVALID_ARGUMENT, and one without
 *     returns 0 or NULL, or -1 for an fd. A pointer that is not NULL must point to a live object of
 *     its type, or to as many elements as the count that is passed with it. Texts and
 *     buffers must not change during a call.
 *   - Shapes are in elements; strides, offsets and sizes are in bytes. Texts are UTF-8 and end in a
 *     zero byte. A path is any bytes where the system takes such, else UTF-8.
 *
 * Threads and processes
 *   - Any thread may call any function, also while other threads call functions on the same object.
 *     Only a close must not overlap another use of its object. A thread that shma_array_retain made
 *     an owner of an array may close it beside the other owners. Each thread needs a shma_error of
 *     its own.
 *   - The shape, strides and dtype of an array do not change after its creation. Its elements do:
 *     another thread or process may write them at any time. To read an element while another thread
 *     or process writes it is a data race, as between threads: write first and hand over the handle
 *     afterwards, or use atomic operations.
 *   - No thread may change the environment (setenv) during a call, and no signal handler may call
 *     these functions. A handler that runs in a thread that waits does not end the wait, unless
 *     that thread asked for it by shma_set_interruptible.
 *   - On Linux a forked child has a copy of each object of its parent, and each process closes its
 *     own. Closing the copy of a received message does not release its arrays. On other systems the
 *     child attaches its arrays by handle instead.
 *
 * Versions
 *   - A program that was compiled with this header runs with this version of the library and with
 *     each later one of the same SHMA_ABI. Those may have further functions, statuses, dtypes and
 *     kinds of segments and items, and further fields at the end of shma_options, shma_npz_options,
 *     shma_channel_options and shma_segment_info. shma_error never changes.
 *
 * Generated from ffi/shmarray.h.in and ffi/src; do not edit.
 */

#ifndef SHMARRAY_H
#define SHMARRAY_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header; shma_version() is that of the library. */
#define SHMA_VERSION_MAJOR 0
#define SHMA_VERSION_MINOR 1
#define SHMA_VERSION_PATCH 0
#define SHMA_VERSION_STRING "0.1.0"

/* Stands before each function. Define SHMA_STATIC to link the static library on Windows. */
#ifndef SHMA_API
#if defined(_WIN32) && !defined(SHMA_STATIC)
#define SHMA_API __declspec(dllimport)
#elif defined(__GNUC__)
#define SHMA_API __attribute__((visibility("default")))
#else
#define SHMA_API
#endif
#endif

/* Stands before each function whose result the caller owns or must look at. */
#ifndef SHMA_NODISCARD
#if (defined(__cplusplus) && __cplusplus >= 201703L) || \
    (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define SHMA_NODISCARD [[nodiscard]]
#elif defined(__GNUC__)
#define SHMA_NODISCARD __attribute__((warn_unused_result))
#else
#define SHMA_NODISCARD
#endif
#endif

/* Initializers: no error, and the default options. */
#define SHMA_ERROR_INIT {0, 0, {0}}
#define SHMA_OPTIONS_INIT {sizeof(shma_options), NULL, 0, 0, 0, 0, 0, NULL}
#define SHMA_NPZ_OPTIONS_INIT {sizeof(shma_npz_options), 0, 0, 0, 0}
#define SHMA_CHANNEL_OPTIONS_INIT {sizeof(shma_channel_options), 0, 0, 0, 0, 0, 0, 0, 0}

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensorVersioned; /* of dlpack.h */

/* ---- The library ----------------------------------------------------------------------------- */

/** The number of the ABI that this header declares, and of libshmarray.so.0. */
#define SHMA_ABI 0

/**
 * Returns the number of the library's ABI. If it is not SHMA_ABI, the program runs with a library
 * that it was not compiled for.
 */
SHMA_API int32_t shma_abi(void);

/** Returns the version of the library, such as "0.1.0". The text is static. */
SHMA_API const char *shma_version(void);

/**
 * Returns the number of bytes of array data that this library has copied in this process. Passing
 * a handle copies none.
 */
SHMA_API uint64_t shma_copied_bytes(void);

/* ---- Statuses and errors --------------------------------------------------------------------- */

/** Size of shma_error.message, including the terminating zero. Longer messages are truncated. */
#define SHMA_MESSAGE_BYTES 1016

/** The result of a function that can fail: one of the numbers below, negative if it failed. */
typedef int32_t shma_status;

/** Done. */
#define SHMA_OK 0
/** The timeout passed before the operation could be done. */
#define SHMA_TIMED_OUT 1
/** No process has the other end of the pipe open; or none sends by the channel any more. */
#define SHMA_CLOSED 2
/** No slot of the channel is free, and it was created with SHMA_WHEN_FULL_ERROR. */
#define SHMA_FULL 3
/** No process sends by the channel any more, and the last that did died. */
#define SHMA_SENDER_DIED 4
/** The dictionary has no such key. */
#define SHMA_ABSENT 5
/**
 * The segment, name or file does not exist. The memory of a segment was given back, or it was
 * never on this machine.
 */
#define SHMA_ERROR_NOT_FOUND (-1)
/** The name already exists. */
#define SHMA_ERROR_EXISTS (-2)
/** The handle has an earlier generation than its segment: that array no longer exists. */
#define SHMA_ERROR_STALE_HANDLE (-3)
/** The text is not a valid handle; the message names the field. */
#define SHMA_ERROR_INVALID_HANDLE (-4)
/**
 * The file is not a valid segment, or its bytes are not a valid list; the message names the field.
 */
#define SHMA_ERROR_INVALID_SEGMENT (-5)
/** A name, shape, stride, offset or option is invalid, or a required pointer is NULL. */
#define SHMA_ERROR_INVALID_ARGUMENT (-6)
/** The dtype cannot be stored in shared memory. */
#define SHMA_ERROR_INVALID_DTYPE (-7)
/**
 * The dtype of the array differs from the requested one. In C only functions on files, channels,
 * lists and dictionaries return it.
 */
#define SHMA_ERROR_DTYPE_MISMATCH (-8)
/** A view or an index is outside its array. */
#define SHMA_ERROR_OUT_OF_BOUNDS (-9)
/** The operation would write to a read-only array. No C function returns it; C++ does. */
#define SHMA_ERROR_READ_ONLY (-10)
/** Shared memory is full; the message says how many bytes were requested and how many are free. */
#define SHMA_ERROR_NO_SPACE (-11)
/** The operating system or the owner of the memory refuses access. */
#define SHMA_ERROR_PERMISSION_DENIED (-12)
/**
 * The operation is not supported on this platform, or in a process that a signal handler forked.
 */
#define SHMA_ERROR_UNSUPPORTED (-13)
/** A system call failed for another reason; os_errno has its error number. */
#define SHMA_ERROR_OS (-14)
/** The text buffer is too short; needed_bytes_out says how long it must be. */
#define SHMA_ERROR_TEXT_TOO_SHORT (-15)
/**
 * A bug in shmarray: the library panicked. The message is the panic's. No output was written, but
 * the call may have taken effect in part.
 */
#define SHMA_ERROR_PANIC (-16)
/**
 * This process can get no more private memory, or can map no more of any kind. The message says
 * how many bytes were requested, and what for.
 */
#define SHMA_ERROR_NO_MEMORY (-17)
/**
 * The file is not a valid NPY or NPZ file, or exceeds a limit; the message names the file, the
 * member and the field.
 */
#define SHMA_ERROR_INVALID_FILE (-18)

/**
 * Describes a failure. The caller owns the struct; it needs no cleanup. Initialize it with
 * SHMA_ERROR_INIT. Its size and fields never change.
 */
typedef struct shma_error {
    /** The status that was returned. */
    shma_status status;
    /** The operating system's error number, or 0. */
    int32_t os_errno;
    /** One line of text that says what failed, with the values involved. */
    char message[SHMA_MESSAGE_BYTES];
} shma_error;

/**
 * Returns the name of a status, such as "SHMA_ERROR_NOT_FOUND"; NULL for numbers that are no
 * status. The text is static.
 */
SHMA_API const char *shma_status_name(shma_status status);

/* ---- Dtypes ---------------------------------------------------------------------------------- */

/** A dtype: one of the numbers below. */
typedef int32_t shma_dtype;

/** A dtype that C has no type for: see shma_options.itemsize and shma_array_dtype_text. */
#define SHMA_OPAQUE 0
/** One byte, 0 or 1. */
#define SHMA_BOOL 1
/** int8_t. */
#define SHMA_INT8 2
/** int16_t. */
#define SHMA_INT16 3
/** int32_t. */
#define SHMA_INT32 4
/** int64_t. */
#define SHMA_INT64 5
/** uint8_t. */
#define SHMA_UINT8 6
/** uint16_t. */
#define SHMA_UINT16 7
/** uint32_t. */
#define SHMA_UINT32 8
/** uint64_t. */
#define SHMA_UINT64 9
/** IEEE 754 binary16, 2 bytes. */
#define SHMA_FLOAT16 10
/** float. */
#define SHMA_FLOAT32 11
/** double. */
#define SHMA_FLOAT64 12
/** Two of float: real part, imaginary part. */
#define SHMA_COMPLEX64 13
/** Two of double: real part, imaginary part. */
#define SHMA_COMPLEX128 14
/**
 * bfloat16, 2 bytes: the upper half of a float. C has no type for this dtype and those below,
 * which are named as in the Python package ml_dtypes. Those after SHMA_BCOMPLEX32 are one byte.
 */
#define SHMA_BFLOAT16 15
/** Two of binary16: real part, imaginary part. */
#define SHMA_COMPLEX32 16
/** Two of bfloat16: real part, imaginary part. */
#define SHMA_BCOMPLEX32 17
/** Sign, 3 bits of exponent, 4 of mantissa. */
#define SHMA_FLOAT8_E3M4 18
/** Sign, 4 bits of exponent, 3 of mantissa. */
#define SHMA_FLOAT8_E4M3 19
/** The same without infinity. */
#define SHMA_FLOAT8_E4M3FN 20
/** The same with a bias of 8, one NaN, and one zero. */
#define SHMA_FLOAT8_E4M3FNUZ 21
/** The same with a bias of 11. */
#define SHMA_FLOAT8_E4M3B11FNUZ 22
/** Sign, 5 bits of exponent, 2 of mantissa: the upper half of binary16. */
#define SHMA_FLOAT8_E5M2 23
/** The same with a bias of 16, one NaN, and one zero. */
#define SHMA_FLOAT8_E5M2FNUZ 24
/** A power of two: the exponent, with a bias of 127. */
#define SHMA_FLOAT8_E8M0FNU 25
/** Finite numbers in the lowest 6 bits: sign, 2 bits of exponent, 3 of mantissa. */
#define SHMA_FLOAT6_E2M3FN 26
/** Finite numbers in the lowest 6 bits: sign, 3 bits of exponent, 2 of mantissa. */
#define SHMA_FLOAT6_E3M2FN 27
/** Finite numbers in the lowest 4 bits: sign, 2 bits of exponent, 1 of mantissa. */
#define SHMA_FLOAT4_E2M1FN 28
/** Two's complement in the lowest bit. */
#define SHMA_INT1 29
/** Two's complement in the lowest 2 bits. */
#define SHMA_INT2 30
/** Two's complement in the lowest 4 bits. */
#define SHMA_INT4 31
/** The lowest bit. */
#define SHMA_UINT1 32
/** The lowest 2 bits. */
#define SHMA_UINT2 33
/** The lowest 4 bits. */
#define SHMA_UINT4 34
/** No sign, 5 bits of exponent, 3 of mantissa; one NaN, no infinity. */
#define SHMA_FLOAT8_E5M3FNU 35
/**
 * The number of dtypes besides SHMA_OPAQUE: they are 1 to SHMA_DTYPE_COUNT. Later versions may
 * have more.
 */
#define SHMA_DTYPE_COUNT 35

/**
 * Returns the size of one element in bytes; 0 for SHMA_OPAQUE and for numbers that are no dtype.
 */
SHMA_API size_t shma_dtype_itemsize(shma_dtype dtype);

/**
 * Returns the name of the dtype, such as "int32"; NULL for SHMA_OPAQUE and for numbers that are no
 * dtype. The text is static.
 */
SHMA_API const char *shma_dtype_name(shma_dtype dtype);

/* ---- Creation options ------------------------------------------------------------------------ */

/** The order of elements in memory: SHMA_ORDER_C or SHMA_ORDER_F. */
typedef int32_t shma_order;

/** The last dimension varies fastest. */
#define SHMA_ORDER_C 0
/** The first dimension varies fastest. */
#define SHMA_ORDER_F 1

/**
 * Creation options. Initialize them with SHMA_OPTIONS_INIT and set what differs from the defaults.
 *
 * Later versions add fields at the end. A library refuses a field that it does not know unless
 * that field is zero, and takes fields that the caller does not know for zero.
 */
typedef struct shma_options {
    /** sizeof(shma_options), by which the library knows which fields the caller has. */
    size_t struct_bytes;
    /** A name for the array, 1 to 64 characters of A-Z a-z 0-9 . _ -, or NULL. */
    const char *name;
    /**
     * If not 0, the array lives until its name is unlinked, even without a holder. Needs a name.
     * Only on Linux.
     */
    int32_t persist;
    /** The permission bits of the segment; 0 stands for 0600. Another mode only on Linux. */
    uint32_t mode;
    /** SHMA_ORDER_C or SHMA_ORDER_F. */
    shma_order order;
    /** If not 0, the memory is not zeroed and may have bytes of this user's earlier arrays. */
    uint32_t uninitialized;
    /**
     * The size of one element in bytes, for SHMA_OPAQUE without dtype_text. Otherwise 0, or the
     * size that the dtype has.
     */
    uint64_t itemsize;
    /**
     * The dtype's text as in a handle, for SHMA_OPAQUE; NULL for plain bytes of that itemsize.
     * Otherwise NULL, or the text that the dtype has.
     */
    const char *dtype_text;
} shma_options;

/* ---- Arrays ---------------------------------------------------------------------------------- */

/** The most dimensions of an array. */
#define SHMA_MAX_NDIM 64
/**
 * The longest text of a handle in bytes, without the zero byte behind it. A handle without a
 * structured dtype has a few hundred, and 20 to 40 more for each dimension.
 */
#define SHMA_MAX_HANDLE_BYTES 65536
/** The longest name in bytes, without the zero byte behind it. */
#define SHMA_MAX_NAME_BYTES 64
/** The most metadata of a channel's message in bytes. */
#define SHMA_MAX_META_BYTES 64

/**
 * An array: typed n-dimensional memory that several processes can have mapped at once.
 *
 * It has one owner after its creation, and one more after each shma_array_retain.
 */
typedef struct shma_array shma_array;

/** The access to an attached array: SHMA_READ_WRITE or SHMA_READ_ONLY. */
typedef int32_t shma_access;

/** The memory may be read and written. */
#define SHMA_READ_WRITE 0
/** The memory may be read. It is mapped read-only, so a store faults. */
#define SHMA_READ_ONLY 1

/**
 * Creates an array. It is filled with zeros unless options->uninitialized is set. All its memory
 * is reserved by this call.
 *
 * shape has ndim numbers, and ndim is at most 64; options may be NULL. Fails with
 * SHMA_ERROR_NO_SPACE, SHMA_ERROR_EXISTS, SHMA_ERROR_INVALID_ARGUMENT, SHMA_ERROR_INVALID_DTYPE,
 * and, for options that only Linux has, SHMA_ERROR_UNSUPPORTED.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_create(shma_dtype dtype,
                              size_t ndim,
                              const int64_t *shape,
                              const shma_options *options,
                              shma_array **array_out,
                              shma_error *error);

/**
 * Creates an array and copies private memory into it. data points to the first element.
 *
 * strides has ndim numbers of bytes; NULL stands for contiguous elements in C order.
 * Fails like shma_array_create.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_share(const void *data,
                             shma_dtype dtype,
                             size_t ndim,
                             const int64_t *shape,
                             const int64_t *strides,
                             const shma_options *options,
                             shma_array **array_out,
                             shma_error *error);

/**
 * Creates an array of memory that lies in an array of this process, such as a part of one. data
 * points to its first element. The memory is kept as by a view: nothing is copied.
 *
 * strides has ndim numbers of bytes; NULL stands for contiguous elements in C order. Fails with
 * SHMA_ERROR_INVALID_ARGUMENT if no array of this process has all of these elements in shared
 * memory, and SHMA_ERROR_INVALID_DTYPE.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_over_memory(const void *data,
                                   shma_dtype dtype,
                                   size_t ndim,
                                   const int64_t *shape,
                                   const int64_t *strides,
                                   shma_array **array_out,
                                   shma_error *error);

/**
 * Attaches the array that has this handle or this name.
 *
 * Fails with SHMA_ERROR_NOT_FOUND, SHMA_ERROR_STALE_HANDLE, SHMA_ERROR_INVALID_HANDLE,
 * SHMA_ERROR_INVALID_SEGMENT, SHMA_ERROR_PERMISSION_DENIED.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_attach(const char *handle_or_name,
                              shma_access access,
                              shma_array **array_out,
                              shma_error *error);

/**
 * Writes the array's handle to text: one line of UTF-8 that any process on this machine can
 * attach. The handle does not hold the array: some process must, until another has attached it.
 *
 * Fails with SHMA_ERROR_TEXT_TOO_SHORT if text_bytes is too small. In that case, too, the needed
 * size with the terminating zero is written to needed_bytes_out, which may be NULL.
 */
SHMA_API
shma_status shma_array_handle(const shma_array *array,
                              char *text,
                              size_t text_bytes,
                              size_t *needed_bytes_out,
                              shma_error *error);

/**
 * Writes a handle to be sent out of band, such as over a socket or in a file or a database. The
 * handle has a ticket, which holds the array even after this process ends. The ticket is released
 * when the handle is attached or passed to shma_handle_discard, or when the last process of this
 * process's family ends. A family is the first process that uses this library and all processes
 * that are forked from it afterwards, directly or not. A program that is started by exec has a
 * family of its own unless it inherits the environment variable SHMARRAY_FAMILY. Each successful
 * call creates one ticket; a failing call creates none.
 *
 * text, text_bytes and needed_bytes_out are as in shma_array_handle. Fails with
 * SHMA_ERROR_TEXT_TOO_SHORT, SHMA_ERROR_UNSUPPORTED, SHMA_ERROR_OS.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_handle_to_send(const shma_array *array,
                                      char *text,
                                      size_t text_bytes,
                                      size_t *needed_bytes_out,
                                      shma_error *error);

/**
 * Writes the dtype's text as in a handle: "<i4", or the JSON of a structured type. text,
 * text_bytes and needed_bytes_out are as in shma_array_handle.
 */
SHMA_API
shma_status shma_array_dtype_text(const shma_array *array,
                                  char *text,
                                  size_t text_bytes,
                                  size_t *needed_bytes_out,
                                  shma_error *error);

/**
 * Returns a pointer to the first element. It is valid until the array is closed. The elements of a
 * read-only array must not be written. Elements of a view, or of an array that another process
 * made, may be unaligned: if the pointer or a stride is no multiple of the element's alignment,
 * read and write them with memcpy.
 */
SHMA_API void *shma_array_data(const shma_array *array);

/** Returns the number of dimensions. */
SHMA_API size_t shma_array_ndim(const shma_array *array);

/**
 * Returns the number of elements along each dimension. The pointer is valid until the array is
 * closed.
 */
SHMA_API const int64_t *shma_array_shape(const shma_array *array);

/**
 * Returns the stride in bytes along each dimension. The pointer is valid until the array is
 * closed.
 */
SHMA_API const int64_t *shma_array_strides(const shma_array *array);

/** Returns the number of elements. */
SHMA_API size_t shma_array_size(const shma_array *array);

/** Returns the dtype; SHMA_OPAQUE if C has no type for it. */
SHMA_API shma_dtype shma_array_dtype(const shma_array *array);

/** Returns the size of one element in bytes. */
SHMA_API size_t shma_array_itemsize(const shma_array *array);

/** Returns 1 if the array was attached read-only or is a view of one that was, else 0. */
SHMA_API int32_t shma_array_is_readonly(const shma_array *array);

/** Returns 1 if the elements are contiguous in that order, else 0. */
SHMA_API int32_t shma_array_is_contiguous(const shma_array *array, shma_order order);

/**
 * Returns 1 if the address of every element is a multiple of that many bytes, else 0. A new array
 * begins at a multiple of 64; a view may not.
 */
SHMA_API int32_t shma_array_is_aligned(const shma_array *array, size_t alignment);

/**
 * Adds an owner and returns the array itself, which stays open until each owner has closed it.
 * Returns NULL for NULL. The call makes no view and allocates nothing. An owner may call it while
 * other owners close the array.
 */
SHMA_NODISCARD SHMA_API shma_array *shma_array_retain(const shma_array *array);

/**
 * Removes an owner. The last one closes the array, and its memory is given back when no process
 * holds it any more. Other owners may use the array during the call.
 */
SHMA_API void shma_array_close(shma_array *array);

/* ---- Views of arrays ------------------------------------------------------------------------- */

/**
 * An open bound of a slice: as start, the first element in the direction of step; as stop, the
 * position after the last one.
 */
#define SHMA_END INT64_MIN

/**
 * Creates a view: the same memory with another shape, strides and offset. The offset is in bytes
 * from the first element of the array. Fails with SHMA_ERROR_OUT_OF_BOUNDS if an element of the
 * view is outside the memory that the array spans.
 *
 * strides has ndim numbers of bytes; NULL stands for contiguous elements in C order. A view holds
 * the memory itself: it stays valid after the array is closed, and is closed with
 * shma_array_close.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_view(const shma_array *array,
                            size_t ndim,
                            const int64_t *shape,
                            const int64_t *strides,
                            int64_t offset,
                            shma_array **view_out,
                            shma_error *error);

/**
 * Creates a view of the elements start, start + step and so on before stop along one dimension, as
 * Python's slices do: negative bounds count from the end, and bounds outside the dimension are
 * clamped to it. SHMA_END leaves a bound open. Fails with SHMA_ERROR_INVALID_ARGUMENT if there is
 * no such dimension or step is 0.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_slice(const shma_array *array,
                             size_t dimension,
                             int64_t start,
                             int64_t stop,
                             int64_t step,
                             shma_array **view_out,
                             shma_error *error);

/**
 * Creates a view of the elements at one index of a dimension. The view does not have that
 * dimension. A negative index counts from the end. Fails with SHMA_ERROR_OUT_OF_BOUNDS if the
 * dimension has no such index, SHMA_ERROR_INVALID_ARGUMENT if there is no such dimension.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_select(const shma_array *array,
                              size_t dimension,
                              int64_t index,
                              shma_array **view_out,
                              shma_error *error);

/**
 * Creates a view with the dimensions in another order: dimension i of the view is dimension
 * `axes[i]` of the array. If axes is NULL, the order is reversed. Fails with
 * SHMA_ERROR_INVALID_ARGUMENT unless axes names each dimension once.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_transpose(const shma_array *array,
                                 const size_t *axes,
                                 shma_array **view_out,
                                 shma_error *error);

/**
 * Creates a view of the same elements in the same C order in another shape. Fails with
 * SHMA_ERROR_INVALID_ARGUMENT if shape has another number of elements, or if only a copy could
 * have it, as of a transposed array.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_reshape(const shma_array *array,
                               size_t ndim,
                               const int64_t *shape,
                               shma_array **view_out,
                               shma_error *error);

/* ---- Tensors of other frameworks ------------------------------------------------------------- */

/**
 * Makes a tensor of DLPack 1.1 that is the array: the same memory. It stays until the tensor's
 * deleter is called, once, in any thread. dlpack.h has the struct.
 *
 * Its strides are never NULL. It has the flag DLPACK_FLAG_BITMASK_READ_ONLY if access is
 * SHMA_READ_ONLY or the array is read-only, and if its elements have fewer than eight bits, as
 * those of SHMA_INT4 have, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED. Fails with
 * SHMA_ERROR_INVALID_DTYPE if DLPack has no such type, and with SHMA_ERROR_INVALID_ARGUMENT if
 * a stride is no multiple of the item size.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_to_dlpack(const shma_array *array,
                                 shma_access access,
                                 struct DLManagedTensorVersioned **tensor_out,
                                 shma_error *error);

/**
 * Creates an array and copies the elements of a tensor into it, which is on the CPU. The tensor
 * stays the caller's, who calls its deleter afterwards.
 *
 * options may be NULL, and has no dtype. Fails like shma_array_create, and with
 * SHMA_ERROR_INVALID_ARGUMENT if the tensor is on another device, of another major version, or
 * has packed elements of fewer than eight bits.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_array_from_dlpack(const struct DLManagedTensorVersioned *tensor,
                                   const shma_options *options,
                                   shma_array **array_out,
                                   shma_error *error);

/* ---- Waiting --------------------------------------------------------------------------------- */

/** The timeout_ns that waits without a limit, as any negative number does. */
#define SHMA_NO_TIMEOUT (-1)

/**
 * Says whether a signal handler that runs in this thread ends the thread's waits; at first none
 * does. Returns 1 if one did before this call, else 0.
 *
 * If a handler does not end it, a wait goes on for what is left of its timeout. If one does, the
 * function that waited fails with SHMA_ERROR_OS and os_errno EINTR, also for a handler with
 * SA_RESTART. Nothing was sent, received or opened then, and the call can be repeated. A handler
 * that runs before the wait has begun does not end it.
 */
SHMA_API int32_t shma_set_interruptible(int32_t is_interruptible);

/* ---- Pipes and messages ---------------------------------------------------------------------- */

/** A received message: arrays and bytes. It holds its arrays until it is closed. */
typedef struct shma_message shma_message;

/**
 * One end of a bidirectional pipe for arrays and bytes. Only on Linux.
 *
 * Any number of processes may share an end, by fork, exec or a socket. Each message is received
 * whole and by one process. A message that no process can receive any more releases its arrays.
 */
typedef struct shma_pipe shma_pipe;

/**
 * Creates a pipe and returns its two ends. Their fds are close-on-exec.
 *
 * Fails with SHMA_ERROR_OS.
 * Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_pipe_pair(shma_pipe **one_out,
                           shma_pipe **other_out,
                           shma_error *error);

/**
 * Makes a pipe of an fd that came from another process, by exec or over a socket.
 *
 * If the call succeeds, the pipe owns the fd; if it fails, the caller does. Fails with
 * SHMA_ERROR_INVALID_ARGUMENT if the fd is not the end of such a pipe, SHMA_ERROR_OS if it is not
 * open.
 * Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_pipe_from_fd(int fd,
                              shma_pipe **pipe_out,
                              shma_error *error);

/**
 * Returns the pipe's fd, or -1 for NULL. The pipe owns it; use it to poll, and to pass a duplicate
 * to another process. It is readable if a message can be received or none can arrive any more.
 */
SHMA_API int shma_pipe_fd(const shma_pipe *pipe);

/**
 * Sends arrays and bytes. The message holds the arrays until it is received, even if this process
 * ends.
 *
 * arrays has count elements and payload has payload_bytes; each may be NULL if its size is 0.
 * timeout_ns is in nanoseconds; with SHMA_NO_TIMEOUT the call waits until the pipe has room.
 * Returns SHMA_TIMED_OUT if it had none in that time, SHMA_CLOSED if no process has the other end.
 * Fails with SHMA_ERROR_NO_SPACE if a payload of more than 160 KiB finds room neither in shared
 * memory nor in a memory file. Nothing was sent unless the status is 0.
 *
 * Several threads may send at once: each message is sent whole, and those of one thread stay in
 * order.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_pipe_send(const shma_pipe *pipe,
                           shma_array *const *arrays,
                           size_t count,
                           const void *payload,
                           size_t payload_bytes,
                           int64_t timeout_ns,
                           shma_error *error);

/**
 * Receives a message. The caller owns it and closes it with shma_message_close.
 *
 * timeout_ns is in nanoseconds; with SHMA_NO_TIMEOUT the call waits until a message arrives or
 * none can arrive any more. Returns SHMA_TIMED_OUT if none arrived in that time, SHMA_CLOSED if no
 * process has the other end and every message has been received. Fails with SHMA_ERROR_OS and
 * os_errno EMFILE if this process has no free fd, and with SHMA_ERROR_INVALID_ARGUMENT if the
 * received bytes are not a message.
 *
 * Several threads may receive at once, also while others send: each message goes to one of them.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_pipe_receive(const shma_pipe *pipe,
                              int64_t timeout_ns,
                              shma_message **message_out,
                              shma_error *error);

/**
 * Closes this end of the pipe. If no process has it any more, calls at the other end return
 * SHMA_CLOSED once the messages for it have been received. If no process has either end, messages
 * that were not received are released.
 *
 * No thread may wait at this end meanwhile: the call would not wake it.
 */
SHMA_API void shma_pipe_close(shma_pipe *pipe);

/**
 * Returns the bytes of a message and writes their number to bytes_out, which may be NULL. The
 * pointer is valid until the message is closed.
 */
SHMA_API const void *shma_message_payload(const shma_message *message, size_t *bytes_out);

/** Returns the number of arrays in a message. */
SHMA_API size_t shma_message_count(const shma_message *message);

/**
 * Attaches an array of a message; index counts from 0. The caller owns the array and closes it
 * with shma_array_close. It stays valid after the message is closed.
 *
 * Fails with SHMA_ERROR_OUT_OF_BOUNDS, or like shma_array_attach.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_message_array(const shma_message *message,
                               size_t index,
                               shma_access access,
                               shma_array **array_out,
                               shma_error *error);

/** Closes a message and releases those of its arrays that were not attached. */
SHMA_API void shma_message_close(shma_message *message);

/* ---- Channels -------------------------------------------------------------------------------- */

/**
 * A channel: a bounded queue of arrays, which any process opens by its name or its handle. Only on
 * Linux.
 *
 * Several threads may use one. Close it with shma_channel_close.
 */
typedef struct shma_channel shma_channel;

/** Who receives a message: SHMA_CHANNEL_QUEUE, SHMA_CHANNEL_BROADCAST or SHMA_CHANNEL_LATEST. */
typedef int32_t shma_channel_mode;

/** What a sender does when all slots are taken. */
typedef int32_t shma_when_full;

/** One of the receivers. */
#define SHMA_CHANNEL_QUEUE 0
/** Each receiver, from when it joined. */
#define SHMA_CHANNEL_BROADCAST 1
/**
 * Each receiver, which reads the last message as often as it likes. No sender waits for receivers.
 * Such a channel has at least 3 slots; half of them can be looked at in place, and a value in the
 * other half is copied when it is received.
 */
#define SHMA_CHANNEL_LATEST 2
/** It waits. */
#define SHMA_WHEN_FULL_BLOCK 0
/** It drops the oldest message; receivers are told how many they missed. */
#define SHMA_WHEN_FULL_DROP_OLDEST 1
/** It returns SHMA_FULL at once. */
#define SHMA_WHEN_FULL_ERROR 2

/**
 * Options of a new channel. Initialize them with SHMA_CHANNEL_OPTIONS_INIT and set what differs
 * from the defaults.
 *
 * Later versions add fields at the end, as for shma_options.
 */
typedef struct shma_channel_options {
    /** sizeof(shma_channel_options), by which the library knows which fields the caller has. */
    size_t struct_bytes;
    /**
     * The number of slots, at most 1023; 0 stands for 8. A message takes one until it was received
     * by all that it goes to, and released.
     */
    uint32_t slots;
    /** How many processes and threads can have the channel open, at most 1023; 0 stands for 128. */
    uint32_t ends;
    /** SHMA_CHANNEL_QUEUE, SHMA_CHANNEL_BROADCAST or SHMA_CHANNEL_LATEST. */
    shma_channel_mode mode;
    /** SHMA_WHEN_FULL_BLOCK, SHMA_WHEN_FULL_DROP_OLDEST or SHMA_WHEN_FULL_ERROR. */
    shma_when_full when_full;
    /**
     * If not 0, each message has a shape of its own, of at most 8 dimensions; the shape of the
     * channel is the largest.
     */
    int32_t varying;
    /** If not 0, an existing channel of the same description is opened instead. */
    int32_t exist_ok;
    /** If not 0, the channel lives until its name is unlinked, even if no process has it open. */
    int32_t persist;
    /**
     * The permission bits of the segment; 0 stands for 0600. With 0644 processes of other users
     * can follow a broadcast or the latest value: they copy it, and no sender waits for them.
     */
    uint32_t file_mode;
} shma_channel_options;

/**
 * Creates a channel whose messages are arrays of this dtype and shape, in C order.
 *
 * element is NULL, or for SHMA_OPAQUE has the dtype_text or the itemsize; its other fields are
 * not used. options may be NULL. Fails with SHMA_ERROR_EXISTS, SHMA_ERROR_NO_SPACE,
 * SHMA_ERROR_INVALID_ARGUMENT and SHMA_ERROR_INVALID_DTYPE.
 * Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_create(const char *name,
                                shma_dtype dtype,
                                size_t ndim,
                                const int64_t *shape,
                                const shma_options *element,
                                const shma_channel_options *options,
                                shma_channel **channel_out,
                                shma_error *error);

/**
 * Creates a channel whose messages are shared arrays outside of the channel: each message
 * holds its array until it is received. Fails like shma_channel_create.
 * Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_create_by_handle(const char *name,
                                          const shma_channel_options *options,
                                          shma_channel **channel_out,
                                          shma_error *error);

/**
 * Opens the channel that has a handle or a name, and waits until there is one of the name.
 *
 * timeout_ns is in nanoseconds; with 0 the call fails at once with SHMA_ERROR_NOT_FOUND if there
 * is none, with SHMA_NO_TIMEOUT it waits without a limit. Returns SHMA_TIMED_OUT if there was none
 * in that time. If receives is not 0, a broadcast's messages are received from now on, otherwise
 * from the first receive on; one that receives and never does so stops the senders of a broadcast.
 * A broadcast of another user, whose file mode allows it, is followed: its messages are copied.
 * Fails with SHMA_ERROR_INVALID_ARGUMENT if the name is not a channel's or all of its ends are in
 * use, with SHMA_ERROR_INVALID_HANDLE and SHMA_ERROR_STALE_HANDLE for a handle that is not a
 * channel's or no longer is.
 * Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_open(const char *handle_or_name,
                              int32_t receives,
                              int64_t timeout_ns,
                              shma_channel **channel_out,
                              shma_error *error);

/**
 * Opens a broadcast like shma_channel_open, and receives first the last messages, at most history,
 * of which the slots have not been needed for others.
 *
 * Fails like shma_channel_open, and with SHMA_ERROR_INVALID_ARGUMENT if history is not 0 and the
 * channel is no broadcast.
 * Only on Linux; elsewhere it fails with SHMA_ERROR_UNSUPPORTED.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_open_with_history(const char *handle_or_name,
                                           uint32_t history,
                                           int64_t timeout_ns,
                                           shma_channel **channel_out,
                                           shma_error *error);

/**
 * Writes the channel's handle to text: one line of UTF-8 by which any process on this machine can
 * open it. The handle does not hold the channel: some process must have it open until another has
 * opened it.
 *
 * text, text_bytes and needed_bytes_out are as in shma_array_handle. Fails with
 * SHMA_ERROR_TEXT_TOO_SHORT if text_bytes is too small.
 */
SHMA_API
shma_status shma_channel_handle(const shma_channel *channel,
                                char *text,
                                size_t text_bytes,
                                size_t *needed_bytes_out,
                                shma_error *error);

/**
 * Returns the dtype of the messages; SHMA_UINT8 if they are handles, SHMA_OPAQUE if C has no type
 * for it.
 */
SHMA_API shma_dtype shma_channel_dtype(const shma_channel *channel);

/** Returns the number of dimensions of a message. */
SHMA_API size_t shma_channel_ndim(const shma_channel *channel);

/**
 * Returns the shape of a message; of varying shapes the largest. Valid until the channel is
 * closed.
 */
SHMA_API const int64_t *shma_channel_shape(const shma_channel *channel);

/** Returns 1 if the messages are handles of shared arrays, else 0. */
SHMA_API int32_t shma_channel_has_handles(const shma_channel *channel);

/** Returns 1 if the channel is of mode SHMA_CHANNEL_LATEST, else 0. */
SHMA_API int32_t shma_channel_is_latest(const shma_channel *channel);

/**
 * Waits until the latest value is newer than the one with a sequence number; with -1, until there
 * is one. Then shma_channel_receive returns it at once.
 *
 * timeout_ns and the outcomes are those of shma_channel_receive. Fails with
 * SHMA_ERROR_INVALID_ARGUMENT if the channel's mode is another than SHMA_CHANNEL_LATEST.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_wait_newer(const shma_channel *channel,
                                    int64_t sequence,
                                    int64_t timeout_ns,
                                    shma_error *error);

/**
 * Writes 1 to ready_out if a receive need not wait now, else 0. Of the latest value: 1 if this
 * channel has not received it yet; so it is for the fd of shma_channel_fd.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_is_ready(const shma_channel *channel,
                                  int32_t *ready_out,
                                  shma_error *error);

/**
 * Writes an fd for poll, epoll and event loops to fd_out. The channel owns it.
 *
 * It is readable while a receive need not wait. A receive that finds nothing makes it unreadable,
 * so receive until nothing is left. A thread of this library sets it, in which every signal is
 * blocked.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_fd(const shma_channel *channel,
                            int *fd_out,
                            shma_error *error);

/**
 * Ends this process's part in a channel: the other side sees the end of the stream after what was
 * sent. Loans and deliveries stay valid until they are given back. Calls that send or receive by
 * this channel fail with SHMA_ERROR_INVALID_ARGUMENT from then on, also those of other threads
 * that wait at it. The channel is freed by shma_channel_close.
 */
SHMA_API void shma_channel_end(const shma_channel *channel);

/**
 * Ends this process's part in a channel like shma_channel_end, and frees it. No other thread may
 * use it meanwhile.
 */
SHMA_API void shma_channel_close(shma_channel *channel);

/* ---- Channels: loans ------------------------------------------------------------------------- */

/** A slot on loan: an array that a sender fills, and then publishes or cancels. */
typedef struct shma_loan shma_loan;

/**
 * Takes a slot on loan, to be filled in place. The caller publishes or cancels it.
 *
 * shape is NULL, or in a channel of varying shapes has the ndim numbers of this message.
 * timeout_ns is in nanoseconds; with SHMA_NO_TIMEOUT the call waits until a slot is free. Returns
 * SHMA_TIMED_OUT if none was in that time, SHMA_FULL if none is and the channel was created with
 * SHMA_WHEN_FULL_ERROR. Fails with SHMA_ERROR_INVALID_ARGUMENT if the shape does not fit, or if
 * another thread ends the channel by shma_channel_end meanwhile, and with
 * SHMA_ERROR_PERMISSION_DENIED if the channel is another user's.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_loan(const shma_channel *channel,
                              size_t ndim,
                              const int64_t *shape,
                              int64_t timeout_ns,
                              shma_loan **loan_out,
                              shma_error *error);

/**
 * Returns the array to fill, which the loan owns: it is valid until the loan is published or
 * cancelled. Its elements are what the slot's last message left.
 */
SHMA_API const shma_array *shma_loan_array(const shma_loan *loan);

/**
 * Publishes a loan, with at most SHMA_MAX_META_BYTES of metadata, and frees it, also if the call
 * fails: then nobody receives anything.
 *
 * Writes the message's sequence number, which counts from 0, to sequence_out, which may be NULL.
 * Fails with SHMA_ERROR_INVALID_ARGUMENT if the metadata is too long, or if a view of the array or
 * a shma_array_retain of it was not closed: it could write to the message.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_loan_publish(shma_loan *loan,
                              const void *meta,
                              size_t meta_bytes,
                              uint64_t *sequence_out,
                              shma_error *error);

/**
 * Frees a loan. Nobody receives anything. Its slot is given back when no retained array and no
 * view of it is left.
 */
SHMA_API void shma_loan_cancel(shma_loan *loan);

/**
 * Sends a copy of private memory; a channel of handles sends a shared copy. data points to the
 * first element.
 *
 * strides has ndim numbers of bytes; NULL stands for contiguous elements in C order. The dtype,
 * and unless the shapes vary, the shape are the channel's. Other arguments, outcomes and errors
 * are as for shma_channel_loan and shma_loan_publish; SHMA_ERROR_DTYPE_MISMATCH.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_send(const shma_channel *channel,
                              const void *data,
                              shma_dtype dtype,
                              size_t ndim,
                              const int64_t *shape,
                              const int64_t *strides,
                              const void *meta,
                              size_t meta_bytes,
                              int64_t timeout_ns,
                              uint64_t *sequence_out,
                              shma_error *error);

/**
 * Sends a shared array: a copy of its elements, or in a channel of handles the array itself.
 * Arguments, outcomes and errors are as for shma_channel_send.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_send_array(const shma_channel *channel,
                                    const shma_array *array,
                                    const void *meta,
                                    size_t meta_bytes,
                                    int64_t timeout_ns,
                                    uint64_t *sequence_out,
                                    shma_error *error);

/* ---- Channels: deliveries -------------------------------------------------------------------- */

/** A message that was received: an array, which keeps its slot until the delivery is closed. */
typedef struct shma_delivery shma_delivery;

/**
 * Receives a message. The caller closes it with shma_delivery_close.
 *
 * timeout_ns is in nanoseconds; with SHMA_NO_TIMEOUT the call waits until there is a message or
 * the stream has ended. Returns SHMA_TIMED_OUT if none came in that time; SHMA_CLOSED if no
 * process sends any more and everything was received; SHMA_SENDER_DIED if the same holds and the
 * last sender died. Of the latest value it receives the value as it is now, as often as it is
 * called, and waits only for the first one: shma_channel_wait_newer waits for the next. Fails with
 * SHMA_ERROR_INVALID_ARGUMENT if another thread ends the channel by shma_channel_end meanwhile.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_receive(const shma_channel *channel,
                                 int64_t timeout_ns,
                                 shma_delivery **delivery_out,
                                 shma_error *error);

/**
 * Returns the array of a message, which the delivery owns: it is valid until the delivery is
 * closed.
 *
 * A shma_array_retain or a view of it keeps the slot, too, so that a sender may wait for it. A
 * shma_array_share of its elements, or a memcpy, is a copy.
 */
SHMA_API const shma_array *shma_delivery_array(const shma_delivery *delivery);

/** Returns the number of the message: 0 for the first of the channel, 1 more for each after it. */
SHMA_API uint64_t shma_delivery_sequence(const shma_delivery *delivery);

/** Returns when the message was published, in nanoseconds since 1970. */
SHMA_API uint64_t shma_delivery_time_ns(const shma_delivery *delivery);

/** Returns the time since the message was published, in nanoseconds, by the system's clock. */
SHMA_API uint64_t shma_delivery_age_ns(const shma_delivery *delivery);

/**
 * Returns how many messages were dropped since the one that was received before. In a queue one of
 * the receivers is told of each.
 */
SHMA_API uint64_t shma_delivery_missed(const shma_delivery *delivery);

/**
 * Returns the metadata of a message and writes its size to bytes_out, which may be NULL. Valid
 * until the delivery is closed.
 */
SHMA_API const void *shma_delivery_meta(const shma_delivery *delivery, size_t *bytes_out);

/** Frees a delivery. Its slot is given back when no retained array and no view of it is left. */
SHMA_API void shma_delivery_close(shma_delivery *delivery);

/* ---- Channels: ends that are handed over ----------------------------------------------------- */

/**
 * An end of a channel that is under way to another process. It counts as an end of the channel
 * until that process has opened it, or until all copies of its fd are closed.
 */
typedef struct shma_handed_over shma_handed_over;

/**
 * Hands an end over to another process, as one hands an end of a pipe to a child.
 *
 * The other process opens it by shma_channel_open with shma_handed_over_handle, and has a copy of
 * shma_handed_over_fd until then: it inherits the fd, or receives it. After it has started, this
 * process calls shma_handed_over_close. Without it, a channel that this process closes before the
 * other one has opened it has ended. Fails with SHMA_ERROR_INVALID_ARGUMENT if all ends are in use
 * or the channel is closed, and with SHMA_ERROR_UNSUPPORTED for another user's channel, of which
 * the handle is enough.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_channel_hand_over(const shma_channel *channel,
                                   shma_handed_over **handed_over_out,
                                   shma_error *error);

/**
 * Returns the handle by which one process opens the end, a line of text. Valid until
 * shma_handed_over_close.
 */
SHMA_API const char *shma_handed_over_handle(const shma_handed_over *handed_over);

/**
 * Returns the fd that holds the end, which is close-on-exec and closed by shma_handed_over_close.
 * Returns -1 for NULL.
 */
SHMA_API int shma_handed_over_fd(const shma_handed_over *handed_over);

/**
 * Closes this process's copy of the fd. If it is the last and nobody has opened the end, the end
 * is as that of a process that died.
 */
SHMA_API void shma_handed_over_close(shma_handed_over *handed_over);

/* ---- Segments -------------------------------------------------------------------------------- */

/** A list of the shared memory that this library uses on this machine. */
typedef struct shma_segment_list shma_segment_list;

/** The kind of a segment or of a cell: one of the numbers below. */
typedef int32_t shma_segment_kind;

/** An array that a process or a message holds, or that persists without a holder. */
#define SHMA_SEGMENT_ARRAY 0
/** Free memory that living processes keep in their pool for new arrays. */
#define SHMA_SEGMENT_POOL 1
/**
 * Memory that dead processes left behind. The next create or receive of
 * a process of the same user gives it back, and so does shma_sweep.
 */
#define SHMA_SEGMENT_REMAINS 2
/** A channel that a process has open, or that persists. */
#define SHMA_SEGMENT_CHANNEL 3

/**
 * Describes an array, which need not be attached, or memory that is not an array at present.
 *
 * Later versions add members at the end.
 */
typedef struct shma_segment_info {
    /**
     * The segment's id. For an array in a cell, it includes the number of the cell, as in "id.17".
     */
    const char *segment;
    /** The name that was given on creation, or NULL. */
    const char *name;
    /** SHMA_SEGMENT_ARRAY, SHMA_SEGMENT_POOL, SHMA_SEGMENT_REMAINS or SHMA_SEGMENT_CHANNEL. */
    shma_segment_kind kind;
    /** 1 if the array lives until its name is unlinked, even without a holder; else 0. */
    int32_t persists;
    /** The bytes of shared memory that it uses. They include the header, unless arrays share it. */
    uint64_t segment_bytes;
    /** The dtype's text as in a handle; "|u1" for memory that is not an array. */
    const char *dtype;
    /** The number of dimensions. */
    size_t ndim;
    /** The number of elements along each dimension. */
    const int64_t *shape;
    /** The number of holders. */
    size_t holders_count;
    /**
     * The pids of the living processes that have a lease on it or have it in their pool, each in
     * the pid namespace of that process.
     */
    const uint32_t *holders;
    /**
     * The number of tickets that hold it: of messages and of handles that were sent out of band.
     */
    uint64_t tickets;
    /** The pid of the process that created it, in the pid namespace of that process. */
    uint32_t creator_pid;
    /** The time when it was created, in nanoseconds since 1970. For a cell, that of its segment. */
    uint64_t created_ns;
} shma_segment_info;

/**
 * Lists the shared memory that this library uses: arrays, channels, pools, and memory of dead
 * processes.
 * Memory that this user has no permission to open is left out. On systems other
 * than Linux the list is empty. The list does not change after the
 * call, and may lack what other threads and processes make during it. On systems other than Linux
 * the list is empty.
 *
 * Fails with SHMA_ERROR_OS and SHMA_ERROR_NO_MEMORY.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_segment_list_create(shma_segment_list **list_out,
                                     shma_error *error);

/** Returns the number of infos; 0 for NULL. */
SHMA_API size_t shma_segment_list_count(const shma_segment_list *list);

/**
 * Returns an info, or NULL if there is none of that index. It is valid until the list is closed.
 */
SHMA_API
const shma_segment_info *shma_segment_list_get(const shma_segment_list *list,
                                                      size_t index);

/** Closes a list and frees its infos. */
SHMA_API void shma_segment_list_close(shma_segment_list *list);

/**
 * Removes the name of an array. The array is given back when its last holder releases it.
 *
 * Fails with SHMA_ERROR_NOT_FOUND, SHMA_ERROR_INVALID_ARGUMENT, SHMA_ERROR_PERMISSION_DENIED.
 */
SHMA_API shma_status shma_segment_unlink(const char *name, shma_error *error);

/**
 * Releases the ticket of a handle that shma_array_handle_to_send wrote and that no process will
 * attach. The call does nothing if the ticket was released before, the array no longer exists, or
 * the handle has no ticket.
 *
 * Fails with SHMA_ERROR_INVALID_HANDLE, SHMA_ERROR_INVALID_SEGMENT, SHMA_ERROR_PERMISSION_DENIED.
 */
SHMA_API shma_status shma_handle_discard(const char *handle, shma_error *error);

/**
 * Gives back the memory that dead processes held and the unused memory in the pools of all this
 * user's processes, and writes how much it was. Both outputs may be NULL. Programs need not call
 * it: creates and receives give back what dead processes held.
 */
SHMA_API shma_status shma_sweep(uint64_t *segments_out, uint64_t *bytes_out, shma_error *error);

/* ---- NPY files ------------------------------------------------------------------------------- */

/**
 * Loads an NPY file into shared memory. The elements are read straight into the array, and what
 * follows them in the file is ignored.
 *
 * The file says the dtype, the shape and the order of the elements. options may be NULL; its order
 * must be SHMA_ORDER_C, and its dtype_text and itemsize must be those of the file, unless they are
 * NULL and 0. Fails with SHMA_ERROR_NOT_FOUND, SHMA_ERROR_INVALID_FILE,
 * SHMA_ERROR_DTYPE_MISMATCH if the dtype is not that of options, SHMA_ERROR_INVALID_DTYPE if the
 * file has Python objects, and like shma_array_create.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_npy_load(const char *path,
                          const shma_options *options,
                          shma_array **array_out,
                          shma_error *error);

/**
 * Loads the bytes of an NPY file into shared memory, as shma_npy_load does.
 *
 * data has size_bytes bytes. Another thread or process may write them meanwhile: the call then
 * returns an array with some of the bytes before and some after, or fails.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_npy_load_bytes(const void *data,
                                size_t size_bytes,
                                const shma_options *options,
                                shma_array **array_out,
                                shma_error *error);

/**
 * Loads NPY files of one shape and dtype into one array in shared memory, in C order: its first
 * dimension counts the files, and the others are those of each file.
 *
 * paths has count elements, at least one. threads is the number of threads that read; 0 stands for
 * one for each core. options is as for shma_npy_load. Fails like that, and with
 * SHMA_ERROR_INVALID_FILE if a file has another shape or dtype than the first one.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_npy_load_batch(const char *const *paths,
                                size_t count,
                                uint32_t threads,
                                const shma_options *options,
                                shma_array **array_out,
                                shma_error *error);

/**
 * Saves an array to an NPY file, with the bytes that numpy.save writes. The file appears under its
 * path when it is complete. An older one is replaced and keeps its owner, mode and attributes, or
 * is written in place if it has several names or cannot be replaced: a kill may then leave a part
 * of it, which begins with zeros. A pipe is written as it is. The path is used as it is: no ".npy"
 * is added.
 *
 * Fails with SHMA_ERROR_NOT_FOUND if the folder does not exist, SHMA_ERROR_INVALID_DTYPE if an NPY
 * file cannot describe the dtype, SHMA_ERROR_OS.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_npy_save(const char *path,
                          const shma_array *array,
                          shma_error *error);

/* ---- NPZ files ------------------------------------------------------------------------------- */

/**
 * An open NPZ file: named arrays in a ZIP archive, stored or deflated. Members that are not NPY
 * files are arrays of their bytes.
 */
typedef struct shma_npz shma_npz;

/**
 * Options of an NPZ file. Initialize them with SHMA_NPZ_OPTIONS_INIT and set what differs from the
 * defaults. They grow as shma_options does.
 */
typedef struct shma_npz_options {
    /** sizeof(shma_npz_options), by which the library knows which fields the caller has. */
    size_t struct_bytes;
    /**
     * For an open: the limit in bytes on what compressed members may become together in one call.
     * 0 stands for the memory that is free, and at least 1 GiB and 100 times the archive's size.
     */
    uint64_t max_bytes;
    /**
     * The number of threads of shma_npz_load_all and shma_npz_save; 0 stands for one for each
     * core.
     */
    uint32_t threads;
    /** For a save: if not 0, members are deflated. Otherwise they are stored. */
    int32_t deflated;
    /**
     * For a save: the alignment of the members in bytes, a power of two up to 4096, such as 64:
     * stored arrays that are mapped are aligned then. 0 adds nothing to what numpy.savez writes.
     */
    uint64_t align;
} shma_npz_options;

/**
 * Opens an NPZ file and reads its directory. Members are read when they are loaded.
 *
 * options may be NULL. Fails with SHMA_ERROR_NOT_FOUND, and with SHMA_ERROR_INVALID_FILE if it is
 * no ZIP archive, or one with members that have one name, have a part ".." in their name, or
 * overlap.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_npz_open(const char *path,
                          const shma_npz_options *options,
                          shma_npz **npz_out,
                          shma_error *error);

/**
 * Opens the bytes of an NPZ file, as shma_npz_open does. They are not copied: the caller keeps
 * them until it has closed the NPZ file.
 *
 * data has size_bytes bytes. Another thread or process may write them meanwhile: a load then
 * returns an array with some of the bytes before and some after, or fails.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_npz_open_bytes(const void *data,
                                size_t size_bytes,
                                const shma_npz_options *options,
                                shma_npz **npz_out,
                                shma_error *error);

/** Returns the number of members; 0 for NULL. */
SHMA_API size_t shma_npz_count(const shma_npz *npz);

/**
 * Returns the name of a member, or NULL if there is none of that index. An array's name has no
 * ".npy", unless another member has the name without it. The text is valid until the NPZ file is
 * closed.
 */
SHMA_API const char *shma_npz_name(const shma_npz *npz, size_t index);

/** Returns 1 if shma_npz_load finds a member of this name, with or without ".npy", else 0. */
SHMA_API int32_t shma_npz_contains(const shma_npz *npz, const char *name);

/**
 * Loads a member into shared memory: the array, or for a member that is not an NPY file its bytes
 * as an array of SHMA_UINT8. The member's CRC is checked.
 *
 * name is with or without ".npy". options may be NULL, and are as for shma_npy_load. Fails with
 * SHMA_ERROR_NOT_FOUND if there is no such member, SHMA_ERROR_INVALID_FILE also if the member is
 * encrypted, is compressed by another method than deflate, bzip2, LZMA and Zstandard, or would
 * exceed max_bytes, and like shma_npy_load.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_npz_load(const shma_npz *npz,
                          const char *name,
                          const shma_options *options,
                          shma_array **array_out,
                          shma_error *error);

/**
 * Loads all members into shared memory, by several threads.
 *
 * arrays_out has room for shma_npz_count(npz) pointers, and gets the array of each index of
 * shma_npz_name. options may be NULL, and must not have a name. Fails like shma_npz_load: then no
 * array is left, and nothing is written to arrays_out.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_npz_load_all(const shma_npz *npz,
                              const shma_options *options,
                              shma_array **arrays_out,
                              shma_error *error);

/**
 * Saves arrays to an NPZ file; stored, with the bytes that numpy.savez writes. The file appears
 * under its path when it is complete, and takes the place of an older one as with shma_npy_save.
 * The path is used as it is: no ".npz" is added.
 *
 * names and arrays have count elements. A name is without ".npy", which is added to it. options
 * may be NULL. Fails with SHMA_ERROR_NOT_FOUND if the folder does not exist,
 * SHMA_ERROR_INVALID_ARGUMENT if a name is there twice, SHMA_ERROR_INVALID_DTYPE if an NPY file
 * cannot describe a dtype, SHMA_ERROR_OS.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_npz_save(const char *path,
                          size_t count,
                          const char *const *names,
                          shma_array *const *arrays,
                          const shma_npz_options *options,
                          shma_error *error);

/** Closes an NPZ file. Its arrays stay open. */
SHMA_API void shma_npz_close(shma_npz *npz);

/* ---- Lists: columns -------------------------------------------------------------------------- */

/**
 * One column of a list: its items, those of a field, or those of the lists in it. The list owns
 * it: it is valid until the list is closed, and nobody closes it.
 */
typedef struct shma_column shma_column;

/** What the items of a column are: one of the numbers below. Later versions may have more. */
typedef int32_t shma_item_kind;

/** A number, or another item of the column's dtype. */
#define SHMA_ITEM_NUMBER 1
/** An array. All of the column have one dtype and one number of dimensions. */
#define SHMA_ITEM_ARRAY 2
/** A string: UTF-8 without a zero byte behind it. */
#define SHMA_ITEM_STRING 3
/** Bytes. */
#define SHMA_ITEM_BYTES 4
/** A record, which has an item of each field's column. */
#define SHMA_ITEM_RECORD 5
/** A list of items that are in a column of their own. */
#define SHMA_ITEM_LIST 6
/** An object of Python, which only Python reads. */
#define SHMA_ITEM_PICKLE 7
/** Nothing: every item is None, or there is no item. */
#define SHMA_ITEM_NOTHING 8

/** Returns what the items are; 0 for NULL. */
SHMA_API shma_item_kind shma_column_kind(const shma_column *column);

/** Returns the number of items. */
SHMA_API size_t shma_column_count(const shma_column *column);

/** Returns the number of items that are None. */
SHMA_API size_t shma_column_nulls(const shma_column *column);

/**
 * Returns the name of a field; a text of no length for the other columns. It is valid until the
 * list is closed.
 */
SHMA_API const char *shma_column_name(const shma_column *column);

/**
 * Returns the dtype of numbers and of the elements of arrays; SHMA_OPAQUE if C has no type for it,
 * and for other kinds.
 */
SHMA_API shma_dtype shma_column_dtype(const shma_column *column);

/**
 * Returns the dtype as it stands in a handle; a text of no length for kinds without one. It is
 * valid until the list is closed.
 */
SHMA_API const char *shma_column_dtype_text(const shma_column *column);

/** Returns the size of a number, or of an element of an array, in bytes; 0 for other kinds. */
SHMA_API size_t shma_column_itemsize(const shma_column *column);

/** Returns the number of dimensions of arrays; 0 for other kinds. */
SHMA_API size_t shma_column_ndim(const shma_column *column);

/** Returns the number of fields of records; 1 for lists, whose items are in one column; else 0. */
SHMA_API size_t shma_column_child_count(const shma_column *column);

/**
 * Returns a field of records, or the column of the items of lists; NULL if there is none of that
 * index. It is valid until the list is closed.
 */
SHMA_API
const shma_column *shma_column_child(const shma_column *column,
                                            size_t index);

/** Returns the field of records that has a name, or NULL. It is valid until the list is closed. */
SHMA_API
const shma_column *shma_column_field(const shma_column *column,
                                            const char *name);

/** Returns 1 if an item is None, else 0, also if there is none of that index. */
SHMA_API int32_t shma_column_is_none(const shma_column *column, size_t index);

/**
 * Writes where the bytes of an item lie to data_out, and how many they are to size_bytes_out: of a
 * number, of an array's elements in C order, of a string, or of bytes. They are valid until the
 * list is closed. An item that is None has no bytes, and data_out gets NULL; it gets another
 * pointer for an item of no length. Nothing is copied or allocated.
 *
 * Numbers and elements are aligned, unless the list is a view of an array of bytes that is not.
 * Fails with SHMA_ERROR_OUT_OF_BOUNDS if there is no item of that index,
 * SHMA_ERROR_INVALID_SEGMENT if the bytes of the list are broken, and SHMA_ERROR_INVALID_ARGUMENT
 * for records and lists, which have no bytes of their own, and for pickles. Whether a string is
 * UTF-8 is not checked.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_column_item(const shma_column *column,
                             size_t index,
                             const void **data_out,
                             size_t *size_bytes_out,
                             shma_error *error);

/**
 * Writes the shape of an array to shape_out, which has room for the column's ndim numbers. An
 * array that is None has no elements. Fails like shma_column_item. If a process breaks its promise
 * and writes to the list between two calls, the shape may say more elements than that function
 * found; shma_column_array makes both of one reading.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_column_shape(const shma_column *column,
                              size_t index,
                              size_t ndim,
                              int64_t *shape_out,
                              shma_error *error);

/**
 * Writes where the items of a list begin in the column of its items, shma_column_child(column, 0),
 * to first_out, and how many they are to count_out. Fails like shma_column_item, and with
 * SHMA_ERROR_INVALID_ARGUMENT for other kinds.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_column_range(const shma_column *column,
                              size_t index,
                              size_t *first_out,
                              size_t *count_out,
                              shma_error *error);

/**
 * Makes an array of an item that is one: a view of the list's memory, which stays valid after the
 * list is closed. An array that is None has no elements. Fails like shma_column_item, and with
 * SHMA_ERROR_INVALID_ARGUMENT for other kinds.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_column_array(const shma_column *column,
                              size_t index,
                              shma_array **array_out,
                              shma_error *error);

/**
 * Makes an array of one dimension of the values of all items, one after another: the numbers, the
 * elements of all arrays, or the bytes. It is a view like that of shma_column_array. Fails with
 * SHMA_ERROR_INVALID_ARGUMENT for kinds without values, and for pickles.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_column_values(const shma_column *column,
                               shma_array **array_out,
                               shma_error *error);

/**
 * Makes an array of SHMA_INT64 of the offsets: where each item begins in the values, or in the
 * column of the items of lists, and last where they end. They are in elements, bytes or items, and
 * are not checked. It is a view like that of shma_column_array. Fails with
 * SHMA_ERROR_INVALID_ARGUMENT for kinds without offsets, for arrays of one shape, which have none,
 * and for pickles.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_column_offsets(const shma_column *column,
                                shma_array **array_out,
                                shma_error *error);

/* ---- Lists: builders of columns -------------------------------------------------------------- */

/**
 * A column to which items are added, before there is a list of them. They are in private memory.
 *
 * Close it with shma_column_builder_close, unless it was given to a list or to another builder.
 */
typedef struct shma_column_builder shma_column_builder;

/**
 * Makes a builder of a column of SHMA_ITEM_STRING, SHMA_ITEM_BYTES or SHMA_ITEM_NOTHING.
 * Fails with SHMA_ERROR_INVALID_ARGUMENT for another kind.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_column_builder_create(shma_item_kind kind,
                                       shma_column_builder **builder_out,
                                       shma_error *error);

/**
 * Makes a builder of a column of numbers, or other items of one dtype.
 *
 * element is NULL, or for SHMA_OPAQUE has the dtype_text or the itemsize; its other fields are
 * not used. Fails with SHMA_ERROR_INVALID_DTYPE.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_column_builder_create_numbers(shma_dtype dtype,
                                               const shma_options *element,
                                               shma_column_builder **builder_out,
                                               shma_error *error);

/**
 * Makes a builder of a column of arrays of one dtype and of ndim dimensions, 1 to 64. Their shapes
 * may differ.
 *
 * dtype, element and errors are as for shma_column_builder_create_numbers.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_column_builder_create_arrays(shma_dtype dtype,
                                              const shma_options *element,
                                              size_t ndim,
                                              shma_column_builder **builder_out,
                                              shma_error *error);

/**
 * Makes a builder of a column of records. Items are added to its fields, and then so many records
 * by shma_column_builder_push_records.
 *
 * names and fields have count elements. The call takes the fields, also if it fails: they are not
 * used or closed any more, and shma_column_builder_field returns those of the records. Fails with
 * SHMA_ERROR_INVALID_ARGUMENT if two fields have one name or are one builder.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_column_builder_create_records(size_t count,
                                               const char *const *names,
                                               shma_column_builder *const *fields,
                                               shma_column_builder **builder_out,
                                               shma_error *error);

/**
 * Makes a builder of a column of lists. Items are added to shma_column_builder_field(builder, 0),
 * and then a list of them by shma_column_builder_push_list.
 *
 * items says what the items of the lists are. The call takes it, also if it fails, as
 * shma_column_builder_create_records does.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_column_builder_create_lists(shma_column_builder *items,
                                             shma_column_builder **builder_out,
                                             shma_error *error);

/**
 * Returns the builder of a field, or with index 0 that of the items of lists; NULL if there is
 * none of that index. It is valid as long as the builder, which owns it.
 */
SHMA_API
const shma_column_builder *shma_column_builder_field(const shma_column_builder *builder,
                                                            size_t index);

/** Returns the number of items so far. */
SHMA_API size_t shma_column_builder_count(const shma_column_builder *builder);

/** Adds numbers, or other items of the dtype, which data points to. */
SHMA_API
shma_status shma_column_builder_push_numbers(const shma_column_builder *builder,
                                             const void *data,
                                             size_t count,
                                             shma_error *error);

/**
 * Adds an array. data points to its elements, in C order without gaps. ndim is that of the column.
 */
SHMA_API
shma_status shma_column_builder_push_array(const shma_column_builder *builder,
                                           size_t ndim,
                                           const int64_t *shape,
                                           const void *data,
                                           shma_error *error);

/**
 * Adds a string: size_bytes bytes of UTF-8, without a zero byte behind them. Fails with
 * SHMA_ERROR_INVALID_ARGUMENT also if they are not UTF-8.
 */
SHMA_API
shma_status shma_column_builder_push_string(const shma_column_builder *builder,
                                            const char *data,
                                            size_t size_bytes,
                                            shma_error *error);

/** Adds an item of bytes. */
SHMA_API
shma_status shma_column_builder_push_bytes(const shma_column_builder *builder,
                                           const void *data,
                                           size_t size_bytes,
                                           shma_error *error);

/**
 * Adds so many records, of which each field has the items already. Fails with
 * SHMA_ERROR_INVALID_ARGUMENT if a field has more or fewer.
 */
SHMA_API
shma_status shma_column_builder_push_records(const shma_column_builder *builder,
                                             size_t count,
                                             shma_error *error);

/** Adds a list of the items that were added to the column of its items since the list before. */
SHMA_API
shma_status shma_column_builder_push_list(const shma_column_builder *builder,
                                          shma_error *error);

/**
 * Adds None; of records it adds None to each field, too. Fails with SHMA_ERROR_INVALID_ARGUMENT
 * if items were added that no list has.
 */
SHMA_API
shma_status shma_column_builder_push_none(const shma_column_builder *builder,
                                          shma_error *error);

/** Frees a builder, with its fields and what was added. */
SHMA_API void shma_column_builder_close(shma_column_builder *builder);

/* ---- Lists ----------------------------------------------------------------------------------- */

/**
 * A list: an immutable sequence of numbers, arrays, strings, bytes, records or lists in shared
 * memory, in Arrow's layout. Its bytes are an array, which has its handle and its name.
 *
 * A process that writes to those bytes breaks it: functions then return other items or
 * SHMA_ERROR_INVALID_SEGMENT, and never read outside the list.
 */
typedef struct shma_list shma_list;

/**
 * Creates a list of the items of a column. All its memory is reserved by this call.
 *
 * The call takes the builder, also if it fails: it is not used or closed any more. options may be
 * NULL; its order, uninitialized, itemsize and dtype_text are not used. Fails with
 * SHMA_ERROR_NO_SPACE, SHMA_ERROR_EXISTS and, for options that only Linux has,
 * SHMA_ERROR_UNSUPPORTED; with SHMA_ERROR_INVALID_ARGUMENT for more than 65536 columns, or more
 * than 16 that lie in one another.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_list_create(shma_column_builder *items,
                             const shma_options *options,
                             shma_list **list_out,
                             shma_error *error);

/**
 * Attaches the list that has this handle or this name, read-only.
 *
 * Fails like shma_array_attach, with SHMA_ERROR_DTYPE_MISMATCH if it is an array of another dtype,
 * and with SHMA_ERROR_INVALID_SEGMENT if its bytes are not a list's; the message names the field.
 * The items are checked when they are read.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_list_attach(const char *handle_or_name,
                             shma_list **list_out,
                             shma_error *error);

/**
 * Makes a list of the array of its bytes, such as one that was received. The array may be closed
 * before the list. Fails like shma_list_attach.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_list_of_array(const shma_array *array,
                               shma_list **list_out,
                               shma_error *error);

/**
 * Saves a list to a file, with a checksum. The file appears under its path when it is complete;
 * shma_npy_save says what becomes of an older one. Fails with SHMA_ERROR_OS and
 * SHMA_ERROR_NOT_FOUND.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_list_save(const char *path,
                           const shma_list *list,
                           shma_error *error);

/**
 * Opens a list in a file, which is mapped: its pages are read when they are needed. If checked is
 * not 0, all of it is read now, and compared with its checksum. The functions that return arrays
 * of it fail with SHMA_ERROR_INVALID_ARGUMENT; shma_column_item gives the same bytes.
 *
 * Fails with SHMA_ERROR_INVALID_FILE, whose message names the field, SHMA_ERROR_NOT_FOUND and
 * SHMA_ERROR_OS. If another program makes the file shorter meanwhile, reading the lost pages is a
 * bus error, as of any mapping.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_list_open(const char *path,
                           int32_t checked,
                           shma_list **list_out,
                           shma_error *error);

/**
 * Returns the array of the list's bytes, for its handle and for messages. The list owns it: it is
 * valid until the list is closed, and longer only for who retains it. Returns NULL for a list in a
 * file, which others open by its path.
 */
SHMA_API const shma_array *shma_list_array(const shma_list *list);

/** Returns the number of items. */
SHMA_API size_t shma_list_count(const shma_list *list);

/** Returns the column of the items. The list owns it: it is valid until the list is closed. */
SHMA_API const shma_column *shma_list_items(const shma_list *list);

/**
 * Closes a list. Its memory is given back when no process holds it any more; arrays that were made
 * of its items hold it, too.
 */
SHMA_API void shma_list_close(shma_list *list);

/* ---- Dictionaries ---------------------------------------------------------------------------- */

/**
 * A dictionary: a frozen mapping in shared memory. Its keys are strings, bytes or integers, its
 * values what the items of a list are. Both are columns: the value of the key of an index is the
 * item of that index. Its bytes are an array, as those of a list.
 *
 * A key is found by a hash table in the shared memory, so attaching takes no longer for more
 * entries.
 */
typedef struct shma_dict shma_dict;

/**
 * Creates a dictionary of the keys of a column and as many values of another. All its memory is
 * reserved by this call.
 *
 * The call takes both builders, also if it fails, as shma_list_create does, whose options and
 * failures it has. Fails with SHMA_ERROR_INVALID_ARGUMENT also if a key is there twice or is None,
 * if the keys are no strings, bytes or SHMA_INT64, if there are more or fewer values, or if both
 * are one builder.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_dict_create(shma_column_builder *keys,
                             shma_column_builder *values,
                             const shma_options *options,
                             shma_dict **dict_out,
                             shma_error *error);

/**
 * Attaches the dictionary that has this handle or this name, read-only. Fails like
 * shma_list_attach. The entries are checked when they are read.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_dict_attach(const char *handle_or_name,
                             shma_dict **dict_out,
                             shma_error *error);

/**
 * Makes a dictionary of the array of its bytes, such as one that was received. The array may be
 * closed before the dictionary. Fails like shma_list_attach.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_dict_of_array(const shma_array *array,
                               shma_dict **dict_out,
                               shma_error *error);

/** Saves a dictionary to a file, as shma_list_save does. */
SHMA_NODISCARD SHMA_API
shma_status shma_dict_save(const char *path,
                           const shma_dict *dict,
                           shma_error *error);

/**
 * Opens a dictionary in a file, which is mapped, as shma_list_open does. A file that has a list is
 * refused with SHMA_ERROR_INVALID_FILE.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_dict_open(const char *path,
                           int32_t checked,
                           shma_dict **dict_out,
                           shma_error *error);

/**
 * Returns the array of the dictionary's bytes, for its handle and for messages. The dictionary
 * owns it: it is valid until the dictionary is closed, and longer only for who retains it. Returns
 * NULL for a dictionary in a file.
 */
SHMA_API const shma_array *shma_dict_array(const shma_dict *dict);

/** Returns the number of entries. */
SHMA_API size_t shma_dict_count(const shma_dict *dict);

/**
 * Returns the column of the keys, in the order in which they were added: SHMA_ITEM_STRING,
 * SHMA_ITEM_BYTES, or SHMA_ITEM_NUMBER of SHMA_INT64; of a dictionary without entries any. The
 * dictionary owns it: it is valid until the dictionary is closed.
 */
SHMA_API const shma_column *shma_dict_keys(const shma_dict *dict);

/**
 * Returns the column of the values, in the order of the keys. It is valid as that of
 * shma_dict_keys.
 */
SHMA_API const shma_column *shma_dict_values(const shma_dict *dict);

/**
 * Writes the index of a key, a string of size_bytes bytes, to index_out: that of its value in
 * shma_dict_values. Returns SHMA_ABSENT if there is no such key, also if the keys are of another
 * kind, or if the bytes are not UTF-8, which no key is. Fails with SHMA_ERROR_INVALID_SEGMENT if
 * the bytes of the dictionary are broken.
 */
SHMA_NODISCARD SHMA_API
shma_status shma_dict_find_string(const shma_dict *dict,
                                  const char *key,
                                  size_t size_bytes,
                                  size_t *index_out,
                                  shma_error *error);

/** Does the same as shma_dict_find_string for a key of bytes, which may be any. */
SHMA_NODISCARD SHMA_API
shma_status shma_dict_find_bytes(const shma_dict *dict,
                                 const void *key,
                                 size_t size_bytes,
                                 size_t *index_out,
                                 shma_error *error);

/** Does the same as shma_dict_find_string for an integer. */
SHMA_NODISCARD SHMA_API
shma_status shma_dict_find_integer(const shma_dict *dict,
                                   int64_t key,
                                   size_t *index_out,
                                   shma_error *error);

/**
 * Closes a dictionary. Its memory is given back when no process holds it any more; arrays that
 * were made of its values hold it, too.
 */
SHMA_API void shma_dict_close(shma_dict *dict);

#ifdef __cplusplus
}
#endif

#endif
