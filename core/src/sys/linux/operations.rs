//! What the threads of this process are in the middle of, for which its end waits.
//!
//! Between its file and its place in the table an array is nobody's: what the exit handler gives
//! back would be without it, and a thread that the end of the process stops there leaves a file to
//! the next sweep. Each operation that makes, opens or drops one counts here from its begin to its
//! end.
//!
//! | word | values | moved by |
//! |---|---|---|
//! | `UNDER_WAY` | bit 31: the end waits; below: operations | `begin`, and the drop of what it returns: Release, the partner of the end's Acquire |

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::mutex::{wait_until, wake};

static UNDER_WAY: AtomicU32 = AtomicU32::new(0);
const AWAITED: u32 = 1 << 31;

/// An end that waits for ever would be worse than a file that the next sweep finds.
const MOST: Duration = Duration::from_secs(5);

thread_local! {
    /// This thread's part. A signal handler may end the process in the middle of one.
    static OWN: Cell<u32> = const { Cell::new(0) };
}

/// One that is under way.
#[must_use]
pub(crate) struct Operation(());

impl Operation {
    pub(crate) fn begin() -> Self {
        OWN.with(|own| own.set(own.get() + 1));
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        OWN.with(|own| own.set(own.get() - 1));
        if UNDER_WAY.fetch_sub(1, Ordering::Release) & AWAITED != 0 {
            wake(&UNDER_WAY, i32::MAX);
        }
    }
}

/// At the end of the process: until other threads have done what they had begun.
pub(crate) fn wait_for_others() {
    let (own, until) = (OWN.with(Cell::get), Instant::now() + MOST);
    let mut word = UNDER_WAY.fetch_or(AWAITED, Ordering::Acquire) | AWAITED;
    while word & !AWAITED > own && wait_until(&UNDER_WAY, word, until) {
        word = UNDER_WAY.load(Ordering::Acquire);
    }
}

/// In a forked child: the other threads are not here.
pub(crate) fn forget_others() {
    UNDER_WAY.store(OWN.with(Cell::get), Ordering::Relaxed);
}
