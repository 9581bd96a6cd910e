//! Links that lead nowhere or elsewhere, messages of dead processes, and numbers beyond FORMAT's
//! limits.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::fs;
use std::path::PathBuf;

use shmarray::{Access, Array, Descriptor, Error, ErrorKind, Options, Pipe};

use crate::support::{Peer, bytes, create, directory, fork, segments_in, serve};
use crate::watched::{Pool, end_abruptly, used, wait_for, watched};

const POOL: Pool = Pool::Bytes(1 << 26);
const MIB: u64 = 1 << 20;
const ID: &str = "abcdefghijklmnopqrstuvwx";

fn named(name: &str, persist: bool) -> Result<Array, Error> {
    let options = Options::new().name(name).persist(persist);
    create(MIB, &options)
}

fn name_file(name: &str) -> PathBuf {
    directory().join(format!("shmarray-name-{name}"))
}

fn segment_file(array: &Array) -> PathBuf {
    directory().join(format!("shmarray-{}", array.descriptor().segment.id))
}

/// Makes a file of the user's that has nothing to do with the library, and a second link to it by a
/// name of the library's.
fn with_a_link_to_a_foreign_file(link: &str, use_it: impl FnOnce()) {
    let contents: Vec<u8> = (0..10_000u32).map(|n| (n * 7 % 251) as u8 + 1).collect();
    let file = directory().join("thesis");
    let link = directory().join(link);
    fs::write(&file, &contents).unwrap();
    fs::hard_link(&file, &link).unwrap();
    wait_for(format!("what is done beside {}", link.display()));
    use_it();
    assert!(
        fs::read(&file).unwrap() == contents,
        "{} has changed what it is a link to",
        link.display()
    );
    fs::remove_file(file).unwrap();
    let _ = fs::remove_file(link); // a sweep may have removed it, since it is no segment
}

#[test]
fn a_link_to_a_foreign_file_in_the_place_of_a_segment_changes_nothing_in_it() {
    watched(POOL, || {
        for link in [format!("shmarray-{ID}"), format!("shmarray-new-{ID}")] {
            with_a_link_to_a_foreign_file(&link, || {
                fork(|| drop(bytes(10))).ended();
                shmarray::sweep().unwrap();
                shmarray::segments().unwrap();
            });
        }
    });
}

#[test]
fn a_link_to_a_foreign_file_in_the_place_of_a_name_changes_nothing_in_it() {
    watched(POOL, || {
        with_a_link_to_a_foreign_file("shmarray-name-camera", || {
            assert!(Array::attach("camera", Access::ReadWrite).is_err());
            let _ = named("camera", false).map(drop); // an error, or an array under the name
            let _ = shmarray::unlink("camera"); // an error, or the name is removed
            shmarray::sweep().unwrap();
        });
    });
}

/// Makes an array with the name that it is told, and holds it.
#[test]
#[ignore = "it is another process of the tests"]
fn holder() {
    let mut held = Vec::new();
    serve(|name| {
        held.push(named(name, false).unwrap());
        segment_file(&held[held.len() - 1]).to_string_lossy().into_owned()
    });
}

/// A cleaner, or `rm` of what `ls` shows, has removed the id. The name has stayed.
fn after_its_id_was_removed(then: impl FnOnce(Peer)) {
    let mut holder = Peer::start(holder);
    fs::remove_file(holder.ask("camera")).unwrap();
    then(holder);
    wait_for("a sweep");
    shmarray::sweep().unwrap();
    let left = segments_in(&directory());
    let used = used();
    assert!(left.is_empty() && used < MIB, "{left:?} pins {used} bytes");
    let again = named("camera", false);
    assert!(again.is_ok(), "it cannot be given again: {}", again.err().unwrap());
}

#[test]
fn a_name_whose_segment_is_gone_is_free_when_its_holder_was_killed() {
    watched(POOL, || after_its_id_was_removed(Peer::kill));
}

#[test]
fn a_name_whose_segment_is_gone_is_free_when_its_holder_has_ended() {
    watched(POOL, || after_its_id_was_removed(Peer::end));
}

#[test]
fn a_name_that_persists_and_whose_segment_is_gone_is_free_when_it_is_unlinked() {
    watched(POOL, || {
        let array = named("camera", true).unwrap();
        fs::remove_file(segment_file(&array)).unwrap();
        shmarray::unlink("camera").unwrap();
        assert!(!name_file("camera").exists());
        named("camera", false).unwrap();
        drop(array);
    });
}

/// Returns the arrays that a message holds according to `segments`.
fn listed_with_tickets() -> Vec<String> {
    let listed = shmarray::segments().unwrap().into_iter();
    listed.filter(|info| info.tickets > 0).map(|info| info.segment.to_string()).collect()
}

/// The message was sent by a process that had both ends of its pipe, so nobody can receive it.
#[test]
fn a_message_of_a_dead_process_is_not_listed_as_if_it_were_under_way() {
    watched(POOL, || {
        let held = bytes(10); // this process has swept at its first use
        fork(|| {
            let (here, _there) = Pipe::pair().unwrap();
            here.send(b"", &[&held, &bytes(200_000), &bytes(100)], None).unwrap();
            end_abruptly()
        })
        .ended();
        assert_eq!(listed_with_tickets(), Vec::<String>::new(), "nobody can receive these");
        shmarray::sweep().unwrap();
    });
}

#[test]
fn a_handle_of_a_dead_family_is_not_listed_as_if_it_were_under_way() {
    watched(POOL, || {
        // The child gets a family of its own, since this process has not used the library yet.
        fork(|| {
            [bytes(10), bytes(200_000)]
                .iter()
                .for_each(|array| drop(array.handle_to_send().unwrap()));
            end_abruptly()
        })
        .ended();
        assert_eq!(listed_with_tickets(), Vec::<String>::new(), "all of their family are dead");
        shmarray::sweep().unwrap();
    });
}

/// FORMAT: "the hold of its message, below 2^53".
#[test]
fn a_ticket_of_two_to_the_53_is_refused_and_the_one_below_is_not() {
    watched(POOL, || {
        let array = bytes(10);
        let with = |ticket: u64| array.handle().replace("]}", &format!("],\"ticket\":{ticket}}}"));
        assert_eq!(Descriptor::parse(&with((1 << 53) - 1)).unwrap().ticket, Some((1 << 53) - 1));
        for ticket in [1 << 53, (1 << 53) + 1, u64::MAX] {
            let refused = Descriptor::parse(&with(ticket));
            let Err(error) = refused else { panic!("a ticket of {ticket} is accepted") };
            assert_eq!(error.kind(), ErrorKind::InvalidHandle);
            assert!(error.to_string().contains("ticket"), "{error}");
        }
    });
}
