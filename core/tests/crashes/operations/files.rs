//! Saving files: the older file or the new one is there, and the next save in that folder removes
//! what else is left.

use std::fs;
use std::path::{Path, PathBuf};

use shmarray::npy::{Npy, Source, save};
use shmarray::{Error, Options};

use super::{Operation, PLAIN, Traced};
use crate::actions::without_unnamed_files;
use crate::stage::{NEW, Stage, new};

/// The lengths of the older file, of the one that is saved, and of the one afterwards.
const OLDER: u64 = 300;
const SAVED: u64 = NEW;
const AFTERWARDS: u64 = 100;
/// The hidden names beside the first. Each save looks at one of them.
const OTHER_NAMES: usize = 7;

pub(super) static ROWS: &[Operation] = &[
    Operation { name: "save a file", prepare: |stage| save_in(stage), then: is_whole, ..PLAIN },
    Operation {
        name: "save over an older file",
        prepare: |stage| {
            make_older(stage);
            save_in(stage)
        },
        then: is_whole,
        ..PLAIN
    },
    Operation {
        name: "save over an older file, beside what a killed saver left",
        prepare: |stage| {
            make_older(stage);
            fs::write(stage.files().join(".shmarray-0.tmp"), "left").unwrap();
            save_in(stage)
        },
        then: is_whole,
        ..PLAIN
    },
    Operation {
        name: "save over an older file, without unnamed files",
        prepare: |stage| {
            make_older(stage);
            without_unnamed_files(save_in(stage))
        },
        then: is_whole,
        ..PLAIN
    },
    Operation {
        name: "save in place of a file with two names",
        prepare: |stage| {
            make_older(stage);
            fs::hard_link(path_of(stage), stage.files().join("other")).unwrap();
            save_in(stage)
        },
        then: |stage| is_as(stage, true),
        least: 20,
        ..PLAIN
    },
];

fn path_of(stage: &Stage) -> PathBuf {
    stage.files().join("a.npy")
}

fn make_older(stage: &Stage) {
    fs::create_dir_all(stage.files()).unwrap();
    save_zeros(&path_of(stage), OLDER).unwrap();
}

fn save_zeros(path: &Path, count: u64) -> Result<(), Error> {
    save(path, &new(count, &Options::new())?)
}

fn length_of(path: &Path) -> Result<u64, Error> {
    Ok(Npy::open(Source::file(path)?)?.load(&Options::new())?.shape()[0])
}

fn save_in(stage: &Stage) -> Traced {
    fs::create_dir_all(stage.files()).unwrap();
    let path = path_of(stage);
    let array = new(SAVED, &Options::new()).unwrap();
    Box::new(move || {
        save(path, &array).unwrap();
        vec![array].into()
    })
}

fn is_whole(stage: &Stage) {
    is_as(stage, false);
}

/// Looks at the file. One that was to be written in place may be none that is loaded.
fn is_as(stage: &Stage, may_be_refused: bool) {
    let folder = stage.files();
    let path = path_of(stage);
    match length_of(&path) {
        Ok(length) => assert!([OLDER, SAVED].contains(&length), "{length} elements"),
        Err(Error::FileNotFound { .. }) => {}
        Err(Error::InvalidFile { .. }) if may_be_refused => {}
        Err(error) => panic!("{error}"),
    }
    save_zeros(&path, AFTERWARDS).unwrap();
    assert!(!stage.files().join(".shmarray-0.tmp").exists());
    (0..OTHER_NAMES).for_each(|_| save_zeros(&path, AFTERWARDS).unwrap());
    assert_eq!(length_of(&path).unwrap(), AFTERWARDS);
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name != "a.npy" && name != "other").collect();
    assert!(left.is_empty(), "{left:?}");
    fs::remove_dir_all(folder).unwrap();
}
