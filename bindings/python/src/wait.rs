//! Waits without the GIL, which a signal of Python interrupts.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error::{to_py, value_error};

/// Linux's number.
const EINTR: i32 = 4;

/// Waits without the GIL. A signal interrupts the wait for Python's handlers, which may raise; then
/// the wait goes on.
// Calls that need not wait do not come here: getting the GIL again takes longer.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    attempt: impl Fn(Option<Duration>) -> shmarray::Result<T> + Sync,
) -> PyResult<T> {
    let until = timeout.map(until).transpose()?.flatten();
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match py.detach(|| attempt(left)) {
            Err(error) if error.os_errno() == Some(EINTR) => py.check_signals()?,
            done => return done.map_err(to_py),
        }
    }
}

/// The most that one step of a wait takes. A signal that comes just before a step begins does not
/// end it: Python's handlers run after it.
const STEP: Duration = Duration::from_millis(250);

/// Waits as `wait` does, in steps, until the outcome of one is not that its time was over.
pub(crate) fn wait_in_steps<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    is_timeout: impl Fn(&T) -> bool,
    attempt: impl Fn(Option<Duration>) -> shmarray::Result<T> + Sync,
) -> PyResult<T> {
    let until = timeout.map(until).transpose()?.flatten();
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let step = left.map_or(STEP, |left| left.min(STEP));
        match py.detach(|| attempt(Some(step))) {
            Err(error) if error.os_errno() == Some(EINTR) => {}
            Ok(outcome) if is_timeout(&outcome) && left.is_none_or(|left| left > step) => {}
            done => return done.map_err(to_py),
        }
        py.check_signals()?;
    }
}

/// Attempts at once, without releasing the GIL, and then waits in steps.
pub(crate) fn at_once_or_in_steps<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    is_timeout: impl Fn(&T) -> bool,
    attempt: impl Fn(Option<Duration>) -> shmarray::Result<T> + Sync,
) -> PyResult<T> {
    let first = attempt(Some(Duration::ZERO));
    then_in_steps(py, first, timeout, is_timeout, attempt)
}

/// Waits in steps after a first attempt, unless that had an outcome.
pub(crate) fn then_in_steps<T: Send>(
    py: Python<'_>,
    first: shmarray::Result<T>,
    timeout: Option<f64>,
    is_timeout: impl Fn(&T) -> bool,
    attempt: impl Fn(Option<Duration>) -> shmarray::Result<T> + Sync,
) -> PyResult<T> {
    let outcome = first.map_err(to_py)?;
    if is_timeout(&outcome) && timeout != Some(0.0) {
        wait_in_steps(py, timeout, is_timeout, attempt)
    } else {
        Ok(outcome)
    }
}

/// Returns the instant when this many seconds have passed, or `None` if it is too far to represent.
fn until(seconds: f64) -> PyResult<Option<Instant>> {
    if seconds.is_nan() {
        return Err(value_error("invalid timeout: it is not a number"));
    }
    let timeout = Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    Ok(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
}
