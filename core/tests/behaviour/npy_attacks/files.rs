//! What is no file, or changes while it is read.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;

use shmarray::npy::{Batch, Npy, Npz, Source};
use shmarray::{Error, ErrorKind, Options};
use tempfile::TempDir;

use super::making::{Member, archive, npy_of_bytes};
use super::{load_npy, load_npz, refusal};
use crate::support::fork;
use crate::watched::{Gate, Pool, become_user, make_fifo, wait_for, watched, watched_as_root};

/// Too many bytes to be read at once, so that the file changes in between.
const MANY: usize = 1 << 20;

/// Returns a file, and the folder that goes with it.
fn file_of(bytes: &[u8]) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    fs::write(&path, bytes).unwrap();
    (place, path)
}

fn error_of(path: &Path) -> Error {
    Source::file(path).err().unwrap()
}

/// Checks that a path that is no regular file is refused at once.
fn no_file_is_refused(path: impl AsRef<Path>) {
    let path = path.as_ref();
    wait_for(path.display().to_string());
    let refusal = refusal(error_of(path));
    assert_eq!((refusal.file, refusal.field), (path.display().to_string(), "file"));
}

#[test]
fn a_file_or_a_folder_that_is_missing() {
    let place = tempfile::tempdir().unwrap();
    for path in [place.path().join("none.npy"), place.path().join("none/a.npy"), PathBuf::new()] {
        let error = error_of(&path);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    let link = place.path().join("link");
    symlink(place.path().join("none.npy"), &link).unwrap();
    assert_eq!(error_of(&link).kind(), ErrorKind::NotFound);
}

#[test]
fn links_that_lead_to_each_other() {
    let place = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| place.path().join(name));
    symlink(&one, &other).unwrap();
    symlink(&other, &one).unwrap();
    let error = error_of(&one);
    assert!(matches!(&error, Error::Os { path, .. } if *path == one), "{error}");
}

#[test]
fn a_directory_in_place_of_a_file() {
    watched(Pool::Off, || {
        let place = tempfile::tempdir().unwrap();
        no_file_is_refused(place.path());
        no_file_is_refused("/");
    });
}

#[test]
fn a_pipe_that_nobody_writes_to() {
    watched(Pool::Off, || {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pipe");
        make_fifo(&path);
        no_file_is_refused(&path);
        let link = place.path().join("link");
        symlink(&path, &link).unwrap();
        no_file_is_refused(&link);
        let error = Batch::open(2, |_| Source::file(&path)).err().unwrap();
        assert_eq!(refusal(error).field, "file");
    });
}

/// It is opened between the two looks at it.
#[test]
fn a_pipe_that_takes_the_place_of_a_file() {
    watched(Pool::Off, || {
        let (place, path) = file_of(&npy_of_bytes(10));
        let [pipe, file] = ["pipe", "kept"].map(|name| place.path().join(name));
        make_fifo(&pipe);
        fs::copy(&path, &file).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for other in [&pipe, &file] {
                        let _ = fs::remove_file(&path);
                        fs::hard_link(other, &path).unwrap();
                    }
                }
            });
            for round in 0..20_000 {
                wait_for(format!("round {round}"));
                drop(Source::file(&path));
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn a_device_or_a_socket_in_place_of_a_file() {
    watched(Pool::Off, || {
        for path in ["/dev/zero", "/dev/null", "/dev/full", "/proc/self/fd/0"] {
            no_file_is_refused(path);
        }
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let _socket = UnixListener::bind(&path).unwrap();
        no_file_is_refused(&path);
    });
}

#[test]
fn a_file_that_is_empty_or_has_no_size() {
    watched(Pool::Off, || {
        let (_place, path) = file_of(b"");
        for path in [&path, Path::new("/proc/self/status")] {
            let refused = refusal(load_npy(Source::file(path).unwrap()).unwrap_err());
            assert_eq!((refused.file, refused.field), (path.display().to_string(), "magic"));
            let refused = refusal(load_npz(Source::file(path).unwrap()).unwrap_err());
            assert_eq!(refused.field, "archive");
        }
    });
}

#[test]
fn a_file_that_this_user_may_not_read() {
    watched_as_root(Pool::Off, || {
        let (place, path) = file_of(&npy_of_bytes(10));
        fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        fork(|| {
            become_user(65_534);
            let error = error_of(&path);
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        })
        .ended();
    });
}

/// Checks that a file which is cut between its opening and its reading is refused by what `open`
/// returns.
fn cut_after_opening<T>(
    bytes: &[u8],
    open: impl Fn(Source<'static>) -> Result<T, Error>,
    load: impl Fn(&T) -> Result<(), Error>,
) {
    let (_place, path) = file_of(bytes);
    for length in [0, 1, 9, 100, bytes.len() as u64 / 2, bytes.len() as u64 - 1] {
        let opened = open(Source::file(&path).unwrap()).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length).unwrap();
        let refused = refusal(load(&opened).unwrap_err());
        assert_eq!(refused.file, path.display().to_string());
        assert!(refused.reason.contains("ends before"), "{}", refused.reason);
        assert!(shmarray::segments().unwrap().is_empty(), "arrays are left");
        file.write_all_at(bytes, 0).unwrap();
        load(&opened).unwrap();
    }
}

#[test]
fn a_file_that_is_cut_after_it_was_opened() {
    watched(Pool::Off, || {
        let load = |npy: &Npy<'_>| npy.load(&Options::new()).map(drop);
        cut_after_opening(&npy_of_bytes(5000), Npy::open, load);
        cut_after_opening(&npy_of_bytes(20 << 20), Npy::open, load); // by several threads
        let whole = npy_of_bytes(5000);
        for member in [Member::stored("a.npy", &whole), Member::deflated("a.npy", &whole)] {
            let load = |npz: &Npz<'_>| npz.load(0, &Options::new()).map(drop);
            cut_after_opening_archive(&archive(&[member]), load);
        }
    });
}

/// As for a file with one array. Where its member is in the directory's place, it is another fault.
fn cut_after_opening_archive(bytes: &[u8], load: impl Fn(&Npz<'_>) -> Result<(), Error>) {
    let (_place, path) = file_of(bytes);
    for length in [0, 1, 30, 100, bytes.len() as u64 / 2] {
        let npz = Npz::open(Source::file(&path).unwrap()).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length).unwrap();
        let refused = refusal(load(&npz).unwrap_err());
        assert_eq!(refused.file, path.display().to_string());
        file.write_all_at(bytes, 0).unwrap();
        load(&npz).unwrap();
    }
}

/// The exception that `FileMap` documents: not the library touches the lost pages.
#[test]
fn a_file_that_is_cut_while_it_is_mapped() {
    watched(Pool::Off, || {
        let (_place, path) = file_of(&npy_of_bytes(5000));
        let source = Source::file(&path).unwrap();
        let map = source.map().unwrap().unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        fork(|| {
            // SAFETY: the address is in the mapping. The signal is what this test is about.
            std::hint::black_box(unsafe { map.as_ptr().read_volatile() });
        })
        .ended_by(libc::SIGBUS);
        assert_eq!(refusal(load_npy(source).unwrap_err()).field, "data");
    });
}

/// Most of the mappings that a process may have are left to others.
#[test]
fn as_many_mappings_as_a_process_may_have() {
    watched(Pool::Off, || {
        let (_place, path) = file_of(&npy_of_bytes(10));
        let source = Source::file(&path).unwrap();
        let maps: Vec<_> = std::iter::from_fn(|| source.map().unwrap()).collect();
        let most = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
        assert_eq!(maps.len(), most.trim().parse::<usize>().unwrap() / 4);
        assert!(source.map().unwrap().is_none());
        drop(maps);
        assert!(source.map().unwrap().is_some());
        drop(load_npy(source).unwrap());
    });
}

/// Another process cuts the file and writes it again, all the time. A bus error would kill this
/// one.
fn loads_beside_cuts(bytes: &[u8], load: impl Fn(Source<'_>) -> bool) {
    let (_place, path) = file_of(bytes);
    let begun = Gate::new();
    let other = fork(|| {
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        for round in 0u64.. {
            file.set_len(round * 7919 % bytes.len() as u64).unwrap();
            if round == 0 {
                begun.open();
            }
            file.write_all_at(bytes, 0).unwrap();
            // Sometimes it stays whole for as long as it is loaded.
            (0..round % 5 * 400_000).for_each(|_| std::hint::spin_loop());
        }
    });
    begun.wait();
    let mut loaded = 0;
    let mut refused = 0;
    while loaded < 5 || refused < 5 {
        wait_for(format!("{loaded} were loaded and {refused} refused"));
        if load(Source::file(&path).unwrap()) { loaded += 1 } else { refused += 1 }
    }
    other.kill();
}

fn is_refusal(error: Error) -> bool {
    drop(refusal(error)); // every other error is a failure
    true
}

#[test]
fn a_file_that_is_cut_while_it_is_loaded() {
    watched(Pool::Off, || {
        let whole = npy_of_bytes(MANY);
        loads_beside_cuts(&whole, |source| match load_npy(source) {
            Ok(array) => array.shape() == [MANY as u64],
            Err(error) => !is_refusal(error),
        });
        let data = &whole[whole.len() - MANY..];
        for member in [Member::stored("a.npy", &whole), Member::deflated("a.npy", &whole)] {
            loads_beside_cuts(&archive(&[member]), |source| match load_npz(source) {
                Ok(arrays) => {
                    assert!(arrays[0].to_bytes().unwrap() == data, "the CRC was not compared");
                    true
                }
                Err(error) => !is_refusal(error),
            });
        }
    });
}

/// Loads from memory that another thread changes: it alternates between the file and its reverse.
fn loads_beside_changes(bytes: &[u8], load: impl Fn(Source<'_>)) {
    let memory: Vec<AtomicU8> = bytes.iter().map(|byte| AtomicU8::new(*byte)).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for from in
                    [&mut bytes.iter().rev() as &mut dyn Iterator<Item = &u8>, &mut bytes.iter()]
                {
                    memory
                        .iter()
                        .zip(from)
                        .for_each(|(to, byte)| to.store(*byte, Ordering::Relaxed));
                }
            }
        });
        for _ in 0..2000 {
            // SAFETY: the memory can be read by any thread, since the vector outlives the source;
            // others write it atomically.
            load(unsafe { Source::memory(memory.as_ptr().cast(), memory.len()) });
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(shmarray::segments().unwrap().is_empty(), "arrays are left");
}

#[test]
fn memory_that_another_thread_changes_while_it_is_loaded() {
    watched(Pool::Off, || {
        let whole = npy_of_bytes(500);
        wait_for("an NPY file");
        loads_beside_changes(&whole, |source| match load_npy(source) {
            Ok(array) => assert_eq!(array.shape(), [500]),
            Err(Error::InvalidDType { .. }) => {}
            Err(error) => drop(refusal(error)),
        });
        let data = &whole[whole.len() - 500..];
        for member in [Member::stored("a.npy", &whole), Member::deflated("a.npy", &whole)] {
            wait_for("an archive");
            loads_beside_changes(&archive(&[member]), |source| match load_npz(source) {
                Ok(arrays) if arrays.is_empty() => {}
                Ok(arrays) => assert_eq!(arrays[0].to_bytes().unwrap(), data),
                Err(error) => drop(refusal(error)),
            });
        }
    });
}
