//! The table of operations. To add one is to add a row.
//!
//! A row's `prepare` runs in the process that will be killed, before the first step counts. It
//! returns the operation, at every step of which the process may die; the operation returns what
//! the process holds afterwards. What must hold when the process is dead is the same for all
//! operations (`stage`); a row states what is special to it.

use shmarray::{Access, Error, Options};

use crate::actions::*;
use crate::stage::Prop::{
    Cell, Contested, Forgotten, Given, GivenCell, Lasting, Leftovers, Named, Sent, Shared,
};
use crate::stage::{Kept, NEW, NEW_FILE, Prop, Stage, new, options};

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

pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        name: "create, first use",
        warm: false,
        prepare: |_| create(NEW_FILE, options("")),
        least: 40,
        ..PLAIN
    },
    Operation { name: "create", prepare: |_| create(NEW_FILE, options("")), least: 20, ..PLAIN },
    Operation {
        name: "create with a name, first use",
        warm: false,
        props: &[Leftovers],
        prepare: |_| create(NEW_FILE, options("new")),
        least: 100,
        ..PLAIN
    },
    Operation {
        name: "create with a name",
        prepare: |_| create(NEW_FILE, options("new")),
        least: 25,
        ..PLAIN
    },
    Operation {
        name: "create with a name that the dead have",
        props: &[Leftovers],
        prepare: |_| create(NEW_FILE, options("leftover")),
        least: 50,
        ..PLAIN
    },
    Operation {
        name: "create with a name that a survivor has",
        props: &[Named],
        prepare: |_| {
            Box::new(|| match new(NEW, &options("named")) {
                Err(Error::NameExists { .. }) => Kept::default(),
                other => panic!(
                    "a second array with that name: {other:?}",
                    other = other.map(|array| array.handle())
                ),
            })
        },
        least: 50,
        ..PLAIN
    },
    Operation {
        name: "create what persists",
        prepare: |_| create(NEW_FILE, Options { persist: true, ..options("new") }),
        may_last: &["new"],
        least: 25,
        ..PLAIN
    },
    Operation {
        name: "create what others may read",
        prepare: |_| create(NEW_FILE, Options { mode: 0o644, ..options("new") }),
        least: 25,
        ..PLAIN
    },
    Operation {
        name: "attach, first use",
        warm: false,
        props: &[Leftovers],
        prepare: |stage| attach(stage.handle("kept"), Access::ReadWrite),
        least: 100,
        ..PLAIN
    },
    Operation {
        name: "attach",
        prepare: |stage| attach(stage.handle("kept"), Access::ReadWrite),
        ..PLAIN
    },
    Operation {
        name: "attach read-only",
        prepare: |stage| attach(stage.handle("kept"), Access::ReadOnly),
        ..PLAIN
    },
    Operation {
        name: "attach by name",
        props: &[Named],
        prepare: |_| attach("named".to_owned(), Access::ReadWrite),
        ..PLAIN
    },
    Operation {
        name: "attach by name, read-only, first use",
        warm: false,
        props: &[Named],
        prepare: |_| attach("named".to_owned(), Access::ReadOnly),
        least: 50,
        ..PLAIN
    },
    Operation {
        name: "attach what is held by lock",
        props: &[Shared],
        prepare: |stage| attach(stage.handle("shared"), Access::ReadOnly),
        ..PLAIN
    },
    Operation {
        name: "attach what the dead left",
        props: &[Leftovers],
        prepare: |stage| attach(stage.handle("left"), Access::ReadWrite),
        ..PLAIN
    },
    Operation {
        name: "close what a survivor holds",
        prepare: |stage| close(&[stage.handle("kept")]),
        least: 4,
        ..PLAIN
    },
    Operation {
        name: "close as the last",
        props: &[Given],
        prepare: |stage| close(&[stage.handle("given")]),
        least: 9,
        ..PLAIN
    },
    Operation {
        name: "close as the last, with a name",
        props: &[Contested],
        prepare: |stage| close(&[stage.handle("contested")]),
        least: 15,
        ..PLAIN
    },
    Operation {
        name: "close as the last that lives",
        props: &[Contested, Leftovers],
        prepare: |stage| close(&[stage.handle("contested")]),
        least: 20,
        ..PLAIN
    },
    Operation {
        name: "close what is held by lock, as the last",
        props: &[Contested],
        prepare: |_| close_held_lock_only(),
        ..PLAIN
    },
    Operation {
        name: "close what persists",
        props: &[Lasting],
        prepare: |_| close(&["lasting".to_owned()]),
        least: 3,
        ..PLAIN
    },
    Operation {
        name: "fork",
        props: &[Given, Named],
        prepare: |stage| fork(&["kept", "given", "named"].map(|what| stage.handle(what))),
        least: 15,
        ..PLAIN
    },
    Operation {
        name: "fork, the child",
        props: &[Given, Named],
        prepare: |stage| fork(&["kept", "given", "named"].map(|what| stage.handle(what))),
        victim: Victim::ItsChild,
        least: 4,
        ..PLAIN
    },
    Operation {
        name: "fork, the child, which creates and closes",
        props: &[Given, Cell],
        prepare: |stage| fork_and_create(&["given", "cell", "kept"].map(|what| stage.handle(what))),
        victim: Victim::ItsChild,
        least: 100,
        ..PLAIN
    },
    Operation {
        name: "sweep",
        props: &[Leftovers, Lasting, Named],
        prepare: |_| sweep(),
        least: 60,
        ..PLAIN
    },
    Operation {
        name: "sweep, first use",
        warm: false,
        props: &[Leftovers],
        prepare: |_| sweep(),
        least: 60,
        ..PLAIN
    },
    Operation {
        name: "unlink what is held",
        props: &[Named],
        prepare: |_| unlink("named"),
        may_go: &["named"],
        ..PLAIN
    },
    Operation {
        name: "unlink what persists, first use",
        warm: false,
        props: &[Lasting],
        prepare: |_| unlink("lasting"),
        may_go: &["lasting"],
        ..PLAIN
    },
    Operation {
        name: "unlink what the dead left",
        props: &[Leftovers],
        prepare: |_| unlink("leftover"),
        ..PLAIN
    },
    Operation {
        name: "end of a process",
        props: &[Contested, Given, Leftovers],
        prepare: |stage| end(&["kept", "contested", "given"].map(|what| stage.handle(what))),
        least: 30,
        ..PLAIN
    },
    Operation {
        name: "create in a cell, first use",
        warm: false,
        prepare: |_| create(NEW, options("")),
        least: 40,
        ..PLAIN
    },
    Operation {
        name: "create in a cell",
        prepare: |_| create(NEW, options("")),
        least: 30,
        ..PLAIN
    },
    Operation {
        name: "create in a cell beside others",
        prepare: |_| create_in_cell(2, 0),
        ..PLAIN
    },
    Operation {
        name: "create in a cell that was used",
        prepare: |_| create_in_cell(1, 2),
        ..PLAIN
    },
    Operation {
        name: "create in a cell without memory",
        prepare: |_| create_in_cell(1, 19),
        ..PLAIN
    },
    Operation {
        name: "create in a cell that another freed",
        prepare: |_| create_where_another_freed(),
        ..PLAIN
    },
    Operation {
        name: "create where no file can be without a name",
        prepare: |_| without_unnamed_files(create(NEW_FILE, options("new"))),
        least: 25,
        ..PLAIN
    },
    Operation {
        name: "create what persists where no file can be without a name",
        prepare: |_| {
            without_unnamed_files(create(NEW_FILE, Options { persist: true, ..options("new") }))
        },
        may_last: &["new"],
        least: 25,
        ..PLAIN
    },
    Operation {
        name: "create in a cell where no file can be without a name",
        prepare: |_| without_unnamed_files(create(NEW, options(""))),
        least: 25,
        ..PLAIN
    },
    Operation {
        name: "create what is kept",
        prepare: |_| with_empty_pool(POOL_BYTES, || create(NEW_FILE, options(""))),
        least: 20,
        ..PLAIN
    },
    Operation {
        name: "create in a cell of a file that is kept",
        prepare: |_| with_empty_pool(POOL_BYTES, || create(NEW, options(""))),
        least: 20,
        ..PLAIN
    },
    Operation {
        name: "create where something was",
        prepare: |_| with_pool(POOL_BYTES, || create(NEW_FILE, options(""))),
        ..PLAIN
    },
    Operation {
        name: "create where another freed what was",
        prepare: |_| with_pool(POOL_BYTES, create_where_another_freed_all),
        ..PLAIN
    },
    Operation {
        name: "create where memory was taken from the pool",
        prepare: |_| with_pool(POOL_BYTES, || create_where_it_was_decommitted(NEW_FILE)),
        ..PLAIN
    },
    Operation {
        name: "create what only fits when something else goes",
        prepare: |_| {
            with_empty_pool("130000", || {
                drop(new(90_000, &options("")).unwrap());
                create(NEW_FILE, options(""))
            })
        },
        least: 20,
        ..PLAIN
    },
    Operation {
        name: "close what is kept",
        prepare: |_| with_pool(POOL_BYTES, || close_new(NEW_FILE)),
        least: 4,
        ..PLAIN
    },
    Operation {
        name: "sweep what is kept",
        prepare: |_| with_pool(POOL_BYTES, sweep),
        least: 30,
        ..PLAIN
    },
    Operation {
        name: "fork with what is kept",
        props: &[Given],
        prepare: |stage| {
            with_pool(POOL_BYTES, || fork(&["kept", "given"].map(|what| stage.handle(what))))
        },
        least: 15,
        ..PLAIN
    },
    Operation {
        name: "end of a process with what is kept",
        props: &[Given],
        prepare: |stage| {
            with_pool(POOL_BYTES, || end(&["kept", "given"].map(|what| stage.handle(what))))
        },
        least: 30,
        ..PLAIN
    },
    Operation {
        name: "attach a cell by a mapping that is kept",
        props: &[Cell],
        prepare: |stage| attach_again(stage.handle("cell"), Access::ReadWrite),
        least: 2,
        ..PLAIN
    },
    Operation {
        name: "attach a cell to copy on write by a mapping that is kept",
        props: &[Cell],
        prepare: |stage| attach_again(stage.handle("cell"), Access::CopyOnWrite),
        least: 2,
        ..PLAIN
    },
    Operation {
        name: "attach a cell",
        props: &[Cell],
        prepare: |stage| attach(stage.handle("cell"), Access::ReadWrite),
        ..PLAIN
    },
    Operation {
        name: "attach a cell that the dead left, read-only, first use",
        props: &[Cell, Leftovers],
        warm: false,
        prepare: |stage| attach(stage.handle("cell"), Access::ReadOnly),
        ..PLAIN
    },
    Operation {
        name: "close a cell as the last",
        props: &[Cell, GivenCell],
        prepare: |stage| close(&[stage.handle("given cell")]),
        least: 4,
        ..PLAIN
    },
    Operation {
        name: "close the last cell of a file as the last",
        props: &[GivenCell],
        prepare: |stage| close(&[stage.handle("given cell")]),
        ..PLAIN
    },
    Operation {
        name: "close more cells than keep their memory",
        prepare: |_| close_cells(19),
        least: 100,
        ..PLAIN
    },
    Operation {
        name: "fork with cells",
        props: &[Cell, GivenCell],
        prepare: |stage| fork(&["cell", "given cell"].map(|what| stage.handle(what))),
        least: 15,
        ..PLAIN
    },
    Operation {
        name: "end of a process with cells",
        props: &[Cell, GivenCell, Leftovers],
        prepare: |stage| end(&["cell", "given cell", "left cell"].map(|what| stage.handle(what))),
        least: 20,
        ..PLAIN
    },
    Operation {
        name: "send",
        props: &[Given, GivenCell],
        prepare: |stage| send(stage, &["given", "given cell"]),
        ..PLAIN
    },
    Operation {
        name: "send what nobody receives",
        props: &[Given, GivenCell, Forgotten],
        prepare: |stage| send(stage, &["given", "given cell"]),
        ..PLAIN
    },
    Operation { name: "send by a link", props: &[GivenCell], prepare: send_by_link, ..PLAIN },
    Operation {
        name: "send by a link what nobody receives",
        props: &[GivenCell, Forgotten],
        prepare: send_by_link,
        ..PLAIN
    },
    Operation { name: "receive", props: &[Given, GivenCell, Sent], prepare: receive, ..PLAIN },
    Operation {
        name: "receive, first use",
        warm: false,
        props: &[Given, GivenCell, Sent],
        prepare: receive,
        ..PLAIN
    },
    Operation {
        name: "receive in vain",
        props: &[Given, GivenCell, Sent],
        prepare: receive_in_vain,
        ..PLAIN
    },
    Operation {
        name: "discard",
        props: &[Given],
        prepare: |stage| discard(stage, "given"),
        ..PLAIN
    },
    Operation {
        name: "discard a cell",
        props: &[GivenCell],
        prepare: |stage| discard(stage, "given cell"),
        ..PLAIN
    },
    Operation {
        name: "send by an unknown way",
        props: &[Given],
        prepare: |stage| send_to_oneself(stage, "given"),
        ..PLAIN
    },
    Operation {
        name: "send a cell by an unknown way",
        props: &[GivenCell],
        prepare: |stage| send_to_oneself(stage, "given cell"),
        ..PLAIN
    },
];

/// A store that is not announced, to show that it is found.
pub(crate) static UNANNOUNCED: Operation =
    Operation { name: "an unannounced store", prepare: store_unannounced, ..PLAIN };
