//! One run: a stage, one or two processes that operate, a death, and what must hold then. And all
//! runs.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::actor::{Actor, in_steps};
use crate::operations::{Operation, Traced, Victim};
use crate::process::{self, Line, Outcome, Process, caught, start};
use crate::stage::{Kept, Prop, Stage};
use crate::tracer::Step;
use crate::watch::{Watched, watch};

/// The processes that operate: one, or one beside another that is stopped after so many steps.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) first: &'static Operation,
    pub(crate) beside: Option<(&'static Operation, usize)>,
}

impl Case {
    /// Runs, kills the victim at that step if there is one, and checks what must hold. Returns the
    /// steps of the victim.
    fn run(self, kill_at: Option<usize>) -> Outcome<Vec<Step>> {
        let ran = caught(|| self.try_run(kill_at)).and_then(|ran| ran);
        ran.inspect_err(|_| process::end_all())
    }

    fn try_run(self, kill_at: Option<usize>) -> Outcome<Vec<Step>> {
        let (stage, first, mut second) = self.set_up(alone)?;
        if let (Some(second), Some((_, steps))) = (&mut second, self.beside) {
            for _ in 0..steps {
                second.step(None)?.ok_or("the other ended before its step")?;
            }
        }
        let (steps, mut survivors) = match self.first.victim {
            Victim::Itself => die(first, second.as_mut(), kill_at)?,
            Victim::ItsChild => child_dies(first, kill_at)?,
        };
        if kill_at.is_some_and(|kill_at| kill_at != steps.len()) {
            return Err(format!("it ended after {} steps", steps.len()));
        }
        if let Some(mut second) = second {
            second.run_to_end()?;
            let lives = second.tracee.is_there;
            survivors.extend(second.survivors(lives));
        }
        let both = |list: fn(&Operation) -> &'static [&'static str]| {
            let beside = self.beside.map_or(&[][..], |(beside, _)| list(beside));
            [list(self.first), beside].concat()
        };
        stage.survives(
            survivors,
            &both(|row| row.may_go),
            &both(|row| row.may_last),
            self.first.then,
        )?;
        Ok(steps)
    }

    /// `run` is how the first process runs its operation.
    pub(crate) fn set_up(
        self,
        run: impl FnOnce(&Stage, Traced) -> (Kept, Option<String>),
    ) -> Outcome<(Stage, Actor, Option<Actor>)> {
        thread_local!(static STAGES: Cell<usize> = const { Cell::new(0) });
        STAGES.set(STAGES.get() + 1);
        let mut stage = Stage::new(self.first.props, STAGES.get())?;
        let first = Actor::start(self.first, &stage, run)?;
        let second =
            self.beside.map(|(beside, _)| Actor::start(beside, &stage, alone)).transpose()?;
        let left = stage.leave_leftovers()?;
        let first = Actor::prepare(first, &left)?;
        let second = second.map(|second| Actor::prepare(second, &left)).transpose()?;
        if [Prop::Contested, Prop::Given, Prop::GivenCell]
            .iter()
            .any(|prop| self.first.props.contains(prop))
        {
            stage.let_go()?;
        }
        Ok((stage, first, second))
    }
}

/// Runs the operation, and nothing beside it.
fn alone(_: &Stage, traced: Traced) -> (Kept, Option<String>) {
    (in_steps(traced), None)
}

/// Returns the steps of the first process, until it is killed or at its end, and its survivors.
fn die(
    mut first: Actor,
    mut second: Option<&mut Actor>,
    kill_at: Option<usize>,
) -> Outcome<(Vec<Step>, Vec<Process>)> {
    let mut steps = Vec::new();
    while kill_at != Some(steps.len()) {
        match first.step(second.as_deref_mut())? {
            Some(step) => steps.push(step),
            None => {
                let lives = first.tracee.is_there;
                return Ok((steps, first.survivors(lives)));
            }
        }
    }
    first.tracee.kill()?;
    process::is_over(first.process.pid);
    Ok((steps, first.survivors(false)))
}

/// Does the same for its child. The parent has gone on meanwhile.
fn child_dies(parent: Actor, kill_at: Option<usize>) -> Outcome<(Vec<Step>, Vec<Process>)> {
    let (child, mut survivors) = parent.into_child()?;
    if kill_at.is_some() {
        process::is_killed_orphan(child.process.pid);
    }
    let (steps, child) = die(child, None, kill_at)?;
    survivors.extend(child);
    Ok((steps, survivors))
}

/// Checks that all stores of an operation are announced.
pub(crate) fn watched(operation: &'static Operation, counts: &mut Counts) {
    let case = Case { first: operation, beside: None };
    let watch = || -> Outcome<Watched> {
        let (_stage, mut first, _) = case.set_up(alone)?;
        let whom = match operation.victim {
            Victim::Itself => &mut first.tracee,
            Victim::ItsChild => {
                first.run_to_end()?;
                &mut first.tracee.take_child().ok_or("it forked no child")?
            }
        };
        watch(whom)
    };
    let outcome = caught(watch).and_then(|watched| watched);
    process::end_all();
    let counted = case.run(None);
    match (outcome, counted) {
        (Ok(watched), Ok(steps)) if watched.steps == steps => {
            counts.row(operation.name, steps.len(), steps.len());
            counts.note(&format!("{:6} stores seen: {}", watched.stores, operation.name));
        }
        (Ok(watched), Ok(steps)) => {
            counts.failed(
                operation.name,
                &format!("watched: {}", difference(&watched.steps, &steps)),
            );
        }
        (Err(what), _) | (_, Err(what)) => counts.failed(operation.name, &what),
    }
}

/// Kills an operation's process at each of its steps.
pub(crate) fn every_step(operation: &'static Operation, worker: Worker, counts: &mut Counts) {
    let case = Case { first: operation, beside: None };
    let Some((steps, runs)) = at_every_step(case, operation.name, usize::MAX, worker, counts)
    else {
        return;
    };
    if steps <= operation.least {
        counts.failed(operation.name, &format!("has only {steps} steps"));
    }
    counts.row(operation.name, steps, runs);
}

/// Kills the first at `kills` of its steps, while the second is stopped at `most` of its own.
pub(crate) fn every_step_beside_another(
    [first, second]: &'static [Operation; 2],
    (kills, most): (usize, usize),
    worker: Worker,
    counts: &mut Counts,
) {
    let name = format!("{} beside {}", first.name, second.name);
    let alone = match (Case { first: second, beside: Some((first, 0)) }).run(None) {
        Ok(alone) => alone,
        Err(what) => return counts.failed(&name, &format!("the second before the first: {what}")),
    };
    let mut steps = 0;
    let mut runs = 0;
    for stand in spread(&stands(&alone), most) {
        let case = Case { first, beside: Some((second, stand)) };
        let at = alone
            .get(stand.wrapping_sub(1))
            .map_or("its beginning".to_owned(), ToString::to_string);
        let name = format!("{name}, which stands {at} ({stand})");
        let Some(more) = at_every_step(case, &name, kills, worker, counts) else { continue };
        (steps, runs) = (steps + more.0, runs + more.1);
    }
    counts.row(&name, steps, runs);
}

/// Runs at every step at which the victim shall be killed, all or `most`, that is this worker's.
/// Returns the number of steps, and of the worker's.
fn at_every_step(
    case: Case,
    name: &str,
    most: usize,
    worker: Worker,
    counts: &mut Counts,
) -> Option<(usize, usize)> {
    let steps = match case.run(None) {
        Ok(steps) => steps,
        Err(what) => {
            counts.failed(name, &format!("without a crash: {what}"));
            return None;
        }
    };
    let kills = spread(&(1..=steps.len()).collect::<Vec<_>>(), most);
    let mine = kills
        .iter()
        .enumerate()
        .filter(|(index, _)| worker.has(*index))
        .map(|(_, kill_at)| *kill_at);
    counts.tally(WAITS, steps.iter().filter(|step| matches!(step, Step::Wait(_))).count());
    let runs = mine.map(|kill_at| match case.run(Some(kill_at)) {
        Ok(died) if died == steps[..kill_at] => {}
        Ok(died) => {
            counts.failed(name, &format!("killed at {kill_at}: {}", difference(&died, &steps)))
        }
        Err(what) => counts.failed(
            name,
            &format!("killed at {kill_at} of {}, {}: {what}", steps.len(), steps[kill_at - 1]),
        ),
    });
    let runs = runs.count();
    Some((kills.len(), runs))
}

pub(crate) fn difference(one: &[Step], other: &[Step]) -> String {
    let at = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let said = |steps: &[Step]| steps.get(at).map_or("nothing".to_owned(), ToString::to_string);
    format!("step {} is {}, and in another run {}", at + 1, said(one), said(other))
}

/// Returns after how many of its steps the other process may be stopped: none, those that other
/// processes can see, and those before such a step. Requests to its allocator are no such steps.
fn stands(steps: &[Step]) -> Vec<usize> {
    const OWN: [i64; 5] = [
        libc::SYS_brk,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_getrandom,
        libc::SYS_rt_sigprocmask,
    ];
    let is_seen =
        |step: &Step| !matches!(step, Step::Enter(call) | Step::Leave(call) if OWN.contains(call));
    let seen =
        steps.iter().enumerate().filter(|(_, step)| is_seen(step)).map(|(index, _)| index + 1);
    [0].into_iter().chain(seen).collect()
}

/// Returns at most so many, evenly spread, with the first and the last.
pub(crate) fn spread(all: &[usize], most: usize) -> Vec<usize> {
    if all.len() <= most {
        return all.to_vec();
    }
    (0..most).map(|index| all[index * (all.len() - 1) / (most - 1)]).collect()
}

/// A share of all runs.
#[derive(Clone, Copy)]
pub(crate) struct Worker {
    index: usize,
    count: usize,
}

impl Worker {
    pub(crate) fn has(self, index: usize) -> bool {
        index % self.count == self.index
    }
}

/// How often the victim had to wait for the other.
pub(crate) const WAITS: &str = "somebody waited for a process that stood still";

/// The runs of each row: how many there shall be, and how many there were.
#[derive(Default)]
pub(crate) struct Counts {
    rows: BTreeMap<String, (usize, usize)>,
    failures: Vec<String>,
    notes: Vec<String>,
    /// How often something happened.
    tallies: BTreeMap<String, usize>,
}

impl Counts {
    pub(crate) fn row(&mut self, name: &str, steps: usize, runs: usize) {
        let row = self.rows.entry(name.to_owned()).or_insert((steps, 0));
        row.1 += runs;
        if row.0 != steps {
            self.failures
                .push(format!("{name}: {} steps in one process and {steps} in another", row.0));
        }
    }

    pub(crate) fn failed(&mut self, name: &str, what: &str) {
        self.failures.push(format!("{name}: {what}"));
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    pub(crate) fn tally(&mut self, what: &str, times: usize) {
        *self.tallies.entry(what.to_owned()).or_default() += times;
    }

    pub(crate) fn tallied(&self, what: &str) -> usize {
        self.tallies.get(what).copied().unwrap_or_default()
    }

    pub(crate) fn runs(&self) -> usize {
        self.rows.values().map(|(_, runs)| runs).sum()
    }

    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Fails also when some row was not run, or some step was nobody's.
    pub(crate) fn fail_unless_well(mut self, rows: usize) {
        for (name, (steps, runs)) in &self.rows {
            eprintln!("{steps:6} steps, {runs:6} runs: {name}");
            if steps != runs || *steps == 0 {
                self.failures.push(format!("{name}: {runs} runs for {steps} steps"));
            }
        }
        self.notes.iter().for_each(|note| eprintln!("{note}"));
        self.tallies.iter().for_each(|(what, times)| eprintln!("{times:6} times {what}"));
        eprintln!("{} runs, {} failed", self.runs(), self.failures.len());
        assert!(
            self.failures.is_empty(),
            "{} failed:\n{}",
            self.failures.len(),
            self.failures.join("\n")
        );
        assert_eq!(self.rows.len(), rows);
    }

    fn tell(&self, line: &mut Line) {
        self.rows
            .iter()
            .for_each(|(name, (steps, runs))| line.tell(&format!("row\t{name}\t{steps}\t{runs}")));
        self.failures.iter().for_each(|failure| line.tell(&format!("failure\t{failure}")));
        self.notes.iter().for_each(|note| line.tell(&format!("note\t{note}")));
        self.tallies.iter().for_each(|(what, times)| line.tell(&format!("tally\t{what}\t{times}")));
        line.tell("done");
    }

    /// Returns `false` at the end.
    fn hear(&mut self, said: &str) -> bool {
        match said.splitn(4, '\t').collect::<Vec<_>>().as_slice() {
            ["row", name, steps, runs] => {
                self.row(name, steps.parse().unwrap(), runs.parse().unwrap())
            }
            ["tally", what, times] => self.tally(what, times.parse().unwrap()),
            ["failure", ..] => self.failures.push(said["failure\t".len()..].to_owned()),
            ["note", ..] => self.note(&said["note\t".len()..]),
            _ => return false,
        }
        true
    }
}

/// Shares the work among as many processes as there are processors, each on its own: tracer and
/// tracee take turns anyway.
pub(crate) fn in_workers(work: impl Fn(Worker, &mut Counts)) -> Counts {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let start_worker = |index| {
        start(|line| {
            adopt_orphans();
            stay_on_processor(index);
            let mut counts = Counts::default();
            work(Worker { index, count }, &mut counts);
            counts.tell(line);
        })
    };
    let workers: Vec<_> = (0..count).map(start_worker).collect();
    let mut counts = Counts::default();
    for mut worker in workers {
        while counts
            .hear(&worker.line.hear().unwrap_or_else(|what| panic!("a worker failed: {what}")))
        {
        }
    }
    process::all_ended_well().unwrap_or_else(|what| panic!("a worker: {what}"));
    counts
}

fn adopt_orphans() {
    // SAFETY: the call cannot touch this process's memory, because all of its arguments are plain
    // numbers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Keeps this process on one of the processors that it may use. It is only faster.
fn stay_on_processor(index: usize) {
    // SAFETY: zeros are a valid value, because the structure is a set of bits and nothing else.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call, because the set has the size that is passed and
    // outlives it.
    unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    // SAFETY: the access stays in bounds, because the range below has only indices that are inside
    // the set.
    let is_ours = |processor: &usize| unsafe { libc::CPU_ISSET(*processor, &set) };
    let Some(ours) = (0..libc::CPU_SETSIZE as usize).filter(is_ours).nth(index) else { return };
    // SAFETY: zeros are a valid value, because the structure is a set of bits and nothing else.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the access stays in bounds, because `ours` is the index of a bit that was found in
    // such a set.
    unsafe { libc::CPU_SET(ours, &mut one) };
    // SAFETY: the pointer is valid for the call, because the set has the size that is passed and is
    // only read.
    unsafe { libc::sched_setaffinity(0, size_of_val(&one), &raw const one) };
}

/// Makes stages in the directory of the scenario.
pub(crate) fn make_stages_here() {
    adopt_orphans();
    // SAFETY: changing the environment needs a process in which nothing reads it, and no other
    // thread of this one does.
    unsafe { std::env::set_var("SHMARRAY_STAGES", crate::support::directory()) };
}
