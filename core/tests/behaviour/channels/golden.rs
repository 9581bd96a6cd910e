//! A channel's file that another implementation of FORMAT.md wrote.

use std::fs;
use std::path::Path;

use shmarray::{Channel, ChannelStats, DType, Delivered, Receives, SegmentKind, segments, unlink};

use super::{can_loan, message, send_to};
use crate::support::{directory, scenario};

/// The id and the name in the file, by ci/checks/golden/make.py.
const ID: &str = "goldengoldengoldengoldga";
const NAME: &str = "golden.channel";

#[test]
fn a_message_in_a_golden_file_is_received_and_the_channel_goes_on() {
    scenario(|| {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/checks/golden/channels/queue");
        let segment = format!("shmarray-{ID}");
        let name = format!("shmarray-name-{NAME}");
        fs::copy(golden, directory().join(&segment)).unwrap();
        fs::hard_link(directory().join(segment), directory().join(name)).unwrap();

        let channel = Channel::open(NAME, Receives::Now).unwrap();
        assert_eq!((channel.dtype(), channel.shape()), (&DType::parse("<i4").unwrap(), &[4][..]));
        let delivery = message(&channel);
        assert_eq!(
            (delivery.sequence(), delivery.time_ns(), delivery.meta()),
            (0, 1234, &b"golden"[..])
        );
        let bytes: Vec<u8> =
            [1i32, -2, 3, -4].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(delivery.array().to_bytes().unwrap(), bytes);
        drop(delivery);
        // Its sender closed, says the file.
        assert!(matches!(channel.receive(None).unwrap(), Delivered::Ended { died: false, .. }));
        assert!(can_loan(&channel));
        for number in 1..10 {
            assert_eq!(send_to(&channel, number as i32), number);
            assert_eq!(message(&channel).array().get::<i32>(&[0]).unwrap(), number as i32);
        }
        assert_eq!(ChannelStats::read(NAME).unwrap().sent, 10);
        assert_eq!(segments().unwrap()[0].kind, SegmentKind::Channel);
        drop(channel);
        unlink(NAME).unwrap();
    });
}
