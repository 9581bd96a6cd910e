//! What the commands print, of arrays that another process holds.
#![allow(missing_docs)]

use std::process::{Command, Output};

use shmarray::{Array, DType, Options};

/// The command, in this process's directory of segments.
fn shmarray(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shmarray")).args(arguments).output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = shmarray(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn named(name: &str) -> Array {
    let options = Options { name: Some(name.to_owned()), ..Options::default() };
    let array = Array::create(DType::parse("<i2").unwrap(), &[2, 2], &options).unwrap();
    for (place, value) in [1i16, -2, 3, 6].into_iter().enumerate() {
        array.set(&[place as u64 / 2, place as u64 % 2], value).unwrap();
    }
    array
}

/// A name that no other test or run of it has.
fn unique(name: &str) -> String {
    format!("{name}.{}", std::process::id())
}

#[test]
fn show_prints_values_and_statistics() {
    let name = unique("cli.show");
    let array = named(&name);
    for how in [name, array.transpose().handle().to_text()] {
        let shown = printed(&["show", &how]);
        assert!(shown.contains("minimum  -2\nmean     2\nmaximum  6"), "{shown}");
    }
    assert!(printed(&["show", &array.transpose().handle().to_text()]).contains("values   1 3 -2 6"));
}

#[test]
fn ls_lists_an_array_and_rm_takes_its_name_away() {
    let name = unique("cli.ls");
    let array = named(&name);
    assert!(printed(&["ls"]).contains(&name));
    let json: serde_json::Value = serde_json::from_str(&printed(&["ls", "--json"])).unwrap();
    let listed = json.as_array().unwrap().iter().find(|one| one["name"] == name.as_str()).unwrap();
    assert_eq!((&listed["dtype"], &listed["shape"]), (&"<i2".into(), &serde_json::json!([2, 2])));
    assert_eq!(listed["holders"][0]["pid"], std::process::id());
    assert_eq!((&listed["tickets"], &listed["persists"]), (&0.into(), &false.into()));
    assert!(printed(&["ls"]).contains(&format!("{} commands-", std::process::id())));
    printed(&["rm", &name]);
    assert!(!shmarray(&["show", &name]).status.success());
    assert_eq!(array.get::<i16>(&[1, 1]).unwrap(), 6);
}

/// What `ls --json` says of an array.
fn listed(array: &Array) -> Option<serde_json::Value> {
    let all: Vec<serde_json::Value> = serde_json::from_str(&printed(&["ls", "--json"])).unwrap();
    all.into_iter().find(|one| one["segment"] == array.handle().segment.to_string())
}

#[test]
fn ls_tells_a_cell_by_its_number_and_counts_the_messages_that_hold() {
    let array = Array::create(DType::parse("<i2").unwrap(), &[3], &Options::default()).unwrap();
    let handle = array.handle_to_send().unwrap().to_text();
    let text = array.handle().segment.to_string();
    assert!(text.contains('.'), "{text}");
    assert_eq!(listed(&array).unwrap()["tickets"], 1);
    assert!(printed(&["ls"]).lines().any(|line| line.starts_with(&text)));
    assert!(printed(&["show", &array.handle().to_text()]).contains(&text));
    shmarray::discard(&handle).unwrap();
    assert_eq!(listed(&array).unwrap()["tickets"], 0);
}

#[test]
fn ls_says_what_persists() {
    let name = unique("cli.kept");
    let options = Options { name: Some(name.clone()), persist: true, ..Options::default() };
    let array = Array::create(DType::parse("<i2").unwrap(), &[3], &options).unwrap();
    assert_eq!(listed(&array).unwrap()["persists"], true);
    printed(&["rm", &name]);
    assert_eq!(listed(&array).unwrap()["persists"], false);
}

#[test]
fn a_mistake_is_told_and_fails() {
    let output = shmarray(&["show", "nobody.at.all"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no array is named \"nobody.at.all\""));
    assert!(printed(&["sweep"]).starts_with("gave back "));
}
