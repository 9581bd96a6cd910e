//! Files that a stranger puts into the directory, or that a stopped process has locked there, stop
//! and kill no process.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use shmarray::{Access, Array, Channel, Error, ErrorKind, Options, Pipe, Receives, Sent};

use crate::beside_strangers::{
    ALONE, DEEDS, ID, STRANGER, USER, beside, beside_a_stranger, locked_file, named, own_name,
    sweep,
};
use crate::exchange::receive;
use crate::support::{bytes, create, directory, fork, segments_in};
use crate::watched::{
    Deed, Gate, Pool, all_end, all_have_ended, become_user, end_abruptly, open_to_all, rest,
    wait_for, watched,
};

#[test]
fn a_strangers_locked_file_in_the_place_of_a_segment_stops_no_root() {
    beside_a_stranger(|| beside(0, &[&format!("locked 600 shmarray-{ID}")], DEEDS));
}

#[test]
fn a_strangers_locked_file_in_the_place_of_a_segment_stops_no_other_user() {
    beside_a_stranger(|| beside(USER, &[&format!("locked 666 shmarray-{ID}")], DEEDS));
}

#[test]
fn a_strangers_locked_file_in_the_place_of_a_segment_being_made_stops_nobody() {
    beside_a_stranger(|| {
        for (user, mode) in [(0, 600), (USER, 666)] {
            beside(user, &[&format!("locked {mode} shmarray-new-{ID}")], DEEDS);
        }
    });
}

#[test]
fn a_strangers_leased_file_in_the_place_of_a_segment_stops_nobody() {
    beside_a_stranger(|| {
        for (user, mode) in [(0, 600), (USER, 666)] {
            beside(user, &[&format!("leased {mode} shmarray-{ID}")], DEEDS);
        }
    });
}

#[test]
fn a_fifo_link_or_directory_in_place_of_a_segment_stops_nobody() {
    beside_a_stranger(|| {
        for what in ["fifo", "link", "directory"] {
            for user in [0, USER] {
                beside(user, &[&format!("{what} 666 shmarray-{ID}")], DEEDS);
            }
        }
    });
}

fn is_denied(error: Error) {
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

/// What is no file cannot be followed either.
const OPEN_CAMERA: &[Deed] = &[("open a channel by a stranger's name", || {
    is_denied(Channel::open("camera", Receives::Now).map(drop).unwrap_err())
})];

/// The name is the stranger's: no process gets an array by it, and each gets an error at once.
const DEEDS_WITH_CAMERA: &[Deed] = &[
    ("attach by a stranger's name", || {
        is_denied(Array::attach("camera", Access::ReadOnly).unwrap_err())
    }),
    ("take a stranger's name away", || is_denied(shmarray::unlink("camera").unwrap_err())),
    ("create an array by a stranger's name", || {
        assert_eq!(named("camera").unwrap_err().kind(), ErrorKind::Exists)
    }),
    ("create another named array", || drop(named("lidar").unwrap())),
    ("sweep", sweep),
    ("list", || drop(shmarray::segments().unwrap())),
];

#[test]
fn a_strangers_locked_file_in_the_place_of_a_name_stops_no_root() {
    beside_a_stranger(|| beside(0, &["locked 600 shmarray-name-camera"], DEEDS_WITH_CAMERA));
}

#[test]
fn a_strangers_locked_file_in_the_place_of_a_name_stops_no_other_user() {
    beside_a_stranger(|| beside(USER, &["locked 666 shmarray-name-camera"], DEEDS_WITH_CAMERA));
}

#[test]
fn a_fifo_link_or_directory_in_place_of_a_name_stops_nobody() {
    beside_a_stranger(|| {
        for what in ["fifo", "link", "directory"] {
            for user in [0, USER] {
                let trap = format!("{what} 666 shmarray-name-camera");
                beside(user, &[&trap], &[DEEDS_WITH_CAMERA, OPEN_CAMERA].concat());
            }
        }
    });
}

/// A process that is about to give a segment back has it locked, and is stopped then.
#[test]
fn an_empty_file_that_a_process_of_the_same_user_has_locked_stops_nobody() {
    watched(Pool::Bytes(1 << 26), || {
        let path = directory().join(format!("shmarray-{ID}"));
        let locked = locked_file(&path, 0o600);
        all_end("the same user", || {}, DEEDS);
        drop(locked);
        let _ = fs::remove_file(path); // a sweep may have removed it
    });
}

/// As before, with a segment that nobody holds, so that others would give it back as well.
#[test]
fn a_segment_that_a_process_of_the_same_user_has_locked_stops_nobody() {
    watched(Pool::Bytes(1 << 26), || {
        fork(|| {
            let left = (bytes(10), named("left").unwrap());
            std::mem::forget(left);
            end_abruptly()
        })
        .ended();
        let locked = all_segments_locked();
        all_end("the same user", || {}, DEEDS);
        drop(locked);
        shmarray::sweep().unwrap();
    });
}

/// Locks all segments, as a process does for a moment that checks whether it can give them back.
fn all_segments_locked() -> Vec<File> {
    let segments = segments_in(&directory());
    let files = segments.iter().filter(|name| !name.contains("-name-"));
    let locked: Vec<_> = files.map(|name| locked_file(&directory().join(name), 0o600)).collect();
    assert!(locked.len() >= 2, "{segments:?}");
    locked
}

/// A message alone holds its arrays, and a process is stopped while it checks whether anybody can
/// receive it.
#[test]
fn a_messages_array_that_a_process_of_the_same_user_has_locked_stops_no_receiver() {
    watched(Pool::Bytes(1 << 26), || {
        let (here, there) = Pipe::pair().unwrap();
        fork(|| {
            assert_eq!(there.send(b"", &[&bytes(10), &bytes(ALONE)], None).unwrap(), Sent::Sent)
        })
        .ended();
        let locked = all_segments_locked();
        let receiver = fork(|| {
            let message = receive(&here);
            // An error is fine, as long as it does not last.
            [0, 1].into_iter().for_each(|index| drop(message.array(index, Access::ReadOnly)));
        });
        wait_for("a receiver");
        all_have_ended("beside locked segments", vec![("receive and attach", receiver)]);
        drop(locked);
        shmarray::sweep().unwrap();
    });
}

/// Sweeps in a loop what nobody holds.
fn sweep_all_the_time() {
    // As a creator that died leaves it.
    fs::write(directory().join(format!("shmarray-new-{ID}")), [0; 5000]).unwrap();
    sweep();
}

/// Makes and removes the name that all processes use, in a loop.
fn take_a_name_away_all_the_time() {
    if let Ok(array) = named("common") {
        let _ = shmarray::unlink("common"); // another process may have been faster
        drop(array);
    }
}

const DEEDS_BESIDE_A_STOPPED_PROCESS: &[Deed] = &[
    ("create a small array", || drop(bytes(10))),
    ("create a large array", || drop(bytes(ALONE))),
    ("create a named array", || drop(named(&own_name()).unwrap())),
    ("create an array by a name that another may be taking away", || drop(named("common"))),
    ("take a name away that another may be taking away", || drop(shmarray::unlink("common"))),
    ("attach by a name that another may be taking away", || {
        drop(Array::attach("common", Access::ReadOnly))
    }),
    ("sweep", sweep),
    ("list", || drop(shmarray::segments().unwrap())),
];

const STOPS: usize = 200;

/// Returns a number that this process and its children share.
fn shared_number() -> &'static AtomicUsize {
    let (anywhere, kind) = (std::ptr::null_mut(), libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping replaces no memory in use, because the kernel chooses its address.
    let page =
        unsafe { libc::mmap(anywhere, 4096, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    // SAFETY: the reference is valid for ever, because the page is aligned, large enough, full of
    // zeros and never unmapped.
    unsafe { &*page.cast() }
}

/// Runs beside a process that is stopped at some instruction, as one in a debugger is.
fn beside_a_stopped_process(do_it: fn()) {
    let done = shared_number();
    let busy = fork(|| {
        loop {
            do_it();
            done.fetch_add(1, Ordering::Relaxed);
        }
    });
    for round in 0..STOPS {
        let before = done.load(Ordering::Relaxed);
        while done.load(Ordering::Relaxed) < before + 2 {
            std::hint::spin_loop();
        }
        (0..round * 100).for_each(|_| std::hint::spin_loop()); // not at the same moment each time
        signal(busy.id(), libc::SIGSTOP);
        all_end(
            &format!("beside a stopped process, round {round}"),
            || {},
            DEEDS_BESIDE_A_STOPPED_PROCESS,
        );
        signal(busy.id(), libc::SIGCONT);
    }
    busy.kill();
    wait_for("the last sweep");
    shmarray::sweep().unwrap();
}

#[test]
fn a_process_that_is_stopped_at_any_moment_of_a_sweep_stops_nobody() {
    watched(Pool::Bytes(1 << 26), || beside_a_stopped_process(sweep_all_the_time));
}

#[test]
fn a_process_that_is_stopped_at_any_moment_while_it_takes_a_name_away_stops_nobody() {
    watched(Pool::Bytes(1 << 26), || beside_a_stopped_process(take_a_name_away_all_the_time));
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: the signal reaches no other process, because the pid is of a process that the test
    // started and has not waited for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    if signal == libc::SIGSTOP {
        // SAFETY: the pid is of a child of this process, and a null status is not written to.
        let stopped = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WUNTRACED) };
        assert_eq!(stopped, pid);
    }
}

/// How often the file is cut while programs run.
const CUTS: usize = 30_000;

fn file_of(array: &Array) -> PathBuf {
    directory().join(format!("shmarray-{}", array.descriptor().segment.id))
}

/// Cuts its own segment short and restores it. Its process touches none of it meanwhile.
fn cut_and_restore(path: &Path) {
    let whole = fs::read(path).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    for round in 0..CUTS {
        file.set_len(0).unwrap();
        file.write_all_at(&whole, 0).unwrap();
        // Long enough for another process to examine it.
        (0..round % 100 * 10).for_each(|_| std::hint::spin_loop());
    }
}

/// Runs one process after the other until the stranger has cut often enough. Returns how many were
/// killed, and how many there were.
fn sweep_until_told(user: u32, told: &UnixStream) -> (usize, usize) {
    let mut killed = 0;
    let mut all = 0;
    told.set_nonblocking(true).unwrap();
    while (&*told).read(&mut [0]).is_err() {
        let program = fork(|| {
            become_user(user);
            for _ in 0..20 {
                shmarray::sweep().unwrap();
                shmarray::segments().unwrap();
                drop(bytes(10));
            }
        });
        match program.wait() {
            0 => {}
            status if status & 0x7f == libc::SIGBUS => killed += 1,
            status => panic!("a program ended with status {status:#x}"),
        }
        all += 1;
    }
    (killed, all)
}

fn programs_beside_a_cut_segment(make: fn() -> Array, user: u32) {
    open_to_all();
    let (cuts, ended) = UnixStream::pair().unwrap();
    let made = Gate::new();
    let stranger = fork(|| {
        become_user(STRANGER);
        let array = make();
        fs::set_permissions(file_of(&array), fs::Permissions::from_mode(0o666)).unwrap();
        made.open();
        cut_and_restore(&file_of(&array));
        (&ended).write_all(b".").unwrap();
        rest()
    });
    made.wait();
    wait_for("programs that sweep and list beside a stranger's file that is cut and restored");
    let (killed, all) = sweep_until_told(user, &cuts);
    stranger.kill();
    remove_the_strangers_files();
    assert_eq!(killed, 0, "of {all} programs so many were killed by a bus error");
}

fn remove_the_strangers_files() {
    for entry in fs::read_dir(directory()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

#[test]
fn a_strangers_segment_that_is_cut_short_kills_nobody() {
    beside_a_stranger(|| {
        let make = || create(10_000, &Options::new().mode(0o666)).unwrap();
        programs_beside_a_cut_segment(make, 0);
    });
}

#[test]
fn a_strangers_segment_of_cells_that_is_cut_short_kills_nobody() {
    beside_a_stranger(|| programs_beside_a_cut_segment(|| bytes(10_000), USER));
}
