//! Maps a segment's file.
#![allow(unsafe_code)] // munmap, madvise

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use super::directory::Directory;
use super::fd::Fd;
use super::freeze::{Data, Outcome, close_gap, freeze, thaw};
use super::huge;
use super::mmap::{self, Request};
use crate::system::interface::Access;
use crate::value::name::SegmentId;

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
    /// What a private mapping's data are: [`OWNED`] and so on.
    state: AtomicU8,
}

/// The file's pages, shared. Also the data of mappings that are not private.
const OWNED: u8 = 0;
/// The file's pages, of which a store makes a copy: a copy-on-write mapping, or an owned one since
/// a fork.
const FROZEN: u8 = 1;
/// A copy, since a fork that could not open the file.
const COPIED: u8 = 2;
/// Still the file's pages, since there was no memory to freeze them. A child has nothing there.
const FAILED: u8 = 3;
/// Nothing, in the child of such a fork.
const GONE: u8 = 4;

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
            Access::ReadWrite | Access::Owned => (WRITABLE, libc::MAP_SHARED),
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
        let directory = directory.clone();
        let state = if access == Access::CopyOnWrite { FROZEN } else { OWNED };
        let state = AtomicU8::new(state);
        let mapping = Self { start, bytes, header_bytes, header_is_writable, directory, state };
        if access == Access::Owned {
            mapping.let_forks_inherit(false);
        }
        if !access.stores_to_file() {
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
        let advice = libc::MADV_POPULATE_WRITE;
        // SAFETY: the range must belong to this mapping; it ends where the mapping ends, and the
        // call changes no bytes.
        unsafe { libc::madvise(self.data().cast(), self.data_bytes(), advice) };
    }

    /// Sets whether a forked child gets the data. It gets the header always.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/madvise.2.html
    pub(crate) fn let_forks_inherit(&self, do_inherit: bool) {
        let advice = if do_inherit { libc::MADV_DOFORK } else { libc::MADV_DONTFORK };
        // SAFETY: the range must belong to this mapping; it ends where the mapping ends, and the
        // call changes no bytes.
        unsafe { libc::madvise(self.data().cast(), self.data_bytes(), advice) };
    }

    /// Whether a store to the data of a private mapping copies a page of the file.
    pub(crate) fn is_frozen(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FROZEN
    }

    /// Whether the data of a private mapping are the file's pages.
    pub(crate) fn is_owned(&self) -> bool {
        self.state.load(Ordering::Relaxed) == OWNED
    }

    /// Makes the data of an owned array private memory with the same bytes, before a fork.
    pub(crate) fn freeze(&self, id: &SegmentId) {
        let is_shared = matches!(self.state.load(Ordering::Relaxed), OWNED | FAILED);
        let Some(data) = self.as_data(id).filter(|_| is_shared) else { return };
        // SAFETY: the data must be a shared mapping of these bytes, as those of a private mapping
        // in these states are.
        let state = match unsafe { freeze(data) } {
            Outcome::Mapped => FROZEN,
            Outcome::Copied => COPIED,
            Outcome::Failed => FAILED,
        };
        self.state.store(state, Ordering::Relaxed);
    }

    /// Closes the gap in a child for which the data could not be frozen.
    pub(crate) fn close_gap_in_child(&self) {
        if self.state.load(Ordering::Relaxed) != FAILED {
            return;
        }
        if let Some(start) = NonNull::new(self.data()) {
            // SAFETY: nothing must be mapped there: the child did not inherit the data, and has
            // mapped nothing yet.
            unsafe { close_gap(start, self.data_bytes()) };
        }
        self.state.store(GONE, Ordering::Relaxed);
    }

    /// Makes the data of a copy-on-write mapping those of an owned array, if no page was stored to.
    /// Returns whether it did. A store that another thread makes meanwhile may be lost.
    pub(crate) fn thaw(&self, id: &SegmentId) -> bool {
        let start = self.data() as u64;
        let is_unwritten = || {
            let pages = written_pages(start, start + self.data_bytes() as u64);
            pages.is_some_and(|pages| pages.is_empty())
        };
        let is_thawed = self.is_frozen()
            && is_unwritten()
            // SAFETY: the data must be a private mapping of these bytes, in which no page has a
            // copy, as was found just now.
            && self.as_data(id).is_some_and(|data| unsafe { thaw(data) });
        if is_thawed {
            self.state.store(OWNED, Ordering::Relaxed);
            self.let_forks_inherit(false);
        }
        is_thawed
    }

    fn as_data<'a>(&'a self, id: &'a SegmentId) -> Option<Data<'a>> {
        let start = NonNull::new(self.data())?;
        let Self { directory, header_bytes: offset, .. } = self;
        let bytes = self.data_bytes();
        (bytes > 0).then_some(Data { start, bytes, directory, id, offset: *offset })
    }

    fn data_bytes(&self) -> usize {
        self.bytes.saturating_sub(self.header_bytes)
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
