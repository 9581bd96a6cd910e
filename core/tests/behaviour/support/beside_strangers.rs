//! A stranger, its files in the directory, and what a user does with the library beside it.
#![allow(dead_code, unsafe_code, reason = "each test uses some of it")]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Error as Os, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;

use shmarray::{Access, Array, Error, Options, Pipe, Sent};

use crate::exchange::receive;
use crate::support::{Peer, bytes, create, directory, fork, is_peer, segments_in, serve};
use crate::watched::{
    Deed, Pool, all_end, become_user, make_fifo, open_to_all, wait_for, watched_as_root,
};

pub(crate) const STRANGER: u32 = 65_534;
pub(crate) const USER: u32 = 64_322;
/// Too large for a cell where the pool is off.
pub(crate) const ALONE: u64 = 200_000;

pub(crate) fn named(name: &str) -> Result<Array, Error> {
    create(100, &Options::new().name(name))
}

/// Returns a name of this process.
pub(crate) fn own_name() -> String {
    format!("own.{}", std::process::id())
}

/// Uses what another process makes and holds. The process says how to find it: by a handle or a
/// name.
pub(crate) fn use_of_another(make: impl FnOnce() -> (Array, String), use_it: impl FnOnce(&str)) {
    let (ours, its) = UnixStream::pair().unwrap();
    let maker = fork(|| {
        let (array, said) = make();
        writeln!(&its, "{said}").unwrap();
        let _ = (&its).read(&mut [0]); // until it was used
        drop(array);
    });
    drop(its);
    let mut said = String::new();
    BufReader::new(&ours).read_line(&mut said).unwrap();
    use_it(said.trim_end());
    ours.shutdown(Shutdown::Both).unwrap();
    maker.ended();
}

pub(crate) fn attach(handle_or_name: &str) {
    let again = Array::attach(handle_or_name, Access::ReadWrite).unwrap();
    again.set(&[7], 7u8).unwrap();
    assert_eq!(again.get::<u8>(&[7]).unwrap(), 7);
}

pub(crate) fn sweep() {
    shmarray::sweep().unwrap();
}

/// What a user does with the library. Each is a first use, and the exit of the process.
pub(crate) const DEEDS: &[Deed] = &[
    ("create a small array", || drop(bytes(10))),
    ("create a large array", || drop(bytes(ALONE))),
    ("create arrays until it sweeps", || (0..200).for_each(|_| drop(bytes(ALONE)))),
    ("create a named array", || drop(named(&own_name()).unwrap())),
    ("take a name away", || {
        let _array = named(&own_name()).unwrap();
        shmarray::unlink(&own_name()).unwrap();
    }),
    ("attach by handle", || {
        let make = || {
            let array = bytes(10);
            let said = array.handle();
            (array, said)
        };
        use_of_another(make, attach);
    }),
    ("attach by name", || use_of_another(|| (named(&own_name()).unwrap(), own_name()), attach)),
    ("sweep", sweep),
    ("list", || drop(shmarray::segments().unwrap())),
    ("send and receive", || {
        let (here, there) = Pipe::pair().unwrap();
        let array = bytes(ALONE);
        assert_eq!(here.send(&[5; 50_000], &[&array, &bytes(10)], None).unwrap(), Sent::Sent);
        let message = receive(&there);
        assert_eq!(message.array(1, Access::ReadOnly).unwrap().shape(), [10]);
    }),
    ("send out of band", || {
        let handle = bytes(10).handle_to_send().unwrap();
        shmarray::discard(&handle).unwrap();
    }),
];

/// Makes a file, locked from its first byte to the largest offset.
pub(crate) fn locked_file(path: &Path, mode: u32) -> File {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    file.set_permissions(fs::Permissions::from_mode(mode)).unwrap();
    // SAFETY: zeros are a valid value, because the structure of libc consists of plain numbers and
    // null pointers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    // SAFETY: the arguments are valid for the call: an fd that is open, and the `flock` that this
    // command takes.
    let locked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) };
    assert_eq!(locked, 0, "{}: {}", path.display(), Os::last_os_error());
    file
}

/// Makes a file that a process which opens it without O_NONBLOCK waits for, up to the system's
/// limit.
pub(crate) fn leased_file(path: &Path, mode: u32) -> File {
    let file = locked_file(path, mode);
    // SAFETY: the call cannot touch memory, because it takes plain numbers. The signal that reports
    // an open is ignored.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    // SAFETY: the call cannot touch memory, because it takes an fd that is open and plain numbers.
    let leased = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
    assert_eq!(leased, 0, "{}: {}", path.display(), Os::last_os_error());
    file
}

/// Puts what it is told into the directory, and keeps it locked until it ends.
#[test]
#[ignore = "it is another process of the tests"]
pub(crate) fn stranger() {
    if !is_peer() {
        return;
    }
    become_user(STRANGER);
    let mut kept = Vec::new();
    serve(|line| {
        let [what, mode, name] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let path = directory().join(name);
        let mode = u32::from_str_radix(mode, 8).unwrap();
        match what {
            "locked" => kept.push(locked_file(&path, mode)),
            "leased" => kept.push(leased_file(&path, mode)),
            "file" => fs::write(&path, "").unwrap(),
            "directory" => fs::create_dir(&path).unwrap(),
            "fifo" => make_fifo(&path),
            "link" => symlink(directory().join("nothing"), &path).unwrap(),
            _ => panic!("{line}"),
        }
        "done".to_owned()
    });
}

pub(crate) const ID: &str = "abcdefghijklmnopqrstuvwx";

/// Does all of a user's deeds beside what a stranger has put there.
pub(crate) fn beside(user: u32, traps: &[&str], deeds: &[Deed]) {
    open_to_all();
    let mut stranger = Peer::start(stranger);
    for trap in traps {
        wait_for(format!("the stranger's {trap}"));
        assert_eq!(stranger.ask(trap), "done");
    }
    all_end(&format!("user {user} beside {}", traps.join(" and ")), || become_user(user), deeds);
    stranger.end();
    for trap in traps {
        let path = directory().join(trap.rsplit(' ').next().unwrap());
        let removed = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        assert!(user == 0 || removed.is_ok(), "{trap} is the stranger's to take away"); // or root's
    }
    assert_eq!(segments_in(&directory()), Vec::<String>::new());
}

pub(crate) fn beside_a_stranger(body: impl FnOnce()) {
    watched_as_root(Pool::Bytes(1 << 26), body);
}
