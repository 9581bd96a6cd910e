//! `shmarray watch`, beside a channel in use.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

mod run;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

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
    let first = &looks[0]["channels"][0];
    let last = &looks[2]["channels"][0];
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
    assert!(shown.starts_with("arrays ") && shown.contains(" bytes free\n"), "{shown}");
    for wrong in [&["watch", "nothing-has-this-name"][..], &["watch", "--interval", "0"]] {
        assert!(!shmarray(wrong).status.success());
    }
}

#[test]
fn show_shows_a_channel_by_its_name_and_by_its_handle() {
    let name = unique("watch.show");
    let (sends, _receives) = channel(&name);
    for text in [&name, &sends.handle()] {
        let shown = printed(&["show", text]);
        assert!(shown.contains(": broadcast of [4] <f4, when full: drop_oldest\n"), "{shown}");
        assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
    }
}

#[test]
fn an_array_is_watched_until_it_is_given_back() {
    let name = unique("watch.array");
    let options = Options::new().name(&name);
    let array = Array::create(DType::parse("<f4").unwrap(), &[4], &options).unwrap();
    for text in [&name, &array.handle()] {
        let look = printed(&["watch", text, "--count", "1", "--json"]);
        let look: serde_json::Value = serde_json::from_str(&look).unwrap();
        assert_eq!(look["array"]["name"], *name);
        assert_eq!(look["array"]["holders"][0]["pid"], std::process::id());
    }
    let mut watch = Command::new(env!("CARGO_BIN_EXE_shmarray"))
        .args(["watch", &name, "--interval", "0.01"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.ends_with(&name)));
    drop(array);
    assert_eq!(lines.last().unwrap(), "the array has been given back");
    assert!(watch.wait().unwrap().success());
}

/// The names and values of samples, by the line.
#[test]
fn metrics_are_those_that_watch_shows() {
    let name = unique("watch.metrics");
    let (_sends, _receives) = channel(&name);
    let text = printed(&["metrics"]);
    for sample in [
        format!("shmarray_channel_messages_total{{channel=\"{name}\"}} 20\n"),
        format!("shmarray_channel_dropped_total{{channel=\"{name}\"}} 18\n"),
        format!("shmarray_channel_slots{{channel=\"{name}\",state=\"loaned\"}} 0.0\n"),
        "# TYPE shmarray_segment_bytes gauge\n".to_owned(),
        "shmarray_directory_free_bytes{directory=".to_owned(),
    ] {
        assert!(text.contains(&sample), "{sample} is not in {text}");
    }
    assert!(text.ends_with("# EOF\n"));
}
