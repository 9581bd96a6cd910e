//! A name leads to the array that it was given to: a create that finds it taken leaves nothing
//! behind, and a copied file is not the array that it was copied from.
#![cfg(any(linux_backend, miri))]

#[cfg(not(miri))]
use shmarray::Access;
use shmarray::{Array, Error, Options};

use crate::support::{create, directory, scenario, segments_in};

fn persistent(name: &str) -> Result<Array, Error> {
    let options = Options::new().name(name).persist(true);
    create(10, &options)
}

fn given_back() -> u64 {
    shmarray::sweep().unwrap().segments
}

/// Without a name nobody could unlink it, and it would stay for ever.
#[test]
fn an_array_that_would_persist_under_a_taken_name_leaves_nothing() {
    scenario(|| {
        let array = persistent("model").unwrap();
        let before = segments_in(&directory()).len();
        assert!(matches!(persistent("model"), Err(Error::NameExists { .. })));
        assert_eq!(given_back(), 0, "it went when its create failed");
        assert_eq!(segments_in(&directory()).len(), before);
        shmarray::unlink("model").unwrap();
        drop(array);
    });
}

/// The copy's header has the id of the original, which an unlink of the copy would give back.
#[cfg(not(miri))] // its stand-in for the kernel has no files
#[test]
fn a_copy_of_a_file_under_another_name_is_refused_and_unlinking_it_keeps_the_original() {
    scenario(|| {
        let handle = persistent("model").unwrap().handle();
        let [model, copy] = ["model", "copy"].map(|name| format!("shmarray-name-{name}"));
        std::fs::copy(directory().join(model), directory().join(&copy)).unwrap();
        for held in [None, Some(Array::attach("model", Access::ReadOnly).unwrap())] {
            let refused = Array::attach("copy", Access::ReadWrite).unwrap_err();
            assert!(matches!(refused, Error::InvalidSegment { field: "id", .. }), "{refused}");
            drop(held);
        }
        shmarray::unlink("copy").unwrap();
        assert!(!directory().join(copy).exists());
        shmarray::sweep().unwrap();
        for text in [&handle, "model"] {
            Array::attach(text, Access::ReadWrite).unwrap();
        }
        shmarray::unlink("model").unwrap();
    });
}
