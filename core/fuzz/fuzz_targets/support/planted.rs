//! A file that the fuzzer made, in a directory of its own, under an id and a name.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

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

/// Overwrites a part of the file, as far as the file reaches.
pub fn put(file: &mut [u8], offset: usize, bytes: &[u8]) {
    for (to, byte) in file.iter_mut().skip(offset).zip(bytes) {
        *to = *byte;
    }
}

/// Puts the file under its id and its name, whatever the last attempt gave back of it. An id
/// belongs to one file, ever, so cached mappings of the last file, which a sweep evicts, are not
/// this one's.
pub fn put_file(file: &[u8]) {
    let _ = shmarray::sweep();
    let _ = fs::remove_file(segment_path());
    let _ = fs::remove_file(name_path());
    let mut options = fs::OpenOptions::new();
    let options =
        std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), 0o600);
    options.open(segment_path()).unwrap().write_all(file).unwrap();
    fs::hard_link(segment_path(), name_path()).unwrap();
}
