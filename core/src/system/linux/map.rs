//! Maps a segment's file.
#![allow(unsafe_code)] // munmap, madvise

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use super::directory::Directory;
use super::fd::Fd;
use super::huge;
use super::mmap::{self, Request};
use crate::system::interface::Access;

/// A segment in memory until dropped: its header shared and writable if allowed, its data as
/// requested.
///
/// The data follows the header in memory, whatever their protection. So no segment's data starts
/// where another's ends, and an address, even of no elements, identifies its segment.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    header_bytes: usize,
    header_is_writable: bool,
    /// The directory that the file is given back in.
    directory: Directory,
}

// SAFETY: the value must be usable in another thread; a mapping belongs to the whole process, and
// its bytes are accessed only through raw pointers and atomics.
unsafe impl Send for Mapping {}
// SAFETY: shared references must be usable by several threads at once; the methods of `&Mapping`
// only return addresses and call madvise, which is thread-safe.
unsafe impl Sync for Mapping {}

const WRITABLE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

impl Mapping {
    /// Maps the first `size` bytes of a file: all of it, or its header alone. `is_writable` says
    /// whether this process may write to it. `map` is one of the functions of `mmap`.
    pub(super) fn new(
        map: impl Fn(Request) -> io::Result<NonNull<u8>>,
        file: &File,
        directory: &Directory,
        size: u64,
        is_writable: bool,
        access: Access,
        header_bytes: u64,
    ) -> io::Result<Self> {
        // In a hugetlbfs only whole pages can be unmapped.
        let whole = size.checked_next_multiple_of(directory.page_bytes());
        let bytes = whole
            .and_then(|bytes| usize::try_from(bytes).ok())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let (protection, sharing) = match access {
            Access::ReadWrite => (WRITABLE, libc::MAP_SHARED),
            Access::ReadOnly => (libc::PROT_READ, libc::MAP_SHARED),
            Access::CopyOnWrite => (WRITABLE, libc::MAP_PRIVATE),
        };
        let request =
            Request { fd: file.as_raw_fd(), offset: 0, bytes, protection, flags: sharing };
        let start = map(request)?;
        if access != Access::CopyOnWrite && directory.offers_huge_pages(size) {
            huge::ask(start.as_ptr(), bytes);
        }
        let header_bytes = header_bytes as usize;
        let header_is_writable = is_writable;
        let mapping =
            Self { start, bytes, header_bytes, header_is_writable, directory: directory.clone() };
        if access != Access::ReadWrite {
            let protection = if header_is_writable { WRITABLE } else { libc::PROT_READ };
            let bytes = header_bytes.min(bytes);
            let header = Request { bytes, protection, flags: libc::MAP_SHARED, ..request };
            // SAFETY: the range must be the caller's own; it is the front of the mapping that was
            // made above, of which nothing has been given out.
            unsafe { mmap::map_over(start, header)? };
        }
        Ok(mapping)
    }

    /// Returns the address of the header's first byte.
    pub(crate) fn header(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the address of the data's first byte, even if there are no data.
    pub(crate) fn data(&self) -> *mut u8 {
        self.start.as_ptr().wrapping_add(self.header_bytes)
    }

    /// Whether this process may write the header, and so have an entry there.
    pub(crate) fn header_is_writable(&self) -> bool {
        self.header_is_writable
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Maps all pages of the data for stores, which saves one fault for each. A failure is ignored:
    /// a store maps its page or faults.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/madvise.2.html
    pub(crate) fn populate(&self) {
        let data_bytes = self.bytes.saturating_sub(self.header_bytes);
        // SAFETY: the range must belong to this mapping; `new` mapped it, `data_bytes` ends where
        // it ends, and the call changes no bytes.
        unsafe { libc::madvise(self.data().cast(), data_bytes, libc::MADV_POPULATE_WRITE) };
    }

    /// Drops this process's copies of pages of a copy-on-write mapping, so that this part of the
    /// data shows the file's bytes again. Returns `false` if the kernel refused.
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
        // SAFETY: nobody may use the range afterwards; `new` mapped exactly this range, `drop` runs
        // once, and every pointer into it is kept behind a `Segment`, which owns this mapping (I2
        // of `segment`).
        unsafe { mmap::unmap(self.start.as_ptr(), self.bytes) };
    }
}

/// The first page of a file, mapped for its control words. The mapping takes no lock: it keeps only
/// a hold that its file already has.
pub(super) struct Page {
    start: NonNull<u8>,
    bytes: usize,
}

impl Page {
    pub(super) fn map(file: &File, page_bytes: u64) -> io::Result<Self> {
        // Only whole pages can be unmapped, in a hugetlbfs, too.
        let bytes = page_bytes as usize;
        let fd = file.as_raw_fd();
        let flags = libc::MAP_SHARED;
        let request = Request { fd, offset: 0, bytes, protection: WRITABLE, flags };
        let start = mmap::map_with_spare(request)?;
        Ok(Self { start, bytes })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: nobody may use the range afterwards; `Page::map` mapped exactly this range,
        // `drop` runs once, and `Found::ends`, its only user, keeps no pointer into it.
        unsafe { mmap::unmap(self.start.as_ptr(), self.bytes) };
    }
}

/// The bytes that one read fault maps. For a range of this size it costs more to find the written
/// pages than to drop all.
const FAULT_AROUND_BYTES: u64 = 64 << 10;

/// Drops this process's own copies of pages, and what it has mapped there.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/madvise.2.html
fn forget(start: u64, end: u64) -> bool {
    // SAFETY: nobody may rely on the pages' bytes; they belong to a private mapping of this process
    // in which no array lives any more, and so only stores of its last holder are dropped.
    unsafe {
        libc::madvise(start as *mut libc::c_void, (end - start) as usize, libc::MADV_DONTNEED) == 0
    }
}

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg` of linux/fs.h.
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

/// Returns the ranges in which this process has pages of its own, as the kernel's scan of the page
/// tables (Linux 6.7) says; the whole range on older kernels.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://docs.kernel.org/admin-guide/mm/pagemap.html
fn written_pages(start: u64, end: u64) -> Option<Vec<(u64, u64)>> {
    let everywhere = Some(vec![(start, end)]);
    let Ok(pagemap) = Fd::open(|| File::open("/proc/self/pagemap")) else {
        return everywhere;
    };
    let mut pages = Vec::new();
    let mut at = start;
    let mut regions = [PageRegion::default(); 64];
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
        // SAFETY: the argument must be a `pm_scan_arg` with room for its regions; `argument` has
        // its layout, and `regions` and its length are set above, both local variables.
        let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &mut argument) };
        if found < 0 || argument.walk_end <= at {
            return everywhere;
        }
        pages.extend(regions[..found as usize].iter().map(|region| (region.start, region.end)));
        at = argument.walk_end;
    }
    Some(pages)
}
