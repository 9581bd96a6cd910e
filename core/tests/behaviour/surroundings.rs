//! The surroundings that a program, its shell and its sandbox give the library: limits, timers,
//! directories and filters.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::fs;
use std::path::Path;

use shmarray::{Access, Array, DType, Error, ErrorKind, Layout, Options, Order, Pipe, Received};

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
use crate::denied::deny;
use crate::exchange::receive;
use crate::support::{Peer, bytes, directory, fork, is_peer, segments_in, serve, use_directory};
use crate::watched::{Pool, wait_for, watched};

const MIB: u64 = 1 << 20;

fn create(count: u64) -> Result<Array, Error> {
    Array::create(DType::parse("|u1").unwrap(), &[count], &Options::default())
}

fn named(name: &str) -> Result<Array, Error> {
    let options = Options::new().name(name);
    Array::create(DType::parse("|u1").unwrap(), &[100], &options)
}

/// Sets `ulimit -f`, in bytes. A process that goes beyond it is ended by a signal, unless that is
/// handled.
fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is valid for the call, because it points to a limit that outlives it and
    // is only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
}

/// Returns this process's action for SIGXFSZ.
fn action() -> libc::sighandler_t {
    // SAFETY: zeros are a valid value, because the structure of libc consists of plain numbers and
    // null pointers.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointers are valid for the call: null changes nothing, and the other points to
    // room for the answer.
    assert_eq!(unsafe { libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &mut action) }, 0);
    action.sa_sigaction
}

/// An array beyond the limit is an error that does not report full memory, since there is plenty.
/// The program's signal actions stay its own.
fn is_refused(what: &str, made: Result<Array, Error>) {
    let error = made.err().unwrap_or_else(|| panic!("{what} goes beyond the limit"));
    if let Error::NoSpace { asked_bytes, free_bytes, .. } = &error {
        panic!(
            "{what}: it is not memory that is short of {asked_bytes} bytes, \
             {free_bytes} are free: {error}"
        );
    }
    assert_eq!(action(), libc::SIG_DFL, "{what} changed what the program does at the signal");
}

/// Runs in a child, because the signal would end it.
fn beyond_the_limit(pool: Pool, deed: fn()) {
    watched(pool, || {
        fork(|| {
            limit_files(2 * MIB);
            deed();
            drop(bytes(MIB)); // a smaller array is still made
        })
        .ended();
        shmarray::sweep().unwrap();
    });
}

#[test]
fn an_array_beyond_the_file_size_limit_is_an_error_and_no_death() {
    beyond_the_limit(Pool::Off, || is_refused("a large array", create(4 * MIB)));
}

#[test]
fn an_array_of_the_pool_beyond_the_file_size_limit_is_an_error_and_no_death() {
    beyond_the_limit(Pool::Bytes(64 * MIB), || is_refused("a large array", create(4 * MIB)));
}

#[test]
fn a_copy_beyond_the_file_size_limit_is_an_error_and_no_death() {
    beyond_the_limit(Pool::Bytes(64 * MIB), || {
        let source = vec![1u8; 4 << 20];
        let layout = Layout::contiguous(&[4 * MIB], 1, Order::C).unwrap();
        let dtype = DType::parse("|u1").unwrap();
        // SAFETY: every element can be read, because the private source has all the elements that
        // the layout describes.
        let shared = unsafe { Array::share(source.as_ptr(), dtype, &layout, &Options::default()) };
        is_refused("a copy of a large array", shared);
    });
}

#[test]
fn a_long_payload_beyond_the_file_size_limit_is_an_error_and_no_death() {
    beyond_the_limit(Pool::Bytes(64 * MIB), || {
        let (here, there) = Pipe::pair().unwrap();
        here.send(&[1; 4 << 20], &[], None).unwrap_err();
        here.send(b"short", &[], None).unwrap();
        let message = receive(&there);
        assert_eq!(message.payload(), b"short");
    });
}

/// The limit came after the pool was warm, so decommitted memory is reserved again.
#[test]
fn a_warm_pool_beyond_the_file_size_limit_is_an_error_or_works_and_no_death() {
    watched(Pool::Bytes(64 * MIB), || {
        fork(|| {
            drop(bytes(8 * MIB));
            // The sweep takes the memory, and leaves the segment.
            fork(|| assert!(shmarray::sweep().unwrap().bytes >= 8 * MIB)).ended();
            limit_files(2 * MIB);
            let again = create(8 * MIB);
            drop(again.inspect(|array| array.set(&[8 * MIB - 1], 1u8).unwrap()));
        })
        .ended();
        shmarray::sweep().unwrap();
    });
}

extern "C" fn count_nothing(_: libc::c_int) {}

/// Sets a profiler's timer, which interrupts the system calls of this process so often; 0 ends it.
pub(crate) fn set_timer(microseconds: i64) {
    let handler = count_nothing as extern "C" fn(libc::c_int);
    // SAFETY: zeros are a valid value, because the structure of libc consists of plain numbers.
    // They leave SA_RESTART out.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: the handler stays valid, because it is a function of this program, and the structure
    // is only read.
    assert_eq!(unsafe { libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()) }, 0);
    let often = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let often = libc::itimerval { it_interval: often, it_value: often };
    // SAFETY: the pointer is valid for the call, because it points to one structure, which is only
    // read.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &often, std::ptr::null_mut()) }, 0);
}

#[test]
fn a_fast_timer_does_not_keep_a_large_array_from_being_made() {
    watched(Pool::Off, || {
        for microseconds in [5_000, 1_000, 200] {
            wait_for(format!("an array of 256 MiB beside a timer of {microseconds} µs"));
            // In a child this thread is the only one, so it gets the signals.
            fork(|| {
                set_timer(microseconds);
                let array = bytes(256 * MIB);
                set_timer(0);
                array.set(&[256 * MIB - 1], 1u8).unwrap();
            })
            .ended();
        }
    });
}

/// A process whose SHMARRAY_DIR is relative, and which changes its working directory.
#[test]
#[ignore = "it is another process of the tests"]
fn wanderer() {
    if !is_peer() {
        return;
    }
    let home = directory();
    std::env::set_current_dir(&home).unwrap();
    for path in ["here", "elsewhere", "elsewhere/here"] {
        fs::create_dir_all(home.join(path)).unwrap();
    }
    use_directory(Path::new("here"));
    serve(|_| {
        let wandered = wander();
        let left: Vec<_> = ["here", "elsewhere/here"]
            .iter()
            .flat_map(|path| segments_in(&home.join(path)))
            .collect();
        match wandered {
            // An error about the relative directory is as good.
            Err(error) if error.kind() == ErrorKind::InvalidArgument => "fine".to_owned(),
            Err(error) => error.to_string(),
            Ok(()) if left.is_empty() => "fine".to_owned(),
            Ok(()) => format!("{left:?} are left"),
        }
    });
    fs::remove_dir_all(home.join("here")).unwrap();
    fs::remove_dir_all(home.join("elsewhere")).unwrap();
}

/// Arrays from before go on working, in this process and in a child, and go with their last holder.
fn wander() -> Result<(), Error> {
    let arrays = [create(10)?, create(200_000)?, named("camera")?];
    std::env::set_current_dir("elsewhere").unwrap();
    for array in &arrays {
        array.set(&[7], 7u8)?;
        Array::attach(&array.handle(), Access::ReadOnly)?;
    }
    let (here, there) = Pipe::pair()?;
    here.send(&[1; 50_000], &[&arrays[0], &arrays[1], &create(10)?], None)?;
    drop(arrays);
    let Received::Message(message) = there.receive(None)? else { panic!("nothing came") };
    let received = message.array(1, Access::ReadOnly)?;
    drop(message);
    assert_eq!(received.get::<u8>(&[7])?, 7);
    drop((received, named("lidar")?));
    shmarray::sweep().map(drop)
}

#[test]
fn a_relative_directory_is_refused_or_stays_the_same_when_the_process_goes_elsewhere() {
    for pool in [Pool::Off, Pool::Bytes(64 * MIB)] {
        watched(pool, || {
            let mut wanderer = Peer::start(wanderer);
            assert_eq!(wanderer.ask("wander"), "fine", "{pool:?}");
            wanderer.end();
        });
    }
}

/// The kernel has no memory for a moment, or a sandbox refuses the call.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))] // musl makes another call
#[test]
fn a_named_array_that_ends_where_statx_fails_leaves_no_name() {
    watched(Pool::Off, || {
        fork(|| {
            let array = named("camera").unwrap();
            deny(libc::SYS_statx, None, libc::ENOMEM);
            assert!(fs::symlink_metadata(directory()).is_err(), "statx fails");
            drop(array);
            crate::watched::end_abruptly()
        })
        .ended();
        shmarray::sweep().unwrap();
        let left = segments_in(&directory());
        assert_eq!(left, [""; 0], "the name has no array any more");
        named("camera").unwrap();
    });
}
