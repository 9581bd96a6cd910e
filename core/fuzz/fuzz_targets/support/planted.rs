//! A file that the fuzzer made: its corrections, its directory, and mutations of its fields.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzzer_mutate;

pub const ID: &str = "fuzzfuzzfuzzfuzzfuzzfuzz";
pub const NAME: &str = "fuzz";

/// Returns a private directory, made at the first use. A run that was killed leaves it to ci/fuzz.
pub fn directory() -> &'static PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let parent =
            std::env::var_os("SHMARRAY_DIR").map_or_else(|| "/dev/shm".into(), PathBuf::from);
        let directory = parent.join(format!("shmfuzz-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        #[allow(unsafe_code)]
        // SAFETY: changing the environment needs a process in which nothing reads it: the fuzzer
        // has one thread, and this is its first use of the library.
        unsafe {
            std::env::set_var("SHMARRAY_DIR", &directory);
        }
        directory
    })
}

pub fn segment_path() -> PathBuf {
    directory().join(format!("shmarray-{ID}"))
}

pub fn name_path() -> PathBuf {
    directory().join(format!("shmarray-name-{NAME}"))
}

/// Returns the file with those parts overwritten whose bits are set, as far as the file reaches. A
/// part is a bit, an offset and the bytes there.
pub fn corrected(bits: u8, bytes: &[u8], parts: &[(u8, usize, &[u8])]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    for (_, offset, part) in parts.iter().filter(|(bit, ..)| bits & 1 << bit != 0) {
        file.iter_mut().skip(*offset).zip(*part).for_each(|(to, byte)| *to = *byte);
    }
    file
}

/// Puts the file under its id and its name, whatever the last attempt gave back of it. An id
/// belongs to one file, ever, so cached mappings of the last file, which a sweep evicts, are not
/// this one's.
pub fn put_file(file: &[u8]) {
    let _ = shmarray::sweep();
    remove_file();
    let mut options = fs::OpenOptions::new();
    let options =
        std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), 0o600);
    options.open(segment_path()).unwrap().write_all(file).unwrap();
    fs::hard_link(segment_path(), name_path()).unwrap();
}

pub fn remove_file() {
    let _ = fs::remove_file(segment_path());
    let _ = fs::remove_file(name_path());
}

/// Checks that the directory has nothing but the registry.
pub fn assert_nothing_is_left() {
    let entries = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> =
        entries.filter(|name| !name.to_string_lossy().starts_with("shmarray-registry-")).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Mutates an input whose first byte precedes the file. Half of the mutations change bytes of one
/// field, given by its start and its end in the file; the others change any.
pub fn mutate(
    input: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    fields: &[(usize, usize)],
) -> usize {
    let (start, end) = fields[seed as usize / 2 % fields.len()];
    if seed % 2 == 0 || size <= end {
        return fuzzer_mutate(input, size, max_size);
    }
    let mut field = input[1 + start..(1 + end).min(size)].to_vec();
    let room = field.len();
    fuzzer_mutate(&mut field, room, room);
    input[1 + start..1 + start + room].copy_from_slice(&field);
    size
}
