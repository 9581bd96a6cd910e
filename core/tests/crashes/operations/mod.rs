//! The tables of operations, one for each kind. To add an operation is to add a row.
//!
//! A row's `prepare` runs in the process that will be killed, before the first step counts. It
//! returns the operation, at every step of which the process may die; the operation returns what
//! the process holds afterwards. What must hold when the process is dead is the same for all
//! operations (`stage`); a row states what is special to it.

mod cells;
pub(crate) mod channels;
mod files;
mod messages;
mod pools;
mod segments;

use crate::actions::store_unannounced;
use crate::stage::{Kept, Prop, Stage};

pub(crate) type Traced = Box<dyn FnOnce() -> Kept>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Itself,
    /// The child that it forks. The process itself survives.
    ItsChild,
}

pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) props: &'static [Prop],
    pub(crate) prepare: fn(&Stage) -> Traced,
    /// Whether its process has used the library before. If not, its first use is part of it.
    pub(crate) warm: bool,
    pub(crate) victim: Victim,
    /// Names that it may remove, and names of arrays that it may make persistent.
    pub(crate) may_go: &'static [&'static str],
    pub(crate) may_last: &'static [&'static str],
    /// What else must hold, seen by a newcomer after the sweep.
    pub(crate) then: fn(&Stage),
    /// It has more steps than this.
    pub(crate) least: usize,
}

/// The defaults of a row: a warm process that is killed itself, in a stage with nothing special.
pub(crate) const PLAIN: Operation = Operation {
    name: "",
    props: &[],
    prepare: |_| Box::new(Kept::default),
    warm: true,
    victim: Victim::Itself,
    may_go: &[],
    may_last: &[],
    then: |_| {},
    least: 10,
};

/// Room for what these operations make.
pub(crate) const POOL_BYTES: &str = "10000000";

/// Returns the rows of all tables.
pub(crate) fn operations() -> impl Iterator<Item = &'static Operation> + Clone {
    [segments::ROWS, cells::ROWS, pools::ROWS, messages::ROWS, channels::ROWS, files::ROWS]
        .into_iter()
        .flatten()
}

/// A store that is not announced, to show that it is found.
pub(crate) static UNANNOUNCED: Operation =
    Operation { name: "an unannounced store", prepare: store_unannounced, ..PLAIN };
