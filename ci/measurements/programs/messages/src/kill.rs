//! What it costs when a process is killed in the middle of a stream of small messages.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::ways::{Plan, Wait, Way};
use crate::workers::{Board, Outcome, Worker, cores};
use crate::{STOP, files, plan};

/// So many messages have gone before a process is killed.
const BEFORE: u64 = 5000;
const PATIENCE: Duration = Duration::from_secs(2);
/// Numbers of the second sender have this bit.
const SECOND: u64 = 1 << 32;

/// Kills one of both, starts another one in its place so many milliseconds later, and prints what
/// the one that was left saw, the seconds from the start of the other until a message came
/// through, how many messages were lost, and what files are left when all have ended.
pub fn kill(way: &'static Way, kills_sender: bool, milliseconds: u64) -> Outcome<()> {
    let files_before = files::there();
    let board = Board::new()?;
    let plan = plan(8, Wait::Block, 64, board);
    let receiver = receives(way, &plan, board)?;
    let sender = sends(way, &plan, board, 0)?;
    within(|| board.received.0.load(SeqCst) > BEFORE).ok_or("it does not begin")?;
    let [victim, other] = if kills_sender { [sender, receiver] } else { [receiver, sender] };
    victim.kill()?;
    let (sent, received) = (board.sent.0.load(SeqCst), board.received.0.load(SeqCst));
    let sees = look(board, Duration::from_millis(milliseconds));
    board.first.0.store(0, SeqCst);
    let began = Instant::now();
    let new =
        if kills_sender { sends(way, &plan, board, SECOND)? } else { receives(way, &plan, board)? };
    let (counter, least) = if kills_sender { (&board.received, SECOND) } else { (&board.first, 0) };
    let again = within(|| counter.0.load(SeqCst) > least);
    let after = again.map(|()| began.elapsed());
    let lost = if kills_sender {
        sent.saturating_sub(board.last.0.load(SeqCst))
    } else {
        board.first.0.load(SeqCst).saturating_sub(received + 1)
    };
    board.stop.0.store(1, SeqCst);
    for worker in [other, new] {
        worker.end_within(PATIENCE)?;
    }
    let after = after.map_or("null".to_owned(), |after| format!("{:e}", after.as_secs_f64()));
    let left = files::left_since(&files_before);
    let (count, bytes) = (left.len(), files::bytes(&left));
    let loss = format!(r#""lost": {lost}, "files": {count}, "bytes": {bytes}"#);
    println!(r#"{{"sees": "{sees}", "seconds": {after}, {loss}}}"#);
    Ok(())
}

/// What the process that is left does in that time.
fn look(board: &Board, time: Duration) -> String {
    std::thread::sleep(time / 2);
    let before = (board.sent.0.load(SeqCst), board.received.0.load(SeqCst));
    std::thread::sleep(time / 2);
    let after = (board.sent.0.load(SeqCst), board.received.0.load(SeqCst));
    match board.error() {
        Some(error) => error.replace(['"', '\\'], "'"),
        None if before == after => "nothing: it waits".to_owned(),
        None => "nothing: it goes on".to_owned(),
    }
}

fn sends(
    way: &'static Way,
    plan: &Plan,
    board: &'static Board,
    mut number: u64,
) -> Outcome<Worker> {
    let plan = plan.clone();
    let [first, _] = cores()?;
    Worker::start(way.in_threads, Some(first), move || {
        let mut out = (way.sender)(&plan)?;
        while board.stop.0.load(SeqCst) == 0 {
            number += 1;
            match out.send(number) {
                Ok(()) => board.sent.0.store(number, SeqCst),
                Err(error) => {
                    board.note(&*error);
                    drop(out);
                    out = (way.sender)(&plan)?;
                }
            }
        }
        out.send(STOP)?;
        board.meet(2);
        Ok(())
    })
}

fn receives(way: &'static Way, plan: &Plan, board: &'static Board) -> Outcome<Worker> {
    let plan = plan.clone();
    let [_, core] = cores()?;
    Worker::start(way.in_threads, Some(core), move || {
        let mut from = (way.receiver)(&plan)?;
        let mut last = 0;
        loop {
            match from.receive() {
                Ok(STOP) => break,
                Ok(number) => {
                    if last == 0 {
                        board.first.0.store(number, SeqCst);
                    }
                    if last < SECOND && number > SECOND {
                        board.last.0.store(last, SeqCst);
                    }
                    board.received.0.store(number, SeqCst);
                    last = number;
                }
                Err(error) => {
                    board.note(&*error);
                    drop(from);
                    from = (way.receiver)(&plan)?;
                }
            }
        }
        board.meet(2);
        Ok(())
    })
}

fn within(is_so: impl Fn() -> bool) -> Option<()> {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > PATIENCE {
            return None;
        }
        std::thread::yield_now();
    }
    Some(())
}
