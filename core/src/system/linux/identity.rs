//! What two processes have in common if each can attach the other's arrays.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::directory::{self, Directory};
use crate::value::error::{Error, Result};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The memory that a process shares: two processes with equal ones can attach each other's arrays.
///
/// An address of the network does not serve for this: two containers of one host may have one, or
/// different shared memory. A mounted file system has a device number of its own within a kernel,
/// and the kernel has a boot id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MemoryIdentity {
    /// The boot id of the kernel.
    pub boot_id: String,
    /// The device number of the directory of segments.
    pub device: u64,
    /// The inode of the directory of segments.
    pub inode: u64,
    /// The effective uid.
    pub user: u32,
}

impl MemoryIdentity {
    /// Returns that of this process.
    ///
    /// # Errors
    /// [`Error::Os`] when there is no such directory, or the kernel does not tell its boot id.
    pub fn current() -> Result<Self> {
        static BOOT: OnceLock<String> = OnceLock::new();
        let directory = Directory::current();
        let facts = fs::metadata(directory.path())
            .map_err(|error| Error::os("stat", directory.path(), error))?;
        let boot_id = match BOOT.get() {
            Some(boot_id) => boot_id.clone(),
            None => {
                let text = fs::read_to_string(BOOT_ID);
                let text = text.map_err(|error| Error::os("read", BOOT_ID, error))?;
                BOOT.get_or_init(|| text.trim().to_owned()).clone()
            }
        };
        Ok(Self { boot_id, device: facts.dev(), inode: facts.ino(), user: directory::user() })
    }
}

/// Returns the directory that segments live in, as the environment names it now.
#[must_use]
pub fn directory() -> PathBuf {
    Directory::current().named().to_owned()
}
