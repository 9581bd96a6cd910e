//! Loom's atomics, with the operations that a control word has.
//!
//! Loom 0.7 misses interleavings in which a thread stores to an atomic that it has loaded itself
//! (tokio-rs/loom#166): it remembers one last access of each atomic, and such a thread finds its
//! own access there. So each word has a turn beside it, which is taken before each operation: two
//! operations on a turn never commute. A turn is Relaxed, so it orders nothing else. Fences have a
//! turn, too, because loom orders them as they come.
//!
//! A test of the tests makes one operation of `lease` or of a channel's ring weaker than it is
//! written ([`weaken`]). No source is changed: a loss is named by its location in that file. No
//! scenario runs both.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::Location;

pub(crate) use loom::sync::atomic::Ordering;

/// The orderings and fences that an operation can lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loss {
    Acquire,
    Release,
    Fence,
}

/// A location in the file that the scenarios are about, line and column, and what is lost there.
pub(crate) type Weaker = (u32, u32, Loss);

std::thread_local! {
    static WEAKER: Cell<Option<Weaker>> = const { Cell::new(None) };
    static POSSIBLE: RefCell<Option<BTreeSet<Weaker>>> = const { RefCell::new(None) };
}

/// Makes one location weaker in all that this thread models from now on.
pub(crate) fn weaken(weaker: Option<Weaker>) {
    WEAKER.set(weaker);
}

/// Returns all that could be made weaker in what `run` models.
pub(crate) fn possible_losses(run: impl FnOnce()) -> BTreeSet<Weaker> {
    POSSIBLE.set(Some(BTreeSet::new()));
    run();
    POSSIBLE.take().unwrap_or_default()
}

/// Whether the calling operation keeps this ordering or fence. Records that it could lose it.
#[track_caller]
fn keeps(loss: Loss) -> bool {
    let location = Location::caller();
    if !["lease.rs", "channel/ring.rs"].iter().any(|file| location.file().ends_with(file)) {
        return true;
    }
    let weaker = (location.line(), location.column(), loss);
    POSSIBLE.with_borrow_mut(|possible| possible.as_mut().map(|possible| possible.insert(weaker)));
    WEAKER.get() != Some(weaker)
}

/// The ordering that remains at this location.
#[track_caller]
fn weakened(order: Ordering) -> Ordering {
    let acquires = matches!(order, Ordering::Acquire | Ordering::AcqRel) && keeps(Loss::Acquire);
    let releases = matches!(order, Ordering::Release | Ordering::AcqRel) && keeps(Loss::Release);
    match (acquires, releases) {
        (true, true) => Ordering::AcqRel,
        (true, false) => Ordering::Acquire,
        (false, true) => Ordering::Release,
        (false, false) if order == Ordering::SeqCst => order, // nothing here uses it
        (false, false) => Ordering::Relaxed,
    }
}

loom::lazy_static! {
    static ref FENCES: Turn = Turn::new(0);
}

#[track_caller]
pub(crate) fn fence(order: Ordering) {
    if keeps(Loss::Fence) {
        FENCES.fetch_add(1, Ordering::Relaxed);
        loom::sync::atomic::fence(order);
    }
}

type Turn = loom::sync::atomic::AtomicU64;

/// A loom atomic with the operations of a `ControlWord`.
pub(crate) struct AtomicU64 {
    value: loom::sync::atomic::AtomicU64,
    turn: Turn,
}

impl AtomicU64 {
    pub(super) fn of(value: u64) -> Self {
        Self { value: Turn::new(value), turn: Turn::new(0) }
    }

    fn in_turn(&self) -> &loom::sync::atomic::AtomicU64 {
        self.turn.fetch_add(1, Ordering::Relaxed);
        &self.value
    }

    #[track_caller]
    pub(super) fn load(&self, order: Ordering) -> u64 {
        self.in_turn().load(weakened(order))
    }

    #[track_caller]
    pub(super) fn store(&self, value: u64, order: Ordering) {
        self.value.store(value, weakened(order));
    }

    #[track_caller]
    pub(super) fn compare_exchange(
        &self,
        from: u64,
        to: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.value.compare_exchange(from, to, weakened(success), weakened(failure))
    }

    #[track_caller]
    pub(super) fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.value.fetch_or(bits, weakened(order))
    }

    #[track_caller]
    pub(super) fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        self.value.fetch_and(bits, weakened(order))
    }

    #[track_caller]
    pub(super) fn fetch_add(&self, more: u64, order: Ordering) -> u64 {
        self.value.fetch_add(more, weakened(order))
    }
}
