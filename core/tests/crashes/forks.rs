//! A process forks while one of its threads is stopped at a step of its operation.
//!
//! Only the thread that operates is traced. A fork must wait for it if its lock or its open fd
//! would break a child: then the traced thread goes on, step by step, until the fork has returned.
//! Nothing else may wait for the stopped thread, and nothing for what never comes: if no thread
//! moves any more, that is a failure.

use std::fmt;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::actor::{Actor, in_steps};
use crate::asleep::{
    Thread, all_of_family, begin_family, enter_family, is_of_this_program, nobody_moves, threads_of,
};
use crate::forkers::{
    CALLS, FORK, SIGNAL, USE, fork_at_signal, held_for_the_child, lead_group, start_thread,
};
use crate::operations::Operation;
use crate::process::{self, IS_IN_EXIT, Line, Outcome, Pid, caught};
use crate::run::{Case, Counts, Worker, difference, spread};
use crate::stage::Stage;
use crate::tracer::Step;
use crate::watched::patience;

/// Which thread forks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forks {
    AnotherThread,
    /// As before, while a third thread uses the library, and waits where it must. Then that one
    /// forks, too.
    BesideAThirdThread,
    /// A signal handler in the thread that operates.
    ASignalHandler,
}

/// Counts forks that waited for a lock of the library which the stopped thread had.
pub(crate) const WAITED: &str = "a fork waited for the thread that stood still";
/// Counts uses by a third thread that waited as well.
pub(crate) const USE_WAITED: &str = "a third thread waited beside the fork";
/// Count children of signal handlers that could use the library, and that could not.
pub(crate) const WORKED: &str = "a signal handler's child could use the library";
pub(crate) const REFUSED: &str =
    "a signal handler's child could not use the library, and was told so";

/// Forks at so many of the steps of an operation, evenly spread.
pub(crate) fn fork_at_steps(
    operation: &'static Operation,
    forks: Forks,
    most: usize,
    worker: Worker,
    counts: &mut Counts,
) {
    let name = format!("{}, {forks}", operation.name);
    let scene = Scene { operation, forks };
    let steps = match scene.run(None) {
        Ok(ran) => ran.steps,
        Err(what) => return counts.failed(&name, &format!("without a fork: {what}")),
    };
    let at = spread(&scene.moments(&steps), most);
    let mine: Vec<_> =
        at.iter().enumerate().filter(|(index, _)| worker.has(*index)).map(|(_, at)| *at).collect();
    for &at in &mine {
        match scene.run(Some(at)) {
            Ok(ran) if ran.steps == steps[..at] => {
                ran.met.iter().for_each(|met| counts.tally(met, 1))
            }
            Ok(ran) => {
                counts.failed(&name, &format!("forked at {at}: {}", difference(&ran.steps, &steps)))
            }
            Err(what) => {
                counts.failed(
                    &name,
                    &format!("forked at {at} of {}, {}: {what}", steps.len(), steps[at - 1]),
                );
            }
        }
    }
    counts.row(&name, at.len(), mine.len());
}

#[derive(Clone, Copy)]
struct Scene {
    operation: &'static Operation,
    forks: Forks,
}

/// A run until the fork, and what it met there.
#[derive(Default)]
struct Ran {
    steps: Vec<Step>,
    met: Vec<&'static str>,
}

impl Scene {
    /// Returns the numbers of steps after which the fork may come. A signal comes too late for a
    /// process that ends, and the C library cannot fork inside its own fork. Since glibc 2.41 it
    /// blocks signals some time before.
    fn moments(self, steps: &[Step]) -> Vec<usize> {
        let is_too_late =
            |step: &Step| [libc::SYS_clone, libc::SYS_exit_group].map(Step::Enter).contains(step);
        let most = match self.forks {
            Forks::ASignalHandler => {
                let most = steps.iter().take_while(|step| !is_too_late(step)).count();
                let is_mask = |step: &&Step| **step == Step::Enter(libc::SYS_rt_sigprocmask);
                let are_blocked = steps[..most].iter().filter(is_mask).count() % 2 == 1;
                let mask = steps[..most].iter().rposition(|step| is_mask(&step));
                mask.filter(|_| are_blocked).unwrap_or(most)
            }
            _ => steps.len(),
        };
        (1..=most).collect()
    }

    /// Forks after so many steps, if it shall, lets the operation end, and checks what must hold.
    fn run(self, fork_at: Option<usize>) -> Outcome<Ran> {
        let ran = caught(|| self.try_run(fork_at)).and_then(|ran| ran);
        ran.inspect_err(|_| process::end_all())
    }

    fn try_run(self, fork_at: Option<usize>) -> Outcome<Ran> {
        let (stage, mut both) = self.set_up()?;
        let pid = both.actor.process.pid;
        let ran = self.operate(&mut both, fork_at).inspect_err(|_| process::end_group(pid))?;
        let lives = both.actor.tracee.is_there;
        let survivors = both.actor.survivors(lives);
        drop(both.threads);
        let may_go = self.operation.may_go;
        let may_last = self.operation.may_last;
        let survived = stage.survives(survivors, may_go, may_last, self.operation.then);
        survived.inspect_err(|_| process::end_group(pid))?;
        Ok(ran)
    }

    fn set_up(self) -> Outcome<(Stage, Both)> {
        begin_family();
        let lines = [(); 2].map(|()| Line::pair());
        let [(here, there), (second, seconds)] = lines;
        let case = Case { first: self.operation, beside: None };
        let (stage, actor, _) = case.set_up(|stage, traced| {
            lead_group();
            match self.forks {
                Forks::ASignalHandler => fork_at_signal(there, stage, self.operation),
                _ => {
                    let ends = self.operation.name.starts_with("end of a process");
                    IS_IN_EXIT.store(ends, Ordering::Relaxed);
                    [there, seconds].into_iter().for_each(|line| start_thread(line, stage));
                }
            }
            let mut kept = in_steps(traced);
            kept.arrays.extend(held_for_the_child());
            (kept, None)
        })?;
        let mut threads = vec![Beside { id: 0, line: here }, Beside { id: 0, line: second }];
        if self.forks != Forks::ASignalHandler {
            for thread in &mut threads {
                thread.id = thread.line.hear()?.parse().map_err(|_| "a thread says its id")?;
            }
        }
        Ok((stage, Both { actor, threads, met: Vec::new() }))
    }

    fn operate(self, both: &mut Both, fork_at: Option<usize>) -> Outcome<Ran> {
        let mut steps = Vec::new();
        while fork_at != Some(steps.len()) {
            match both.actor.step(None)? {
                Some(step) => steps.push(step),
                None => break,
            }
        }
        if fork_at.is_some() {
            match self.forks {
                Forks::AnotherThread => both.fork(FIRST)?,
                Forks::BesideAThirdThread => both.fork_beside_a_third()?,
                Forks::ASignalHandler => both.fork_in_handler()?,
            }
        }
        both.actor.run_to_end()?;
        Ok(Ran { steps, met: std::mem::take(&mut both.met) })
    }
}

const FIRST: usize = 0;
const SECOND: usize = 1;

/// A thread beside the traced one, in the same process, and the line to it; or the line to a
/// handler's child.
struct Beside {
    id: Pid,
    line: Line,
}

/// The traced thread, and those beside it.
struct Both {
    actor: Actor,
    threads: Vec<Beside>,
    met: Vec<&'static str>,
}

impl Both {
    /// Forks. The traced thread goes on only for the fork to return. Then the child lives, alone.
    fn fork(&mut self, thread: usize) -> Outcome<()> {
        self.threads[thread].line.tell(FORK);
        let waited = self.watch("the fork of a thread", Some(thread), |both, most| {
            both.has_word(thread, most)
        })?;
        self.met.extend(waited.then_some(WAITED));
        if self.word(thread)?.is_some() {
            self.watch("the child of a thread", None, |both, most| both.has_word(thread, most))?;
            self.word(thread)?;
        }
        Ok(())
    }

    fn fork_beside_a_third(&mut self) -> Outcome<()> {
        self.threads[SECOND].line.tell(USE);
        if self.uses_or_waits(SECOND)? {
            self.met.push(USE_WAITED);
        }
        self.fork(FIRST)?;
        self.watch("a third thread's use", Some(SECOND), |both, most| both.has_word(SECOND, most))?;
        match self.word(SECOND)? {
            Some(_) => self.fork(SECOND),
            None => Ok(()),
        }
    }

    fn fork_in_handler(&mut self) -> Outcome<()> {
        self.actor.tracee.send_signal(SIGNAL);
        let child = loop {
            let stepped = self
                .actor
                .step(None)
                .map_err(|what| format!("the fork in the signal handler: {what}"))?;
            match self.actor.tracee.take_child() {
                Some(child) => break child,
                None if stepped.is_none() => {
                    return Err("the signal handler forked no child".to_owned());
                }
                None => {}
            }
        };
        enter_family(child.pid);
        child.detach();
        let refused = self.refused_calls()?;
        self.met.push(if refused == "0" { WORKED } else { REFUSED });
        let life = life(child.pid)?;
        self.watch("the signal handler's child to end", None, |_, most| is_over(&life, most))?;
        process::is_over(child.pid);
        Ok(())
    }

    /// Returns how many calls were refused. The child reports each call before it makes it, and
    /// then their number.
    fn refused_calls(&mut self) -> Outcome<String> {
        let mut what = "the signal handler's child".to_owned();
        loop {
            self.watch(&what, None, |both, most| both.has_word(FIRST, most))?;
            let word = self.word(FIRST).map_err(|said| format!("{what}: {said}"))?;
            let said = word.ok_or("the operation ended, and with it the signal handler")?;
            match said.strip_prefix(CALLS) {
                Some(call) => what = format!("the signal handler's child to {call}"),
                None => return Ok(said),
            }
        }
    }

    fn has_word(&self, thread: usize, most: Duration) -> bool {
        self.threads[thread].line.has_word(most)
    }

    /// Returns what a thread says. `None` when the operation was to end the process, and did: its
    /// threads go with it.
    fn word(&mut self, thread: usize) -> Outcome<Option<String>> {
        match self.threads[thread].line.hear() {
            Err(_) if !self.actor.tracee.is_there => Ok(None),
            word => word.map(Some),
        }
    }

    /// Waits until the thread has reported that it is done, or waits itself. Returns whether it
    /// waits for the library.
    fn uses_or_waits(&self, thread: usize) -> Outcome<bool> {
        let mut before = Vec::new();
        let until = Instant::now() + patience();
        while !self.has_word(thread, GLANCE) {
            let now = threads_of([self.actor.process.pid]);
            if nobody_moves(&now, &before) {
                return Ok(self.futex(thread, &now).is_some_and(is_of_this_program));
            }
            if Instant::now() > until {
                return Err(hang("a third thread", &now));
            }
            before = now;
        }
        Ok(false)
    }

    /// Waits until something is there. If no thread moves, and a thread may wait, the traced thread
    /// goes on. Returns whether it had to, for the library.
    fn watch(
        &mut self,
        what: &str,
        may_wait: Option<usize>,
        mut is_there: impl FnMut(&Self, Duration) -> bool,
    ) -> Outcome<bool> {
        let pid = self.actor.process.pid;
        let until = Instant::now() + patience();
        let mut before = Vec::new();
        let mut has_waited = false;
        while !is_there(self, if may_wait.is_some() { GLANCE } else { LOOK }) {
            let now = threads_of(if may_wait.is_some() { vec![pid] } else { all_of_family() });
            let hangs = nobody_moves(&now, &before);
            match may_wait.filter(|thread| hangs && self.waits_for_traced(*thread, &now)) {
                Some(thread) => {
                    has_waited |= self.futex(thread, &now).is_some_and(is_of_this_program);
                    self.actor.step(None)?;
                }
                None if hangs || Instant::now() > until => return Err(hang(what, &now)),
                None => {}
            }
            before = now;
        }
        Ok(has_waited)
    }

    fn waits_for_traced(&self, thread: usize, now: &[Thread]) -> bool {
        let traced_stands =
            now.iter().any(|one| one.id == self.actor.process.pid && one.is_stopped());
        traced_stands && !self.actor.is_done && self.futex(thread, now).is_some()
    }

    fn futex(&self, thread: usize, now: &[Thread]) -> Option<u64> {
        now.iter().find(|one| one.id == self.threads[thread].id)?.futex()
    }
}

fn hang(what: &str, threads: &[Thread]) -> String {
    let said: Vec<_> = threads.iter().map(Thread::to_string).collect();
    format!("waited for {what}; {}", said.join(", "))
}

/// The time between two checks whether threads of one process move, or processes.
const GLANCE: Duration = Duration::from_micros(200);
const LOOK: Duration = Duration::from_millis(20);

/// Returns an fd that is ready when the process has ended.
fn life(pid: Pid) -> Outcome<OwnedFd> {
    // SAFETY: the call cannot touch this process's memory, because all of its arguments are plain
    // numbers.
    let life = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    if life < 0 {
        return Err(format!("pidfd_open: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: the fd is owned here and nowhere else, because the system call has just returned it
    // as a new one.
    Ok(unsafe { OwnedFd::from_raw_fd(life) })
}

fn is_over(life: &OwnedFd, most: Duration) -> bool {
    let mut ended = libc::pollfd { fd: life.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is valid for the call, because it points to the one structure that the
    // count says, which outlives it.
    unsafe { libc::poll(&raw mut ended, 1, most.as_millis() as i32) > 0 }
}

impl fmt::Display for Forks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AnotherThread => "another thread forks",
            Self::BesideAThirdThread => "another thread forks beside a third",
            Self::ASignalHandler => "a signal handler forks",
        })
    }
}
