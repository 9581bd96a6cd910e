//! What killed savers, and others, leave under the names of files that are being saved.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use shmarray::npy::save;

use super::saves::{array_of, count_in, folder_with_a_file, others_in};
use crate::support::{directory, fork};
use crate::watched::{Pool, become_user, make_fifo, watched, watched_as_root};

/// The names that a folder has for them.
const NAMES: usize = 8;

fn hidden(place: &Path, number: usize) -> PathBuf {
    place.join(format!(".shmarray-{number}.tmp"))
}

/// Saves as often as a process needs to look at each name.
fn saves_until_all_are_seen(path: &Path) {
    (1..=NAMES).for_each(|count| save(path, &array_of(count)).unwrap());
    assert_eq!(count_in(path), NAMES as u64);
}

fn lock(file: &File) {
    // SAFETY: the call cannot touch memory, because it takes plain numbers.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
}

#[test]
fn leftovers_of_killed_savers_are_removed() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        for number in 0..NAMES {
            fs::write(hidden(place.path(), number), "left").unwrap();
        }
        save(place.path().join("b.npy"), &array_of(9)).unwrap();
        assert!(!hidden(place.path(), 0).exists());
        saves_until_all_are_seen(&path);
        assert_eq!(others_in(place.path(), &["a.npy", "b.npy"]), [""; 0]);
    });
}

#[test]
fn the_files_of_living_savers_stay() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        let living: Vec<_> =
            (0..NAMES).map(|number| File::create(hidden(place.path(), number)).unwrap()).collect();
        living.iter().for_each(lock);
        saves_until_all_are_seen(&path);
        assert_eq!(others_in(place.path(), &["a.npy"]).len(), NAMES);
        drop(living);
        saves_until_all_are_seen(&path);
        assert_eq!(others_in(place.path(), &["a.npy"]), [""; 0]);
    });
}

#[test]
fn what_is_no_file_is_neither_followed_nor_removed() {
    watched(Pool::Off, || {
        let (place, path) = folder_with_a_file();
        let victim = place.path().join("victim");
        fs::write(&victim, "victim").unwrap();
        symlink("victim", hidden(place.path(), 0)).unwrap();
        symlink("new", hidden(place.path(), 1)).unwrap();
        fs::create_dir(hidden(place.path(), 2)).unwrap();
        let fifo = hidden(place.path(), 3);
        make_fifo(&fifo);
        saves_until_all_are_seen(&path);
        assert_eq!(fs::read(&victim).unwrap(), b"victim");
        assert_eq!(others_in(place.path(), &["a.npy", "victim"]).len(), 4);
    });
}

#[test]
fn a_strangers_leftovers_cost_no_save() {
    watched_as_root(Pool::Off, || {
        let place = tempfile::tempdir().unwrap();
        let path = PathBuf::from("a.npy");
        let path = place.path().join(path);
        let sticky = 0o1777;
        for folder in [place.path(), &directory()] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(sticky);
            fs::set_permissions(folder, mode).unwrap();
        }
        for number in 0..NAMES {
            fs::write(hidden(place.path(), number), "root's").unwrap();
        }
        fork(|| {
            become_user(65_534);
            saves_until_all_are_seen(&path);
        })
        .ended();
        assert_eq!(others_in(place.path(), &["a.npy"]).len(), NAMES);
        for number in 0..NAMES {
            assert_eq!(fs::read(hidden(place.path(), number)).unwrap(), b"root's");
        }
    });
}
