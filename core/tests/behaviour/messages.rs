//! Messages hold their arrays, whichever process dies on the way: tickets and the pipe.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code, clippy::incompatible_msrv)] // tests run with today's Rust

use std::io::{Read, Write};

use shmarray::{
    Access, Array, DType, Descriptor, Options, Pipe, Received, Sent, discard, is_family_alive,
    sweep,
};

use crate::exchange::{ALONE, is_empty, mark, marked, receive, send, take};
use crate::support::{Peer, bytes, directory, fork, resting_after, scenario, segments_in, serve};

/// Returns the number of files of segments and tickets, after a sweep.
fn left() -> usize {
    sweep().unwrap();
    segments_in(&directory()).len()
}

/// Attaches, discards or sweeps as it is told, in a process unrelated to the test's.
#[test]
#[ignore = "it is another process of the tests"]
fn stranger() {
    serve(|line| match line.split_once(' ') {
        Some(("attach", handle)) => match Array::attach(handle, Access::ReadOnly) {
            Ok(array) => mark(&array).to_string(),
            Err(error) => error.to_string(),
        },
        Some(("discard", handle)) => format!("{:?}", discard(handle)),
        _ => {
            let swept = sweep().unwrap();
            format!("swept {}", swept.segments)
        }
    });
}

fn stranger_says(line: &str) -> String {
    let mut peer = Peer::start(stranger);
    let says = peer.ask(line);
    peer.end();
    says
}

#[test]
fn a_message_stays_its_receivers_when_a_forked_child_drops_its_copy() {
    scenario(|| {
        for size in [ALONE, 10] {
            let (here, there) = Pipe::pair().unwrap();
            send(&here, &[&marked(size, 8)]);
            let mut message = Some(receive(&there));
            fork(|| drop(message.take())).ended(); // as a garbage collector does there
            let array = message.as_ref().unwrap().array(0, Access::ReadOnly).unwrap();
            assert_eq!(mark(&array), 8);
            drop((array, message));
            assert_eq!(left(), 0, "nothing is held by the copy");
        }
    });
}

#[test]
fn a_message_holds_until_it_is_received_though_its_sender_has_ended() {
    scenario(|| {
        for size in [8, ALONE] {
            let (here, there) = Pipe::pair().unwrap();
            fork(|| send(&there, &[&marked(size, 7), &marked(size, 8)])).ended();
            assert_eq!(stranger_says("sweep"), "swept 0");
            let message = receive(&here);
            let arrays = [take(&message, 0), take(&message, 1)];
            drop(message);
            assert_eq!(arrays.each_ref().map(mark), [7, 8]);
            assert_eq!(stranger_says("sweep"), "swept 0", "now its receiver holds");
            drop(arrays);
            assert!(is_empty(), "and it is given back without a sweep");
        }
    });
}

#[test]
fn a_sender_killed_after_it_sent_takes_nothing_away() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        resting_after(|| {
            let array = marked(ALONE, 9);
            send(&there, &[&array]);
            std::mem::forget(array);
        })
        .kill();
        sweep().unwrap();
        assert_eq!(mark(&take(&receive(&here), 0)), 9);
        assert_eq!(left(), 0);
    });
}

#[test]
fn a_receiver_killed_with_an_unread_message_leaves_nothing_though_the_pipes_maker_lives() {
    scenario(|| {
        for size in [8, ALONE] {
            let (here, there) = Pipe::pair().unwrap();
            send(&here, &[&marked(size, 1)]);
            assert_eq!(left(), 1, "we could still receive it");
            // The child took it, and died before it attached.
            resting_after(|| std::mem::forget(receive(&there))).kill();
            assert_eq!(left(), 0);
        }
    });
}

#[test]
fn messages_of_a_pipe_whose_ends_are_all_closed_are_given_back() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        for size in [8, ALONE] {
            for _ in 0..10 {
                send(&here, &[&bytes(size)]);
            }
        }
        assert!(left() > 10);
        drop(here);
        assert!(left() > 10, "the other end can still receive");
        drop(there);
        assert_eq!(left(), 0);
    });
}

#[test]
fn an_array_that_nobody_can_receive_is_refused_and_stays_the_senders() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let array = marked(ALONE, 3);
        drop(there);
        assert_eq!(here.send(b"x", &[&array], None).unwrap(), Sent::Closed);
        assert!(matches!(here.receive(None).unwrap(), Received::Closed));
        let info = &shmarray::segments().unwrap()[0];
        assert_eq!((info.tickets, info.holders.len()), (0, 1));
    });
}

#[test]
fn an_answer_arrives_though_its_sender_left_a_task_unread() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        send(&here, &[&marked(8, 1)]);
        send(&there, &[&marked(ALONE, 2)]);
        drop(there);
        assert_eq!(mark(&take(&receive(&here), 0)), 2);
        assert!(matches!(here.receive(None).unwrap(), Received::Closed));
        assert_eq!(left(), 0);
    });
}

#[test]
fn an_unwanted_message_gives_back_what_it_carried() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        for size in [8, ALONE] {
            send(&here, &[&bytes(size), &bytes(size)]);
            drop(receive(&there));
            assert!(is_empty());
        }
    });
}

#[test]
fn one_array_may_be_in_a_message_twice_and_a_view_of_it_too() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let array = marked(ALONE, 5);
        send(&here, &[&array, &array, &array.slice(0, Some(1), Some(3), 1).unwrap()]);
        drop(array);
        let message = receive(&there);
        drop(take(&message, 0));
        assert_eq!((mark(&take(&message, 1)), take(&message, 2).shape()), (5, &[2][..]));
        assert_eq!(
            message.array(3, Access::ReadOnly).unwrap_err().kind(),
            shmarray::ErrorKind::OutOfBounds
        );
    });
}

#[test]
fn an_array_is_in_a_hundred_thousand_messages_at_once() {
    scenario(|| {
        for size in [8, ALONE] {
            let array = marked(size, 4);
            let handles: Vec<_> = (0..100_000).map(|_| array.handle_to_send().unwrap()).collect();
            drop(array);
            let kept = Array::attach(&handles[0], Access::ReadOnly).unwrap();
            for handle in &handles[1..99_999] {
                discard(handle).unwrap();
            }
            assert_eq!(mark(&kept), 4);
            drop(kept);
            assert_eq!(stranger_says("sweep"), "swept 0", "one is still under way");
            drop(Array::attach(&handles[99_999], Access::ReadOnly).unwrap());
            assert_eq!(left(), 0);
        }
    });
}

#[test]
fn messages_in_pipes_beyond_the_table_hold_as_well() {
    scenario(|| {
        for size in [8, ALONE] {
            let pipes: Vec<_> = (0..4).map(|_| Pipe::pair().unwrap()).collect();
            let array = marked(size, 2);
            pipes.iter().for_each(|(here, _)| (0..60).for_each(|_| send(here, &[&array])));
            drop(array);
            assert_eq!(stranger_says("sweep"), "swept 0");
            for (_, there) in &pipes[1..] {
                (0..60).for_each(|_| assert_eq!(mark(&take(&receive(there), 0)), 2));
            }
            assert_eq!(stranger_says("sweep"), "swept 0");
            drop(pipes); // sixty that nobody can receive any more
            assert_eq!(left(), 0);
        }
    });
}

#[test]
fn a_handle_sent_out_of_band_holds_until_it_is_attached_or_discarded_or_the_family_is_gone() {
    scenario(|| {
        for size in [8, ALONE] {
            let handles: Vec<_> =
                (0..3).map(|_| marked(size, 8).handle_to_send().unwrap()).collect();
            assert_eq!(stranger_says("sweep"), "swept 0");
            assert_eq!(stranger_says(&format!("attach {}", handles[0])), "8");
            assert_eq!(stranger_says(&format!("discard {}", handles[1])), "Ok(())");
            assert!(
                Array::attach(&handles[1], Access::ReadOnly).is_err()
                    && discard(&handles[0]).is_ok()
            );
            assert_eq!(mark(&Array::attach(&handles[2], Access::ReadOnly).unwrap()), 8);
            assert_eq!(left(), 0);
        }
    });
}

#[test]
fn a_message_of_a_dead_worker_lives_with_its_family_and_goes_with_it() {
    scenario(|| {
        let (mut read, write) = std::io::pipe().unwrap();
        drop(bytes(1)); // the root has used the library: its children are of its family
        fork(|| (&write).write_all(marked(ALONE, 3).handle_to_send().unwrap().as_bytes()).unwrap())
            .ended();
        drop(write);
        let mut handle = String::new();
        read.read_to_string(&mut handle).unwrap();
        assert_eq!(stranger_says("sweep"), "swept 0");
        assert_eq!(mark(&Array::attach(&handle, Access::ReadOnly).unwrap()), 3);
        assert_eq!(left(), 0);
        let mut other = Peer::start(family);
        let sent = other.ask("send");
        assert_eq!((left(), is_family_alive(&sent).unwrap()), (1, true));
        other.kill();
        assert_eq!((left(), is_family_alive(&sent).unwrap()), (0, false));
    });
}

/// A family of one process.
#[test]
#[ignore = "it is another process of the tests"]
fn family() {
    serve(|_| marked(ALONE, 1).handle_to_send().unwrap());
}

#[test]
fn attaching_a_message_twice_works_while_the_array_lives() {
    scenario(|| {
        for size in [8, ALONE] {
            let sent = marked(size, 4).descriptor_to_send().unwrap();
            let text = sent.to_handle();
            let twice = [sent.clone(), sent];
            let both = Array::attach_all(&twice.map(|handle| (handle, Access::ReadOnly))).unwrap();
            assert_eq!(mark(&Array::attach(&text, Access::ReadOnly).unwrap()), 4);
            drop(both);
            assert!(Array::attach(&text, Access::ReadOnly).is_err());
        }
    });
}

#[test]
fn a_ticket_that_was_given_back_gives_nothing_else_back() {
    scenario(|| {
        let array = marked(ALONE, 4);
        let first = array.handle_to_send().unwrap();
        let second = array.handle_to_send().unwrap();
        drop(array);
        for _ in 0..3 {
            discard(&first).unwrap();
        }
        assert_eq!(stranger_says("sweep"), "swept 0");
        assert_eq!(mark(&Array::attach(&second, Access::ReadOnly).unwrap()), 4);
    });
}

#[test]
fn a_supervisors_queue_outlives_three_hundred_killed_workers_without_growing() {
    scenario(|| {
        let (tasks, for_workers) = Pipe::pair().unwrap();
        let mut most = 0;
        for round in 0..300u32 {
            let size = if round % 2 == 0 { 8 } else { ALONE };
            (0..3).for_each(|_| send(&tasks, &[&marked(size, 1)]));
            resting_after(|| {
                let message = receive(&for_workers);
                let array = take(&message, 0);
                send(&for_workers, &[&array]); // an answer
                std::mem::forget((receive(&for_workers), message, array, bytes(size)));
            })
            .kill();
            drop(receive(&for_workers)); // the worker left one
            drop(receive(&tasks)); // its answer
            most = most.max(segments_in(&directory()).len());
        }
        assert!(most < 200, "{most} files at once");
        assert_eq!(left(), 0);
    });
}

#[test]
fn a_deleted_registry_frees_no_message() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        send(&here, &[&marked(ALONE, 6), &marked(8, 7)]);
        let by_hand = marked(ALONE, 5).handle_to_send().unwrap();
        let entries = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
        let registry =
            entries.filter(|path| path.to_string_lossy().contains("registry")).last().unwrap();
        std::fs::remove_file(registry).unwrap();
        assert_eq!(stranger_says("sweep"), "swept 0");
        let message = receive(&there);
        assert_eq!((mark(&take(&message, 0)), mark(&take(&message, 1))), (6, 7));
        assert_eq!(stranger_says(&format!("attach {by_hand}")), "5");
    });
}

#[test]
fn a_listing_counts_the_messages_that_hold() {
    scenario(|| {
        let (here, there) = Pipe::pair().unwrap();
        let array = marked(8, 1);
        (0..3).for_each(|_| send(&here, &[&array]));
        let _way = array.descriptor_to_send().unwrap();
        let listed = shmarray::segments().unwrap();
        assert_eq!((listed[0].segment, listed[0].tickets), (array.descriptor().segment, 4));
        let parsed = Descriptor::parse(&_way.to_handle()).unwrap();
        assert_eq!(parsed, _way);
        drop((here, there));
        discard(&_way.to_handle()).unwrap();
    });
}

fn count_down(counts: &Array, index: &[u64]) -> shmarray::Result<u64> {
    // SAFETY: no other thread of this process has the array.
    unsafe { counts.count_down(index) }
}

#[test]
fn processes_that_count_down_together_lose_no_count_and_one_of_them_gets_zero() {
    scenario(|| {
        const TIMES: u64 = 1000;
        let number = DType::parse("<u8").unwrap();
        let counts = Array::create(number, &[2], &Options::default()).unwrap();
        counts.set(&[0], 4 * TIMES).unwrap();
        let count = || {
            for _ in 0..TIMES {
                if count_down(&counts, &[0]).unwrap() == 0 {
                    counts.set(&[1], counts.get::<u64>(&[1]).unwrap() + 1).unwrap();
                }
            }
        };
        let children: Vec<_> = (0..4).map(|_| fork(count)).collect();
        children.into_iter().for_each(crate::support::Forked::ended);
        assert_eq!((counts.get::<u64>(&[0]).unwrap(), counts.get::<u64>(&[1]).unwrap()), (0, 1));
        assert_eq!(count_down(&counts, &[0]).unwrap(), 0, "less than nothing is not counted");
    });
}

#[test]
fn an_element_that_is_no_aligned_number_of_eight_bytes_is_not_counted_down() {
    scenario(|| {
        let numbers =
            Array::create(DType::parse("<u8").unwrap(), &[2], &Options::default()).unwrap();
        assert!(count_down(&numbers.whole(), &[0]).unwrap_err().to_string().contains("dtype"));
        let mut askew = numbers.select(0, 0).unwrap().descriptor();
        askew.layout.offset = 4;
        let askew = Array::attach_descriptor(&askew, Access::ReadWrite).unwrap();
        assert!(count_down(&askew, &[]).unwrap_err().to_string().contains("not aligned"));
        let fixed = Array::attach_descriptor(&numbers.descriptor(), Access::ReadOnly).unwrap();
        assert!(count_down(&fixed, &[0]).is_err());
        assert!(count_down(&numbers, &[2]).is_err());
    });
}
