//! The directory that segments live in: paths, links, free space, the lock on names.
//!
//! | file | is |
//! |---|---|
//! | `shmarray-<id>` | a segment |
//! | `shmarray-name-<name>` | a second link to a segment, by the name that a person gave |
//! | `shmarray-new-<id>` | a segment being made, where the file system has no unnamed files |
//! | `shmarray-registry-<uid>` | locks, and the roll of processes (`registry`) |
//!
//! The registry's bytes from 2^62 on are one for each name: who takes a name away locks its
//! byte first, so that between the look and the unlink nobody can put a new array there.
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
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

use super::fd::{Fd, without_fork};
use super::huge;
use super::limits;
use crate::error::{Error, Result};
use crate::name::{ArrayName, SegmentId};
use crate::sys::LastCheck;

/// Of linux/magic.h.
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
const DEFAULT_DIRECTORY: &str = "/dev/shm";
const SEGMENT_PREFIX: &str = "shmarray-";
const NAME_PREFIX: &str = "shmarray-name-";
const NEW_PREFIX: &str = "shmarray-new-";

/// Where segments live. What was made there stays there, whatever `SHMARRAY_DIR` says later.
#[derive(Clone, Debug)]
pub(crate) struct Directory(Arc<State>);

#[derive(Debug)]
struct State {
    /// As `SHMARRAY_DIR` says it.
    named: PathBuf,
    /// Absolute.
    path: PathBuf,
    /// 0: nobody has asked yet. No lock, which a forked child could find taken.
    page_bytes: AtomicU64,
    /// [`UNKNOWN`], [`NO`] or [`YES`].
    huge_by_advice: AtomicU8,
    last_check: LastCheck,
}

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

thread_local! {
    /// The last that was asked for in this thread: most programs have one.
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
    /// What `SHMARRAY_DIR` says now, or the system's shared memory.
    pub(crate) fn current() -> Self {
        let named = std::env::var_os("SHMARRAY_DIR").filter(|directory| !directory.is_empty());
        let path = named.as_deref().unwrap_or(DEFAULT_DIRECTORY.as_ref());
        let find = |last: &RefCell<Option<Self>>| {
            let mut last = last.try_borrow_mut().ok()?;
            match &*last {
                Some(known) if known.0.named == path => Some(known.clone()),
                _ => Some(last.insert(Self::at(path)).clone()),
            }
        };
        LAST.try_with(find).ok().flatten().unwrap_or_else(|| Self::at(path)) // a thread that ends has no last one
    }

    fn at(path: impl AsRef<Path>) -> Self {
        let named = path.as_ref().to_owned();
        Self(Arc::new(State {
            path: absolute(&named),
            named,
            page_bytes: AtomicU64::new(0),
            huge_by_advice: AtomicU8::new(UNKNOWN),
            last_check: LastCheck::default(),
        }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn last_check(&self) -> &LastCheck {
        &self.0.last_check
    }

    /// The unit of memory protection of what is mapped there: in a hugetlbfs a huge page.
    pub(crate) fn page_bytes(&self) -> u64 {
        match self.0.page_bytes.load(Ordering::Relaxed) {
            0 => {
                let page_bytes = self.huge_page_bytes().unwrap_or_else(limits::page_bytes);
                self.0.page_bytes.store(page_bytes, Ordering::Relaxed);
                page_bytes
            }
            known => known,
        }
    }

    /// Of a hugetlbfs: its pages are of one size, are reserved by the administrator, and take no
    /// write(2).
    pub(super) fn huge_page_bytes(&self) -> Option<u64> {
        let path = c_path(self.path());
        let mut facts = MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: the path is a C string; `facts` has room for the answer.
        if unsafe { libc::statfs(path.as_ptr(), facts.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the call filled it.
        let facts = unsafe { facts.assume_init() };
        (facts.f_type as u64 == HUGETLBFS_MAGIC).then_some(facts.f_bsize as u64)
    }

    /// Whether a segment of that size gets huge pages there by asking.
    pub(super) fn offers_huge_pages(&self, bytes: u64) -> bool {
        bytes >= huge::LARGE_BYTES && self.gives_huge_pages_to_who_asks()
    }

    /// Whether a tmpfs has huge pages for who asks.
    fn gives_huge_pages_to_who_asks(&self) -> bool {
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

    /// Where a segment is made when it cannot be made without a name: no attach looks here.
    pub(super) fn hidden_path(&self, id: &SegmentId) -> PathBuf {
        self.path().join(format!("{NEW_PREFIX}{id}"))
    }

    /// The ids of all segments there, finished or not, whoever owns them.
    pub(crate) fn segment_ids(&self) -> Result<Vec<SegmentId>> {
        let ids = self.names(id_in);
        ids.map_err(|error| Error::os("opendir", self.path(), error))
    }

    /// The names that people gave, whoever owns them.
    pub(super) fn array_names(&self) -> Vec<ArrayName> {
        self.names(|name| name.strip_prefix(NAME_PREFIX)?.parse().ok()).unwrap_or_default()
    }

    /// What is of use among the names of its files.
    pub(super) fn names<T>(&self, of_use: impl Fn(&str) -> Option<T>) -> io::Result<Vec<T>> {
        without_fork(|| {
            let entries = fs::read_dir(self.path())?;
            Ok(entries.filter_map(|entry| of_use(entry.ok()?.file_name().to_str()?)).collect())
        })
    }

    /// Bytes that the file system has left for us.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        let facts = self.facts()?;
        let unlimited = facts.f_blocks == 0; // a tmpfs mounted with size=0, or a hugetlbfs with what is reserved
        let huge = || self.huge_pages("free_hugepages").unwrap_or(u64::MAX);
        Ok(if unlimited { huge() } else { facts.f_bavail * facts.f_frsize })
    }

    /// Size of the file system, or of the memory where that is not limited.
    pub(crate) fn total_bytes(&self) -> Result<u64> {
        let facts = self.facts()?;
        // SAFETY: takes a number; -1 where it is not known.
        let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }.max(0) as u64;
        let unlimited = facts.f_blocks == 0;
        let all = || self.huge_pages("nr_hugepages").unwrap_or(pages * limits::page_bytes());
        Ok(if unlimited { all() } else { facts.f_blocks * facts.f_frsize })
    }

    /// Bytes of huge pages, as the kernel counts them.
    fn huge_pages(&self, which: &str) -> Option<u64> {
        let page_bytes = self.huge_page_bytes()?;
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{which}", page_bytes >> 10);
        let count = without_fork(|| fs::read_to_string(path)).ok()?;
        Some(count.trim().parse::<u64>().ok()? * page_bytes)
    }

    fn facts(&self) -> Result<libc::statvfs> {
        let path = c_path(self.path());
        let mut facts = MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: the path is a C string; `facts` has room for the answer.
        let status = unsafe { libc::statvfs(path.as_ptr(), facts.as_mut_ptr()) };
        if status != 0 {
            return Err(Error::os("statvfs", self.path(), io::Error::last_os_error()));
        }
        // SAFETY: the call filled it.
        Ok(unsafe { facts.assume_init() })
    }
}

fn id_in(file_name: &str) -> Option<SegmentId> {
    let id =
        file_name.strip_prefix(NEW_PREFIX).or_else(|| file_name.strip_prefix(SEGMENT_PREFIX))?;
    SegmentId::from_bytes(id.as_bytes())
}

/// What a relative `SHMARRAY_DIR` meant when this process first saw it.
struct Relative {
    named: PathBuf,
    path: PathBuf,
    earlier: *const Relative,
}

/// Never freed, and only added to: no lock that a forked child could find taken.
static RELATIVES: AtomicPtr<Relative> = AtomicPtr::new(std::ptr::null_mut());

/// Counted from where this process was when it first saw that name, wherever it goes afterwards.
fn absolute(named: &Path) -> PathBuf {
    if named.is_absolute() {
        return named.to_owned();
    }
    let mut latest = RELATIVES.load(Ordering::Acquire); // the exchange below is its partner
    let mut at: *const Relative = latest;
    // SAFETY: null, or a `Relative` that is never freed nor changed, published by the exchange
    // below.
    while let Some(known) = unsafe { at.as_ref() } {
        if known.named == named {
            return known.path.clone();
        }
        at = known.earlier;
    }
    let path = std::env::current_dir().unwrap_or_default().join(named);
    let new = Box::into_raw(Box::new(Relative {
        named: named.to_owned(),
        path: path.clone(),
        earlier: latest,
    }));
    while let Err(other) =
        RELATIVES.compare_exchange(latest, new, Ordering::AcqRel, Ordering::Acquire)
    {
        latest = other; // two threads that see it first at once saw it in one place
        // SAFETY: `new` is not published yet: it is this thread's alone.
        unsafe { (*new).earlier = latest };
    }
    path
}

/// Our effective user.
pub(super) fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether a file is this user's. Where a user namespace knows no number for this user, all
/// strangers have the same one, and nothing is.
pub(super) fn is_own(facts: &fs::Metadata) -> bool {
    facts.uid() == user() && !(user() == NOBODY && is_unknown(NOBODY))
}

/// What the kernel says of users that a namespace has no number for (`kernel.overflowuid`).
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

/// Gives an open file a name that must be free.
pub(super) fn link_file(file: &fs::File, path: &Path) -> io::Result<()> {
    let open = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
    match link(libc::AT_FDCWD, &open, path, libc::AT_SYMLINK_FOLLOW) {
        // Without /proc the fd itself can be linked, where the kernel permits it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            link(file.as_raw_fd(), c"", path, libc::AT_EMPTY_PATH)
        }
        done => done,
    }
}

fn link(from: libc::c_int, old: &std::ffi::CStr, new: &Path, flags: libc::c_int) -> io::Result<()> {
    let new = c_path(new);
    // SAFETY: both are C strings and outlive the call.
    match unsafe { libc::linkat(from, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether `open(O_TMPFILE)` failed because this file system does not do it.
pub(super) fn lacks_unnamed_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL))
}

/// A new file at a hidden path.
pub(super) fn create_hidden(path: &Path) -> Result<Fd> {
    let mut options = fs::OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    Fd::open(|| options.open(path)).map_err(|error| Error::os("open(O_CREAT)", path, error))
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo), of text: which byte stands for a name is part of the format.
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
    // A path from the environment or from ids and names has no NUL.
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
