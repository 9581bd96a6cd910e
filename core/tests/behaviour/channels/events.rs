//! The fd of a channel, and waiting for a channel that is not there yet.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use shmarray::{Channel, ChannelOptions, Delivered, Receives};

use super::{STREAMS, create, is_nothing_there, open, receive, receive_all, send};
use crate::support::{Peer, fork, scenario, serve};

/// Waits until an fd is readable. `-1` waits without a limit.
fn is_readable(fd: i32, milliseconds: i32) -> bool {
    let mut fds = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is valid for the call, because it points to one structure, as the count
    // says, which outlives it.
    let ready = unsafe { libc::poll(&raw mut fds, 1, milliseconds) };
    assert!(ready >= 0, "{}", std::io::Error::last_os_error());
    ready == 1
}

#[test]
fn the_fd_is_readable_while_there_are_messages() {
    scenario(|| {
        for mode in STREAMS {
            let sender = create(&ChannelOptions::new().mode(mode));
            let receiver = open();
            let fd = receiver.fd().unwrap();
            assert_eq!(receiver.fd().unwrap(), fd);
            assert!(!is_readable(fd, 0));
            for round in 0..50 {
                send(&sender, round);
                send(&sender, round + 1000);
                assert!(is_readable(fd, -1));
                assert_eq!(receive(&receiver), round);
                assert!(is_readable(fd, 0), "one is left");
                assert_eq!(receive(&receiver), round + 1000);
                assert!(!is_readable(fd, 0), "nothing is left");
                assert!(is_nothing_there(&receiver) && !is_readable(fd, 0));
            }
            assert!(!receiver.is_ready().unwrap());
            drop(sender);
            assert!(is_readable(fd, -1), "the stream has ended");
            assert!(receiver.is_ready().unwrap());
            assert!(matches!(receiver.receive(None).unwrap(), Delivered::Ended { .. }));
            assert!(is_readable(fd, 0));
        }
    });
}

#[test]
fn the_fd_is_readable_when_the_last_sender_died() {
    scenario(|| {
        let receiver = create(&ChannelOptions::new());
        let mut sender = Peer::start(super::deaths::peer);
        assert_eq!(sender.ask("1"), "did 1");
        assert!(is_readable(receiver.fd().unwrap(), -1));
        assert_eq!(receive(&receiver), 1);
        assert!(!is_readable(receiver.fd().unwrap(), 0));
        sender.kill();
        assert!(is_readable(receiver.fd().unwrap(), -1));
        assert_eq!(receive_all(&receiver), (vec![], true));
    });
}

/// The threads of fds take no message, so they take no other receiver's wake-up either.
#[test]
fn the_fds_of_others_keep_no_message_from_a_receiver() {
    scenario(|| {
        let sender = create(&ChannelOptions::new());
        let receiver = open();
        let idle: Vec<_> = (0..3).map(|_| open()).collect();
        idle.iter().for_each(|one| assert!(!is_readable(one.fd().unwrap(), 0)));
        std::thread::scope(|scope| {
            scope.spawn(|| (0..50).for_each(|value| _ = send(&sender, value)));
            (0..50).for_each(|value| assert_eq!(receive(&receiver), value));
        });
    });
}

#[test]
fn a_child_has_an_fd_of_its_own() {
    scenario(|| {
        let sender = create(&ChannelOptions::new());
        let receiver = open();
        let fd = receiver.fd().unwrap();
        let child = fork(|| {
            let own = receiver.fd().unwrap();
            assert_ne!(own, fd);
            send(&sender, 1);
            assert!(is_readable(own, -1));
            assert_eq!(receive(&receiver), 1);
        });
        child.ended();
        send(&sender, 2);
        assert!(is_readable(fd, -1));
        assert_eq!(receive(&receiver), 2);
    });
}

#[test]
fn the_fd_of_an_event_stays_open_after_the_channel_is_closed() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        let event = channel.event().unwrap();
        let fd = event.as_fd().as_raw_fd();
        assert_eq!((fd, fd), (event.as_raw_fd(), channel.event().unwrap().as_raw_fd()));
        assert!(!is_readable(fd, 0));
        drop(channel);
        assert!(is_readable(fd, 0), "a receive then says that the channel is closed");
        drop(event);
        let path = format!("/proc/self/fd/{fd}");
        assert!(!std::fs::exists(path).unwrap(), "the last one closed it");
    });
}

#[test]
fn the_threads_of_fds_end_with_their_channels() {
    scenario(|| {
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let sender = create(&ChannelOptions::new());
        let before = threads();
        for _ in 0..5 {
            let receiver = open();
            receiver.fd().unwrap();
            send(&sender, 1);
            drop(receiver);
            receive(&sender);
        }
        while threads() > before {
            std::thread::yield_now();
        }
    });
}

#[test]
#[ignore = "it is another process of the tests"]
fn peer() {
    let mut opened = None;
    serve(|line| match line {
        "wait" => {
            let channel = Channel::open_within("numbers", Receives::Now, None).unwrap().unwrap();
            send(&channel, 5);
            opened = Some(channel);
            "opened".to_owned()
        }
        other => panic!("{other}"),
    });
}

#[test]
fn one_waits_for_a_channel_until_there_is_one() {
    scenario(|| {
        let open_within =
            |timeout| Channel::open_within("numbers", Receives::Now, Some(timeout)).unwrap();
        assert!(open_within(Duration::ZERO).is_none());
        assert!(open_within(Duration::from_millis(20)).is_none());
        let mut peer = Peer::start(peer);
        peer.tell("wait");
        // Other names appear meanwhile.
        let dtype = super::int32;
        let other = |name| Channel::create(name, dtype(), &[2], &ChannelOptions::new()).unwrap();
        let _others = [other("other"), other("number")];
        let channel = create(&ChannelOptions::new());
        assert_eq!(receive(&channel), 5);
        assert_eq!(peer.hear(), "opened");
        peer.end();
        assert!(open_within(Duration::ZERO).is_some());
    });
}
