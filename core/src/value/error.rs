//! Errors, with the facts: one enum for every language.
//!
//! Ordinary outcomes (a timeout, a closed channel) are not errors and are not here. A binding turns
//! an [`ErrorKind`] into its language's own exception with one table; the text is this enum's
//! `Display` everywhere.

use std::io;
use std::path::{Path, PathBuf};

/// The result of every function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error, and the facts about it.
///
/// ```
/// use shmarray::{Array, DType, Error, Options};
/// let array = Array::create(DType::parse("<f8")?, &[3], &Options::default())?;
/// match array.get_number(&[7]) {
///     Err(Error::IndexOutOfBounds { index, count }) => assert_eq!((index, count), (7, 3)),
///     other => panic!("the array has three elements: {other:?}"),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no segment of that id: it was given back, or never was on this machine.
    #[error(
        "no segment {segment} in {}: it was given back, \
         or the handle comes from another machine or another SHMARRAY_DIR",
        directory.display()
    )]
    SegmentNotFound {
        /// The segment that the handle names.
        segment: String,
        /// The directory that was searched.
        directory: PathBuf,
    },

    /// Neither an array nor a channel has that name.
    #[error("nothing is named {name:?} in {}", directory.display())]
    NameNotFound {
        /// The name asked for.
        name: String,
        /// The directory that was searched.
        directory: PathBuf,
    },

    /// The name is taken by an array that exists.
    #[error("the name {name:?} is taken in {}", directory.display())]
    NameExists {
        /// The name asked for.
        name: String,
        /// The directory that has it.
        directory: PathBuf,
    },

    /// The handle is of an earlier life of the segment.
    #[error(
        "stale handle: segment {segment} is at generation {found}, \
         the handle was made at {expected}"
    )]
    StaleHandle {
        /// The segment that the handle names.
        segment: String,
        /// The handle's generation.
        expected: u64,
        /// The segment's generation now.
        found: u64,
    },

    /// The text is not a handle.
    #[error("invalid handle: {field}: {reason}")]
    InvalidHandle {
        /// The field that breaks the format, or `handle` for the text as a whole.
        field: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The file is not a segment, or not one that can be trusted.
    #[error("invalid segment {segment}: {field}: expected {expected}, found {found}")]
    InvalidSegment {
        /// The segment's id or name.
        segment: String,
        /// The header field at fault.
        field: &'static str,
        /// A description of the valid values.
        expected: String,
        /// The value in the header.
        found: String,
    },

    /// The bytes of a list are not those of one that can be trusted.
    #[error("invalid list: {field}: {reason}")]
    InvalidList {
        /// The field at fault.
        field: String,
        /// What is wrong with it.
        reason: String,
    },

    /// There is no such file.
    #[error("no such file: {}", path.display())]
    FileNotFound {
        /// The path.
        path: PathBuf,
    },

    /// The file is not an NPY or NPZ file, or not one that can be trusted.
    #[error("invalid file {file}{}: {field}: {reason}", of_member(member.as_deref()))]
    InvalidFile {
        /// The path, or `in memory`.
        file: String,
        /// The member of an NPZ file at fault, if it is one.
        member: Option<String>,
        /// The field at fault, or the limit that the file exceeds.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// The segment was written by a version with a layout that this one does not know.
    #[error(
        "segment {segment} needs {needs}, which shmarray {} does not know",
        env!("CARGO_PKG_VERSION")
    )]
    UnknownLayout {
        /// The segment's id or name.
        segment: String,
        /// The layout version or the feature bits that a reader needs.
        needs: String,
    },

    /// A name that is not `[A-Za-z0-9._-]{1,64}`.
    #[error("invalid name {name:?}: names are 1 to 64 of the characters A-Z a-z 0-9 . _ -")]
    InvalidName {
        /// The name given.
        name: String,
    },

    /// An argument that no array can have.
    #[error("invalid {argument}: {reason}")]
    InvalidArgument {
        /// The argument.
        argument: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// A dtype that cannot be in shared memory, or that is no dtype.
    #[error("dtype {dtype} cannot be shared: {reason}")]
    InvalidDType {
        /// The dtype as given.
        dtype: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The array has another dtype than the caller needs.
    #[error("the array's dtype is {found}, not {expected}")]
    DTypeMismatch {
        /// The dtype asked for.
        expected: String,
        /// The array's dtype.
        found: String,
    },

    /// A view or an index that leaves its array.
    #[error("out of bounds: {what} spans bytes {low} to {high} of {size_bytes}")]
    OutOfBounds {
        /// The view or index.
        what: &'static str,
        /// The first byte, counted from the start of what it must stay inside.
        low: i128,
        /// One past the last byte.
        high: i128,
        /// The size of what it must stay inside.
        size_bytes: u64,
    },

    /// An index that its dimension does not have.
    #[error("invalid index: {index} is out of range for a dimension of {count}")]
    IndexOutOfBounds {
        /// The index.
        index: i128,
        /// The number of elements along the dimension.
        count: u64,
    },

    /// A write to an array that was attached read-only.
    #[error("the array is read-only")]
    ReadOnly,

    /// The file system of the directory lacks something that this library stands on.
    #[error(
        "{} cannot hold arrays: {reason}; let SHMARRAY_DIR name a directory on a tmpfs, or unset \
         it for /dev/shm, whose size in a container is that of docker run --shm-size",
        directory.display()
    )]
    UnusableDirectory {
        /// The directory that `SHMARRAY_DIR` names.
        directory: PathBuf,
        /// The result of the trial, and what follows from it.
        reason: &'static str,
    },

    /// Shared memory is full.
    #[error(
        "shared memory is full: {asked_bytes} bytes asked, {free_bytes} bytes free in {}; {}",
        directory.display(),
        no_space_hint(*asked_bytes, *free_bytes, *lacks_inode)
    )]
    NoSpace {
        /// The size asked for, the header included.
        asked_bytes: u64,
        /// The bytes that the file system reports as free.
        free_bytes: u64,
        /// Whether the file system had no inode for another file.
        lacks_inode: bool,
        /// The directory that is full.
        directory: PathBuf,
    },

    /// This process cannot get so much private memory.
    #[error("{bytes} bytes of private memory, which {purpose} needs, cannot be allocated")]
    NoMemory {
        /// The size asked for.
        bytes: u64,
        /// The use that the memory was meant for.
        purpose: &'static str,
    },

    /// This process can map no more: its address space or its number of mappings is limited.
    #[error("{bytes} bytes of {} cannot be mapped: {limit}: {source}", path.display())]
    CannotMap {
        /// The size asked for.
        bytes: u64,
        /// The file.
        path: PathBuf,
        /// The limit that was met, and how to raise it.
        limit: String,
        /// The errno and its text.
        source: io::Error,
    },

    /// A segment of that size would exceed this process's limit on the size of files.
    #[error(
        "a segment of {asked_bytes} bytes exceeds this process's limit on the size of files, \
         {limit_bytes} bytes: raise it (ulimit -f, RLIMIT_FSIZE)"
    )]
    FileTooLarge {
        /// The size asked for, the header included.
        asked_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },

    /// The file belongs to a user who has not shared it.
    #[error(
        "{} belongs to user {owner}, not to user {user}, \
         and its mode {mode:04o} does not share it",
        path.display()
    )]
    NotOwner {
        /// The file.
        path: PathBuf,
        /// The owner's uid.
        owner: u32,
        /// The effective uid of this process.
        user: u32,
        /// The permission bits.
        mode: u32,
    },

    /// This backend cannot do it. The guide's page on platforms lists what each can.
    #[error("not supported: {what}")]
    Unsupported {
        /// The operation asked for.
        what: &'static str,
    },

    /// A system call failed.
    #[error("{call} failed{}: {source}{}", on_path(path), directory_hint(call, source))]
    Os {
        /// The system call.
        call: &'static str,
        /// The path that it was called on; empty if it takes none.
        path: PathBuf,
        /// The errno and its text.
        source: io::Error,
    },
}

/// The kinds of [`Error`] that a binding distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such segment, name or file.
    NotFound,
    /// The name exists.
    Exists,
    /// The handle is of an earlier generation.
    StaleHandle,
    /// The text is not a handle.
    InvalidHandle,
    /// The file is not a segment that can be trusted.
    InvalidSegment,
    /// The file is not an NPY or NPZ file that can be trusted.
    InvalidFile,
    /// A bad name, shape, stride, offset, mode or option.
    InvalidArgument,
    /// A dtype that cannot be shared.
    InvalidDType,
    /// Another dtype than asked for.
    DTypeMismatch,
    /// A view or index that leaves its array.
    OutOfBounds,
    /// A write to a read-only array.
    ReadOnly,
    /// Shared memory is full, or this process may not have so much in one piece.
    NoSpace,
    /// This process cannot get as much private memory, or cannot map as much.
    NoMemory,
    /// The system or the owner denies it.
    PermissionDenied,
    /// This platform's backend cannot do it.
    Unsupported,
    /// Another failure of a system call.
    Os,
}

impl ErrorKind {
    /// All kinds, in the order of declaration. A binding's test walks them.
    pub const ALL: [Self; 16] = [
        Self::NotFound,
        Self::Exists,
        Self::StaleHandle,
        Self::InvalidHandle,
        Self::InvalidSegment,
        Self::InvalidFile,
        Self::InvalidArgument,
        Self::InvalidDType,
        Self::DTypeMismatch,
        Self::OutOfBounds,
        Self::ReadOnly,
        Self::NoSpace,
        Self::NoMemory,
        Self::PermissionDenied,
        Self::Unsupported,
        Self::Os,
    ];
}

impl Error {
    /// What a binding fails with when it meets an outcome that it does not know, because it was
    /// built for an earlier version of this library.
    pub const UNKNOWN_OUTCOME: Self = Self::Unsupported { what: "an outcome of a later version" };

    /// Returns the kind, by which programs tell errors apart.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::SegmentNotFound { .. }
            | Self::NameNotFound { .. }
            | Self::FileNotFound { .. } => ErrorKind::NotFound,
            Self::NameExists { .. } => ErrorKind::Exists,
            Self::StaleHandle { .. } => ErrorKind::StaleHandle,
            Self::InvalidHandle { .. } => ErrorKind::InvalidHandle,
            Self::InvalidSegment { .. } | Self::UnknownLayout { .. } | Self::InvalidList { .. } => {
                ErrorKind::InvalidSegment
            }
            Self::InvalidFile { .. } => ErrorKind::InvalidFile,
            Self::InvalidName { .. } | Self::InvalidArgument { .. } => ErrorKind::InvalidArgument,
            Self::InvalidDType { .. } => ErrorKind::InvalidDType,
            Self::DTypeMismatch { .. } => ErrorKind::DTypeMismatch,
            Self::OutOfBounds { .. } | Self::IndexOutOfBounds { .. } => ErrorKind::OutOfBounds,
            Self::ReadOnly => ErrorKind::ReadOnly,
            Self::NoSpace { .. } | Self::FileTooLarge { .. } => ErrorKind::NoSpace,
            Self::NoMemory { .. } | Self::CannotMap { .. } => ErrorKind::NoMemory,
            Self::NotOwner { .. } => ErrorKind::PermissionDenied,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::UnusableDirectory { .. } => ErrorKind::Os,
            Self::Os { source, .. } => os_kind(source),
        }
    }

    /// Returns the operating system's error number, if there is one.
    #[must_use]
    pub fn os_errno(&self) -> Option<i32> {
        match self {
            Self::Os { source, .. } | Self::CannotMap { source, .. } => source.raw_os_error(),
            Self::UnusableDirectory { .. } => Some(EOPNOTSUPP),
            _ => None,
        }
    }

    pub(crate) fn os(call: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        Self::Os { call, path, source }
    }

    pub(crate) fn argument(argument: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::InvalidArgument { argument, reason }
    }

    /// An argument that is none of the words that it can be.
    pub(crate) fn none_of(argument: &'static str, text: &str, words: &[&str]) -> Self {
        Self::argument(argument, format!("{text:?} is none of {}", words.join(", ")))
    }

    pub(crate) fn handle(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidHandle { field: field.into(), reason: reason.into() }
    }
}

/// Linux's number: only its backend tries a directory.
const EOPNOTSUPP: i32 = 95;

fn on_path(path: &Path) -> String {
    if path.as_os_str().is_empty() { String::new() } else { format!(" on {}", path.display()) }
}

fn of_member(member: Option<&str>) -> String {
    member.map_or_else(String::new, |member| format!(": member {member:?}"))
}

/// The figures were read after the failure. Other processes may have freed memory in between.
fn no_space_hint(asked_bytes: u64, free_bytes: u64, lacks_inode: bool) -> &'static str {
    match (lacks_inode, asked_bytes <= free_bytes) {
        (true, _) => {
            "there is no free inode: \
             raise that file system's number of inodes (nr_inodes; df -i shows it)"
        }
        (false, true) => {
            "they were not free when they were asked for: other processes use this memory, too; \
             look at the size of that file system (docker run --shm-size in a container)"
        }
        (false, false) => {
            "in a container look at its shared-memory size (docker run --shm-size), \
             else at the size of that file system"
        }
    }
}

/// Returns a hint for a directory in which nothing can be created, and for a kernel that says of no
/// process whether it is alive.
fn directory_hint(call: &str, source: &io::Error) -> &'static str {
    let makes = call.starts_with("open(O_TMPFILE)");
    if call == "fcntl(F_OFD_GETLK)" {
        return LOCKS_HINT;
    }
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem => DIRECTORY_HINT,
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound if makes => DIRECTORY_HINT,
        _ => "",
    }
}

const DIRECTORY_HINT: &str = "; set the environment variable SHMARRAY_DIR \
                         to a directory where this process can write, best on a tmpfs";

const LOCKS_HINT: &str = "; only this call says which holders of arrays are alive: let the seccomp \
                          filter of this process (docker run --security-opt seccomp=…) permit it";

fn os_kind(source: &io::Error) -> ErrorKind {
    match source.kind() {
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        io::ErrorKind::OutOfMemory => ErrorKind::NoMemory,
        _ => ErrorKind::Os,
    }
}
