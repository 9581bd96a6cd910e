//! A second process, which makes an array in a directory and dies, or keeps its memory in its pool.
#![allow(dead_code)] // no test file uses all of it

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use shmarray::{Array, DType, Options, Pipe, Sent};

const DEED: &str = "SHMARRAY_TEST_DEED";
const READY: &str = "the maker is ready";

/// The body of the test `maker` of each file. It does nothing unless it runs in that second
/// process.
pub(crate) fn run() {
    let Ok(deed) = std::env::var(DEED) else { return };
    let array =
        Array::create(DType::parse("<i2").unwrap(), &[200, 200], &Options::default()).unwrap();
    match deed.as_str() {
        "hold" => std::process::abort(),
        "send in a pipe" => {
            let (here, _there) = Pipe::pair().unwrap();
            assert_eq!(here.send(b"", &[&array], None).unwrap(), Sent::Sent);
            std::process::abort();
        }
        "send out of band" => {
            array.handle_to_send().unwrap();
            std::process::abort();
        }
        "keep" => {
            drop(array);
            println!("{READY}");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        deed => panic!("nobody knows how to {deed}"),
    }
}

fn command(deed: &str, directory: &Path, family: Option<u64>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "maker", "--nocapture"])
        .env(DEED, deed)
        .env("SHMARRAY_DIR", directory);
    command.env_remove("SHMARRAY_POOL_BYTES").env_remove("SHMARRAY_FAMILY");
    command.envs(family.map(|family| ("SHMARRAY_FAMILY", family.to_string())));
    command
}

/// Runs a process that makes an array, does `deed` with it, and dies. `family` is the family of the
/// process, or `None` for a new one.
pub(crate) fn dies(deed: &str, directory: &Path, family: Option<u64>) {
    let output = command(deed, directory, family).output().unwrap();
    assert!(output.status.signal().is_some(), "{output:?}");
}

/// A process that keeps the memory of a closed array in its pool, until this object is dropped.
pub(crate) struct IdlePool(Child);

impl IdlePool {
    pub(crate) fn new(directory: &Path, family: Option<u64>) -> Self {
        let mut command = command("keep", directory, family);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
        assert!(said.into_iter().any(|line| line.contains(READY)));
        Self(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for IdlePool {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}
