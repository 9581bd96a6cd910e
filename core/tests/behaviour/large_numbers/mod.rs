//! Large numbers: a thousand processes, a hundred thousand arrays, workers that die one after the
//! other.
#![cfg(linux_backend)] // it needs the kernel

mod crowd;
mod many_arrays;
mod many_workers;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::directory;

/// Too large for a shared slab: an array with a file of its own.
const ALONE: u64 = 200_000;

/// Lets as many others go on as bytes are written. None waits for it to be closed.
struct Gate(UnixStream, UnixStream);

impl Gate {
    fn new() -> Self {
        let (read, write) = UnixStream::pair().unwrap();
        Self(read, write)
    }

    fn open(&self, times: usize) {
        (&self.1).write_all(&vec![1; times]).unwrap();
    }

    /// Waits for so many, and checks that each reports success.
    fn wait(&self, times: usize) {
        let mut said = vec![0; times];
        (&self.0).read_exact(&mut said).unwrap();
        assert!(said.iter().all(|fine| *fine == 1), "one of them failed");
    }

    /// Runs `body` and reports whether it succeeded, so that a waiting process learns of a failure
    /// too.
    fn say(&self, body: impl FnOnce()) {
        let fine = catch_unwind(AssertUnwindSafe(body)).is_ok();
        (&self.1).write_all(&[u8::from(fine)]).unwrap();
    }
}

/// Returns the shared memory that the files of the scenario take, in bytes.
fn used_bytes() -> u64 {
    let files = fs::read_dir(directory()).unwrap();
    // A file that was removed meanwhile takes none.
    files.filter_map(|file| Some(file.unwrap().metadata().ok()?.blocks() * 512)).sum()
}
