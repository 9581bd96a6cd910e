//! Scenarios under a watchdog: a process that hangs is killed, and the test says what it waited
//! for.
#![allow(dead_code, unsafe_code, reason = "each test uses some of it")]

use std::ffi::CString;
use std::fs;
use std::io::{Error as Os, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, UnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    Forked, POOL, directory, fork, scenario, segments_in, this_test, use_directory,
};

/// The pool of the processes in a scenario.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pool {
    Off,
    Bytes(u64),
    /// As for a user who sets nothing.
    Default,
}

/// Runs a scenario that must come to an end. When it waits for one thing for longer than the
/// watchdog allows, or fails, all of its processes are killed.
pub(crate) fn watched(pool: Pool, body: impl FnOnce()) {
    scenario(|| {
        // SAFETY: the call cannot touch memory, because it takes plain numbers. All processes of
        // the scenario are in its group.
        unsafe { libc::setpgid(0, 0) };
        set_pool(pool);
        wait_for("the beginning of the scenario");
        thread::spawn(watch);
        let outcome = catch_unwind(AssertUnwindSafe(body));
        if outcome.is_err() {
            kill_group();
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

fn set_pool(pool: Pool) {
    let limit = match pool {
        Pool::Default => "", // the same as unset
        Pool::Off => "0",
        Pool::Bytes(bytes) => &bytes.to_string(),
    };
    // SAFETY: changing the environment needs a process in which nothing reads it, and no other
    // thread of the scenario's process does so yet.
    unsafe { std::env::set_var(POOL, limit) };
}

/// What the scenario waits for now, and since when.
static WAITED_FOR: Mutex<Option<(String, Instant)>> = Mutex::new(None);

/// Records what the scenario waits for from now on. The watchdog starts anew.
pub(crate) fn wait_for(what: impl Into<String>) {
    *WAITED_FOR.lock().unwrap_or_else(PoisonError::into_inner) =
        Some((what.into(), Instant::now()));
}

/// Returns two minutes, for what takes less than a second. `SHMARRAY_WATCHDOG_SECONDS` is for runs
/// in which a hang is expected.
pub(crate) fn patience() -> Duration {
    let seconds =
        std::env::var("SHMARRAY_WATCHDOG_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(120))
}

fn watch() {
    let patience = patience();
    loop {
        let left = {
            let waited_for = WAITED_FOR.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((what, since)) = &*waited_for else { return };
            if since.elapsed() > patience {
                eprintln!("\nthe watchdog waited {} s for {what}", patience.as_secs());
                kill_group();
            }
            patience.saturating_sub(since.elapsed())
        };
        thread::park_timeout(left + Duration::from_millis(1));
    }
}

fn kill_group() {
    // SAFETY: the signal reaches no other process, because the group is the one that `watched`
    // made, with this process in it.
    unsafe { libc::kill(0, libc::SIGKILL) };
}

/// Whether this process may become other users and mount. If not, prints that the test is skipped.
pub(crate) fn is_root_or_skips() -> bool {
    // SAFETY: the call cannot touch memory, because it takes no arguments, and it cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        eprintln!("\nskipped {}: it needs root", this_test());
    }
    is_root
}

/// Runs such a scenario if this process is root's.
pub(crate) fn watched_as_root(pool: Pool, body: impl FnOnce()) {
    if is_root_or_skips() {
        watched(pool, body);
    }
}

/// Sets the mode of the directory as /dev/shm has it: all may make files, and only their owners
/// remove them.
pub(crate) fn open_to_all() {
    fs::set_permissions(directory(), fs::Permissions::from_mode(0o1777)).unwrap();
}

pub(crate) fn make_fifo(path: &Path) {
    let mut mkfifo = Command::new("mkfifo");
    assert!(mkfifo.args(["-m", "666"]).arg(path).status().unwrap().success());
}

/// Makes this process another user's from now on, without other groups.
pub(crate) fn become_user(user: u32) {
    // SAFETY: the null list of groups is not read, because the length that is passed is zero.
    assert_eq!(unsafe { libc::setgroups(0, std::ptr::null()) }, 0, "needs root");
    // SAFETY: the call cannot touch memory, because its only argument is a plain number.
    assert_eq!(unsafe { libc::setgid(user) }, 0);
    // SAFETY: the call cannot touch memory, because its only argument is a plain number.
    assert_eq!(unsafe { libc::setuid(user) }, 0);
}

/// Mounts a file system of this many bytes at the directory of the scenario, for this thread and
/// its children alone. Files without a name count there, too.
pub(crate) fn mount_own(bytes: u64) -> Result<(), Os> {
    // SAFETY: the call cannot touch memory, because it takes a number; it concerns this thread and
    // those that it starts.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(Os::last_os_error());
    }
    mount("none", Path::new("/"), "", libc::MS_REC | libc::MS_PRIVATE, "")?;
    mount("tmpfs", &directory(), "tmpfs", 0, &format!("mode=1777,size={bytes}"))
}

pub(crate) fn mount(
    what: &str,
    path: &Path,
    kind: &str,
    flags: libc::c_ulong,
    options: &str,
) -> Result<(), Os> {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let [what, kind, options] = [what, kind, options].map(|text| CString::new(text).unwrap());
    // SAFETY: the pointers are valid for the call, because they point to C strings that outlive it.
    match unsafe {
        libc::mount(what.as_ptr(), path.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
    } {
        0 => Ok(()),
        _ => Err(Os::last_os_error()),
    }
}

/// Runs a scenario in a file system of its own, which is empty at the end.
pub(crate) fn watched_in_own_memory(bytes: u64, pool: Pool, body: impl FnOnce()) {
    watched_as_root(pool, || {
        mount_own(bytes).unwrap();
        body();
        wait_for("the sweep at the end");
        shmarray::sweep().unwrap();
        assert_eq!(segments_in(&directory()), Vec::<String>::new(), "segments were left");
    });
}

/// Runs a scenario in a file system of its own, which is mounted with these arguments, with a pool
/// of so many bytes.
pub(crate) fn in_mounted(arguments: [&str; 5], pool: &str, body: impl FnOnce() + UnwindSafe) {
    scenario(|| {
        let place = directory().join("mounted");
        fs::create_dir(&place).unwrap();
        let mounted = Command::new("mount").args(arguments).arg(&place).status().unwrap();
        assert!(mounted.success(), "this test mounts a file system, which needs root");
        let outcome = catch_unwind(|| {
            use_directory(&place);
            // SAFETY: changing the environment needs a process in which nothing reads it, and this
            // scenario's process has one test thread.
            unsafe { std::env::set_var(POOL, pool) };
            body();
            shmarray::sweep().unwrap();
            assert_eq!(segments_in(&place), Vec::<String>::new());
        });
        Command::new("umount").arg("-l").arg(&place).status().unwrap();
        fs::remove_dir(&place).unwrap();
        outcome.unwrap();
    });
}

/// Returns the shared memory in use in the file system of the scenario, named or not.
pub(crate) fn used_in_own_memory() -> u64 {
    let path = CString::new(directory().as_os_str().as_bytes()).unwrap();
    let mut facts = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the pointers are valid for the call: a C string, and room for the answer, which
    // outlive it.
    assert_eq!(unsafe { libc::statvfs(path.as_ptr(), facts.as_mut_ptr()) }, 0);
    // SAFETY: the structure is initialised, because the call before this has succeeded and filled
    // it.
    let facts = unsafe { facts.assume_init() };
    (facts.f_blocks - facts.f_bfree) * facts.f_frsize
}

/// Returns the shared memory of the files in the scenario's directory, each file once.
pub(crate) fn used() -> u64 {
    let files =
        fs::read_dir(directory()).unwrap().filter_map(|entry| entry.unwrap().metadata().ok());
    let mut sizes: Vec<_> = files.map(|facts| (facts.ino(), facts.blocks() * 512)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter().map(|(_, bytes)| bytes).sum()
}

/// Lets others go on, one for each byte.
pub(crate) struct Gate(UnixStream, UnixStream);

impl Gate {
    pub(crate) fn new() -> Self {
        let (read, write) = UnixStream::pair().unwrap();
        Self(read, write)
    }

    pub(crate) fn open(&self) {
        (&self.1).write_all(&[1]).unwrap();
    }

    pub(crate) fn wait(&self) {
        (&self.0).read_exact(&mut [0]).unwrap();
    }
}

/// Ends this process as `os._exit` does: no exit handler runs.
pub(crate) fn end_abruptly() -> ! {
    // SAFETY: the call cannot touch memory, because it takes a plain number and does not return.
    unsafe { libc::_exit(0) }
}

/// Waits until another process kills this one.
pub(crate) fn rest() -> ! {
    loop {
        thread::park();
    }
}

/// Something that must come to an end, and its name.
pub(crate) type Deed = (&'static str, fn());

/// Does each in a process of its own, all at once, after `become_it`. Reports which of them hang
/// (they are killed) and which failed.
pub(crate) fn all_end(whose: &str, become_it: impl Fn(), deeds: &[Deed]) {
    wait_for(format!("{whose}: {}", names(deeds.iter().map(|(name, _)| *name))));
    let begin = |deed: fn()| {
        fork(|| {
            become_it();
            deed();
        })
    };
    all_have_ended(whose, deeds.iter().map(|(name, deed)| (*name, begin(*deed))).collect());
}

/// Waits for processes by their names. Reports which of them hang (they are killed) and which
/// failed.
pub(crate) fn all_have_ended(whose: &str, running: Vec<(&str, Forked)>) {
    let until = Instant::now() + patience() / 2; // before the watchdog, which knows no names
    let mut failed = Vec::new();
    let mut hang = Vec::new();
    for (name, child) in running {
        if !ends_in_time(&child, until) {
            hang.push(name);
            child.kill();
        } else if child.wait() != 0 {
            failed.push(name);
        }
    }
    let failed = names(failed);
    let hang = names(hang);
    assert!(
        failed.is_empty() && hang.is_empty(),
        "{whose}: these hang: {hang}; these failed: {failed}"
    );
}

/// Returns each name once, with its count.
fn names<'a>(all: impl IntoIterator<Item = &'a str>) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for name in all {
        match counted.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counted.push((name, 1)),
        }
    }
    let said = counted.into_iter().map(|(name, count)| {
        if count == 1 { name.to_owned() } else { format!("{count} × {name}") }
    });
    said.collect::<Vec<_>>().join(", ")
}

/// Whether a child ends in time. It is not waited for.
fn ends_in_time(child: &Forked, until: Instant) -> bool {
    // SAFETY: the call cannot touch memory, because it takes plain numbers: the pid of a child that
    // nobody has waited for. It returns a new fd, or -1.
    let life = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) } as i32;
    assert!(life >= 0, "pidfd_open: {}", Os::last_os_error());
    let left = until.saturating_duration_since(Instant::now()).as_millis() as i32;
    let mut ended = libc::pollfd { fd: life, events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is valid for the call, because it points to the one structure that the
    // count says, which outlives it.
    let ready = unsafe { libc::poll(&mut ended, 1, left) };
    crate::support::close(life);
    ready > 0
}
