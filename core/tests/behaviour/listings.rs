//! Operations that do not read the directory, however many files lie in it.
#![cfg(linux_backend)] // it needs inotify
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Error as Os, ErrorKind, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use shmarray::{Access, Array, Options, Pipe, SegmentKind, Sent};

use crate::exchange::receive;
use crate::support::{bytes, create, directory, fork, segments_in};
use crate::watched::{
    Pool, become_user, end_abruptly, open_to_all, wait_for, watched, watched_as_root,
};

/// The kernel's reports of what processes do with the directory and its files.
struct Reports(File);

impl Reports {
    /// Reports from now on that a process reads the directory's names, or opens a file in it.
    fn watch() -> Self {
        let path = CString::new(directory().as_os_str().as_bytes()).unwrap();
        // SAFETY: the call cannot touch memory, because it takes a plain number.
        let fd = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        assert!(fd >= 0, "inotify_init1: {}", Os::last_os_error());
        let kinds = libc::IN_ACCESS | libc::IN_OPEN;
        // SAFETY: the path is a C string that outlives the call, and the fd is open.
        let watch = unsafe { libc::inotify_add_watch(fd, path.as_ptr(), kinds) };
        assert!(watch >= 0, "inotify_add_watch: {}", Os::last_os_error());
        // SAFETY: the fd is open and nobody else's, because `inotify_init1` returned it just now.
        Self(unsafe { File::from_raw_fd(fd) })
    }

    /// Returns each report since the last call: its kind, and the name of the file, or none for the
    /// directory itself.
    fn all(&mut self) -> Vec<(u32, String)> {
        let mut all = Vec::new();
        loop {
            let mut events = [0; 4096];
            match self.0.read(&mut events) {
                Ok(count) => all.extend(reports_in(&events[..count])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return all,
                Err(error) => panic!("reading fd {}: {error}", self.0.as_raw_fd()),
            }
        }
    }

    /// Whether a process has read the names since the last call.
    fn show_a_reading(&mut self) -> bool {
        let is_reading = |kind: u32, name: &str| kind & libc::IN_ACCESS != 0 && name.is_empty();
        self.all().iter().any(|(kind, name)| is_reading(*kind, name))
    }

    /// Returns the files that processes have opened since the last call.
    fn opened(&mut self) -> Vec<String> {
        let opened = self.all().into_iter().filter(|(kind, _)| kind & libc::IN_OPEN != 0);
        opened.map(|(_, name)| name).filter(|name| !name.is_empty()).collect()
    }
}

/// Returns the events of a buffer (inotify(7)).
fn reports_in(mut events: &[u8]) -> Vec<(u32, String)> {
    let word = |at: &[u8]| u32::from_ne_bytes(at[..4].try_into().unwrap());
    let mut reports = Vec::new();
    while events.len() >= 16 {
        let (name, rest) = events[16..].split_at(word(&events[12..]) as usize);
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        reports.push((word(&events[4..]), String::from_utf8_lossy(name).into_owned()));
        events = rest;
    }
    reports
}

fn listed() -> Vec<(SegmentKind, u64)> {
    shmarray::segments().unwrap().iter().map(|info| (info.kind, info.tickets)).collect()
}

/// More messages than a lease table has entries.
const MESSAGES: u64 = 400;

/// Sends many messages that hold one array, which its maker drops.
fn messages_of(array: Array) -> Vec<String> {
    let sent: Vec<_> = (0..MESSAGES).map(|_| array.handle_to_send().unwrap()).collect();
    drop(array);
    sent
}

#[test]
fn each_of_many_messages_is_loaded_without_a_look_at_the_others() {
    watched(Pool::Off, || {
        for count in [10, 200_000] {
            let sent = messages_of(bytes(count));
            let mut reports = Reports::watch();
            listed();
            assert!(reports.show_a_reading(), "a list reads the names, and is seen to");
            let (last, others) = sent.split_last().unwrap();
            for message in others {
                assert_eq!(Array::attach(message, Access::ReadWrite).unwrap().shape(), [count]);
            }
            assert!(!reports.show_a_reading(), "{count} bytes: a load has read the directory");
            assert_eq!(listed(), expected(count, 1));
            shmarray::discard(last).unwrap();
            shmarray::sweep().unwrap();
            assert_eq!(segments_in(&directory()), Vec::<String>::new());
        }
    });
}

/// Returns what is listed of one array that only messages hold: in a slab of cells also the rest.
fn expected(count: u64, messages: u64) -> Vec<(SegmentKind, u64)> {
    let rest = (count == 10).then_some((SegmentKind::Pool, 0));
    [(SegmentKind::Array, messages)].into_iter().chain(rest).collect()
}

#[test]
fn every_message_that_holds_an_array_is_counted_until_none_is_left() {
    watched(Pool::Off, || {
        for count in [10, 200_000] {
            let mut sent = messages_of(bytes(count));
            while let Some(message) = sent.pop() {
                assert_eq!(listed(), expected(count, sent.len() as u64 + 1));
                shmarray::discard(&message).unwrap();
            }
            assert_eq!(listed(), []);
        }
    });
}

#[test]
fn messages_of_two_arrays_in_one_slab_are_counted_apart() {
    watched(Pool::Off, || {
        let one = bytes(10);
        let other = bytes(10);
        let of_one: Vec<_> = (0..50).map(|_| one.handle_to_send().unwrap()).collect();
        let of_other: Vec<_> = (0..60).map(|_| other.handle_to_send().unwrap()).collect();
        drop((one, other));
        let array = SegmentKind::Array;
        assert_eq!(listed(), [(array, 50), (array, 60), (SegmentKind::Pool, 0)]);
        of_one.iter().for_each(|message| shmarray::discard(message).unwrap());
        assert_eq!(listed()[1], (array, 60), "and those that are left hold");
        of_other.iter().for_each(|message| shmarray::discard(message).unwrap());
        assert_eq!(listed(), []);
    });
}

#[test]
fn messages_of_a_family_that_has_gone_count_for_nothing() {
    watched(Pool::Off, || {
        // The child is the first of its family: its parent has not used the library yet.
        let child = fork(|| {
            drop(messages_of(bytes(200_000)));
            end_abruptly(); // an ordinary exit would give them back
        });
        child.ended();
        assert_eq!(listed(), [(SegmentKind::Remains, 0)]);
        wait_for("a sweep");
        shmarray::sweep().unwrap();
        assert_eq!(segments_in(&directory()), Vec::<String>::new());
    });
}

const STRANGER: u32 = 65_534;

/// Returns an id that sorts after `count` others.
fn id(count: usize) -> String {
    const DIGITS: &[u8] = b"abcdefghijklmnopqrstuvwxyz234567";
    let digit = |place: u32| char::from(DIGITS[count / 32_usize.pow(place) % 32]);
    (0..4).map(digit).chain("aaaaaaaaaaaaaaaaaaaa".chars()).collect()
}

/// Has another user take the name of root's registry, and make files that could be registries,
/// segments, names and tickets. Returns their names.
fn fill() -> Vec<String> {
    open_to_all();
    let kinds = [
        |id: &str| format!("shmarray-registry-0-{id}"),
        |id: &str| format!("shmarray-{id}"),
        |id: &str| format!("shmarray-new-{id}"),
        |id: &str| format!("shmarray-name-{id}"),
        |id: &str| format!("shmarray-ticket-{id}-77-abcdef"),
    ];
    let each = |count: usize| kinds.iter().map(move |name| name(&id(count)));
    let names: Vec<_> = (0..40).flat_map(each).chain(["shmarray-registry-0".to_owned()]).collect();
    let made = names.clone();
    fork(move || {
        become_user(STRANGER);
        for name in made {
            fs::write(directory().join(&name), [7; 100]).unwrap();
            let for_all = fs::Permissions::from_mode(0o666);
            fs::set_permissions(directory().join(&name), for_all).unwrap();
        }
    })
    .ended();
    names
}

fn beside_a_stranger(body: impl FnOnce(&[String])) {
    watched_as_root(Pool::Bytes(1 << 26), || {
        let names = fill();
        body(&names);
        shmarray::sweep().unwrap();
        names.iter().for_each(|name| fs::remove_file(directory().join(name)).unwrap());
    });
}

/// Makes and drops arrays of each kind, and sends one to this process.
fn work(round: usize) {
    drop((bytes(10), bytes(200_000)));
    let named = Options::new().name(format!("work{round}"));
    drop(create(10, &named).unwrap());
    let (here, there) = Pipe::pair().unwrap();
    assert_eq!(here.send(b"", &[&bytes(100_000)], None).unwrap(), Sent::Sent);
    let message = receive(&there);
    assert_eq!(message.array(0, Access::ReadOnly).unwrap().shape(), [100_000]);
}

#[test]
fn a_process_whose_registrys_name_another_user_has_does_not_search_for_it_again() {
    beside_a_stranger(|_| {
        work(0);
        shmarray::sweep().unwrap(); // so that no sweep is due
        let mut reports = Reports::watch();
        (1..10).for_each(work);
        assert!(!reports.show_a_reading(), "an operation has read the directory");
        let (here, there) = Pipe::pair().unwrap();
        let (goes, waits) = Pipe::pair().unwrap();
        let child = fork(|| {
            (10..20).for_each(work);
            there.send(b"done", &[], None).unwrap();
            waits.receive(None).unwrap();
        });
        here.receive(None).unwrap();
        assert!(!reports.show_a_reading(), "an operation of a child has read the directory");
        goes.send(b"go", &[], None).unwrap();
        child.ended(); // its exit sweeps, since it has had pipes
    });
}

#[test]
fn processes_whose_registrys_name_another_user_has_agree_on_one() {
    beside_a_stranger(|names| {
        for _ in 0..3 {
            fork(|| work(0)).ended();
        }
        let is_registry = |name: &String| name.starts_with("shmarray-registry-");
        let all = fs::read_dir(directory()).unwrap();
        let all = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let own: Vec<_> = all.filter(|name| is_registry(name) && !names.contains(name)).collect();
        assert_eq!(own.len(), 1, "{own:?}");
    });
}

#[test]
fn a_first_use_and_a_sweep_open_no_file_of_another_user() {
    beside_a_stranger(|names| {
        let mut reports = Reports::watch();
        work(0);
        fork(|| work(1)).ended();
        shmarray::sweep().unwrap();
        let mut opened = reports.opened();
        assert!(!opened.is_empty(), "an open is reported");
        // This one is tried: it could be this user's.
        opened.retain(|file| names.contains(file) && file != "shmarray-registry-0");
        assert_eq!(opened, Vec::<String>::new());
    });
}
