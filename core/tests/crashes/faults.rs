//! System calls fail at every step of every operation: nothing breaks, and nothing stays.
//!
//! The call is skipped, or done where a real one would be, and the process gets the error: once, or
//! from there on each time. Then the operation works all the same, or returns an error that names
//! what went wrong. Its process goes on, uses the library, and has what it had. Survivors and a
//! newcomer see what they see after a crash (`stage`).

use std::fmt;

use crate::actions::discard_what_is_unused;
use crate::actor::{Actor, in_steps};
use crate::call_names::call_name;
use crate::forkers::use_it;
use crate::operations::{Operation, Traced, Victim};
use crate::process::{self, Outcome, Process, caught, unwound};
use crate::run::{Case, Counts, Worker, spread};
use crate::stage::{Kept, Stage};
use crate::tracer::{Call, Step};

/// Returns the errors that a call can fail with. `None` for a call that this table does not know.
#[allow(non_upper_case_globals, reason = "libc's names of system calls")]
fn errors_of(call: &Call) -> Option<&'static [i32]> {
    use libc::*;
    let [first, second, third, fourth, ..] = call.arguments;
    let has = |flags: i32| third & flags as u64 != 0;
    Some(match call.number {
        // A file that may exist already does: the registry, which other processes are in. It needs
        // no room.
        SYS_openat if has(O_CREAT) && !has(O_EXCL) => &[EMFILE, ENFILE, EACCES, ENOMEM, EINTR, EIO],
        SYS_openat if has(O_CREAT | O_TMPFILE & !O_DIRECTORY) => {
            &[EMFILE, ENFILE, ENOSPC, EACCES, ENOMEM, EINTR, EIO]
        }
        SYS_openat => &[EMFILE, ENFILE, EACCES, ENOMEM, EINTR, EIO],
        SYS_fcntl if [F_OFD_SETLK, F_OFD_SETLKW].contains(&(second as i32)) => {
            &[ENOLCK, EINTR, EIO, EAGAIN]
        }
        SYS_fcntl if second as i32 == F_OFD_GETLK => &[ENOLCK, EINTR, EIO],
        SYS_fcntl if second as i32 == F_DUPFD_CLOEXEC => &[EMFILE],
        SYS_fallocate => &[ENOSPC, EINTR, EIO, EOPNOTSUPP, EFBIG],
        SYS_ftruncate => &[EINTR, EIO, EFBIG],
        SYS_fstat | SYS_newfstatat | SYS_statx | SYS_lseek => &[EIO, ENOMEM],
        SYS_flock => &[ENOLCK, EINTR],
        SYS_llistxattr | SYS_flistxattr => &[EIO, ENOMEM, ENOTSUP],
        SYS_copy_file_range => &[EXDEV, EINTR, EIO],
        SYS_statfs | SYS_fstatfs => &[EINTR, EIO, ENOMEM],
        SYS_getdents64 => &[EIO, ENOMEM],
        SYS_pread64 | SYS_read => &[EINTR, EIO],
        SYS_pwrite64 | SYS_write => &[EINTR, EIO, ENOSPC],
        SYS_linkat => &[ENOSPC, EACCES, EMLINK, EIO, ENOMEM],
        SYS_renameat2 | SYS_rename => &[ENOSPC, EACCES, EIO],
        SYS_unlink | SYS_unlinkat => &[EACCES, EIO, ENOMEM],
        SYS_fchmod => &[EPERM, EIO],
        // A new page of the allocator's own is not the library's.
        SYS_mmap if fourth as i32 & MAP_ANONYMOUS != 0 => &[],
        SYS_mmap => &[ENOMEM, ENFILE, EAGAIN],
        SYS_mprotect | SYS_madvise => &[ENOMEM, EAGAIN],
        SYS_ioctl => &[ENOTTY, ENOMEM],
        // No kernel answers EIO, but a filter of system calls may.
        SYS_getrandom => &[EINTR, EIO],
        // EIO cannot come from a file in memory, and std takes it for a broken program if it comes
        // from a directory.
        SYS_close => &[EINTR],
        SYS_socketpair | SYS_pipe2 => &[EMFILE, ENFILE, ENOMEM],
        SYS_sendmsg => &[EINTR, ENOMEM, ENOBUFS, ETOOMANYREFS],
        SYS_recvmsg | SYS_recvfrom => &[EINTR, ENOMEM],
        SYS_ppoll | SYS_poll => &[EINTR, ENOMEM],
        SYS_getsockopt => &[ENOTSOCK],
        SYS_dup3 => &[EBUSY, EINTR],
        SYS_clone => &[EAGAIN, ENOMEM],
        // Announcements, calls that cannot fail, and calls of the allocator or the C library.
        SYS_getppid | SYS_getpid | SYS_gettid | SYS_geteuid | SYS_getuid | SYS_exit_group => &[],
        SYS_clock_gettime | SYS_prlimit64 | SYS_futex | SYS_sysinfo => &[],
        SYS_brk | SYS_mremap | SYS_munmap | SYS_rt_sigprocmask | SYS_sigaltstack
        | SYS_set_robust_list => &[],
        SYS_fcntl if first != u64::MAX => &[],
        _ => return None,
    })
}

/// Whether the call takes effect although it fails: a close that fails has closed.
fn is_done_though_it_fails(call: &Call) -> bool {
    call.number == libc::SYS_close
}

/// Errors after which a caller repeats the call: it would do so for ever.
const ONLY_ONCE: [i32; 2] = [libc::EINTR, libc::EAGAIN];
/// Errors that do not come once and then no more.
const ONLY_LASTING: [i32; 2] = [libc::EACCES, libc::EPERM];

/// An error that shall come at a step.
#[derive(Clone, Copy)]
struct Fault {
    step: usize,
    number: i64,
    error: i32,
    /// Whether each such call from there on fails.
    lasts: bool,
}

impl Fault {
    fn is_possible(&self) -> bool {
        let never = if self.lasts { ONLY_ONCE } else { ONLY_LASTING };
        !never.contains(&self.error)
    }
}

/// The steps of an operation, and the errors that it can meet at each.
struct FaultPlan {
    steps: usize,
    /// `None` if no call of the operation can fail.
    faults: Vec<Option<Fault>>,
}

/// Makes so many of the calls of an operation fail, evenly spread.
pub(crate) fn fail_at_steps(
    operation: &'static Operation,
    most: usize,
    worker: Worker,
    counts: &mut Counts,
) {
    let plan = match caught(|| plan(operation)).and_then(|plan| plan) {
        Ok(plan) => plan,
        Err(what) => {
            process::end_all();
            return counts.failed(operation.name, &format!("without a fault: {what}"));
        }
    };
    let chosen = spread(&(0..plan.faults.len()).collect::<Vec<_>>(), most);
    let mine = chosen
        .iter()
        .enumerate()
        .filter(|(index, _)| worker.has(*index))
        .map(|(_, fault)| plan.faults[*fault]);
    let mut runs = 0;
    for fault in mine {
        runs += 1;
        let outcome = caught(|| run(operation, fault, plan.steps)).and_then(|outcome| outcome);
        match outcome.inspect_err(|_| process::end_all()) {
            Ok(met) => counts.tally(met, 1),
            Err(what) => {
                let fault = fault.map_or("no fault".to_owned(), |fault| fault.to_string());
                counts.failed(&format!("{}: {fault}", operation.name), &what);
            }
        }
    }
    counts.row(operation.name, chosen.len(), runs);
}

fn plan(operation: &'static Operation) -> Outcome<FaultPlan> {
    let (_stage, mut victim, _others) = set_up(operation)?;
    let mut steps = 0;
    let mut faults = Vec::new();
    while let Some(step) = victim.step(None)? {
        steps += 1;
        let Some(call) = victim.tracee.call_inside().filter(|_| matches!(step, Step::Enter(_)))
        else {
            continue;
        };
        let errors = errors_of(&call)
            .ok_or_else(|| format!("what can {} fail with?", call_name(call.number)))?;
        let number = call.number;
        let all = errors.iter().flat_map(|error| {
            [false, true].map(|lasts| Fault { step: steps, number, error: *error, lasts })
        });
        faults.extend(all.filter(Fault::is_possible).map(Some));
    }
    process::end_all();
    faults.extend(faults.is_empty().then_some(None));
    Ok(FaultPlan { steps, faults })
}

/// Returns the stage, the process in which calls fail, and other processes.
fn set_up(operation: &'static Operation) -> Outcome<(Stage, Actor, Vec<Process>)> {
    let case = Case { first: operation, beside: None };
    let (stage, actor, _) = case.set_up(survive_errors)?;
    match operation.victim {
        Victim::Itself => Ok((stage, actor, Vec::new())),
        Victim::ItsChild => actor.into_child().map(|(child, others)| (stage, child, others)),
    }
}

/// Goes on after an error, and uses the library. Returns also the error, or that there was none.
fn survive_errors(stage: &Stage, traced: Traced) -> (Kept, Option<String>) {
    let outcome = in_steps(|| unwound(traced));
    let word = outcome.as_ref().err().map_or(DONE.to_owned(), |what| format!("{ERROR}{what}"));
    let kept = outcome.unwrap_or_default();
    let used = unwound(|| {
        discard_what_is_unused();
        use_it(&stage.handle("kept"));
    });
    (
        kept,
        Some(used.map_or_else(
            |what| format!("{process}afterwards: {what}", process = process::FAILED),
            |()| word,
        )),
    )
}

const DONE: &str = "done";
const ERROR: &str = "error: ";

/// The outcomes of a fault.
const WORKED: &str = "an operation did without a call that failed";
const SAID: &str = "an operation said what failed";

fn run(operation: &'static Operation, fault: Option<Fault>, steps: usize) -> Outcome<&'static str> {
    let (stage, mut victim, others) = set_up(operation)?;
    let mut made = 0;
    while let Some(step) = victim.step(None)? {
        made += 1;
        if made > MANY_STEPS * (steps + 100) {
            return Err(format!(
                "it goes on and on, after {made} steps instead of {steps}: {step}"
            ));
        }
        fail(&mut victim, made, fault);
    }
    let lives = victim.tracee.is_there;
    let mut survivors = victim.survivors(lives);
    survivors.extend(others);
    let mut met = WORKED;
    for survivor in &mut survivors {
        let word = survivor.line.hear()?;
        if let Some(error) = word.strip_prefix(ERROR) {
            is_clear(error, fault)?;
            met = SAID;
        }
    }
    stage.survives(survivors, operation.may_go, operation.may_last, operation.then)?;
    Ok(met)
}

/// An operation with so many times its steps without faults runs in a loop.
const MANY_STEPS: usize = 20;

fn fail(victim: &mut Actor, made: usize, fault: Option<Fault>) {
    let Some((fault, call)) = fault.zip(victim.tracee.call_inside()) else { return };
    let fails = call.number == fault.number
        && errors_of(&call).is_some_and(|errors| errors.contains(&fault.error));
    if made == fault.step || (made > fault.step && fault.lasts && fails) {
        victim.tracee.fail_call(fault.error, is_done_though_it_fails(&call));
    }
}

/// Checks that an error is one of the library's and reports this fault.
fn is_clear(error: &str, fault: Option<Fault>) -> Outcome<()> {
    let number = fault.map_or(0, |fault| fault.error);
    let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
    let is_full =
        [libc::ENOSPC, libc::EFBIG].contains(&number) && says(&["NoSpace {", "FileTooLarge {"]);
    // Names are taken by dead processes from which nothing can be asked or taken.
    let is_taken = says(&["NameExists {"]);
    let names_it = says(&[&format!("code: {number},"), &format!("(os error {number})")]);
    if is_full || is_taken || names_it { Ok(()) } else { Err(format!("not clear: {error}")) }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = std::io::Error::from_raw_os_error(self.error);
        let lasts = if self.lasts { ", and each after it" } else { "" };
        write!(f, "{} at step {}{lasts}: {error}", call_name(self.number), self.step)
    }
}
