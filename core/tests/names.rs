//! A persistent create that fails because its name is taken leaves nothing behind.
#![cfg(all(target_os = "linux", not(shmarray_portable)))]
#![allow(missing_docs)]

mod support;

use shmarray::{Array, DType, Error, Options};
use support::{directory, scenario, segments_in};

fn persistent(name: &str) -> Result<Array, Error> {
    let options = Options::new().name(name).persist(true);
    Array::create(DType::parse("|u1").unwrap(), &[10], &options)
}

fn given_back() -> u64 {
    shmarray::sweep().unwrap().segments
}

/// Without a name nobody could unlink it, and it would stay for ever.
#[test]
fn an_array_that_would_persist_under_a_taken_name_leaves_nothing() {
    scenario("an_array_that_would_persist_under_a_taken_name_leaves_nothing", || {
        let array = persistent("model").unwrap();
        let before = segments_in(&directory()).len();
        assert!(matches!(persistent("model"), Err(Error::NameExists { .. })));
        assert_eq!(given_back(), 0, "it went when its create failed");
        assert_eq!(segments_in(&directory()).len(), before);
        shmarray::unlink("model").unwrap();
        drop(array);
    });
}
