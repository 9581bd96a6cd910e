//! Processes that talk by lines, and their ends.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::asleep::enter_family;

pub(crate) type Pid = libc::pid_t;
pub(crate) type Outcome<T> = Result<T, String>;

/// One end of a conversation.
pub(crate) struct Line(BufReader<UnixStream>);

impl Line {
    pub(crate) fn pair() -> (Self, Self) {
        let (here, there) = UnixStream::pair().unwrap();
        (Self(BufReader::new(here)), Self(BufReader::new(there)))
    }

    pub(crate) fn tell(&mut self, line: &str) {
        // A dead process is noticed by what it does not say.
        let _ = self.0.get_mut().write_all(format!("{line}\n").as_bytes());
    }

    /// Returns the next line. `Err` with what failed in the other process, or that it ended.
    pub(crate) fn hear(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) | Err(_) => Err("a process ended without a word".to_owned()),
            Ok(_) => match line.trim_end().strip_prefix(FAILED) {
                Some(what) => Err(what.to_owned()),
                None => Ok(line.trim_end().to_owned()),
            },
        }
    }

    /// Whether something can be heard within that time, perhaps that the other process has ended.
    pub(crate) fn has_word(&self, most: Duration) -> bool {
        let mut heard =
            libc::pollfd { fd: self.0.get_ref().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let most = libc::timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        // SAFETY: the pointers are valid for the call, because they point to one structure, as the
        // count says, and a time, which outlive it.
        let ready = unsafe { libc::ppoll(&raw mut heard, 1, &raw const most, std::ptr::null()) };
        ready > 0 || !self.0.buffer().is_empty()
    }

    pub(crate) fn says_no_more(&mut self) -> Outcome<()> {
        match self.hear() {
            Ok(line) => Err(format!("it was to end, but said {line}")),
            Err(_) => Ok(()),
        }
    }
}

pub(crate) const FAILED: &str = "failed: ";

/// Another process, at the other end of a line.
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) line: Line,
}

/// Whether another thread of this process is in `exit`, or of the process that forked it.
///
/// Since glibc 2.41 `exit` holds a lock meanwhile, which a child of a fork inherits. Its own `exit`
/// waits for it for ever, also in a program without this library; `_exit` does not.
pub(crate) static IS_IN_EXIT: AtomicBool = AtomicBool::new(false);

/// Whether a child would wait in `exit` for ever.
fn cannot_exit() -> bool {
    // SAFETY: the call cannot touch memory of this program, because it takes no arguments.
    let version = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: the text is valid, because the C library returned a constant of its own.
    let version = unsafe { CStr::from_ptr(version) };
    let minor = version.to_string_lossy().split('.').nth(1).and_then(|minor| minor.parse().ok());
    IS_IN_EXIT.load(Ordering::Relaxed) && minor.is_none_or(|minor: u32| minor >= 41)
}

/// Forks. The child does `role` and exits, with its exit handlers where that can be.
pub(crate) fn start(role: impl FnOnce(&mut Line)) -> Process {
    let (here, mut there) = Line::pair();
    // SAFETY: a child of a fork has only the thread that forked: only this thread uses the library,
    // so the child needs no other one.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        STARTED.take(); // the parent's children are not this process's to end
        drop(here);
        let outcome = caught(|| role(&mut there));
        outcome.as_ref().inspect_err(|what| there.tell(&format!("{FAILED}{what}"))).ok();
        if cannot_exit() {
            // SAFETY: the call cannot touch memory, because it takes a plain number and does not
            // return.
            unsafe { libc::_exit(i32::from(outcome.is_err())) };
        }
        // In a child, std's own exit would wait for the thread of its parent that was in it.
        // SAFETY: the call cannot touch memory, because it takes a plain number and does not
        // return.
        unsafe { libc::exit(i32::from(outcome.is_err())) };
    }
    enter_family(pid); // the parent enters it: a child may not have run yet
    is_started(pid);
    Process { pid, line: here }
}

/// Returns a panic as an error, with its location.
pub(crate) fn caught<T>(body: impl FnOnce() -> T) -> Outcome<T> {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| {
        LAST_PANIC.set(Some(info.to_string().replace('\n', " ")))
    }));
    let done = unwound(body);
    std::panic::set_hook(before);
    done
}

/// Does the same in a further thread of a process whose first thread is inside [`caught`].
pub(crate) fn unwound<T>(body: impl FnOnce() -> T) -> Outcome<T> {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    done.map_err(|_| LAST_PANIC.take().unwrap_or_default())
}

thread_local! {
    static LAST_PANIC: Cell<Option<String>> = const { Cell::new(None) };
    /// Children that nobody has waited for yet.
    static STARTED: RefCell<Vec<Pid>> = const { RefCell::new(Vec::new()) };
    /// Another process's child, killed by this one.
    static KILLED: Cell<Pid> = const { Cell::new(0) };
}

/// Forgets a process that was killed, or that has ended.
pub(crate) fn is_over(pid: Pid) {
    STARTED.with_borrow_mut(|started| started.retain(|one| *one != pid));
}

pub(crate) fn is_started(pid: Pid) {
    STARTED.with_borrow_mut(|started| started.push(pid));
}

pub(crate) fn is_killed_orphan(pid: Pid) {
    KILLED.set(pid);
}

/// Ends all processes of this stage after a failure.
pub(crate) fn end_all() {
    for pid in STARTED.take() {
        // SAFETY: the signal reaches no other process, because the pid is of a process of this
        // stage that nobody has waited for.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    let _ = all_ended_well();
}

/// Kills a process that leads a group, and all of the group.
pub(crate) fn end_group(leader: Pid) {
    // SAFETY: the signal reaches no other process, because the group consists of a process of this
    // stage and those that it has forked.
    unsafe { libc::kill(-leader, libc::SIGKILL) };
}

/// Kills a child of this process.
pub(crate) fn kill(pid: Pid) {
    // SAFETY: the signal reaches no other process, because the pid is of a child that this process
    // has not waited for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    wait(pid);
    is_over(pid);
}

/// Waits for every child, and for orphans that became children of this process.
pub(crate) fn all_ended_well() -> Outcome<()> {
    let mut outcome = Ok(());
    loop {
        let mut status = 0;
        // SAFETY: the pointer is valid for the call, because it points to room for the status,
        // which outlives it.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) } {
            -1 => {
                STARTED.take();
                KILLED.take();
                return outcome;
            }
            pid if status != 0 && pid != KILLED.get() => outcome = Err(said(status)),
            _ => {}
        }
    }
}

pub(crate) fn wait(pid: Pid) -> i32 {
    let mut status = 0;
    // SAFETY: the pointer is valid for the call, because it points to room for the status, which
    // outlives it. `__WALL` also waits for a process that is traced and no child.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    assert_eq!(waited, pid, "waitpid: {}", std::io::Error::last_os_error());
    status
}

pub(crate) fn said(status: i32) -> String {
    if libc::WIFEXITED(status) {
        format!("it ended with {}", libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        format!("it died by signal {}", libc::WTERMSIG(status))
    } else {
        format!("it has status {status:#x}")
    }
}
