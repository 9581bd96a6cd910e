//! Before a user's first use another user has taken the name of the user's registry: everything
//! works.
#![cfg(linux_backend)] // it needs the kernel

use std::fs;

use shmarray::{Access, Pipe};

use crate::beside_strangers::{ALONE, DEEDS, USER, beside_a_stranger, stranger};
use crate::exchange::receive;
use crate::support::{Peer, bytes, directory, fork, segments_in};
use crate::watched::{Deed, all_end, become_user, end_abruptly, open_to_all, wait_for};

/// Nobody will receive the message, because its sender had both ends.
fn dead_with_a_message_under_way() {
    fork(|| {
        let (_here, there) = Pipe::pair().unwrap();
        there.send(b"", &[&bytes(10), &bytes(ALONE)], None).unwrap();
        end_abruptly()
    })
    .ended();
}

/// Nobody will attach the handle, and all processes of its family are dead.
fn dead_with_a_message_out_of_band() {
    fork(|| {
        let arrays = [bytes(10), bytes(ALONE)];
        arrays.iter().for_each(|array| drop(array.handle_to_send().unwrap()));
        drop(arrays);
        end_abruptly()
    })
    .ended();
}

/// An array goes from one process to another, which then has the only hold.
fn received_from_an_ended_process() {
    let (here, there) = Pipe::pair().unwrap();
    fork(|| {
        let array = bytes(ALONE);
        array.set(&[7], 7u8).unwrap();
        there.send(&[5; 50_000], &[&array], None).unwrap();
    })
    .ended();
    let message = receive(&here);
    assert_eq!(message.payload(), [5; 50_000]);
    let array = message.array(0, Access::ReadOnly).unwrap();
    drop(message);
    assert_eq!(array.get::<u8>(&[7]).unwrap(), 7);
    shmarray::sweep().unwrap();
    assert_eq!(array.get::<u8>(&[7]).unwrap(), 7);
}

/// Arrays that a child inherited at a fork, and that it made. One child dies and one lives.
fn held_beyond_a_fork() {
    let array = bytes(10);
    fork(|| {
        let own = bytes(ALONE);
        array.set(&[7], 7u8).unwrap();
        std::mem::forget(own);
        end_abruptly()
    })
    .ended();
    shmarray::sweep().unwrap();
    assert_eq!(array.get::<u8>(&[7]).unwrap(), 7);
}

const DEATHS: &[Deed] = &[
    ("die with arrays", || {
        std::mem::forget([bytes(10), bytes(ALONE)]);
        end_abruptly()
    }),
    ("die with a message out of band", dead_with_a_message_out_of_band),
];

const DEEDS_WITHOUT_A_REGISTRY: &[Deed] = &[
    ("die with a message under way", dead_with_a_message_under_way),
    ("receive from a process that has ended", received_from_an_ended_process),
    ("hold what a fork handed on", held_beyond_a_fork),
];

/// Before a user's first use another user has taken the name that the user's registry has by
/// FORMAT.
fn beside_a_squatter(user: u32, what: &str, deeds: &[Deed]) {
    open_to_all();
    let mut squatter = Peer::start(stranger);
    wait_for("the squatter");
    assert_eq!(squatter.ask(&format!("{what} shmarray-registry-{user}")), "done");
    let who = format!("user {user} beside {what} in the place of its registry");
    all_end(&who, || become_user(user), deeds);
    fork(|| {
        become_user(user);
        shmarray::sweep().unwrap();
        assert_eq!(segments_in(&directory()), Vec::<String>::new(), "{who}: segments were left");
    })
    .ended();
    squatter.end();
    let path = directory().join(format!("shmarray-registry-{user}"));
    // Root may have removed it.
    let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
}

#[test]
fn whatever_a_squatter_puts_in_the_place_of_the_registry_takes_nothing_from_anybody() {
    beside_a_stranger(|| {
        let deeds = [DEEDS, DEEDS_WITHOUT_A_REGISTRY, DEATHS].concat();
        for (beside_root, beside_user) in [
            ("file 644", "file 644"),
            ("locked 600", "locked 666"),
            ("directory 755", "directory 755"),
            ("fifo 666", "fifo 666"),
            ("link 777", "link 777"),
        ] {
            beside_a_squatter(0, beside_root, &deeds);
            beside_a_squatter(USER, beside_user, &deeds);
        }
        let target = directory().join("nothing");
        assert!(fs::symlink_metadata(target).is_err(), "nobody follows the link");
    });
}

/// A message as `dumps` makes it for a socket of the user's. That the family has gone must be seen
/// without its registry.
#[test]
fn arrays_of_the_dead_beside_a_squatter_are_given_back() {
    beside_a_stranger(|| {
        for what in ["file 644", "directory 755", "fifo 666", "link 777"] {
            beside_a_squatter(USER, what, DEATHS);
        }
    });
}
