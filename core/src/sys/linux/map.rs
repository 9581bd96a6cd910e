//! Mapping a segment's file.
#![allow(unsafe_code)] // mmap, munmap, madvise

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use super::directory::Directory;
use super::fd::Fd;
use super::huge;
use crate::sys::Access;

/// A segment in memory until dropped: its header shared and to write, its data as asked for.
///
/// The data follows the header in memory, whatever their protection: so no segment's data
/// starts where another's ends, and an address, even of no elements, tells whose it is.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    header_bytes: usize,
    header_is_writable: bool,
    /// Where the file is, to be given back there.
    directory: Directory,
}

// SAFETY: a mapping belongs to the process, not to a thread; what is in it is reached only
// through raw pointers and atomics.
unsafe impl Send for Mapping {}
// SAFETY: as for Send; `&Mapping` only tells where it is.
unsafe impl Sync for Mapping {}

const WRITABLE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

impl Mapping {
    /// Maps a whole file of that size, which this process may write if `is_writable`.
    pub(super) fn new(
        file: &File,
        directory: &Directory,
        size: u64,
        is_writable: bool,
        access: Access,
        header_bytes: u64,
    ) -> io::Result<Self> {
        // Of a hugetlbfs only whole pages can be unmapped.
        let whole = size.checked_next_multiple_of(directory.page_bytes());
        let bytes = whole
            .and_then(|bytes| usize::try_from(bytes).ok())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let (protection, sharing) = match access {
            Access::ReadWrite => (WRITABLE, libc::MAP_SHARED),
            Access::ReadOnly => (libc::PROT_READ, libc::MAP_SHARED),
            Access::CopyOnWrite => (WRITABLE, libc::MAP_PRIVATE),
        };
        let start = map(file, std::ptr::null_mut(), bytes, protection, sharing)?;
        if access != Access::CopyOnWrite && directory.offers_huge_pages(size) {
            huge::ask(start.as_ptr(), bytes);
        }
        let (header_bytes, header_is_writable) = (header_bytes as usize, is_writable);
        let mapping =
            Self { start, bytes, header_bytes, header_is_writable, directory: directory.clone() };
        if access != Access::ReadWrite {
            let protection = if header_is_writable { WRITABLE } else { libc::PROT_READ };
            map(
                file,
                start.as_ptr(),
                header_bytes.min(bytes),
                protection,
                libc::MAP_SHARED | libc::MAP_FIXED,
            )?;
        }
        Ok(mapping)
    }

    /// The first byte of the header.
    pub(crate) fn header(&self) -> NonNull<u8> {
        self.start
    }

    /// The first byte of the data, or where it would be if there were any.
    pub(crate) fn data(&self) -> *mut u8 {
        self.start.as_ptr().wrapping_add(self.header_bytes)
    }

    /// Whether this process may have an entry there.
    pub(crate) fn header_is_writable(&self) -> bool {
        self.header_is_writable
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Maps all pages of the data for stores, as one fault each would. What cannot be had is not
    /// needed: a store says so.
    pub(crate) fn populate(&self) {
        let data_bytes = self.bytes.saturating_sub(self.header_bytes);
        // SAFETY: this mapping's own pages; it changes nothing in them.
        unsafe { libc::madvise(self.data().cast(), data_bytes, libc::MADV_POPULATE_WRITE) };
    }

    /// Of a mapping that copies on write: frees the pages of a part of the data that this process
    /// has written, so that it shows the file's again. `false` when the kernel refused.
    pub(crate) fn drop_written_pages(&self, offset: u64, bytes: u64) -> bool {
        let page_bytes = self.directory.page_bytes();
        let start = self.data().wrapping_add(offset as usize) as u64 / page_bytes * page_bytes;
        let end = (self.data() as u64 + offset + bytes).next_multiple_of(page_bytes);
        if end - start <= FAULT_AROUND_BYTES {
            return forget(start, end);
        }
        written_pages(start, end)
            .is_some_and(|pages| pages.iter().all(|(start, end)| forget(*start, *end)))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, once; every pointer into it is kept behind a
        // `Segment`, which owns this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The first page of a file, for its words alone; it keeps no hold that its file has not.
pub(super) struct Page {
    start: NonNull<u8>,
    bytes: usize,
}

impl Page {
    pub(super) fn map(file: &File, page_bytes: u64) -> io::Result<Self> {
        let bytes = page_bytes as usize; // whole pages alone can be unmapped, of a hugetlbfs too
        Ok(Self {
            start: map(file, std::ptr::null_mut(), bytes, WRITABLE, libc::MAP_SHARED)?,
            bytes,
        })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: what `map` mapped, once; its user keeps no pointer longer.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Maps the front of a file: where the kernel likes, or with MAP_FIXED over a part of `place`,
/// which is the caller's.
fn map(
    file: &File,
    place: *mut u8,
    bytes: usize,
    protection: libc::c_int,
    flags: libc::c_int,
) -> io::Result<NonNull<u8>> {
    let fd = file.as_raw_fd();
    // SAFETY: a new mapping, or one over pages that the caller has just mapped for himself.
    let start = unsafe { libc::mmap(place.cast(), bytes, protection, flags, fd, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// A read fault maps as much at once: to find out what of it was written costs more.
const FAULT_AROUND_BYTES: u64 = 64 << 10;

/// Drops this process's own copies of pages, and what it has mapped there.
fn forget(start: u64, end: u64) -> bool {
    // SAFETY: pages of a private mapping of ours that no array is in any more: what is dropped
    // with them is what the last array's holder has written.
    unsafe {
        libc::madvise(start as *mut libc::c_void, (end - start) as usize, libc::MADV_DONTNEED) == 0
    }
}

/// `struct page_region` and `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_count: u64,
    most_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any: u64,
    return_mask: u64,
}

const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610; // _IOWR('f', 16, struct pm_scan_arg)
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;

/// Where this process has pages of its own, by the kernel's look at its page tables (Linux 6.7);
/// before that everywhere.
fn written_pages(start: u64, end: u64) -> Option<Vec<(u64, u64)>> {
    let everywhere = Some(vec![(start, end)]);
    let Ok(pagemap) = Fd::open(|| File::open("/proc/self/pagemap")) else {
        return everywhere;
    };
    let (mut pages, mut at, mut regions) = (Vec::new(), start, [PageRegion::default(); 64]);
    while at < end {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            start: at,
            end,
            regions: regions.as_mut_ptr() as u64,
            regions_count: regions.len() as u64,
            category_inverted: PAGE_IS_FILE,
            category_mask: PAGE_IS_FILE,
            category_any: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            ..ScanArgument::default()
        };
        // SAFETY: the structure of this call, with room for as many regions as it says.
        let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &mut argument) };
        if found < 0 || argument.walk_end <= at {
            return everywhere;
        }
        pages.extend(regions[..found as usize].iter().map(|region| (region.start, region.end)));
        at = argument.walk_end;
    }
    Some(pages)
}
