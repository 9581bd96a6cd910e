//! Other users, other pid namespaces, and a broken registry.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::fs;
use std::io::{Error as Os, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use shmarray::{Access, Array, Error, Options};

use crate::beside_strangers::locked_file;
use crate::support::{Peer, create, directory, fork, is_peer, scenario, segments_in, serve};
use crate::watched::{become_user, make_fifo, open_to_all};

/// Makes an array of ten bytes, the first of which is seven.
fn seven(options: &Options) -> Result<Array, Error> {
    let array = create(10, options)?;
    array.set(&[0], 7u8)?;
    Ok(array)
}

fn sevens() -> Array {
    seven(&Options::default()).unwrap()
}

fn named(name: &str) -> Options {
    Options::new().name(name)
}

fn for_all() -> Options {
    Options::new().mode(0o666)
}

fn first_of(array: &Array) -> String {
    format!("holds {}", array.get::<u8>(&[0]).unwrap())
}

fn swept() -> String {
    shmarray::sweep()
        .map_or_else(|error| error.to_string(), |swept| format!("swept {}", swept.segments))
}

/// Whether the array of a handle exists, with what was written.
fn is_there(handle: &str) -> bool {
    Array::attach(handle, Access::ReadOnly).is_ok_and(|array| first_of(&array) == "holds 7")
}

/// Returns the files in the directory except registries, sorted by name.
fn listed() -> Vec<String> {
    let mut files = segments_in(&directory());
    files.sort();
    files
}

/// Makes, attaches, reads, unlinks and sweeps as it is told, and holds the arrays.
fn obey(line: &str, held: &mut Vec<Array>) -> String {
    let (command, what) = line.split_once(' ').unwrap_or((line, ""));
    let got = match command {
        "make" => seven(&Options::default()),
        "make-for-all" => seven(&for_all()),
        "attach" => Array::attach(what, Access::ReadWrite),
        "read" => return held.iter().map(first_of).collect::<Vec<_>>().join(", "),
        "write" => {
            return held[0]
                .set(&[0], 7u8)
                .map_or_else(|error| error.to_string(), |()| "wrote".to_owned());
        }
        "unlink" => {
            return shmarray::unlink(what)
                .map_or_else(|error| refusal(&error), |()| "unlinked".to_owned());
        }
        "list" => return format!("{:?}", shmarray::segments().unwrap()),
        _ => return swept(),
    };
    let said = got
        .as_ref()
        .map(|array| if command == "attach" { first_of(array) } else { array.handle() });
    let said = said.unwrap_or_else(refusal);
    held.extend(got);
    said
}

fn refusal(error: &Error) -> String {
    format!("{:?}", error.kind())
}

/// A process of this user that does as it is told.
#[test]
#[ignore = "it is another process of the tests"]
fn servant() {
    let mut held = Vec::new();
    serve(|line| obey(line, &mut held));
}

/// The first process of a pid namespace of its own. It can fork the second.
#[test]
#[ignore = "it is another process of the tests"]
fn first() {
    if !is_peer() {
        return;
    }
    // SAFETY: the call cannot touch memory, because it takes a number; it concerns only the
    // processes that this one forks.
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
        return serve(|_| format!("unshare(CLONE_NEWPID): {}", Os::last_os_error()));
    }
    let first = fork(|| {
        let mut held = Vec::new();
        serve(|line| match line {
            // Its pid in the namespace, and its pid outside, where /proc was mounted.
            "pids" => {
                format!("{} {}", std::process::id(), fs::read_link("/proc/self").unwrap().display())
            }
            "fork" => second(),
            line => obey(line, &mut held),
        });
    });
    // SAFETY: the pid is of a child of this process, and a null status is not written to. However
    // it ended, the kernel has ended its namespace too.
    unsafe { libc::waitpid(first.id(), std::ptr::null_mut(), 0) };
}

/// Forks a process that makes an array and holds it until the namespace ends. Returns its pid and
/// the handle.
fn second() -> String {
    let (mut ours, mut its) = UnixStream::pair().unwrap();
    fork(|| {
        let made = sevens();
        writeln!(its, "{} {}", std::process::id(), made.handle()).unwrap();
        its.shutdown(std::net::Shutdown::Write).unwrap();
        loop {
            std::thread::park();
        }
    });
    let mut said = String::new();
    ours.read_to_string(&mut said).unwrap();
    said.trim_end().to_owned()
}

/// A namespace whose first two processes each made an array. The first holds the shared array, too.
struct Namespace {
    first: Peer,
    outer_pid: i32,
    made: [String; 2],
}

impl Namespace {
    fn start(shared: &str) -> Result<Self, String> {
        let mut first = Peer::start(first);
        let pids = first.ask("pids");
        let Some(outer_pid) = pids.strip_prefix("1 ") else {
            first.end();
            return Err(pids);
        };
        let outer_pid = outer_pid.parse().unwrap();
        assert_eq!(first.ask(&format!("attach {shared}")), "holds 7");
        let made = first.ask("make");
        let said = first.ask("fork");
        let (second, seconds) = said.split_once(' ').unwrap();
        assert_eq!(second, "2", "the same pids in each namespace");
        Ok(Self { first, outer_pid, made: [made, seconds.to_owned()] })
    }

    /// Kills the first process. The kernel kills the others.
    fn kill(mut self) {
        crate::support::kill(self.outer_pid);
        self.first.process.wait().unwrap();
    }
}

#[test]
fn two_pid_namespaces_over_one_directory_tell_processes_of_the_same_pid_apart() {
    scenario(|| {
        let array = sevens();
        let shared = array.handle();
        let (mut a, mut b) = match (Namespace::start(&shared), Namespace::start(&shared)) {
            (Ok(a), Ok(b)) => (a, b),
            (Err(reason), _) | (_, Err(reason)) => {
                return eprintln!("\nskipped two pid namespaces: {reason}");
            }
        };
        let given = a.first.ask("make");
        assert_eq!(b.first.ask(&format!("attach {given}")), "holds 7");
        drop(array);
        let all = [&a.made[..], &b.made[..], &[given.clone(), shared.clone()]].concat();
        for sweeper in [&mut a.first, &mut b.first] {
            assert_eq!(sweeper.ask("sweep"), "swept 0");
        }
        assert_eq!(swept(), "swept 0");
        assert!(all.iter().all(|handle| is_there(handle)), "{all:?}");

        let of_a = a.made.clone();
        a.kill();
        b.first.ask("sweep");
        assert!(
            !of_a.iter().any(|handle| is_there(handle)),
            "what only the killed namespace held is given back"
        );
        let of_b = [&b.made[..], &[given, shared]].concat();
        assert!(of_b.iter().all(|handle| is_there(handle)), "and nothing that the other one holds");
        assert_eq!(b.first.ask("read"), "holds 7, holds 7, holds 7");
        b.first.end();
        shmarray::sweep().unwrap();
        assert_eq!(listed(), Vec::<String>::new());
    });
}

const NOBODY: u32 = 65534;

/// A process of another user, from before its first use of the library.
#[test]
#[ignore = "it is another process of the tests"]
fn stranger() {
    if !is_peer() {
        return;
    }
    become_user(NOBODY);
    let mut held = Vec::new();
    serve(|line| obey(line, &mut held));
}

#[test]
fn another_user_gets_into_nothing_and_takes_nothing_away() {
    scenario(|| {
        open_to_all();
        let array = sevens();
        let camera = seven(&named("camera")).unwrap();
        let mut dead = Peer::start(servant);
        dead.ask("make");
        dead.kill();
        let before = listed();
        let mut stranger = Peer::start(stranger);
        for what in [&array.handle(), &camera.handle(), "camera"] {
            assert_eq!(stranger.ask(&format!("attach {what}")), "PermissionDenied", "{what}");
        }
        assert_eq!(stranger.ask("unlink camera"), "PermissionDenied");
        assert_eq!(stranger.ask("list"), "[]");
        assert_eq!(stranger.ask("sweep"), "swept 0", "also what a dead owner left is not its own");
        assert_eq!(listed(), before);
        assert_eq!(Array::attach("camera", Access::ReadOnly).unwrap().handle(), camera.handle());
        assert!(is_there(&array.handle()));
        stranger.end();
        assert_eq!(swept(), "swept 1", "what the dead left");
    });
}

#[test]
fn a_user_admitted_by_mode_holds_beyond_the_owner_until_it_dies() {
    scenario(|| {
        open_to_all();
        let array = seven(&named("camera").mode(0o666)).unwrap();
        let handle = array.handle();
        let mut stranger = Peer::start(stranger);
        assert_eq!(
            stranger.ask("attach camera"),
            "PermissionDenied",
            "a name finds only what is one's own"
        );
        assert_eq!(stranger.ask("unlink camera"), "PermissionDenied");
        assert_eq!(stranger.ask(&format!("attach {handle}")), "holds 7");
        array.set(&[0], 0u8).unwrap();
        assert_eq!(stranger.ask("write"), "wrote");
        assert_eq!(array.get::<u8>(&[0]).unwrap(), 7);
        assert_eq!(stranger.ask("sweep"), "swept 0", "its owner holds it");
        drop(array);
        assert_eq!(swept(), "swept 0", "the other holds it");
        assert!(is_there(&handle));
        assert_eq!(stranger.ask("read"), "holds 7");
        stranger.kill();
        assert_eq!(swept(), "swept 1");
    });
}

#[test]
fn an_array_that_a_dead_user_shared_with_all_stops_no_sweep_of_others() {
    scenario(|| {
        open_to_all();
        // The stranger's process is in the middle, in whichever order a directory lists its files.
        let mut dead = [Peer::start(servant), Peer::start(stranger), Peer::start(servant)];
        dead.iter_mut().for_each(|peer| drop(peer.ask("list")));
        let made = [("make-for-all", 0), ("make", 1), ("make-for-all", 2)]
            .map(|(make, index)| dead[index].ask(make));
        dead.into_iter().for_each(Peer::kill);
        let mut stranger = Peer::start(stranger);
        assert_eq!(
            stranger.ask("sweep"),
            "swept 1",
            "it cannot remove what is another's, and removes its own"
        );
        assert!(!file_of(&made[1]).exists());
        stranger.end();
        assert_eq!(swept(), "swept 2");
    });
}

fn file_of(handle: &str) -> PathBuf {
    let segment = shmarray::Descriptor::parse(handle).unwrap().segment;
    directory().join(format!("shmarray-{}", segment.id))
}

fn registry() -> PathBuf {
    let all = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    all.into_iter().find(|path| path.to_string_lossy().contains("shmarray-registry-")).unwrap()
}

/// The registry is broken while it is in use. Everything held stays, every operation works, and all
/// of it goes with its holders, although the registry stays as it is. Only a name may have to wait
/// until the registry is repaired; then the sweep reports it.
fn nothing_is_lost_and_nothing_is_left(break_it: impl FnOnce(&Path)) {
    let array = sevens();
    let camera = seven(&named("camera")).unwrap();
    let mut holder = Peer::start(servant);
    for array in [&array, &camera] {
        assert_eq!(holder.ask(&format!("attach {}", array.handle())), "holds 7");
    }
    break_it(&registry());

    let mut newcomer = Peer::start(servant);
    assert_eq!([newcomer.ask("sweep"), holder.ask("sweep"), swept()], ["swept 0"; 3]);
    for what in [&array.handle(), &camera.handle(), "camera"] {
        assert_eq!(newcomer.ask(&format!("attach {what}")), "holds 7", "{what}");
    }
    let made = [sevens(), seven(&named("lidar")).unwrap()];
    let theirs = [newcomer.ask("make"), holder.ask("make")];
    assert!(theirs.iter().all(|handle| is_there(handle)), "{theirs:?}");
    assert_eq!(newcomer.ask("attach lidar"), "holds 7");
    fork(|| assert!(is_there(&made[0].handle()) && is_there(&theirs[0]))).ended();
    let unnamed = [array.handle(), theirs[0].clone(), theirs[1].clone()];
    drop((array, camera));
    assert_eq!([newcomer.ask("sweep"), swept()], ["swept 0"; 2]);
    assert_eq!(holder.ask("read"), "holds 7, holds 7, holds 7");
    assert!(is_there("camera") && is_there(&theirs[0]) && is_there(&theirs[1]));

    drop(made);
    holder.kill();
    newcomer.kill();
    if let Err(error) = shmarray::sweep() {
        // A name is removed under a lock of the registry, so only this may have to wait.
        assert!(error.to_string().contains("shmarray-registry-"), "{error}");
        assert!(
            !unnamed.iter().any(|handle| file_of(handle).exists()),
            "{error} kept it from {:?}",
            listed()
        );
        let path = registry();
        fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
        shmarray::sweep().unwrap();
    }
    assert_eq!(listed(), Vec::<String>::new());
}

fn instead_of_the_registry(make: impl FnOnce(&Path)) {
    nothing_is_lost_and_nothing_is_left(|registry| {
        fs::remove_file(registry).unwrap();
        make(registry);
    });
}

/// A user who may lock bytes of the registry could make all its users wait for ever.
#[test]
fn a_registry_that_another_user_made_is_not_used() {
    scenario(|| {
        open_to_all();
        let prepared = directory().join(format!("shmarray-registry-{NOBODY}"));
        fs::write(&prepared, []).unwrap();
        fs::set_permissions(&prepared, fs::Permissions::from_mode(0o666)).unwrap();
        let mut stranger = Peer::start(stranger);
        let made = stranger.ask("make");
        let trap = locked_file(&prepared, 0o666); // the stranger locks nothing in a file of ours
        let mut another = Peer::start(self::stranger);
        assert_eq!(another.ask(&format!("attach {made}")), "holds 7");
        stranger.kill();
        assert_eq!(another.ask("sweep"), "swept 0", "another holds it");
        another.kill();
        assert_eq!(
            shmarray::sweep().unwrap().segments,
            0,
            "not even root maps what is not its own"
        );
        let mut third = Peer::start(self::stranger);
        assert_eq!(third.ask("sweep"), "swept 1");
        third.end();
        drop(trap);
    });
}

#[test]
fn a_registry_of_noise_loses_and_leaves_nothing() {
    scenario(|| {
        nothing_is_lost_and_nothing_is_left(|registry| {
            fs::write(registry, [0xa5; 10_000]).unwrap()
        });
    });
}

#[test]
fn a_registry_that_grew_and_was_truncated_loses_and_leaves_nothing() {
    scenario(|| {
        nothing_is_lost_and_nothing_is_left(|registry| {
            let file = fs::OpenOptions::new().write(true).open(registry).unwrap();
            [1 << 30, 1, 0].into_iter().for_each(|bytes| file.set_len(bytes).unwrap());
        });
    });
}

#[test]
fn a_registry_that_is_deleted_loses_and_leaves_nothing() {
    scenario(|| instead_of_the_registry(|_| {}));
}

#[test]
fn a_directory_instead_of_the_registry_loses_and_leaves_nothing() {
    scenario(|| instead_of_the_registry(|registry| fs::create_dir(registry).unwrap()));
}

#[test]
fn a_fifo_instead_of_the_registry_loses_and_leaves_nothing() {
    scenario(|| {
        instead_of_the_registry(|registry| {
            make_fifo(registry);
        });
    });
}

#[test]
fn a_link_instead_of_the_registry_is_not_followed_and_loses_and_leaves_nothing() {
    scenario(|| {
        let target = directory().join("target");
        instead_of_the_registry(|registry| symlink(&target, registry).unwrap());
        assert!(!target.exists());
    });
}

#[test]
fn another_users_file_instead_of_the_registry_loses_and_leaves_nothing() {
    scenario(|| {
        instead_of_the_registry(|registry| {
            fs::write(registry, []).unwrap();
            chown(registry, Some(NOBODY), None).unwrap(); // needs root
        });
    });
}
