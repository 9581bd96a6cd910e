//! Threads and a signal handler in the process that operates, which fork beside its operation, and
//! what the forked children do.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use shmarray::{Access, Array, Error, Pipe, Received, Sent};

use crate::operations::Operation;
use crate::process::{FAILED, Line, Outcome, Process, said, start, unwound, wait};
use crate::stage::{NEW, NEW_FILE, Stage, check, new, options};

/// The orders for a thread.
pub(crate) const USE: &str = "use";
pub(crate) const FORK: &str = "fork";

/// Makes this process lead a group with all of its children, so that they can be ended together.
pub(crate) fn lead_group() {
    // SAFETY: the call cannot touch this process's memory, because all of its arguments are plain
    // numbers.
    unsafe { libc::setpgid(0, 0) };
}

/// Starts a thread that reports its id, and then does as it is told.
pub(crate) fn start_thread(mut line: Line, stage: &Stage) {
    let kept = stage.handle("kept");
    thread::spawn(move || {
        // SAFETY: the call cannot touch memory, because it takes no arguments, and it cannot fail.
        line.tell(&unsafe { libc::gettid() }.to_string());
        while let Ok(told) = line.hear() {
            let done =
                if told == USE { unwound(|| use_it(&kept)) } else { fork_one(&kept, &mut line) };
            line.tell(&done.map_or_else(|what| format!("{FAILED}{what}"), |()| "done".to_owned()));
        }
    });
}

/// Reports the child's id as soon as the fork has returned, and returns when the child has ended.
fn fork_one(kept: &str, line: &mut Line) -> Outcome<()> {
    let child = start(|line| {
        live(kept);
        line.tell("lived");
    });
    line.tell(&child.pid.to_string());
    has_ended_well(child)
}

fn has_ended_well(mut child: Process) -> Outcome<()> {
    let word = child.line.hear();
    let status = wait(child.pid);
    word.map_err(|what| format!("a child: {what}; {}", said(status)))?;
    if status == 0 { Ok(()) } else { Err(format!("a child: {}", said(status))) }
}

/// All that a process does with the library, by two threads at once, and with a child of its own.
fn live(kept: &str) {
    thread::scope(|scope| {
        scope.spawn(|| use_it(kept));
        use_it(kept);
    });
    send_and_receive();
    shmarray::sweep().unwrap();
    let grandchild = start(|line| {
        use_it(kept);
        line.tell("lived");
    });
    has_ended_well(grandchild).unwrap();
}

/// Makes arrays in a cell and in a file of their own, attaches them, and drops them.
pub(crate) fn use_it(kept: &str) {
    for bytes in [NEW, NEW_FILE] {
        let array = new(bytes, &options("")).unwrap();
        check(&array);
        let again = Array::attach(&array.handle(), Access::ReadWrite).unwrap();
        again.set(&[1], 5u8).unwrap();
        assert_eq!(array.get::<u8>(&[1]).unwrap(), 5);
        drop(array);
        assert_eq!(again.get::<u8>(&[1]).unwrap(), 5);
    }
    check(&Array::attach(kept, Access::ReadOnly).unwrap());
}

fn send_and_receive() {
    let (here, there) = Pipe::pair().unwrap();
    assert_eq!(here.send(b"one", &[&new(NEW, &options("")).unwrap()], None).unwrap(), Sent::Sent);
    let Received::Message(message) = there.receive(None).unwrap() else { panic!("nothing came") };
    check(&message.array(0, Access::ReadOnly).unwrap());
}

/// What the handler's child uses, made before.
struct Before {
    kept: String,
    /// `None` if the operation shall be the first use.
    held: Mutex<Option<Array>>,
    pipe: (Pipe, Pipe),
    line: Mutex<Line>,
    /// Whether the operation ends the process.
    ends: bool,
}

static BEFORE: OnceLock<Before> = OnceLock::new();

/// What the handler's child says before a call.
pub(crate) const CALLS: &str = "calls ";

pub(crate) const SIGNAL: libc::c_int = libc::SIGUSR1;

/// Makes the signal fork a child of this process, which reports by the line what its calls did.
pub(crate) fn fork_at_signal(line: Line, stage: &Stage, operation: &Operation) {
    let kept = stage.handle("kept");
    let held = operation.warm.then(|| new(NEW_FILE, &options("")).unwrap());
    let pipe = Pipe::pair().unwrap();
    let ends = operation.name.starts_with("end of a process");
    let before = Before { kept, held: Mutex::new(held), pipe, line: Mutex::new(line), ends };
    assert!(BEFORE.set(before).is_ok(), "once in a process");
    handle_signal(fork_in_handler);
}

/// Makes a function the handler of the signal.
pub(crate) fn handle_signal(handler: extern "C" fn(libc::c_int)) {
    // SAFETY: zeros are a valid value, because the structure of libc consists of plain numbers and
    // null pointers.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler stays valid, because it is a function of this program, and the structure
    // is only read.
    let set = unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) };
    assert_eq!(set, 0, "sigaction: {}", std::io::Error::last_os_error());
}

/// Returns the array that the handler's child drops, while its parent still holds it.
pub(crate) fn held_for_the_child() -> Option<Array> {
    BEFORE.get()?.held().take()
}

extern "C" fn fork_in_handler(_: libc::c_int) {
    // SAFETY: the pointer is valid in this thread, because the C library returns the address of its
    // own errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is valid in this thread, because the C library returned the address of
    // its own errno just before.
    let interrupted = unsafe { *errno };
    // SAFETY: a child of a fork in a signal handler may do little; the test is whether it may call
    // the library.
    let child = unsafe { libc::fork() };
    if child == 0 {
        live_in_handler();
    }
    // SAFETY: the pointer is valid in this thread, because the C library returned the address of
    // its own errno just before.
    unsafe { *errno = interrupted };
}

/// Runs in the child: every call returns. Then the child forks, and becomes another program.
fn live_in_handler() -> ! {
    let before = BEFORE.get().expect("set before any signal");
    let mut line = before.line.lock().unwrap_or_else(PoisonError::into_inner);
    let said = unwound(|| refused_calls(before, &mut line)).and_then(|refused| refused);
    line.tell(&said.map_or_else(|what| format!("{FAILED}{what}"), |refused| refused.to_string()));
    // SAFETY: a child of a fork may do little, and this one only ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the call cannot touch memory, because it takes a plain number and does not
        // return.
        unsafe { libc::_exit(0) };
    }
    let status = wait(child);
    let program = c"/bin/true".as_ptr();
    let nothing = std::ptr::null::<libc::c_char>();
    // SAFETY: the arguments are valid for the call: they are C strings that outlive it, and the
    // null that ends the list.
    unsafe { libc::execl(program, program, nothing) };
    // SAFETY: the call cannot touch memory, because it takes a plain number and does not return.
    unsafe { libc::_exit(100 + status) }
}

/// Returns how many calls are refused. All others work.
fn refused_calls(before: &Before, line: &mut Line) -> Outcome<usize> {
    let mut refused = 0;
    for (name, call) in EVERY_CALL {
        line.tell(&format!("{CALLS}{name}"));
        match call(before) {
            Ok(()) => {}
            Err(Error::Unsupported { .. }) => refused += 1,
            Err(Error::SegmentNotFound { .. }) if before.ends => {} // its parent had given it back
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(refused)
}

type Call = fn(&Before) -> Result<(), Error>;

const EVERY_CALL: &[(&str, Call)] = &[
    ("create in a cell", |_| new(NEW, &options("")).map(|array| check(&array))),
    ("create", |_| new(NEW_FILE, &options("")).map(|array| check(&array))),
    ("create with a name", |_| new(NEW_FILE, &options("handlers")).map(|array| check(&array))),
    ("attach", |before| Array::attach(&before.kept, Access::ReadWrite).map(|array| check(&array))),
    ("read what is held, and attach it", |before| match &*before.held() {
        Some(held) => {
            check(held);
            Array::attach(&held.handle(), Access::ReadOnly).map(|array| check(&array))
        }
        None => Ok(()),
    }),
    ("find the array in memory that is shared", |before| {
        let found = |held: &Array| {
            Array::over_memory(held.as_ptr() as usize, held.dtype().clone(), &[NEW_FILE], &[1])
        };
        before.held().as_ref().and_then(found).inspect(check);
        Ok(())
    }),
    ("sweep", |_| shmarray::sweep().map(drop)),
    ("sweep of the dead", |_| shmarray::sweep_dead().map(drop)),
    ("list", |_| shmarray::segments().map(drop)),
    ("unlink", |_| match shmarray::unlink("nothing") {
        Err(Error::NameNotFound { .. }) => Ok(()),
        other => other,
    }),
    ("send", |before| {
        let held = before.held();
        let arrays: Vec<_> = held.iter().collect();
        before.pipe.0.send(b"a message", &arrays, Some(Duration::ZERO)).map(drop)
    }),
    ("receive", |before| match before.pipe.1.receive(Some(Duration::ZERO))? {
        Received::Message(message) if !message.descriptors().is_empty() => {
            message.array(0, Access::ReadOnly).map(|array| check(&array))
        }
        _ => Ok(()),
    }),
    ("send out of band", |before| match &*before.held() {
        Some(held) => shmarray::discard(&held.handle_to_send()?),
        None => Ok(()),
    }),
    ("make a pipe", |_| Pipe::pair().map(drop)),
    ("name its family", |_| shmarray::family().map(drop)),
    ("drop", |before| {
        before.held().take();
        Ok(())
    }),
];

impl Before {
    fn held(&self) -> MutexGuard<'_, Option<Array>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
