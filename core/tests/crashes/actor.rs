//! A process that operates: it is started, prepared, and taken from step to step.

use crate::actions::warm_up;
use crate::operations::{Operation, Traced};
use crate::process::{self, Line, Outcome, Process, said, start};
use crate::stage::{Kept, Stage, keep};
use crate::tracer::{self, Step, Stop, Tracee};

/// A process that operates, stopped before its first step.
pub(crate) struct Actor {
    pub(crate) process: Process,
    /// The line to the child that it may fork.
    pub(crate) child: Option<Line>,
    pub(crate) tracee: Tracee,
    pub(crate) is_done: bool,
    /// Whether its last step was to wait.
    waits: bool,
}

impl Actor {
    /// Starts it and lets it use the library, if it shall have done so before.
    pub(crate) fn start(
        operation: &'static Operation,
        stage: &Stage,
        run: impl FnOnce(&Stage, Traced) -> (Kept, Option<String>),
    ) -> Outcome<(Process, Option<Line>)> {
        let (here, there) = Line::pair();
        let mut here = Some(here);
        let mut process = start(|line| {
            here.take(); // else neither child nor parent would see that the other end is closed
            perform(operation, stage, run, line, there);
        });
        process.line.hear()?;
        Ok((process, here))
    }

    pub(crate) fn new(process: Process, child: Option<Line>, tracee: Tracee) -> Self {
        Self { process, child, tracee, is_done: false, waits: false }
    }

    pub(crate) fn prepare(
        (mut process, child): (Process, Option<Line>),
        left: &str,
    ) -> Outcome<Self> {
        process.line.tell(left);
        let tracee = Tracee::attach(process.pid)
            .map_err(|what| process.line.hear().err().unwrap_or(what))?;
        Ok(Self::new(process, child, tracee))
    }

    /// Takes it to its next step; `None` at its end. While it waits the other process goes on, if
    /// there is one.
    pub(crate) fn step(&mut self, mut beside: Option<&mut Self>) -> Outcome<Option<Step>> {
        while !self.is_done {
            let stop = self.tracee.next();
            let waited = std::mem::replace(&mut self.waits, matches!(stop, Stop::Waits(_)));
            match &stop {
                Stop::Waits(call) if waited => {
                    let other = beside.as_deref_mut().filter(|other| !other.is_done);
                    let other = other.ok_or_else(|| {
                        format!("waits for nobody in system call {}", call.number)
                    })?;
                    other.step(None)?;
                }
                Stop::Fault(address) => return Err(format!("a fault at {address:#x}")),
                Stop::End | Stop::Gone(_) => self.has_ended(&stop)?,
                _ if stop.step().is_some() => return Ok(stop.step()),
                _ => {}
            }
        }
        Ok(None)
    }

    pub(crate) fn has_ended(&mut self, how: &Stop) -> Outcome<()> {
        self.is_done = true;
        let Stop::Gone(status) = how else { return Ok(()) };
        process::is_over(self.process.pid);
        match status {
            0 => Ok(()),
            _ => Err(self.process.line.hear().err().unwrap_or(said(*status))),
        }
    }

    pub(crate) fn run_to_end(&mut self) -> Outcome<()> {
        while self.step(None)?.is_some() {}
        Ok(())
    }

    /// Returns the child that it forked, which has not begun yet, and the other processes. This
    /// process has gone on to its own end.
    pub(crate) fn into_child(mut self) -> Outcome<(Self, Vec<Process>)> {
        self.run_to_end()?;
        let tracee = self.tracee.take_child().ok_or("it forked no child")?;
        let pid = tracee.pid;
        let line = self.child.take().ok_or("a second child")?;
        Ok((Self::new(Process { pid, line }, None, tracee), self.survivors(true)))
    }

    /// Returns the processes that are left of it and its child, no longer traced.
    pub(crate) fn survivors(mut self, lives: bool) -> Vec<Process> {
        let child = self.tracee.take_child().map(|child| {
            let pid = child.pid;
            child.detach();
            Process { pid, line: self.child.take().expect("one child") }
        });
        let itself = lives.then(|| {
            self.tracee.detach();
            self.process
        });
        itself.into_iter().chain(child).collect()
    }
}

/// Runs in the process that operates, and in its child. `run` runs the operation and starts the
/// tracing; what it returns besides is told first.
fn perform(
    operation: &Operation,
    stage: &Stage,
    run: impl FnOnce(&Stage, Traced) -> (Kept, Option<String>),
    line: &mut Line,
    childs: Line,
) {
    if operation.warm {
        warm_up();
    }
    line.tell("ready");
    let left = line.hear().expect("is told where the leftovers are");
    if !left.is_empty() {
        stage.know(&left);
    }
    let traced = (operation.prepare)(stage);
    let parent = std::process::id();
    let (kept, word) = run(stage, traced);
    if std::process::id() == parent {
        drop(childs)
    } else {
        *line = childs
    }
    word.into_iter().for_each(|word| line.tell(&word));
    keep(kept, line);
}

/// Traces from the first step to the last.
pub(crate) fn in_steps<T>(traced: impl FnOnce() -> T) -> T {
    // Room, so that no step is the allocator's own.
    drop(std::hint::black_box(vec![0u8; 100 << 10]));
    tracer::begin();
    let done = traced();
    tracer::end();
    done
}
