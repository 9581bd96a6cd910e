//! What a file that is saved has of the older one under its path, or that it is written into it.

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// The first bytes of a file, which are written last: without them no loader takes it for a whole
/// one.
const FIRST_BYTES: u64 = 64;

/// Gives a new file the owner, the mode and the extended attributes of an older one. Returns
/// whether it now stands for the older one in everything but its contents.
pub(super) fn can_stand_for(new: &File, older: &Metadata, path: &Path) -> bool {
    has_one_name(older)
        && keep_owner(new, older).is_ok()
        // The umask is for new files. The owner comes first, because the kernel then takes bits
        // from the mode.
        && new.set_permissions(older.permissions()).is_ok()
        && keep_attributes(new, path).is_ok_and(|all| all)
}

/// Writes a file over an older one in place, and not into it what is behind its end.
///
/// Nothing is truncated before the end, because others, or the array that is saved, may map the
/// older file. The room is reserved first: if there is none, the older contents stay. A kill, or an
/// error of the disk, leaves a file that begins with zeros.
pub(super) fn copy_over(older: &mut File, new: &mut File) -> io::Result<()> {
    let before = older.metadata()?.len();
    let size = new.metadata()?.len();
    if let Err(error) = reserve(older, before, size) {
        let _ = older.set_len(before); // gives back a part that was reserved
        return Err(error);
    }
    let mut first = Vec::new();
    new.seek(SeekFrom::Start(0))?;
    io::copy(&mut io::Read::take(&mut *new, FIRST_BYTES), &mut first)?;
    older.seek(SeekFrom::Start(0))?;
    older.write_all(&vec![0; first.len()])?;
    copy(new, older)?;
    older.set_len(size)?;
    older.seek(SeekFrom::Start(0))?;
    older.write_all(&first)
}

/// Copies the rest of a file. An interrupted copy goes on from where it is.
fn copy(from: &mut File, to: &mut File) -> io::Result<()> {
    loop {
        match io::copy(from, to) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            copied => return copied.map(drop),
        }
    }
}

#[cfg(target_os = "linux")]
fn reserve(file: &File, before: u64, size: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::{Errno, retry_on_intr};
    if size <= before {
        return Ok(());
    }
    match retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, 0, size)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()), // then the writes find out
        reserved => Ok(reserved?),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _before: u64, _size: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn has_one_name(older: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(older) == 1
}

#[cfg(unix)]
fn keep_owner(new: &File, older: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let made = new.metadata()?;
    let other = |made: u32, older: u32| (made != older).then_some(older);
    match (other(made.uid(), older.uid()), other(made.gid(), older.gid())) {
        (None, None) => Ok(()),
        (user, group) => fchown(new, user, group),
    }
}

#[cfg(not(unix))]
fn has_one_name(_older: &Metadata) -> bool {
    true
}

#[cfg(not(unix))]
fn keep_owner(_new: &File, _older: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn keep_attributes(_new: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

#[cfg(target_os = "linux")]
use attributes::keep_attributes;

#[cfg(target_os = "linux")]
mod attributes {
    //! Extended attributes.

    use std::fs::File;
    use std::io;
    use std::path::Path;

    use rustix::buffer::spare_capacity;
    use rustix::fs::{
        XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, lgetxattr, llistxattr,
    };
    use rustix::io::{Errno, Result};

    /// The attribute with a POSIX access control list.
    const ACL: &[u8] = b"system.posix_acl_access";
    /// The attributes that are copied begin so. Those that the kernel keeps of the contents, such
    /// as `security.ima`, are none of them.
    const COPIED: [&[u8]; 4] = [b"user.", ACL, b"security.selinux", b"security.SMACK64"];
    /// The most bytes of a list, and of a value.
    const BYTES_MOST: usize = 1 << 16;

    /// Gives a new file the attributes of an older one. Returns whether it has all of them.
    pub(super) fn keep_attributes(new: &File, path: &Path) -> io::Result<bool> {
        let older_names = names(|list| llistxattr(path, spare_capacity(list)))?;
        let new_names = names(|list| flistxattr(new, spare_capacity(list)))?;
        for name in older_names.split_inclusive(|byte| *byte == 0) {
            let name = &name[..name.len() - 1];
            let value = whole(|value| lgetxattr(path, name, spare_capacity(value)))?;
            if whole(|made| fgetxattr(new, name, spare_capacity(made))).is_ok_and(|it| it == value)
            {
                continue;
            }
            if !COPIED.iter().any(|copied| name.starts_with(copied)) {
                return Ok(false);
            }
            fsetxattr(new, name, &value, XattrFlags::empty())?;
        }
        // From the folder's default. It may give rights that the older file did not.
        let has_acl = |list: &[u8]| list.split(|byte| *byte == 0).any(|name| name == ACL);
        if has_acl(&new_names) && !has_acl(&older_names) {
            fremovexattr(new, ACL)?;
        }
        Ok(true)
    }

    /// Returns a list of names, each with a zero behind it: an empty one of a file system without
    /// attributes.
    fn names(read: impl Fn(&mut Vec<u8>) -> Result<usize>) -> Result<Vec<u8>> {
        match whole(read) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Vec::new()),
            names => names,
        }
    }

    fn whole(read: impl Fn(&mut Vec<u8>) -> Result<usize>) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(256);
        match read(&mut bytes) {
            Err(Errno::RANGE) => {
                bytes.reserve_exact(BYTES_MOST);
                read(&mut bytes)?;
            }
            read => drop(read?),
        }
        Ok(bytes)
    }
}
