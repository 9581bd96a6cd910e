// clang-format off
// The recorded ABI: what a program that was compiled with include/shmarray.h relies on. It compiles
// only with a header that still says so.
//
// Written by ffi/abi/record.py; do not edit.
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include <shmarray.h>

#define SAME(pointer, type) _Generic((pointer), type : 1, default : 0)
#define MEMBER_OF(type, member) (((type *)0)->member)

#define CONSTANT(name, value) _Static_assert((name) == (value), #name)
#define TEXT(name) _Static_assert(sizeof(name "") != 0, #name)
#define TYPEDEF(name, type) _Static_assert(SAME((name *)0, type *), #name)
#define OPAQUE(name) extern struct name *an_opaque_##name; extern name *an_opaque_##name
#define INITIALIZER(name, type) extern type a_##name; type a_##name = name
#define FUNCTION(name, result, ...) _Static_assert(SAME(&name, result (*)(__VA_ARGS__)), #name)
// What only a linked library has.
#define SYMBOL(name, version) _Static_assert(sizeof(&name) != 0, version)
#define SONAME(name) _Static_assert(sizeof(name) != 0, name)
// Sizes are recorded for pointers of 8 bytes.
#if UINTPTR_MAX == UINT64_MAX
#define STRUCT(name, bytes, alignment) \
    _Static_assert(sizeof(name) == (bytes) && _Alignof(name) == (alignment), #name)
#define MEMBER(structure, member, offset, type) \
    _Static_assert(offsetof(structure, member) == (offset) && \
        SAME(&MEMBER_OF(structure, member), __typeof__(type) *), #structure "." #member)
#else
#define STRUCT(name, bytes, alignment) _Static_assert(sizeof(name) != 0, #name)
#define MEMBER(structure, member, offset, type) \
    _Static_assert(SAME(&MEMBER_OF(structure, member), __typeof__(type) *), #structure "." #member)
#endif

CONSTANT(SHMA_ABI, 0);
CONSTANT(SHMA_ABSENT, 5);
CONSTANT(SHMA_BCOMPLEX32, 17);
CONSTANT(SHMA_BFLOAT16, 15);
CONSTANT(SHMA_BOOL, 1);
CONSTANT(SHMA_CHANNEL_BROADCAST, 1);
CONSTANT(SHMA_CHANNEL_LATEST, 2);
CONSTANT(SHMA_CHANNEL_QUEUE, 0);
CONSTANT(SHMA_CLOSED, 2);
CONSTANT(SHMA_COMPLEX128, 14);
CONSTANT(SHMA_COMPLEX32, 16);
CONSTANT(SHMA_COMPLEX64, 13);
CONSTANT(SHMA_DTYPE_COUNT, 35);
CONSTANT(SHMA_END, INT64_MIN);
CONSTANT(SHMA_ERROR_DTYPE_MISMATCH, -8);
CONSTANT(SHMA_ERROR_EXISTS, -2);
CONSTANT(SHMA_ERROR_INVALID_ARGUMENT, -6);
CONSTANT(SHMA_ERROR_INVALID_DTYPE, -7);
CONSTANT(SHMA_ERROR_INVALID_FILE, -18);
CONSTANT(SHMA_ERROR_INVALID_HANDLE, -4);
CONSTANT(SHMA_ERROR_INVALID_SEGMENT, -5);
CONSTANT(SHMA_ERROR_NOT_FOUND, -1);
CONSTANT(SHMA_ERROR_NO_MEMORY, -17);
CONSTANT(SHMA_ERROR_NO_SPACE, -11);
CONSTANT(SHMA_ERROR_OS, -14);
CONSTANT(SHMA_ERROR_OUT_OF_BOUNDS, -9);
CONSTANT(SHMA_ERROR_PANIC, -16);
CONSTANT(SHMA_ERROR_PERMISSION_DENIED, -12);
CONSTANT(SHMA_ERROR_READ_ONLY, -10);
CONSTANT(SHMA_ERROR_STALE_HANDLE, -3);
CONSTANT(SHMA_ERROR_TEXT_TOO_SHORT, -15);
CONSTANT(SHMA_ERROR_UNSUPPORTED, -13);
CONSTANT(SHMA_FLOAT16, 10);
CONSTANT(SHMA_FLOAT32, 11);
CONSTANT(SHMA_FLOAT4_E2M1FN, 28);
CONSTANT(SHMA_FLOAT64, 12);
CONSTANT(SHMA_FLOAT6_E2M3FN, 26);
CONSTANT(SHMA_FLOAT6_E3M2FN, 27);
CONSTANT(SHMA_FLOAT8_E3M4, 18);
CONSTANT(SHMA_FLOAT8_E4M3, 19);
CONSTANT(SHMA_FLOAT8_E4M3B11FNUZ, 22);
CONSTANT(SHMA_FLOAT8_E4M3FN, 20);
CONSTANT(SHMA_FLOAT8_E4M3FNUZ, 21);
CONSTANT(SHMA_FLOAT8_E5M2, 23);
CONSTANT(SHMA_FLOAT8_E5M2FNUZ, 24);
CONSTANT(SHMA_FLOAT8_E5M3FNU, 35);
CONSTANT(SHMA_FLOAT8_E8M0FNU, 25);
CONSTANT(SHMA_FULL, 3);
CONSTANT(SHMA_INT1, 29);
CONSTANT(SHMA_INT16, 3);
CONSTANT(SHMA_INT2, 30);
CONSTANT(SHMA_INT32, 4);
CONSTANT(SHMA_INT4, 31);
CONSTANT(SHMA_INT64, 5);
CONSTANT(SHMA_INT8, 2);
CONSTANT(SHMA_ITEM_ARRAY, 2);
CONSTANT(SHMA_ITEM_BYTES, 4);
CONSTANT(SHMA_ITEM_LIST, 6);
CONSTANT(SHMA_ITEM_NOTHING, 8);
CONSTANT(SHMA_ITEM_NUMBER, 1);
CONSTANT(SHMA_ITEM_PICKLE, 7);
CONSTANT(SHMA_ITEM_RECORD, 5);
CONSTANT(SHMA_ITEM_STRING, 3);
CONSTANT(SHMA_MAX_HANDLE_BYTES, 65536);
CONSTANT(SHMA_MAX_META_BYTES, 64);
CONSTANT(SHMA_MAX_NAME_BYTES, 64);
CONSTANT(SHMA_MAX_NDIM, 64);
CONSTANT(SHMA_MESSAGE_BYTES, 1016);
CONSTANT(SHMA_NO_TIMEOUT, -1);
CONSTANT(SHMA_OK, 0);
CONSTANT(SHMA_OPAQUE, 0);
CONSTANT(SHMA_ORDER_C, 0);
CONSTANT(SHMA_ORDER_F, 1);
CONSTANT(SHMA_READ_ONLY, 1);
CONSTANT(SHMA_READ_WRITE, 0);
CONSTANT(SHMA_SEGMENT_ARRAY, 0);
CONSTANT(SHMA_SEGMENT_CHANNEL, 3);
CONSTANT(SHMA_SEGMENT_POOL, 1);
CONSTANT(SHMA_SEGMENT_REMAINS, 2);
CONSTANT(SHMA_SENDER_DIED, 4);
CONSTANT(SHMA_TIMED_OUT, 1);
CONSTANT(SHMA_UINT1, 32);
CONSTANT(SHMA_UINT16, 7);
CONSTANT(SHMA_UINT2, 33);
CONSTANT(SHMA_UINT32, 8);
CONSTANT(SHMA_UINT4, 34);
CONSTANT(SHMA_UINT64, 9);
CONSTANT(SHMA_UINT8, 6);
CONSTANT(SHMA_WHEN_FULL_BLOCK, 0);
CONSTANT(SHMA_WHEN_FULL_DROP_OLDEST, 1);
CONSTANT(SHMA_WHEN_FULL_ERROR, 2);
TYPEDEF(shma_access, int32_t);
TYPEDEF(shma_channel_mode, int32_t);
TYPEDEF(shma_dtype, int32_t);
TYPEDEF(shma_item_kind, int32_t);
TYPEDEF(shma_order, int32_t);
TYPEDEF(shma_segment_kind, int32_t);
TYPEDEF(shma_status, int32_t);
TYPEDEF(shma_when_full, int32_t);
OPAQUE(shma_array);
OPAQUE(shma_channel);
OPAQUE(shma_column);
OPAQUE(shma_column_builder);
OPAQUE(shma_delivery);
OPAQUE(shma_dict);
OPAQUE(shma_handed_over);
OPAQUE(shma_list);
OPAQUE(shma_loan);
OPAQUE(shma_message);
OPAQUE(shma_npz);
OPAQUE(shma_pipe);
OPAQUE(shma_segment_list);
STRUCT(shma_channel_options, 40, 8);
STRUCT(shma_error, 1024, 4);
STRUCT(shma_npz_options, 32, 8);
STRUCT(shma_options, 48, 8);
STRUCT(shma_segment_info, 96, 8);
MEMBER(shma_channel_options, ends, 12, uint32_t);
MEMBER(shma_channel_options, exist_ok, 28, int32_t);
MEMBER(shma_channel_options, file_mode, 36, uint32_t);
MEMBER(shma_channel_options, mode, 16, int32_t);
MEMBER(shma_channel_options, persist, 32, int32_t);
MEMBER(shma_channel_options, slots, 8, uint32_t);
MEMBER(shma_channel_options, struct_bytes, 0, size_t);
MEMBER(shma_channel_options, varying, 24, int32_t);
MEMBER(shma_channel_options, when_full, 20, int32_t);
MEMBER(shma_error, message, 8, char[1016]);
MEMBER(shma_error, os_errno, 4, int32_t);
MEMBER(shma_error, status, 0, int32_t);
MEMBER(shma_npz_options, align, 24, uint64_t);
MEMBER(shma_npz_options, deflated, 20, int32_t);
MEMBER(shma_npz_options, max_bytes, 8, uint64_t);
MEMBER(shma_npz_options, struct_bytes, 0, size_t);
MEMBER(shma_npz_options, threads, 16, uint32_t);
MEMBER(shma_options, dtype_text, 40, const char *);
MEMBER(shma_options, itemsize, 32, uint64_t);
MEMBER(shma_options, mode, 20, uint32_t);
MEMBER(shma_options, name, 8, const char *);
MEMBER(shma_options, order, 24, int32_t);
MEMBER(shma_options, persist, 16, int32_t);
MEMBER(shma_options, struct_bytes, 0, size_t);
MEMBER(shma_options, uninitialized, 28, uint32_t);
MEMBER(shma_segment_info, created_ns, 88, uint64_t);
MEMBER(shma_segment_info, creator_pid, 80, uint32_t);
MEMBER(shma_segment_info, dtype, 32, const char *);
MEMBER(shma_segment_info, holders, 64, const uint32_t *);
MEMBER(shma_segment_info, holders_count, 56, size_t);
MEMBER(shma_segment_info, kind, 16, int32_t);
MEMBER(shma_segment_info, name, 8, const char *);
MEMBER(shma_segment_info, ndim, 40, size_t);
MEMBER(shma_segment_info, persists, 20, int32_t);
MEMBER(shma_segment_info, segment, 0, const char *);
MEMBER(shma_segment_info, segment_bytes, 24, uint64_t);
MEMBER(shma_segment_info, shape, 48, const int64_t *);
MEMBER(shma_segment_info, tickets, 72, uint64_t);
INITIALIZER(SHMA_CHANNEL_OPTIONS_INIT, shma_channel_options);
INITIALIZER(SHMA_ERROR_INIT, shma_error);
INITIALIZER(SHMA_NPZ_OPTIONS_INIT, shma_npz_options);
INITIALIZER(SHMA_OPTIONS_INIT, shma_options);
FUNCTION(shma_abi, int32_t, void);
FUNCTION(shma_array_attach, int32_t, const char *, int32_t, shma_array **, shma_error *);
FUNCTION(shma_array_close, void, shma_array *);
FUNCTION(shma_array_create, int32_t, int32_t, size_t, const int64_t *, const shma_options *,
    shma_array **, shma_error *);
FUNCTION(shma_array_data, void *, const shma_array *);
FUNCTION(shma_array_dtype, int32_t, const shma_array *);
FUNCTION(shma_array_dtype_text, int32_t, const shma_array *, char *, size_t, size_t *,
    shma_error *);
FUNCTION(shma_array_from_dlpack, int32_t, const struct DLManagedTensorVersioned *,
    const shma_options *, shma_array **, shma_error *);
FUNCTION(shma_array_handle, int32_t, const shma_array *, char *, size_t, size_t *, shma_error *);
FUNCTION(shma_array_handle_to_send, int32_t, const shma_array *, char *, size_t, size_t *,
    shma_error *);
FUNCTION(shma_array_is_aligned, int32_t, const shma_array *, size_t);
FUNCTION(shma_array_is_contiguous, int32_t, const shma_array *, int32_t);
FUNCTION(shma_array_is_readonly, int32_t, const shma_array *);
FUNCTION(shma_array_itemsize, size_t, const shma_array *);
FUNCTION(shma_array_ndim, size_t, const shma_array *);
FUNCTION(shma_array_over_memory, int32_t, const void *, int32_t, size_t, const int64_t *,
    const int64_t *, shma_array **, shma_error *);
FUNCTION(shma_array_reshape, int32_t, const shma_array *, size_t, const int64_t *, shma_array **,
    shma_error *);
FUNCTION(shma_array_retain, shma_array *, const shma_array *);
FUNCTION(shma_array_select, int32_t, const shma_array *, size_t, int64_t, shma_array **,
    shma_error *);
FUNCTION(shma_array_shape, const int64_t *, const shma_array *);
FUNCTION(shma_array_share, int32_t, const void *, int32_t, size_t, const int64_t *, const int64_t *,
    const shma_options *, shma_array **, shma_error *);
FUNCTION(shma_array_size, size_t, const shma_array *);
FUNCTION(shma_array_slice, int32_t, const shma_array *, size_t, int64_t, int64_t, int64_t,
    shma_array **, shma_error *);
FUNCTION(shma_array_strides, const int64_t *, const shma_array *);
FUNCTION(shma_array_to_dlpack, int32_t, const shma_array *, int32_t,
    struct DLManagedTensorVersioned **, shma_error *);
FUNCTION(shma_array_transpose, int32_t, const shma_array *, const size_t *, shma_array **,
    shma_error *);
FUNCTION(shma_array_view, int32_t, const shma_array *, size_t, const int64_t *, const int64_t *,
    int64_t, shma_array **, shma_error *);
FUNCTION(shma_channel_close, void, shma_channel *);
FUNCTION(shma_channel_create, int32_t, const char *, int32_t, size_t, const int64_t *,
    const shma_options *, const shma_channel_options *, shma_channel **, shma_error *);
FUNCTION(shma_channel_create_by_handle, int32_t, const char *, const shma_channel_options *,
    shma_channel **, shma_error *);
FUNCTION(shma_channel_dtype, int32_t, const shma_channel *);
FUNCTION(shma_channel_end, void, const shma_channel *);
FUNCTION(shma_channel_fd, int32_t, const shma_channel *, int *, shma_error *);
FUNCTION(shma_channel_hand_over, int32_t, const shma_channel *, shma_handed_over **, shma_error *);
FUNCTION(shma_channel_handle, int32_t, const shma_channel *, char *, size_t, size_t *,
    shma_error *);
FUNCTION(shma_channel_has_handles, int32_t, const shma_channel *);
FUNCTION(shma_channel_is_latest, int32_t, const shma_channel *);
FUNCTION(shma_channel_is_ready, int32_t, const shma_channel *, int32_t *, shma_error *);
FUNCTION(shma_channel_loan, int32_t, const shma_channel *, size_t, const int64_t *, int64_t,
    shma_loan **, shma_error *);
FUNCTION(shma_channel_ndim, size_t, const shma_channel *);
FUNCTION(shma_channel_open, int32_t, const char *, int32_t, int64_t, shma_channel **, shma_error *);
FUNCTION(shma_channel_open_with_history, int32_t, const char *, uint32_t, int64_t, shma_channel **,
    shma_error *);
FUNCTION(shma_channel_receive, int32_t, const shma_channel *, int64_t, shma_delivery **,
    shma_error *);
FUNCTION(shma_channel_send, int32_t, const shma_channel *, const void *, int32_t, size_t,
    const int64_t *, const int64_t *, const void *, size_t, int64_t, uint64_t *, shma_error *);
FUNCTION(shma_channel_send_array, int32_t, const shma_channel *, const shma_array *, const void *,
    size_t, int64_t, uint64_t *, shma_error *);
FUNCTION(shma_channel_shape, const int64_t *, const shma_channel *);
FUNCTION(shma_channel_wait_newer, int32_t, const shma_channel *, int64_t, int64_t, shma_error *);
FUNCTION(shma_column_array, int32_t, const shma_column *, size_t, shma_array **, shma_error *);
FUNCTION(shma_column_builder_close, void, shma_column_builder *);
FUNCTION(shma_column_builder_count, size_t, const shma_column_builder *);
FUNCTION(shma_column_builder_create, int32_t, int32_t, shma_column_builder **, shma_error *);
FUNCTION(shma_column_builder_create_arrays, int32_t, int32_t, const shma_options *, size_t,
    shma_column_builder **, shma_error *);
FUNCTION(shma_column_builder_create_lists, int32_t, shma_column_builder *, shma_column_builder **,
    shma_error *);
FUNCTION(shma_column_builder_create_numbers, int32_t, int32_t, const shma_options *,
    shma_column_builder **, shma_error *);
FUNCTION(shma_column_builder_create_records, int32_t, size_t, const char *const *,
    shma_column_builder *const *, shma_column_builder **, shma_error *);
FUNCTION(shma_column_builder_field, const shma_column_builder *, const shma_column_builder *,
    size_t);
FUNCTION(shma_column_builder_push_array, int32_t, const shma_column_builder *, size_t,
    const int64_t *, const void *, shma_error *);
FUNCTION(shma_column_builder_push_bytes, int32_t, const shma_column_builder *, const void *, size_t,
    shma_error *);
FUNCTION(shma_column_builder_push_list, int32_t, const shma_column_builder *, shma_error *);
FUNCTION(shma_column_builder_push_none, int32_t, const shma_column_builder *, shma_error *);
FUNCTION(shma_column_builder_push_numbers, int32_t, const shma_column_builder *, const void *,
    size_t, shma_error *);
FUNCTION(shma_column_builder_push_records, int32_t, const shma_column_builder *, size_t,
    shma_error *);
FUNCTION(shma_column_builder_push_string, int32_t, const shma_column_builder *, const char *,
    size_t, shma_error *);
FUNCTION(shma_column_child, const shma_column *, const shma_column *, size_t);
FUNCTION(shma_column_child_count, size_t, const shma_column *);
FUNCTION(shma_column_count, size_t, const shma_column *);
FUNCTION(shma_column_dtype, int32_t, const shma_column *);
FUNCTION(shma_column_dtype_text, const char *, const shma_column *);
FUNCTION(shma_column_field, const shma_column *, const shma_column *, const char *);
FUNCTION(shma_column_is_none, int32_t, const shma_column *, size_t);
FUNCTION(shma_column_item, int32_t, const shma_column *, size_t, const void **, size_t *,
    shma_error *);
FUNCTION(shma_column_itemsize, size_t, const shma_column *);
FUNCTION(shma_column_kind, int32_t, const shma_column *);
FUNCTION(shma_column_name, const char *, const shma_column *);
FUNCTION(shma_column_ndim, size_t, const shma_column *);
FUNCTION(shma_column_nulls, size_t, const shma_column *);
FUNCTION(shma_column_offsets, int32_t, const shma_column *, shma_array **, shma_error *);
FUNCTION(shma_column_range, int32_t, const shma_column *, size_t, size_t *, size_t *, shma_error *);
FUNCTION(shma_column_shape, int32_t, const shma_column *, size_t, size_t, int64_t *, shma_error *);
FUNCTION(shma_column_values, int32_t, const shma_column *, shma_array **, shma_error *);
FUNCTION(shma_copied_bytes, uint64_t, void);
FUNCTION(shma_delivery_age_ns, uint64_t, const shma_delivery *);
FUNCTION(shma_delivery_array, const shma_array *, const shma_delivery *);
FUNCTION(shma_delivery_close, void, shma_delivery *);
FUNCTION(shma_delivery_meta, const void *, const shma_delivery *, size_t *);
FUNCTION(shma_delivery_missed, uint64_t, const shma_delivery *);
FUNCTION(shma_delivery_sequence, uint64_t, const shma_delivery *);
FUNCTION(shma_delivery_time_ns, uint64_t, const shma_delivery *);
FUNCTION(shma_dict_array, const shma_array *, const shma_dict *);
FUNCTION(shma_dict_attach, int32_t, const char *, shma_dict **, shma_error *);
FUNCTION(shma_dict_close, void, shma_dict *);
FUNCTION(shma_dict_count, size_t, const shma_dict *);
FUNCTION(shma_dict_create, int32_t, shma_column_builder *, shma_column_builder *,
    const shma_options *, shma_dict **, shma_error *);
FUNCTION(shma_dict_find_bytes, int32_t, const shma_dict *, const void *, size_t, size_t *,
    shma_error *);
FUNCTION(shma_dict_find_integer, int32_t, const shma_dict *, int64_t, size_t *, shma_error *);
FUNCTION(shma_dict_find_string, int32_t, const shma_dict *, const char *, size_t, size_t *,
    shma_error *);
FUNCTION(shma_dict_keys, const shma_column *, const shma_dict *);
FUNCTION(shma_dict_of_array, int32_t, const shma_array *, shma_dict **, shma_error *);
FUNCTION(shma_dict_open, int32_t, const char *, int32_t, shma_dict **, shma_error *);
FUNCTION(shma_dict_save, int32_t, const char *, const shma_dict *, shma_error *);
FUNCTION(shma_dict_values, const shma_column *, const shma_dict *);
FUNCTION(shma_dtype_itemsize, size_t, int32_t);
FUNCTION(shma_dtype_name, const char *, int32_t);
FUNCTION(shma_handed_over_close, void, shma_handed_over *);
FUNCTION(shma_handed_over_fd, int, const shma_handed_over *);
FUNCTION(shma_handed_over_handle, const char *, const shma_handed_over *);
FUNCTION(shma_handle_discard, int32_t, const char *, shma_error *);
FUNCTION(shma_list_array, const shma_array *, const shma_list *);
FUNCTION(shma_list_attach, int32_t, const char *, shma_list **, shma_error *);
FUNCTION(shma_list_close, void, shma_list *);
FUNCTION(shma_list_count, size_t, const shma_list *);
FUNCTION(shma_list_create, int32_t, shma_column_builder *, const shma_options *, shma_list **,
    shma_error *);
FUNCTION(shma_list_items, const shma_column *, const shma_list *);
FUNCTION(shma_list_of_array, int32_t, const shma_array *, shma_list **, shma_error *);
FUNCTION(shma_list_open, int32_t, const char *, int32_t, shma_list **, shma_error *);
FUNCTION(shma_list_save, int32_t, const char *, const shma_list *, shma_error *);
FUNCTION(shma_loan_array, const shma_array *, const shma_loan *);
FUNCTION(shma_loan_cancel, void, shma_loan *);
FUNCTION(shma_loan_publish, int32_t, shma_loan *, const void *, size_t, uint64_t *, shma_error *);
FUNCTION(shma_message_array, int32_t, const shma_message *, size_t, int32_t, shma_array **,
    shma_error *);
FUNCTION(shma_message_close, void, shma_message *);
FUNCTION(shma_message_count, size_t, const shma_message *);
FUNCTION(shma_message_payload, const void *, const shma_message *, size_t *);
FUNCTION(shma_npy_load, int32_t, const char *, const shma_options *, shma_array **, shma_error *);
FUNCTION(shma_npy_load_batch, int32_t, const char *const *, size_t, uint32_t, const shma_options *,
    shma_array **, shma_error *);
FUNCTION(shma_npy_load_bytes, int32_t, const void *, size_t, const shma_options *, shma_array **,
    shma_error *);
FUNCTION(shma_npy_save, int32_t, const char *, const shma_array *, shma_error *);
FUNCTION(shma_npz_close, void, shma_npz *);
FUNCTION(shma_npz_contains, int32_t, const shma_npz *, const char *);
FUNCTION(shma_npz_count, size_t, const shma_npz *);
FUNCTION(shma_npz_load, int32_t, const shma_npz *, const char *, const shma_options *,
    shma_array **, shma_error *);
FUNCTION(shma_npz_load_all, int32_t, const shma_npz *, const shma_options *, shma_array **,
    shma_error *);
FUNCTION(shma_npz_name, const char *, const shma_npz *, size_t);
FUNCTION(shma_npz_open, int32_t, const char *, const shma_npz_options *, shma_npz **, shma_error *);
FUNCTION(shma_npz_open_bytes, int32_t, const void *, size_t, const shma_npz_options *, shma_npz **,
    shma_error *);
FUNCTION(shma_npz_save, int32_t, const char *, size_t, const char *const *, shma_array *const *,
    const shma_npz_options *, shma_error *);
FUNCTION(shma_pipe_close, void, shma_pipe *);
FUNCTION(shma_pipe_fd, int, const shma_pipe *);
FUNCTION(shma_pipe_from_fd, int32_t, int, shma_pipe **, shma_error *);
FUNCTION(shma_pipe_pair, int32_t, shma_pipe **, shma_pipe **, shma_error *);
FUNCTION(shma_pipe_receive, int32_t, const shma_pipe *, int64_t, shma_message **, shma_error *);
FUNCTION(shma_pipe_send, int32_t, const shma_pipe *, shma_array *const *, size_t, const void *,
    size_t, int64_t, shma_error *);
FUNCTION(shma_segment_list_close, void, shma_segment_list *);
FUNCTION(shma_segment_list_count, size_t, const shma_segment_list *);
FUNCTION(shma_segment_list_create, int32_t, shma_segment_list **, shma_error *);
FUNCTION(shma_segment_list_get, const shma_segment_info *, const shma_segment_list *, size_t);
FUNCTION(shma_segment_unlink, int32_t, const char *, shma_error *);
FUNCTION(shma_set_interruptible, int32_t, int32_t);
FUNCTION(shma_status_name, const char *, int32_t);
FUNCTION(shma_sweep, int32_t, uint64_t *, uint64_t *, shma_error *);
FUNCTION(shma_version, const char *, void);
SYMBOL(shma_abi, "SHMARRAY_0.1");
SYMBOL(shma_array_attach, "SHMARRAY_0.1");
SYMBOL(shma_array_close, "SHMARRAY_0.1");
SYMBOL(shma_array_create, "SHMARRAY_0.1");
SYMBOL(shma_array_data, "SHMARRAY_0.1");
SYMBOL(shma_array_dtype, "SHMARRAY_0.1");
SYMBOL(shma_array_dtype_text, "SHMARRAY_0.1");
SYMBOL(shma_array_from_dlpack, "SHMARRAY_0.1");
SYMBOL(shma_array_handle, "SHMARRAY_0.1");
SYMBOL(shma_array_handle_to_send, "SHMARRAY_0.1");
SYMBOL(shma_array_is_aligned, "SHMARRAY_0.1");
SYMBOL(shma_array_is_contiguous, "SHMARRAY_0.1");
SYMBOL(shma_array_is_readonly, "SHMARRAY_0.1");
SYMBOL(shma_array_itemsize, "SHMARRAY_0.1");
SYMBOL(shma_array_ndim, "SHMARRAY_0.1");
SYMBOL(shma_array_over_memory, "SHMARRAY_0.1");
SYMBOL(shma_array_reshape, "SHMARRAY_0.1");
SYMBOL(shma_array_retain, "SHMARRAY_0.1");
SYMBOL(shma_array_select, "SHMARRAY_0.1");
SYMBOL(shma_array_shape, "SHMARRAY_0.1");
SYMBOL(shma_array_share, "SHMARRAY_0.1");
SYMBOL(shma_array_size, "SHMARRAY_0.1");
SYMBOL(shma_array_slice, "SHMARRAY_0.1");
SYMBOL(shma_array_strides, "SHMARRAY_0.1");
SYMBOL(shma_array_to_dlpack, "SHMARRAY_0.1");
SYMBOL(shma_array_transpose, "SHMARRAY_0.1");
SYMBOL(shma_array_view, "SHMARRAY_0.1");
SYMBOL(shma_channel_close, "SHMARRAY_0.1");
SYMBOL(shma_channel_create, "SHMARRAY_0.1");
SYMBOL(shma_channel_create_by_handle, "SHMARRAY_0.1");
SYMBOL(shma_channel_dtype, "SHMARRAY_0.1");
SYMBOL(shma_channel_end, "SHMARRAY_0.1");
SYMBOL(shma_channel_fd, "SHMARRAY_0.1");
SYMBOL(shma_channel_hand_over, "SHMARRAY_0.1");
SYMBOL(shma_channel_handle, "SHMARRAY_0.1");
SYMBOL(shma_channel_has_handles, "SHMARRAY_0.1");
SYMBOL(shma_channel_is_latest, "SHMARRAY_0.1");
SYMBOL(shma_channel_is_ready, "SHMARRAY_0.1");
SYMBOL(shma_channel_loan, "SHMARRAY_0.1");
SYMBOL(shma_channel_ndim, "SHMARRAY_0.1");
SYMBOL(shma_channel_open, "SHMARRAY_0.1");
SYMBOL(shma_channel_open_with_history, "SHMARRAY_0.1");
SYMBOL(shma_channel_receive, "SHMARRAY_0.1");
SYMBOL(shma_channel_send, "SHMARRAY_0.1");
SYMBOL(shma_channel_send_array, "SHMARRAY_0.1");
SYMBOL(shma_channel_shape, "SHMARRAY_0.1");
SYMBOL(shma_channel_wait_newer, "SHMARRAY_0.1");
SYMBOL(shma_column_array, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_close, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_count, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_create, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_create_arrays, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_create_lists, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_create_numbers, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_create_records, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_field, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_push_array, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_push_bytes, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_push_list, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_push_none, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_push_numbers, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_push_records, "SHMARRAY_0.1");
SYMBOL(shma_column_builder_push_string, "SHMARRAY_0.1");
SYMBOL(shma_column_child, "SHMARRAY_0.1");
SYMBOL(shma_column_child_count, "SHMARRAY_0.1");
SYMBOL(shma_column_count, "SHMARRAY_0.1");
SYMBOL(shma_column_dtype, "SHMARRAY_0.1");
SYMBOL(shma_column_dtype_text, "SHMARRAY_0.1");
SYMBOL(shma_column_field, "SHMARRAY_0.1");
SYMBOL(shma_column_is_none, "SHMARRAY_0.1");
SYMBOL(shma_column_item, "SHMARRAY_0.1");
SYMBOL(shma_column_itemsize, "SHMARRAY_0.1");
SYMBOL(shma_column_kind, "SHMARRAY_0.1");
SYMBOL(shma_column_name, "SHMARRAY_0.1");
SYMBOL(shma_column_ndim, "SHMARRAY_0.1");
SYMBOL(shma_column_nulls, "SHMARRAY_0.1");
SYMBOL(shma_column_offsets, "SHMARRAY_0.1");
SYMBOL(shma_column_range, "SHMARRAY_0.1");
SYMBOL(shma_column_shape, "SHMARRAY_0.1");
SYMBOL(shma_column_values, "SHMARRAY_0.1");
SYMBOL(shma_copied_bytes, "SHMARRAY_0.1");
SYMBOL(shma_delivery_age_ns, "SHMARRAY_0.1");
SYMBOL(shma_delivery_array, "SHMARRAY_0.1");
SYMBOL(shma_delivery_close, "SHMARRAY_0.1");
SYMBOL(shma_delivery_meta, "SHMARRAY_0.1");
SYMBOL(shma_delivery_missed, "SHMARRAY_0.1");
SYMBOL(shma_delivery_sequence, "SHMARRAY_0.1");
SYMBOL(shma_delivery_time_ns, "SHMARRAY_0.1");
SYMBOL(shma_dict_array, "SHMARRAY_0.1");
SYMBOL(shma_dict_attach, "SHMARRAY_0.1");
SYMBOL(shma_dict_close, "SHMARRAY_0.1");
SYMBOL(shma_dict_count, "SHMARRAY_0.1");
SYMBOL(shma_dict_create, "SHMARRAY_0.1");
SYMBOL(shma_dict_find_bytes, "SHMARRAY_0.1");
SYMBOL(shma_dict_find_integer, "SHMARRAY_0.1");
SYMBOL(shma_dict_find_string, "SHMARRAY_0.1");
SYMBOL(shma_dict_keys, "SHMARRAY_0.1");
SYMBOL(shma_dict_of_array, "SHMARRAY_0.1");
SYMBOL(shma_dict_open, "SHMARRAY_0.1");
SYMBOL(shma_dict_save, "SHMARRAY_0.1");
SYMBOL(shma_dict_values, "SHMARRAY_0.1");
SYMBOL(shma_dtype_itemsize, "SHMARRAY_0.1");
SYMBOL(shma_dtype_name, "SHMARRAY_0.1");
SYMBOL(shma_handed_over_close, "SHMARRAY_0.1");
SYMBOL(shma_handed_over_fd, "SHMARRAY_0.1");
SYMBOL(shma_handed_over_handle, "SHMARRAY_0.1");
SYMBOL(shma_handle_discard, "SHMARRAY_0.1");
SYMBOL(shma_list_array, "SHMARRAY_0.1");
SYMBOL(shma_list_attach, "SHMARRAY_0.1");
SYMBOL(shma_list_close, "SHMARRAY_0.1");
SYMBOL(shma_list_count, "SHMARRAY_0.1");
SYMBOL(shma_list_create, "SHMARRAY_0.1");
SYMBOL(shma_list_items, "SHMARRAY_0.1");
SYMBOL(shma_list_of_array, "SHMARRAY_0.1");
SYMBOL(shma_list_open, "SHMARRAY_0.1");
SYMBOL(shma_list_save, "SHMARRAY_0.1");
SYMBOL(shma_loan_array, "SHMARRAY_0.1");
SYMBOL(shma_loan_cancel, "SHMARRAY_0.1");
SYMBOL(shma_loan_publish, "SHMARRAY_0.1");
SYMBOL(shma_message_array, "SHMARRAY_0.1");
SYMBOL(shma_message_close, "SHMARRAY_0.1");
SYMBOL(shma_message_count, "SHMARRAY_0.1");
SYMBOL(shma_message_payload, "SHMARRAY_0.1");
SYMBOL(shma_npy_load, "SHMARRAY_0.1");
SYMBOL(shma_npy_load_batch, "SHMARRAY_0.1");
SYMBOL(shma_npy_load_bytes, "SHMARRAY_0.1");
SYMBOL(shma_npy_save, "SHMARRAY_0.1");
SYMBOL(shma_npz_close, "SHMARRAY_0.1");
SYMBOL(shma_npz_contains, "SHMARRAY_0.1");
SYMBOL(shma_npz_count, "SHMARRAY_0.1");
SYMBOL(shma_npz_load, "SHMARRAY_0.1");
SYMBOL(shma_npz_load_all, "SHMARRAY_0.1");
SYMBOL(shma_npz_name, "SHMARRAY_0.1");
SYMBOL(shma_npz_open, "SHMARRAY_0.1");
SYMBOL(shma_npz_open_bytes, "SHMARRAY_0.1");
SYMBOL(shma_npz_save, "SHMARRAY_0.1");
SYMBOL(shma_pipe_close, "SHMARRAY_0.1");
SYMBOL(shma_pipe_fd, "SHMARRAY_0.1");
SYMBOL(shma_pipe_from_fd, "SHMARRAY_0.1");
SYMBOL(shma_pipe_pair, "SHMARRAY_0.1");
SYMBOL(shma_pipe_receive, "SHMARRAY_0.1");
SYMBOL(shma_pipe_send, "SHMARRAY_0.1");
SYMBOL(shma_segment_list_close, "SHMARRAY_0.1");
SYMBOL(shma_segment_list_count, "SHMARRAY_0.1");
SYMBOL(shma_segment_list_create, "SHMARRAY_0.1");
SYMBOL(shma_segment_list_get, "SHMARRAY_0.1");
SYMBOL(shma_segment_unlink, "SHMARRAY_0.1");
SYMBOL(shma_set_interruptible, "SHMARRAY_0.1");
SYMBOL(shma_status_name, "SHMARRAY_0.1");
SYMBOL(shma_sweep, "SHMARRAY_0.1");
SYMBOL(shma_version, "SHMARRAY_0.1");
SONAME("libshmarray.so.0");
