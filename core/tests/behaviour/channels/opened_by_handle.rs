//! A channel is opened by its handle.

use std::fs;

use shmarray::{
    Array, Channel, ChannelMode, ChannelOptions, ChannelStats, ErrorKind, Options, Receives,
};

use super::followers::as_root;
use super::{create, int32, message, number, open, receive, send};
use crate::support::{Peer, directory, scenario};

#[test]
fn a_handle_leads_to_the_channel() {
    scenario(|| {
        for mode in ChannelMode::ALL {
            let channel = create(&ChannelOptions::new().mode(mode));
            let other = Channel::open(&channel.handle(), Receives::Now).unwrap();
            assert_eq!((other.name(), other.handle()), ("numbers", channel.handle()));
            assert_eq!(open().handle(), channel.handle());
            send(&channel, 5);
            assert_eq!(receive(&other), 5);
            assert_eq!(ChannelStats::read(&channel.handle()).unwrap().sent, 1);
            let spaced = channel.handle().replace(',', " ,\n ");
            assert!(Channel::open(&spaced, Receives::Now).is_ok());
        }
    });
}

#[test]
fn a_handle_leads_there_after_the_name_is_gone() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        shmarray::unlink("numbers").unwrap();
        assert!(Channel::open("numbers", Receives::Now).is_err());
        let other = Channel::open(&channel.handle(), Receives::Now).unwrap();
        send(&channel, 3);
        assert_eq!(number(&message(&other)), 3);
    });
}

#[test]
fn handles_that_are_not_the_channels_are_refused() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        let handle = channel.handle();
        let refused = |from: &str, to: &str| {
            let text = handle.replacen(from, to, 1);
            assert_ne!(text, handle);
            Channel::open(&text, Receives::Now).map(drop).unwrap_err()
        };
        for (from, to, field) in [
            (r#""shape":[2]"#, r#""shape":[3]"#, "shape"),
            (r#""strides":[4]"#, r#""strides":[8]"#, "strides"),
            (r#""offset":0"#, r#""offset":4"#, "offset"),
            ("<i4", "<f4", "dtype"),
            (r#""shmarray":1"#, r#""shmarray":2"#, "shmarray"),
        ] {
            let said = refused(from, to).to_string();
            assert!(said.contains(field), "{field}: {said}");
        }
        let mut other_life = channel.descriptor().clone();
        other_life.generation ^= 1;
        let stale = Channel::open(&other_life.to_handle(), Receives::Now).map(drop).unwrap_err();
        assert_eq!(stale.kind(), ErrorKind::StaleHandle, "{stale}");
        for (elements, kind) in
            [(2, ErrorKind::InvalidHandle), (1 << 20, ErrorKind::InvalidArgument)]
        {
            let array = Array::create(int32(), &[elements], &Options::new()).unwrap();
            let no_channel = Channel::open(&array.handle(), Receives::Now).map(drop).unwrap_err();
            assert_eq!(no_channel.kind(), kind, "{no_channel}");
            assert!(no_channel.to_string().contains("channel"), "{no_channel}");
        }
        assert!(Array::attach(&handle, shmarray::Access::ReadOnly).is_err());
        drop(channel);
        let gone = Channel::open(&handle, Receives::Now).map(drop).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
        assert!(fs::read_dir(directory()).unwrap().count() > 0, "the registry stays");
    });
}

#[test]
fn another_user_follows_by_the_handle() {
    as_root(|| {
        let options = ChannelOptions::new().mode(ChannelMode::Broadcast).file_mode(0o644);
        let channel = create(&options);
        let mut peer = Peer::start(super::followers::peer);
        let other = channel.handle().replace(r#""shape":[2]"#, r#""shape":[1]"#);
        assert_eq!(peer.ask(&format!("open {other}")), "InvalidHandle");
        assert_eq!(peer.ask(&format!("open {}", channel.handle())), "is a follower: true");
        send(&channel, 8);
        assert_eq!(peer.ask("receive"), "8 0");
        peer.end();
    });
}

/// The mode lets root write, but the file's owner may truncate it at any moment.
#[test]
fn root_does_not_map_the_channel_of_another_user() {
    as_root(|| {
        let mut peer = Peer::start(super::followers::peer);
        let handle = peer.ask("create");
        for text in ["theirs", &handle] {
            assert!(Channel::open(text, Receives::Now).unwrap().is_follower(), "{text}");
        }
        peer.end();
    });
}

#[test]
fn a_handle_of_any_shape_leads_to_its_channel() {
    scenario(|| {
        for shape in [&[0][..], &[2, 0, 3], &[], &[1, 4]] {
            let channel = Channel::create("numbers", int32(), shape, &ChannelOptions::new());
            let channel = channel.unwrap();
            let opened = Channel::open(&channel.handle(), Receives::Now).unwrap();
            assert_eq!(opened.shape(), shape);
        }
    });
}
