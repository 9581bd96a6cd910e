//! A pipe carries payloads of every size, arrays in every number and fds, and refuses the rest.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code, clippy::incompatible_msrv)] // tests run with today's Rust

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use shmarray::{Error, Pipe, Received, Sent};

use crate::exchange::{ALONE, is_empty, mark, marked, receive, send, take};
use crate::support::{bytes, scenario};

#[test]
fn payloads_of_every_size_arrive_whole() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let array = marked(3, 6);
        for size in [0, 1, 1000, 32_000, 33_000, 163_000, 164_000, 5_000_000] {
            let payload: Vec<u8> = (0..size).map(|n| (n * 7 % 251) as u8).collect();
            assert_eq!(here.send(&payload, &[&array], None).unwrap(), Sent::Sent);
            let message = receive(&there);
            assert!(message.payload() == payload, "{size}");
            assert_eq!(mark(&take(&message, 0)), 6);
        }
        drop(array);
        assert!(is_empty());
    });
}

#[test]
fn a_payload_in_pieces_arrives_as_one() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let array = marked(3, 6);
        for (pieces, bytes) in [(0, 0), (3, 5), (3, 40_000), (100, 50_000), (3000, 1)] {
            let payload: Vec<Vec<u8>> = (0..pieces).map(|n| vec![n as u8; bytes]).collect();
            let payload: Vec<&[u8]> = payload.iter().map(Vec::as_slice).collect();
            assert_eq!(here.send_vectored(&payload, &[&array], &[], None).unwrap(), Sent::Sent);
            let message = receive(&there);
            assert!(message.payload() == payload.concat(), "{pieces} of {bytes}");
            assert_eq!(mark(&take(&message, 0)), 6);
        }
        drop(array);
        assert!(is_empty());
    });
}

#[test]
fn a_message_larger_than_the_sockets_room_arrives_all_the_same() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let size: libc::c_int = 1; // the kernel raises it to its minimum, some 4 KiB
        let socket = here.as_fd().as_raw_fd();
        let bytes = size_of_val(&size) as libc::socklen_t;
        // SAFETY: the arguments are valid for the call: a socket that is open, and a pointer to a
        // number of the size that is passed.
        let set = unsafe {
            libc::setsockopt(
                socket,
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                (&raw const size).cast(),
                bytes,
            )
        };
        assert_eq!(set, 0);
        for size in [100, 10_000, 100_000] {
            let payload: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            assert_eq!(here.send(&payload, &[], None).unwrap(), Sent::Sent);
            assert!(receive(&there).payload() == payload, "{size}");
        }
        assert!(is_empty());
    });
}

#[test]
fn messages_of_all_sizes_arrive_whole_at_receivers_side_by_side() {
    scenario(|| {
        const MESSAGES: usize = 20_000;
        let (here, there) = Pipe::pair().unwrap();
        let array = marked(3, 6);
        let receive_all = || {
            let mut received = 0;
            while let Received::Message(message) = there.receive(None).unwrap() {
                let payload = message.payload();
                assert!(
                    payload.iter().all(|byte| *byte == payload.len() as u8),
                    "{}",
                    payload.len()
                );
                assert_eq!(message.descriptors().len(), payload.len() % 2);
                received += 1;
            }
            received
        };
        let received: usize = std::thread::scope(|scope| {
            let receivers: Vec<_> = (0..3).map(|_| scope.spawn(receive_all)).collect();
            for n in 0..MESSAGES {
                let size = n * 7919 % 3001;
                let arrays = [&array];
                let sent = here.send(&vec![size as u8; size], &arrays[..size % 2], None).unwrap();
                assert_eq!(sent, Sent::Sent);
            }
            drop(here);
            receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum()
        });
        assert_eq!(received, MESSAGES);
        drop(array);
        assert!(is_empty());
    });
}

#[test]
fn a_thousand_arrays_go_in_one_message() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let arrays: Vec<_> = (0..1000).map(|n| marked(8, n as u8)).collect();
        send(&here, &arrays.iter().collect::<Vec<_>>());
        drop(arrays);
        let message = receive(&there);
        assert!((0..1000).all(|n| mark(&take(&message, n)) == n as u8));
        drop(message);
        assert!(is_empty());
    });
}

#[test]
fn a_full_pipe_and_an_empty_one_say_so_in_time() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let soon = Some(Duration::from_millis(1));
        assert!(matches!(there.receive(soon).unwrap(), Received::TimedOut));
        let array = bytes(ALONE);
        let mut sent = 0;
        while here.send(b"", &[&array], soon).unwrap() == Sent::Sent {
            sent += 1;
        }
        assert!(sent > 50);
        drop(array);
        for _ in 0..sent {
            assert_eq!(take(&receive(&there), 0).shape(), [ALONE]);
        }
        assert!(matches!(there.receive(soon).unwrap(), Received::TimedOut));
        assert!(is_empty());
    });
}

#[test]
fn a_receiver_without_fds_is_told_and_the_message_stays() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        send(&here, &[&marked(ALONE, 5)]);
        let mut taken = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            taken.push(file);
        }
        let Err(Error::Os { source, .. }) = there.receive(None) else { panic!("it was received") };
        assert_eq!(source.raw_os_error(), Some(24), "EMFILE");
        drop(taken);
        assert_eq!(mark(&take(&receive(&there), 0)), 5);
    });
}

#[test]
fn a_packet_that_is_no_message_is_refused_with_a_reason() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Pipe::from_fd(one.into()).is_err());
        let write = |packet: &[u8]| {
            let mut end = std::fs::File::from(here.as_fd().try_clone_to_owned().unwrap());
            end.write_all(packet).unwrap();
        };
        let header = |version: u8, flags: u8, arrays: u8, handles: u8| {
            [&b"shmm"[..], &[version, 0, flags, 0, arrays, 0, 0, 0, handles, 0, 0, 0]].concat()
        };
        let packets = [
            b"x".to_vec(),
            b"shmm".to_vec(),
            header(9, 0, 0, 0),
            header(1, 0, 1, 0),
            header(1, 0, 0, 200),
            [header(1, 0, 1, 3), b"{}\n".to_vec()].concat(),
            [header(1, 1, 0, 0), b"nothing".to_vec()].concat(),
            [header(1, 0, 1, 2), vec![0xff, 0xfe]].concat(),
        ];
        for packet in packets {
            write(&packet);
            assert!(there.receive(None).is_err(), "{packet:?}");
        }
        send(&here, &[&marked(3, 3)]);
        assert_eq!(mark(&take(&receive(&there), 0)), 3);
    });
}

/// Sends a packet that says that the last of its fds is the file with its body.
fn send_with_file(socket: BorrowedFd<'_>, file: BorrowedFd<'_>) {
    let packet = [&b"shmm"[..], &[1, 0, 0, 1 << 7], &[0; 8]].concat();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [file];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let sent = sendmsg(socket, &[IoSlice::new(&packet)], &mut control, SendFlags::empty());
    assert_eq!(sent.unwrap(), packet.len());
}

#[test]
fn a_body_in_a_file_is_taken_if_its_sender_has_written_all_of_it() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let file = memfd_create("body", MemfdFlags::CLOEXEC).map(std::fs::File::from).unwrap();
        (&file).write_all(&[5; 100_000]).unwrap();
        send_with_file(here.as_fd(), file.as_fd());
        assert!(receive(&there).payload() == [5; 100_000]);

        file.set_len(1 << 30).unwrap(); // holes, which cost nothing
        send_with_file(here.as_fd(), file.as_fd());
        let refused = there.receive(None).unwrap_err().to_string();
        assert!(refused.contains("holes"), "{refused}");

        let (waits_for_ever, _other) = std::io::pipe().unwrap();
        for no_memory in [waits_for_ever.as_fd(), std::fs::File::open("/dev/zero").unwrap().as_fd()]
        {
            send_with_file(here.as_fd(), no_memory);
            assert!(there.receive(None).is_err());
        }
        send(&here, &[&marked(3, 3)]);
        assert_eq!(mark(&take(&receive(&there), 0)), 3);
    });
}

#[test]
fn an_empty_packet_is_no_end() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let send_nothing = || {
            assert_eq!(rustix::net::send(&here, &[], SendFlags::empty()).unwrap(), 0);
        };
        send_nothing();
        let refused = there.receive(None).unwrap_err().to_string();
        assert!(refused.contains("empty"), "{refused}");

        // The other end is closed, and more can be received.
        send_nothing();
        assert_eq!(here.send(b"last", &[], None).unwrap(), Sent::Sent);
        drop(here);
        assert!(there.receive(None).is_err());
        assert_eq!(receive(&there).payload(), b"last");
        assert!(matches!(there.receive(None).unwrap(), Received::Closed));
    });
}

#[test]
fn an_end_passes_to_another_program_by_its_fd() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let copy = there.as_fd().try_clone_to_owned().unwrap();
        drop(there);
        // SAFETY: the fd is owned once only, because the value that owned it is forgotten in this
        // test.
        let again = unsafe { OwnedFd::from_raw_fd(copy.as_raw_fd()) };
        std::mem::forget(copy);
        let there = Pipe::from_fd(again).unwrap();
        send(&there, &[&marked(9, 9)]);
        assert_eq!(mark(&take(&receive(&here), 0)), 9);
    });
}

#[test]
fn fds_travel_beside_arrays() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let (mut read, write) = std::io::pipe().unwrap();
        let array = marked(100_000, 7);
        here.send_with(b"both", &[&array], &[write.as_fd(), read.as_fd()], None).unwrap();
        here.send_with(b"one", &[], &[write.as_fd()], None).unwrap();
        let many = vec![write.as_fd(); 65];
        let refused = here.send_with(b"", &[], &many, None);
        assert!(
            matches!(refused, Err(Error::InvalidArgument { argument: "fds", .. })),
            "{refused:?}"
        );
        drop(many);
        drop((array, write));

        let mut both = receive(&there);
        let fds = both.take_fds();
        assert_eq!((fds.len(), both.payload(), mark(&take(&both, 0))), (2, &b"both"[..], 7));
        drop((fds, both));
        let mut one = receive(&there);
        let end = std::fs::File::from(one.take_fds().remove(0));
        (&end).write_all(b"!").unwrap();
        drop((end, one));
        let mut said = Vec::new();
        read.read_to_end(&mut said).unwrap();
        assert_eq!(said, b"!", "and no copy of the other end is left anywhere");
        assert!(is_empty());
    });
}
