//! What must not harm a file that is saved.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;

use shmarray::npy::{Contents, Elements, NpzOptions, Source, save, save_elements, save_npz};
use shmarray::{Array, DType, Error, ErrorKind, Layout, Order};
use tempfile::TempDir;

use super::making::npy_of_bytes;
use super::{load_npy, load_npz, refusal};
use crate::support::fork;
use crate::watched::{
    Pool, become_user, end_abruptly, make_fifo, mount_own, open_to_all, wait_for, watched,
    watched_as_root,
};

pub(crate) fn array_of(count: usize) -> Array {
    load_npy(Source::bytes(&npy_of_bytes(count))).unwrap()
}

/// Returns a folder with a file of 40 bytes' elements, and the file.
pub(crate) fn folder_with_a_file() -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.npy");
    save(&path, &array_of(40)).unwrap();
    (place, path)
}

pub(crate) fn count_in(path: &Path) -> u64 {
    load_npy(Source::file(path).unwrap()).unwrap().shape()[0]
}

/// Returns the names in a folder that are not among these.
pub(crate) fn others_in(place: &Path, names: &[&str]) -> Vec<String> {
    let all = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
    let all = all.map(|name| name.into_string().unwrap());
    all.filter(|name| !names.contains(&&**name)).collect()
}

fn npz_options(is_deflated: bool) -> NpzOptions {
    NpzOptions { is_deflated, threads: 2, align: 0 }
}

/// Saves as an NPY file, and as an NPZ file stored and deflated. Returns the results.
pub(crate) fn saves(path: &Path, array: &Array) -> Vec<Result<(), Error>> {
    saves_of(path, || Elements::of(array).unwrap())
}

pub(crate) fn saves_of<'a>(
    path: &Path,
    elements: impl Fn() -> Elements<'a>,
) -> Vec<Result<(), Error>> {
    let npz = [false, true].map(|is_deflated| {
        let members = [("a.npy", Contents::Elements(elements()))];
        save_npz(path, &members, npz_options(is_deflated))
    });
    [save_elements(path, &elements())].into_iter().chain(npz).collect()
}

#[test]
fn a_folder_that_is_missing_or_no_folder() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        for result in saves(&place.path().join("none/a.npy"), &array_of(9)) {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::NotFound);
        }
        for result in saves(&path.join("a.npy"), &array_of(9)) {
            let error = result.unwrap_err();
            assert!(error.to_string().contains("a.npy/a.npy"), "{error}");
        }
        assert_eq!(count_in(&path), 40);
        assert_eq!(others_in(place.path(), &["a.npy"]), [""; 0]);
    });
}

#[test]
fn a_directory_in_place_of_the_file() {
    watched(Pool::Off, || {
        let place = tempfile::tempdir().unwrap();
        for result in saves(place.path(), &array_of(9)) {
            assert_eq!(refusal(result.unwrap_err()).field, "file");
        }
        assert_eq!(others_in(place.path(), &[]), [""; 0]);
    });
}

#[test]
fn a_folder_that_this_user_may_not_write() {
    watched_as_root(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        open_to_all();
        fork(|| {
            become_user(65_534);
            for path in [&path, &place.path().join("b.npy")] {
                for result in saves(path, &array_of(9)) {
                    assert_eq!(result.unwrap_err().kind(), ErrorKind::PermissionDenied);
                }
            }
        })
        .ended();
        assert_eq!(count_in(&path), 40);
        assert_eq!(others_in(place.path(), &["a.npy"]), [""; 0]);
    });
}

#[test]
fn a_disk_that_is_full() {
    watched_as_root(Pool::Off, || {
        mount_own(3 << 20).unwrap();
        let place = crate::support::directory();
        let path = place.join("a.npy");
        save(&path, &array_of(40)).unwrap();
        let noise = |at: u32| (at.wrapping_mul(at) >> 9) as u8;
        let noise: Vec<u8> = (0..5_000_000).map(noise).collect();
        let layout = Layout::contiguous(&[noise.len() as u64], 1, Order::C).unwrap();
        let dtype = DType::parse("|u1").unwrap();
        let elements = || {
            // SAFETY: the vector has the elements of the layout, and outlives them.
            unsafe { Elements::memory(noise.as_ptr(), dtype.clone(), layout.clone()) }.unwrap()
        };
        for result in saves_of(&path, elements) {
            let error = result.unwrap_err();
            assert!(matches!(&error, Error::Os { path: told, .. } if *told == path), "{error}");
            assert!(error.to_string().contains("space"), "{error}");
        }
        assert_eq!(count_in(&path), 40);
        let left = others_in(&place, &["a.npy"]);
        assert!(left.iter().all(|name| name.starts_with("shmarray-registry-")), "{left:?}");
        fs::remove_file(path).unwrap();
        for result in saves(Path::new("/dev/full"), &array_of(9)) {
            assert!(result.unwrap_err().to_string().contains("/dev/full"));
        }
    });
}

#[test]
fn links_to_a_file_to_nothing_and_to_each_other() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        let [link, far, dangling, circle] =
            ["link", "far", "dangling", "circle"].map(|name| place.path().join(name));
        fs::create_dir(place.path().join("below")).unwrap();
        symlink("a.npy", &link).unwrap();
        symlink(&link, &far).unwrap();
        symlink("below/new.npy", &dangling).unwrap();
        symlink("circle", &circle).unwrap();
        save(&far, &array_of(50)).unwrap();
        save(&dangling, &array_of(60)).unwrap();
        assert_eq!((count_in(&path), count_in(&place.path().join("below/new.npy"))), (50, 60));
        for link in [&link, &far, &dangling, &circle] {
            assert!(link.symlink_metadata().unwrap().is_symlink(), "{}", link.display());
        }
        assert!(save(&circle, &array_of(9)).unwrap_err().to_string().contains("circle"));
        let names = ["a.npy", "link", "far", "dangling", "circle", "below"];
        assert_eq!(others_in(place.path(), &names), [""; 0]);
    });
}

#[test]
fn a_file_that_is_replaced_keeps_its_mode_and_readers_keep_the_old_one() {
    watched(Pool::Off, || {
        let (_place, path) = folder_with_a_file();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let older = Source::file(&path).unwrap();
        let map = older.map().unwrap().unwrap();
        save(&path, &array_of(70)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!((load_npy(older).unwrap().shape(), count_in(&path)), (&[40][..], 70));
        // SAFETY: the mapping has more bytes, which nobody changes.
        assert_eq!(unsafe { map.as_ptr().read() }, 0x93);
    });
}

#[test]
fn a_pipe_in_place_of_the_file_is_written() {
    watched(Pool::Off, || {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pipe");
        make_fifo(&path);
        let reader = thread::spawn({
            let path = path.clone();
            move || {
                let mut bytes = Vec::new();
                fs::File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
                bytes
            }
        });
        save(&path, &array_of(300_000)).unwrap();
        assert_eq!(load_npy(Source::bytes(&reader.join().unwrap())).unwrap().shape(), [300_000]);
        assert_eq!(others_in(place.path(), &["pipe"]), [""; 0]);
    });
}

/// A child saves one of two arrays after the other, and is killed at some moment.
#[test]
fn a_saver_that_is_killed_at_any_moment() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        let arrays = [1000, 400_000].map(array_of);
        let mut seen = [0; 3];
        for round in 0u32.. {
            match round {
                0..150 => wait_for(format!("round {round}")),
                _ if seen[1] > 0 && seen[2] > 0 => break,
                _ => {} // until it was killed behind each of its saves
            }
            let saver = fork(|| {
                for array in arrays.iter().cycle() {
                    save(&path, array).unwrap();
                }
            });
            (0..round * 7919 % 500_000).for_each(|_| std::hint::spin_loop());
            saver.kill();
            let count = count_in(&path);
            seen[[40, 1000, 400_000].iter().position(|known| *known == count).unwrap()] += 1;
            if let [left] = others_in(place.path(), &["a.npy"]).as_slice() {
                // Killed between its two names, it has left a complete file.
                assert_eq!(left, ".shmarray-0.tmp");
                count_in(&place.path().join(left));
                save(&path, &arrays[0]).unwrap();
            }
            assert_eq!(others_in(place.path(), &["a.npy"]), [""; 0]);
        }
    });
}

#[test]
fn two_savers_at_once() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        let savers = [1000, 400_000].map(|count| {
            let array = array_of(count);
            fork(|| {
                for _ in 0..200 {
                    save(&path, &array).unwrap();
                    assert!([1000, 400_000].contains(&count_in(&path)));
                }
                drop(array);
                end_abruptly();
            })
        });
        savers.into_iter().for_each(crate::support::Forked::ended);
        assert_eq!(others_in(place.path(), &["a.npy"]), [""; 0]);
    });
}

/// The CRC is that of the bytes that are written, whatever becomes of the array meanwhile.
#[test]
fn an_array_that_changes_while_it_is_saved() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        let memory: Vec<AtomicU8> = (0..3 << 20).map(|_| AtomicU8::new(0)).collect();
        let layout = Layout::contiguous(&[memory.len() as u64], 1, Order::C).unwrap();
        let is_over = AtomicBool::new(false);
        let save_it = |is_deflated| {
            let start = memory.as_ptr().cast();
            let dtype = DType::parse("|u1").unwrap();
            // SAFETY: the vector has the elements of the layout, and outlives them.
            let elements = unsafe { Elements::memory(start, dtype, layout.clone()) }.unwrap();
            save_npz(&path, &[("a.npy", Contents::Elements(elements))], npz_options(is_deflated))
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for value in (0..=255u8).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    memory.iter().for_each(|byte| byte.store(value, Ordering::Relaxed));
                }
            });
            let mut mixed = 0;
            while mixed < 5 {
                wait_for(format!("{mixed} have bytes from before and after"));
                for is_deflated in [false, true] {
                    save_it(is_deflated).unwrap();
                    let arrays = load_npz(Source::file(&path).unwrap()).unwrap();
                    let bytes = arrays[0].to_bytes().unwrap();
                    mixed += usize::from(bytes.iter().any(|byte| *byte != bytes[0]));
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(others_in(place.path(), &["a.npy"]), [""; 0]);
    });
}
