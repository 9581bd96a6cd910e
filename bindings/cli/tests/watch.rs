//! `shmarray watch`, beside a channel in use.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

mod run;

use shmarray::{
    Array, Channel, ChannelMode, ChannelOptions, DType, Delivered, Options, Receives, WhenFull,
};

use run::{printed, shmarray};

/// Returns a name that no other test or run uses.
fn unique(name: &str) -> String {
    format!("{name}.{}", std::process::id())
}

fn channel(name: &str) -> (Channel, Channel) {
    let options =
        ChannelOptions::new().mode(ChannelMode::Broadcast).slots(2).when_full(WhenFull::DropOldest);
    let sends = Channel::create(name, DType::parse("<f4").unwrap(), &[4], &options).unwrap();
    let receives = Channel::open(name, Receives::Now).unwrap();
    let array = Array::create(DType::parse("<f4").unwrap(), &[4], &Options::new()).unwrap();
    for _ in 0..20 {
        sends.send_array(&array, b"", None).unwrap();
    }
    assert!(matches!(receives.receive(None).unwrap(), Delivered::Message(_)));
    (sends, receives)
}

#[test]
fn a_channel_is_shown_with_its_ends_and_drops() {
    let name = unique("watch.one");
    let (_sends, _receives) = channel(&name);
    let shown = printed(&["watch", &name, "--count", "2", "--interval", "0.01"]);
    let pid = std::process::id().to_string();
    for part in [
        &*format!("{name}: broadcast of [4] <f4, when full: drop_oldest"),
        "messages 20, ",
        "18 dropped",
        "0.0/s, 0.0 MB/s",
        "sends",
        "receives",
        &pid,
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
}

#[test]
fn a_line_of_json_for_each_look() {
    let name = unique("watch.json");
    let (sends, _receives) = channel(&name);
    let shown = printed(&["watch", &name, "--json", "--count", "3", "--interval", "0.01"]);
    let looks: Vec<serde_json::Value> =
        shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(looks.len(), 3);
    let first = &looks[0][0];
    let last = &looks[2][0];
    assert!(first["messages_per_second"].is_null());
    assert_eq!((&last["messages_per_second"], &last["sent"]), (&0.0.into(), &20.into()));
    let end = |sends| last["ends"].as_array().unwrap().iter().find(|end| end["sends"] == sends);
    assert_eq!(end(true).unwrap()["count"], 20);
    let receives = end(false).unwrap();
    assert_eq!((&receives["missed"], &receives["behind"]), (&18.into(), &1.into()));
    drop(sends);
}

#[test]
fn without_a_name_all_channels_are_shown_and_a_mistake_fails() {
    let one = unique("watch.a");
    let other = unique("watch.b");
    let _channels = (channel(&one), channel(&other));
    let shown = printed(&["watch", "--count", "1"]);
    assert!(shown.contains(&one) && shown.contains(&other), "{shown}");
    for wrong in [&["watch", "nothing-has-this-name"][..], &["watch", "--interval", "0"]] {
        assert!(!shmarray(wrong).status.success());
    }
}
