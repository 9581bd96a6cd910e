//! The options of a new array.

use crate::value::error::{Error, Result};
use crate::value::name::ArrayName;
use crate::value::shape::Order;

/// Options of a new array, each set by the method of its name.
///
/// ```
/// use shmarray::{Options, Order};
/// let options = Options::new().name("camera").mode(0o640).order(Order::F);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Options {
    pub(super) order: Order,
    pub(super) name: Option<String>,
    pub(super) persist: bool,
    pub(super) mode: u32,
    pub(super) uninitialized: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// Returns the options of an ordinary array: in C order, zeros, without a name, for this user.
    pub const fn new() -> Self {
        Self { order: Order::C, name: None, persist: false, mode: 0o600, uninitialized: false }
    }

    /// Sets the order of the elements in memory.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets a name by which the array can be attached: `[A-Za-z0-9._-]{1,64}`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets whether the array outlives every process, until its name is unlinked. It needs a name.
    pub fn persist(mut self, persist: bool) -> Self {
        self.persist = persist;
        self
    }

    /// Sets the permission bits of the segment: 0600, and perhaps more.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Sets whether the memory may hold what this user's earlier arrays left there, instead of
    /// zeros.
    pub fn uninitialized(mut self, uninitialized: bool) -> Self {
        self.uninitialized = uninitialized;
        self
    }

    pub(super) fn check(&self) -> Result<Option<ArrayName>> {
        if self.persist && self.name.is_none() {
            return Err(Error::argument("persist", "an array that persists needs a name"));
        }
        if self.mode & !0o777 != 0 || self.mode & 0o600 != 0o600 {
            return Err(Error::argument(
                "mode",
                format!("{:#o} is not between 0600 and 0777 with the owner's 0600", self.mode),
            ));
        }
        self.name.as_deref().map(str::parse).transpose()
    }
}
