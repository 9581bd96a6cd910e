//! Segments: listed, unlinked, swept; and facts about the library.

use std::ffi::{CStr, CString, c_char};

use shmarray::{SegmentInfo, SegmentKind};

use crate::arguments::{produce, text as text_of};
use crate::error::{guard, shma_error};

/// What a segment, or a cell of one, is: one of the numbers below.
pub type shma_segment_kind = i32;

/// An array that a process or a message holds, or that persists.
pub const SHMA_SEGMENT_ARRAY: shma_segment_kind = 0;
/// Memory that living processes keep for their next arrays.
pub const SHMA_SEGMENT_POOL: shma_segment_kind = 1;
/// Memory that dead processes left. The next use of the library by its owner gives it back.
pub const SHMA_SEGMENT_REMAINS: shma_segment_kind = 2;

/// Facts about an array that need not be attached, or about memory that is no array now.
///
/// Later versions add members at the end.
#[repr(C)]
pub struct shma_segment_info {
    /// The segment's id; of an array in a cell, with the cell's number, as in "id.17".
    pub segment: *const c_char,
    /// The name that a person gave it, or NULL.
    pub name: *const c_char,
    /// SHMA_SEGMENT_ARRAY, SHMA_SEGMENT_POOL or SHMA_SEGMENT_REMAINS.
    pub kind: shma_segment_kind,
    /// 1 if it stays without holders until its name is unlinked, else 0.
    pub persists: i32,
    /// Bytes of shared memory, with the header unless other arrays share it.
    pub segment_bytes: u64,
    /// The dtype as in a handle; "|u1" of memory that is no array.
    pub dtype: *const c_char,
    /// Number of dimensions.
    pub ndim: usize,
    /// Elements along each dimension.
    pub shape: *const i64,
    /// Number of holders.
    pub holders_count: usize,
    /// The pids of the living processes that hold it by a lease or keep it in their pool, as each
    /// process sees itself.
    pub holders: *const u32,
    /// Number of messages that hold it and can still be received.
    pub tickets: u64,
    /// The process that made it, as that process saw itself.
    pub creator_pid: u32,
    /// When it was made, in nanoseconds since 1970. Of a cell, when its segment was.
    pub created_ns: u64,
}

/// The memory that one [`shma_segment_info`] points into.
struct Row {
    segment: CString,
    name: Option<CString>,
    dtype: CString,
    shape: Vec<i64>,
    holders: Vec<u32>,
}

/// A listing of the shared memory that this library has on this machine.
pub struct shma_segment_list {
    /// Never read: the infos point into it.
    _rows: Vec<Row>,
    infos: Vec<shma_segment_info>,
}

impl shma_segment_list {
    fn new(segments: &[SegmentInfo]) -> Self {
        let rows: Vec<Row> = segments.iter().map(Row::new).collect();
        let infos = rows.iter().zip(segments).map(|(row, info)| row.info(info)).collect();
        Self { _rows: rows, infos }
    }
}

impl Row {
    fn new(info: &SegmentInfo) -> Self {
        // Ids, names and dtypes have no NUL: their formats forbid it.
        let text = |text: String| CString::new(text).unwrap_or_default();
        Self {
            segment: text(info.segment.to_string()),
            name: info.name.clone().map(text),
            dtype: text(info.dtype.text().to_owned()),
            shape: info.shape.iter().map(|count| *count as i64).collect(),
            holders: info.holders.clone(),
        }
    }

    fn info(&self, info: &SegmentInfo) -> shma_segment_info {
        shma_segment_info {
            segment: self.segment.as_ptr(),
            name: self.name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()),
            kind: match info.kind {
                SegmentKind::Array => SHMA_SEGMENT_ARRAY,
                SegmentKind::Pool => SHMA_SEGMENT_POOL,
                SegmentKind::Remains => SHMA_SEGMENT_REMAINS,
            },
            persists: info.persists.into(),
            segment_bytes: info.segment_bytes,
            dtype: self.dtype.as_ptr(),
            ndim: self.shape.len(),
            shape: self.shape.as_ptr(),
            holders_count: self.holders.len(),
            holders: self.holders.as_ptr(),
            tickets: info.tickets,
            creator_pid: info.creator_pid,
            created_ns: info.created_ns,
        }
    }
}

/// Lists the shared memory that this library has: arrays, pools, and what dead processes left; but
/// for what other users have not shared.
///
/// Fails with SHMA_ERROR_OS.
///
/// # Safety
/// Pointers are NULL or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_segment_list_create(
    list_out: *mut *mut shma_segment_list,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        // SAFETY: C's caller promises that `list_out` is NULL or has room for a pointer.
        unsafe {
            produce("list_out", list_out, || Ok(shma_segment_list::new(&shmarray::segments()?)))
        }
    })
}

/// Returns the number of infos; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn shma_segment_list_count(list: Option<&shma_segment_list>) -> usize {
    list.map_or(0, |list| list.infos.len())
}

/// Returns an info, or NULL beyond the last one. It lives as long as the list.
#[unsafe(no_mangle)]
pub extern "C" fn shma_segment_list_get(
    list: Option<&shma_segment_list>,
    index: usize,
) -> *const shma_segment_info {
    list.and_then(|list| list.infos.get(index)).map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Frees a listing.
#[unsafe(no_mangle)]
pub extern "C" fn shma_segment_list_close(list: Option<Box<shma_segment_list>>) {
    drop(list);
}

/// Takes a name away. The array goes with its last holder.
///
/// Fails with SHMA_ERROR_NOT_FOUND, SHMA_ERROR_INVALID_ARGUMENT, SHMA_ERROR_PERMISSION_DENIED.
///
/// # Safety
/// Pointers are NULL or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_segment_unlink(
    name: *const c_char,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        // SAFETY: C's caller promises what the header says.
        let name = unsafe { text_of("name", name) }?;
        Ok(shmarray::unlink(name)?)
    })
}

/// Gives back what an unwanted message holds: a handle that shma_array_handle_to_send made and
/// that nobody will attach. Twice is as good as once, and of an array that is gone or of a plain
/// handle there is nothing to give back.
///
/// Fails with SHMA_ERROR_INVALID_HANDLE, SHMA_ERROR_INVALID_SEGMENT, SHMA_ERROR_PERMISSION_DENIED.
///
/// # Safety
/// Pointers are NULL or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_handle_discard(
    handle: *const c_char,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        // SAFETY: C's caller promises what the header says.
        let handle = unsafe { text_of("handle", handle) }?;
        Ok(shmarray::discard(handle)?)
    })
}

/// Gives back what dead processes held, and says how much. Nobody needs to call it: the first
/// use of the library in each process does. Both outputs may be NULL.
///
/// # Safety
/// Pointers are NULL or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_sweep(
    segments_out: Option<&mut u64>,
    bytes_out: Option<&mut u64>,
    error: Option<&mut shma_error>,
) -> i32 {
    guard(error, || {
        let swept = shmarray::sweep()?;
        let outputs = [(segments_out, swept.segments), (bytes_out, swept.bytes)];
        for (output, count) in outputs {
            output.map(|output| *output = count).unwrap_or_default();
        }
        Ok(())
    })
}

/// Bytes of array data that this process has copied with this library. A handle copies none.
#[unsafe(no_mangle)]
pub extern "C" fn shma_copied_bytes() -> u64 {
    shmarray::copied_bytes()
}

/// The library's version, such as "0.1.0". Lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn shma_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}
