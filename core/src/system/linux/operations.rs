//! Operations that threads of this process are in the middle of, and for which its exit waits.
//!
//! Between the creation of its file and its entry in the table an array belongs to nobody: the exit
//! handler would not give it back, and a thread that the exit stops there leaves a file to the next
//! sweep. Each operation that creates, opens or drops an array is counted here from its begin to
//! its end.
//!
//! The atomic `UNDER_WAY` has two parts. Bit 31 says that the exit waits; the bits below count the
//! operations. `begin` adds one, and the drop of what it returns subtracts one with Release, the
//! partner of the Acquire in `wait_for_others`.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::mutex::{wait_until, wake};

static UNDER_WAY: AtomicU32 = AtomicU32::new(0);
const AWAITED: u32 = 1 << 31;

/// The longest wait: an exit that hangs would be worse than a file that the next sweep finds.
const MOST: Duration = Duration::from_secs(5);

thread_local! {
    /// The operations of this thread: a signal handler may exit in the middle of one.
    static OWN: Cell<u32> = const { Cell::new(0) };
}

/// An operation in progress, counted until it is dropped.
#[must_use]
pub(crate) struct Counted(());

impl Counted {
    pub(crate) fn begin() -> Self {
        OWN.with(|own| own.set(own.get() + 1));
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OWN.with(|own| own.set(own.get() - 1));
        if UNDER_WAY.fetch_sub(1, Ordering::Release) & AWAITED != 0 {
            wake(&UNDER_WAY, i32::MAX);
        }
    }
}

/// Called at exit: waits until other threads have finished the operations that they had begun.
pub(crate) fn wait_for_others() {
    let own = OWN.with(Cell::get);
    let until = Instant::now() + MOST;
    let mut word = UNDER_WAY.fetch_or(AWAITED, Ordering::Acquire) | AWAITED;
    while word & !AWAITED > own && wait_until(&UNDER_WAY, word, until) {
        word = UNDER_WAY.load(Ordering::Acquire);
    }
}

/// Called in a forked child, which has no other threads: forgets their operations.
pub(crate) fn forget_others() {
    UNDER_WAY.store(OWN.with(Cell::get), Ordering::Relaxed);
}
