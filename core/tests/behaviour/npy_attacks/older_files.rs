//! What becomes of a file that is saved over: who owns it, who else sees it, and what it loses.

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use shmarray::npy::{
    Contents, Elements, NpzOptions, Source, save, save_bytes, save_elements, save_npz,
};
use shmarray::{DType, ErrorKind, Layout};

use super::load_npy;
use super::saves::{array_of, count_in, folder_with_a_file, others_in, saves};
use crate::support::{directory, fork};
use crate::watched::{Pool, become_user, mount, mount_own, open_to_all, watched, watched_as_root};

const NOBODY: u32 = 65_534;

/// A file itself, whatever its name.
fn inode(path: &Path) -> (u64, u64) {
    let facts = fs::metadata(path).unwrap();
    (facts.dev(), facts.ino())
}

fn owner_and_mode(path: &Path) -> (u32, u32, u32) {
    let facts = fs::metadata(path).unwrap();
    (facts.uid(), facts.gid(), facts.mode() & 0o7777)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Does work as another user, who may use shared memory, and expects that it succeeds.
fn as_nobody(work: impl FnOnce()) {
    open_to_all();
    fork(|| {
        become_user(NOBODY);
        work();
    })
    .ended();
}

/// Saves arrays of these lengths one after the other, and looks at each.
fn saves_in_place(path: &Path) {
    let before = inode(path);
    for count in [9, 300_000, 1, 0] {
        save(path, &array_of(count)).unwrap();
        assert_eq!((count_in(path), inode(path)), (count as u64, before));
    }
    for result in saves(path, &array_of(500)) {
        result.unwrap();
        assert_eq!(inode(path), before);
    }
}

#[test]
fn a_file_with_two_names_is_seen_under_both() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        let other = place.path().join("other");
        fs::hard_link(&path, &other).unwrap();
        saves_in_place(&path);
        save(&path, &array_of(50)).unwrap();
        assert_eq!((count_in(&other), inode(&other)), (50, inode(&path)));
        assert_eq!(others_in(place.path(), &["a.npy", "other"]), [""; 0]);
    });
}

#[test]
fn a_file_that_is_a_mount_is_written() {
    watched_as_root(Pool::Off, || {
        mount_own(4 << 20).unwrap();
        let host = directory().join("host.npy");
        let (place, path) = folder_with_a_file();
        save(&host, &array_of(20)).unwrap();
        mount(host.to_str().unwrap(), &path, "", libc::MS_BIND, "").unwrap();
        saves_in_place(&path);
        save(&path, &array_of(30)).unwrap();
        assert_eq!((count_in(&path), count_in(&host)), (30, 30));
        // Its own file system has no room, which is known before anything is written.
        let error = save_bytes(&path, &vec![1; 8 << 20]).unwrap_err().to_string();
        assert!(error.contains("a.npy") && error.contains("space"), "{error}");
        assert_eq!(count_in(&host), 30);
        save(&path, &array_of(300_000)).unwrap();
        assert_eq!(count_in(&host), 300_000);
        assert_eq!(others_in(place.path(), &["a.npy"]), [""; 0]);
    });
}

#[test]
fn a_file_that_may_be_written_in_a_folder_that_may_not() {
    watched_as_root(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        set_mode(place.path(), 0o755);
        set_mode(&path, 0o666);
        as_nobody(|| saves_in_place(&path));
        assert_eq!(owner_and_mode(&path), (0, 0, 0o666));
        // Where no temporary file can be had either, memory holds the file.
        as_nobody(|| {
            // SAFETY: changing the environment needs a process in which nothing reads it
            // meanwhile, and this child has one thread.
            unsafe { std::env::set_var("TMPDIR", place.path()) };
            saves_in_place(&path);
        });
        assert_eq!(others_in(place.path(), &["a.npy"]), [""; 0]);
    });
}

#[test]
fn a_file_of_another_user_stays_that_users() {
    watched_as_root(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        for (folder_mode, folder_owner) in [(0o1777, 0), (0o777, 0), (0o700, NOBODY)] {
            set_mode(place.path(), folder_mode);
            chown(place.path(), Some(folder_owner), None).unwrap();
            set_mode(&path, 0o666);
            as_nobody(|| saves_in_place(&path));
            set_mode(&path, 0o644);
            as_nobody(|| {
                for result in saves(&path, &array_of(9)) {
                    assert_eq!(result.unwrap_err().kind(), ErrorKind::PermissionDenied);
                }
            });
            assert_eq!((owner_and_mode(&path), count_in(&path)), ((0, 0, 0o644), 500));
            assert_eq!(others_in(place.path(), &["a.npy"]), [""; 0]);
        }
    });
}

#[test]
fn a_file_that_root_saves_stays_its_owners_and_readers_keep_the_older() {
    watched_as_root(Pool::Off, || {
        let (_place, path) = folder_with_a_file();
        chown(&path, Some(1234), Some(4321)).unwrap();
        set_mode(&path, 0o640);
        let older = Source::file(&path).unwrap();
        for result in saves(&path, &array_of(70)) {
            result.unwrap();
            assert_eq!(owner_and_mode(&path), (1234, 4321, 0o640));
        }
        assert_eq!(load_npy(older).unwrap().shape(), [40]);
    });
}

/// With `fs.protected_symlinks` the kernel refuses it; a save follows links itself.
#[test]
fn a_link_that_another_planted_is_followed_only_if_the_kernel_does() {
    watched_as_root(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        set_mode(place.path(), 0o1777);
        for leads_to in [&path, &place.path().join("none")] {
            let link = place.path().join("link");
            symlink(leads_to, &link).unwrap();
            lchown(&link, Some(NOBODY), None).unwrap();
            let opened = fs::File::options().append(true).create(true).open(&link).is_ok();
            for result in saves(&link, &array_of(9)) {
                assert_eq!(result.is_ok(), opened, "{result:?}");
            }
            assert_eq!(leads_to.exists(), opened || leads_to == &path);
            fs::remove_file(link).unwrap();
        }
    });
}

/// Sets an extended attribute.
fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let name = CString::new(name).unwrap();
    let start = value.as_ptr().cast();
    // SAFETY: the pointers are valid for the call: two C strings, and as many bytes as the length
    // says, which outlive it.
    let set = unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), start, value.len(), 0) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Returns an extended attribute, if the file has it.
fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let name = CString::new(name).unwrap();
    let mut value = vec![0u8; 1 << 16];
    let start = value.as_mut_ptr().cast();
    // SAFETY: the pointers are valid for the call: two C strings, and room for as many bytes as the
    // length says, which outlive it.
    let size = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), start, value.len()) };
    value.truncate(usize::try_from(size).ok()?);
    Some(value)
}

const ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Returns an access control list in which a user may read: the version, and each entry's tag,
/// rights and user.
fn acl(user: u32) -> Vec<u8> {
    const ANY: u32 = u32::MAX;
    let entries = [(1, 6, ANY), (2, 4, user), (4, 4, ANY), (16, 4, ANY), (32, 0, ANY)];
    let bytes = entries.into_iter().flat_map(|(tag, rights, user): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &user.to_le_bytes()].concat()
    });
    2u32.to_le_bytes().into_iter().chain(bytes).collect()
}

#[test]
fn attributes_and_access_control_lists_stay() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        // Longer together than what is read at first.
        let values = [("user.note", vec![7; 10]), ("user.long", vec![8; 1000])];
        values.iter().for_each(|(name, value)| set_attribute(&path, name, value));
        set_attribute(&path, ACL, &acl(1234));
        let before = inode(&path);
        for result in saves(&path, &array_of(70)) {
            result.unwrap();
            for (name, value) in &values {
                assert_eq!(attribute(&path, name).as_ref(), Some(value), "{name}");
            }
            assert_eq!(attribute(&path, ACL), Some(acl(1234)));
        }
        assert_ne!(inode(&path), before);
        // A folder's default list is for new files: it gives no rights to those who had none.
        set_attribute(place.path(), DEFAULT_ACL, &acl(4321));
        save(&path, &array_of(80)).unwrap();
        assert_eq!(attribute(&path, ACL), Some(acl(1234)));
        let plain = place.path().join("plain");
        let new = place.path().join("new");
        save(&new, &array_of(80)).unwrap();
        assert!(attribute(&new, ACL).is_some());
        let made_elsewhere = folder_with_a_file();
        fs::rename(&made_elsewhere.1, &plain).unwrap();
        set_mode(&plain, 0o640);
        save(&plain, &array_of(80)).unwrap();
        assert_eq!((attribute(&plain, ACL), owner_and_mode(&plain).2), (None, 0o640));
    });
}

/// A capability belongs to the contents: the kernel takes it from a file that is written.
#[test]
fn an_attribute_that_cannot_stay_has_the_file_written_in_place() {
    watched_as_root(Pool::Off, || {
        let (_place, path) = folder_with_a_file();
        let before = inode(&path);
        let capability = [2u32 << 24, 1, 0, 0, 0].map(u32::to_le_bytes).concat();
        set_attribute(&path, "security.capability", &capability);
        save(&path, &array_of(70)).unwrap();
        let has_capability = attribute(&path, "security.capability").is_some();
        assert_eq!((count_in(&path), inode(&path), has_capability), (70, before, false));
    });
}

/// The array is a mapping of the file, as of `numpy.memmap`, and the file becomes shorter.
#[test]
fn a_part_of_a_mapped_file_is_saved_in_place_of_the_file() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        fs::hard_link(&path, place.path().join("other")).unwrap();
        let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at / 7 % 251) as u8).collect();
        let dtype = DType::parse("|u1").unwrap();
        fs::write(&path, &bytes).unwrap();
        let map = Source::file(&path).unwrap().map().unwrap().unwrap();
        // The last quarter of the file, backwards.
        let layout = Layout { shape: vec![750_000], strides: vec![-1], offset: 2_999_999 };
        // SAFETY: the mapping has the bytes of the layout, and outlives the elements; the file is
        // not truncated before they are read, which is what the test is about.
        let elements = unsafe { Elements::memory(map.as_ptr(), dtype, layout) }.unwrap();
        save_elements(&path, &elements).unwrap();
        let saved = load_npy(Source::file(&path).unwrap()).unwrap().to_bytes().unwrap();
        assert!(saved.iter().eq(bytes[2_250_000..].iter().rev()));
    });
}

fn path_of(open: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", open.as_raw_fd()).into()
}

#[test]
fn a_pipe_by_the_path_of_an_open_file() {
    watched(Pool::Off, || {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("link.npy");
        for is_npz in [false, true] {
            let (mut reads, writes) = std::io::pipe().unwrap();
            let reader = thread::spawn(move || {
                let mut bytes = Vec::new();
                reads.read_to_end(&mut bytes).unwrap();
                bytes
            });
            let _ = fs::remove_file(&link);
            symlink(path_of(&writes), &link).unwrap();
            let array = array_of(300_000);
            if is_npz {
                let members = [("a.npy", Contents::Elements(Elements::of(&array).unwrap()))];
                save_npz(&link, &members, NpzOptions::default()).unwrap();
            } else {
                save(&link, &array).unwrap();
            }
            drop(writes);
            let bytes = reader.join().unwrap();
            let shape = if is_npz {
                super::load_npz(Source::bytes(&bytes)).unwrap()[0].shape().to_vec()
            } else {
                load_npy(Source::bytes(&bytes)).unwrap().shape().to_vec()
            };
            assert_eq!(shape, [300_000]);
        }
        assert_eq!(others_in(place.path(), &["link.npy"]), [""; 0]);
    });
}

/// Its name tells nothing: it may have been removed, or be another file's.
#[test]
fn an_open_file_by_its_path_is_written_in_place() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        let open = fs::File::options().read(true).open(&path).unwrap();
        saves_in_place(&path_of(&open));
        fs::remove_file(&path).unwrap();
        saves_in_place(&path_of(&open));
        assert_eq!(others_in(place.path(), &[]), [""; 0]);
    });
}
