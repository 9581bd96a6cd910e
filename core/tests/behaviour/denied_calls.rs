//! A system call that the kernel denies is named by the error, with the path that it was called on.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::time::Duration;

use shmarray::{
    Array, Channel, ChannelOptions, DType, Error, ErrorKind, Options, Pipe, QueueSlots, Receives,
};

use crate::denied::deny;
use crate::support::{directory, fork};
use crate::watched::{Pool, watched};

fn u1() -> DType {
    DType::parse("|u1").unwrap()
}

fn create(options: &Options) -> Result<Array, Error> {
    Array::create(u1(), &[100_000], options)
}

/// Checks the error of what fails after a call was denied.
#[track_caller]
fn is_named(failed: Result<(), Error>, call: &str, path: &str) {
    let error = failed.expect_err(call);
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let on_path = if path.is_empty() { String::new() } else { format!(" on {path}") };
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("{call} failed{on_path}: Operation not permitted")),
        "{text}"
    );
}

/// Denies a call in a process of its own, does something there, and checks the error. Nothing of
/// this library is locked or made before.
fn denied(
    (call, number, command): (&str, libc::c_long, Option<i32>),
    path: &str,
    prepare: impl FnOnce() -> Box<dyn FnOnce() -> Result<(), Error>>,
) {
    fork(|| {
        let fail = prepare();
        deny(number, command, libc::EPERM);
        is_named(fail(), call, path);
    })
    .ended();
}

#[test]
fn a_denied_call_of_a_queues_slots_is_named() {
    watched(Pool::Off, || {
        let calls = [
            ("memfd_create", libc::SYS_memfd_create, None),
            ("ftruncate", libc::SYS_ftruncate, None),
            ("fcntl(F_ADD_SEALS)", libc::SYS_fcntl, Some(libc::F_ADD_SEALS)),
        ];
        for call in calls {
            denied(call, "", || Box::new(|| QueueSlots::new(3).map(drop)));
        }
        denied(("fcntl(F_GET_SEALS)", libc::SYS_fcntl, Some(libc::F_GET_SEALS)), "", || {
            Box::new(|| QueueSlots::from_fd(Pipe::pair().unwrap().0.into()).map(drop))
        });
    });
}

#[test]
fn a_denied_call_of_a_pipe_is_named() {
    watched(Pool::Off, || {
        let pair = ("socketpair", libc::SYS_socketpair, None);
        denied(pair, "", || Box::new(|| Pipe::pair().map(drop)));
        denied(("sendmsg", libc::SYS_sendmsg, None), "", || {
            let (here, there) = Pipe::pair().unwrap();
            Box::new(move || here.send(b"x", &[], None).map(|_| drop(there)))
        });
        let receives = [
            ("recv", libc::SYS_recvfrom, None),
            ("fcntl(F_DUPFD_CLOEXEC)", libc::SYS_fcntl, Some(libc::F_DUPFD_CLOEXEC)),
            ("recvmsg", libc::SYS_recvmsg, None),
        ];
        for call in receives {
            denied(call, "", || {
                let (here, there) = Pipe::pair().unwrap();
                here.send(b"x", &[&create(&Options::default()).unwrap()], None).unwrap();
                Box::new(move || there.receive(None).map(|_| drop(here)))
            });
        }
        shmarray::sweep().unwrap();
    });
}

#[test]
fn a_denied_call_of_a_wait_for_a_channel_is_named() {
    watched(Pool::Off, || {
        let here = directory().display().to_string();
        let calls = [
            ("inotify_init1", libc::SYS_inotify_init1, &*here),
            ("inotify_add_watch", libc::SYS_inotify_add_watch, &*here),
            ("ppoll", libc::SYS_ppoll, ""),
        ];
        for (call, number, path) in calls {
            denied((call, number, None), path, || {
                let most = Some(Duration::from_secs(3600));
                Box::new(move || Channel::open_within("nobody", Receives::Now, most).map(drop))
            });
        }
        denied(("eventfd", libc::SYS_eventfd2, None), "", || {
            let channel = Channel::create("c", u1(), &[3], &ChannelOptions::new()).unwrap();
            Box::new(move || channel.fd().map(drop))
        });
    });
}

#[test]
fn a_denied_call_of_a_create_is_named() {
    watched(Pool::Off, || {
        let here = directory().display().to_string();
        let calls = [
            ("fallocate", libc::SYS_fallocate, None),
            ("fcntl(F_OFD_SETLK)", libc::SYS_fcntl, Some(libc::F_OFD_SETLK)),
            ("linkat", libc::SYS_linkat, None),
        ];
        for call in calls {
            denied(call, &format!("{here}/shmarray-ID"), || {
                Box::new(|| create(&Options::new().mode(0o644)).map(drop).map_err(without_id))
            });
        }
    });
}

/// Returns the error with a path that has no random part.
fn without_id(error: Error) -> Error {
    let Error::Os { call, path, source } = error else { return error };
    let start = path.parent().unwrap().join("shmarray-");
    let is_segment = path.to_str().unwrap().len() == start.to_str().unwrap().len() + 24;
    let path = if is_segment { start.with_file_name("shmarray-ID") } else { path };
    Error::Os { call, path, source }
}
