//! What `close` gives up: the name and the memory at once, whatever lives on of its messages.

use std::fs;

use shmarray::{Channel, ChannelOptions, ErrorKind, Receives, segments};

use super::{create, int32, message, number, open, receive, send};
use crate::support::{Peer, directory, scenario};

fn is_gone(name_or_handle: &str) -> bool {
    let opened = Channel::open(name_or_handle, Receives::Now);
    opened.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

#[test]
fn a_mapping_that_is_kept_for_nothing_keeps_neither_name_nor_memory() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        send(&channel, 1);
        let delivery = message(&channel);
        let mapped = delivery.array().without_slot(); // as an ndarray that was emptied
        drop(delivery);
        let handle = channel.handle();
        channel.close();
        assert!(is_gone("numbers") && is_gone(&handle));
        assert!(segments().unwrap().is_empty());
        assert_eq!(mapped.get::<i32>(&[0]).unwrap(), 0, "its memory was freed");
        let again = create(&ChannelOptions::new());
        send(&again, 2);
        assert_eq!(receive(&again), 2);
        drop(mapped);
        send(&again, 3);
        assert_eq!(receive(&open()), 3, "the new channel is not the old mapping's");
    });
}

#[test]
fn a_kept_message_keeps_its_memory_and_not_the_name() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        send(&channel, 1);
        let kept = message(&channel);
        let handle = channel.handle();
        channel.close();
        assert!(is_gone("numbers") && is_gone(&handle));
        let again = create(&ChannelOptions::new());
        send(&again, 2);
        assert_eq!((receive(&again), number(&kept)), (2, 1));
        drop((again, kept));
        assert!(segments().unwrap().is_empty());
    });
}

#[test]
fn a_channel_that_others_have_open_stays() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        let mut peer = Peer::start(super::deaths::peer);
        assert_eq!(peer.ask("join"), "did join");
        send(&channel, 1);
        let kept = message(&channel);
        channel.close();
        let again = open(); // the peer's
        assert_eq!(peer.ask("7"), "did 7");
        assert_eq!((receive(&again), number(&kept)), (7, 1));
        peer.end();
        again.close();
        assert!(is_gone("numbers"));
    });
}

#[test]
fn one_that_persists_is_opened_though_all_have_closed_it() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().persist(true));
        send(&channel, 1);
        let kept = message(&channel);
        send(&channel, 2);
        channel.close();
        assert_eq!((receive(&open()), number(&kept)), (2, 1));
        shmarray::unlink("numbers").unwrap();
    });
}

#[test]
fn an_existing_channel_that_persists_or_has_another_mode_is_refused() {
    scenario(|| {
        let options = || ChannelOptions::new().mode(shmarray::ChannelMode::Broadcast);
        let made = options().persist(true).file_mode(0o644);
        let existing = create(&made);
        for (differs, word) in [
            (options().file_mode(0o644), "persists"),
            (options().persist(true), "file mode"),
            (options().persist(true).file_mode(0o640), "file mode"),
        ] {
            let again = Channel::create("numbers", int32(), &[2], &differs.exist_ok(true));
            let said = again.map(drop).unwrap_err().to_string();
            assert!(said.contains(word), "{said}");
        }
        assert!(Channel::create("numbers", int32(), &[2], &made.exist_ok(true)).is_ok());
        drop(existing);
        shmarray::unlink("numbers").unwrap();
        let _plain = create(&options());
        let persist = options().persist(true).exist_ok(true);
        let said = Channel::create("numbers", int32(), &[2], &persist).map(drop).unwrap_err();
        assert!(said.to_string().contains("does not persist"), "{said}");
    });
}

#[test]
fn a_channel_of_handles_does_not_persist() {
    scenario(|| {
        let options = ChannelOptions::new().persist(true);
        let refused = Channel::create_by_handle("arrays", &options).map(drop).unwrap_err();
        assert!(refused.to_string().contains("persist"), "{refused}");
        assert!(
            fs::read_dir(directory())
                .unwrap()
                .all(|entry| { !entry.unwrap().file_name().to_string_lossy().contains("arrays") })
        );
    });
}
