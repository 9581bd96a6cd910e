//! Anything in place of the registry, at any moment: what is held stays, and in the end nothing is
//! left.
//!
//! An input is a list of pairs: an operation, and its argument. The first byte of a pair, modulo
//! the number of operations:
//!
//! | | does |
//! |---|---|
//! | 0, 1 | makes a small array, or one with a segment to itself |
//! | 2 | makes one with a name; it may persist |
//! | 3, 4 | attaches an array once more; drops what this process has of it |
//! | 5 | replaces the registry: see [`World::replace_registry`] |
//! | 6, 7 | sweeps; lists the segments |
//! | 8 | unlinks a name |
//! | 9 | forks a child, which holds what this process holds |
//! | 10, 11 | makes a child check what it holds and sweep; makes it create an array |
//! | 12, 13 | a child drops everything and ends; a child is killed |
//!
//! After each operation every array that a process holds can be attached and has its value.
//!
//! A process registers once for each directory, for good. So all executions have one directory, and
//! each begins with the registry in which this process registered, which a second link keeps.
#![no_main]

use std::collections::HashSet;
use std::ffi::CString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use shmarray::{Access, Array, DType, Error, Options};

/// The most operations: a fork under AddressSanitizer takes milliseconds.
const MOST_STEPS: usize = 24;
const MOST_CHILDREN: usize = 2;
/// Too large for a shared slab.
const ALONE: u64 = 100_000;
const NAMES: [&str; 3] = ["camera", "lidar", "map"];

/// Limits what AddressSanitizer keeps of freed memory, because a fork takes as long as there are
/// pages.
#[allow(unsafe_code)] // a function that it looks for by this name
#[unsafe(no_mangle)]
extern "C" fn __asan_default_options() -> *const std::ffi::c_char {
    c"quarantine_size_mb=4:thread_local_quarantine_size_kb=64:malloc_context_size=1:\
      detect_stack_use_after_return=0"
        .as_ptr()
}

/// Returns a private directory, made at the first use. A run that was killed leaves it to ci/fuzz.
fn directory() -> &'static PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let parent =
            std::env::var_os("SHMARRAY_DIR").map_or_else(|| "/dev/shm".into(), PathBuf::from);
        let directory = parent.join(format!("shmfuzz-{}", std::process::id()));
        fs::create_dir_all(directory.join("shm")).unwrap();
        #[allow(unsafe_code)]
        // SAFETY: changing the environment needs a process in which nothing reads it: the fuzzer
        // calls this from one thread, before the first use of the library.
        unsafe {
            std::env::set_var("SHMARRAY_DIR", directory.join("shm"));
        }
        #[allow(unsafe_code)]
        // SAFETY: changing the environment is sound here for the reason given for the directory
        // just before. Without a pool each file there shows an array.
        unsafe {
            std::env::set_var("SHMARRAY_POOL_BYTES", "0");
        }
        drop(create(1, 0, &Options::default()).unwrap()); // registers this process
        let registry = fs::read_dir(directory.join("shm")).unwrap().next().unwrap().unwrap().path();
        fs::hard_link(&registry, directory.join("registry")).unwrap();
        fs::write(directory.join("target"), []).unwrap();
        directory
    })
}

fn registry() -> PathBuf {
    #[allow(unsafe_code)]
    // SAFETY: the call cannot touch memory, because it takes no arguments, and it cannot fail.
    let user = unsafe { libc::geteuid() };
    directory().join(format!("shm/shmarray-registry-{user}"))
}

fn make_fifo(path: &Path) -> std::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    #[allow(unsafe_code)]
    // SAFETY: the pointer is valid for the call, because the C string it points to outlives it.
    match unsafe { libc::mkfifo(path.as_ptr(), 0o600) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Returns the files of segments and names.
fn listed() -> Vec<String> {
    let entries = fs::read_dir(directory().join("shm")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with("shmarray-registry-")).collect()
}

/// Makes an array of bytes, the last of which has that value.
fn create(count: u64, value: u8, options: &Options) -> Result<Array, Error> {
    let array = Array::create(DType::parse("|u1")?, &[count], options)?;
    array.set(&[count - 1], value)?;
    Ok(array)
}

fn value_of(array: &Array) -> u8 {
    array.get(&[array.shape()[0] - 1]).unwrap()
}

/// An array that some process made.
struct MadeArray {
    handle: String,
    value: u8,
    /// The arrays of this process.
    ours: Vec<Array>,
    /// The children that hold it, by pid.
    children: HashSet<i32>,
    /// Whether it stays while its name does, without holders.
    persists: bool,
    name: Option<&'static str>,
}

impl MadeArray {
    fn new(handle: String, value: u8) -> Self {
        Self {
            handle,
            value,
            ours: Vec::new(),
            children: HashSet::new(),
            persists: false,
            name: None,
        }
    }

    fn is_held(&self) -> bool {
        self.persists || !self.ours.is_empty() || !self.children.is_empty()
    }

    fn is_intact(&self) {
        assert!(self.ours.iter().all(|array| value_of(array) == self.value), "{}", self.handle);
        let named = self.name.map(ToOwned::to_owned);
        for what in [Some(self.handle.clone()), named].into_iter().flatten() {
            match Array::attach(&what, Access::ReadOnly) {
                Ok(array) => assert_eq!(value_of(&array), self.value, "{what}"),
                Err(error) => panic!("what somebody holds cannot be attached: {error}"),
            }
        }
    }
}

/// A forked process, which does as it is told in lines.
struct Child {
    pid: i32,
    tell: UnixStream,
    hear: BufReader<UnixStream>,
}

impl Child {
    fn ask(&mut self, command: &str) -> String {
        writeln!(self.tell, "{command}").unwrap();
        let mut said = String::new();
        assert!(self.hear.read_line(&mut said).unwrap() > 0, "a child broke");
        said.trim_end().to_owned()
    }

    /// Waits until the kernel has ended it.
    fn wait(self) {
        #[allow(unsafe_code)]
        // SAFETY: the pid is still this process's child, because nobody has waited for it, and a
        // null status is not written.
        let waited = unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
        assert_eq!(waited, self.pid);
    }

    fn kill(self) {
        #[allow(unsafe_code)]
        // SAFETY: the signal reaches no other process, because the pid is a child that nobody has
        // waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL)
        };
        self.wait();
    }
}

/// The life of a child that has what its parent had at the fork. It ends without exit handlers,
/// which would be the fuzzer's too.
fn live(mut held: Vec<(Array, u8)>, line: UnixStream) -> ! {
    let mut answer = line.try_clone().unwrap();
    for command in BufReader::new(line).lines().map_while(Result::ok) {
        let said = match command.split_once(' ') {
            Some((_, value)) => match create(100, value.parse().unwrap(), &Options::default()) {
                Ok(array) => {
                    let handle = array.handle();
                    held.push((array, value.parse().unwrap()));
                    handle
                }
                Err(error) => panic!("a child cannot make an array: {error}"),
            },
            None if command == "look" => {
                held.iter().for_each(|(array, value)| assert_eq!(value_of(array), *value));
                sweep();
                "saw".to_owned()
            }
            None => {
                held.clear();
                "let go".to_owned()
            }
        };
        writeln!(answer, "{said}").unwrap();
    }
    #[allow(unsafe_code)]
    // SAFETY: the call cannot touch memory, because it takes a number and ends this process at
    // once.
    unsafe {
        libc::_exit(0)
    }
}

/// Sweeps. A sweep may meet a name that it cannot remove without the registry, and reports it.
/// Returns whether the sweep was complete.
fn sweep() -> bool {
    let swept = shmarray::sweep();
    let of_registry = |error: &Error| error.to_string().contains("shmarray-registry-");
    assert!(swept.as_ref().err().is_none_or(of_registry), "{swept:?}");
    swept.is_ok()
}

#[derive(Default)]
struct World {
    shared: Vec<MadeArray>,
    children: Vec<Child>,
    registry_is_a_file: bool,
}

fn chosen<T>(from: &mut [T], what: u8) -> Option<&mut T> {
    let count = from.len();
    from.get_mut(usize::from(what) % count.max(1))
}

impl World {
    fn begin() -> Self {
        let kept = directory().join("registry");
        fs::OpenOptions::new().write(true).open(&kept).unwrap().set_len(0).unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).unwrap();
        let mut world = Self::default();
        world.replace_registry(0);
        world
    }

    /// Replaces the registry by 0 the one in which this process registered; 1 none; 2 and 3 a file
    /// of noise, one that cannot be written; 4 a directory; 5, 6 and 7 links to nothing, a file and
    /// a directory; 8 a FIFO; 9 noise in the file that is there.
    fn replace_registry(&mut self, what: u8) {
        let path = registry();
        let noise = vec![what; usize::from(what) * 37];
        if what % 10 == 9 {
            return if self.registry_is_a_file {
                fs::write(&path, noise).unwrap()
            };
        }
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        self.registry_is_a_file = what % 10 < 4;
        match what % 10 {
            0 => fs::hard_link(directory().join("registry"), path),
            1 => Ok(()),
            2 => fs::write(path, noise),
            3 => fs::write(&path, noise)
                .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o400))),
            4 => fs::create_dir(path),
            8 => make_fifo(&path),
            link => {
                symlink(directory().join(["nothing", "target", "shm"][usize::from(link) - 5]), path)
            }
        }
        .unwrap();
    }

    fn make(&mut self, count: u64, value: u8) {
        let array = create(count, value, &Options::default())
            .expect("an array can be made whatever the registry is");
        let shared = MadeArray::new(array.handle(), value);
        self.shared.push(MadeArray { ours: vec![array], ..shared });
    }

    /// A name is free when nobody holds its array. Without a registry the dead may keep it.
    fn make_named(&mut self, what: u8) {
        let name = NAMES[usize::from(what) % NAMES.len()];
        let taken = self.shared.iter().any(|shared| shared.name == Some(name) && shared.is_held());
        let persist = what & 0x80 != 0;
        match create(9, what, &Options::new().name(name).persist(persist)) {
            Ok(array) => {
                assert!(!taken, "{name} is another's");
                self.lose_name(name);
                let shared = MadeArray::new(array.handle(), what);
                self.shared.push(MadeArray {
                    ours: vec![array],
                    name: Some(name),
                    persists: persist,
                    ..shared
                });
            }
            Err(Error::NameExists { .. }) => {
                assert!(taken || !self.registry_is_a_file, "{name} is nobody's")
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn lose_name(&mut self, name: &str) {
        for shared in self.shared.iter_mut().filter(|shared| shared.name == Some(name)) {
            (shared.name, shared.persists) = (None, false);
        }
    }

    fn unlink(&mut self, what: u8) {
        let name = NAMES[usize::from(what) % NAMES.len()];
        let is_there =
            self.shared.iter().any(|shared| shared.name == Some(name) && shared.is_held());
        match shmarray::unlink(name) {
            Ok(()) => self.lose_name(name),
            Err(Error::NameNotFound { .. }) => assert!(!is_there, "{name} is lost"),
            Err(error) => assert!(!self.registry_is_a_file, "{error}"),
        }
    }

    fn attach(&mut self, what: u8) {
        let Some(shared) = chosen(&mut self.shared, what).filter(|shared| shared.is_held()) else {
            return;
        };
        shared
            .ours
            .push(Array::attach(&shared.handle, Access::ReadWrite).expect("somebody holds it"));
    }

    fn fork(&mut self) {
        if self.children.len() == MOST_CHILDREN {
            return;
        }
        let (ours, its) = UnixStream::pair().unwrap();
        #[allow(unsafe_code)]
        // SAFETY: a child of a fork may do little, because it has one thread: it only runs `live`,
        // which needs no other thread.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            drop(ours);
            let shared = std::mem::take(&mut self.shared);
            let held =
                |shared: MadeArray| shared.ours.into_iter().map(move |array| (array, shared.value));
            live(shared.into_iter().flat_map(held).collect(), its);
        }
        for shared in self.shared.iter_mut().filter(|shared| !shared.ours.is_empty()) {
            shared.children.insert(pid);
        }
        self.children.push(Child {
            pid,
            hear: BufReader::new(ours.try_clone().unwrap()),
            tell: ours,
        });
    }

    fn child_makes(&mut self, what: u8) {
        let Some(child) = chosen(&mut self.children, what) else { return };
        let handle = child.ask(&format!("make {what}"));
        let children = HashSet::from([child.pid]);
        self.shared.push(MadeArray { children, ..MadeArray::new(handle, what) });
    }

    fn child_ends(&mut self, what: u8, by_itself: bool) {
        if self.children.is_empty() {
            return;
        }
        let mut child = self.children.swap_remove(usize::from(what) % self.children.len());
        for shared in &mut self.shared {
            shared.children.remove(&child.pid);
        }
        if by_itself {
            assert_eq!(child.ask("let-go"), "let go");
        }
        child.kill();
    }

    fn step(&mut self, does: u8, what: u8) {
        match does % 14 {
            0 => self.make(u64::from(what) + 1, what),
            1 => self.make(ALONE + u64::from(what), what),
            2 => self.make_named(what),
            3 => self.attach(what),
            4 => chosen(&mut self.shared, what).into_iter().for_each(|shared| shared.ours.clear()),
            5 => self.replace_registry(what),
            6 => drop(sweep()),
            7 => drop(shmarray::segments().unwrap()),
            8 => self.unlink(what),
            9 => self.fork(),
            10 => chosen(&mut self.children, what)
                .into_iter()
                .for_each(|child| assert_eq!(child.ask("look"), "saw")),
            11 => self.child_makes(what),
            12 => self.child_ends(what, true),
            _ => self.child_ends(what, false),
        }
        self.shared.iter().filter(|shared| shared.is_held()).for_each(MadeArray::is_intact);
    }

    /// Drops all holds. What has no name goes whatever the registry is, if the sweep was complete;
    /// with a registry all of it goes.
    fn end(mut self) {
        (0..self.children.len()).for_each(|_| self.child_ends(0, true));
        self.shared.iter_mut().for_each(|shared| shared.ours.clear());
        let persist = self.shared.iter().filter(|shared| shared.persists).count();
        if sweep() {
            assert_eq!(listed().len(), 2 * persist, "{:?}", listed());
        }
        self.replace_registry(0);
        for name in NAMES {
            let unlinked = shmarray::unlink(name);
            assert!(matches!(unlinked, Ok(()) | Err(Error::NameNotFound { .. })), "{unlinked:?}");
        }
        assert!(sweep(), "the registry is whole");
        assert_eq!(listed(), Vec::<String>::new());
    }
}

fuzz_target!(|input: &[u8]| {
    let mut world = World::begin();
    input.chunks_exact(2).take(MOST_STEPS).for_each(|pair| world.step(pair[0], pair[1]));
    world.end();
});
