//! Users: one that a daemon becomes, one without a number, one with a strange umask; and another
//! user's files beside dead processes.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use shmarray::{Access, Array, Options};

use crate::beside_strangers::{STRANGER, USER, use_of_another};
use crate::support::{bytes, create, directory, fork, segments_in, succeeds_elsewhere};
use crate::watched::{
    Pool, become_user, end_abruptly, open_to_all, wait_for, watched_in_own_memory,
};

const MIB: u64 = 1 << 20;

/// Waits so long that checks which are made now and then are made at the next use.
fn a_while() {
    let until = Instant::now() + Duration::from_millis(20);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Returns the number of processes on the process list of a user's registry.
fn on_the_process_list(user: u32) -> usize {
    let registry = fs::read(directory().join(format!("shmarray-registry-{user}"))).unwrap();
    registry.chunks(8).filter(|entry| entry.iter().any(|byte| *byte != 0)).count()
}

fn one_dies() {
    fork(|| {
        std::mem::forget(bytes(100));
        end_abruptly();
    })
    .ended();
}

/// Checks that dead processes leave the process list at the next create, whatever else is in the
/// directory.
fn the_dead_leave_the_process_list(user: u32) {
    become_user(user);
    let kept = bytes(10);
    one_dies();
    for _ in 0..10 {
        a_while();
        drop(bytes(10));
    }
    assert_eq!(on_the_process_list(user), 1, "this process alone");
    drop(kept);
}

#[test]
fn a_strangers_files_do_not_keep_the_dead_on_the_process_list() {
    watched_in_own_memory(64 * MIB, Pool::Off, || {
        open_to_all();
        use_of_another(
            || {
                become_user(STRANGER);
                let private = create(200_000, &Options::default());
                fs::create_dir(directory().join("shmarray-aaaaaaaaaaaaaaaaaaaaaaaa")).unwrap();
                symlink("/nowhere", directory().join("shmarray-bbbbbbbbbbbbbbbbbbbbbbbb")).unwrap();
                (private.unwrap(), "made".to_owned())
            },
            |_| {
                for user in [USER, 0] {
                    wait_for(format!("user {user}"));
                    fork(|| the_dead_leave_the_process_list(user)).ended();
                }
            },
        );
        fs::remove_dir(directory().join("shmarray-aaaaaaaaaaaaaaaaaaaaaaaa")).unwrap();
        fs::remove_file(directory().join("shmarray-bbbbbbbbbbbbbbbbbbbbbbbb")).unwrap();
    });
}

#[test]
fn a_user_without_a_number_leaves_strangers_files_alone() {
    watched_in_own_memory(64 * MIB, Pool::Off, || {
        open_to_all();
        fork(|| {
            become_user(STRANGER - 1);
            std::mem::forget(create(200_000, &Options::new().mode(0o666)));
            end_abruptly();
        })
        .ended();
        let all = || {
            segments_in(&directory())
                .iter()
                .map(|name| fs::read(directory().join(name)).unwrap())
                .collect::<Vec<_>>()
        };
        let before = all();
        assert_eq!(before.len(), 1);
        fork(|| {
            become_user(USER);
            // SAFETY: the call cannot touch memory, because it takes a number; it succeeds only in
            // a process with one thread, as this one.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWUSER) }, 0, "no user namespaces here");
            drop(bytes(100));
            shmarray::sweep().unwrap();
            drop(bytes(200_000));
        })
        .ended();
        assert!(all() == before, "a stranger's file was changed");
        fork(|| {
            become_user(STRANGER - 1);
            shmarray::sweep().unwrap();
        })
        .ended();
    });
}

#[test]
fn an_array_that_a_daemon_makes_as_another_user_is_found_by_that_user() {
    watched_in_own_memory(64 * MIB, Pool::Bytes(1 << 24), || {
        open_to_all();
        fork(|| {
            let as_root = [bytes(1000), bytes(1_000_000)];
            drop([bytes(1000), bytes(1_000_000)]);
            become_user(USER);
            a_while();
            for count in [1000, 1_000_000, 1000, 1_000_000] {
                let array = bytes(count);
                let handle = array.handle();
                fork(|| drop(Array::attach(&handle, Access::ReadWrite).unwrap())).ended();
                fork(|| {
                    // In a process that has nothing of its parent's.
                    assert!(
                        succeeds_elsewhere(attach_what_is_said, "SHMARRAY_SAID", &handle),
                        "{count} bytes"
                    );
                })
                .ended();
            }
            assert!(as_root.iter().all(|array| array.get::<u8>(&[0]).is_ok()));
        })
        .ended();
    });
}

#[test]
#[ignore = "another test starts it"]
fn attach_what_is_said() {
    let handle = std::env::var("SHMARRAY_SAID").expect("a handle");
    drop(Array::attach(&handle, Access::ReadWrite).unwrap());
}

#[test]
fn a_umask_does_not_close_a_users_own_files() {
    watched_in_own_memory(64 * MIB, Pool::Off, || {
        open_to_all();
        for mask in [0o777, 0o277] {
            fork(|| {
                become_user(USER);
                // SAFETY: the call cannot touch memory, because it takes a plain number, and it
                // cannot fail.
                unsafe { libc::umask(mask) };
                let array = bytes(200_000);
                let handle = array.handle_to_send().unwrap();
                drop(array);
                drop(Array::attach(&handle, Access::ReadWrite).unwrap());
                shmarray::discard(&handle).unwrap();
            })
            .ended();
            let registries = fs::read_dir(directory()).unwrap().filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .starts_with(&format!("shmarray-registry-{USER}"))
            });
            assert_eq!(registries.count(), 1, "umask {mask:o}");
        }
    });
}

#[test]
fn a_mount_for_readers_lets_readers_attach() {
    watched_in_own_memory(64 * MIB, Pool::Off, || {
        let with_mode = |mode| create(200_000, &Options::new().mode(mode)).unwrap();
        let arrays = [bytes(100), with_mode(0o600), with_mode(0o644)];
        let handles = arrays.each_ref().map(Array::handle);
        fork(|| {
            let place = CString::new(directory().as_os_str().as_bytes()).unwrap();
            let flags = libc::MS_REMOUNT | libc::MS_RDONLY | libc::MS_BIND;
            // SAFETY: the call cannot touch memory, because it takes a number; it concerns this
            // thread's namespace.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
            let none = c"none".as_ptr();
            // SAFETY: the pointers are valid for the call, because they point to C strings that
            // outlive it.
            let status =
                unsafe { libc::mount(none, place.as_ptr(), none, flags, std::ptr::null()) };
            assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
            let done = handles
                .each_ref()
                .map(|handle| succeeds_elsewhere(read_what_is_said, "SHMARRAY_SAID", handle));
            assert_eq!(
                done,
                [false, false, true],
                "what is private needs a lease, which must be written"
            );
        })
        .ended();
        drop(arrays);
    });
}

#[test]
#[ignore = "another test starts it"]
fn read_what_is_said() {
    let handle = std::env::var("SHMARRAY_SAID").expect("a handle");
    let attached = Array::attach(&handle, Access::ReadOnly);
    assert!(shmarray::segments().unwrap().len() > 2, "they are listed");
    match attached {
        Ok(array) => assert_eq!(array.get::<u8>(&[0]).unwrap(), 0),
        Err(error) => panic!(
            "{}",
            if error.to_string().contains("read-only") { "as it should" } else { "unclear" }
        ),
    }
}
