//! The C functions that list, unlink and sweep segments.

use std::ffi::{CString, c_char};

use shmarray::{SegmentInfo, SegmentKind};

use crate::arguments::{Object, produce, text as text_of};
use crate::error::{guard, shma_error, shma_status};

/// The kind of a segment or of a cell: one of the numbers below.
pub type shma_segment_kind = i32;

/// An array that a process or a message holds, or that persists without a holder.
pub const SHMA_SEGMENT_ARRAY: shma_segment_kind = 0;
/// Free memory that living processes keep in their pool for new arrays.
pub const SHMA_SEGMENT_POOL: shma_segment_kind = 1;
/// Memory that dead processes left behind. The next create or receive of
/// a process of the same user gives it back, and so does shma_sweep.
pub const SHMA_SEGMENT_REMAINS: shma_segment_kind = 2;
/// A channel that a process has open, or that persists.
pub const SHMA_SEGMENT_CHANNEL: shma_segment_kind = 3;

/// Describes an array, which need not be attached, or memory that is not an array at present.
///
/// Later versions add members at the end.
#[repr(C)]
pub struct shma_segment_info {
    /// The segment's id. For an array in a cell, it includes the number of the cell, as in "id.17".
    pub segment: *const c_char,
    /// The name that was given on creation, or NULL.
    pub name: *const c_char,
    /// SHMA_SEGMENT_ARRAY, SHMA_SEGMENT_POOL, SHMA_SEGMENT_REMAINS or SHMA_SEGMENT_CHANNEL.
    pub kind: shma_segment_kind,
    /// 1 if the array lives until its name is unlinked, even without a holder; else 0.
    pub persists: i32,
    /// The bytes of shared memory that it uses. They include the header, unless arrays share it.
    pub segment_bytes: u64,
    /// The dtype's text as in a handle; "|u1" for memory that is not an array.
    pub dtype: *const c_char,
    /// The number of dimensions.
    pub ndim: usize,
    /// The number of elements along each dimension.
    pub shape: *const i64,
    /// The number of holders.
    pub holders_count: usize,
    /// The pids of the living processes that have a lease on it or have it in their pool, each in
    /// the pid namespace of that process.
    pub holders: *const u32,
    /// The number of tickets that hold it: of messages and of handles that were sent out of band.
    pub tickets: u64,
    /// The pid of the process that created it, in the pid namespace of that process.
    pub creator_pid: u32,
    /// The time when it was created, in nanoseconds since 1970. For a cell, that of its segment.
    pub created_ns: u64,
}

/// The memory that the pointers of one [`shma_segment_info`] refer to.
struct Row {
    segment: CString,
    name: Option<CString>,
    dtype: CString,
    shape: Vec<i64>,
    holders: Vec<u32>,
}

/// A list of the shared memory that this library uses on this machine.
pub struct shma_segment_list {
    /// Owns the memory that `infos` point to, and is never read.
    _rows: Vec<Row>,
    infos: Vec<shma_segment_info>,
}

// SAFETY: another thread may own a list if nothing in it belongs to the thread that made it: the
// pointers of `infos` refer to memory of `_rows`, which moves with them.
unsafe impl Send for shma_segment_list {}
// SAFETY: several threads may read a list if nothing writes to it: no function changes a list or
// what its pointers refer to, until it is closed.
unsafe impl Sync for shma_segment_list {}

impl Object for shma_segment_list {}

/// More than the texts of one row take.
const ROW_BYTES: usize = 16 << 10;

/// Adds room to a list that is as long as other programs have made segments.
fn reserve<T>(list: &mut Vec<T>, count: usize) -> Result<(), shmarray::Error> {
    let bytes = (count * size_of::<T>()) as u64;
    let reserved = list.try_reserve_exact(count);
    reserved.map_err(|_| shmarray::Error::NoMemory { bytes, purpose: "the list of segments" })
}

impl shma_segment_list {
    fn new(segments: &[SegmentInfo]) -> Result<Self, shmarray::Error> {
        let mut rows = Vec::new();
        let mut infos = Vec::new();
        reserve(&mut rows, segments.len())?;
        reserve(&mut infos, segments.len())?;
        for info in segments {
            let mut room = Vec::<u8>::new();
            reserve(&mut room, ROW_BYTES)?;
            drop(std::hint::black_box(room)); // the allocator keeps it for the row's texts
            rows.push(Row::new(info));
        }
        infos.extend(rows.iter().zip(segments).map(|(row, info)| row.info(info)));
        Ok(Self { _rows: rows, infos })
    }
}

impl Row {
    fn new(info: &SegmentInfo) -> Self {
        // Ids, names and dtypes have no zero byte: their formats do not allow it.
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
                SegmentKind::Channel => SHMA_SEGMENT_CHANNEL,
                _ => -1, // a kind of a later version
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

/// Lists the shared memory that this library uses: arrays, channels, pools, and memory of dead
/// processes.
/// Memory that this user has no permission to open is left out. On systems other
/// than Linux the list is empty. The list does not change after the
/// call, and may lack what other threads and processes make during it. On systems other than Linux
/// the list is empty.
///
/// Fails with SHMA_ERROR_OS and SHMA_ERROR_NO_MEMORY.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_segment_list_create(
    list_out: *mut *mut shma_segment_list,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `list_out`.
        unsafe {
            produce("list_out", list_out, || Ok(shma_segment_list::new(&shmarray::segments()?)?))
        }
    })
}

/// Returns the number of infos; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn shma_segment_list_count(list: Option<&shma_segment_list>) -> usize {
    list.map_or(0, |list| list.infos.len())
}

/// Returns an info, or NULL if there is none of that index. It is valid until the list is closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_segment_list_get(
    list: Option<&shma_segment_list>,
    index: usize,
) -> *const shma_segment_info {
    list.and_then(|list| list.infos.get(index)).map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Closes a list and frees its infos.
#[unsafe(no_mangle)]
pub extern "C" fn shma_segment_list_close(list: Option<Box<shma_segment_list>>) {
    guard(None, || {
        drop(list);
        Ok(())
    });
}

/// Removes the name of an array. The array is given back when its last holder releases it.
///
/// Fails with SHMA_ERROR_NOT_FOUND, SHMA_ERROR_INVALID_ARGUMENT, SHMA_ERROR_PERMISSION_DENIED.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_segment_unlink(
    name: *const c_char,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `text_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for `name`.
        let name = unsafe { text_of("name", name) }?;
        Ok(shmarray::unlink(name)?)
    })
}

/// Releases the ticket of a handle that shma_array_handle_to_send wrote and that no process will
/// attach. The call does nothing if the ticket was released before, the array no longer exists, or
/// the handle has no ticket.
///
/// Fails with SHMA_ERROR_INVALID_HANDLE, SHMA_ERROR_INVALID_SEGMENT, SHMA_ERROR_PERMISSION_DENIED.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_handle_discard(
    handle: *const c_char,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `text_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for `handle`.
        let handle = unsafe { text_of("handle", handle) }?;
        Ok(shmarray::discard(handle)?)
    })
}

/// Gives back the memory that dead processes held and the unused memory in the pools of all this
/// user's processes, and writes how much it was. Both outputs may be NULL. Programs need not call
/// it: creates and receives give back what dead processes held.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_sweep(
    segments_out: Option<&mut u64>,
    bytes_out: Option<&mut u64>,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let swept = shmarray::sweep()?;
        let outputs = [(segments_out, swept.segments), (bytes_out, swept.bytes)];
        for (output, count) in outputs {
            if let Some(output) = output {
                *output = count;
            }
        }
        Ok(())
    })
}
