//! A file's bytes: an allocation that is shared by address.
#![allow(unsafe_code)] // it is reached only through raw pointers and atomics

use std::alloc::{self, Layout};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::IntoBytes;

use super::owner::is_message;
use crate::header::control::{ControlWords, PERSIST};
use crate::header::format::{
    CONTROL_WORDS_OFFSET, DESCRIPTION_OFFSET, Header, LEASES_OFFSET, PAGE_BYTES,
};
use crate::header::lease;

/// The bytes of a file.
pub(super) struct Bytes {
    start: NonNull<u8>,
    layout: Layout,
    count: u64,
}

// SAFETY: the value must be usable in another thread; it is the address of an allocation that is
// accessed only through raw pointers and atomics.
unsafe impl Send for Bytes {}
// SAFETY: shared references must be usable by several threads at once; the methods access the
// allocation only through raw pointers and atomics.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Allocates `count` zeros, rounded up to whole pages.
    pub(super) fn new(count: u64) -> io::Result<Self> {
        let pages = count.max(1).next_multiple_of(PAGE_BYTES) as usize;
        let layout =
            Layout::from_size_align(pages, PAGE_BYTES as usize).map_err(io::Error::other)?;
        // SAFETY: the layout's size must not be zero; `pages` is at least one page, since
        // `count.max(1)` was rounded up.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        NonNull::new(start)
            .map(|start| Self { start, layout, count })
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns a copy of the first bytes. Parts that change are loaded word by word: control words,
    /// lease entries, heads of cells. Parts that no longer change are copied, so that Miri sees a
    /// race with a writer.
    pub(super) fn front(&self, bytes: u64) -> Vec<u8> {
        let bytes = bytes.min(self.count) as usize;
        let mut front = vec![0u64; bytes.div_ceil(8)];
        for (from, to) in [(0, CONTROL_WORDS_OFFSET), (DESCRIPTION_OFFSET, LEASES_OFFSET)] {
            let constant = &mut front.as_mut_bytes()[from.min(bytes)..to.min(bytes)];
            // SAFETY: both ranges must be valid and must not overlap; `from..to` was cut to the
            // file's bytes, which nobody writes any more, and `constant` is as long and new.
            unsafe {
                self.start
                    .as_ptr()
                    .wrapping_add(from)
                    .copy_to_nonoverlapping(constant.as_mut_ptr(), constant.len())
            };
        }
        for (from, to) in [(CONTROL_WORDS_OFFSET, DESCRIPTION_OFFSET), (LEASES_OFFSET, bytes)] {
            for at in (from..to.min(bytes)).step_by(8) {
                // SAFETY: the word must be allocated and aligned; the allocation is whole pages,
                // `at` is a multiple of 8 below `count`, and all accesses are atomic.
                let word =
                    unsafe { AtomicU64::from_ptr(self.start.as_ptr().wrapping_add(at).cast()) };
                front[at / 8] = word.load(Ordering::Relaxed);
            }
        }
        front.as_bytes()[..bytes].to_vec()
    }

    /// Whether the segment's PERSIST flag is set.
    pub(super) fn persists(&self) -> bool {
        self.control().flags().load(Ordering::Acquire) & PERSIST != 0
    }

    /// Whether a message has an entry.
    pub(super) fn is_under_way(&self) -> bool {
        let needed = Header::bytes_needed("", &self.front(PAGE_BYTES), self.count);
        let header = needed.and_then(|needed| Header::read("", &self.front(needed), self.count));
        header.is_ok_and(|header| {
            let front = self.front(header.header_bytes);
            header.entries(&front).any(|entry| entry.held && is_message(entry.owner_info))
        })
    }

    /// Sets the segment's state to DEAD.
    pub(super) fn mark_dead(&self) {
        self.control().state().store(lease::DEAD, Ordering::Release);
    }

    /// Sets a part of the bytes to zero.
    pub(super) fn clear(&self, offset: u64, bytes: u64) {
        // SAFETY: the range must lie in the file and nobody else may access it; the caller passes a
        // part of a cell that it has claimed, and a CLAIMED cell has one owner (I3 of `lease`).
        unsafe { self.start.as_ptr().wrapping_add(offset as usize).write_bytes(0, bytes as usize) };
    }

    /// Returns the control words of the segment's header.
    fn control(&self) -> ControlWords {
        // SAFETY: the address must be a header page while the words are used; `new` allocated at
        // least a page, and `self` keeps it.
        unsafe { ControlWords::new(self.start, 0, None) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: the allocation must be freed once, with its layout; `new` allocated it with
        // `self.layout`, and the last `Arc` of the file is being dropped.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}
