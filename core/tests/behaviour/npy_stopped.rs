//! Saving that the caller stops: no file is left, and an older one stays as it was.
#![cfg(not(miri))] // real files

use std::fs;

use shmarray::npy::{Contents, Elements, NpzOptions, save_elements_while, save_npz_while};
use shmarray::{Array, DType, Options};

use crate::support::scenario;

/// Several pieces.
fn large() -> Array {
    Array::create(DType::parse("<f8").unwrap(), &[4, 1 << 18], &Options::new()).unwrap()
}

#[test]
fn a_save_that_is_stopped_leaves_the_older_file() {
    scenario(|| {
        let place = tempfile::tempdir().unwrap();
        let array = large();
        let path = place.path().join("a");
        fs::write(&path, "older").unwrap();
        for times in 0..4 {
            for is_deflated in [None, Some(false), Some(true)] {
                let mut left = times;
                let mut go_on = || {
                    left -= 1;
                    left >= 0
                };
                let elements = Elements::of(&array).unwrap();
                let saved = match is_deflated {
                    None => save_elements_while(&path, &elements, &mut go_on),
                    Some(is_deflated) => {
                        let members = [("a.npy", Contents::Elements(elements))];
                        let options = NpzOptions { is_deflated, threads: 2, align: 0 };
                        save_npz_while(&path, &members, options, &mut go_on)
                    }
                };
                assert!(saved.is_err(), "{is_deflated:?} after {times} times");
                assert_eq!(fs::read(&path).unwrap(), b"older");
                assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
            }
        }
    });
}
