//! Bad input: a clear error, and nothing is lost.

use std::fs;
use std::path::PathBuf;

use shmarray::{
    Access, Array, Channel, ChannelMode, ChannelOptions, DType, Error, Layout, Loaned, Options,
    Order, Receives, WhenFull,
};

use super::{
    AT_ONCE, can_loan, create, int32, is_nothing_there, message, open, open_as_sender, receive,
    send,
};
use crate::support::{directory, scenario};

fn said<T>(outcome: shmarray::Result<T>) -> String {
    match outcome {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn assert_says<T>(outcome: shmarray::Result<T>, words: &[&str]) {
    let said = said(outcome);
    assert!(words.iter().all(|word| said.contains(word)), "{said:?} lacks one of {words:?}");
}

fn send_private<T>(
    channel: &Channel,
    dtype: &str,
    values: &[T],
    shape: &[u64],
) -> shmarray::Result<()> {
    let layout = Layout::contiguous(shape, size_of::<T>() as u64, Order::C).unwrap();
    let dtype = DType::parse(dtype).unwrap();
    // SAFETY: the layouts below have no more elements than their values.
    unsafe { channel.send(values.as_ptr().cast(), &dtype, &layout, b"", AT_ONCE) }.map(drop)
}

#[test]
fn another_dtype_or_shape_than_the_channels() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().slots(1));
        assert_says(send_private(&channel, "<f4", &[1f32, 2.0], &[2]), &["<i4", "<f4"]);
        assert_says(send_private(&channel, "<i4", &[1, 2, 3], &[3]), &["shape", "[3]", "[2]"]);
        assert_says(send_private(&channel, "<i4", &[1, 2], &[2, 1]), &["shape", "[2, 1]"]);
        assert_says(channel.loan_shape(&[1], AT_ONCE), &["shape", "[1]", "[2]"]);
        let other = Array::create(int32(), &[1], &Options::new()).unwrap();
        assert_says(channel.send_array(&other, b"", AT_ONCE), &["shape"]);
        assert!(is_nothing_there(&channel) && can_loan(&channel), "nothing was taken");
    });
}

#[test]
fn a_word_that_is_no_mode() {
    let modes = ChannelMode::ALL.map(ChannelMode::name);
    assert_says("queues".parse::<ChannelMode>(), &[&["mode", "\"queues\""][..], &modes].concat());
    let words = WhenFull::ALL.map(WhenFull::name);
    assert_says("Block".parse::<WhenFull>(), &[&["when_full", "\"Block\""][..], &words].concat());
}

#[test]
fn metadata_that_is_too_long() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().slots(1));
        let Loaned::Loan(loan) = channel.loan(None).unwrap() else { panic!() };
        assert_says(loan.publish(&[1; 65]), &["meta", "65", "64"]);
        let array = Array::create(int32(), &[2], &Options::new()).unwrap();
        assert_says(channel.send_array(&array, &[1; 1000], AT_ONCE), &["meta", "1000", "64"]);
        assert!(is_nothing_there(&channel) && can_loan(&channel), "the slot came back");
    });
}

#[test]
fn numbers_that_a_channel_cannot_have() {
    scenario(|| {
        let plain = ChannelOptions::new;
        for (options, word) in [
            (plain().slots(0), "slots"),
            (plain().slots(1024), "slots"),
            (plain().ends(0), "ends"),
            (plain().ends(1024), "ends"),
            (plain().file_mode(0o644), "file_mode"),
            (plain().file_mode(0o600 | 0o1000).mode(ChannelMode::Broadcast), "file_mode"),
            (plain().file_mode(0o666).mode(ChannelMode::Broadcast), "file_mode"),
            (plain().file_mode(0o400), "file_mode"),
        ] {
            assert_says(Channel::create("numbers", int32(), &[2], &options), &[word]);
        }
        assert_says(Channel::create("a b", int32(), &[2], &plain()), &["a b"]);
        assert_says(Channel::create("numbers", int32(), &[u64::MAX / 8, 8], &plain()), &["shape"]);
        let too_many = Channel::create("numbers", int32(), &[1 << 50], &plain());
        assert!(matches!(too_many, Err(Error::NoSpace { .. } | Error::InvalidArgument { .. })));
        let fields: String = (0..400).map(|i| format!(r#"["f{i}","<i4"],"#)).collect();
        let fields = fields.trim_end_matches(',');
        let long = format!(r#"{{"descr":[{fields}],"itemsize":1600}}"#);
        let long = DType::parse(&long).unwrap();
        assert_says(Channel::create("numbers", long, &[2], &plain()), &["dtype"]);
        assert!(shmarray::segments().unwrap().is_empty());
    });
}

#[test]
fn names_that_are_not_a_channels() {
    scenario(|| {
        let array = Array::create(int32(), &[2], &Options::new().name("an-array")).unwrap();
        assert_says(Channel::open("an-array", Receives::Now), &["an array's"]);
        assert!(matches!(Channel::open("nothing", Receives::Now), Err(Error::NameNotFound { .. })));
        assert_says(Channel::open(&array.handle(), Receives::Now), &["name"]);
        let exists = Channel::create("an-array", int32(), &[2], &ChannelOptions::new());
        assert!(matches!(exists, Err(Error::NameExists { .. })));
        let options = ChannelOptions::new().exist_ok(true);
        assert_says(Channel::create("an-array", int32(), &[2], &options), &["an array's"]);
    });
}

#[test]
fn a_channel_is_no_array() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        assert_says(Array::attach("numbers", Access::ReadWrite), &["channel"]);
        let listed = &shmarray::segments().unwrap()[0];
        let handle = format!(
            "{{\"shmarray\":1,\"segment\":\"{}\",\"generation\":{},\"offset\":0,\"dtype\":\"<i4\",\
             \"shape\":[2],\"strides\":[4]}}",
            listed.segment,
            generation(),
        );
        assert_says(Array::attach(&handle, Access::ReadWrite), &["channel"]);
        let Loaned::Loan(loan) = channel.loan(None).unwrap() else { panic!() };
        assert_says(loan.array().handle_to_send(), &["slot", "channel"]);
    });
}

/// Returns the file of the only segment, which has a name.
fn segment_file() -> PathBuf {
    let named = directory().join("shmarray-name-numbers");
    assert!(named.exists());
    named
}

fn generation() -> u64 {
    let bytes = fs::read(segment_file()).unwrap();
    u64::from_le_bytes(bytes[136..144].try_into().unwrap())
}

#[test]
fn an_existing_channel_of_another_description() {
    scenario(|| {
        let same = ChannelOptions::new().exist_ok(true);
        let first = create(&same);
        let second = create(&same);
        send(&first, 3);
        assert_eq!(receive(&second), 3);
        let create = |dtype: &str, shape: &[u64], options: ChannelOptions| {
            Channel::create("numbers", DType::parse(dtype).unwrap(), shape, &options)
        };
        assert_says(create("<f4", &[2], same.clone()), &["dtype"]);
        assert_says(create("<i4", &[3], same.clone()), &["shape"]);
        assert_says(create("<i4", &[2], same.clone().slots(9)), &["slots"]);
        assert_says(create("<i4", &[2], same.clone().ends(5)), &["ends"]);
        assert_says(create("<i4", &[2], same.clone().varying(true)), &["kind of message"]);
        assert_says(create("<i4", &[2], same.clone().mode(ChannelMode::Broadcast)), &["mode"]);
        assert_says(create("<i4", &[2], same.clone().when_full(WhenFull::Error)), &["when_full"]);
        assert_says(Channel::create_by_handle("numbers", &same), &["dtype"]);
        let plain = Channel::create("numbers", int32(), &[2], &ChannelOptions::new());
        assert!(matches!(plain, Err(Error::NameExists { .. })));
        send(&first, 4);
        assert_eq!(receive(&second), 4);
    });
}

#[test]
fn a_loan_after_close() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        channel.close();
        assert_says(channel.loan(AT_ONCE), &["closed"]);
        assert_says(channel.receive(AT_ONCE), &["closed"]);
        assert_eq!((channel.dtype(), channel.shape()), (&int32(), &[2][..]));
        assert_says(send_private(&channel, "<i4", &[1, 2], &[2]), &["closed"]);
    });
}

/// Changes bytes of the channel's file while `look` opens it, and puts them back.
fn with_bytes(at: usize, bytes: &[u8], look: impl FnOnce()) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::options().read(true).write(true).open(segment_file()).unwrap();
    let mut before = vec![0; bytes.len()];
    file.read_exact_at(&mut before, at as u64).unwrap();
    file.write_all_at(bytes, at as u64).unwrap();
    look();
    file.write_all_at(&before, at as u64).unwrap();
}

/// Opens the channel as a process that has not mapped it does.
fn open_anew() -> String {
    let mut peer = crate::support::Peer::start(opener);
    let said = peer.ask("open");
    peer.end();
    said
}

#[test]
#[ignore = "it is another process of the tests"]
fn opener() {
    crate::support::serve(|_| match Channel::open("numbers", Receives::Now) {
        Ok(_) => "opened".to_owned(),
        Err(error) => error.to_string().replace('\n', " "),
    });
}

#[test]
fn fields_that_no_channel_has_and_layouts_of_other_versions() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        assert_eq!(open_anew(), "opened");
        let major = 8;
        let offset = 272;
        let stride = 864;
        let own = 4096;
        for (at, value, word) in [
            (own, 4u32, "mode"),
            (own, 0, "mode"),
            (own + 4, 9, "when_full"),
            (own + 8, 0, "payload"),
            (own + 12, 7, "ring_words"),
            (own + 12, 4, "ring_words"),
            (own + 12, 1 << 30, "ring_words"),
            (own + 16, 0, "ends"),
            (own + 16, 1 << 20, "ends"),
            (own + 20, 64, "end_bytes"),
            (own + 24, 0, "ring_offset"),
            (own + 24, 5121, "ring_offset"),
            (own + 24, u32::MAX - 7, "ring_offset"),
            (own + 28, u32::MAX - 7, "ends_offset"),
            (own + 32, u32::MAX - 7, "slots_offset"),
            (own + 36, 2, "is_followed"),
            (own + 44, 1, "family"),
            (120, 0, "cells"),
            (120, 1024, "cells"),
            (124, 128, "head_bytes"),
            (major, 99, "layout 99.0"),
            (offset, 4, "offset"),
            (stride, 0, "strides"),
            (stride, 8, "strides"),
        ] {
            with_bytes(at, &value.to_le_bytes(), || {
                let said = open_anew();
                assert!(said.contains(word), "{at}: {value}: {said:?} does not name {word}");
            });
        }
        assert_eq!(open_anew(), "opened");
        send(&channel, 1);
    });
}

/// What other processes may write in a mapped channel moves no pointer: an index out of range is
/// cut, and the process goes on.
#[test]
fn a_header_full_of_other_bytes_kills_nobody() {
    scenario(|| {
        let options = ChannelOptions::new().slots(3).ends(4).when_full(WhenFull::Error);
        for mode in ChannelMode::ALL {
            let channel = create(&options.clone().mode(mode));
            let receiver = open();
            let header = fs::read(segment_file()).unwrap().len() - 4096;
            for (seed, byte) in (0..).zip([0xff, 0x55, 0x01, 0x80]) {
                let bytes: Vec<u8> = (0..header - 4224)
                    .map(|at| if (at / 8 + seed) % 3 == 0 { byte } else { 0 })
                    .collect();
                with_bytes(4224, &bytes, || {
                    let _ = channel.loan(AT_ONCE);
                    let _ = receiver.receive(AT_ONCE);
                    let _ = Channel::open("numbers", Receives::Now);
                });
            }
            drop((channel, receiver));
            let _ = shmarray::unlink("numbers");
        }
    });
}

#[test]
fn a_receiver_gets_what_it_is_sent_and_may_write_it() {
    scenario(|| {
        let channel = create(&ChannelOptions::new());
        let receiver = open();
        send(&channel, 1);
        let delivery = message(&receiver);
        assert!(!delivery.array().is_readonly());
    });
}

#[test]
fn a_word_of_the_ring_that_names_no_slot_leads_nowhere() {
    scenario(|| {
        let channel = create(&ChannelOptions::new().slots(2));
        let _other = open_as_sender();
        (5..7).for_each(|value| _ = send(&channel, value));
        let file = fs::read(segment_file()).unwrap();
        // With two words in the ring, the second message has the number 3. It lies in slot 1.
        let number = 3u64 << 10;
        let is_it = |at: &usize| file[*at..at + 8] == (number | 1).to_le_bytes();
        let found: Vec<_> = (4224..8192).step_by(8).filter(is_it).collect();
        let [at] = found[..] else { panic!("{found:?}") };
        with_bytes(at, &(number | 1023).to_le_bytes(), || {
            assert_eq!(receive(&channel), 5);
            assert!(is_nothing_there(&channel));
        });
        send(&channel, 7);
        assert_eq!(receive(&channel), 7);
    });
}

/// A process passes them in one step.
#[test]
fn words_of_the_ring_whose_numbers_are_far_ahead_stop_nobody() {
    scenario(|| {
        let options = ChannelOptions::new().slots(2).when_full(WhenFull::DropOldest);
        for mode in [ChannelMode::Queue, ChannelMode::Broadcast] {
            let channel = create(&options.clone().mode(mode));
            let receiver = open_as_sender();
            (5..7).for_each(|value| _ = send(&channel, value));
            let file = fs::read(segment_file()).unwrap();
            let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
            // The two words of the ring lie side by side.
            let is_ring = |at: &usize| [number(*at) >> 10, number(*at + 8) >> 10] == [2, 3];
            let found: Vec<_> = (4224..8192).step_by(8).filter(is_ring).collect();
            let [at] = found[..] else { panic!("{found:?}") };
            for ahead in [1 << 40, (1 << 54) - 1] {
                let words = [ahead << 10, ahead << 10 | 1u64].map(u64::to_le_bytes).concat();
                with_bytes(at, &words, || {
                    let third = open();
                    let _ = third.is_ready();
                    let _ = receiver.receive(AT_ONCE);
                    let _ = channel.loan(AT_ONCE).map(|loaned| match loaned {
                        Loaned::Loan(loan) => loan.publish(b"").map(drop),
                        _ => Ok(()),
                    });
                    let _ = receiver.receive(AT_ONCE);
                });
            }
            drop((channel, receiver));
            let _ = shmarray::unlink("numbers");
        }
    });
}
