//! A signal handler sends by the channel whose send, or receive, it interrupts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use shmarray::Channel;

use crate::actor::in_steps;
use crate::forkers::{SIGNAL, handle_signal};
use crate::operations::channels::{open, receive, send};
use crate::operations::{Operation, PLAIN};
use crate::process::{self, Outcome, caught};
use crate::run::{Case, Counts, Worker};
use crate::stage::{Kept, Prop};

/// What the process and its handler share: an end that sends, and one of a guest.
static ENDS: OnceLock<[Channel; 2]> = OnceLock::new();

/// The numbers that were received, in their order. A handler locks and allocates nothing.
static RECEIVED: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];
static COUNT: AtomicUsize = AtomicUsize::new(0);

pub(crate) static SENDS: Operation = Operation {
    name: "send, and receive, while a signal handler sends and receives",
    props: &[Prop::Sole],
    prepare: |_| {
        let [sender, guest] = ENDS.get_or_init(|| [open(), open()]);
        handle_signal(send_in_handler);
        drain(guest);
        Box::new(|| {
            for number in [3, 4, 5] {
                send(sender, number);
                drain(guest);
            }
            Kept::default()
        })
    },
    ..PLAIN
};

fn drain(guest: &Channel) {
    while let Some(number) = receive(guest) {
        RECEIVED[COUNT.fetch_add(1, Ordering::Relaxed)].store(number, Ordering::Relaxed);
    }
}

/// Sends one as the interrupted end, and lets a guest send another, and receive all.
extern "C" fn send_in_handler(_: libc::c_int) {
    let [sender, guest] = ENDS.get().expect("opened before any signal");
    drain(guest);
    send(sender, 8);
    send(guest, 9);
    drain(guest);
}

/// Sends the signal at every step: each message is received once, and those of an end in their
/// order.
pub(crate) fn send_at_steps(worker: Worker, counts: &mut Counts) {
    let steps = match run(None) {
        Ok(steps) => steps,
        Err(what) => return counts.failed(SENDS.name, &format!("without a signal: {what}")),
    };
    let mine: Vec<_> = (1..=steps).filter(|at| worker.has(*at)).collect();
    for at in &mine {
        if let Err(what) = run(Some(*at)) {
            counts.failed(SENDS.name, &format!("at {at} of {steps}: {what}"));
        }
    }
    counts.row(SENDS.name, steps, mine.len());
}

/// Returns the number of steps before the signal, or of all.
fn run(signal_at: Option<usize>) -> Outcome<usize> {
    let ran = caught(|| try_run(signal_at)).and_then(|ran| ran);
    ran.inspect_err(|_| process::end_all())
}

fn try_run(signal_at: Option<usize>) -> Outcome<usize> {
    let case = Case { first: &SENDS, beside: None };
    let (stage, mut actor, _) = case.set_up(|_, traced| {
        let kept = in_steps(traced);
        let of = |index: usize| RECEIVED[index].load(Ordering::Relaxed);
        let received: Vec<_> = (0..COUNT.load(Ordering::Relaxed)).map(of).collect();
        let mut expected = vec![1, 2, 3, 4, 5];
        let others: Vec<_> = received.iter().copied().filter(|number| *number > 5).collect();
        let its_own: Vec<_> = received.iter().copied().filter(|number| *number <= 5).collect();
        assert_eq!(its_own, expected, "of {received:?}");
        expected = if signal_at.is_some() { vec![8, 9] } else { vec![] };
        assert_eq!(others, expected, "of {received:?}");
        (kept, None)
    })?;
    let mut steps = 0;
    while signal_at != Some(steps) && actor.step(None)?.is_some() {
        steps += 1;
    }
    if signal_at.is_some() {
        actor.tracee.send_signal(SIGNAL);
    }
    actor.run_to_end()?;
    let survivors = actor.survivors(true);
    stage.survives(survivors, &[], &[], SENDS.then)?;
    Ok(steps)
}
