//! The directory that segments live in: paths, links, free space, owners.
//!
//! | file | content |
//! |---|---|
//! | `shmarray-<id>` | a segment |
//! | `shmarray-name-<name>` | a second link to a segment, by the name that a person gave |
//! | `shmarray-new-<id>` | an unfinished segment, if the file system has no unnamed files |
//! | `shmarray-registry-<uid>` | locks, and the process list (`registry`) |
//! | `shmarray-registry-<uid>-<random>` | the same, where another user has the plain name |
//! | `shmarray-ticket-<id>-<ticket>-<cookie>[-<cell>]` | a ticket that found no entry (`links`) |
//!
//! In the registry the bytes from 2^62 on stand for names. A process that removes a name locks its
//! byte first, so that no process can put a new array there between the check and the unlink.
#![allow(unsafe_code)] // linkat, statvfs, geteuid

use std::cell::RefCell;
use std::ffi::CString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use super::append::AppendList;
use super::fd::{Fd, without_fork};
use super::huge;
use super::limits;
use crate::system::interface::LastCheck;
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentId};

/// From linux/magic.h.
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
const DEFAULT_DIRECTORY: &str = "/dev/shm";
pub(super) const SEGMENT_PREFIX: &str = "shmarray-";
pub(super) const NAME_PREFIX: &str = "shmarray-name-";
pub(super) const NEW_PREFIX: &str = "shmarray-new-";
pub(super) const TICKET_PREFIX: &str = "shmarray-ticket-";

/// The directory that segments live in. A segment stays in its directory even if `SHMARRAY_DIR`
/// changes later.
#[derive(Clone, Debug)]
pub(crate) struct Directory(Arc<State>);

#[derive(Debug)]
struct State {
    /// The path as `SHMARRAY_DIR` says it.
    named: PathBuf,
    /// Absolute.
    path: PathBuf,
    /// 0 if not known yet. It is no lock, which a forked child could find locked.
    page_bytes: AtomicU64,
    /// [`UNKNOWN`], [`NO`] or [`YES`].
    huge_by_advice: AtomicU8,
    last_check: LastCheck,
    /// Whether a trial found that the directory serves (`trial`).
    is_tried: AtomicBool,
    last_look: LastCheck,
}

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

thread_local! {
    /// The directory that this thread used last: most programs have one.
    static LAST: RefCell<Option<Directory>> = const { RefCell::new(None) };
}

impl PartialEq for Directory {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for Directory {}

impl Hash for Directory {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.path().hash(state);
    }
}

impl Directory {
    /// Returns the directory that `SHMARRAY_DIR` names now, by default the system's shared memory.
    pub(crate) fn current() -> Self {
        let named = std::env::var_os("SHMARRAY_DIR").filter(|directory| !directory.is_empty());
        let path = named.as_deref().unwrap_or(DEFAULT_DIRECTORY.as_ref());
        let find = |last: &RefCell<Option<Self>>| {
            let mut last = last.try_borrow_mut().ok()?;
            match &*last {
                Some(last) if last.0.named == path => Some(last.clone()),
                _ => Some(last.insert(Self::at(path)).clone()),
            }
        };
        // In a thread that is ending there is no cached directory.
        LAST.try_with(find).ok().flatten().unwrap_or_else(|| Self::at(path))
    }

    fn at(path: impl AsRef<Path>) -> Self {
        let named = path.as_ref().to_owned();
        Self(Arc::new(State {
            path: absolute(&named),
            named,
            page_bytes: AtomicU64::new(0),
            huge_by_advice: AtomicU8::new(UNKNOWN),
            last_check: LastCheck::default(),
            is_tried: AtomicBool::new(false),
            last_look: LastCheck::default(),
        }))
    }

    /// The path as `SHMARRAY_DIR` says it.
    pub(super) fn named(&self) -> &Path {
        &self.0.named
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn last_check(&self) -> &LastCheck {
        &self.0.last_check
    }

    pub(super) fn is_tried(&self) -> bool {
        self.0.is_tried.load(Ordering::Relaxed)
    }

    pub(super) fn set_tried(&self) {
        self.0.is_tried.store(true, Ordering::Relaxed);
    }

    /// This thread's last search of the directory for further registries.
    pub(super) fn last_look(&self) -> &LastCheck {
        &self.0.last_look
    }

    /// The unit of memory protection of files in this directory; in a hugetlbfs a huge page.
    pub(crate) fn page_bytes(&self) -> u64 {
        match self.0.page_bytes.load(Ordering::Relaxed) {
            0 => {
                let page_bytes = self.huge_page_bytes().unwrap_or_else(limits::page_bytes);
                self.0.page_bytes.store(page_bytes, Ordering::Relaxed);
                page_bytes
            }
            page_bytes => page_bytes,
        }
    }

    /// The page size if this is a hugetlbfs: all its pages have that size, the administrator
    /// reserves them, and write(2) does not work on its files.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man2/statfs.2.html
    pub(super) fn huge_page_bytes(&self) -> Option<u64> {
        let path = c_path(self.path());
        let mut facts = MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: the path must be a C string and the pointer valid for a `statfs`; `c_path` made
        // the one, and `facts` is a local variable of that type.
        if unsafe { libc::statfs(path.as_ptr(), facts.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: `facts` must be initialized; the call above succeeded, and so the kernel filled
        // it.
        let facts = unsafe { facts.assume_init() };
        (facts.f_type as u64 == HUGETLBFS_MAGIC).then_some(facts.f_bsize as u64)
    }

    /// Whether a segment of that size gets huge pages here by asking for them (MADV_HUGEPAGE).
    pub(super) fn offers_huge_pages(&self, bytes: u64) -> bool {
        bytes >= huge::LARGE_BYTES && self.has_huge_advise()
    }

    /// Whether the directory lies in a tmpfs that is mounted with huge=advise.
    fn has_huge_advise(&self) -> bool {
        if self.0.huge_by_advice.load(Ordering::Relaxed) == UNKNOWN {
            let answer = if huge::by_advice(self.path()) { YES } else { NO };
            self.0.huge_by_advice.store(answer, Ordering::Relaxed);
        }
        self.0.huge_by_advice.load(Ordering::Relaxed) == YES
    }

    pub(super) fn is_huge(&self) -> bool {
        self.page_bytes() != limits::page_bytes()
    }

    pub(super) fn segment_path(&self, id: &SegmentId) -> PathBuf {
        self.path().join(format!("{SEGMENT_PREFIX}{id}"))
    }

    pub(super) fn name_path(&self, name: &ArrayName) -> PathBuf {
        self.path().join(format!("{NAME_PREFIX}{name}"))
    }

    /// The path under which a segment is created if the file system has no unnamed files; no attach
    /// looks there.
    pub(super) fn hidden_path(&self, id: &SegmentId) -> PathBuf {
        self.path().join(format!("{NEW_PREFIX}{id}"))
    }

    /// The bytes that are left for this user in the file system.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        let facts = self.facts()?;
        // A tmpfs that is mounted with size=0, or a hugetlbfs, which is limited by its reserved
        // pages.
        let unlimited = facts.f_blocks == 0;
        let huge = || self.huge_pages("free_hugepages").unwrap_or(u64::MAX);
        Ok(if unlimited { huge() } else { (facts.f_bavail * facts.f_frsize) as _ })
    }

    /// Whether the file system has no inode left for this user. One without inodes of a fixed
    /// number never lacks any.
    pub(super) fn lacks_inodes(&self) -> bool {
        self.facts().is_ok_and(|facts| facts.f_files > 0 && facts.f_favail == 0)
    }

    /// The size of the file system, or of physical memory if the file system has no limit.
    pub(crate) fn total_bytes(&self) -> Result<u64> {
        let facts = self.facts()?;
        let unlimited = facts.f_blocks == 0;
        let all = || self.huge_pages("nr_hugepages").unwrap_or_else(limits::memory_bytes);
        Ok(if unlimited { all() } else { (facts.f_blocks * facts.f_frsize) as _ })
    }

    /// The bytes of huge pages, as the kernel counts them.
    fn huge_pages(&self, which: &str) -> Option<u64> {
        let page_bytes = self.huge_page_bytes()?;
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{which}", page_bytes >> 10);
        let count = without_fork(|| fs::read_to_string(path)).ok()?;
        Some(count.trim().parse::<u64>().ok()? * page_bytes)
    }

    /// Returns the file system's figures.
    ///
    /// # References
    /// - [Linux]
    ///
    /// [Linux]: https://man7.org/linux/man-pages/man3/statvfs.3.html
    fn facts(&self) -> Result<libc::statvfs> {
        let path = c_path(self.path());
        let mut facts = MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: the path must be a C string and the pointer valid for a `statvfs`; `c_path` made
        // the one, and `facts` is a local variable of that type.
        let status = unsafe { libc::statvfs(path.as_ptr(), facts.as_mut_ptr()) };
        if status != 0 {
            return Err(Error::os("statvfs", self.path(), io::Error::last_os_error()));
        }
        // SAFETY: `facts` must be initialized; the call above succeeded, and so the C library
        // filled it.
        Ok(unsafe { facts.assume_init() })
    }
}

/// The directory that a relative `SHMARRAY_DIR` meant when this process first used it.
struct Relative {
    named: PathBuf,
    path: PathBuf,
}

static RELATIVES: AppendList<Relative> = AppendList::new();

/// Returns a path as absolute, relative to the working directory at the time of its first use, even
/// if the working directory changes later.
fn absolute(named: &Path) -> PathBuf {
    if named.is_absolute() {
        return named.to_owned();
    }
    if let Some(relative) = RELATIVES.find(|relative| relative.named == named) {
        return relative.path.clone();
    }
    // Two threads that use the path first at the same time compute the same result.
    let path = std::env::current_dir().unwrap_or_default().join(named);
    RELATIVES.append(Relative { named: named.to_owned(), path: path.clone() });
    path
}

/// Returns the effective user id of this process.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/geteuid.2.html
pub(super) fn user() -> u32 {
    // SAFETY: `geteuid` takes no arguments, accesses no memory of the caller and cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns the user whose files are this process's own. In a user namespace that has no number for
/// this user, all users without a number share one, so no file counts as this user's.
pub(super) fn own_user() -> Option<u32> {
    let user = user();
    (user != NOBODY || !is_unknown(NOBODY)).then_some(user)
}

/// Whether a file is this user's.
pub(super) fn is_own(facts: &fs::Metadata) -> bool {
    facts.uid() == user() && own_user().is_some()
}

/// The number that the kernel gives users whom a namespace does not map (`kernel.overflowuid`).
const NOBODY: u32 = 65_534;

/// Whether no line of the namespace's map (first inside, first outside, count) has that user.
fn is_unknown(user: u32) -> bool {
    let map = without_fork(|| fs::read_to_string("/proc/self/uid_map"));
    let numbers = |line: &str| {
        line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()
    };
    let has = |line: Vec<u64>| {
        line.len() == 3 && (line[0]..line[0].saturating_add(line[2])).contains(&u64::from(user))
    };
    !map.is_ok_and(|map| map.lines().filter_map(numbers).any(has))
}

/// Links an open file to a path, which must be free.
///
/// # References
/// - [Linux]
///
/// [Linux]: https://man7.org/linux/man-pages/man2/linkat.2.html
pub(super) fn link_file(file: &fs::File, path: &Path) -> io::Result<()> {
    let open = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
    match link(libc::AT_FDCWD, &open, path, libc::AT_SYMLINK_FOLLOW) {
        // Without /proc the fd itself can be linked if the kernel permits it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            link(file.as_raw_fd(), c"", path, libc::AT_EMPTY_PATH)
        }
        done => done,
    }
}

fn link(from: libc::c_int, old: &std::ffi::CStr, new: &Path, flags: libc::c_int) -> io::Result<()> {
    let new = c_path(new);
    // SAFETY: both paths must be C strings during the call; `old` is borrowed and `new` is a local
    // variable, and the kernel checks the numbers.
    match unsafe { libc::linkat(from, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether `open(O_TMPFILE)` failed because the file system does not support it.
pub(super) fn lacks_unnamed_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL))
}

/// Creates a file at a hidden path, and lists its fd.
pub(super) fn create_hidden(path: &Path) -> Result<Fd> {
    Fd::open(|| hidden_file(path)).map_err(|error| Error::os("open(O_CREAT)", path, error))
}

/// Creates a file at a hidden path.
pub(super) fn hidden_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    options.open(path)
}

/// FNV-1a with 64 bits (Fowler, Noll, Vo) of text. Which byte stands for a name is part of the
/// format.
pub(super) struct Fnv1a(u64);

impl Fnv1a {
    pub(super) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn value(&self) -> u64 {
        self.0
    }
}

impl std::fmt::Write for Fnv1a {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Ok(())
    }
}

pub(super) fn c_path(path: &Path) -> CString {
    // A path from the environment or from ids and names contains no NUL.
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
