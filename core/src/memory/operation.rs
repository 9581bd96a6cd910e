//! An operation: a use of this library by a process that may use it.
//!
//! Each public function that makes, attaches, sends or receives something first enters an
//! operation, by one call: [`process`](super::process) has the three ways in. Whatever makes or
//! attaches a segment takes the operation as an argument, so the compiler refuses a function that
//! forgot it.
//!
//! An operation is *awaited* if the exit of this process lets it finish, because in its middle an
//! array may belong to nobody. An operation that waits for other processes is not.

use crate::system;
use crate::value::error::Result;

/// The proof that this process may use the library.
#[must_use]
#[derive(Clone, Copy)]
pub(crate) struct Operation(());

/// An operation whose end the exit of this process waits for.
#[must_use]
pub(crate) struct Awaited(system::Counted);

impl Operation {
    /// Enters an operation that leaves nothing to the handlers of forks and of the exit.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) in a process that a signal handler forked
    /// inside this library.
    pub(super) fn without_handlers() -> Result<Self> {
        system::refuse_orphan().map(|()| Self(()))
    }

    /// Makes the exit wait until the operation has ended.
    pub(crate) fn awaited(self) -> Awaited {
        Awaited(system::Counted::begin())
    }

    /// Begins to give something back. `None` in an orphan, whose state may be inconsistent, and
    /// which has nothing: all is its parent's.
    pub(crate) fn to_give_back() -> Option<Awaited> {
        Self::without_handlers().ok().map(Self::awaited)
    }
}
