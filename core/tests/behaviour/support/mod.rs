//! Scenarios in a directory of their own, with peers that are real processes.
#![allow(dead_code, missing_docs, unreachable_pub, unsafe_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use shmarray::{Array, DType, Error, Options};

/// Runs `body` in a process of its own whose `SHMARRAY_DIR` is new, and checks afterwards that the
/// process succeeded and that the directory holds no segment.
///
/// That process runs this program with the one test, whose thread calls this function.
///
/// The pool is off there, so that each file shows an array. `pool.rs` sets its own limit.
///
/// Under Miri there is one process: one scenario after the other, each with a directory of its own.
pub fn scenario(body: impl FnOnce()) {
    let test = this_test();
    if cfg!(miri) {
        return alone(&test, body);
    }
    if std::env::var("SHMARRAY_SCENARIO").is_ok_and(|name| name == test) {
        return body();
    }
    let directory =
        tempfile::Builder::new().prefix("shmtest-").tempdir_in(shared_memory()).unwrap();
    let mut alone = rerun(&test);
    alone.env("SHMARRAY_DIR", directory.path());
    if std::env::var_os(POOL).is_none() {
        alone.env(POOL, "0");
    }
    // Its panic goes to stderr; its line of counts would be counted twice.
    let status = alone.env("SHMARRAY_SCENARIO", &test).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "the scenario {test} failed");
    assert_eq!(segments_in(directory.path()), Vec::<String>::new(), "{test} left segments");
}

/// Returns the name of the test that this thread runs, with its modules. libtest gives it to the
/// thread.
pub fn this_test() -> String {
    let thread = std::thread::current();
    let name = thread.name().filter(|name| *name != "main");
    name.expect("only the thread of a test knows the test").to_owned()
}

/// Returns the name of another test of this program, with its modules.
fn name_of<T: Fn()>(_test: &T) -> &'static str {
    let (_crate, name) = std::any::type_name::<T>().split_once("::").unwrap();
    name
}

/// The variable with the pool's limit in bytes.
pub const POOL: &str = "SHMARRAY_POOL_BYTES";

fn alone(test: &str, body: impl FnOnce()) {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    use_directory(Path::new(&format!("/memory/{test}")));
    // SAFETY: changing the environment needs a process in which nothing reads it: no other scenario
    // runs, and no thread of this one yet.
    unsafe { std::env::set_var(POOL, "0") };
    body();
    assert!(shmarray::segments().unwrap().is_empty(), "{test} left arrays");
    assert_eq!(shmarray::sweep().unwrap(), shmarray::Swept::default(), "{test} left segments");
}

/// Returns the files of segments and names. The registry, an empty file of locks, stays. Under Miri
/// there are no files, so these are the arrays that are listed.
pub fn segments_in(directory: &Path) -> Vec<String> {
    if cfg!(miri) {
        return shmarray::segments().unwrap().iter().map(|info| info.segment.to_string()).collect();
    }
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with("shmarray-registry-")).collect()
}

/// Makes an array of so many bytes, which are zeros.
pub fn bytes(count: u64) -> Array {
    create(count, &Options::default()).unwrap()
}

pub fn create(count: u64, options: &Options) -> Result<Array, Error> {
    Array::create(DType::parse("|u1").unwrap(), &[count], options)
}

/// Returns the directory of the scenario.
pub fn directory() -> PathBuf {
    std::env::var_os("SHMARRAY_DIR").unwrap().into()
}

/// Uses another directory from now on.
pub fn use_directory(path: &Path) {
    // SAFETY: changing the environment needs a process in which nothing reads it, and the callers
    // have one thread.
    unsafe { std::env::set_var("SHMARRAY_DIR", path) };
}

fn shared_memory() -> PathBuf {
    if cfg!(target_os = "linux") { "/dev/shm".into() } else { std::env::temp_dir() }
}

/// Returns a command that runs one test of this program.
fn rerun(test: &str) -> Command {
    let mut command = Command::new(this_program());
    command.args([test, "--exact", "--nocapture", "--include-ignored"]);
    command
}

/// Runs a test in another process, which has nothing of this one but its environment and this
/// variable. Returns whether it succeeded.
pub fn succeeds_elsewhere(test: impl Fn(), variable: &str, value: &str) -> bool {
    let mut command = rerun(name_of(&test));
    command.env(variable, value).stdout(Stdio::null()).status().unwrap().success()
}

/// Returns a path to this program that works also in a process that has become another user, to
/// whom this user's home is closed.
fn this_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        "/proc/self/exe".into()
    } else {
        std::env::current_exe().unwrap()
    }
}

/// Another process, which runs the test `role` with `SHMARRAY_PEER` set and talks by lines.
pub struct Peer {
    pub process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

const MARK: &str = "peer says: ";

impl Peer {
    pub fn start(role: impl Fn()) -> Self {
        let role = name_of(&role);
        let mut command = rerun(role);
        command.env("SHMARRAY_PEER", role).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, input, output }
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Returns the next line that the peer says.
    pub fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the peer ended");
            if let Some((_, said)) = line.trim_end_matches('\n').split_once(MARK) {
                return said.to_owned();
            }
        }
    }

    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.hear()
    }

    /// Does `kill -9`, and waits until the kernel has ended it.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Lets it end by itself.
    pub fn end(mut self) {
        drop(self.input);
        assert!(self.process.wait().unwrap().success());
    }
}

/// Runs in the peer: whether this process is it.
pub fn is_peer() -> bool {
    std::env::var("SHMARRAY_PEER").is_ok_and(|role| role == this_test())
}

/// Runs in the peer: answers each line until there are no more. Does nothing elsewhere.
pub fn serve(mut answer: impl FnMut(&str) -> String) {
    if !is_peer() {
        return;
    }
    for line in std::io::stdin().lines() {
        println!("{MARK}{}", answer(&line.unwrap()));
    }
}

/// A forked child.
#[cfg(target_os = "linux")]
pub struct Forked(i32);

/// Forks. The child does `body` and exits, with its exit handlers.
#[cfg(target_os = "linux")]
pub fn fork(body: impl FnOnce()) -> Forked {
    // SAFETY: a child of a fork has only the thread that forked, and the callers pass a body that
    // needs no other one.
    let pid = unsafe { c::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // The standard library's `exit` takes a lock of its own, which a starting thread may have
        // had at the fork.
        // SAFETY: `exit` takes a number and never returns to this frame.
        unsafe { c::exit(i32::from(outcome.is_err())) };
    }
    Forked(pid)
}

/// Forks a child that does its part and then rests until it is killed. Returns when it rests.
#[cfg(target_os = "linux")]
pub fn resting_after(part: impl FnOnce()) -> Forked {
    let (mut is_done, done) = std::os::unix::net::UnixStream::pair().unwrap();
    let child = fork(|| {
        part();
        (&done).write_all(&[1]).unwrap();
        loop {
            std::thread::park();
        }
    });
    drop(done);
    is_done.read_exact(&mut [0]).unwrap();
    child
}

#[cfg(target_os = "linux")]
impl Forked {
    /// A child that was forked in another way.
    pub fn of(pid: i32) -> Self {
        assert!(pid > 0);
        Self(pid)
    }

    /// Waits for it, and checks that it succeeded.
    pub fn ended(self) {
        assert_eq!(self.wait(), 0, "the child failed");
    }

    /// Does `kill -9`, and waits until the kernel has ended it.
    pub fn kill(self) {
        // SAFETY: the signal reaches no other process, because the pid is a child that nobody has
        // waited for.
        unsafe { c::kill(self.0, 9) };
        self.killed();
    }

    /// Waits for it, and checks that it was killed.
    pub fn killed(self) {
        self.ended_by(9);
    }

    /// Waits for it, and checks that this signal ended it.
    pub fn ended_by(self, signal: i32) {
        assert_eq!(self.wait() & 0x7f, signal);
    }

    pub fn id(&self) -> i32 {
        self.0
    }

    /// Waits for it. Returns its status as the system reports it.
    pub fn wait(&self) -> i32 {
        let mut status = 0;
        // SAFETY: the pointer is valid for the call, because it points to room for the status of a
        // child of this process.
        let waited = unsafe { c::waitpid(self.0, &mut status, 0) };
        assert_eq!(waited, self.0);
        status
    }
}

/// Does `kill -9` of another process's child.
#[cfg(target_os = "linux")]
pub fn kill(pid: i32) {
    // SAFETY: the signal reaches no other process, because the pid is of a process that the test
    // started and has not waited for.
    unsafe { c::kill(pid, 9) };
}

/// Closes an fd without its owner's knowledge.
#[cfg(target_os = "linux")]
pub fn close(fd: i32) {
    // SAFETY: closing an fd is sound when nothing uses it any more, which the test that calls this
    // makes sure of.
    unsafe { c::close(fd) };
}

/// The part of libc that these tests need. It is not a dev-dependency for these few calls.
#[cfg(target_os = "linux")]
mod c {
    unsafe extern "C" {
        pub(super) fn fork() -> i32;
        pub(super) fn exit(status: i32) -> !;
        pub(super) fn close(fd: i32) -> i32;
        pub(super) fn kill(pid: i32, signal: i32) -> i32;
        pub(super) fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    }
}
