//! The options of a new array.

use crate::error::{Error, Result};
use crate::name::ArrayName;
use crate::shape::Order;

/// Options of a new array.
///
/// ```
/// use shmarray::{Options, Order};
/// let options = Options { order: Order::F, ..Options::default() };
/// assert_eq!(options.mode, 0o600);
/// ```
///
/// Later versions add fields: end a literal with `..Options::default()`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The order of the elements in memory.
    pub order: Order,
    /// A name by which the array can be attached: `[A-Za-z0-9._-]{1,64}`.
    pub name: Option<String>,
    /// Whether the array outlives every process, until its name is unlinked. It needs a name.
    pub persist: bool,
    /// The permission bits of the segment: 0600, and perhaps more.
    pub mode: u32,
    /// Whether the memory may hold what this user's earlier arrays left there, instead of zeros.
    pub uninitialized: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { order: Order::C, name: None, persist: false, mode: 0o600, uninitialized: false }
    }
}

impl Options {
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
