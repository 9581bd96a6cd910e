//! A name whose channel comes and goes while others create it and open it.

use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use shmarray::{Channel, ChannelOptions, Error, Receives};

use super::{create, receive, send};
use crate::support::{Peer, scenario, serve};

const ROUNDS: usize = 500;

/// Creates the channel or opens it, and gives it back, again and again.
#[test]
#[ignore = "it is another process of the tests"]
fn peer() {
    serve(|line| {
        assert_eq!(line, "come and go");
        (0..ROUNDS).for_each(|_| drop(create(&ChannelOptions::new().exist_ok(true))));
        "came and went".to_owned()
    });
}

fn beside_peers(count: usize, body: impl Fn()) {
    let mut peers: Vec<Peer> = (0..count).map(|_| Peer::start(peer)).collect();
    peers.iter_mut().for_each(|peer| peer.tell("come and go"));
    body();
    peers.iter_mut().for_each(|peer| assert_eq!(peer.hear(), "came and went"));
    peers.into_iter().for_each(Peer::end);
}

#[test]
fn processes_that_create_or_open_a_channel_while_it_is_given_back_all_have_it() {
    scenario(|| {
        beside_peers(2, || {
            (0..ROUNDS).for_each(|_| drop(create(&ChannelOptions::new().exist_ok(true))));
        });
    });
}

#[test]
fn a_channel_that_is_being_given_back_is_a_name_that_nobody_has() {
    scenario(|| {
        beside_peers(1, || {
            for _ in 0..ROUNDS {
                match Channel::open("numbers", Receives::Now) {
                    Ok(_) | Err(Error::NameNotFound { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    });
}

#[test]
fn a_wait_for_a_name_outlasts_channels_that_are_being_given_back() {
    scenario(|| {
        beside_peers(1, || {
            for _ in 0..ROUNDS {
                let moment = Some(Duration::from_micros(200));
                Channel::open_within("numbers", Receives::Now, moment).unwrap();
            }
        });
    });
}

/// Takes all instances of inotify that this user may have. Returns them, or `None` if the user may
/// have more than 512, or the process too few fds.
fn take_all_inotify() -> Option<Vec<OwnedFd>> {
    let mut taken = Vec::new();
    while taken.len() < 512 {
        // SAFETY: the call cannot touch memory, because it takes a plain number.
        match unsafe { libc::inotify_init1(libc::IN_CLOEXEC) } {
            -1 => return std::fs::File::open("/").is_ok().then_some(taken),
            // SAFETY: the fd is new and open, so that nobody else owns it.
            fd => taken.push(unsafe { OwnedFd::from_raw_fd(fd) }),
        }
    }
    None
}

#[test]
fn one_waits_for_a_channel_where_the_user_has_no_inotify_left() {
    scenario(|| {
        let Some(_taken) = take_all_inotify() else {
            return println!("skipped: inotify cannot be used up here");
        };
        let open_within =
            |timeout| Channel::open_within("numbers", Receives::Now, timeout).unwrap();
        assert!(open_within(Some(Duration::from_millis(30))).is_none());
        let waits = std::thread::spawn(move || open_within(None).unwrap());
        let sender = create(&ChannelOptions::new());
        let receiver = waits.join().unwrap();
        send(&sender, 3);
        assert_eq!(receive(&receiver), 3);
    });
}
