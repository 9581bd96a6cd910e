//! Memory that is allocated and freed by address, and may be moved to another process: arrays that
//! are *born shared*. It is for a library's allocator, such as NumPy's in a worker.
//!
//! An *allocation* is an array of bytes in a cell of the pool that has a slab alone. This process
//! attaches it [`Owned`](crate::Access::Owned), so a fork freezes it like any other owned array,
//! and a crash leaves a dead owner's entry. All that is new is this process's table of them
//! (`table`): which is live, idle, offered to a message, dropped since, or moved while it is in
//! use. PROTOCOL.md, "What is born shared", has the steps between these states, and why each is
//! safe.
//!
//! The table's lock is held in the gate of forks, for nothing else of this library. So a malloc and
//! a free of what no message had take one uncontended lock.
#![allow(unsafe_code)] // memory by its address

mod table;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::array::Array;
use crate::memory::{mapping, slab};
use crate::system;
use crate::value::error::{Error, Result};
use table::Freed;
pub use table::Stats;

/// The lowest address of any allocation so far, and that behind the highest.
static LOW: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGH: AtomicUsize = AtomicUsize::new(0);
/// Every allocation begins at a page.
const PAGE_BYTES: usize = 4096;
/// Allocations use up to this part of the mappings that a process may have (one fourth), as
/// received arrays do.
const MAPPINGS_PART: usize = 4;

/// Allocates so many bytes of the pool, zeros or whatever an earlier array of this user left there.
/// Returns `None` if the pool has no room, or if shared memory cannot be used: for these bytes the
/// caller has another allocator.
///
/// ```
/// use shmarray::allocator::{allocate, free, size};
/// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return; }
/// let address = allocate(1 << 20, true).unwrap();
/// assert!(size(address.as_ptr() as usize).unwrap() >= 1 << 20);
/// // SAFETY: nothing refers to it.
/// assert!(unsafe { free(address) });
/// ```
#[must_use]
pub fn allocate(bytes: usize, is_zero: bool) -> Option<NonNull<u8>> {
    if system::is_orphaned() {
        return None;
    }
    let wanted = slab::bytes_alone(bytes as u64)?;
    let (idle, _gone) = table::take_idle(wanted);
    if let Some(start) = idle {
        if is_zero {
            // SAFETY: the memory must be writable and unused; an idle allocation is, it has at
            // least `wanted` bytes, and nobody else was given it.
            unsafe { start.write_bytes(0, bytes) };
        }
        return Some(start);
    }
    let array = new(wanted, is_zero).ok().flatten();
    let array = array.or_else(|| {
        drop(table::take_all_idle());
        new(wanted, is_zero).ok().flatten()
    });
    let Some(array) = array else {
        table::fell_back();
        return None;
    };
    let start = array.segment_data().0;
    let address = start.as_ptr() as usize;
    LOW.fetch_min(address, Ordering::Relaxed);
    HIGH.fetch_max(address + wanted as usize, Ordering::Relaxed);
    table::insert(address, wanted as usize, array);
    Some(start)
}

/// Returns a new owned array of so many bytes, or `None` if the pool has no room.
fn new(bytes: u64, is_zero: bool) -> Result<Option<Array>> {
    if mapping::mappings() >= system::most_mappings() / MAPPINGS_PART {
        return Ok(None);
    }
    Array::owned_in_pool(bytes, is_zero, table::most_spare())
}

/// Frees an allocation. Returns `false`, and does nothing, for memory of another allocator.
///
/// # Safety
/// It was not freed before, and nothing in this process refers to it.
pub unsafe fn free(start: NonNull<u8>) -> bool {
    let address = start.as_ptr() as usize;
    if !may_be_ours(address) {
        return false;
    }
    if system::is_orphaned() {
        return true; // the parent's, and the lock may be, too
    }
    match table::free(address) {
        Freed::Unknown => false,
        Freed::Kept => true,
        Freed::Gone(arrays) => {
            drop(arrays); // when nothing is locked
            true
        }
    }
}

/// Returns the size of the allocation that begins at an address, which is at least what was asked
/// for. `None` for other memory.
#[must_use]
pub fn size(address: usize) -> Option<usize> {
    if !may_be_ours(address) || system::is_orphaned() {
        return None;
    }
    table::size(address)
}

/// Whether an allocation has the memory at an address.
#[must_use]
pub fn has(address: usize) -> bool {
    is_in_bounds(address) && !system::is_orphaned() && table::has(address)
}

fn may_be_ours(address: usize) -> bool {
    address.is_multiple_of(PAGE_BYTES) && is_in_bounds(address)
}

fn is_in_bounds(address: usize) -> bool {
    (LOW.load(Ordering::Relaxed)..HIGH.load(Ordering::Relaxed)).contains(&address)
}

/// Gives all idle allocations back to the pool, as a worker does that waits for work.
pub fn free_idle() {
    if !system::is_orphaned() {
        drop(table::take_all_idle());
    }
}

/// Returns what this process has allocated.
#[must_use]
pub fn stats() -> Stats {
    if system::is_orphaned() { Stats::default() } else { table::stats() }
}

/// Returns the array of the bytes of the allocation that has the memory at an address, to be sent
/// while this process keeps it. Whoever receives it owns it. `None` if it is to be copied: no
/// allocation has it, it is offered to a message, or a fork has frozen it.
///
/// # Errors
/// [`Error::InvalidArgument`] if a message has it already.
///
/// # Safety
/// Nothing in this process writes to it from now on, and whoever reads it may see what its receiver
/// writes.
pub unsafe fn move_in_use(address: usize) -> Result<Option<Array>> {
    if !has(address) {
        return Ok(None);
    }
    let Some(array) = table::move_in_use(address)? else { return Ok(None) };
    let (start, bytes) = array.segment_data();
    if array.begin_move_in_use() {
        table::was_moved(bytes as usize);
        return Ok(Some(array));
    }
    table::keep(start.as_ptr() as usize);
    Ok(None)
}

/// An allocation that a message may have, once it is freed. Dropping the offer withdraws it.
#[derive(Debug)]
pub struct Offer {
    start: usize,
    bytes: usize,
    /// What was freed and could not be moved, so that it is still there to be copied.
    array: Option<Array>,
    is_settled: bool,
}

impl Offer {
    /// Offers the allocation that has the memory at an address. `None` if none has it, if it is
    /// offered already, or if it can only be copied, because a fork has frozen it.
    #[must_use]
    pub fn at(address: usize) -> Option<Self> {
        if !is_in_bounds(address) || system::is_orphaned() {
            return None;
        }
        let (start, bytes) = table::offer(address)?;
        Some(Self { start, bytes, array: None, is_settled: false })
    }

    /// Returns the address of its first byte.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it was freed since.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        !self.is_settled && table::is_dropped(self.start)
    }

    /// Returns the array of its bytes if it was freed since. It is to be sent, and dropped after
    /// that; whoever receives it owns it. `None` if it is to be copied: it is in use, or a fork has
    /// frozen it. Its memory can be read until the offer is dropped.
    #[must_use]
    pub fn take(&mut self) -> Option<Array> {
        let array = if self.is_settled { None } else { table::take_dropped(self.start) }?;
        self.is_settled = true;
        // SAFETY: nothing must read or write its elements any more; it was freed, and `free` was
        // promised that nothing refers to it.
        if unsafe { array.begin_move() } {
            return Some(array);
        }
        self.array = Some(array);
        None
    }

    /// Returns a shared copy of its first bytes: what a message has instead of an allocation that
    /// is in use.
    ///
    /// # Errors
    /// Those of making an array, and [`Error::InvalidArgument`] for more bytes than there are.
    pub fn copy(&self, bytes: usize) -> Result<Array> {
        if bytes > self.bytes {
            return Err(Error::argument("bytes", "the allocation has less"));
        }
        // SAFETY: so many bytes must be readable; they are this allocation's, which is not used
        // again before its offer is dropped.
        unsafe { Array::share_bytes(self.start as *const u8, bytes) }
    }

    /// Returns its first bytes, for a message that has no room in shared memory.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for more bytes than there are.
    pub fn read(&self, room: &mut [u8]) -> Result<()> {
        if room.len() > self.bytes {
            return Err(Error::argument("bytes", "the allocation has less"));
        }
        // SAFETY: as in `copy`; `room` is another's memory. A thread that still uses the allocation
        // may write meanwhile, as during any copy of an array that is in use.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start as *const u8, room.as_mut_ptr(), room.len());
        }
        Ok(())
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if !self.is_settled && !system::is_orphaned() {
            drop(table::withdraw(self.start));
        }
    }
}
