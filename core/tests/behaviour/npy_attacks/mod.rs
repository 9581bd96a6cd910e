//! Attacks by NPY and NPZ files, each a test with the attack's name: an error says what is wrong
//! and where, no array is left in shared memory, and no half-filled array is handed out.
//!
//! * `making`: the bytes of files and archives, of which each field can be a lie.
//! * `headers`: attacks in the header of an NPY file.
//! * `archives`: attacks in the records of an archive, and `names` in the names of its members.
//! * `bombs`: archives that become large; the peak memory of the process is asserted.
//! * `files`: what is no file, or changes while it is read.
//! * `full`: shared memory that is full, and forks while files are loaded.
//! * `saves`: what must not harm a file that is saved.
//! * `older_files`: what becomes of a file that is saved over.
//! * `hidden_files`: what killed savers, and others, leave under the names of files that are saved.
#![cfg(not(miri))] // real files
#![allow(unsafe_code)]

mod archives;
mod bombs;
#[cfg(any(linux_backend, miri))]
mod files;
#[cfg(any(linux_backend, miri))]
mod full;
mod headers;
mod making;
mod names;
#[cfg(target_os = "linux")]
mod hidden_files;
#[cfg(target_os = "linux")]
mod older_files;
#[cfg(target_os = "linux")]
mod saves;

use shmarray::npy::{Npy, Npz, Source};
use shmarray::{Array, Error, Options};

/// What an error says is wrong.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    file: String,
    member: Option<String>,
    field: &'static str,
    reason: String,
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::InvalidFile { file, member, field, reason } => {
            assert!(!reason.is_empty());
            Refusal { file, member, field, reason }
        }
        error => panic!("not the file is refused: {error}"),
    }
}

fn load_npy(source: Source<'_>) -> Result<Array, Error> {
    Npy::open(source)?.load(&Options::new())
}

/// Returns the arrays of all members.
fn load_npz(source: Source<'_>) -> Result<Vec<Array>, Error> {
    let npz = Npz::open(source)?;
    (0..npz.len()).map(|index| npz.load(index, &Options::new())).collect()
}

/// Loads the file from its path and from memory, and expects one refusal. Returns it without the
/// file.
fn refused_by<T>(bytes: &[u8], load: fn(Source<'_>) -> Result<T, Error>) -> Refusal {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("attack");
    std::fs::write(&path, bytes).unwrap();
    let expect = |loaded: Result<T, Error>| match loaded {
        Ok(_) => panic!("a file of {} bytes is not refused", bytes.len()),
        Err(error) => refusal(error),
    };
    let by_path = expect(Source::file(&path).and_then(load));
    let in_memory = expect(load(Source::bytes(bytes)));
    assert_eq!(by_path.file, path.display().to_string());
    assert_eq!(in_memory.file, "in memory");
    let no_file = |refusal| Refusal { file: String::new(), ..refusal };
    let by_path = no_file(by_path);
    let in_memory = no_file(in_memory);
    assert_eq!(by_path, in_memory);
    assert!(shmarray::segments().unwrap().is_empty(), "arrays are left");
    in_memory
}

/// Returns the field that an NPY file is refused for.
fn npy_field(bytes: &[u8]) -> &'static str {
    refused_by(bytes, load_npy).field
}

/// Returns the member and the field that an archive is refused for.
fn npz_refusal(bytes: &[u8]) -> (Option<String>, &'static str) {
    let refusal = refused_by(bytes, load_npz);
    (refusal.member, refusal.field)
}

/// Returns the field that an archive is refused for, of which the member `a.npy` is at fault.
fn field_of_a(bytes: &[u8]) -> &'static str {
    let (member, field) = npz_refusal(bytes);
    assert_eq!(member.as_deref(), Some("a.npy"), "{field}");
    field
}
