//! Today's library and an invented next version of it, which has a feature bit of each kind.
//!
//! This program is the next version: it is built with the cfg `shmarray_next`. Today's are the
//! command and the Python package that are installed.
#![cfg(shmarray_next)]
#![allow(missing_docs, unsafe_code)]

use std::process::{Command, Output};

use shmarray::{Access, Array, Channel, ChannelOptions, DType, Options};

#[path = "behaviour/support/mod.rs"]
mod support;

use support::{directory, resting_after, scenario, segments_in};

/// Lets new segments have a feature: "required", "optional", or none.
fn next(feature: &str) {
    // SAFETY: changing the environment needs a process in which nothing reads it, and no other
    // thread of a scenario does.
    unsafe { std::env::set_var("SHMARRAY_NEXT", feature) };
}

fn numbers(options: &Options) -> Array {
    let array = Array::create(DType::parse("<i4").unwrap(), &[3], options).unwrap();
    (0..3).for_each(|index| array.set(&[index], 40 + index as i32).unwrap());
    array
}

/// Runs today's command.
fn today(arguments: &[&str]) -> Output {
    Command::new("shmarray").args(arguments).output().unwrap()
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Runs today's Python package.
fn python(code: &str) -> String {
    succeeds(&Command::new("python").args(["-c", code]).output().unwrap())
}

#[track_caller]
fn is_told_the_version(output: &Output) {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!output.status.success() && said.contains("of shmarray 9.8.7"), "{output:?}");
}

#[test]
fn today_reads_writes_and_removes_what_has_an_optional_feature() {
    scenario(|| {
        next("optional");
        let array = numbers(&Options::new().name("numbers").persist(true));
        assert!(succeeds(&today(&["show", "numbers"])).contains("40 41 42"));
        assert_eq!(python("import shmarray; shmarray.attach('numbers')[1] = 7"), "");
        assert_eq!(array.get::<i32>(&[1]).unwrap(), 7);
        succeeds(&today(&["rm", "numbers"]));
        assert!(Array::attach("numbers", Access::ReadWrite).is_err());
    });
}

#[test]
fn the_next_version_reads_and_writes_what_today_has_made() {
    scenario(|| {
        python("import shmarray; shmarray.array([1, 2, 3], 'i4', name='numbers', persist=True)");
        let array = Array::attach("numbers", Access::ReadWrite).unwrap();
        array.set(&[1], 7i32).unwrap();
        let code = "import shmarray; print(shmarray.attach('numbers'))";
        assert_eq!(python(code), "[1 7 3]\n");
        shmarray::unlink("numbers").unwrap();
    });
}

#[test]
fn today_is_told_which_version_a_required_feature_needs_and_leaves_it_alone() {
    scenario(|| {
        next("required");
        let array = numbers(&Options::new().name("numbers").persist(true));
        let handle = array.handle();
        for words in [["show", "numbers"], ["show", &handle], ["rm", "numbers"]] {
            is_told_the_version(&today(&words));
        }
        let options = ChannelOptions::new();
        let i4 = DType::parse("<i4").unwrap();
        let _channel = Channel::create("stream", i4, &[2], &options).unwrap();
        is_told_the_version(&today(&["watch", "stream"]));
        succeeds(&today(&["ls"]));
        drop(array);
        succeeds(&today(&["sweep"]));
        let array = Array::attach("numbers", Access::ReadWrite).unwrap();
        assert_eq!(array.get::<i32>(&[2]).unwrap(), 42);
        shmarray::unlink("numbers").unwrap();
    });
}

#[test]
fn what_a_dead_process_left_is_left_to_a_version_that_knows_it() {
    scenario(|| {
        next("required");
        resting_after(|| std::mem::forget(numbers(&Options::new()))).kill();
        assert_eq!(segments_in(directory().as_ref()).len(), 1);
        succeeds(&today(&["sweep"]));
        assert_eq!(segments_in(directory().as_ref()).len(), 1);
        shmarray::sweep().unwrap();
    });
}
