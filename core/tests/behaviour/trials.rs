//! Directories on file systems that do not do what the library stands on: each use is an error that
//! says what to do, and nothing is made or given back there.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::fs;
use std::io::Error as Os;
use std::path::{Path, PathBuf};
use std::process::Command;

use shmarray::{
    Access, Array, Channel, ChannelOptions, DType, Error, ErrorKind, Options, Receives,
};

use crate::denied::deny;
use crate::support::{
    Peer, create, directory, fork, is_peer, segments_in, serve, this_test, use_directory,
};
use crate::watched::{Pool, become_user, mount, mount_own, watched, watched_as_root};

const MIB: u64 = 1 << 20;
const USER: u32 = 4321;

fn bytes(options: &Options) -> Result<Array, Error> {
    create(100, options)
}

fn f8() -> DType {
    DType::parse("<f8").unwrap()
}

/// Runs a scenario in a mount namespace of its own, in memory of its own.
fn in_own_mounts(body: impl FnOnce()) {
    watched_as_root(Pool::Off, || {
        mount_own(64 * MIB).unwrap();
        body();
    });
}

/// Makes a directory in the scenario's memory.
fn made(name: &str) -> PathBuf {
    let path = directory().join(name);
    fs::create_dir(&path).unwrap();
    path
}

/// Says why a file system cannot be tried here.
fn is_mounted_or_skips(kind: &str, mounted: Result<(), Os>) -> bool {
    let is_mounted = mounted.is_ok();
    if let Err(error) = mounted {
        eprintln!("\nskipped {}: {kind} cannot be mounted: {error}", this_test());
    }
    is_mounted
}

/// Mounts an overlay above two directories. Returns where it is, if the system permits it.
fn overlay(below: &Path, above: &Path) -> Option<PathBuf> {
    let place = made("merged");
    let work = above.with_extension("work");
    fs::create_dir_all(&work).unwrap();
    let below = below.display();
    let above = above.display();
    let work = work.display();
    let options = format!("lowerdir={below},upperdir={above},workdir={work}");
    let mounted = mount("none", &place, "overlay", 0, &options);
    is_mounted_or_skips("an overlay", mounted).then_some(place)
}

/// Checks that each use of the directory is this error, and leaves nothing there.
#[track_caller]
fn every_use_is_refused(handle: &str, kind: ErrorKind, words: &[&str]) {
    let before = files();
    let refused = [
        bytes(&Options::default()).map(drop),
        bytes(&Options::new().name("n").persist(true)).map(drop),
        Array::attach(handle, Access::ReadOnly).map(drop),
        Array::attach("n", Access::ReadWrite).map(drop),
        shmarray::discard(handle),
        shmarray::unlink("n"),
        shmarray::sweep().map(drop),
        Channel::create("c", f8(), &[3], &ChannelOptions::new()).map(drop),
        Channel::open("c", Receives::Now).map(drop),
        shmarray::try_directory().map(drop),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        let error = refused.expect_err("the directory does not serve");
        assert_eq!(error.kind(), kind, "use {at}: {error}");
        let text = error.to_string();
        words.iter().for_each(|word| assert!(text.contains(word), "use {at}: {text}"));
    }
    assert_eq!(files(), before);
}

fn files() -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_unstable();
    names
}

/// Returns the handle of an array that this process could attach, had the directory served.
fn handle_made_elsewhere() -> String {
    let array = bytes(&Options::default()).unwrap();
    array.handle_to_send().unwrap()
}

#[test]
fn an_overlay_is_refused_with_what_to_use_instead() {
    in_own_mounts(|| {
        let handle = handle_made_elsewhere();
        if let Some(place) = overlay(&made("below"), &made("above")) {
            let outer = directory();
            use_directory(&place);
            let words = ["merged cannot hold arrays", "overlay", "SHMARRAY_DIR", "--shm-size"];
            every_use_is_refused(&handle, ErrorKind::Os, &words);
            assert_eq!(files().len(), 0);
            use_directory(&outer);
            fs::remove_dir_all(directory().join("above")).unwrap();
        }
        shmarray::discard(&handle).unwrap();
    });
}

/// Holds an array until it is told to end.
#[test]
#[ignore = "it is another process of the tests"]
fn holder() {
    if !is_peer() {
        return;
    }
    let array = bytes(&Options::new().name("held")).unwrap();
    array.set(&[7], 7u8).unwrap();
    serve(|_| array.get::<u8>(&[7]).unwrap().to_string());
}

#[test]
fn a_sweep_through_an_overlay_removes_no_file_of_a_living_holder() {
    in_own_mounts(|| {
        let outer = directory();
        let below = made("below");
        let above = made("above");
        use_directory(&below);
        let mut peer = Peer::start(holder);
        assert_eq!(peer.ask("what does it read?"), "7");
        use_directory(&outer);
        if let Some(place) = overlay(&below, &above) {
            use_directory(&place);
            let before = files();
            assert!(before.len() > 2, "{before:?}");
            assert_eq!(shmarray::sweep().unwrap_err().kind(), ErrorKind::Os);
            let attached = Array::attach("held", Access::ReadWrite);
            assert_eq!(attached.unwrap_err().kind(), ErrorKind::Os);
            assert_eq!(files(), before);
        }
        use_directory(&below);
        assert_eq!(Array::attach("held", Access::ReadOnly).unwrap().get::<u8>(&[7]).unwrap(), 7);
        peer.end();
    });
}

#[test]
fn a_file_system_that_knows_files_by_their_paths_is_refused() {
    in_own_mounts(|| {
        let handle = handle_made_elsewhere();
        let source = made("source");
        let place = made("place");
        let mounted = Command::new("bindfs").arg(&source).arg(&place).status();
        let mounted = mounted.and_then(|status| {
            if status.success() { Ok(()) } else { Err(Os::other(format!("bindfs: {status}"))) }
        });
        if is_mounted_or_skips("bindfs", mounted) {
            let outer = directory();
            use_directory(&place);
            every_use_is_refused(&handle, ErrorKind::Os, &["leads to another file", "tmpfs"]);
            assert_eq!(files().len(), 0);
            use_directory(&outer);
            assert!(Command::new("umount").arg(&place).status().unwrap().success());
        }
        shmarray::discard(&handle).unwrap();
    });
}

/// An array of a killed process is given back, and one of a living process is not.
fn deaths_are_told_from_lives() {
    assert!(shmarray::try_directory().unwrap());
    let kept = bytes(&Options::default()).unwrap();
    let peer = Peer::start(holder);
    let mut peer = peer;
    assert_eq!(peer.ask("what does it read?"), "7");
    assert_eq!(shmarray::sweep().unwrap().segments, 0);
    peer.kill();
    assert_eq!(shmarray::sweep().unwrap().segments, 1);
    fork(|| kept.set(&[1], 1u8).unwrap()).ended();
    assert_eq!(kept.get::<u8>(&[1]).unwrap(), 1);
}

#[test]
fn file_systems_in_memory_and_bind_mounts_serve() {
    in_own_mounts(|| {
        let outer = directory();
        let source = made("source");
        let mounts = [("tmpfs", "tmpfs", 0), ("ramfs", "ramfs", 0), ("bind", "", libc::MS_BIND)];
        for (name, kind, flags) in mounts {
            let place = made(name);
            let what = source.display().to_string();
            if is_mounted_or_skips(name, mount(&what, &place, kind, flags, "")) {
                use_directory(&place);
                deaths_are_told_from_lives();
                shmarray::sweep().unwrap();
                assert_eq!(segments_in(&place), Vec::<String>::new(), "{name}");
                use_directory(&outer);
            }
        }
    });
}

#[test]
fn a_directory_in_which_nothing_can_be_made_is_not_tried() {
    in_own_mounts(|| {
        let outer = directory();
        let full = made("full");
        mount("none", &full, "tmpfs", 0, "nr_inodes=1").unwrap();
        use_directory(&full);
        assert!(!shmarray::try_directory().unwrap());
        assert_eq!(bytes(&Options::default()).unwrap_err().kind(), ErrorKind::NoSpace);
        mount("none", &full, "", libc::MS_REMOUNT, "nr_inodes=100").unwrap();
        assert!(shmarray::try_directory().unwrap());
        drop(bytes(&Options::default()).unwrap());
        fork(|| {
            become_user(USER);
            // SAFETY: the call cannot touch memory, because it takes a plain number, and it cannot
            // fail.
            unsafe { libc::umask(0o777) };
            use_directory(Path::new("/dev/shm"));
            assert!(shmarray::try_directory().unwrap());
        })
        .ended();
        use_directory(&outer);
    });
}

#[test]
fn a_process_that_may_not_ask_for_locks_is_told_so() {
    watched(Pool::Off, || {
        let handle = handle_made_elsewhere();
        let elsewhere = made("elsewhere");
        fork(|| {
            deny(libc::SYS_fcntl, Some(libc::F_OFD_GETLK), libc::EPERM);
            use_directory(&elsewhere);
            let words = ["fcntl(F_OFD_GETLK) failed on", "elsewhere", "seccomp"];
            every_use_is_refused(&handle, ErrorKind::PermissionDenied, &words);
        })
        .ended();
        shmarray::discard(&handle).unwrap();
        fs::remove_dir(&elsewhere).unwrap();
    });
}
