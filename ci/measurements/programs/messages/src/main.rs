//! Messages of each way between processes: their times, what many ends move, what wakes a receiver,
//! and what a killed process costs the others.
//!
//! ```text
//! messages ways                                        their names
//! messages round WAY BYTES COUNT poll|block            a message there and back: mean, percentiles
//! messages flood WAY BYTES COUNT SENDERS RECEIVERS     seconds of one message; messages lost
//! messages burst WAY                                   how often the receiver slept, each time
//! messages kill WAY sender|receiver MILLISECONDS       how it goes on, begun again so much later
//! ```
//! Each prints a line of JSON.

mod files;
mod kill;
mod ways;
mod workers;

use hdrhistogram::Histogram;
use quanta::Clock;

use ways::{Plan, WAYS, Wait, Way};
use workers::{Board, Outcome, Worker, cores, pin};

use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

/// No message has this number: the receiver of it ends.
const STOP: u64 = u64::MAX;
const BURST: u64 = 1000;
const BURSTS: u64 = 11;

fn main() -> Outcome<()> {
    let before = files::there();
    let done = run();
    files::remove(&files::since(&before));
    done
}

fn run() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["ways"] => {
            let names: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
            println!("{names:?}");
            Ok(())
        }
        ["round", way, bytes, count, wait] => {
            let wait = if wait == "poll" { Wait::Poll } else { Wait::Block };
            round(named(way)?, bytes.parse()?, count.parse()?, wait)
        }
        ["flood", way, bytes, count, senders, receivers] => {
            flood(named(way)?, bytes.parse()?, count.parse()?, senders.parse()?, receivers.parse()?)
        }
        ["burst", way] => burst(named(way)?),
        ["kill", way, victim, later] => kill::kill(named(way)?, victim == "sender", later.parse()?),
        _ => Err("usage: messages ways | round … | flood … | burst … | kill …".into()),
    }
}

fn named(name: &str) -> Outcome<&'static Way> {
    WAYS.iter().find(|way| way.name == name).ok_or_else(|| format!("no way {name}").into())
}

fn plan(bytes: usize, wait: Wait, slots: u32, board: &'static Board) -> Plan {
    Plan::new(format!("messages-{}", std::process::id()), bytes, wait, slots, &board.words[0])
}

fn round(way: &'static Way, bytes: usize, count: u64, wait: Wait) -> Outcome<()> {
    let board = Board::new()?;
    let [first, last] = cores()?;
    let warm_up = (count / 10).clamp(10, 1000);
    let there = plan(bytes, wait, 8, board);
    let back = there.back(board);
    let ours = (there.clone(), back.clone());
    let answers = Worker::start(way.in_threads, Some(last), move || {
        let mut from = (way.receiver)(&there)?;
        let mut out = (way.sender)(&back)?;
        board.meet(2);
        for _ in 0..warm_up + count {
            out.send(from.receive()?)?;
        }
        board.meet(4); // what it sent is not to go with it
        Ok(())
    })?;
    pin(Some(first))?;
    let mut out = (way.sender)(&ours.0)?;
    let mut from = (way.receiver)(&ours.1)?;
    board.meet(2);
    let clock = Clock::new();
    let mut times = Histogram::<u64>::new(3)?;
    for number in 1..=warm_up + count {
        let began = clock.raw();
        out.send(number)?;
        if from.receive()? != number {
            return Err("another message came back".into());
        }
        let ended = clock.raw();
        if number > warm_up {
            times.record(clock.delta_as_nanos(began, ended))?;
        }
    }
    board.meet(4);
    answers.join()?;
    let at = |part: f64| times.value_at_quantile(part) as f64 * 1e-9;
    println!(
        r#"{{"mean": {:e}, "p50": {:e}, "p99": {:e}, "p99.9": {:e}, "p99.99": {:e}}}"#,
        times.mean() * 1e-9,
        at(0.5),
        at(0.99),
        at(0.999),
        at(0.9999)
    );
    Ok(())
}

/// All ends are there before the clock starts, and it ends when the last receiver has everything.
fn flood(
    way: &'static Way,
    bytes: usize,
    count: u64,
    senders: usize,
    receivers: usize,
) -> Outcome<()> {
    let board = Board::new()?;
    // A receiver of iceoryx2 that blocks is woken by a system call for each message.
    let wait = if way.name == "iceoryx2" { Wait::Yield } else { Wait::Block };
    let plan =
        plan(bytes, wait, if bytes > 4096 { 8 } else { 64 }, board).between(senders, receivers);
    let each = count / senders as u64;
    let all = (senders + receivers + 1) as u64;
    // In a broadcast each sender stops all receivers; in a queue the last one stops each of them.
    let stops = if way.broadcasts { senders } else { 1 };
    let mut workers = Vec::new();
    for _ in 0..receivers {
        let plan = plan.clone();
        workers.push(Worker::start(way.in_threads, None, move || {
            let mut from = (way.receiver)(&plan)?;
            board.meet(all);
            board.meet(2 * all);
            from.connect()?;
            board.meet(3 * all);
            let (mut stopped, mut received) = (0, 0);
            while stopped < stops {
                if from.receive()? == STOP { stopped += 1 } else { received += 1 }
            }
            board.received.0.fetch_add(received, SeqCst);
            board.meet(4 * all); // a sender that leaves takes what it sent with it
            Ok(())
        })?);
    }
    for _ in 0..senders {
        let plan = plan.clone();
        workers.push(Worker::start(way.in_threads, None, move || {
            let mut out = (way.sender)(&plan)?;
            board.meet(all);
            out.connect()?;
            board.meet(2 * all);
            board.meet(3 * all);
            for number in 1..=each {
                out.send(number)?;
            }
            let is_last = board.senders_that_ended.0.fetch_add(1, SeqCst) + 1 == senders as u64;
            let stops = if way.broadcasts { 1 } else { usize::from(is_last) * receivers };
            for _ in 0..stops {
                out.send(STOP)?;
            }
            board.meet(4 * all);
            Ok(())
        })?);
    }
    (1..=3).for_each(|time| board.meet(time * all));
    let began = Instant::now();
    board.meet(4 * all);
    let seconds = began.elapsed().as_secs_f64();
    workers.into_iter().try_for_each(Worker::join)?;
    let sent = each * senders as u64;
    let expected = if way.broadcasts { sent * receivers as u64 } else { sent };
    let lost = expected as i64 - board.received.0.load(SeqCst) as i64;
    println!(r#"{{"seconds": {:e}, "lost": {lost}}}"#, seconds / sent as f64);
    Ok(())
}

/// Sends many small messages to a receiver that sleeps. Neither is pinned: a process that has only
/// one processor looks for nothing before it sleeps.
fn burst(way: &'static Way) -> Outcome<()> {
    let board = Board::new()?;
    let plan = plan(8, Wait::Block, BURST as u32 + 10, board);
    let its_plan = plan.clone();
    let receiver = Worker::start(way.in_threads, None, move || {
        let mut from = (way.receiver)(&its_plan)?;
        board.thread.0.store(rustix::thread::gettid().as_raw_nonzero().get() as u64, SeqCst);
        board.meet(2);
        for time in 0..BURSTS {
            let before = sleeps()?;
            for _ in 0..BURST {
                from.receive()?;
            }
            board.slept.0.store(sleeps()? - before, SeqCst);
            board.meet(2 * time + 4);
        }
        Ok(())
    })?;
    let mut out = (way.sender)(&plan)?;
    board.meet(2);
    let mut slept = Vec::new();
    for time in 0..BURSTS {
        await_sleep(board.thread.0.load(SeqCst))?;
        for number in 1..=BURST {
            out.send(number)?;
        }
        board.meet(2 * time + 4);
        slept.push(board.slept.0.load(SeqCst));
    }
    receiver.join()?;
    println!("{slept:?}");
    Ok(())
}

/// How often this thread has slept.
fn sleeps() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Ok(line.ok_or("no count of switches")?.trim().parse()?)
}

fn await_sleep(thread: u64) -> Outcome<()> {
    loop {
        let status = std::fs::read_to_string(format!("/proc/{thread}/stat"))?;
        let state = status.rsplit_once(") ").ok_or("no state")?.1;
        if state.starts_with('S') {
            return Ok(());
        }
        std::thread::yield_now();
    }
}
