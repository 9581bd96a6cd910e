//! A file's bytes: an allocation that is shared by address.
#![allow(unsafe_code)] // it is reached only through raw pointers and atomics

use std::alloc::{self, Layout};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::IntoBytes;

use super::owner::is_message;
use crate::control::{ControlWords, PERSIST};
use crate::format::{DESCRIPTION_OFFSET, Header, LEASES_OFFSET, PAGE_BYTES, WORDS_OFFSET};
use crate::lease;

pub(super) struct Bytes {
    start: NonNull<u8>,
    layout: Layout,
    count: u64,
}

// SAFETY: an address; what is there is reached only through raw pointers and atomics.
unsafe impl Send for Bytes {}
// SAFETY: as for Send.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Zeros, in whole pages.
    pub(super) fn new(count: u64) -> io::Result<Self> {
        let pages = count.max(1).next_multiple_of(PAGE_BYTES) as usize;
        let layout =
            Layout::from_size_align(pages, PAGE_BYTES as usize).map_err(io::Error::other)?;
        // SAFETY: a page at the least.
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

    /// A copy of the first bytes. What moves is loaded a word at a time: words, leases, heads of
    /// cells. What stands still is copied, so that Miri sees a race with who still writes it.
    pub(super) fn front(&self, bytes: u64) -> Vec<u8> {
        let bytes = bytes.min(self.count) as usize;
        let mut front = vec![0u64; bytes.div_ceil(8)];
        for (from, to) in [(0, WORDS_OFFSET), (DESCRIPTION_OFFSET, LEASES_OFFSET)] {
            let still = &mut front.as_mut_bytes()[from.min(bytes)..to.min(bytes)];
            // SAFETY: those bytes of the file, which nobody writes any more, to as many of ours.
            unsafe {
                self.start
                    .as_ptr()
                    .wrapping_add(from)
                    .copy_to_nonoverlapping(still.as_mut_ptr(), still.len())
            };
        }
        for (from, to) in [(WORDS_OFFSET, DESCRIPTION_OFFSET), (LEASES_OFFSET, bytes)] {
            for at in (from..to.min(bytes)).step_by(8) {
                // SAFETY: the allocation is whole pages, and that a word of it.
                let word =
                    unsafe { AtomicU64::from_ptr(self.start.as_ptr().wrapping_add(at).cast()) };
                front[at / 8] = word.load(Ordering::Relaxed);
            }
        }
        front.as_bytes()[..bytes].to_vec()
    }

    pub(super) fn persists(&self) -> bool {
        self.words().flags().load(Ordering::Acquire) & PERSIST != 0
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

    pub(super) fn be_dead(&self) {
        self.words().state().store(lease::DEAD, Ordering::Release);
    }

    /// Makes a part of them zero.
    pub(super) fn clear(&self, offset: u64, bytes: u64) {
        // SAFETY: a part of the file, which the caller has claimed.
        unsafe { self.start.as_ptr().wrapping_add(offset as usize).write_bytes(0, bytes as usize) };
    }

    fn words(&self) -> ControlWords {
        // SAFETY: a page is there for as long as `self`.
        unsafe { ControlWords::new(self.start, 0, None) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: what `new` allocated, once; nobody has the file.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}
