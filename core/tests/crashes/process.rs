//! Processes that talk by lines, and what becomes of them.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
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
        let _ = self.0.get_mut().write_all(format!("{line}\n").as_bytes()); // who is dead is noticed by what he does not say
    }

    /// `Err` with what failed in the other process, or that it ended.
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

    /// Whether something can be heard, perhaps that the other has ended, within that time.
    pub(crate) fn has_word(&self, most: Duration) -> bool {
        let mut heard =
            libc::pollfd { fd: self.0.get_ref().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let most = libc::timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        // SAFETY: one structure, and a time; both outlive the call.
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

/// Forks; the child does `role` and ends in the ordinary way, with its exit handlers.
pub(crate) fn start(role: impl FnOnce(&mut Line)) -> Process {
    let (here, mut there) = Line::pair();
    // SAFETY: the child does what the test wants to see; only this thread uses the library.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        STARTED.take(); // those of our parent are not ours to end
        drop(here);
        let outcome = caught(|| role(&mut there));
        outcome.as_ref().inspect_err(|what| there.tell(&format!("{FAILED}{what}"))).ok();
        // std's own exit would wait in a child for the thread of its parent that was in it.
        // SAFETY: takes a number and does not return.
        unsafe { libc::exit(i32::from(outcome.is_err())) };
    }
    enter_family(pid); // by its parent, which moves until then: a child may not have run yet
    is_started(pid);
    Process { pid, line: here }
}

/// A panic as an error, with where it was.
pub(crate) fn caught<T>(body: impl FnOnce() -> T) -> Outcome<T> {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| {
        LAST_PANIC.set(Some(info.to_string().replace('\n', " ")))
    }));
    let done = unwound(body);
    std::panic::set_hook(before);
    done
}

/// The same in a further thread of a process whose first thread is inside of [`caught`].
pub(crate) fn unwound<T>(body: impl FnOnce() -> T) -> Outcome<T> {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    done.map_err(|_| LAST_PANIC.take().unwrap_or_default())
}

thread_local! {
    static LAST_PANIC: Cell<Option<String>> = const { Cell::new(None) };
    /// Nobody has waited for them yet.
    static STARTED: RefCell<Vec<Pid>> = const { RefCell::new(Vec::new()) };
    /// Somebody else's child, killed by us.
    static KILLED: Cell<Pid> = const { Cell::new(0) };
}

/// A process that was killed, or that has ended.
pub(crate) fn is_over(pid: Pid) {
    STARTED.with_borrow_mut(|started| started.retain(|one| *one != pid));
}

pub(crate) fn is_started(pid: Pid) {
    STARTED.with_borrow_mut(|started| started.push(pid));
}

pub(crate) fn is_killed_orphan(pid: Pid) {
    KILLED.set(pid);
}

/// After a failure: nobody of this stage stays.
pub(crate) fn end_all() {
    for pid in STARTED.take() {
        // SAFETY: a process of this stage, for which nobody has waited.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    let _ = all_ended_well();
}

/// Kills a process that leads a group, and all of the group.
pub(crate) fn end_group(leader: Pid) {
    // SAFETY: a process of this stage, and those that it has forked.
    unsafe { libc::kill(-leader, libc::SIGKILL) };
}

/// Kills a child of ours.
pub(crate) fn kill(pid: Pid) {
    // SAFETY: a process that this one started and has not waited for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    wait(pid);
    is_over(pid);
}

/// Waits for every child, and for orphans that became ours.
pub(crate) fn all_ended_well() -> Outcome<()> {
    let mut outcome = Ok(());
    loop {
        let mut status = 0;
        // SAFETY: room for the status.
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
    // SAFETY: room for the status; `__WALL` also waits for what is not our child but traced.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    assert_eq!(waited, pid, "waitpid: {}", std::io::Error::last_os_error());
    status
}

pub(crate) fn said(status: i32) -> String {
    match libc::WIFEXITED(status) {
        true => format!("it ended with {}", libc::WEXITSTATUS(status)),
        false if libc::WIFSIGNALED(status) => {
            format!("it died by signal {}", libc::WTERMSIG(status))
        }
        false => format!("it has status {status:#x}"),
    }
}
