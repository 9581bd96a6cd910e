// The ABI as the compiler sees it: sizes, offsets, constants and the types of functions. None of
// them ever changes within ABI 0.
#include <stddef.h>
#include <stdint.h>

#include <shmarray.h>

#define SAME_TYPE(value, type) _Generic((value), type : 1, default : 0)

_Static_assert(SAME_TYPE((shma_dtype)0, int32_t), "a dtype is an int32_t");
_Static_assert(SAME_TYPE((shma_access)0, int32_t), "an access is an int32_t");
_Static_assert(SAME_TYPE((shma_order)0, int32_t), "an order is an int32_t");
_Static_assert(SAME_TYPE((shma_status)0, int32_t), "a status is an int32_t");
_Static_assert(SAME_TYPE((shma_segment_kind)0, int32_t), "a kind is an int32_t");

_Static_assert(sizeof(shma_error) == 1024, "shma_error");
_Static_assert(_Alignof(shma_error) == 4, "shma_error");
_Static_assert(offsetof(shma_error, status) == 0, "shma_error.status");
_Static_assert(offsetof(shma_error, os_errno) == 4, "shma_error.os_errno");
_Static_assert(offsetof(shma_error, message) == 8, "shma_error.message");
_Static_assert(sizeof(((shma_error *)0)->message) == SHMA_MESSAGE_BYTES, "shma_error.message");

#if SIZE_MAX == UINT64_MAX
_Static_assert(sizeof(shma_options) == 48, "shma_options");
_Static_assert(_Alignof(shma_options) == 8, "shma_options");
_Static_assert(offsetof(shma_options, struct_bytes) == 0, "shma_options.struct_bytes");
_Static_assert(offsetof(shma_options, name) == 8, "shma_options.name");
_Static_assert(offsetof(shma_options, persist) == 16, "shma_options.persist");
_Static_assert(offsetof(shma_options, mode) == 20, "shma_options.mode");
_Static_assert(offsetof(shma_options, order) == 24, "shma_options.order");
_Static_assert(offsetof(shma_options, uninitialized) == 28, "shma_options.uninitialized");
_Static_assert(offsetof(shma_options, itemsize) == 32, "shma_options.itemsize");
_Static_assert(offsetof(shma_options, dtype_text) == 40, "shma_options.dtype_text");
#endif

_Static_assert(sizeof(shma_segment_info) == 96, "shma_segment_info");
_Static_assert(offsetof(shma_segment_info, name) == 8, "shma_segment_info.name");
_Static_assert(offsetof(shma_segment_info, kind) == 16, "shma_segment_info.kind");
_Static_assert(offsetof(shma_segment_info, persists) == 20, "shma_segment_info.persists");
_Static_assert(offsetof(shma_segment_info, segment_bytes) == 24, "shma_segment_info.segment_bytes");
_Static_assert(offsetof(shma_segment_info, dtype) == 32, "shma_segment_info.dtype");
_Static_assert(offsetof(shma_segment_info, ndim) == 40, "shma_segment_info.ndim");
_Static_assert(offsetof(shma_segment_info, shape) == 48, "shma_segment_info.shape");
_Static_assert(offsetof(shma_segment_info, holders_count) == 56, "shma_segment_info.holders_count");
_Static_assert(offsetof(shma_segment_info, holders) == 64, "shma_segment_info.holders");
_Static_assert(offsetof(shma_segment_info, tickets) == 72, "shma_segment_info.tickets");
_Static_assert(offsetof(shma_segment_info, creator_pid) == 80, "shma_segment_info.creator_pid");
_Static_assert(offsetof(shma_segment_info, created_ns) == 88, "shma_segment_info.created_ns");
_Static_assert(SHMA_OK == 0, "SHMA_OK");
_Static_assert(SHMA_TIMED_OUT == 1, "SHMA_TIMED_OUT");
_Static_assert(SHMA_CLOSED == 2, "SHMA_CLOSED");
_Static_assert(SHMA_NO_TIMEOUT == -1, "SHMA_NO_TIMEOUT");
_Static_assert(SHMA_ERROR_NOT_FOUND == -1, "SHMA_ERROR_NOT_FOUND");
_Static_assert(SHMA_ERROR_EXISTS == -2, "SHMA_ERROR_EXISTS");
_Static_assert(SHMA_ERROR_STALE_HANDLE == -3, "SHMA_ERROR_STALE_HANDLE");
_Static_assert(SHMA_ERROR_INVALID_HANDLE == -4, "SHMA_ERROR_INVALID_HANDLE");
_Static_assert(SHMA_ERROR_INVALID_SEGMENT == -5, "SHMA_ERROR_INVALID_SEGMENT");
_Static_assert(SHMA_ERROR_INVALID_ARGUMENT == -6, "SHMA_ERROR_INVALID_ARGUMENT");
_Static_assert(SHMA_ERROR_INVALID_DTYPE == -7, "SHMA_ERROR_INVALID_DTYPE");
_Static_assert(SHMA_ERROR_DTYPE_MISMATCH == -8, "SHMA_ERROR_DTYPE_MISMATCH");
_Static_assert(SHMA_ERROR_OUT_OF_BOUNDS == -9, "SHMA_ERROR_OUT_OF_BOUNDS");
_Static_assert(SHMA_ERROR_READ_ONLY == -10, "SHMA_ERROR_READ_ONLY");
_Static_assert(SHMA_ERROR_NO_SPACE == -11, "SHMA_ERROR_NO_SPACE");
_Static_assert(SHMA_ERROR_NO_MEMORY == -17, "SHMA_ERROR_NO_MEMORY");
_Static_assert(SHMA_ERROR_PERMISSION_DENIED == -12, "SHMA_ERROR_PERMISSION_DENIED");
_Static_assert(SHMA_ERROR_UNSUPPORTED == -13, "SHMA_ERROR_UNSUPPORTED");
_Static_assert(SHMA_ERROR_OS == -14, "SHMA_ERROR_OS");
_Static_assert(SHMA_ERROR_TEXT_TOO_SHORT == -15, "SHMA_ERROR_TEXT_TOO_SHORT");
_Static_assert(SHMA_ERROR_PANIC == -16, "SHMA_ERROR_PANIC");
_Static_assert(SHMA_MESSAGE_BYTES == 1016, "SHMA_MESSAGE_BYTES");
_Static_assert(SHMA_READ_WRITE == 0, "SHMA_READ_WRITE");
_Static_assert(SHMA_READ_ONLY == 1, "SHMA_READ_ONLY");
_Static_assert(SHMA_ORDER_C == 0, "SHMA_ORDER_C");
_Static_assert(SHMA_ORDER_F == 1, "SHMA_ORDER_F");
_Static_assert(SHMA_OPAQUE == 0, "SHMA_OPAQUE");
_Static_assert(SHMA_BOOL == 1, "SHMA_BOOL");
_Static_assert(SHMA_INT8 == 2, "SHMA_INT8");
_Static_assert(SHMA_INT16 == 3, "SHMA_INT16");
_Static_assert(SHMA_INT32 == 4, "SHMA_INT32");
_Static_assert(SHMA_INT64 == 5, "SHMA_INT64");
_Static_assert(SHMA_UINT8 == 6, "SHMA_UINT8");
_Static_assert(SHMA_UINT16 == 7, "SHMA_UINT16");
_Static_assert(SHMA_UINT32 == 8, "SHMA_UINT32");
_Static_assert(SHMA_UINT64 == 9, "SHMA_UINT64");
_Static_assert(SHMA_FLOAT16 == 10, "SHMA_FLOAT16");
_Static_assert(SHMA_FLOAT32 == 11, "SHMA_FLOAT32");
_Static_assert(SHMA_FLOAT64 == 12, "SHMA_FLOAT64");
_Static_assert(SHMA_COMPLEX64 == 13, "SHMA_COMPLEX64");
_Static_assert(SHMA_COMPLEX128 == 14, "SHMA_COMPLEX128");
_Static_assert(SHMA_SEGMENT_ARRAY == 0, "SHMA_SEGMENT_ARRAY");
_Static_assert(SHMA_SEGMENT_POOL == 1, "SHMA_SEGMENT_POOL");
_Static_assert(SHMA_SEGMENT_REMAINS == 2, "SHMA_SEGMENT_REMAINS");
_Static_assert(SHMA_END == INT64_MIN, "SHMA_END");

_Static_assert(SHMA_DTYPE_COUNT >= 14, "SHMA_DTYPE_COUNT");
_Static_assert(SHMA_ABI == 0, "SHMA_ABI");

// The type of each function, without the typedefs of numbers.
#define FUNCTION(name, result, ...) _Static_assert(SAME_TYPE(&name, result(*)(__VA_ARGS__)), #name)

FUNCTION(shma_abi, int32_t, void);
FUNCTION(shma_version, const char *, void);
FUNCTION(shma_copied_bytes, uint64_t, void);
FUNCTION(shma_status_name, const char *, int32_t);
FUNCTION(shma_dtype_itemsize, size_t, int32_t);
FUNCTION(shma_dtype_name, const char *, int32_t);
FUNCTION(shma_array_create, int32_t, int32_t, size_t, const int64_t *, const shma_options *,
         shma_array **, shma_error *);
FUNCTION(shma_array_share, int32_t, const void *, int32_t, size_t, const int64_t *, const int64_t *,
         const shma_options *, shma_array **, shma_error *);
FUNCTION(shma_array_attach, int32_t, const char *, int32_t, shma_array **, shma_error *);
FUNCTION(shma_array_view, int32_t, const shma_array *, size_t, const int64_t *, const int64_t *,
         int64_t, shma_array **, shma_error *);
FUNCTION(shma_array_slice, int32_t, const shma_array *, size_t, int64_t, int64_t, int64_t,
         shma_array **, shma_error *);
FUNCTION(shma_array_select, int32_t, const shma_array *, size_t, int64_t, shma_array **,
         shma_error *);
FUNCTION(shma_array_transpose, int32_t, const shma_array *, const size_t *, shma_array **,
         shma_error *);
FUNCTION(shma_array_reshape, int32_t, const shma_array *, size_t, const int64_t *, shma_array **,
         shma_error *);
FUNCTION(shma_array_handle, int32_t, const shma_array *, char *, size_t, size_t *, shma_error *);
FUNCTION(shma_array_handle_to_send, int32_t, const shma_array *, char *, size_t, size_t *,
         shma_error *);
FUNCTION(shma_array_dtype_text, int32_t, const shma_array *, char *, size_t, size_t *,
         shma_error *);
FUNCTION(shma_array_data, void *, const shma_array *);
FUNCTION(shma_array_ndim, size_t, const shma_array *);
FUNCTION(shma_array_shape, const int64_t *, const shma_array *);
FUNCTION(shma_array_strides, const int64_t *, const shma_array *);
FUNCTION(shma_array_size, size_t, const shma_array *);
FUNCTION(shma_array_dtype, int32_t, const shma_array *);
FUNCTION(shma_array_itemsize, size_t, const shma_array *);
FUNCTION(shma_array_is_readonly, int32_t, const shma_array *);
FUNCTION(shma_array_is_contiguous, int32_t, const shma_array *, int32_t);
FUNCTION(shma_array_retain, shma_array *, const shma_array *);
FUNCTION(shma_array_close, void, shma_array *);
FUNCTION(shma_pipe_pair, int32_t, shma_pipe **, shma_pipe **, shma_error *);
FUNCTION(shma_pipe_from_fd, int32_t, int, shma_pipe **, shma_error *);
FUNCTION(shma_pipe_fd, int, const shma_pipe *);
FUNCTION(shma_pipe_send, int32_t, const shma_pipe *, shma_array *const *, size_t, const void *,
         size_t, int64_t, shma_error *);
FUNCTION(shma_pipe_receive, int32_t, const shma_pipe *, int64_t, shma_message **, shma_error *);
FUNCTION(shma_pipe_close, void, shma_pipe *);
FUNCTION(shma_message_payload, const void *, const shma_message *, size_t *);
FUNCTION(shma_message_count, size_t, const shma_message *);
FUNCTION(shma_message_array, int32_t, const shma_message *, size_t, int32_t, shma_array **,
         shma_error *);
FUNCTION(shma_message_close, void, shma_message *);
FUNCTION(shma_segment_list_create, int32_t, shma_segment_list **, shma_error *);
FUNCTION(shma_segment_list_count, size_t, const shma_segment_list *);
FUNCTION(shma_segment_list_get, const shma_segment_info *, const shma_segment_list *, size_t);
FUNCTION(shma_segment_list_close, void, shma_segment_list *);
FUNCTION(shma_segment_unlink, int32_t, const char *, shma_error *);
FUNCTION(shma_handle_discard, int32_t, const char *, shma_error *);
FUNCTION(shma_sweep, int32_t, uint64_t *, uint64_t *, shma_error *);

// The initializers set every field.
static const shma_error no_error = SHMA_ERROR_INIT;
static const shma_options no_options = SHMA_OPTIONS_INIT;

int main(void) { return no_error.status != 0 || no_options.struct_bytes != sizeof(shma_options); }
