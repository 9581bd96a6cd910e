//! Leases over the Linux backend: what is held when processes die, fork and exit.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use shmarray::{Access, Array, Error, Options, Pipe, Sent};

use crate::exchange::receive;
use crate::support::{
    Peer, bytes, create, directory, fork, kill, resting_after, scenario, segments_in, serve,
};
use crate::watched::rest;

fn registry() -> std::path::PathBuf {
    let all = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    all.into_iter().find(|path| path.to_string_lossy().contains("shmarray-registry-")).unwrap()
}

/// Attaches what it is told, and exits while it holds all of it.
#[test]
#[ignore = "it is another process of the tests"]
fn holder() {
    serve(|line| match line.split_once(' ') {
        Some(("attach", handle)) => match Array::attach(handle, Access::ReadOnly) {
            Ok(array) => {
                let first = array.get::<u8>(&[0]).unwrap();
                std::mem::forget(array);
                format!("holds {first}")
            }
            Err(error) => error.to_string(),
        },
        Some(("fork", _)) => {
            // The child lives on without what its parent makes afterwards.
            let pid = fork(|| rest());
            let made = bytes(1000);
            let says = format!("{} {}", pid.id(), made.handle());
            std::mem::forget(made);
            says
        }
        _ => format!("swept {}", shmarray::sweep().unwrap().segments),
    });
}

fn holder_of(array: &Array) -> Peer {
    let mut peer = Peer::start(holder);
    assert!(peer.ask(&format!("attach {}", array.handle())).starts_with("holds"));
    peer
}

#[test]
fn an_ordinary_end_gives_back_what_was_still_held() {
    scenario(|| {
        let array = bytes(10);
        let peer = holder_of(&array);
        drop(array);
        assert_eq!(segments_in(&directory()).len(), 1, "the peer holds it");
        peer.end();
        assert!(segments_in(&directory()).is_empty(), "and no sweep was needed");
    });
}

#[test]
fn an_ordinary_end_gives_back_what_others_died_with() {
    scenario(|| {
        let array = bytes(10);
        let peer = holder_of(&array); // has swept, and found nothing
        let dead = fork(|| {
            std::mem::forget((bytes(10), bytes(100_000)));
            kill(std::process::id() as i32);
        });
        dead.killed();
        assert_eq!(segments_in(&directory()).len(), 3, "nobody has looked at what it left");
        peer.end();
        assert_eq!(segments_in(&directory()).len(), 1, "array is held");
    });
}

#[test]
fn a_survivors_close_gives_back_what_the_dead_held() {
    scenario(|| {
        let array = bytes(10);
        holder_of(&array).kill();
        drop(array);
        assert!(segments_in(&directory()).is_empty());
    });
}

#[test]
fn an_attach_after_the_last_close_is_refused_though_somebody_maps_it() {
    scenario(|| {
        let array = bytes(10);
        let handle = array.handle();
        drop(array);
        assert!(matches!(
            Array::attach(&handle, Access::ReadOnly),
            Err(Error::SegmentNotFound { .. })
        ));
    });
}

#[test]
fn a_child_holds_from_its_first_instruction_on() {
    scenario(|| {
        let array = bytes(10);
        let handle = array.handle();
        let (mut read, mut write) = std::io::pipe().unwrap();
        let child = fork(|| {
            read.read_exact(&mut [0]).unwrap(); // the parent has dropped it
            assert_eq!(shmarray::segments().unwrap()[0].holders, [std::process::id()]);
            assert_eq!(array.get::<u8>(&[2]).unwrap(), 7);
            Array::attach(&handle, Access::ReadWrite).unwrap().set(&[3], 3u8).unwrap();
        });
        array.set(&[2], 7u8).unwrap();
        drop(array);
        assert_eq!(holder_reports_swept(), 0, "the child holds it");
        write.write_all(&[1]).unwrap();
        child.ended();
        assert!(segments_in(&directory()).is_empty());
    });
}

fn holder_reports_swept() -> u64 {
    let mut peer = Peer::start(holder);
    let swept = peer.ask("sweep");
    peer.end();
    swept.strip_prefix("swept ").unwrap().parse().unwrap()
}

#[test]
fn a_killed_child_takes_nothing_from_its_parent_and_leaves_nothing() {
    scenario(|| {
        let array = bytes(10);
        let child = resting_after(|| std::mem::forget((bytes(20), bytes(30))));
        assert_eq!(segments_in(&directory()).len(), 2, "two small arrays are in one segment");
        child.kill();
        assert_eq!(shmarray::sweep().unwrap().segments, 1);
        array.set(&[9], 9u8).unwrap();
    });
}

#[test]
fn grandchildren_hold_when_everybody_before_them_has_ended() {
    scenario(|| {
        let array = bytes(10);
        let (mut read, mut write) = std::io::pipe().unwrap();
        let (mut heard, said) = std::io::pipe().unwrap();
        fork(|| {
            fork(|| {
                read.read_exact(&mut [0]).unwrap();
                array.set(&[1], 1u8).unwrap();
                let seen = Array::attach(&array.handle(), Access::ReadOnly)
                    .unwrap()
                    .get::<u8>(&[1])
                    .unwrap();
                (&said).write_all(&[seen]).unwrap();
            });
        })
        .ended();
        drop(said);
        drop(array);
        assert_eq!(segments_in(&directory()).len(), 1);
        write.write_all(&[1]).unwrap();
        let mut answers = Vec::new();
        heard.read_to_end(&mut answers).unwrap(); // until the grandchild has ended
        assert_eq!(answers, [1]);
        shmarray::sweep().unwrap();
        assert!(segments_in(&directory()).is_empty());
    });
}

#[test]
fn forks_beside_threads_that_make_and_drop_lose_nothing() {
    scenario(|| {
        let stop = AtomicBool::new(false);
        let kept = bytes(10);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let array = bytes(64);
                        let again = Array::attach(&array.handle(), Access::ReadOnly).unwrap();
                        assert_eq!(again.get::<u8>(&[0]).unwrap(), 0);
                    }
                });
            }
            for round in 0..100u8 {
                fork(|| {
                    kept.set(&[5], round).unwrap();
                    let own = bytes(7);
                    assert!(Array::attach(&own.handle(), Access::ReadWrite).is_ok());
                    assert!(Array::attach(&kept.handle(), Access::ReadOnly).is_ok());
                    drop(own);
                })
                .ended();
                assert_eq!(kept.get::<u8>(&[5]).unwrap(), round);
            }
            stop.store(true, Ordering::Relaxed);
        });
        drop(kept);
        shmarray::sweep().unwrap();
        assert!(segments_in(&directory()).is_empty());
    });
}

#[test]
fn a_registry_that_is_deleted_or_overwritten_frees_nothing() {
    scenario(|| {
        let array = bytes(10);
        let peer = holder_of(&array);
        std::fs::write(registry(), [0xa5; 10_000]).unwrap();
        assert_eq!(holder_reports_swept(), 0);
        std::fs::remove_file(registry()).unwrap();
        assert_eq!(
            holder_reports_swept(),
            0,
            "a process that locked the old registry counts as alive"
        );
        let handle = array.handle();
        drop(array);
        let again = Array::attach(&handle, Access::ReadOnly).unwrap();
        drop(again);
        assert_eq!(segments_in(&directory()).len(), 1, "the peer still holds it");
        peer.kill();
        assert_eq!(shmarray::sweep().unwrap().segments, 1, "nobody maps it any more");
    });
}

#[test]
fn more_holders_than_entries_hold_lock_only() {
    scenario(|| {
        let array = bytes(10);
        let (read, write) = std::io::pipe().unwrap();
        let (mut heard, said) = std::io::pipe().unwrap();
        let mut children: Vec<_> = (0..150)
            .map(|_| {
                fork(|| {
                    (&said).write_all(&[1]).unwrap();
                    let _ = (&read).read(&mut [0]);
                    assert_eq!(array.get::<u8>(&[0]).unwrap(), 8);
                })
            })
            .collect();
        heard.read_exact(&mut [0; 150]).unwrap();
        array.set(&[0], 8u8).unwrap();
        let handle = array.handle();
        drop(array);
        children.drain(..75).for_each(crate::support::Forked::kill);
        assert_eq!(shmarray::sweep().unwrap().segments, 0, "75 still hold it");
        assert_eq!(Array::attach(&handle, Access::ReadOnly).unwrap().get::<u8>(&[0]).unwrap(), 8);
        (&write).write_all(&[1; 75]).unwrap();
        children.into_iter().for_each(crate::support::Forked::ended);
        shmarray::sweep().unwrap();
        assert!(segments_in(&directory()).is_empty());
    });
}

#[test]
fn unrelated_processes_beyond_the_table_hold_lock_only_too() {
    scenario(|| {
        let array = bytes(10);
        let mut holders: Vec<_> = (0..130).map(|_| holder_of(&array)).collect();
        drop(array);
        holders.drain(..120).for_each(Peer::kill);
        assert_eq!(shmarray::sweep().unwrap().segments, 0, "ten still hold it");
        holders.into_iter().for_each(Peer::end);
        shmarray::sweep().unwrap();
        assert!(segments_in(&directory()).is_empty());
    });
}

#[test]
fn a_killed_parent_is_dead_though_its_child_lives() {
    scenario(|| {
        let array = bytes(10);
        let mut peer = holder_of(&array);
        let said = peer.ask("fork now");
        let (child, handle) = said.split_once(' ').unwrap();
        let made = Array::attach(handle, Access::ReadOnly).unwrap();
        peer.kill();
        drop(made);
        assert_eq!(segments_in(&directory()).len(), 1, "what the parent alone held is given back");
        drop(array);
        assert_eq!(
            segments_in(&directory()).len(),
            1,
            "the child holds what its parent held at the fork"
        );
        crate::support::kill(child.parse().unwrap());
        while shmarray::sweep().unwrap().segments == 0 {
            std::thread::yield_now(); // until the kernel has ended it
        }
    });
}

#[test]
fn a_reader_that_may_not_write_holds_lock_only() {
    scenario(|| {
        let shared = Options::new().mode(0o644);
        let array = create(5, &shared).unwrap();
        let peer = holder_of(&array);
        drop(array);
        assert_eq!(shmarray::sweep().unwrap().segments, 0);
        peer.kill();
        assert_eq!(shmarray::sweep().unwrap().segments, 1);
    });
}

#[test]
fn a_supervisor_gives_back_what_its_dead_workers_left_without_being_asked() {
    scenario(|| {
        let most = (0..300)
            .map(|_| {
                resting_after(|| std::mem::forget(bytes(1000))).kill();
                drop(bytes(10)); // the supervisor's own work
                segments_in(&directory()).len()
            })
            .max();
        assert!(most.unwrap() < 150, "{most:?} segments at once");
        shmarray::sweep().unwrap();
    });
}

#[test]
fn a_sweep_that_looks_at_a_message_does_not_hide_it_from_its_receiver() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let sweeper = fork(|| {
            loop {
                shmarray::sweep().unwrap();
            }
        });
        for round in 0..2000u32 {
            let size = if round % 2 == 0 { 8 } else { 100_000 };
            let array = bytes(size);
            array.set(&[0], round as u8).unwrap();
            assert_eq!(here.send(b"", &[&array], None).unwrap(), Sent::Sent);
            drop(array); // nobody has it mapped now
            let message = receive(&there);
            assert_eq!(
                message.array(0, Access::ReadOnly).unwrap().get::<u8>(&[0]).unwrap(),
                round as u8
            );
        }
        sweeper.kill();
    });
}
