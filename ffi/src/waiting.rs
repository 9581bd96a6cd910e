//! Waiting: timeouts, and the signal handlers that run meanwhile.
//!
//! A wait of core ends with EINTR when a handler ran, also one with SA_RESTART: the kernel does not
//! restart a sleep that has a timeout, and core's have one. Here the wait goes on, unless the
//! thread asked to be told.

use std::cell::Cell;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use shmarray::Error;

use crate::error::Failure;

/// The timeout_ns that waits without a limit, as any negative number does.
pub const SHMA_NO_TIMEOUT: i64 = -1;

thread_local! {
    static IS_INTERRUPTIBLE: Cell<bool> = const { Cell::new(false) };
}

/// Says whether a signal handler that runs in this thread ends the thread's waits; at first none
/// does. Returns 1 if one did before this call, else 0.
///
/// If a handler does not end it, a wait goes on for what is left of its timeout. If one does, the
/// function that waited fails with SHMA_ERROR_OS and os_errno EINTR, also for a handler with
/// SA_RESTART. Nothing was sent, received or opened then, and the call can be repeated. A handler
/// that runs before the wait has begun does not end it.
#[unsafe(no_mangle)]
pub extern "C" fn shma_set_interruptible(is_interruptible: i32) -> i32 {
    IS_INTERRUPTIBLE.replace(is_interruptible != 0).into()
}

/// Calls a function of core that waits. It is called again, with what is left of the timeout, after
/// each signal handler that ran meanwhile, unless handlers end this thread's waits.
pub(crate) fn wait<T>(
    timeout_ns: i64,
    mut attempt: impl FnMut(Option<Duration>) -> shmarray::Result<T>,
) -> Result<T, Failure> {
    let mut left = u64::try_from(timeout_ns).ok().map(Duration::from_nanos);
    let limit = left.filter(|timeout| !timeout.is_zero()); // else it does not wait
    let until = limit.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        match attempt(left) {
            Err(error) if is_interrupted(&error) && !IS_INTERRUPTIBLE.get() => {
                if let Some(until) = until {
                    left = Some(until.saturating_duration_since(Instant::now()));
                }
            }
            done => return Ok(done?),
        }
    }
}

fn is_interrupted(error: &Error) -> bool {
    matches!(error, Error::Os { source, .. } if source.kind() == ErrorKind::Interrupted)
}
